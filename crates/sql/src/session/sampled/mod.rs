//! Sampled reads: statements that only read, sampled at random on a primary, and run again on a replica, which learns
//! their cost from them.
//!
//! | file | noun |
//! |---|---|
//! | `share.rs` | [`ReadShare`]: the share of reads to sample; a session's own count of reads to skip |
//! | `fit.rs` | the statements that may be sampled: they read rows of tables, and have no other effect |
//! | `taken.rs` | [`TakenRead`]: a sampled read, with its result size and its duration |
//! | `parameters.rs` | its parameters as bytes |
//! | `rerun.rs` | [`ReadSession`]: runs such reads on another node |
//!
//! # Invariants
//! - S1. A statement that is not sampled costs one load and one count of its own session; it writes no shared word.
//! - S2. The node that samples and the node that runs again both check whether a statement is fit: neither trusts the
//!   other.
//! - S3. Texts and parameters go only to the sink that ships them: they are in no view, no message and no log.

mod fit;
mod parameters;
mod rerun;
#[cfg(test)]
mod sampled_tests;
mod share;
mod taken;

pub use parameters::fuzz_parameters;
pub use rerun::{ReadSession, Rerun};
pub use share::ReadShare;
pub(in crate::session) use share::Skip;
pub use taken::{ReadSink, TakenRead};
pub(in crate::session) use taken::{Reading, Sampling};
