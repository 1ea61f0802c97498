//! `together`: threads that each repeat one operation until they are stopped.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::{
    Latencies, Plan,
    measures::{float, median, per_s},
    thread_time::ThreadTime,
};

/// One of this many calls is timed, so that reading the clock does not dominate.
pub(crate) const TIMED: u64 = 64;
/// The interval of checks whether it is time to stop.
const LOOK: Duration = Duration::from_millis(5);

/// The work of all threads together.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) count: u64,
    ns: u64,
    pub(crate) latencies: Latencies,
}

impl Load {
    /// Returns calls per second.
    pub(crate) fn rate(&self) -> f64 {
        per_s(self.count, self.ns)
    }
}

/// Returns a closure that returns true until `time` has passed since this call.
pub(crate) fn during(plan: &Plan, time: Duration) -> impl FnMut() -> bool {
    let begun = plan.now_ns();
    move || u128::from(plan.now_ns() - begun) < time.as_nanos()
}

/// Like [`during`], for a time given at full pace.
pub(crate) fn lasting(plan: &Plan, time: Duration) -> impl FnMut() -> bool {
    during(plan, plan.time(time))
}

/// Runs each of `workers` on its own thread repeatedly while `go_on` returns true. Returns the work done, and the
/// workers.
///
/// # Errors
/// That of the first worker that failed; all stop then.
pub(crate) fn together<W: FnMut() -> anyhow::Result<()> + Send>(
    plan: &Plan,
    workers: Vec<W>,
    mut go_on: impl FnMut() -> bool,
) -> anyhow::Result<(Load, Vec<W>)> {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(workers.len() + 1));
    let run = |mut work: W| {
        let mut load = Load::default();
        ready.wait();
        let begun = plan.now_ns();
        while !stop.load(Ordering::Relaxed) {
            let timed = load.count.is_multiple_of(TIMED).then(|| plan.now_ns());
            if let Err(error) = work() {
                stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
            if let Some(from) = timed {
                load.latencies.record(plan.now_ns() - from);
            }
            load.count += 1;
        }
        Ok((begun, load, work))
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = workers.into_iter().map(|work| scope.spawn(move || run(work))).collect();
        ready.wait();
        while go_on() && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK);
        }
        stop.store(true, Ordering::Relaxed);
        let (mut all, mut workers, mut begun_ns) = (Load::default(), Vec::new(), u64::MAX);
        for thread in running {
            let (begun, load, work) = thread.join().expect("a worker returns its error")?;
            begun_ns = begun_ns.min(begun);
            all.count += load.count;
            all.latencies.merge(&load.latencies);
            workers.push(work);
        }
        // From the first start to the last end, since calls that complete while threads stop are counted.
        all.ns = plan.now_ns() - begun_ns;
        Ok((all, workers))
    })
}

/// Like [`together`], with `beside` on one more thread in parallel. Returns the work of `workers`.
///
/// # Errors
/// That of the first thread that failed.
pub(crate) fn together_beside<W: FnMut() -> anyhow::Result<()> + Send>(
    plan: &Plan,
    workers: Vec<W>,
    beside: Option<impl FnMut() -> anyhow::Result<()> + Send>,
    go_on: impl FnMut() -> bool,
) -> anyhow::Result<Load> {
    let stop = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let beside = beside.map(|mut work| {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    work()?;
                }
                anyhow::Ok(())
            })
        });
        let load = together(plan, workers, go_on);
        stop.store(true, Ordering::Relaxed);
        beside.map_or(Ok(()), |thread| thread.join().expect("a worker returns its error"))?;
        Ok(load?.0)
    })
}

/// Calls `work` once with each number below `count`. The numbers are dealt to the threads in turn, so adjacent numbers
/// go to different threads.
pub(crate) fn each_once(plan: &Plan, threads: usize, count: usize, work: impl Fn(usize) + Sync) -> Load {
    let ready = Barrier::new(threads);
    let run = |thread: usize| {
        let mut load = Load::default();
        ready.wait();
        let begun = plan.now_ns();
        for number in (thread..count).step_by(threads) {
            let timed = load.count.is_multiple_of(TIMED).then(|| plan.now_ns());
            work(number);
            if let Some(from) = timed {
                load.latencies.record(plan.now_ns() - from);
            }
            load.count += 1;
        }
        (begun, load)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || run(thread))).collect();
        let (mut all, mut begun_ns) = (Load::default(), u64::MAX);
        for thread in running {
            let (begun, load) = thread.join().expect("work does not panic");
            begun_ns = begun_ns.min(begun);
            all.count += load.count;
            all.latencies.merge(&load.latencies);
        }
        all.ns = plan.now_ns() - begun_ns;
        all
    })
}

/// Runs each of `workers` on its own thread for `time` at full pace; a call does `burst` operations. Returns the
/// processor time of one operation in nanoseconds: that of the median call of the median thread, so that it includes
/// neither preemption nor a cold cache.
pub(crate) fn cost_ns<W: FnMut() + Send>(plan: &Plan, workers: Vec<W>, burst: u64, time: Duration) -> f64 {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(workers.len() + 1));
    let run = |mut work: W| {
        let (mut clock, mut costs) = (ThreadTime::new(), Vec::new());
        ready.wait();
        while costs.is_empty() || !stop.load(Ordering::Relaxed) {
            let ((), ns) = clock.of(plan, &mut work);
            costs.push(float(ns) / float(burst));
        }
        median(&costs)
    };
    std::thread::scope(|scope| {
        let run = &run;
        let running: Vec<_> = workers.into_iter().map(|work| scope.spawn(move || run(work))).collect();
        ready.wait();
        std::thread::sleep(plan.time(time));
        stop.store(true, Ordering::Relaxed);
        let costs: Vec<f64> =
            running.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect();
        median(&costs)
    })
}

#[cfg(test)]
mod tests {
    use std::{path::Path, sync::atomic::AtomicU64};

    use super::*;
    use crate::Pace;

    /// Goal: all work is counted, and one failure stops all. Method: three workers that count too; then one that fails
    /// with two that never end.
    #[test]
    fn calls_are_counted_and_a_failure_stops_all() {
        let (plan, done) = (Plan::new(Path::new("."), Pace::Touch), AtomicU64::new(0));
        let count = || {
            done.fetch_add(1, Ordering::Relaxed);
            Ok(())
        };
        let is_short = || done.load(Ordering::Relaxed) < 1000;
        let (load, workers) = together(&plan, vec![&count; 3], is_short).unwrap();
        assert_eq!((load.count, workers.len()), (done.load(Ordering::Relaxed), 3));
        assert!(load.count > 0 && load.rate() > 0.0 && load.latencies.count() > 0);
        let fail = || {
            anyhow::ensure!(done.fetch_add(1, Ordering::Relaxed) % 7 != 6, "the seventh");
            Ok(())
        };
        assert_eq!(
            together(&plan, vec![&fail; 3], || true).err().map(|e| e.to_string()).as_deref(),
            Some("the seventh")
        );
    }
}
