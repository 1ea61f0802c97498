//! Replicated Training at work in a server: how much may be collected is decided ten times a second, samples are taken within that and kept,
//! models are fitted to them and used.
//!
//! ```text
//! replica, primary's words -> Sensors -> Signals -> Controller -> Granted -> reads at leisure: their elastic budget
//!                                            |                        |
//!                                            v                        v
//!              windows, log: policy, policy_log, /metrics    Rates -> sampler of the process -> threads
//!                                                                                                 |
//!    files <- Keeper <- Collector <- samples, ten times a second <--------------------------------+
//!      |         +-> Recent, Judge, Incoming <- Models <- models/ <- collie train fit <- files
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `state.rs`, `state/collecting.rs` | [`Training`]: what a server knows of its training, from its start to its stop |
//! | `controller.rs` | [`Controller`](controller::Controller): a governor, P7 and windows, ticked together; pure |
//! | `granted.rs` | [`Granted`](granted::Granted): what may be collected now, for whoever collects |
//! | `sensors.rs`, `run_queue.rs` | [`Sensors`](sensors::Sensors): what was measured since the last tick |
//! | `ticker.rs` | the task that ticks while a primary is followed |
//! | `rates.rs`, `sampler.rs` | [`Rates`](rates::Rates): with which probability each unit is sampled, and whom that is told |
//! | `collector.rs` | [`Collector`]: the thread that takes samples out |
//! | `keeper.rs` | [`Keeper`](keeper::Keeper): what becomes of them: thinned, into files |
//! | `recent.rs`, `judge.rs` | the newest samples, and what models say of them |
//! | `models.rs`, `incoming.rs` | [`Models`](models::Models): packages in use; those that come from elsewhere |
//! | `fitter.rs`, `fitting.rs` | when a fit runs, and the process that it is |
//! | `collection.rs` | [`Collection`](collection::Collection): all of that as views read it |
//! | `switch.rs`, `units.rs` | switches by name, and the names of units and sources |
//! | `decisions/` | which settings are tried, kept and put back, once a second |
//! | `log.rs` | the newest changes |
//! | `shown.rs` | what views show and settings change |
//!
//! Not here: what a sample is (`collie_obs`), what a file is (`collie_samples`). Policies and models are `collie_train`'s.
//!
//! # Invariants
//! - A1. A node that follows nobody has nothing granted (RT6): the end of following, a promotion among its reasons, takes back what was
//!   granted before it goes on, and no tick of before grants anything afterwards.
//! - A2. What is granted is never older than a tick: a ticker that ends takes it back.
//! - A3. What is sampled follows at once where that is less: what takes back a grant, or grants nothing, has nothing sampled, in the same step;
//!   so has the end of whoever collects. More is sampled from the collector's next period on, under the same lock.

mod collection;
mod collector;
mod controller;
mod decisions;
mod fitter;
mod fitting;
#[cfg(test)]
mod fixture;
mod granted;
mod incoming;
mod judge;
mod keeper;
mod log;
mod models;
mod rates;
mod recent;
mod run_queue;
mod sampler;
mod sensors;
mod shown;
mod state;
mod switch;
mod ticker;
mod units;

pub use self::decisions::Rehearsal;
pub(crate) use self::{
    collector::{Collector, Whose},
    decisions::{LiveGauge, LiveKnobs, decide},
    sensors::Sensors,
    shown::shown,
    state::Training,
    ticker::tick,
};
