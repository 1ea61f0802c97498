//! Moments: the time of an event, stored by the thread that caused it, so that a later wait can report how long ago
//! it was.
//!
//! A moment is a plain number on the sampler's clock, 0 for none, so that code without knowledge of samples can
//! store it.

use crate::local;
use crate::schema::Features;

/// Returns whether calls of the unit `F` are measured, with any probability and for any source.
///
/// # Progress
/// Wait-free: one load.
#[inline]
pub fn is_measured<F: Features>() -> bool {
    local::is_on(F::ID)
}

/// Returns the present moment, for calls of the unit `F` to report; 0 while none of them is measured.
///
/// # Progress
/// Wait-free: one load and a branch for a unit that is off, otherwise also a reading of the sampler's clock.
#[inline]
pub fn moment_for<F: Features>() -> u64 {
    if is_measured::<F>() { local::now().max(1) } else { 0 }
}
