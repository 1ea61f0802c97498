//! The memory limit (`store.memory_limit`): reached, affecting only writes that store values, and left again.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use collie_engine::{EngineError, Env, ErrorKind, Options};
use collie_kv::{Batch, Cf, CfOptions, Db, Durability, Error, FlushTo, TxnOptions};
use collie_wal::Warnings;

const LIMIT: u64 = 1 << 20;
const ASYNC: Durability = Durability::Async;

struct Fixture {
    dir: tempfile::TempDir,
    db: Db,
    cf: Cf,
    said: Arc<Mutex<Vec<String>>>,
}

fn options(background: bool) -> (Options, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    let mut options = Options { background, memory_limit: LIMIT, ..Options::small() };
    options.log.warnings = Warnings::to(move |line| heard.lock().unwrap().push(line.to_owned()));
    (options, said)
}

/// Returns a database with a limit of a mebibyte and an empty family.
fn limited(background: bool) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let (options, said) = options(background);
    let db = Db::over(&collie_engine::Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap().0);
    let cf = db.create_cf("rows", CfOptions::default()).unwrap();
    Fixture { dir, db, cf, said }
}

/// Puts rows of a kilobyte until one is refused; returns the number of rows.
fn fill(db: &Db, cf: &Cf) -> u32 {
    for number in 0..2000_u32 {
        match db.put(cf, number.to_be_bytes(), [7; 1000], ASYNC) {
            Ok(_) => {}
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
                assert!(matches!(error.engine(), EngineError::OutOfMemory { limit_bytes: LIMIT, .. }), "{error}");
                assert!(error.to_string().contains("store.memory_limit is 1048576: delete rows"), "{error}");
                return number;
            }
        }
    }
    panic!("nothing was refused: {:?}", db.engine().stat());
}

/// Goal: at the limit a write that stores a value fails with a clear message and leaves nothing, alone or in a
/// transaction; reads, deletions, locks, commits of earlier writes, and creating and dropping families continue; once
/// rows are gone, so do all writes. Method: rows until the limit, each kind of call, deletions, a round of cleaning,
/// and the same calls again.
#[test]
fn at_the_limit_only_what_stores_fails_and_room_is_found_at_once() {
    let Fixture { dir: _dir, db, cf, said } = limited(false);
    let mut before = db.begin(TxnOptions::default()).unwrap();
    before.put(&cf, "before", "1").unwrap();
    let rows = fill(&db, &cf);
    db.engine().tick();
    let stat = db.engine().stat();
    assert!((LIMIT..LIMIT + (8 << 10)).contains(&stat.memory_bytes), "{stat:?}");
    assert_eq!((stat.memory_limit_bytes, stat.memory_refused), (Some(LIMIT), 1));

    let refused = |outcome: Result<_, Error>| outcome.err().map(|error| error.kind());
    let out_of_memory = Some(ErrorKind::OutOfMemory);
    let mut batch = Batch::new();
    batch.delete(&cf, 0_u32.to_be_bytes());
    batch.put(&cf, "more", "x");
    assert_eq!(refused(db.write(batch, ASYNC).map(|_| ())), out_of_memory);
    assert!(db.get(&cf, 0_u32.to_be_bytes()).unwrap().is_some(), "nothing of the batch is there");
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert!(txn.get_for_update(&cf, 1_u32.to_be_bytes()).unwrap().is_some());
    txn.delete(&cf, 1_u32.to_be_bytes()).unwrap();
    assert_eq!(refused(txn.put(&cf, "more", "x")), out_of_memory);
    drop(txn);
    assert_eq!(db.get(&cf, "more").unwrap(), None);
    before.commit(Durability::Local).unwrap();
    assert_eq!(db.get(&cf, "before").unwrap().as_deref(), Some(&b"1"[..]), "what was written before is committed");
    assert_eq!(db.snapshot().unwrap().scan(&cf, ..).count(), usize::try_from(rows).unwrap() + 1);
    let other = db.create_cf("other", CfOptions::default()).unwrap();
    assert_eq!(refused(db.put(&other, "k", "v", ASYNC).map(|_| ())), out_of_memory);
    db.drop_cf(&other).unwrap();

    for number in 0..rows / 4 {
        db.delete(&cf, number.to_be_bytes(), ASYNC).unwrap();
    }
    db.flush_wal(FlushTo::Disk).unwrap();
    (0..3).for_each(|_| _ = db.engine().tick());
    assert!(db.engine().stat().memory_bytes < LIMIT * 4 / 5, "{:?}", db.engine().stat());
    db.put(&cf, "more", "x", Durability::Local).unwrap();
    fill(&db, &cf);
    db.engine().tick();
    let said = said.lock().unwrap();
    assert_eq!(said.len(), 2, "one warning each time: {said:?}");
    assert!(said[0].contains("store.memory_limit") && said[0].contains("53200"), "{said:?}");
}

