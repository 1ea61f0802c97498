//! `Validated`: the validation of a SERIALIZABLE transaction's read set, in parts before its commit.
//!
//! Under the lock of validation, for which other SERIALIZABLE transactions wait, only the keys that such transactions
//! have committed since are examined again (`serial_writes.rs`).

use std::sync::Arc;

use super::Session;
use crate::EngineError;
use crate::log::txn_statuses::TxnStatuses;
use crate::serial::read_set::{Look, ReadSet};
use crate::serial::serial_writes::Since;
use crate::shared::Shared;

/// See the module's documentation. Dropping it releases the mark, so that commits of others are kept no longer for it.
#[derive(Debug)]
pub(super) struct Validated {
    shared: Arc<Shared>,
    mark: u64,
    look: Look,
    /// The size of the read set when the look began.
    grown: u64,
    /// Whether the whole read set was examined.
    is_whole: bool,
}

impl Validated {
    /// Returns whether other SERIALIZABLE transactions have committed a key of `reads` since the look began;
    /// `Forgotten` unless the look examined all of it.
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
    /// Examines a part of the open transaction's read set, if it is SERIALIZABLE, wrote, and has read so much that its
    /// commit would delay others: about a millisecond of work. Returns whether the examination is complete, after which
    /// the caller commits at once. Nothing may be read between the parts.
    ///
    /// # Errors
    /// [`EngineError::ReadChanged`]: the caller has to roll back, as the commit would.
    pub fn validate_some(&mut self) -> Result<bool, EngineError> {
        let (Some(t), Some(reads)) = (&self.open, &mut self.reads) else { return Ok(true) };
        let Some(snapshot) = t.snapshot().filter(|_| t.xid().is_some() && !self.redo.is_empty()) else {
            return Ok(true);
        };
        let (reads, families, fates) = (reads.get_mut(), &self.shared.families, TxnStatuses(&self.shared.txns));
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
mod tests;
