//! Tests of ids, states, snapshots, commit, abort and savepoints over the test log.

use crate::{
    Behind, Blocker, CommitLog, CommitRecord, Ended, Isolation, Options, Resolution, RowKey, RowLockRequest, Session,
    Stamp, Start, StatementKind, Transaction, TxnError, Txns, Unstamped, WriteSet, test_log::TestLog,
};
use collie_base::{CfId, LockStrength, Lsn, Xid};
use proptest::prelude::*;
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::Duration;

const RECORD: Option<CommitRecord<'static>> = Some(CommitRecord { tag: 1, bytes: b"record" });

fn txns(xid_slots: usize) -> Arc<Txns<TestLog>> {
    Txns::new(TestLog::new(), Options { xid_slots, sessions_max: 8, first_xid: Xid::new(1) })
}

/// A write set of stamps only; the test keeps every version that was written.
#[derive(Default)]
struct Stamps(Vec<Arc<AtomicU64>>);

/// A write set that hands all its versions over, so that a commit stamps none itself.
#[derive(Default)]
struct ManyStamps(Stamps);

impl WriteSet for ManyStamps {
    fn stamp(&mut self, _: Lsn) {
        unreachable!("handed over");
    }

    fn hand_over(&mut self) -> Option<Unstamped> {
        let mut stamps = Stamps(std::mem::take(&mut self.0.0));
        Some(Unstamped::new(stamps.position(), move |csn| stamps.stamp(csn)))
    }

    fn undo_to(&mut self, position: u64) {
        self.0.undo_to(position);
    }

    fn position(&self) -> u64 {
        self.0.position()
    }
}

impl Stamps {
    fn write(&mut self, session: &mut Session<TestLog>, t: &mut Transaction) -> Arc<AtomicU64> {
        let xid = session.assign_xid(t).unwrap();
        let stamp = Arc::new(AtomicU64::new(Stamp::unfinished(xid).raw()));
        self.0.push(Arc::clone(&stamp));
        stamp
    }
}

impl WriteSet for Stamps {
    fn stamp(&mut self, csn: Lsn) {
        self.0.iter().for_each(|stamp| stamp.store(Stamp::committed(csn).raw(), Ordering::Release));
    }

    fn undo_to(&mut self, position: u64) {
        for stamp in self.0.drain(usize::try_from(position).unwrap()..).rev() {
            stamp.store(Stamp::ABORTED.raw(), Ordering::Release);
        }
    }

    fn position(&self) -> u64 {
        self.0.len() as u64
    }
}

fn start(session: &mut Session<TestLog>, t: &mut Transaction, kind: StatementKind) -> Lsn {
    match session.begin_statement(t, kind).unwrap() {
        Start::Ready(snapshot) => snapshot,
        Start::Wait(behind) => panic!("unexpected wait: {behind:?}"),
    }
}

fn commit_one(session: &mut Session<TestLog>) -> (Arc<AtomicU64>, Lsn, Lsn) {
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let mut writes = Stamps::default();
    let stamp = writes.write(session, &mut t);
    match session.commit(t, &mut (), RECORD, &mut writes).unwrap() {
        Ended::Committed { at, .. } => (stamp, at.start, at.end),
        other => panic!("it had a record: {other:?}"),
    }
}

/// Goal: a version is in progress, then has its commit's position or is aborted. Method: resolve before and after.
#[test]
fn version_resolves_to_the_end_of_its_transaction() {
    let txns = txns(8);
    let mut session = txns.session().unwrap();
    for commits in [true, false] {
        let mut t = session.begin(Isolation::ReadCommitted, false);
        let mut writes = Stamps::default();
        let stamp = writes.write(&mut session, &mut t);
        assert_eq!(txns.resolve(&stamp), Resolution::InProgress(t.xid().unwrap()));
        if commits {
            let Ended::Committed { at, .. } = session.commit(t, &mut (), RECORD, &mut writes).unwrap() else {
                panic!("it had a record")
            };
            assert_eq!(txns.resolve(&stamp), Resolution::Committed(at.start));
            assert!(txns.log().boundary() >= at.end);
        } else {
            session.abort(t, &mut writes);
            assert_eq!(txns.resolve(&stamp), Resolution::Aborted);
        }
    }
}

