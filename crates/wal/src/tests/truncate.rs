//! Cutting a log: at every boundary, with a crash or a fault at every call, with damage, and where the cut is refused.

use std::path::Path;

use collie_env::{Access, Env, Fault, Files, SimFiles, SimRandom, read_all};

use crate::{
    CutRefusal, Ending, Inspection, Level, Log, Lsn, Mark, Options, Record, TruncateOptions, Truncated, WalError,
    inspect, testing::tiny, truncate_at,
};

const DIR: &str = "/wal";

fn env(disk: &SimFiles) -> Env {
    Env::over(disk.clone(), 77)
}

fn look(disk: &SimFiles) -> Inspection {
    inspect(&env(disk), DIR.as_ref()).unwrap()
}

fn records(disk: &SimFiles) -> Vec<Record> {
    look(disk).records(Lsn::ZERO).map(Result::unwrap).collect()
}

fn cut(disk: &SimFiles, lsn: Lsn) -> Result<Truncated, WalError> {
    truncate_at(&env(disk), DIR.as_ref(), lsn, TruncateOptions::default())
}

/// Returns a copy of the disk as it reads, all of it durable.
fn fork(disk: &SimFiles) -> SimFiles {
    let copy = SimFiles::new();
    copy.create_dir_all(DIR.as_ref()).unwrap();
    for name in disk.list(DIR.as_ref()).unwrap().iter().filter(|name| name.ends_with(".wal")) {
        let path = Path::new(DIR).join(name);
        let bytes = read_all(disk, &path, 1 << 20).unwrap();
        let file = copy.create(&path).unwrap();
        file.write_at(0, &bytes).unwrap();
        file.sync_data().unwrap();
    }
    copy.sync_dir(DIR.as_ref()).unwrap();
    copy
}

/// The parts of a record that do not depend on the file that holds it.
fn content(records: &[Record]) -> Vec<(Lsn, Lsn, &[u8])> {
    records.iter().map(|record| (record.lsn, record.end, &record.body[..])).collect()
}

/// Returns a log of several incarnations, ended by kills, cuts and closes, with long and short records in several
/// files, and the highest position that it handed out.
fn random_log(seed: u64) -> (SimFiles, Lsn) {
    let random = SimRandom::new(seed);
    let (mut disk, mut highest) = (SimFiles::new(), Lsn::FIRST);
    for life in 0..3 {
        let (log, _) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
        let mut writer = log.writer();
        for _ in 0..3 + random.below(9) {
            let size = if random.below(6) == 0 { random.below(9_000) } else { random.below(1_500) };
            let end = writer.append(2, &[&vec![life; usize::try_from(size).unwrap()]]).unwrap().end;
            highest = highest.max(end);
            match random.below(4) {
                0 => log.wait(Mark::Written, end).unwrap(),
                1 | 2 => log.wait(Mark::Durable, end).unwrap(),
                _ => {}
            }
        }
        disk = match random.below(3) {
            0 => {
                log.close().unwrap();
                disk.process_kill()
            }
            1 => {
                log.abandon();
                disk.process_kill()
            }
            _ => {
                log.abandon();
                disk.power_cut(seed)
            }
        };
    }
    (disk, highest)
}

/// Returns every record boundary of the log.
fn boundaries(disk: &SimFiles) -> Vec<Lsn> {
    let mut all: Vec<Lsn> = records(disk).iter().flat_map(|record| [record.lsn, record.end]).collect();
    all.push(look(disk).end());
    all.sort_unstable();
    all.dedup();
    all
}

