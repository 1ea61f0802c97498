//! The part of [`Training`] for decisions about settings: the newest samples, and the predictions of the models in use.

use collie_obs::UnitSchema;
use collie_samples::{SampleRow, features_of, weight_of};
use collie_train::{LabelId, UnitId, model::Prediction};

use super::Training;
use crate::training::decisions::{Call, Predictor, Recent};

/// The label on which decisions are based: the elapsed time of a call, the first label of every unit.
const TIME: LabelId = LabelId::new(0);

/// Samples older than an hour say nothing about the present work of a node. In a shorter time there would be too few
/// flushes to the LSM levels, which are rare.
const AGE_US_MAX: u64 = 3_600_000_000;

/// Returns the calls of `rows`, which are samples of `unit`, oldest first.
///
/// Calls are counted from the time of the oldest sample on, without those at that time, since others of the same time
/// may be dropped already. Time in which a replica samples nothing (a control window, a halt) counts as time without
/// calls, for all its units alike.
fn recent(unit: &UnitSchema, rows: &[SampleRow], now_us: u64) -> Recent {
    let oldest_us = now_us.saturating_sub(AGE_US_MAX);
    let begin = rows.partition_point(|row| row.time_us < oldest_us);
    let rows = &rows[begin..];
    let since_us = if begin > 0 { oldest_us } else { rows.first().map_or(now_us, |row| row.time_us) };
    let later = rows.iter().filter(|row| row.time_us > since_us);
    // Each stands for 1 / p calls, however many: cut weights would lose some.
    let calls: f64 = later.map(|row| f64::from(row.sample.calls.max(1)) / f64::from(row.sample.p)).sum();
    let seconds = now_us.saturating_sub(since_us) as f64 / 1e6;
    let call = |row: &SampleRow| Call {
        features: features_of(unit, row),
        weight: weight_of(row) * f64::from(row.sample.calls.max(1)),
    };
    Recent {
        calls_per_s: if seconds > 0.0 && calls.is_finite() { calls / seconds } else { 0.0 },
        calls: rows.iter().filter(|row| row.sample.version == unit.version).map(call).collect(),
    }
}

impl Predictor for Training {
    fn recent(&self, unit: &UnitSchema) -> Recent {
        let rows = self.collection.recent.of(UnitId::new(unit.id));
        recent(unit, &rows, u64::try_from(self.env.clock.wall_us()).unwrap_or(0))
    }

    fn predict(&self, unit: &UnitSchema, features: &[f64]) -> Option<Prediction> {
        let models = self.collection.models.loaded();
        let (value, low, high) = models.predict(UnitId::new(unit.id), TIME, features)?;
        Some(Prediction { value, low, high, clamped: false })
    }

    fn model_hash(&self, unit: &UnitSchema) -> Option<u64> {
        self.collection.models.loaded().hash(UnitId::new(unit.id), TIME)
    }

    fn is_stale(&self, unit: &UnitSchema) -> bool {
        let (_, _, is_stale) = self.collection.judge.of(UnitId::new(unit.id), TIME);
        is_stale
    }
}

#[cfg(test)]
mod tests;
