//! Tests of row waits, table locks, deadlocks, cancelling and time limits.
//!
//! There are no real row locks: the tests say which session waits for which, as the engine would after it met an
//! unfinished version. Threads stop at known points, so no test sleeps.

use crate::{
    Behind, Blocker, CommitLog, CommitRecord, Isolation, LockTarget, Options, RowKey, RowLockRequest, Session, Start,
    StatementKind, TableLock, TableLockMode, Transaction, TxnError, Txns, Wait, test_log::TestLog,
};
use collie_base::{CfId, LockStrength, Xid};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

const CF: CfId = CfId::new(1);
const T1: LockTarget = LockTarget::Table(1);
const T2: LockTarget = LockTarget::Table(2);

struct Client {
    session: Session<TestLog>,
    t: Option<Transaction>,
    xid: Xid,
}

impl Client {
    fn new(txns: &Arc<Txns<TestLog>>) -> Self {
        let mut session = txns.session().unwrap();
        let mut t = session.begin(Isolation::ReadCommitted, false);
        let xid = session.assign_xid(&mut t).unwrap();
        Self { session, t: Some(t), xid }
    }

    fn wait_row(&self, row: u8, holder: &Client) -> Wait {
        self.session.wait(&wish(row, holder.xid, LockStrength::Update))
    }

    fn lock(&mut self, target: LockTarget, mode: TableLockMode) -> TableLock {
        self.session.lock_table(self.t.as_mut().unwrap(), target, mode)
    }

    /// Requests a lock that must not be granted at once, and returns the wait.
    fn wait_table(&mut self, target: LockTarget, mode: TableLockMode) -> Wait {
        match self.lock(target, mode) {
            TableLock::Wait(blocker) => self.session.wait(&blocker),
            TableLock::Granted => panic!("{target:?} {mode:?} was granted"),
        }
    }

    fn took_row(&mut self, row: u8) {
        self.session.took_row(self.t.as_ref().unwrap(), CF, &[row], LockStrength::Update);
    }

    fn commit(&mut self) {
        let record = CommitRecord { tag: 1, bytes: b"" };
        drop(self.session.commit(self.t.take().unwrap(), &mut (), Some(record), &mut ()).unwrap());
    }

    fn abort(&mut self) {
        self.session.abort(self.t.take().unwrap(), &mut ());
    }
}

fn wish(row: u8, holder: Xid, strength: LockStrength) -> Blocker {
    Blocker::Row(RowLockRequest { row: RowKey::new(CF, &[row]), holder, strength })
}

fn txns() -> Arc<Txns<TestLog>> {
    Txns::new(TestLog::new(), Options { xid_slots: 64, sessions_max: 64, first_xid: Xid::new(1) })
}

fn clients<const N: usize>(txns: &Arc<Txns<TestLog>>) -> [Client; N] {
    std::array::from_fn(|_| Client::new(txns))
}

struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn poll(wait: &mut Wait) -> Poll<Result<(), TxnError>> {
    Pin::new(wait).poll(&mut Context::from_waker(Waker::noop()))
}

fn assert_granted(wait: &mut Wait) {
    assert_eq!(poll(wait), Poll::Ready(Ok(())));
}

fn assert_deadlock(wait: &mut Wait, transactions: usize) {
    assert_eq!(poll(wait), Poll::Ready(Err(TxnError::Deadlock { transactions })));
}

/// Goal: the end of a transaction wakes its waiters, however it ends. Method: a counting waker, commit and abort.
#[test]
fn waiter_is_woken_by_commit_and_by_abort() {
    for commits in [true, false] {
        let txns = txns();
        let [mut a, b] = clients(&txns);
        let mut wait = b.wait_row(1, &a);
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(Arc::clone(&count));
        assert_eq!(Pin::new(&mut wait).poll(&mut Context::from_waker(&waker)), Poll::Pending);
        assert!(b.session.is_waiting());
        if commits {
            a.commit()
        } else {
            a.abort()
        }
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert_granted(&mut wait);
        assert_eq!(txns.waiting(), 0);
    }
}

/// Goal: there is nothing to wait for once the holder has ended. Method: wait for an xid that committed.
#[test]
fn wait_for_a_finished_transaction_is_over_at_once() {
    let txns = txns();
    let [mut a, b] = clients(&txns);
    a.commit();
    assert_granted(&mut b.wait_row(1, &a));
}

