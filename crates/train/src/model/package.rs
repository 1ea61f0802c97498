//! `Package`: a fitted model with all the facts by which another node decides whether to use it.

use super::{Fitted, Prediction};
use crate::{LabelId, SchemaHash, TrainError, UnitId, numbers::fnv64};

/// The factor by which a package's validation error may exceed that of the model in use.
const WORSE_MAX: f64 = 1.1;

/// A model that can be loaded elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Package {
    /// The unit that it predicts.
    pub unit: UnitId,
    /// The unit's label.
    pub label: LabelId,
    /// The version of the unit's schema.
    pub schema_version: u8,
    /// The hash of the schema.
    pub schema: SchemaHash,
    /// The tags of the machines whose samples were used.
    pub hardware: Vec<u64>,
    /// The model.
    pub fitted: Fitted,
}

/// The conditions under which a package is loaded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    /// The unit.
    pub unit: UnitId,
    /// The label.
    pub label: LabelId,
    /// The hash of the unit's schema in this program.
    pub schema: SchemaHash,
    /// The error of the model in use on the same kind of samples, if there is a model in use.
    pub incumbent_error: Option<f64>,
}

impl Package {
    /// Returns the hash of the content, by which the journal of decisions names the package.
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

    /// Checks whether the package may be loaded in place of the model in use (RT11).
    ///
    /// # Errors
    /// [`TrainError::Unit`] or [`TrainError::Schema`] if the package is for another one; [`TrainError::Worse`] if its
    /// validation error is more than 1.1 times that of the model in use.
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
