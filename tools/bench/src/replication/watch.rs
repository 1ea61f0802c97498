//! `watch`: measures how far a replica is behind during writes, in two ways.
//!
//! # Invariants
//! - W1. By the primary's clock: the primary's own report on its replica, read every 20 ms. For Collie, the mean delay
//!   of the commits measured since the last reading, or the age of the oldest one that is not visible yet if none
//!   became visible. PostgreSQL reports the value from the last reply, and nothing once it is idle. A sample without a
//!   delay counts for bytes only.
//! - W2. As a client sees it: a row is committed on the primary, and from the reply on it is read on the replica
//!   repeatedly until it is seen. Measured on one clock, and in the same way for both products. It includes a round
//!   trip to the replica, and the time for which a reader waits for a processor.
//! - W3. A sample belongs to the moment at which its row was committed; only samples within the measured time count.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;
use collie_workload::sleep_until;

use super::PairSettings;
use super::pair::{Behind, Pair, Totals};

/// Time between two samples.
const EVERY: Duration = Duration::from_millis(20);
/// The limit for a row to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// Reads the row that is watched.
pub(super) const WATCHED: &str = "SELECT n FROM watched WHERE id = 1";
/// Reads that determine the floor of a read.
const LOOKS: u32 = 200;

/// One sample of both measurements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// When its row was committed, on the benchmark's clock.
    pub(crate) at_ns: u64,
    /// The primary's report just before (W1).
    pub(crate) behind: Option<Behind>,
    /// The time from the reply to the commit until the row was seen on the replica (W2), in microseconds.
    pub(crate) seen_us: f64,
}

/// Creates the watched row, and waits until the replica has it. Returns the median time of one read of it, in
/// microseconds: the lower bound of [`Sample::seen_us`].
///
/// # Errors
/// Those of the driver.
pub(crate) fn prepare(pair: &Pair, settings: &PairSettings) -> anyhow::Result<f64> {
    pair.connect()?.batch_execute(
        "CREATE TABLE IF NOT EXISTS watched (id int PRIMARY KEY, n bigint NOT NULL); \
         INSERT INTO watched VALUES (1, 0) ON CONFLICT DO NOTHING",
    )?;
    pair.until_even(settings)?;
    let (mut look, clock) = (pair.look(WATCHED)?, &settings.plan.env.clock);
    let mut all = Vec::new();
    for _ in 0..LOOKS {
        let begun = clock.now_ns();
        let _seen = look.number()?;
        all.push(crate::measures::micros(clock.now_ns() - begun));
    }
    Ok(crate::measures::median(&all))
}

/// Takes samples until `stop`, at least one.
///
/// # Errors
/// Those of the driver; a row that does not arrive within a minute.
pub(crate) fn watch(pair: &Pair, settings: &PairSettings, stop: &AtomicBool) -> anyhow::Result<Vec<Sample>> {
    let clock = &*settings.plan.env.clock;
    let (mut primary, mut look) = (pair.connect()?, pair.look(WATCHED)?);
    let write = primary.prepare("UPDATE watched SET n = n + 1 WHERE id = 1 RETURNING n")?;
    let (mut samples, mut totals) = (Vec::new(), Totals::default());
    // Excludes commits that were measured before.
    pair.behind(&mut primary, &mut totals)?;
    while samples.is_empty() || !stop.load(Relaxed) {
        let due_ns = clock.now_ns() + u64::try_from(EVERY.as_nanos())?;
        let behind = pair.behind(&mut primary, &mut totals)?;
        let wanted: i64 = primary.query_one(&write, &[])?.get(0);
        let at_ns = clock.now_ns();
        let seen_ns = loop {
            let seen = look.number()?;
            let now = clock.now_ns();
            if seen >= wanted {
                break now - at_ns;
            }
            let waited = u128::from(now - at_ns);
            anyhow::ensure!(waited < PATIENCE.as_nanos(), "{}: a row has not arrived in a minute", pair.name());
        };
        samples.push(Sample { at_ns, behind, seen_us: crate::measures::micros(seen_ns) });
        sleep_until(clock, due_ns);
    }
    Ok(samples)
}

