//! `Turn`: a session's time on its thread, for loops over work that is short by itself.

use crate::session::Database;

/// How long a session may keep its thread, in nanoseconds.
const TURN_NS: u64 = 1_000_000;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Turn {
    began_ns: u64,
}

impl Turn {
    /// Begins one.
    pub(super) fn begin(database: &Database) -> Self {
        Self { began_ns: database.timer.now_ns() }
    }

    /// Lets others of the thread go first if the turn is over, and begins the next. One look at the clock.
    pub(super) async fn pass_when_over(&mut self, database: &Database) {
        if database.timer.now_ns().saturating_sub(self.began_ns) >= TURN_NS {
            database.give_way().await;
            *self = Self::begin(database);
        }
    }
}
