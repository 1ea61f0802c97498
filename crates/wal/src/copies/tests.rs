//! Copies of a log: lost, stale, rotten, cut in the middle of a repair, diverged.

use std::{collections::BTreeMap, path::Path};

use collie_env::{Access, Env, Fault, Files, SimFiles, SimRandom, read_all};

use super::faulty::{FaultyDirs, Trouble};
use crate::{
    Ending, LagPolicy, Level, Log, Lsn, Options, Recovered, TailOptions, WalError, inspect, inspect_copies,
    repair_copies, salvage_locked,
    testing::{bodies, tiny},
};

pub(crate) const HOME: &str = "/wal";
pub(crate) const COPY: &str = "/copy";
pub(crate) const THIRD: &str = "/third";

pub(super) fn with(copies: &[&str]) -> Options {
    Options { copies: copies.iter().map(Into::into).collect(), ..tiny() }
}

pub(super) fn one_will_do(copies: &[&str]) -> Options {
    Options { open_with: Some(1), ..with(copies) }
}

fn open(disk: &SimFiles, options: Options) -> Result<(Log, Recovered), WalError> {
    Log::open(&Env::over(disk.clone(), 1), HOME.as_ref(), options)
}

/// Returns the error. A log that opened is not printed: it is large.
pub(super) fn refusal<T>(result: Result<T, WalError>) -> WalError {
    result.err().expect("must be refused")
}

/// Returns the segments in `dir` with their bytes.
pub(super) fn segments(disk: &dyn Files, dir: &str) -> BTreeMap<String, Vec<u8>> {
    let names = disk.list(dir.as_ref()).unwrap();
    let read = |name: String| {
        let bytes = read_all(disk, &Path::new(dir).join(&name), 1 << 20).unwrap();
        (name, bytes)
    };
    names.into_iter().filter(|name| name.ends_with(".wal")).map(read).collect()
}

/// Returns the used parts of the segments in `dir`; bytes that a cut left behind them may differ between copies.
fn in_use(disk: &SimFiles, dir: &str) -> Vec<Vec<u8>> {
    let found = inspect(&Env::over(disk.clone(), 1), dir.as_ref()).unwrap();
    assert!(found.damage().is_none());
    let part = |segment: crate::SegmentInfo| {
        let mut bytes = read_all(disk, &segment.path, 1 << 20).unwrap();
        bytes.truncate(usize::try_from(segment.used_bytes).unwrap());
        bytes
    };
    found.segments().into_iter().map(part).collect()
}

pub(super) fn remove_all(disk: &SimFiles, dir: &str) {
    for name in segments(disk, dir).keys() {
        disk.remove(&Path::new(dir).join(name)).unwrap();
    }
    disk.sync_dir(dir.as_ref()).unwrap();
}

/// Appends `count` records, some larger than a block, and returns their bodies.
pub(super) fn fill(log: &Log, count: usize) -> Vec<Vec<u8>> {
    let mut writer = log.writer();
    let mut written = Vec::new();
    for number in 0..count {
        let body = vec![u8::try_from(number % 251).unwrap(); number * 97 % 5_000];
        writer.commit(1, &body, Level::Disk).unwrap();
        written.push(body);
    }
    written
}

/// Makes a log with `copies` and 40 records in several segments, and leaves it without closing.
pub(super) fn crashed_log(copies: &[&str]) -> (SimFiles, Vec<Vec<u8>>) {
    let disk = SimFiles::new();
    let (log, _) = open(&disk, with(copies)).unwrap();
    let written = fill(&log, 40);
    log.heartbeat().unwrap();
    log.sync_wal().unwrap();
    log.abandon();
    (disk.process_kill(), written)
}

