//! Salvage: of a log with any frame damaged or any file missing, everything else is yielded, and the rest is reported
//! lost.

use std::path::PathBuf;

use collie_env::{Access, Env, Fault, Files, SimFiles};

use crate::{
    Hole, Level, Log, Lsn, Mark, Options, Record, Salvage, Salvaged,
    copies::tests::{COPY, HOME, freed_while_away},
    format::BLOCK_BYTES,
    inspect, mistakes,
    read::source::FrameSource,
    read::window::Window,
    salvage, salvage_locked,
    testing::tiny,
};

const DIR: &str = "/wal";

/// An acknowledged record, and the start of its first piece.
type Written = (Lsn, Record);

fn env(disk: &SimFiles) -> Env {
    Env::over(disk.clone(), 1)
}

/// Makes a log of three incarnations, one closed, one killed, one left open, in many files, with long records among
/// short ones.
fn make_log() -> (SimFiles, Vec<Written>) {
    let (mut disk, mut firsts) = (SimFiles::new(), Vec::new());
    for life in 0..3_u8 {
        let (log, _) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
        let mut writer = log.writer();
        for number in 0..24_u8 {
            let first = log.boundary();
            let size = if number % 8 == 5 { 14_000 } else { 400 + usize::from(number) * 60 };
            let appended = writer.append(life, &[&vec![life * 32 + number; size]]).unwrap();
            if number % 3 != 1 {
                log.wait(Mark::Durable, appended.end).unwrap();
            }
            firsts.push((appended.start, first));
        }
        log.flush_wal(true).unwrap();
        match life {
            0 => log.close().unwrap(),
            1 => log.abandon(),
            _ => {
                // Afterwards a frame names the last records as durable.
                log.heartbeat().unwrap();
                log.abandon();
            }
        }
        disk = disk.process_kill();
    }
    let found = inspect(&env(&disk), DIR.as_ref()).unwrap();
    assert!(found.damage().is_none() && found.segments().len() > 5);
    let first_of = |lsn: Lsn| firsts.iter().find(|(start, _)| *start == lsn).unwrap().1;
    let written = found.records(Lsn::ZERO).map(|record| record.unwrap()).map(|record| (first_of(record.lsn), record));
    (disk, written.collect())
}

fn salvaged(disk: &SimFiles) -> (Vec<Record>, Vec<Hole>) {
    parts(salvage(&env(disk), DIR.as_ref()).unwrap())
}

fn parts(salvage: Salvage) -> (Vec<Record>, Vec<Hole>) {
    let (mut records, mut holes) = (Vec::new(), Vec::new());
    for found in salvage {
        match found.unwrap() {
            Salvaged::Record(record) => records.push(record),
            Salvaged::Hole(hole) => holes.push(hole),
        }
    }
    (records, holes)
}

/// Checks Z1 to Z4: every record yielded was written, in order, once; each missing one lies in a hole at least in part.
fn check(case: &str, written: &[Written], records: &[Record], holes: &[Hole]) {
    assert!(records.windows(2).all(|pair| pair[0].end <= pair[1].lsn), "{case}: out of order");
    let mut expected = written.iter();
    for record in records {
        let same =
            |(_, other): &&Written| other.lsn == record.lsn && other.end == record.end && other.body == record.body;
        assert!(expected.any(|other| same(&other)), "{case}: {} was not written", record.lsn);
    }
    for (first, lost) in written.iter().filter(|(_, lost)| records.iter().all(|record| record.lsn != lost.lsn)) {
        let declared = holes.iter().any(|hole| hole.from < lost.end && *first < hole.to);
        assert!(declared, "{case}: {} is lost and not declared: {holes:?}", lost.lsn);
    }
    for hole in holes {
        assert!(hole.from < hole.to, "{case}: {hole}");
        let whole = |record: &&Record| hole.from <= record.lsn && record.end <= hole.to;
        assert!(!records.iter().any(|record| whole(&record)), "{case}: {hole} holds what came back");
    }
}

