//! Tests of one row: the outcomes of writes, what readers see, what pruning leaves.

use std::collections::BTreeMap;
use std::sync::{Mutex, RwLock};

use collie_base::{CfId, LiveSnapshots, Xid};

use super::*;
use crate::held::Holders;
use crate::{Family, Kept, RowHolders, Word};

/// Transaction statuses set by a test, and a table of share locks under one mutex.
#[derive(Default)]
pub(crate) struct TxnStatuses(RwLock<BTreeMap<u64, TxnStatus>>, Mutex<BTreeMap<Vec<u8>, Holders>>);

impl TxnStatuses {
    pub(crate) fn set(&self, xid: Xid, fate: TxnStatus) {
        self.0.write().unwrap().insert(xid.get(), fate);
    }
}

impl ShareLocks for TxnStatuses {
    fn with_holders<R>(&self, _: CfId, key: &[u8], act: impl FnOnce(&mut dyn RowHolders) -> R) -> R {
        act(self.1.lock().unwrap().entry(key.to_vec()).or_default())
    }
}

impl Resolve for TxnStatuses {
    fn resolve(&self, stamp: &Word) -> TxnStatus {
        TxnStatus::of_final(stamp)
            .unwrap_or_else(|xid| self.0.read().unwrap().get(&xid.get()).copied().unwrap_or(TxnStatus::InProgress(xid)))
    }
}

pub(crate) fn view(xid: u64, snapshot: u64, command: u32) -> View {
    View { snapshot: Lsn::new(snapshot), me: Some(Xid::new(xid)), command }
}

pub(crate) fn rules(xid: u64) -> WriteRules {
    WriteRules { xid: Xid::new(xid), repeatable: false }
}

pub(super) fn put(family: &Family, fates: &TxnStatuses, xid: u64, snapshot: u64, value: &[u8]) -> WriteOutcome {
    family.write(b"k", Change::Put(value), Basis::Snapshot, &view(xid, snapshot, 1), &rules(xid), fates)
}

pub(super) fn read(family: &Family, fates: &TxnStatuses, snapshot: u64) -> Option<Vec<u8>> {
    family.read(b"k", &view(0, snapshot, 0), fates, &pin()).map(|value| value.to_vec())
}

pub(super) fn done(outcome: WriteOutcome) -> Pending {
    match outcome {
        WriteOutcome::Done(pending) => pending,
        other => panic!("{other:?}"),
    }
}

/// Goal: a writer learns what is in its way. Method: each state of the newest version, each level, one write.
#[test]
fn write_follows_the_newest_state_of_the_row() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
    family.load(b"k", Some(b"5000"), Lsn::new(5000));
    let first = done(put(&family, &fates, 1, 6000, b"one"));
    assert!(matches!(put(&family, &fates, 2, 6000, b"two"), WriteOutcome::Wait(x) if x == Xid::new(1)));
    assert!(matches!(put(&family, &fates, 1, 6000, b"again"), WriteOutcome::SelfModified));
    fates.set(Xid::new(1), TxnStatus::Committed(Lsn::new(7000)));
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

/// Goal: a lock keeps other writers off, leaves the value, and disappears. Method: lock, try, finish, write, count
/// versions.
#[test]
fn lock_holds_writers_off_and_leaves_no_trace() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
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
    let pruned = row.prune(&LiveSnapshots::none_below(Lsn::new(9000)), &pin).unwrap();
    assert_eq!((pruned.left, pruned.kept), (1, None));
    assert_eq!(row.version_count(), 1);
}

/// Goal: undoing an insert leaves nothing, and a key can be used again at once. Method: insert, undo, look, insert.
#[test]
fn undone_insert_leaves_no_row() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
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

