//! Loom models of properties that only the parts together have: rows, transactions and the log's lock-free
//! reservation, all of them the product's own types. Run with `--cfg loom`; `LOOM_LONG=1` raises the bounds.
//!
//! In parentheses after a model is its name in `docs/design/commit-protocol.md` section 9 (`docs/models.md` covers the
//! whole table). Each correct model asserts a minimum of executions, about half of the count when it was written, and
//! each mistake must be caught by the intended assertion.
//!
//! The models leave out the engine's session, which adds no other access to these calls; files (a word represents
//! the disk); and reclamation (nothing is freed under loom; a cell represents the memory of a version). No lock
//! that loom does not know is held over an operation that loom knows, except by readers of the index, which never
//! exclude each other.

use std::{convert::Infallible, sync::Arc, time::Duration};

use collie_base::{CfId, Lsn, Xid};
use collie_store::{Change, Family, Row, View, WriteOutcome, WriteRules, pin};
use collie_sync::{
    atomic::{AtomicU64, Ordering},
    model::{Mistake, bounds, check, is_long},
    mutant, thread,
};
use collie_txn::{
    Appended, Behind, CommitLog, CommitRecord, Ended, Isolation, Options, Resolution, Session, Stamp, Start,
    StatementKind, Transaction, Txns,
};
use collie_wal::{Mark, ModelLog, ModelSink, ModelWriter, Protocol};

use crate::{
    families::Families,
    gc::garbage::{Garbage, Reach},
    log::marks::Marks,
    log::settled::{CommitLevel, Confirm, ConfirmWait, Confirmed, Settled},
    log::txn_statuses::TxnStatuses,
    session::ack_condition::AckCondition,
    session::writes::Writes,
};

/// The log of a model as the transactions' log, with replicas if they are counted.
#[derive(Debug)]
struct Modelled(ModelLog, Option<Arc<Settled>>);

impl CommitLog for Modelled {
    type Writer = ModelWriter;
    type Error = Infallible;

    fn append(&self, _: &mut ModelWriter, _: u8, _: &[&[u8]]) -> Result<Appended, Infallible> {
        unreachable!("the models append commits only")
    }

    fn append_commit(
        &self,
        writer: &mut ModelWriter,
        _: u8,
        _: &[u8],
        publish: impl FnOnce(Lsn),
    ) -> Result<Appended, Infallible> {
        let at = self.0.append(writer, publish);
        Ok(Appended { start: at.start, end: at.end })
    }

    fn boundary(&self) -> Lsn {
        self.0.boundary()
    }

    fn durable(&self) -> Lsn {
        self.0.durable()
    }

    fn settled(&self) -> Lsn {
        match &self.1 {
            None => self.durable(),
            Some(settled) => settled.position(|| self.durable()),
        }
    }
}

impl Marks for Modelled {
    fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool {
        if mark == Mark::Boundary { self.0.is_complete(lsn) } else { self.0.durable() >= lsn }
    }

    fn replicas(&self) -> Option<&Settled> {
        self.1.as_deref()
    }
}

/// How the log of a model differs from the simplest one.
#[derive(Clone, Copy)]
struct Form {
    protocol: Protocol,
    sink: ModelSink,
    /// The position of a black flag is raised during a wait for room.
    raises: bool,
    /// Replicas are counted.
    counts: bool,
}

const BASE: Form = Form { protocol: Protocol::Base, sink: ModelSink::Null, raises: false, counts: false };
const RAISED: Form = Form { raises: true, ..BASE };
const HELP: Form = Form { protocol: Protocol::Help, ..BASE };
const DISK: Form = Form { sink: ModelSink::Disk, ..BASE };
const COUNTED: Form = Form { counts: true, ..DISK };

const KEYS: [&[u8]; 2] = [b"a", b"b"];

/// A database of one family, whose rows hold 0.
struct World {
    txns: Arc<Txns<Modelled>>,
    families: Arc<Families>,
    garbage: Arc<Garbage>,
    family: Arc<Family>,
}

