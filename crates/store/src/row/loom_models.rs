//! Models of one row, run under `--cfg loom`: every interleaving of a few writers and a reader within a bound.
//!
//! Not covered: reclamation (nothing is freed under loom), the index, load buffering.

use collie_base::{LiveSnapshots, Xid};
use collie_sync::atomic::{AtomicU64, Ordering};
use collie_sync::model::{Explored, check, explore};
use collie_sync::thread;

use super::*;
use crate::Removal;
use crate::loom_commits::Commits;

const CF: CfId = CfId::new(1);

type World = Commits<3>;

fn amount(value: &[u8]) -> u8 {
    value[0]
}

/// Adds one to the row as transaction `xid`; gives up if it would have to wait. Returns the version that it installed.
fn add(row: &Arc<Row>, world: &World, xid: u64) -> Option<Pending> {
    let snapshot = world.now();
    let view = View { snapshot, me: Some(Xid::new(xid)), command: 1 };
    let rules = WriteRules { xid: Xid::new(xid), repeatable: false };
    let seen = amount(row.read(&view, world, &pin()).expect("the row is never deleted"));
    let (mut basis, mut value) = (Basis::Snapshot, seen + 1);
    loop {
        match row.write(CF, Change::Put(&[value]), basis, &view, &rules, world) {
            WriteOutcome::Done(pending) => return Some(pending),
            WriteOutcome::Changed { csn, value: newer } => {
                (basis, value) = (Basis::After(csn), amount(&newer) + 1);
            }
            WriteOutcome::Wait(_) => return None,
            other => panic!("{other:?}"),
        }
    }
}

fn row() -> Arc<Row> {
    Row::committed(Key::new(b"k"), &[0], Lsn::FIRST)
}

/// Two writers and a reader: both additions are kept, and the reader's snapshot does not move.
fn two_writers_and_a_reader() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let writers = [1, 2].map(|xid| {
        let (row, world) = (Arc::clone(&row), world.clone());
        thread::spawn(move || {
            let Some(pending) = add(&row, &world, xid) else { return 0 };
            pending.commit(world.publish(xid));
            1
        })
    });
    let snapshot = world.now();
    let view = View { snapshot, me: None, command: 0 };
    let first = row.read(&view, &*world, &pin()).map(|value| amount(value));
    let second = row.read(&view, &*world, &pin()).map(|value| amount(value));
    assert!(first.is_some(), "a version is never out of reach");
    assert_eq!(first, second, "a snapshot does not move");
    let added: u8 = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    let view = View { snapshot: Lsn::MAX, me: None, command: 0 };
    assert_eq!(row.read(&view, &*world, &pin()).map(|value| amount(value)), Some(added), "no addition is lost");
}

/// A writer that rolls back, a writer that commits and a reader.
fn writer_aborter_and_reader() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let aborter = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || add(&row, &world, 1).is_some_and(Pending::undo)
    });
    let writer = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || {
            let Some(pending) = add(&row, &world, 2) else { return 0 };
            pending.commit(world.publish(2));
            1
        }
    });
    let view = View { snapshot: Lsn::MAX, me: None, command: 0 };
    let seen = row.read(&view, &*world, &pin()).map(|value| amount(value));
    assert!(matches!(seen, Some(0 | 1)), "{seen:?}");
    assert!(!aborter.join().unwrap(), "the row is not empty");
    let written = writer.join().unwrap();
    let seen = row.read(&view, &*world, &pin()).map(|value| amount(value));
    assert_eq!(seen, Some(written), "a rolled-back version hides another");
}