/// Goal: if the log refuses the record, the transaction is aborted, not half committed. Method: fail the append,
/// resolve.
#[test]
fn refused_commit_record_rolls_the_transaction_back() {
    let txns = txns(8);
    let mut session = txns.session().unwrap();
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let mut writes = Stamps::default();
    let stamp = writes.write(&mut session, &mut t);
    txns.log().fails.store(true, Ordering::Relaxed);
    assert!(session.commit(t, &mut (), RECORD, &mut writes).is_err());
    assert_eq!(txns.resolve(&stamp), Resolution::Aborted);
    txns.tick(Duration::ZERO);
    assert_eq!(txns.floor_xid(), txns.next_xid());
}

/// Goal: transactions without a record leave no trace in the log. Method: compare the boundary.
#[test]
fn lock_only_transaction_ends_without_a_position() {
    let txns = txns(8);
    let mut session = txns.session().unwrap();
    let before = txns.log().boundary();
    let mut t = session.begin(Isolation::RepeatableRead, false);
    let mut writes = Stamps::default();
    let stamp = writes.write(&mut session, &mut t);
    assert!(matches!(session.commit(t, &mut (), None, &mut writes).unwrap(), Ended::Nothing));
    assert_eq!(txns.resolve(&stamp), Resolution::Aborted);
    assert_eq!(txns.log().boundary(), before);
}

/// Goal: each level and kind of statement takes the snapshot that the design specifies. Method: one commit between the
/// statements, durable or not.
#[test]
fn snapshot_follows_isolation_level_and_kind_of_statement() {
    use Isolation::{ReadCommitted, RepeatableRead};
    use StatementKind::{ReadOnly, Write};
    let txns = txns(64);
    let mut writer = txns.session().unwrap();
    let mut reader = txns.session().unwrap();
    let settled = txns.settled();
    commit_one(&mut writer);
    let boundary = txns.log().boundary();
    assert!(settled < boundary);

    let mut t = reader.begin(ReadCommitted, false);
    assert_eq!(start(&mut reader, &mut t, ReadOnly), settled, "shows nothing a crash takes back");
    reader.end_statement(&mut t);
    assert_eq!(t.snapshot(), None);
    assert_eq!(start(&mut reader, &mut t, Write), boundary, "a statement that can write sees the newest");
    reader.end_statement(&mut t);
    // It has seen unsettled commits: a read-only statement must not go back behind them.
    let behind = reader.begin_statement(&mut t, ReadOnly).unwrap();
    assert_eq!(behind, Start::Wait(Behind::Settled(boundary)));
    assert_eq!(t.command(), 2, "a statement that waits has not begun");
    reader.assign_xid(&mut t).unwrap();
    assert_eq!(start(&mut reader, &mut t, ReadOnly), boundary, "its own writes are above what is settled");
    reader.abort(t, &mut ());
    txns.log().flush();

    let mut t = reader.begin(RepeatableRead, false);
    let first = start(&mut reader, &mut t, ReadOnly);
    assert_eq!(first, txns.log().boundary());
    reader.end_statement(&mut t);
    commit_one(&mut writer);
    assert_eq!(start(&mut reader, &mut t, Write), first, "one snapshot for the transaction");
    reader.abort(t, &mut ());

    let mut t = reader.begin(RepeatableRead, true);
    assert_eq!(start(&mut reader, &mut t, ReadOnly), txns.settled());
    assert_eq!(reader.assign_xid(&mut t), Err(TxnError::ReadOnly));
    reader.abort(t, &mut ());
}

/// Goal: an acknowledged asynchronous commit is in every later read-only snapshot. Method: acknowledge, then begin.
#[test]
fn acknowledged_commit_is_in_the_next_read_only_snapshot() {
    let txns = txns(8);
    let mut writer = txns.session().unwrap();
    let mut reader = txns.session().unwrap();
    let (_, csn, end) = commit_one(&mut writer);
    let mut t = writer.begin(Isolation::ReadCommitted, false);
    let behind = writer.begin_statement(&mut t, StatementKind::ReadOnly).unwrap();
    assert_eq!(behind, Start::Wait(Behind::Settled(csn.plus(1))), "a session never misses its own commit");
    txns.acknowledge(end);
    assert_eq!(start(&mut writer, &mut t, StatementKind::ReadOnly), end);
    writer.abort(t, &mut ());
    let mut t = reader.begin(Isolation::ReadCommitted, false);
    assert!(start(&mut reader, &mut t, StatementKind::ReadOnly) > csn);
    reader.abort(t, &mut ());
}

