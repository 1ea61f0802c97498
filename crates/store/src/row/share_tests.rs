//! Tests of locks of shared strength on one row: the matrix, the tag, the state that a locker sees.

use collie_base::{CfId, Xid};

use super::head::is_shared;
use super::tests::{TxnStatuses, done, put, read, rules, view};
use super::*;
use crate::{Family, Removal};

fn family() -> (Family, TxnStatuses) {
    let family = Family::new(CfId::new(1));
    family.load(b"k", Some(b"v"), Lsn::new(5000));
    (family, TxnStatuses::default())
}

fn lock_at(family: &Family, fates: &TxnStatuses, xid: u64, snapshot: u64, strength: LockStrength) -> WriteOutcome {
    family.write(b"k", Change::Lock(strength), Basis::Snapshot, &view(xid, snapshot, 2), &rules(xid), fates)
}

fn lock(family: &Family, fates: &TxnStatuses, xid: u64, strength: LockStrength) -> WriteOutcome {
    lock_at(family, fates, xid, 6000, strength)
}

fn shared(outcome: WriteOutcome) -> ShareLock {
    match outcome {
        WriteOutcome::Shared(lock) => lock,
        other => panic!("{other:?}"),
    }
}

/// Goal: two transactions hold a row at once exactly if the matrix allows it. Method: every pair of strengths, one held
/// and one requested; a released lock blocks no transaction.
#[test]
fn two_hold_a_row_at_once_when_the_matrix_allows_it() {
    for held in LockStrength::ALL {
        for asked in LockStrength::ALL {
            let (family, fates) = family();
            let first = lock(&family, &fates, 1, held);
            match lock(&family, &fates, 2, asked) {
                WriteOutcome::Wait(holder) => {
                    assert!(held.conflicts_with(asked) && holder == Xid::new(1), "{held:?}, {asked:?}");
                    assert!(family.is_held(b"k", holder, asked, &fates));
                }
                WriteOutcome::Done(_) => {
                    assert!(!held.conflicts_with(asked) && !asked.is_shared(), "{held:?}, {asked:?}")
                }
                WriteOutcome::Shared(second) => {
                    assert!(!held.conflicts_with(asked) && asked.is_shared(), "{held:?}, {asked:?}");
                    assert!(!family.is_held(b"k", Xid::new(1), asked, &fates));
                    second.release(&fates);
                }
                other => panic!("{held:?}, {asked:?}: {other:?}"),
            }
            match first {
                WriteOutcome::Done(pending) => family.undo(pending),
                first => shared(first).release(&fates),
            }
            assert!(!family.is_held(b"k", Xid::new(1), LockStrength::Update, &fates));
            drop(done(lock(&family, &fates, 3, LockStrength::Update)));
        }
    }
}

/// Goal: a transaction that refers to a row and one that changes its other columns do not wait for each other. Method:
/// KEY SHARE together with each kind of unfinished change, in both orders; the locker sees the version below.
#[test]
fn key_share_goes_with_a_change_that_keeps_the_keys() {
    let changes = [(Change::Put(b"new"), true), (Change::PutKeys(b"new"), false), (Change::Delete, false)];
    for (change, goes) in changes {
        let (family, fates) = family();
        let write = |xid| family.write(b"k", change, Basis::Snapshot, &view(xid, 6000, 1), &rules(xid), &fates);
        let held = shared(lock(&family, &fates, 2, LockStrength::KeyShare));
        match write(1) {
            WriteOutcome::Done(_) => assert!(goes, "{change:?}"), // dropped, so undone
            other => {
                assert!(!goes && matches!(other, WriteOutcome::Wait(x) if x == Xid::new(2)), "{change:?}: {other:?}")
            }
        }
        held.release(&fates);
        let written = done(write(1));
        match lock(&family, &fates, 2, LockStrength::KeyShare) {
            WriteOutcome::Shared(held) => {
                assert!(goes, "{change:?}");
                written.commit(Lsn::new(7000));
                fates.set(Xid::new(1), TxnStatus::Committed(Lsn::new(7000)));
                assert!(matches!(lock(&family, &fates, 2, LockStrength::KeyShare), WriteOutcome::Held));
                let later = lock(&family, &fates, 2, LockStrength::Share);
                assert!(matches!(later, WriteOutcome::Changed { csn, .. } if csn.get() == 7000), "{later:?}");
                held.release(&fates);
            }
            other => {
                assert!(!goes && matches!(other, WriteOutcome::Wait(x) if x == Xid::new(1)), "{change:?}: {other:?}")
            }
        }
    }
}

