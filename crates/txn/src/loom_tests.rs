//! Loom models of the product's own types: all or nothing, slot reuse, horizon, wake-up. Run with `--cfg loom`.
//!
//! Each correct model asserts a minimum number of executions, and each listed mistake must be caught by the intended
//! assertion. V2 and V8 are claims of `docs/design/commit-protocol.md` section 5; `docs/models.md` lists the models.
//! `LOOM_LONG=1` raises the bounds. Loom does not check load buffering, SeqCst accesses (fences are used where that
//! matters), and read-modify-writes that read an old value. The log follows the mutex protocol: one mutex around
//! number, publication and boundary; the engine's models use the lock-free log.

use crate::{
    Blocker, CommitRecord, Ended, Isolation, Options, Resolution, RowKey, RowLockRequest, Session, Stamp, Txns,
    Unstamped, Wait, WriteSet,
    desc::OwnerId,
    locks::cancel::{CancelHandle, CancelReason, Owner},
    locks::wait::{Waiter, Wakes},
    locks::waits::Locks,
    log::{Appended, CommitLog},
    snapshots::{Origin, Snapshots},
    xid_map::XidMap,
};
use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    model::{bounds, check},
    mutant, ord, thread,
};
use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

const CSN: u64 = 4096;
const LEN: u64 = 2;

/// A log by the mutex protocol: one mutex, a boundary, and a `durable` that equals the boundary unless it is raised by
/// hand.
#[derive(Debug)]
struct Oracle {
    next: Mutex<u64>,
    boundary: AtomicU64,
    durable: Option<AtomicU64>,
}

impl Oracle {
    fn new(own_durable: bool) -> Self {
        Self { next: Mutex::new(CSN), boundary: AtomicU64::new(CSN), durable: own_durable.then(|| AtomicU64::new(CSN)) }
    }
}

impl CommitLog for Oracle {
    type Writer = ();
    type Error = Infallible;

    fn append(&self, _: &mut (), _: u8, _: &[&[u8]]) -> Result<Appended, Infallible> {
        unreachable!("the models append commits only")
    }

    fn append_commit(&self, (): &mut (), _: u8, _: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, Infallible> {
        let mut next = self.next.lock();
        let (start, end) = (*next, *next + LEN);
        *next = end;
        if mutant!("PUBLISH_AFTER_BOUNDARY") {
            self.boundary.store(end, Ordering::Release);
            publish(Lsn::new(start));
        } else {
            publish(Lsn::new(start));
            self.boundary.store(end, ord!("BOUNDARY_STORE", Release));
        }
        Ok(Appended { start: Lsn::new(start), end: Lsn::new(end) })
    }

    fn boundary(&self) -> Lsn {
        Lsn::new(self.boundary.load(ord!("BOUNDARY_LOAD", Acquire)))
    }

    fn durable(&self) -> Lsn {
        match &self.durable {
            Some(durable) => Lsn::new(durable.load(Ordering::Acquire)),
            None => self.boundary(),
        }
    }
}

struct Pair(Arc<[AtomicU64; 2]>);

impl WriteSet for Pair {
    fn stamp(&mut self, csn: Lsn) {
        self.0.iter().for_each(|stamp| stamp.store(Stamp::committed(csn).raw(), Ordering::Release));
    }

    fn undo_to(&mut self, _: u64) {
        self.0.iter().for_each(|stamp| stamp.store(Stamp::ABORTED.raw(), Ordering::Release));
    }

    fn position(&self) -> u64 {
        2
    }
}

struct Version(Arc<AtomicU64>);

impl WriteSet for Version {
    fn stamp(&mut self, csn: Lsn) {
        self.0.store(Stamp::committed(csn).raw(), Ordering::Release);
    }

    fn undo_to(&mut self, _: u64) {
        self.0.store(Stamp::ABORTED.raw(), Ordering::Release);
    }

    fn position(&self) -> u64 {
        1
    }
}

/// A version that a tick stamps.
struct HandedOver(Version);

impl WriteSet for HandedOver {
    fn stamp(&mut self, _: Lsn) {
        unreachable!("handed over")
    }