/// Goal: the blocking form returns when the holder ends. Method: one thread blocks on the wait, and another ends the
/// holder.
#[test]
fn blocking_wait_returns_when_the_holder_ends() {
    let txns = txns();
    let [mut a, b] = clients(&txns);
    let wait = b.wait_row(1, &a);
    let thread = std::thread::spawn(move || wait.block(None));
    a.commit();
    assert_eq!(thread.join().unwrap(), Ok(()));
}

/// Goal: waiters of a row are served in order of arrival, and each hands on. Method: three waiters; one takes the row,
/// one leaves without it, one waits again behind a newcomer and keeps its place.
#[test]
fn row_queue_is_served_in_order_and_handed_on() {
    let txns = txns();
    let [mut a, mut b, mut c, d, mut e] = clients(&txns);
    let (mut wait_b, mut wait_c, mut wait_d) = (b.wait_row(1, &a), c.wait_row(1, &a), d.wait_row(1, &a));
    a.commit();
    assert_granted(&mut wait_b);
    assert!(poll(&mut wait_c).is_pending());
    // A newcomer took the row in between: b waits again, and is still first.
    let mut wait_b = b.wait_row(1, &e);
    e.abort();
    assert_granted(&mut wait_b);
    assert!(poll(&mut wait_c).is_pending());
    b.took_row(1);
    assert!(poll(&mut wait_c).is_pending(), "b has the row now");
    b.commit();
    assert_granted(&mut wait_c);
    assert!(poll(&mut wait_d).is_pending());
    // c no longer wants the row.
    c.session.end_statement(c.t.as_mut().unwrap());
    assert_granted(&mut wait_d);
    assert!(txns.locks.waits.lock().rows.len() == 1, "d has its place until its statement ends");
    drop((b, c, d));
    assert!(txns.locks.waits.lock().rows.is_empty());
}

/// Goal: a waiter that gives up does not stop the others. Method: drop the first of two waits, then end the holder.
#[test]
fn dropped_wait_hands_on() {
    let txns = txns();
    let [mut a, b, c] = clients(&txns);
    let wait_b = b.wait_row(1, &a);
    let mut wait_c = c.wait_row(1, &a);
    drop(wait_b);
    a.commit();
    assert_granted(&mut wait_c);
}

/// Goal: a session has one wait; a second wait ends the first and keeps or leaves its place. Method: the same row again
/// keeps the place, a table leaves it.
#[test]
fn second_wait_of_a_session_replaces_the_first() {
    let txns = txns();
    let [mut a, mut b, c] = clients(&txns);
    let mut old = b.wait_row(1, &a);
    let mut wait_c = c.wait_row(1, &a);
    let again = b.wait_row(1, &a);
    assert_eq!(poll(&mut old), Poll::Ready(Err(TxnError::Cancelled)));
    drop(old);
    assert_eq!(a.lock(T1, TableLockMode::Share), TableLock::Granted);
    let mut table = b.wait_table(T1, TableLockMode::Exclusive);
    drop(again);
    assert_eq!(txns.waiting(), 2);
    a.commit();
    assert_granted(&mut wait_c);
    assert_granted(&mut table);
}

/// Goal: a rollback to a savepoint wakes the waiters for a row that it frees. Method: wait, roll back.
#[test]
fn rollback_to_a_savepoint_wakes_waiters() {
    let txns = txns();
    let [mut a, b] = clients(&txns);
    let mark = a.t.as_ref().unwrap().savepoint(&());
    let mut wait = b.wait_row(1, &a);
    a.session.rollback_to(a.t.as_mut().unwrap(), mark, &mut ());
    assert_granted(&mut wait);
    let mut wait = b.wait_row(1, &a);
    assert!(poll(&mut wait).is_pending(), "it may still have had the row before the mark");
    a.abort();
    assert_granted(&mut wait);
}

/// Goal: a session does not wait for a row that became free between the look and the wait, even if its holder
/// continues. Method: the second look, under the queue's lock, says that it is free.
#[test]
fn wait_looks_again_once_it_is_registered() {
    let txns = txns();
    let [a, b] = clients(&txns);
    let blocker = wish(1, a.xid, LockStrength::Update);
    assert_granted(&mut b.session.wait_while(&blocker, || false));
    assert!(poll(&mut b.session.wait_while(&blocker, || true)).is_pending());
}

