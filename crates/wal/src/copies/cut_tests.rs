//! Offline cuts of a log in several directories: one is cut, and the next opening cuts the others too.

use collie_base::Lsn;
use collie_env::{Env, Fault, SimFiles};

use super::{
    faulty::{FaultyDirs, Trouble},
    tests::{COPY, HOME, THIRD, crashed_log, fill, one_will_do, refusal, segments, with},
};
use crate::{
    CopiesRequired, CopyState, Level, Log, Options, Record, TruncateOptions, Truncated, WalError, inspect,
    testing::bodies, truncate_at,
};

fn cut(disk: &SimFiles, dir: &str, lsn: Lsn) -> Result<Truncated, WalError> {
    let options = TruncateOptions { backup: false, ..TruncateOptions::default() };
    truncate_at(&Env::over(disk.clone(), 5), dir.as_ref(), lsn, options)
}

fn records(disk: &SimFiles, dir: &str) -> Vec<Record> {
    let found = inspect(&Env::over(disk.clone(), 5), dir.as_ref()).unwrap();
    found.records(Lsn::ZERO).map(Result::unwrap).collect()
}

fn under(copies: &[&str], required: CopiesRequired) -> Options {
    Options { copies_required: required, ..with(copies) }
}

/// Returns every setting for two or three directories.
fn settings() -> impl Iterator<Item = (&'static [&'static str], CopiesRequired)> {
    let copies: [&'static [&'static str]; 2] = [&[COPY], &[COPY, THIRD]];
    let both = [CopiesRequired::All, CopiesRequired::Quorum];
    copies.into_iter().flat_map(move |copies| both.into_iter().map(move |required| (copies, required)))
}

/// Opens the log twice, and checks that all directories hold `kept`, then the appended records, and nothing more.
fn check(disk: &SimFiles, options: &Options, kept: &[Vec<u8>], context: &str) {
    for life in 0..2 {
        let (log, _) = Log::open(&Env::over(disk.clone(), 90 + life), HOME.as_ref(), options.clone())
            .unwrap_or_else(|error| panic!("{context}, life {life}: {error}"));
        let read = bodies(&log);
        assert!(read.starts_with(kept), "{context}, life {life}: {} records of {}", read.len(), kept.len());
        assert_eq!(read.len(), kept.len() + 2 * usize::try_from(life).unwrap(), "{context}, life {life}");
        fill(&log, 2);
        log.close().unwrap();
        let home = segments(disk, HOME);
        for copy in &options.copies {
            assert!(home == segments(disk, &copy.to_string_lossy()), "{context}, life {life}: {}", copy.display());
        }
    }
}

/// Goal: a cut of one directory is a cut of the log, wherever it is, inside a file or with whole files removed, and in
/// whichever directory it is made. Method: 2 and 3 directories, both rules; cut at each record boundary; open twice.
#[test]
fn cut_of_any_directory_at_any_boundary_cuts_all_copies() {
    let mut without_file = 0;
    for (copies, required) in settings() {
        let (made, written) = crashed_log(copies);
        let all = records(&made, HOME);
        assert!(all.len() == written.len() && segments(&made, HOME).len() > 4);
        for at in 1..all.len() {
            let dir = [HOME, COPY][at % 2];
            let disk = made.process_kill();
            let files = segments(&disk, dir).len();
            cut(&disk, dir, all[at].lsn).unwrap();
            without_file += usize::from(segments(&disk, dir).len() + 1 < files);
            let context = format!("{} copies, {required:?}, {dir} cut at record {at}", copies.len());
            check(&disk, &under(copies, required), &written[..at], &context);
        }
    }
    assert!(without_file > 40, "only {without_file} cuts took whole files");
}

/// Goal: a crash at any step of a cut, and of the opening that cuts the other copies too, leaves the log whole or cut.
/// Method: cut the power at each call of both in turn, then open.
#[test]
fn power_cut_at_any_call_of_a_cut_and_of_its_opening_leaves_the_log_whole_or_cut() {
    let (mut whole, mut shorter) = (0, 0);
    for (copies, required) in settings() {
        let (made, written) = crashed_log(copies);
        let (keep, options) = (9, under(copies, required));
        let lsn = records(&made, HOME)[keep].lsn;
        for call in 1.. {
            let disk = made.process_kill();
            disk.fail_call(disk.calls() + call, Fault::PowerCut);
            let is_cut = cut(&disk, HOME, lsn).is_ok();
            let opened = Log::open(&Env::over(disk.clone(), 9), HOME.as_ref(), options.clone());
            let done = opened.is_ok();
            drop(opened);
            let after = disk.power_cut(call);
            let context = format!("{} copies, {required:?}, call {call}", copies.len());
            let left = records(&after, HOME).len();
            assert!(left == keep || (left == written.len() && !is_cut), "{context}: {left} records");
            *(if left == keep { &mut shorter } else { &mut whole }) += 1;
            check(&after, &options, &written[..left], &context);
            if done && disk.calls() < call {
                break;
            }
        }
    }
    assert!(whole > 20 && shorter > 100, "{whole} whole, {shorter} cut");
}

