//! `FlushLimits`: how long, and how many bytes of, records that no caller waits for may stay in memory
//! (`wal.flush_delay`, `wal.flush_bytes`). These two settings of the log can change while it is open.
//!
//! The numbers are independent and publish no other data, so both are Relaxed: an append or the background flusher may
//! use the old one for a little longer.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::Flusher;
use crate::{Options, WalError};

/// The two limits, see the module.
#[derive(Debug)]
pub(super) struct FlushLimits {
    delay_us: AtomicU64,
    bytes: AtomicU64,
}

fn us(delay: Duration) -> u64 {
    u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)
}

impl FlushLimits {
    /// Takes the limits of `options`. A log that follows another flushes everything at once, and one that is flushed by
    /// hand at half a ring.
    pub(super) fn new(options: &Options, follows: bool) -> Self {
        let bytes = match options {
            _ if follows => 1,
            Options { manual_wal_flush: true, ring_bytes, .. } => ring_bytes / 2,
            Options { flush_bytes, .. } => *flush_bytes,
        };
        Self { delay_us: AtomicU64::new(us(options.flush_delay)), bytes: AtomicU64::new(bytes) }
    }
}

impl Flusher {
    /// Returns how long records that no caller waits for may stay in memory.
    pub(crate) fn flush_delay(&self) -> Duration {
        Duration::from_micros(self.limits.delay_us.load(Relaxed))
    }

    /// Returns the number of bytes at which such records are flushed without a delay.
    #[inline]
    pub(crate) fn flush_bytes(&self) -> u64 {
        self.limits.bytes.load(Relaxed)
    }

    /// Changes how long records that no caller waits for may stay in memory.
    pub(crate) fn set_flush_delay(&self, delay: Duration) {
        self.limits.delay_us.store(us(delay), Relaxed);
        // The background flusher may be in the middle of a longer wait.
        self.poke(true);
    }

    /// Changes the number of bytes at which records that no caller waits for are flushed.
    ///
    /// # Errors
    /// `InvalidOptions` if this number does not apply to the log.
    pub(crate) fn set_flush_bytes(&self, bytes: u64) -> Result<(), WalError> {
        if self.follows {
            return Err(WalError::options("wal.flush_bytes: a log that follows another is flushed at once"));
        }
        if self.manual {
            return Err(WalError::options("wal.flush_bytes: with wal.manual_wal_flush half a ring is the limit"));
        }
        self.limits.bytes.store(bytes, Relaxed);
        self.poke(true);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use collie_env::Env;

    use super::*;
    use crate::{Log, Mark, testing::eventually};

    /// Goal: the delay and the number of bytes change while the log is open, a background flusher in the middle of a
    /// long delay uses the shorter one, and values that no log could be opened with are refused. Method: a record that
    /// no caller waits for under a delay of ten seconds, then twenty under a delay of one millisecond; values beyond
    /// both bounds.
    #[test]
    fn delay_and_bytes_change_while_the_log_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let long = Options { flush_delay: Duration::from_secs(10), ..Options::small() };
        let (log, _) = Log::open(&Env::real(), dir.path(), long).unwrap();
        let mut writer = log.writer();
        let mut write = || {
            let end = writer.append(1, &[b"nobody waits"]).unwrap().end;
            log.flush_soon();
            end
        };
        let (mut end, mut flushes) = (write(), 0);
        log.set_flush_delay(Duration::from_millis(1)).unwrap();
        assert_eq!(log.flush_delay(), Duration::from_millis(1));
        // One after the other: with ten seconds each the test would time out.
        eventually("twenty flushes for nobody", || {
            if log.is_reached(Mark::Durable, end) {
                (end, flushes) = (write(), flushes + 1);
            }
            flushes == 20
        });
        for (delay_us, bytes) in [(999, 4095), (10_000_001, (128 << 10) + 1)] {
            log.set_flush_delay(Duration::from_micros(delay_us)).unwrap_err();
            log.set_flush_bytes(bytes).unwrap_err();
        }
        assert_eq!((log.flush_delay(), log.flush_bytes()), (Duration::from_millis(1), 64 << 10));
        log.set_flush_bytes(4 << 10).unwrap();
        assert_eq!(log.flush_bytes(), 4 << 10);
    }

    /// Goal: the limit of a log that is flushed by hand does not change. Method: `wal.manual_wal_flush`.
    #[test]
    fn bytes_of_a_log_that_is_flushed_by_hand_do_not_change() {
        let (env, _disk) = Env::simulated(1);
        let options = Options { manual_wal_flush: true, threads: false, ..Options::small() };
        let (log, _) = Log::open(&env, "/log".as_ref(), options).unwrap();
        log.set_flush_bytes(4 << 10).unwrap_err();
        assert_eq!(log.flush_bytes(), 128 << 10, "half the ring");
    }
}
