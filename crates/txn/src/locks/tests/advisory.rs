//! Tests of advisory locks: counts and scopes, several sessions, and waits mixed with rows.

use crate::{
    AdvisoryScope::{Session as ForSession, Transaction as ForTransaction},
    Behind, Blocker, CommitLog, CommitRecord, Isolation, LockTarget, Options, RowKey, RowLockRequest, Session, Start,
    StatementKind,
    TableLockMode::{Exclusive, Share},
    Transaction, TxnError, Txns, Wait,
    test_log::TestLog,
};
use collie_base::{CfId, LockStrength, Xid};
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

const ONE: LockTarget = LockTarget::Advisory(1);
const TWO: LockTarget = LockTarget::Advisory(2);

fn txns() -> Arc<Txns<TestLog>> {
    Txns::new(TestLog::new(), Options { xid_slots: 64, sessions_max: 64, first_xid: Xid::new(1) })
}

fn client(txns: &Arc<Txns<TestLog>>) -> (Session<TestLog>, Transaction) {
    let mut session = txns.session().unwrap();
    let t = session.begin(Isolation::ReadCommitted, false);
    (session, t)
}

fn commit(session: &mut Session<TestLog>, mut t: Transaction) {
    session.assign_xid(&mut t).unwrap();
    drop(session.commit(t, &mut (), Some(CommitRecord { tag: 1, bytes: b"" }), &mut ()).unwrap());
}

fn poll(wait: &mut Wait) -> Poll<Result<(), TxnError>> {
    Pin::new(wait).poll(&mut Context::from_waker(Waker::noop()))
}

/// Goal: a lock is held as often as it was taken, with separate counts for the session and the transaction; shared ones
/// are compatible; a session's own locks never block it; numbers and pairs of numbers are different targets. Method:
/// take, release, look from another session.
#[test]
fn locks_are_counted_by_scope_and_mode() {
    let txns = txns();
    let [(mut a, at), (b, _bt)] = [client(&txns), client(&txns)];
    let (mine, other) = (a.advisory(), b.advisory());
    let free = |mode| {
        let free = other.try_lock(ONE, mode, ForSession);
        assert!(!free || other.give_back(ONE, mode));
        free
    };
    assert!(mine.try_lock(ONE, Share, ForSession) && mine.try_lock(ONE, Share, ForTransaction));
    assert!(free(Share) && !free(Exclusive));
    assert!(mine.try_lock(ONE, Exclusive, ForSession) && mine.try_lock(ONE, Exclusive, ForSession));
    assert!(!free(Share));
    assert!(other.try_lock(LockTarget::AdvisoryPair(0, 1), Exclusive, ForSession), "another space");
    assert!(mine.give_back(ONE, Exclusive) && !free(Share), "taken twice");
    assert!(mine.give_back(ONE, Exclusive) && free(Share));
    assert!(!mine.give_back(ONE, Exclusive), "given back already");
    assert!(mine.give_back(ONE, Share) && !free(Exclusive), "the transaction's is there still");
    assert!(!mine.give_back(ONE, Share), "the transaction's cannot be given back");
    commit(&mut a, at);
    assert!(free(Exclusive));
    let at = a.begin(Isolation::ReadCommitted, false);
    assert!(mine.try_lock(ONE, Exclusive, ForSession) && mine.try_lock(TWO, Exclusive, ForTransaction));
    mine.give_all_back();
    assert!(free(Exclusive) && !other.try_lock(TWO, Share, ForSession));
    assert!(mine.try_lock(ONE, Exclusive, ForSession));
    a.abort(at, &mut ());
    assert!(!free(Share) && other.try_lock(TWO, Share, ForSession), "a rollback ends the transaction's only");
    drop((a, mine));
    assert!(free(Exclusive), "the session's end gives all back");
}

/// Goal: a rollback to a savepoint releases the locks taken for the transaction since then, and none taken for the
/// session. Method: one of each, before and after the mark.
#[test]
fn rollback_to_a_savepoint_gives_later_locks_back() {
    let txns = txns();
    let [(mut a, mut at), (b, _bt)] = [client(&txns), client(&txns)];
    let (mine, other) = (a.advisory(), b.advisory());
    let target = LockTarget::Advisory;
    assert!(mine.try_lock(target(1), Exclusive, ForTransaction));
    let mark = at.savepoint(&());
    for _ in 0..2 {
        assert!(mine.try_lock(target(1), Exclusive, ForTransaction));
        assert!(mine.try_lock(target(2), Exclusive, ForTransaction));
        assert!(mine.try_lock(target(3), Exclusive, ForSession));
        a.rollback_to(&mut at, mark, &mut ());
        let free = [1, 2, 3].map(|number| other.try_lock(target(number), Share, ForSession));
        assert_eq!(free, [false, true, false]);
        other.give_all_back();
    }
    a.abort(at, &mut ());
}

