//! The kernel's counts for a thread: instructions (where the processor allows it) and context switches.

use perf_event::{Builder, Counter, events::Hardware};

/// Counts the instructions of the calling thread in user mode.
pub(crate) struct Instructions(Option<Counter>);

impl Instructions {
    /// Sets up the counter. It counts nothing if the machine has none (most virtual ones) or forbids it.
    pub(crate) fn new() -> Self {
        Self(Builder::new().kind(Hardware::INSTRUCTIONS).build().ok())
    }

    /// Runs `work` and returns its result and its instructions, if they can be counted.
    pub(crate) fn of<R>(&mut self, work: impl FnOnce() -> R) -> (R, Option<u64>) {
        let Some(counter) = &mut self.0 else { return (work(), None) };
        let begun = counter.reset().and_then(|()| counter.enable());
        let result = work();
        let count = begun.and_then(|()| counter.disable()).and_then(|()| counter.read());
        (result, count.ok())
    }
}

/// Returns how often the calling thread has left the processor, voluntarily or not; 0 if the kernel does not report it.
pub(crate) fn context_switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let counts = status.lines().filter(|line| line.contains("ctxt_switches"));
    counts.filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: counting does not change the result and covers the work. Method: a known loop, if the machine can count;
    /// then a sleep.
    #[test]
    fn counters_count_what_runs() {
        let (sum, count) = Instructions::new().of(|| (0..10_000_u64).map(std::hint::black_box).sum::<u64>());
        assert_eq!(sum, 49_995_000);
        assert!(count.is_none_or(|count| count >= 10_000), "{count:?}");
        let before = context_switches();
        std::thread::sleep(std::time::Duration::from_millis(1));
        let after = context_switches();
        assert!(after > before || after == 0, "{before} to {after}");
    }
}
