//! `DelayHistory`: the measured delays of one replica, window by window, and their quantiles.
//!
//! # Invariants
//! - D1. A window without a measurement has no figures, which differs from 0.
//! - D2. A commit counts in the window in which it was found to be visible. A commit that has waited through a
//!   whole window counts in that window too, with the time for which it has waited, if that is longer than every
//!   delay counted there: a replica that makes no progress does not look punctual.
//! - D3. Quantiles are the upper end of a bucket, at most 1/64 above the true value; means are exact.
//! - D4. Memory is bounded: [`SECONDS_MAX`] seconds, and four histograms of 30 KiB.
//!
//! Checked by the tests here.

use std::collections::VecDeque;

use collie_base::{Latencies, Lsn};

use super::{Delay, Measured, SlotState};
use crate::packet::DelayWindow;

/// The number of seconds that are kept: ten minutes.
pub const SECONDS_MAX: usize = 600;

const SECOND_NS: u64 = 1_000_000_000;

/// The time for which one of the two newest histograms is filled; percentiles cover one to two minutes.
const TURN_NS: u64 = 60 * SECOND_NS;

/// The number of seconds over which rates are taken.
const RATE_SECONDS: usize = 5;

/// How long the figures of a second are displayed as the newest ones.
const NEWEST_NS: u64 = 10 * SECOND_NS;

/// Returns the figures of the counted delays; `None` if there are none (D1).
fn window_of(counted: &Latencies) -> Option<DelayWindow> {
    let (mean_ns, max_ns) = (counted.mean_ns()?, counted.max_ns());
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a mean of times; bounded below")]
    let mean_ns = (mean_ns.round() as u64).min(max_ns);
    let (p50_ns, p99_ns) = (counted.at_per_mille(500), counted.at_per_mille(990));
    Some(DelayWindow { commits: counted.count(), mean_ns, p50_ns, p99_ns, max_ns })
}

/// Counts the waits that are longer than every counted delay (D2).
fn count_waits(counted: &mut Latencies, waits: impl Iterator<Item = Measured>) {
    let longest_ns = counted.max_ns();
    for Measured { delay_ns, stands_for, .. } in waits.filter(|wait| wait.delay_ns > longest_ns) {
        counted.record_times(delay_ns, stands_for);
    }
}

/// One second of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelaySecond {
    /// The end of the second, on this node's clock.
    pub at_ns: u64,
    /// The state of the replica at the end.
    pub state: SlotState,
    /// The delays measured in the second.
    pub window: Option<DelayWindow>,
    /// For how long, at the end, the replica had owed the oldest position that its readers did not see, in
    /// nanoseconds; 0 if it owed none.
    pub owed_ns: u64,
    /// The durable position of this node at the end.
    pub durable: Lsn,
    /// The visible position of the replica at the end.
    pub applied: Lsn,
}

/// All delays measured for a replica, since its slot was created or this node was started: two readings give the
/// mean of the time in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayTotals {
    /// The number of commits that the sampled ones represent.
    pub commits: u64,
    /// The sum of their delays, in nanoseconds.
    pub sum_ns: u64,
}

/// The situation of a replica at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// Its state.
    pub state: SlotState,
    /// For how long it has owed the oldest position that its readers do not see, in nanoseconds.
    pub owed_ns: u64,
    /// The durable position of this node.
    pub durable: Lsn,
    /// The visible position of the replica.
    pub applied: Lsn,
}

/// The delays of one replica over time.
#[derive(Clone, Debug, Default)]
pub struct DelayHistory {
    /// Since the last heartbeat that reported a delay.
    beat: Latencies,
    beat_began_ns: u64,
    second: Latencies,
    second_began_ns: u64,
    turns: [Latencies; 2],
    turn_began_ns: u64,
    seconds: VecDeque<DelaySecond>,
    totals: DelayTotals,
}

impl DelayHistory {
    /// Records a measured delay.
    pub fn note(&mut self, Measured { delay_ns, stands_for, .. }: Measured) {
        let DelayTotals { commits, sum_ns } = &mut self.totals;
        *commits += u64::from(stands_for);
        *sum_ns = sum_ns.saturating_add(delay_ns.saturating_mul(u64::from(stands_for)));
        for counted in [&mut self.beat, &mut self.second, &mut self.turns[0]] {
            counted.record_times(delay_ns, stands_for);
        }
    }

