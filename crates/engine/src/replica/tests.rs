//! Compares live replay with a map: random logs, any number of workers, any split into packets; and tests its rules one
//! by one.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use collie_base::{CfId, HistoryId, Lsn, Map, Term, Xid};
use collie_store::{Family, Resolve, Row, TxnStatus, Word};
use collie_wal::{RecordKind, RecordRef};
use parking_lot::{Condvar, Mutex};
use proptest::prelude::*;

use crate::EngineError;
use crate::apply::Appliers;
use crate::dropped::DroppedFamilies;
use crate::families::Families;
use crate::garbage::{Garbage, Reach};
use crate::large::LargeTransactions;
use crate::names;
use crate::redo::{Incarnation, Op, encode_integers, encode_relog, tag};
use crate::replay::Replay;
use crate::replica::ApplyStat;
use crate::replica::followed::CatalogRows;
use crate::replica::hash::state_hash;
use crate::replica::lanes::{Applying, Lanes, QUEUE_BYTES, Target};
use crate::replica::live::{Begin, Follow, Live, VisitRecord};
use crate::replica::unfinished::{HELD_BYTES_MAX, RecordAt, Unfinished};

/// A resolver for versions that are all committed.
struct Stamped;

impl Resolve for Stamped {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp).expect("a replica has no unfinished version")
    }
}

/// Rows: family and key, with CSN and value.
type Rows = BTreeMap<(u32, Vec<u8>), (u64, Vec<u8>)>;

