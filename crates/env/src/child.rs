//! [`ChildProcess`]: a program that runs beside this one, can be stopped where it stands, and ends with whoever holds it.

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// What is kept of what a program says on each of its two ways out.
const WORDS_BYTES_MAX: u64 = 64 << 10;

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEnd {
    /// It said that it had done its work.
    pub is_success: bool,
    /// Exit code or signal, in words.
    pub status: String,
    /// What it said on standard output, the first 64 KiB.
    pub output: String,
    /// The same of standard error.
    pub errors: String,
}

/// A running program. Dropping it kills it and waits for that.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    is_paused: bool,
}

impl ChildProcess {
    /// Starts `program`. It reads nothing; what it says is kept by the operating system until it has ended: one that says more than a
    /// pipe holds (64 KiB on Linux) waits, so whoever starts a talkative one has to give it a time limit.
    ///
    /// # Errors
    /// The program is not there, or there can be no further process.
    pub fn start(program: &Path, arguments: &[&OsStr]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { child: command.spawn()?, is_paused: false })
    }

    /// Stops it where it stands (`SIGSTOP`), or has it go on (`SIGCONT`); a system call only where that is a change.
    pub fn pause(&mut self, is_paused: bool) {
        if is_paused != self.is_paused {
            self.signal(if is_paused { Signal::STOP } else { Signal::CONT });
            self.is_paused = is_paused;
        }
    }

    /// Returns whether it was stopped where it stands.
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Kills it, also where it stands still; how it ended is told by [`ChildProcess::ended`].
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    /// Returns whether it has ended. Waits for nothing.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns how it ended; `None`: it has not. Waits for nothing but what it started itself, if that has its ways out still open.
    ///
    /// # Errors
    /// The operating system knows no such process.
    pub fn ended(&mut self) -> io::Result<Option<ChildEnd>> {
        let Some(status) = self.child.try_wait()? else { return Ok(None) };
        let output = self.child.stdout.take().map(words).unwrap_or_default();
        let errors = self.child.stderr.take().map(words).unwrap_or_default();
        Ok(Some(ChildEnd { is_success: status.success(), status: status.to_string(), output, errors }))
    }

    fn signal(&self, signal: Signal) {
        // Its number is its own until it was waited for, which only `ended` and `drop` do.
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _gone_already = kill_process(pid, signal);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal(Signal::KILL);
            let _status = self.child.wait();
        }
    }
}

fn words(mut pipe: impl Read) -> String {
    let mut bytes = Vec::new();
    // What cannot be read was not said.
    let _whole = pipe.by_ref().take(WORDS_BYTES_MAX).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::{thread, time::Duration};

    use super::*;

    fn shell(script: &str) -> ChildProcess {
        ChildProcess::start("/bin/sh".as_ref(), &["-c".as_ref(), script.as_ref()]).unwrap()
    }

    fn end(child: &mut ChildProcess) -> ChildEnd {
        for _ in 0..3000 {
            if let Some(end) = child.ended().unwrap() {
                return end;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it does not end");
    }

    /// Returns the state letter of the process, as Linux says it; `None`: there is none.
    fn state(id: u32) -> Option<String> {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        rest.split(' ').next().map(str::to_owned)
    }

    fn until_in(id: u32, letters: &[&str]) {
        for _ in 0..3000 {
            if state(id).is_none_or(|now| letters.contains(&&*now)) {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("it is in {:?}, not in {letters:?}", state(id));
    }

    /// Goal: how a program ended, and what it said, is told once it has. Method: one that succeeds, one that fails, one that is not there.
    #[test]
    fn an_end_is_told_with_its_words() {
        let done = end(&mut shell("echo one; echo two >&2"));
        assert_eq!((done.is_success, &*done.output, &*done.errors), (true, "one\n", "two\n"));
        let failed = end(&mut shell("exit 3"));
        assert!(!failed.is_success && failed.status.contains('3'), "{failed:?}");
        assert!(ChildProcess::start("/no/such/program".as_ref(), &[]).is_err());
    }

    /// Goal: a program that is stopped does nothing until it may go on, and is killed where it stands. Method: one that sleeps,
    /// stopped, let go on, stopped again and killed.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_stands_still_until_it_may_go_on() {
        let mut child = shell("exec sleep 3600");
        let id = child.child.id();
        child.pause(true);
        until_in(id, &["T"]);
        assert!(child.is_paused() && child.ended().unwrap().is_none());
        child.pause(false);
        until_in(id, &["R", "S", "Z"]);
        child.pause(true);
        child.kill();
        let killed = end(&mut child);
        assert!(!killed.is_success && killed.status.contains('9'), "{killed:?}");
    }

    /// Goal: nothing outlives who holds it. Method: one that would sleep for an hour, dropped.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_dropped_program_is_gone() {
        let child = shell("exec sleep 3600");
        let id = child.child.id();
        assert!(state(id).is_some());
        drop(child);
        assert_eq!(state(id), None);
    }
}
