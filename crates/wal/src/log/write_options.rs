//! `WriteOptions`: the options of one write, under RocksDB's names.

use crate::{Level, RingKind, WalError};

/// The options of one [`Writer::write`](crate::Writer::write). By default it waits for the boundary only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct WriteOptions {
    /// Return once the record is on disk.
    pub sync: bool,
    /// Log a marker instead of the record: readers see a hole. Refused together with `sync`.
    pub disable_wal: bool,
    /// Fail with `RingFull` instead of waiting when the ring is full. Nothing is appended then; of a record larger than
    /// `wal.chunk_size` some pieces may have been, which no reader yields.
    pub no_slowdown: bool,
}

impl WriteOptions {
    /// Returns how far a write waits. Without `sync` that is the boundary: with a ring that outlives the process this
    /// is [`Level::Process`], with a private one [`Level::Memory`].
    ///
    /// # Errors
    /// `InvalidOptions` for `sync` with `disable_wal`.
    ///
    /// # Progress
    /// Wait-free.
    pub fn level(&self, ring: RingKind) -> Result<Level, WalError> {
        match (self.sync, self.disable_wal) {
            (true, true) => Err(WalError::options("sync asks for what disable_wal leaves out: set one of them")),
            (true, false) => Ok(Level::Disk),
            (false, true) => Ok(Level::None),
            (false, false) if ring == RingKind::Shared => Ok(Level::Process),
            (false, false) => Ok(Level::Memory),
        }
    }
}
