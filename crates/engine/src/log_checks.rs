//! Checks by which a caller learns, before it writes anything, that a write would be refused for how the database keeps
//! its log.

use collie_base::CfId;

use crate::log::no_log::NOTHING_TO_SYNC;
use crate::session::writes::UNLOGGED_FAMILIES;
use crate::{Db, EngineError};

impl Db {
    /// Returns whether the database keeps a log ([`Options::wal_enabled`](crate::Options::wal_enabled)), also if it was
    /// opened read-only. Without one every write is unlogged.
    pub fn keeps_log(&self) -> bool {
        !self.shared.has_no_log()
    }

    /// Fails where there is no log to write or to sync.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] without a log.
    pub fn check_log(&self) -> Result<(), EngineError> {
        if self.keeps_log() { Ok(()) } else { Err(NOTHING_TO_SYNC) }
    }

    /// Fails if an unlogged transaction that writes to these families would be refused.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] for families that are not flushed together, and while a consumer follows the
    /// log, unless [`Options::allow_replication_holes`](crate::Options::allow_replication_holes).
    pub fn check_unlogged(&self, cfs: &[CfId]) -> Result<(), EngineError> {
        self.shared.check_unlogged()?;
        if self.shared.families.are_together(cfs) { Ok(()) } else { Err(UNLOGGED_FAMILIES) }
    }
}
