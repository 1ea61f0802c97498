//! Types of packets: which side may send each, and how long it may be.

/// The side that sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// The node that appends.
    Primary,
    /// The node that follows.
    Replica,
}

/// The sides that may send a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Senders {
    Primary,
    Replica,
    Both,
}

/// The properties of a type that are checked before the payload is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kind {
    pub(super) letter: u8,
    pub(super) senders: Senders,
    /// The largest value of the length field.
    pub(super) bytes_max: usize,
    /// Whether it may be sent before both sides have identified each other.
    pub(super) first: bool,
}

const fn kind(letter: u8, senders: Senders, bytes_max: usize, first: bool) -> Kind {
    Kind { letter, senders, bytes_max, first }
}

pub(super) const KINDS: &[Kind] = &[
    kind(b'A', Senders::Replica, 512, false),
    kind(b'B', Senders::Primary, 128, false),
    kind(b'D', Senders::Primary, (4 << 20) + 64, false),
    kind(b'E', Senders::Primary, 32, false),
    kind(b'H', Senders::Replica, 16 << 10, true),
    kind(b'I', Senders::Primary, 16 << 10, true),
    kind(b'K', Senders::Both, 1 << 20, false),
    kind(b'T', Senders::Both, 64, true),
    kind(b'V', Senders::Both, 64, false),
    kind(b'X', Senders::Both, 1 << 10, true),
    kind(b'c', Senders::Replica, 64 << 10, false),
    kind(b'h', Senders::Both, 1 << 10, false),
    kind(b'q', Senders::Primary, 64 << 10, false),
    kind(b's', Senders::Replica, 32, false),
];

/// The largest value of the length field of an unknown lower-case type.
pub(super) const UNKNOWN_BYTES_MAX: usize = 64 << 10;

/// Bytes of the longest packet, its type byte included.
pub const PACKET_BYTES_MAX: usize = (4 << 20) + 64 + 1;

/// Returns the properties of a type.
pub(super) fn of(letter: u8) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.letter == letter)
}

impl Kind {
    pub(super) fn may_come(&self, from: From) -> bool {
        match self.senders {
            Senders::Both => true,
            Senders::Primary => from == From::Primary,
            Senders::Replica => from == From::Replica,
        }
    }
}
