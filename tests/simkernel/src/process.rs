//! [`Host`] and [`Process`]: what a world is made of, and what can be done to it.

use std::{
    net::Ipv4Addr,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    thread,
    time::Duration,
};

use crate::{
    kernel::{Kernel, enter},
    threads::{Life, ThreadId},
};

/// A machine with an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(usize);

impl Host {
    /// Adds a host; others reach it at `address`.
    pub fn add(address: Ipv4Addr) -> Self {
        Self(enter(|kernel| kernel.network.add_host(address)))
    }

    /// Returns the host that the world itself is on.
    pub fn world() -> Self {
        Self(0)
    }

    /// Cuts what is sent from here to `other`, or mends it. What was sent meanwhile arrives then.
    pub fn cut(self, other: Self, is_cut: bool) {
        enter(|kernel| kernel.set_cut(self.0, other.0, is_cut));
    }

    /// Sets how long what is sent from here to `other` takes, at least and at most.
    pub fn set_latency(self, other: Self, from: Duration, to: Duration) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        enter(|kernel| kernel.set_latency(self.0, other.0, (ns(from), ns(to))));
    }

    /// Turns its power off: its processes are gone, and nobody is told. Or on.
    pub fn set_on(self, is_on: bool) {
        enter(|kernel| {
            if !is_on {
                let of_it = |process: &usize| kernel.threads.processes[*process].host == self.0;
                let processes: Vec<usize> = (0..kernel.threads.processes.len()).filter(of_it).collect();
                kernel.set_on(self.0, false); // first: what its processes have open is closed without a word
                processes.into_iter().for_each(|process| kernel.end_process(process));
            } else {
                kernel.set_on(self.0, true);
            }
        });
    }
}

/// A program that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(usize);

impl Process {
    /// Starts a process on a host. Once `main` returns, it ends with all its threads.
    ///
    /// # Panics
    /// The real kernel has no more threads.
    pub fn start(name: &str, host: Host, main: impl FnOnce() + Send + 'static) -> Self {
        let process = enter(|kernel| {
            let process = kernel.threads.add_process(name, host.0);
            kernel.birth = Some(process);
            process
        });
        let of_process = move || {
            let ended = catch_unwind(AssertUnwindSafe(main));
            enter(|kernel| kernel.end_process(process));
            ended.unwrap_or_else(|panicked| resume_unwind(panicked));
        };
        let started = thread::Builder::new().name(name.to_owned()).spawn(of_process);
        enter(|kernel| kernel.birth = None);
        drop(started.expect("the real kernel has threads"));
        Self(process)
    }

    /// Ends it at once, as SIGKILL does: its host closes what it had open.
    pub fn kill(self) {
        enter(|kernel| kernel.end_process(self.0));
    }

    /// Stops it, as SIGSTOP does.
    pub fn pause(self) {
        enter(|kernel| kernel.threads.pause(self.0));
    }

    /// Has it go on.
    pub fn resume(self) {
        enter(|kernel| kernel.threads.resume(self.0));
    }

    /// Returns whether it has ended.
    pub fn has_ended(self) -> bool {
        enter(|kernel| kernel.threads.processes[self.0].life == Life::Ended)
    }

    /// Returns the last lines that it wrote to standard output and error, each with its time.
    pub fn console(self) -> Vec<String> {
        enter(|kernel| kernel.threads.processes[self.0].console.iter().cloned().collect())
    }
}

impl Kernel {
    fn end_process(&mut self, process: usize) {
        if self.threads.processes[process].life != Life::Ended {
            self.threads.end_process(process);
            self.close_all(process);
        }
    }

    /// Takes what a thread prints; `false`: it is to be printed.
    pub(crate) fn print(&mut self, thread: ThreadId, text: &[u8]) -> bool {
        let (at_ns, most, echoes) = (self.now_ns, self.options.console_lines, self.options.echoes);
        let number = self.threads.all[thread].process;
        let process = &mut self.threads.processes[number];
        for byte in text {
            if *byte != b'\n' {
                process.line.push(*byte);
                continue;
            }
            let line = String::from_utf8_lossy(&std::mem::take(&mut process.line)).into_owned();
            let line = format!("{:>12.6} {}: {line}", at_ns as f64 / 1e9, process.name);
            if echoes && number != 0 {
                let line = format!("{line}\n");
                crate::real::print(line.as_bytes());
            }
            process.console.push_back(line);
            if process.console.len() > most {
                process.console.pop_front();
            }
        }
        // The world itself is whoever looks at it.
        number != 0
    }
}
