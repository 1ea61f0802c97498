//! `Input`: turns bytes from a client into messages.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use crate::{
    error::WireError,
    frontend::{self, Frontend},
};

/// Largest message before a session runs, in bytes, its length field included.
pub const STARTUP_BYTES_MAX: usize = 10_000;

/// The form of the next message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// A message without a type byte: startup, TLS request, cancel.
    Startup,
    /// Messages with a type byte.
    Session,
}

/// Bytes from a client that are not decoded yet.
#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    /// Start of the first message that was not returned yet.
    start: usize,
    phase: Phase,
    message_bytes_max: usize,
    /// Type of the message that was returned or refused last.
    last: u8,
}

impl Input {
    /// Makes the input of a new connection. It refuses a message longer than `message_bytes_max`.
    pub fn new(message_bytes_max: usize) -> Self {
        Self { bytes: Vec::new(), start: 0, phase: Phase::Startup, message_bytes_max, last: 0 }
    }

    /// Skips the startup messages, for a session that is running.
    pub fn skip_startup(&mut self) {
        self.phase = Phase::Session;
    }

    /// Appends bytes that arrived.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the buffer, to which the caller may append bytes that arrive.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.compact();
        &mut self.bytes
    }

    /// Returns whether the message returned or refused last was a simple query, which no Sync follows.
    pub fn last_was_query(&self) -> bool {
        self.last == b'Q'
    }

    /// Returns whether there are bytes that are not part of a returned message.
    pub fn has_bytes(&self) -> bool {
        self.bytes.len() > self.start
    }

    /// Returns whether a whole message is waiting, or an error that `next` would report.
    pub fn has_message(&self) -> bool {
        !matches!(self.frame(), Ok(None))
    }

    fn compact(&mut self) {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        // A large message must not keep its buffer for the rest of the session.
        if self.bytes.is_empty() && self.bytes.capacity() > 1 << 20 {
            self.bytes = Vec::new();
        }
    }

    /// Finds the next message: its type (0 in startup), and the start and end of its body. It reserves nothing for
    /// the message (W1).
    fn frame(&self) -> Result<Option<(u8, usize, usize)>, WireError> {
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        let (kind, length, head) = match self.phase {
            Phase::Startup => match rest.first_chunk() {
                Some(length) => (0, u32::from_be_bytes(*length), 4_usize),
                None => return Ok(None),
            },
            Phase::Session => {
                let Some((kind, rest)) = rest.split_first() else { return Ok(None) };
                if !b"QPBDCESHdcfpFX".contains(kind) {
                    return Err(WireError::fatal(format!("invalid frontend message type {kind}")));
                }
                match rest.first_chunk() {
                    Some(length) => (*kind, u32::from_be_bytes(*length), 5),
                    None => return Ok(None),
                }
            }
        };
        let max = if self.phase == Phase::Startup { STARTUP_BYTES_MAX } else { self.message_bytes_max };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let least = if self.phase == Phase::Startup { 8 } else { 4 };
        if length < least || length > max {
            return Err(match self.phase {
                Phase::Startup => WireError::fatal("invalid length of startup packet"),
                Phase::Session => WireError::fatal(format!(
                    "invalid message length: {length} bytes in a message of type {:?}, the limit is {max}",
                    char::from(kind)
                )),
            });
        }
        let body = self.start.saturating_add(head);
        let end = body.saturating_add(length.saturating_sub(4));
        Ok((self.bytes.len() >= end).then_some((kind, body, end)))
    }

    /// Returns the next whole message, or `None` until more bytes arrive.
    ///
    /// # Errors
    /// [`WireError`]: after a `fatal` one nothing can be read; otherwise the message is skipped and the next call
    /// continues after it.
    #[expect(clippy::should_implement_trait, reason = "the item borrows from the input, which Iterator cannot say")]
    pub fn next(&mut self) -> Result<Option<Frontend<'_>>, WireError> {
        let Some((kind, body, end)) = self.frame()? else { return Ok(None) };
        self.start = end;
        self.last = kind;
        let startup = self.phase == Phase::Startup;
        let bytes = self.bytes.get(body..end).unwrap_or_default();
        if startup {
            let message = frontend::decode_startup(bytes)?;
            if matches!(message, Frontend::Startup(_)) {
                self.phase = Phase::Session;
            }
            return Ok(Some(message));
        }
        frontend::decode(kind, bytes).map(Some)
    }
}
