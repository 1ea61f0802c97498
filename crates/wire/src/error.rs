//! `WireError`: a client's breach of the protocol.

use collie_base::Remedy;
use thiserror::Error;

/// A breach of the protocol, with the SQLSTATE of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct WireError {
    /// 08P01, 22021 or 0A000.
    pub sqlstate: &'static str,
    /// One line for the client.
    pub message: String,
    /// Whether the connection cannot continue: message boundaries are lost or the peer is no client.
    pub fatal: bool,
}

impl WireError {
    pub(crate) fn violation(message: impl Into<String>) -> Self {
        Self { sqlstate: "08P01", message: message.into(), fatal: false }
    }

    pub(crate) fn fatal(message: impl Into<String>) -> Self {
        Self { sqlstate: "08P01", message: message.into(), fatal: true }
    }

    /// Returns the remedy: the caller must send messages that follow the protocol.
    pub fn remedy(&self) -> Remedy {
        Remedy::FixCall
    }
}