/// Goal: no reply reveals an incomplete commit, and no COMMIT reply rests on a commit that a crash takes back. Method:
/// act on a commit above the snapshot, read the gate before and after the flush.
#[test]
fn gate_opens_when_what_was_seen_is_settled() {
    let txns = txns(8);
    let mut writer = txns.session().unwrap();
    let mut session = txns.session().unwrap();
    let mut t = session.begin(Isolation::RepeatableRead, false);
    let snapshot = start(&mut session, &mut t, StatementKind::Write);
    let (_, csn, _) = commit_one(&mut writer);
    assert_eq!(session.conflict(&t, csn), TxnError::Conflict { csn, snapshot });
    session.abort(t, &mut ());
    assert!(txns.is_open(session.gate(false)));
    assert!(!txns.is_open(session.gate(true)));
    txns.log().flush();
    assert!(txns.is_open(session.gate(true)));
}

/// Goal: a rollback to a mark undoes exactly what came after it. Method: nested marks, resolve every version.
#[test]
fn rollback_to_a_savepoint_undoes_what_came_after_it() {
    let txns = txns(8);
    let mut session = txns.session().unwrap();
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let mut writes = Stamps::default();
    let first = writes.write(&mut session, &mut t);
    let outer = t.savepoint(&writes);
    let second = writes.write(&mut session, &mut t);
    let inner = t.savepoint(&writes);
    let third = writes.write(&mut session, &mut t);
    session.rollback_to(&mut t, inner, &mut writes);
    assert_eq!(txns.resolve(&third), Resolution::Aborted);
    assert!(matches!(txns.resolve(&second), Resolution::InProgress(_)));
    let fourth = writes.write(&mut session, &mut t);
    session.rollback_to(&mut t, outer, &mut writes);
    session.rollback_to(&mut t, outer, &mut writes);
    let Ended::Committed { at, .. } = session.commit(t, &mut (), RECORD, &mut writes).unwrap() else {
        panic!("it had a record")
    };
    assert_eq!(txns.resolve(&first), Resolution::Committed(at.start));
    for undone in [second, third, fourth] {
        assert_eq!(txns.resolve(&undone), Resolution::Aborted);
    }
}

/// Goal: the horizon stays at or below every open snapshot and rises when it ends. Method: hold one across commits.
#[test]
fn horizon_waits_for_the_oldest_snapshot() {
    let txns = txns(64);
    let mut writer = txns.session().unwrap();
    let held = txns.hold_newest().unwrap();
    for _ in 0..3 {
        commit_one(&mut writer);
        txns.log().flush();
        assert_eq!(txns.tick(Duration::ZERO), held.snapshot());
    }
    assert_eq!(txns.snapshots_held(), (1, Some(held.snapshot())));
    drop(held);
    assert_eq!(txns.horizon(), Lsn::FIRST, "computed by the tick only");
    assert_eq!(txns.tick(Duration::ZERO), txns.log().durable());
    let (_, csn, _) = commit_one(&mut writer);
    assert!(txns.tick(Duration::ZERO) <= csn, "not above what is durable: read-only snapshots start there");
}

