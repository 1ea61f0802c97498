//! `Turn`: a session's time on its thread, for loops over work of which each piece is short.

use crate::session::Database;

/// The time for which a session may keep its thread, in nanoseconds.
const TURN_NS: u64 = 1_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Turn {
    began_ns: u64,
}

impl Turn {
    /// Begins a turn.
    pub(super) fn begin(database: &Database) -> Self {
        Self { began_ns: database.timer.now_ns() }
    }

    /// If the turn is over, lets other work of the thread run, and begins the next turn. Reads the clock once if it is
    /// not over.
    pub(super) async fn pass_when_over(&mut self, database: &Database) {
        if database.timer.now_ns().saturating_sub(self.began_ns) >= TURN_NS {
            database.give_way().await;
            *self = Self::begin(database);
        }
    }
}
