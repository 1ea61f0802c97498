//! Faults other than crashes: failing calls, a full disk, damage, foreign files.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use collie_env::{Access, Env, Fault, Files, SimClock, SimFiles};
use parking_lot::Mutex;

use crate::{
    Ending, Level, Log, Lsn, Mark, Options, RecoveryMode, WalError, Warnings, inspect,
    testing::{bodies, eventually, tiny},
};

const DIR: &str = "/wal";

fn open(disk: &SimFiles, options: Options) -> Result<(Log, crate::Recovered), WalError> {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options)
}

fn segment_files(disk: &SimFiles) -> Vec<PathBuf> {
    let names = disk.list(DIR.as_ref()).unwrap();
    names.iter().filter(|name| name.ends_with(".wal")).map(|name| Path::new(DIR).join(name)).collect()
}

/// Goal: a failing sync wakes every waiter, and so does abandoning the log. Method: six threads commit with all
/// background threads on until the fault, or until the log is abandoned; the scope ends only if none hangs.
#[test]
fn every_waiter_hears_of_a_fault() {
    for round in 0..40 {
        let disk = SimFiles::new();
        let (log, _) = open(&disk, Options { threads: true, ..tiny() }).unwrap();
        if round % 2 == 0 {
            // Many in a row: the first ones may hit the preparation of a spare, which is only repeated.
            let first = disk.writes_and_syncs() + 30 + round;
            (first..first + 500).for_each(|call| disk.fail_write_or_sync(call, Fault::Eio));
        }
        std::thread::scope(|scope| {
            for thread in 0..6_u8 {
                let (log, level) = (log.clone(), if thread < 4 { Level::Disk } else { Level::Process });
                scope.spawn(move || {
                    let mut writer = log.writer();
                    for number in 0_u64.. {
                        match writer.commit(thread, &[1; 700], level) {
                            Ok(_) if round % 2 == 1 && thread == 0 && number == round => log.abandon(),
                            Ok(_) | Err(WalError::Full { .. }) => {}
                            Err(WalError::Poisoned { .. } | WalError::Io { .. } | WalError::Closed) => return,
                            Err(error) => panic!("{error}"),
                        }
                    }
                });
            }
        });
    }
}

/// Appends until the log refuses; returns the number of accepted records and the refusal.
fn fill(log: &Log) -> (u64, WalError) {
    let mut writer = log.writer();
    for taken in 0..1_000 {
        if let Err(error) = writer.append(0, &[&[1; 1_000]]) {
            return (taken, error);
        }
    }
    panic!("the log never refuses");
}

/// Goal: a device that stalls for a minute only delays acknowledgements: no commit returns during the stall, appends
/// continue exactly until the ring is full, reads continue, and everything is well afterwards. Method: stall the
/// simulated device under four committers and one appender, move the clock, check, end the stall.
#[test]
fn stalled_device_delays_acknowledgements_and_loses_nothing() {
    let disk = SimFiles::new();
    let clock = Arc::new(SimClock::new());
    let env = Env { clock: clock.clone(), ..Env::over(disk.clone(), 1) };
    let (log, _) = Log::open(&env, DIR.as_ref(), Options { threads: true, ..tiny() }).unwrap();
    log.writer().commit(0, b"before", Level::Disk).unwrap();
    disk.set_stalled(true);
    let durable = log.durable();
    let (acknowledged, appended) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut writer = log.writer();
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                writer.commit(1, &[1; 100], Level::Disk).unwrap();
                acknowledged.fetch_add(1, Ordering::SeqCst);
            });
        }
        let (mut writer, appended) = (log.writer(), &appended);
        scope.spawn(move || {
            for _ in 0..40 {
                writer.append(2, &[&[2; 1_000]]).unwrap();
                appended.fetch_add(1, Ordering::SeqCst);
            }
        });
        // The ring holds 16 KiB: the appender fills it and then waits.
        let mut last = 0;
        for _ in 0..200 {
            clock.advance_ns(300_000_000);
            std::thread::yield_now();
            last = appended.load(Ordering::SeqCst);
            assert_eq!((acknowledged.load(Ordering::SeqCst), log.durable()), (0, durable));
        }
        assert!(last <= 16, "{last} records of 1000 bytes in a ring of 16 KiB");
        assert_eq!(bodies(&log), [b"before"]);
        disk.set_stalled(false);
    });
    assert_eq!((acknowledged.into_inner(), appended.into_inner()), (4, 40));
    log.close().unwrap();
    assert_eq!(bodies(&open(&disk.power_cut(1), tiny()).unwrap().0).len(), 45);
}

