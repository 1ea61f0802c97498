//! The server: listens, speaks PostgreSQL's protocol on each connection, and shuts down without losing a commit.
//!
//! Connects `wire` with sockets and passes messages to `sql`; knows neither SQL nor bytes of the protocol itself. Only
//! loopback addresses are served: there is no authentication yet, and with a wider address the server refuses to start.
//!
//! # Invariants
//! - V1. A connection holds one engine session; when its task ends, however it ends, the session is dropped and its
//!   open transaction is rolled back.
//! - V2. Nothing is sent before the session allows it: replies to a commit are written after its acknowledgement.
//! - V3. A panic in one connection ends that connection only.
#![forbid(unsafe_code)]

mod client;
pub mod config;
mod connection;
mod error;
mod half_open;
mod http;
pub mod log_lines;
mod reads;
mod replication;
mod serve;
mod starting;
mod stop_requests;
mod stopping;
mod training;

pub use config::{Peer, Peers};
pub use error::ServeError;
pub use replication::WitnessServer;
pub use serve::{Server, Stopped};
pub use training::Rehearsal;
