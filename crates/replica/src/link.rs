//! One connection as packets, in a reading and a writing half that separate tasks can own.
//!
//! # Invariants
//! - L1. No read and no write waits longer than its timeout while no byte moves: a half-open connection ends, a
//!   slow one does not. A peer that has not identified itself has that time for its whole packet. Only
//!   `send_patiently` leaves the timeout to its caller.
//! - L2. A packet is borrowed from the input and is gone when the next one is requested; no part of it is kept
//!   here.
//! - L3. Every packet comes after a proof and under a seal that only the two ends can make (`key`): a packet that
//!   was changed, left out, sent twice or moved ends the connection.

use std::time::Duration;

use collie_base::one_line;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::watch,
    time::timeout,
};

use crate::{
    LinkError,
    connection::Connection,
    key::Trusted,
    packet::{Error, From, Input, Packet, Tags, encode},
};

/// The bytes requested from the network at once.
const READ_BYTES: usize = 64 << 10;

/// The reading half.
#[derive(Debug)]
pub(crate) struct Reading<C> {
    io: ReadHalf<C>,
    input: Input,
}

/// The writing half.
#[derive(Debug)]
pub(crate) struct Writing<C> {
    io: WriteHalf<C>,
    out: Vec<u8>,
    tags: Tags,
    timeout: Duration,
}

/// Splits a connection to a peer that has proved the key and has not yet stated which node it is (L3).
pub(crate) fn open<C: Connection>(trusted: Trusted<C>, peer: From, timeout: Duration) -> (Reading<C>, Writing<C>) {
    let Trusted { io, keys } = trusted;
    let (reading, writing) = split(io);
    let input = Input::hello(peer).sealed_by(keys.receiving);
    (Reading { io: reading, input }, Writing { io: writing, out: Vec::new(), tags: keys.sending, timeout })
}

/// Waits until this side is asked to stop, or the sender of `stop` is dropped.
pub(crate) async fn stopping(stop: &mut watch::Receiver<bool>) {
    // The guard that `wait_for` returns is dropped at once: a future that kept it could not move between threads.
    let _guarded = stop.wait_for(|stop| *stop).await.is_ok();
}

pub(crate) fn silent(after: Duration) -> LinkError {
    LinkError::Silent { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
}

impl<C: Connection> Reading<C> {
    /// Accepts packets of every kind from here on: the peer is known.
    pub(crate) fn known(&mut self) {
        self.input.known();
    }

    /// Returns the next packet, waiting up to `patience` for all of it. An `X` from the peer becomes
    /// [`LinkError::Told`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no byte.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<Packet<'_>, LinkError> {
        timeout(patience, self.fill(patience)).await.map_err(|_| silent(patience))??;
        self.taken()
    }

    /// Returns the next packet of a known peer, as long as some of its bytes arrive at least every `silence`.
    ///
    /// # Cancel safety
    /// Dropping the future loses no byte.
    pub(crate) async fn heard(&mut self, silence: Duration) -> Result<Packet<'_>, LinkError> {
        self.fill(silence).await?;
        self.taken()
    }

    fn taken(&mut self) -> Result<Packet<'_>, LinkError> {
        match self.input.next()? {
            Some(Packet::Error(Error { code, fatal, text, .. })) => {
                Err(LinkError::Told { code, fatal, text: one_line(text).into_owned() })
            }
            Some(packet) => Ok(packet),
            None => Err(LinkError::Unexpected { what: "end of a packet" }),
        }
    }

    /// Reads until the input has a packet, or bytes that are not a packet.
    async fn fill(&mut self, silence: Duration) -> Result<(), LinkError> {
        while !self.input.has_packet() {
            let buffer = self.input.buffer();
            buffer.reserve(READ_BYTES);
            if timeout(silence, self.io.read_buf(buffer)).await.map_err(|_| silent(silence))?? == 0 {
                return Err(LinkError::Closed);
            }
        }
        Ok(())
    }
}

impl<C: Connection> Writing<C> {
    /// Fills the buffer with a packet and its seal.
    fn put(&mut self, packet: &Packet<'_>) {
        self.out.clear();
        encode(packet, &mut self.out);
        let seal = self.tags.seal(&self.out);
        self.out.extend_from_slice(&seal);
    }

    /// Sends a whole packet; after an error the connection is no longer usable.
    pub(crate) async fn send(&mut self, packet: &Packet<'_>) -> Result<(), LinkError> {
        self.put(packet);
        let mut sent = 0;
        while let Some(rest) = self.out.get(sent..).filter(|rest| !rest.is_empty()) {
            match timeout(self.timeout, self.io.write(rest)).await.map_err(|_| silent(self.timeout))?? {
                0 => return Err(LinkError::Closed),
                count => sent = sent.saturating_add(count),
            }
        }
        Ok(())
    }

    /// Sends a whole packet, however long that takes: the caller checks whether the peer is alive. A kernel with a
    /// large send buffer accepts no bytes until a third of the buffer has drained, which takes long on a slow
    /// link.
    pub(crate) async fn send_patiently(&mut self, packet: &Packet<'_>) -> Result<(), LinkError> {
        self.put(packet);
        Ok(self.io.write_all(&self.out).await?)
    }

    /// Reports why this side gives up, if it can, and closes the connection.
    pub(crate) async fn end(&mut self, error: Option<&LinkError>) {
        if let Some((code, fatal, lsn, text)) = error.and_then(LinkError::tell) {
            let packet = Packet::Error(Error { code, fatal, sqlstate: code.sqlstate(), lsn, text: &text });
            let _best_effort = self.send(&packet).await;
        }
        let _best_effort = timeout(self.timeout, self.io.shutdown()).await;
    }
}
