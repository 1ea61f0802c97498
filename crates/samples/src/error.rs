//! `SamplesError`: why sample files or packages could not be written, read or used.

use std::{io, path::PathBuf};

use collie_base::Remedy;
use collie_train::{SchemaHash, TrainError};
use thiserror::Error;

/// Why a call failed. The data that was on disk before is still there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SamplesError {
    /// The operating system refused `op` on `path`.
    #[error("cannot {op} {path}: {source}")]
    Io {
        /// The operation.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is not Parquet, or it is damaged.
    #[error("{path} is no whole file of samples: {what}; remove it")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file's columns differ from those of its unit in this program.
    #[error(
        "{path} has other columns than this program's unit, whose schema is {expected}; {}",
        schema_of_file(*.found)
    )]
    Columns {
        /// The file.
        path: PathBuf,
        /// The hash that the file names, if it names one.
        found: Option<SchemaHash>,
        /// The hash of the unit in this program.
        expected: SchemaHash,
    },
    /// This program does not have the operating unit, or not in that version.
    #[error("there is no operating unit {name}: docs/format.md lists them")]
    Unit {
        /// The unit that was requested.
        name: String,
    },
    /// There are no samples in the directory.
    #[error("no samples in {dir}: is it a data directory whose server collects (training.collection_policy)?")]
    NoSamples {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has samples of several nodes and the request names none.
    #[error(
        "samples of {} nodes lie together ({}): name one with --node, or fit them together with python/fleet.py",
        .nodes.len(), .nodes.join(", ")
    )]
    Nodes {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// There are no packages at the path.
    #[error("no model packages in {path}: make them with collie train fit")]
    NoPackages {
        /// The directory or file.
        path: PathBuf,
    },
    /// A package was refused.
    #[error("{path}: {source}; fit the model again")]
    Package {
        /// The file of the package.
        path: PathBuf,
        /// The reason.
        source: TrainError,
    },
}

impl SamplesError {
    /// Returns what the caller can do.
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::Io { .. } | Self::NoSamples { .. } | Self::NoPackages { .. } => Remedy::Retry,
            _ => Remedy::FixCall,
        }
    }
}

fn schema_of_file(found: Option<SchemaHash>) -> String {
    found.map_or_else(
        || "the file names none".to_owned(),
        |found| format!("the file's is {found}: use the program that wrote it"),
    )
}