impl World {
    fn new(form: Form) -> Arc<Self> {
        let settled = form.counts.then(Settled::new);
        let log = ModelLog::new(form.protocol, form.sink, form.raises);
        settled.iter().for_each(|settled| settled.set_counted(true, || log.durable()));
        let log = Modelled(log, settled);
        let txns = Txns::new(log, Options { xid_slots: 4, sessions_max: 3, first_xid: Xid::new(1) });
        let families = Arc::new(Families::new());
        let family = families.get_or_make(CfId::new(1));
        KEYS.iter().for_each(|key| family.load(key, Some(&[0]), Lsn::FIRST));
        Arc::new(Self { txns, families, garbage: Arc::default(), family })
    }

    fn log(&self) -> &ModelLog {
        &self.txns.log().0
    }

    /// Makes replicas report more than this node can have sent.
    fn confirm(&self) {
        let claimed = Lsn::new(1 << 40);
        let confirmed = Confirmed { received: claimed, durable: claimed, applied: claimed };
        self.txns.log().1.iter().for_each(|settled| settled.note(confirmed, || self.log().durable()));
    }

    /// Opens a transaction. Its id is assigned here, so that no model has to explore that too.
    fn worker(self: &Arc<Self>, isolation: Isolation) -> Worker {
        let mut session = self.txns.session().expect("a free slot");
        let mut t = session.begin(isolation, false);
        let xid = session.assign_xid(&mut t).expect("it may write");
        let writes = Writes::new(&self.families, &self.garbage, &self.txns, 64);
        Worker { world: Arc::clone(self), session, t, xid, writer: self.log().writer(), writes }
    }

    /// Opens a transaction that has written 1 to the row at `key` and is between its statements.
    fn writer_of(self: &Arc<Self>, key: &[u8]) -> (Worker, Arc<Row>) {
        let mut worker = self.worker(Isolation::ReadCommitted);
        let snapshot = worker.begin_statement();
        let WriteRetries::Done(row) = worker.write(key, snapshot, 1) else { panic!("nobody else") };
        worker.session.end_statement(&mut worker.t);
        (worker, row)
    }

    fn read(&self, key: &[u8], snapshot: Lsn) -> Option<u8> {
        let view = View { snapshot, me: None, command: 0 };
        self.family.read(key, &view, &TxnStatuses(&self.txns), &pin()).map(|value| value[0])
    }
}

/// One open transaction of a session of its own.
struct Worker {
    world: Arc<World>,
    session: Session<Modelled>,
    t: Transaction,
    xid: Xid,
    writer: ModelWriter,
    writes: Writes<Modelled>,
}

/// Outcome of a write.
enum WriteRetries {
    Done(Arc<Row>),
    Wait,
    /// The row was changed at this position, above the snapshot.
    Changed(Lsn),
}

/// Rest of a worker. Sessions end on the main thread, so that no model has to explore that too.
struct Ran {
    _session: Session<Modelled>,
    committed: Option<Appended>,
}

impl Worker {
    /// Begins a statement as the engine does; returns its snapshot.
    fn begin_statement(&mut self) -> Lsn {
        loop {
            match self.session.begin_statement(&mut self.t, StatementKind::Write).expect("few commands") {
                Start::Ready(snapshot) => return snapshot,
                Start::Wait(Behind::Boundary(lsn)) => self.world.log().wait_boundary(lsn),
                Start::Wait(Behind::Settled(_)) => unreachable!("it may write"),
            }
        }
    }

    fn write(&mut self, key: &[u8], snapshot: Lsn, value: u8) -> WriteRetries {
        let view = View { snapshot, me: Some(self.xid), command: self.t.command() };
        let repeatable = self.t.isolation() == Isolation::RepeatableRead;
        let rules = WriteRules { xid: self.xid, repeatable };
        let basis = collie_store::Basis::Snapshot;
        let fates = TxnStatuses(&self.world.txns);
        match self.world.family.write(key, Change::Put(&[value]), basis, &view, &rules, &fates) {
            WriteOutcome::Done(pending) => {
                let row = Arc::clone(pending.row());
                self.writes.push(self.world.family.id(), pending);
                WriteRetries::Done(row)
            }
            WriteOutcome::Wait(_) => WriteRetries::Wait,
            WriteOutcome::Conflict(csn) | WriteOutcome::Changed { csn, .. } => WriteRetries::Changed(csn),
            other => panic!("{other:?}"),
        }
    }

