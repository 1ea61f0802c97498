//! `Validated`: the look at what a SERIALIZABLE transaction has read, in parts before its commit.
//!
//! Under the lock of validation, which its like wait for, only what they have committed since is looked at again
//! (`serial_writes.rs`).

use std::sync::Arc;

use super::Session;
use crate::EngineError;
use crate::read_set::{Look, ReadSet};
use crate::serial_writes::Since;
use crate::shared::Shared;
use crate::writes::Fates;

/// See the module's documentation. Dropping it ends the keeping of what others commit.
#[derive(Debug)]
pub(super) struct Validated {
    shared: Arc<Shared>,
    mark: u64,
    look: Look,
    /// What was read when the look began.
    grown: u64,
    /// Whether everything was looked at.
    is_whole: bool,
}

impl Validated {
    /// Says what of `reads` others of its level have committed since the look began. `Forgotten` unless it was a look at all of it.
    pub(super) fn since(&self, reads: &ReadSet) -> Since {
        if self.is_whole && self.grown == reads.grown() {
            self.shared.serial_writes.since(self.mark, reads)
        } else {
            Since::Forgotten
        }
    }
}

impl Drop for Validated {
    fn drop(&mut self) {
        self.shared.serial_writes.unmark();
    }
}

impl Session {
    /// Looks at a part of what the open transaction has read, if it is SERIALIZABLE, wrote, and has read so much that its commit
    /// would hold others up: about a millisecond of work. Returns whether that is done, after which it commits at once. Nothing may be read
    /// in between.
    ///
    /// # Errors
    /// [`EngineError::ReadChanged`]: roll back, as the commit would.
    pub fn validate_some(&mut self) -> Result<bool, EngineError> {
        let (Some(t), Some(reads)) = (&self.open, &mut self.reads) else { return Ok(true) };
        let Some(snapshot) = t.snapshot().filter(|_| t.xid().is_some() && !self.redo.is_empty()) else {
            return Ok(true);
        };
        let (reads, families, fates) = (reads.get_mut(), &self.shared.families, Fates(&self.shared.txns));
        let Some(validated) = &mut self.validated else {
            if reads.is_small(snapshot, families, &fates) {
                return Ok(true);
            }
            reads.sort();
            let mark = self.shared.txns.between_validated(|| self.shared.serial_writes.mark());
            let (shared, grown) = (Arc::clone(&self.shared), reads.grown());
            self.validated = Some(Validated { shared, mark, look: Look::default(), grown, is_whole: false });
            return Ok(false);
        };
        if validated.is_whole {
            return Ok(true);
        }
        match reads.look_on(&mut validated.look, snapshot, families, &fates) {
            None => Ok(false),
            Some(None) => {
                validated.is_whole = true;
                Ok(true)
            }
            Some(Some(csn)) => {
                self.txn.saw(csn);
                Err(EngineError::ReadChanged)
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "validated_tests.rs"]
mod tests;