/// Goal: the list shows each snapshot with its holder and age, does not take successive short snapshots at one position
/// for a long one, and includes those in between. Method: three holders, ticks at set times, ends in between.
#[test]
fn snapshots_are_listed_with_their_holders_and_ages() {
    let txns = txns(64);
    let second = Duration::from_secs(1);
    let mut writer = txns.session().unwrap();
    let mut reader = txns.session().unwrap();
    let held = txns.hold_newest().unwrap();
    txns.tick(second);
    commit_one(&mut writer);
    txns.log().flush();
    let mut t = reader.begin(Isolation::RepeatableRead, false);
    assert!(matches!(reader.begin_statement(&mut t, StatementKind::Write), Ok(Start::Ready(_))));
    txns.tick(2 * second);
    commit_one(&mut writer);
    txns.log().flush();
    txns.tick(5 * second);
    let all = txns.snapshots(6 * second);
    let told: Vec<_> = all.iter().map(|held| (held.slot, held.snapshot, held.age, held.can_be_cancelled)).collect();
    let own = t.snapshot().unwrap();
    assert_eq!(told[0], (all[0].slot, held.snapshot(), 5 * second, false));
    assert_eq!(told[1..], [(reader.slot(), own, 4 * second, true)]);
    txns.with_live(|live| {
        assert_eq!((live.up(), live.below_up()), (txns.log().durable(), &[held.snapshot(), own][..]));
        assert_eq!(live.lowest_reader(held.snapshot(), own), Some(own));
    });
    reader.abort(t, &mut ());
    let mut t = reader.begin(Isolation::RepeatableRead, false);
    for time in 7..10 {
        let next = reader.begin(Isolation::RepeatableRead, false);
        reader.abort(std::mem::replace(&mut t, next), &mut ());
        assert!(matches!(reader.begin_statement(&mut t, StatementKind::Write), Ok(Start::Ready(_))));
        txns.tick(time * second);
    }
    assert_eq!(txns.snapshots(10 * second)[1].age, second, "another one each time, at one position");
    reader.abort(t, &mut ());
}

/// Goal: a cancelled snapshot keeps nothing, its session gets the reason until it ends the transaction, and its writes
/// can be committed; snapshots held outside sessions are never cancelled. Method: cancel both kinds, look at the
/// horizon, continue.
#[test]
fn cancelled_snapshot_frees_the_horizon_and_fails_its_session() {
    let txns = txns(64);
    let mut writer = txns.session().unwrap();
    let mut reader = txns.session().unwrap();
    let mut t = reader.begin(Isolation::RepeatableRead, false);
    assert!(matches!(reader.begin_statement(&mut t, StatementKind::Write), Ok(Start::Ready(_))));
    commit_one(&mut writer);
    txns.log().flush();
    let held = txns.hold_newest().unwrap();
    commit_one(&mut writer);
    txns.log().flush();
    assert_eq!(Some(txns.tick(Duration::ZERO)), t.snapshot());
    let age = Duration::from_secs(90);
    let all = txns.snapshots(age);
    assert_eq!(all.iter().map(|held| txns.cancel_snapshot(held, 5 << 20)).collect::<Vec<_>>(), [true, false]);
    assert_eq!(txns.tick(age), held.snapshot(), "without a word of its session");
    assert_eq!(txns.snapshots_held(), (1, Some(held.snapshot())));
    for error in [reader.check_snapshot(&t), reader.begin_statement(&mut t, StatementKind::Write).map(|_| ())] {
        let error = error.unwrap_err();
        assert_eq!(error.sqlstate(), "72000");
        assert!(error.to_string().starts_with("snapshot is 90 s old and keeps 5 MiB of old versions"), "{error}");
    }
    assert!(!txns.cancel_snapshot(&all[0], 0), "once");
    let mut writes = Stamps::default();
    let stamp = writes.write(&mut reader, &mut t);
    let ended = reader.commit(t, &mut (), RECORD, &mut writes).unwrap();
    assert!(matches!(ended, Ended::Committed { at, .. } if txns.resolve(&stamp) == Resolution::Committed(at.start)));
    let mut t = reader.begin(Isolation::RepeatableRead, false);
    assert!(matches!(reader.begin_statement(&mut t, StatementKind::Write), Ok(Start::Ready(_))), "the next is free");
    assert_eq!(reader.check_snapshot(&t), Ok(()));
    assert!(!txns.cancel_snapshot(&all[0], 0), "another snapshot of the slot");
    reader.abort(t, &mut ());
}

/// Goal: slots are bounded and reused. Method: take all, fail, drop one.
#[test]
fn session_slots_are_bounded_and_reused() {
    let txns = txns(8);
    let mut sessions: Vec<_> = (0..8).map(|_| txns.session().unwrap()).collect();
    assert_eq!(txns.session().unwrap_err(), TxnError::TooManySessions { limit: 8 });
    sessions.pop();
    assert!(txns.session().is_ok());
}

