//! `Tracer`: the child process that traces threads of this one, and its requests.

use std::{
    ffi::OsString,
    fs::File,
    io::{self, Read, Write},
    path::PathBuf,
};

use super::{Counts, Place};

/// The program to run as the tracer. It calls [`trace_thread`](crate::trace_thread) and usually is this program.
#[derive(Clone, Debug)]
pub struct TracerProgram {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// Where and how long a thread is held.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) place: Place,
    /// The time limit, unless [`Tracer::let_go`] comes first.
    pub(crate) millis_max: u32,
}

/// A running tracer. It traces one thread at a time.
#[derive(Debug)]
pub(crate) struct Tracer {
    /// Exits at the end of its input.
    child: std::process::Child,
    to: File,
    from: File,
}

/// Reads up to the end of a line; `None` at the end of the input. Reads single bytes, since another thread may read
/// what follows the line.
pub(super) fn read_line(mut from: &File) -> io::Result<Option<String>> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    loop {
        match from.read(&mut byte) {
            Ok(0) => return Ok(None),
            Ok(_) if byte == *b"\n" => return String::from_utf8(line).map(Some).map_err(io::Error::other),
            Ok(_) => line.extend(byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes one line with one write.
pub(super) fn write_line(mut to: &File, line: &str) -> io::Result<()> {
    to.write_all(format!("{line}\n").as_bytes())
}

/// Runs `work` between two marks. Never inlined, so that counting and holding see the same code at the same addresses.
#[inline(never)]
fn marked<F: FnMut()>(work: &mut F) {
    mark();
    work();
    mark();
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use super::tracee::{bear_traps, mark};

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn mark() {}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn bear_traps() -> io::Result<()> {
    Ok(())
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn this_thread() -> i32 {
    nix::unistd::gettid().as_raw()
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn this_thread() -> i32 {
    0
}

/// Allows `child` to trace this process, which the kernel may otherwise forbid (Yama).
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn allow(child: &std::process::Child) -> io::Result<()> {
    // Without Yama this fails, and no permission is needed.
    let _allowed =
        rustix::process::set_ptracer(rustix::process::PTracer::ProcessID(rustix::process::Pid::from_child(child)));
    Ok(())
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
fn allow(_child: &std::process::Child) -> io::Result<()> {
    Err(io::Error::other("threads are traced on Linux on x86-64 only"))
}

impl Tracer {
    /// Starts the program and waits until it is ready.
    ///
    /// # Errors
    /// The program cannot be started or exits at once; the system is not supported.
    pub(crate) fn start(program: &TracerProgram) -> io::Result<Self> {
        let mut command = std::process::Command::new(&program.program);
        command.args(&program.arguments).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn()?;
        let piped = || io::Error::other("the tracer has no pipes");
        let to = File::from(std::os::fd::OwnedFd::from(child.stdin.take().ok_or_else(piped)?));
        let from = File::from(std::os::fd::OwnedFd::from(child.stdout.take().ok_or_else(piped)?));
        let tracer = Self { child, to, from };
        allow(&tracer.child)?;
        while tracer.hear()? != "ready" {}
        Ok(tracer)
    }

    /// Reads an answer.
    fn hear(&self) -> io::Result<String> {
        let line = read_line(&self.from)?.ok_or_else(|| io::Error::other("the tracer has ended"))?;
        match line.strip_prefix("refused ") {
            Some(why) => Err(io::Error::other(why.to_owned())),
            None => Ok(line),
        }
    }

    /// Reads an answer that must be `answer`.
    fn expect(&self, answer: &str) -> io::Result<()> {
        let heard = self.hear()?;
        if heard == answer { Ok(()) } else { Err(unexpected(&heard)) }
    }

    /// Sends a request about this thread; returns when the tracer has attached to it.
    fn ask(&self, request: &str) -> io::Result<()> {
        bear_traps()?;
        write_line(&self.to, request)?;
        self.expect("attached")
    }

    /// Runs `work` `windows` times and counts what each run executed.
    ///
    /// # Errors
    /// The kernel refuses, with the reason in the message. `work` may not have run then.
    pub(crate) fn count<F: FnMut()>(&self, windows: usize, work: &mut F) -> io::Result<Vec<Counts>> {
        self.ask(&format!("count {} {windows}", this_thread()))?;
        (0..windows).for_each(|_| marked(work));
        let line = self.hear()?;
        let groups = line.strip_prefix("counted ").unwrap_or_default().split(' ');
        let counts: Vec<Counts> = groups.filter_map(parse).collect();
        let all = counts.len() == windows;
        all.then_some(counts).ok_or_else(|| unexpected(&line))
    }

    /// Learns which code an allocation executes, so that [`Tracer::count`] reports steps in it.
    ///
    /// # Errors
    /// The kernel refuses, or no such code was found.
    pub(crate) fn learn_allocator(&self) -> io::Result<()> {
        let bytes = std::cell::Cell::new(64);
        let mut allocate = || drop(std::hint::black_box(Vec::<u8>::with_capacity(std::hint::black_box(bytes.get()))));
        // This completes one-time initialization.
        allocate();
        allocate();
        self.ask(&format!("learn {}", this_thread()))?;
        marked(&mut allocate);
        bytes.set(0);
        marked(&mut allocate);
        let line = self.hear()?;
        match line.strip_prefix("learned ").map(str::parse::<usize>) {
            Some(Ok(1..)) => Ok(()),
            _ => Err(unexpected(&line)),
        }
    }

    /// Returns whether the last counted run passed `place`.
    ///
    /// # Errors
    /// The tracer is gone.
    pub(crate) fn has(&self, place: Place) -> io::Result<bool> {
        write_line(&self.to, &format!("has {}", place.name()))?;
        let heard = self.hear()?;
        match heard.as_str() {
            "yes" => Ok(true),
            "no" => Ok(false),
            _ => Err(unexpected(&heard)),
        }
    }

    /// Runs `work` and holds it for a while at a place that the last counted run had too. Returns `false` if it ended
    /// without passing there.
    ///
    /// # Errors
    /// The kernel refuses, or there is no such place. `work` may not have run then.
    pub(crate) fn hold<F: FnMut()>(&self, hold: Hold, work: &mut F) -> io::Result<bool> {
        self.run_held(hold, work, || ())?;
        let held = self.wait_held()?;
        if held {
            self.end_held()?;
        }
        Ok(held)
    }

    /// Runs the first part of [`Tracer::hold`]; returns when `work` has ended. The answers after `on_attached` are left
    /// for another thread to read.
    pub(super) fn run_held<F: FnMut()>(&self, hold: Hold, work: &mut F, on_attached: impl FnOnce()) -> io::Result<()> {
        let Hold { place, millis_max } = hold;
        self.ask(&format!("hold {} {} {millis_max}", this_thread(), place.name()))?;
        on_attached();
        marked(work);
        Ok(())
    }

    /// Waits until the thread is held, or returns `false` if it has ended without passing there.
    pub(super) fn wait_held(&self) -> io::Result<bool> {
        let heard = self.hear()?;
        match heard.as_str() {
            "held" => Ok(true),
            "missed" => Ok(false),
            _ => Err(unexpected(&heard)),
        }
    }

    /// Waits until the thread is released; returns whether [`Tracer::let_go`] did it.
    pub(super) fn end_held(&self) -> io::Result<bool> {
        let heard = self.hear()?;
        match heard.as_str() {
            "told" => Ok(true),
            "expired" => Ok(false),
            _ => Err(unexpected(&heard)),
        }
    }

    /// Releases the held thread.
    #[cfg(test)]
    pub(super) fn let_go(&self) -> io::Result<()> {
        write_line(&self.to, "go")
    }

    /// Makes the tracer single-step through `work` without end, and kills it once `is_time` returns; calls `died` when
    /// it is gone. Returns when `work` has ended.
    #[cfg(test)]
    pub(super) fn die_stepping<F: FnMut()>(
        &mut self,
        work: &mut F,
        is_time: impl FnOnce() + Send,
        died: impl FnOnce() + Send,
    ) -> io::Result<()> {
        let (Self { child, to, from }, thread) = (self, this_thread());
        bear_traps()?;
        std::thread::scope(|scope| {
            // Started before the stepping: starting a thread blocks signals.
            let killed = scope.spawn(move || {
                is_time();
                let killed = child.kill().and_then(|()| child.wait());
                died();
                killed.map(drop)
            });
            write_line(to, &format!("hold {thread} {} 0 step", Place::Taken.name()))?;
            let heard = read_line(from)?;
            assert_eq!(heard.as_deref(), Some("attached"));
            marked(work);
            killed.join().expect("killing does not panic")
        })
    }
}

fn unexpected(answer: &str) -> io::Error {
    io::Error::other(format!("the tracer said {answer}"))
}

fn parse(group: &str) -> Option<Counts> {
    let mut numbers = group.split(',').map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten();
    let (instructions, adds, exchanges, others) = (next()?, next()?, next()?, next()?);
    Some(Counts { instructions, adds, exchanges, others, system_calls: next()?, allocator: next()? })
}

impl Drop for Tracer {
    fn drop(&mut self) {
        // Its input ends with `to`, but it may be waiting in ptrace for a thread that is gone, so it is killed in any
        // case.
        let _gone_already = self.child.kill();
        let _status = self.child.wait();
    }
}