    fn hand_over(&mut self) -> Option<Unstamped> {
        let mut version = Version(Arc::clone(&self.0.0));
        Some(Unstamped::new(1, move |csn| version.stamp(csn)))
    }

    fn undo_to(&mut self, position: u64) {
        self.0.undo_to(position);
    }

    fn position(&self) -> u64 {
        1
    }
}

fn is_visible(resolution: Resolution, snapshot: Lsn) -> bool {
    match resolution {
        Resolution::Committed(csn) if mutant!("VISIBLE_AT_ITS_OWN_CSN") => csn <= snapshot,
        Resolution::Committed(csn) => csn < snapshot,
        Resolution::Aborted | Resolution::InProgress(_) => false,
    }
}

fn options(xid_slots: usize) -> Options {
    Options { xid_slots, sessions_max: 3, first_xid: Xid::new(1) }
}

/// Two sessions commit one pair each; the reader reads the first pair at one snapshot, twice.
fn all_or_nothing() {
    let txns = Txns::new(Oracle::new(false), options(2));
    let mut pairs = Vec::new();
    let committers: Vec<_> = (0..2)
        .map(|_| {
            let mut session = txns.session().unwrap();
            let mut t = session.begin(Isolation::ReadCommitted, false);
            let stamp = Stamp::unfinished(session.assign_xid(&mut t).unwrap()).raw();
            let pair = Arc::new([AtomicU64::new(stamp), AtomicU64::new(stamp)]);
            pairs.push(Arc::clone(&pair));
            thread::spawn(move || {
                let record = CommitRecord { tag: 1, bytes: &[] };
                drop(session.commit(t, &mut (), Some(record), &mut Pair(pair)).unwrap());
            })
        })
        .collect();
    let held = txns.hold_newest().unwrap();
    let snapshot = held.snapshot();
    let first = is_visible(txns.resolve(&pairs[0][0]), snapshot);
    let second = is_visible(txns.resolve(&pairs[0][1]), snapshot);
    assert_eq!(first, second, "V2: half a commit");
    assert_eq!(first, is_visible(txns.resolve(&pairs[0][0]), snapshot), "V2: the answer changed inside a snapshot");
    drop(held);
    committers.into_iter().for_each(|committer| committer.join().unwrap());
}

/// Goal: a snapshot sees all of a commit or nothing, and keeps its answer. Method: two committers and a reader.
#[test]
fn loom_snapshot_sees_all_or_none_of_a_commit() {
    const V2: &str = "V2: ";
    check(
        "all or nothing",
        all_or_nothing,
        2,
        700,
        &[
            ("PUBLISH_AFTER_BOUNDARY", 2, V2),
            ("BOUNDARY_STORE", 2, V2),
            ("BOUNDARY_LOAD", 2, V2),
            ("VISIBLE_AT_ITS_OWN_CSN", 2, V2),
        ],
    );
}

/// The owner of xid 1 commits; another owner gets xid 2 in the same slot (a ring of 1), which retires or moves xid 1; a
/// reader resolves a version of xid 1.
fn slot_reuse<W: WriteSet + Send + 'static>(writes: fn(Version) -> W, then: fn(&Txns<Oracle>)) {
    let txns = Txns::new(Oracle::new(false), options(1));
    let mut session = txns.session().unwrap();
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let xid = session.assign_xid(&mut t).unwrap();
    let stamp = Arc::new(AtomicU64::new(Stamp::unfinished(xid).raw()));

