//! Replicated Training's arithmetic: how much a replica may collect, from which units, what models learn from it, and
//! which settings they may change.
//!
//! The crate has pure functions and state machines over plain values, and no files, threads, clocks, sockets or
//! settings. Time comes in as a number and chance from a seed; actions go out as data, which `server` performs.
//! `engine` never links this crate, so an embedded database runs without it (RT12).
//!
//! | module | from | to |
//! |---|---|---|
//! | [`policy`] | delay, load and collecting cost, each tick | a [`Grant`](policy::Grant): collection work per second |
//! | [`budget`] | a grant | a sampling probability for each operating unit |
//! | [`model`] | samples of a unit | a prediction with an interval, and packages of models as bytes |
//! | [`decision`] | a predicted gain | a trial, a canary and a verdict, with a journal |
//! | [`queue`] | a policy and a seed | its effect on a replica's delay: a model in which policies are judged |
//!
//! # Invariants (numbers as in the crate's README)
//! - RT5. A stale heartbeat, a delay above its limit or four times its bound stops collection in that tick.
//! - RT7. Policies are pure: the same signals give the same grants.
//! - RT8. No decision changes durability, quorum, security, or a setting that a person has set.
//! - RT9. One change is in flight; its old value is in the journal before the new one is used.
//! - RT11. A package that fails its checksum, schema, hash or validation is not loaded.
//!
//! ```
//! use collie_train::policy::{Governor, PolicyKind, Settings, Signals};
//! let mut governor = Governor::new(PolicyKind::Headroom, Settings::default(), 4);
//! let calm = Signals {
//!     delay_us: Some(300.0),
//!     commits_per_s: 2000.0,
//!     busy_us: 10_000.0,
//!     offered_us_per_s: 1e6,
//!     workers: 1,
//!     ..Signals::default()
//! };
//! let grants: Vec<f64> = (0..20).map(|_| governor.tick(&calm).collect_us_per_s).collect();
//! assert_eq!(grants[0], 0.0, "it begins by measuring the delay without collection");
//! assert!(grants[19] > 100_000.0, "a replica that is nine tenths idle may collect");
//! let away = Signals { heartbeat_us: 2e6, ..calm };
//! assert_eq!(governor.tick(&away).collect_us_per_s, 0.0);
//! ```
#![forbid(unsafe_code)]

pub mod budget;
pub mod decision;
mod error;
pub mod model;
mod numbers;
pub mod policy;
pub mod queue;
mod unit;

pub use error::TrainError;
pub use unit::{LabelId, Schema, SchemaHash, SourceId, UnitId};
