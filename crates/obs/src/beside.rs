//! `Beside`: what is called beside each sample that is taken, for benchmarks that show what a dearer sampler would cost. Nothing in a server as
//! users run it.
//!
//! The first call comes before the time of a sample begins, the second after it has ended, on the threads that begin and end it. A call that no
//! sample is taken of does not come here.

use std::sync::OnceLock;

/// Both calls.
#[derive(Clone, Copy, Debug)]
pub struct Beside {
    /// Before the time of a sample.
    pub begins: fn(),
    /// After it; not where a sample that was begun is given up.
    pub ends: fn(),
}

static BESIDE: OnceLock<Beside> = OnceLock::new();

/// Has `beside` called beside every sample of this process, for good. `false`: somebody has said so before.
///
/// What it does is in the time of samples that lie around others, and RT1 is no longer true of the process.
pub fn call_beside_samples(beside: Beside) -> bool {
    BESIDE.set(beside).is_ok()
}

/// One load where there is none.
#[inline]
pub(crate) fn get() -> Option<Beside> {
    BESIDE.get().copied()
}
