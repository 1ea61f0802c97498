//! `Beside`: two functions that are called around each sample, for benchmarks that show the effect of a more
//! expensive sampler. A server in normal use has none.
//!
//! The first call comes before the time of a sample begins, the second after it has ended, on the threads that
//! begin and end it. A call that is not sampled calls neither.

use std::sync::OnceLock;

/// Both functions.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Called before the time of a sample.
    pub begins: fn(),
    /// Called after it, but not for a sample that was begun and given up.
    pub ends: fn(),
}

static BESIDE: OnceLock<Beside> = OnceLock::new();

/// Calls `beside` around every sample of this process from now on; it cannot be removed. Returns `false` if an
/// earlier call has set one.
///
/// The time of `beside` is part of any sample that encloses the sampled call, and RT1 no longer holds for the
/// process.
pub fn call_beside_samples(beside: Beside) -> bool {
    BESIDE.set(beside).is_ok()
}

/// Returns the functions, if any. Costs one load where there are none.
#[inline]
pub(crate) fn get() -> Option<Beside> {
    BESIDE.get().copied()
}