    fn commit(self) -> Ran {
        let Self { mut session, t, mut writer, mut writes, .. } = self;
        let record = CommitRecord { tag: 1, bytes: &[] };
        let ended = session.commit(t, &mut writer, Some(record), &mut writes);
        let Ok(Ended::Committed { at, .. }) = ended else { panic!("{ended:?}") };
        Ran { _session: session, committed: Some(at) }
    }

    fn roll_back(self) -> Ran {
        let Self { mut session, t, mut writes, .. } = self;
        session.abort(t, &mut writes);
        Ran { _session: session, committed: None }
    }
}

/// Adds one to the row at its own snapshot, and rolls back where that would have to wait or the row was changed
/// since.
fn add(mut worker: Worker) -> (Lsn, Ran) {
    let snapshot = worker.begin_statement();
    let seen = worker.world.read(KEYS[0], snapshot).expect("the row is never deleted");
    match worker.write(KEYS[0], snapshot, seen + 1) {
        WriteRetries::Done(_) => (snapshot, worker.commit()),
        WriteRetries::Wait | WriteRetries::Changed(_) => (snapshot, worker.roll_back()),
    }
}

/// Runs two REPEATABLE READ transactions that add one to the same row, and a thread that moves the boundary.
fn first_updater_wins(form: Form) {
    let world = World::new(form);
    let [first, second] = [(); 2].map(|()| world.worker(Isolation::RepeatableRead));
    let first = thread::spawn(move || add(first));
    let scanner = thread::spawn({
        let world = Arc::clone(&world);
        move || {
            let _ = world.log().advance();
        }
    });
    let second = add(second);
    let updates = [first.join().unwrap(), second];
    scanner.join().unwrap();
    let commits: Vec<_> =
        updates.iter().filter_map(|(snapshot, ran)| ran.committed.map(|at| (at.start, *snapshot))).collect();
    let value = world.read(KEYS[0], Lsn::MAX).map(usize::from);
    assert_eq!(value, Some(commits.len()), "V6: an update was lost");
    if let [a, b] = commits[..] {
        let (first, second) = (a.min(b), a.max(b));
        assert!(first.0 < second.1 && second.1 <= second.0, "V6: the second had not seen the first");
    }
}

const LOST: &str = "V6: an update was lost";

/// Goal: the first updater wins and no update is lost. Method: two updaters of one row and a scanner (V6).
#[test]
fn loom_first_updater_wins() {
    let mistakes: &[Mistake] =
        &[("ROW_UNFINISHED_IGNORED", 3, LOST), ("ROW_CONFLICT_ABOVE", 3, LOST), ("ROW_HEAD_STORED", 3, LOST)];
    let (preemptions, floor) = bounds((2, 6_000), (3, 38_000));
    check("V6 base", || first_updater_wins(BASE), preemptions, floor, mistakes);
    let (preemptions, floor) = bounds((1, 1_100), (3, 60_000));
    check("V6 base, raised", || first_updater_wins(RAISED), preemptions, floor, mistakes);
    let (preemptions, floor) = bounds((1, 1_000), (3, 58_000));
    check("V6 help", || first_updater_wins(HELP), preemptions, floor, mistakes);
}

/// Runs a READ COMMITTED transaction that meets another's change and then begins its next statement, and a
/// committer without rows that moves the boundary.
fn next_snapshot() {
    let world = World::new(BASE);
    let (changer, _) = world.writer_of(KEYS[0]);
    let mut session = world.worker(Isolation::ReadCommitted);
    let changer = thread::spawn(move || changer.commit());
    let other = thread::spawn({
        let (world, mut writer) = (Arc::clone(&world), world.log().writer());
        move || {
            let at = world.log().append(&mut writer, |_| ());
            let _ = world.log().is_complete(at.end);
        }
    });
    let snapshot = session.begin_statement();
    if let WriteRetries::Changed(csn) = session.write(KEYS[0], snapshot, 2) {
        session.session.saw(csn);
        session.session.end_statement(&mut session.t);
        let next = session.begin_statement();
        assert!(csn < next, "V6b: the next snapshot misses a commit that the session acted on");
        assert_eq!(world.read(KEYS[0], next), Some(1), "V6b: a commit below the snapshot is not there");
    }
    changer.join().unwrap();
    other.join().unwrap();
}

