//! `SerialWrites`: the keys that SERIALIZABLE transactions have committed lately, for who validates much in steps.
//!
//! A transaction that has read much looks at all of it before its commit, a part at a time, while others go on. What its like
//! commit meanwhile is kept here, so that under the lock of validation it looks at these keys alone. Commits of other levels take
//! no part in the serial order, and are not kept: one that comes while the parts are looked at may go unnoticed.
//!
//! # Invariants
//! - K1. `mark` and `add` are called under the lock of validation (V1 of `serial` in `collie_txn`) only, so a commit that came
//!   before a mark is published, and is met by every look that begins after it; one that came later is in here, or `forgotten_to`
//!   is above the mark.
//! - K2. Nothing is kept while nobody has a mark, and at most [`KEYS_MAX`] keys else.
//!
//! Checked by `serial_tests.rs`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use collie_base::CfId;
use parking_lot::Mutex;

use crate::read_set::ReadSet;

/// Keys kept at most. Whoever is behind them looks at everything again.
pub(crate) const KEYS_MAX: usize = 1 << 14;

/// Keys of one commit.
pub(crate) type Keys = Vec<(CfId, Box<[u8]>)>;

#[derive(Debug, Default)]
struct Inner {
    /// The number of the next commit.
    next: u64,
    commits: VecDeque<(u64, Keys)>,
    keys: usize,
    /// Commits of lower numbers are not in here.
    forgotten_to: u64,
    marks: usize,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct SerialWrites {
    inner: Mutex<Inner>,
    /// `marks`, for a look without the lock.
    marks: AtomicUsize,
}

/// What came after a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// Nothing that was read.
    Unchanged,
    /// This key, which was read.
    Changed(CfId, Box<[u8]>),
    /// More than was kept.
    Forgotten,
}

impl SerialWrites {
    /// Begins to keep what is committed from now on. Give the mark back with [`SerialWrites::unmark`].
    pub(crate) fn mark(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.marks += 1;
        self.marks.store(inner.marks, Relaxed);
        inner.next
    }

    /// Ends what [`SerialWrites::mark`] began.
    pub(crate) fn unmark(&self) {
        let mut inner = self.inner.lock();
        inner.marks -= 1;
        self.marks.store(inner.marks, Relaxed);
        if inner.marks == 0 {
            inner.commits = VecDeque::new();
            (inner.keys, inner.forgotten_to) = (0, inner.next);
        }
    }

    /// Returns whether somebody has a mark: then a commit that is about to validate collects its keys. A guess, which [`SerialWrites::add`]
    /// puts right.
    pub(crate) fn is_watched(&self) -> bool {
        self.marks.load(Relaxed) > 0
    }

    /// Keeps what a commit writes that was validated; `None` when that was not collected.
    pub(crate) fn add(&self, keys: Option<Keys>) {
        let mut inner = self.inner.lock();
        if inner.marks == 0 {
            return; // K2
        }
        let number = inner.next;
        inner.next += 1;
        match keys.filter(|keys| keys.len() <= KEYS_MAX) {
            Some(keys) => {
                inner.keys += keys.len();
                inner.commits.push_back((number, keys));
            }
            None => {
                inner.commits.clear();
                (inner.keys, inner.forgotten_to) = (0, number + 1);
            }
        }
        while inner.keys > KEYS_MAX {
            let Some((number, keys)) = inner.commits.pop_front() else { break };
            inner.keys -= keys.len();
            inner.forgotten_to = number + 1;
        }
    }

    /// Says whether something that was read was committed since `mark`.
    pub(crate) fn since(&self, mark: u64, reads: &ReadSet) -> Since {
        let inner = self.inner.lock();
        if mark < inner.forgotten_to {
            return Since::Forgotten;
        }
        let later = inner.commits.iter().skip_while(|(number, _)| *number < mark);
        let changed = later.flat_map(|(_, keys)| keys).find(|(cf, key)| reads.holds_sorted(*cf, key));
        changed.map_or(Since::Unchanged, |(cf, key)| Since::Changed(*cf, key.clone()))
    }
}