/// A transaction that adds one in each of two commands, and a writer that waits for it, proceeds above it, or is
/// notified of it.
fn writer_beside_two_versions_of_one() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let twice = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || {
            let Some(first) = add(&row, &world, 1) else { return 0 };
            let view = View { snapshot: Lsn::MAX, me: Some(Xid::new(1)), command: 2 };
            let rules = WriteRules { xid: Xid::new(1), repeatable: false };
            let value = amount(row.read(&view, &*world, &pin()).expect("its own")) + 1;
            let second = match row.write(CF, Change::Put(&[value]), Basis::Snapshot, &view, &rules, &*world) {
                WriteOutcome::Done(pending) => pending,
                other => panic!("{other:?}"),
            };
            let csn = world.publish(1);
            first.commit(csn);
            second.commit(csn);
            2
        }
    });
    let added = match add(&row, &world, 2) {
        Some(pending) => {
            pending.commit(world.publish(2));
            1
        }
        None => 0,
    };
    let added = added + twice.join().unwrap();
    let view = View { snapshot: Lsn::MAX, me: None, command: 0 };
    assert_eq!(row.read(&view, &*world, &pin()).map(|value| amount(value)), Some(added), "no addition is lost");
}

/// Commits one addition for each of `xids`, each on top of the last; the first at 5000, each 10 above the previous.
fn add_all(row: &Arc<Row>, world: &World, xids: &[u64]) {
    for xid in xids {
        add(row, world, *xid).expect("nobody else").commit(world.publish(*xid));
    }
}

fn live(up: u64, held: &[u64]) -> LiveSnapshots {
    LiveSnapshots::new(Lsn::new(up), held.iter().map(|snapshot| Lsn::new(*snapshot)).collect())
}

fn read_at(row: &Row, world: &World, snapshot: u64) -> Option<u8> {
    let view = View { snapshot: Lsn::new(snapshot), me: None, command: 0 };
    row.read(&view, world, &pin()).map(|value| amount(value))
}

/// Two threads prune while a third reads two snapshots.
fn two_pruners_and_a_reader() {
    // Each version was superseded exactly at its snapshot, not below, so the snapshot sees it.
    fn read_both(row: &Row, world: &World) {
        assert_eq!(read_at(row, world, 5010), Some(1), "needed by a live snapshot");
        assert_eq!(read_at(row, world, 5000), Some(0), "needed by a live snapshot");
    }
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    add_all(&row, &world, &[0, 1, 2]); // at 5000, 5010, 5020
    let reader = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || {
            read_both(&row, &world);
        }
    });
    let prune = |row: &Row| row.prune(&live(5030, &[5000, 5010]), &pin()).map(|pruned| pruned.bytes);
    let pruner = thread::spawn({
        let row = Arc::clone(&row);
        move || prune(&row)
    });
    let freed = [prune(&row), pruner.join().unwrap()];
    reader.join().unwrap();
    read_both(&row, &world);
    assert!(freed.iter().flatten().filter(|bytes| **bytes > 0).count() == 1, "one of them freed the one: {freed:?}");
    assert_eq!(row.version_count(), 3, "one more than snapshots");
}

/// A writer that rolls back, a pruner, and a reader of the newest commit.
fn pruner_and_aborter() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    add_all(&row, &world, &[0]);
    let aborter = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || add(&row, &world, 1).expect("nobody else").undo()
    });
    let pruner = thread::spawn({
        let row = Arc::clone(&row);
        move || row.prune(&live(5010, &[]), &pin()).expect("nobody else")
    });
    assert_eq!(read_at(&row, &world, 5010), Some(1), "the newest commit stays");
    assert!(!aborter.join().unwrap(), "the row is not empty");
    let kept = pruner.join().unwrap().kept;
    let left = (read_at(&row, &world, 5010), row.version_count(), kept);
    assert_eq!(left, (Some(1), 1, None), "the newest commit stays, and it alone");
}

/// One thread cancels a snapshot and prunes; a reader continues with that snapshot and checks afterwards whether it is
/// still in force.
fn canceller_and_reader() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    add_all(&row, &world, &[0, 1]);
    let cancelled = Arc::new(AtomicU64::new(0));
    let reader = thread::spawn({
        let (row, world, cancelled) = (Arc::clone(&row), world.clone(), Arc::clone(&cancelled));
        move || {
            let seen = read_at(&row, &world, 5000);
            let in_force = cancelled.load(Ordering::Relaxed) == 0;
            assert!(seen == Some(0) || !in_force, "a wrong row for a snapshot in force: {seen:?}");
        }
    });
    cancelled.store(1, Ordering::Relaxed);
    assert_eq!(row.prune(&live(5020, &[]), &pin()).expect("nobody else").left, 1);
    reader.join().unwrap();
}