    /// Returns the delays measured since the last call, to be sent to the replica.
    pub fn take_beat(&mut self, delay: &Delay, now_ns: u64) -> Option<DelayWindow> {
        count_waits(&mut self.beat, delay.waits(self.beat_began_ns, now_ns));
        let window = window_of(&self.beat);
        self.beat.clear();
        self.beat_began_ns = now_ns;
        window
    }

    /// Advances the time; to be called several times per second.
    pub fn tick(&mut self, now_ns: u64, delay: &Delay, standing: Standing) {
        if self.second_began_ns == 0 {
            (self.second_began_ns, self.turn_began_ns) = (now_ns, now_ns);
            return;
        }
        if now_ns.saturating_sub(self.second_began_ns) < SECOND_NS {
            return;
        }
        for counted in [&mut self.second, &mut self.turns[0]] {
            count_waits(counted, delay.waits(self.second_began_ns, now_ns));
        }
        if self.seconds.len() == SECONDS_MAX {
            self.seconds.pop_front();
        }
        let Standing { state, owed_ns, durable, applied } = standing;
        let window = window_of(&self.second);
        self.seconds.push_back(DelaySecond { at_ns: now_ns, state, window, owed_ns, durable, applied });
        self.second.clear();
        self.second_began_ns = now_ns;
        if now_ns.saturating_sub(self.turn_began_ns) >= TURN_NS {
            self.turns.swap(0, 1);
            self.turns[0].clear();
            self.turn_began_ns = now_ns;
        }
    }

    /// Returns the totals so far.
    pub fn totals(&self) -> DelayTotals {
        self.totals
    }

    /// Returns the seconds, oldest first.
    pub fn seconds(&self) -> impl Iterator<Item = &DelaySecond> {
        self.seconds.iter()
    }

    /// Returns the figures of the newest second that has any, unless it ended ten or more seconds ago.
    pub fn newest(&self, now_ns: u64) -> Option<DelayWindow> {
        let newest = self.seconds.iter().rev().take_while(|second| now_ns.saturating_sub(second.at_ns) < NEWEST_NS);
        newest.into_iter().find_map(|second| second.window)
    }

    /// Returns the figures of the last one to two minutes.
    pub fn summary(&self) -> Option<DelayWindow> {
        let mut both = self.turns[1].clone();
        both.merge(&self.turns[0]);
        window_of(&both)
    }