    let owner = thread::spawn({
        let mut writes = writes(Version(Arc::clone(&stamp)));
        move || {
            let record = CommitRecord { tag: 1, bytes: &[] };
            drop(session.commit(t, &mut (), Some(record), &mut writes).unwrap());
            then(session.txns());
            session
        }
    });
    let stranger = thread::spawn({
        let txns = Arc::clone(&txns);
        move || {
            let second = txns.map.allocate(OwnerId(2));
            let stamp = AtomicU64::new(Stamp::unfinished(second.xid).raw());
            assert_eq!(txns.resolve(&stamp), Resolution::InProgress(second.xid), "V8: committed by a stranger");
            txns.map.publish(&second, Lsn::new(CSN + 100));
            let end = Resolution::Committed(Lsn::new(CSN + 100));
            assert_eq!(txns.resolve(&stamp), end, "V8: overwritten by a stranger");
        }
    });
    let snapshot = txns.log.boundary();
    let seen = txns.resolve(&stamp);
    if let Resolution::Committed(csn) = seen {
        assert_eq!(csn, Lsn::new(CSN), "V8: the end of a stranger");
        assert_eq!(txns.resolve(&stamp), seen, "V8: a commit was taken back");
    }
    if snapshot.get() > CSN {
        assert_eq!(seen, Resolution::Committed(Lsn::new(CSN)), "V8: lost commit");
    }
    drop(owner.join().unwrap());
    stranger.join().unwrap();
}

/// Goal: an answer is never that of another transaction, however a slot is reused. Method: a ring of one slot, reused
/// while its owner commits and a reader asks (V8).
#[test]
fn loom_slot_answer_is_never_a_strangers() {
    const TAKEN_BACK: &str = "V8: a commit was taken back";
    const IN_NO_MAP: &str = "is in no map and its version is not stamped";
    let (preemptions, floor) = bounds((3, 9_000), (4, 74_000));
    check(
        "V8",
        || slot_reuse(|version| version, |_| ()),
        preemptions,
        floor,
        &[
            ("FLOOR_BEFORE_SLOT", 3, TAKEN_BACK),
            ("DONE_BEFORE_STAMPED", 3, IN_NO_MAP),
            ("DENSE_PLAIN_STORE", 3, "V8: committed by a stranger"),
            ("SPARSE_AFTER_MOVE", 3, IN_NO_MAP),
            ("FLOOR_BEFORE_MOVE", 3, IN_NO_MAP),
            ("STATE_AFTER_DENSE", 3, TAKEN_BACK),
            ("SLOT_LOAD", 3, TAKEN_BACK),
            ("IN_PROGRESS_WITHOUT_XID", 3, "V8: overwritten by a stranger"),
        ],
    );
}

/// Goal: the same for a commit that is done long before it is stamped. Method: as above; the version is handed over,
/// and the owner's thread continues as the one that ticks.
#[test]
fn loom_slot_answers_for_versions_handed_over() {
    const IN_NO_MAP: &str = "is in no map and its version is not stamped";
    let (preemptions, floor) = bounds((2, 1_000), (3, 12_000));
    check(
        "V8, handed over",
        || slot_reuse(HandedOver, |txns| _ = txns.stamp_waiting()),
        preemptions,
        floor,
        &[
            ("STAMPED_WHEN_DONE", 2, IN_NO_MAP),
            ("FINISHED_BEFORE_STAMPED", 2, IN_NO_MAP),
            ("DESC_STAMPED", 2, IN_NO_MAP),
        ],
    );
}

/// Two threads get xids in one slot, one after the other; each asks for its own.
fn two_allocators_of_one_slot() {
    let map = Arc::new(XidMap::new(1, Xid::new(1)));
    let allocate = |map: &XidMap, owner: u64| {
        let desc = map.allocate(OwnerId(owner));
        let stamp = AtomicU64::new(Stamp::unfinished(desc.xid).raw());
        let seen = map.resolve(|| Stamp::from_raw(stamp.load(Ordering::Acquire)));
        assert_eq!(seen, Resolution::InProgress(desc.xid), "M5: the slot is another's");
        desc
    };
    let other = thread::spawn({
        let map = Arc::clone(&map);
        move || drop(allocate(&map, 1))
    });
    let desc = allocate(&map, 2);
    map.publish(&desc, Lsn::new(CSN));
    let stamp = AtomicU64::new(Stamp::unfinished(desc.xid).raw());
    let seen = map.resolve(|| Stamp::from_raw(stamp.load(Ordering::Acquire)));
    assert_eq!(seen, Resolution::Committed(Lsn::new(CSN)), "M5: the slot is another's");
    other.join().unwrap();
}

