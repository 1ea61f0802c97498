//! Tests the sampler without the process's parts: with a collector of its own, and threads as values.

use std::sync::Arc;

use crate::collector::Collector;
use crate::context::Situation;
use crate::countdown::Countdown;
use crate::drain::{Batch, Drain};
use crate::measured::Told;
use crate::rates::RateTable;
use crate::recorder::{LANE_SAMPLES, Recorder};
use crate::sample::{FLAG_AFTER_DROPS, FLAG_INJECTED_CLOCK, Sample};
use crate::schema::FEATURES_MAX;
use crate::source::Source;

const UNIT: u8 = 9;

/// A thread of a test.
struct Thread<'a> {
    collector: &'a Collector,
    countdown: Countdown,
    recorder: Recorder,
}

impl<'a> Thread<'a> {
    fn new(collector: &'a Collector) -> Self {
        let recorder = collector.register().expect("there is room");
        Self { collector, countdown: Countdown::new(), recorder }
    }

    /// Makes one call of the unit, as a call site does; `about` is its first feature. Returns whether it was taken.
    fn call(&mut self, about: u32) -> bool {
        let base = self.collector.rates().base(UNIT);
        if base == 0 || self.countdown.passes(UNIT, base) {
            return false;
        }
        let Some(started) = self.collector.begin(&self.countdown, &mut self.recorder, UNIT, base) else { return false };
        let mut features = [0; FEATURES_MAX];
        features[0] = about;
        let told = Told { unit: UNIT, version: 1, calls: 1, lsn: 0, features, labels: &[] };
        let ended = self.collector.now();
        self.recorder.record(self.collector.sample(started, ended, &told));
        true
    }
}

fn collector() -> Arc<Collector> {
    let collector = Arc::new(Collector::new());
    collector.use_clock(|| 1);
    collector
}

fn drain(collector: &Arc<Collector>) -> Drain {
    Drain::of_own(collector, &|| 0).expect("nobody else drains")
}

fn taken(drain: &mut Drain) -> Batch {
    let mut batch = Batch::new();
    drain.drain(0, Situation::default(), &mut batch);
    batch
}

/// The counts of one class of calls.
#[derive(Clone, Copy, Default)]
struct Class {
    truth: f64,
    weighted: f64,
    plain: f64,
    variance: f64,
}

/// Returns the sum over the classes of squared differences between the estimate and the truth, in variances.
fn chi_square(classes: &[Class], estimate: impl Fn(&Class) -> f64) -> f64 {
    classes.iter().map(|class| (estimate(class) - class.truth).powi(2) / class.variance).sum()
}

/// Goal: counts weighted with 1/p are unbiased while p changes, even during a skip. Method: calls of six classes,
/// each of which meets p of its own, another p every 777 calls; the weighted counts by chi-square with six degrees
/// of freedom, of which 39 is exceeded less than once in a million. The same samples with equal weights must fail.
#[test]
fn weighted_counts_are_unbiased_while_p_changes() {
    const CALLS: usize = 400_000;
    const LIMIT: f64 = 39.0;
    let rates = [0.5_f32, 0.02, 1.0, 0.2, 0.005];
    let collector = collector();
    let (mut drain, mut thread) = (drain(&collector), Thread::new(&collector));
    let mut classes = [Class::default(); 6];
    let count = |classes: &mut [Class], batch: &Batch| {
        for sample in &batch.samples {
            let class = &mut classes[sample.features[0] as usize];
            class.weighted += 1.0 / f64::from(sample.p);
            class.plain += 1.0;
        }
    };
    for call in 0..CALLS {
        let (stretch, within) = (call / 777 % rates.len(), call % 777);
        if within == 0 {
            assert!(collector.publish(&RateTable::all(rates[stretch])));
        }
        // A skip kept from the stretch before would show in the first half.
        let number = stretch + usize::from(within >= 389);
        thread.call(u32::try_from(number).expect("a few classes"));
        let p = f64::from(rates[stretch]);
        classes[number].truth += 1.0;
        classes[number].variance += (1.0 - p) / p;
        if call % 2_000 == 0 {
            count(&mut classes, &taken(&mut drain));
        }
    }
    count(&mut classes, &taken(&mut drain));
    let found = chi_square(&classes, |class| class.weighted);
    assert!(found < LIMIT, "chi-square {found}");
    let all = |of: fn(&Class) -> f64| classes.iter().map(of).sum::<f64>();
    let alike = all(|class| class.truth) / all(|class| class.plain);
    assert!(chi_square(&classes, |class| class.plain * alike) > LIMIT, "one weight for all would have done");
}

