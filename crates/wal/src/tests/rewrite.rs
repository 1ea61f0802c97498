//! Failed writes and syncs: the records that are not durable are written again to the next file and the log goes on; if
//! that fails too, the log stops and says so. No acknowledged record is lost in either case.

use std::sync::Arc;

use collie_env::{Env, Fault, SimFiles};
use parking_lot::Mutex;

use crate::{Level, Log, Lsn, Mark, Options, WalError, Warnings, testing::tiny};

const DIR: &str = "/wal";

fn open(disk: &SimFiles, options: Options) -> Result<Log, WalError> {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options).map(|(log, _)| log)
}

/// The promises that a run got.
#[derive(Debug, Default)]
struct Run {
    /// Bodies appended, in order.
    appended: Vec<Vec<u8>>,
    /// The number of them that was acknowledged as durable, and as written.
    durable: usize,
    written: usize,
    /// The number of the oldest ones that may have been freed.
    freed: usize,
    rewrites: u64,
    error: Option<WalError>,
}

impl Run {
    /// Opens a log on `disk` and appends records of several sizes at all levels, freeing old files in between.
    fn new(disk: &SimFiles) -> Self {
        let mut run = Self::default();
        match open(disk, tiny()) {
            Ok(log) => {
                run.error = run.work(&log).err();
                run.rewrites = log.stat().rewrites;
                if run.error.is_none() {
                    let read: Vec<_> = log.read(Lsn::ZERO).map(|record| record.unwrap().body).collect();
                    assert!(run.appended[..run.durable].ends_with(&read), "a log that went on reads back whole");
                    assert!(run.durable - read.len() <= run.freed);
                }
                log.abandon();
            }
            Err(error) => run.error = Some(error),
        }
        run
    }

    fn work(&mut self, log: &Log) -> Result<(), WalError> {
        let mut writer = log.writer();
        let mut ends = Vec::new();
        for number in 0..40_usize {
            let mut body = vec![u8::try_from(number).unwrap(); 200 + number * 397 % 3_500];
            body[0] = 0xFF;
            let appended = match writer.append(2, &[&body]) {
                // A spare could not be prepared; the next try must succeed.
                Err(WalError::Full { .. }) => {
                    log.tick()?;
                    writer.append(2, &[&body])?
                }
                appended => appended?,
            };
            self.appended.push(body);
            ends.push(appended.end);
            match (number / 8 % 2, number % 8) {
                (0, 0 | 1 | 4) | (1, 0) => log.wait(Mark::Durable, appended.end)?,
                (0, 2) | (1, 1..=6) => log.wait(Mark::Written, appended.end)?,
                (_, 3) => log.heartbeat()?,
                (_, 5) => log.flush_wal(false)?,
                (0, 6) | (1, 7) => log.sync_wal()?,
                _ => {}
            }
            self.durable = ends.iter().filter(|end| **end <= log.durable()).count();
            self.written = ends.iter().filter(|end| **end <= log.written()).count();
            if number % 16 == 15 {
                self.freed = number - 10;
                log.truncate_before(ends[number - 11])?;
            }
        }
        log.flush_wal(true)?;
        (self.durable, self.written) = (ends.len(), ends.len());
        Ok(())
    }

    /// Opens what is left of the disk: every acknowledged record must be back, and none that was not appended.
    fn check(&self, disk: &SimFiles, acknowledged: usize) -> Result<(), String> {
        let log = open(disk, tiny()).map_err(|error| error.to_string())?;
        let read: Result<Vec<_>, _> = log.read(Lsn::ZERO).map(|record| record.map(|record| record.body)).collect();
        let read = read.map_err(|error| error.to_string())?;
        let fits = |skip: usize| self.appended[skip..].starts_with(&read) && skip + read.len() >= acknowledged;
        if (0..=self.freed.min(self.appended.len())).any(fits) {
            return Ok(());
        }
        Err(format!("{} records are back, {acknowledged} were acknowledged, {} freed", read.len(), self.freed))
    }
}

