//! `TrainError`: why samples, a model or a package were refused.

use std::fmt;

use collie_base::{Remedy, codec::DecodeError};

use crate::SchemaHash;

/// Why a call failed. Nothing was changed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TrainError {
    /// The row has another number of features than the samples or the model.
    Shape {
        /// The number of features in the row.
        found: usize,
        /// The number that is needed.
        expected: usize,
    },
    /// A number is not finite, or not positive where it must be.
    Number {
        /// The number that is wrong.
        what: &'static str,
    },
    /// There are too few samples to fit, validate or bound a model.
    TooFew {
        /// The number of samples.
        rows: usize,
        /// The least number.
        needed: usize,
    },
    /// The bytes are not a package or a journal: a field is cut off or has an impossible value.
    Malformed {
        /// The field.
        what: &'static str,
    },
    /// The bytes fail their checksum.
    Checksum {
        /// The checksum in the bytes.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// The package or journal has a newer format.
    Version {
        /// Its format version.
        found: u32,
    },
    /// The package is for another unit or label.
    Unit {
        /// The unit and label of the package.
        found: (u8, u8),
        /// The wanted ones.
        expected: (u8, u8),
    },
    /// The package was trained on another feature schema.
    Schema {
        /// The schema of the package.
        found: SchemaHash,
        /// The schema in use.
        expected: SchemaHash,
    },
    /// The package validates worse than the model in use, by more than a tenth.
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

impl fmt::Display for TrainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shape { found, expected } => write!(f, "a row of {found} features where {expected} are expected"),
            Self::Number { what } => write!(f, "{what} is not a number that it can be"),
            Self::TooFew { rows, needed } => write!(f, "{rows} samples, at least {needed} are needed"),
            Self::Malformed { what } => write!(f, "not a model package: {what}"),
            Self::Checksum { stored, computed } => {
                write!(f, "bad checksum of a model package: stored {stored:08x}, computed {computed:08x}")
            }
            Self::Version { found } => write!(f, "model package of format {found}, which is newer than this program"),
            Self::Unit { found, expected } => write!(
                f,
                "model package for unit {} label {}, not for unit {} label {}",
                found.0, found.1, expected.0, expected.1
            ),
            Self::Schema { found, expected } => {
                write!(f, "model package for feature schema {found}, in use is {expected}")
            }
            Self::Worse { error, incumbent } => write!(
                f,
                "model package with an error of {:.1} %, the model in use has {:.1} %",
                error * 100.0,
                incumbent * 100.0
            ),
        }
    }
}

impl std::error::Error for TrainError {}

impl From<DecodeError> for TrainError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed { what: error.what }
    }
}