/// Goal: a full disk refuses new records before anything is reserved, with one warning and without using the emergency
/// spare, keeps the old ones durable, and takes records again once there is room. Method: room for the first file (64
/// KiB, including the writes of the opening) and one spare, then more.
#[test]
fn full_disk_refuses_before_reserving_and_recovers_by_itself() {
    let disk = SimFiles::new();
    disk.set_capacity(Some((64 + 40) << 10));
    let said = Arc::new(Mutex::new(Vec::new()));
    let warnings = Warnings::to({
        let said = said.clone();
        move |line| said.lock().push(line.to_owned())
    });
    let (log, _) = open(&disk, Options { warnings, ..tiny() }).unwrap();
    let (written, full) = fill(&log);
    assert!(matches!(&full, WalError::Full { .. }), "{full}");
    let next = log.glsn();
    log.wait(Mark::Durable, next).unwrap();
    assert!(log.writer().append(0, &[b"no"]).is_err());
    assert_eq!(log.glsn(), next, "nothing was reserved");
    let stat = log.stat();
    assert_eq!((stat.segments, stat.spares), (1, 1), "the emergency spare is still there");
    let alarm = stat.alarm.expect("a shortage");
    assert!(
        alarm.starts_with("wal: 1 spare log files are left and no more can be prepared (wal: cannot prepare"),
        "{alarm}"
    );
    assert_eq!(*said.lock(), [alarm]);
    disk.set_capacity(None);
    log.tick().unwrap();
    assert_eq!(log.stat().alarm, None);
    log.writer().commit(0, b"again", Level::Disk).unwrap();
    log.close().unwrap();
    let (log, found) = open(&disk, tiny()).unwrap();
    assert_eq!(found.ending, Ending::Clean);
    assert_eq!(bodies(&log).len() as u64, written + 1);
}

/// Goal: empty frames, which only name the durable position, never take the last spare nor stop the log. Method: more
/// of them than the file has room for, on a disk without room for another file.
#[test]
fn empty_frames_never_use_up_a_full_disk() {
    let disk = SimFiles::new();
    disk.set_capacity(Some(64 << 10));
    let (log, _) = open(&disk, tiny()).unwrap();
    log.writer().commit(0, b"kept", Level::Disk).unwrap();
    (0..40).for_each(|_| log.heartbeat().unwrap());
    disk.set_capacity(None);
    log.tick().unwrap();
    log.writer().commit(0, b"more", Level::Disk).unwrap();
    assert_eq!(bodies(&log), [b"kept", b"more"]);
}

/// Goal: freeing old segments, which are recycled, gives a log on a full disk room again. Method: room for four files
/// and a little, filled; then truncate.
#[test]
fn freed_segments_reopen_a_log_on_a_full_disk() {
    let disk = SimFiles::new();
    disk.set_capacity(Some(5 * (40 << 10)));
    let (log, _) = open(&disk, tiny()).unwrap();
    let (_, full) = fill(&log);
    assert!(matches!(&full, WalError::Full { .. }), "{full}");
    log.flush_wal(true).unwrap();
    let (stat, used) = (log.stat(), disk.used_bytes());
    assert_eq!((stat.segments, stat.spares), (3, 1), "the emergency spare is untouched");
    log.truncate_before(log.durable()).unwrap();
    log.tick().unwrap();
    log.writer().commit(0, b"again", Level::Disk).unwrap();
    assert!(disk.used_bytes() <= used);
}

