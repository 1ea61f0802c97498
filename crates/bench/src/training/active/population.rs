//! `Population`: the calls that samples are drawn of, and the calls by which a model is judged.

use collie_train::{
    TrainError,
    budget::Bucket,
    model::{Complexity, Fitted},
};

use crate::tpcc::Chance;

/// One call of a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Call {
    pub(super) bucket: Bucket,
    pub(super) features: Vec<f64>,
    /// What it cost, in ns.
    pub(super) label: f64,
}

/// A call, or a kind of calls, that no model is fitted to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Held {
    pub(super) features: Vec<f64>,
    /// What it cost, in ns; where that is known, what such a call costs without noise.
    pub(super) label: f64,
    /// For how many calls it stands.
    pub(super) weight: f64,
}

/// Where calls of one unit come from.
pub(super) trait Source {
    /// Draws one of its calls: each is as likely as it is frequent.
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
    /// Returns by how much `fitted` is off: absolute error by what the calls cost, both summed over calls, so that a call counts as much as it
    /// takes. Without a model all of it is.
    ///
    /// # Errors
    /// The model is of another shape.
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

/// Units that want samples.
pub(super) struct Population {
    /// What it is called in tables.
    pub(super) name: String,
    pub(super) units: Vec<Unit>,
    /// Mean errors of the units that samples are counted to, the largest first, 0.1 for 10 %.
    pub(super) errors: Vec<f64>,
}

impl Population {
    /// Returns the calls of all units together, per second.
    pub(super) fn calls_per_s(&self) -> f64 {
        self.units.iter().map(|unit| unit.calls_per_s).sum()
    }

    /// Returns the smallest error that samples are counted to.
    pub(super) fn error_min(&self) -> f64 {
        self.errors.iter().copied().fold(1.0, f64::min)
    }
}
