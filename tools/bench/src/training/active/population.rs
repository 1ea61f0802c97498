//! `Population`: the calls that samples are drawn from, and the calls that judge a model.

use collie_train::{
    TrainError,
    budget::Bucket,
    model::{Complexity, Fitted},
};
use collie_workload::Chance;

/// One call of a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) bucket: Bucket,
    pub(super) features: Vec<f64>,
    /// The cost in ns.
    pub(super) label: f64,
}

/// A call, or a kind of calls, that judges models and that none is fitted to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) features: Vec<f64>,
    /// The cost in ns; without noise if that is known.
    pub(super) label: f64,
    /// The number of calls that it represents.
    pub(super) weight: f64,
}

/// A source of the calls of one unit.
pub(super) trait Source {
    /// Draws one of its calls with the probability of its frequency.
    fn call(&self, chance: &mut Chance) -> Call;
}

/// An operating unit with its calls.
pub(super) struct Unit {
    pub(super) name: String,
    pub(super) calls_per_s: f64,
    pub(super) feature_count: usize,
    pub(super) complexity: Complexity,
    pub(super) source: Box<dyn Source>,
    pub(super) held: Vec<Held>,
}

impl Unit {
    /// Returns the error of `fitted`: the absolute error relative to the cost, both summed over calls, so that a call
    /// counts in proportion to its cost. Without a model the error is 1.
    ///
    /// # Errors
    /// The model has another shape.
    pub(super) fn error(&self, fitted: Option<&Fitted>) -> Result<f64, TrainError> {
        let Some(fitted) = fitted else { return Ok(1.0) };
        let (mut off, mut all) = (0.0, 0.0);
        for held in &self.held {
            off += held.weight * (fitted.predict(&held.features)?.value - held.label).abs();
            all += held.weight * held.label;
        }
        Ok(if all > 0.0 { off / all } else { 1.0 })
    }
}

/// A set of units to sample.
pub(super) struct Population {
    /// The name in tables.
    pub(super) name: String,
    pub(super) units: Vec<Unit>,
    /// The mean errors of the units for which samples are counted, the largest first, 0.1 for 10 %.
    pub(super) errors: Vec<f64>,
}

impl Population {
    /// Returns the calls of all units together, per second.
    pub(super) fn calls_per_s(&self) -> f64 {
        self.units.iter().map(|unit| unit.calls_per_s).sum()
    }

    /// Returns the smallest error for which samples are counted.
    pub(super) fn error_min(&self) -> f64 {
        self.errors.iter().copied().fold(1.0, f64::min)
    }
}