/// Goal: G8: on a full disk the reserve is for records that give room back: they are taken while others are refused,
/// until only the emergency spare is left; freed files open the log to all again. Method: two spares and room for six
/// files, filled; then appends of both kinds in turn.
#[test]
fn reserve_of_a_full_disk_is_for_what_gives_room_back() {
    let disk = SimFiles::new();
    disk.set_capacity(Some(6 * (40 << 10)));
    let (log, _) = open(&disk, Options { spares: 2, ..tiny() }).unwrap();
    let (written, full) = fill(&log);
    assert!(matches!(&full, WalError::Full { .. }), "{full}");
    log.flush_wal(true).unwrap();
    assert_eq!(log.stat().spares, 2, "the emergency spare and the reserve are untouched");
    let (mut other, mut writer, mut given) = (log.writer(), log.writer(), 0);
    writer.set_gives_back(true);
    let full = loop {
        match writer.commit(0, &[7; 1_000], Level::Disk) {
            Ok(_) => given += 1,
            Err(error) => break error,
        }
        assert!(matches!(other.append(0, &[b"other"]), Err(WalError::Full { .. })), "after {given}");
    };
    assert!(matches!(&full, WalError::Full { .. }), "{full}");
    assert!(given >= 5, "{given} were let in");
    assert_eq!(log.stat().spares, 1, "the emergency spare is still there");
    assert_eq!(bodies(&log).len() as u64, written + given);
    log.truncate_before(log.durable()).unwrap();
    log.tick().unwrap();
    other.commit(0, b"again", Level::Disk).unwrap();
    log.close().unwrap();
}

/// Goal: a log that is killed again and again on a full disk opens each time, without room from outside: each opening
/// gives back the unused room of earlier segments, and takes a smaller file if there is no room for a full one. Nothing
/// is lost, and once there is room, files with holes are recycled as whole ones. Method: a full log, killed and opened
/// thirty times on the bytes that it had, with a commit after two of three openings; then room, and the old segments
/// are freed and written to.
#[test]
fn full_disk_opens_again_and_again_in_the_room_of_its_own_files() {
    let options = || Options { spares: 2, segment_bytes: 160 << 10, ..tiny() };
    let mut disk = SimFiles::new();
    disk.set_capacity(Some(7 * (160 << 10)));
    let (log, _) = open(&disk, options()).unwrap();
    let (written, _) = fill(&log);
    log.flush_wal(true).unwrap();
    let full_bytes = disk.used_bytes();
    drop(log);
    let (mut kept, mut refused) = (0, 0);
    for start in 0..30 {
        disk = disk.process_kill();
        disk.set_capacity(Some(full_bytes));
        let (log, _) = open(&disk, options()).unwrap_or_else(|error| panic!("start {start}: {error}"));
        if start % 3 > 0 {
            match log.writer().commit(0, format!("start {start}").as_bytes(), Level::Disk) {
                Ok(_) => kept += 1,
                Err(WalError::Full { .. }) => refused += 1,
                Err(error) => panic!("start {start}: {error}"),
            }
        }
        assert_eq!(bodies(&log).len() as u64, written + kept, "start {start}");
    }
    assert!(kept >= 10, "{kept} commits, {refused} refused");
    disk = disk.process_kill();
    disk.set_capacity(None);
    let (log, _) = open(&disk, options()).unwrap();
    let mut writer = log.writer();
    for _ in 0..40 {
        log.truncate_before(log.durable()).unwrap();
        for _ in 0..20 {
            writer.commit(0, &[3; 1_000], Level::Disk).unwrap();
        }
        log.tick().unwrap();
    }
    let files = log.stat().segments + log.stat().spares;
    assert!(disk.used_bytes() >= files as u64 * options().segment_bytes, "no file has a hole in it");
}

/// Goal: G8: a lent spare leaves its room to other files, no spare is prepared during the loan, and the emergency spare
/// is never lent; afterwards the log has the spare again. Method: a full log, a loan, rounds of its preparer.
#[test]
fn spare_that_is_lent_leaves_its_room_to_others() {
    let disk = SimFiles::new();
    disk.set_capacity(Some(6 * (40 << 10)));
    let (log, _) = open(&disk, Options { spares: 2, ..tiny() }).unwrap();
    let (_, full) = fill(&log);
    assert!(matches!(&full, WalError::Full { .. }), "{full}");
    log.flush_wal(true).unwrap();
    let used = disk.used_bytes();
    assert!(log.lend_spare(tiny().segment_bytes + 1).is_none(), "there is none so large");
    let lent = log.lend_spare(tiny().segment_bytes).expect("the reserve");
    assert!(log.lend_spare(0).is_none(), "the emergency spare stays");
    assert!(disk.used_bytes() + tiny().segment_bytes <= used);
    for _ in 0..3 {
        log.tick().unwrap();
    }
    assert_eq!(log.stat().spares, 1);
    drop(lent);
    log.tick().unwrap();
    assert_eq!((log.stat().spares, disk.used_bytes()), (2, used));
}

