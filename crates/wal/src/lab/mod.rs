//! The crash lab of the log: workloads, oracles and sweeps over every state that a disk may be in after a crash.
//!
//! It is not part of the log: it is compiled for the crate's tests and, with the feature `lab`, for `faultlab`. It uses
//! the log as any program does, on the simulated disk of `collie-env`.
//!
//! | file | what |
//! |---|---|
//! | `payload` | records that name their writer, their place and their predecessor |
//! | `model` | what a run appended and was promised, and the comparison with the records of an opened log |
//! | `workload` | several incarnations of one log, from a seed; collects crash points |
//! | `states` | visits the states of each crash point and opens the log in each |
//! | `left` | salvages of a state, and the comparison with the records of an opened log |
//! | `threads` | crash states of several writers in parallel |
//! | `flips` | flips every bit of the files |

mod flips;
mod left;
mod model;
mod payload;
mod states;
mod threads;
mod workload;

use std::time::Duration;

use thiserror::Error;

pub use flips::{Bits, FlipReport, sweep_flips};
pub use payload::{STAMP_BYTES, Stamp};
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) use states::explore;
pub use states::{StatesPlan, StatesReport, check_states};
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) use threads::explore_threads;
pub use threads::{ThreadsReport, check_threads};
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) use workload::Lies;
pub use workload::{Coverage, lab_options};

/// A broken promise, and how to reproduce it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("seed {seed}: {message}")]
pub struct Violation {
    /// The seed of the workload that breaks it.
    pub seed: u64,
    /// The number of its states that were to be visited: the same number visits the same ones.
    pub states: u64,
    /// What is wrong, and in which state of the disk.
    pub message: String,
}

/// Returns `count` per second of `time`, as an integer; 0 if no time passed.
pub fn per_second(count: u64, time: Duration) -> u64 {
    let rate = u128::from(count) * 1_000_000_000 / time.as_nanos().max(1);
    if time.is_zero() { 0 } else { u64::try_from(rate).unwrap_or(u64::MAX) }
}
