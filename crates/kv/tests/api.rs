//! The key-value API: the guarantees of each call, one by one.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use std::future::Future;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use collie_engine::{Confirmed, Env, ErrorKind, Isolation};
use collie_env::SimFiles;
use collie_kv::{Batch, Cf, CfOptions, Db, Durability, Error, FlushTo, Options, TxnOptions, WriteOptions};
use collie_sync::block_on;
use common::{DIR, open_still};

const SYNC: Durability = Durability::Local;
const ASYNC: Durability = Durability::Async;

fn still(seed: u64) -> (Db, Cf, SimFiles) {
    let (env, disk) = Env::simulated(seed);
    let db = Db::over(&open_still(env).unwrap().0);
    let cf = db.create_cf("rows", CfOptions::default()).unwrap();
    (db, cf, disk)
}

fn kind<T>(outcome: Result<T, Error>) -> ErrorKind {
    outcome.err().expect("it is refused").kind()
}

fn value(db: &Db, cf: &Cf, key: &str) -> Option<String> {
    db.get(cf, key).unwrap().map(|value| String::from_utf8_lossy(&value).into_owned())
}

/// Goal: the guarantees of a write at its return hold after a crash, and lost writes form a suffix; `flush_wal` and
/// `sync_wal` add theirs. Method: writes of each kind on a simulated disk without threads; the process killed, or the
/// power cut with many seeds, with and without a sync at the end.
#[test]
fn writes_survive_what_their_options_say() {
    for (seed, kill, sync) in (0..30).flat_map(|seed| [(seed, true, false), (seed, false, true), (seed, false, false)])
    {
        let (db, cf, disk) = still(seed);
        let first = db.put(&cf, "sync", "1", SYNC).unwrap();
        assert!(first.is_durable());
        let flushed = db.put(&cf, "flushed", "1", ASYNC).unwrap();
        assert!(!flushed.is_durable(), "nobody has flushed");
        db.flush_wal(FlushTo::Disk).unwrap();
        let written = db.put(&cf, "written", "1", ASYNC).unwrap().token.unwrap();
        db.flush_wal(FlushTo::Kernel).unwrap();
        assert!(db.durable() < written.lsn, "the kernel has it, the disk has not");
        let late = db.put(&cf, "late", "1", ASYNC).unwrap().token.unwrap();
        if sync {
            db.sync_wal().unwrap();
            assert!(db.durable() >= written.lsn);
            assert!(db.durable() < late.lsn, "sync_wal leaves alone what is only in the ring");
        }
        assert!(first.token.unwrap().lsn < flushed.token.unwrap().lsn);
        let after = if kill { disk.process_kill() } else { disk.power_cut(seed) };
        let db = Db::over(&open_still(Env::over(after, seed)).unwrap().0);
        let cf = db.cf("rows").unwrap();
        let there = ["sync", "flushed", "written", "late"].map(|key| value(&db, &cf, key).is_some());
        assert_eq!(there, [true, true, there[2] || kill || sync, false], "kill {kill} sync {sync}");
    }
}

/// Goal: a write for replicas is refused where none are served, and nothing is written. Method: each kind of write.
#[test]
fn impossible_options_are_refused() {
    let (db, cf, _disk) = still(1);
    let durability = Durability::Quorum;
    assert_eq!(kind(db.put(&cf, "k", "v", durability)), ErrorKind::InvalidArgument);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&cf, "k", "v").unwrap();
    assert_eq!(kind(txn.commit(durability)), ErrorKind::InvalidArgument);
    let mut batch = Batch::new();
    batch.put(&cf, "k", "v");
    let refused = db.write(batch, durability).unwrap_err().to_string();
    assert!(refused.contains("Durability::Quorum") && refused.contains("Durability::Local"), "{refused}");
    assert_eq!(value(&db, &cf, "k"), None);
}

