//! `Sample`: one measured call of a unit, or a counted run of calls. It is 96 bytes, without pointers or user data
//! (RT3).

use crate::schema::{FEATURES_MAX, LABELS_MAX};

/// The ticks came from an injected clock, not from the processor's counter.
pub const FLAG_INJECTED_CLOCK: u8 = 1;

/// Samples of this thread were dropped between this sample and the one before it, because the lane was full.
pub const FLAG_AFTER_DROPS: u8 = 2;

/// Most calls in one sample.
pub const CALLS_MAX: u16 = 16;

/// One sample, as [`crate::Drain`] returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct Sample {
    /// Id of the unit.
    pub ou: u8,
    /// Version of the unit's schema.
    pub version: u8,
    /// [`crate::Source`] as a number.
    pub source: u8,
    /// `FLAG_*`.
    pub flags: u8,
    /// Number of the thread, in the order in which threads took their first sample, modulo 2^16.
    pub thread: u16,
    /// Number of calls in the sample, at most [`CALLS_MAX`].
    pub calls: u16,
    /// The probability with which this call (or run) was taken: an estimate weighs the sample with `1 / p` (RT2).
    pub p: f32,
    /// Number of the drain period; with `thread` it identifies a [`crate::ContextRow`].
    pub ctx: u32,
    /// Start of the call, in nanoseconds of the drain's clock.
    pub start: u64,
    /// The log position of the call; 0 for none.
    pub lsn: u64,
    /// Features in the order of the unit's schema, then zeros. A run has their sums, and the last call's value of a
    /// `code`, `flag` or `percent`.
    pub features: [u32; FEATURES_MAX],
    /// Labels in the order of the unit's schema; the first is `elapsed_ns`, less the cost of an empty start and
    /// stop.
    pub labels: [u64; LABELS_MAX],
}

// This is the layout in a thread's lane; docs/format.md describes the columns, and these bytes are never written to
// disk.
const _: () = {
    assert!(size_of::<Sample>() == 96 && align_of::<Sample>() == 8);
    assert!(std::mem::offset_of!(Sample, p) == 8 && std::mem::offset_of!(Sample, start) == 16);
    assert!(std::mem::offset_of!(Sample, features) == 32 && std::mem::offset_of!(Sample, labels) == 64);
};