/// Goal: a holder with a reserved slot gets one snapshot after the other whatever the sessions do, and the horizon
/// waits for it. Method: take every other slot, hold twice, give the slot back.
#[test]
fn kept_place_has_a_snapshot_when_sessions_have_all_the_others() {
    let txns = txns(8);
    let mut place = txns.keep_place().unwrap();
    let sessions: Vec<_> = (0..7).map(|_| txns.session().unwrap()).collect();
    assert_eq!(txns.session().unwrap_err(), TxnError::TooManySessions { limit: 7 }, "the place is nobody's business");
    for _ in 0..2 {
        let held = txns.hold_durable(&mut place);
        assert_eq!(txns.snapshots_held(), (1, Some(held.snapshot())));
        drop(held);
        assert_eq!(txns.snapshots_held(), (0, None));
    }
    drop(place);
    assert!(txns.session().is_ok());
    drop(sessions);
}

/// Goal: a transaction that the ring laps keeps its answer and its outcome. Method: a ring of 4, 100 transactions while
/// one stays open, then commit or abort that one.
#[test]
fn transaction_lapped_by_the_ring_keeps_its_end() {
    for commits in [true, false] {
        let txns = txns(4);
        let mut old = txns.session().unwrap();
        let mut young = txns.session().unwrap();
        let mut t = old.begin(Isolation::ReadCommitted, false);
        let mut writes = Stamps::default();
        let stamp = writes.write(&mut old, &mut t);
        for _ in 0..100 {
            let (other, csn, _) = commit_one(&mut young);
            assert_eq!(txns.resolve(&other), Resolution::Committed(csn));
            assert_eq!(txns.resolve(&stamp), Resolution::InProgress(t.xid().unwrap()));
        }
        assert_eq!(txns.map.sparse_len(), 1);
        // Another transaction is open in the slot when the lapped one ends.
        let strangers: Vec<_> = (0..4)
            .map(|_| {
                let mut session = txns.session().unwrap();
                let mut t = session.begin(Isolation::ReadCommitted, false);
                let mut writes = Stamps::default();
                let stamp = writes.write(&mut session, &mut t);
                (session, t, writes, stamp)
            })
            .collect();
        if commits {
            let Ended::Committed { at, .. } = old.commit(t, &mut (), RECORD, &mut writes).unwrap() else {
                panic!("it had a record")
            };
            assert_eq!(txns.resolve(&stamp), Resolution::Committed(at.start));
        } else {
            old.abort(t, &mut writes);
            assert_eq!(txns.resolve(&stamp), Resolution::Aborted);
        }
        assert_eq!(txns.map.sparse_len(), 0);
        for (mut session, t, mut writes, stamp) in strangers {
            assert_eq!(txns.resolve(&stamp), Resolution::InProgress(t.xid().unwrap()));
            session.abort(t, &mut writes);
        }
    }
}