/// Goal: waiters are served in order, also if the lock belongs to a session rather than a transaction; and the next
/// holder reads above the commits of the last one. Method: a session's lock outlives its commit; two wait for it, one
/// shared.
#[test]
fn waiters_are_let_in_when_the_lock_is_given_back() {
    let txns = txns();
    let [(mut a, at), (mut b, mut bt), (c, _ct)] = [client(&txns), client(&txns), client(&txns)];
    let [first, second, third] = [&a, &b, &c].map(Session::advisory);
    assert!(first.ask(ONE, Exclusive, ForSession).is_none());
    let mut wait_b = second.ask(ONE, Exclusive, ForTransaction).unwrap();
    let mut wait_c = third.ask(ONE, Share, ForSession).unwrap();
    assert_eq!(txns.slots_in_the_way(c.cancel_handle().slot()).len(), 2);
    txns.log().stall(true);
    let csn = txns.log().boundary();
    commit(&mut a, at);
    assert!(poll(&mut wait_b).is_pending());
    assert!(first.give_back(ONE, Exclusive));
    assert_eq!(poll(&mut wait_b), Poll::Ready(Ok(())));
    assert!(poll(&mut wait_c).is_pending());
    assert!(second.ask(ONE, Exclusive, ForTransaction).is_none());
    let start = b.begin_statement(&mut bt, StatementKind::ReadOnly).unwrap();
    assert_eq!(start, Start::Wait(Behind::Settled(csn.plus(1))));
    b.abort(bt, &mut ());
    assert_eq!(poll(&mut wait_c), Poll::Ready(Ok(())));
    assert!(third.ask(ONE, Share, ForSession).is_none());
    assert!(first.try_lock(ONE, Share, ForSession) && !second.try_lock(ONE, Exclusive, ForSession));
}

/// Goal: a deadlock across advisory locks of sessions and rows is found, in whatever order the waits begin. Method: one
/// session has the lock and wants the row, the other has the row and wants the lock, in both orders; and two locks
/// crosswise.
#[test]
fn cycles_through_advisory_locks_are_deadlocks() {
    for scope in [ForSession, ForTransaction] {
        for row_last in [true, false] {
            let txns = txns();
            let [(a, _at), (mut b, mut bt)] = [client(&txns), client(&txns)];
            let holder = b.assign_xid(&mut bt).unwrap();
            assert!(a.advisory().ask(ONE, Exclusive, scope).is_none());
            let row = Blocker::Row(RowLockRequest {
                row: RowKey::new(CfId::new(1), b"k"),
                holder,
                strength: LockStrength::Update,
            });
            let (mut first, mut last) = if row_last {
                let first = b.advisory().ask(ONE, Share, scope).unwrap();
                (first, a.wait(&row))
            } else {
                let first = a.wait(&row);
                (first, b.advisory().ask(ONE, Share, scope).unwrap())
            };
            assert!(poll(&mut first).is_pending());
            assert!(matches!(poll(&mut last), Poll::Ready(Err(TxnError::Deadlock { transactions: 2 }))));
            b.abort(bt, &mut ());
        }
        let txns = txns();
        let [(a, _at), (b, _bt)] = [client(&txns), client(&txns)];
        assert!(a.advisory().ask(ONE, Exclusive, scope).is_none() && b.advisory().ask(TWO, Share, scope).is_none());
        let mut first = a.advisory().ask(TWO, Exclusive, scope).unwrap();
        let mut last = b.advisory().ask(ONE, Exclusive, scope).unwrap();
        assert!(matches!(poll(&mut last), Poll::Ready(Err(TxnError::Deadlock { transactions: 2 }))));
        assert!(poll(&mut first).is_pending());
        b.advisory().give_all_back();
        drop((b, _bt));
        if scope == ForSession {
            assert_eq!(poll(&mut first), Poll::Ready(Ok(())));
        }
    }
}

/// Goal: a cancelled wait leaves nothing behind. Method: cancel it, release the lock, take it from another session.
#[test]
fn cancelled_wait_is_not_granted() {
    let txns = txns();
    let [(a, _at), (b, _bt), (c, _ct)] = [client(&txns), client(&txns), client(&txns)];
    assert!(a.advisory().ask(ONE, Exclusive, ForSession).is_none());
    let mut wait = b.advisory().ask(ONE, Exclusive, ForSession).unwrap();
    b.cancel_handle().cancel();
    assert!(a.advisory().give_back(ONE, Exclusive));
    assert_eq!(poll(&mut wait), Poll::Ready(Err(TxnError::Cancelled)));
    assert!(c.advisory().try_lock(ONE, Exclusive, ForSession));
    assert!(!b.advisory().give_back(ONE, Exclusive));
}
