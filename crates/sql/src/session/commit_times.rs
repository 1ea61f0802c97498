//! `CommitTimes`: how long the newest commits waited, among those that wait for the disk or for replicas.
//!
//! # Invariants
//! - T1. A commit waits neither for another commit nor for a reader here: a time that cannot be noted at once is left
//!   out. So percentiles are of nearly all commits, and the count of all commits is elsewhere (`collie_node`).
//! - T2. Percentiles are of the commits that ended in the last [`TURN_NS`] to twice that.
//!
//! Checked by the tests here, and by the clients' tests of the console.

use collie_base::Latencies;
use parking_lot::Mutex;

use crate::{catalog::system::CommitsRow, session::Database};

/// The time for which one of the two histograms is filled.
const TURN_NS: u64 = 10_000_000_000;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct CommitTimes(Mutex<Turns>);

#[derive(Debug, Default)]
struct Turns {
    now: Latencies,
    before: Latencies,
    began_ns: u64,
}

impl Turns {
    /// Begins a new turn, if it is due (T2).
    fn turn(&mut self, now_ns: u64) {
        let age_ns = now_ns.saturating_sub(self.began_ns);
        if age_ns < TURN_NS {
            return;
        }
        if age_ns < 2 * TURN_NS {
            std::mem::swap(&mut self.now, &mut self.before);
            self.began_ns += TURN_NS;
        } else {
            self.before.clear();
            self.began_ns = now_ns;
        }
        self.now.clear();
    }
}

impl CommitTimes {
    /// Notes a commit that began at `begun_ns` and is answered at `now_ns`, by one clock.
    ///
    /// # Progress
    /// Wait-free (T1).
    pub(super) fn note(&self, begun_ns: u64, now_ns: u64) {
        if let Some(mut turns) = self.0.try_lock() {
            turns.turn(now_ns);
            turns.now.record(now_ns.saturating_sub(begun_ns));
        }
    }

    /// Returns the percentiles of the noted times (T2).
    fn row(&self, now_ns: u64) -> CommitsRow {
        let all = {
            let mut turns = self.0.lock();
            turns.turn(now_ns);
            let mut all = turns.before.clone();
            all.merge(&turns.now);
            all
        };
        CommitsRow {
            noted: all.count(),
            p50_us: all.at_per_mille(500) / 1000,
            p99_us: all.at_per_mille(990) / 1000,
            max_us: all.max_ns() / 1000,
        }
    }
}

impl Database {
    /// Returns how long the newest commits waited.
    pub fn commit_times(&self) -> CommitsRow {
        self.commit_times.row(self.env.clock.now_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const MS_NS: u64 = 1_000_000;

    /// Goal: T2: percentiles are of the last ten to twenty seconds, whatever was before. Method: a hundred slow
    /// commits, a hundred quick ones a turn later, and looks at the edges of turns.
    #[test]
    fn percentiles_are_of_the_last_two_turns() {
        let (times, begun) = (CommitTimes::default(), 100 * SECOND_NS);
        (0..100).for_each(|_| times.note(begun, begun + 50 * MS_NS));
        let slow = times.row(begun + SECOND_NS);
        assert_eq!((slow.noted, slow.max_us), (100, 50_000));
        assert!((50_000..=50_800).contains(&slow.p50_us), "{slow:?}");
        let later = begun + 12 * SECOND_NS;
        (0..100).for_each(|_| times.note(later, later + MS_NS));
        let both = times.row(later + SECOND_NS);
        assert_eq!((both.noted, both.max_us), (200, 50_000));
        assert!(both.p50_us <= 1016 && both.p99_us >= 50_000, "{both:?}");
        let quick = times.row(begun + 21 * SECOND_NS);
        assert_eq!((quick.noted, quick.max_us), (100, 1000), "{quick:?}");
        assert_eq!(times.row(begun + 60 * SECOND_NS), CommitsRow::default());
    }

    /// Goal: T1: a commit does not wait. Method: a commit while a reader holds the lock is left out, and the next one
    /// is noted.
    #[test]
    fn a_commit_beside_a_reader_is_left_out() {
        let times = CommitTimes::default();
        let reader = times.0.lock();
        times.note(0, MS_NS);
        drop(reader);
        times.note(0, 3 * MS_NS);
        let row = times.row(3 * MS_NS);
        assert_eq!((row.noted, row.p50_us, row.max_us), (1, 3000, 3000));
    }
}
