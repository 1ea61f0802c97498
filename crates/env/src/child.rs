//! [`ChildProcess`]: a program that runs in a process of its own, can be suspended, and ends when its handle is
//! dropped.

use std::{
    ffi::OsStr,
    io::{self, Read},
    path::Path,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// Limit for the text kept from each of the program's two output streams.
const WORDS_BYTES_MAX: u64 = 64 << 10;

/// How a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildEnd {
    /// Whether the program exited with code 0.
    pub is_success: bool,
    /// Exit code or signal, in words.
    pub status: String,
    /// The first 64 KiB of its standard output.
    pub output: String,
    /// The first 64 KiB of its standard error.
    pub errors: String,
}

/// A running program. Dropping it kills the program and waits for its end.
#[derive(Debug)]
pub struct ChildProcess {
    child: Child,
    is_paused: bool,
}

impl ChildProcess {
    /// Starts `program` with an empty standard input. The pipes of the operating system keep its output until it
    /// has ended. A program that writes more than a pipe holds (64 KiB on Linux) blocks, so the caller needs a time
    /// limit for it.
    ///
    /// # Errors
    /// The program does not exist, or the system can start no further process.
    pub fn start(program: &Path, arguments: &[&OsStr]) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { child: command.spawn()?, is_paused: false })
    }

    /// Suspends the program (`SIGSTOP`) or resumes it (`SIGCONT`). Makes a system call only when the state changes.
    pub fn pause(&mut self, is_paused: bool) {
        if is_paused != self.is_paused {
            self.signal(if is_paused { Signal::STOP } else { Signal::CONT });
            self.is_paused = is_paused;
        }
    }

    /// Returns whether the program is suspended.
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Kills the program, even while it is suspended. [`ChildProcess::ended`] reports how it ended.
    pub fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    /// Returns whether the program has ended, without waiting.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Returns how the program ended, or `None` while it runs. Does not wait for the program, but does wait for
    /// processes that it started and that still hold its output streams open.
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
        // The process id belongs to the child until the child has been waited for, which `has_ended`, `ended` and
        // `drop` do. A caller sends no signal after `has_ended` or `ended` has reported the end.
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
    // Output that cannot be read is dropped.
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

    /// Returns the state letter of the process as Linux reports it, or `None` if there is no such process.
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

    /// Goal: the end of a program is reported with its output. Method: run a program that succeeds, one that fails,
    /// and one that does not exist.
    #[test]
    fn an_end_is_told_with_its_words() {
        let done = end(&mut shell("echo one; echo two >&2"));
        assert_eq!((done.is_success, &*done.output, &*done.errors), (true, "one\n", "two\n"));
        let failed = end(&mut shell("exit 3"));
        assert!(!failed.is_success && failed.status.contains('3'), "{failed:?}");
        assert!(ChildProcess::start("/no/such/program".as_ref(), &[]).is_err());
    }

    /// Goal: a suspended program does nothing until it is resumed, and can be killed while suspended. Method:
    /// suspend a sleeping program, resume it, suspend it again and kill it.
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

    /// Goal: no program outlives its handle. Method: drop the handle of a program that would sleep for an hour.
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
