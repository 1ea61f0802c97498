//! Units as a server recorded them: the older samples of its files are the calls, the newest judge.
//!
//! Calls are drawn from the kept samples, each as often as the calls that it represents, with repetition if necessary.
//! The truth is not known and the error includes noise, so samples are counted for an error slightly above that of a
//! model of all of them.

use std::path::Path;

use anyhow::Context;
use collie_obs::{UNITS, UnitSchema};
use collie_samples::{SampleDir, SampleRow, complexity_of, features_of, label_of, unit_of};
use collie_train::budget::Bucket;
use collie_train::model::{FitOptions, Sample, Samples, fit};
use collie_workload::Chance;

use super::population::{Call, Held, Population, Source, Unit};
use crate::Plan;
use crate::measures::float;
use crate::txn::count_of;

/// A unit with fewer samples is left out.
const ROWS_MIN: usize = 1_000;
/// The largest number of samples of a unit, the newest ones.
const ROWS_MAX: usize = 100_000;
/// The share of them that judges, the newest ones.
const HELD_SHARE: f64 = 0.2;
/// Samples are counted for this multiple of the error of a model of all of them.
const ABOVE_ALL: f64 = 1.1;

/// The calls of one unit, with the cumulative number of calls up to each.
struct Recorded {
    calls: Vec<Call>,
    weights_below: Vec<f64>,
}

impl Recorded {
    fn new(of: Vec<(Call, f64)>) -> Self {
        let mut sum = 0.0;
        let add = |(_, weight): &(Call, f64)| {
            sum += weight;
            sum
        };
        let weights_below = of.iter().map(add).collect();
        Self { calls: of.into_iter().map(|(call, _)| call).collect(), weights_below }
    }

    fn weight(&self) -> f64 {
        self.weights_below.last().copied().unwrap_or(0.0)
    }
}

impl Source for Recorded {
    fn call(&self, chance: &mut Chance) -> Call {
        let at = chance.share() * self.weight();
        let place = self.weights_below.partition_point(|below| *below < at);
        self.calls[place.min(self.calls.len() - 1)].clone()
    }
}

/// Returns the number of calls that a sample represents, without the limit that a fit applies.
fn calls_of(row: &SampleRow) -> f64 {
    let weight = f64::from(row.sample.p).recip() * f64::from(row.sample.calls.max(1));
    if weight.is_finite() && weight > 0.0 { weight } else { 1.0 }
}

fn unit(schema: &'static UnitSchema, mut rows: Vec<SampleRow>) -> Unit {
    rows.sort_by_key(|row| row.time_us);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a number of rows")]
    let held = rows.split_off((count_of(rows.len()) * (1.0 - HELD_SHARE)) as usize);
    let call = |row: &SampleRow| Call {
        bucket: Bucket::of(&row.sample.features),
        features: features_of(schema, row),
        label: label_of(row, 0),
    };
    let times = rows.first().map_or(0, |row| row.time_us)..rows.last().map_or(0, |row| row.time_us);
    let seconds = (float(times.end - times.start) / 1e6).max(1.0);
    let source = Recorded::new(rows.iter().map(|row| (call(row), calls_of(row))).collect());
    let judge =
        |row: &SampleRow| Held { features: features_of(schema, row), label: label_of(row, 0), weight: calls_of(row) };
    Unit {
        name: schema.name.to_owned(),
        calls_per_s: source.weight() / seconds,
        feature_count: schema.features.len(),
        complexity: complexity_of(schema, 0),
        source: Box::new(source),
        held: held.iter().map(judge).collect(),
    }
}

/// Returns the error of a model of all calls of a unit that do not judge.
fn error_of_all(schema: &UnitSchema, rows: &[SampleRow], unit: &Unit) -> anyhow::Result<f64> {
    let mut samples = Samples::new(unit.feature_count, unit.complexity)?;
    for row in rows {
        let features = features_of(schema, row);
        samples.push(Sample {
            features: &features,
            label: label_of(row, 0),
            weight: calls_of(row),
            time_us: row.time_us,
        })?;
    }
    Ok(unit.error(Some(&fit(&samples, &FitOptions::default())?))?)
}