/// Goal: a cut keeps exactly the records below it, whatever happened to the log before, and no position is used again.
/// Method: random logs; at each boundary of each, cut a copy, read it without opening, open it, append, open it again;
/// then cut the result once more at an earlier boundary.
#[test]
fn cut_at_every_boundary_keeps_exactly_the_prefix() {
    let mut cuts = 0;
    for seed in 0..12 {
        let (disk, highest) = random_log(seed);
        let before = records(&disk);
        for lsn in boundaries(&disk) {
            let disk = fork(&disk);
            let kept: Vec<Record> = before.iter().filter(|record| record.end <= lsn).cloned().collect();
            let context = format!("seed {seed}, cut at {lsn}");
            let done = cut(&disk, lsn).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(done.removed.records, (before.len() - kept.len()) as u64, "{context}");
            let found = look(&disk);
            assert!(found.damage().is_none(), "{context}: {:?}", found.damage());
            assert_eq!(content(&records(&disk)), content(&kept), "{context}");

            let (log, opened) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
            assert!(opened.next >= highest, "{context}: {} is used again", opened.next);
            let read: Vec<Record> = log.read(Lsn::ZERO).map(Result::unwrap).collect();
            assert_eq!(content(&read), content(&kept), "{context}");
            let new = log.writer().commit(5, b"after the cut", Level::Disk).unwrap();
            log.close().unwrap();
            let (log, opened) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
            assert_eq!(opened.ending, Ending::Clean);
            let read: Vec<Record> = log.read(Lsn::ZERO).map(Result::unwrap).collect();
            assert_eq!(content(&read[..kept.len()]), content(&kept), "{context}");
            assert_eq!(read[kept.len()..].iter().map(|r| (r.lsn, r.tag)).collect::<Vec<_>>(), [(new.start, 5)]);
            log.abandon();
            if let Some(half) = kept.get(kept.len() / 2) {
                cut(&disk, half.lsn).unwrap_or_else(|error| panic!("{context}, then at {}: {error}", half.lsn));
                assert_eq!(content(&records(&disk)), content(&kept[..kept.len() / 2]), "{context}, again");
            }
            cuts += 1;
        }
    }
    assert!(cuts > 300, "only {cuts} cuts");
}

/// Goal: a crash during a cut leaves the log as it was or cut, never in between, and the cut can be repeated. Method:
/// cut the power at each call in turn; open what is left, or cut again first.
#[test]
fn crash_at_every_call_of_a_cut_leaves_the_log_whole_or_cut() {
    let (mut whole, mut shorter) = (0, 0);
    for seed in 0..6 {
        let (disk, highest) = random_log(seed);
        let before = records(&disk);
        let lsn = before[before.len() / 2].lsn;
        let kept: Vec<Record> = before.iter().filter(|record| record.end <= lsn).cloned().collect();
        for call in 1.. {
            let disk = fork(&disk);
            disk.fail_call(disk.calls() + call, Fault::PowerCut);
            let finished = cut(&disk, lsn).is_ok();
            for outcome in 0..3 {
                let after = disk.power_cut(outcome * 1_000 + call);
                let context = format!("seed {seed}, call {call}, outcome {outcome}");
                assert!(look(&after).damage().is_none(), "{context}");
                let left = records(&after);
                let is_cut = content(&left) == content(&kept);
                assert!(is_cut || content(&left) == content(&before), "{context}: {} records", left.len());
                assert!(is_cut || !finished, "{context}: a finished cut is undone");
                if outcome == 0 {
                    cut(&after, lsn).unwrap_or_else(|error| panic!("{context}, again: {error}"));
                    assert_eq!(content(&records(&after)), content(&kept), "{context}, again");
                }
                let (log, opened) = Log::open(&env(&after), DIR.as_ref(), tiny()).unwrap();
                let read: Vec<Record> = log.read(Lsn::ZERO).map(Result::unwrap).collect();
                let expected = if is_cut || outcome == 0 { &kept } else { &before };
                assert_eq!(content(&read), content(expected), "{context}");
                assert!(opened.next >= highest, "{context}");
                *(if is_cut { &mut shorter } else { &mut whole }) += 1;
            }
            if finished && disk.calls() < call {
                break;
            }
        }
    }
    assert!(whole > 100 && shorter > 20, "{whole} whole, {shorter} cut");
}

/// Goal: a failing or full disk gives one error that names the file, and the log is whole or cut. Method: EIO and
/// ENOSPC at each call in turn, then inspect, then cut again without the fault.
#[test]
fn failing_disk_during_a_cut_leaves_the_log_whole_or_cut() {
    let (disk, _) = random_log(3);
    let before = records(&disk);
    let lsn = before[before.len() / 3].lsn;
    let kept: Vec<Record> = before.iter().filter(|record| record.end <= lsn).cloned().collect();
    for fault in [Fault::Eio, Fault::Enospc] {
        let mut failures = 0;
        for call in 1.. {
            let disk = fork(&disk);
            let first = disk.calls();
            disk.fail_call(first + call, fault);
            let outcome = cut(&disk, lsn);
            if let Err(error) = &outcome {
                failures += 1;
                let text = error.to_string();
                assert!(matches!(error, WalError::Io { .. }) && text.starts_with("wal: cannot "), "{text}");
                assert!(text.contains(DIR) && !text.contains('\n'), "{text}");
            }
            let left = records(&disk);
            assert!(content(&left) == content(&kept) || content(&left) == content(&before), "{fault:?} at {call}");
            assert!(outcome.is_err() || content(&left) == content(&kept), "{fault:?} at {call}");
            cut(&disk, lsn).unwrap();
            assert_eq!(content(&records(&disk)), content(&kept), "{fault:?} at {call}");
            if outcome.is_ok() && disk.calls() < first + call {
                break;
            }
        }
        assert!(failures > 8, "{fault:?}: only {failures} calls fail");
    }
}

