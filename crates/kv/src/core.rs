//! `Core`: the state that the handles of an open database, its snapshots and its transactions share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::HistoryId;
use collie_engine::{Db, EngineError, Session, Token};

use crate::sessions::{Lent, Sessions};
use crate::{Receipt, WriteOptions};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Core {
    /// Declared before the engine, so that cached sessions are dropped first.
    pub(crate) sessions: Sessions,
    pub(crate) engine: Db,
    /// The history in which commits are made.
    history: HistoryId,
    savepoints: AtomicU64,
}

impl Core {
    pub(crate) fn new(engine: Db, history: HistoryId) -> Self {
        Self { sessions: Sessions::default(), engine, history, savepoints: AtomicU64::new(0) }
    }

    /// Takes a session for one call.
    pub(crate) fn lend(&self) -> Result<Lent<'_>, EngineError> {
        self.sessions.lend(&self.engine)
    }

    /// Takes a session until [`Core::give_back`].
    pub(crate) fn take_session(&self) -> Result<Session, EngineError> {
        self.sessions.take(&self.engine)
    }

    pub(crate) fn give_back(&self, session: Session) {
        self.sessions.give_back(session);
    }

    /// Returns a number that no other savepoint of this database has.
    pub(crate) fn next_savepoint(&self) -> u64 {
        self.savepoints.fetch_add(1, Relaxed)
    }

    /// Returns the receipt of a write. An unlogged write is on disk only once its family was flushed.
    pub(crate) fn receipt(&self, receipt: collie_engine::Receipt, options: WriteOptions) -> Receipt {
        let durable = receipt.csn.is_none_or(|csn| !self.is_unlogged(options) && self.engine.durable() > csn);
        Receipt { token: receipt.end.map(|lsn| Token { history: self.history, lsn }), durable }
    }

    /// Returns whether a write with these options leaves only a marker in the log.
    pub(crate) fn is_unlogged(&self, options: WriteOptions) -> bool {
        options.disable_wal || !self.engine.keeps_log()
    }

    /// Fails if the options contradict each other or the state of the database.
    pub(crate) fn check_options(&self, options: WriteOptions) -> Result<(), EngineError> {
        options.check()?;
        if options.sync {
            self.engine.check_log()?;
        }
        if self.is_unlogged(options) { self.engine.check_unlogged(&[]) } else { Ok(()) }
    }
}
