//! `Tally`: the counters of one run by kind of transaction.

use collie_base::Latencies;

use crate::request::Kind;
use crate::target::Answer;

/// The counters of one kind.
#[derive(Clone, Debug, Default)]
pub struct KindTally {
    /// Latencies of those that ended, counted from the intended start: with a rate, from the arrival time.
    pub latencies: Latencies,
    /// Those that ended with the rollback that a user's mistake requires; included in `latencies`.
    pub rolled_back: u64,
    /// Attempts that failed with 40001 and were repeated.
    pub conflicts: u64,
    /// Attempts that failed with 40P01 and were repeated.
    pub deadlocks: u64,
}

/// The counters of one run, or of one of its threads.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    kinds: [KindTally; 5],
    /// Districts that had no order to deliver.
    pub skipped: u64,
    /// Transactions that ended in each second.
    pub by_second: Vec<u64>,
    /// The times at which deliveries ended, in nanoseconds since the start of the measured time; unordered.
    pub deliveries_ns: Vec<u64>,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Tally {
    /// Returns the counters of a kind.
    pub const fn of(&self, kind: Kind) -> &KindTally {
        &self.kinds[kind as usize]
    }

    /// Returns the number of transactions that ended.
    pub fn ended(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.latencies.count()).sum()
    }

    /// Returns the number of attempts that failed and were repeated.
    pub fn retried(&self) -> u64 {
        self.kinds.iter().map(|kind| kind.conflicts + kind.deadlocks).sum()
    }

    /// Counts a transaction that took `ns` and ended at `at_ns` since the start of the measured time, and its failed
    /// attempts.
    pub(crate) fn count(&mut self, kind: Kind, answer: Answer, ns: u64, at_ns: u64, [conflicts, deadlocks]: [u64; 2]) {
        let of = &mut self.kinds[kind as usize];
        of.latencies.record(ns);
        of.rolled_back += u64::from(answer.rolled_back);
        of.conflicts += conflicts;
        of.deadlocks += deadlocks;
        if kind == Kind::Delivery {
            self.skipped += u64::from(crate::scale::DISTRICTS.saturating_sub(answer.count));
            self.deliveries_ns.push(at_ns);
        }
        let second = usize::try_from(at_ns / SECOND_NS).expect("seconds of a run");
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
    }

    /// Adds the counts of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (mine, others) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.latencies.merge(&others.latencies);
            mine.rolled_back += others.rolled_back;
            mine.conflicts += others.conflicts;
            mine.deadlocks += others.deadlocks;
        }
        self.skipped += other.skipped;
        self.deliveries_ns.extend(&other.deliveries_ns);
        self.by_second.resize(self.by_second.len().max(other.by_second.len()), 0);
        for (mine, others) in self.by_second.iter_mut().zip(&other.by_second) {
            *mine += others;
        }
    }
}