/// Goal: removed records are kept in a directory that reads like a log, unless the backup is off. Method: cut with and
/// without a backup; the copy's records above the cut are the removed ones.
#[test]
fn backup_of_a_cut_reads_like_a_log() {
    let (disk, _) = random_log(1);
    let before = records(&disk);
    let lsn = before[before.len() / 4].lsn;
    let bare = fork(&disk);
    let without = TruncateOptions { backup: false, ..TruncateOptions::default() };
    let done = truncate_at(&env(&bare), DIR.as_ref(), lsn, without).unwrap();
    assert_eq!(done.backup, None);
    assert!(bare.list(DIR.as_ref()).unwrap().iter().all(|name| !name.starts_with("cut-at")));

    let disk = fork(&disk);
    let done = cut(&disk, lsn).unwrap();
    let backup = done.backup.unwrap();
    assert!(backup.starts_with(DIR), "{}", backup.display());
    let copy = inspect(&env(&disk), &backup).unwrap();
    let gone: Vec<Record> = copy.records(lsn).map(Result::unwrap).collect();
    let expected: Vec<Record> = before.iter().filter(|record| record.lsn >= lsn).cloned().collect();
    assert_eq!(content(&gone), content(&expected));
    assert_eq!(done.removed.records, expected.len() as u64);
    assert_eq!(cut(&disk, lsn).unwrap().backup, None, "a second cut has nothing to do");
}

/// Goal: a cut makes a damaged log whole. Method: flip a bit in the middle, cut at the damage, open in the default
/// mode; nothing above the damage can be cut at.
#[test]
fn damaged_log_is_cut_at_the_damage_and_opens() {
    let (env, disk) = Env::simulated(4);
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    let mut highest = Lsn::ZERO;
    for number in 0..30_u8 {
        highest = writer.commit(1, &[number; 700], Level::Disk).unwrap().end;
    }
    log.close().unwrap();
    let all = records(&disk);
    let bad = all[7].clone();
    disk.flip(&bad.path, bad.offset + 100, 4).unwrap();
    let opened = Log::open(&env, DIR.as_ref(), tiny());
    assert!(matches!(opened, Err(WalError::Damaged { .. })), "{opened:?}");
    let error = cut(&disk, all[9].lsn).unwrap_err();
    assert!(matches!(error, WalError::Cut { why: CutRefusal::BeyondEnd { end }, .. } if end == bad.lsn), "{error}");
    let done = cut(&disk, bad.lsn).unwrap();
    assert!(done.removed.unreadable);
    let (log, opened) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    assert!(opened.next >= highest);
    let read: Vec<Record> = log.read(Lsn::ZERO).map(Result::unwrap).collect();
    assert_eq!(content(&read), content(&all[..7]));
    log.abandon();
    // The copy has the records behind the damage.
    let copies = disk.list(&done.backup.unwrap()).unwrap();
    assert!(copies.len() > 1, "{copies:?}");
}

/// Goal: rot after a cut, also in the file that makes it, is reported: it never silently removes more or restores what
/// was cut. Method: cut, then flip bits all over the log's files one at a time: the records are the same, or it is
/// damage.
#[test]
fn rot_after_a_cut_is_reported_and_never_undoes_it_silently() {
    let (disk, _) = random_log(2);
    let before = records(&disk);
    let lsn = before[before.len() * 2 / 3].lsn;
    let kept: Vec<Record> = before.iter().filter(|record| record.end <= lsn).cloned().collect();
    let disk = fork(&disk);
    cut(&disk, lsn).unwrap();
    let mut reported = 0;
    for name in disk.list(DIR.as_ref()).unwrap().iter().filter(|name| name.ends_with(".wal")) {
        let path = Path::new(DIR).join(name);
        let bytes = disk.open(&path, Access::Read).unwrap().len().unwrap();
        for offset in (0..bytes).filter(|offset| offset % 4096 < 136 || offset.is_multiple_of(61)) {
            disk.flip(&path, offset, 1 << (offset % 8)).unwrap();
            let found = look(&disk);
            let left: Vec<Record> = found.records(Lsn::ZERO).map_while(Result::ok).collect();
            let same = content(&left) == content(&kept);
            assert!(same || found.damage().is_some(), "{name} offset {offset}: {} records, unreported", left.len());
            reported += u32::from(found.damage().is_some());
            disk.flip(&path, offset, 1 << (offset % 8)).unwrap();
        }
    }
    assert!(reported > 100, "only {reported} flips are reported");
}