/// Goal: a cycle is refused to the session that would close it, and only to that one. Method: cycles of 2 and 3 over
/// rows.
#[test]
fn cycle_of_row_waits_is_a_deadlock_for_the_last() {
    let txns = txns();
    let [mut a, mut b, mut c] = clients(&txns);
    let mut a_for_b = a.wait_row(2, &b);
    let mut b_for_a = b.wait_row(1, &a);
    assert_deadlock(&mut b_for_a, 2);
    assert!(poll(&mut a_for_b).is_pending());
    let mut b_for_c = b.wait_row(3, &c);
    let mut c_for_a = c.wait_row(1, &a);
    assert_deadlock(&mut c_for_a, 3);
    c.abort();
    assert_granted(&mut b_for_c);
    b.abort();
    assert_granted(&mut a_for_b);
    a.commit();
    assert_eq!(txns.waiting(), 0);
}

/// Goal: a cycle through rows and tables is one cycle. Method: a waits for a table that b holds, b for a row of a.
#[test]
fn cycle_over_a_table_and_a_row_is_a_deadlock() {
    let txns = txns();
    let [mut a, mut b] = clients(&txns);
    assert_eq!(b.lock(T1, TableLockMode::RowExclusive), TableLock::Granted);
    let mut a_for_table = a.wait_table(T1, TableLockMode::AccessExclusive);
    assert_deadlock(&mut b.wait_row(1, &a), 2);
    b.abort();
    assert_granted(&mut a_for_table);
    assert_eq!(a.lock(T1, TableLockMode::AccessExclusive), TableLock::Granted);
}

/// Goal: a cycle caused only by the order of a queue is broken by reordering. Method: a holds ACCESS SHARE; b waits for
/// ACCESS EXCLUSIVE, c for ACCESS SHARE behind b; a waits for a row of c: c moves ahead of b and is granted.
#[test]
fn soft_cycle_is_broken_by_reordering_the_queue() {
    let txns = txns();
    let [mut a, mut b, mut c] = clients(&txns);
    assert_eq!(a.lock(T1, TableLockMode::AccessShare), TableLock::Granted);
    let mut wait_b = b.wait_table(T1, TableLockMode::AccessExclusive);
    let mut wait_c = c.wait_table(T1, TableLockMode::AccessShare);
    let mut a_for_c = a.wait_row(1, &c);
    assert_granted(&mut wait_c);
    assert!(poll(&mut a_for_c).is_pending());
    assert_eq!(c.lock(T1, TableLockMode::AccessShare), TableLock::Granted);
    c.commit();
    assert_granted(&mut a_for_c);
    a.commit();
    assert_granted(&mut wait_b);
}

/// Goal: a cancel ends a wait at once, and also waits that begin after it until it is cleared. Method: both orders.
#[test]
fn cancel_ends_a_wait_before_and_after_it_begins() {
    let txns = txns();
    let [mut a, b, c] = clients(&txns);
    let cancel = b.session.cancel_handle();
    let mut wait = b.wait_row(1, &a);
    let mut behind = c.wait_row(1, &a);
    cancel.cancel();
    assert_eq!(poll(&mut wait), Poll::Ready(Err(TxnError::Cancelled)));
    assert_eq!(poll(&mut b.wait_row(1, &a)), Poll::Ready(Err(TxnError::Cancelled)));
    assert!(cancel.is_cancelled() && !cancel.is_waiting());
    cancel.clear();
    let mut wait = b.wait_row(1, &a);
    assert!(poll(&mut wait).is_pending() && cancel.is_waiting());
    a.commit();
    assert_granted(&mut behind);
    assert!(poll(&mut wait).is_pending(), "c came first");
}

/// Goal: a wait with a limit ends with 55P03 and leaves nothing behind. Method: a limit of 1 ms on a row and on a table
/// that stay taken.
#[test]
fn wait_beyond_its_limit_is_a_lock_timeout() {
    let txns = txns();
    let [mut a, mut b] = clients(&txns);
    let limit = Some(Duration::from_millis(1));
    assert_eq!(b.wait_row(1, &a).block(limit), Err(TxnError::LockTimeout));
    assert_eq!(a.lock(T1, TableLockMode::Share), TableLock::Granted);
    let error = b.wait_table(T1, TableLockMode::RowExclusive).block(limit).unwrap_err();
    assert_eq!((error.sqlstate(), txns.waiting()), ("55P03", 0));
    let [mut c] = clients(&txns);
    assert_eq!(c.lock(T1, TableLockMode::Share), TableLock::Granted, "nobody queues for the table any more");
}

