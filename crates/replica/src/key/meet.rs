//! [`Trusted`]: a connection on which both ends have proved that they have the key; the proofs travel in the
//! messages of PostgreSQL's start-up.
//!
//! They take the form of a SASL authentication with a mechanism of Collie's own; a client that does not know the
//! mechanism reports so.
//!
//! # Invariants
//! - M1. Only a completed proof leads to a [`Trusted`], and packets exist only on one (`link`): no byte of a
//!   stranger is taken for a packet.
//! - M2. Before a proof a peer sends at most two messages of [`MESSAGE_BYTES_MAX`] bytes.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use thiserror::Error;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{
    handshake::{Caller, Listener, Mistrust, Purpose, SessionKeys},
    ring::{KEY_FILE, KeyError, KeyFile},
};
use crate::{Connection, LinkError, packet::ErrorCode};

/// The name of the mechanism.
const MECHANISM: &[u8] = b"COLLIE-HMAC-SHA-256\0";

/// AuthenticationOk, AuthenticationSASL, AuthenticationSASLContinue.
const OK: u32 = 0;
const SASL: u32 = 10;
const SASL_CONTINUE: u32 = 11;

/// Bytes of the number at the start of an authentication message.
const CODE_BYTES: usize = 4;

/// The longest message before a proof, in bytes.
const MESSAGE_BYTES_MAX: usize = 512;

/// A connection on which both ends have proved that they have the key (M1).
#[derive(Debug)]
pub struct Trusted<C> {
    pub(crate) io: C,
    pub(crate) keys: SessionKeys,
}

impl<C> Trusted<C> {
    /// Wraps a connection with the seals that its proofs produced.
    pub fn new(io: C, keys: SessionKeys) -> Self {
        Self { io, keys }
    }

    /// Wraps the underlying connection with `change`.
    pub fn map<D>(self, change: impl FnOnce(C) -> D) -> Trusted<D> {
        Trusted { io: change(self.io), keys: self.keys }
    }
}

/// Why a peer was not admitted.
#[derive(Debug, Error)]
pub enum Mistrusted {
    /// The connection ended, or the message was no proof at all; the peer gets no error.
    #[error("it went, or said what is no proof")]
    Gone,
    /// This node has no key. The text for a stranger discloses nothing about this node's files.
    #[error("this node has no replication key")]
    NoKey(KeyError),
    /// The peer has no key that is valid here.
    #[error(
        "the replication keys of the two nodes are not the same: copy the file {KEY_FILE} of one to the other, with mode \
         0600"
    )]
    Stranger(Mistrust),
}

fn message(kind: u8, parts: &[&[u8]]) -> Vec<u8> {
    let body = parts.concat();
    let length = u32::try_from(body.len().saturating_add(CODE_BYTES)).expect("proofs are short");
    [&[kind][..], &length.to_be_bytes(), &body].concat()
}

/// Reads one message of type `p`, and no byte after it.
async fn said<C: Connection>(io: &mut C) -> Option<Vec<u8>> {
    let kind = io.read_u8().await.ok()?;
    let length = usize::try_from(io.read_u32().await.ok()?).ok()?.checked_sub(CODE_BYTES)?;
    if kind != b'p' || length > MESSAGE_BYTES_MAX {
        return None;
    }
    let mut body = vec![0; length];
    io.read_exact(&mut body).await.ok()?;
    Some(body)
}

