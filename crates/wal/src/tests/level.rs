//! The promise of each level on the simulated disk: which records are there after the process was killed and after a
//! power cut; and the calls and settings that move the marks.

use std::sync::atomic::Ordering;

use collie_env::{Env, SimFiles};

use crate::{
    Level, Log, Lsn, Options, RecordKind, RingKind, WalError, WriteOptions,
    flush::FLUSHER_SLEEPS,
    testing::{eventually, tiny},
};

const DIR: &str = "/wal";

fn open(disk: &SimFiles, options: Options) -> Log {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options).unwrap().0
}

fn read(disk: &SimFiles) -> Vec<(RecordKind, Vec<u8>)> {
    open(disk, tiny()).read(Lsn::ZERO).map(Result::unwrap).map(|record| (record.kind, record.body)).collect()
}

/// How often a record is there over many outcomes of a crash.
#[derive(Debug, PartialEq, Eq)]
enum Back {
    Never,
    Sometimes,
    Always,
}

/// Returns how often the record `wanted` is there after `crash` of a log on which `act` ran.
fn back(act: impl Fn(&Log), wanted: RecordKind, crash: impl Fn(&SimFiles, u64) -> SimFiles) -> Back {
    let outcomes = 40;
    let count = (0..outcomes)
        .filter(|seed| {
            let disk = SimFiles::new();
            let log = open(&disk, tiny());
            log.writer().commit(1, b"before", Level::Disk).unwrap();
            act(&log);
            log.abandon();
            let records = read(&crash(&disk, *seed));
            assert_eq!(records[0], (RecordKind::Data, b"before".to_vec()), "what was durable before is always back");
            let expected = if wanted == RecordKind::Data { &b"it"[..] } else { &[] };
            records.get(1).is_some_and(|record| *record == (wanted, expected.to_vec()))
        })
        .count();
    match u64::try_from(count).unwrap() {
        0 => Back::Never,
        all if all == outcomes => Back::Always,
        _ => Back::Sometimes,
    }
}

/// Goal: each level survives what it promises, and no more. Method: commit at the level, kill the process or cut the
/// power, 40 outcomes each; then the same with the flush that the level did not wait for.
#[test]
fn each_level_survives_what_it_promises() {
    let kill = |disk: &SimFiles, _| disk.process_kill();
    let cut = |disk: &SimFiles, seed| disk.power_cut(seed);
    let flush = |sync| move |log: &Log| log.flush_wal(sync).unwrap();
    let (none, write, sync) = (|_: &Log| (), flush(false), flush(true));
    type Row<'a> = (Level, &'a dyn Fn(&Log), RecordKind, Back, Back);
    let rows: [Row<'_>; 9] = [
        (Level::None, &sync, RecordKind::Data, Back::Never, Back::Never),
        (Level::None, &sync, RecordKind::Unlogged, Back::Always, Back::Always),
        (Level::None, &none, RecordKind::Unlogged, Back::Never, Back::Never),
        (Level::Memory, &none, RecordKind::Data, Back::Never, Back::Never),
        (Level::Memory, &write, RecordKind::Data, Back::Always, Back::Sometimes),
        (Level::Memory, &sync, RecordKind::Data, Back::Always, Back::Always),
        (Level::Process, &none, RecordKind::Data, Back::Always, Back::Sometimes),
        (Level::Process, &sync, RecordKind::Data, Back::Always, Back::Always),
        (Level::Disk, &none, RecordKind::Data, Back::Always, Back::Always),
    ];
    for (number, (level, then, kind, killed, power_lost)) in rows.into_iter().enumerate() {
        let act = |log: &Log| {
            log.writer().commit(1, b"it", level).unwrap();
            then(log);
        };
        assert_eq!(back(act, kind, kill), killed, "row {number}, {level:?}, process killed");
        assert_eq!(back(act, kind, cut), power_lost, "row {number}, {level:?}, power cut");
    }
}

