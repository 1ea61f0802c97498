//! Rewrites a tree from the rows in memory after a write or a sync of its files failed, or after one of them has
//! rotted. Every row is in memory, so the LSM levels need none of the old files, and none of them is ever synced
//! again (FAULT-9).
//!
//! # Invariants
//! - A1. For each living family of the old tree, the new tree holds the state that the commits below the flush's
//!   position have left. It replaces the old tree and the flush at once, so every row of each family is visited,
//!   listed or not.
//! - A2. If a family is cleared during the rewrite, it was dropped, perhaps by a drop that a crash takes back.
//!   Then the old tree stays, since a recovered drop needs its rows.
//! - A3. Rows are written in batches of [`BATCH_BYTES`] and copied under short pins, none of which is held while a
//!   batch is written: reclamation of memory never waits for the disk.
//!
//! Checked by `anew_tests.rs`.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use collie_base::{CfId, Lsn};
use collie_store::{AddRows, Edit, Family, LevelsError, Replaced, TreeState};

use crate::EngineError;
use crate::flush::{Base, Parts};
use crate::log::txn_statuses::TxnStatuses;

/// Bytes of keys and values that are copied before they are written.
const BATCH_BYTES: usize = 64 << 20;

/// Rows that are being copied to a new tree.
#[derive(Debug, Default)]
struct Batch {
    /// Keys and values, concatenated.
    bytes: Vec<u8>,
    rows: Vec<Copied>,
}

#[derive(Debug)]
struct Copied {
    csn: Lsn,
    key: Range<usize>,
    value: Range<usize>,
}

impl Batch {
    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Passes the rows, which belong to the family `cf`, to `add` and clears the batch.
    fn hand_over(&mut self, cf: CfId, add: &mut AddRows<'_>) -> Result<(), LevelsError> {
        let Self { bytes, rows } = self;
        let edit = |row: &Copied| Edit {
            cf,
            key: &bytes[row.key.clone()],
            csn: row.csn,
            value: Some(&bytes[row.value.clone()]),
        };
        add(&rows.iter().map(edit).collect::<Vec<_>>())?;
        bytes.clear();
        rows.clear();
        Ok(())
    }
}

impl Base {
    /// Rewrites the tree with the rows of its living `families` at `position`; the caller holds a snapshot there.
    /// The files of the tree that `damaged` names are kept in quarantine.
    ///
    /// # Errors
    /// Those of the LSM levels; then the old tree is still there. [`EngineError::Busy`] (A2).
    pub(crate) fn write_anew(
        &self,
        tree: &TreeState,
        position: Lsn,
        damaged: &[PathBuf],
        families: &[Arc<Family>],
        parts: &Parts<'_>,
    ) -> Result<Replaced, EngineError> {
        let fates = TxnStatuses(parts.txns);
        let mut was_dropped = false;
        let mut fill = |add: &mut AddRows<'_>| -> Result<(), LevelsError> {
            let mut ordered: Vec<&Arc<Family>> = families.iter().collect();
            ordered.sort_unstable_by_key(|family| family.id());
            let mut batch = Batch::default();
            for family in ordered {
                let mut last: Option<Vec<u8>> = None;
                loop {
                    last = family.states_after(last.as_deref(), position, &fates, &mut |state| {
                        let (key, value) = (batch.put(state.key), batch.put(state.value));
                        batch.rows.push(Copied { csn: state.csn, key, value });
                    });
                    if last.is_none() || batch.bytes.len() >= BATCH_BYTES {
                        batch.hand_over(family.id(), add)?;
                    }
                    if last.is_none() {
                        break;
                    }
                }
            }
            // A reader that checks this after its reads has missed no row (`Family::is_cleared`).
            was_dropped = families.iter().any(|family| family.is_cleared());
            if was_dropped { Err(LevelsError::InvalidCall { what: "a family is dropped" }) } else { Ok(()) }
        };
        let replaced = self.levels().replace_tree(tree.id, position, damaged, &mut fill);
        replaced.map_err(|error| match was_dropped {
            true => EngineError::Busy { why: "a column family is dropped while its tree is rewritten".to_owned() },
            false => EngineError::levels(error),
        })
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