/// Goal: the matrix is PostgreSQL's. Method: the table of conflicts in its documentation, written out.
#[test]
fn table_lock_matrix_is_that_of_postgresql() {
    use TableLockMode::{
        AccessExclusive, AccessShare, Exclusive, RowExclusive, RowShare, Share, ShareRowExclusive, ShareUpdateExclusive,
    };
    let conflicts: [(TableLockMode, &[TableLockMode]); 8] = [
        (AccessShare, &[AccessExclusive]),
        (RowShare, &[Exclusive, AccessExclusive]),
        (RowExclusive, &[Share, ShareRowExclusive, Exclusive, AccessExclusive]),
        (ShareUpdateExclusive, &[ShareUpdateExclusive, Share, ShareRowExclusive, Exclusive, AccessExclusive]),
        (Share, &[RowExclusive, ShareUpdateExclusive, ShareRowExclusive, Exclusive, AccessExclusive]),
        (
            ShareRowExclusive,
            &[RowExclusive, ShareUpdateExclusive, Share, ShareRowExclusive, Exclusive, AccessExclusive],
        ),
        (
            Exclusive,
            &[RowShare, RowExclusive, ShareUpdateExclusive, Share, ShareRowExclusive, Exclusive, AccessExclusive],
        ),
        (AccessExclusive, &TableLockMode::ALL),
    ];
    for (mode, with) in conflicts {
        for other in TableLockMode::ALL {
            assert_eq!(mode.conflicts_with(other), with.contains(&other), "{mode:?} {other:?}");
            assert_eq!(mode.conflicts_with(other), other.conflicts_with(mode), "{mode:?} {other:?}");
            // Two transactions get what the matrix says.
            let txns = txns();
            let [mut a, mut b] = clients(&txns);
            assert_eq!(a.lock(T1, mode), TableLock::Granted);
            assert_eq!(b.lock(T1, other) == TableLock::Granted, !with.contains(&other), "{mode:?} {other:?}");
            assert_eq!(a.lock(T2, mode), TableLock::Granted);
            assert_eq!(a.lock(T2, other), TableLock::Granted, "one's own locks never conflict");
            assert_eq!(b.lock(LockTarget::Advisory(1), AccessExclusive), TableLock::Granted, "another target");
        }
    }
}

fn statement(client: &mut Client) -> Start {
    client.session.begin_statement(client.t.as_mut().unwrap(), StatementKind::Write).unwrap()
}

/// Goal: G4: the next holder of a table lock reads what earlier holders of conflicting modes committed, even if the
/// boundary has not passed it; a holder of a compatible mode does not wait. Method: a holder commits while the boundary
/// stands still.
#[test]
fn next_holder_of_a_table_lock_reads_above_the_commit_of_the_last() {
    let txns = txns();
    let [mut a, mut b, mut c, mut d] = clients(&txns);
    assert_eq!(a.lock(T1, TableLockMode::RowExclusive), TableLock::Granted);
    let mut wait = b.wait_table(T1, TableLockMode::ShareRowExclusive);
    txns.log().stall(true);
    let commit = txns.log().boundary();
    a.commit();
    assert_granted(&mut wait);
    assert_eq!(b.lock(T1, TableLockMode::ShareRowExclusive), TableLock::Granted);
    assert_eq!(statement(&mut b), Start::Wait(Behind::Boundary(commit.plus(1))));
    assert_eq!(c.lock(T1, TableLockMode::AccessShare), TableLock::Granted);
    assert_eq!(statement(&mut c), Start::Ready(commit));
    b.abort();
    assert_eq!(d.lock(T1, TableLockMode::Share), TableLock::Granted, "it did not have to wait for the lock");
    assert_eq!(statement(&mut d), Start::Wait(Behind::Boundary(commit.plus(1))));
    txns.log().stall(false);
    assert!(matches!(statement(&mut d), Start::Ready(snapshot) if snapshot > commit));
}

