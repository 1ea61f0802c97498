//! Commits with times, for benchmarks.

use crate::Db;

impl Db {
    /// Makes commits carry times in the log from now on, for benchmarks of replayers that need them. It cannot be
    /// turned off.
    pub fn note_commit_times(&self) {
        self.shared.commit_times.turn_on();
    }
}
