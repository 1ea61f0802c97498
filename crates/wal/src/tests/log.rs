//! Tests of the public interface: threads, futures, order, freeing, locks.

use std::{
    future::Future,
    task::{Context, Waker},
};

use collie_env::Env;
use collie_sync::block_on;

use crate::{
    Ending, Level, Log, Lsn, Mark, Options, RecordKind, WalError, inspect,
    testing::{eventually, tiny},
};

/// Goal: the records of many threads, which wait, poll or do neither, are all read back, each thread's in order, and
/// are acknowledged only when durable. Method: 10 threads write long and short records to small files; then reopen and
/// compare.
#[test]
fn records_of_threads_and_futures_come_back_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let writers: Vec<_> = (0..10_u8).map(|thread| (thread, log.writer())).collect();
    std::thread::scope(|scope| {
        for (thread, mut writer) in writers {
            let log = log.clone();
            scope.spawn(move || {
                for number in 0..120_u64 {
                    let len = if number % 40 == 7 { 40_000 } else { 8 + usize::try_from(number * 37 % 600).unwrap() };
                    let mut body = vec![thread; len];
                    body[..8].copy_from_slice(&number.to_le_bytes());
                    let appended = writer.append(thread, &[&body[..3], &body[3..]]).unwrap();
                    match (thread % 5, number % 4) {
                        (0, _) | (1, 0) => log.wait(Mark::Durable, appended.end).unwrap(),
                        (2, _) => block_on(log.reached(Mark::Durable, appended.end)).unwrap(),
                        (3, 0) => block_on(log.reached(Mark::Written, appended.end)).unwrap(),
                        (3, 1) => log.wait(Mark::Written, appended.end).unwrap(),
                        (4, 0) => drop(log.try_lead().map(|lead| lead.run().unwrap())),
                        (4, 1) => log.flush_soon(),
                        (4, 2) => drop(log.try_lead()),
                        _ => {}
                    }
                    if thread % 5 == 2 || (thread % 5 == 0) {
                        assert!(log.durable() >= appended.end);
                    }
                    assert!(log.durable() <= log.written() && log.written() <= log.boundary());
                }
            });
        }
    });
    let stat = log.stat();
    assert!(stat.segments > 1 && stat.slotless_writers == 2, "{stat:?}");
    log.close().unwrap();
    assert!(matches!(log.writer().append(0, &[b"late"]), Err(WalError::Closed)));
    drop(log);

    let (log, found) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    assert_eq!(found.ending, Ending::Clean);
    let (mut next, mut last) = ([0_u64; 10], Lsn::ZERO);
    for record in log.read(Lsn::ZERO) {
        let record = record.unwrap();
        assert!(record.lsn >= last && record.kind == RecordKind::Data);
        last = record.end;
        let thread = usize::from(record.tag);
        assert_eq!(record.body[..8], next[thread].to_le_bytes());
        assert!(record.body[8..].iter().all(|byte| usize::from(*byte) == thread));
        next[thread] += 1;
    }
    assert_eq!(next, [120; 10]);
}

/// Goal: a future that no other thread helps gets its flush from the background flusher; a dropped one leaves nothing
/// behind. Method: one thread.
#[test]
fn future_is_driven_by_the_background_flusher_and_may_be_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let mut writer = log.writer();
    for _ in 0..50 {
        let end = writer.append(0, &[b"x"]).unwrap().end;
        let mut dropped = Box::pin(log.reached(Mark::Durable, end));
        let _started = dropped.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        drop(dropped);
        block_on(log.reached(Mark::Durable, end)).unwrap();
        assert!(log.durable() >= end);
        block_on(log.reached(Mark::Boundary, end)).unwrap();
    }
}

/// Goal: records that no caller waits for become durable after the delay, and after a silence an empty frame names
/// their end. Method: append, request no flush, watch.
#[test]
fn background_flusher_flushes_unwaited_records_and_marks_the_silence() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let end = log.writer().commit(0, b"async", Level::Memory).unwrap().end;
    eventually("the batch flush", || log.durable() >= end);
    eventually("the empty frame", || inspect(&Env::real(), dir.path()).unwrap().durable() >= end);
    assert_eq!(inspect(&Env::real(), dir.path()).unwrap().records(Lsn::ZERO).count(), 1);
}

/// Goal: `publish` runs at the record's position before the boundary passes it. Method: read the boundary in `publish`.
#[test]
fn publish_runs_before_the_boundary_passes() {
    let (env, _) = Env::simulated(3);
    let (log, _) = Log::open(&env, "/wal".as_ref(), tiny()).unwrap();
    let mut seen = None;
    let appended = log.writer().append_with(4, b"row", |start| seen = Some((start, log.boundary()))).unwrap();
    assert_eq!(seen, Some((appended.start, appended.start)));
    log.wait(Mark::Boundary, appended.end).unwrap();
    assert_eq!(log.boundary(), appended.end);
    let too_large = log.writer().append_with(4, &[0; 5_000], |_| panic!("not called"));
    assert!(matches!(too_large, Err(WalError::TooLarge { bytes: 5_000, limit_bytes: 4_096 })));
}