/// Goal: all copies hold the same bytes. Method: several incarnations with three copies, closed and killed; compare the
/// files.
#[test]
fn copies_are_byte_identical() {
    let mut disk = SimFiles::new();
    let mut written = Vec::new();
    for life in 0..6 {
        let (log, found) = open(&disk, with(&[COPY, THIRD])).unwrap();
        assert_eq!((found.repaired, bodies(&log)), (0, written.clone()), "{:?}", found.notes);
        written.extend(fill(&log, 25));
        if life % 2 == 0 {
            log.close().unwrap()
        } else {
            log.abandon()
        }
        disk = disk.process_kill();
        let home = segments(&disk, HOME);
        assert!(home.len() > 2 && home == segments(&disk, COPY) && home == segments(&disk, THIRD), "life {life}");
    }
}

/// Goal: a lost copy, whichever it is, is not passed over in silence: the log refuses to open, opens if the operator
/// allows it, and fills the copy again. Method: empty each directory of two in turn, after a crash and after a close.
#[test]
fn lost_copy_refuses_to_open_until_told_to_and_is_filled_again() {
    for (lost, closed) in [(HOME, false), (COPY, false), (HOME, true), (COPY, true)] {
        let (mut disk, written) = crashed_log(&[COPY]);
        if closed {
            open(&disk, with(&[COPY])).unwrap().0.close().unwrap();
            disk = disk.process_kill();
        }
        remove_all(&disk, lost);
        let error = refusal(open(&disk, with(&[COPY])));
        assert!(matches!(error, WalError::CopiesMissing { present: 1, needed: 2, .. }), "{error}");
        assert!(error.to_string().contains(&format!("not there: {lost}")), "{error}");
        let (log, found) = open(&disk, one_will_do(&[COPY])).unwrap();
        assert_eq!(bodies(&log), written);
        assert!(found.repaired > 2 && found.notes.iter().any(|note| note.contains("was empty")), "{:?}", found.notes);
        log.close().unwrap();
        assert!(segments(&disk, HOME) == segments(&disk, COPY));
        let (_, found) = open(&disk.process_kill(), with(&[COPY])).unwrap();
        assert_eq!((found.repaired, found.ending), (0, Ending::Clean));
    }
}

/// Goal: a copy that was away is stale when it comes back, is recognized as such and caught up, wherever the log went
/// in between; its own end of the log does not count. Method: each of two directories is away for one to three
/// incarnations, closed or not; an open with the stale copy alone is refused.
#[test]
fn copy_that_was_away_is_recognised_and_caught_up() {
    for (away, lives, closed) in [(COPY, 1, false), (COPY, 3, true), (HOME, 1, true), (HOME, 2, false)] {
        let (disk, mut written) = crashed_log(&[COPY]);
        let dirs = FaultyDirs::new(&disk);
        let open = |options| Log::open(&dirs.env(7), HOME.as_ref(), options);
        dirs.set(away, Some(Trouble::Gone));
        for life in 0..lives {
            if life == 0 {
                let error = refusal(open(with(&[COPY])));
                assert!(matches!(error, WalError::CopiesMissing { present: 1, needed: 2, .. }), "{error}");
            }
            let (log, _) = open(one_will_do(&[COPY])).unwrap();
            written.extend(fill(&log, 15));
            if closed {
                log.close().unwrap()
            } else {
                log.abandon()
            }
            drop(log);
        }
        // The newest LINK counts one copy, so the other is not needed.
        let (log, _) = open(with(&[COPY])).unwrap();
        log.abandon();
        drop(log);
        dirs.set(away, None);
        dirs.set(if away == COPY { HOME } else { COPY }, Some(Trouble::Gone));
        let error = refusal(open(with(&[COPY])));
        assert!(matches!(error, WalError::CopiesMissing { .. }), "{error}");
        dirs.set(if away == COPY { HOME } else { COPY }, None);
        let (log, found) = open(with(&[COPY])).unwrap();
        assert!(found.notes.iter().any(|note| note.contains(&format!("{away} was stale"))), "{:?}", found.notes);
        assert_eq!(bodies(&log), written, "{away}");
        log.close().unwrap();
        assert!(segments(&disk, HOME) == segments(&disk, COPY));
    }
}