/// Goal: a session never gets a snapshot below a commit that it acted on. Method: READ COMMITTED, its next snapshot
/// (V6b).
#[test]
fn loom_next_snapshot_shows_what_the_session_acted_on() {
    let (preemptions, floor) = bounds((2, 2_700), (3, 35_000));
    check("V6b", next_snapshot, preemptions, floor, &[("NO_SEEN_FLOOR_GATE", 2, "V6b: the next snapshot misses")]);
}

/// Where a reader's snapshot starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Newest,
    Settled,
}

/// Runs a committer that supersedes a version, a reader that may need it, and a collector that frees it.
fn horizon(form: Form, reader: Reader) {
    let world = World::new(form);
    let (committer, row) = world.writer_of(KEYS[0]);
    // Represents the memory of the superseded version.
    let memory = collie_sync::Arc::new(collie_sync::UnsafeCell::new(0));
    let committer = thread::spawn({
        let world = Arc::clone(&world);
        move || {
            let ran = committer.commit();
            world.log().advance();
            world.log().flush();
            world.confirm();
            ran
        }
    });
    let collector = thread::spawn({
        let (world, row, memory) = (Arc::clone(&world), Arc::clone(&row), collie_sync::Arc::clone(&memory));
        move || {
            world.txns.tick(Duration::ZERO);
            let live = world.txns.with_live(Clone::clone);
            if world.garbage.clean(&world.families, &live, Reach::Due) > 0 && row.version_count() == 1 {
                memory.with_mut(|_freed| ());
            }
        }
    });
    let held = match reader {
        Reader::Newest => world.txns.hold_newest(),
        Reader::Settled => world.txns.hold_settled(),
    }
    .expect("a free slot");
    let snapshot = held.snapshot();
    let seen = world.read(KEYS[0], snapshot);
    if seen == Some(0) {
        memory.with(|_read| ());
    }
    drop(held);
    let csn = committer.join().unwrap().committed.expect("it committed").start;
    collector.join().unwrap();
    assert_eq!(seen, Some(u8::from(csn < snapshot)), "V7: a version in view was freed");
}

/// The memory of a version was freed while a reader may have needed it.
const FREED: &str = "Causality violation";

/// Goal: no snapshot loses a version. Method: committer, reader and collector (V7).
#[test]
fn loom_horizon_keeps_every_version_in_view() {
    let (preemptions, floor) = bounds((2, 3_000), (4, 112_000));
    check(
        "V7",
        || horizon(BASE, Reader::Newest),
        preemptions,
        floor,
        &[
            ("LOAD_THEN_REGISTER", 2, FREED),
            ("NO_READER_FENCE", 2, FREED),
            ("NO_HORIZON_FENCE", 2, FREED),
            ("OWN_END", 2, FREED),
            ("OWN_LOAD", 2, FREED),
            ("UP_AFTER_HOLDERS", 2, FREED),
            ("FREED_AT_HORIZON", 2, FREED),
        ],
    );
    let (preemptions, floor) = bounds((2, 3_000), (3, 21_000));
    check("V7 raised", || horizon(RAISED, Reader::Newest), preemptions, floor, &[("FREED_AT_HORIZON", 2, FREED)]);
}

/// Goal: a snapshot at the quorum-durable position loses nothing either. Method: the same, with readers at durable
/// (V7D).
#[test]
fn loom_horizon_keeps_every_version_in_a_settled_view() {
    let (preemptions, floor) = bounds((2, 3_000), (3, 21_000));
    check("V7D", || horizon(DISK, Reader::Settled), preemptions, floor, &[("HORIZON_FROM_BOUNDARY", 2, FREED)]);
    // At first nothing is quorum-durable then, so no row is visible.
    const LOST: &str = "V7: a version in view was freed";
    let mistakes =
        [("HORIZON_FROM_BOUNDARY", 2, FREED), ("HORIZON_FROM_DURABLE", 2, FREED), ("COUNTED_FROM_NOTHING", 2, LOST)];
    check("V7D counted", || horizon(COUNTED, Reader::Settled), preemptions, floor, &mistakes);
}

/// Runs a committer that supersedes a version, and a collector that moves the boundary itself and may run at any
/// time.
fn cleaning() {
    let world = World::new(BASE);
    let (committer, row) = world.writer_of(KEYS[0]);
    let committer = thread::spawn(move || committer.commit());
    let collect = || {
        world.log().advance();
        world.txns.tick(Duration::ZERO);
        let live = world.txns.with_live(Clone::clone);
        let _ = world.garbage.clean(&world.families, &live, Reach::Due);
    };
    collect();
    committer.join().unwrap();
    collect();
    assert_eq!(row.version_count(), 1, "a superseded version is left for ever");
}