/// Goal: each call moves only its own mark: `flush_wal(false)` writes, `sync_wal` syncs only what is written. Method:
/// by hand.
#[test]
fn flush_and_sync_move_their_own_marks() {
    let (env, _) = Env::simulated(3);
    let (log, _) = Log::open(&env, "/wal".as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    let first = writer.append(0, &[b"a"]).unwrap().end;
    log.flush_wal(false).unwrap();
    assert_eq!((log.written(), log.durable() < first), (first, true));
    let second = writer.append(0, &[b"b"]).unwrap().end;
    log.sync_wal().unwrap();
    assert_eq!((log.durable(), log.glsn()), (first, second));
    log.flush_wal(true).unwrap();
    assert_eq!(log.durable(), second);
}

/// Goal: whole files below a position are freed, the rest can still be read, and the log reopens. Method: many
/// segments.
#[test]
fn truncate_before_frees_whole_files_and_keeps_the_rest() {
    let (env, disk) = Env::simulated(3);
    let (log, _) = Log::open(&env, "/wal".as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    let ends: Vec<Lsn> = (0..80_u8).map(|n| writer.commit(0, &[n; 2_000], Level::Disk).unwrap().end).collect();
    assert!(log.stat().segments > 5);
    let start = log.truncate_before(ends[40]).unwrap().start;
    assert!(start <= ends[40] && start > ends[20], "{start}");
    let first = log.read(Lsn::ZERO).next().unwrap().unwrap();
    assert_eq!(first.lsn, start);
    let kept = log.read(Lsn::ZERO).count();
    log.abandon();
    let env = Env::over(disk.power_cut(1), 4);
    let (log, found) = Log::open(&env, "/wal".as_ref(), tiny()).unwrap();
    assert_eq!((found.start, log.read(Lsn::ZERO).count()), (start, kept));
    assert_eq!(log.read(ends[50]).next().unwrap().unwrap().lsn, ends[50]);
    assert_eq!(log.truncate_before(Lsn::MAX).unwrap().start, log.read(Lsn::ZERO).next().unwrap().unwrap().lsn);
}

/// Goal: an inspection of a running log finds a good prefix and never reports damage. Method: inspect while two threads
/// commit and turn segments, and read the records found.
#[test]
fn inspection_of_a_running_log_finds_a_good_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut writer = log.writer();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    writer.commit(0, &[1; 3_000], Level::Disk).unwrap();
                }
            });
        }
        let mut last = Lsn::ZERO;
        for _ in 0..40 {
            let found = inspect(&Env::real(), dir.path()).unwrap();
            assert!(found.damage().is_none(), "{}", found.damage().unwrap());
            assert!(found.end() >= last);
            last = found.end();
            assert!(found.records(Lsn::ZERO).all(|record| record.unwrap().body.len() == 3_000));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// Goal: a second opener gets the process id of the owner. Method: open twice.
#[test]
fn second_opener_is_told_the_pid() {
    let dir = tempfile::tempdir().unwrap();
    let (log, _) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    match Log::open(&Env::real(), dir.path(), Options::small()) {
        Err(WalError::Locked { pid }) => assert_eq!(pid, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(log);
    Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
}

/// Goal: positions that follow a jump start with the caller's record; a clean end causes no jump. Method: both kinds of
/// end.
#[test]
fn first_record_follows_a_jump_only() {
    let (env, disk) = Env::simulated(3);
    let options = || Options { first_record: Some((9, b"incarnation".to_vec())), ..tiny() };
    let (log, found) = Log::open(&env, "/wal".as_ref(), options()).unwrap();
    assert_eq!((found.ending, found.next), (Ending::New, Lsn::FIRST));
    log.writer().commit(1, b"a", Level::Disk).unwrap();
    log.close().unwrap();
    let (log, found) = Log::open(&env, "/wal".as_ref(), options()).unwrap();
    assert_eq!((found.ending, found.next), (Ending::Clean, found.end));
    log.writer().commit(1, b"b", Level::Disk).unwrap();
    log.abandon();
    let env = Env::over(disk.process_kill(), 4);
    let (log, found) = Log::open(&env, "/wal".as_ref(), options()).unwrap();
    assert_eq!((found.ending, found.incarnation), (Ending::Unclean, 3));
    assert!(found.next > found.end);
    log.flush_wal(true).unwrap();
    let tags: Vec<u8> = log.read(Lsn::ZERO).map(|record| record.unwrap().tag).collect();
    assert_eq!(tags, [1, 1, 9]);
}

/// Goal: the figures of a log add up to the records that were appended and to the bytes of its files. Method: a log
/// with short, long and no records in its frames, compared with the known sums and with the parts of the sums.
#[test]
fn figures_add_up_to_what_was_appended() {
    let (env, _disk) = Env::simulated(3);
    let (log, _) = Log::open(&env, "/wal".as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    let (mut payload_bytes, sizes) = (0, [0_usize, 1, 127, 128, 4_000, 9_000, 20_000, 5]);
    for size in sizes {
        writer.commit(1, &vec![9; size], Level::Disk).unwrap();
        payload_bytes += size as u64;
    }
    let spares = log.stat().spares as u64;
    log.close().unwrap();
    let found = inspect(&env, "/wal".as_ref()).unwrap();
    let figures = found.figures().unwrap();
    assert_eq!((figures.records, figures.payload_bytes), (sizes.len() as u64, payload_bytes));
    assert_eq!(figures.pieces, 3 + 5, "9,000 and 20,000 bytes in pieces of less than 4 KiB");
    assert_eq!(figures.empty_frames, 2, "opening and closing");
    assert_eq!(figures.stream_bytes, found.end().bytes_since(found.start()));
    assert_eq!(figures.stream_bytes, figures.payload_bytes + figures.record_head_bytes);
    assert_eq!(figures.written_bytes, figures.stream_bytes + figures.frame_head_bytes + figures.padding_bytes);
    let used: u64 = found.segments().iter().map(|segment| segment.used_bytes - 4096).sum();
    assert_eq!(figures.written_bytes, used);
    assert!(figures.padding_share() > 0.1 && figures.padding_share() < 0.9, "{}", figures.padding_share());
    assert_eq!(found.spares(), (spares, spares * (40 << 10)));
}
