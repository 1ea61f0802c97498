//! `watch`: which version of which row the reads of a call saw, for a checker that knows which ones they should have seen.
//!
//! Compiled in with the feature `trace-oracle` only; else the one hook, in `Row::read`, is an empty function. What is seen is
//! noted where the version is chosen, not where its value is used, so that an answer can be compared with its source.
//!
//! # Invariants
//! - H1. A thread notes what it reads while it is inside [`watch`], and nothing otherwise; nobody else sees it.

use crate::row::Seen;

/// Notes that a read of the row at `key` chose a version with this stamp and value.
#[cfg(not(feature = "trace-oracle"))]
#[inline(always)]
pub(crate) const fn note(_key: &[u8], _seen: Seen, _value: Option<&[u8]>) {}

#[cfg(feature = "trace-oracle")]
pub(crate) use watching::note;
#[cfg(feature = "trace-oracle")]
pub use watching::{RowRead, digest, watch};

#[cfg(feature = "trace-oracle")]
mod watching {
    use std::cell::RefCell;

    use super::Seen;

    std::thread_local! {
        static NOTED: RefCell<Option<Vec<RowRead>>> = const { RefCell::new(None) };
    }

    /// What a read of one row chose.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RowRead {
        /// The row.
        pub key: Box<[u8]>,
        /// Whose version.
        pub seen: Seen,
        /// [`digest`] of its value; `None` when it says that the row was deleted.
        pub value: Option<u64>,
    }

    /// Tells values apart in a history (FNV-1a). Not for untrusted bytes.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
    }

    /// Calls `act` and returns what it answers with what this thread's reads chose meanwhile, in their order. Rows in which
    /// nothing was in view, and keys without a row, are not there. Calls inside of `act` see their own part only.
    pub fn watch<R>(act: impl FnOnce() -> R) -> (R, Vec<RowRead>) {
        let outer = NOTED.replace(Some(Vec::new()));
        let answer = act();
        let reads = NOTED.replace(outer).unwrap_or_default();
        (answer, reads)
    }

    pub(crate) fn note(key: &[u8], seen: Seen, value: Option<&[u8]>) {
        NOTED.with_borrow_mut(|noted| {
            if let Some(reads) = noted {
                reads.push(RowRead { key: key.into(), seen, value: value.map(digest) });
            }
        });
    }
}
