//! [`Fitting`]: the process that fits models beside the server, `collie train fit --child`, if one runs.
//!
//! # Invariants
//! - F1. At most one runs, and none while nothing may be collected by this node: [`Fitting::forbid`] kills what runs and lets none begin.
//! - F2. What runs ends with the thread that began it (`collie_env::end_with_parent`), so with the server, however that ends.

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

/// How a fit ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did its work; what it said.
    Done(ChildEnd),
    /// It did not; why.
    Failed(String),
    /// It was killed, since it may not run any more.
    Killed,
}

/// Order of locks: its own alone; held for as long as it takes to start a program, some milliseconds.
#[derive(Debug, Default)]
pub(super) struct Fitting {
    inner: Mutex<Inner>,
}

impl Fitting {
    /// Lets fits begin.
    pub(super) fn allow(&self) {
        self.inner.lock().is_allowed = true;
    }

    /// Kills what runs, and lets none begin (F1). Waits for nothing: that it has ended is found by [`Fitting::look`].
    pub(super) fn forbid(&self) {
        let mut inner = self.inner.lock();
        inner.is_allowed = false;
        inner.kill();
    }

    /// Begins one, unless one runs or none may; whether it did.
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

    /// Has what runs stand still, or go on, and returns how it ended, once. `None`: it runs, or there is none.
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

    /// Kills what runs: it has taken too long.
    pub(super) fn kill(&self) {
        self.inner.lock().kill();
    }

    /// Returns whether one runs, and does not stand still.
    pub(super) fn is_at_work(&self) -> bool {
        self.inner.lock().child.as_ref().is_some_and(|child| !child.is_paused())
    }

    /// Returns how many have ended, by how.
    pub(super) fn counts(&self) -> Vec<(&'static str, u64)> {
        let inner = self.inner.lock();
        vec![("done", inner.done), ("failed", inner.failed), ("killed", inner.killed)]
    }

    /// Kills what runs and waits until it has ended.
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

/// Says why a fit failed: its last words, or how it ended.
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

    /// Goal: one fit at a time, and how each ended is told once, with its words where it failed. Method: one that succeeds with another begun
    /// meanwhile, one that fails, and a program that is not there.
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

    /// Goal: F1: a promotion kills what runs, also where it stands still, and none begins afterwards until it may again. Method: one that would
    /// sleep for an hour and stands, forbidden.
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
