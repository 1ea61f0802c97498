//! Copies of a key-value database, and the positions of commits in copies and after a crash.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use collie_engine::Env;
use collie_kv::{CfOptions, Db, Durability};
use common::copies::open;

/// Goal: T57: commits after a crash are in a new history from the first commit on, even if that comes before the log
/// was flushed by itself. Method: a power cut and a kill on a simulated disk; the tokens before and after.
#[test]
fn first_token_after_a_crash_is_of_a_new_history() {
    for cut in [false, true] {
        let (env, disk) = Env::simulated(11);
        let db = Db::over(&common::open_still(env).unwrap().0);
        let cf = db.create_cf("cats", CfOptions::default()).unwrap();
        let before = db.put(&cf, "ada", "1", Durability::Local).unwrap().token.unwrap();
        let after = if cut { disk.power_cut(1) } else { disk.process_kill() };
        let db = Db::over(&common::open_still(Env::over(after, 12)).unwrap().0);
        let first = db.put(&db.cf("cats").unwrap(), "ada", "2", Durability::Local).unwrap().token.unwrap();
        assert!(first.history != before.history && first.lsn > before.lsn, "{before:?} and {first:?}");
    }
}

/// Goal: the key-value API makes a copy with everything acknowledged before, with families by their names, and the copy
/// is independent of the source. Method: rows that did not wait for the disk, a copy, more rows on both sides.
#[test]
fn key_value_database_is_copied_with_its_named_families() {
    let dir = tempfile::tempdir().unwrap();
    let db = Db::over(&open(&dir.path().join("db")));
    let (cf, asynchronous) = (db.create_cf("cats", CfOptions::default()).unwrap(), Durability::Async);
    db.put(&cf, "ada", "1", asynchronous).unwrap();
    let made = db.checkpoint(dir.path().join("copy")).unwrap();
    assert_eq!(made.cluster, db.engine().cluster_id());
    db.put(&cf, "grace", "2", asynchronous).unwrap();
    let copy = Db::over(&open(&dir.path().join("copy")));
    let copied = copy.cf("cats").unwrap();
    assert_eq!(copy.get(&copied, "ada").unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(copy.get(&copied, "grace").unwrap(), None);
    let here = copy.put(&copied, "grace", "3", Durability::Local).unwrap().token.unwrap();
    let there = db.put(&cf, "grace", "4", Durability::Local).unwrap().token.unwrap();
    assert_ne!(here.history, there.history, "one position may be used on both sides, a token is not");
    assert_eq!(db.get(&cf, "grace").unwrap().as_deref(), Some(&b"4"[..]));
}