/// Goal: an intact log is yielded whole, without a hole, over incarnations that were closed, killed and left open.
/// Method: compare with the reader.
#[test]
fn intact_log_comes_back_whole() {
    let (disk, written) = make_log();
    let (records, holes) = salvaged(&disk);
    assert_eq!(holes, []);
    assert_eq!(records.len(), written.len());
    check("intact", &written, &records, &holes);
}

/// Goal: whichever frame is damaged, only its records are lost, and the hole names it. Method: flip a bit of the
/// payload, then of the head, of each frame of the log in turn.
#[test]
fn damaged_frame_loses_only_its_records() {
    let (disk, written) = make_log();
    let found = inspect(&env(&disk), DIR.as_ref()).unwrap();
    let durable = found.durable();
    let (mut cases, mut lost_some) = (0, 0);
    for segment in found.segments() {
        let mut window = Window::open(&disk, segment.path.clone()).unwrap();
        let mut at = BLOCK_BYTES;
        while at < segment.used_bytes {
            let frame = window.frame_at(at, None).unwrap().unwrap();
            let (start, end, next) = (frame.header.start, frame.header.end(), frame.next_offset);
            for flipped in [at + 24, at + 130] {
                if end == start && flipped > at + 63 {
                    continue;
                }
                disk.flip(&segment.path, flipped, 4).unwrap();
                let case = format!("{} offset {flipped}", segment.path.display());
                let (records, holes) = salvaged(&disk);
                if end <= durable {
                    check(&case, &written, &records, &holes);
                    let outside = written.iter().filter(|(first, record)| record.end <= start || *first >= end).count();
                    assert!(records.len() >= outside, "{case}: {} of {outside}", records.len());
                }
                // Records that an opening copied are there twice, so nothing may be lost at all. A frame without
                // records may have said that positions were left out: then they are reported.
                if let ([hole], true) = (&holes[..], start < end) {
                    assert_eq!((hole.from, hole.to, hole.offset), (start, end, at), "{case}");
                    assert_ne!(hole.stored, hole.computed, "{case}");
                    assert!(hole.to_string().contains(&format!("from LSN {start} to {end}")), "{hole}");
                    lost_some += 1;
                }
                disk.flip(&segment.path, flipped, 4).unwrap();
                cases += 1;
            }
            at = next;
        }
    }
    assert!(cases > 80 && lost_some * 2 > cases, "{lost_some} of {cases}");
}

/// Goal: a missing file, one without a header and a shortened one lose only their own records. Method: each file in
/// turn.
#[test]
fn missing_headless_and_shortened_files_lose_only_what_they_held() {
    let (disk, written) = make_log();
    let segments: Vec<PathBuf> =
        inspect(&env(&disk), DIR.as_ref()).unwrap().segments().into_iter().map(|segment| segment.path).collect();
    for (number, path) in segments.iter().enumerate() {
        let last = number + 1 == segments.len();
        let kept = disk.process_kill();
        kept.flip(path, 20, 1).unwrap();
        let (records, holes) = salvaged(&kept);
        assert_eq!((records.len(), holes.len()), (written.len(), 0), "{} without its header", path.display());

        let kept = kept.process_kill();
        kept.flip(path, 20, 1).unwrap();
        kept.open(path, Access::ReadWrite).unwrap().set_len(3 * BLOCK_BYTES).unwrap();
        let (records, holes) = salvaged(&kept);
        if !last {
            check(&format!("{} shortened", path.display()), &written, &records, &holes);
        }

        let kept = kept.process_kill();
        kept.remove(path).unwrap();
        let (records, holes) = salvaged(&kept);
        let before = records.iter().filter(|record| record.path.as_ref() < path.as_path()).count();
        if number > 0 && !last {
            check(&format!("{} removed", path.display()), &written, &records, &holes);
        }
        assert!(before > 0 || number == 0);
    }
}