/// Goal: sizes beyond a limit are refused before anything is reserved, and sizes just within it go in and come back.
/// Method: keys and values at and over the limit, also after a reopen.
#[test]
fn limits_are_refused_before_anything_is_reserved() {
    let (db, cf, disk) = still(2);
    let (long_key, too_long) = (vec![0; 65_531], vec![0; 65_532]);
    let end = db.engine().log().unwrap().glsn();
    assert_eq!(kind(db.put(&cf, &too_long, "v", SYNC)), ErrorKind::InvalidArgument);
    assert_eq!(kind(db.put(&cf, "k", vec![0; (64 << 20) + 1], SYNC)), ErrorKind::InvalidArgument);
    let mut batch = Batch::new();
    batch.put(&cf, "k", "v");
    batch.delete(&cf, &too_long);
    assert_eq!(kind(db.write(batch, SYNC)), ErrorKind::InvalidArgument);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(kind(txn.put(&cf, &too_long, "v")), ErrorKind::InvalidArgument);
    drop(txn);
    assert_eq!(db.write(Batch::new(), SYNC).unwrap().token, None, "an empty batch has no record");
    assert_eq!(db.delete(&cf, "nothing", SYNC).unwrap().token, None);
    assert_eq!(db.engine().log().unwrap().glsn(), end, "nothing was appended");
    db.put(&cf, &long_key, "long", SYNC).unwrap();
    db.put(&cf, "", "empty", SYNC).unwrap();
    db.put(&cf, [0], "", SYNC).unwrap();
    let db = Db::over(&open_still(Env::over(disk.power_cut(1), 3)).unwrap().0);
    let cf = db.cf("rows").unwrap();
    let rows: Vec<_> = db.snapshot().unwrap().scan(&cf, ..).map(|item| item.unwrap().to_pair()).collect();
    assert_eq!(rows, [(vec![], b"empty".to_vec()), (vec![0], vec![]), (long_key, b"long".to_vec())]);
}

/// Goal: with `no_slowdown` a write that would wait for room in the ring is wholly refused as `Busy`, and goes through
/// later. Method: no thread flushes; fill the ring with asynchronous writes, with small ones and with one of many
/// pieces.
#[test]
fn no_slowdown_is_busy_instead_of_waiting() {
    let (db, cf, disk) = still(3);
    let hasty = WriteOptions::new().durability(ASYNC).no_slowdown();
    let refused = (0..2_000_u32).find_map(|n| db.put(&cf, n.to_be_bytes(), [1; 1_000], hasty).err());
    assert!(
        refused.as_ref().is_some_and(|error| error.kind() == ErrorKind::Busy && error.to_string().contains("ring")),
        "{refused:?}"
    );
    let mut batch = Batch::new();
    (0..500_u32).for_each(|n| batch.put(&cf, n.to_be_bytes(), [2; 2_000]));
    assert_eq!(kind(db.write(batch.clone(), hasty)), ErrorKind::Busy);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&cf, [9; 9], [3; 2_000]).unwrap();
    assert_eq!(kind(txn.commit(hasty)), ErrorKind::Busy);
    assert_eq!(db.get(&cf, 0_u32.to_be_bytes()).unwrap().unwrap()[..], [1; 1_000]);
    db.flush_wal(FlushTo::Disk).unwrap();
    db.put(&cf, [9; 9], "v", hasty).unwrap();
    // The same session waits again for a write without `no_slowdown`.
    db.write(batch, SYNC).unwrap();
    let db = Db::over(&open_still(Env::over(disk.power_cut(1), 3)).unwrap().0);
    let cf = db.cf("rows").unwrap();
    let twos = db.snapshot().unwrap().scan(&cf, ..).filter(|item| item.as_ref().unwrap().value() == [2; 2_000]).count();
    assert_eq!(twos, 500);
}