/// Goal: a marker has a position like any record, has its note as body, and takes at most 8 bytes. Method: one with the
/// longest note, one whose note is too long.
#[test]
fn unlogged_marker_is_a_hole_with_a_position() {
    let log = open(&SimFiles::new(), tiny());
    let mut writer = log.writer();
    let mut published = None;
    let marker = writer.append_unlogged(9, b"family", |start| published = Some(start)).unwrap();
    assert_eq!((published, marker.end.bytes_since(marker.start)), (Some(marker.start), 8));
    let refused = writer.append_unlogged(9, b"7 bytes", |_| panic!("not called"));
    assert!(matches!(refused, Err(WalError::TooLarge { bytes: 7, limit_bytes: 6 })));
    log.flush_wal(true).unwrap();
    let hole = log.read(Lsn::ZERO).next().unwrap().unwrap();
    assert_eq!(
        (hole.kind, hole.tag, hole.lsn, &hole.body[..]),
        (RecordKind::Unlogged, 9, marker.start, &b"family"[..])
    );
}

/// Goal: RocksDB's options mean the documented levels; sync with disable_wal is refused, and no_slowdown fails instead
/// of waiting for room in the ring. Method: each option; a full ring.
#[test]
fn write_options_mean_their_levels() {
    let options = |sync, disable_wal| WriteOptions { sync, disable_wal, no_slowdown: false };
    let level = |sync, disable_wal, ring| options(sync, disable_wal).level(ring);
    assert_eq!(level(true, false, RingKind::Private).unwrap(), Level::Disk);
    assert_eq!(level(false, true, RingKind::Private).unwrap(), Level::None);
    assert_eq!(level(false, false, RingKind::Private).unwrap(), Level::Memory);
    assert_eq!(level(false, false, RingKind::Shared).unwrap(), Level::Process);

    let log = open(&SimFiles::new(), tiny());
    let mut writer = log.writer();
    let refused = writer.write(0, b"x", options(true, true)).unwrap_err();
    assert_eq!(refused.to_string(), "wal: sync asks for what disable_wal leaves out: set one of them");
    let end = writer.write(0, b"x", options(true, false)).unwrap().end;
    assert_eq!(log.durable(), end);
    let no_slowdown = WriteOptions { no_slowdown: true, ..WriteOptions::default() };
    let refused = (0..100).find_map(|_| writer.write(0, &[1; 1_000], no_slowdown).err()).expect("the ring is full");
    assert!(matches!(&refused, WalError::RingFull { .. }), "{refused}");
    assert_eq!(log.durable(), end, "nobody flushed");
    writer.write(0, &[1; 1_000], WriteOptions::default()).unwrap();
    assert!(log.durable() > end, "without it the writer makes room");
}

/// Goal: with `wal.sync_every` = N, writers together lose at most N - 1 returned commits, and the log syncs only every
/// N-th time. Method: 1 and 3 writers in turn, cut after each number of commits, several outcomes.
#[test]
fn sync_every_nth_commit_bounds_what_a_power_cut_loses() {
    let (every, mut most_lost) = (5, 0);
    for writers in [1, 3] {
        for commits in 1..32_u64 {
            for seed in 0..6 {
                let disk = SimFiles::new();
                let log = open(&disk, Options { sync_every: every, ..tiny() });
                let mut all: Vec<_> = (0..writers).map(|_| log.writer()).collect();
                let before = log.stat();
                for number in 0..commits {
                    let at = usize::try_from(number).unwrap() % all.len();
                    all[at].commit(0, &number.to_le_bytes(), Level::Process).unwrap();
                }
                let after = log.stat();
                let turned = u64::try_from(after.segments - before.segments).unwrap();
                assert!(after.syncs - before.syncs <= commits / every + turned, "{commits} commits");
                log.abandon();
                let back = read(&disk.power_cut(seed));
                for (number, (_, body)) in back.iter().enumerate() {
                    assert_eq!(*body, u64::try_from(number).unwrap().to_le_bytes());
                }
                let lost = commits - u64::try_from(back.len()).unwrap();
                assert!(lost < every, "{lost} of {commits} commits by {writers} writers are lost");
                most_lost = most_lost.max(lost);
            }
        }
    }
    assert_eq!(most_lost, every - 1, "the bound is reached, so the test can fail");
}

