//! The rounds of the thread that flushes families when a flush is due, and releases log.
//!
//! | trigger | flushed families |
//! |---|---|
//! | a family has `store.write_buffer_size` bytes of unflushed rows | that family |
//! | more than `wal.max_total_wal_size` of flushable log | the family that needs the oldest part of it |
//! | the log refuses records, since the disk is full | every family, if necessary with the room of a spare log file |
//! | a write or a sync of a family's tree failed | that family, by a rewrite of its tree |
//! | a member of an atomic group was dropped | the group, to take the member's keys out of the tree |
//! | old versions or all rows occupy too much memory | every family: a deleted row stays until that is flushed |
//!
//! Flushable log is the part that flushes can release. For it, small families are re-logged together instead
//! (`relog.rs`), and the others are flushed one at a time.
//!
//! Nothing visible depends on this thread except memory, the length of the log, and how long an opening takes.
//! After a failure it waits before it tries again, longer each time; commits continue, up to twice the limit of
//! the log (`log/room.rs`).

use std::time::Duration;

use crate::shared::Shared;

/// The pause after a round in which nothing was due.
const LOOK: Duration = Duration::from_millis(50);
/// The pause after the first failure.
const BACK_OFF_MIN: Duration = Duration::from_millis(200);
/// The longest pause after failures.
const BACK_OFF_MAX: Duration = Duration::from_secs(10);

/// Returns the rounds of the flusher thread.
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