/// Goal: rot in any block of the durable region of a copy is repaired from the other copy and reported. Method: flip a
/// bit in each block of each segment of each copy, repair offline, compare the bytes with those before; also remove a
/// file and cut one short.
#[test]
fn rot_in_any_block_of_a_copy_is_repaired_and_reported() {
    let (disk, written) = crashed_log(&[COPY]);
    let env = Env::over(disk.clone(), 3);
    let (before, lacking) = inspect_copies(&env, HOME.as_ref(), &[COPY.into()]).unwrap();
    assert!(lacking.is_empty() && before.damage().is_none() && before.segments().len() > 3);
    let whole = segments(&disk, HOME);
    let mut flips = 0;
    for (dir, segment) in [HOME, COPY].iter().flat_map(|dir| before.segments().into_iter().map(move |s| (*dir, s))) {
        let path = Path::new(dir).join(segment.path.file_name().unwrap());
        for block in 0..segment.used_bytes / 4096 {
            // Bytes of magic and header fields, which the check of a frame covers.
            let offset = block * 4096 + [0, 5, 9, 20, 60][usize::try_from(block % 5).unwrap()];
            disk.flip(&path, offset, 1 << (block % 8)).unwrap();
            let done = repair_copies(&env, HOME.as_ref(), &with(&[COPY])).unwrap();
            let repaired = segments(&disk, dir) == whole;
            let harmless = done.repaired == 0;
            if harmless {
                // The flip hit padding behind a frame.
                disk.flip(&path, offset, 1 << (block % 8)).unwrap();
            } else {
                let named = done.notes.iter().any(|note| note.contains(&*path.to_string_lossy()));
                assert!(repaired && named, "{} offset {offset}: {:?}", path.display(), done.notes);
                flips += 1;
            }
        }
    }
    assert!(flips > 30, "only {flips} flips mattered");
    for cut in [None, Some(9_000)] {
        let path = &before.segments()[1].path;
        match cut {
            None => disk.remove(path).unwrap(),
            Some(bytes) => disk.open(path, Access::ReadWrite).unwrap().set_len(bytes).unwrap(),
        }
        let done = repair_copies(&env, HOME.as_ref(), &with(&[COPY])).unwrap();
        assert!(done.repaired == 1 && done.notes[0].contains("missing or cut short"), "{:?}", done.notes);
        assert!(segments(&disk, HOME) == whole);
    }
    let (log, found) = open(&disk.process_kill(), with(&[COPY])).unwrap();
    assert_eq!((found.repaired, bodies(&log)), (0, written));
}

/// Goal: if some frames are rotten in one copy and others in the other, all are recovered; a frame that is rotten in
/// both is damage that refuses, and nothing is written. Method: flip alternate frames of the two copies, then one frame
/// in both.
#[test]
fn each_frame_comes_from_the_copy_that_has_it() {
    let (disk, written) = crashed_log(&[COPY]);
    let env = Env::over(disk.clone(), 3);
    let (found, _) = inspect_copies(&env, HOME.as_ref(), &[COPY.into()]).unwrap();
    let mut frames: Vec<(std::path::PathBuf, u64)> = Vec::new();
    for record in found.records(Lsn::ZERO).map(Result::unwrap) {
        frames.push((record.path.to_path_buf(), record.offset));
    }
    frames.dedup();
    let in_copy = |path: &Path| Path::new(COPY).join(path.file_name().unwrap());
    for (number, (path, offset)) in frames.iter().enumerate() {
        let path = if number % 2 == 0 { path.clone() } else { in_copy(path) };
        disk.flip(&path, offset + 30, 4).unwrap();
    }
    let rotten = disk.process_kill();
    let (log, found) = open(&rotten, with(&[COPY])).unwrap();
    assert_eq!(bodies(&log), written);
    assert_eq!(found.repaired, frames.len() as u64, "{:?}", found.notes);
    log.close().unwrap();
    assert!(segments(&rotten, HOME) == segments(&rotten, COPY));

    let (disk, _) = crashed_log(&[COPY]);
    let env = Env::over(disk.clone(), 3);
    let (path, offset) = &frames[5];
    disk.flip(path, offset + 30, 4).unwrap();
    disk.flip(&in_copy(path), offset + 31, 4).unwrap();
    let before = (segments(&disk, HOME), segments(&disk, COPY));
    let error = repair_copies(&env, HOME.as_ref(), &with(&[COPY])).unwrap_err();
    assert!(matches!(error, WalError::Damaged { .. }), "{error}");
    let error = refusal(Log::open(&env, HOME.as_ref(), with(&[COPY])));
    assert!(matches!(error, WalError::Damaged { .. }), "{error}");
    assert!(before == (segments(&disk, HOME), segments(&disk, COPY)));
}