/// Goal: a snapshot shows one state for good; a scan returns its rows in order, in either direction and any range, and
/// continues where it stopped. Method: 1,000 rows, then writes over all of them; ranges of every kind against the list.
#[test]
fn snapshot_scans_one_state_in_any_range() {
    let (db, cf, _disk) = still(4);
    let key = |n: u32| format!("{n:04}").into_bytes();
    let mut batch = Batch::new();
    (0..1_000).for_each(|n| batch.put(&cf, key(n), n.to_be_bytes()));
    db.write(batch, SYNC).unwrap();
    let snapshot = db.snapshot().unwrap();
    for n in 0..1_000 {
        if n % 2 == 0 { db.delete(&cf, key(n), ASYNC) } else { db.put(&cf, key(n), "new", ASYNC) }.unwrap();
    }
    db.engine().tick();
    let rows: Vec<(Vec<u8>, Vec<u8>)> = (0..1_000).map(|n| (key(n), n.to_be_bytes().to_vec())).collect();
    let collect = |scan: collie_kv::Scan<'_>| scan.map(|item| item.unwrap().to_pair()).collect::<Vec<_>>();
    assert_eq!(collect(snapshot.scan(&cf, ..)), rows);
    assert_eq!(collect(snapshot.scan(&cf, key(10)..key(600))), rows[10..600]);
    assert_eq!(collect(snapshot.scan(&cf, key(10)..=key(600))), rows[10..=600]);
    assert_eq!(collect(snapshot.scan(&cf, key(10)..)), rows[10..]);
    assert_eq!(collect(snapshot.scan(&cf, ..key(10))), rows[..10]);
    assert_eq!(collect(snapshot.scan(&cf, ..=key(10))), rows[..=10]);
    assert_eq!(collect(snapshot.prefix(&cf, "07")), rows[700..800]);
    assert_eq!(collect(snapshot.scan(&cf, key(600)..key(10))), []);
    let mut down = collect(snapshot.scan(&cf, key(10)..key(600)).rev());
    down.reverse();
    assert_eq!(down, rows[10..600]);
    for at in [0, 15, 16, 17, 300, 999] {
        assert_eq!(collect(snapshot.scan(&cf, ..).after(&key(at))), rows[at as usize + 1..]);
        let mut down = collect(snapshot.scan(&cf, ..).rev().after(&key(at)));
        down.reverse();
        assert_eq!(down, rows[..at as usize]);
    }
    let mut seen = Vec::new();
    let visit = |key: &[u8], value: &[u8]| {
        seen.push((key.to_vec(), value.to_vec()));
        if seen.len() < 500 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    snapshot.scan(&cf, ..).visit(visit).unwrap();
    assert_eq!(seen, rows[..500]);
    // An item outlives its scan, and large rows do not come 256 at a time.
    let large = db.create_cf("large", CfOptions::default()).unwrap();
    (0..20_u8).for_each(|n| _ = db.put(&large, [n], vec![n; 100_000], ASYNC).unwrap());
    let first = db.snapshot().unwrap().scan(&large, ..).next().unwrap().unwrap();
    assert_eq!(first.value(), [0; 100_000]);
    assert_eq!(db.snapshot().unwrap().scan(&large, ..).count(), 20);
}

/// Goal: transactions behave as their level says, see their own writes, and end as a whole. Method: two concurrent ones
/// at each level; own reads, scans, savepoints.
#[test]
fn transactions_keep_to_their_level() {
    let (db, cf, _disk) = still(5);
    db.put(&cf, "k", "0", SYNC).unwrap();
    let at = |isolation| TxnOptions::new().isolation(isolation);
    let read = |txn: &mut collie_kv::Txn| txn.get(&cf, "k").unwrap().unwrap().to_vec();
    // Snapshot isolation: the first to commit wins, and reads do not change.
    let (mut one, mut two) = (db.begin(TxnOptions::default()).unwrap(), db.begin(TxnOptions::default()).unwrap());
    assert_eq!((read(&mut one), read(&mut two)), (b"0".to_vec(), b"0".to_vec()));
    one.put(&cf, "k", "1").unwrap();
    one.put(&cf, "new", "1").unwrap();
    assert_eq!(read(&mut one), b"1");
    one.commit(SYNC).unwrap();
    assert_eq!(read(&mut two), b"0");
    assert_eq!(two.get(&cf, "new").unwrap(), None);
    assert_eq!(kind(two.put(&cf, "k", "2")), ErrorKind::Conflict);
    assert_eq!(kind(two.put(&cf, "new", "2")), ErrorKind::Conflict);
    assert_eq!(kind(two.get_for_update(&cf, "k")), ErrorKind::Conflict);
    drop(two);
    // Read committed: each call sees the committed state, and overwrites it.
    let mut late = db.begin(at(Isolation::ReadCommitted)).unwrap();
    assert_eq!(read(&mut late), b"1");
    db.put(&cf, "k", "2", SYNC).unwrap();
    assert_eq!(late.get_for_update(&cf, "k").unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(late.get_for_update(&cf, "absent").unwrap(), None);
    late.delete(&cf, "k").unwrap();
    late.delete(&cf, "k").unwrap();
    assert_eq!(late.get(&cf, "k").unwrap(), None);
    late.put(&cf, "k", "3").unwrap();
    late.commit(ASYNC).unwrap();
    assert_eq!(value(&db, &cf, "k").as_deref(), Some("3"));
    // Serializable: no write skew.
    let (mut one, mut two) =
        (db.begin(at(Isolation::Serializable)).unwrap(), db.begin(at(Isolation::Serializable)).unwrap());
    assert_eq!(one.scan(&cf, ..).unwrap().count(), 2);
    assert_eq!(two.scan(&cf, ..).unwrap().count(), 2);
    one.put(&cf, "one", "1").unwrap();
    two.put(&cf, "two", "1").unwrap();
    one.commit(SYNC).unwrap();
    assert_eq!(kind(two.commit(SYNC)), ErrorKind::Conflict);
    // Read only.
    let mut reader = db.begin(TxnOptions::new().read_only()).unwrap();
    assert_eq!(read(&mut reader), b"3");
    assert_eq!(kind(reader.put(&cf, "k", "4")), ErrorKind::ReadOnly);
    assert_eq!(kind(reader.get_for_update(&cf, "k")), ErrorKind::ReadOnly);
    assert_eq!(reader.commit(SYNC).unwrap().token, None);
}

/// Goal: a savepoint undoes the later writes and no more, and a savepoint that is gone or foreign is refused. Method:
/// nested ones.
#[test]
fn savepoints_undo_what_came_after() {
    let (db, cf, _disk) = still(6);
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&cf, "a", "1").unwrap();
    let first = txn.savepoint();
    txn.put(&cf, "a", "2").unwrap();
    txn.put(&cf, "b", "2").unwrap();
    let second = txn.savepoint();
    txn.delete(&cf, "a").unwrap();
    txn.rollback_to(second).unwrap();
    assert_eq!(txn.get(&cf, "a").unwrap().as_deref(), Some(&b"2"[..]));
    txn.rollback_to(first).unwrap();
    assert_eq!(kind(txn.rollback_to(second)), ErrorKind::InvalidArgument);
    txn.rollback_to(first).unwrap();
    let mut other = db.begin(TxnOptions::default()).unwrap();
    assert_eq!(kind(other.rollback_to(first)), ErrorKind::InvalidArgument);
    txn.put(&cf, "c", "3").unwrap();
    txn.commit(SYNC).unwrap();
    let rows: Vec<_> = db.snapshot().unwrap().scan(&cf, ..).map(|item| item.unwrap().to_pair()).collect();
    assert_eq!(rows, [(b"a".to_vec(), b"1".to_vec()), (b"c".to_vec(), b"3".to_vec())]);
}

/// Goal: a write waits for the holder of its row and is based on the row that the holder leaves; a lock timeout, a
/// deadlock and a conflict end the wait of a transaction. Method: threads on the real file system.
#[test]
fn writes_wait_for_whoever_holds_the_row() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::small().open(dir.path()).unwrap();
    let cf = db.create_cf("rows", CfOptions::default()).unwrap();
    db.put(&cf, "a", "0", ASYNC).unwrap();
    db.put(&cf, "b", "0", ASYNC).unwrap();
    let committed = TxnOptions::new().isolation(Isolation::ReadCommitted);
    let mut holder = db.begin(committed).unwrap();
    holder.put(&cf, "a", "1").unwrap();
    holder.put(&cf, "new", "1").unwrap();
    // The lock timeout ends the wait.
    let mut hasty = db.begin(committed.lock_timeout(Duration::from_millis(20))).unwrap();
    assert_eq!(kind(hasty.put(&cf, "a", "2")), ErrorKind::LockTimeout);
    assert_eq!(kind(hasty.get_for_update(&cf, "a")), ErrorKind::LockTimeout);
    drop(hasty);
    std::thread::scope(|scope| {
        let (sent, waits) = mpsc::channel();
        for key in ["a", "new"] {
            let (db, cf, sent) = (&db, &cf, sent.clone());
            scope.spawn(move || {
                sent.send(()).unwrap();
                db.put(cf, key, "after", ASYNC).unwrap();
            });
        }
        waits.recv().unwrap();
        waits.recv().unwrap();
        while db.engine().stat().waiting < 2 {
            std::thread::yield_now();
        }
        holder.commit(ASYNC).unwrap();
    });
    assert_eq!(value(&db, &cf, "a").as_deref(), Some("after"));
    assert_eq!(value(&db, &cf, "new").as_deref(), Some("after"));
    // A cycle of two is found at once; one of them continues.
    let (mut one, mut two) = (db.begin(committed).unwrap(), db.begin(committed).unwrap());
    one.put(&cf, "a", "one").unwrap();
    two.put(&cf, "b", "two").unwrap();
    let outcomes = std::thread::scope(|scope| {
        let one = scope.spawn(|| one.put(&cf, "b", "one").map(|()| one.commit(ASYNC).unwrap()));
        let two = scope.spawn(|| {
            let outcome = two.put(&cf, "a", "two");
            outcome.map(|()| two.commit(ASYNC).unwrap())
        });
        [one.join().unwrap().map_err(|error| error.kind()), two.join().unwrap().map_err(|error| error.kind())]
    });
    let dead = outcomes.iter().filter(|outcome| **outcome == Err(ErrorKind::Deadlock)).count();
    let done = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!((dead, done), (1, 1), "{outcomes:?}");
}