/// Runs `load` while samples are taken; returns its result and all samples.
///
/// # Errors
/// That of the load first; those of [`watch`].
pub(crate) fn watched<T>(
    pair: &Pair,
    settings: &PairSettings,
    load: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(T, Vec<Sample>)> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(pair, settings, &stop));
        let done = load();
        stop.store(true, Relaxed);
        let samples = watching.join().ok().context("the watcher panicked")?;
        Ok((done?, samples?))
    })
}

/// The statistics of some samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    pub(crate) mean: f64,
    pub(crate) sd: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

impl Summary {
    /// Summarizes values in any order; `None` if there are none.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let (&max, count) = (sorted.last()?, crate::txn::count_of(sorted.len()));
        let mean = sorted.iter().sum::<f64>() / count;
        let sd = (sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        let at = |per_mille: usize| sorted[(sorted.len() * per_mille).div_ceil(1000).max(1) - 1];
        Some(Self { mean, sd, p50: at(500), p99: at(990), max })
    }
}

/// Returns the delays of the samples by the primary's clock, where it reports them.
pub(crate) fn by_clock(samples: &[Sample]) -> impl Iterator<Item = f64> {
    samples.iter().filter_map(|sample| sample.behind.and_then(|behind| behind.us))
}

/// Returns by how much the mean delay of the last third of the samples, as a client sees it, exceeds that of the first,
/// in microseconds.
pub(crate) fn growth_us(samples: &[Sample]) -> f64 {
    let third = (samples.len() / 3).max(1).min(samples.len());
    let mean = |part: &[Sample]| {
        part.iter().map(|sample| sample.seen_us).sum::<f64>() / crate::txn::count_of(part.len().max(1))
    };
    mean(&samples[samples.len() - third..]) - mean(&samples[..third])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(seen_us: impl IntoIterator<Item = f64>) -> Vec<Sample> {
        seen_us.into_iter().map(|seen_us| Sample { at_ns: 0, behind: None, seen_us }).collect()
    }

    /// Goal: mean, deviation and percentiles are those of the list. Method: 1 to 1000 in another order; one value;
    /// none.
    #[test]
    fn summary_is_that_of_the_list() {
        let all = Summary::of((1..=1000).rev().map(f64::from)).unwrap();
        assert_eq!((all.mean, all.p50, all.p99, all.max), (500.5, 500.0, 990.0, 1000.0));
        assert!((all.sd - 288.675).abs() < 0.001, "{}", all.sd);
        let one = Summary { mean: 3.0, sd: 0.0, p50: 3.0, p99: 3.0, max: 3.0 };
        assert_eq!((Summary::of([3.0]), Summary::of([])), (Some(one), None));
    }

    /// Goal: a growing delay is distinguished from a long one and from a spike. Method: constant delays, a ramp, one
    /// spike in the middle; none.
    #[test]
    fn growth_is_told_from_length() {
        assert_eq!(growth_us(&samples([50_000.0; 30])), 0.0);
        assert!((growth_us(&samples((0..30).map(|at| f64::from(at) * 100.0))) - 2_000.0).abs() < 1e-6);
        let spike = (0..30).map(|at| if at == 15 { 1e6 } else { 10.0 });
        assert_eq!(growth_us(&samples(spike)), 0.0);
        assert_eq!(growth_us(&[]), 0.0);
    }

    /// Goal: a missing report of the primary does not count as a delay of 0. Method: one sample with a delay, two
    /// without.
    #[test]
    fn silence_is_no_delay() {
        let mut all = samples([1.0, 2.0, 3.0]);
        all[0].behind = Some(Behind { us: Some(7.0), bytes: 1.0 });
        all[1].behind = Some(Behind { us: None, bytes: 1.0 });
        assert_eq!(by_clock(&all).collect::<Vec<_>>(), [7.0]);
    }
}
