//! `Countdown`: a thread's number of calls until its next sample, for each unit and source. Every call reads it.
//!
//! # Invariants
//! - C1. A word has an epoch (see `rates`) in the upper half and the calls to pass over in the lower. Its epoch is
//!   at most that of any base which its thread loads later. So `word > base` means that the word was drawn in this
//!   epoch and that calls are left.

use std::cell::Cell;

use crate::schema::UNIT_SLOTS;
use crate::source::{SOURCES, Source};

/// One place per source, and one in front for threads without a scope.
pub(crate) const PLACES: usize = SOURCES + 1;

#[derive(Debug)]
pub(crate) struct Countdown {
    words: [[Cell<u64>; UNIT_SLOTS]; PLACES],
    /// The place in use.
    place: Cell<usize>,
}

impl Countdown {
    pub(crate) const fn new() -> Self {
        Self { words: [const { [const { Cell::new(0) }; UNIT_SLOTS] }; PLACES], place: Cell::new(0) }
    }

    /// Returns whether this call is passed over, and if so counts it.
    #[inline]
    pub(crate) fn passes(&self, unit: u8, base: u64) -> bool {
        let word = &self.words[self.place.get()][usize::from(unit)];
        let left = word.get();
        let passes = left > base;
        if passes {
            word.set(left - 1);
        }
        passes
    }

    /// Returns whether the word was drawn in the epoch of `base` (C1).
    pub(crate) fn is_of(&self, unit: u8, base: u64) -> bool {
        self.words[self.place.get()][usize::from(unit)].get() >= base
    }

    pub(crate) fn set(&self, unit: u8, base: u64, calls: u32) {
        self.words[self.place.get()][usize::from(unit)].set(base | u64::from(calls));
    }

    pub(crate) fn place(&self) -> usize {
        self.place.get()
    }

    /// Works for `source` from now on; returns the place in use before.
    pub(crate) fn work_for(&self, source: Option<Source>) -> usize {
        self.place.replace(source.map_or(0, |source| usize::from(source.number()) + 1))
    }

    /// Returns to the place that [`Self::work_for`] returned.
    pub(crate) fn back_to(&self, place: usize) {
        self.place.set(place);
    }
}
