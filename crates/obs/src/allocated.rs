//! `AllocatingSpan`: a span that tells what its thread allocated meanwhile, by a counter that the program offers.
//!
//! This crate knows no allocator, as it knows no clock: the program that chose one says how a thread's count is read
//! ([`offer_allocation_counter`]). Without one every count is 0.
//!
//! Counted is what the calling thread asked that allocator for. Not counted: what was freed, what other threads allocated for
//! it, and what code of another language has from another allocator.

use std::sync::OnceLock;

use crate::schema::Features;
use crate::span::{Ended, Span};

static COUNTER: OnceLock<fn() -> u64> = OnceLock::new();

/// Offers how many bytes the calling thread has allocated so far, a figure that never falls. `false`: there was one before, which stays.
///
/// The counter is read twice for each sample of a unit with such a label, outside of its time. It must not wait, allocate or make a
/// system call (RT1); what it has to find out once for each thread it may find out in a thread's first reading.
pub fn offer_allocation_counter(allocated_bytes: fn() -> u64) -> bool {
    COUNTER.set(allocated_bytes).is_ok()
}

/// What the thread has allocated so far; `None` without a counter.
#[inline]
fn allocated_bytes() -> Option<u64> {
    COUNTER.get().map(|read| read())
}

/// A call that is measured, and what its thread allocates in it.
#[derive(Debug)]
#[must_use = "a span that is not stopped leaves no sample"]
pub struct AllocatingSpan<F> {
    span: Span<F>,
    before: Option<u64>,
}

impl<F: Features> Span<F> {
    /// Has what the thread allocates counted from now on, and the time of the call begin now.
    #[inline]
    pub fn with_allocations(mut self) -> AllocatingSpan<F> {
        let before = allocated_bytes();
        self.restart();
        AllocatingSpan { span: self, before }
    }
}

impl<F: Features> AllocatingSpan<F> {
    /// Ends the call as [`Span::end`], and returns how many bytes the thread allocated in it: 0 without a counter.
    #[inline]
    pub fn end(self) -> (Ended<F>, u64) {
        let ended = self.span.end();
        let allocated = self.before.zip(allocated_bytes()).map_or(0, |(before, after)| after.saturating_sub(before));
        (ended, allocated)
    }
}
