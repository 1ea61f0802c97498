//! `Counters`: what a family counts of its rows and of what is done to them.
//!
//! A write adds to three or four of them. They lie together, a line for each thread: so a write pays for one line that no other
//! thread has, and those who look for the index beside them pay nothing.

use collie_sync::StripedCounters;

/// What is added at one time, or the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Bytes of memory (A1 of the family).
    pub(super) memory: i64,
    /// Bytes of keys and values that were written.
    pub(super) user_bytes: i64,
    /// Rows that came to be.
    pub(super) inserts: i64,
    /// Rows that were changed, deleted or locked.
    pub(super) writes: i64,
    /// Deleted rows that left memory.
    pub(super) removals: i64,
}

/// The sums of one family.
#[derive(Debug, Default)]
pub(super) struct Counters(StripedCounters<5>);

impl Counters {
    /// Adds. Wait-free.
    #[inline]
    pub(super) fn add(&self, counted: Counted) {
        let Counted { memory, user_bytes, inserts, writes, removals } = counted;
        self.0.add([memory, user_bytes, inserts, writes, removals]);
    }

    /// Returns the bytes of memory. One load per stripe.
    pub(super) fn memory(&self) -> u64 {
        u64::try_from(self.0.sum(0)).unwrap_or(0)
    }

    /// Returns the sums, about while others add.
    pub(super) fn sums(&self) -> Counted {
        let [memory, user_bytes, inserts, writes, removals] = [0, 1, 2, 3, 4].map(|place| self.0.sum(place));
        Counted { memory, user_bytes, inserts, writes, removals }
    }
}
