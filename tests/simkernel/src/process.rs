//! [`Host`] and [`Process`]: the parts of a simulated world, with the faults that can hit them.

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
    /// Adds a host, which others reach at `address`.
    pub fn add(address: Ipv4Addr) -> Self {
        Self(enter(|kernel| kernel.network.add_host(address)))
    }

    /// Returns the host on which the world itself runs.
    pub fn world() -> Self {
        Self(0)
    }

    /// Cuts the link from this host to `other`, or restores it. Segments that were sent in the meantime arrive after
    /// that.
    pub fn cut(self, other: Self, is_cut: bool) {
        enter(|kernel| kernel.set_cut(self.0, other.0, is_cut));
    }

    /// Sets the latency of the link from this host to `other`, at least and at most.
    pub fn set_latency(self, other: Self, from: Duration, to: Duration) {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        enter(|kernel| kernel.set_latency(self.0, other.0, (ns(from), ns(to))));
    }

    /// Turns the host's power off: its processes vanish, and no peer gets a message. Or turns it on.
    pub fn set_on(self, is_on: bool) {
        enter(|kernel| {
            if !is_on {
                let of_it = |process: &usize| kernel.threads.processes[*process].host == self.0;
                let processes: Vec<usize> = (0..kernel.threads.processes.len()).filter(of_it).collect();
                kernel.set_on(self.0, false); // first, so that the closing of its processes' descriptors sends nothing
                processes.into_iter().for_each(|process| kernel.end_process(process));
            } else {
                kernel.set_on(self.0, true);
            }
        });
    }
}

/// A running program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(usize);

impl Process {
    /// Starts a process on a host. Once `main` returns, it ends with all its threads.
    ///
    /// If the real kernel has no more threads.
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

    /// Ends the process at once, as SIGKILL does: its host closes its descriptors.
    pub fn kill(self) {
        enter(|kernel| kernel.end_process(self.0));
    }

    /// Stops the process, as SIGSTOP does.
    pub fn pause(self) {
        enter(|kernel| kernel.threads.pause(self.0));
    }

    /// Lets the process continue, as SIGCONT does.
    pub fn resume(self) {
        enter(|kernel| kernel.threads.resume(self.0));
    }

    /// Returns whether the process has ended.
    pub fn has_ended(self) -> bool {
        enter(|kernel| kernel.threads.processes[self.0].life == Life::Ended)
    }

    /// Returns the last lines that the process wrote to standard output and error, each with its time.
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

    /// Records text that a thread prints; `false` means that the caller must print it.
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
        // The output of the world itself is printed.
        number != 0
    }
}
