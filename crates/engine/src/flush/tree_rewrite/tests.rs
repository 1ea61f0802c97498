//! A tree that failed, on a disk that works again.

use std::path::Path;

use collie_env::{Fault, SimFiles};

use crate::shared::flushing::tests::{begin, put_one, tiny};
use crate::{Db, Env, Insert, Options};

const DIR: &str = "/db";

fn open(disk: &SimFiles, seed: u64, options: Options) -> Db {
    Db::open(Path::new(DIR), options, Env::over(disk.clone(), seed), &mut |_| ()).unwrap().0
}

fn keys(db: &Db, f: &crate::Family) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    let session = begin(db);
    let at = session.snapshot().unwrap();
    f.states(at, &crate::log::txn_statuses::TxnStatuses(&db.shared.txns), &mut |state| keys.push(state.key.to_vec()));
    keys
}

/// Makes the next flush of `f` fail in its tree, by one failing write or sync.
fn fail_tree(db: &Db, disk: &SimFiles, f: &crate::Family) {
    let before = db.stats_of_failed();
    for call in 1..60 {
        put_one(db, f, format!("fail {call}").as_bytes(), b"");
        disk.fail_write_or_sync(disk.writes_and_syncs() + call, Fault::Eio);
        let _may_fail = db.shared.flush(&[f.id()], crate::flush::figures::FlushCause::Call);
        disk.clear_faults();
        if db.stats_of_failed() > before {
            return;
        }
    }
    panic!("no call failed the tree");
}

impl Db {
    fn stats_of_failed(&self) -> usize {
        self.level_stat().trees.iter().filter(|tree| tree.failed.is_some()).count()
    }
}

/// Goal: A1: one sync that fails in the LSM levels costs one round of the family flusher. The next round rewrites
/// the tree from memory, to files of its own, with rows that were flushed long ago and rows that were not, but
/// without rows deleted since; log is released again, and a power cut afterwards loses no row. Method: a tree that
/// failed; rounds of the flusher; each crash state after them is opened.
#[test]
fn tree_that_failed_is_written_anew_by_the_next_round() {
    let (_, disk) = Env::simulated(71);
    let db = open(&disk, 71, tiny());
    let (f, other) = (db.family(db.create_family()), db.family(db.create_family()));
    for n in 0..600_u32 {
        put_one(&db, &f, &n.to_be_bytes(), b"flushed long ago");
    }
    db.flush_cf(&[f.id()]).unwrap();
    fail_tree(&db, &disk, &f);
    let old = db.level_stat().trees.into_iter().find(|tree| tree.failed.is_some()).unwrap();
    assert!(db.stall_stat().trouble.is_some_and(|why| why.contains("flushes of column family")));
    put_one(&db, &f, b"written meanwhile", b"");
    put_one(&db, &other, b"of another tree", &[1; 30_000]);
    for _ in 0..8 {
        db.flush_due().unwrap();
    }
    let stat = db.level_stat();
    assert!(stat.trees.iter().all(|tree| tree.failed.is_none() && tree.state.id != old.state.id), "{stat:?}");
    assert_eq!(db.flush_stat().trees_written_anew, 1);
    assert_eq!(db.stall_stat().trouble, None);
    let expected = keys(&db, &f);
    assert!(expected.len() > 600 && expected.contains(&b"written meanwhile".to_vec()));
    let kept = db.durable().bytes_since(db.flush_stat().log_start);
    assert!(kept <= db.log_bytes_max() + tiny().log.segment_bytes, "{kept} bytes of log are kept");
    for seed in 0..8 {
        let db = open(&disk.power_cut(seed), 72 + seed, tiny());
        assert_eq!(keys(&db, &db.family(f.id())), expected);
    }
}

/// Goal: a tree that failed does not prevent a copy: it is rewritten first. Method: a tree that failed, then a
/// copy, which is verified.
#[test]
fn copy_has_a_tree_that_failed_written_anew_first() {
    let (_, disk) = Env::simulated(73);
    let db = open(&disk, 73, tiny());
    let f = db.family(db.create_family());
    put_one(&db, &f, b"flushed long ago", b"");
    db.flush_cf(&[f.id()]).unwrap();
    fail_tree(&db, &disk, &f);
    let mut go_on = |_: &crate::CopyProgress| std::ops::ControlFlow::Continue(());
    db.checkpoint(Path::new("/copy"), crate::CheckpointOptions { copy: true }, &mut go_on).unwrap();
    assert_eq!((db.stats_of_failed(), db.flush_stat().trees_written_anew), (0, 1));
    let (_, faults) = crate::verify_backup(Path::new("/copy"), &Env::over(disk, 74), &mut go_on).unwrap();
    assert_eq!(faults, []);
}

/// Goal: a tree that cannot be rewritten does not keep other trees from being flushed, and its rows stay in the
/// old tree and the log. Method: a tree that failed, on a disk without room for its rewrite, next to a tree that
/// has little to write; then there is room.
#[test]
fn tree_that_cannot_be_written_anew_holds_up_no_other() {
    let (_, disk) = Env::simulated(73);
    let db = open(&disk, 73, Options { write_buffer_size: 4 << 10, ..tiny() });
    let (f, other) = (db.family(db.create_family()), db.family(db.create_family()));
    for n in 0..40_u8 {
        put_one(&db, &f, &[n], &[n; 9_000]);
    }
    db.flush_all().unwrap();
    fail_tree(&db, &disk, &f);
    put_one(&db, &other, b"small", &[7; 6_000]);
    disk.set_capacity(Some(disk.used_bytes() + 64_000));
    let refused = db.flush_due().unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::NoSpace, "{refused}");
    assert_eq!(other.unflushed().rows, 0, "the other tree is flushed");
    let expected = keys(&db, &f);
    let point = disk.crash_point();
    let found = open(&point.state(&point.none_kept()), 74, tiny());
    assert_eq!(keys(&found, &found.family(f.id())), expected);
    disk.set_capacity(None);
    db.flush_due().unwrap();
    assert_eq!((db.stats_of_failed(), db.flush_stat().trees_written_anew), (0, 1));
    let found = open(&disk.power_cut(2), 75, tiny());
    assert_eq!(keys(&found, &found.family(f.id())), expected);
}

/// Goal: A2: if a family is dropped while its tree is rewritten, the old tree stays, since a crash may take the
/// drop back. Method: an uncommitted drop cannot be planted here, so the family is cleared, as a drop does it,
/// before its tree is rewritten.
#[test]
fn cleared_family_keeps_its_old_tree() {
    let (_, disk) = Env::simulated(76);
    let db = open(&disk, 76, tiny());
    let f = db.family(db.create_family());
    put_one(&db, &f, b"row", b"");
    db.flush_all().unwrap();
    let base = db.shared.base().unwrap();
    let tree = base.tree(base.levels().tree_of(f.id()).unwrap());
    f.clear();
    let at = db.durable();
    let refused = base.write_anew(&tree, at, &[], &[std::sync::Arc::clone(&f)], &db.shared.parts()).unwrap_err();
    assert_eq!(refused.kind(), crate::ErrorKind::Busy, "{refused}");
    assert_eq!(base.levels().tree_of(f.id()), Some(tree.id));
    let mut session = begin(&db);
    assert_eq!(session.insert(&db.family(db.create_family()), b"k", b"v").unwrap(), Insert::Done);
}