/// Goal: a slot that is lapped at once is never given back to its previous owner. Method: a ring of one, two
/// allocators.
#[test]
fn loom_slot_is_taken_in_order() {
    check("two allocators", two_allocators_of_one_slot, 3, 50, &[("SLOT_TAKEN_OUTSIDE", 3, "slot")]);
}

/// A committer supersedes a base version; a reader that does not see the commit reads the base version; a collector
/// frees it if the horizon allows.
fn horizon_of(from: Origin, own_durable: bool) {
    let log = Arc::new(Oracle::new(own_durable));
    let map = Arc::new(XidMap::new(2, Xid::new(1)));
    let snapshots = Arc::new(Snapshots::new(1));
    let (slot, _) = snapshots.take_slot(true).unwrap();
    let desc = map.allocate(OwnerId(1));
    let stamp = Arc::new(AtomicU64::new(Stamp::unfinished(desc.xid).raw()));
    let base = collie_sync::Arc::new(collie_sync::UnsafeCell::new(7));
    let resolve = |map: &XidMap, stamp: &AtomicU64| map.resolve(|| Stamp::from_raw(stamp.load(Ordering::Acquire)));

    let committer = thread::spawn({
        let (log, map) = (Arc::clone(&log), Arc::clone(&map));
        move || {
            let at = log.append_commit(&mut (), 1, &[], |start| map.publish(&desc, start)).unwrap();
            if let Some(durable) = &log.durable {
                durable.store(at.end.get(), Ordering::Release);
            }
        }
    });
    let collector = thread::spawn({
        let (log, map, snapshots, stamp) =
            (Arc::clone(&log), Arc::clone(&map), Arc::clone(&snapshots), Arc::clone(&stamp));
        let base = collie_sync::Arc::clone(&base);
        move || {
            let horizon = snapshots.advance(&*log, Duration::ZERO);
            if is_visible(resolve(&map, &stamp), horizon) {
                base.with_mut(|_freed| ());
            }
        }
    });
    let snapshot = snapshots.begin(slot, from, &*log);
    if !is_visible(resolve(&map, &stamp), snapshot) {
        base.with(|_read| ());
    }
    snapshots.end(slot);
    committer.join().unwrap();
    collector.join().unwrap();
}

/// Loom's message for a version that is freed while a reader may need it.
const FREED: &str = "Causality violation";

/// Goal: no snapshot of the newest state loses a version that it needs. Method: committer, reader and collector; the
/// version is in a cell that loom watches.
#[test]
fn loom_horizon_keeps_what_a_snapshot_can_read() {
    check(
        "horizon",
        || horizon_of(Origin::Boundary, false),
        3,
        2_300,
        &[
            ("LOAD_THEN_REGISTER", 3, FREED),
            ("NO_READER_FENCE", 3, FREED),
            ("NO_HORIZON_FENCE", 3, FREED),
            ("UP_AFTER_HOLDERS", 3, FREED),
            ("OWN_END", 3, FREED),
            ("OWN_LOAD", 3, FREED),
        ],
    );
}

/// Goal: a snapshot of the settled state loses no version either. Method: as above, with durability behind the
/// boundary.
#[test]
fn loom_horizon_keeps_what_a_settled_snapshot_can_read() {
    check(
        "horizon, settled",
        || horizon_of(Origin::Settled, true),
        3,
        2_300,
        &[("HORIZON_FROM_BOUNDARY", 3, FREED), ("NO_READER_FENCE", 3, FREED), ("OWN_END", 3, FREED)],
    );
}