/// Goal: the collector leaves nothing that it will not look at again. Method: it meets a commit at every step.
#[test]
fn loom_cleaning_leaves_nothing_behind() {
    check("cleaning", cleaning, 20, 240, &[("QUEUED_BEFORE_STAMPED", 20, "left for ever")]);
}

/// Runs a synchronous committer that flushes, an asynchronous one, and a reader at the quorum-durable position that
/// may have received their replies. Their versions are words that get no stamp, as if stamping took longer than the
/// model runs.
fn settled(form: Form) {
    let world = World::new(form);
    let messages = Arc::new([(); 2].map(|()| AtomicU64::new(0)));
    let workers = [(); 2].map(|()| world.worker(Isolation::ReadCommitted));
    let versions = [0, 1].map(|number: usize| AtomicU64::new(Stamp::unfinished(workers[number].xid).raw()));
    let mut is_synchronous = true;
    let workers = workers.map(|worker| {
        let (world, messages, waits) = (Arc::clone(&world), Arc::clone(&messages), is_synchronous);
        is_synchronous = false;
        thread::spawn(move || {
            let ran = worker.commit();
            let at = ran.committed.expect("it committed");
            if waits {
                world.log().flush();
            } else {
                world.confirm();
            }
            let level = match waits {
                true if form.counts => CommitLevel::RemoteFlush,
                true => CommitLevel::Local,
                false => CommitLevel::Async,
            };
            let mut needs = AckCondition::committed(at.end, level, form.counts);
            let tell = || messages[usize::from(!waits)].store(at.start.get(), Ordering::Release);
            if needs.missing(&world.txns).is_none() {
                if mutant!("REPLY_BEFORE_ACKNOWLEDGED") {
                    tell();
                }
                needs.met(&world.txns);
                tell();
            }
            ran
        })
    });
    let heard = [0, 1].map(|number: usize| messages[number].load(Ordering::Acquire));
    let snapshot = world.txns.settled();
    let seen = [0, 1].map(|number: usize| world.txns.resolve(&versions[number]));
    let committed = workers.map(|worker| worker.join().unwrap().committed.expect("it committed").start);
    for (seen, csn) in seen.into_iter().zip(committed) {
        let is_visible = seen == Resolution::Committed(csn) && csn < snapshot;
        assert_eq!(is_visible, csn < snapshot, "V9: what is settled is not exact");
    }
    for message in heard {
        assert!(message < snapshot.get(), "V9: an acknowledged commit is not settled");
    }
}

/// Goal: the commits below `settled` are a prefix that holds every acknowledged commit. Method: a synchronous and
/// an asynchronous committer (V9). A relaxed load of the boundary before acknowledging shows at five preemptions
/// only, so only in the long form.
#[test]
fn loom_settled_snapshot_is_exact_and_holds_what_was_acknowledged() {
    const EXACT: &str = "V9: what is settled is not exact";
    let mut mistakes: Vec<Mistake> = vec![
        ("COMPLETE_UNSEEN", 2, EXACT),
        ("REPLY_BEFORE_ACKNOWLEDGED", 2, "V9: an acknowledged commit is not settled"),
        ("FLUSHED_BEYOND_BOUNDARY", 2, EXACT),
        ("ACK_FLOOR_MAX", 2, EXACT),
        ("ACK_FLOOR_LOAD", 2, EXACT),
    ];
    if is_long() {
        mistakes.push(("BOUNDARY_LOAD", 5, EXACT));
    }
    let (preemptions, floor) = bounds((2, 3_100), (3, 40_000));
    check("V9", || settled(DISK), preemptions, floor, &mistakes);
    let mistakes: Vec<Mistake> = vec![
        ("COMPLETE_UNSEEN", 2, EXACT),
        ("SETTLED_BEYOND_DURABLE", 2, EXACT),
        ("FLUSHED_BEFORE_SETTLED", 2, "V9: an acknowledged commit is not settled"),
    ];
    let (preemptions, floor) = bounds((2, 5_600), (3, 40_000));
    check("V9 counted", || settled(COUNTED), preemptions, floor, &mistakes);
}

