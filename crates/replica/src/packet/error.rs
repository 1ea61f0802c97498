//! `PacketError`: a violation of the protocol by a peer.

use std::fmt;

use collie_base::{Remedy, codec::DecodeError};

use super::ErrorCode;

/// Why bytes are not a valid packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFault {
    /// An unknown type that may not be skipped, or one that is not allowed here.
    Type,
    /// A length field out of its bounds.
    Length {
        /// The value of the field.
        bytes: u32,
        /// Its bound for this type.
        bytes_max: usize,
    },
    /// An invalid field.
    Field {
        /// The name of the field.
        what: &'static str,
    },
    /// A checksum that does not match.
    Checksum {
        /// The checksum in the packet.
        stored: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A seal that does not match, after a checksum that does.
    Seal,
}

/// A violation of the protocol. No byte after it can be read: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketError {
    /// The type byte.
    pub kind: u8,
    /// The violation.
    pub fault: PacketFault,
}

impl PacketError {
    /// Returns the code to send to the peer.
    pub fn code(&self) -> ErrorCode {
        match self.fault {
            PacketFault::Checksum { .. } => ErrorCode::Checksum,
            _ => ErrorCode::Protocol,
        }
    }

    /// Returns how the caller can recover: connect again; everything received before stays valid.
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
