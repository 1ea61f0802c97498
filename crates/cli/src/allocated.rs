//! The bytes that the calling thread has allocated, from jemalloc's own counter: one load of a word that only this
//! thread writes.
//!
//! jemalloc counts bytes when it allocates them, rounded up to its size classes, and subtracts nothing for freed
//! blocks. C code in this program uses glibc's allocator (jemalloc's functions have a prefix here), so the allocations
//! of the parser's grammar are not counted.
#![expect(unsafe_code, reason = "one call into jemalloc, and the reading of its counter")]

use std::ffi::CStr;
use std::ptr::{self, NonNull};

/// The name under which jemalloc returns the address of a thread's counter.
const PLACE: &CStr = c"thread.allocatedp";

std::thread_local! {
    /// The address of jemalloc's counter for this thread; `None` if jemalloc does not provide one.
    static COUNTER: Option<NonNull<u64>> = counter();
}

/// Asks jemalloc for the address of the calling thread's counter.
fn counter() -> Option<NonNull<u64>> {
    let mut place: *mut u64 = ptr::null_mut();
    let mut bytes = size_of_val(&place);
    // SAFETY: the name ends with a NUL; jemalloc writes a pointer, whose size `bytes` gives, into `place`, and sets
    // nothing.
    let code = unsafe {
        tikv_jemalloc_sys::mallctl(PLACE.as_ptr(), (&raw mut place).cast(), &raw mut bytes, ptr::null_mut(), 0)
    };
    if code == 0 { NonNull::new(place) } else { None }
}

/// Makes the samples of operating units record the bytes that their threads allocate.
pub fn offer() {
    // The first call of `mallctl` initializes jemalloc's name lookup under a lock; later calls from other threads find
    // it done.
    allocated_bytes();
    collie_obs::offer_allocation_counter(allocated_bytes);
}

/// Returns the bytes that the calling thread has allocated so far; 0 if jemalloc provides no counter.
///
/// # Progress
/// Wait-free: a load. A thread's first call asks jemalloc for the address, without a lock, a system call or an
/// allocation.
fn allocated_bytes() -> u64 {
    COUNTER.with(|counter| {
        // SAFETY: the word is in the thread's own storage, where it stays while the thread runs, and no other thread
        // writes it.
        counter.map_or(0, |counter| unsafe { counter.read() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a thread's count covers its own allocations only, grows at once, and never falls. Method: a block of a
    /// known size, freed again; another thread, joined, that allocates much more.
    #[test]
    fn a_thread_counts_what_it_allocates_and_nothing_else() {
        const BYTES: u64 = 300_000;
        let allocated = |bytes: u64| {
            let bytes = usize::try_from(bytes).expect("it fits into memory");
            let before = allocated_bytes();
            drop(std::hint::black_box(vec![1_u8; bytes]));
            allocated_bytes() - before
        };
        let (small, large) = (allocated(1), allocated(BYTES));
        assert!((1..=16).contains(&small), "{small}");
        assert!((BYTES..=BYTES * 5 / 4).contains(&large), "{large}: the next size class, four to each power of two");
        let before = allocated_bytes();
        let of_other = std::thread::spawn(move || allocated(BYTES * 10)).join().expect("it ends");
        assert!(of_other >= BYTES * 10, "{of_other}");
        assert!(allocated_bytes() - before < BYTES, "this thread only started it");
    }

    /// Goal: samples of PARSE and PLAN carry the allocated bytes if the program offers this counter. Method: a span
    /// around a block of a known size.
    #[test]
    fn a_span_tells_what_was_allocated_in_it() {
        use collie_obs::{Batch, Drain, Parse, RateTable, Situation, Span, publish, start};
        const BYTES: usize = 1 << 16;
        offer();
        let clock = || 0;
        let mut drain = Drain::open(&clock).expect("nobody else drains");
        if !publish(&RateTable::all(1.0)) {
            return; // no counter of time here: nothing is measured
        }
        let span = start::<Parse>().map(Span::with_allocations).expect("every call is measured");
        let block = std::hint::black_box(vec![1_u8; BYTES]);
        let (ended, alloc_bytes) = span.end();
        drop(block);
        ended.tell(Default::default(), Parse { text_bytes: 77, tokens: 1 }, [alloc_bytes]);
        publish(&RateTable::off());
        let mut batch = Batch::new();
        drain.drain(0, Situation::default(), &mut batch);
        let sample = batch.samples.iter().find(|sample| sample.features[0] == 77).expect("it was measured");
        assert_eq!(sample.labels[1], BYTES as u64, "a size class of jemalloc's");
    }
}