/// Updates the one row at every position from 5001 on, pruning as writers do. Returns the row, its largest number of
/// versions, and the steps of all walks.
fn update_hot_row(family: &Family, times: u64, live: impl Fn(u64) -> LiveSnapshots) -> (Arc<Row>, usize, u64) {
    let (fates, mut most, mut walks) = (TxnStatuses::default(), 0, 0);
    family.load(b"k", Some(b"0"), Lsn::new(5000));
    for csn in 5001..=5000 + times {
        let pending =
            done(family.write(b"k", Change::Put(b"v"), Basis::Snapshot, &view(csn, csn, 1), &rules(csn), &fates));
        let row = Arc::clone(pending.row());
        if row.is_grown() {
            walks += u64::from(row.prune(&live(csn), &pin()).unwrap().left);
        }
        pending.commit(Lsn::new(csn));
        most = most.max(row.version_count());
        if csn == 5000 + times {
            return (row, most, walks);
        }
    }
    unreachable!("at least one update")
}

/// Goal: a hot row keeps little more than what snapshots need, and pruning costs each writer the same however many
/// there are. Method: 1,000 updates with no snapshot, with one and with 50 old ones; count the largest number of
/// versions, the steps of all walks together, and the versions left by a last pruning.
#[test]
fn hot_row_stays_short_beside_old_snapshots() {
    for old in [0, 1, 50_u64] {
        let family = Family::new(CfId::new(1));
        let held = |csn: u64| (0..old).map(|n| Lsn::new(5000 + 2 * n + 1)).filter(|s| s.get() < csn).collect();
        let (row, most, walks) = update_hot_row(&family, 1000, |csn| LiveSnapshots::new(Lsn::new(csn), held(csn)));
        let limit = 2 * usize::try_from(old).unwrap() + 6;
        assert!(most <= limit, "{most} versions beside {old} snapshots");
        assert!(walks <= 6 * 1000, "{walks} versions walked over");
        let pruned = row.prune(&LiveSnapshots::new(Lsn::new(7000), held(7000)), &pin()).unwrap();
        assert_eq!((u64::from(pruned.left), row.version_count()), (old + 1, usize::try_from(old).unwrap() + 1));
        let pruned = row.prune(&LiveSnapshots::none_below(Lsn::new(7000)), &pin()).unwrap();
        assert_eq!((pruned.left, pruned.kept, row.version_count()), (1, None, 1));
    }
}

/// Goal: cleaning a row reports what keeps the remaining versions. Method: each reason alone and together, oldest
/// snapshots first.
#[test]
fn pruning_says_what_the_rest_waits_for() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
    family.load(b"k", Some(b"0"), Lsn::new(5000));
    let put = |csn: u64| {
        let pending =
            done(family.write(b"k", Change::Put(b"v"), Basis::Snapshot, &view(csn, csn, 1), &rules(csn), &fates));
        let row = Arc::clone(pending.row());
        (pending, row)
    };
    for csn in [5010, 5020, 5030] {
        put(csn).0.commit(Lsn::new(csn));
    }
    let row = family.write(b"k", Change::Delete, Basis::Snapshot, &view(1, 5031, 1), &rules(1), &fates);
    let row = match row {
        WriteOutcome::Done(pending) => {
            let row = Arc::clone(pending.row());
            pending.commit(Lsn::new(5040));
            row
        }
        other => panic!("{other:?}"),
    };
    let live = |up, held: &[u64]| LiveSnapshots::new(Lsn::new(up), held.iter().map(|s| Lsn::new(*s)).collect());
    let kept = |live: &LiveSnapshots| family.clean(&row, live).kept;
    assert_eq!(
        kept(&live(5025, &[5005, 5015])),
        Some(Kept::Until(Lsn::new(5030))),
        "5020 and 5030 are still to be read"
    );
    assert_eq!(kept(&live(5035, &[5005, 5015])), Some(Kept::Until(Lsn::new(5040))));
    assert_eq!(kept(&live(5045, &[5005, 5015])), Some(Kept::By(Lsn::new(5015))), "the newest, by its lowest reader");
    assert_eq!(row.version_count(), 3);
    assert_eq!(kept(&live(5045, &[5005])), Some(Kept::By(Lsn::new(5005))));
    assert_eq!(row.version_count(), 2);
    assert_eq!((kept(&live(5045, &[])), family.stat().rows), (None, 0));
    let rules = rules(2);
    let InsertOutcome::Done(made) = family.insert(b"k", b"v", &view(2, 5045, 1), &rules, &fates) else { panic!() };
    let row = Arc::clone(made.row());
    let gone = done(family.write(b"k", Change::Delete, Basis::Snapshot, &view(2, 5045, 2), &rules, &fates));
    made.commit(Lsn::new(5060));
    gone.commit(Lsn::new(5060));
    let cleaned = family.clean(&row, &live(5070, &[5050]));
    assert_eq!((cleaned.kept, row.version_count()), (Some(Kept::By(Lsn::new(5050))), 1), "to tell it of the deletion");
    assert_eq!((family.clean(&row, &live(5070, &[5065])).kept, family.stat().rows), (None, 0));
}

