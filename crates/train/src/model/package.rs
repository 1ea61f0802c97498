//! `Package`: a fitted model with all that a stranger needs to decide whether to use it.

use super::{Fitted, Prediction};
use crate::{LabelId, SchemaHash, TrainError, UnitId, numbers::fnv64};

/// A package may validate worse than the model in use by this factor.
const WORSE_MAX: f64 = 1.1;

/// A model that can be loaded elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// The unit that it predicts.
    pub unit: UnitId,
    /// Which of the unit's labels.
    pub label: LabelId,
    /// Version of the unit's schema.
    pub schema_version: u8,
    /// The schema's hash.
    pub schema: SchemaHash,
    /// Tags of the machines whose samples are in it.
    pub hardware: Vec<u64>,
    /// The model.
    pub fitted: Fitted,
}

/// What a package has to be to be loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The unit.
    pub unit: UnitId,
    /// The label.
    pub label: LabelId,
    /// Hash of the unit's schema here.
    pub schema: SchemaHash,
    /// Error of the model in use on the same kind of samples, if there is one.
    pub incumbent_error: Option<f64>,
}

impl Package {
    /// Names the package by its content; the journal of decisions uses it.
    pub fn hash(&self) -> u64 {
        fnv64(&self.body())
    }

    /// Predicts the label of a call; see [`Fitted::predict`].
    ///
    /// # Errors
    /// [`TrainError::Shape`] for another number of features.
    pub fn predict(&self, features: &[f64]) -> Result<Prediction, TrainError> {
        self.fitted.predict(features)
    }

    /// Says whether the package may be loaded in place of the model in use (RT11).
    ///
    /// # Errors
    /// [`TrainError::Unit`] or [`TrainError::Schema`] when it is for something else; [`TrainError::Worse`] when its validation error is more than
    /// 1.1 times that of the model in use.
    pub fn admit(&self, wanted: &Wanted) -> Result<(), TrainError> {
        let ids = |unit: UnitId, label: LabelId| (unit.get(), label.get());
        let (found, expected) = (ids(self.unit, self.label), ids(wanted.unit, wanted.label));
        if found != expected {
            return Err(TrainError::Unit { found, expected });
        }
        if self.schema != wanted.schema {
            return Err(TrainError::Schema { found: self.schema, expected: wanted.schema });
        }
        let error = self.fitted.error();
        match wanted.incumbent_error {
            Some(incumbent) if error > WORSE_MAX * incumbent => Err(TrainError::Worse { error, incumbent }),
            _ => Ok(()),
        }
    }
}
