//! `netlab`: a bad network, for tests and benchmarks that put it between two real processes.
//!
//! [`Proxy`] listens on loopback and passes bytes on to another address as a network does: late, slowly, in one
//! direction only, silently not at all, with a reset, with a flipped bit. Unlike network namespaces and packet filters,
//! it needs no privileges and no tools of the machine. It cannot cause loss below TCP, which TCP repairs.
//!
//! [`Forger`] changes replication packets and seals them again, with the key that [`plant_key`] gives the nodes of a
//! test. [`Port`] keeps a port to which a server can return, whatever ports other programs take in the meantime.
//!
//! # Invariants
//! - W1. Unless a fault changes them, all bytes come out once, in order and unchanged; both ends of a connection end
//!   together.
//! - W2. A cut direction passes on neither bytes nor the end of a connection, so the ends cannot notice. Once healed it
//!   continues where it was, as TCP does when it sends again.
//! - W3. A dropped proxy leaves no thread and no connection behind.
//!
//! Checked by `proxy/tests.rs`.
#![forbid(unsafe_code)]

mod forger;
mod key;
mod port;
mod proxy;

pub use forger::{Forge, Forger, Sealed};
pub use key::{key_text, plant_key};
pub use port::Port;
pub use proxy::{Direction, Proxy, Weather};