/// A committer that finds its row queued, and the cleaner that takes it from the queue.
fn committer_and_cleaner() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let pending = add(&row, &world, 0).expect("nobody else");
    assert!(row.queue(), "by an earlier commit");
    let committer = thread::spawn({
        let row = Arc::clone(&row);
        move || {
            let mut queued = mutant!("QUEUED_BEFORE_STAMPED") && row.queue();
            pending.commit(world.publish(0));
            queued |= !mutant!("QUEUED_BEFORE_STAMPED") && row.queue();
            queued
        }
    });
    let clean = |row: &Row| {
        if !mutant!("UNQUEUED_AFTER_PRUNING") {
            row.unqueue();
        }
        let kept = row.prune(&live(9000, &[]), &pin()).expect("nobody else").kept;
        if mutant!("UNQUEUED_AFTER_PRUNING") {
            row.unqueue();
        }
        kept
    };
    assert_eq!(clean(&row), None);
    if committer.join().unwrap() {
        assert_eq!(clean(&row), None);
    }
    assert_eq!(row.version_count(), 1, "what the commit superseded is in nobody's hands");
}

/// One thread prunes a version that changed keys; another, whose snapshot is below it, locks the row to refer to it.
fn pruner_and_key_share_taker() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let (view, rules) = (
        |xid| View { snapshot: Lsn::MAX, me: Some(Xid::new(xid)), command: 1 },
        |xid| WriteRules { xid: Xid::new(xid), repeatable: false },
    );
    match row.write(CF, Change::PutKeys(&[1]), Basis::Snapshot, &view(0), &rules(0), &*world) {
        WriteOutcome::Done(pending) => pending.commit(world.publish(0)),
        other => panic!("{other:?}"),
    }
    add_all(&row, &world, &[1]);
    let taker = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || {
            let old = View { snapshot: Lsn::new(5000), ..view(2) };
            let key_share = Change::Lock(LockStrength::KeyShare);
            match row.write(CF, key_share, Basis::Snapshot, &old, &rules(2), &*world) {
                WriteOutcome::Changed { .. } => {}
                other => panic!("the keys have changed since: {other:?}"),
            }
        }
    });
    assert_eq!(row.prune(&live(5020, &[5000]), &pin()).expect("nobody else").left, 2);
    taker.join().unwrap();
}

/// A deleted row: one thread removes it from memory, one inserts again, one reads.
fn remover_and_inserter() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let view = View { snapshot: Lsn::new(5000), me: Some(Xid::new(1)), command: 1 };
    let rules = WriteRules { xid: Xid::new(1), repeatable: false };
    let WriteOutcome::Done(deletion) = row.write(CF, Change::Delete, Basis::Snapshot, &view, &rules, &*world) else {
        panic!("nobody else")
    };
    deletion.commit(world.publish(1));
    let snapshot = world.now();
    let remover = thread::spawn({
        let row = Arc::clone(&row);
        move || matches!(row.try_remove(snapshot, &pin()), Removal::Dead { .. })
    });
    let inserter = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || {
            let view = View { snapshot, me: Some(Xid::new(2)), command: 1 };
            let rules = WriteRules { xid: Xid::new(2), repeatable: false };
            match row.insert(CF, &[9], &view, &rules, &*world) {
                InsertOutcome::Done(pending) => {
                    pending.commit(world.publish(2));
                    true
                }
                InsertOutcome::Dead => false,
                other => panic!("{other:?}"),
            }
        }
    });
    let reader = View { snapshot: Lsn::MAX, me: None, command: 0 };
    let seen = row.read(&reader, &*world, &pin()).map(|value| amount(value));
    assert!(matches!(seen, None | Some(9)), "{seen:?}");
    let (removed, inserted) = (remover.join().unwrap(), inserter.join().unwrap());
    assert!(removed != inserted, "either removed or used again: {removed}, {inserted}");
    let seen = row.read(&reader, &*world, &pin()).map(|value| amount(value));
    assert_eq!(seen, inserted.then_some(9), "what was committed is there");
}

