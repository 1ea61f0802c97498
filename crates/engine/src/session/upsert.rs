//! `Upsert`: one write that does not depend on the previous value, in steps that do not block. The caller waits between
//! the steps, by blocking its thread or as a future.

use std::time::Duration;

use collie_txn::Blocker;

use crate::{Basis, EngineError, Family, Outcome, Session, Write};

/// The result of one step.
#[derive(Debug)]
#[must_use]
pub enum UpsertStep {
    /// The write is in the transaction.
    Done,
    /// Another transaction holds the row: the caller waits and then calls [`Upsert::step`] again.
    Wait(Blocker),
}

/// One write in progress that sets a key, whether the row exists or not, or removes it if it does, in a statement that
/// writes this key only once. At READ COMMITTED it overwrites commits after the snapshot.
#[derive(Debug)]
pub struct Upsert<'a> {
    family: &'a Family,
    key: &'a [u8],
    value: Option<&'a [u8]>,
    /// The basis of a deletion.
    basis: Basis,
}

impl<'a> Upsert<'a> {
    /// Returns a write of `value` at `key`; `None` deletes.
    pub const fn new(family: &'a Family, key: &'a [u8], value: Option<&'a [u8]>) -> Self {
        Self { family, key, value, basis: Basis::Snapshot }
    }

    /// Proceeds until the write is done or has to wait.
    ///
    /// # Errors
    /// As of [`Session::write`]; nothing was written then.
    pub fn step(&mut self, session: &mut Session) -> Result<UpsertStep, EngineError> {
        if let Some(value) = self.value {
            let blocker = session.put(self.family, self.key, value)?;
            return Ok(blocker.map_or(UpsertStep::Done, UpsertStep::Wait));
        }
        loop {
            match session.write(self.family, self.key, self.basis, Write::Delete)? {
                Outcome::Done | Outcome::Gone | Outcome::Moved(_) => return Ok(UpsertStep::Done),
                Outcome::Wait(blocker) => return Ok(UpsertStep::Wait(blocker)),
                Outcome::Changed { csn, .. } => self.basis = Basis::After(csn),
                Outcome::SelfModified => unreachable!("a statement writes a key once"),
            }
        }
    }

    /// Proceeds until the write is done, waiting on this thread for at most `limit` per lock.
    ///
    /// # Errors
    /// As of [`Upsert::step`]; [`EngineError::LockTimeout`], [`EngineError::Deadlock`].
    ///
    /// # Progress
    /// Blocks on the transactions that hold the row.
    pub fn block(&mut self, session: &mut Session, limit: Option<Duration>) -> Result<(), EngineError> {
        while let UpsertStep::Wait(blocker) = self.step(session)? {
            session.wait(blocker).block(limit)?;
        }
        Ok(())
    }
}
