//! `RowIds`: assigns hidden row ids in tables without a primary key.
//!
//! It is shared by all sessions of a database. Ids are not transactional: an aborted insert leaves a gap.
//!
//! # Invariants
//! - R1. An id given for a family is above every id of a row in it and was not given before in this process.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use collie_base::{CfId, Map};
use collie_engine::{Db, KeyRange, Session};
use parking_lot::Mutex;

use crate::{
    error::{Result, SqlError, SqlState},
    exec::error::from_engine,
};

/// The row ids of every family that has needed one since the database was opened.
#[derive(Debug, Default)]
pub struct RowIds {
    families: Mutex<Map<CfId, Arc<AtomicU64>>>,
}

impl RowIds {
    /// Creates an allocator that has given no id yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the next id for the family. The first call for a family reads its highest key, so the session must have
    /// begun
    /// a statement.
    ///
    /// # Errors
    /// If the family cannot be read, or ids are exhausted.
    pub fn next(&self, db: &Db, session: &Session, cf: CfId) -> Result<u64> {
        self.counter(db, session, cf).map(|counter| counter.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the family's counter, whose value is the next id.
    pub(crate) fn counter(&self, db: &Db, session: &Session, cf: CfId) -> Result<Arc<AtomicU64>> {
        // The lock is held during the look-up: two first inserts must not both start from the same key.
        let mut families = self.families.lock();
        if let Some(counter) = families.get(&cf) {
            return Ok(counter.clone());
        }
        let mut highest: Option<Vec<u8>> = None;
        let scan = session.scan(&db.family(cf), &KeyRange::ALL, None, true, 1, &mut |key, _| {
            highest = Some(key.to_vec());
            std::ops::ControlFlow::Break(())
        });
        scan.map_err(from_engine)?;
        let first = match highest {
            None => 1,
            Some(key) => <[u8; 8]>::try_from(key.as_slice())
                .ok()
                .and_then(|bytes| u64::from_be_bytes(bytes).checked_add(1))
                .ok_or_else(|| SqlError::new(SqlState::DATA_CORRUPTED, "a row id is not 8 bytes long"))?,
        };
        let counter = Arc::new(AtomicU64::new(first));
        families.insert(cf, counter.clone());
        Ok(counter)
    }

    /// Forgets a family that was dropped.
    pub fn forget(&self, cf: CfId) {
        self.families.lock().remove(&cf);
    }
}
