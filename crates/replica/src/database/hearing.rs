//! [`Hearing`]: what a replica has heard of its primary, over all connections: how far that is, when, and how much later readers here saw
//! commits.
//!
//! # Invariants
//! - H1. What is not applied here has been known for at most as long as [`Hearing::oldest_ns`] says: news that come soon after others
//!   count as these, which are older.
//! - H2. Memory is bounded: beyond it each mark takes in the next one, and of delays the newest are kept.

use std::collections::VecDeque;

use collie_base::Lsn;

use crate::packet::DelayWindow;

/// News that come so soon after others have no mark of their own.
const APART_NS: u64 = 1_000_000;

/// So many delays are kept: those of some seconds.
const DELAYS_MAX: usize = 64;

/// Four seconds of marks, of a replica that applies nothing.
const MARKS_MAX: usize = 4096;

/// Everything below `durable` was known to be on the primary's disk by then, and was not known before.
#[derive(Clone, Copy, Debug)]
struct Mark {
    durable: Lsn,
    heard_ns: u64,
}

/// What was told of delays in some time, in windows of a heartbeat in each of which there were commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelaysHeard(pub Vec<DelayWindow>);

impl DelaysHeard {
    /// Returns for how many commits they stand.
    pub fn commits(&self) -> u64 {
        self.0.iter().fold(0, |commits, window| commits.saturating_add(window.commits))
    }

    /// Returns the mean delay of these commits, in nanoseconds; `None` of none.
    pub fn mean_ns(&self) -> Option<f64> {
        let sum: f64 = self.0.iter().map(|window| window.commits as f64 * window.mean_ns as f64).sum();
        (self.commits() > 0).then(|| sum / self.commits() as f64)
    }

    /// Returns the median of these delays, in nanoseconds, as far as the windows say: the median of each counts for its commits. `None` of none.
    pub fn p50_ns(&self) -> Option<u64> {
        let mut windows: Vec<(u64, u64)> = self.0.iter().map(|window| (window.p50_ns, window.commits)).collect();
        windows.sort_unstable();
        let (half, mut below) = (self.commits().div_ceil(2), 0_u64);
        windows.into_iter().find_map(|(p50_ns, commits)| {
            below = below.saturating_add(commits);
            (below >= half).then_some(p50_ns)
        })
    }

    /// Returns the longest of these delays, in nanoseconds; `None` of none.
    pub fn max_ns(&self) -> Option<u64> {
        self.0.iter().map(|window| window.max_ns).max()
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// What the primary had on disk when it was last heard, as far as it was told, and when.
    last: Option<(Lsn, u64)>,
    /// Of what is not applied, as far as was looked; oldest first.
    marks: VecDeque<Mark>,
    /// The newest, each with when it was told.
    delays: VecDeque<(DelayWindow, u64)>,
    /// How many there were before these.
    forgotten: u64,
    owed_ns: Option<u64>,
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

    /// The primary says at `now_ns` how much later readers here saw commits, and for how long they have been owed what they do not see.
    pub(super) fn delayed(&mut self, delay: Option<DelayWindow>, owed_ns: u64, now_ns: u64) {
        self.owed_ns = Some(owed_ns);
        let Some(delay) = delay else { return };
        if self.delays.len() == DELAYS_MAX {
            self.delays.pop_front();
            self.forgotten += 1;
        }
        self.delays.push_back((delay, now_ns));
    }

    /// Returns what the primary had on its disk when it was last heard, and when that was.
    pub(super) fn last(&self) -> Option<(Lsn, u64)> {
        self.last
    }

    /// Returns what was told of delays after the first `seen`, and how many of them there were by now.
    pub(super) fn delays_since(&self, seen: u64) -> (DelaysHeard, u64) {
        let skipped = usize::try_from(seen.saturating_sub(self.forgotten)).unwrap_or(usize::MAX);
        let told = self.delays.iter().skip(skipped).map(|(delay, _)| *delay).collect();
        (DelaysHeard(told), self.forgotten.saturating_add(self.delays.len() as u64))
    }

    /// Returns for how long readers here have been owed what they do not see, as it was told last.
    pub(super) fn last_owed_ns(&self) -> Option<u64> {
        self.owed_ns
    }

    /// Returns what was told last, and when.
    pub(super) fn last_delay(&self) -> Option<(DelayWindow, u64)> {
        self.delays.back().copied()
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

    /// Goal: a time has the mean and the median of the commits that were told of in it, each window counting for its commits, and none where
    /// nothing was told. Method: three windows, asked for in two parts; then more than are kept.
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
