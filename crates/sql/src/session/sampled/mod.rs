//! Sampled reads: statements that only read, taken by chance on a primary, and run again on a replica, which learns from them what they
//! cost.
//!
//! | file | noun |
//! |---|---|
//! | `share.rs` | [`ReadShare`]: how many are taken; a session's own count of those it passes over |
//! | `fit.rs` | which statements may be taken: they read rows of tables, and nothing else happens |
//! | `taken.rs` | [`TakenRead`]: one that was taken, with what it found and how long that took |
//! | `parameters.rs` | its parameters as bytes |
//! | `rerun.rs` | [`ReadSession`]: runs such reads on another node |
//!
//! # Invariants
//! - S1. A statement that is not taken pays a load and a count of its session's, and shares no word that is written.
//! - S2. Whoever takes and whoever runs again both look whether a statement is fit: neither trusts the other.
//! - S3. Texts and parameters go to whoever ships them and to nobody else: they are in no view, no message and no log.

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
