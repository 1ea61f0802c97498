//! RT1: allocations do not disturb measured calls; and spans report the allocations in them. Only these tests run
//! on an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use std::hint::black_box;
use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use collie_obs::{
    ApplyRow, Batch, Drain, LockWait, LogFlush, Parse, Plan, RateTable, RowRead, Situation, Source, Span,
    offer_allocation_counter, offer_clock, publish, start, start_run, start_wait, work_for,
};

/// Counts the calling thread's allocations.
struct Counting;

std::thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed unchanged to the system's allocator; the counter is a word of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _counted = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _counted = BYTES.try_with(|bytes| bytes.set(bytes.get() + layout.size() as u64));
        // SAFETY: the caller's promises are those that the system's allocator requires.
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

fn allocated_bytes() -> u64 {
    BYTES.with(Cell::get)
}

/// Runs one test at a time: the sampler is shared by the process.
static SAMPLER: Mutex<()> = Mutex::new(());

fn sampler() -> MutexGuard<'static, ()> {
    SAMPLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes one call of each kind, in a scope.
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

/// Goal: after a thread's first sample nothing on the path allocates: with calls skipped, taken or dropped, and as
/// p changes. Method: count the calling thread's allocations over ten thousand calls at three rates, without a
/// drain.
#[test]
fn nothing_is_allocated_on_the_path() {
    let _alone = sampler();
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

/// Makes a call of PARSE that allocates `bytes` while `beside` runs, inside a call of PLAN that allocates as many
/// again.
fn allocating_calls(bytes: usize, beside: impl FnOnce()) {
    let plan = start::<Plan>().map(Span::with_allocations);
    let parse = start::<Parse>().map(Span::with_allocations);
    let block = black_box(Vec::<u8>::with_capacity(bytes));
    beside();
    if let Some(span) = parse {
        let (ended, alloc_bytes) = span.end();
        ended.tell(Default::default(), Parse::default(), [alloc_bytes]);
    }
    drop((block, black_box(Vec::<u8>::with_capacity(bytes))));
    if let Some(span) = plan {
        let (ended, alloc_bytes) = span.end();
        ended.tell(Default::default(), Plan::default(), [alloc_bytes]);
    }
}

/// Goal: a span reports its thread's allocations, to the byte, including those in spans inside it and excluding
/// those of other threads; it reports 0 without a counter, and counting allocates nothing (RT1). Method: blocks of
/// known sizes, before and after a counter is offered; then calls without a block.
#[test]
fn a_span_tells_what_its_thread_allocates() {
    const BYTES: usize = 12_345;
    let _alone = sampler();
    offer_clock(|| 0);
    let clock = || 0;
    let mut drain = Drain::open(&clock).expect("nobody else drains");
    let mut batch = Batch::new();
    let mut told = || {
        drain.drain(0, Situation::default(), &mut batch);
        let label = |unit: u8| batch.samples.iter().find(|sample| sample.ou == unit).map(|sample| sample.labels[1]);
        [label(14), label(16)]
    };
    assert!(publish(&RateTable::all(1.0)));
    allocating_calls(BYTES, || ());
    assert_eq!(told(), [Some(0), Some(0)], "nobody counts");
    assert!(offer_allocation_counter(allocated_bytes));
    assert!(!offer_allocation_counter(|| 7), "the first stays");
    let turns = Barrier::new(2);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            turns.wait();
            drop(black_box(Vec::<u8>::with_capacity(BYTES)));
            turns.wait();
        });
        allocating_calls(BYTES, || {
            turns.wait();
            turns.wait();
        });
    });
    assert_eq!(told(), [Some(BYTES as u64), Some(2 * BYTES as u64)]);
    let before = allocations();
    (0..1_000).for_each(|_| allocating_calls(0, || ()));
    assert_eq!(allocations() - before, 0);
    assert_eq!(told(), [Some(0), Some(0)]);
    publish(&RateTable::off());
}
