//! RT1: what is measured is not disturbed by allocations. An allocator that counts them stands under this test alone.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use collie_obs::{
    ApplyRow, LockWait, LogFlush, RateTable, RowRead, Source, publish, start, start_run, start_wait, work_for,
};

/// Counts what the calling thread allocates.
struct Counting;

std::thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: hands every call on to the system's allocator as it came; the counter is a thread's own word.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _counted = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are the system's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

/// One call of each kind, in a scope.
fn calls() {
    let _scope = work_for(Source::Apply);
    if let Some(span) = start::<RowRead>() {
        span.stop(RowRead { key_bytes: 8, ..RowRead::default() });
    }
    if let Some(span) = start::<LogFlush>() {
        span.stop_with(Default::default(), LogFlush::default(), [1, 2, 3]);
    }
    if let Some(mut wait) = start_wait::<LockWait>() {
        wait.restart();
        wait.stop_with(Default::default(), LockWait::default(), []);
    }
    if let Some(mut run) = start_run::<ApplyRow>() {
        while !run.add(ApplyRow { key_bytes: 8, ..ApplyRow::default() }) {}
        run.stop();
    }
}

/// Goal: after a thread's first sample nothing on the path allocates: skipped, taken, dropped, and as p changes. Method: the
/// calling thread's allocations are counted over ten thousand calls at three rates, with nobody who drains.
#[test]
fn nothing_is_allocated_on_the_path() {
    publish(&RateTable::all(1.0));
    let before = allocations();
    calls();
    assert!(
        allocations() > before || !collie_sync::has_invariant_ticks(),
        "the first sample makes a lane: the counter counts"
    );
    for p in [1.0, 0.3, 0.0] {
        publish(&RateTable::all(p));
        let before = allocations();
        for _ in 0..10_000 {
            calls();
        }
        assert_eq!(allocations() - before, 0, "p {p}");
    }
}