/// Reads the newest samples of every unit with enough of them, from the files below `data`.
///
/// # Errors
/// The files cannot be listed, or every unit has too few samples.
pub(super) fn population(plan: &Plan, data: &Path) -> anyhow::Result<Population> {
    let dir = SampleDir::new(plan.env.files.clone(), data);
    let names = dir.list().with_context(|| format!("no samples in {}", data.display()))?;
    let (mut units, mut errors) = (Vec::new(), Vec::new());
    for schema in UNITS {
        let mut rows = Vec::new();
        for name in names.iter().rev().filter(|name| name.unit == schema.id) {
            // A file of another version, or a damaged one, is skipped, as in a fit.
            let is_known = unit_of(name.unit, name.version).is_some();
            if let (true, Ok(file)) = (is_known && rows.len() < ROWS_MAX, dir.read(name)) {
                rows.extend(file.rows);
            }
        }
        if rows.len() < ROWS_MIN {
            continue;
        }
        plan.say(&format!("active: {} samples of {}", rows.len(), schema.name));
        let unit = unit(schema, rows.clone());
        rows.sort_by_key(|row| row.time_us);
        rows.truncate(rows.len() - unit.held.len());
        errors.push(error_of_all(schema, &rows, &unit)?);
        units.push(unit);
    }
    anyhow::ensure!(!units.is_empty(), "no unit has {ROWS_MIN} samples in {}", data.display());
    let error = ABOVE_ALL * errors.iter().sum::<f64>() / count_of(errors.len());
    Ok(Population { name: format!("{} recorded units", units.len()), units, errors: vec![error] })
}

#[cfg(test)]
mod tests {
    use collie_env::Env;
    use collie_samples::{Origin, SampleSink, SinkOptions, sample_of_unit};

    use super::*;
    use crate::Pace;
    use crate::training::active::learn::{Arm, learn};

    const DATA: &str = "/data";
    const ROWS: u32 = 2_000;

    /// Returns a plan with a disk of scans with known cost, one in ten of them taken with a tenth of the probability,
    /// and a few log flushes.
    fn recorded() -> Plan {
        let (env, _disk) = Env::simulated(7);
        let plan = Plan { env, ..Plan::new(Path::new(DATA), Pace::Touch) };
        let mut sink =
            SampleSink::open(&plan.env, Path::new(DATA), Origin::unknown("n1"), SinkOptions::default()).unwrap();
        let scan = |number: u32| {
            let rows = 1 << (number % 12);
            let mut sample = sample_of_unit(13, 1_000 + 50 * u64::from(rows));
            sample.features = [rows, rows, 8 * rows, 0, 0, 0, 0, 0];
            sample.p = if number.is_multiple_of(10) { 0.05 } else { 0.5 };
            sample
        };
        sink.add(&(0..ROWS).map(scan).collect::<Vec<_>>());
        sink.add(&vec![sample_of_unit(2, 9_000); 10]);
        sink.finish();
        plan
    }

    /// Goal: units with enough samples are read, each call as often as the calls that it represents, and the newest
    /// judge. Method: files with 2,000 scans, a tenth of which represent ten times as many calls, and ten flushes;
    /// 20,000 draws.
    #[test]
    fn recorded_calls_are_drawn_as_often_as_they_stand_for() {
        let population = population(&recorded(), Path::new(DATA)).unwrap();
        let [scan] = &population.units[..] else { panic!("flushes are too few") };
        assert_eq!((scan.name.as_str(), scan.held.len(), scan.feature_count), ("SCAN", 400, 5));
        assert_eq!(population.name, "1 recorded units");
        let calls = 1_440.0 * 2.0 + 160.0 * 20.0;
        assert!((scan.calls_per_s - calls).abs() < 1e-3 * calls, "{}", scan.calls_per_s);
        // Every tenth has the lower probability; its number is even, so its rows are an even power of two.
        let mut chance = Chance::new(5, 0);
        let drawn: Vec<Call> = (0..20_000).map(|_| scan.source.call(&mut chance)).collect();
        let is_even = |rows: f64| [1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0].contains(&rows);
        let part = count_of(drawn.iter().filter(|call| is_even(call.features[0])).count()) / 20_000.0;
        let expected = (160.0 * 20.0 + (800.0 - 160.0) * 2.0) / calls;
        assert!((part - expected).abs() < 0.02, "{part} instead of {expected}");
        assert!(drawn.iter().all(|call| (call.label - 1_000.0 - 50.0 * call.features[0]).abs() < 1e-6));
    }

    /// Goal: an error is reached with recorded units too, and it is slightly above that of all samples. Method: a few
    /// stages of the arm that a replica uses.
    #[test]
    fn recorded_units_are_learned() {
        let population = population(&recorded(), Path::new(DATA)).unwrap();
        assert!((0.0..0.2).contains(&population.error_min()), "{:?}", population.errors);
        let steps = learn(&population, Arm::Buckets, 1, 200.0, 3_200.0).unwrap();
        let (first, last) = (steps[0], *steps.last().unwrap());
        assert!(last.error <= first.error && last.error < 0.3, "{steps:?}");
    }

    /// Goal: a lack of samples is reported. Method: a directory without files.
    #[test]
    fn a_directory_without_samples_is_refused() {
        let (env, _disk) = Env::simulated(7);
        let plan = Plan { env, ..Plan::new(Path::new(DATA), Pace::Touch) };
        let refused = population(&plan, Path::new(DATA)).err().unwrap();
        assert!(format!("{refused:#}").contains("no unit has 1000 samples"), "{refused:#}");
    }
}
