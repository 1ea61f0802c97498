//! [`Predictor`]: what decisions ask of samples and models.

use std::fmt::Debug;

use collie_obs::UnitSchema;
use collie_train::model::Prediction;

/// A call that was sampled.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Its features, in the order of the unit's schema.
    pub(crate) features: Vec<f64>,
    /// How many calls it stands for: 1 / p.
    pub(crate) weight: f64,
}

/// The newest calls of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recent {
    /// How many there are in a second, sampled or not.
    pub(crate) calls_per_s: f64,
    /// Those that were sampled.
    pub(crate) calls: Vec<Call>,
}

/// Samples, and models of the time that calls take.
pub(crate) trait Predictor: Send + Sync + Debug {
    /// Returns the newest calls of a unit; none where none were sampled.
    fn recent(&self, unit: &UnitSchema) -> Recent;

    /// Predicts how long a call takes, in ns. `None`: there is no model, or the call lies outside of what it has seen.
    fn predict(&self, unit: &UnitSchema, features: &[f64]) -> Option<Prediction>;

    /// Returns the hash of the unit's model, if there is one.
    fn model_hash(&self, unit: &UnitSchema) -> Option<u64>;

    /// Returns whether the model holds too few of the new samples in its intervals.
    fn is_stale(&self, unit: &UnitSchema) -> bool;
}