/// Goal: `sync_wal` never writes records from the ring, `flush_wal(false)` never syncs, and each returns with its mark
/// at the documented position. Method: count frames and syncs around each.
#[test]
fn flush_and_sync_do_nothing_else() {
    let log = open(&SimFiles::new(), tiny());
    let mut writer = log.writer();
    let first = writer.append(0, &[b"written"]).unwrap().end;
    let before = log.stat();
    log.flush_wal(false).unwrap();
    let written = log.stat();
    assert_eq!((written.frames - before.frames, written.syncs - before.syncs), (1, 0));
    assert_eq!((log.written(), log.durable() < first), (first, true));
    writer.append(0, &[b"in the ring"]).unwrap();
    log.sync_wal().unwrap();
    let synced = log.stat();
    assert_eq!((synced.frames - written.frames, synced.syncs - written.syncs), (0, 1));
    assert_eq!((log.durable(), log.written()), (first, first));
    log.sync_wal().unwrap();
    assert_eq!(log.stat().syncs, synced.syncs, "nothing is left to sync");
}

/// Goal: `manual_wal_flush` keeps records that no caller waits for in memory until a flush call, a `Disk` commit, or a
/// half-full ring; sync writes mean the same as always. Method: wait until the background flusher sleeps over pending
/// bytes, then each of the three.
#[test]
fn manual_flush_waits_to_be_asked_or_for_half_a_ring() {
    let delay = std::time::Duration::from_millis(1);
    let options = Options { manual_wal_flush: true, threads: true, flush_delay: delay, ..tiny() };
    let (ring, log) = (options.ring_bytes, open(&SimFiles::new(), options));
    let mut writer = log.writer();
    let (start, mut memory) = (log.written(), || writer.commit(0, &[0; 998], Level::Memory).unwrap().end);
    let sleeps = || log.background_state().load(Ordering::Relaxed) == FLUSHER_SLEEPS;
    memory();
    eventually("a background flusher with nothing to do", sleeps);
    assert_eq!((log.written(), log.boundary() > start), (start, true), "asleep over pending bytes");
    log.flush_wal(false).unwrap();
    assert_eq!(log.written(), log.boundary());
    let end = memory();
    let end = end.max(log.writer().commit(0, b"sync", Level::Disk).unwrap().end);
    assert_eq!(log.durable(), end);
    while log.boundary().bytes_since(end) <= ring / 2 {
        assert!(log.written() >= end);
        memory();
    }
    eventually("the flush of a ring half full", || log.durable() > end);
}

/// Goal: with `manual_wal_flush`, appends below half a ring do not wake the sleeping background flusher: waking it in
/// vain made each append five times as expensive. Method: hold the mutex that a thread needs to wake it, while more
/// than `flush_bytes` are appended.
#[test]
fn manual_flush_wakes_no_background_flusher_below_half_a_ring() {
    let options = Options { manual_wal_flush: true, threads: true, ..tiny() };
    let (ring, flush_bytes, log) = (options.ring_bytes, options.flush_bytes, open(&SimFiles::new(), options));
    let mut writer = log.writer();
    let start = writer.commit(0, &[0; 998], Level::Memory).unwrap().end;
    eventually("a background flusher with nothing to do", || {
        log.background_state().load(Ordering::Relaxed) == FLUSHER_SLEEPS
    });
    let held = log.core().flusher.queue.lock();
    let appends = std::thread::spawn(move || {
        let mut end = start;
        while end.bytes_since(start) <= flush_bytes {
            end = writer.commit(0, &[0; 998], Level::Memory).unwrap().end;
        }
        end
    });
    eventually("appends that wait for nobody", || appends.is_finished());
    drop(held);
    let end = appends.join().unwrap();
    assert!(end.bytes_since(start) < ring / 2 && log.durable() <= start, "nothing was flushed");
}
