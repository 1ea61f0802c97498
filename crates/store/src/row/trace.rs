//! `watch`: records which version of which row the reads of a call saw, for a checker that knows which ones they should
//! have seen.
//!
//! Compiled only with the feature `trace-oracle`; otherwise the one hook, in `Row::read`, is an empty function. A read
//! is recorded where the version is chosen, not where its value is used, so that an answer can be compared with its
//! source.
//!
//! # Invariants
//! - H1. A thread records its reads only while it is inside [`watch`], and no other thread sees them.

use crate::row::Seen;

/// Records that a read of the row at `key` chose a version with this origin and value.
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

    /// The choice of a read of one row.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct RowRead {
        /// The row.
        pub key: Box<[u8]>,
        /// The writer of the version.
        pub seen: Seen,
        /// The [`digest`] of its value; `None` if the version is a deletion.
        pub value: Option<u64>,
    }

    /// Returns a hash that distinguishes values in a history (FNV-1a). Not for untrusted bytes.
    #[must_use]
    pub fn digest(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
    }

    /// Calls `act` and returns its result, and the choices of this thread's reads during the call, in order. Rows
    /// without a version in view, and keys without a row, are missing. Nested calls inside `act` see only their own
    /// part.
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
