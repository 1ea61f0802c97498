//! `Who`: whose a directory is, read without opening it; and what is changed before a former primary's log is cut.

use std::path::Path;

use collie_base::{Lsn, Term};
use collie_env::Env;

use crate::EngineError;
use crate::control::Control;
use crate::replica::HistoryStart;

/// Whose a directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Who {
    /// The database.
    pub cluster_id: u128,
    /// The directory.
    pub node_id: u64,
    /// The newest term that it has records of.
    pub term: Term,
    /// Whether it follows another one: it opens as a replica only.
    pub follows: bool,
    /// Its lines of positions, the newest of them, oldest first.
    pub histories: Vec<HistoryStart>,
}

impl Who {
    /// Reads it; `None`: there is no database in `dir`.
    ///
    /// # Errors
    /// The control file is damaged, of a newer version, or cannot be read.
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

/// Forgets the histories of the closed database in `dir` that begin at or above `at`, where its log is about to be cut, and makes it a
/// replica's. If the log is not cut after all, the next opening as a replica finds them in it.
///
/// # Durability
/// Durable when it returns.
///
/// # Errors
/// There is no database, or the system's.
pub fn forget_histories_from(dir: &Path, at: Lsn, env: &Env) -> Result<(), EngineError> {
    let mut control = Control::read(env, dir)?.ok_or_else(|| EngineError::NotFound { path: dir.to_owned() })?;
    control.histories.forget_from(at);
    control.consistent_at = control.consistent_at.max(Control::FOLLOWS);
    control.write(env, dir)
}
