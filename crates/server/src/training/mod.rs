//! Replicated Training at work in a server: how much a replica may collect is decided ten times a second, and published for those who do.
//!
//! ```text
//! replica, primary's words -> Sensors -> Signals -> Controller -> Granted -> who collects (reads at leisure: its elastic budget)
//!                                                      |
//!                                                      +-> windows, log: collie_training.policy, .policy_log, /metrics
//! ```
//!
//! | file | noun |
//! |---|---|
//! | `state.rs` | [`Training`]: what a server knows of its training, from its start to its stop |
//! | `controller.rs` | [`Controller`](controller::Controller): a governor, P7 and windows, ticked together; pure |
//! | `granted.rs` | [`Granted`](granted::Granted): what may be collected now, for whoever collects |
//! | `sensors.rs`, `run_queue.rs` | [`Sensors`](sensors::Sensors): what was measured since the last tick |
//! | `ticker.rs` | the task that ticks while a primary is followed |
//! | `switch.rs`, `units.rs` | switches by name, and the names of units and sources |
//! | `models.rs` | the packages in the folder of models |
//! | `log.rs` | the newest changes |
//! | `shown.rs` | what views show and settings change |
//!
//! Not here: taking samples, and whatever else spends what is granted. Policies are `collie_train`'s.
//!
//! # Invariants
//! - A1. A node that follows nobody has nothing granted (RT6): the end of following, a promotion among its reasons, takes back what was
//!   granted before it goes on, and no tick of before grants anything afterwards.
//! - A2. What is granted is never older than a tick: a ticker that ends takes it back.

mod controller;
mod granted;
mod log;
mod models;
mod run_queue;
mod sensors;
mod shown;
mod state;
mod switch;
mod ticker;
mod units;

pub(crate) use self::{sensors::Sensors, shown::shown, state::Training, ticker::tick};
