//! Tests of snapshots in terms of xids.

use crate::{CommitLog, CommitRecord, Isolation, Options, Session, Transaction, Txns, XidFate, test_log::TestLog};
use collie_base::{Lsn, Xid};
use std::{sync::Arc, time::Duration};

fn txns(xid_slots: usize) -> Arc<Txns<TestLog>> {
    Txns::new(TestLog::new(), Options { xid_slots, sessions_max: 64, first_xid: Xid::new(1) })
}

fn client(txns: &Arc<Txns<TestLog>>) -> (Session<TestLog>, Transaction, Xid) {
    let mut session = txns.session().unwrap();
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let xid = session.assign_xid(&mut t).unwrap();
    (session, t, xid)
}

fn commit(session: &mut Session<TestLog>, t: Transaction) -> Lsn {
    let at = session.txns().log().boundary();
    drop(session.commit(t, &mut (), Some(CommitRecord { tag: 1, bytes: b"" }), &mut ()).unwrap());
    at
}

/// Goal: X1. Method: random ends of random transactions, ticks in between; at each step list the snapshots taken so far
/// in terms of xids, and check that each list shows exactly the transactions that had ended when it was made and, if
/// they committed, lie below its snapshot.
#[test]
fn lists_show_what_ended_below_the_snapshot() {
    const XIDS: u64 = 60;
    for seed in 0..20_u64 {
        let txns = txns(64);
        let mut dice = seed * 7919 + 1;
        let mut roll = |sides: u64| {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (dice >> 33) % sides
        };
        let mut open = Vec::new();
        let mut ended: Vec<(Xid, Option<Lsn>)> = Vec::new();
        let mut snapshots = vec![txns.log().boundary()];
        while txns.next_xid().get() <= XIDS || !open.is_empty() {
            if txns.next_xid().get() <= XIDS && (open.is_empty() || roll(2) == 0) {
                open.push(client(&txns));
            } else {
                let at = usize::try_from(roll(open.len() as u64)).unwrap();
                let (mut session, t, xid) = open.swap_remove(at);
                ended.push((
                    xid,
                    if roll(3) > 0 {
                        Some(commit(&mut session, t))
                    } else {
                        session.abort(t, &mut ());
                        None
                    },
                ));
            }
            if roll(3) == 0 {
                txns.tick(Duration::ZERO);
            }
            snapshots.push(txns.log().boundary());
            for snapshot in &snapshots {
                let told = txns.xid_snapshot(*snapshot).unwrap();
                for xid in (1..=txns.next_xid().get()).map(Xid::new) {
                    let shown = xid < told.xmin || xid < told.xmax && told.open.binary_search(&xid).is_err();
                    let end = ended.iter().find(|(one, _)| *one == xid).map(|(_, end)| *end);
                    let wanted = end.is_some_and(|end| end.is_none_or(|csn| csn < *snapshot));
                    assert_eq!(shown, wanted, "seed {seed}: {xid} {end:?} in {told:?} of {snapshot}");
                }
                assert!(told.open.iter().all(|xid| *xid >= told.xmin && *xid < told.xmax));
            }
        }
    }
}

/// Goal: a snapshot older than the ring is refused rather than listed wrongly; a transaction that the ring lapped is
/// still open in newer ones. Method: a ring of 128, one transaction that stays open, 300 commits.
#[test]
fn snapshot_older_than_the_ring_is_not_told() {
    let txns = txns(128);
    let (mut old, t, xid) = client(&txns);
    let before = txns.log().boundary();
    for _ in 0..300 {
        let (mut session, t, _) = client(&txns);
        let _ = commit(&mut session, t);
        txns.tick(Duration::ZERO);
    }
    assert_eq!(txns.xid_snapshot(before), None);
    let told = txns.xid_snapshot(txns.log().boundary()).unwrap();
    assert_eq!((told.xmin, &told.open[..], told.xmax), (xid, &[xid][..], txns.next_xid()));
    assert_eq!(txns.xid_fate(xid), XidFate::InProgress);
    old.abort(t, &mut ());
}

/// Goal: each outcome is remembered as the client saw it, a commit only once it is visible, one without a record too.
/// Method: one transaction of each outcome; then enough others that the ring forgets them.
#[test]
fn fates_are_told_while_they_are_remembered() {
    let txns = txns(64);
    let (mut session, t, committed) = client(&txns);
    assert_eq!(txns.xid_fate(committed), XidFate::InProgress);
    txns.log().stall(true);
    let _ = commit(&mut session, t);
    assert_eq!(txns.xid_fate(committed), XidFate::InProgress, "nobody sees it yet");
    txns.log().stall(false);
    assert_eq!(txns.xid_fate(committed), XidFate::Committed);
    let (mut session, t, aborted) = client(&txns);
    session.abort(t, &mut ());
    assert_eq!(txns.xid_fate(aborted), XidFate::Aborted);
    let (mut session, t, empty) = client(&txns);
    t.note_committed();
    session.abort(t, &mut ());
    assert_eq!(txns.xid_fate(empty), XidFate::Committed);
    assert_eq!(txns.xid_fate(txns.next_xid()), XidFate::Future);
    for _ in 0..80 {
        let (mut session, t, _) = client(&txns);
        session.abort(t, &mut ());
        txns.tick(Duration::ZERO);
    }
    for xid in [committed, aborted, empty] {
        assert_eq!(txns.xid_fate(xid), XidFate::Forgotten);
    }
}