/// Three versions: the first is already superseded, the second by a concurrent commit. An old holder reads the first; a
/// reader begins at one of the two newer; a collector lists the live snapshots and frees what lies between them.
fn interval_list() {
    const SECOND: u64 = CSN + LEN;
    let log = Arc::new(Oracle::new(false));
    let snapshots = Arc::new(Snapshots::new(2));
    let (old, _) = snapshots.take_slot(true).unwrap();
    let (slot, _) = snapshots.take_slot(true).unwrap();
    let versions: [_; 2] = std::array::from_fn(|number| collie_sync::Arc::new(collie_sync::UnsafeCell::new(number)));
    assert_eq!(snapshots.begin(old, Origin::Boundary, &*log), Lsn::new(CSN));
    log.append_commit(&mut (), 1, &[], |_| ()).unwrap();

    let committer = thread::spawn({
        let log = Arc::clone(&log);
        move || {
            let at = log.append_commit(&mut (), 1, &[], |_| ()).unwrap();
            assert_eq!(at.start, Lsn::new(SECOND));
        }
    });
    let collector = thread::spawn({
        let (log, snapshots) = (Arc::clone(&log), Arc::clone(&snapshots));
        let versions = versions.each_ref().map(collie_sync::Arc::clone);
        move || {
            snapshots.advance(&*log, Duration::ZERO);
            let superseded = log.boundary() > Lsn::new(SECOND);
            snapshots.with_live(|live| {
                assert!(live.lowest_reader(Lsn::new(CSN - 1), Lsn::new(CSN)).is_some(), "an old holder reads it");
                if superseded && live.lowest_reader(Lsn::new(CSN), Lsn::new(SECOND)).is_none() {
                    versions[1].with_mut(|_freed| ());
                }
            });
        }
    });
    let snapshot = snapshots.begin(slot, Origin::Boundary, &*log);
    if snapshot <= Lsn::new(SECOND) {
        versions[1].with(|_read| ());
    }
    snapshots.end(slot);
    versions[0].with(|_read| ());
    committer.join().unwrap();
    collector.join().unwrap();
    snapshots.end(old);
}

/// Goal: no snapshot needs a version that is freed between live snapshots, not even one that is just beginning. Method:
/// see the model; the versions are in cells that loom watches.
#[test]
fn loom_version_between_snapshots_is_freed_for_nobody_only() {
    check(
        "live snapshots",
        interval_list,
        3,
        1_300,
        &[
            ("LOAD_THEN_REGISTER", 3, FREED),
            ("NO_READER_FENCE", 3, FREED),
            ("NO_HORIZON_FENCE", 3, FREED),
            ("UP_AFTER_HOLDERS", 3, FREED),
            ("REGISTERING_IGNORED", 3, FREED),
            ("OWN_END", 3, FREED),
            ("OWN_LOAD", 3, FREED),
        ],
    );
}

/// One thread cancels a snapshot and lists the live ones, another cuts what the list leaves out from a chain, the
/// reader follows the chain and checks its word.
fn cancelled_reader() {
    let log = Arc::new(Oracle::new(false));
    let snapshots = Arc::new(Snapshots::new(1));
    let (slot, _) = snapshots.take_slot(true).unwrap();
    snapshots.begin(slot, Origin::Boundary, &*log);
    log.append_commit(&mut (), 1, &[], |_| ()).unwrap();
    snapshots.advance(&*log, Duration::ZERO);
    let link = Arc::new(AtomicU64::new(1)); // from the newest version to the one that the snapshot reads

    let canceller = thread::spawn({
        let (log, snapshots) = (Arc::clone(&log), Arc::clone(&snapshots));
        move || {
            let held = snapshots.all(Duration::ZERO);
            if mutant!("LISTED_BEFORE_CANCELLED") {
                let (up, none) = (log.durable(), Vec::new());
                snapshots.replace_live(collie_base::LiveSnapshots::new(up, none));
            }
            assert!(held.iter().all(|held| snapshots.cancel(held, 7)), "nobody else changes the word");
            snapshots.advance(&*log, Duration::ZERO);
        }
    });
    let pruner = thread::spawn({
        let (snapshots, link) = (Arc::clone(&snapshots), Arc::clone(&link));
        move || {
            if snapshots.with_live(|live| live.lowest_reader(Lsn::new(CSN - 1), Lsn::new(CSN)).is_none()) {
                link.store(0, Ordering::Release); // as the pruner of a row does
            }
        }
    });
    let found = link.load(Ordering::Acquire) == 1;
    assert!(found || snapshots.is_cancelled(slot), "a version is missing for a snapshot in force");
    canceller.join().unwrap();
    pruner.join().unwrap();
    assert!(snapshots.is_cancelled(slot) && snapshots.why_cancelled(slot).old_version_bytes == 7);
    snapshots.begin(slot, Origin::Boundary, &*log);
    assert!(!snapshots.is_cancelled(slot), "the owner clears it");
}

