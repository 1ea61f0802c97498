//! `Collector`: the state that the threads of a process share: the table of probabilities, the clock, and the lanes
//! that wait for a drain. There is one for the process; tests make their own.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use collie_sync::{LaneReader, Mutex, has_invariant_ticks, lane, ticks};

use crate::countdown::Countdown;
use crate::measured::{Started, Told};
use crate::rates::{Publisher, RateTable, Rates};
use crate::recorder::{Dropped, LANE_SAMPLES, Recorder};
use crate::sample::{FLAG_INJECTED_CLOCK, Sample};
use crate::schema::{LABELS_MAX, word};
use crate::source::Source;
use crate::tick_length::length_ns;

/// Most threads with a lane at one time, 384 KiB each. Samples of further threads are dropped and counted.
const LANES_MAX: usize = 1024;

/// The reader's side of one thread's lane.
#[derive(Debug)]
pub(crate) struct ThreadLane {
    pub(crate) reader: LaneReader<Sample>,
    pub(crate) dropped: Arc<Dropped>,
    pub(crate) thread: u16,
    /// The operating system's number of the thread; 0 where it has none.
    pub(crate) system_thread: u32,
}

#[derive(Debug)]
struct Control {
    publisher: Publisher,
    /// The table that was requested last.
    table: RateTable,
    /// Lanes that no drain has taken yet.
    waiting: Vec<ThreadLane>,
}

#[derive(Debug)]
pub(crate) struct Collector {
    rates: Rates,
    default_source: AtomicU8,
    /// Number of the drain period.
    ctx: AtomicU32,
    clock: OnceLock<fn() -> u64>,
    /// Length of a tick in nanoseconds, as the bits of a double; 0 before the first drain. Written by the drain
    /// only.
    ns_per_tick: AtomicU64,
    next_thread: AtomicUsize,
    lanes: AtomicUsize,
    /// Dropped samples of threads without a lane, and samples that were given up.
    pub(crate) laneless: Dropped,
    has_drain: AtomicBool,
    control: Mutex<Control>,
}

/// The collector of the process.
pub(crate) static PROCESS: Collector = Collector::new();

impl Collector {
    pub(crate) const fn new() -> Self {
        Self {
            rates: Rates::new(),
            default_source: AtomicU8::new(Source::Calibration.number()),
            ctx: AtomicU32::new(1),
            clock: OnceLock::new(),
            ns_per_tick: AtomicU64::new(0),
            next_thread: AtomicUsize::new(0),
            lanes: AtomicUsize::new(0),
            laneless: Dropped::new(),
            has_drain: AtomicBool::new(false),
            control: Mutex::new(Control { publisher: Publisher::new(), table: RateTable::off(), waiting: Vec::new() }),
        }
    }

    pub(crate) const fn rates(&self) -> &Rates {
        &self.rates
    }

    pub(crate) fn default_source(&self) -> Source {
        Source::of(self.default_source.load(Relaxed)).unwrap_or(Source::Calibration)
    }

    /// Makes threads without a scope work for `source`, and every thread draw again.
    pub(crate) fn set_default_source(&self, source: Source) {
        self.default_source.store(source.number(), Relaxed);
        let mut control = self.control.lock();
        let control = &mut *control;
        self.publish_table(&mut control.publisher, &control.table, true);
    }

    /// Publishes the table with which every thread draws from now on. Returns `false` if there is no clock, so that
    /// nothing is sampled.
    pub(crate) fn publish(&self, table: &RateTable) -> bool {
        let mut control = self.control.lock();
        let control = &mut *control;
        control.table.clone_from(table);
        self.publish_table(&mut control.publisher, &control.table, false)
    }

    fn publish_table(&self, publisher: &mut Publisher, table: &RateTable, anew: bool) -> bool {
        let has_clock = self.clock.get().is_some() || has_invariant_ticks();
        let off = RateTable::off();
        self.rates.publish(publisher, if has_clock { table } else { &off }, anew);
        has_clock
    }

    /// Uses `clock` in place of the processor's counter. The first clock stays.
    pub(crate) fn use_clock(&self, clock: fn() -> u64) {
        let _first = self.clock.set(clock);
    }

    pub(crate) fn has_injected_clock(&self) -> bool {
        self.clock.get().is_some()
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        match self.clock.get() {
            None => ticks(),
            Some(clock) => clock(),
        }
    }

