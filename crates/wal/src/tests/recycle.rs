//! Files that are used again: the cost, and that nothing of an earlier use is ever read.

use std::{os::unix::fs::MetadataExt, path::Path};

use collie_env::{Env, Fault, SimFiles, read_all};

use crate::{
    Level, Log, Lsn, Options, WalError, format::FRAME_MAGIC, format::decode::frame_claim, inspect, testing::tiny,
};

const DIR: &str = "/wal";

/// Returns the smallest settings, with room for records of one block only, so that a segment takes nine commits.
fn options() -> Options {
    Options { max_record_bytes: 4 << 10, ..tiny() }
}

fn open(disk: &SimFiles) -> Result<Log, WalError> {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options()).map(|(log, _)| log)
}

/// Returns the body of record `number`: its number and a filling that differs from its neighbours'.
fn body(number: u64) -> Vec<u8> {
    let mut body = vec![u8::try_from(number % 251).unwrap(); 600];
    body[..8].copy_from_slice(&number.to_le_bytes());
    body
}

fn segment_count(disk: &SimFiles) -> usize {
    collie_env::Files::list(disk, DIR.as_ref()).unwrap().iter().filter(|name| name.ends_with(".wal")).count()
}

/// Commits records, and now and then frees old files and prepares spares, so that after the first few segments each
/// file is a recycled one. Returns the number of acknowledged commits, and that of the oldest record that cannot have
/// been freed.
fn work(log: &Log, count: u64) -> (u64, u64) {
    let mut writer = log.writer();
    let (mut freed_below, mut ends) = (0, Vec::new());
    for number in 0..count {
        let Ok(appended) = writer.commit(7, &body(number), Level::Disk) else { return (number, freed_below) };
        ends.push(appended.end);
        if number % 5 == 4 {
            freed_below = number.saturating_sub(10);
            let lsn = number.checked_sub(11).map_or(Lsn::ZERO, |last| ends[usize::try_from(last).unwrap()]);
            let freed = log.truncate_before(lsn);
            if freed.is_err() || log.tick().is_err() {
                return (number + 1, freed_below);
            }
        }
    }
    (count, freed_below)
}

/// Reopens and compares; returns whether a frame of an earlier use stood behind the end of the log.
fn check(disk: &SimFiles, acknowledged: u64, needed_from: u64) -> Result<bool, String> {
    let env = Env::over(disk.clone(), 2);
    let found = inspect(&env, DIR.as_ref()).map_err(|error| error.to_string())?;
    let stale_behind = found.segments().last().is_some_and(|segment| {
        let bytes = read_all(disk, &segment.path, 1 << 20).unwrap();
        let salt = u64::from_le_bytes(bytes[40..48].try_into().unwrap());
        let behind = bytes.get(usize::try_from(segment.used_bytes).unwrap()..).unwrap_or(&[]);
        behind.starts_with(FRAME_MAGIC) && frame_claim(behind).is_some_and(|claim| claim.header.salt != salt)
    });
    let (log, _) = Log::open(&env, DIR.as_ref(), options()).map_err(|error| error.to_string())?;
    let (mut expected, mut last) = (None, Lsn::ZERO);
    for record in log.read(Lsn::ZERO) {
        let record = record.map_err(|error| error.to_string())?;
        let number = u64::from_le_bytes(record.body[..8].try_into().unwrap());
        if record.body != body(number) || expected.is_some_and(|expected| expected != number) || record.lsn < last {
            return Err(format!("record {number} at {} where {expected:?} was expected", record.lsn));
        }
        if expected.is_none() && number > needed_from {
            return Err(format!("the log starts with {number}, but {needed_from} was never freed"));
        }
        (expected, last) = (Some(number + 1), record.end);
    }
    match expected.unwrap_or(0) {
        next if next < acknowledged => Err(format!("{acknowledged} were acknowledged, {next} are left")),
        _ => Ok(stale_behind),
    }
}

/// Goal: whatever call a power cut hits while files are used again, and whatever part of it reached the disk, every
/// acknowledged record is back and none of an earlier use. Method: cut at each call of a run over seven uses of each
/// file, several outcomes each; the log ends at every block of a recycled file, often with an old frame behind.
#[test]
fn cut_at_every_block_of_a_recycled_file_brings_no_old_record_back() {
    let mut stale = 0;
    let whole = SimFiles::new();
    work(&open(&whole).unwrap(), 100);
    assert!(segment_count(&whole) < 7, "{} files: they are not used again", segment_count(&whole));
    let first = whole.calls() / 3;
    for call in first..whole.calls() {
        let disk = SimFiles::new();
        disk.fail_call(call, Fault::PowerCut);
        let log = open(&disk).unwrap();
        let (acknowledged, needed_from) = work(&log, 100);
        log.abandon();
        for seed in 0..3 {
            let after = disk.power_cut(seed);
            let checked = check(&after, acknowledged, needed_from);
            stale += u64::from(checked.unwrap_or_else(|error| panic!("cut at call {call}, seed {seed}: {error}")));
        }
    }
    assert!(stale > 100, "an old frame lay behind the end only {stale} times: the test does not test what it says");
}

