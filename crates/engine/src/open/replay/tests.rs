//! Compares replay with a map: random logs, over random LSM levels, by random appliers in random orders.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, ControlFlow};

use collie_base::{HistoryId, Term};
use collie_store::{Resolve, ScanRequest, Span, TxnStatus, View, Word};
use proptest::prelude::*;

use super::*;
use crate::redo::txn_chunks::ChunkScan;
use crate::redo::{Incarnation, encode_integers, tag};

/// A resolver for loaded rows, all of which are committed.
struct Loaded;

impl Resolve for Loaded {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp).unwrap_or(TxnStatus::Aborted)
    }
}

/// Family and key of a row.
type Key = (u32, Vec<u8>);
/// The CSN of a row, and its value.
type State = (u64, Vec<u8>);
type Rows = BTreeMap<Key, State>;

/// One row write.
#[derive(Clone, Debug)]
struct Change {
    key: Key,
    value: Option<Vec<u8>>,
}

impl Change {
    fn encode(&self, out: &mut Vec<u8>) {
        Op { cf: CfId::new(self.key.0), key: &self.key.1, value: self.value.as_deref() }.encode(out);
    }
}

/// A transaction that is still running.
#[derive(Clone, Debug)]
struct Running {
    xid: u64,
    first_chunk: u64,
    chunks: u64,
    live: Vec<Change>,
}

/// A committed transaction with chunks.
#[derive(Debug)]
struct Committed {
    first_chunk: u64,
    csn: u64,
    families: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Change>),
    Chunk { of: u8, changes: Vec<Change> },
    RollBack { of: u8, kept: u8 },
    End { of: u8, changes: Vec<Change> },
    Abort { of: u8 },
    Incarnation,
}

/// A log, and everything that was committed in it, in order.
#[derive(Debug, Default)]
struct Made {
    records: Vec<(Lsn, u8, Vec<u8>)>,
    history: Vec<(u64, Change)>,
    large: Vec<Committed>,
}

impl Made {
    fn of(steps: &[Step]) -> Self {
        let (mut made, mut running, mut next_xid) = (Self::default(), Vec::<Running>::new(), 1);
        for (lsn, step) in (5000..).step_by(10).zip(steps) {
            let index = |of: u8, running: &[Running]| usize::from(of) % running.len().max(1);
            let (tag, payload) = match step {
                Step::Commit(changes) => {
                    next_xid += 1;
                    made.history.extend(changes.iter().map(|change| (lsn, change.clone())));
                    let mut payload = encode_integers(&[next_xid, 0, 0]);
                    changes.iter().for_each(|change| change.encode(&mut payload));
                    (tag::COMMIT, payload)
                }
                Step::Chunk { of, changes } => {
                    // At most three at one time, and sometimes fewer.
                    let at = if running.len() <= usize::from(of % 3) {
                        next_xid += 1;
                        running.push(Running { xid: next_xid, first_chunk: lsn, chunks: 0, live: Vec::new() });
                        running.len() - 1
                    } else {
                        index(*of, &running)
                    };
                    running[at].chunks += 1;
                    running[at].live.extend_from_slice(changes);
                    let mut payload = encode_integers(&[running[at].xid]);
                    changes.iter().for_each(|change| change.encode(&mut payload));
                    (tag::CHUNK, payload)
                }
                _ if running.is_empty() => continue,
                Step::RollBack { of, kept } => {
                    let at = index(*of, &running);
                    let kept = running[at].live.len() * usize::from(*kept) / 255;
                    running[at].live.truncate(kept);
                    (tag::ROLLBACK_TO, encode_integers(&[running[at].xid, kept as u64]))
                }
                Step::End { of, changes } => {
                    let mut ended = running.remove(index(*of, &running));
                    let mut payload = encode_integers(&[ended.xid, ended.chunks, ended.first_chunk]);
                    changes.iter().for_each(|change| change.encode(&mut payload));
                    ended.live.extend_from_slice(changes);
                    let families = ended.live.iter().map(|change| change.key.0).collect();
                    made.large.push(Committed { first_chunk: ended.first_chunk, csn: lsn, families });
                    made.history.extend(ended.live.into_iter().map(|change| (lsn, change)));
                    (tag::COMMIT, payload)
                }
                Step::Abort { of } => (tag::ABORT, encode_integers(&[running.remove(index(*of, &running)).xid])),
                Step::Incarnation => {
                    running.clear();
                    (tag::INCARNATION, incarnation().encode())
                }
            };
            made.records.push((Lsn::new(lsn), tag, payload));
        }
        made
    }

