//! `TrainError`: why samples, a model or a package were refused.

use collie_base::{Remedy, codec::DecodeError};
use thiserror::Error;

use crate::SchemaHash;

/// Why a call failed. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The row has another number of features than the samples or the model.
    #[error("a row of {found} features where {expected} are expected")]
    Shape {
        /// The number of features in the row.
        found: usize,
        /// The number that is needed.
        expected: usize,
    },
    /// A number is not finite, or not positive where it must be.
    #[error("{what} is not a number that it can be")]
    Number {
        /// The number that is wrong.
        what: &'static str,
    },
    /// There are too few samples to fit, validate or bound a model.
    #[error("{rows} samples, at least {needed} are needed")]
    TooFew {
        /// The number of samples.
        rows: usize,
        /// The least number.
        needed: usize,
    },
    /// The bytes are not a package or a journal: a field is cut off or has an impossible value.
    #[error("not a model package: {what}")]
    Malformed {
        /// The field.
        what: &'static str,
    },
    /// The bytes fail their checksum.
    #[error("bad checksum of a model package: stored {stored:08x}, computed {computed:08x}")]
    Checksum {
        /// The checksum in the bytes.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The package or journal has a newer format.
    #[error("model package of format {found}, which is newer than this program")]
    Version {
        /// Its format version.
        found: u32,
    },
    /// The package is for another unit or label.
    #[error(
        "model package for unit {} label {}, not for unit {} label {}",
        .found.0, .found.1, .expected.0, .expected.1
    )]
    Unit {
        /// The unit and label of the package.
        found: (u8, u8),
        /// The wanted ones.
        expected: (u8, u8),
    },
    /// The package was trained on another feature schema.
    #[error("model package for feature schema {found}, in use is {expected}")]
    Schema {
        /// The schema of the package.
        found: SchemaHash,
        /// The schema in use.
        expected: SchemaHash,
    },
    /// The package validates worse than the model in use, by more than a tenth.
    #[error(
        "model package with an error of {:.1} %, the model in use has {:.1} %",
        .error * 100.0, .incumbent * 100.0
    )]
    Worse {
        /// Its mean absolute percentage error, 0.1 for 10 %.
        error: f64,
        /// The error of the model in use.
        incumbent: f64,
    },
}

impl TrainError {
    /// Returns what the caller can do.
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::TooFew { .. } => Remedy::Retry,
            _ => Remedy::FixCall,
        }
    }
}

impl From<DecodeError> for TrainError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed { what: error.what }
    }
}