/// Goal: a deletion found under an unfinished insert is not forgotten (T35). Method: clean while the insert is there,
/// roll it back, clean as asked.
#[test]
fn rolled_back_insert_over_a_deletion_leaves_no_row() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
    family.load(b"k", Some(b"v"), Lsn::new(5000));
    let gone = done(family.write(b"k", Change::Delete, Basis::Snapshot, &view(1, 6000, 1), &rules(1), &fates));
    let row = Arc::clone(gone.row());
    gone.commit(Lsn::new(6000));
    let InsertOutcome::Done(again) = family.insert(b"k", b"w", &view(2, 7000, 1), &rules(2), &fates) else { panic!() };
    let live = LiveSnapshots::none_below(Lsn::new(8000));
    assert_eq!(family.clean(&row, &live).kept, Some(Kept::Unfinished), "to come back to");
    family.undo(again);
    assert_eq!((family.clean(&row, &live).kept, family.stat().rows), (None, 0));
}

/// Goal: a KEY SHARE locker learns of a change of keys however late the version above it is stamped. Method: a change
/// of keys, a version that was published and not stamped, a newer one; prune, stamp, prune; a locker of an older
/// snapshot each time.
#[test]
fn change_of_keys_below_an_unstamped_version_is_not_forgotten() {
    let (family, fates) = (Family::new(CfId::new(1)), TxnStatuses::default());
    family.load(b"k", Some(b"v"), Lsn::new(5000));
    let keys = Change::PutKeys(b"keys");
    done(family.write(b"k", keys, Basis::Snapshot, &view(1, 6000, 1), &rules(1), &fates)).commit(Lsn::new(6000));
    let unstamped = done(put(&family, &fates, 2, 6500, b"two"));
    fates.set(Xid::new(2), TxnStatus::Committed(Lsn::new(7000)));
    let newest = done(put(&family, &fates, 3, 7500, b"three"));
    let row = Arc::clone(newest.row());
    newest.commit(Lsn::new(8000));
    let live = LiveSnapshots::new(Lsn::new(9000), vec![Lsn::new(5500)]);
    let refused = || {
        let key_share = Change::Lock(LockStrength::KeyShare);
        let outcome = family.write(b"k", key_share, Basis::Snapshot, &view(4, 5500, 1), &rules(4), &fates);
        matches!(outcome, WriteOutcome::Changed { .. })
    };
    let pruned = row.prune(&live, &pin()).unwrap();
    assert_eq!((pruned.left, pruned.kept), (4, Some(Kept::Unfinished)), "what is read, and what stands between");
    assert!(refused());
    unstamped.commit(Lsn::new(7000));
    let pruned = row.prune(&live, &pin()).unwrap();
    assert_eq!((pruned.left, pruned.kept), (2, Some(Kept::By(Lsn::new(5500)))));
    assert!(refused());
}
