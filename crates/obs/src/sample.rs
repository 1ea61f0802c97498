//! `Sample`: one measured call of a unit, or a counted run of calls. Ninety-six bytes, no pointer, no user data (RT3).

use crate::schema::{FEATURES_MAX, LABELS_MAX};

/// The ticks came from an injected clock, not from the processor's counter.
pub const FLAG_INJECTED_CLOCK: u8 = 1;

/// Samples of this thread were dropped since the one before it: its ring was full.
pub const FLAG_AFTER_DROPS: u8 = 2;

/// Most calls in one sample.
pub const CALLS_MAX: u16 = 16;

/// One sample, as [`crate::Drain`] gives it.
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
    /// Number of the thread, in the order in which threads first took a sample, modulo 2^16.
    pub thread: u16,
    /// Calls that it sums up, at most [`CALLS_MAX`].
    pub calls: u16,
    /// The probability with which this call (or run) was taken: an estimate weighs the sample with `1 / p` (RT2).
    pub p: f32,
    /// Number of the drain period it was taken in: with `thread` it names a [`crate::ContextRow`].
    pub ctx: u32,
    /// When it began, in nanoseconds of the clock that the drain was given.
    pub start: u64,
    /// The position in the log it is about; 0 for none.
    pub lsn: u64,
    /// As the unit's schema says, zeros behind. Of a run: the sums, `code` and `flag` those of the last call.
    pub features: [u32; FEATURES_MAX],
    /// As the unit's schema says; the first is `elapsed_ns`, less the cost of an empty start and stop.
    pub labels: [u64; LABELS_MAX],
}

// The layout is that of the thread's ring: docs/format.md describes the columns, nothing writes these bytes to disk.
const _: () = {
    assert!(size_of::<Sample>() == 96 && align_of::<Sample>() == 8);
    assert!(std::mem::offset_of!(Sample, p) == 8 && std::mem::offset_of!(Sample, start) == 16);
    assert!(std::mem::offset_of!(Sample, features) == 32 && std::mem::offset_of!(Sample, labels) == 64);
};
