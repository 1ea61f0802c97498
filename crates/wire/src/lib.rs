//! PostgreSQL's frontend/backend protocol 3.0 as bytes and messages. The crate does no I/O and has no sockets, no
//! threads and no knowledge of SQL.
//!
//! [`Input`] turns the client's bytes into [`Frontend`] messages, [`Output`] collects the bytes to send back. The
//! two are separate so that a message borrowed from the input can be answered while it is held.
//!
//! # Invariants
//! - W1. A message's type and length are checked before the input waits for its bytes; the buffer holds only bytes
//!   that have arrived, and a length field never sizes it.
//! - W2. Every read inside a message is bounded by the message, and the message must end where its last field ends
//!   (08P01).
//! - W3. Returned text is valid UTF-8 without NUL (22021).
//! - W4. Bytes from the client never cause a panic.
//!
//! Checked by the tests here (round trips, every cut, random bytes) and by the fuzz target `wire_frontend`.
//!
//! ```
//! use collie_wire::{Frontend, Input, Output, TransactionStatus};
//! let mut input = Input::new(1 << 20);
//! input.skip_startup();
//! input.feed(b"Q\0\0\0\x0dSELECT 1\0");
//! assert!(matches!(input.next(), Ok(Some(Frontend::Query("SELECT 1")))));
//! let mut output = Output::new();
//! output.ready_for_query(TransactionStatus::Idle);
//! assert_eq!(output.bytes(), b"Z\0\0\0\x05I");
//! ```
#![forbid(unsafe_code)]

mod error;
mod frontend;
mod input;
mod output;
#[cfg(test)]
mod wire_tests;

pub use error::WireError;
pub use frontend::{Bind, Describe, Formats, Frontend, Oids, Startup, Values};
pub use input::{Input, STARTUP_BYTES_MAX};
pub use output::{Field, Notice, Output, Severity, TransactionStatus};

/// Entry point of the fuzz target: decoding ends for any `bytes`, does not panic and does not grow memory beyond
/// the input.
pub fn fuzz_frontend(bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let mut input = Input::new(1 << 16);
    if first & 1 == 1 {
        input.skip_startup();
    }
    for piece in rest.chunks(usize::from(*first).max(1)) {
        input.feed(piece);
        loop {
            match input.next() {
                Ok(Some(Frontend::Bind(bind))) => {
                    let _ = bind.values.clone().count();
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) if error.fatal => return,
                Err(_) => {}
            }
        }
    }
}
