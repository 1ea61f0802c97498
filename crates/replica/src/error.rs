//! `LinkError`: why a connection between two nodes ended.

use std::io;

use collie_base::{Lsn, Remedy};
use thiserror::Error;

use crate::packet::{ErrorCode, PacketError, TEXT_BYTES_MAX};

/// Why a connection ended. Everything received before stays valid, and the next connection resumes there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The other side closed it.
    #[error("the other side closed the connection")]
    Closed,
    /// No byte arrived for as long as the timeout.
    #[error("nothing was heard for {after_ms} ms")]
    Silent {
        /// How long, in milliseconds.
        after_ms: u64,
    },
    /// A network operation failed.
    #[error("{0}")]
    Io(#[source] io::Error),
    /// The other side sent something that is not a packet.
    #[error("{0}")]
    Packet(#[from] PacketError),
    /// The other side sent a packet that is not allowed here, or one with impossible values.
    #[error("the other side sent an unexpected {what}")]
    Unexpected {
        /// The unexpected item.
        what: &'static str,
    },
    /// The other side gave up and sent the reason.
    #[error("the other side says: {text}")]
    Told {
        /// Why.
        code: ErrorCode,
        /// Whether trying again soon is pointless.
        fatal: bool,
        /// In words.
        text: String,
    },
    /// This side gives up; it has notified the other side if it could.
    #[error("{text}")]
    Refused {
        /// Why.
        code: ErrorCode,
        /// Whether trying again soon is pointless.
        fatal: bool,
        /// The position in the log, or 0.
        lsn: Lsn,
        /// In words, with the action to take.
        text: String,
    },
    /// This side was asked to stop.
    #[error("shutting down")]
    Stopping,
}

impl LinkError {
    /// Creates an error with which this side gives up, and after which the next connection may succeed.
    pub(crate) fn refused(code: ErrorCode, lsn: Lsn, text: impl Into<String>) -> Self {
        Self::Refused { code, fatal: false, lsn, text: text.into() }
    }

    /// Creates an error with which this side gives up until an operator changes something.
    pub(crate) fn fatal(code: ErrorCode, lsn: Lsn, text: impl Into<String>) -> Self {
        Self::Refused { code, fatal: true, lsn, text: text.into() }
    }

    /// Returns whether trying again soon is pointless.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Told { fatal: true, .. } | Self::Refused { fatal: true, .. })
    }

    /// Returns how the caller can recover.
    pub fn remedy(&self) -> Remedy {
        if self.is_fatal() { Remedy::FixCall } else { Remedy::Retry }
    }

    /// Returns the report for the other side: code, whether it is final, position and text. `None` when the other
    /// side cannot receive it, or sent the error itself.
    pub(crate) fn tell(&self) -> Option<(ErrorCode, bool, Lsn, String)> {
        let (code, fatal, lsn, mut text) = match self {
            Self::Packet(error) => (error.code(), false, Lsn::ZERO, error.to_string()),
            Self::Unexpected { what } => (ErrorCode::Protocol, false, Lsn::ZERO, format!("unexpected {what}")),
            Self::Refused { code, fatal, lsn, text } => (*code, *fatal, *lsn, text.clone()),
            Self::Stopping => (ErrorCode::Shutdown, false, Lsn::ZERO, "shutting down".to_owned()),
            Self::Closed | Self::Silent { .. } | Self::Io(_) | Self::Told { .. } => return None,
        };
        let mut cut = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        text.truncate(cut);
        Some((code, fatal, lsn, text.replace('\0', " ")))
    }
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> Self {
        // It is chance whether a read or a write sees the close, and whether bytes are in transit then.
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a connection that the other side closed is reported as closed, however that is noticed (T271).
    /// Method: each error.
    #[test]
    fn a_close_is_a_close_however_it_is_noticed() {
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset] {
            assert!(matches!(LinkError::from(io::Error::from(kind)), LinkError::Closed), "{kind}");
        }
        assert!(matches!(LinkError::from(io::Error::from(io::ErrorKind::PermissionDenied)), LinkError::Io(_)));
    }
}