/// Goal: a frame that is rotten in the only up-to-date copy is taken from a stale one. Method: one copy is away for an
/// incarnation, then a frame that both had rots in the other.
#[test]
fn stale_copy_fills_a_gap_that_no_other_can() {
    let (disk, mut written) = crashed_log(&[COPY]);
    let dirs = FaultyDirs::new(&disk);
    dirs.set(COPY, Some(Trouble::Gone));
    let (log, _) = Log::open(&dirs.env(7), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
    written.extend(fill(&log, 15));
    log.close().unwrap();
    let path = Path::new(HOME).join(segments(&disk, HOME).keys().nth(1).unwrap());
    disk.flip(&path, 2 * 4096 + 30, 1).unwrap();
    let disk = disk.process_kill();
    let (log, found) = open(&disk, with(&[COPY])).unwrap();
    assert_eq!(bodies(&log), written);
    assert!(found.notes.iter().any(|note| note.contains("repaired 1 damaged frames")), "{:?}", found.notes);
    log.close().unwrap();
    assert!(segments(&disk, HOME) == segments(&disk, COPY));
}

/// Goal: a copy that was away until everything it has was freed is stale, also if a torn write has left its newest
/// segment without the frame that says so (T297). Method: one copy is away while the log continues and frees files;
/// then the newest segment that it wrote to, or each of them, loses its first frame.
#[test]
fn copy_of_what_was_freed_is_stale_although_it_cannot_be_placed() {
    for torn in [1, usize::MAX] {
        let (disk, _) = crashed_log(&[COPY]);
        let dirs = FaultyDirs::new(&disk);
        dirs.set(COPY, Some(Trouble::Gone));
        let (log, _) = Log::open(&dirs.env(7), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
        fill(&log, 40);
        log.truncate_before(log.durable()).unwrap();
        fill(&log, 5);
        log.truncate_before(log.durable()).unwrap();
        let written = bodies(&log);
        log.abandon();
        drop(log);
        let newest_home = segments(&disk, HOME).keys().next().cloned().unwrap();
        let copy = segments(&disk, COPY);
        // With a single frame nothing would be left of the segment.
        let begun =
            |bytes: &[u8]| bytes[4096..4100] != [0; 4] && bytes[8192..].chunks(4096).any(|block| block[..4] != [0; 4]);
        let begun: Vec<&String> = copy.iter().rev().filter(|(_, bytes)| begun(bytes)).map(|(name, _)| name).collect();
        assert!(begun.len() > 1 && begun[0] < &newest_home, "{begun:?} {newest_home}");
        for name in begun.into_iter().take(torn) {
            disk.flip(&Path::new(COPY).join(name), 4096 + 30, 1).unwrap();
        }
        let (log, found) = open(&disk.process_kill(), with(&[COPY])).unwrap();
        assert_eq!(bodies(&log), written);
        assert!(found.notes.iter().any(|note| note.contains(&format!("{COPY} was stale"))), "{:?}", found.notes);
        log.close().unwrap();
    }
}

/// Goal: a copy that was left out does not move a consumer back to its old position, below what was freed since.
/// Method: one directory fails; the consumer moves on and files are freed; open with both.
#[test]
fn consumer_stands_where_the_copies_that_went_on_have_it() {
    for failing in [HOME, COPY] {
        let disk = SimFiles::new();
        let dirs = FaultyDirs::new(&disk);
        let (log, _) = Log::open(&dirs.env(7), HOME.as_ref(), with(&[COPY])).unwrap();
        let mut tail =
            log.tail("feed", TailOptions::from(Lsn::FIRST).policy(LagPolicy::Hold).bound_segments(50)).unwrap();
        fill(&log, 3);
        dirs.set(failing, Some(Trouble::FailsAfter(0)));
        fill(&log, 40);
        while tail.try_next().unwrap().is_some() {}
        let lsn = tail.position();
        tail.advance(lsn).unwrap();
        let start = log.truncate_before(Lsn::MAX).unwrap().start;
        assert!(start > Lsn::FIRST, "nothing was freed");
        drop(tail);
        log.close().unwrap();
        drop(log);
        dirs.set(failing, None);
        let (log, found) = open(&disk, with(&[COPY])).unwrap();
        assert!(found.notes.iter().any(|note| note.contains("was stale")), "{:?}", found.notes);
        let stat = log.stat().consumers.pop().unwrap();
        assert!(!stat.lost && stat.lsn == lsn, "{failing} failed: {stat:?}, freed to {start}");
        log.close().unwrap();
    }
}

/// Goal: copies that each continued without the other are not merged. Method: open each alone, append different
/// records.
#[test]
fn copies_that_went_separate_ways_are_refused() {
    let (disk, _) = crashed_log(&[COPY]);
    let dirs = FaultyDirs::new(&disk);
    for (away, seed) in [(COPY, 7), (HOME, 8)] {
        dirs.set(away, Some(Trouble::Gone));
        let (log, _) = Log::open(&dirs.env(seed), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
        fill(&log, if away == COPY { 3 } else { 4 });
        log.close().unwrap();
        dirs.set(away, None);
    }
    let before = (segments(&disk, HOME), segments(&disk, COPY));
    for options in [with(&[COPY]), one_will_do(&[COPY])] {
        let error = refusal(open(&disk, options));
        assert!(matches!(error, WalError::CopiesDiffer { .. }), "{error}");
    }
    let error = refusal(salvage_locked(&Env::over(disk.clone(), 1), HOME.as_ref(), &[COPY.into()]));
    assert!(matches!(error, WalError::CopiesDiffer { .. }), "{error}");
    assert!(before == (segments(&disk, HOME), segments(&disk, COPY)));
    remove_all(&disk, HOME);
    let (log, _) = open(&disk, one_will_do(&[COPY])).unwrap();
    assert_eq!(bodies(&log).len(), 44);
}

/// Goal: a repair that is cut short at any call leaves a log that opens with every acknowledged record, by the same
/// rules. Method: a stale copy, and a rotten frame in the good one; power cut at the k-th call of the opening, for all
/// k, then open again.
#[test]
fn power_cut_at_any_call_of_a_repair_loses_nothing() {
    let (disk, mut written) = crashed_log(&[COPY]);
    let dirs = FaultyDirs::new(&disk);
    dirs.set(COPY, Some(Trouble::Gone));
    let (log, _) = Log::open(&dirs.env(7), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
    written.extend(fill(&log, 5));
    log.abandon();
    let path = Path::new(HOME).join(segments(&disk, HOME).keys().nth(1).unwrap());
    disk.flip(&path, 2 * 4096 + 30, 1).unwrap();
    let mut calls = 0;
    loop {
        calls += 1;
        let cut = disk.process_kill();
        cut.fail_call(calls, Fault::PowerCut);
        let opened = Log::open(&Env::over(cut.clone(), 9), HOME.as_ref(), with(&[COPY]));
        let done = opened.is_ok();
        drop(opened);
        let after = cut.power_cut(calls);
        let (log, _) = open(&after, with(&[COPY])).unwrap_or_else(|error| panic!("cut at call {calls}: {error}"));
        assert_eq!(bodies(&log), written, "cut at call {calls}");
        log.close().unwrap();
        assert!(in_use(&after, HOME) == in_use(&after, COPY), "cut at call {calls}");
        if done && cut.calls() < calls {
            break;
        }
    }
    assert!(calls > 25, "the opening has only {calls} calls");
}

/// Makes a log of which `away` was left out for an incarnation, in which the other directory took `count` records and
/// freed files; returns the records that are left in the latter.
pub(crate) fn freed_while_away(away: &str, count: usize) -> (SimFiles, Vec<Vec<u8>>) {
    let (disk, _) = crashed_log(&[COPY]);
    let dirs = FaultyDirs::new(&disk);
    dirs.set(away, Some(Trouble::Gone));
    let (log, _) = Log::open(&dirs.env(7), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
    fill(&log, count);
    let start = log.truncate_before(log.durable()).unwrap().start;
    assert!(start > Lsn::FIRST, "nothing was freed");
    let left = bodies(&log);
    log.abandon();
    dirs.set(away, None);
    (disk, left)
}

/// Goal: files that a directory had freed and that come back from a stale copy leave no gap in it on the way: if the
/// stale copy is then lost for good, the directory opens with all that it held (T27). Method: either directory
/// continues alone and frees files; power cut at the k-th call of the opening with both, for all k; then all files of
/// the stale copy are removed.
#[test]
fn older_files_come_back_without_a_gap() {
    for away in [COPY, HOME] {
        let (disk, left) = freed_while_away(away, 5);
        let (mut calls, mut half_way) = (0, 0);
        loop {
            calls += 1;
            let cut = disk.process_kill();
            cut.fail_call(calls, Fault::PowerCut);
            let done = open(&cut, with(&[COPY])).is_ok();
            let after = cut.power_cut(calls);
            remove_all(&after, away);
            let context = format!("{away} was away, cut at call {calls}");
            let (log, _) = open(&after, one_will_do(&[COPY])).unwrap_or_else(|error| panic!("{context}: {error}"));
            let found = bodies(&log);
            assert!(found.ends_with(&left), "{context}: {} records of {}", found.len(), left.len());
            half_way += usize::from(!done && found.len() > left.len());
            log.abandon();
            if done && cut.calls() < calls {
                break;
            }
        }
        assert!(half_way > 10, "{away}: of {calls} calls {half_way} found older files back");
    }
}

/// Goal: whatever fails on one copy while the log is created, runs and closes, nothing acknowledged is lost. Method:
/// the k-th changing call on one directory fails, once or from then on, for all k; then open with all copies present
/// again.
#[test]
fn failing_call_on_one_copy_loses_nothing_acknowledged() {
    for (dir, lasting) in [(HOME, true), (HOME, false), (COPY, true), (COPY, false)] {
        for k in 0.. {
            let disk = SimFiles::new();
            let dirs = FaultyDirs::new(&disk);
            dirs.set(dir, Some(if lasting { Trouble::FailsAfter(k) } else { Trouble::FailsOnce(k) }));
            let mut acknowledged = Vec::new();
            let mut failed = false;
            match Log::open(&dirs.env(5), HOME.as_ref(), with(&[COPY])) {
                Err(error) => {
                    assert!(matches!(error, WalError::Io { .. }), "{error}");
                    failed = true;
                }
                Ok((log, _)) => {
                    let mut writer = log.writer();
                    for number in 0..15 {
                        let body = vec![number; 3_000];
                        match writer.commit(1, &body, Level::Disk) {
                            Ok(_) => acknowledged.push(body),
                            Err(_) => failed = true,
                        }
                    }
                    failed |= log.close().is_err();
                }
            }
            let left = matches!(dirs.trouble(dir), Some(Trouble::FailsAfter(1..) | Trouble::FailsOnce(_)));
            let after = disk.power_cut(k);
            let (log, _) = open(&after, with(&[COPY])).unwrap_or_else(|error| panic!("{dir} at {k}: {error}"));
            assert!(bodies(&log).starts_with(&acknowledged), "{dir} at {k}");
            if left {
                assert!(!failed && k > 40, "{dir}: the workload has only {k} calls");
                break;
            }
        }
    }
}

/// Goal: with copies too, every acknowledged record survives any cut, and everything that one copy lost comes back from
/// the other. Method: seeds of five incarnations each: power cuts and kills during work and during opening; between
/// incarnations sometimes a frame of one copy rots, or a copy loses a file.
#[test]
fn reopen_with_copies_after_any_cut_keeps_every_acknowledged_record() {
    let seeds = std::env::var("COLLIE_WAL_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let mut opened = 0;
    for seed in 0..seeds {
        let random = SimRandom::new(seed);
        let (mut disk, mut acknowledged, mut appended) = (SimFiles::new(), 0, Vec::<Vec<u8>>::new());
        let mut victim = HOME;
        for life in 0..5_u64 {
            if random.below(3) > 0 {
                disk.fail_call(disk.calls() + 1 + random.below(200), Fault::PowerCut);
            }
            let env = Env::over(disk.clone(), seed ^ life << 32);
            match Log::open(&env, HOME.as_ref(), with(&[COPY])) {
                Err(WalError::Io { .. }) => {}
                Err(error) => panic!("seed {seed} life {life}: {error}"),
                Ok((log, _)) => {
                    opened += 1;
                    // Both copies are whole at this point.
                    victim = if random.below(2) == 0 { HOME } else { COPY };
                    let read: Result<Vec<_>, _> = log.read(Lsn::ZERO).map(|record| record.map(|r| r.body)).collect();
                    if let Ok(read) = read {
                        assert!(appended.starts_with(&read), "seed {seed} life {life}: a record that was not written");
                        assert!(read.len() >= acknowledged, "seed {seed} life {life}: acknowledged records are lost");
                        appended = read;
                        acknowledged = appended.len();
                    }
                    let mut writer = log.writer();
                    for _ in 0..random.below(30) {
                        let body = vec![
                            u8::try_from(random.below(251)).unwrap();
                            usize::try_from(random.below(5_000)).unwrap()
                        ];
                        appended.push(body.clone());
                        let level = if random.below(3) > 0 { Level::Disk } else { Level::Process };
                        match writer.commit(1, &body, level) {
                            Ok(_) if level == Level::Disk => acknowledged = appended.len(),
                            Ok(_) => {}
                            Err(_) => break,
                        }
                    }
                    if random.below(3) > 0 || log.close().is_err() {
                        log.abandon();
                    }
                }
            }
            disk = if random.below(4) == 0 { disk.process_kill() } else { disk.power_cut(random.below(u64::MAX)) };
            harm(&disk, victim, &random);
        }
    }
    assert!(opened > seeds * 3, "only {opened} openings");
}

/// Damages the copy `dir`, sometimes: a bit flips or a file is lost.
fn harm(disk: &SimFiles, dir: &str, random: &SimRandom) {
    let Ok(names) = disk.list(dir.as_ref()) else { return };
    let names: Vec<_> = names.into_iter().filter(|name| name.ends_with(".wal")).collect();
    // The newest files may hold the only LINK that says this copy is up to date.
    let Some(name) =
        names.len().checked_sub(4).map(|most| &names[usize::try_from(random.below(most as u64 + 1)).unwrap()])
    else {
        return;
    };
    let path = Path::new(dir).join(name);
    match random.below(4) {
        0 => disk.remove(&path).unwrap(),
        1 | 2 => {
            let _beyond_the_end = disk.flip(&path, random.below(40 << 10), 1);
        }
        _ => {}
    }
}
