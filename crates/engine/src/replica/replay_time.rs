//! `ReplayTime`: how new what a replica shows is, by the calendar of its primary.
//!
//! The log says it about once a second (TIME records): everything below a mark was appended before its time. So the time told here
//! is at most the interval between two marks older than the last commit shown; it stands still while nothing is written.
//!
//! # Invariants
//! - M1. A mark is told of once everything below its record's end is shown.
//! - M2. At most [`WAITING_MAX`] marks wait; of those that come while so many do, only the newest is kept.

use std::collections::VecDeque;

use collie_base::Lsn;
use parking_lot::Mutex;

/// A quarter of an hour of marks, while the primary holds back what is shown.
const WAITING_MAX: usize = 1024;

#[derive(Debug, Default)]
struct Marks {
    /// Microseconds since 1970, and the end of the record; not shown when last looked at.
    waiting: VecDeque<(i64, Lsn)>,
    shown: Option<i64>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct ReplayTime(Mutex<Marks>);

impl ReplayTime {
    /// Takes a mark whose record ends at `end`, above all before.
    pub(crate) fn mark(&self, wall_us: i64, end: Lsn) {
        let mut marks = self.0.lock();
        if marks.waiting.len() >= WAITING_MAX {
            marks.waiting.pop_back(); // M2
        }
        marks.waiting.push_back((wall_us, end));
    }

    /// Returns the time of the newest mark below `shown`, if one came since the open.
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

    /// Goal: M1 and M2. Method: marks that are shown one after the other, and more of them than wait.
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