/// Goal: a changed p applies from the next call on, whatever was left to skip. Method: from a skip that never ends
/// to every call, and off again.
#[test]
fn a_change_of_p_counts_from_the_next_call() {
    let collector = collector();
    let mut thread = Thread::new(&collector);
    assert!(!thread.call(0), "off");
    for _ in 0..3 {
        collector.publish(&RateTable::all(f32::MIN_POSITIVE));
        assert!(!thread.call(0));
        collector.publish(&RateTable::all(1.0));
        assert!(thread.call(0) && thread.call(0));
        collector.publish(&RateTable::off());
        assert!(!thread.call(0));
    }
}

/// Goal: publishing an equal table disturbs no skip. Method: the same table before each of many calls must give the
/// same samples as one table before all.
#[test]
fn the_same_table_again_changes_nothing() {
    let numbers = |publish_each: bool| {
        let collector = collector();
        let (mut drain, mut thread) = (drain(&collector), Thread::new(&collector));
        for call in 0..2_000 {
            if call == 0 || publish_each {
                collector.publish(&RateTable::all(0.1));
            }
            thread.call(call);
        }
        taken(&mut drain).samples.iter().map(|sample| sample.features[0]).collect::<Vec<_>>()
    };
    assert_eq!(numbers(true), numbers(false));
    assert!(!numbers(false).is_empty());
}

/// Goal: a source has its own p, and samples carry their source. Method: three sources at 1, 0 and 1; nested
/// scopes.
#[test]
fn sources_have_their_own_p() {
    let collector = collector();
    let (mut drain, mut thread) = (drain(&collector), Thread::new(&collector));
    let mut table = RateTable::off();
    table.set(UNIT, Source::Apply, 1.0);
    table.set(UNIT, Source::Local, 1.0);
    collector.publish(&table);
    assert!(!thread.call(0), "nobody said for whom: the primary's calibration, which is off");
    let outer = thread.countdown.work_for(Some(Source::Apply));
    assert!(thread.call(1));
    let inner = thread.countdown.work_for(Some(Source::ReplayedRead));
    assert!(!thread.call(2));
    thread.countdown.back_to(inner);
    assert!(thread.call(3));
    thread.countdown.back_to(outer);
    collector.set_default_source(Source::Local);
    assert!(thread.call(4));
    let batch = taken(&mut drain);
    let found: Vec<_> = batch.samples.iter().map(|sample| (sample.features[0], Source::of(sample.source))).collect();
    let [apply, local] = [Some(Source::Apply), Some(Source::Local)];
    assert_eq!(found, [(1, apply), (3, apply), (4, local)]);
    assert_eq!(batch.taken[usize::from(UNIT)], [2, 1, 0, 0]);
}

/// Goal: a full lane drops, counts and flags samples. Method: more calls than it holds, a drain, one more.
#[test]
fn a_full_lane_drops_and_counts() {
    let collector = collector();
    let (mut drain, mut thread) = (drain(&collector), Thread::new(&collector));
    collector.publish(&RateTable::all(1.0));
    for _ in 0..LANE_SAMPLES + 5 {
        assert!(thread.call(0));
    }
    let batch = taken(&mut drain);
    let unit = usize::from(UNIT);
    assert_eq!((batch.samples.len(), batch.dropped[unit], batch.contexts[0].dropped), (LANE_SAMPLES, 5, 5));
    assert!(
        (batch.dropped_share(UNIT) - 5.0 / (LANE_SAMPLES as f64 + 5.0)).abs() < 1e-9 && batch.dropped_share(1) == 0.0
    );
    thread.call(0);
    thread.call(0);
    let batch = taken(&mut drain);
    let flags: Vec<u8> = batch.samples.iter().map(|sample| sample.flags).collect();
    assert_eq!(flags, [FLAG_INJECTED_CLOCK | FLAG_AFTER_DROPS, FLAG_INJECTED_CLOCK]);
    assert_eq!((batch.dropped[unit], taken(&mut drain).samples.len()), (0, 0));
}

