//! `LevelsError`: why a call on the LSM levels failed.

use std::{
    io,
    path::{Path, PathBuf},
};

use collie_base::{CfId, Lsn, Remedy};
use collie_env::is_full;
use thiserror::Error;

use crate::levels::manifest::KnownTree;
use crate::levels::{TreeId, backend::BackendError};

/// Why a call failed. Unless a variant says otherwise, what was recorded before the call still holds.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LevelsError {
    /// MANIFEST is missing or has bytes that no write of ours left there.
    #[error("{path} is damaged at byte {offset}: {what}")]
    ManifestDamaged {
        /// The file.
        path: PathBuf,
        /// Offset in it, in bytes.
        offset: u64,
        /// What was expected.
        what: &'static str,
    },
    /// A newer program wrote the file.
    #[error("{path} has format version {version}, written by a newer program: use that program")]
    NewerFormat {
        /// The file.
        path: PathBuf,
        /// Its format version.
        version: u32,
    },
    /// A file of a tree cannot be read as it was written.
    #[error("{path}: {what}; {} below {flush_lsn} affected", families(.cfs))]
    TreeDamaged {
        /// The file, or the tree's directory if the file is unknown.
        path: PathBuf,
        /// The families whose rows are in it.
        cfs: Vec<CfId>,
        /// Rows committed below this position are affected; the log has those above.
        flush_lsn: Lsn,
        /// What is wrong.
        what: String,
    },
    /// A tree is readable, but its number of keys is wrong.
    #[error(
        "{path} has {found} live keys, MANIFEST says {}; {} below {flush_lsn} affected",
        list(.expected, " or "), families(.cfs)
    )]
    LiveKeysDiffer {
        /// The tree's directory.
        path: PathBuf,
        /// The families whose rows are in it.
        cfs: Vec<CfId>,
        /// Rows committed below this position are affected; the log has those above.
        flush_lsn: Lsn,
        /// Counts of live keys that a recorded or an interrupted flush may have left.
        expected: Vec<u64>,
        /// The count found.
        found: u64,
    },
    /// The tree failed earlier, since the open; memory and log have everything. Reopening reads it again.
    #[error("tree {tree} failed earlier: {why}")]
    TreeFailed {
        /// The tree.
        tree: TreeId,
        /// The first failure.
        why: String,
    },
    /// The call contradicts what is recorded, or its arguments are not as documented: a mistake of the caller.
    #[error("invalid call on the levels: {what}")]
    InvalidCall {
        /// What is wrong.
        what: &'static str,
    },
    /// The disk is full. What the call had written was removed or is harmless; the call can be repeated.
    #[error("cannot {op} {path}: no space left")]
    NoSpace {
        /// What was being done.
        op: &'static str,
        /// The file.
        path: PathBuf,
    },
    /// The operating system refused `op` on `path`.
    #[error("cannot {op} {path}: {source}")]
    Io {
        /// What was being done.
        op: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl LevelsError {
    /// Wraps an error of the disk.
    pub(crate) fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        if is_full(&source) { Self::NoSpace { op, path } } else { Self::Io { op, path, source } }
    }

    /// Converts a backend's failure into the caller's error.
    pub(crate) fn of_tree(known: &KnownTree, error: BackendError) -> Self {
        let (cfs, flush_lsn) = (known.tree.cfs.clone(), known.tree.flush.lsn);
        match error {
            BackendError::Damaged { path, what } => Self::TreeDamaged { path, cfs, flush_lsn, what },
            BackendError::NoSpace { path } => Self::NoSpace { op: "write tables in", path },
            BackendError::Failed { path, source } => Self::Io { op: "use", path, source },
        }
    }

    /// Returns what the caller can do. Match on this, not on text.
    pub const fn remedy(&self) -> Remedy {
        match self {
            Self::ManifestDamaged { .. } | Self::TreeDamaged { .. } | Self::LiveKeysDiffer { .. } => {
                Remedy::RestoreData
            }
            Self::NewerFormat { .. } | Self::InvalidCall { .. } => Remedy::FixCall,
            Self::TreeFailed { .. } => Remedy::Reopen,
            Self::NoSpace { .. } => Remedy::FreeResources,
            Self::Io { .. } => Remedy::Retry,
        }
    }
}

fn families(cfs: &[CfId]) -> String {
    let word = if cfs.len() == 1 { "family" } else { "families" };
    format!("{word} {}", list(cfs, ", "))
}

fn list(items: &[impl ToString], between: &str) -> String {
    items.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
}