/// Goal: `write_async` does the same as `write` without a waiting thread, and a future that is dropped in time leaves
/// nothing. Method: 200 concurrent futures from one thread; one that waits for a lock, dropped, and one that is woken.
#[test]
fn asynchronous_writes_need_no_thread() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = Options::small();
    options.txn.max_sessions = 512;
    let db = options.open(dir.path()).unwrap();
    let cf = db.create_cf("rows", CfOptions::default()).unwrap();
    let batch = |key: u32| {
        let mut batch = Batch::new();
        batch.put(&cf, key.to_be_bytes(), "async");
        batch
    };
    let mut context = Context::from_waker(Waker::noop());
    let mut flying: Vec<_> = (0..200).map(|n| Box::pin(db.write_async(batch(n), SYNC))).collect();
    let mut receipts: Vec<_> = flying
        .iter_mut()
        .map(|future| match future.as_mut().poll(&mut context) {
            Poll::Ready(receipt) => Some(receipt.unwrap()),
            Poll::Pending => None,
        })
        .collect();
    for (future, receipt) in flying.into_iter().zip(&mut receipts) {
        let receipt = receipt.take().unwrap_or_else(|| block_on(future).unwrap());
        assert!(receipt.is_durable() && db.durable() >= receipt.token.unwrap().lsn);
    }
    assert_eq!(db.snapshot().unwrap().scan(&cf, ..).count(), 200);
    let mut holder = db.begin(TxnOptions::default()).unwrap();
    holder.put(&cf, 1_000_u32.to_be_bytes(), "held").unwrap();
    let mut given_up = Box::pin(db.write_async(batch(1_000), SYNC));
    assert!(given_up.as_mut().poll(&mut context).is_pending());
    drop(given_up);
    let waiting = db.write_async(batch(1_000), SYNC);
    let mut waiting = pin!(waiting);
    assert!(waiting.as_mut().poll(&mut context).is_pending());
    holder.commit(ASYNC).unwrap();
    block_on(waiting).unwrap();
    assert_eq!(db.get(&cf, 1_000_u32.to_be_bytes()).unwrap().as_deref(), Some(&b"async"[..]));
    assert_eq!(block_on(db.write_async(Batch::new(), SYNC)).unwrap().token, None);
}