    /// Returns how long the replica takes to catch up by `behind_bytes` at the rates of the last seconds, in
    /// nanoseconds: 0 if it is not behind, `None` if it is not gaining or the rates are not known yet.
    pub fn drain_ns(&self, behind_bytes: u64) -> Option<u64> {
        if behind_bytes == 0 {
            return Some(0);
        }
        let last = self.seconds.back()?;
        let first = self.seconds.get(self.seconds.len().saturating_sub(RATE_SECONDS + 1))?;
        let time_ns = last.at_ns.checked_sub(first.at_ns).filter(|time| *time > 0)?;
        let gained = last.applied.bytes_since(first.applied).checked_sub(last.durable.bytes_since(first.durable))?;
        let drain = u128::from(behind_bytes) * u128::from(time_ns) / u128::from(gained).max(1);
        u64::try_from(drain).ok().filter(|_| gained > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::primary::DrawnCommit;

    fn lsn(position: u64) -> Lsn {
        Lsn::new(position)
    }

    fn standing(durable: u64, applied: u64) -> Standing {
        let (durable, applied) = (lsn(durable), lsn(applied));
        Standing { state: SlotState::Streaming, owed_ns: 0, durable, applied }
    }

    fn measured(delay_ns: u64, stands_for: u32) -> Measured {
        Measured { csn: Lsn::ZERO, delay_ns, stands_for }
    }

    /// Goal: D1 and D3: a second has the figures measured in it, one without a measurement has none, and all are
    /// gone after two minutes. Method: seconds one by one.
    #[test]
    fn seconds_are_what_was_measured_and_none_without() {
        let (mut history, delay) = (DelayHistory::default(), Delay::default());
        history.tick(1, &delay, standing(10, 10));
        (1..=100).for_each(|ms| history.note(measured(ms * 1_000_000, 3)));
        history.tick(SECOND_NS / 2, &delay, standing(10, 10));
        assert_eq!((history.seconds().count(), history.newest(SECOND_NS / 2)), (0, None));
        history.tick(SECOND_NS + 1, &delay, standing(10, 10));
        history.tick(2 * SECOND_NS + 1, &delay, standing(10, 5));
        let seconds: Vec<_> = history.seconds().map(|second| second.window).collect();
        let [Some(window), None] = seconds[..] else { panic!("{seconds:?}") };
        assert_eq!((window.commits, window.mean_ns, window.max_ns), (300, 50_500_000, 100_000_000));
        assert!((50_000_000..51_000_000).contains(&window.p50_ns), "{window:?}");
        assert!((99_000_000..=100_000_000).contains(&window.p99_ns), "{window:?}");
        assert_eq!((history.newest(3 * SECOND_NS), history.newest(12 * SECOND_NS)), (Some(window), None));
        assert_eq!(history.summary(), Some(window));
        assert_eq!(history.totals(), DelayTotals { commits: 300, sum_ns: 15_150_000_000 });
        (3..3 + SECONDS_MAX as u64).for_each(|n| history.tick(n * SECOND_NS + 1, &delay, standing(10, 10)));
        assert_eq!((history.seconds().count(), history.summary()), (SECONDS_MAX, None));
    }

    /// Goal: a heartbeat reports the delays measured since the one before; a commit that was visible at once
    /// counts as 0, and no commit yields no figures. Method: two heartbeats, the second without a commit.
    #[test]
    fn a_heartbeat_tells_what_was_measured_since_the_last() {
        let (mut history, delay) = (DelayHistory::default(), Delay::default());
        assert_eq!(history.take_beat(&delay, 1), None);
        history.note(measured(0, 5));
        let told = history.take_beat(&delay, 2).expect("a commit");
        assert_eq!((told.commits, told.mean_ns, told.p99_ns), (5, 0, 0));
        assert_eq!(history.take_beat(&delay, 3), None);
    }

    /// Goal: D2: commits that a replica does not make visible count in each window through which they wait, and in
    /// no other. Method: a commit in the middle of a second, and three seconds that pass without an ack.
    #[test]
    fn a_commit_that_waits_through_a_window_counts_in_it() {
        let (mut history, mut delay) = (DelayHistory::default(), Delay::default());
        delay.begin();
        history.tick(SECOND_NS, &delay, standing(10, 10));
        let commit = DrawnCommit { csn: lsn(20), at_ns: SECOND_NS * 3 / 2, stands_for: 4 };
        delay.on_drawn(&[commit], &mut |_| panic!("it is not shown"));
        (2..=4).for_each(|n| history.tick(n * SECOND_NS, &delay, standing(30, 10)));
        let windows: Vec<_> = history.seconds().map(|second| second.window).collect();
        let [None, Some(first), Some(second)] = windows[..] else { panic!("{windows:?}") };
        assert_eq!((first.commits, first.mean_ns, first.max_ns), (4, SECOND_NS * 3 / 2, SECOND_NS * 3 / 2));
        assert_eq!(second.max_ns, SECOND_NS * 5 / 2);
        history.note(measured(3 * SECOND_NS, 1));
        history.tick(5 * SECOND_NS, &delay, standing(30, 10));
        let last = history.seconds().last().and_then(|second| second.window).expect("one was shown");
        assert_eq!((last.commits, last.max_ns), (5, SECOND_NS * 7 / 2), "the longer wait counts beside it");
    }

    /// Goal: the time to catch up is the backlog divided by the gain per second. Method: rates that gain, keep
    /// pace and lose.
    #[test]
    fn drain_time_is_backlog_by_gain() {
        let drained = |applied: u64, durable: u64| {
            let mut history = DelayHistory::default();
            let delay = Delay::default();
            (0..10).for_each(|n| history.tick(1 + n * SECOND_NS, &delay, standing(1000 + n * durable, n * applied)));
            history.drain_ns(1000)
        };
        assert_eq!(drained(30, 10), Some(50 * SECOND_NS));
        assert_eq!(drained(10, 10), None);
        assert_eq!(drained(10, 30), None);
        assert_eq!(DelayHistory::default().drain_ns(0), Some(0));
        assert_eq!(DelayHistory::default().drain_ns(1), None);
    }
}
