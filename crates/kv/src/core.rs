//! `Core`: the state that the handles of an open database, its snapshots and its transactions share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::HistoryId;
use collie_engine::{Db, Session, Token};

use crate::sessions::{Lent, Sessions};
use crate::{Durability, Error, Receipt, WriteOptions};

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
    pub(crate) fn lend(&self) -> Result<Lent<'_>, Error> {
        Ok(self.sessions.lend(&self.engine)?)
    }

    /// Takes a session until [`Core::give_back`].
    pub(crate) fn take_session(&self) -> Result<Session, Error> {
        Ok(self.sessions.take(&self.engine)?)
    }

    pub(crate) fn give_back(&self, session: Session) {
        self.sessions.give_back(session);
    }

    /// Returns a number that no other savepoint of this database has.
    pub(crate) fn next_savepoint(&self) -> u64 {
        self.savepoints.fetch_add(1, Relaxed)
    }

    /// Returns the receipt of a write. `is_unconfirmed` says whether it did without the replicas that it asked for.
    pub(crate) fn receipt(
        &self,
        receipt: collie_engine::Receipt,
        options: WriteOptions,
        is_unconfirmed: bool,
    ) -> Receipt {
        let is_on_disk = |csn| self.engine.durable() > csn;
        let durability = match options.durability {
            _ if self.is_unlogged(options) => Durability::Unlogged,
            Durability::Quorum if is_unconfirmed => Durability::Local,
            Durability::Async if receipt.csn.is_some_and(is_on_disk) => Durability::Local,
            requested => requested,
        };
        Receipt { token: receipt.end.map(|lsn| Token { history: self.history, lsn }), durability }
    }

    /// Returns whether a write with these options leaves only a marker in the log.
    pub(crate) fn is_unlogged(&self, options: WriteOptions) -> bool {
        options.durability == Durability::Unlogged || !self.engine.keeps_log()
    }

    /// Fails if the state of the database does not allow the options.
    pub(crate) fn check_options(&self, options: WriteOptions) -> Result<(), Error> {
        if matches!(options.durability, Durability::Local | Durability::Quorum) {
            self.engine.check_log()?;
        }
        if options.durability == Durability::Quorum && self.engine.confirmed().is_none() {
            return Err(Error::invalid(
                "Durability::Quorum asks for replicas, and this database serves none: use Durability::Local",
            ));
        }
        if self.is_unlogged(options) {
            self.engine.check_unlogged(&[])?;
        }
        Ok(())
    }
}
