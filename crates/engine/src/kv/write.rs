//! `Upsert`: one write that does not depend on the previous value, in steps that do not block. The caller waits between
//! the steps, by blocking its thread or as a future.

use std::time::Duration;

use collie_txn::Blocker;

use super::WriteOptions;
use super::batch::Put;
use crate::calls::{Basis, Outcome, Write};
use crate::{EngineError, Isolation, Session, StatementKind};

/// The result of one step.
#[derive(Debug)]
pub(crate) enum Step {
    /// The write is in the transaction.
    Done,
    /// Another transaction holds the row: the caller waits and then calls `step` again.
    Wait(Blocker),
}

/// One write in progress, in a statement that writes this key only once.
#[derive(Debug)]
pub(crate) struct Upsert<'a> {
    put: Put<'a>,
    /// The basis of a deletion.
    basis: Basis,
}

impl<'a> Upsert<'a> {
    pub(crate) const fn new(put: Put<'a>) -> Self {
        Self { put, basis: Basis::Snapshot }
    }

    /// Proceeds until the write is done or has to wait.
    ///
    /// # Errors
    /// Those of the session; nothing was written then.
    pub(crate) fn step(&mut self, session: &mut Session) -> Result<Step, EngineError> {
        let Put { cf, key, value } = self.put;
        let family = cf.family();
        if let Some(value) = value {
            return Ok(session.put(family, key, value)?.map_or(Step::Done, Step::Wait));
        }
        loop {
            match session.write(family, key, self.basis, Write::Delete)? {
                Outcome::Done | Outcome::Gone | Outcome::Moved(_) => return Ok(Step::Done),
                Outcome::Wait(blocker) => return Ok(Step::Wait(blocker)),
                Outcome::Changed { csn, .. } => self.basis = Basis::After(csn),
                Outcome::SelfModified => unreachable!("a statement writes a key once"),
            }
        }
    }

    /// Proceeds until the write is done, waiting on this thread for at most `limit` per lock.
    pub(crate) fn block(&mut self, session: &mut Session, limit: Option<Duration>) -> Result<(), EngineError> {
        while let Step::Wait(blocker) = self.step(session)? {
            session.wait(blocker).block(limit)?;
        }
        Ok(())
    }
}

/// Waits on this thread until flushes have made room in the log, and begins the transaction of one write.
pub(crate) fn begin_with_room(session: &mut Session, options: WriteOptions) -> Result<(), EngineError> {
    session.set_no_slowdown(options.no_slowdown);
    if let Some(wait) = session.wait_for_room()? {
        wait.block()?;
    }
    begin(session, options)
}

/// Begins the transaction of one write.
pub(crate) fn begin(session: &mut Session, options: WriteOptions) -> Result<(), EngineError> {
    session.set_no_slowdown(options.no_slowdown);
    session.set_unlogged(options.disable_wal);
    session.begin(Isolation::ReadCommitted, false)?;
    session.begin_statement(StatementKind::Write)
}
