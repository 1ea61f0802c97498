//! `Log`: a generated log, and everything that was committed in it.

use std::collections::BTreeMap;

use collie_base::{CfId, HistoryId, Lsn, Term};
use collie_store::{Resolve, TxnStatus, Word};
use collie_wal::{RecordKind, RecordRef};
use proptest::prelude::*;

use crate::families::Families;
use crate::families::names;
use crate::redo::{Incarnation, Op, encode_integers, encode_relog, tag};

/// A resolver for versions that are all committed.
pub(super) struct Stamped;

impl Resolve for Stamped {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp).expect("a replica has no unfinished version")
    }
}

/// Rows: family and key, with CSN and value.
pub(super) type Rows = BTreeMap<(u32, Vec<u8>), (u64, Vec<u8>)>;

pub(super) fn rows_at(families: &Families, snapshot: Lsn) -> Rows {
    let mut rows = Rows::new();
    for family in families.all() {
        family.states(snapshot, &Stamped, &mut |state| {
            rows.insert((family.id().get(), state.key.to_vec()), (state.csn.get(), state.value.to_vec()));
        });
    }
    rows
}

/// One row write.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) cf: u32,
    pub(super) key: Vec<u8>,
    pub(super) value: Option<Vec<u8>>,
}

impl Change {
    pub(super) fn put(cf: u32, key: &[u8], value: &[u8]) -> Self {
        Self { cf, key: key.to_vec(), value: Some(value.to_vec()) }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        Op { cf: CfId::new(self.cf), key: &self.key, value: self.value.as_deref() }.encode(out);
    }
}

/// The row of the catalog by which a family has a name.
pub(super) fn named(name: &str, cf: u32) -> Change {
    Change { cf: 0, key: names::name_key(name), value: Some(names::name_value(CfId::new(cf), "")) }
}

/// A record of a generated log.
#[derive(Clone, Debug)]
pub(super) struct Made {
    pub(super) lsn: u64,
    pub(super) end: u64,
    pub(super) tag: u8,
    pub(super) body: Vec<u8>,
}

impl Made {
    pub(super) fn as_record(&self) -> RecordRef<'_> {
        let (lsn, end) = (Lsn::new(self.lsn), Lsn::new(self.end));
        RecordRef { lsn, end, kind: RecordKind::Data, tag: self.tag, body: &self.body }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Commit(Vec<Change>),
    Chunk { of: u8, changes: Vec<Change> },
    RollBack { of: u8, kept: u8 },
    End { of: u8, changes: Vec<Change> },
    Abort { of: u8 },
    Incarnation,
    Relog(Vec<Change>),
    XidLimit,
}

#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) xid: u64,
    pub(super) first_chunk: u64,
    pub(super) chunks: u64,
    pub(super) live: Vec<Change>,
}

/// A log, and everything that was committed in it, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    pub(super) records: Vec<Made>,
    pub(super) commits: Vec<(u64, Vec<Change>)>,
    pub(super) end: u64,
}

pub(super) const START: u64 = 5000;

impl Log {
    pub(super) fn new() -> Self {
        Self { end: START, ..Self::default() }
    }

    /// Appends a record; returns its position. The position of a longer record is that of its last piece.
    pub(super) fn push(&mut self, tag: u8, body: Vec<u8>) -> u64 {
        let lsn = self.end + body.len() as u64 / 100 * 64;
        self.end = lsn + 16;
        self.records.push(Made { lsn, end: self.end, tag, body });
        lsn
    }

    pub(super) fn commit(&mut self, header: &[u64], tail: &[Change], all: Vec<Change>) -> u64 {
        let mut body = encode_integers(header);
        tail.iter().for_each(|change| change.encode(&mut body));
        let lsn = self.push(tag::COMMIT, body);
        self.commits.push((lsn, all));
        lsn
    }

    pub(super) fn chunk(&mut self, xid: u64, changes: &[Change]) -> u64 {
        let mut body = encode_integers(&[xid]);
        changes.iter().for_each(|change| change.encode(&mut body));
        self.push(tag::CHUNK, body)
    }

    pub(super) fn of(steps: &[Step]) -> Self {
        Self::continued(Self::new(), steps, false)
    }

    /// As [`Log::of`], of a database with SQL tables. Writes of large transactions to family 3 are to a family that the
    /// transaction makes instead, and names in its COMMIT if any of them count.
    pub(super) fn with_definitions(steps: &[Step]) -> Self {
        let mut log = Self::new();
        let tables: Vec<Change> = (1..4).map(|cf| named(&format!("sql:{cf}"), cf)).collect();
        log.commit(&[1, 0, 0], &tables, tables.clone());
        Self::continued(log, steps, true)
    }

