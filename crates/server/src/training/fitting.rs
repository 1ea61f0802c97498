//! [`Fitting`]: the process that fits models next to the server, `collie train fit --child`, if one runs.
//!
//! # Invariants
//! - F1. At most one runs, and none while this node may not collect: [`Fitting::forbid`] kills a running one and lets
//!   none begin.
//! - F2. A fit ends with the thread that began it (`collie_env::end_with_parent`), and so with the server, however that
//!   ends.

use std::{ffi::OsStr, path::Path};

use collie_env::{ChildEnd, ChildProcess};
use parking_lot::Mutex;

#[derive(Debug, Default)]
struct Inner {
    child: Option<ChildProcess>,
    is_allowed: bool,
    is_killed: bool,
    done: u64,
    failed: u64,
    killed: u64,
}

/// The outcome of a fit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It was successful; with its output.
    Done(ChildEnd),
    /// It failed, for this reason.
    Failed(String),
    /// It was killed, since it may no longer run.
    Killed,
}

/// The process that fits. Lock order: its own lock alone; held as long as it takes to start a program, some
/// milliseconds.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    inner: Mutex<Inner>,
}

impl Fitting {
    /// Allows fits to begin.
    pub(super) fn allow(&self) {
        self.inner.lock().is_allowed = true;
    }

    /// Kills a running fit, and lets none begin (F1). Waits for nothing: [`Fitting::look`] finds that it has ended.
    pub(super) fn forbid(&self) {
        let mut inner = self.inner.lock();
        inner.is_allowed = false;
        inner.kill();
    }

    /// Begins a fit, unless one runs or none may; returns whether it did.
    ///
    /// # Errors
    /// The program cannot be started, in words.
    pub(super) fn begin(&self, program: &Path, arguments: &[&OsStr]) -> Result<bool, String> {
        let mut inner = self.inner.lock();
        if !inner.is_allowed || inner.child.is_some() {
            return Ok(false);
        }
        match ChildProcess::start(program, arguments) {
            Ok(child) => {
                (inner.child, inner.is_killed) = (Some(child), false);
                Ok(true)
            }
            Err(error) => {
                inner.failed += 1;
                Err(format!("{} cannot be started: {error}", program.display()))
            }
        }
    }

    /// Stops or continues a running fit, and returns its outcome, once. `None`: it runs, or there is none.
    pub(super) fn look(&self, may_run: bool) -> Option<Ended> {
        let (mut child, is_killed) = {
            let mut inner = self.inner.lock();
            let child = inner.child.as_mut()?;
            child.pause(!may_run);
            if !child.has_ended() {
                return None;
            }
            (inner.child.take()?, inner.is_killed)
        };
        let ended = match child.ended() {
            Ok(Some(_)) if is_killed => Ended::Killed,
            Ok(Some(end)) if end.is_success => Ended::Done(end),
            Ok(Some(end)) => Ended::Failed(why(&end)),
            Ok(None) => Ended::Failed("it has ended and runs".to_owned()),
            Err(error) => Ended::Failed(error.to_string()),
        };
        let mut inner = self.inner.lock();
        match ended {
            Ended::Done(_) => inner.done += 1,
            Ended::Failed(_) => inner.failed += 1,
            Ended::Killed => inner.killed += 1,
        }
        Some(ended)
    }

    /// Kills a running fit that has taken too long.
    pub(super) fn kill(&self) {
        self.inner.lock().kill();
    }

    /// Returns whether a fit runs and is not stopped.
    pub(super) fn is_at_work(&self) -> bool {
        self.inner.lock().child.as_ref().is_some_and(|child| !child.is_paused())
    }

    /// Returns the numbers of ended fits, by outcome.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let inner = self.inner.lock();
        vec![("done", inner.done), ("failed", inner.failed), ("killed", inner.killed)]
    }

    /// Kills a running fit and waits for its end.
    pub(super) fn end(&self) {
        // Dropped without the lock: a promotion does not wait for that.
        let child = self.inner.lock().child.take();
        drop(child);
    }
}

impl Inner {
    fn kill(&mut self) {
        if let Some(child) = &mut self.child {
            child.kill();
            self.is_killed = true;
        }
    }
}

/// Returns why a fit failed: its last line, with its exit status.
fn why(end: &ChildEnd) -> String {
    let last = end.errors.lines().chain(end.output.lines()).rfind(|line| !line.trim().is_empty());
    format!("{}: {}", end.status, last.unwrap_or("it said nothing").trim())
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn begin(fitting: &Fitting, script: &str) -> Result<bool, String> {
        fitting.begin("/bin/sh".as_ref(), &["-c".as_ref(), script.as_ref()])
    }

    fn until_ended(fitting: &Fitting) -> Ended {
        for _ in 0..3000 {
            if let Some(ended) = fitting.look(true) {
                return ended;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end");
    }

    /// Goal: one fit runs at a time, and each outcome is returned once, with its last line if it failed. Method: one
    /// that succeeds while another is tried, one that fails, and a program that does not exist.
    #[test]
    fn a_fit_is_told_of_once() {
        let fitting = Fitting::default();
        fitting.allow();
        assert_eq!((begin(&fitting, "echo fitted"), begin(&fitting, "exit 1")), (Ok(true), Ok(false)));
        let Ended::Done(end) = until_ended(&fitting) else { panic!("it did its work") };
        assert_eq!((&*end.output, fitting.look(true)), ("fitted\n", None));
        assert_eq!(begin(&fitting, "echo error: no samples >&2; exit 1"), Ok(true));
        let Ended::Failed(why) = until_ended(&fitting) else { panic!("it failed") };
        assert!(why.contains("no samples") && why.contains('1'), "{why}");
        assert!(fitting.begin("/no/such/program".as_ref(), &[]).is_err());
        assert_eq!(fitting.counts(), [("done", 1), ("failed", 2), ("killed", 0)]);
    }

    /// Goal: F1: a promotion kills a running fit, even a stopped one, and none begins afterwards until it is allowed
    /// again. Method: one that would sleep for an hour and is stopped, forbidden.
    #[test]
    fn what_may_not_run_is_killed() {
        let fitting = Fitting::default();
        assert_eq!(begin(&fitting, "true"), Ok(false), "nothing may run yet");
        fitting.allow();
        assert_eq!(begin(&fitting, "exec sleep 3600"), Ok(true));
        assert!(fitting.is_at_work());
        assert_eq!(fitting.look(false), None);
        assert!(!fitting.is_at_work());
        fitting.forbid();
        assert_eq!(until_ended(&fitting), Ended::Killed);
        assert_eq!(begin(&fitting, "true"), Ok(false));
        fitting.allow();
        assert_eq!(begin(&fitting, "exec sleep 3600"), Ok(true));
        fitting.end();
        assert_eq!((fitting.look(true), fitting.is_at_work()), (None, false));
    }
}