    /// Returns the rows of a family after the commits below `end`.
    fn rows_of(&self, cf: u32, end: u64) -> Rows {
        let mut rows = Rows::new();
        for (csn, change) in self.history.iter().filter(|(csn, change)| *csn < end && change.key.0 == cf) {
            match &change.value {
                Some(value) => drop(rows.insert(change.key.clone(), (*csn, value.clone()))),
                None => drop(rows.remove(&change.key)),
            }
        }
        rows
    }
}

fn incarnation() -> Incarnation {
    let (term, history) = (Term::new(0), HistoryId::new(2));
    Incarnation { term, history, previous_term: term, previous_history: HistoryId::new(1), reason: 1, wall_us: 0 }
}

const FAMILIES: std::ops::RangeInclusive<u32> = 1..=3;

/// The LSM levels over which a log is replayed, and the start of the log that is left.
#[derive(Clone, Debug)]
struct Levels {
    /// For each family, in 255ths of the log: the last recorded flush, and a flush that was interrupted after its
    /// tables were written.
    flushed: Vec<Option<(u8, Option<u8>)>>,
    /// An upper bound of the position from which on the log must be there, in 255ths.
    needed: u8,
    /// Whether the log below `needed` is gone.
    is_cut: bool,
}

/// How a log is replayed.
#[derive(Clone, Debug)]
struct Way {
    appliers: usize,
    batch_writes: usize,
    /// `None` replays with threads.
    schedule: Option<u64>,
    held_bytes_max: usize,
}

fn rows_in(families: &Families) -> Rows {
    let (view, mut rows) = (View { snapshot: Lsn::MAX, me: None, command: 0 }, Rows::new());
    for family in families.all() {
        let span = Span { start: Bound::Unbounded, end: Bound::Unbounded, reverse: false };
        let mut found = Vec::new();
        family.scan(ScanRequest { span, limit: usize::MAX }, &view, &Loaded, &mut |key, value| {
            found.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        });
        for (key, value) in found {
            let csn = family.changed_since(&key, Lsn::ZERO, &Loaded).unwrap();
            rows.insert((family.id().get(), key), (csn.get(), value));
        }
    }
    rows
}

fn replay(
    families: &Arc<Families>,
    records: &[(Lsn, u8, Vec<u8>)],
    needed: Lsn,
    flushed: &Map<CfId, Lsn>,
    way: &Way,
) -> Result<Replayed, EngineError> {
    let appliers = match way.schedule {
        Some(seed) => Appliers::scheduled(families, way.appliers, way.batch_writes, seed),
        None => Appliers::threaded(families, way.appliers, way.batch_writes),
    };
    let mut replay = Replay::over_levels(families, appliers, needed, flushed.clone());
    replay.held_bytes_max = way.held_bytes_max;
    for (lsn, tag, payload) in records {
        replay.apply(*lsn, *tag, payload)?;
        if replay.is_crowded() {
            let mut scan = ChunkScan::new(needed);
            records.iter().try_for_each(|(lsn, tag, payload)| scan.note(*lsn, *tag, payload))?;
            replay.take_committed(scan.finish())?;
        }
        let held: usize = replay.open.values().map(Open::held_bytes).sum();
        assert_eq!(replay.held_bytes, held);
        assert!(held <= way.held_bytes_max, "P6: {held} bytes wait");
    }
    Ok(replay.finish())
}