/// Goal: G4 also holds for a lock whose state was removed since it had no holder. Method: as above, with more advisory
/// locks of one shard than it keeps.
#[test]
fn commits_under_forgotten_locks_are_not_forgotten() {
    let txns = txns();
    let [mut a, mut b] = clients(&txns);
    let target = |number: u64| LockTarget::Advisory(number * 64);
    for number in 0..600 {
        assert_eq!(a.lock(target(number), TableLockMode::Exclusive), TableLock::Granted);
    }
    txns.log().stall(true);
    let commit = txns.log().boundary();
    a.commit();
    for number in [0, 599] {
        assert_eq!(b.lock(target(number), TableLockMode::Share), TableLock::Granted);
        assert_eq!(statement(&mut b), Start::Wait(Behind::Boundary(commit.plus(1))), "lock {number}");
        b.session.abort(b.t.take().unwrap(), &mut ());
        b = Client::new(&txns);
    }
    assert_eq!(b.lock(LockTarget::Table(0), TableLockMode::AccessExclusive), TableLock::Granted);
    assert_eq!(statement(&mut b), Start::Ready(commit), "what was forgotten were advisory locks");
}

/// Goal: weak requests do not starve a strong one, and all are served once it is done. Method: share, exclusive, share.
#[test]
fn table_queue_lets_nobody_past_a_conflicting_waiter() {
    let txns = txns();
    let [mut a, mut b, mut c, mut d] = clients(&txns);
    assert_eq!(a.lock(T1, TableLockMode::RowExclusive), TableLock::Granted);
    let mut wait_b = b.wait_table(T1, TableLockMode::AccessExclusive);
    let mut wait_c = c.wait_table(T1, TableLockMode::RowExclusive);
    let mut wait_d = d.wait_table(T1, TableLockMode::RowExclusive);
    assert_eq!(a.lock(T1, TableLockMode::AccessShare), TableLock::Granted, "b waits for a, so a need not wait for b");
    a.commit();
    assert_granted(&mut wait_b);
    assert!(poll(&mut wait_c).is_pending());
    assert_eq!(b.lock(T1, TableLockMode::AccessExclusive), TableLock::Granted);
    b.abort();
    assert_granted(&mut wait_c);
    assert_granted(&mut wait_d);
}

/// Goal: a rollback to a savepoint releases the table locks taken after it and keeps earlier ones. Method: roll back,
/// ask.
#[test]
fn rollback_to_a_savepoint_releases_later_table_locks() {
    let txns = txns();
    let [mut a, mut b] = clients(&txns);
    assert_eq!(a.lock(T1, TableLockMode::Share), TableLock::Granted);
    let mark = a.t.as_ref().unwrap().savepoint(&());
    assert_eq!(a.lock(T1, TableLockMode::AccessExclusive), TableLock::Granted);
    assert_eq!(a.lock(T2, TableLockMode::AccessExclusive), TableLock::Granted);
    let mut wait = b.wait_table(T1, TableLockMode::Share);
    a.session.rollback_to(a.t.as_mut().unwrap(), mark, &mut ());
    assert_granted(&mut wait);
    assert_eq!(b.lock(T2, TableLockMode::AccessExclusive), TableLock::Granted);
    assert!(matches!(b.lock(T1, TableLockMode::RowExclusive), TableLock::Wait(_)), "Share was taken before the mark");
}

/// Goal: a lock granted while its waiter gives up is not lost to others. Method: grant, drop the wait, end the
/// transaction without asking again.
#[test]
fn lock_granted_to_a_dropped_wait_is_released_with_its_transaction() {
    let txns = txns();
    let [mut a, mut b, mut c] = clients(&txns);
    assert_eq!(a.lock(T1, TableLockMode::Exclusive), TableLock::Granted);
    let wait = b.wait_table(T1, TableLockMode::Exclusive);
    a.commit();
    drop(wait);
    let mut wait_c = c.wait_table(T1, TableLockMode::Exclusive);
    b.abort();
    assert_granted(&mut wait_c);
}

