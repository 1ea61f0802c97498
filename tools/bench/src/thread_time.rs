//! `ThreadTime`: how long the calling thread was on a processor: the basis of figures "per core" while other threads
//! compete for it.

use perf_event::{Builder, Counter, events::Software};

use crate::Plan;

/// Measures the processor time of pieces of work.
pub(crate) struct ThreadTime(Option<Counter>);

impl ThreadTime {
    /// Sets up the clock; if the system forbids it, elapsed time is measured.
    pub(crate) fn new() -> Self {
        Self(Builder::new().kind(Software::TASK_CLOCK).build().ok())
    }

    /// Returns whether elapsed time is measured.
    pub(crate) fn is_elapsed(&self) -> bool {
        self.0.is_none()
    }

    /// Runs `work` and returns its result and the nanoseconds that it took.
    pub(crate) fn of<R>(&mut self, plan: &Plan, work: impl FnOnce() -> R) -> (R, u64) {
        let begun_ns = plan.now_ns();
        let started = |counter: &mut Counter| counter.reset().and_then(|()| counter.enable()).is_ok();
        let counter = self.0.as_mut().and_then(|counter| started(counter).then_some(counter));
        let result = work();
        let counted = counter.and_then(|counter| counter.disable().and_then(|()| counter.read()).ok());
        (result, counted.unwrap_or_else(|| plan.now_ns() - begun_ns))
    }
}

#[cfg(test)]
mod tests {
    use std::{path::Path, time::Duration};

    use super::*;
    use crate::Pace;

    /// Goal: work counts, waiting does not. Method: a loop and a sleep, compared with elapsed time.
    #[test]
    fn thread_time_counts_work_and_not_waiting() {
        let (plan, mut time) = (Plan::new(Path::new("."), Pace::Touch), ThreadTime::new());
        let (sum, worked_ns) = time.of(&plan, || (0..100_000_u64).map(std::hint::black_box).sum::<u64>());
        assert_eq!(sum, 4_999_950_000);
        assert!(worked_ns > 0);
        let ((), waited_ns) = time.of(&plan, || std::thread::sleep(Duration::from_millis(50)));
        assert!(time.is_elapsed() || waited_ns < 25_000_000, "{waited_ns}");
    }
}
