//! Tests of the time at which a transaction got its xid, as reported to sessions that wait for it.

use std::sync::Arc;

use collie_base::Xid;

use crate::{Isolation, Options, Session, Transaction, Txns, test_log::TestLog};

fn begin_at(session: &mut Session<TestLog>, moment: u64) -> (Transaction, Xid) {
    let mut t = session.begin(Isolation::ReadCommitted, false);
    let xid = session.assign_xid_at(&mut t, || moment).unwrap();
    assert_eq!(session.assign_xid_at(&mut t, || panic!("it has one")), Ok(xid));
    (t, xid)
}

/// Goal: the reported time is that of the transaction, also once the ring of xids has lapped it; there is none for a
/// transaction that has ended, even if its session continues, or that was given none. Method: two sessions over a ring
/// of two xids, by hand.
#[test]
fn first_write_is_told_while_its_transaction_is_open() {
    let txns: Arc<Txns<TestLog>> =
        Txns::new(TestLog::new(), Options { xid_slots: 2, sessions_max: 8, first_xid: Xid::new(1) });
    let (mut long, mut short) = (txns.session().unwrap(), txns.session().unwrap());
    assert_eq!(txns.first_write(Xid::new(7)), None, "there is no such transaction");
    let (open, first) = begin_at(&mut long, 100);
    for moment in 101..110 {
        let (t, xid) = begin_at(&mut short, moment);
        assert_eq!((txns.first_write(first), txns.first_write(xid)), (Some(100), Some(moment)));
        short.abort(t, &mut ());
        assert_eq!(txns.first_write(xid), None, "it has ended");
    }
    assert!(txns.floor_xid() > first, "the first one was lapped");
    long.abort(open, &mut ());
    let mut t = long.begin(Isolation::ReadCommitted, false);
    let later = long.assign_xid(&mut t).unwrap();
    assert_eq!([first, later].map(|xid| txns.first_write(xid)), [None, None], "nor is the one before told of");
    long.abort(t, &mut ());
}
