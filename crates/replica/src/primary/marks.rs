//! `Marks`: when positions of the log were passed here, for how long a replica has owed what it does not show.
//!
//! # Invariants
//! - M1. How long something has been owed is never understated by more than the time between two notes, and never by marks that were
//!   forgotten.
//! - M2. Memory is bounded: beyond it each mark takes in the next one.
//!
//! Checked by the tests here.

use std::collections::VecDeque;

use collie_base::Lsn;

/// Most marks that are kept.
const MARKS_MAX: usize = 65_536;

/// The shortest time between two marks.
const APART_NS: u64 = 100_000;

/// Something above the mark before, and nothing above `lsn`, was passed from this time on.
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
    /// Keeps at most `marks_max` (two at the least), each at least `apart_ns` after the one before.
    pub fn new(marks_max: usize, apart_ns: u64) -> Self {
        Self { marks: VecDeque::new(), marks_max: marks_max.max(2), apart_ns }
    }

    /// Notes that everything below `lsn`, and nothing above it, was passed at `now_ns`.
    ///
    /// Cost: constant, but for a look at all marks when there are too many.
    pub fn pass(&mut self, lsn: Lsn, now_ns: u64) {
        match self.marks.back_mut() {
            Some(last) if lsn <= last.lsn => return,
            Some(last) if now_ns < last.passed_ns.saturating_add(self.apart_ns) => {
                last.lsn = lsn; // older than it is
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

    /// Returns for how long, at `now_ns`, one that shows everything below `applied` has owed the oldest of what it does not show, of all that is
    /// below `durable`, in nanoseconds; 0 when that is nothing.
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

    /// Goal: M1: what is owed grows while nothing is shown, and is over when everything is, however long nothing has happened (T89). Method:
    /// two marks and an hour.
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

    /// Goal: M2: a replica that stands still owes as long as it does, however much was written since (T2). Method: far more marks than are
    /// kept, and some that are too near to have one of their own.
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