fn rows_at(families: &Families, snapshot: Lsn) -> Rows {
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
struct Change {
    cf: u32,
    key: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Change {
    fn put(cf: u32, key: &[u8], value: &[u8]) -> Self {
        Self { cf, key: key.to_vec(), value: Some(value.to_vec()) }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        Op { cf: CfId::new(self.cf), key: &self.key, value: self.value.as_deref() }.encode(out);
    }
}

/// The row of the catalog by which a family has a name.
fn named(name: &str, cf: u32) -> Change {
    Change { cf: 0, key: names::name_key(name), value: Some(names::name_value(CfId::new(cf), "")) }
}

/// A record of a generated log.
#[derive(Clone, Debug)]
struct Made {
    lsn: u64,
    end: u64,
    tag: u8,
    body: Vec<u8>,
}

impl Made {
    fn as_record(&self) -> RecordRef<'_> {
        let (lsn, end) = (Lsn::new(self.lsn), Lsn::new(self.end));
        RecordRef { lsn, end, kind: RecordKind::Data, tag: self.tag, body: &self.body }
    }
}

#[derive(Clone, Debug)]
enum Step {
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
struct Running {
    xid: u64,
    first_chunk: u64,
    chunks: u64,
    live: Vec<Change>,
}

/// A log, and everything that was committed in it, in order.
#[derive(Clone, Debug, Default)]
struct Log {
    records: Vec<Made>,
    commits: Vec<(u64, Vec<Change>)>,
    end: u64,
}

const START: u64 = 5000;

impl Log {
    fn new() -> Self {
        Self { end: START, ..Self::default() }
    }

    /// Appends a record; returns its position. The position of a longer record is that of its last piece.
    fn push(&mut self, tag: u8, body: Vec<u8>) -> u64 {
        let lsn = self.end + body.len() as u64 / 100 * 64;
        self.end = lsn + 16;
        self.records.push(Made { lsn, end: self.end, tag, body });
        lsn
    }

    fn commit(&mut self, header: &[u64], tail: &[Change], all: Vec<Change>) -> u64 {
        let mut body = encode_integers(header);
        tail.iter().for_each(|change| change.encode(&mut body));
        let lsn = self.push(tag::COMMIT, body);
        self.commits.push((lsn, all));
        lsn
    }

    fn chunk(&mut self, xid: u64, changes: &[Change]) -> u64 {
        let mut body = encode_integers(&[xid]);
        changes.iter().for_each(|change| change.encode(&mut body));
        self.push(tag::CHUNK, body)
    }

    fn of(steps: &[Step]) -> Self {
        Self::continued(Self::new(), steps, false)
    }

    /// As [`Log::of`], of a database with SQL tables. Writes of large transactions to family 3 are to a family that the
    /// transaction makes instead, and names in its COMMIT if any of them count.
    fn with_definitions(steps: &[Step]) -> Self {
        let mut log = Self::new();
        let tables: Vec<Change> = (1..4).map(|cf| named(&format!("sql:{cf}"), cf)).collect();
        log.commit(&[1, 0, 0], &tables, tables.clone());
        Self::continued(log, steps, true)
    }

    fn continued(mut log: Self, steps: &[Step], defines: bool) -> Self {
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
    fn rows_at(&self, snapshot: Lsn) -> Rows {
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

fn incarnation() -> Incarnation {
    let (term, history) = (Term::new(0), HistoryId::new(2));
    Incarnation { term, history, previous_term: term, previous_history: HistoryId::new(1), reason: 1, wall_us: 0 }
}

/// A database that follows a log, without files.
#[derive(Debug)]
struct World {
    families: Families,
    garbage: Garbage,
    large: LargeTransactions,
    log: Log,
    applying: Arc<Applying>,
    /// Workers wait here after a batch while the gate is shut.
    gate: Mutex<bool>,
    opened: Condvar,
    /// Makes a worker panic at the next row with a superseded version.
    panics: AtomicBool,
    applied: AtomicU64,
    is_stopped: AtomicBool,
    xid_limit: AtomicU64,
    read_back: AtomicUsize,
    catalogs: Mutex<Vec<Lsn>>,
    histories: Mutex<Vec<(Lsn, Lsn)>>,
    holes: Mutex<Vec<(Vec<CfId>, Lsn)>>,
    dropped: DroppedFamilies,
    freed: Mutex<Vec<CfId>>,
    horizon: AtomicU64,
    clock_ns: AtomicU64,
}

impl Target for World {
    fn families(&self) -> &Families {
        &self.families
    }

    fn garbage(&self) -> &Garbage {
        &self.garbage
    }

    fn prune(&self, _: &Family, _: &Row) {
        assert!(!self.panics.load(SeqCst), "the test wants a worker to end");
    }

    fn applied(&self, applied: Lsn) {
        self.applied.fetch_max(applied.get(), SeqCst);
        let mut is_open = self.gate.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
    }

    fn stopped(&self) {
        self.is_stopped.store(true, SeqCst);
    }

    /// Returns a time one microsecond later at each call.
    fn now_ns(&self) -> u64 {
        self.clock_ns.fetch_add(1000, SeqCst)
    }
}

impl Follow for World {
    fn large(&self) -> &LargeTransactions {
        &self.large
    }

    fn read_back(&self, first: RecordAt, last: RecordAt, visit: &mut VisitRecord<'_>) -> Result<(), EngineError> {
        assert!(first.since <= first.lsn && first.lsn <= last.lsn);
        self.read_back.fetch_add(1, SeqCst);
        let records =
            self.log.records.iter().filter(|made| made.lsn >= first.since.get() && made.lsn <= last.lsn.get());
        records.into_iter().try_for_each(|made| visit(Lsn::new(made.lsn), made.tag, &made.body))
    }

    fn catalog_changed(&self, end: Lsn, _: CatalogRows) {
        let commit = self.log.commits.iter().rev().find(|(csn, _)| Lsn::new(*csn) < end).unwrap();
        assert!(self.applying.applied() <= Lsn::new(commit.0), "a snapshot may show it already");
        assert_eq!(rows_at(&self.families, end), self.log.rows_at(end), "the catalog at {end}");
        self.catalogs.lock().push(end);
    }

    fn history_begins(&self, start: Lsn, previous_end: Lsn, _: &Incarnation) -> Result<(), EngineError> {
        self.histories.lock().push((start, previous_end));
        Ok(())
    }

    fn note_holes(&self, families: &[CfId], since: Lsn) -> Result<(), EngineError> {
        self.holes.lock().push((families.to_vec(), since));
        Ok(())
    }

    fn xid_limit(&self, limit: Xid) {
        self.xid_limit.fetch_max(limit.get(), SeqCst);
    }

    fn marked(&self, _: i64, _: Lsn) {}

    fn quorum_noted(&self, _: Lsn, _: crate::QuorumNote) {}

    fn note_dropped(&self, cf: CfId, end: Lsn) {
        self.dropped.note(cf, end);
    }

    fn free_dropped(&self) {
        self.dropped.free_below(Lsn::new(self.horizon.load(SeqCst)));
        while let Some(cf) = self.dropped.due() {
            self.garbage.freed(self.families.remove(cf).unwrap().clear());
            self.freed.lock().push(cf);
            self.dropped.gone(cf);
        }
    }
}

/// How a log is replayed.
#[derive(Clone, Debug)]
struct Way {
    workers: usize,
    queue_bytes: usize,
    held_bytes_max: usize,
    /// Records of each packet, in a cycle.
    packets: Vec<u8>,
    /// The number of lanes to use after each packet, in a cycle.
    spread: Vec<u8>,
}

impl Way {
    fn plain(workers: usize) -> Self {
        let spread = vec![u8::MAX];
        Self { workers, queue_bytes: QUEUE_BYTES, held_bytes_max: HELD_BYTES_MAX, packets: vec![1], spread }
    }
}

fn follow(log: &Log, way: &Way, flushed: Map<CfId, Lsn>) -> (Arc<World>, Live<World>) {
    let start = Lsn::new(START);
    let (applying, hands) = Applying::new(start, way.workers, way.queue_bytes);
    let world = Arc::new(World {
        families: Families::with_levels(),
        garbage: Garbage::default(),
        large: LargeTransactions::default(),
        log: log.clone(),
        applying: Arc::clone(&applying),
        gate: Mutex::new(true),
        opened: Condvar::new(),
        panics: AtomicBool::new(false),
        applied: AtomicU64::new(0),
        is_stopped: AtomicBool::new(false),
        xid_limit: AtomicU64::new(0),
        read_back: AtomicUsize::new(0),
        catalogs: Mutex::default(),
        histories: Mutex::default(),
        holes: Mutex::default(),
        dropped: DroppedFamilies::default(),
        freed: Mutex::default(),
        horizon: AtomicU64::new(0),
        clock_ns: AtomicU64::new(0),
    });
    let lanes = Lanes::start(applying, hands, Arc::clone(&world) as Arc<dyn Target>).unwrap();
    let unfinished = Unfinished::new(Lsn::FIRST, way.held_bytes_max);
    let (xid_limit, holes, unlogged) = (Xid::new(1), Map::default(), Vec::new());
    let begin = Begin { position: start, unfinished, flushed, xid_limit, time_us: 0, holes, unlogged };
    let live = Live::new(Arc::clone(&world), lanes, begin).unwrap();
    (world, live)
}

fn take(live: &mut Live<World>, made: &Made) -> Result<(), EngineError> {
    live.take(made.as_record())?;
    live.flush();
    Ok(())
}

/// Waits for the work that the last worker does after it has announced the end of its batch.
fn settle(world: &World, live: &Live<World>) {
    while world.applying.applied() < live.position() || world.applying.queued_bytes() > 0 {
        std::thread::yield_now();
    }
}

/// Replays a log and compares every position visible on the way, and the end, with the map. Returns the state hash.
fn check(log: &Log, way: &Way) -> u64 {
    let (world, mut live) = follow(log, way, Map::default());
    let (mut packets, mut spread) = (way.packets.iter().cycle(), way.spread.iter().cycle());
    let mut left = 0;
    let mut last = Lsn::ZERO;
    for made in &log.records {
        live.take(made.as_record()).unwrap();
        if left == 0 {
            left = *packets.next().unwrap();
            world.applying.spread_over(usize::from(*spread.next().unwrap()));
            live.flush();
            let applied = world.applying.applied();
            assert!(applied >= last && applied <= live.position(), "R3: {last}, then {applied}");
            assert_eq!(rows_at(&world.families, applied), log.rows_at(applied), "R4: at {applied}");
            last = applied;
        } else {
            left -= 1;
        }
    }
    live.drain().unwrap();
    let end = Lsn::new(log.end);
    assert_eq!(live.position(), end);
    settle(&world, &live);
    let ahead = live.take_unfinished().clear(&world.large);
    ahead.into_iter().for_each(|cf| world.note_dropped(cf, end));
    world.horizon.store(u64::MAX, SeqCst);
    live.flush(); // frees what transactions made that never committed
    let expected = log.rows_at(Lsn::MAX);
    assert_eq!(rows_at(&world.families, end), expected, "at the end");
    let ids = log.records.iter().filter(|made| made.tag != tag::RELOG && made.tag != tag::INCARNATION);
    let highest = ids.filter_map(|made| collie_base::codec::Reader::new(&made.body[1..]).varint().ok()).max();
    assert!(Some(world.xid_limit.load(SeqCst)) >= highest, "ids in the log are below the bound");
    let is_catalog = |(_, changes): &&(u64, Vec<Change>)| changes.iter().any(|change| change.cf == 0);
    let catalogs = log.commits.iter().filter(is_catalog).count();
    assert!(world.catalogs.lock().len() >= catalogs, "a commit of the catalog was not told");
    let hash = state_hash(&world.families, end, &Stamped, &[]);
    // Every superseded version is in the queue of rows to clean, and cleaning leaves only visible versions.
    let live_none = collie_base::LiveSnapshots::none_below(Lsn::MAX);
    for family in world.families.all() {
        let rows = family.take_unflushed();
        let at = collie_store::FlushAt { position: end, flushed: Lsn::ZERO, uncertain: false };
        let entries = family.flush_entries(&rows, at, &Stamped);
        let puts = entries.iter().filter(|entry| entry.value.is_some()).count();
        let rows_of = expected.keys().filter(|(cf, _)| *cf == family.id().get()).count();
        assert_eq!(puts, rows_of, "a flush takes every row of family {}", family.id());
        family.note_flushed(&entries);
        for entry in entries.iter().filter(|entry| entry.value.is_none()) {
            world.garbage.look_again(entry.csn, family.id(), &entry.row);
        }
    }
    world.garbage.clean(&world.families, &live_none, Reach::All);
    assert_eq!((world.garbage.bytes(), world.families.count().1), (0, expected.len() as u64), "old versions are freed");
    assert_eq!(rows_at(&world.families, end), expected, "after cleaning");
    hash
}

/// Returns the rows that an opening with this log would leave.
fn recovered(log: &Log) -> Rows {
    let families = Arc::new(Families::with_levels());
    let mut replay = Replay::new(&families, Appliers::new(&families, 1, 7));
    for made in &log.records {
        replay.apply(Lsn::new(made.lsn), made.tag, &made.body).unwrap();
    }
    replay.finish();
    rows_at(&families, Lsn::MAX)
}

fn change() -> impl Strategy<Value = Change> {
    // Family 0 is the catalog, whose name rows begin with a byte 0.
    let cf = prop_oneof![1 => Just(0_u32), 9 => 1..4_u32];
    let value = prop_oneof![3 => any::<u8>().prop_map(Some), 2 => Just(None)];
    (cf, 1..7_u8, value).prop_map(|(cf, key, value)| Change {
        cf,
        key: vec![key; usize::from(key) * 9],
        value: value.map(|value| vec![value; usize::from(value % 4) * 20]),
    })
}

fn step() -> impl Strategy<Value = Step> {
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

fn way() -> impl Strategy<Value = Way> {
    let queue_bytes = prop_oneof![Just(0), 1..2000_usize, Just(QUEUE_BYTES)];
    let held = prop_oneof![Just(0), 1..200_usize, Just(HELD_BYTES_MAX)];
    let some = |each: std::ops::Range<u8>| proptest::collection::vec(each, 1..5);
    (1..5_usize, queue_bytes, held, some(0..6), some(1..5)).prop_map(
        |(workers, queue_bytes, held_bytes_max, packets, spread)| Way {
            workers,
            queue_bytes,
            held_bytes_max,
            packets,
            spread,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Goal: D1 to D3, L1, U1, U3, R3 to R5: parallel replay, replay by one worker, recovery and the map agree,
    /// whatever the number of workers, the lanes in use at each moment, the packets, the size of the queues and the
    /// chunks that are read back; every position visible on the way is a state that existed; superseded versions are
    /// freed and new ones are flushed. Method: random logs with catalog commits, large transactions, re-logs and new
    /// histories.
    #[test]
    fn parallel_replay_serial_replay_and_recovery_leave_what_was_committed(
        steps in proptest::collection::vec(step(), 1..60), way in way(),
    ) {
        let log = Log::of(&steps);
        let parallel = check(&log, &way);
        prop_assert_eq!(parallel, check(&log, &Way::plain(1)), "the state hash");
        let without_relogs: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Relog(_))).collect();
        let log = Log::of(&without_relogs);
        prop_assert_eq!(recovered(&log), log.rows_at(Lsn::MAX));
    }

    /// Goal: D7: the same as above, where large transactions make tables whose rows are applied ahead of the COMMIT.
    /// Method: the same logs with such tables.
    #[test]
    fn rows_of_new_tables_are_those_of_their_commit(
        steps in proptest::collection::vec(step(), 1..60), way in way(),
    ) {
        let log = Log::with_definitions(&steps);
        let parallel = check(&log, &way);
        prop_assert_eq!(parallel, check(&log, &Way::plain(1)), "the state hash");
        let without_relogs: Vec<Step> = steps.into_iter().filter(|step| !matches!(step, Step::Relog(_))).collect();
        let log = Log::with_definitions(&without_relogs);
        prop_assert_eq!(recovered(&log), log.rows_at(Lsn::MAX));
    }
}

/// Goal: the work and cost of applying are counted: commits once each, whatever they wrote, and a worker's time once
/// per batch. Method: forty commits of two writes to one worker, whose clock moves by a microsecond whenever it is
/// read.
#[test]
fn commits_and_the_time_of_workers_are_counted() {
    let mut log = Log::new();
    for number in 0..40_u64 {
        let changes: Vec<Change> = [1, 2].map(|cf| Change::put(cf, &number.to_be_bytes(), b"v")).into();
        log.commit(&[number + 2, 0, 0], &changes, changes.clone());
    }
    let (world, mut live) = follow(&log, &Way::plain(1), Map::default());
    assert_eq!(world.applying.stat(), ApplyStat { workers: 1, ..ApplyStat::default() });
    log.records.iter().for_each(|made| take(&mut live, made).unwrap());
    live.drain().unwrap();
    settle(&world, &live);
    let stat = world.applying.stat();
    assert_eq!((stat.commits, stat.busy), (40, Duration::from_micros(40)), "each was a batch of its own");
}

/// Goal: D3: writes of commits strictly below the flush position of their family are not applied again. Method: three
/// commits to two families, one of them flushed up to the second.
#[test]
fn commits_below_a_flush_are_not_applied() {
    let mut log = Log::new();
    for number in 0..3_u8 {
        let changes: Vec<Change> = [1, 2].map(|cf| Change::put(cf, &[number], b"v")).into();
        log.commit(&[u64::from(number) + 2, 0, 0], &changes, changes.clone());
    }
    let second = Lsn::new(log.commits[1].0);
    let (world, mut live) = follow(&log, &Way::plain(2), [(CfId::new(1), second)].into_iter().collect());
    log.records.iter().for_each(|made| take(&mut live, made).unwrap());
    live.drain().unwrap();
    let keys: Vec<(u32, u8)> = rows_at(&world.families, Lsn::MAX).keys().map(|(cf, key)| (*cf, key[0])).collect();
    assert_eq!(keys, [(1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]);
    assert_eq!(live.row_writes(), 5);
}

/// Goal: L2: replay stops taking records when its queues are full, and continues when there is room; waiting bytes are
/// counted. Method: workers that wait at a gate, a thread that gives more than fits.
#[test]
fn full_queues_stop_the_dispatcher_until_there_is_room() {
    let mut log = Log::new();
    for number in 0..200_u64 {
        let changes = vec![Change::put(1, &number.to_be_bytes(), &[7; 1000])];
        log.commit(&[number + 2, 0, 0], &changes, changes.clone());
    }
    let way = Way { queue_bytes: 20_000, ..Way::plain(2) };
    let (world, mut live) = follow(&log, &way, Map::default());
    *world.gate.lock() = false;
    let taken = Arc::new(AtomicUsize::new(0));
    let (records, count) = (log.records.clone(), Arc::clone(&taken));
    let feeder = std::thread::spawn(move || {
        for made in &records {
            live.take(made.as_record()).unwrap();
            count.fetch_add(1, SeqCst);
            // The dispatcher itself must not wait for the gate.
            live.hand_over_all();
        }
        live
    });
    // Each lane: 10,000 bytes of waiting one-write batches, the batch being applied, and one more that is handed over.
    while world.applying.queued_bytes() < 10_000 {
        std::thread::yield_now();
    }
    for _ in 0..1000 {
        std::thread::yield_now();
        let queued = world.applying.queued_bytes();
        assert!(queued <= 2 * (10_000 + 1_200), "{queued} bytes wait");
        assert!(taken.load(SeqCst) <= 24, "records are taken though there is no room");
    }
    *world.gate.lock() = true;
    world.opened.notify_all();
    let mut live = feeder.join().unwrap();
    live.drain().unwrap();
    settle(&world, &live);
    assert_eq!(taken.load(SeqCst), 200);
    assert_eq!(rows_at(&world.families, Lsn::MAX), log.rows_at(Lsn::MAX));
}

/// Goal: L3: when a worker ends early, waiting threads are woken, and nothing more is taken. Method: a worker that
/// panics at a row with a superseded version; records after it, and a drain.
#[test]
fn worker_that_ends_stops_replay_and_nobody_waits_for_it() {
    let mut log = Log::new();
    for number in 0..50_u64 {
        let changes = vec![Change::put(1, b"one key", &[7; 1000])];
        log.commit(&[number + 2, 0, 0], &changes, changes.clone());
    }
    let way = Way { queue_bytes: 3_000, ..Way::plain(1) };
    let (world, mut live) = follow(&log, &way, Map::default());
    world.panics.store(true, SeqCst);
    let fed = log.records.iter().try_for_each(|made| take(&mut live, made));
    let outcome = fed.and_then(|()| live.drain());
    assert!(matches!(outcome, Err(EngineError::ReplayStopped)), "{outcome:?}");
    assert!(matches!(take(&mut live, &log.records[49]), Err(EngineError::ReplayStopped)), "D5");
    assert!(world.applying.applied() < Lsn::new(log.end));
    while !world.is_stopped.load(SeqCst) {
        std::thread::yield_now(); // waiters for the watermark are woken last
    }
}

/// Goal: D1, D5, U3: a record out of order, an unreadable one, a commit without its chunks, and a rollback to nowhere
/// stop replay for good, and the error names their position. Method: each after a good commit, and another good one
/// after it.
#[test]
fn records_that_make_no_sense_stop_replay_for_good() {
    let good = |log: &mut Log, key: u8| {
        let changes = vec![Change::put(1, &[key], b"v")];
        log.commit(&[u64::from(key) + 2, 0, 0], &changes, changes.clone());
    };
    let cases: [(&str, u8, Vec<u8>, bool); 5] = [
        ("out of its order", tag::COMMIT, encode_integers(&[9, 0, 0]), true),
        ("record tag", 30, encode_integers(&[9]), false),
        ("a part is missing", tag::COMMIT, encode_integers(&[9, 2, 4000]), false),
        ("rollback", tag::ROLLBACK_TO, encode_integers(&[9, 1]), false),
        ("operation kind", tag::COMMIT, [&encode_integers(&[9, 0, 0])[..], &[1, 9, 1, 1]].concat(), false),
    ];
    for (meant, tag, body, is_early) in cases {
        let mut log = Log::new();
        good(&mut log, 1);
        let at = log.push(tag, body);
        good(&mut log, 2);
        if is_early {
            log.records[1].lsn = START;
        }
        let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
        take(&mut live, &log.records[0]).unwrap();
        for record in [1, 2] {
            match take(&mut live, &log.records[record]) {
                Err(EngineError::Corruption { lsn, what }) => {
                    assert!(what.contains(meant), "{what}, not {meant}");
                    assert_eq!(lsn.get(), if is_early { START } else { at });
                }
                other => panic!("{meant}: {other:?}"),
            }
        }
        live.lanes().check().unwrap();
        while world.applying.applied() < Lsn::new(log.records[0].end) {
            std::thread::yield_now();
        }
        assert_eq!(rows_at(&world.families, Lsn::MAX).len(), 1, "{meant}: what was good is there, and no more");
    }
}

/// Goal: U1, U2, U3: chunks beyond the room for them are read back, once per run of such chunks, and the log is kept
/// from the first chunk of a large transaction on, until its families are flushed above its commit. Method: a
/// transaction of six chunks with room for the first two, an abort, a new history.
#[test]
fn large_transactions_are_read_back_and_hold_the_log() {
    let mut log = Log::new();
    let chunks: Vec<Vec<Change>> = (0..6_u8).map(|number| vec![Change::put(1, &[number], &[number; 200])]).collect();
    let first = log.chunk(7, &chunks[0]);
    for chunk in &chunks[1..] {
        log.chunk(7, chunk);
    }
    let other = log.chunk(8, &chunks[0]);
    let csn = log.commit(&[7, 6, first], &[], chunks.concat());
    log.push(tag::ABORT, encode_integers(&[8]));
    log.chunk(9, &chunks[0]);
    log.push(tag::INCARNATION, incarnation().encode());
    let way = Way { held_bytes_max: 450, ..Way::plain(2) };
    let (world, mut live) = follow(&log, &way, Map::default());
    let needed = || world.large.lower(Lsn::MAX, |_| Lsn::new(csn));
    let mut records = log.records.iter();
    for made in records.by_ref().take(7) {
        take(&mut live, made).unwrap();
        assert_eq!(needed(), Lsn::new(START), "from where the first chunk may begin");
    }
    take(&mut live, records.next().unwrap()).unwrap();
    assert_eq!(world.read_back.load(SeqCst), 1, "one stretch of four chunks");
    assert_eq!(needed(), Lsn::new(START), "not flushed above its commit");
    let others = world.large.lower(Lsn::MAX, |_| Lsn::new(csn + 1));
    assert!(others > Lsn::new(first) && others < Lsn::new(other), "flushed: the other one, {others}");
    world.large.forget_below(Lsn::new(first + 1));
    take(&mut live, records.next().unwrap()).unwrap();
    assert_eq!(needed(), Lsn::MAX, "aborted");
    take(&mut live, records.next().unwrap()).unwrap();
    assert!(needed() < Lsn::MAX);
    take(&mut live, records.next().unwrap()).unwrap();
    assert_eq!(needed(), Lsn::MAX, "a new history");
    let [_, .., before, history] = &log.records[..] else { unreachable!() };
    assert_eq!(*world.histories.lock(), [(Lsn::new(history.lsn), Lsn::new(before.end))]);
    live.drain().unwrap();
    assert_eq!(rows_at(&world.families, Lsn::MAX), log.rows_at(Lsn::MAX));
}

/// Goal: D7: rows of a table that an open transaction makes are applied before its COMMIT and count from it on; they
/// go with an abort and with a new history; what ROLLBACK_TO voids never counts; rows of other tables wait for the
/// COMMIT, and so does a transaction whose first chunk came before replay was live. Method: one transaction of two
/// chunks that makes family 9, ended in each way.
#[test]
fn rows_of_a_new_table_are_applied_before_their_commit() {
    let (table, new) = (CfId::new(5), CfId::new(9));
    for ending in ["commit", "abort", "incarnation", "rollback", "late"] {
        let mut log = Log::new();
        let names = vec![named("sql:16384", 5)];
        log.commit(&[2, 0, 0], &names, names.clone());
        let first = vec![Change::put(9, b"a", b"1"), Change::put(5, b"row", b"1"), Change::put(9, b"b", b"1")];
        let second = vec![Change::put(9, b"b", b"2"), Change::put(9, b"c", b"1")];
        let first_chunk = log.chunk(7, &first);
        log.chunk(7, &second);
        let before_end = log.records.len();
        let mut live_changes = [&first[..], &second].concat();
        let own = vec![Change::put(9, b"d", b"1"), named("sql:16385", 9)];
        match ending {
            "abort" => drop(log.push(tag::ABORT, encode_integers(&[7]))),
            "incarnation" => drop(log.push(tag::INCARNATION, incarnation().encode())),
            "rollback" => {
                live_changes.truncate(3);
                log.push(tag::ROLLBACK_TO, encode_integers(&[7, 3]));
            }
            _ => {}
        }
        let commits = !matches!(ending, "abort" | "incarnation");
        if commits {
            live_changes.extend_from_slice(&own);
            log.commit(&[7, 2, first_chunk], &own, live_changes);
        }
        let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
        let mut taken = 0;
        if ending == "late" {
            take(&mut live, &log.records[0]).unwrap();
            let (made, large) = (&log.records[1], &world.large);
            let at = RecordAt { since: live.position(), lsn: Lsn::new(made.lsn) };
            live.note(at, &crate::redo::Redo::decode(made.tag, &made.body).unwrap(), large);
            taken = 2;
        }
        log.records[taken..before_end].iter().for_each(|made| take(&mut live, made).unwrap());
        live.drain().unwrap();
        settle(&world, &live);
        let rows = |cf| world.families.get(cf).map_or(0, |family| family.stat().rows);
        assert_eq!((rows(new), rows(table)), if ending == "late" { (0, 0) } else { (3, 0) }, "{ending}");
        assert_eq!(world.families.next_id(), CfId::new(10), "{ending}: the id is used, whatever becomes of it");
        assert_eq!(rows_at(&world.families, Lsn::MAX).len(), 1, "{ending}: the name of the first table");
        let hash = state_hash(&world.families, Lsn::MAX, &Stamped, &[CfId::CATALOG]);
        assert_eq!(hash, 0, "{ending}: uncommitted rows are no part of the state");
        log.records[before_end..].iter().for_each(|made| take(&mut live, made).unwrap());
        live.drain().unwrap();
        settle(&world, &live);
        let end = Lsn::new(log.end);
        assert_eq!(rows_at(&world.families, end), log.rows_at(end), "{ending}");
        assert_eq!(world.read_back.load(SeqCst), usize::from(ending == "rollback") * 2, "{ending}: read twice");
        world.horizon.store(log.end, SeqCst);
        live.flush();
        assert_eq!((world.freed.lock().contains(&new), world.families.get(new).is_some()), (!commits, commits));
    }
}

/// Goal: D4: a dropped family is kept until no snapshot is at or below the drop, then freed once; a write to it
/// afterwards is damage if it belonged to a table, and ignored if it belonged to a program. Method: both kinds, a
/// horizon that is moved by hand.
#[test]
fn dropped_families_stay_until_no_snapshot_shows_them() {
    for (name, is_damage) in [("sql:16384", true), ("orders", false)] {
        let (mut log, cf) = (Log::new(), 5);
        let row = |value: Option<Vec<u8>>| Change { cf: 0, key: names::name_key(name), value };
        let changes = vec![row(Some(names::name_value(CfId::new(cf), "")))];
        log.commit(&[2, 0, 0], &changes, changes.clone());
        let changes = vec![Change::put(cf, b"key", b"value")];
        log.commit(&[3, 0, 0], &changes, changes.clone());
        let gone = vec![row(None)];
        log.commit(&[4, 0, 0], &gone, gone.clone());
        log.commit(&[5, 0, 0], &changes, changes.clone());
        let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
        for made in &log.records[..3] {
            take(&mut live, made).unwrap();
            assert!(world.families.get(CfId::new(cf)).is_some(), "named families are there, and dropped ones still");
        }
        let end = log.records[2].end;
        assert_eq!(rows_at(&world.families, Lsn::new(log.records[2].lsn)).len(), 2, "an old snapshot sees the row");
        world.horizon.store(end - 1, SeqCst);
        live.flush();
        assert!(world.freed.lock().is_empty(), "a snapshot may be at the drop");
        let written = take(&mut live, &log.records[3]);
        assert_eq!(matches!(written, Err(EngineError::Corruption { .. })), is_damage, "{name}: {written:?}");
        world.horizon.store(end, SeqCst);
        live.flush();
        live.flush();
        assert_eq!(*world.freed.lock(), [CfId::new(cf)]);
        assert_eq!(world.catalogs.lock().len(), 2);
        assert!(world.families.get(CfId::new(cf)).is_none());
    }
}

/// Goal: D4: a family that one transaction creates, fills and drops is freed as any other, and so is one whose name the
/// transaction gives to another family (T264). Method: both in one commit, with rows; what is left.
#[test]
fn families_that_one_commit_makes_and_drops_are_freed() {
    let mut log = Log::new();
    let row = |value: Option<Vec<u8>>| Change { cf: 0, key: names::name_key("sql:16384"), value };
    let named = |cf: u32| row(Some(names::name_value(CfId::new(cf), "")));
    let changes = [named(5), Change::put(5, b"key", b"made and dropped"), row(None)]
        .into_iter()
        .chain([named(6), Change::put(6, b"key", b"made and emptied"), named(7), Change::put(7, b"key", b"stays")])
        .collect::<Vec<_>>();
    log.commit(&[2, 0, 0], &changes, changes.clone());
    let (world, mut live) = follow(&log, &Way::plain(2), Map::default());
    take(&mut live, &log.records[0]).unwrap();
    assert_eq!(world.dropped.hidden_from(Lsn::new(log.records[0].end)), [5, 6].map(CfId::new));
    world.horizon.store(log.records[0].end, SeqCst);
    live.flush();
    assert_eq!(*world.freed.lock(), [5, 6].map(CfId::new));
    let left: Vec<bool> = (5..8).map(|cf| world.families.get(CfId::new(cf)).is_some()).collect();
    assert_eq!(left, [false, false, true]);
}

/// Goal: a family that has an UNLOGGED commit is known to have a hole from there on, is reported once, and is left out
/// of the state hash; so are those of its atomic group with lower ids, but none whose LSM levels have the written rows.
/// Method: commits of a family and of a group of three, with rows of other families, and a family that was flushed
/// above.
#[test]
fn unlogged_commits_leave_a_hole_that_is_told() {
    let mut log = Log::new();
    let changes: Vec<Change> = (1..7).map(|cf| Change::put(cf, b"key", b"v")).collect();
    log.commit(&[2, 0, 0], &changes, changes.clone());
    let first = log.push(tag::UNLOGGED, encode_integers(&[2]));
    log.push(tag::UNLOGGED, encode_integers(&[2]));
    let second = log.push(tag::UNLOGGED, encode_integers(&[4]));
    log.push(tag::UNLOGGED, encode_integers(&[6]));
    let flushed = [(CfId::new(6), Lsn::new(log.end))].into_iter().collect();
    let (world, mut live) = follow(&log, &Way::plain(1), flushed);
    [3, 4, 5].into_iter().for_each(|cf| world.families.join(CfId::new(cf), "group"));
    log.records.iter().for_each(|made| take(&mut live, made).unwrap());
    live.drain().unwrap();
    let mut holes: Vec<(u32, u64)> = live.holes().iter().map(|(cf, lsn)| (cf.get(), lsn.get())).collect();
    holes.sort_unstable();
    assert_eq!(holes, [(2, first), (3, second), (4, second)]);
    let told: Vec<(usize, u64)> = world.holes.lock().iter().map(|(cfs, at)| (cfs.len(), at.get())).collect();
    assert_eq!(told, [(1, first), (2, second)]);
    let hash = |skipped: &[CfId]| state_hash(&world.families, Lsn::MAX, &Stamped, skipped);
    let all = hash(&[]);
    let two = CfId::new(2);
    let others: Vec<CfId> = (0..7).map(CfId::new).filter(|cf| *cf != two).collect();
    assert_ne!(hash(&[two]), all);
    assert_eq!(hash(&[two]).wrapping_add(hash(&others)), all, "a sum over rows");
}
