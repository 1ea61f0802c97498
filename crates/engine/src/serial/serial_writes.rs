//! `SerialWrites`: the keys that SERIALIZABLE transactions have committed recently, for transactions that validate a
//! large read set in steps.
//!
//! A transaction with a large read set examines all of it before its commit, a part at a time, while other transactions
//! continue. The SERIALIZABLE commits of that time are kept here, so under the lock of validation it examines only
//! their keys. Commits of other levels take no part in the serial order and are not kept: one that comes while the
//! parts are examined may go unnoticed.
//!
//! # Invariants
//! - K1. `mark` and `add` are only called under the lock of validation (V1 of `serial` in `collie_txn`). So a commit
//!   before a mark is published, and every look that begins after the mark finds it; a commit after the mark is in
//!   here, or `forgotten_to` is above the mark.
//! - K2. Nothing is kept while there is no mark, and otherwise at most [`KEYS_MAX`] keys.
//!
//! Checked by `serial_tests.rs`.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use collie_base::CfId;
use parking_lot::Mutex;

use crate::serial::read_set::ReadSet;

/// Maximum number of keys that are kept. A transaction that falls behind them examines its whole read set again.
pub(crate) const KEYS_MAX: usize = 1 << 14;

/// The keys of one commit.
pub(crate) type Keys = Vec<(CfId, Box<[u8]>)>;

#[derive(Debug, Default)]
struct Inner {
    /// The number of the next commit.
    next: u64,
    commits: VecDeque<(u64, Keys)>,
    keys: usize,
    /// Commits below this number are not in here.
    forgotten_to: u64,
    marks: usize,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct SerialWrites {
    inner: Mutex<Inner>,
    /// The same as `marks`, to be read without the lock.
    marks: AtomicUsize,
}

/// The commits after a mark, compared with a read set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// No key of the read set was committed.
    Unchanged,
    /// This key of the read set was committed.
    Changed(CfId, Box<[u8]>),
    /// More was committed than is kept.
    Forgotten,
}

impl SerialWrites {
    /// Begins to keep the keys of commits from now on. [`SerialWrites::unmark`] must release the mark.
    pub(crate) fn mark(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.marks += 1;
        self.marks.store(inner.marks, Relaxed);
        inner.next
    }

    /// Releases a mark of [`SerialWrites::mark`].
    pub(crate) fn unmark(&self) {
        let mut inner = self.inner.lock();
        inner.marks -= 1;
        self.marks.store(inner.marks, Relaxed);
        if inner.marks == 0 {
            inner.commits = VecDeque::new();
            (inner.keys, inner.forgotten_to) = (0, inner.next);
        }
    }

    /// Returns whether there is a mark: then a commit that is about to validate collects its keys. The answer is a
    /// guess, which [`SerialWrites::add`] corrects.
    pub(crate) fn is_watched(&self) -> bool {
        self.marks.load(Relaxed) > 0
    }

    /// Keeps the keys of a validated commit; `None` if they were not collected.
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

    /// Returns whether a key of the read set was committed since `mark`.
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