/// Goal: a cut that cannot be made gives the reason and the position to use, and changes nothing. Method: one of each.
#[test]
fn refused_cuts_say_what_to_use_and_change_nothing() {
    let (env, disk) = Env::simulated(8);
    let at = |lsn, checkpoint| {
        let options = TruncateOptions { checkpoint, ..TruncateOptions::default() };
        truncate_at(&env, DIR.as_ref(), lsn, options).unwrap_err().to_string()
    };
    env.files.create_dir_all(DIR.as_ref()).unwrap();
    assert_eq!(at(Lsn::FIRST, Lsn::ZERO), "wal: there is no log in /wal; name a log's directory");
    assert!(disk.list(DIR.as_ref()).unwrap().is_empty());
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    let first = log.writer().commit(1, &[1; 100], Level::Disk).unwrap();
    let second = log.writer().commit(1, &[2; 100], Level::Disk).unwrap();
    let in_use = at(first.end, Lsn::ZERO);
    assert!(in_use.starts_with("wal: the log is open in process "), "{in_use}");
    log.close().unwrap();
    let calls = disk.calls();
    assert_eq!(
        at(Lsn::new(second.start.get() + 1), Lsn::ZERO),
        "wal: cannot cut at 0/1067: a record lies across it: use 0/1066 or 0/10CC, the nearest boundaries"
    );
    assert_eq!(at(Lsn::new(1 << 40), Lsn::ZERO), "wal: cannot cut at 100/0: the log can be read to 0/10CC only");
    assert_eq!(at(Lsn::new(1), Lsn::ZERO), "wal: cannot cut at 0/1: the lowest position it can be cut at is 0/1000");
    assert_eq!(
        at(first.end, second.end),
        "wal: cannot cut at 0/1066: the checkpoint needs everything below 0/10CC; restore a backup to go \
         further back"
    );
    assert_eq!(disk.calls(), calls, "nothing was changed");
    assert_eq!(records(&disk).len(), 2);
}

/// Goal: a log with the default sizes is cut far below what was durable. Method: the real file system, records of
/// several frames and files, cut near the start.
#[test]
fn cut_far_below_the_durable_position_works_on_the_real_file_system() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::real();
    let (log, _) = Log::open(&env, dir.path(), Options::small()).unwrap();
    let mut writer = log.writer();
    let mut ends = Vec::new();
    for number in 0..300_u32 {
        ends.push(writer.append(1, &[&number.to_le_bytes(), &[7; 10_000]]).unwrap().end);
    }
    log.close().unwrap();
    drop((writer, log));
    let done = truncate_at(&env, dir.path(), ends[9], TruncateOptions::default()).unwrap();
    assert_eq!(done.removed.records, 290);
    let (log, found) = Log::open(&env, dir.path(), Options::small()).unwrap();
    assert_eq!(found.end, done.next);
    assert_eq!(log.read(Lsn::ZERO).map(Result::unwrap).count(), 10);
    log.close().unwrap();
}

/// Goal: the records that a cut keeps are on disk once it returns, even if some were only in the page cache before.
/// Method: records written but not synced by a process that is killed; cut among them, then cut the power in many ways.
#[test]
fn what_a_cut_keeps_survives_a_power_cut() {
    let (env, disk) = Env::simulated(6);
    let (log, _) = Log::open(&env, DIR.as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    writer.commit(1, &[1; 300], Level::Disk).unwrap();
    for number in 2..8_u8 {
        writer.append(1, &[&[number; 300]]).unwrap();
        log.flush_wal(false).unwrap();
    }
    log.abandon();
    let disk = disk.process_kill();
    let before = records(&disk);
    cut(&disk, before[4].lsn).unwrap();
    for seed in 0..60 {
        let after = disk.power_cut(seed);
        assert!(look(&after).damage().is_none(), "seed {seed}");
        assert_eq!(content(&records(&after)), content(&before[..4]), "seed {seed}");
    }
}
