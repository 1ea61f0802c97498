//! `Marks` and [`Delay`]: how far a replica is behind in time, on the primary's clock only.
//!
//! The primary notes when it passed positions. A replica says which position its readers see, and how long ago, on its own clock,
//! that was. What lies between the two is the delay; no two clocks are ever compared.
//!
//! # Invariants
//! - T1. A delay is never understated: of the time between two marks in which a position was passed, the older end counts, and half of
//!   the shortest round trip is all that is taken off for the way of the ack.
//! - T2. Acks that come late, or not at all, add nothing and hide nothing: while one is missing, the age of the oldest mark above
//!   what was applied is shown, if it is more.
//! - T3. A replica whose readers see everything is not behind, however long nothing has happened.
//! - T4. Memory is bounded: beyond it the oldest marks are forgotten, and positions below them count as older than any that is known.
//!
//! Checked by the tests here, against a model that remembers everything.

use std::collections::VecDeque;

use collie_base::Lsn;

/// Most marks that are kept: 6 s of them at the shortest distance.
const MARKS_MAX: usize = 65_536;

/// For how long a lag is shown after it was measured, when the replica has everything: as long as PostgreSQL's, whose receivers report
/// that they are idle every 10 s.
const LAG_SHOWN_NS: u64 = 10_000_000_000;

/// A position and when it was passed.
#[derive(Clone, Copy, Debug)]
struct Mark {
    lsn: Lsn,
    passed_ns: u64,
    /// When nothing above it was passed yet, as far as is known.
    still_ns: u64,
}

/// When positions were passed, oldest first.
#[derive(Clone, Debug)]
pub struct Marks {
    marks: VecDeque<Mark>,
    marks_max: usize,
    apart_ns: u64,
}

impl Default for Marks {
    fn default() -> Self {
        Self::new(MARKS_MAX, 100_000)
    }
}

impl Marks {
    /// Keeps at most `marks_max` (two at the least), each at least `apart_ns` after the one before.
    pub fn new(marks_max: usize, apart_ns: u64) -> Self {
        Self { marks: VecDeque::new(), marks_max: marks_max.max(2), apart_ns }
    }

    /// Notes that everything below `lsn`, and nothing above it, was passed at `now_ns`. The clock was read before the position.
    ///
    /// Cost: constant. Whatever is not noted because the last mark is too near is covered by the next one.
    pub fn pass(&mut self, lsn: Lsn, now_ns: u64) {
        if let Some(last) = self.marks.back_mut() {
            if lsn == last.lsn {
                last.still_ns = last.still_ns.max(now_ns);
            }
            if lsn <= last.lsn || now_ns < last.passed_ns.saturating_add(self.apart_ns) {
                return;
            }
        }
        if self.marks.len() == self.marks_max {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { lsn, passed_ns: now_ns, still_ns: now_ns });
    }

    /// Returns a time at or before which `lsn` was not passed yet: the older end of the time in which it was (T1). `None` when that
    /// is not known any more (T4), or it was passed before anything was noted.
    pub fn before(&self, lsn: Lsn) -> Option<u64> {
        let above = self.marks.partition_point(|mark| mark.lsn < lsn);
        above.checked_sub(1).and_then(|below| self.marks.get(below)).map(|mark| mark.still_ns)
    }

    /// Returns when something above `lsn` was first noted to be passed.
    pub fn first_above(&self, lsn: Lsn) -> Option<u64> {
        let above = self.marks.partition_point(|mark| mark.lsn <= lsn);
        self.marks.get(above).map(|mark| mark.passed_ns)
    }

    /// Returns when the oldest mark was made.
    pub fn oldest_ns(&self) -> Option<u64> {
        self.marks.front().map(|mark| mark.passed_ns)
    }
}

/// How far one replica is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    last_ns: u64,
    max_ns: u64,
    applied: Lsn,
    /// When the last one was measured.
    measured_ns: Option<u64>,
}

impl Delay {
    /// Begins at `lsn`, unless it has begun: what the replica had when it came is no delay.
    pub fn begin(&mut self, lsn: Lsn) {
        if self.applied == Lsn::ZERO {
            self.applied = lsn;
        }
    }

