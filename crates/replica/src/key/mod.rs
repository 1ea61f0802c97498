//! The replication key: the secret that the nodes of one database share, with which each proves to the other that
//! it is one of them.
//!
//! Both sides of a connection prove it before anything else is sent, each over the other's nonce, and all later
//! packets are sealed with keys that only this connection has. This is no encryption: a party that can read the
//! traffic can read the rows.
//!
//! | file | noun |
//! |---|---|
//! | `ring.rs` | [`Keys`]: the secrets of a node; [`KeyFile`]: the file that holds them |
//! | `handshake.rs` | [`handshake::Caller`], [`handshake::Listener`]: the proofs as bytes, without sockets |
//! | `meet.rs` | [`Trusted`]: a connection on which both ends have proved the key |

pub mod handshake;
mod meet;
mod ring;

pub(crate) use self::meet::Calling;
#[cfg(test)]
pub(crate) use self::meet::trusted;
pub use self::{
    handshake::{Purpose, SessionKeys},
    meet::{Mistrusted, Trusted, admit},
    ring::{KEY_FILE, KeyError, KeyFile, KeyId, Keys},
};