/// Proves to the connecting peer that this node has the key, and has the peer prove the same (M2). `purpose` comes
/// from the start-up message; the caller sends the answer to it.
///
/// # Errors
/// Why the peer is not admitted.
pub async fn admit<C: Connection>(
    io: &mut C,
    file: &KeyFile,
    purpose: &Purpose<'_>,
) -> Result<SessionKeys, Mistrusted> {
    let keys = tokio::task::block_in_place(|| file.read()).map_err(Mistrusted::NoKey)?;
    let offer = message(b'R', &[&SASL.to_be_bytes(), MECHANISM, &[0]]);
    io.write_all(&offer).await.map_err(|_| Mistrusted::Gone)?;
    let first = said(io).await.ok_or(Mistrusted::Gone)?;
    let first = first.strip_prefix(MECHANISM).ok_or(Mistrusted::Gone)?;
    let (length, greeting) = first.split_first_chunk().ok_or(Mistrusted::Gone)?;
    if usize::try_from(u32::from_be_bytes(*length)).ok() != Some(greeting.len()) {
        return Err(Mistrusted::Gone);
    }
    let greeted = Listener::greeted(&keys, purpose, &file.nonce(), greeting);
    let (challenge, listening) = greeted.map_err(|why| match why {
        Mistrust::Malformed => Mistrusted::Gone,
        why => Mistrusted::Stranger(why),
    })?;
    let challenge = message(b'R', &[&SASL_CONTINUE.to_be_bytes(), &challenge]);
    io.write_all(&challenge).await.map_err(|_| Mistrusted::Gone)?;
    let answer = said(io).await.ok_or(Mistrusted::Gone)?;
    listening.answered(&answer).map_err(Mistrusted::Stranger)
}

/// The connecting node during the exchange of proofs.
#[derive(Debug)]
pub(crate) struct Calling<'a> {
    caller: Caller<'a>,
    has_greeted: bool,
    proved: Option<SessionKeys>,
}

impl<'a> Calling<'a> {
    pub(crate) fn new(caller: Caller<'a>) -> Self {
        Self { caller, has_greeted: false, proved: None }
    }

    /// Answers an authentication message of the other node with the body `body`.
    ///
    /// # Errors
    /// The other node asks for something else, or for nothing, or does not have the key.
    pub(crate) async fn asked<C: Connection>(&mut self, io: &mut C, body: &[u8]) -> Result<(), LinkError> {
        let refused = |text: &str| Err(LinkError::refused(ErrorCode::Protocol, collie_base::Lsn::ZERO, text));
        let strange = || {
            Err(LinkError::Unexpected {
                what: "question instead of one for the replication key: is it a Collie server?",
            })
        };
        let Some((number, rest)) = body.split_first_chunk::<CODE_BYTES>() else { return strange() };
        match u32::from_be_bytes(*number) {
            SASL if !self.has_greeted && rest.strip_prefix(MECHANISM) == Some(&[0]) => {
                self.has_greeted = true;
                let greeting = self.caller.greeting();
                let length = u32::try_from(greeting.len()).expect("greetings are short");
                io.write_all(&message(b'p', &[MECHANISM, &length.to_be_bytes(), &greeting])).await?;
                Ok(())
            }
            SASL_CONTINUE if self.has_greeted && self.proved.is_none() => match self.caller.answer(rest) {
                Ok((answer, keys)) => {
                    io.write_all(&message(b'p', &[&answer])).await?;
                    self.proved = Some(keys);
                    Ok(())
                }
                Err(Mistrust::Malformed) => strange(),
                Err(Mistrust::NoCommonKey | Mistrust::WrongProof) => refused(
                    "the other node does not have this node's replication key: it is not of this database, or its key was changed",
                ),
            },
            OK if self.proved.is_some() => Ok(()),
            OK => refused(
                "the other node does not ask for the replication key: it runs an older version, or is not of this database",
            ),
            _ => strange(),
        }
    }

    /// Returns the seals of the packets that follow, if both sides have proved that they have the key.
    pub(crate) fn proved(self) -> Option<SessionKeys> {
        self.proved
    }
}

/// Makes both ends of a connection trusted, for tests of later steps.
#[cfg(test)]
pub(crate) fn trusted<A, B>(near: A, far: B) -> (Trusted<A>, Trusted<B>) {
    let ([a, b], [c, d]) = (
        [[1; 32], [2; 32]].map(|key| crate::packet::Tags::new(&key)),
        [[2; 32], [1; 32]].map(|key| crate::packet::Tags::new(&key)),
    );
    let keys = |sending, receiving| SessionKeys { sending, receiving };
    (Trusted::new(near, keys(a, b)), Trusted::new(far, keys(c, d)))
}
