//! A model of a replica's apply queue in which policies are judged: the effect of collection on the delay under eight
//! disturbances.
//!
//! The queue is a fluid in steps of 1 ms: one apply worker, 71.4 us of work per commit on average, 4 % of the commits
//! ten times as heavy, and collection work with each commit. A policy gets the same signals as in the product, once per
//! 100 ms. Runs are paired: one seed gives the same arrivals with every policy, and the delay without collection is
//! that of the run without it.
//!
//! The model is not the product: it tells nothing about the cost of a sample, the parallelism of replay, or a machine.
//!
//! | file | noun |
//! |---|---|
//! | `disturbance.rs` | the events that disturb the replica, and when they are over |
//! | `load.rs` | the arriving commits, drawn from a seed |
//! | `run.rs` | one run of the queue under a policy |
//! | `recovery.rs` | how long a run stays out of bound after a disturbance |
//! | `table.rs` | every policy under every disturbance, over seeds |
//!
//! Used by `tests/bound.rs` and `tests/replay.rs`, the example `policies`, and the benchmark.
//!
//! ```
//! use collie_train::{policy::{Governor, PolicyKind, Settings}, queue};
//! let start = |_row| -> queue::Tick {
//!     let mut governor = Governor::new(PolicyKind::Headroom, Settings::default(), 4);
//!     Box::new(move |signals| governor.tick(signals))
//! };
//! let cells = queue::table(&[7], 40.0, 1, &start);
//! assert!(cells[0].iter().all(|cell| cell.out_share == 0.0 && cell.kept_share > 0.0));
//! ```

mod disturbance;
mod load;
mod recovery;
mod run;
mod table;

pub use disturbance::Disturbance;
pub use recovery::settled;
pub use table::{Cell, Tick, table};

/// The length of a run.
const RUN_MS: usize = 120_000;

/// The length of a window.
const WINDOW_MS: usize = 1000;
