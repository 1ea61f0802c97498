//! `Scale`: converts ticks to nanoseconds of the drain's clock; `Cost`: the cost of a measurement itself.

use collie_sync::lane;

use crate::collector::Collector;
use crate::countdown::Countdown;
use crate::measured::Told;
use crate::rates::RateTable;
use crate::recorder::{Dropped, LANE_SAMPLES, Recorder};
use crate::schema::FEATURES_MAX;
use crate::tick_length::{double, length_ns};

/// Duration of the first measurement of the tick rate, in nanoseconds.
const LOOK_NS: u64 = 1_000_000;
/// Number of reads after which a clock that stands still is given up.
const LOOK_READS: u32 = 1_000_000;
/// Pairs of readings from which the cost of an empty measurement is taken.
const PAIRS: usize = 1001;

/// A line through two readings of both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    ticks: u64,
    ns: u64,
    ns_per_tick: f64,
}

impl Scale {
    /// Compares both clocks for a millisecond.
    pub(crate) fn measure(collector: &Collector, now_ns: &dyn Fn() -> u64) -> Self {
        let (ticks, ns) = (collector.now(), now_ns());
        let mut scale = Self { ticks, ns, ns_per_tick: 1.0 };
        for _ in 0..LOOK_READS {
            let now = now_ns();
            if now.saturating_sub(ns) >= LOOK_NS {
                scale.refine(collector.now(), now);
                break;
            }
        }
        scale
    }

    /// Refines the rate by one more reading: the longer after the first, the better.
    pub(crate) fn refine(&mut self, ticks: u64, ns: u64) {
        let (ticks, ns) = (ticks.saturating_sub(self.ticks), ns.saturating_sub(self.ns));
        if ticks > 0 && ns >= LOOK_NS {
            self.ns_per_tick = double(ns) / double(ticks);
        }
    }

    /// Converts a number of ticks to nanoseconds.
    pub(crate) fn length_ns(&self, ticks: u64) -> u64 {
        length_ns(ticks, self.ns_per_tick)
    }

    /// Converts a moment to nanoseconds of the clock.
    pub(crate) fn moment_ns(&self, ticks: u64) -> u64 {
        match ticks.checked_sub(self.ticks) {
            Some(after) => self.ns.saturating_add(self.length_ns(after)),
            None => self.ns.saturating_sub(self.length_ns(self.ticks - ticks)),
        }
    }

    pub(crate) const fn ns_per_tick(&self) -> f64 {
        self.ns_per_tick
    }
}

/// The cost of measuring.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Ticks between two readings with nothing between them, which are part of every sample's time.
    pub(crate) empty_ticks: u64,
    /// Ticks for a whole sample.
    pub(crate) sample_ticks: f64,
}

impl Cost {
    /// Measures on the calling thread, with a lane of its own, in less than a millisecond.
    pub(crate) fn measure(process: &Collector) -> Self {
        let mut pairs: Vec<u64> = (0..PAIRS)
            .map(|_| {
                let first = process.now();
                process.now().saturating_sub(first)
            })
            .collect();
        let (_, empty_ticks, _) = pairs.select_nth_unstable(PAIRS / 2);
        Self { empty_ticks: *empty_ticks, sample_ticks: Self::sample_ticks(process) }
    }

    fn sample_ticks(process: &Collector) -> f64 {
        const UNIT: u8 = 1;
        let countdown = Countdown::new();
        let (writer, mut reader) = lane(LANE_SAMPLES);
        let mut recorder = Recorder::new(writer, std::sync::Arc::new(Dropped::new()), 0, 0);
        let own = Box::new(Collector::new());
        own.use_clock(|| 0); // makes `publish` accept a table; the ticks are read from the process's clock
        own.publish(&RateTable::all(1.0));
        let mut pass = || {
            let first = process.now();
            for _ in 0..LANE_SAMPLES {
                let base = own.rates().base(UNIT);
                if let Some(mut started) = own.begin(&countdown, &mut recorder, UNIT, base) {
                    started.ticks = process.now();
                    let told =
                        Told { unit: UNIT, version: 1, calls: 1, lsn: 0, features: [7; FEATURES_MAX], labels: &[] };
                    recorder.record(own.sample(started, process.now(), &told));
                }
            }
            let took = process.now().saturating_sub(first);
            while reader.pop().is_some() {}
            took
        };
        let _memory_is_touched = pass();
        double(pass()) / double(LANE_SAMPLES as u64)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static TICKS: AtomicU64 = AtomicU64::new(5_000);

    /// Goal: lengths and moments are converted to the other clock, before and after the first reading. Method: a
    /// clock of the test with three ticks per nanosecond, then a fixed scale.
    #[test]
    fn ticks_become_nanoseconds_of_the_other_clock() {
        let collector = Collector::new();
        collector.use_clock(|| TICKS.load(Relaxed));
        let ns = Cell::new(1_000);
        let scale = Scale::measure(&collector, &|| {
            let now = ns.get();
            ns.set(now + 100_000);
            TICKS.fetch_add(300_000, Relaxed);
            now
        });
        assert!((2.7..3.6).contains(&(1.0 / scale.ns_per_tick())), "{scale:?}");
        let exact = Scale { ticks: 6_000, ns: 1_000, ns_per_tick: 0.5 };
        assert_eq!([exact.length_ns(10), exact.moment_ns(6_100), exact.moment_ns(5_900)], [5, 1_050, 950]);
    }

    /// Goal: a clock that stands still ends the measurement. Method: use such a clock.
    #[test]
    fn a_clock_that_stands_still_is_given_up() {
        let collector = Collector::new();
        collector.use_clock(|| 7);
        assert!((Scale::measure(&collector, &|| 9).ns_per_tick() - 1.0).abs() < f64::EPSILON);
    }

    /// Goal: the cost of measuring is found. Method: the measured cost of a sample is above 0.
    #[test]
    fn cost_of_measuring_is_found() {
        let collector = Collector::new();
        if !collie_sync::has_invariant_ticks() {
            return;
        }
        assert!(Cost::measure(&collector).sample_ticks > 0.0);
    }
}
