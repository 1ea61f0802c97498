//! `LinkError`: why a connection between two nodes ended.

use std::{fmt, io};

use collie_base::{Lsn, Remedy};

use crate::packet::{ErrorCode, PacketError, TEXT_BYTES_MAX};

/// Why a connection ended. What was received before stands, and the next connection goes on there.
#[derive(Debug)]
#[non_exhaustive]
pub enum LinkError {
    /// The other side closed it.
    Closed,
    /// Nothing was heard for as long as the timeout.
    Silent {
        /// How long, in milliseconds.
        after_ms: u64,
    },
    /// The network refused.
    Io(io::Error),
    /// The other side sent what is no packet.
    Packet(PacketError),
    /// The other side sent a packet that does not belong here, or with values that cannot be.
    Unexpected {
        /// What.
        what: &'static str,
    },
    /// The other side gave up and said why.
    Told {
        /// Why.
        code: ErrorCode,
        /// Whether trying again soon is pointless.
        fatal: bool,
        /// In words.
        text: String,
    },
    /// This side gives up: it told the other, if it could.
    Refused {
        /// Why.
        code: ErrorCode,
        /// Whether trying again soon is pointless.
        fatal: bool,
        /// Where in the log, or 0.
        lsn: Lsn,
        /// In words, with what to do.
        text: String,
    },
    /// This side was told to stop.
    Stopping,
}

impl LinkError {
    /// This side gives up, and the next connection may go better.
    pub(crate) fn refused(code: ErrorCode, lsn: Lsn, text: impl Into<String>) -> Self {
        Self::Refused { code, fatal: false, lsn, text: text.into() }
    }

    /// This side gives up for as long as nobody changes something.
    pub(crate) fn fatal(code: ErrorCode, lsn: Lsn, text: impl Into<String>) -> Self {
        Self::Refused { code, fatal: true, lsn, text: text.into() }
    }

    /// Returns whether the next try may be soon.
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Told { fatal: true, .. } | Self::Refused { fatal: true, .. })
    }

    /// Says what the caller can do.
    pub fn remedy(&self) -> Remedy {
        if self.is_fatal() { Remedy::FixCall } else { Remedy::Retry }
    }

    /// Returns what the other side is told: code, whether it is final, position and text. `None` when it cannot hear, or
    /// said it itself.
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
        // Whether a close is seen by a read or by a write, and with bytes under way or without, is chance.
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a connection that the other side closed is said to be closed, however that is noticed (T271). Method: each error.
    #[test]
    fn a_close_is_a_close_however_it_is_noticed() {
        for kind in [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset] {
            assert!(matches!(LinkError::from(io::Error::from(kind)), LinkError::Closed), "{kind}");
        }
        assert!(matches!(LinkError::from(io::Error::from(io::ErrorKind::PermissionDenied)), LinkError::Io(_)));
    }
}
