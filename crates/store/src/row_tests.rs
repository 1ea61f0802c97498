//! Tests of one row: what writers are told, what readers see, what pruning leaves.

use std::collections::BTreeMap;
use std::sync::{Mutex, RwLock};

use collie_base::{CfId, Xid};

use super::*;
use crate::held::Holders;
use crate::{Family, RowHolders, Word};

/// Fates by transaction, as a test wants them, and a table of share locks behind one mutex.
#[derive(Default)]
pub(crate) struct Fates(RwLock<BTreeMap<u64, Fate>>, Mutex<BTreeMap<Vec<u8>, Holders>>);

impl Fates {
    pub(crate) fn set(&self, xid: Xid, fate: Fate) {
        self.0.write().unwrap().insert(xid.get(), fate);
    }
}

impl ShareLocks for Fates {
    fn with_holders<R>(&self, _: CfId, key: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
        act(self.1.lock().unwrap().entry(key.to_vec()).or_default())
    }
}

impl Resolve for Fates {
    fn resolve(&self, stamp: &Word) -> Fate {
        Fate::of_final(stamp)
            .unwrap_or_else(|xid| self.0.read().unwrap().get(&xid.get()).copied().unwrap_or(Fate::InProgress(xid)))
    }
}

pub(crate) fn view(xid: u64, snapshot: u64, command: u32) -> View {
    View { snapshot: Lsn::new(snapshot), me: Some(Xid::new(xid)), command }
}

pub(crate) fn rules(xid: u64) -> WriteRules {
    WriteRules { xid: Xid::new(xid), repeatable: false, horizon: Lsn::FIRST }
}

pub(super) fn put(family: &Family, fates: &Fates, xid: u64, snapshot: u64, value: &[u8]) -> WriteOutcome {
    family.write(b"k", Change::Put(value), Basis::Snapshot, &view(xid, snapshot, 1), &rules(xid), fates)
}

pub(super) fn read(family: &Family, fates: &Fates, snapshot: u64) -> Option<Vec<u8>> {
    family.read(b"k", &view(0, snapshot, 0), fates, &pin()).map(|value| value.to_vec())
}

pub(super) fn done(outcome: WriteOutcome) -> Pending {
    match outcome {
        WriteOutcome::Done(pending) => pending,
        other => panic!("{other:?}"),
    }
}

/// Goal: a writer is told what stands in its way. Method: each state of the newest version, each level, one write.
#[test]
fn write_follows_the_newest_state_of_the_row() {
    let (family, fates) = (Family::new(CfId::new(1)), Fates::default());
    family.load(b"k", Some(b"5000"), Lsn::new(5000));
    let first = done(put(&family, &fates, 1, 6000, b"one"));
    assert!(matches!(put(&family, &fates, 2, 6000, b"two"), WriteOutcome::Wait(x) if x == Xid::new(1)));
    assert!(matches!(put(&family, &fates, 1, 6000, b"again"), WriteOutcome::SelfModified));
    fates.set(Xid::new(1), Fate::Committed(Lsn::new(7000)));
    assert_eq!(read(&family, &fates, 7000), Some(b"5000".to_vec()), "strictly below the snapshot");
    assert_eq!(read(&family, &fates, 7001), Some(b"one".to_vec()), "published, not yet stamped");
    match put(&family, &fates, 2, 6000, b"two") {
        WriteOutcome::Changed { csn, value } => assert_eq!((csn.get(), &value[..]), (7000, &b"one"[..])),
        other => panic!("{other:?}"),
    }
    let strict = WriteRules { repeatable: true, ..rules(2) };
    let outcome = family.write(b"k", Change::Put(b"x"), Basis::Snapshot, &view(2, 6000, 1), &strict, &fates);
    assert!(matches!(outcome, WriteOutcome::Conflict(csn) if csn.get() == 7000));
    let after = Basis::After(Lsn::new(7000));
    let second = done(family.write(b"k", Change::Delete, after, &view(2, 6000, 1), &rules(2), &fates));
    first.commit(Lsn::new(7000));
    second.commit(Lsn::new(8000));
    assert_eq!(read(&family, &fates, 8001), None);
    assert!(matches!(put(&family, &fates, 3, 7500, b"late"), WriteOutcome::Gone(Some(csn)) if csn.get() == 8000));
    assert!(matches!(put(&family, &fates, 3, 9000, b"late"), WriteOutcome::Gone(None)));
}

