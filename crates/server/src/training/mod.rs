//! Replicated training in a server: ten times a second it decides how much may be collected; samples are taken within
//! that and kept, models are fitted to them and used.
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
//! | `state.rs`, `state/collecting.rs` | [`Training`]: the training of a server, from its start to its stop |
//! | `controller.rs` | [`Controller`](controller::Controller): governor, P7 and windows, ticked together; pure |
//! | `granted.rs` | [`Granted`](granted::Granted): the current grant, for the collecting threads |
//! | `sensors.rs`, `run_queue.rs` | [`Sensors`](sensors::Sensors): the signals since the last tick |
//! | `ticker.rs` | the task that ticks while the node follows a primary |
//! | `rates.rs`, `sampler.rs` | [`Rates`](rates::Rates): the sampling probability of each unit, and the sampler |
//! | `collector.rs` | [`Collector`]: the thread that drains samples |
//! | `keeper.rs` | [`Keeper`](keeper::Keeper): thinning samples, and writing them to files |
//! | `recent.rs`, `judge.rs` | the newest samples, and the evaluation of models on them |
//! | `models.rs`, `incoming.rs` | [`Models`](models::Models): packages in use; packages from other nodes |
//! | `fitter.rs`, `fitting.rs` | when a fit runs, and its process |
//! | `collection.rs` | [`Collection`](collection::Collection): all of that, for views |
//! | `switch.rs`, `units.rs` | switches by name, and the names of units and sources |
//! | `decisions/` | the settings that are tried, kept and put back, once a second |
//! | `log.rs` | the newest changes |
//! | `shown.rs` | the data of views, and the settings that can be changed |
//!
//! The format of a sample is defined in `collie_obs`, that of a file in `collie_samples`, and policies and models in
//! `collie_train`.
//!
//! # Invariants
//! - A1. A node that follows no primary is granted nothing (TRAIN-6): when following ends, by a promotion or otherwise,
//!   the grant is withdrawn before anything else happens, and no earlier tick grants anything afterwards.
//! - A2. A grant is never older than a tick: it is withdrawn when the ticker ends.
//! - A3. Sampling is reduced at once: an action that withdraws a grant, or grants nothing, stops sampling in the same
//!   step, and so does the end of the collector. It is increased by the collector's next period, under the same lock.

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
