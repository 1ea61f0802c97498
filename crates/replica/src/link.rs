//! `Link`: one connection as packets: a reading and a writing half that tasks of their own may have.
//!
//! # Invariants
//! - L1. No read and no write waits longer than the timeout that it was given without a byte that moves: a half-open connection
//!   ends, a slow one does not. Who has not said who it is has the time for all of it.
//! - L2. A packet is borrowed from the input and gone when the next one is asked for; nothing is kept of it here.
//! - L3. Every packet is behind a proof and under a seal that only the two ends can make (`key`): one that was changed, left out, sent
//!   twice or moved ends the connection.

use std::time::Duration;

use collie_base::one_line;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split},
    sync::watch,
    time::timeout,
};

use crate::{
    LinkError,
    key::{Tags, Trusted},
    packet::{Error, From, Input, Packet, encode},
};

/// How much is asked of the network at once.
const READ_BYTES: usize = 64 << 10;

/// A connection: what carries bytes both ways.
pub trait Connection: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + 'static> Connection for T {}

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

/// Splits a connection to a peer that has the key and has not said yet which node it is (L3).
pub(crate) fn open<C: Connection>(trusted: Trusted<C>, peer: From, timeout: Duration) -> (Reading<C>, Writing<C>) {
    let Trusted { io, keys } = trusted;
    let (reading, writing) = split(io);
    let input = Input::hello(peer).sealed_by(keys.receiving);
    (Reading { io: reading, input }, Writing { io: writing, out: Vec::new(), tags: keys.sending, timeout })
}

/// Waits until this side is told to stop, or whoever could tell is gone.
pub(crate) async fn stopping(stop: &mut watch::Receiver<bool>) {
    // What it guards is not kept: a future that held it could not move between threads.
    let _guarded = stop.wait_for(|stop| *stop).await.is_ok();
}

pub(crate) fn silent(after: Duration) -> LinkError {
    LinkError::Silent { after_ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX) }
}

impl<C: Connection> Reading<C> {
    /// Takes every packet from here on.
    pub(crate) fn known(&mut self) {
        self.input.known();
    }

    /// Returns the next packet, waiting for the whole of it as long as `patience`. The peer's `X` comes as [`LinkError::Told`].
    ///
    /// # Cancel safety
    /// Dropping the future loses no byte.
    pub(crate) async fn next(&mut self, patience: Duration) -> Result<Packet<'_>, LinkError> {
        timeout(patience, self.fill(patience)).await.map_err(|_| silent(patience))??;
        self.taken()
    }

    /// Returns the next packet of a peer that is known, as long as something of it comes at least every `silence`.
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

    /// Reads until a packet, or what is none, is there.
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

    /// Sends a packet whole; on an error the connection is of no use any more.
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

    /// Sends a packet whole, however long that takes: the caller hears whether the peer is there. A kernel that holds much unsent
    /// lets nothing be written for as long as a third of it takes to leave, which on a slow link is long.
    pub(crate) async fn send_patiently(&mut self, packet: &Packet<'_>) -> Result<(), LinkError> {
        self.put(packet);
        Ok(self.io.write_all(&self.out).await?)
    }

    /// Says why this side gives up, as well as it goes, and closes.
    pub(crate) async fn end(&mut self, error: Option<&LinkError>) {
        if let Some((code, fatal, lsn, text)) = error.and_then(LinkError::tell) {
            let packet = Packet::Error(Error { code, fatal, sqlstate: code.sqlstate(), lsn, text: &text });
            let _best_effort = self.send(&packet).await;
        }
        let _best_effort = timeout(self.timeout, self.io.shutdown()).await;
    }
}