/// Goal: locks kept until the reply leaves are held until then. Method: commit, keep the result, ask from another
/// session.
#[test]
fn table_locks_outlive_the_commit_while_they_are_kept() {
    let txns = txns();
    let [mut a, mut b] = clients(&txns);
    assert_eq!(a.lock(T1, TableLockMode::AccessExclusive), TableLock::Granted);
    let record = CommitRecord { tag: 1, bytes: b"" };
    let ended = a.session.commit(a.t.take().unwrap(), &mut (), Some(record), &mut ()).unwrap();
    let mut wait = b.wait_table(T1, TableLockMode::AccessShare);
    assert!(poll(&mut wait).is_pending());
    drop(ended);
    assert_granted(&mut wait);
}

/// Goal: mutual exclusion and no lost wake-up with real threads. Method: four threads take two tables in alternating
/// order 500 times with blocking waits; a deadlock makes the victim start over; plain counters show any overlap.
#[test]
fn exclusive_table_locks_exclude_under_contention() {
    let txns = txns();
    let inside: Arc<[AtomicUsize; 2]> = Arc::default();
    let threads: Vec<_> = (0..4_usize)
        .map(|number| {
            let (txns, inside) = (Arc::clone(&txns), Arc::clone(&inside));
            std::thread::spawn(move || {
                let mut session = txns.session().unwrap();
                let mut done = 0;
                while done < 500 {
                    let mut t = session.begin(Isolation::ReadCommitted, false);
                    let order = if (number + done) % 2 == 0 { [0, 1] } else { [1, 0] };
                    let all = order.iter().try_for_each(|table| {
                        let target = LockTarget::Table(u32::try_from(*table).unwrap());
                        while let TableLock::Wait(blocker) =
                            session.lock_table(&mut t, target, TableLockMode::Exclusive)
                        {
                            session.wait(&blocker).block(None)?;
                        }
                        Ok::<(), TxnError>(())
                    });
                    match all {
                        Ok(()) => {
                            for count in inside.iter() {
                                assert_eq!(count.fetch_add(1, Ordering::AcqRel), 0);
                            }
                            for count in inside.iter() {
                                count.fetch_sub(1, Ordering::AcqRel);
                            }
                            done += 1;
                        }
                        Err(error) => assert!(matches!(error, TxnError::Deadlock { .. }), "{error}"),
                    }
                    session.abort(t, &mut ());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(txns.waiting(), 0);
}

/// Takes a row in shared strength, as the owner of the rows would.
fn share(txns: &Txns<TestLog>, row: u8, client: &Client, strength: Option<LockStrength>) {
    txns.with_row_shares(CF, &[row], |shares| shares.set(client.xid, strength));
}

/// Goal: if two holders of SHARE both want to write, that is a deadlock at once. Method: the first waits; the second is
/// refused, although a third holder precedes the first in both their ways.
#[test]
fn upgrade_of_two_share_locks_is_a_deadlock_at_once() {
    let txns = txns();
    let [a, mut b, idle] = clients(&txns);
    for client in [&idle, &a, &b] {
        share(&txns, 1, client, Some(LockStrength::Share));
    }
    let wait = |client: &Client| client.session.wait(&wish(1, idle.xid, LockStrength::Update));
    let mut wait_a = wait(&a);
    assert!(poll(&mut wait_a).is_pending());
    assert_deadlock(&mut wait(&b), 2);
    share(&txns, 1, &b, None);
    b.abort();
    assert!(poll(&mut wait_a).is_pending(), "the third is still in the way");
}

/// Goal: a holder that requests more goes ahead of sessions that wait for it. Method: a and b hold SHARE, c waits to
/// write; a wants to write too, behind c in the queue, which waits for a: a moves ahead, and is next when b ends.
#[test]
fn upgrade_goes_ahead_of_who_waits_for_the_holder() {
    let txns = txns();
    let [a, mut b, c] = clients(&txns);
    for client in [&a, &b] {
        share(&txns, 1, client, Some(LockStrength::Share));
    }
    let mut wait_c = c.session.wait(&wish(1, a.xid, LockStrength::Update));
    let mut wait_a = a.session.wait(&wish(1, b.xid, LockStrength::Update));
    assert!(poll(&mut wait_a).is_pending() && poll(&mut wait_c).is_pending());
    share(&txns, 1, &b, None);
    b.abort();
    assert_granted(&mut wait_a);
    assert!(poll(&mut wait_c).is_pending());
}

/// Goal: compatible waiters for a row are woken together, in order, up to the first that conflicts. Method: three wait
/// for a writer, two of them for SHARE, the last to write; each reports that it took the row.
#[test]
fn share_takers_are_woken_one_after_the_other() {
    let txns = txns();
    let [mut a, mut b, mut c, d] = clients(&txns);
    let wait = |client: &Client, strength| client.session.wait(&wish(1, a.xid, strength));
    let (mut wait_b, mut wait_c) = (wait(&b, LockStrength::Share), wait(&c, LockStrength::Share));
    let mut wait_d = wait(&d, LockStrength::Update);
    a.commit();
    assert_granted(&mut wait_b);
    assert!(poll(&mut wait_c).is_pending());
    share(&txns, 1, &b, Some(LockStrength::Share));
    b.session.took_row(b.t.as_ref().unwrap(), CF, &[1], LockStrength::Share);
    assert_granted(&mut wait_c);
    share(&txns, 1, &c, Some(LockStrength::Share));
    c.session.took_row(c.t.as_ref().unwrap(), CF, &[1], LockStrength::Share);
    assert!(poll(&mut wait_d).is_pending());
    share(&txns, 1, &b, None);
    b.abort();
    assert_granted(&mut wait_d); // it looks, and finds c
    let mut wait_d = d.session.wait(&wish(1, c.xid, LockStrength::Update));
    assert!(poll(&mut wait_d).is_pending());
    share(&txns, 1, &c, None);
    c.abort();
    assert_granted(&mut wait_d);
}

/// Goal: a session that takes another row than the one waited for gives its place up, and holds no other back. Method:
/// b is woken for row 1 and takes row 2; c, next for row 1, is woken.
#[test]
fn place_is_given_up_when_another_row_was_taken() {
    let txns = txns();
    let [mut a, mut b, c] = clients(&txns);
    let (mut wait_b, mut wait_c) = (b.wait_row(1, &a), c.wait_row(1, &a));
    a.commit();
    assert_granted(&mut wait_b);
    b.took_row(2);
    assert_granted(&mut wait_c);
}

/// Goal: a row passes between threads without two holders and without a lost wake-up. Method: the row is a word with
/// the holder's xid; eight threads take it 300 times each, and wait for the holder that they find.
#[test]
fn row_is_handed_on_under_contention() {
    use std::sync::atomic::AtomicU64;
    let txns = txns();
    let row = Arc::new(AtomicU64::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (txns, row) = (Arc::clone(&txns), Arc::clone(&row));
            std::thread::spawn(move || {
                let mut session = txns.session().unwrap();
                for _ in 0..300 {
                    let mut t = session.begin(Isolation::ReadCommitted, false);
                    let xid = session.assign_xid(&mut t).unwrap();
                    while let Err(holder) = row.compare_exchange(0, xid.get(), Ordering::AcqRel, Ordering::Acquire) {
                        let blocker = wish(1, Xid::new(holder), LockStrength::Update);
                        session.wait(&blocker).block(None).unwrap();
                    }
                    session.took_row(&t, CF, &[1], LockStrength::Update);
                    std::thread::yield_now();
                    assert_eq!(row.swap(0, Ordering::AcqRel), xid.get());
                    session.abort(t, &mut ());
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(txns.locks.waits.lock().rows.is_empty());
}

/// Goal: a wait reports how many others were in the row's queue before it, itself not counted when it looks again, and
/// none for a table. Method: three in the queue of one row, the second of them twice; one for another row, one for a
/// table.
#[test]
fn waits_know_how_many_are_ahead_of_them() {
    let txns = txns();
    let [mut holder, first, second, third, elsewhere, mut table] = clients(&txns);
    let wait = first.wait_row(1, &holder);
    let mut again = second.wait_row(1, &holder);
    assert_eq!([wait.ahead(), again.ahead()], [0, 1]);
    again = second.wait_row(1, &holder);
    let last = third.wait_row(1, &holder);
    assert_eq!([again.ahead(), last.ahead(), elsewhere.wait_row(2, &holder).ahead()], [1, 2, 0]);
    assert!(matches!(holder.lock(T1, TableLockMode::AccessExclusive), TableLock::Granted));
    assert_eq!(table.wait_table(T1, TableLockMode::AccessShare).ahead(), 0);
}