    /// Takes note of an ack that came at `now_ns` and says that readers saw everything below `lsn` for `age_ns` by then. Returns
    /// the delay of that position; `None` when it was passed too long ago to be known.
    pub fn on_mark(&mut self, marks: &Marks, lsn: Lsn, age_ns: u64, rtt_min_ns: u64, now_ns: u64) -> Option<u64> {
        if lsn <= self.applied {
            return None;
        }
        self.applied = lsn;
        let way_ns = if rtt_min_ns == u64::MAX { 0 } else { rtt_min_ns / 2 };
        let passed_ns = marks.before(lsn)?;
        // What was applied before it can have been passed was passed earlier than noted: no delay to speak of.
        let delay_ns = now_ns.saturating_sub(age_ns).saturating_sub(way_ns).saturating_sub(passed_ns);
        self.last_ns = delay_ns;
        self.max_ns = self.max_ns.max(delay_ns);
        self.measured_ns = Some(now_ns);
        Some(delay_ns)
    }

    /// Returns how far the replica is behind at `now_ns`, in nanoseconds: what was measured last or, if it is more, how long it has owed
    /// what it does not show yet (T2). 0 when it shows everything below `durable` (T3).
    pub fn now_ns(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> u64 {
        if self.applied >= durable {
            return 0;
        }
        self.last_ns.max(self.owed_ns(marks, durable, now_ns))
    }

    /// Returns the lag as PostgreSQL shows one: what [`Delay::now_ns`] says while the replica owes something, what was measured last for
    /// [`LAG_SHOWN_NS`] more, and `None` once nothing has happened for so long.
    pub fn lag_ns(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> Option<u64> {
        if self.applied < durable {
            return Some(self.now_ns(marks, durable, now_ns));
        }
        let is_fresh = |measured_ns: u64| now_ns.saturating_sub(measured_ns) < LAG_SHOWN_NS;
        self.measured_ns.is_some_and(is_fresh).then_some(self.last_ns)
    }

    /// Returns for how long the replica has owed the oldest of what it does not show, in nanoseconds; 0 when that is nothing.
    pub fn owed_ns(&self, marks: &Marks, durable: Lsn, now_ns: u64) -> u64 {
        let since_ns = marks.first_above(self.applied).filter(|_| self.applied < durable);
        since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns))
    }

