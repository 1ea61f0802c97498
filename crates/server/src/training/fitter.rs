//! [`Fitter`]: decides when a fit begins, how long it may run, and when the next one is tried after a failure.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use super::fitting::{Ended, Fitting};

/// With fewer new samples there is no fit: no unit can be fitted to fewer.
const NEW_ROWS_MIN: u64 = 50;

/// One in this many samples must be new.
const NEW_PART: u64 = 10;

/// A fit that has worked for longer is killed; all units should take a minute.
const TIME_MAX_NS: u64 = 600_000_000_000;

/// After each failure the wait doubles, at most this often.
const DOUBLINGS_MAX: u32 = 5;

/// An event of a fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A fit has begun.
    Begun,
    /// It has ended; after a successful one, the caller checks for packages.
    Ended(Ended),
    /// It could not begin, for this reason.
    Refused(String),
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Fitter {
    program: PathBuf,
    data: PathBuf,
    node: String,
    /// The time of the last try, or of the start of collection.
    since_ns: u64,
    /// The time of the last look.
    looked_ns: u64,
    at_work_ns: u64,
    failures: u32,
    /// The number of samples kept by the start of the last successful fit, and by that of the running one.
    fitted_rows: u64,
    begun_rows: u64,
}

impl Fitter {
    /// Makes a fitter that runs `program` on the samples of the node `node` in `data`, from `now_ns` on.
    pub(super) fn new(program: PathBuf, data: &Path, node: String, now_ns: u64) -> Self {
        let (since_ns, looked_ns) = (now_ns, now_ns);
        Self {
            program,
            data: data.to_owned(),
            node,
            since_ns,
            looked_ns,
            at_work_ns: 0,
            failures: 0,
            fitted_rows: 0,
            begun_rows: 0,
        }
    }

