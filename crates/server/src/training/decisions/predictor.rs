//! [`Predictor`]: the interface of decisions to samples and models.

use std::fmt::Debug;

use collie_obs::UnitSchema;
use collie_train::model::Prediction;

/// A sampled call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// Its features, in the order of the unit's schema.
    pub(crate) features: Vec<f64>,
    /// The number of calls for which it stands: 1 / p.
    pub(crate) weight: f64,
}

/// The newest calls of a unit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Recent {
    /// The rate of calls per second, sampled or not.
    pub(crate) calls_per_s: f64,
    /// The sampled calls.
    pub(crate) calls: Vec<Call>,
}

/// Samples, and models of the elapsed time of calls.
pub(crate) trait Predictor: Send + Sync + Debug {
    /// Returns the newest calls of a unit; none if none were sampled.
    fn recent(&self, unit: &UnitSchema) -> Recent;

    /// Predicts the elapsed time of a call, in ns. `None`: there is no model, or the call lies outside of its training
    /// ranges.
    fn predict(&self, unit: &UnitSchema, features: &[f64]) -> Option<Prediction>;

    /// Returns the hash of the unit's model, if there is one.
    fn model_hash(&self, unit: &UnitSchema) -> Option<u64>;

    /// Returns whether the model has too few of the new samples in its intervals.
    fn is_stale(&self, unit: &UnitSchema) -> bool;
}
