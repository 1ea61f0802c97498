//! The replication key: the secret that the nodes of one database share, by which each proves to the other that it is one of them.
//!
//! Both sides of a connection prove it before anything else is said, each over the other's nonce, and what is sent afterwards is
//! sealed by keys that only this connection has. It is no encryption: whoever can read what passes can read the rows.
//!
//! | file | noun |
//! |---|---|
//! | `ring.rs` | [`Keys`]: the secrets of a node; [`KeyFile`]: the file that they are in |
//! | `handshake.rs` | [`handshake::Caller`], [`handshake::Listener`]: the proofs as bytes, without sockets |
//! | `meet.rs` | [`Trusted`]: a connection whose both ends have proved it |
//! | `tags.rs` | [`Tags`]: the seals of the packets of one direction |

pub mod handshake;
mod meet;
mod ring;
mod tags;

pub(crate) use self::meet::Calling;
#[cfg(test)]
pub(crate) use self::meet::trusted;
pub use self::{
    handshake::{Purpose, SessionKeys},
    meet::{Mistrusted, Trusted, admit},
    ring::{KEY_FILE, KeyError, KeyFile, KeyId, Keys},
    tags::{TAG_BYTES, Tags},
};