/// Goal: a reader that misses a version because its snapshot was cancelled sees the cancellation. Method: see the
/// model; mistakes are a list made before the exchange, and one read without an ordering. Only the model of `Published`
/// shows that it is published with one: the fence at the start of `advance` alone would order the exchange.
#[test]
fn loom_reader_that_misses_a_version_sees_that_it_was_cancelled() {
    const MISSED: &str = "a version is missing for a snapshot in force";
    let mistakes = [("LISTED_BEFORE_CANCELLED", 3, MISSED), ("PUBLISHED_LOAD", 3, MISSED)];
    check("cancelled snapshot", cancelled_reader, 3, 55, &mistakes);
}

/// Two sessions wait for a row of a third, which commits concurrently; the woken one hands on.
fn wake_up() {
    let txns = Txns::new(Oracle::new(false), options(2));
    let mut holder = txns.session().unwrap();
    let mut t = holder.begin(Isolation::ReadCommitted, false);
    let xid = holder.assign_xid(&mut t).unwrap();
    let join_queue = move |mut session: Session<Oracle>| {
        let row = RowKey::new(CfId::new(1), b"row");
        let blocker = Blocker::Row(RowLockRequest { row, holder: xid, strength: LockStrength::Update });
        let _t = session.begin(Isolation::ReadCommitted, false);
        (session.wait(&blocker), session)
    };
    let (first, second) = (txns.session().unwrap(), txns.session().unwrap());
    let first = thread::spawn(move || join_queue(first));
    let committer = thread::spawn(move || {
        let record = CommitRecord { tag: 1, bytes: &[] };
        drop(holder.commit(t, &mut (), Some(record), &mut ()).unwrap());
    });
    let second = join_queue(second);
    let first = first.join().unwrap();
    committer.join().unwrap();
    // Polled after the end, so that a lost wake-up is a failed assertion and not a thread that sleeps forever.
    let is_woken = |wait: &mut Wait| match Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome == Ok(()),
        Poll::Pending => false,
    };
    let mut waits = [first, second];
    let woken = [0, 1].map(|i| is_woken(&mut waits[i].0));
    assert!(woken[0] || woken[1], "nobody was woken");
    for (_, (_, session)) in woken.iter().zip(&mut waits).filter(|(woken, _)| **woken) {
        session.leave_queue();
    }
    for (_, (wait, _)) in woken.iter().zip(&mut waits).filter(|(woken, _)| !**woken) {
        assert!(is_woken(wait), "the one that was woken did not hand on");
    }
}

/// Goal: no wake-up is lost between look and park, or between two waiters. Method: two waiters and the holder; each
/// order of joining the queue and ending.
#[test]
fn loom_waiter_never_sleeps_through_the_end_of_its_holder() {
    check(
        "row queue",
        wake_up,
        3,
        100,
        &[("PARK_AFTER_THE_END", 3, "did not hand on"), ("LEAVE_WITHOUT_HANDING_ON", 3, "did not hand on")],
    );
}

/// A session ends a transaction and begins another, while another thread asks when the first one wrote.
fn first_write() {
    let txns = Txns::new(Oracle::new(false), options(2));
    let mut session = txns.session().unwrap();
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let xid = session.assign_xid_at(&mut t, || 100).unwrap();
    let owner = thread::spawn(move || {
        session.abort(t, &mut ());
        let mut t = session.begin(Isolation::ReadCommitted, false);
        session.assign_xid_at(&mut t, || 200).unwrap();
        session.abort(t, &mut ());
    });
    let told = txns.first_write(xid);
    assert!(matches!(told, None | Some(100)), "a stranger's moment: {told:?}");
    owner.join().unwrap();
    assert_eq!(txns.first_write(xid), None, "it has ended");
}

