//! `netlab`: a bad network, for tests and benchmarks that put it between two real processes.
//!
//! [`Proxy`] listens on loopback and passes on what comes to another address, as a network does: late, slowly, in one direction only,
//! not at all without saying so, with a reset, with a bit flipped. It needs no rights and no tools of the machine, unlike namespaces
//! and packet filters; what it cannot make is loss below TCP, which TCP repairs.
//!
//! [`Forger`] changes packets of replication and seals them again, by the key that [`plant_key`] gives the nodes of a test. [`Port`] is a port that a server comes back to, whatever others take meanwhile.
//!
//! # Invariants
//! - W1. Unless a fault says otherwise, every byte comes out once, in order and unchanged; both ends of a connection end together.
//! - W2. A cut direction passes nothing on, neither bytes nor the end of a connection: the ends cannot know. Healed, it goes on where it
//!   was, as TCP does when it sends again.
//! - W3. A proxy that is dropped leaves no thread and no connection behind.
//!
//! Checked by `proxy_tests`.
#![forbid(unsafe_code)]

mod forger;
mod key;
mod port;
mod proxy;

pub use forger::{Forge, Forger, Sealed};
pub use key::{key_text, plant_key};
pub use port::Port;
pub use proxy::{Direction, Proxy, Weather};
