//! `Marks`: when positions of the log were passed on this node, and so for how long a replica has owed positions
//! that its readers do not see.
//!
//! # Invariants
//! - M1. The time for which a position has been owed is understated by no more than the time between two notes,
//!   and never by dropped marks.
//! - M2. Memory is bounded: beyond the bound neighbouring marks are merged.
//!
//! Checked by the tests here.

use std::collections::VecDeque;

use collie_base::Lsn;

/// The most marks that are kept.
const MARKS_MAX: usize = 65_536;

/// The shortest time between two marks.
const APART_NS: u64 = 100_000;

/// From this time on, the position had passed the mark before, but not `lsn`.
#[derive(Clone, Copy, Debug)]
struct Mark {
    lsn: Lsn,
    passed_ns: u64,
}

/// See the module's documentation. Oldest first.
#[derive(Clone, Debug)]
pub struct Marks {
    marks: VecDeque<Mark>,
    marks_max: usize,
    apart_ns: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Self::new(MARKS_MAX, APART_NS)
    }
}

impl Marks {
    /// Keeps at most `marks_max` marks (at least two), each at least `apart_ns` after the one before.
    pub fn new(marks_max: usize, apart_ns: u64) -> Self {
        Self { marks: VecDeque::new(), marks_max: marks_max.max(2), apart_ns }
    }

    /// Notes that everything below `lsn`, and nothing above it, was passed at `now_ns`.
    ///
    /// Cost: constant, except for a pass over all marks when there are too many.
    pub fn pass(&mut self, lsn: Lsn, now_ns: u64) {
        match self.marks.back_mut() {
            Some(last) if lsn <= last.lsn => return,
            Some(last) if now_ns < last.passed_ns.saturating_add(self.apart_ns) => {
                last.lsn = lsn; // counts as older than it is
                return;
            }
            _ => {}
        }
        if self.marks.len() >= self.marks_max {
            let pairs = self.marks.make_contiguous().chunks(2); // M2
            self.marks = pairs.map(|pair| Mark { lsn: pair[pair.len() - 1].lsn, ..pair[0] }).collect();
        }
        self.marks.push_back(Mark { lsn, passed_ns: now_ns });
    }

    /// Returns for how long, at `now_ns`, a replica whose visible position is `applied` has owed the oldest
    /// position below `durable` that it does not show, in nanoseconds; 0 if it owes none.
    pub fn owed_ns(&self, applied: Lsn, durable: Lsn, now_ns: u64) -> u64 {
        if applied >= durable {
            return 0;
        }
        let above = self.marks.partition_point(|mark| mark.lsn <= applied);
        self.marks.get(above).map_or(0, |mark| now_ns.saturating_sub(mark.passed_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lsn(position: u64) -> Lsn {
        Lsn::new(position)
    }

    /// Goal: M1: the owed time grows while nothing becomes visible, and ends when everything has, however long
    /// nothing has happened (T89). Method: two marks and an hour.
    #[test]
    fn what_is_owed_is_as_old_as_the_oldest_of_it() {
        let mut marks = Marks::new(10, 0);
        marks.pass(lsn(100), 1000);
        marks.pass(lsn(100), 3000);
        marks.pass(lsn(200), 9000);
        let owed = |applied, durable, now_ns| marks.owed_ns(lsn(applied), lsn(durable), now_ns);
        assert_eq!([owed(50, 200, 10_000), owed(100, 200, 10_000), owed(150, 200, 10_000)], [9000, 1000, 1000]);
        assert_eq!([owed(200, 200, 3_600_000_000_000), owed(200, 201, 10_000)], [0, 0]);
    }

    /// Goal: M2: the owed time of a replica that makes no progress is right, however much was written since (T2).
    /// Method: far more marks than are kept, and some that are too close to get their own.
    #[test]
    fn marks_that_are_too_many_forget_no_age() {
        let mut marks = Marks::new(8, 10);
        (1..=1000_u64).for_each(|n| marks.pass(lsn(n), n * 5));
        assert!(marks.marks.len() <= 8);
        assert_eq!(marks.owed_ns(Lsn::ZERO, lsn(1000), 6000), 5995);
        let half = marks.owed_ns(lsn(500), lsn(1000), 6000);
        assert!(half >= 6000 - 501 * 5, "{half}");
    }
}