    /// Returns the longest delay that was measured.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn lsn(position: u64) -> Lsn {
        Lsn::new(position)
    }

    /// Goal: T1 in numbers. Method: two marks, and positions below, between and above them.
    #[test]
    fn a_position_counts_from_the_older_end_of_its_interval() {
        let mut marks = Marks::new(10, 0);
        marks.pass(lsn(100), 1000);
        marks.pass(lsn(200), 5000);
        assert_eq!(marks.before(lsn(100)), None);
        assert_eq!(marks.before(lsn(150)), Some(1000));
        assert_eq!(marks.before(lsn(200)), Some(1000));
        assert_eq!(marks.before(lsn(201)), Some(5000));
        let mut delay = Delay::default();
        // Heard at 9000, applied 2000 before, on a way of 500: at 6500; passed after 1000.
        assert_eq!(delay.on_mark(&marks, lsn(200), 2000, 1000, 9000), Some(5500));
        assert_eq!(delay.now_ns(&marks, lsn(200), 1 << 40), 0, "everything is shown (T3)");
        assert_eq!(delay.now_ns(&marks, lsn(201), 9000), 5500);
        assert_eq!(delay.max_ns(), 5500);
    }

    /// Goal: time in which nothing is written is no delay (T89). Method: heartbeats that find the same position, then a
    /// write that is applied at once.
    #[test]
    fn idle_time_before_a_write_is_no_delay() {
        let (mut marks, mut delay) = (Marks::new(10, 100), Delay::default());
        marks.pass(lsn(100), 1_000);
        for beat in 1..=50 {
            marks.pass(lsn(100), 1_000 + beat * 1_000);
        }
        marks.pass(lsn(200), 51_200);
        assert_eq!(delay.on_mark(&marks, lsn(200), 0, 0, 51_300), Some(300), "since the last beat");
        assert_eq!(marks.first_above(lsn(50)), Some(1_000), "the position was passed then, however long it stood");
    }

    /// Goal: a lag is there while something is owed, stays for a while, and is none for who is idle. Method: the clock alone
    /// moves, past a write and its ack.
    #[test]
    fn lag_is_none_for_who_is_idle() {
        let (mut marks, mut delay) = (Marks::new(10, 0), Delay::default());
        marks.pass(lsn(100), 1_000);
        assert_eq!(Delay { applied: lsn(100), ..delay }.lag_ns(&marks, lsn(100), 2_000), None, "nothing was measured");
        delay.begin(lsn(100));
        assert_eq!(delay.on_mark(&marks, lsn(100), 0, 0, 2_500), None, "it came with that");
        marks.pass(lsn(200), 3_000);
        assert_eq!(delay.lag_ns(&marks, lsn(200), 7_000), Some(4_000), "owed for so long");
        assert_eq!(delay.on_mark(&marks, lsn(200), 0, 0, 8_000), Some(7_000));
        assert_eq!(delay.lag_ns(&marks, lsn(200), 8_000 + LAG_SHOWN_NS - 1), Some(7_000));
        assert_eq!(delay.lag_ns(&marks, lsn(200), 8_000 + LAG_SHOWN_NS), None);
    }

    /// Goal: T2: a replica that stands still is more and more behind, without an ack. Method: time alone moves.
    #[test]
    fn a_stuck_replica_shows_the_age_of_what_it_owes() {
        let (mut marks, mut delay) = (Marks::new(10, 0), Delay::default());
        marks.pass(lsn(100), 1000);
        assert_eq!(delay.on_mark(&marks, lsn(100), 0, 0, 1500), None);
        marks.pass(lsn(200), 2000);
        marks.pass(lsn(300), 9000);
        assert_eq!(delay.now_ns(&marks, lsn(300), 10_000), 8000);
        assert_eq!(delay.now_ns(&marks, lsn(300), 1_000_000), 998_000);
    }

    /// Goal: T4, and marks that are too near are left out. Method: a full ring, and marks closer than allowed.
    #[test]
    fn old_marks_are_forgotten_and_near_ones_left_out() {
        let mut marks = Marks::new(3, 10);
        for n in 1..=100_u64 {
            marks.pass(lsn(n), n * 5);
        }
        assert_eq!(marks.marks.len(), 3);
        assert!(marks.marks.iter().zip(marks.marks.iter().skip(1)).all(|(a, b)| b.passed_ns - a.passed_ns >= 10));
        assert_eq!(marks.before(lsn(5)), None);
    }

    proptest! {
        /// Goal: T1: never less than the truth. Method: a primary that passes positions at random times, marks at random distances; each
        /// position applied at a random later time and told after a random way, no shorter than half the shortest round trip.
        #[test]
        fn no_delay_is_understated(
            steps in vec((1..50_u64, 1..400_u64), 1..60), apart in 0..1500_u64, applied_after in vec(0..3000_u64, 60),
            way in 10..200_u64, late in vec(0..500_u64, 60),
        ) {
            let (mut marks, mut at, mut now, mut truth) = (Marks::new(1000, apart), 0, 10_000, Vec::new());
            for (bytes, ns) in steps {
                (at, now) = (at + bytes, now + ns);
                marks.pass(lsn(at), now);
                truth.push((at, now));
            }
            let mut delay = Delay::default();
            for ((at, passed), (after, late)) in truth.into_iter().zip(applied_after.into_iter().zip(late)) {
                let (shown, heard) = (passed + after, passed + after + late + way);
                // Its age when the ack was sent, which took `way`.
                let measured = delay.on_mark(&marks, lsn(at), late, 2 * way, heard);
                if let Some(measured) = measured {
                    prop_assert!(measured >= shown - passed, "{measured} for {}", shown - passed);
                }
            }
        }
    }
}
