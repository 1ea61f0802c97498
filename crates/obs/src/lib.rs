//! Operating units, and samples of them from the running threads, from which cost models learn.
//!
//! One sample is one call of one unit, or a counted run of short calls: its duration, numbers that describe its
//! work, and the probability with which it was taken. This crate only records. Its user makes the table of
//! probabilities ([`publish`]), takes the samples out ([`Drain`]) and decides about their use. No key, value,
//! parameter or text of a statement enters a sample.
//!
//! | file | content |
//! |---|---|
//! | `units`, `schema` | the units, declared once: types, [`UNITS`], document, golden file |
//! | `sample`, `source` | a sample, and the source for which the thread worked |
//! | `span`, `wait`, `moment`, `local` | the interface for call sites, and the thread's part behind it |
//! | `allocated` | bytes that a thread allocates in a call, where the program counts them |
//! | `countdown`, `draws`, `rates` | the selection of the calls to sample |
//! | `recorder`, `collector`, `process` | a thread's lane, and the state that threads share |
//! | `drain`, `context`, `scale` | taking out: periods with their circumstances, ticks as nanoseconds |
//! | `beside` | functions that benchmarks call around each sample |
//!
//! # Invariants
//! - RT1. Between start and stop of a measured call nothing waits, allocates or makes a system call. A thread's
//!   first sample makes its lane before the time begins or, for a wait that ends on the thread, after the time has
//!   ended.
//! - RT2. Every sample carries the probability with which it was drawn, its unit's version and the number of its
//!   period.
//! - RT3. A sample holds only numbers: sizes, counts, codes and times.
//!
//! ```
//! # fn work() -> u64 { 4096 }
//! use collie_obs::{Batch, Drain, LogFlush, RateTable, Situation, publish, start, word};
//! let clock = || 0; // nanoseconds: the environment's clock
//! let mut drain = Drain::open(&clock).expect("there is no other drain");
//! publish(&RateTable::all(1.0));
//! let span = start::<LogFlush>();
//! let bytes = work();
//! if let Some(span) = span {
//!     let flush = LogFlush { stream_bytes: word(bytes), ..LogFlush::default() };
//!     span.stop_with(Default::default(), flush, [0, 0, bytes]);
//! }
//! let mut batch = Batch::new();
//! drain.drain(clock(), Situation::default(), &mut batch);
//! assert!(batch.samples.iter().all(|sample| sample.ou == 2 && sample.features[0] == 4096 && sample.p == 1.0));
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(any(loom, shuttle), allow(dead_code, reason = "a model samples nothing: only the types are there"))]

mod allocated;
#[cfg(not(any(loom, shuttle)))]
mod beside;
#[cfg(not(any(loom, shuttle)))]
mod collector;
#[cfg(not(any(loom, shuttle)))]
mod context;
mod countdown;
#[cfg(not(any(loom, shuttle)))]
mod drain;
#[cfg(not(any(loom, shuttle)))]
mod draws;
mod local;
mod measured;
mod moment;
#[cfg(not(any(loom, shuttle)))]
mod process;
mod rates;
#[cfg(not(any(loom, shuttle)))]
mod recorder;
mod sample;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod sampler_tests;
#[cfg(not(any(loom, shuttle)))]
mod scale;
mod schema;
mod source;
mod span;
mod tick_length;
mod units;
mod wait;

pub use allocated::{AllocatingSpan, offer_allocation_counter};
#[cfg(not(any(loom, shuttle)))]
pub use beside::{Beside, call_beside_samples};
#[cfg(not(any(loom, shuttle)))]
pub use context::{ContextRow, Situation};
#[cfg(not(any(loom, shuttle)))]
pub use drain::{Batch, Drain};
#[cfg(any(loom, shuttle))]
pub use local::offer_clock;
pub use moment::{is_measured, moment_for};
#[cfg(not(any(loom, shuttle)))]
pub use process::{offer_clock, publish, set_default_source};
pub use rates::RateTable;
pub use sample::{CALLS_MAX, FLAG_AFTER_DROPS, FLAG_INJECTED_CLOCK, Sample};
pub use schema::{FEATURES_MAX, Features, FieldSchema, LABELS_MAX, UNIT_SLOTS, UnitSchema, word};
pub use source::{SOURCES, Source};
pub use span::{Ended, Run, SourceScope, Span, start, start_run, work_for};
pub use units::*;
pub use wait::{Wait, start_wait};