    /// Returns whether a fit is to begin: its time has come, and enough of `kept_rows` is new compared with the
    /// `known_rows` of the models. `interval` is `None`: never.
    pub(super) fn is_due(&self, now_ns: u64, interval: Option<Duration>, kept_rows: u64, known_rows: u64) -> bool {
        let Some(interval) = interval else { return false };
        let interval_ns = u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX);
        let wait_ns = interval_ns.saturating_mul(1 << self.failures.min(DOUBLINGS_MAX));
        let new_rows = kept_rows.saturating_sub(self.fitted_rows);
        now_ns.saturating_sub(self.since_ns) >= wait_ns
            && new_rows >= NEW_ROWS_MIN
            && new_rows.saturating_mul(NEW_PART) >= known_rows
    }

    /// Begins a fit, if none runs and one may. All kept samples must be in files.
    pub(super) fn begin(&mut self, fitting: &Fitting, now_ns: u64, kept_rows: u64) -> Option<Event> {
        let data = self.data.as_os_str();
        let arguments: [&OsStr; 7] = [
            "train".as_ref(),
            "fit".as_ref(),
            "--child".as_ref(),
            "--data".as_ref(),
            data,
            "--node".as_ref(),
            self.node.as_ref(),
        ];
        match fitting.begin(&self.program, &arguments) {
            Ok(false) => None,
            Ok(true) => {
                (self.since_ns, self.at_work_ns, self.begun_rows) = (now_ns, 0, kept_rows);
                self.looked_ns = now_ns;
                Some(Event::Begun)
            }
            Err(why) => {
                self.since_ns = now_ns;
                self.failures = self.failures.saturating_add(1);
                Some(Event::Refused(why))
            }
        }
    }

    /// Checks the running fit, if there is one, and stops it unless `may_run`.
    pub(super) fn look(&mut self, fitting: &Fitting, now_ns: u64, may_run: bool) -> Option<Event> {
        if fitting.is_at_work() {
            self.at_work_ns += now_ns.saturating_sub(self.looked_ns);
            if self.at_work_ns > TIME_MAX_NS {
                fitting.kill();
            }
        }
        self.looked_ns = now_ns;
        let ended = fitting.look(may_run)?;
        self.since_ns = now_ns;
        match ended {
            Ended::Done(_) => (self.failures, self.fitted_rows) = (0, self.begun_rows),
            Ended::Failed(_) => self.failures = self.failures.saturating_add(1),
            // Too slow: treated as a failure. Forbidden: the next role begins with its own fitter, or waits as well.
            Ended::Killed => self.failures = self.failures.saturating_add(1),
        }
        Some(Event::Ended(ended))
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, thread};

    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const HOUR: Option<Duration> = Some(Duration::from_secs(3600));

    fn fitter(program: &str) -> Fitter {
        Fitter::new(program.into(), "/data".as_ref(), "n1".to_owned(), 0)
    }

    fn until_event(fitter: &mut Fitter, fitting: &Fitting, now_ns: u64) -> Event {
        for _ in 0..3000 {
            if let Some(event) = fitter.look(fitting, now_ns, true) {
                return event;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("nothing happens");
    }

    /// Goal: a fit begins when its time has come and a tenth is new, not before, and never if so configured. Method:
    /// each side of each edge.
    #[test]
    fn a_fit_is_due_by_time_and_by_what_is_new() {
        let fitter = fitter("/bin/true");
        let due = |seconds: u64, interval, kept, known| fitter.is_due(seconds * SECOND_NS, interval, kept, known);
        assert!(due(3600, HOUR, 50, 0) && due(3600, HOUR, 100, 1000));
        assert!(!due(3599, HOUR, 50, 0), "it is early");
        assert!(!due(3600, HOUR, 49, 0), "there are too few");
        assert!(!due(3600, HOUR, 99, 1000), "less than a tenth is new");
        assert!(!due(1 << 30, None, 1000, 0), "never");
    }

    /// Goal: after a successful fit only later samples are new; after failures the wait is longer, up to a limit; the
    /// arguments are those of `collie train fit`. Method: a program that fails unless its arguments are these, then one
    /// that does not exist.
    #[test]
    fn failures_are_waited_out() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("trainer");
        let words = "train fit --child --data /data --node n1";
        let script = format!("#!/bin/sh\n[ \"$*\" = '{words}' ] || exit 1\n[ -e \"$0.works\" ] || exit 2\n");
        // Written by another process: a file that this process has open for writing would also be open in a fit that a
        // concurrent test begins, and could not be executed.
        let make = "printf '%s' \"$1\" > \"$2\" && chmod +x \"$2\"";
        let made = Command::new("/bin/sh").args(["-c", make, "sh", &script]).arg(&program).status().unwrap();
        assert!(made.success());
        let (mut fitter, fitting) = (fitter(program.to_str().unwrap()), Fitting::default());
        fitting.allow();
        let mut now_ns = 3600 * SECOND_NS;
        for failures in 1..=7_u32 {
            assert_eq!(fitter.begin(&fitting, now_ns, 80), Some(Event::Begun));
            assert_eq!(fitter.begin(&fitting, now_ns, 80), None, "one at a time");
            let Event::Ended(Ended::Failed(why)) = until_event(&mut fitter, &fitting, now_ns) else {
                panic!("it fails")
            };
            assert!(why.contains("2"), "its words are those: {why}");
            let wait_ns = (3600 * SECOND_NS) << failures.min(5);
            assert!(!fitter.is_due(now_ns + wait_ns - 1, HOUR, 80, 0));
            assert!(fitter.is_due(now_ns + wait_ns, HOUR, 80, 0));
            now_ns += wait_ns;
        }
        std::fs::write(dir.path().join("trainer.works"), b"").unwrap();
        fitter.begin(&fitting, now_ns, 80);
        assert!(matches!(until_event(&mut fitter, &fitting, now_ns), Event::Ended(Ended::Done(_))));
        now_ns += 3600 * SECOND_NS;
        assert!(!fitter.is_due(now_ns, HOUR, 129, 0) && fitter.is_due(now_ns, HOUR, 130, 0));
        std::fs::remove_file(&program).unwrap();
        assert!(matches!(fitter.begin(&fitting, now_ns, 200), Some(Event::Refused(_))));
        assert!(!fitter.is_due(now_ns + 3600 * SECOND_NS, HOUR, 200, 0));
    }

    /// Goal: a fit that takes too long is killed, and time in which it is stopped does not count. Method: one that
    /// sleeps, with a clock of the test: a day while stopped, then more than its time.
    #[test]
    fn a_fit_that_takes_too_long_is_killed() {
        let (mut fitter, fitting) = (fitter("/bin/sleep"), Fitting::default());
        fitting.allow();
        fitting.begin("/bin/sleep".as_ref(), &["3600".as_ref()]).unwrap();
        fitter.look(&fitting, 0, false);
        assert_eq!(fitter.look(&fitting, 86_400 * SECOND_NS, false), None);
        let now_ns = 86_401 * SECOND_NS;
        assert_eq!(fitter.look(&fitting, now_ns, true), None);
        assert!(fitting.is_at_work(), "it goes on");
        let event = until_event(&mut fitter, &fitting, now_ns + TIME_MAX_NS + 1);
        assert_eq!(event, Event::Ended(Ended::Killed));
    }
}
