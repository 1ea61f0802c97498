//! The search for rot, as callers of a database see it.

use crate::{Db, EngineError, Rot, ScrubStat};

impl Db {
    /// Reads every table of the LSM levels now and compares it with its checksum. A tree with a damaged table is
    /// rewritten from the rows in memory, and the damaged file is moved to `levels/quarantine`. Returns the findings. A
    /// thread does the same all the time ([`Options::scrub_rate`]).
    ///
    /// # Durability
    /// Repaired trees are on disk on return.
    ///
    /// # Progress
    /// Blocks on reading the LSM levels; readers and writers continue. Flushes of a tree wait while it is rewritten.
    ///
    /// # Errors
    /// [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`], [`EngineError::Closed`].
    pub fn scrub(&self) -> Result<Vec<Rot>, EngineError> {
        if self.is_closed() {
            return Err(EngineError::Closed);
        }
        self.shared.scrub()
    }

    /// Returns the counters of the scrub.
    pub fn scrub_stat(&self) -> ScrubStat {
        self.shared.scrub.found.lock().0
    }

    /// Returns the newest hundred findings since the opening, repaired or not.
    pub fn rot(&self) -> Vec<Rot> {
        self.shared.scrub.found.lock().1.clone()
    }
}