/// Goal: cached sessions never make a call fail, and calls to a closed or salvaged database return that as the error.
/// Method: more snapshots than there are sessions, after calls that cache some; then close; then open read-only.
#[test]
fn sessions_run_out_only_when_in_use() {
    let (env, disk) = Env::simulated(8);
    let mut options = Options::small();
    options.txn.max_sessions = 8;
    let (db, _) = options.clone().open_in(DIR, env, &mut |_| ()).unwrap();
    let cf = db.create_cf("rows", CfOptions::default()).unwrap();
    std::thread::scope(|scope| {
        (0..3).for_each(|_| _ = scope.spawn(|| db.put(&cf, "k", "v", SYNC).unwrap())); // each keeps one
    });
    let mut held = Vec::new();
    let refused = loop {
        match db.snapshot() {
            Ok(snapshot) => held.push(snapshot),
            Err(error) => break error,
        }
    };
    assert_eq!((held.len(), refused.kind()), (8, ErrorKind::Busy));
    assert_eq!(kind(db.get(&cf, "k")), ErrorKind::Busy);
    let snapshot = held.pop().unwrap();
    drop(held);
    assert_eq!(value(&db, &cf, "k").as_deref(), Some("v"));
    let mut txn = db.begin(TxnOptions::default()).unwrap();
    txn.put(&cf, "k", "w").unwrap();
    db.close().unwrap();
    db.close().unwrap();
    assert_eq!(snapshot.get(&cf, "k").unwrap().as_deref(), Some(&b"v"[..]), "who holds a snapshot may read on");
    assert_eq!(kind(txn.commit(SYNC)), ErrorKind::Closed);
    assert_eq!(kind(db.get(&cf, "k")), ErrorKind::Closed);
    assert_eq!(kind(db.put(&cf, "k", "w", SYNC)), ErrorKind::Closed);
    assert_eq!(kind(db.write(Batch::new(), SYNC)), ErrorKind::Closed);
    assert_eq!(kind(db.snapshot()), ErrorKind::Closed);
    options.wal.recovery_mode = collie_wal::RecoveryMode::SkipAnyCorruptedRecords;
    let env = Env::over(disk.process_kill(), 9);
    let (db, report) = options.open_in(Path::new(DIR), env, &mut |_| ()).unwrap();
    assert!(report.read_only);
    let cf = db.cf("rows").unwrap();
    assert_eq!(value(&db, &cf, "k").as_deref(), Some("v"));
    assert_eq!(kind(db.put(&cf, "k", "w", SYNC)), ErrorKind::ReadOnly);
    assert_eq!(kind(db.create_cf("new", CfOptions::default())), ErrorKind::ReadOnly);
    db.flush_wal(FlushTo::Disk).unwrap();
}

