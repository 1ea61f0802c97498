//! `Stopwatch`: measures elapsed time with the clock that the rest of the tree uses.

use std::{sync::Arc, time::Duration};

use collie_env::{Clock, Env};

/// A running stopwatch.
pub struct Stopwatch {
    clock: Arc<dyn Clock>,
    begun_ns: u64,
}

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        let clock = Env::real().clock;
        let begun_ns = clock.now_ns();
        Self { clock, begun_ns }
    }

    /// Returns the time since the start.
    pub fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.clock.now_ns() - self.begun_ns)
    }
}