/// Replays a log over LSM levels twice, and compares the rows with the committed ones.
fn check(steps: &[Step], levels: &Levels, ways: &[Way; 2]) {
    let made = Made::of(steps);
    let end = 5000 + 10 * steps.len() as u64;
    let place = |part: u8| 5000 + (end - 5000) * u64::from(part) / 255;
    let families = Arc::new(Families::with_levels());
    let (mut flushed, mut on_disk) = (Map::default(), BTreeSet::new());
    for (cf, parts) in FAMILIES.zip(&levels.flushed) {
        let Some((recorded, interrupted)) = *parts else { continue };
        flushed.insert(CfId::new(cf), Lsn::new(place(recorded)));
        let tables = place(recorded.max(interrupted.unwrap_or(0)));
        for ((_, key), (csn, value)) in made.rows_of(cf, tables) {
            assert!(families.get_or_make(CfId::new(cf)).load_from_levels(&key, &value, Lsn::new(csn)));
            on_disk.insert((cf, key));
        }
    }
    // The log is needed from the lowest flush on, and whole for each transaction that the flushes do not hold
    // completely.
    let flushed_of = |cf: u32| flushed.get(&CfId::new(cf)).map_or(0, |lsn| lsn.get());
    let mut needed = FAMILIES.map(flushed_of).min().unwrap().min(place(levels.needed));
    let is_open = |large: &Committed| large.families.iter().any(|cf| flushed_of(*cf) <= large.csn);
    while let Some(large) = made.large.iter().find(|large| large.first_chunk < needed && is_open(large)) {
        needed = large.first_chunk;
    }
    let needed = Lsn::new(needed).max(Lsn::FIRST);
    let records: Vec<_> = made.records.iter().filter(|(lsn, ..)| !levels.is_cut || *lsn >= needed).cloned().collect();

    let expected: Rows = FAMILIES.flat_map(|cf| made.rows_of(cf, u64::MAX)).collect();
    let tombstones = on_disk.iter().filter(|key| !expected.contains_key(*key)).count();
    let (mut old_bytes, mut rows_taken) = (0, Vec::new());
    for (round, way) in ways.iter().enumerate() {
        let replayed = replay(&families, &records, needed, &flushed, way).unwrap();
        assert_eq!(rows_in(&families), expected, "after replay {round}");
        assert_eq!(families.count().1, (expected.len() + tombstones) as u64, "rows and deletions of rows in levels");
        old_bytes += replayed.old_bytes;
        assert_eq!(old_bytes > 0, tombstones > 0);
        assert!(round == 0 || replayed.old_bytes == 0, "the second replay adds nothing");
        rows_taken.push((replayed.rows, families.all().iter().map(|family| family.memory_bytes()).sum::<u64>()));
        for cf in FAMILIES {
            let one = |other: CfId| if other.get() == cf { Lsn::ZERO } else { Lsn::MAX };
            let is_held = replayed.large.lower(Lsn::MAX, one) < Lsn::MAX;
            let of_it = |large: &Committed| large.first_chunk >= needed.get() && large.families.contains(&cf);
            assert_eq!(is_held, made.large.iter().any(of_it), "the log of family {cf}'s large transactions");
        }
    }
    assert_eq!(rows_taken[0], rows_taken[1], "how it is replayed decides nothing");
}

