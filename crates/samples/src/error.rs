//! `SamplesError`: why sample files or packages could not be written, read or used.

use std::{fmt, io, path::PathBuf};

use collie_base::Remedy;
use collie_train::{SchemaHash, TrainError};

/// Why a call failed. The data that was on disk before is still there.
#[derive(Debug)]
#[non_exhaustive]
pub enum SamplesError {
    /// The operating system refused `op` on `path`.
    Io {
        /// The operation.
        op: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// The file is not Parquet, or it is damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file's columns differ from those of its unit in this program.
    Columns {
        /// The file.
        path: PathBuf,
        /// The hash that the file names, if it names one.
        found: Option<SchemaHash>,
        /// The hash of the unit in this program.
        expected: SchemaHash,
    },
    /// This program does not have the operating unit, or not in that version.
    Unit {
        /// The unit that was requested.
        name: String,
    },
    /// There are no samples in the directory.
    NoSamples {
        /// The directory.
        dir: PathBuf,
    },
    /// The directory has samples of several nodes and the request names none.
    Nodes {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// There are no packages at the path.
    NoPackages {
        /// The directory or file.
        path: PathBuf,
    },
    /// A package was refused.
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

impl fmt::Display for SamplesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { op, path, source } => write!(f, "cannot {op} {}: {source}", path.display()),
            Self::Damaged { path, what } => {
                write!(f, "{} is no whole file of samples: {what}; remove it", path.display())
            }
            Self::Columns { path, found, expected } => {
                write!(f, "{} has other columns than this program's unit, whose schema is {expected}", path.display())?;
                match found {
                    Some(found) => write!(f, "; the file's is {found}: use the program that wrote it"),
                    None => write!(f, "; the file names none"),
                }
            }
            Self::Unit { name } => write!(f, "there is no operating unit {name}: docs/format.md lists them"),
            Self::NoSamples { dir } => write!(
                f,
                "no samples in {}: is it a data directory whose server collects (training.collection_policy)?",
                dir.display()
            ),
            Self::Nodes { nodes } => write!(
                f,
                "samples of {} nodes lie together ({}): name one with --node, or fit them together with python/fleet.py",
                nodes.len(),
                nodes.join(", ")
            ),
            Self::NoPackages { path } => {
                write!(f, "no model packages in {}: make them with collie train fit", path.display())
            }
            Self::Package { path, source } => write!(f, "{}: {source}; fit the model again", path.display()),
        }
    }
}

impl std::error::Error for SamplesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            Self::Package { source, .. } => Some(source),
            _ => None,
        }
    }
}