/// Goal: readers never see half a commit, or the outcome of another transaction, while the ring of 8 turns thousands of
/// times. Method: two writers commit or abort pairs of versions, each through a shared slot, often enough for a reader
/// to look in between; the reader checks every pair at one snapshot, and ticks.
#[test]
fn readers_see_all_or_nothing_while_the_ring_turns() {
    struct Pair {
        xid: Xid,
        versions: [Arc<AtomicU64>; 2],
    }
    let txns = txns(8);
    let shelf: Arc<[collie_sync::Mutex<Option<Arc<Pair>>>; 2]> = Arc::default();
    let stop = Arc::new(AtomicBool::new(false));
    let [rounds, looked] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
    let writers: Vec<_> = (0..2)
        .map(|number| {
            let (txns, shelf, stop) = (Arc::clone(&txns), Arc::clone(&shelf), Arc::clone(&stop));
            let rounds = Arc::clone(&rounds);
            std::thread::spawn(move || {
                let mut session = txns.session().unwrap();
                while !stop.load(Ordering::Acquire) {
                    let round = rounds.fetch_add(1, Ordering::Relaxed);
                    let mut t = session.begin(Isolation::ReadCommitted, false);
                    let mut writes = Stamps::default();
                    let versions = [0, 1].map(|_| writes.write(&mut session, &mut t));
                    let pair = Arc::new(Pair { xid: t.xid().unwrap(), versions });
                    *shelf[number].lock() = Some(Arc::clone(&pair));
                    if round % 3 == 0 {
                        session.abort(t, &mut writes);
                        assert_eq!(txns.resolve(&pair.versions[0]), Resolution::Aborted);
                    } else {
                        let ended = session.commit(t, &mut (), RECORD, &mut writes).unwrap();
                        let Ended::Committed { at, .. } = ended else { panic!("it had a record") };
                        assert_eq!(txns.resolve(&pair.versions[1]), Resolution::Committed(at.start));
                    }
                }
            })
        })
        .collect();
    let reader = std::thread::spawn({
        let (txns, shelf, stop) = (Arc::clone(&txns), Arc::clone(&shelf), Arc::clone(&stop));
        let looked = Arc::clone(&looked);
        move || {
            while !stop.load(Ordering::Acquire) {
                for slot in shelf.iter() {
                    let Some(pair) = slot.lock().clone() else { continue };
                    let held = txns.hold_newest().unwrap();
                    let seen = [1, 0].map(|i| match txns.resolve(&pair.versions[i]) {
                        Resolution::Committed(csn) => csn < held.snapshot(),
                        Resolution::Aborted => false,
                        Resolution::InProgress(xid) => {
                            assert_eq!(xid, pair.xid);
                            false
                        }
                    });
                    assert_eq!(seen[0], seen[1], "half a commit at {}", held.snapshot());
                    looked.fetch_add(1, Ordering::Relaxed);
                }
                txns.tick(Duration::ZERO);
            }
        }
    });
    let is_enough = || rounds.load(Ordering::Relaxed) >= 10_000 && looked.load(Ordering::Relaxed) >= 100;
    while !is_enough() && !reader.is_finished() && !writers.iter().any(std::thread::JoinHandle::is_finished) {
        std::thread::park_timeout(Duration::from_millis(1));
    }
    stop.store(true, Ordering::Release);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    reader.join().unwrap();
    txns.tick(Duration::ZERO);
    assert_eq!(txns.floor_xid(), txns.next_xid());
    assert_eq!(txns.map.sparse_len(), 0);
}