/// Goal: whichever single write or sync fails, the log goes on in the next file, a later power cut loses no
/// acknowledged record, and none is acknowledged before it is durable. Method: EIO and ENOSPC at the k-th write or sync
/// of a workload, for all k, three outcomes of the cut each.
#[test]
fn each_failing_write_or_sync_sends_the_log_to_the_next_file() {
    for fault in [Fault::Eio, Fault::Enospc] {
        let (mut k, mut rewrites) = (0, 0);
        loop {
            k += 1;
            let disk = SimFiles::new();
            disk.fail_write_or_sync(k, fault);
            let run = Run::new(&disk);
            let opening = run.appended.is_empty();
            assert!(run.error.is_none() || opening, "{fault:?} at {k}: {}", run.error.unwrap());
            assert!(run.rewrites <= 1);
            rewrites += run.rewrites;
            for seed in 0..3 {
                let checked = run.check(&disk.power_cut(seed), run.durable);
                checked.unwrap_or_else(|error| panic!("{fault:?} at {k}, seed {seed}: {error}"));
            }
            if disk.writes_and_syncs() < k {
                break;
            }
        }
        assert!(rewrites > 40, "only {rewrites} of {k} calls were writes and syncs of the log itself");
    }
}

/// Goal: while the log moves to the next file the power may go at any call, and every acknowledged record is back; if
/// only the process is killed, records that were written are back too. Method: EIO at each k-th call, and the end at
/// each of the next calls, over all k.
#[test]
fn power_cut_while_moving_to_the_next_file_loses_nothing_acknowledged() {
    let whole = SimFiles::new();
    Run::new(&whole);
    let mut moving = 0;
    for k in 1..whole.writes_and_syncs() {
        for after in 1..=8 {
            let disk = SimFiles::new();
            disk.fail_write_or_sync(k, Fault::Eio);
            disk.fail_write_or_sync(k + after, Fault::PowerCut);
            let run = Run::new(&disk);
            moving += run.rewrites;
            for seed in 0..2 {
                let checked = run.check(&disk.power_cut(seed), run.durable);
                checked.unwrap_or_else(|error| panic!("EIO at {k}, cut {after} later, seed {seed}: {error}"));
            }
            let checked = run.check(&disk.process_kill(), run.written);
            checked.unwrap_or_else(|error| panic!("EIO at {k}, killed {after} later: {error}"));
        }
    }
    assert!(moving > 200, "only {moving} runs moved");
}

/// Goal: if the next file fails too, the log stops: nothing more is acknowledged, every call returns the error, and
/// acknowledged records survive. Method: every call from the k-th on fails, for all k.
#[test]
fn log_is_poisoned_when_the_next_file_fails_too() {
    let whole = SimFiles::new();
    Run::new(&whole);
    let mut poisoned = 0;
    for k in 1..whole.writes_and_syncs() {
        let disk = SimFiles::new();
        (k..k + 400).for_each(|call| disk.fail_write_or_sync(call, Fault::Eio));
        let run = Run::new(&disk);
        let error = run.error.as_ref().expect("nothing can be acknowledged");
        poisoned += u64::from(run.rewrites > 0);
        assert!(
            matches!(error, WalError::Io { .. } | WalError::Poisoned { .. } | WalError::Full { .. }),
            "every call from {k}: {error}"
        );
        for seed in 0..3 {
            let checked = run.check(&disk.power_cut(seed), run.durable);
            checked.unwrap_or_else(|error| panic!("every call from {k}, seed {seed}: {error}"));
        }
    }
    assert!(poisoned > 40, "{poisoned}");
}

/// Goal: a poisoned log refuses appends and waits with the durable position, and can still be read. Method: two failing
/// calls in a row.
#[test]
fn poisoned_log_says_how_far_it_was_durable_and_reads_on() {
    let disk = SimFiles::new();
    let log = open(&disk, tiny()).unwrap();
    let mut writer = log.writer();
    let durable = writer.commit(0, b"kept", Level::Disk).unwrap().end;
    let stat = log.stat();
    assert_eq!((stat.poisoned, stat.full), (false, None));
    assert!(stat.timed_syncs > 0 && stat.timed_syncs <= stat.syncs);
    let calls = disk.writes_and_syncs();
    disk.fail_write_or_sync(calls + 1, Fault::Eio);
    // All the following calls, since the next file has still to be prepared.
    (calls + 2..calls + 100).for_each(|call| disk.fail_write_or_sync(call, Fault::Eio));
    assert!(matches!(writer.commit(0, b"lost", Level::Disk), Err(WalError::Io { .. })));
    match writer.append(0, &[b"more"]) {
        Err(WalError::Poisoned { durable: said }) => assert_eq!(said, durable),
        other => panic!("{other:?}"),
    }
    assert!(matches!(log.wait(Mark::Durable, log.boundary()), Err(WalError::Poisoned { .. })));
    assert!(matches!(log.flush_wal(true), Err(WalError::Poisoned { .. })));
    assert!(log.stat().poisoned);
    assert_eq!(log.read(Lsn::ZERO).map(|record| record.unwrap().body).collect::<Vec<_>>(), [b"kept"]);
}

