//! `SamplesError`: why files of samples or packages could not be written, read or used.

use std::{fmt, io, path::PathBuf};

use collie_base::Remedy;
use collie_train::{SchemaHash, TrainError};

/// Why a call failed. What was on disk before is still there.
#[derive(Debug)]
#[non_exhaustive]
pub enum SamplesError {
    /// The operating system refused `op` on `path`.
    Io {
        /// What was tried.
        op: &'static str,
        /// On which file or directory.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// The file is not Parquet, or damaged.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The file has other columns than its unit has in this program.
    Columns {
        /// The file.
        path: PathBuf,
        /// The hash that it names, if it names one.
        found: Option<SchemaHash>,
        /// The hash of the unit here.
        expected: SchemaHash,
    },
    /// There is no such operating unit here, or not in that version.
    Unit {
        /// What was asked for.
        name: String,
    },
    /// There are no samples where they were looked for.
    NoSamples {
        /// The directory.
        dir: PathBuf,
    },
    /// Samples of several nodes lie together and none was named.
    Nodes {
        /// The nodes.
        nodes: Vec<String>,
    },
    /// There are no packages where they were looked for.
    NoPackages {
        /// The directory or file.
        path: PathBuf,
    },
    /// A package was refused.
    Package {
        /// Its file.
        path: PathBuf,
        /// Why.
        source: TrainError,
    },
}

impl SamplesError {
    /// Says what the caller can do.
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
            Self::Package { path, source } => write!(f, "{}: {source}; fit the model anew", path.display()),
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
