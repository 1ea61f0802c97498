//! Moments: when something was, noted by whoever did it, for a wait that tells later how long ago that is.
//!
//! A moment is the sampler's time, 0 for none: a number, so that those can keep it who know nothing of samples.

use crate::local;
use crate::schema::Features;

/// Returns whether calls of the unit `F` are measured, with whatever probability, for any source.
///
/// # Progress
/// Wait-free: one load.
#[inline]
pub fn is_measured<F: Features>() -> bool {
    local::is_on(F::ID)
}

/// Returns the moment that it is now, for calls of the unit `F` to tell of; 0 while none of them is measured.
///
/// # Progress
/// Wait-free: one load and a branch for a unit that is off, else a look at the sampler's clock too.
#[inline]
pub fn moment_for<F: Features>() -> u64 {
    if is_measured::<F>() { local::now().max(1) } else { 0 }
}
