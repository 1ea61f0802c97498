//! What a sample costs the thread that takes it, beside two readings of the clock, which it cannot do without.
//!
//! `cargo run --release -p collie-bench --example sample_cost`. Medians of eleven runs with the lowest and highest, in
//! nanoseconds per call; each run is short of what a thread's lane holds, which is emptied in between. Run it on a machine that does
//! nothing else.

use std::hint::black_box;

use collie_env::{Clock as _, RealClock};
use collie_obs::{Batch, Drain, LogFlush, RateTable, RowRead, Situation, offer_clock, publish, start, word};
use collie_sync::ticks;

/// Calls of a run that takes samples.
const CALLS: u32 = 4_000;
/// Calls of a run that takes none.
const CALLS_SKIPPED: u32 = 4_000_000;
const RUNS: usize = 11;

fn now_ns() -> u64 {
    RealClock.now_ns()
}

/// Runs `call` so many times a run, and prints nanoseconds per call.
fn measure(what: &str, calls: u32, mut call: impl FnMut(u32), mut between: impl FnMut()) {
    let mut runs: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let began_ns = now_ns();
            (0..calls).for_each(&mut call);
            let took_ns = now_ns() - began_ns;
            between();
            took_ns as f64 / f64::from(calls)
        })
        .skip(1) // the first one touches memory
        .collect();
    runs.sort_by(f64::total_cmp);
    println!("{what:40} {:8.2} ns ({:.2} to {:.2})", runs[RUNS / 2], runs[0], runs[RUNS - 1]);
}

fn read(number: u32) {
    if let Some(span) = start::<RowRead>() {
        span.stop(RowRead { key_bytes: word(number), value_bytes: 100, chain_steps: 1, found: 1 });
    }
}

fn main() {
    offer_clock(now_ns);
    let mut drain = Drain::open(&now_ns).expect("nobody else drains here");
    let mut batch = Batch::new();
    let two_readings = |_| {
        let _both = black_box((ticks(), ticks()));
    };
    measure("two readings of the processor's counter", CALLS_SKIPPED, two_readings, || {});
    measure("off", CALLS_SKIPPED, |number| read(black_box(number)), || {});
    let mut drained = 0;
    for (what, p, calls) in [("skipped (p = 1e-9)", 1e-9, CALLS_SKIPPED), ("taken (p = 1)", 1.0, CALLS)] {
        publish(&RateTable::all(p));
        let mut empty = || {
            drain.drain(now_ns(), Situation::default(), &mut batch);
            drained += batch.samples.len();
        };
        measure(what, calls, |number| read(black_box(number)), &mut empty);
    }
    let flush = |number: u32| {
        if let Some(span) = start::<LogFlush>() {
            span.stop_with(Default::default(), LogFlush { stream_bytes: number, ..LogFlush::default() }, [1, 2, 3]);
        }
    };
    measure("taken (p = 1), with labels", CALLS, flush, || {
        drain.drain(now_ns(), Situation::default(), &mut batch);
    });
    println!("{drained} samples were drained; the drain's own estimate is {:.1} ns per sample", drain.sample_ns());
}
