//! Tests of the number of retries that a write reports because other threads changed its row.

use std::cell::{Cell, RefCell};

use collie_base::{CfId, LockStrength, Lsn, Xid};

use super::tests::{TxnStatuses, done, put, rules, view};
use super::*;
use crate::stamp::Word;
use crate::{Family, Removal, RowHolders};

/// Transaction statuses that act on the row while a writer resolves them, a given number of times.
struct Meddler<'a> {
    fates: &'a TxnStatuses,
    left: Cell<u16>,
    meddle: &'a dyn Fn(),
}

impl Resolve for Meddler<'_> {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        let fate = self.fates.resolve(stamp);
        if let Some(left) = self.left.get().checked_sub(1) {
            self.left.set(left);
            (self.meddle)();
        }
        fate
    }
}

impl ShareLocks for Meddler<'_> {
    fn with_holders<R>(&self, family: CfId, key: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
        self.fates.with_holders(family, key, act)
    }
}

fn put_beside(family: &Family, meddler: &Meddler<'_>) -> Pending {
    let (view, rules) = (view(2, 6000, 1), rules(2));
    done(family.write(b"k", Change::Put(b"two"), Basis::Snapshot, &view, &rules, meddler))
}

/// Goal: a write reports how often the head differed from the one that it had examined. Method: while the writer
/// resolves the status of the version below, a lock is taken on the row and released, zero, one and three times.
#[test]
fn writes_count_the_heads_that_changed_under_them() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
    family.load(b"k", Some(b"v"), Lsn::new(5000));
    let _unstamped = done(put(&family, &fates, 1, 5500, b"one"));
    fates.set(Xid::new(1), TxnStatus::Committed(Lsn::new(5600)));
    let lock = || {
        let change = Change::Lock(LockStrength::Update);
        done(family.write(b"k", change, Basis::Snapshot, &view(9, 6000, 1), &rules(9), &fates)).commit(Lsn::new(5700));
    };
    for times in [0, 1, 3] {
        let meddler = Meddler { fates: &fates, left: Cell::new(times), meddle: &lock };
        assert_eq!(put_beside(&family, &meddler).retries(), times);
    }
}

/// Goal: a write that finds its row dead and replaced by another one counts that. Method: while the writer looks, the
/// row is deleted, removed and inserted again.
#[test]
fn writes_count_the_rows_that_died_under_them() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
    let InsertOutcome::Done(first) = family.insert(b"k", b"one", &view(1, 4500, 1), &rules(1), &fates) else {
        panic!("nothing is there")
    };
    fates.set(Xid::new(1), TxnStatus::Committed(Lsn::new(5000)));
    let first = RefCell::new(Some(first));
    let replace = || {
        first.take().expect("once").commit(Lsn::new(5000));
        let (view, rules) = (|xid| view(xid, 5500, 1), rules);
        let deleted = done(family.write(b"k", Change::Delete, Basis::Snapshot, &view(9), &rules(9), &fates));
        let row = Arc::clone(deleted.row());
        deleted.commit(Lsn::new(5600));
        assert!(matches!(row.try_remove(Lsn::new(5700), &pin()), Removal::Dead { .. }));
        let InsertOutcome::Done(new) = family.insert(b"k", b"new", &view(10), &rules(10), &fates) else {
            panic!("it is dead")
        };
        new.commit(Lsn::new(5700));
    };
    let meddler = Meddler { fates: &fates, left: Cell::new(1), meddle: &replace };
    assert_eq!(put_beside(&family, &meddler).retries(), 1);
}