/// Goal: a copy that was away at the cut and at the opening after it is caught up while the log runs. Method: one of
/// three directories is gone for both, then comes back to the running log.
#[test]
fn copy_that_was_away_at_a_cut_catches_up_while_the_log_runs() {
    let (disk, written) = crashed_log(&[COPY, THIRD]);
    let lsn = records(&disk, HOME)[7].lsn;
    cut(&disk, HOME, lsn).unwrap();
    let dirs = FaultyDirs::new(&disk);
    dirs.set(THIRD, Some(Trouble::Gone));
    let options = Options { copies_required: CopiesRequired::Quorum, ..with(&[COPY, THIRD]) };
    let (log, _) = Log::open(&dirs.env(3), HOME.as_ref(), options.clone()).unwrap();
    assert_eq!(bodies(&log), written[..7]);
    dirs.set(THIRD, None);
    log.tick().unwrap();
    assert!(log.stat().copies.iter().all(|copy| copy.state == CopyState::Live), "{:?}", log.stat().copies);
    log.writer().commit(1, b"after", Level::Disk).unwrap();
    log.close().unwrap();
    assert!(segments(&disk, HOME) == segments(&disk, THIRD));
}

/// Goal: a copy that was opened after the cut without the directory that was cut has diverged: neither of them is
/// overwritten. Method: cut one directory, open the other without it for one to three incarnations, closed or not; then
/// both together.
#[test]
fn copy_that_goes_on_without_the_cut_is_refused() {
    for (lives, closed) in [(1, true), (1, false), (2, true), (3, false)] {
        let (disk, _) = crashed_log(&[COPY]);
        if closed {
            // After a clean close the next incarnation continues in the same file.
            Log::open(&Env::over(disk.clone(), 4), HOME.as_ref(), with(&[COPY])).unwrap().0.close().unwrap();
        }
        let lsn = records(&disk, HOME)[8].lsn;
        cut(&disk, HOME, lsn).unwrap();
        let dirs = FaultyDirs::new(&disk);
        dirs.set(HOME, Some(Trouble::Gone));
        for life in 0..lives {
            let (log, _) = Log::open(&dirs.env(20 + life), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
            fill(&log, 3);
            if closed { log.close().unwrap() } else { log.abandon() }
        }
        dirs.set(HOME, None);
        let before = (segments(&disk, HOME), segments(&disk, COPY));
        for options in [with(&[COPY]), one_will_do(&[COPY])] {
            let error = refusal(Log::open(&Env::over(disk.clone(), 6), HOME.as_ref(), options));
            assert!(matches!(error, WalError::CopiesDiffer { .. }), "{lives} lives, closed {closed}: {error}");
        }
        assert!(before == (segments(&disk, HOME), segments(&disk, COPY)));
    }
}

/// Goal: a cut above the place where two copies diverged does not make one of them an earlier state of the other.
/// Method: each continues alone with different records, then one is cut above and one below that place.
#[test]
fn cut_above_a_parting_of_ways_does_not_hide_it() {
    let parted = || {
        let (disk, _) = crashed_log(&[COPY]);
        let dirs = FaultyDirs::new(&disk);
        for (away, seed) in [(COPY, 7), (HOME, 8)] {
            dirs.set(away, Some(Trouble::Gone));
            let (log, _) = Log::open(&dirs.env(seed), HOME.as_ref(), one_will_do(&[COPY])).unwrap();
            fill(&log, if away == COPY { 12 } else { 25 });
            log.close().unwrap();
            dirs.set(away, None);
        }
        disk
    };
    let all = records(&parted(), HOME);
    for lsn in [all[all.len() - 1].lsn, all[all.len() - 6].lsn] {
        let disk = parted();
        cut(&disk, HOME, lsn).unwrap();
        let before = (segments(&disk, HOME), segments(&disk, COPY));
        let error = refusal(Log::open(&Env::over(disk.clone(), 6), HOME.as_ref(), with(&[COPY])));
        assert!(matches!(error, WalError::CopiesDiffer { .. }), "{error}");
        assert!(before == (segments(&disk, HOME), segments(&disk, COPY)));
    }
    // Below that place they are one log; the operator's cut removes what both wrote beyond it.
    let disk = parted();
    cut(&disk, HOME, all[20].lsn).unwrap();
    let kept: Vec<Vec<u8>> = all[..20].iter().map(|record| record.body.clone()).collect();
    check(&disk, &with(&[COPY]), &kept, "cut below the parting");
}
