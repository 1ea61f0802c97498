//! Tests of the picture of locks: the holders and waiters that it shows.

use crate::{
    Awaited, Blocker, InTheWay, Isolation, LockHeld, LockOwner, LockPicture, LockTarget, LockWait, Options, RowKey,
    RowLockRequest, Session, TableLock, TableLockMode, Transaction, Txns, test_log::TestLog,
};
use collie_base::{CfId, LockStrength, Xid};
use std::{sync::Arc, time::Duration};

const TABLE: LockTarget = LockTarget::Table(1);

fn client(txns: &Arc<Txns<TestLog>>) -> (Session<TestLog>, Transaction) {
    let mut session = txns.session().unwrap();
    let transaction = session.begin(Isolation::ReadCommitted, false);
    (session, transaction)
}

fn owner(session: &Session<TestLog>) -> LockOwner {
    LockOwner { slot: session.cancel_handle().slot(), transaction: 1 }
}

/// Goal: V1 for rows and tables: the picture shows exactly the owners in the way of a waiter, holders and earlier
/// waiters; and a cancelled wait is gone. Method: one holder, two that wait for its row, a third that waits for its
/// table; then cancel, commit, and look again each time.
#[test]
fn the_picture_shows_who_is_in_whose_way() {
    let txns = Txns::new(TestLog::new(), Options { xid_slots: 64, sessions_max: 64, first_xid: Xid::new(1) });
    let [(mut a, mut at), (b, bt), (c, ct), (mut d, mut dt)] = std::array::from_fn(|_| client(&txns));
    let [oa, ob, oc, od] = [&a, &b, &c, &d].map(owner);
    assert_eq!(txns.lock_picture(), LockPicture::default());

    let xid = a.assign_xid(&mut at).unwrap();
    assert_eq!(a.lock_table(&mut at, TABLE, TableLockMode::RowExclusive), TableLock::Granted);
    let row = RowKey::new(CfId::new(1), b"k");
    let blocker = Blocker::Row(RowLockRequest { row: row.clone(), holder: xid, strength: LockStrength::Update });
    let (first, second) = (b.wait(&blocker), c.wait(&blocker));
    let TableLock::Wait(table) = d.lock_table(&mut dt, TABLE, TableLockMode::AccessExclusive) else {
        panic!("granted beside a writer")
    };
    let third = d.wait(&table);

    let (held_by_a, ahead) = (InTheWay { queued: false, owner: oa }, InTheWay { queued: true, owner: ob });
    let wait = |owner, awaited, in_the_way| LockWait { owner, awaited, in_the_way };
    let picture = txns.lock_picture();
    assert_eq!(picture.held, [LockHeld { target: TABLE, owner: oa, mode: TableLockMode::RowExclusive }]);
    assert_eq!(picture.xids, [(xid, oa)]);
    let expected = [
        wait(ob, Awaited::Row(row.clone()), vec![held_by_a]),
        wait(oc, Awaited::Row(row), vec![held_by_a, ahead]),
        wait(od, Awaited::Table(TABLE, TableLockMode::AccessExclusive), vec![held_by_a]),
    ];
    assert_eq!(picture.waits, expected);
    assert_eq!(txns.slots_in_the_way(oc.slot), [oa.slot, ob.slot]);
    assert_eq!(txns.slots_in_the_way(oa.slot), [0_usize; 0]);
    assert_eq!(oa.to_string(), format!("{}/1", oa.slot));

    b.cancel_handle().cancel();
    assert_eq!(txns.slots_in_the_way(ob.slot), [0_usize; 0], "its wait has ended, though it does not know yet");
    drop((first, second, third));
    a.abort(at, &mut ());
    drop((b, bt, c, ct, d, dt));
    assert_eq!(txns.lock_picture(), LockPicture::default());
}

/// Goal: open transactions are found wherever their xid is kept. Method: a ring of two slots that laps a transaction
/// that stays open.
#[test]
fn a_transaction_that_was_lapped_is_still_in_the_picture() {
    let txns = Txns::new(TestLog::new(), Options { xid_slots: 2, sessions_max: 8, first_xid: Xid::new(1) });
    let (mut old, mut transaction) = client(&txns);
    let xid = old.assign_xid(&mut transaction).unwrap();
    for _ in 0..8 {
        let (mut session, mut transaction) = client(&txns);
        session.assign_xid(&mut transaction).unwrap();
        session.abort(transaction, &mut ());
    }
    assert_eq!(txns.lock_picture().xids, [(xid, owner(&old))]);
    old.abort(transaction, &mut ());
    assert_eq!(txns.lock_picture().xids, []);
}

/// Goal: held snapshots are listed lowest first with their slots. Method: two holders and a session between them.
#[test]
fn snapshots_are_listed_lowest_first() {
    let txns = Txns::new(TestLog::new(), Options { xid_slots: 64, sessions_max: 8, first_xid: Xid::new(1) });
    let first = txns.hold_newest().unwrap();
    let (mut session, mut transaction) = client(&txns);
    session.assign_xid(&mut transaction).unwrap();
    let record = crate::CommitRecord { tag: 1, bytes: b"" };
    drop(session.commit(transaction, &mut (), Some(record), &mut ()).unwrap());
    let second = txns.hold_newest().unwrap();
    let found: Vec<_> = txns.snapshots(Duration::ZERO).into_iter().map(|held| held.snapshot).collect();
    assert_eq!(found, [first.snapshot(), second.snapshot()]);
    assert!(first.snapshot() < second.snapshot());
    drop((first, second));
    assert_eq!(txns.snapshots(Duration::ZERO), []);
}
