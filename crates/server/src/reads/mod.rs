//! Sampled reads between sessions and the stream: a primary's sessions pass them to the senders
//! (`crates/replica/src/reads`), and a replica runs those that it receives.
//!
//! | file | what |
//! |---|---|
//! | `taking.rs` | a primary's sessions take reads while a replica wants them |
//! | `runner.rs` | [`ReadRunner`]: the thread of a replica that runs them |
//! | `slices.rs` | a statement that takes its processor time in slices |

mod runner;
mod slices;
mod taking;

pub(crate) use self::{runner::ReadRunner, taking::feed};
