//! `TimeMarks`: records of when each part of the log was written, for restoring to a time. A commit itself carries no
//! time.
//!
//! A TIME record says that everything below a position was appended before a time of the machine's wall clock.
//!
//! # Invariants
//! - T1. The position is read before the clock, and the positions below were assigned before. So a log cut there has
//!   nothing later than the mark's time.
//! - T2. Times of marks never fall, also across openings, however the clock is set: they stand still until it has
//!   caught up.
//! - T3. There is at most one per second, and none unless something was appended since the last one: an idle database
//!   writes nothing. Marks that a backup requests come in addition.
//!
//! A restore to a time uses the newest mark at or before it: up to a second before that time may be missing, as long as
//! the thread that writes the marks keeps up. Checked by `tests/time_marks.rs`.

use std::time::Duration;

use collie_base::Lsn;
use collie_env::Clock;
use parking_lot::Mutex;

use crate::EngineError;
use crate::log::{EngineLog, Manner};
use crate::redo::{encode_time, tag};

/// Minimum time between two marks.
const INTERVAL: Duration = Duration::from_secs(1);

/// The writer of the time marks of one open database.
#[derive(Debug)]
pub(crate) struct TimeMarks(Mutex<Last>);

#[derive(Debug)]
struct Last {
    /// The time of the newest mark, in microseconds since 1970 (T2).
    wall_us: i64,
    /// The position behind it.
    end: Lsn,
    /// The time at which it was written, or the database was opened.
    at: Duration,
}

impl TimeMarks {
    /// Returns the writer for a log whose newest mark names `wall_us`, and which ends at `end` now.
    pub(crate) fn new(wall_us: i64, end: Lsn, now: Duration) -> Self {
        Self(Mutex::new(Last { wall_us, end, at: now }))
    }

    /// Writes a mark if one is due (T3).
    ///
    /// # Errors
    /// Those of the log, also for lack of room in its ring; the next call tries again.
    pub(crate) fn write_due(&self, log: &EngineLog, clock: &dyn Clock, now: Duration) -> Result<(), EngineError> {
        // A thread that is writing one now does so for this caller too.
        let Some(mut last) = self.0.try_lock() else { return Ok(()) };
        if now.saturating_sub(last.at) < INTERVAL || log.next() == Some(last.end) {
            return Ok(());
        }
        last.write(log, Manner::NO_SLOWDOWN, clock, now)
    }

    /// Writes a mark; returns the position behind it. Waits for a flush while the ring is full.
    ///
    /// # Errors
    /// Those of the log.
    pub(crate) fn write(&self, log: &EngineLog, clock: &dyn Clock, now: Duration) -> Result<Lsn, EngineError> {
        let mut last = self.0.lock();
        last.write(log, Manner::default(), clock, now)?;
        Ok(last.end)
    }
}

impl Last {
    fn write(&mut self, log: &EngineLog, manner: Manner, clock: &dyn Clock, now: Duration) -> Result<(), EngineError> {
        let Some(below) = log.next() else { return Ok(()) };
        let wall_us = clock.wall_us().max(self.wall_us); // T1, T2
        let record = encode_time(wall_us, below);
        let at = log.with_writer_that(manner, |writer| writer.append(tag::TIME, &[&record]))?;
        *self = Self { wall_us, end: at.end, at: now };
        Ok(())
    }
}