/// Goal: a compaction leaves one table of the existing rows, in use and after a reopen; the figures show it. Method:
/// rows in the operating system's files, flushed in several rounds, half of them deleted.
#[test]
fn compaction_leaves_one_run_of_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::small().open(dir.path()).unwrap();
    let cf = db.create_cf("rows", CfOptions::default()).unwrap();
    for round in 0..3_u8 {
        (0..100_u8).for_each(|key| _ = db.put(&cf, [key], [round; 50], ASYNC).unwrap());
        db.flush_cf(&[&cf]).unwrap();
    }
    (0..50_u8).for_each(|key| _ = db.delete(&cf, [key], ASYNC).unwrap());
    db.compact(&cf).unwrap();
    let stats = db.stats();
    let tree = stats.levels.trees.iter().find(|tree| tree.state.cfs == [cf.id()]).unwrap();
    assert_eq!((tree.runs, tree.state.live_keys), (1, 50));
    assert!(
        stats.levels.compactions >= 1 && stats.levels.compaction_bytes > 0 && stats.flush.flushes >= 4,
        "{stats:?}"
    );
    let family = stats.families.iter().find(|family| family.cf == cf.id()).unwrap();
    assert_eq!((family.unflushed.rows, family.rows.inserts), (0, 100));
    assert!(stats.log.is_some_and(|log| log.frames > 0 && log.syncs > 0));
    db.compact(&cf).unwrap();
    db.close().unwrap();
    assert_eq!(kind(db.compact(&cf)), ErrorKind::Closed);
    drop((db, cf));
    let db = Options::small().open(dir.path()).unwrap();
    let cf = db.cf("rows").unwrap();
    assert_eq!(db.snapshot().unwrap().scan(&cf, ..).count(), 50);
    db.drop_cf(&cf).unwrap();
    assert_eq!(kind(db.compact(&cf)), ErrorKind::NotFound);
}

