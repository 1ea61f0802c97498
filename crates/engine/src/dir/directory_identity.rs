//! `DirectoryIdentity`: the identity of a directory, read without opening it; and the change of it before a former
//! primary's log is cut.

use std::path::Path;

use collie_base::{Lsn, Term};
use collie_env::Env;

use crate::EngineError;
use crate::dir::control::Control;
use crate::dir::histories::HistoryStart;

/// The identity of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryIdentity {
    /// The id of the database.
    pub cluster_id: u128,
    /// The id of the node.
    pub node_id: u64,
    /// The newest term that the directory has records of.
    pub term: Term,
    /// Whether it follows another database: then it opens only as a replica.
    pub follows: bool,
    /// Its newest histories, oldest first.
    pub histories: Vec<HistoryStart>,
}

impl DirectoryIdentity {
    /// Reads the identity; returns `None` if there is no database in `dir`.
    ///
    /// # Errors
    /// If the control file is damaged, of a newer version, or cannot be read.
    pub fn read(dir: &Path, env: &Env) -> Result<Option<Self>, EngineError> {
        let who = |control: Control| Self {
            cluster_id: control.cluster,
            node_id: control.node,
            term: control.term,
            follows: control.consistent_at > Lsn::ZERO,
            histories: control.histories.iter().map(|known| (*known).into()).collect(),
        };
        Ok(Control::read(env, dir)?.map(who))
    }
}

/// Removes the histories of the closed database in `dir` that begin at or above `at`, where its log is about to be cut,
/// and makes it a replica's directory. If the log is not cut after all, the next opening as a replica finds the
/// histories in it.
///
/// # Durability
/// Durable on return.
///
/// # Errors
/// If there is no database; those of the file system.
pub fn forget_histories_from(dir: &Path, at: Lsn, env: &Env) -> Result<(), EngineError> {
    let mut control = Control::read(env, dir)?.ok_or_else(|| EngineError::NotFound { path: dir.to_owned() })?;
    control.histories.forget_from(at);
    control.consistent_at = control.consistent_at.max(Control::FOLLOWS);
    control.write(env, dir)
}
