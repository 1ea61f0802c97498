//! Decisions of a server: once a second, which setting is tried, whether it was an improvement, and which value is put
//! back.
//!
//! ```text
//! newest samples, models -> forecast -> proposal --journal--> switchback -> trial --journal--> canary -> watch --journal--> kept
//!                                                     gauge (a second of the server) ^            |
//!                                                                   old value <------ rolled back +
//! ```
//!
//! The rules are those of `collie_train::decision`. This module applies them to a server: to settings that change while
//! it runs, to its figures, and to a file. Each node decides about its own settings, with values in its own memory; no
//! other node is involved.
//!
//! | file | noun |
//! |---|---|
//! | `deciding.rs` | [`Deciding`]: the decisions of a server, from its start to its stop |
//! | `decider.rs` | [`Decider`](decider::Decider): the change in flight of one open period, a second at a time |
//! | `candidate.rs` | a change that was weighed, and why it was not proposed |
//! | `forecast.rs`, `effect.rs` | the predicted gain of a change, and its effect on the calls of a unit |
//! | `predictor.rs` | the interface to samples and models (`Training` implements it in `state/predicting.rs`) |
//! | `switchback.rs`, `baseline.rs` | seconds under two values in turn, and the figures of the old value |
//! | `gauge.rs`, `live_gauge.rs` | a second of the server |
//! | `knobs.rs`, `live_knobs.rs` | settings that can change while the server runs |
//! | `hands.rs` | the settings that were set by hand |
//! | `journal_file.rs` | the file `decisions` |
//! | `shown.rs` | the data of views |
//! | `rehearsal.rs`, `world.rs` | [`Rehearsal`]: the same over a simulated server, for tests and benchmarks |
//!
//! # Invariants
//! - C1. A new value is put only after a row with the old one is on disk (TRAIN-9), and only in memory: the next open
//!   finds the old one (TRAIN-10).
//! - C2. A setting that was set by hand, before or during a change, is not put by a decision, neither to a new value
//!   nor back (TRAIN-8).
//! - C3. When an open period ends, or a promotion begins, the old value is put back first; a row records that.
//! - C4. A row that could not be written is written before anything else is proposed.
//!
//! Checked by `decider/tests.rs` over simulated servers, including some whose models have the wrong sign and some whose
//! disk fails at every call in turn, by `collie-bench training safety` over more of them, and by the clients' tests.

mod baseline;
mod candidate;
mod decider;
mod deciding;
mod effect;
mod forecast;
mod gauge;
mod hands;
mod journal_file;
mod knobs;
mod live_gauge;
mod live_knobs;
mod predictor;
mod rehearsal;
mod shown;
mod switchback;
mod world;

pub use self::rehearsal::Rehearsal;
pub(crate) use self::{
    deciding::{Deciding, decide},
    live_gauge::LiveGauge,
    live_knobs::LiveKnobs,
    predictor::{Call, Predictor, Recent},
};