/// Goal: recycling a file costs one write and one sync and keeps its content; turning to it adds nothing to the commit
/// that turns. Method: count the simulated disk's calls around each.
#[test]
fn recycling_writes_one_block_and_turning_adds_no_sync() {
    let disk = SimFiles::new();
    let log = open(&disk).unwrap();
    let mut writer = log.writer();
    let (mut turned, mut recycled) = (0, 0);
    for number in 0..120 {
        let before = (disk.writes_and_syncs(), log.stat());
        let end = writer.commit(7, &body(number), Level::Disk).unwrap().end;
        let after = (disk.writes_and_syncs(), log.stat());
        assert_eq!(after.0 - before.0, 2, "a commit is one write and one sync, number {number}");
        assert_eq!(after.1.syncs - before.1.syncs, 1);
        turned += after.1.segments - before.1.segments;
        if number > 30 {
            log.truncate_before(end).unwrap();
        }
        let wanted = disk.writes_and_syncs();
        while log.stat().spares < 2 {
            log.tick().unwrap();
        }
        recycled += u64::from(disk.writes_and_syncs() - wanted == 2);
    }
    assert!(turned > 10 && recycled > 6, "{turned} turns, {recycled} recycled");
    let names = collie_env::Files::list(&disk, DIR.as_ref()).unwrap();
    let spare = names.iter().rfind(|name| name.ends_with(".wal")).unwrap();
    let bytes = read_all(&disk, &Path::new(DIR).join(spare), 1 << 20).unwrap();
    assert!(bytes[4096..].iter().any(|byte| *byte != 0), "the content of a recycled file stays");
}

/// Goal: an opening after a crash turns to a spare of the last incarnation, fills no new file, and loses nothing
/// whatever call of it a power cut hits. Method: count the files; then cut at each call, several outcomes each, and
/// open again.
#[test]
fn opening_after_a_crash_turns_to_a_spare_whatever_call_the_power_goes_at() {
    // Large enough for all that an opening writes.
    let options = || Options { segment_bytes: 128 << 10, ..options() };
    let open = |disk: &SimFiles| Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options()).map(|(log, _)| log);
    let disk = SimFiles::new();
    let log = open(&disk).unwrap();
    while log.stat().spares < 2 {
        log.tick().unwrap();
    }
    let (acknowledged, needed_from) = work(&log, 4);
    assert_eq!(acknowledged, 4);
    log.abandon();
    let whole = disk.power_cut(0);
    let files = segment_count(&whole);
    open(&whole).unwrap().abandon();
    assert_eq!(segment_count(&whole), files, "a file was made although there are spares");
    assert!(check(&whole.power_cut(0), acknowledged, needed_from).is_ok());
    for call in 1..=whole.calls() {
        for seed in 0..4 {
            let disk = disk.power_cut(0);
            disk.fail_call(call, Fault::PowerCut);
            if let Ok(log) = open(&disk) {
                log.abandon();
            }
            let checked = check(&disk.power_cut(seed), acknowledged, needed_from);
            checked.unwrap_or_else(|error| panic!("cut at call {call}, seed {seed}: {error}"));
        }
    }
}

/// Goal: a reader whose file is recycled under it gets the error that its records are gone, not that they are damaged.
/// Method: files larger than the part that a reader retention_pins; read one record, recycle the file, read on.
#[test]
fn reader_of_a_recycled_file_hears_that_its_records_are_gone() {
    let options = Options { segment_bytes: 3 << 20, threads: false, ..Options::small() };
    let (log, _) = Log::open(&Env::simulated(1).0, DIR.as_ref(), options).unwrap();
    let mut writer = log.writer();
    let mut fill = |segments: usize| {
        while log.stat().segments < segments {
            writer.commit(0, &[5; 16_000], Level::Disk).unwrap();
        }
    };
    fill(4);
    let mut reader = log.read(Lsn::ZERO);
    reader.next().unwrap().unwrap();
    assert_eq!(log.stat().spares, 1, "so that the freed file is wanted");
    log.truncate_before(log.durable()).unwrap();
    log.tick().unwrap();
    fill(5);
    let outcome = reader.find_map(Result::err).expect("the file is another one by now");
    assert!(matches!(outcome, WalError::CursorLost { .. }), "{outcome}");
}

/// Goal: a file that a half-done rename left under two names becomes one spare, not two that overwrite each other.
/// Method: link a spare under a second name, open, and turn segments until both would have been written. The opening
/// itself does not write to it: a crash then would leave frames under a wrong name.
#[test]
fn file_under_two_names_is_one_spare() {
    let (dir, env) = (tempfile::tempdir().unwrap(), Env::real());
    let options = || Options { threads: false, segment_bytes: 1 << 20, ..Options::small() };
    let (log, _) = Log::open(&env, dir.path(), options()).unwrap();
    log.tick().unwrap();
    log.writer().commit(0, &body(0), Level::Disk).unwrap();
    log.abandon();
    drop(log);
    let name = |number: u64| dir.path().join(crate::format::segment_name(number));
    std::fs::hard_link(name(2), name(3)).unwrap();
    let inode = |path: &Path| std::fs::metadata(path).unwrap().ino();
    let linked = inode(&name(2));
    let (log, _) = Log::open(&env, dir.path(), options()).unwrap();
    let begun = inspect(&env, dir.path()).unwrap().segments().pop().unwrap();
    assert_ne!(inode(&begun.path), linked);
    let mut writer = log.writer();
    let mut count = 1;
    while log.stat().segments < 6 {
        writer.commit(0, &body(count).repeat(20), Level::Disk).unwrap();
        count += 1;
    }
    log.close().unwrap();
    drop((writer, log));
    let (log, _) = Log::open(&env, dir.path(), options()).unwrap();
    assert_eq!(log.read(Lsn::ZERO).map(Result::unwrap).count() as u64, count);
}
