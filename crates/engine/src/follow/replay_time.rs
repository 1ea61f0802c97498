//! `ReplayTime`: the age of the state that a replica shows, by the clock of its primary.
//!
//! The log has a TIME record about once a second: everything below such a mark was appended before its time. So the
//! time returned here is older than the last visible commit by at most the interval between two marks; it stands still
//! while nothing is written.
//!
//! # Invariants
//! - M1. A mark counts once everything below its record's end is visible.
//! - M2. At most [`WAITING_MAX`] marks wait; of those that arrive beyond that, only the newest is kept.

use std::collections::VecDeque;

use collie_base::Lsn;
use parking_lot::Mutex;

/// Marks of a quarter of an hour, for a primary that holds the read horizon back.
const WAITING_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Marks {
    /// Microseconds since 1970, and the end of the record; not visible at the last look.
    waiting: VecDeque<(i64, Lsn)>,
    shown: Option<i64>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct ReplayTime(Mutex<Marks>);

impl ReplayTime {
    /// Adds a mark whose record ends at `end`, above all earlier ones.
    pub(crate) fn mark(&self, wall_us: i64, end: Lsn) {
        let mut marks = self.0.lock();
        if marks.waiting.len() >= WAITING_MAX {
            marks.waiting.pop_back(); // M2
        }
        marks.waiting.push_back((wall_us, end));
    }

    /// Returns the time of the newest mark at or below `shown`, if one came since the opening.
    pub(crate) fn at(&self, shown: Lsn) -> Option<i64> {
        let mut marks = self.0.lock();
        while let Some((wall_us, _)) = marks.waiting.pop_front_if(|(_, end)| *end <= shown) {
            marks.shown = Some(wall_us);
        }
        marks.shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: M1 and M2. Method: marks that become visible one by one, and more of them than may wait.
    #[test]
    fn time_is_that_of_the_newest_mark_shown() {
        let time = ReplayTime::default();
        assert_eq!(time.at(Lsn::MAX), None);
        time.mark(10, Lsn::new(100));
        time.mark(20, Lsn::new(200));
        assert_eq!([99, 100, 199].map(|shown| time.at(Lsn::new(shown))), [None, Some(10), Some(10)]);
        assert_eq!(time.at(Lsn::new(200)), Some(20));
        assert_eq!(time.at(Lsn::ZERO), Some(20), "what was shown stays");
        for mark in 0..2 * WAITING_MAX as u64 {
            time.mark(1000 + mark.cast_signed(), Lsn::new(1000 + mark));
        }
        let last = 1000 + 2 * WAITING_MAX as u64 - 1;
        assert_eq!(time.at(Lsn::new(last - 1)), Some(1000 + WAITING_MAX as i64 - 2));
        assert_eq!(time.at(Lsn::new(last)), Some(last.cast_signed()));
    }
}