/// Goal: the time of one transaction's first write is never reported for another. Method: a session's next transaction,
/// concurrent with a query for the previous one.
#[test]
fn loom_first_write_is_never_a_strangers() {
    const STRANGER: &str = "a stranger's moment";
    check(
        "first write",
        first_write,
        3,
        20,
        &[
            ("FIRST_WRITE_STORE", 3, STRANGER),
            ("FIRST_WRITE_LOAD", 3, STRANGER),
            ("DONE_BEFORE_FIRST_WRITE", 3, STRANGER),
        ],
    );
}

/// One row lock, released by an undo.
struct RowLock(Arc<AtomicU64>);

impl WriteSet for RowLock {
    fn stamp(&mut self, _: Lsn) {
        unreachable!("the model rolls back")
    }

    fn undo_to(&mut self, _: u64) {
        self.0.store(0, Ordering::Release);
    }

    fn position(&self) -> u64 {
        1
    }
}

/// Two sessions find a row locked and wait, while the holder rolls back to a savepoint and continues.
fn rollback_to_a_savepoint() {
    let txns = Txns::new(Oracle::new(false), options(2));
    let mut holder = txns.session().unwrap();
    let mut t = holder.begin(Isolation::ReadCommitted, false);
    let mark = t.savepoint(&());
    let xid = holder.assign_xid(&mut t).unwrap();
    let locked = Arc::new(AtomicU64::new(1));
    let join_queue = {
        let locked = Arc::clone(&locked);
        move |mut session: Session<Oracle>| {
            let _t = session.begin(Isolation::ReadCommitted, false);
            let row = RowKey::new(CfId::new(1), b"row");
            let blocker = Blocker::Row(RowLockRequest { row, holder: xid, strength: LockStrength::Update });
            (session.wait_while(&blocker, || locked.load(Ordering::Acquire) == 1), session)
        }
    };
    let (first, second) = (txns.session().unwrap(), txns.session().unwrap());
    let first = thread::spawn({
        let join_queue = join_queue.clone();
        move || join_queue(first)
    });
    let roller = thread::spawn(move || {
        holder.rollback_to(&mut t, mark, &mut RowLock(locked));
        (holder, t)
    });
    let mut waits = [join_queue(second), first.join().unwrap()];
    let (mut holder, t) = roller.join().unwrap();
    let is_woken = |wait: &mut Wait| Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())).is_ready();
    let woken = [0, 1].map(|i| is_woken(&mut waits[i].0));
    assert!(woken[0] || woken[1], "a wake-up was lost: the row is free, its holder goes on, and both sleep");
    for (_, (_, session)) in woken.iter().zip(&mut waits).filter(|(woken, _)| **woken) {
        session.leave_queue();
    }
    for (_, (wait, _)) in woken.iter().zip(&mut waits).filter(|(woken, _)| !**woken) {
        assert!(is_woken(wait), "a wake-up was lost: the one that was woken did not hand on");
    }
    drop(waits);
    holder.abort(t, &mut ());
}

/// Goal: no waiter sleeps for a lock that a rollback to a savepoint released. Method: two waiters, at every point of
/// the rollback; the holder continues. Without the second look, or with the check for waiters before the undo, one
/// sleeps.
#[test]
fn loom_waiter_never_sleeps_through_a_rollback_to_a_savepoint() {
    const LOST: &str = "a wake-up was lost";
    check(
        "rollback to a savepoint",
        rollback_to_a_savepoint,
        3,
        600,
        &[
            ("NO_SECOND_LOOK", 3, LOST),
            ("WAITERS_BEFORE_UNDO", 3, LOST),
            ("DESC_ANNOUNCE", 3, LOST),
            ("DESC_WAITED", 3, LOST),
        ],
    );
}

