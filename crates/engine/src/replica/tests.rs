//! Compares live replay with a map: random logs, any number of workers, any split into packets; and tests its rules one
//! by one.
//!
//! | file | noun |
//! |---|---|
//! | `log.rs` | [`log::Log`]: a generated log, and everything that was committed in it |
//! | `world.rs` | [`world::World`]: a database that follows a log, without files |
//! | `agreement.rs` | parallel replay, serial replay, recovery and a map |
//! | `lanes.rs` | the work of the lanes |
//! | `rules.rs` | records, large transactions and families |
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod agreement;
mod lanes;
mod log;
mod rules;
mod world;
