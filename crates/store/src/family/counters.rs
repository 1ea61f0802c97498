//! `Counters`: the counters of a family for its rows and for the operations on them.
//!
//! A write adds to three or four of them. Each thread has its own line with all of them, so a write touches one
//! line that no other thread uses, and a thread that reads the index next to them has no extra misses.

use collie_sync::StripedCounters;

/// The amounts of one addition, or the sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    /// Bytes of memory (A1 of the family).
    pub(super) memory: i64,
    /// Bytes of keys and values that were written.
    pub(super) user_bytes: i64,
    /// Rows created.
    pub(super) inserts: i64,
    /// Rows changed, deleted or locked.
    pub(super) writes: i64,
    /// Deleted rows removed from memory.
    pub(super) removals: i64,
}

/// The sums of one family.
#[derive(Debug, Default)]
pub(super) struct Counters(StripedCounters<5>);

impl Counters {
    /// Adds the amounts. Wait-free.
    #[inline]
    pub(super) fn add(&self, counted: Counted) {
        let Counted { memory, user_bytes, inserts, writes, removals } = counted;
        self.0.add([memory, user_bytes, inserts, writes, removals]);
    }

    /// Returns the bytes of memory. One load per stripe.
    pub(super) fn memory(&self) -> u64 {
        u64::try_from(self.0.sum(0)).unwrap_or(0)
    }

    /// Returns the sums, which are approximate while other threads add.
    pub(super) fn sums(&self) -> Counted {
        let [memory, user_bytes, inserts, writes, removals] = [0, 1, 2, 3, 4].map(|place| self.0.sum(place));
        Counted { memory, user_bytes, inserts, writes, removals }
    }
}
