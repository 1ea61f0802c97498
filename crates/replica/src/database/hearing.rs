//! [`Hearing`]: the reports that a replica has received from its primary, over all connections: the primary's
//! durable positions with their times of arrival, and the delay after which readers here saw commits.
//!
//! # Invariants
//! - H1. Everything not applied here has been known for at most [`Hearing::oldest_ns`]: a position that arrives
//!   soon after another is counted with the earlier one, which is older.
//! - H2. Memory is bounded: beyond the bound neighbouring marks are merged, and only the newest delays are kept.

use std::collections::VecDeque;

use collie_base::Lsn;

use crate::packet::DelayWindow;

/// A position that arrives within this time of the previous mark gets no mark of its own.
const APART_NS: u64 = 1_000_000;

/// The most delays that are kept: those of a few seconds.
const DELAYS_MAX: usize = 64;

/// The most marks: four seconds of them on a replica that applies nothing.
const MARKS_MAX: usize = 4096;

/// States that from `heard_ns` on, and not before, everything below `durable` was known to be on the primary's
/// disk.
#[derive(Clone, Copy, Debug)]
struct Mark {
    durable: Lsn,
    heard_ns: u64,
}

/// The delays reported during some time, in windows of one heartbeat that each had commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelaysHeard(pub Vec<DelayWindow>);

impl DelaysHeard {
    /// Returns how many commits the windows cover.
    pub fn commits(&self) -> u64 {
        self.0.iter().fold(0, |commits, window| commits.saturating_add(window.commits))
    }

    /// Returns the mean delay of these commits, in nanoseconds; `None` if there are none.
    pub fn mean_ns(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().map(|window| window.commits as f64 * window.mean_ns as f64).sum();
        (self.commits() > 0).then(|| sum / self.commits() as f64)
    }

    /// Returns the median of these delays, in nanoseconds, as far as the windows show it: the median of each
    /// window is weighted by its commits. `None` if there are none.
    pub fn p50_ns(&self) -> Option<u64> {
        let mut windows: Vec<(u64, u64)> = self.0.iter().map(|window| (window.p50_ns, window.commits)).collect();
        windows.sort_unstable();
        let (half, mut below) = (self.commits().div_ceil(2), 0_u64);
        windows.into_iter().find_map(|(p50_ns, commits)| {
            below = below.saturating_add(commits);
            (below >= half).then_some(p50_ns)
        })
    }

    /// Returns the longest of these delays, in nanoseconds; `None` if there are none.
    pub fn max_ns(&self) -> Option<u64> {
        self.0.iter().map(|window| window.max_ns).max()
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// The last reported durable position of the primary, and the time of the report.
    last: Option<(Lsn, u64)>,
    /// Marks of positions that were not applied at the last check; oldest first.
    marks: VecDeque<Mark>,
    /// The newest reported delays, each with the time of its report.
    delays: VecDeque<(DelayWindow, u64)>,
    /// The number of delays that were dropped before these.
    forgotten: u64,
    owed_ns: Option<u64>,
}

impl Hearing {
    /// Records that the primary sent something at `now_ns`, and has everything below `durable` on its disk.
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

    /// Records the primary's report at `now_ns`: how much later readers here saw commits, and for how long they
    /// have been owed the oldest commit that they do not see.
    pub(super) fn delayed(&mut self, delay: Option<DelayWindow>, owed_ns: u64, now_ns: u64) {
        self.owed_ns = Some(owed_ns);
        let Some(delay) = delay else { return };
        if self.delays.len() == DELAYS_MAX {
            self.delays.pop_front();
            self.forgotten += 1;
        }
        self.delays.push_back((delay, now_ns));
    }

    /// Returns the primary's durable position in the last message from it, and the time of that message.
    pub(super) fn last(&self) -> Option<(Lsn, u64)> {
        self.last
    }

    /// Returns the delays reported after the first `seen`, and the number of delays reported so far.
    pub(super) fn delays_since(&self, seen: u64) -> (DelaysHeard, u64) {
        let skipped = usize::try_from(seen.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        let told = self.delays.iter().skip(skipped).map(|(delay, _)| *delay).collect();
        (DelaysHeard(told), self.forgotten.saturating_add(self.delays.len() as u64))
    }

    /// Returns for how long readers here have been owed commits that they do not see, according to the last
    /// report.
    pub(super) fn last_owed_ns(&self) -> Option<u64> {
        self.owed_ns
    }

    /// Returns the last reported delay, and the time of the report.
    pub(super) fn last_delay(&self) -> Option<(DelayWindow, u64)> {
        self.delays.back().copied()
    }

    /// Returns for how long, at `now_ns`, a position that is not below `applied` has been known (H1); 0 if
    /// everything known is applied. Drops the marks of applied positions: `applied` never decreases.
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

    /// Goal: H1: the age of the oldest unapplied commit is the age of its report. Method: positions reported at
    /// known times, and each of them applied.
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

    /// Goal: a position that arrives too soon after a mark to get its own is not lost, and never counts as younger
    /// than it is. Method: two positions within a tenth of a millisecond.
    #[test]
    fn news_that_come_together_count_as_the_first() {
        let mut hearing = Hearing::default();
        hearing.heard(Lsn::new(100), 10 * MS);
        hearing.heard(Lsn::new(200), 10 * MS + 100_000);
        hearing.heard(Lsn::new(200), 20 * MS);
        assert_eq!(hearing.oldest_ns(Lsn::new(150), 30 * MS), 20 * MS);
        assert_eq!(hearing.oldest_ns(Lsn::new(200), 30 * MS), 0);
    }

    /// Goal: H2: a replica that applies nothing keeps every age. Method: a minute of reports, one every two
    /// milliseconds, none of them applied, then all but the newest.
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

    /// Goal: the mean and the median of a time are those of the commits reported in it, each window weighted by
    /// its commits, and there are none where nothing was reported. Method: three windows, read in two parts; then
    /// more windows than are kept.
    #[test]
    fn delays_are_those_of_commits_that_were_told_of() {
        let mut hearing = Hearing::default();
        let (none, seen) = hearing.delays_since(0);
        assert_eq!((none.commits(), none.mean_ns(), none.p50_ns(), none.max_ns()), (0, None, None, None));
        let window = |commits, ns| DelayWindow { commits, mean_ns: ns, p50_ns: ns, p99_ns: ns, max_ns: 2 * ns };
        assert_eq!(hearing.last_owed_ns(), None);
        hearing.delayed(Some(window(1, 900)), 0, 1);
        hearing.delayed(None, 70, 1);
        hearing.delayed(Some(window(8, 100)), 70, 2);
        assert_eq!(hearing.last_owed_ns(), Some(70));
        let (told, seen) = hearing.delays_since(seen);
        assert_eq!((told.commits(), told.p50_ns(), told.max_ns()), (9, Some(100), Some(1800)));
        assert!(told.mean_ns().is_some_and(|mean| (mean - 1700.0 / 9.0).abs() < 1e-9));
        hearing.delayed(Some(window(3, 0)), 0, 3);
        assert_eq!(hearing.delays_since(seen).0, DelaysHeard(vec![window(3, 0)]));
        assert_eq!(hearing.last_delay(), Some((window(3, 0), 3)));
        (0..2 * DELAYS_MAX as u64).for_each(|n| hearing.delayed(Some(window(1, n)), 0, n));
        let (told, all) = hearing.delays_since(seen);
        assert_eq!((told.commits(), all), (DELAYS_MAX as u64, 3 + 2 * DELAYS_MAX as u64), "the newest");
    }
}
