//! [`RunQueue`]: how long apply threads were runnable without running.
//!
//! Linux reports for each thread how long it has waited for a processor and how often it ran
//! (`/proc/self/task/TID/schedstat`: time on a processor and waiting time in nanoseconds, number of runs). Two readings
//! give the mean wait of a thread in between; the longest of these is used in place of the 99th percentile, which the
//! kernel does not record.

use std::{
    fs,
    path::{Path, PathBuf},
};

use collie_env::Env;

/// The directory of the process's threads.
const TASKS: &str = "/proc/self/task";

/// The prefix of the names of apply threads.
const APPLY: &str = "collie-apply-";

/// The waiting time of a thread, and how often it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Waited {
    wait_ns: u64,
    runs: u64,
}

impl Waited {
    /// Parses a line of `schedstat`.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().skip(1);
        let mut number = || fields.next()?.parse().ok();
        Some(Self { wait_ns: number()?, runs: number()? })
    }

    /// Returns the mean wait since `before`, in us; 0 if the thread did not run.
    fn mean_us_since(self, before: Self) -> f64 {
        let runs = self.runs.saturating_sub(before.runs).max(1);
        self.wait_ns.saturating_sub(before.wait_ns) as f64 / runs as f64 / 1e3
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct RunQueue {
    /// The file of each apply thread, and its last reading.
    threads: Vec<(PathBuf, Waited)>,
    /// The operating system schedules the threads, and not a simulation.
    is_real: bool,
}

impl RunQueue {
    /// Observes the threads of this process; in a simulated environment nothing is known.
    pub(super) fn of(env: &Env) -> Self {
        Self { threads: Vec::new(), is_real: env.files.is_real() }
    }

    /// Returns the longest mean wait of an apply thread since the last call, in us. Returns `None` if it is unknown,
    /// since this is the first call, the system does not report it, or a thread has ended.
    ///
    /// Cost: a small read from the kernel for each thread; at first, and after a thread has ended, one for each thread
    /// of the process.
    pub(super) fn longest_us(&mut self) -> Option<f64> {
        if !self.is_real {
            return None;
        }
        let mut longest_us = 0.0_f64;
        for (file, before) in &mut self.threads {
            let Some(now) = read(file) else {
                self.threads.clear();
                break;
            };
            longest_us = longest_us.max(now.mean_us_since(*before));
            *before = now;
        }
        if self.threads.is_empty() {
            self.threads = apply_threads();
            return None;
        }
        Some(longest_us)
    }
}

fn read(file: &Path) -> Option<Waited> {
    Waited::parse(&fs::read_to_string(file).ok()?)
}

fn apply_threads() -> Vec<(PathBuf, Waited)> {
    let tasks = fs::read_dir(TASKS).into_iter().flatten().flatten().map(|task| task.path());
    let is_apply = |task: &PathBuf| fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with(APPLY));
    let with_wait = |task: PathBuf| {
        let file = task.join("schedstat");
        let waited = read(&file)?;
        Some((file, waited))
    };
    tasks.filter(is_apply).filter_map(with_wait).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the kernel's lines are parsed, and nothing else. Method: a line of it, and malformed lines.
    #[test]
    fn schedstat_is_time_wait_and_runs() {
        assert_eq!(Waited::parse("8127341 502000 13\n"), Some(Waited { wait_ns: 502_000, runs: 13 }));
        for bad in ["", "1", "1 2", "1 x 3", "1 2 -3"] {
            assert_eq!(Waited::parse(bad), None, "{bad}");
        }
    }

    /// Goal: the mean wait is that of the runs in between. Method: by hand, also for a thread that did not run, or that
    /// is another one.
    #[test]
    fn the_mean_is_that_of_the_runs_in_between() {
        let at = |wait_ns, runs| Waited { wait_ns, runs };
        assert_eq!(at(5_000_000, 12).mean_us_since(at(1_000_000, 10)), 2000.0);
        assert_eq!(at(1_000_000, 10).mean_us_since(at(1_000_000, 10)), 0.0);
        assert_eq!(at(0, 0).mean_us_since(at(1_000_000, 10)), 0.0);
    }

    /// Goal: apply threads are found by their names, and an ended one causes no error. Method: a thread of that name,
    /// observed while it lives and afterwards; if the kernel does not report, nothing is known throughout.
    #[test]
    fn apply_threads_are_found_while_they_live() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let (tell, named) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("collie-apply-t".to_owned());
        let work = move || {
            tell.send(()).expect("the test waits");
            _ = wait.recv();
        };
        let thread = thread.spawn(work).expect("a thread");
        named.recv().expect("it runs under its name");
        let mut queue = RunQueue::of(&Env::real());
        assert_eq!(queue.longest_us(), None, "the first look");
        let says = fs::read_to_string("/proc/self/schedstat").is_ok();
        assert_eq!(queue.longest_us().is_some(), says);
        drop(go);
        thread.join().expect("it ends");
        assert!(queue.longest_us().is_none_or(|us| us >= 0.0));
    }
}
