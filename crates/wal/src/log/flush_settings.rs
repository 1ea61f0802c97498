//! The settings of the flusher that can change while the log is open.

use std::time::Duration;

use crate::{Log, Options, WalError};

impl Log {
    /// Returns how long bytes that no caller waits for may stay in memory (`wal.flush_delay`).
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn flush_delay(&self) -> Duration {
        self.flusher().flush_delay()
    }

    /// Changes `wal.flush_delay` until the log is closed. The new value applies to waiting records too.
    ///
    /// # Errors
    /// `InvalidOptions` outside of 1 ms to 10 s; then nothing has changed.
    ///
    /// # Durability
    /// Of the records that no caller waited for, a crash can lose those younger than this.
    ///
    /// # Progress
    /// Short mutexes.
    pub fn set_flush_delay(&self, delay: Duration) -> Result<(), WalError> {
        Options { flush_delay: delay, ..self.core().options.clone() }.validate()?;
        self.flusher().set_flush_delay(delay);
        Ok(())
    }

    /// Returns the number of bytes at which records that no caller waits for are flushed without a delay
    /// (`wal.flush_bytes`).
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn flush_bytes(&self) -> u64 {
        self.flusher().flush_bytes()
    }

    /// Changes `wal.flush_bytes` until the log is closed.
    ///
    /// # Errors
    /// `InvalidOptions` outside of 4 KiB to half the ring, for a log that follows another, and with
    /// `wal.manual_wal_flush`; then nothing has changed.
    ///
    /// # Durability
    /// Of the records that no caller waited for, a crash can lose at most about this many bytes, all younger than
    /// [`Log::flush_delay`].
    ///
    /// # Progress
    /// Short mutexes.
    pub fn set_flush_bytes(&self, bytes: u64) -> Result<(), WalError> {
        Options { flush_bytes: bytes, ..self.core().options.clone() }.validate()?;
        self.flusher().set_flush_bytes(bytes)
    }

    /// Returns the delay after which records that no caller waits for are flushed while a shipper follows closely
    /// ([`ShipOptions::flush_delay`]); `None` while none does.
    ///
    /// # Progress
    /// Short mutexes.
    ///
    /// [`ShipOptions::flush_delay`]: crate::ShipOptions::flush_delay
    pub fn flush_delay_override(&self) -> Option<Duration> {
        self.flusher().flush_delay_override()
    }

    /// Changes that delay for all present and future shippers until the log is closed, whatever they request.
    ///
    /// # Errors
    /// `InvalidOptions` for zero and above 10 s; then nothing has changed.
    ///
    /// # Durability
    /// As [`Log::set_flush_delay`], while a shipper follows closely.
    ///
    /// # Progress
    /// Short mutexes.
    pub fn set_flush_delay_override(&self, delay: Duration) -> Result<(), WalError> {
        self.flusher().set_flush_delay_override(delay)
    }
}
