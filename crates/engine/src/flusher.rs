//! The rounds of the thread that flushes families when it is time, and gives up log.
//!
//! | trigger | what is flushed |
//! |---|---|
//! | a family has `store.write_buffer_size` bytes of unflushed rows | that family |
//! | flushes could make the log shorter than it is, which is longer than `wal.max_total_wal_size` | the family that needs its oldest part, one at a time; small ones are re-logged together (`relog.rs`) |
//! | the log refuses records, since the disk is full | every family, with the room of a log file that is given up for it if there is none |
//! | a write or a sync of a family's tree failed | that family, by writing its tree anew |
//! | old versions take up more memory than they may | every family: a deleted row stays until its deletion is flushed |
//!
//! Nothing visible depends on it except memory, the length of the log, and how long an open takes. After a failure it waits
//! before it tries again, longer each time; commits go on meanwhile, up to twice the limit of the log (`log_room.rs`).

use std::time::Duration;

use crate::shared::Shared;

/// Between two looks at what is due, when nothing was.
const LOOK: Duration = Duration::from_millis(50);
/// After the first failure.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// After many.
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// Returns the rounds of the flushing thread.
pub(crate) fn flusher() -> impl FnMut(&Shared) -> Duration + Send {
    let mut back_off = BACK_OFF_MIN;
    move |shared| {
        let (pause, next) = match shared.flush_due() {
            Ok(true) => (Duration::ZERO, BACK_OFF_MIN),
            Ok(false) => (LOOK, BACK_OFF_MIN),
            Err(_counted) => (back_off, (back_off * 2).min(BACK_OFF_MAX)),
        };
        back_off = next;
        pause
    }
}

#[cfg(test)]
#[cfg(not(loom))]
#[path = "flusher_tests.rs"]
pub(crate) mod tests;