#[derive(Clone, Debug)]
enum Step {
    Begin(usize),
    Write(usize),
    Commit(usize),
    Abort(usize),
    Tick,
    Look,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = 0..4_usize;
    let step = prop_oneof![
        who.clone().prop_map(Step::Begin),
        who.clone().prop_map(Step::Write),
        who.clone().prop_map(Step::Commit),
        who.prop_map(Step::Abort),
        Just(Step::Tick),
        Just(Step::Look),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Goal: whatever the order of begins, ends and ticks, every version resolves as a list of outcomes says. Method:
    /// random steps of four sessions on a ring of 2, compared with that list.
    #[test]
    fn every_version_resolves_as_the_list_of_ends_says(steps in steps()) {
        let txns = txns(2);
        let mut sessions: Vec<_> = (0..4).map(|_| txns.session().unwrap()).collect();
        let mut open: Vec<Option<(Transaction, Stamps, Vec<usize>)>> = (0..4).map(|_| None).collect();
        let mut versions: Vec<(Arc<AtomicU64>, Resolution)> = Vec::new();
        for step in steps {
            match step {
                Step::Begin(i) if open[i].is_none() => {
                    open[i] = Some((sessions[i].begin(Isolation::ReadCommitted, false), Stamps::default(), Vec::new()));
                }
                Step::Write(i) => if let Some((t, writes, mine)) = &mut open[i] {
                    let stamp = writes.write(&mut sessions[i], t);
                    mine.push(versions.len());
                    versions.push((stamp, Resolution::InProgress(t.xid().unwrap())));
                },
                Step::Commit(i) => if let Some((t, mut writes, mine)) = open[i].take() {
                    let record = RECORD.filter(|_| !mine.is_empty());
                    if let Ended::Committed { at, .. } = sessions[i].commit(t, &mut (), record, &mut writes).unwrap() {
                        mine.iter().for_each(|v| versions[*v].1 = Resolution::Committed(at.start));
                    }
                },
                Step::Abort(i) => if let Some((t, mut writes, mine)) = open[i].take() {
                    sessions[i].abort(t, &mut writes);
                    mine.iter().for_each(|v| versions[*v].1 = Resolution::Aborted);
                },
                Step::Tick => { txns.log().flush(); txns.tick(Duration::ZERO); }
                Step::Look => for (stamp, end) in &versions {
                    prop_assert_eq!(txns.resolve(stamp), *end);
                },
                Step::Begin(_) => {}
            }
        }
        for (i, open) in open.into_iter().enumerate() {
            if let Some((t, mut writes, _)) = open {
                sessions[i].abort(t, &mut writes);
            }
        }
        txns.tick(Duration::ZERO);
        prop_assert_eq!(txns.floor_xid(), txns.next_xid());
        prop_assert_eq!(txns.map.sparse_len(), 0);
    }
}

fn commit_many(session: &mut Session<TestLog>, versions: usize) -> (Vec<Arc<AtomicU64>>, Lsn) {
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let mut writes = ManyStamps::default();
    let stamps = (0..versions).map(|_| writes.0.write(session, &mut t)).collect();
    match session.commit(t, &mut (), RECORD, &mut writes).unwrap() {
        Ended::Committed { at, .. } => (stamps, at.start),
        other => panic!("it had a record: {other:?}"),
    }
}

/// Goal: the map answers for versions that were handed over until a tick stamps them, however often the ring of xids is
/// lapped until then. Method: a ring of 4, several large commits, small ones between; no tick until the end.
#[test]
fn versions_handed_over_resolve_until_they_are_stamped() {
    let txns = txns(4);
    let mut session = txns.session().unwrap();
    let mut handed_over = Vec::new();
    for round in 0..10 {
        handed_over.push(commit_many(&mut session, 3));
        for _ in 0..round {
            let (stamp, csn, _) = commit_one(&mut session);
            assert_eq!(txns.resolve(&stamp), Resolution::Committed(csn));
        }
        for (stamps, csn) in &handed_over {
            assert!(stamps.iter().all(|stamp| txns.resolve(stamp) == Resolution::Committed(*csn)));
            let unfinished = |stamp: &Arc<AtomicU64>| Stamp::from_raw(stamp.load(Ordering::Relaxed)).settled().is_err();
            assert!(stamps.iter().all(unfinished), "nobody has stamped it yet");
        }
    }
    assert_eq!(txns.unstamped(), 30);
    assert!(txns.map.sparse_len() > 0, "the ring was never lapped");
    txns.tick(Duration::ZERO);
    assert_eq!((txns.unstamped(), txns.map.sparse_len()), (0, 0));
    assert_eq!(txns.floor_xid(), txns.next_xid(), "everything is finished");
    for (stamps, csn) in &handed_over {
        assert!(stamps.iter().all(|stamp| stamp.load(Ordering::Relaxed) == Stamp::committed(*csn).raw()));
    }
}

/// Goal: a waiter for a large commit proceeds before its versions are stamped. Method: a waiter, polled after the
/// commit; no tick.
#[test]
fn large_commit_wakes_before_its_versions_are_stamped() {
    let txns = txns(8);
    let (mut holder, mut waiter) = (txns.session().unwrap(), txns.session().unwrap());
    let mut t = holder.begin(Isolation::ReadCommitted, false);
    let mut writes = ManyStamps::default();
    let stamp = writes.0.write(&mut holder, &mut t);
    let _waiting = waiter.begin(Isolation::ReadCommitted, false);
    let row = RowKey::new(CfId::new(1), b"row");
    let wish = RowLockRequest { row, holder: t.xid().unwrap(), strength: LockStrength::Update };
    let wait = waiter.wait(&Blocker::Row(wish));
    let Ended::Committed { at, .. } = holder.commit(t, &mut (), RECORD, &mut writes).unwrap() else {
        panic!("it had a record")
    };
    wait.block(None).unwrap();
    assert_eq!((txns.unstamped(), txns.resolve(&stamp)), (1, Resolution::Committed(at.start)));
    let picture = txns.lock_picture();
    assert!(picture.waits.is_empty());
    assert_eq!(picture.xids, [], "a transaction that is done is shown as open");
}

/// Goal: no version that was handed over is lost when the database is dropped. Method: drop everything before a tick.
#[test]
fn versions_handed_over_are_stamped_when_the_transactions_are_dropped() {
    let txns = txns(8);
    let mut session = txns.session().unwrap();
    let (stamps, csn) = commit_many(&mut session, 2);
    drop((session, txns));
    assert!(stamps.iter().all(|stamp| stamp.load(Ordering::Relaxed) == Stamp::committed(csn).raw()));
}