/// Commits at a level that asks for replicas while another thread begins to count them and, without `asked`, to ask
/// for them: the reply may leave early, but every later snapshot at the quorum-durable position must show the
/// commit.
fn counted_late(asked: bool) {
    let world = World::new(Form { counts: true, ..DISK });
    let replicas = Arc::clone(world.txns.log().1.as_ref().expect("they are counted"));
    replicas.set_counted(false, || Lsn::ZERO);
    replicas.set_asked(asked);
    let worker = world.worker(Isolation::ReadCommitted);
    let counting = thread::spawn({
        let world = Arc::clone(&world);
        move || {
            replicas.set_counted(true, || world.log().durable());
            replicas.set_asked(true);
        }
    });
    let reader = thread::spawn({
        let world = Arc::clone(&world);
        move || {
            let first = world.txns.settled();
            (first, world.txns.settled())
        }
    });
    let ran = worker.commit();
    let at = ran.committed.expect("it committed");
    world.log().flush();
    let mut needs = AckCondition::committed(at.end, CommitLevel::RemoteFlush, true);
    if needs.missing(&world.txns).is_none() {
        let is_told = needs.met(&world.txns);
        assert!(is_told || !asked, "D3: a commit that nobody has confirmed looks confirmed");
        assert!(at.start < world.txns.settled(), "V9: an acknowledged commit is not settled");
    }
    counting.join().unwrap();
    let (first, second) = reader.join().unwrap();
    assert!(first <= second && second <= world.txns.settled(), "D1: what is settled falls");
}

/// Goal: counting may begin at any time: the quorum-durable position never falls, and commits that are acknowledged
/// during the change are below it. Method: a commit, the switch, and a reader.
#[test]
fn loom_counting_may_begin_at_any_time() {
    let (preemptions, floor) = bounds((2, 7_000), (3, 14_000));
    let mistakes = [
        ("FOLLOWED_UNSTORED", 2, "D1: what is settled falls"),
        ("UNCONFIRMED_UNACKNOWLEDGED", 2, "V9: an acknowledged commit is not settled"),
    ];
    check("counting", || counted_late(true), preemptions, floor, &mistakes);
    let mistakes = [
        ("FOLLOWED_UNSTORED", 2, "D1: what is settled falls"),
        ("UNASKED_UNACKNOWLEDGED", 2, "V9: an acknowledged commit is not settled"),
    ];
    check("asking", || counted_late(false), preemptions, floor, &mistakes);
}

/// Runs a waiter for replicas, and the event that wakes it: a confirmation, or the end of counting replicas.
fn waits_for_replicas(confirms: bool) {
    struct Flag(std::sync::atomic::AtomicBool);
    impl std::task::Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let (settled, end) = (Settled::new(), Lsn::new(8192));
    settled.set_counted(true, || Lsn::FIRST);
    let other = thread::spawn({
        let settled = Arc::clone(&settled);
        move || {
            if confirms {
                settled.confirm(Confirmed { received: end, durable: end, applied: end }, || end);
            } else {
                settled.set_counted(false, || Lsn::ZERO);
            }
        }
    });
    let flag = Arc::new(Flag(std::sync::atomic::AtomicBool::new(false)));
    let mut wait = ConfirmWait::new(&settled, Confirm::Flushed, end);
    let polled = wait.poll_until(&Arc::clone(&flag).into(), || settled.is_met(Confirm::Flushed, end));
    other.join().unwrap();
    assert!(polled.is_ready() || flag.0.load(std::sync::atomic::Ordering::Relaxed), "D4: parked and never woken");
}

/// Goal: no waiter sleeps past a confirmation (D4). Method: one waiter and the event that wakes it, in every
/// interleaving.
#[test]
fn loom_who_waits_for_replicas_is_woken() {
    const LOST: &str = "D4: parked and never woken";
    let mistakes = [("WOKEN_BEFORE_CONFIRMED", 3, LOST), ("NO_REGISTER_FENCE", 3, LOST), ("NO_WAKE_FENCE", 3, LOST)];
    check("woken", || waits_for_replicas(true), 3, 6, &mistakes);
    check("let go", || waits_for_replicas(false), 3, 8, &[("LET_GO_BEFORE_STORED", 3, LOST)]);
}