fn share(row: &Arc<Row>, world: &World, xid: u64) -> Option<ShareLock> {
    let view = View { snapshot: Lsn::MAX, me: Some(Xid::new(xid)), command: 1 };
    let rules = WriteRules { xid: Xid::new(xid), repeatable: false };
    match row.write(CF, Change::Lock(LockStrength::Share), Basis::Snapshot, &view, &rules, world) {
        WriteOutcome::Shared(lock) => Some(lock),
        WriteOutcome::Wait(_) => None,
        other => panic!("{other:?}"),
    }
}

/// One thread takes a share lock, another writes: only one succeeds. A reader sees neither.
fn taker_and_writer() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let taker = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || share(&row, &world, 1)
    });
    let writer = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || add(&row, &world, 2)
    });
    let view = View { snapshot: Lsn::MAX, me: None, command: 0 };
    let seen = row.read(&view, &*world, &pin()).map(|value| amount(value));
    assert_eq!(seen, Some(0), "neither is committed");
    let (held, written) = (taker.join().unwrap(), writer.join().unwrap());
    assert!(held.is_some() != written.is_some(), "held: {}, written: {}", held.is_some(), written.is_some());
    if let Some(held) = held {
        assert!(add(&row, &world, 2).is_none(), "held, but not in a writer's way");
        held.release(&*world);
        add(&row, &world, 2).expect("nobody else").commit(world.publish(2));
    } else if let Some(written) = written {
        written.commit(world.publish(2));
    }
    assert_eq!(row.read(&view, &*world, &pin()).map(|value| amount(value)), Some(1), "what was written is there");
}

/// One thread releases its share lock, another takes one, a third writes: the second and the third do not both succeed.
fn releaser_taker_and_writer() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let first = share(&row, &world, 0).expect("nobody else");
    let releaser = thread::spawn({
        let world = world.clone();
        move || first.release(&*world)
    });
    let taker = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || share(&row, &world, 1)
    });
    let written = add(&row, &world, 2);
    releaser.join().unwrap();
    let held = taker.join().unwrap();
    assert!(held.is_none() || written.is_none(), "a new holder was overlooked");
    if let Some(held) = held {
        assert!(add(&row, &world, 2).is_none(), "held, but not in a writer's way");
        held.release(&*world);
    }
    drop(written);
    drop(add(&row, &world, 2).expect("everybody has gone"));
}

/// A writer that keeps the keys rolls back while another transaction takes KEY SHARE and a third tries to change the
/// keys.
fn undo_beside_a_key_share_taker() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let written = add(&row, &world, 0).expect("nobody else");
    let aborter = thread::spawn(move || written.undo());
    let view = |xid| View { snapshot: Lsn::MAX, me: Some(Xid::new(xid)), command: 1 };
    let rules = |xid| WriteRules { xid: Xid::new(xid), repeatable: false };
    let key_share = Change::Lock(LockStrength::KeyShare);
    let held = match row.write(CF, key_share, Basis::Snapshot, &view(1), &rules(1), &*world) {
        WriteOutcome::Shared(held) => held,
        other => panic!("{other:?}"),
    };
    aborter.join().unwrap();
    match row.write(CF, Change::Delete, Basis::Snapshot, &view(2), &rules(2), &*world) {
        WriteOutcome::Wait(holder) => assert_eq!(holder, Xid::new(1)),
        other => panic!("deleted under a holder of KEY SHARE: {other:?}"),
    }
    held.release(&*world);
    let deleted = row.write(CF, Change::Delete, Basis::Snapshot, &view(2), &rules(2), &*world);
    assert!(matches!(deleted, WriteOutcome::Done(_)), "{deleted:?}");
}

