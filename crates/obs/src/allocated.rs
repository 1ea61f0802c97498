//! `AllocatingSpan`: a span that also reports how many bytes its thread allocated in it, by a counter that the
//! program offers.
//!
//! This crate depends on no allocator and on no clock: the program registers a function that reads its thread's
//! count ([`offer_allocation_counter`]). Without one every count is 0.
//!
//! The count covers the calling thread's requests to that allocator. It covers neither freed memory, nor
//! allocations by other threads on its behalf, nor memory that code of another language gets from another
//! allocator.

use std::sync::OnceLock;

use crate::schema::Features;
use crate::span::{Ended, Span};

static COUNTER: OnceLock<fn() -> u64> = OnceLock::new();

/// Registers a function that returns how many bytes the calling thread has allocated so far, a figure that never
/// falls. Returns `false` if a counter is registered already; that one stays.
///
/// The counter is read twice for each sample of a unit with such a label, outside its time. It must not wait,
/// allocate or make a system call (RT1). Per-thread setup may happen in a thread's first reading.
pub fn offer_allocation_counter(allocated_bytes: fn() -> u64) -> bool {
    COUNTER.set(allocated_bytes).is_ok()
}

/// Returns the bytes that the thread has allocated so far; `None` without a counter.
#[inline]
fn allocated_bytes() -> Option<u64> {
    COUNTER.get().map(|read| read())
}

/// A measured call with a count of the bytes that its thread allocates.
#[derive(Debug)]
#[must_use = "a span that is not stopped leaves no sample"]
pub struct AllocatingSpan<F> {
    span: Span<F>,
    before: Option<u64>,
}

impl<F: Features> Span<F> {
    /// Starts to count the thread's allocations, and restarts the time of the call.
    #[inline]
    pub fn with_allocations(mut self) -> AllocatingSpan<F> {
        let before = allocated_bytes();
        self.restart();
        AllocatingSpan { span: self, before }
    }
}

impl<F: Features> AllocatingSpan<F> {
    /// Ends the call as [`Span::end`] does, and returns how many bytes the thread allocated in it: 0 without a
    /// counter.
    #[inline]
    pub fn end(self) -> (Ended<F>, u64) {
        let ended = self.span.end();
        let allocated = self.before.zip(allocated_bytes()).map_or(0, |(before, after)| after.saturating_sub(before));
        (ended, allocated)
    }
}