/// Goal: a write for a quorum returns once replicas have it on disk, and its receipt says whether they have. Method: a
/// database that serves replicas, which the test plays: not counted yet, then silent, then confirming.
#[test]
fn a_write_for_a_quorum_waits_for_its_replicas() {
    let (env, _disk) = Env::simulated(9);
    let mut options = collie_engine::Options { background: false, quorum: true, ..collie_engine::Options::small() };
    options.log.threads = false;
    let (engine, _) = collie_engine::Db::open(DIR.as_ref(), options, env, &mut |_| ()).unwrap();
    let db = Db::over(&engine);
    let cf = db.create_cf("rows", CfOptions::new()).unwrap();
    let alone = db.put(&cf, "a", "1", Durability::Quorum).unwrap();
    assert_eq!(alone.durability, Durability::Local, "no replica is counted");
    engine.count_replicas(true);
    let before = engine.durable();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| db.put(&cf, "b", "2", Durability::Quorum).unwrap());
        while engine.durable() == before {
            std::thread::yield_now();
        }
        let end = engine.durable();
        assert!(!writer.is_finished(), "no replica has it");
        engine.confirm(Confirmed { received: end, durable: end, applied: end });
        let receipt = writer.join().unwrap();
        assert_eq!((receipt.durability, receipt.is_durable()), (Durability::Quorum, true));
    });
    assert_eq!(value(&db, &cf, "b").as_deref(), Some("2"));
}

/// Goal: `open_cf` creates a family once and finds it later, and never one of another group. Method: twice, from many
/// threads, and with another group.
#[test]
fn open_cf_creates_a_family_or_finds_it() {
    let dir = tempfile::tempdir().unwrap();
    let db = Options::small().open(dir.path()).unwrap();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let opened: Vec<_> =
            (0..4).map(|_| scope.spawn(|| db.open_cf("one", CfOptions::new()).unwrap().id())).collect();
        opened.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    assert_eq!(kind(db.open_cf("one", CfOptions::new().group("g"))), ErrorKind::InvalidArgument);
    let grouped = db.open_cf("two", CfOptions::new().group("g")).unwrap();
    assert_eq!((grouped.group(), grouped.name()), ("g", "two"));
    assert_eq!(kind(db.create_cf("two", CfOptions::new())), ErrorKind::AlreadyExists);
}
