//! `ShownTimes`: the times at which positions became visible to the sessions of a replica.
//!
//! # Invariants
//! - N1. Everything below the position of a mark was visible by its time, and the mark was noted as soon as that was
//!   so: everything between two marks became visible between their times.
//! - N2. No thread that applies waits here. A mark that cannot be noted at once is left out; the next one covers it.
//! - N3. Memory is bounded: when [`MARKS_MAX`] marks were not taken, every second one is dropped, and the one behind it
//!   covers it.
//!
//! Checked by the tests here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::Lsn;
use parking_lot::Mutex;

/// Maximum number of marks that were not taken yet.
const MARKS_MAX: usize = 1024;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct ShownTimes {
    /// The position of the newest mark, to be read without the mutex.
    last: AtomicU64,
    marks: Mutex<VecDeque<(Lsn, u64)>>,
}

impl ShownTimes {
    /// Notes that everything below `position` is visible; the clock `now_ns` is read after that.
    ///
    /// # Progress
    /// Wait-free (N2).
    pub(crate) fn note(&self, position: Lsn, now_ns: impl FnOnce() -> u64) {
        if position.get() <= self.last.load(Relaxed) {
            return;
        }
        let Some(mut marks) = self.marks.try_lock() else { return };
        // Look again, now that no other thread can note a mark.
        if position.get() <= self.last.load(Relaxed) {
            return;
        }
        self.last.store(position.get(), Relaxed);
        if marks.len() == MARKS_MAX {
            let kept = marks.iter().copied().skip(1).step_by(2); // N3
            *marks = kept.collect();
        }
        marks.push_back((position, now_ns()));
    }

    /// Moves the marks at or below `position` to `out`, oldest first.
    pub(crate) fn take(&self, position: Lsn, out: &mut Vec<(Lsn, u64)>) {
        let mut marks = self.marks.lock();
        out.extend(std::iter::from_fn(|| marks.pop_front_if(|(shown, _)| *shown <= position)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(times: &ShownTimes, position: u64) -> Vec<(u64, u64)> {
        let mut out = Vec::new();
        times.take(Lsn::new(position), &mut out);
        out.into_iter().map(|(shown, at_ns)| (shown.get(), at_ns)).collect()
    }

    /// Goal: N1: each position has the time at which it first became visible. Method: positions that grow, stand still
    /// and fall; taken up to one in between.
    #[test]
    fn positions_have_the_time_at_which_they_were_shown() {
        let times = ShownTimes::default();
        for (position, at_ns) in [(100, 1), (100, 2), (300, 3), (200, 4), (400, 5)] {
            times.note(Lsn::new(position), || at_ns);
        }
        assert_eq!(taken(&times, 350), [(100, 1), (300, 3)]);
        assert_eq!(taken(&times, 400), [(400, 5)]);
        assert_eq!(taken(&times, u64::MAX), []);
    }

    /// Goal: N3: marks that are not taken are thinned out, and none that stays has a time earlier than the positions
    /// that it covers. Method: twice as many as there is room for.
    #[test]
    fn marks_that_nobody_takes_are_thinned_out() {
        let times = ShownTimes::default();
        (1..=2 * MARKS_MAX as u64).for_each(|n| times.note(Lsn::new(n), || n));
        let marks = taken(&times, u64::MAX);
        assert!((MARKS_MAX / 2..=MARKS_MAX).contains(&marks.len()), "{}", marks.len());
        assert!(marks.iter().all(|(position, at_ns)| position == at_ns));
        assert_eq!(marks.last(), Some(&(2 * MARKS_MAX as u64, 2 * MARKS_MAX as u64)));
    }

    /// Goal: N2: a thread that applies does not wait for one that takes marks. Method: a position while the marks are
    /// held, and one afterwards.
    #[test]
    fn a_position_beside_a_reader_is_covered_by_the_next() {
        let times = ShownTimes::default();
        let held = times.marks.lock();
        times.note(Lsn::new(100), || 1);
        drop(held);
        times.note(Lsn::new(200), || 2);
        assert_eq!(taken(&times, u64::MAX), [(200, 2)]);
    }
}
