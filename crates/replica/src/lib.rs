//! Replication: what two nodes say to each other, and who follows whom from where.
//!
//! A replica connects, says who it is and how far it has come ([`packet::Hello`]); the primary answers with a verdict
//! ([`packet::Identify`]) and then sends the bytes of its log as they become durable ([`packet::Data`]). The replica keeps
//! them at the same positions, applies them in order, and says how far it has come ([`packet::Ack`]).
//!
//! Both prove before that that they have the key of the database ([`key`]), and every packet is sealed by what came of it.
//!
//! Not here: how records are applied (`engine`), how they lie on disk (`wal`), TLS, and who may be a client (`server`).
//!
//! | folder or file | noun |
//! |---|---|
//! | `compare.rs` | whether a replica has the rows of its primary, and its log |
//! | `database/` | databases of the engine on both sides |
//! | `identity.rs` | [`identity::decide`]: which histories two nodes share, and what follows for one that wants to follow |
//! | `key/` | [`key::KeyFile`], [`key::Trusted`]: that both ends of a connection are nodes of one database |
//! | `life.rs` | [`Life`]: where a replica stands with its primary, from its first copy on; what log is kept for it |
//! | `link.rs` | a connection as packets |
//! | `packet/` | [`packet::Packet`]: every message as bytes, without sockets; offsets in docs/replication-protocol.md |
//! | `reads/` | [`reads::ReadFeed`], [`reads::ReadInbox`]: sampled reads on their way to whoever runs them again |
//! | `primary/` | [`primary::serve`]: sends what becomes durable; slots; base backups |
//! | `standby/` | [`standby::follow`]: takes it, acknowledges, connects again; fills an empty directory |
//! | `term/` | [`term::Terms`]: which term was promised; who may lead in the next |
//!
//! ```
//! use collie_base::{Lsn, Term};
//! use collie_replica::packet::{From, Input, Packet, Synced, encode};
//! let sent = Packet::Synced(Synced { term: Term::new(1), applied: Lsn::new(8192) });
//! let mut bytes = Vec::new();
//! encode(&sent, &mut bytes);
//! let mut input = Input::stream(From::Replica);
//! input.feed(&bytes);
//! assert_eq!(input.next(), Ok(Some(sent)));
//! ```
#![forbid(unsafe_code)]

mod compare;
pub mod database;
mod error;
pub mod identity;
#[cfg(test)]
mod identity_tests;
pub mod key;
mod life;
mod link;
pub mod packet;
pub mod primary;
pub mod reads;
pub mod standby;
#[cfg(test)]
mod stream_tests;
pub mod term;

pub use compare::{Difference, Differing, Held};
pub use error::LinkError;
pub use life::{Event, Keep, Life};
pub use link::Connection;