fn change() -> impl Strategy<Value = Change> {
    (FAMILIES, 0..5_u8, prop_oneof![3 => any::<u8>().prop_map(Some), 2 => Just(None)]).prop_map(|(cf, key, value)| {
        Change {
            key: (cf, vec![key; usize::from(key) * 9]),
            value: value.map(|value| vec![value; usize::from(value % 4)]),
        }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let changes = || proptest::collection::vec(change(), 0..5);
    prop_oneof![
        6 => changes().prop_map(Step::Commit),
        6 => (any::<u8>(), changes()).prop_map(|(of, changes)| Step::Chunk { of, changes }),
        2 => (any::<u8>(), any::<u8>()).prop_map(|(of, kept)| Step::RollBack { of, kept }),
        3 => (any::<u8>(), changes()).prop_map(|(of, changes)| Step::End { of, changes }),
        1 => any::<u8>().prop_map(|of| Step::Abort { of }),
        1 => Just(Step::Incarnation),
    ]
}

fn way() -> impl Strategy<Value = Way> {
    let held = prop_oneof![Just(0), 1..200_usize, Just(usize::MAX)];
    (1..6_usize, 1..5_usize, any::<u64>(), held).prop_map(|(appliers, batch_writes, seed, held_bytes_max)| Way {
        appliers,
        batch_writes,
        schedule: Some(seed),
        held_bytes_max,
    })
}

fn levels() -> impl Strategy<Value = Levels> {
    let family = proptest::option::weighted(0.7, (any::<u8>(), proptest::option::of(any::<u8>())));
    (proptest::collection::vec(family, FAMILIES.count()), any::<u8>(), any::<bool>())
        .prop_map(|(flushed, needed, is_cut)| Levels { flushed, needed, is_cut })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: P1, P2, P5, P6, A1, A2: replay leaves what was committed, once and twice, with its positions, whatever the
    /// number of appliers, their order, and the chunks that wait for their COMMIT. Method: random logs over random LSM
    /// levels, some of them cut or with interrupted flushes, against a map that is filled while the log is made.
    #[test]
    fn replay_leaves_what_was_committed_in_any_order_of_any_appliers(
        steps in proptest::collection::vec(step(), 1..40), levels in levels(), ways in [way(), way()],
    ) {
        check(&steps, &levels, &ways);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Goal: the same with threads. Method: the same, with one write per batch.
    #[test]
    fn replay_by_threads_leaves_what_was_committed(
        steps in proptest::collection::vec(step(), 20..120), levels in levels(), appliers in 2..5_usize, held in 0..100_usize,
    ) {
        let way = Way { appliers, batch_writes: 1, schedule: None, held_bytes_max: held };
        check(&steps, &levels, &[way.clone(), way]);
    }
}

fn ops(header: &[u64], keys: &[u8]) -> Vec<u8> {
    let mut out = encode_integers(header);
    keys.iter().for_each(|key| Op { cf: CfId::new(3), key: &[*key], value: Some(b"v") }.encode(&mut out));
    out
}

fn rows(records: &[(u64, u8, Vec<u8>)]) -> Result<u64, EngineError> {
    let records: Vec<_> = records.iter().map(|(lsn, tag, payload)| (Lsn::new(*lsn), *tag, payload.clone())).collect();
    let mut found = Vec::new();
    for held_bytes_max in [usize::MAX, 0] {
        let families = Arc::new(Families::new());
        let way = Way { appliers: 1, batch_writes: 1, schedule: Some(0), held_bytes_max };
        replay(&families, &records, Lsn::FIRST, &Map::default(), &way)?;
        assert_eq!(families.create().get(), 4, "ids in the log are used up, also those of unfinished transactions");
        found.push(families.count().1);
    }
    assert_eq!(found[0], found[1], "what waits decides nothing");
    Ok(found[0])
}

/// Goal: P1 to P3. Method: small logs with chunks that are committed, aborted, voided, unfinished or missing, and that
/// wait for their COMMIT or not.
#[test]
fn chunks_count_only_with_their_commit_and_all_of_them() {
    let chunk = |lsn, keys: &[u8]| (lsn, tag::CHUNK, ops(&[7], keys));
    let commit = |lsn, count, first, keys: &[u8]| (lsn, tag::COMMIT, ops(&[7, count, first], keys));
    assert_eq!(rows(&[chunk(5000, b"ab"), chunk(6000, b"cd"), commit(7000, 2, 5000, b"e")]).unwrap(), 5);
    assert_eq!(rows(&[chunk(5000, b"ab")]).unwrap(), 0);
    assert_eq!(rows(&[chunk(5000, b"ab"), (6000, tag::ABORT, encode_integers(&[7]))]).unwrap(), 0);
    let voided = (6000, tag::ROLLBACK_TO, encode_integers(&[7, 1]));
    assert_eq!(rows(&[chunk(5000, b"ab"), voided, commit(7000, 1, 5000, b"e")]).unwrap(), 2);
    let reborn = (6000, tag::INCARNATION, incarnation().encode());
    assert_eq!(rows(&[chunk(5000, b"ab"), reborn, commit(7000, 0, 0, b"e")]).unwrap(), 1, "another's chunks");
    for broken in [vec![commit(7000, 1, 5000, b"e")], vec![chunk(5000, b"a"), commit(7000, 2, 5000, b"e")]] {
        assert!(matches!(rows(&broken), Err(EngineError::Corruption { .. })));
    }
}

/// Goal: P1: commits in between neither bring back nor undo a write of a large transaction that was applied before its
/// COMMIT. Method: a deletion and a put in chunks, older commits to both keys before the COMMIT and younger ones after
/// it.
#[test]
fn commits_between_a_chunk_and_its_commit_are_older() {
    let op = |key: &'static [u8], value: Option<&'static [u8]>| Op { cf: CfId::new(3), key, value };
    let record = |lsn: u64, tag, header: &[u64], ops: &[Op<'_>]| {
        let mut payload = encode_integers(header);
        ops.iter().for_each(|op| op.encode(&mut payload));
        (Lsn::new(lsn), tag, payload)
    };
    let records = [
        record(5000, tag::CHUNK, &[7], &[op(b"gone", None), op(b"put", Some(b"large")), op(b"late", None)]),
        record(5100, tag::COMMIT, &[8, 0, 0], &[op(b"gone", Some(b"old")), op(b"put", Some(b"old"))]),
        record(5200, tag::COMMIT, &[7, 1, 5000], &[]),
        record(5300, tag::COMMIT, &[9, 0, 0], &[op(b"late", Some(b"new"))]),
    ];
    for (appliers, held_bytes_max) in [(1, 0), (3, 0), (1, usize::MAX)] {
        let families = Arc::new(Families::with_levels());
        let way = Way { appliers, batch_writes: 1, schedule: Some(1), held_bytes_max };
        let replayed = replay(&families, &records, Lsn::FIRST, &Map::default(), &way).unwrap();
        let expected: [(Key, State); 2] =
            [((3, b"late".to_vec()), (5300, b"new".to_vec())), ((3, b"put".to_vec()), (5200, b"large".to_vec()))];
        assert_eq!(rows_in(&families), expected.into());
        assert_eq!((families.count().1, replayed.old_bytes), (2, 0), "the deletion was let go");
    }
}
