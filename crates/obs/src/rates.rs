//! `Rates`: the probability with which each unit is sampled for each source. One publisher writes, every thread
//! reads.
//!
//! This module does not decide about the table. A thread that draws a skip may use a probability that was replaced
//! a moment ago; the sample carries the probability that was used.
//!
//! # Invariants
//! - R1. A base is 0 where no source is sampled, else an epoch in the upper half; epochs of a unit only grow.
//! - R2. A thread that sees a base sees the probabilities that were set with it, or later ones.
//!
//! # Ordering
//! | store         | pairs with    | carries                                                                          |
//! |---------------|---------------|----------------------------------------------------------------------------------|
//! | base, Release | base, Acquire | the probabilities of that epoch: an old one would be kept until the next change  |
//!
//! # Progress
//! Wait-free, all functions. Checked by `rates/loom_models.rs`.

use collie_sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use collie_sync::ord;

use crate::schema::UNIT_SLOTS;
use crate::source::{SOURCES, Source};

/// A probability for each unit and source.
#[derive(Clone, Debug, PartialEq)]
pub struct RateTable {
    p: [[f32; SOURCES]; UNIT_SLOTS],
}

impl RateTable {
    /// Returns a table that samples nothing.
    pub const fn off() -> Self {
        Self { p: [[0.0; SOURCES]; UNIT_SLOTS] }
    }

    /// Returns a table that samples every unit with probability `p`, for every source.
    pub fn all(p: f32) -> Self {
        Self { p: [[clamped(p); SOURCES]; UNIT_SLOTS] }
    }

    /// Sets the probability of `unit` for `source`, clamped to the range 0 to 1; NaN counts as 0. Ignores a unit
    /// without an id.
    pub fn set(&mut self, unit: u8, source: Source, p: f32) {
        if let Some(of_unit) = self.p.get_mut(usize::from(unit)) {
            of_unit[usize::from(source.number())] = clamped(p);
        }
    }

    /// Returns the probability of `unit` for `source`; 0 for a unit without an id.
    pub fn get(&self, unit: u8, source: Source) -> f32 {
        self.p.get(usize::from(unit)).map_or(0.0, |of_unit| of_unit[usize::from(source.number())])
    }
}

fn clamped(p: f32) -> f32 {
    if p > 0.0 { p.min(1.0) } else { 0.0 }
}

/// The words that the threads read.
#[derive(Debug)]
pub(crate) struct Rates {
    /// Written by the publisher only (R1).
    bases: [AtomicU64; UNIT_SLOTS],
    /// Written by the publisher only: bits of an `f32`.
    p: [[AtomicU32; SOURCES]; UNIT_SLOTS],
}

/// The right to publish, with the state it needs: the publisher does not read its own words back.
#[derive(Debug)]
pub(crate) struct Publisher {
    epochs: [u32; UNIT_SLOTS],
    published: RateTable,
}

impl Publisher {
    pub(crate) const fn new() -> Self {
        Self { epochs: [0; UNIT_SLOTS], published: RateTable::off() }
    }
}

impl Rates {
    #[cfg(not(any(loom, shuttle)))]
    pub(crate) const fn new() -> Self {
        Self {
            bases: [const { AtomicU64::new(0) }; UNIT_SLOTS],
            p: [const { [const { AtomicU32::new(0) }; SOURCES] }; UNIT_SLOTS],
        }
    }

    #[cfg(any(loom, shuttle))]
    pub(crate) fn new() -> Self {
        Self {
            bases: std::array::from_fn(|_| AtomicU64::new(0)),
            p: std::array::from_fn(|_| std::array::from_fn(|_| AtomicU32::new(0))),
        }
    }

    /// Publishes `table`. Threads draw again for each unit that changed, or for every unit if `anew`.
    pub(crate) fn publish(&self, publisher: &mut Publisher, table: &RateTable, anew: bool) {
        for (unit, wanted) in table.p.iter().enumerate() {
            let before = &mut publisher.published.p[unit];
            if anew || before != wanted {
                for ((word, before), p) in self.p[unit].iter().zip(before).zip(wanted) {
                    if before != p {
                        word.store(p.to_bits(), Relaxed);
                        *before = *p;
                    }
                }
                // 2^32 changes of one unit take more than a century at one per second.
                publisher.epochs[unit] += 1;
                let is_on = wanted.iter().any(|p| *p > 0.0);
                let base = if is_on { u64::from(publisher.epochs[unit]) << 32 } else { 0 };
                self.bases[unit].store(base, ord!("RATES_BASE_STORE", Release));
            }
        }
    }

    /// Returns the base of `unit`: 0 when it is off.
    #[inline]
    pub(crate) fn base(&self, unit: u8) -> u64 {
        self.bases[usize::from(unit)].load(ord!("RATES_BASE_LOAD", Acquire))
    }

    /// Returns the probability in force, which is never older than a base that this thread has seen (R2).
    pub(crate) fn p(&self, unit: u8, source: Source) -> f32 {
        f32::from_bits(self.p[usize::from(unit)][usize::from(source.number())].load(Relaxed))
    }
}

#[cfg(test)]
#[cfg(loom)]
mod loom_models;