    pub(super) fn continued(mut log: Self, steps: &[Step], defines: bool) -> Self {
        let (mut running, mut next_xid) = (Vec::<Running>::new(), 1);
        let own = |xid: u64, changes: &[Change]| {
            let mut changes = changes.to_vec();
            let third = changes.iter_mut().filter(|change| defines && change.cf == 3);
            third.for_each(|change| change.cf = 100 + u32::try_from(xid).unwrap());
            changes
        };
        for step in steps {
            let at = |of: u8, running: &[Running]| usize::from(of) % running.len().max(1);
            match step {
                Step::Commit(changes) => {
                    next_xid += 1;
                    log.commit(&[next_xid, 0, 0], changes, changes.clone());
                }
                Step::Chunk { of, changes } => {
                    if running.len() <= usize::from(of % 3) {
                        next_xid += 1;
                        running.push(Running { xid: next_xid, first_chunk: 0, chunks: 0, live: Vec::new() });
                    }
                    let at = at(*of, &running);
                    let changes = &own(running[at].xid, changes);
                    let lsn = log.chunk(running[at].xid, changes);
                    if running[at].chunks == 0 {
                        running[at].first_chunk = lsn;
                    }
                    running[at].chunks += 1;
                    running[at].live.extend_from_slice(changes);
                }
                Step::Incarnation => {
                    running.clear();
                    log.end += 64; // a jump of positions
                    log.push(tag::INCARNATION, incarnation().encode());
                }
                Step::Relog(changes) => {
                    // States that no commit has; they must not be applied.
                    let mut body = encode_relog(Lsn::new(START), true);
                    for change in changes {
                        body.extend_from_slice(&[1]); // a commit position
                        change.encode(&mut body);
                    }
                    log.push(tag::RELOG, body);
                }
                Step::XidLimit => drop(log.push(tag::XID_LIMIT, encode_integers(&[next_xid + 100]))),
                _ if running.is_empty() => {}
                Step::RollBack { of, kept } => {
                    let at = at(*of, &running);
                    let kept = running[at].live.len() * usize::from(*kept) / 255;
                    running[at].live.truncate(kept);
                    log.push(tag::ROLLBACK_TO, encode_integers(&[running[at].xid, kept as u64]));
                }
                Step::End { of, changes } => {
                    let Running { xid, first_chunk, chunks, mut live } = running.remove(at(*of, &running));
                    let mut changes = own(xid, changes);
                    let made = live.iter().chain(&changes).map(|change| change.cf).find(|cf| *cf >= 100);
                    changes.extend(made.map(|cf| named(&format!("sql:{cf}"), cf)));
                    live.extend_from_slice(&changes);
                    log.commit(&[xid, chunks, first_chunk], &changes, live);
                }
                Step::Abort { of } => {
                    let xid = running.remove(at(*of, &running)).xid;
                    log.push(tag::ABORT, encode_integers(&[xid]));
                }
            }
        }
        log
    }

    /// Returns the rows after the commits below `snapshot`.
    pub(super) fn rows_at(&self, snapshot: Lsn) -> Rows {
        let mut rows = Rows::new();
        for (csn, changes) in self.commits.iter().filter(|(csn, _)| Lsn::new(*csn) < snapshot) {
            for Change { cf, key, value } in changes {
                match value {
                    Some(value) => drop(rows.insert((*cf, key.clone()), (*csn, value.clone()))),
                    None => drop(rows.remove(&(*cf, key.clone()))),
                }
            }
        }
        rows
    }
}

pub(super) fn incarnation() -> Incarnation {
    let (term, history) = (Term::new(0), HistoryId::new(2));
    Incarnation { term, history, previous_term: term, previous_history: HistoryId::new(1), reason: 1, wall_us: 0 }
}

pub(super) fn change() -> impl Strategy<Value = Change> {
    // Family 0 is the catalog, whose name rows begin with a byte 0.
    let cf = prop_oneof![1 => Just(0_u32), 9 => 1..4_u32];
    let value = prop_oneof![3 => any::<u8>().prop_map(Some), 2 => Just(None)];
    (cf, 1..7_u8, value).prop_map(|(cf, key, value)| Change {
        cf,
        key: vec![key; usize::from(key) * 9],
        value: value.map(|value| vec![value; usize::from(value % 4) * 20]),
    })
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let changes = || proptest::collection::vec(change(), 0..5);
    prop_oneof![
        8 => changes().prop_map(Step::Commit),
        6 => (any::<u8>(), changes()).prop_map(|(of, changes)| Step::Chunk { of, changes }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(of, kept)| Step::RollBack { of, kept }),
        3 => (any::<u8>(), changes()).prop_map(|(of, changes)| Step::End { of, changes }),
        1 => any::<u8>().prop_map(|of| Step::Abort { of }),
        1 => Just(Step::Incarnation),
        1 => changes().prop_map(Step::Relog),
        1 => Just(Step::XidLimit),
    ]
}