/// Goal: the file that failed is named once and never used again, not even as a spare, and a close still marks a clean
/// end. Method: fail one sync; free everything; look at the names and the line.
#[test]
fn failed_file_is_named_and_never_used_again() {
    let disk = SimFiles::new();
    let said = Arc::new(Mutex::new(Vec::new()));
    let warnings = Warnings::to({
        let said = said.clone();
        move |line| said.lock().push(line.to_owned())
    });
    let log = open(&disk, Options { warnings, ..tiny() }).unwrap();
    let mut writer = log.writer();
    for number in 0..18_u8 {
        writer.commit(0, &[number; 3_000], Level::Disk).unwrap();
    }
    log.tick().unwrap();
    let durable = log.durable();
    disk.fail_write_or_sync(disk.writes_and_syncs() + 2, Fault::Eio);
    let end = writer.commit(0, &[77; 3_000], Level::Disk).unwrap().end;
    assert_eq!(log.durable(), end);
    let said = said.lock().clone();
    assert_eq!(said.len(), 1, "{said:?}");
    let expected = format!(
        "; that file is not used again, 3003 bytes above {durable} were written to /wal/00000000000000000003.wal instead \
         and the log goes on"
    );
    assert!(said[0].starts_with("wal: cannot sync /wal/00000000000000000002.wal: "), "{said:?}");
    assert!(said[0].ends_with(&expected), "{said:?}");
    let failed = "00000000000000000002.wal";
    for number in 0..40_u8 {
        writer.commit(0, &[number; 3_000], Level::Disk).unwrap();
        log.truncate_before(log.durable()).unwrap();
    }
    let names = collie_env::Files::list(&disk, DIR.as_ref()).unwrap();
    assert!(!names.iter().any(|name| name.starts_with(failed)), "{names:?}");
    disk.fail_write_or_sync(disk.writes_and_syncs() + 1, Fault::Eio);
    log.close().unwrap();
    let (_, found) = Log::open(&Env::over(disk, 2), DIR.as_ref(), tiny()).unwrap();
    assert_eq!(found.ending, crate::Ending::Clean);
}

/// Goal: threads that wait while the log moves to the next file all succeed. Method: six threads on small files with
/// background threads; one failing call among the first, round after round.
#[test]
fn waiters_succeed_when_the_log_moves_to_the_next_file() {
    let mut rewrites = 0;
    for round in 0..30 {
        let disk = SimFiles::new();
        let log = open(&disk, Options { threads: true, ..tiny() }).unwrap();
        disk.fail_write_or_sync(disk.writes_and_syncs() + 20 + round, Fault::Eio);
        std::thread::scope(|scope| {
            for thread in 0..6_u8 {
                let (log, level) = (log.clone(), if thread < 4 { Level::Disk } else { Level::Process });
                scope.spawn(move || {
                    let mut writer = log.writer();
                    let mut done = 0;
                    while done < 20 {
                        match writer.commit(thread, &[thread; 700], level) {
                            Ok(_) => done += 1,
                            // The failing call was the preparation of a spare, which is tried again.
                            Err(WalError::Full { .. }) => std::thread::yield_now(),
                            Err(error) => panic!("round {round}: {error}"),
                        }
                    }
                });
            }
        });
        rewrites += log.stat().rewrites;
        log.close().unwrap();
        assert_eq!(open(&disk, tiny()).unwrap().read(Lsn::ZERO).map(Result::unwrap).count(), 120);
    }
    assert!(rewrites > 5, "{rewrites}");
}