/// Goal: with `spares_wait` the disk stays as the opening left it until the caller releases the preparer; then spares
/// are prepared. Method: a log with threads and this option, on a disk whose bytes are counted.
#[test]
fn preparer_waits_for_whoever_opened_the_log() {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, Options { threads: true, spares_wait: true, spares: 2, ..tiny() }).unwrap();
    let used = disk.used_bytes();
    log.writer().commit(0, b"first", Level::Disk).unwrap();
    assert_eq!((log.stat().spares, disk.used_bytes()), (0, used));
    log.let_prepare();
    eventually("the spares", || log.stat().spares == 3);
    log.close().unwrap();
}

/// Goal: with threads the log accepts appends again without any call when room returns. Method: fill, lift the bound,
/// append until it succeeds.
#[test]
fn preparer_reopens_a_log_on_a_full_disk() {
    let disk = SimFiles::new();
    disk.set_capacity(Some(3 * (40 << 10)));
    let (log, _) = open(&disk, Options { threads: true, ..tiny() }).unwrap();
    let (_, full) = fill(&log);
    assert!(matches!(&full, WalError::Full { .. }), "{full}");
    disk.set_capacity(None);
    eventually("room for a record", || log.writer().append(0, &[b"again"]).is_ok());
    log.flush_wal(true).unwrap();
}

/// Goal: an unfinished flush is dropped with one line that names the place; absolute_consistency refuses it. Method:
/// overwrite a sector of the last frame, which is written and not synced.
#[test]
fn torn_tail_is_trimmed_with_a_line_and_refused_under_absolute_consistency() {
    let (env, disk) = Env::simulated(1);
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    log.writer().commit(0, b"kept", Level::Disk).unwrap();
    let found = inspect(&env, DIR.as_ref()).unwrap();
    let segment = &found.segments()[0];
    log.writer().append(0, &[&[5; 4_090]]).unwrap();
    log.flush_wal(false).unwrap();
    let disk = disk.process_kill();
    let file = disk.open(&segment.path, Access::ReadWrite).unwrap();
    file.write_at(segment.used_bytes + 1_024, &[0; 512]).unwrap();
    let refused = open(&disk, Options { recovery_mode: RecoveryMode::AbsoluteConsistency, ..tiny() });
    assert!(matches!(refused, Err(WalError::Unfinished { .. })), "{refused:?}");
    let (log, found) = open(&disk, tiny()).unwrap();
    let expected = format!(
        "wal: dropped an unfinished flush of 8192 bytes after LSN {} ({} offset {}); no later frame relied on it",
        found.end,
        segment.path.file_name().unwrap().to_string_lossy(),
        segment.used_bytes
    );
    assert_eq!(found.notes, [expected]);
    assert_eq!(bodies(&log), [b"kept"]);
}

/// Goal: damage is refused with place, checksums and remedy, and point_in_time opens with the records before it, keeps
/// copies of the files and hands out no position twice. Method: flip a bit in the second of four frames.
#[test]
fn damage_is_refused_and_point_in_time_opens_before_it() {
    let (env, disk) = Env::simulated(1);
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    let mut last = Lsn::ZERO;
    for body in [b"one", b"two", b"six", b"ten"] {
        last = writer.commit(0, body, Level::Disk).unwrap().end;
    }
    log.abandon();
    let disk = disk.process_kill();
    let path = &segment_files(&disk)[0];
    // Header block, the opening frame, "one", then "two": its payload follows 64 bytes of header.
    disk.flip(path, 3 * 4096 + 64 + 2, 0x10).unwrap();
    let error = open(&disk, tiny()).unwrap_err();
    let WalError::Damaged { lsn, offset, stored, computed, durable, .. } = &error else { panic!("{error}") };
    assert_eq!((*lsn, *offset), (Lsn::new(4096 + 5), 3 * 4096));
    assert_ne!(stored, computed);
    let text = error.to_string();
    assert!(
        text.starts_with("wal: damaged at LSN 0/1005 (/wal/00000000000000000001.wal offset 12288): crc "),
        "{text}"
    );
    assert!(text.contains(&format!("the log was durable to {durable}")), "{text}");
    let (log, found) = open(&disk, Options { recovery_mode: RecoveryMode::PointInTime, ..tiny() }).unwrap();
    assert_eq!(bodies(&log), [b"one"]);
    assert!(found.next > last, "{} is above every position of the lost life", found.next);
    assert!(found.notes[0].contains("point_in_time"), "{:?}", found.notes);
    assert!(disk.list(DIR.as_ref()).unwrap().iter().any(|name| name.ends_with(".bad")));
    log.writer().commit(0, b"new", Level::Disk).unwrap();
    log.close().unwrap();
    let (log, _) = open(&disk, tiny()).unwrap();
    assert_eq!(bodies(&log), [b"one", b"new"]);
}

