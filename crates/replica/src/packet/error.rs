//! `PacketError`: what a peer did wrong in the protocol.

use std::fmt;

use collie_base::{Remedy, codec::DecodeError};

use super::ErrorCode;

/// How bytes fail to be a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFault {
    /// A type that must be understood and is not, or that does not belong here.
    Type,
    /// A length field out of its bounds.
    Length {
        /// What it says.
        bytes: u32,
        /// Its bound for this type.
        bytes_max: usize,
    },
    /// A field that is not valid.
    Field {
        /// Which.
        what: &'static str,
    },
    /// A checksum that does not hold.
    Checksum {
        /// The one in the packet.
        stored: u32,
        /// The one of its bytes.
        computed: u32,
    },
    /// A seal that does not hold, behind a checksum that does.
    Seal,
}

/// A breach of the protocol. Nothing behind it can be read: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketError {
    /// The type byte.
    pub kind: u8,
    /// What is wrong.
    pub fault: PacketFault,
}

impl PacketError {
    /// Returns the code to tell the peer.
    pub fn code(&self) -> ErrorCode {
        match self.fault {
            PacketFault::Checksum { .. } => ErrorCode::Checksum,
            _ => ErrorCode::Protocol,
        }
    }

    /// Says what the caller can do: connect again; what was received before stands.
    pub fn remedy(&self) -> Remedy {
        Remedy::Retry
    }
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = char::from(self.kind).escape_default();
        match self.fault {
            PacketFault::Type => write!(f, "packet type '{kind}' is not expected here"),
            PacketFault::Length { bytes, bytes_max } => {
                write!(f, "packet '{kind}' with a length of {bytes}; it may be 4 to {bytes_max}")
            }
            PacketFault::Field { what } => write!(f, "packet '{kind}' with a bad field: {what}"),
            PacketFault::Checksum { stored, computed } => {
                write!(f, "packet '{kind}' with a bad checksum: stored {stored:08x}, computed {computed:08x}")
            }
            PacketFault::Seal => write!(
                f,
                "packet '{kind}' with a seal that does not hold: somebody between the nodes has changed, repeated or kept back what they say"
            ),
        }
    }
}

impl std::error::Error for PacketError {}

impl From<DecodeError> for PacketFault {
    fn from(error: DecodeError) -> Self {
        Self::Field { what: error.what }
    }
}