    /// Sets the length of a tick.
    pub(crate) fn set_ns_per_tick(&self, ns_per_tick: f64) {
        self.ns_per_tick.store(ns_per_tick.to_bits(), Relaxed);
    }

    /// Returns the microseconds from one moment to a later one, rounded up and at least 1; 0 while the length of a
    /// tick is unknown.
    pub(crate) fn us_between(&self, from: u64, to: u64) -> u32 {
        match self.ns_per_tick.load(Relaxed) {
            0 => 0,
            bits => word(length_ns(to.saturating_sub(from), f64::from_bits(bits)).div_ceil(1_000).max(1)),
        }
    }

    /// Gives the calling thread its lane; `None` when there are too many.
    pub(crate) fn register(&self) -> Option<Recorder> {
        let taken = self.lanes.fetch_update(Relaxed, Relaxed, |lanes| (lanes < LANES_MAX).then_some(lanes + 1));
        if taken.is_err() {
            self.forget_ended();
            return None;
        }
        let (writer, reader) = lane(LANE_SAMPLES);
        let number = self.next_thread.fetch_add(1, Relaxed);
        let thread = u16::try_from(number & 0xFFFF).expect("sixteen bits");
        let dropped = Arc::new(Dropped::new());
        let waiting = ThreadLane {
            reader,
            dropped: Arc::clone(&dropped),
            thread,
            system_thread: crate::context::system_thread(),
        };
        self.control.lock().waiting.push(waiting);
        Some(Recorder::new(writer, dropped, thread, number as u64))
    }

    /// Removes the lanes of ended threads, with their samples. This makes room while there is no drain.
    fn forget_ended(&self) {
        let mut control = self.control.lock();
        let before = control.waiting.len();
        control.waiting.retain_mut(|lane| {
            while !lane.reader.is_over() {
                if lane.reader.pop().is_none() {
                    return true; // its thread still runs
                }
            }
            false
        });
        self.removed(before - control.waiting.len());
    }

    /// Subtracts removed lanes from the count.
    pub(crate) fn removed(&self, lanes: usize) {
        self.lanes.fetch_sub(lanes, Relaxed);
    }

    /// Gives the caller the right to drain, unless it is taken. Returns whether the caller has it.
    pub(crate) fn begin_draining(&self) -> bool {
        !self.has_drain.swap(true, Relaxed)
    }

    /// Takes the right back, with the lanes.
    pub(crate) fn end_draining(&self, lanes: Vec<ThreadLane>) {
        self.control.lock().waiting.extend(lanes);
        self.has_drain.store(false, Relaxed);
    }

    /// Moves the lanes of new threads to `lanes`.
    pub(crate) fn take_new(&self, lanes: &mut Vec<ThreadLane>) {
        lanes.append(&mut self.control.lock().waiting);
    }

    pub(crate) fn ctx(&self) -> u32 {
        self.ctx.load(Relaxed)
    }

    /// Begins the next period; returns the number of the one that ends.
    pub(crate) fn next_ctx(&self) -> u32 {
        self.ctx.fetch_add(1, Relaxed)
    }

    /// Decides about a call that the countdown did not pass over. The time of a sampled call begins with the
    /// return.
    pub(crate) fn begin(&self, countdown: &Countdown, recorder: &mut Recorder, unit: u8, base: u64) -> Option<Started> {
        let (p, source) = recorder.decide(&self.rates, self.default_source(), countdown, unit, base)?;
        Some(Started { ticks: self.now(), p, source: source.number() })
    }

    /// Makes the sample of a call that ended at `ended`.
    pub(crate) fn sample(&self, started: Started, ended: u64, told: &Told<'_>) -> Sample {
        let mut labels = [0; LABELS_MAX];
        labels[0] = ended.saturating_sub(started.ticks);
        labels[1..=told.labels.len()].copy_from_slice(told.labels);
        Sample {
            ou: told.unit,
            version: told.version,
            source: started.source,
            flags: if self.has_injected_clock() { FLAG_INJECTED_CLOCK } else { 0 },
            thread: 0,
            calls: told.calls,
            p: started.p,
            ctx: self.ctx(),
            start: started.ticks,
            lsn: told.lsn,
            features: told.features,
            labels,
        }
    }
}
