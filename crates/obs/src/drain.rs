//! `Drain`: takes the samples out of the threads' lanes, in nanoseconds and with their context.
//!
//! A process has at most one. It has the lowest priority: if it is late, samples are lost and no thread waits.

use std::sync::Arc;

use crate::collector::{Collector, PROCESS, ThreadLane};
use crate::context::{ContextRow, SchedStat, Situation};
use crate::sample::Sample;
use crate::scale::{Cost, Scale};
use crate::schema::UNIT_SLOTS;
use crate::source::SOURCES;
use crate::tick_length::double;

/// Interval at which the cost of measuring is measured again, in nanoseconds.
const CALIBRATION_NS: u64 = 3_600_000_000_000;

/// The result of a drain. It can be reused: [`Drain::drain`] empties it first.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The samples, those of each thread in its order.
    pub samples: Vec<Sample>,
    /// The rows of the period that ends, one per thread.
    pub contexts: Vec<ContextRow>,
    /// Samples taken, by unit and source.
    pub taken: [[u64; SOURCES]; UNIT_SLOTS],
    /// Samples dropped, by unit.
    pub dropped: [u64; UNIT_SLOTS],
    /// Cost of the samples for the threads that took them, in microseconds: an estimate from the cost of one.
    pub spent_us: f64,
}

impl Batch {
    /// Makes an empty batch.
    pub const fn new() -> Self {
        Self {
            samples: Vec::new(),
            contexts: Vec::new(),
            taken: [[0; SOURCES]; UNIT_SLOTS],
            dropped: [0; UNIT_SLOTS],
            spent_us: 0.0,
        }
    }

    /// Returns the share of a unit's samples that was lost, 0 to 1. Above 0.01 the batch should not be trusted for
    /// this unit.
    pub fn dropped_share(&self, unit: u8) -> f64 {
        let unit = usize::from(unit).min(UNIT_SLOTS - 1);
        let (taken, dropped) = (self.taken[unit].iter().sum::<u64>(), self.dropped[unit]);
        if dropped == 0 { 0.0 } else { double(dropped) / double(taken + dropped) }
    }

    fn clear(&mut self) {
        self.samples.clear();
        self.contexts.clear();
        (self.taken, self.dropped, self.spent_us) = ([[0; SOURCES]; UNIT_SLOTS], [0; UNIT_SLOTS], 0.0);
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::new()
    }
}

/// The owner of the samples: the process or a test.
#[derive(Debug)]
enum Owner {
    Process,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests make collectors of their own"))]
    Own(Arc<Collector>),
}

impl std::ops::Deref for Owner {
    type Target = Collector;

    fn deref(&self) -> &Collector {
        match self {
            Self::Process => &PROCESS,
            Self::Own(collector) => collector,
        }
    }
}

/// A lane, and the times of its thread at the last drain.
#[derive(Debug)]
struct Drained {
    lane: ThreadLane,
    seen: Option<SchedStat>,
}

/// The right to take samples.
#[derive(Debug)]
pub struct Drain {
    collector: Owner,
    lanes: Vec<Drained>,
    scale: Scale,
    cost: Cost,
    calibrated_ns: u64,
}

impl Drain {
    /// Takes the process's right to drain and compares clocks for about two milliseconds; `None` when another drain
    /// has the right. Samples report their times on the clock `now_ns`.
    pub fn open(now_ns: &dyn Fn() -> u64) -> Option<Self> {
        Self::of(Owner::Process, now_ns)
    }

    #[cfg(test)]
    pub(crate) fn of_own(collector: &Arc<Collector>, now_ns: &dyn Fn() -> u64) -> Option<Self> {
        Self::of(Owner::Own(Arc::clone(collector)), now_ns)
    }

    fn of(collector: Owner, now_ns: &dyn Fn() -> u64) -> Option<Self> {
        if !collector.begin_draining() {
            return None;
        }
        let scale = Scale::measure(&collector, now_ns);
        collector.set_ns_per_tick(scale.ns_per_tick());
        let cost = Cost::measure(&collector);
        Some(Self { collector, lanes: Vec::new(), scale, cost, calibrated_ns: now_ns() })
    }

    /// Ends a period: moves all samples that the threads have recorded into `batch`. `now_ns` is the present
    /// reading of the clock.
    ///
    /// # Progress
    /// Waits for one short mutex, never for a measured call. From a thread that records concurrently it takes at
    /// most one full lane.
    pub fn drain(&mut self, now_ns: u64, situation: Situation, batch: &mut Batch) {
        batch.clear();
        self.scale.refine(self.collector.now(), now_ns);
        self.collector.set_ns_per_tick(self.scale.ns_per_tick());
        if now_ns.saturating_sub(self.calibrated_ns) >= CALIBRATION_NS {
            (self.cost, self.calibrated_ns) = (Cost::measure(&self.collector), now_ns);
        }
        let mut new = Vec::new();
        self.collector.take_new(&mut new);
        self.lanes.extend(new.into_iter().map(|lane| Drained { lane, seen: None }));
        let ctx = self.collector.next_ctx();
        let (scale, cost) = (self.scale, self.cost);
        for drained in &mut self.lanes {
            drained.take(&scale, &cost, batch);
            let row = ContextRow { ctx, ended_ns: now_ns, situation, ..drained.context(batch) };
            batch.contexts.push(row);
        }
        let before = self.lanes.len();
        self.lanes.retain(|drained| !drained.lane.reader.is_over());
        self.collector.removed(before - self.lanes.len());
        self.collector.laneless.take(&mut batch.dropped);
        batch.spent_us = double(batch.samples.len() as u64) * cost.sample_ticks * scale.ns_per_tick() / 1_000.0;
    }

    /// Returns the cost of one sample for the thread that takes it, in nanoseconds, as last measured.
    pub fn sample_ns(&self) -> f64 {
        self.cost.sample_ticks * self.scale.ns_per_tick()
    }
}

impl Drained {
    fn take(&mut self, scale: &Scale, cost: &Cost, batch: &mut Batch) {
        // Takes at most one full lane: a thread that records faster than this loop reads must not hold up the
        // drain.
        for _ in 0..crate::recorder::LANE_SAMPLES {
            let Some(mut sample) = self.lane.reader.pop() else { break };
            sample.start = scale.moment_ns(sample.start);
            sample.labels[0] = scale.length_ns(sample.labels[0].saturating_sub(cost.empty_ticks));
            batch.taken[usize::from(sample.ou)][usize::from(sample.source)] += 1;
            batch.samples.push(sample);
        }
    }

    /// Returns the thread's part of its row.
    fn context(&mut self, batch: &mut Batch) -> ContextRow {
        let now = SchedStat::of(self.lane.system_thread);
        let passed = match (now, self.seen) {
            (Some(now), Some(seen)) => now.since(seen),
            _ => SchedStat::default(),
        };
        self.seen = now.or(self.seen);
        let dropped = self.lane.dropped.take(&mut batch.dropped);
        let SchedStat { cpu_ns, run_wait_ns } = passed;
        ContextRow { thread: self.lane.thread, cpu_ns, run_wait_ns, dropped, ..ContextRow::default() }
    }
}

impl Drop for Drain {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut self.lanes);
        self.collector.end_draining(lanes.into_iter().map(|drained| drained.lane).collect());
    }
}