/// One thread takes KEY SHARE, another writes and keeps the keys: both succeed in either order; a third cannot delete.
fn key_share_taker_and_writer() {
    let (row, world) = (row(), collie_sync::Arc::new(World::new()));
    let view = |xid| View { snapshot: Lsn::MAX, me: Some(Xid::new(xid)), command: 1 };
    let rules = |xid| WriteRules { xid: Xid::new(xid), repeatable: false };
    let delete =
        |row: &Arc<Row>, world: &World| row.write(CF, Change::Delete, Basis::Snapshot, &view(0), &rules(0), world);
    let taker = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || {
            let key_share = Change::Lock(LockStrength::KeyShare);
            match row.write(CF, key_share, Basis::Snapshot, &view(1), &rules(1), &*world) {
                WriteOutcome::Shared(held) => held,
                other => panic!("{other:?}"),
            }
        }
    });
    let writer = thread::spawn({
        let (row, world) = (Arc::clone(&row), world.clone());
        move || add(&row, &world, 2).expect("KEY SHARE is not in its way").commit(world.publish(2))
    });
    let seen = row.read(&View { me: None, ..view(0) }, &*world, &pin()).map(|value| amount(value));
    assert!(matches!(seen, Some(0 | 1)), "{seen:?}");
    let held = taker.join().unwrap();
    writer.join().unwrap();
    let late = delete(&row, &world);
    assert!(matches!(late, WriteOutcome::Wait(holder) if holder == Xid::new(1)), "deleted under KEY SHARE: {late:?}");
    held.release(&*world);
    assert!(matches!(delete(&row, &world), WriteOutcome::Done(_)));
}

