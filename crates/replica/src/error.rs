//! `LinkError`: why a connection between two nodes ended.

use std::{fmt, io};

use collie_base::{Lsn, Remedy};

use crate::packet::{ErrorCode, PacketError, TEXT_BYTES_MAX};

/// Why a connection ended. Everything received before stays valid, and the next connection resumes there.
#[derive(Debug)]
#[non_exhaustive]
pub enum LinkError {
    /// The other side closed it.
    Closed,
    /// No byte arrived for as long as the timeout.
    Silent {
        /// How long, in milliseconds.
        after_ms: u64,
    },
    /// A network operation failed.
    Io(io::Error),
    /// The other side sent something that is not a packet.
    Packet(PacketError),
    /// The other side sent a packet that is not allowed here, or one with impossible values.
    Unexpected {
        /// The unexpected item.
        what: &'static str,
    },
    /// The other side gave up and sent the reason.
    Told {
        /// Why.
        code: ErrorCode,
        /// Whether trying again soon is pointless.
        fatal: bool,
        /// In words.
        text: String,
    },
    /// This side gives up; it has notified the other side if it could.
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

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the other side closed the connection"),
            Self::Silent { after_ms } => write!(f, "nothing was heard for {after_ms} ms"),
            Self::Io(error) => error.fmt(f),
            Self::Packet(error) => error.fmt(f),
            Self::Unexpected { what } => write!(f, "the other side sent an unexpected {what}"),
            Self::Told { text, .. } => write!(f, "the other side says: {text}"),
            Self::Refused { text, .. } => f.write_str(text),
            Self::Stopping => f.write_str("shutting down"),
        }
    }
}

impl std::error::Error for LinkError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Packet(error) => Some(error),
            _ => None,
        }
    }
}

impl From<PacketError> for LinkError {
    fn from(error: PacketError) -> Self {
        Self::Packet(error)
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