/// Goal: a locker sees a change of the keys, but not a change that keeps them. Method: both committed above a snapshot,
/// KEY SHARE at it.
#[test]
fn key_share_is_shown_changes_of_keys_only() {
    let (family, fates) = family();
    done(put(&family, &fates, 1, 6000, b"same keys")).commit(Lsn::new(7000));
    shared(lock_at(&family, &fates, 2, 6000, LockStrength::KeyShare)).release(&fates);
    let new = Change::PutKeys(b"new keys");
    done(family.write(b"k", new, Basis::Snapshot, &view(1, 7001, 1), &rules(1), &fates)).commit(Lsn::new(8000));
    let told = lock_at(&family, &fates, 2, 6000, LockStrength::KeyShare);
    assert!(matches!(told, WriteOutcome::Changed { csn, .. } if csn.get() == 8000), "{told:?}");
    done(put(&family, &fates, 1, 9000, b"new keys, more")).commit(Lsn::new(9000));
    let after = Basis::After(Lsn::new(8000));
    let change = Change::Lock(LockStrength::KeyShare);
    shared(family.write(b"k", change, after, &view(2, 6000, 1), &rules(2), &fates)).release(&fates);
}

/// Goal: a transaction holds the strongest lock that it asked for, and after a release the previous one. Method: up and
/// down with one holder, while another requests what the previous step forbids.
#[test]
fn lock_goes_up_and_comes_back_down() {
    let (family, fates) = family();
    let weak = shared(lock(&family, &fates, 1, LockStrength::KeyShare));
    let strong = shared(lock(&family, &fates, 1, LockStrength::Share));
    assert!(matches!(lock(&family, &fates, 1, LockStrength::KeyShare), WriteOutcome::Held));
    assert!(matches!(lock(&family, &fates, 2, LockStrength::NoKeyUpdate), WriteOutcome::Wait(_)));
    let first = done(lock(&family, &fates, 1, LockStrength::NoKeyUpdate));
    let other = shared(lock(&family, &fates, 2, LockStrength::KeyShare));
    assert!(matches!(lock(&family, &fates, 1, LockStrength::Update), WriteOutcome::Wait(x) if x == Xid::new(2)));
    other.release(&fates);
    let second = done(lock(&family, &fates, 1, LockStrength::Update));
    assert!(matches!(lock(&family, &fates, 2, LockStrength::KeyShare), WriteOutcome::Wait(x) if x == Xid::new(1)));
    let change = Change::Put(b"new");
    let third = done(family.write(b"k", change, Basis::Snapshot, &view(1, 6000, 2), &rules(1), &fates));
    assert!(matches!(lock(&family, &fates, 2, LockStrength::KeyShare), WriteOutcome::Wait(_)), "still UPDATE below");
    for pending in [third, second] {
        family.undo(pending);
    }
    shared(lock(&family, &fates, 2, LockStrength::KeyShare)).release(&fates);
    family.undo(first);
    assert!(matches!(lock(&family, &fates, 2, LockStrength::NoKeyUpdate), WriteOutcome::Wait(_)));
    strong.release(&fates);
    drop(done(lock(&family, &fates, 2, LockStrength::NoKeyUpdate)));
    weak.release(&fates);
    drop(done(lock(&family, &fates, 2, LockStrength::Update)));
}

/// Goal: the tag lasts as long as a lock, whatever happens to the chain, and a tagged row is not removed from memory.
/// Method: two holders; one writes and rolls back, then deletes; pruning and removal in between.
#[test]
fn tag_outlives_all_but_the_last_lock() {
    let (family, fates) = family();
    let tagged = |row: &Row| is_shared(row.head.load(Acquire));
    let one = shared(lock(&family, &fates, 1, LockStrength::KeyShare));
    let two = shared(lock(&family, &fates, 2, LockStrength::KeyShare));
    let written = done(put(&family, &fates, 1, 6000, b"new"));
    let row = Arc::clone(written.row());
    assert!(tagged(&row));
    family.undo(written);
    assert_eq!((tagged(&row), read(&family, &fates, 9000)), (true, Some(b"v".to_vec())));
    two.release(&fates);
    assert!(tagged(&row));
    let deleted = family.write(b"k", Change::Delete, Basis::Snapshot, &view(1, 6000, 1), &rules(1), &fates);
    done(deleted).commit(Lsn::new(7000));
    let new = family.insert(b"k", b"w", &view(2, 8000, 1), &rules(2), &fates);
    assert!(matches!(new, InsertOutcome::Wait(x) if x == Xid::new(1)), "{new:?}");
    assert_eq!(row.try_remove(Lsn::new(8000), &pin()), Removal::Busy);
    one.release(&fates);
    assert!(!tagged(&row));
    assert_eq!(family.clean(&row, &collie_base::LiveSnapshots::none_below(Lsn::new(8000))).kept, None);
    assert_eq!(family.stat().rows, 0);
}
