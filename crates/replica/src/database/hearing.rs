//! [`Hearing`]: what a replica has heard of its primary, over all connections: how far that is, when, and how far behind readers here were.
//!
//! # Invariants
//! - H1. What is not applied here has been known for at most as long as [`Hearing::oldest_ns`] says: news that come soon after others
//!   count as these, which are older.
//! - H2. Memory is bounded: beyond it each mark takes in the next one.

use std::collections::VecDeque;

use collie_base::Lsn;

/// News that come so soon after others have no mark of their own.
const APART_NS: u64 = 1_000_000;

/// Four seconds of marks, of a replica that applies nothing.
const MARKS_MAX: usize = 4096;

/// Everything below `durable` was known to be on the primary's disk by then, and was not known before.
#[derive(Clone, Copy, Debug)]
struct Mark {
    durable: Lsn,
    heard_ns: u64,
}

/// How far readers were behind, by the primary's clock, as far as it was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelaysHeard {
    /// What was told last, in nanoseconds; 0 before the first.
    pub last_ns: u64,
    /// The sum of all that were told, in nanoseconds.
    pub sum_ns: u64,
    /// How many there were.
    pub count: u64,
}

impl DelaysHeard {
    /// Returns the mean of those told since `before`, in nanoseconds; the last one if there was none.
    pub fn mean_since_ns(&self, before: &Self) -> u64 {
        let count = self.count.saturating_sub(before.count);
        self.sum_ns.saturating_sub(before.sum_ns).checked_div(count).unwrap_or(self.last_ns)
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// What the primary had on disk when it was last heard, as far as it was told, and when.
    last: Option<(Lsn, u64)>,
    /// Of what is not applied, as far as was looked; oldest first.
    marks: VecDeque<Mark>,
    delays: DelaysHeard,
}

impl Hearing {
    /// The primary was heard at `now_ns`, and has everything below `durable` on its disk.
    pub(super) fn heard(&mut self, durable: Lsn, now_ns: u64) {
        self.last = Some((durable, now_ns));
        match self.marks.back_mut() {
            Some(last) if durable <= last.durable => {}
            Some(last) if now_ns < last.heard_ns.saturating_add(APART_NS) => last.durable = durable,
            _ => self.mark(Mark { durable, heard_ns: now_ns }),
        }
    }

    fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MARKS_MAX {
            let pairs = self.marks.make_contiguous().chunks(2); // H2
            self.marks = pairs.map(|pair| Mark { durable: pair[pair.len() - 1].durable, ..pair[0] }).collect();
        }
        self.marks.push_back(mark);
    }

    /// The primary says how far readers here are behind.
    pub(super) fn delayed(&mut self, delay_ns: u64) {
        let delays = &mut self.delays;
        delays.last_ns = delay_ns;
        delays.sum_ns = delays.sum_ns.saturating_add(delay_ns);
        delays.count += 1;
    }

    /// Returns what the primary had on its disk when it was last heard, and when that was.
    pub(super) fn last(&self) -> Option<(Lsn, u64)> {
        self.last
    }

    /// Returns what was told of delays.
    pub(super) fn delays(&self) -> DelaysHeard {
        self.delays
    }

    /// Returns for how long, at `now_ns`, something has been known that is not below `applied` (H1); 0: nothing is. Marks of what is
    /// applied are forgotten: `applied` never falls.
    pub(super) fn oldest_ns(&mut self, applied: Lsn, now_ns: u64) -> u64 {
        while self.marks.front().is_some_and(|mark| mark.durable <= applied) {
            self.marks.pop_front();
        }
        self.marks.front().map_or(0, |mark| now_ns.saturating_sub(mark.heard_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Goal: H1: the oldest commit that is not applied is as old as the news of it. Method: positions heard at known times, and each of
    /// them applied.
    #[test]
    fn the_oldest_commit_is_as_old_as_its_news() {
        let mut hearing = Hearing::default();
        assert_eq!(hearing.oldest_ns(Lsn::ZERO, 5), 0, "nothing was heard");
        for (durable, at_ms) in [(100, 10), (100, 20), (200, 30), (300, 40)] {
            hearing.heard(Lsn::new(durable), at_ms * MS);
        }
        let mut oldest_ms = |applied, now_ms: u64| hearing.oldest_ns(Lsn::new(applied), now_ms * MS) / MS;
        assert_eq!([0, 99, 100, 150, 200, 299].map(|applied| oldest_ms(applied, 50)), [40, 40, 20, 20, 10, 10]);
        assert_eq!([300, 400].map(|applied| oldest_ms(applied, 5000)), [0, 0]);
        assert_eq!(hearing.last(), Some((Lsn::new(300), 40 * MS)));
    }

    /// Goal: what comes too soon after a mark to have one of its own is not lost, and never younger than it is. Method: two positions
    /// within a tenth of a millisecond.
    #[test]
    fn news_that_come_together_count_as_the_first() {
        let mut hearing = Hearing::default();
        hearing.heard(Lsn::new(100), 10 * MS);
        hearing.heard(Lsn::new(200), 10 * MS + 100_000);
        hearing.heard(Lsn::new(200), 20 * MS);
        assert_eq!(hearing.oldest_ns(Lsn::new(150), 30 * MS), 20 * MS);
        assert_eq!(hearing.oldest_ns(Lsn::new(200), 30 * MS), 0);
    }

    /// Goal: H2: a replica that stands still forgets no age. Method: a minute of news every two milliseconds, none of them applied, then
    /// all but the newest.
    #[test]
    fn a_replica_that_stands_still_keeps_few_marks() {
        let mut hearing = Hearing::default();
        for tick in 1..=30_000_u64 {
            hearing.heard(Lsn::new(tick), 2 * tick * MS);
        }
        assert!(hearing.marks.len() <= MARKS_MAX);
        assert_eq!(hearing.oldest_ns(Lsn::ZERO, 60_001 * MS), 59_999 * MS);
        let newest = hearing.oldest_ns(Lsn::new(29_999), 60_001 * MS);
        assert!((MS..100 * MS).contains(&newest), "{newest} ns");
    }

    /// Goal: the mean of a time is that of what was told in it, and of a time in which nothing was, the last. Method: by hand.
    #[test]
    fn delays_have_a_mean() {
        let mut hearing = Hearing::default();
        let start = hearing.delays();
        assert_eq!(start.mean_since_ns(&start), 0);
        hearing.delayed(100);
        hearing.delayed(300);
        let middle = hearing.delays();
        assert_eq!((middle.mean_since_ns(&start), middle.mean_since_ns(&middle)), (200, 300));
        hearing.delayed(u64::MAX);
        assert_eq!(hearing.delays().count, 3);
    }
}