/// Goal: each sample has the row of its period, and a thread that has ended has rows until its lane is empty.
/// Method: two threads of the system, one of which ends before the drain.
#[test]
fn threads_have_rows_and_end_with_their_last_sample() {
    let collector = collector();
    let mut drain = drain(&collector);
    collector.publish(&RateTable::all(1.0));
    let mut here = Thread::new(&collector);
    here.call(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut there = Thread::new(&collector);
            for _ in 0..10 {
                there.call(2);
            }
        });
    });
    let batch = taken(&mut drain);
    let of = |about| batch.samples.iter().filter(move |sample: &&Sample| sample.features[0] == about);
    assert_eq!((of(1).count(), of(2).count(), batch.contexts.len()), (1, 10, 2));
    for sample in &batch.samples {
        let row = batch.contexts.iter().find(|row| (row.ctx, row.thread) == (sample.ctx, sample.thread));
        assert!(row.is_some(), "{sample:?} has no row in {:?}", batch.contexts);
    }
    here.call(3);
    let next = taken(&mut drain);
    assert_eq!((next.samples.len(), next.contexts.len()), (1, 1), "the other thread is gone");
    assert_eq!(next.samples[0].ctx, batch.samples[0].ctx + 1);
}

/// Goal: there is one drain at a time, and its remaining samples go to the next. Method: open a second while the
/// first exists, then after it.
#[test]
fn one_drains_at_a_time() {
    let collector = collector();
    let (mut first, mut thread) = (drain(&collector), Thread::new(&collector));
    collector.publish(&RateTable::all(1.0));
    thread.call(1);
    assert!(Drain::of_own(&collector, &|| 0).is_none());
    assert_eq!(taken(&mut first).samples.len(), 1);
    thread.call(2);
    drop(first);
    assert_eq!(taken(&mut drain(&collector)).samples.len(), 1);
}

/// Goal: elapsed time is that of the offered clock, less the cost of a measurement, which is 0 here. Method: a clock
/// that the test sets.
#[test]
fn elapsed_time_is_the_clocks() {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    static NOW: AtomicU64 = AtomicU64::new(100);
    let collector = Arc::new(Collector::new());
    collector.use_clock(|| NOW.load(Relaxed));
    let mut drain = Drain::of_own(&collector, &|| NOW.load(Relaxed)).expect("nobody else drains");
    let mut thread = Thread::new(&collector);
    assert!(collector.publish(&RateTable::all(1.0)));
    let base = collector.rates().base(UNIT);
    let begun = collector.begin(&thread.countdown, &mut thread.recorder, UNIT, base).expect("every call is taken");
    NOW.store(350, Relaxed);
    let told = Told { unit: UNIT, version: 1, calls: 1, lsn: 77, features: [0; FEATURES_MAX], labels: &[5, 6] };
    thread.recorder.record(collector.sample(begun, collector.now(), &told));
    let sample = taken(&mut drain).samples[0];
    assert_eq!((sample.start, sample.labels, sample.lsn), (100, [250, 5, 6, 0], 77));
}

/// Goal: the age of a moment is reported in microseconds, rounded up, never 0 once the length of a tick is known,
/// and 0 before. Method: set the length to a third of a nanosecond per tick.
#[test]
fn moments_are_told_in_microseconds() {
    let collector = collector();
    assert_eq!(collector.us_between(0, 9_000_000), 0, "no drain yet");
    collector.set_ns_per_tick(1.0 / 3.0);
    let ticks = [0, 1, 3_000, 3_006, 9_000_000, u64::MAX];
    assert_eq!(ticks.map(|ticks| collector.us_between(7, 7_u64.saturating_add(ticks))), [1, 1, 1, 2, 3_000, u32::MAX]);
    assert_eq!(collector.us_between(8, 7), 1, "counters of two processors may differ by a little");
}
