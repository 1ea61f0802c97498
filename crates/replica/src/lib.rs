//! Replication: the protocol between two nodes, and which node follows which from where.
//!
//! A replica connects and sends its identity and its position ([`packet::Hello`]); the primary answers with a
//! decision ([`packet::Identify`]) and then sends the bytes of its log as they become durable ([`packet::Data`]).
//! The replica keeps them at the same positions, applies them in order, and reports its progress
//! ([`packet::Ack`]).
//!
//! Before that, both prove that they have the key of the database ([`key`]), and the proofs yield the keys that
//! seal every packet.
//!
//! Not here: the replay of records (`engine`), their layout on disk (`wal`), TLS, and the authentication of
//! clients (`server`).
//!
//! | folder or file | noun |
//! |---|---|
//! | `compare.rs` | whether a replica has the rows and the log of its primary |
//! | `database/` | databases of the engine on both sides |
//! | `identity.rs` | [`identity::decide`]: which histories two nodes share, and whether one may follow the other |
//! | `key/` | [`key::KeyFile`], [`key::Trusted`]: proof that both ends of a connection are nodes of one database |
//! | `life.rs` | [`Life`]: the state of a replica with its primary, from its first copy on; which log is kept for it |
//! | `link.rs` | a connection as packets |
//! | `packet/` | [`packet::Packet`]: every message as bytes, without sockets; offsets in docs/replication-protocol.md |
//! | `reads/` | [`reads::ReadFeed`], [`reads::ReadInbox`]: sampled reads from the primary to the replica |
//! | `primary/` | [`primary::serve`]: sends records once they are durable; slots; base backups |
//! | `standby/` | [`standby::follow`]: receives records, acknowledges, reconnects; fills an empty directory |
//! | `term/` | [`term::Terms`]: which term was promised; which node may lead in the next |
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
mod connection;
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
pub use connection::Connection;
pub use error::LinkError;
pub use life::{Event, Keep, Life};