/// As `check`, without a comparison of the messages.
fn check_caught(model: fn(), preemptions: usize, floor: u64, mutants: &[&'static str]) {
    match explore(None, preemptions, model) {
        Explored::Passed(executions) => {
            eprintln!("{executions} executions");
            assert!(executions >= floor, "only {executions} executions: the model hides an access from loom");
        }
        Explored::Failed(message) => panic!("{message}"),
    }
    for mutant in mutants {
        let outcome = explore(Some(mutant), preemptions, model);
        assert!(matches!(outcome, Explored::Failed(_)), "{mutant} goes unnoticed: {outcome:?}");
    }
}
const LOST: &str = "no addition is lost";

/// Goal: no update is lost, and snapshots do not move. Method: see the model; each mistake must be caught.
#[test]
fn loom_two_writers_lose_no_update() {
    check(
        "row, two writers",
        two_writers_and_a_reader,
        2,
        500,
        &[
            ("ROW_HEAD_STORED", 2, LOST),
            ("ROW_UNFINISHED_IGNORED", 2, LOST),
            ("ROW_CONFLICT_ABOVE", 2, LOST),
            ("ROW_HEAD_CAS", 2, "Causality violation"),
            ("ROW_HEAD_LOAD", 2, "Causality violation"),
        ],
    );
}

/// Goal: a writer that learns of a commit gets its last version. Method: see the model.
#[test]
fn loom_writer_is_told_of_the_last_version_of_a_commit() {
    check("row, two of one", writer_beside_two_versions_of_one, 3, 700, &[("ROW_LOOKED_AT_ONCE", 3, LOST)]);
}

/// Goal: a rolled-back version leaves nothing and hides nothing. Method: see the model.
#[test]
fn loom_undo_leaves_the_chain_whole() {
    check("row, undo", writer_aborter_and_reader, 2, 500, &[("ROW_HEAD_STORED", 2, "hides another")]);
}

/// Goal: pruning between live snapshots keeps the versions that each needs and retires none twice. Method: see the
/// model.
#[test]
fn loom_pruning_keeps_what_each_snapshot_needs() {
    const NEEDED: &str = "needed by a live snapshot";
    const TWICE: &str = "R2: twice";
    let mistakes = [
        ("PRUNE_READERS_IGNORED", 3, NEEDED),
        ("FREED_AT_HORIZON", 3, NEEDED),
        ("PRUNE_WITHOUT_TAG", 3, TWICE),
        ("ROW_PRUNE_TAKE", 3, TWICE),
        ("ROW_PRUNE_GIVE", 3, TWICE),
    ];
    check("row, two pruners", two_pruners_and_a_reader, 3, 130, &mistakes);
}

/// Goal: the newest commit stays, whatever unfinished version is above it. Method: see the model.
#[test]
fn loom_pruning_keeps_the_newest_commit() {
    let mistakes = [("PRUNE_NEWEST_COMMITTED", 3, "the newest commit stays")];
    check("row, pruner and undo", pruner_and_aborter, 3, 90, &mistakes);
}

/// Goal: a cancelled snapshot never yields a wrong row: its reader notices before the answer is used. Method: see the
/// model; the link that leaves a version out must also publish the cancellation that permitted it.
#[test]
fn loom_reader_of_a_cancelled_snapshot_notices() {
    check("row, cancelled reader", canceller_and_reader, 3, 18, &[("ROW_NEXT_STORE", 3, "a wrong row for a snapshot")]);
}

/// Goal: no old version is forgotten between its commit and the queue. Method: see the model.
#[test]
fn loom_superseded_version_is_cleaned_or_its_row_queued() {
    const FORGOTTEN: &str = "what the commit superseded is in nobody's hands";
    let mistakes = [
        ("QUEUED_BEFORE_STAMPED", 3, FORGOTTEN),
        ("UNQUEUED_AFTER_PRUNING", 3, FORGOTTEN),
        ("ROW_QUEUE", 3, FORGOTTEN),
    ];
    check("row, committer and cleaner", committer_and_cleaner, 3, 24, &mistakes);
}

/// Goal: a pruned change of keys is not stepped over. Method: see the model.
#[test]
fn loom_pruned_change_of_keys_is_not_stepped_over() {
    const CHANGED: &str = "the keys have changed since";
    let mistakes = [("PRUNE_FORGETS_KEYS", 3, CHANGED), ("ROW_NEXT_STORE", 3, CHANGED)];
    check("row, keys pruned", pruner_and_key_share_taker, 3, 12, &mistakes);
}

/// Goal: a deleted row is either removed or used again, never both. Method: see the model.
#[test]
fn loom_removed_row_is_not_used_again() {
    const BOTH: &str = "either removed or used again";
    let mistakes = [("ROW_HEAD_STORED", 3, BOTH), ("ROW_DEATH_STORED", 3, BOTH)];
    check("row, removal", remover_and_inserter, 3, 20, &mistakes);
}

/// Goal: a share lock and a write of one row exclude each other, and neither is lost. Method: see the model; each
/// mistake of either side must be caught.
#[test]
fn loom_share_lock_and_write_exclude_each_other() {
    check_caught(
        taker_and_writer,
        3,
        70,
        &[
            "SHARE_WITHOUT_TAG",
            "SHARE_WITHOUT_ENTRY",
            "SHARE_TAG_STORED",
            "ROW_SHARED_IGNORED",
            "ROW_HEAD_STORED",
            "ROW_UNFINISHED_IGNORED",
        ],
    );
}

/// Goal: releasing a share lock frees the row only for transactions that no other holder blocks. Method: see the model.
#[test]
fn loom_released_share_lock_leaves_those_of_others() {
    check_caught(
        releaser_taker_and_writer,
        3,
        140,
        &["SHARE_UNTAGGED_OUTSIDE", "SHARE_RELEASED_FOR_ALL", "ROW_INSTALLED_OUTSIDE", "SHARE_WITHOUT_TAG"],
    );
}

/// Goal: rolling a version back keeps a tag that was set in the meantime. Method: see the model.
#[test]
fn loom_undo_keeps_the_tag_of_a_share_lock() {
    check_caught(undo_beside_a_key_share_taker, 3, 100, &["ROW_UNDO_DROPS_TAGS"]);
}

/// Goal: KEY SHARE and a write that keeps the keys are compatible, and the tag outlives the write. Method: see the
/// model.
#[test]
fn loom_key_share_goes_with_a_write_of_the_rest() {
    check_caught(
        key_share_taker_and_writer,
        3,
        400,
        &["ROW_INSTALL_DROPS_TAGS", "SHARE_TAG_STORED", "SHARE_WITHOUT_TAG"],
    );
}
