//! Context rows: facts that are too expensive to find for every sample, found once per thread and drain.
//!
//! The drain reads them, never a measured thread: one small file of `/proc` per thread.

/// Facts about the ending period that the caller of a drain knows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Situation {
    /// Commits per second.
    pub commits_per_s: f32,
    /// Utilisation of the workers: work per time and worker, 1 when all are busy.
    pub utilisation: f32,
    /// Sessions that are running a statement.
    pub running_sessions: u32,
    /// Number of the configuration in force.
    pub config_epoch: u64,
    /// State of the policy, in its own code.
    pub policy_state: u32,
    /// The replica's delay, in microseconds; 0 on a primary.
    pub delay_us: f32,
}

/// One thread in one period. Samples refer to it by `thread` and `ctx`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ContextRow {
    /// Number of the period.
    pub ctx: u32,
    /// Number of the thread, as in its samples.
    pub thread: u16,
    /// End of the period, in nanoseconds of the drain's clock.
    pub ended_ns: u64,
    /// Time for which the thread ran in the period, in nanoseconds; 0 where the system does not report it.
    pub cpu_ns: u64,
    /// Time for which the thread was runnable and did not run, in nanoseconds. It distinguishes a slow call from
    /// one that was not running.
    pub run_wait_ns: u64,
    /// Samples of the thread that were dropped in the period. Drops are biased, so a user of the period should
    /// check this.
    pub dropped: u64,
    /// The facts that the caller passed.
    pub situation: Situation,
}

/// Times of a thread since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SchedStat {
    pub(crate) cpu_ns: u64,
    pub(crate) run_wait_ns: u64,
}

impl SchedStat {
    /// Parses a line of the kernel: time on a processor, time on its queue, slices.
    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_ascii_whitespace().map(str::parse);
        let (cpu_ns, run_wait_ns) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(Self { cpu_ns, run_wait_ns })
    }

    /// Reads the times of a thread of this process; `None` for one that has ended, and where the system does not
    /// report them.
    pub(crate) fn of(system_thread: u32) -> Option<Self> {
        let path = format!("/proc/self/task/{system_thread}/schedstat");
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// Returns the time passed since `before`.
    pub(crate) const fn since(self, before: Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            run_wait_ns: self.run_wait_ns.saturating_sub(before.run_wait_ns),
        }
    }
}

/// Returns the system's number of the calling thread; 0 where it has none.
pub(crate) fn system_thread() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").ok();
    link.and_then(|link| link.file_name()?.to_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    /// Goal: the kernel's line is parsed, and anything else gives nothing. Method: one of each.
    #[test]
    fn schedstat_is_two_of_three_numbers() {
        assert_eq!(
            SchedStat::parse("1210810 1896383 3\n"),
            Some(SchedStat { cpu_ns: 1_210_810, run_wait_ns: 1_896_383 })
        );
        for line in ["", "7", "x 1 2", "1 -2 3"] {
            assert_eq!(SchedStat::parse(line), None, "{line:?}");
        }
    }

    /// Goal: a thread finds its own times, and they grow as it works. Method: work until they have.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_finds_its_own_times() {
        let Some(before) = SchedStat::of(system_thread()) else {
            return; // a kernel without these times
        };
        let mut work = 0_u64;
        while SchedStat::of(system_thread()).expect("it was there").since(before).cpu_ns == 0 {
            work = std::hint::black_box(work + 1);
        }
    }
}