/// Two transactions of write skew: each has read what the other writes, at one snapshot. The write of each is there,
/// unfinished, from the start.
fn write_skew() {
    let txns = Txns::new(Oracle::new(false), options(2));
    let mut both: Vec<_> = (0..2)
        .map(|_| {
            let mut session = txns.session().unwrap();
            let mut t = session.begin(Isolation::Serializable, false);
            let stamp = Stamp::unfinished(session.assign_xid(&mut t).unwrap()).raw();
            (session, t, Arc::new([AtomicU64::new(stamp), AtomicU64::new(stamp)]))
        })
        .collect();
    let written = [0, 1].map(|i: usize| Arc::clone(&both[i].2));
    let commit = |(mut session, t, own): (Session<Oracle>, _, _), read: Arc<[AtomicU64; 2]>| {
        let record = CommitRecord { tag: 1, bytes: &[] };
        let txns = Arc::clone(session.txns());
        let ended = session.commit_validated(t, &mut (), record, &mut Pair(own), || match txns.resolve(&read[0]) {
            Resolution::Committed(csn) => Err(csn),
            Resolution::Aborted | Resolution::InProgress(_) => Ok(()),
        });
        matches!(ended.unwrap(), Ended::Committed { .. })
    };
    let [first_wrote, second_wrote] = written;
    let second = both.pop().unwrap();
    let second = thread::spawn(move || commit(second, first_wrote));
    let first = commit(both.pop().unwrap(), second_wrote);
    let second = second.join().unwrap();
    assert!(!(first && second), "write skew: both committed");
    assert!(first || second, "the first to validate met nobody");
}

/// Goal: of two transactions that each read what the other wrote, exactly one commits. Method: both concurrently, each
/// order of validation, number, publication and end.
#[test]
fn loom_validation_meets_every_earlier_commit() {
    let meant = "write skew: both committed";
    check(
        "validation",
        write_skew,
        3,
        20,
        &[("SERIAL_RELEASED_BEFORE_PUBLICATION", 3, meant), ("SERIAL_NOT_HELD", 3, meant)],
    );
}

/// A waker that counts.
#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }
}

fn cancel_handle() -> CancelHandle {
    CancelHandle(Arc::new(Owner::new(Arc::new(Locks::new(Arc::new(XidMap::new(2, Xid::new(1))))), 0)))
}

/// A session begins a lock wait and waits for its client, while another thread cancels it.
fn cancel_beside_a_wait() {
    let handle = cancel_handle();
    let canceller = thread::spawn({
        let handle = handle.clone();
        move || handle.cancel()
    });
    let (waiter, woken, mut wakes) = (Arc::new(Waiter::default()), Arc::new(Woken::default()), Wakes::default());
    handle.0.begin_wait(&waiter, &mut wakes);
    let polled = handle.poll_cancelled(&mut Context::from_waker(&Waker::from(Arc::clone(&woken))));
    wakes.run();
    canceller.join().unwrap();
    assert!(!waiter.is_open(), "a cancelled session waits for its lock");
    let woken = woken.0.load(std::sync::atomic::Ordering::Relaxed);
    assert!(polled.is_ready() || woken == 1, "a cancelled session waits for its client");
}

/// The time limit of a statement expires while the next statement begins to wait.
fn late_limit() {
    let handle = cancel_handle();
    let generation = handle.generation();
    let timer = thread::spawn({
        let handle = handle.clone();
        move || handle.cancel_in(generation, CancelReason::StatementTimeout)
    });
    handle.settle();
    let (waiter, mut wakes) = (Arc::new(Waiter::default()), Wakes::default());
    handle.0.begin_wait(&waiter, &mut wakes);
    wakes.run();
    let _ = timer.join().unwrap();
    assert!(waiter.is_open(), "N2: the next statement was ended");
    assert_eq!(handle.reason(), None, "N2: the next statement was ended");
}

/// Goal: a cancel ends a wait that is beginning, for a lock and for a client. Method: at every point of both.
#[test]
fn loom_cancel_reaches_a_wait_that_begins() {
    check(
        "cancel",
        cancel_beside_a_wait,
        3,
        10,
        &[("CANCEL_LOOKED_FOR_FIRST", 3, "a cancelled session waits for its")],
    );
}

/// Goal: a limit that expires late ends nothing of the next statement. Method: at every point of its beginning.
#[test]
fn loom_late_limit_spares_the_next_statement() {
    check("late limit", late_limit, 3, 10, &[("GENERATION_NOT_ASKED_AGAIN", 3, "N2: the next statement was ended")]);
}