/// Goal: near the limit old versions are freed even if they are few; there is one warning, however long the state
/// lasts. Method: one row of nine tenths of the limit, small rows that are changed repeatedly, a round after each.
#[test]
fn near_the_limit_there_is_one_warning_and_changes_go_on() {
    let Fixture { dir: _dir, db, cf, said } = limited(false);
    db.put(&cf, "large", vec![1; 960 << 10], ASYNC).unwrap();
    for number in 0..200_u32 {
        db.put(&cf, [b'k', u8::try_from(number % 8).unwrap()], [0; 1000], ASYNC).unwrap();
        db.flush_wal(FlushTo::Disk).unwrap();
        db.engine().tick();
    }
    assert_eq!(said.lock().unwrap().len(), 1, "{:?}", said.lock());
    let refused = db.put(&cf, "too large", vec![1; 100 << 10], ASYNC).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::OutOfMemory, "a large value is counted before it is stored");
    db.put(&cf, "small", "x", ASYNC).unwrap();
}

/// Goal: after a wait for the end of a drop the room of the dropped rows is available, also at the limit (T302).
/// Method: families filled to the limit and dropped, one after the other; a write right after each wait.
#[test]
fn room_of_a_dropped_family_is_there_after_the_wait() {
    let Fixture { dir: _kept, db, .. } = limited(true);
    for number in 0..20 {
        let cf = db.create_cf(&format!("full {number}"), CfOptions::default()).unwrap();
        fill(&db, &cf);
        db.engine().free_family(cf.id());
        let families = [cf.id()];
        let mut wait = pin!(db.engine().wait_freed(&families));
        while wait.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            std::thread::yield_now();
        }
        assert!(db.engine().stat().memory_bytes < LIMIT / 2, "{:?}", db.engine().stat());
    }
}

/// Goal: deleted rows that the LSM levels hold are freed too, by the engine's threads alone; a database above its limit
/// opens, is read, and recovers in the same way. Method: rows to the limit, flushed; all deleted; a write is tried
/// until it succeeds. The same after a close with the limit's rows and a reopen.
#[test]
fn flushed_rows_make_room_by_themselves_once_deleted() {
    let Fixture { dir, db, cf, .. } = limited(true);
    let recover = |db: &Db, cf: &Cf, rows: u32| {
        for number in 0..rows {
            db.delete(cf, number.to_be_bytes(), ASYNC).unwrap();
        }
        let patiently = |done: &dyn Fn() -> bool| {
            let in_time = (0..20_000).any(|_| {
                std::thread::sleep(Duration::from_millis(2));
                done()
            });
            assert!(in_time, "{:?}", db.engine().stat());
        };
        patiently(&|| db.put(cf, "again", "x", ASYNC).is_ok());
        db.flush_cf(&[cf]).unwrap();
        patiently(&|| db.engine().stat().memory_bytes <= LIMIT / 10);
    };
    let rows = fill(&db, &cf);
    db.flush_cf(&[&cf]).unwrap();
    recover(&db, &cf, rows);
    let rows = fill(&db, &cf);
    db.flush_cf(&[&cf]).unwrap();
    db.close().unwrap();
    drop((db, cf));
    let db = Db::over(&collie_engine::Db::open(dir.path(), options(true).0, Env::real(), &mut |_| ()).unwrap().0);
    let cf = db.cf("rows").unwrap();
    let refused = (0..8_u8).find_map(|number| db.put(&cf, [9, 9, 9, 9, number], [7; 1000], ASYNC).err());
    assert_eq!(refused.unwrap().kind(), ErrorKind::OutOfMemory, "what the levels hold is counted");
    assert!(db.get(&cf, 0_u32.to_be_bytes()).unwrap().is_some());
    recover(&db, &cf, rows);
}