/// Goal: a position that the caller knows to have been durable counts as proof. Method: damage the only frame with
/// records, and open with and without that knowledge.
#[test]
fn known_durable_position_turns_a_torn_tail_into_damage() {
    let (env, disk) = Env::simulated(1);
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    let end = log.writer().commit(0, b"gone", Level::Disk).unwrap().end;
    log.abandon();
    let disk = disk.process_kill();
    disk.flip(&segment_files(&disk)[0], 2 * 4096 + 64, 1).unwrap();
    let error = open(&disk, Options { known_durable: Some(end), ..tiny() }).unwrap_err();
    assert!(matches!(error, WalError::Damaged { .. }), "{error}");
    assert_eq!(open(&disk, tiny()).unwrap().1.end, Lsn::FIRST);
}

/// Goal: files of another log and of a newer format are refused by name. Method: copy one in; raise a version.
#[test]
fn foreign_and_newer_files_are_refused() {
    let ((env, disk), (_, other)) = (Env::simulated(1), Env::simulated(2));
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    log.writer().commit(0, b"mine", Level::Disk).unwrap();
    log.close().unwrap();
    Log::open(&Env::over(other.clone(), 9), DIR.as_ref(), tiny()).unwrap();
    let bytes = collie_env::read_all(&other, "/wal/00000000000000000001.wal".as_ref(), 1 << 20).unwrap();
    let mut foreign = bytes.clone();
    foreign[32..40].copy_from_slice(&77_u64.to_le_bytes());
    let crc = collie_base::checksum::crc32c(&foreign[12..4096]);
    foreign[8..12].copy_from_slice(&crc.to_le_bytes());
    let path = Path::new("/wal/00000000000000000077.wal");
    disk.create(path).unwrap().write_at(0, &foreign).unwrap();
    let error = open(&disk, tiny()).unwrap_err();
    assert!(matches!(&error, WalError::ForeignLog { path: found } if found == path), "{error}");

    foreign[12] = 9;
    let crc = collie_base::checksum::crc32c(&foreign[12..4096]);
    foreign[8..12].copy_from_slice(&crc.to_le_bytes());
    disk.open(path, Access::ReadWrite).unwrap().write_at(0, &foreign).unwrap();
    let error = open(&disk, tiny()).unwrap_err();
    assert!(matches!(&error, WalError::NewerFormat { version: 9, .. }), "{error}");
    disk.remove(path).unwrap();
    assert_eq!(bodies(&open(&disk, tiny()).unwrap().0), [b"mine"]);
}

/// Goal: settings that are not built or out of bounds are refused, and the error says what to use. Method: one of each.
#[test]
fn settings_that_are_not_built_or_out_of_bounds_are_refused() {
    let disk = SimFiles::new();
    let cases = [
        (
            Options { recovery_mode: RecoveryMode::SkipAnyCorruptedRecords, ..tiny() },
            "wal: wal.recovery_mode = skip_any_corrupted_records only reads and opens nothing: read what is left with \
             collie wal dump --skip-bad (collie_wal::salvage), or open with point_in_time",
        ),
        (Options { spares: 0, ..tiny() }, "wal: wal.spares = 0 is out of bounds: use 1 to 64"),
        (Options { ring_bytes: 20_000, ..tiny() }, "wal: wal.ring_size = 20000 is not a power of two"),
        (
            Options { flush_delay: std::time::Duration::from_secs(3600), ..tiny() },
            "wal: wal.flush_delay = 1h is out of bounds: use 1ms to 10s",
        ),
        (Options { frame_bytes: 4 << 20, ..tiny() }, "wal: wal.frame_size = 4MiB is out of bounds: use 4KiB to 2MiB"),
    ];
    for (options, message) in cases {
        let error = open(&disk, options).unwrap_err();
        assert!(matches!(error, WalError::InvalidOptions { .. }));
        assert_eq!(error.to_string(), message);
    }
}
