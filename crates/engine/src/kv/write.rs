//! `Upsert`: one write that does not ask what was there, as far as it goes without waiting. Whoever drives it waits in between:
//! on its thread, or as a future.

use std::time::Duration;

use collie_txn::Blocker;

use super::WriteOptions;
use super::batch::Put;
use crate::calls::{Basis, Outcome, Write};
use crate::{EngineError, Isolation, Session, StatementKind};

/// How far a write has come.
#[derive(Debug)]
pub(crate) enum Step {
    /// It is in the transaction.
    Done,
    /// Somebody is in the way: wait, then go on.
    Wait(Blocker),
}

/// One write that is under way, in a statement in which it is the only one of its key.
#[derive(Debug)]
pub(crate) struct Upsert<'a> {
    put: Put<'a>,
    /// What to base a deletion on.
    basis: Basis,
}

impl<'a> Upsert<'a> {
    pub(crate) const fn new(put: Put<'a>) -> Self {
        Self { put, basis: Basis::Snapshot }
    }

    /// Goes on until it is done or has to wait.
    ///
    /// # Errors
    /// The session's; nothing was written then.
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

    /// Goes on until it is done, waiting on this thread, at most `limit` for each lock.
    pub(crate) fn block(&mut self, session: &mut Session, limit: Option<Duration>) -> Result<(), EngineError> {
        while let Step::Wait(blocker) = self.step(session)? {
            session.wait(blocker).block(limit)?;
        }
        Ok(())
    }
}

/// Waits on this thread until flushes leave room in the log, and begins the transaction of one write.
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
