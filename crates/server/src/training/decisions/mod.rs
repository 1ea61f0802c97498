//! Decisions at work in a server: once a second, which setting is tried, whether it did good, and what is put back.
//!
//! ```text
//! newest samples, models -> forecast -> proposal --journal--> switchback -> trial --journal--> canary -> watch --journal--> kept
//!                                                     gauge (a second of the server) ^            |
//!                                                                   old value <------ rolled back +
//! ```
//!
//! The rules are `collie_train::decision`'s. Here they meet a server: settings that change while it runs, its figures, and a file.
//! Each node decides about its own settings, with the value in force in its memory; nothing is asked of another node.
//!
//! | file | noun |
//! |---|---|
//! | `deciding.rs` | [`Deciding`]: what a server knows of its decisions, from its start to its stop |
//! | `decider.rs` | [`Decider`](decider::Decider): one life's change in flight, a second at a time |
//! | `candidate.rs` | a change that was weighed, and why it was not proposed |
//! | `forecast.rs`, `effect.rs` | what models say that a change is worth, and what a change does to the calls of a unit |
//! | `predictor.rs` | what is asked of samples and models (`Training` answers, `state/predicting.rs`) |
//! | `switchback.rs`, `baseline.rs` | seconds under two values in turn, and what the old value's were like |
//! | `gauge.rs`, `live_gauge.rs` | a second of the server |
//! | `knobs.rs`, `live_knobs.rs` | settings that change while it runs |
//! | `hands.rs` | which of them somebody set by hand |
//! | `journal_file.rs` | the file `decisions` |
//! | `shown.rs` | what views show |
//! | `rehearsal.rs`, `world.rs` | [`Rehearsal`]: the same over a server that is made up, for tests and for `collie bench training safety` |
//!
//! # Invariants
//! - C1. A new value is put only after a row with the old one is on disk (RT9), and only in memory: whoever opens the directory again
//!   finds the old one (RT10).
//! - C2. A setting that somebody set by hand, before or meanwhile, is not put by a decision, neither to a new value nor back (RT8).
//! - C3. The end of a life, a promotion among its reasons, puts the old value back before it goes on; a row says so.
//! - C4. A row that could not be written is written before anything else is proposed.
//!
//! Checked by `decider_tests` over servers that are made up, among them such whose models have the wrong sign and such whose disk fails
//! at every call in turn, by `collie bench training safety` over more of them, and by the clients' tests.

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
