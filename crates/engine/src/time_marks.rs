//! `TimeMarks`: when which part of the log was written, for restoring to a time. A commit itself carries none.
//!
//! A TIME record says that everything below a position was appended before a time of the machine's calendar.
//!
//! # Invariants
//! - T1. The position is read before the clock, and what lies below it was given to appenders before. So a log cut there has nothing
//!   later than the mark's time.
//! - T2. Times of marks never fall, over openings too, whichever way the clock is set: then they stand still until it has caught up.
//! - T3. There is at most one in a second, and none unless something was appended since the last one: a database where nothing
//!   happens writes nothing. Those that a backup asks for come in addition.
//!
//! Who restores to a time gets the newest mark at or before it: up to a second before, as far as the thread that writes them keeps
//! up, may be missing. Checked by `tests/time_marks.rs`.

use std::time::Duration;

use collie_base::Lsn;
use collie_env::Clock;
use parking_lot::Mutex;

use crate::EngineError;
use crate::log::{EngineLog, Manner};
use crate::redo::{encode_time, tag};

/// Between two marks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Writes the marks of one open database.
#[derive(Debug)]
pub(crate) struct TimeMarks(Mutex<Last>);

#[derive(Debug)]
struct Last {
    /// The time of the newest mark, in microseconds since 1970 (T2).
    wall_us: i64,
    /// Behind it.
    end: Lsn,
    /// When it was written, or the database was opened.
    at: Duration,
}

impl TimeMarks {
    /// Of a log whose newest mark names `wall_us`, and which ends at `end` now.
    pub(crate) fn new(wall_us: i64, end: Lsn, now: Duration) -> Self {
        Self(Mutex::new(Last { wall_us, end, at: now }))
    }

    /// Writes a mark if one is due (T3).
    ///
    /// # Errors
    /// The log's, also for want of room in its memory: the next call tries again.
    pub(crate) fn write_due(&self, log: &EngineLog, clock: &dyn Clock, now: Duration) -> Result<(), EngineError> {
        // Whoever writes one just now does it for this caller too.
        let Some(mut last) = self.0.try_lock() else { return Ok(()) };
        if now.saturating_sub(last.at) < INTERVAL || log.next() == Some(last.end) {
            return Ok(());
        }
        last.write(log, clock, now)
    }

    /// Writes a mark; returns the position behind it.
    ///
    /// # Errors
    /// The log's.
    pub(crate) fn write(&self, log: &EngineLog, clock: &dyn Clock, now: Duration) -> Result<Lsn, EngineError> {
        let mut last = self.0.lock();
        last.write(log, clock, now)?;
        Ok(last.end)
    }
}

impl Last {
    fn write(&mut self, log: &EngineLog, clock: &dyn Clock, now: Duration) -> Result<(), EngineError> {
        let Some(below) = log.next() else { return Ok(()) };
        let wall_us = clock.wall_us().max(self.wall_us); // T1, T2
        let record = encode_time(wall_us, below);
        let at = log.with_writer_that(Manner::NO_SLOWDOWN, |writer| writer.append(tag::TIME, &[&record]))?;
        *self = Self { wall_us, end: at.end, at: now };
        Ok(())
    }
}