/// Goal: a lock holds others off, leaves the value, and disappears. Method: lock, try, finish, write, count versions.
#[test]
fn lock_holds_writers_off_and_leaves_no_trace() {
    let (family, fates) = (Family::new(CfId::new(1)), Fates::default());
    family.load(b"k", Some(b"v"), Lsn::new(5000));
    let lock = Change::Lock(LockStrength::Update);
    let held = done(family.write(b"k", lock, Basis::Snapshot, &view(1, 6000, 1), &rules(1), &fates));
    let again = family.write(b"k", lock, Basis::Snapshot, &view(1, 6000, 1), &rules(1), &fates);
    assert!(matches!(again, WriteOutcome::Held));
    assert!(matches!(put(&family, &fates, 2, 6000, b"two"), WriteOutcome::Wait(_)));
    let insert = family.insert(b"k", b"new", &view(2, 6000, 1), &rules(2), &fates);
    let InsertOutcome::Duplicate { origin, value } = insert else { panic!("a locked row is a duplicate at once") };
    assert!(matches!(origin, Origin::Committed(_)), "the lock's owner is not asked for: {origin:?}");
    assert_eq!(&value[..], b"v");
    let written = done(family.write(b"k", Change::Put(b"one"), Basis::Snapshot, &view(1, 6000, 1), &rules(1), &fates));
    assert_eq!(read(&family, &fates, 9000), Some(b"v".to_vec()));
    written.commit(Lsn::new(7000));
    held.commit(Lsn::new(7000));
    let row = Arc::clone(done(put(&family, &fates, 2, 8000, b"two")).row());
    assert_eq!(row.version_count(), 3, "dropped, so undone: the committed value, the lock, the old value");
    let pin = pin();
    assert_eq!(row.prune(Lsn::new(9000), &pin), Some(1));
    assert_eq!(row.version_count(), 1);
}

/// Goal: undoing an insert leaves nothing, and a key can be used again at once. Method: insert, undo, look, insert.
#[test]
fn undone_insert_leaves_no_row() {
    let (family, fates) = (Family::new(CfId::new(1)), Fates::default());
    let InsertOutcome::Done(pending) = family.insert(b"k", b"v", &view(1, 5000, 1), &rules(1), &fates) else {
        panic!()
    };
    assert!(matches!(
        family.insert(b"k", b"v", &view(2, 5000, 1), &rules(2), &fates),
        InsertOutcome::Wait(x) if x == Xid::new(1)
    ));
    family.undo(pending);
    assert_eq!(family.stat().rows, 0);
    let InsertOutcome::Done(pending) = family.insert(b"k", b"w", &view(2, 5000, 1), &rules(2), &fates) else {
        panic!()
    };
    pending.commit(Lsn::new(6000));
    assert_eq!(read(&family, &fates, 6001), Some(b"w".to_vec()));
}

/// Goal: a hot row keeps what snapshots need and little more. Method: 1,000 updates under a moving horizon, then under a
/// standing one; the chain stays short in the first and pruning stays cheap in the second.
#[test]
fn hot_row_stays_short_under_a_moving_horizon() {
    let (family, fates) = (Family::new(CfId::new(1)), Fates::default());
    family.load(b"k", Some(b"0"), Lsn::new(5000));
    let mut csn = 5000;
    let mut row = None;
    for step in 0..1000_u64 {
        let horizon = if step < 900 { csn } else { 5900 };
        let rules = WriteRules { horizon: Lsn::new(horizon), ..rules(step + 1) };
        let now = view(step + 1, csn + 1, 1);
        let pending = done(family.write(b"k", Change::Put(b"v"), Basis::Snapshot, &now, &rules, &fates));
        row = Some(Arc::clone(pending.row()));
        csn += 1;
        pending.commit(Lsn::new(csn));
        let count = row.as_ref().unwrap().version_count();
        assert!(step >= 900 || count <= 8, "{count} versions after {step} updates");
    }
    let row = row.unwrap();
    assert!(row.version_count() <= 110, "{} versions", row.version_count());
    let _ = row.prune(Lsn::new(csn + 1), &pin());
    assert_eq!(row.version_count(), 1);
}
