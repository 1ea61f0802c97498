//! `ShownTimes`: when sessions of a replica began to see the positions that are shown.
//!
//! # Invariants
//! - N1. Everything below the position of a mark was shown by its time, and it was noted as soon as that was so: what lies between two marks
//!   was shown between their times.
//! - N2. Nobody who applies waits here. A mark that cannot be noted at once is left out; the next one covers it.
//! - N3. Memory is bounded: of [`MARKS_MAX`] marks that nobody takes, every second one is forgotten, for which the one behind it stands.
//!
//! Checked by the tests here.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use collie_base::Lsn;
use parking_lot::Mutex;

/// Most marks that wait to be taken.
const MARKS_MAX: usize = 1024;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct ShownTimes {
    /// The position of the newest mark, for a look without the mutex.
    last: AtomicU64,
    marks: Mutex<VecDeque<(Lsn, u64)>>,
}

impl ShownTimes {
    /// Takes note that everything below `position` is shown; `now_ns` is asked after it was.
    ///
    /// # Progress
    /// Wait-free (N2).
    pub(crate) fn note(&self, position: Lsn, now_ns: impl FnOnce() -> u64) {
        if position.get() <= self.last.load(Relaxed) {
            return;
        }
        let Some(mut marks) = self.marks.try_lock() else { return };
        // Again, now that nobody else notes anything.
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

    /// Goal: N1: each position has the time at which it was shown first. Method: positions that grow, stand and fall; taken up to one in
    /// between.
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

    /// Goal: N3: marks that nobody takes are thinned out, and none that stays is earlier than what it stands for. Method: twice as many as
    /// there is room for.
    #[test]
    fn marks_that_nobody_takes_are_thinned_out() {
        let times = ShownTimes::default();
        (1..=2 * MARKS_MAX as u64).for_each(|n| times.note(Lsn::new(n), || n));
        let marks = taken(&times, u64::MAX);
        assert!((MARKS_MAX / 2..=MARKS_MAX).contains(&marks.len()), "{}", marks.len());
        assert!(marks.iter().all(|(position, at_ns)| position == at_ns));
        assert_eq!(marks.last(), Some(&(2 * MARKS_MAX as u64, 2 * MARKS_MAX as u64)));
    }

    /// Goal: N2: whoever applies does not wait for whoever takes marks. Method: a position while they are held, and one afterwards.
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