/// Goal: recycled files yield nothing of their earlier use, with or without a header (C2). Method: free and recycle
/// files, then damage every header.
#[test]
fn files_used_again_yield_no_stale_record() {
    let disk = SimFiles::new();
    let (log, _) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    for number in 0..120_u8 {
        let end = writer.commit(0, &[number; 2_500], Level::Disk).unwrap().end;
        log.truncate_before(end).unwrap();
        log.tick().unwrap();
    }
    log.abandon();
    let disk = disk.process_kill();
    let found = inspect(&env(&disk), DIR.as_ref()).unwrap();
    let expected: Vec<Lsn> = found.records(Lsn::ZERO).map(|record| record.unwrap().lsn).collect();
    let lsns = |disk: &SimFiles| salvaged(disk).0.iter().map(|record| record.lsn).collect::<Vec<_>>();
    assert_eq!(lsns(&disk), expected);
    for segment in found.segments() {
        disk.flip(&segment.path, 33, 1).unwrap();
    }
    assert_eq!(lsns(&disk), expected);
}

/// Goal: a flush that was never acknowledged is trimmed, not reported. Method: tear the last, unsynced frame.
#[test]
fn unfinished_flush_is_trimmed() {
    let disk = SimFiles::new();
    let (log, _) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    writer.commit(0, b"kept", Level::Disk).unwrap();
    let used = inspect(&env(&disk), DIR.as_ref()).unwrap().segments()[0].used_bytes;
    writer.append(0, &[&[5; 4_000]]).unwrap();
    log.flush_wal(false).unwrap();
    let path = inspect(&env(&disk), DIR.as_ref()).unwrap().segments()[0].path.clone();
    log.abandon();
    let disk = disk.process_kill();
    disk.flip(&path, used + 100, 1).unwrap();
    let (records, holes) = salvaged(&disk);
    assert_eq!((records.len(), holes), (1, vec![]));
}

/// Makes a log whose last three frames are written and not synced.
fn unsynced_log() -> SimFiles {
    let disk = SimFiles::new();
    let (log, _) = Log::open(&env(&disk), DIR.as_ref(), tiny()).unwrap();
    let mut writer = log.writer();
    writer.commit(0, b"kept", Level::Disk).unwrap();
    for number in 1..4 {
        writer.append(0, &[&[number; 3_000]]).unwrap();
        log.flush_wal(false).unwrap();
    }
    log.abandon();
    disk
}

/// Goal: a salvage and an opening agree on every log that the opening takes as whole: same records, no hole (Z5, T30).
/// Method: a log with an unsynced end, and one in two directories, each of which was away in turn while the other freed
/// and made files; power cut at the k-th call of an opening, for all k; salvage, then open. The way through a damaged
/// log must find more in some of these states, and holes in some.
#[test]
fn salvage_agrees_with_the_opening_after_one_that_was_cut_short() {
    let in_two = |away, count| (freed_while_away(away, count).0, vec![PathBuf::from(COPY)]);
    let (mut beyond, mut apart) = (0, 0);
    for (disk, copies) in [(unsynced_log(), Vec::new()), in_two(COPY, 5), in_two(HOME, 5), in_two(COPY, 60)] {
        let options = Options { copies: copies.clone(), ..tiny() };
        let salvage = |disk: &SimFiles| parts(salvage_locked(&env(disk), DIR.as_ref(), &copies).unwrap());
        let mut calls = 0;
        loop {
            calls += 1;
            let cut = disk.process_kill();
            cut.fail_call(calls, Fault::PowerCut);
            let done = Log::open(&env(&cut), DIR.as_ref(), options.clone()).is_ok();
            let after = cut.power_cut(calls);
            let context = format!("{copies:?}, cut at call {calls}");
            let (records, holes) = salvage(&after);
            assert_eq!(holes, [], "{context}");
            let (found, missed) = mistakes::with("SALVAGE_PAST_THE_END", || salvage(&after));
            let (log, _) = Log::open(&env(&after), DIR.as_ref(), options.clone()).unwrap();
            let place = |record: &Record| (record.lsn, record.end, record.body.clone());
            let opened: Vec<_> = log.read(Lsn::ZERO).map(|record| place(&record.unwrap())).collect();
            assert_eq!(records.iter().map(place).collect::<Vec<_>>(), opened, "{context}");
            log.abandon();
            beyond += usize::from(found.len() > opened.len());
            apart += usize::from(!missed.is_empty());
            if done && cut.calls() < calls {
                break;
            }
        }
        assert!(calls > 10, "the opening has only {calls} calls");
    }
    assert!(beyond > 0 && apart > 0, "{beyond} states with more than an opening finds, {apart} with holes");
}
