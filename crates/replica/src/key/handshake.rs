//! The proofs of the key as bytes: the messages between the node that connects and the node that listens; without
//! I/O.
//!
//! | from | name | bytes |
//! |---|---|---|
//! | the node that connects | greeting | 1 (version); its nonce, 32; number of its keys, 1 to 4; the id of each, 8 |
//! | the node that listens | challenge | the id of the selected key, 8; its nonce, 32; its proof, 32 |
//! | the node that connects | answer | its proof, 32 |
//!
//! A proof is HMAC-SHA-256, keyed by the secret, of a label that differs for the two sides and of everything sent
//! before: the request in the start-up message, the whole greeting, the listener's nonce, the id of the key. The
//! keys of the session are derived from the same bytes.
//!
//! # Invariants
//! - H1. Neither side acts on, or discloses, anything of the database before the other has proved that it has the
//!   secret.
//! - H2. A proof is valid for one connection: it covers both nonces, which are fresh. The proof of one side is
//!   never valid for the other: the labels differ.
//! - H3. The proofs cover the request in the start-up message, so a party between the two nodes cannot change it.
//! - H4. Proofs are compared in a time that does not depend on where they differ, and no secret leaves the node.
//!
//! Checked by the tests here; `tests/netlab/src/forger.rs` has an independent implementation.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::ring::{KEYS_MAX, KeyId, Keys, Secret};
use crate::packet::Tags;

/// Bytes of a nonce, of a proof, and of a secret.
pub(super) const WORD: usize = 32;

/// The version in the greeting.
const VERSION: u8 = 1;

const OF_LISTENER: &[u8] = b"collie replication 1: the node that listens\0";
const OF_CALLER: &[u8] = b"collie replication 1: the node that connects\0";
const OF_SESSION: &[u8] = b"collie replication 1: session\0";
const FROM_LISTENER: &[u8] = b"collie replication 1: packets of the node that listens\0";
const FROM_CALLER: &[u8] = b"collie replication 1: packets of the node that connects\0";

/// The purpose of a connection, from its start-up message: parameters `replication`, `application_name` and
/// `collie_cluster`, empty where one is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Purpose<'a> {
    /// The requested service.
    pub what: &'a str,
    /// The name of the node that asks.
    pub name: &'a str,
    /// The database that it means.
    pub cluster: &'a str,
}

/// Why a connection is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistrust {
    /// The other side sent something that is not in the protocol.
    Malformed,
    /// The two have no key in common.
    NoCommonKey,
    /// The other side does not have the key that it names.
    WrongProof,
}

/// The seals of both directions, as one side uses them.
#[derive(Debug)]
pub struct SessionKeys {
    /// Seals of the packets that this side sends.
    pub sending: Tags,
    /// Seals of the packets that this side receives.
    pub receiving: Tags,
}

fn mac(key: &[u8], label: &[u8], parts: &[&[u8]]) -> Hmac<Sha256> {
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(label);
    parts.iter().for_each(|part| mac.update(part));
    mac
}

fn word(mac: Hmac<Sha256>) -> [u8; WORD] {
    mac.finalize().into_bytes().into()
}

/// Everything that both sides have sent, under the selected key.
struct Said<'a> {
    secret: &'a Secret,
    bytes: Vec<u8>,
}

impl<'a> Said<'a> {
    fn new(secret: &'a Secret, purpose: &Purpose<'_>, greeting: &[u8], listener: &[u8; WORD]) -> Self {
        let mut bytes = Vec::new();
        for text in [purpose.what, purpose.name, purpose.cluster] {
            let length = u32::try_from(text.len()).expect("a start-up is short");
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes.extend_from_slice(greeting);
        bytes.extend_from_slice(listener);
        bytes.extend_from_slice(&secret.id().0);
        Self { secret, bytes }
    }

    fn mac(&self, label: &[u8]) -> Hmac<Sha256> {
        mac(self.secret.bytes(), label, &[&self.bytes])
    }

    /// Checks a proof (H4).
    fn check(&self, label: &[u8], proof: &[u8]) -> Result<(), Mistrust> {
        self.mac(label).verify_slice(proof).map_err(|_| Mistrust::WrongProof)
    }

    fn session(&self, sending: &[u8], receiving: &[u8]) -> SessionKeys {
        let shared = word(self.mac(OF_SESSION));
        let tags = |label| Tags::new(&word(mac(&shared, label, &[])));
        SessionKeys { sending: tags(sending), receiving: tags(receiving) }
    }
}

/// The node that connects.
#[derive(Debug)]
pub struct Caller<'a> {
    keys: &'a Keys,
    purpose: Purpose<'a>,
    nonce: [u8; WORD],
}

impl<'a> Caller<'a> {
    /// Creates the connecting side. `nonce` must be fresh (H2).
    pub fn new(keys: &'a Keys, purpose: Purpose<'a>, nonce: [u8; WORD]) -> Self {
        Self { keys, purpose, nonce }
    }

    /// Returns the greeting.
    pub fn greeting(&self) -> Vec<u8> {
        let count = u8::try_from(self.keys.all().len()).expect("a node has few keys");
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.nonce);
        bytes.push(count);
        self.keys.all().iter().for_each(|secret| bytes.extend_from_slice(&secret.id().0));
        bytes
    }

    /// Checks the challenge; returns the answer, and the seals of the packets that follow.
    ///
    /// # Errors
    /// The listening node is not to be trusted.
    pub fn answer(&self, challenge: &[u8]) -> Result<([u8; WORD], SessionKeys), Mistrust> {
        let (id, rest) = challenge.split_first_chunk().ok_or(Mistrust::Malformed)?;
        let (nonce, proof) = rest.split_first_chunk().ok_or(Mistrust::Malformed)?;
        let secret = self.keys.find(KeyId(*id)).ok_or(Mistrust::NoCommonKey)?;
        let said = Said::new(secret, &self.purpose, &self.greeting(), nonce);
        said.check(OF_LISTENER, proof)?;
        Ok((word(said.mac(OF_CALLER)), said.session(FROM_CALLER, FROM_LISTENER)))
    }
}

/// The node that listens, after it has received a greeting.
pub struct Listener<'a>(Said<'a>);

impl fmt::Debug for Listener<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.secret.id()).finish()
    }
}

impl<'a> Listener<'a> {
    /// Takes a greeting and returns the challenge. Of the keys that both nodes have, it selects the first one in
    /// `keys`. `nonce` must be fresh (H2).
    ///
    /// # Errors
    /// The bytes are not a greeting, or the two nodes have no key in common.
    pub fn greeted(
        keys: &'a Keys,
        purpose: &Purpose<'_>,
        nonce: &[u8; WORD],
        greeting: &[u8],
    ) -> Result<(Vec<u8>, Self), Mistrust> {
        let (&version, rest) = greeting.split_first().ok_or(Mistrust::Malformed)?;
        let (_caller, rest) = rest.split_first_chunk::<WORD>().ok_or(Mistrust::Malformed)?;
        let (&count, ids) = rest.split_first().ok_or(Mistrust::Malformed)?;
        let (ids, more) = ids.as_chunks();
        if version != VERSION || ids.len() != usize::from(count) || ids.len() > KEYS_MAX || !more.is_empty() {
            return Err(Mistrust::Malformed);
        }
        let has = |secret: &&Secret| ids.contains(&secret.id().0);
        let secret = keys.all().iter().find(has).ok_or(Mistrust::NoCommonKey)?;
        let said = Said::new(secret, purpose, greeting, nonce);
        let proof = word(said.mac(OF_LISTENER));
        Ok(([&secret.id().0[..], nonce, &proof].concat(), Self(said)))
    }

    /// Checks the answer; returns the seals of the packets that follow.
    ///
    /// # Errors
    /// The connecting node does not have the key.
    pub fn answered(self, answer: &[u8]) -> Result<SessionKeys, Mistrust> {
        self.0.check(OF_CALLER, answer)?;
        Ok(self.0.session(FROM_LISTENER, FROM_CALLER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKS: Purpose<'static> = Purpose { what: "collie", name: "standby", cluster: "" };

    fn keys(lines: &[u8]) -> Keys {
        let text: String = lines.iter().map(|byte| format!("{}\n", format!("{byte:02x}").repeat(32))).collect();
        Keys::parse(&text).unwrap()
    }

    /// Returns both sides of a connection, or why one of them does not trust the other; `between` may change the
    /// messages.
    fn meet(
        caller: &Keys,
        listener: &Keys,
        asked: Purpose<'_>,
        between: impl Fn(u8, &mut Vec<u8>),
    ) -> Result<[SessionKeys; 2], (u8, Mistrust)> {
        let calling = Caller::new(caller, ASKS, [1; WORD]);
        let mut greeting = calling.greeting();
        between(0, &mut greeting);
        let greeted = Listener::greeted(listener, &asked, &[2; WORD], &greeting);
        let (mut challenge, listening) = greeted.map_err(|why| (0, why))?;
        between(1, &mut challenge);
        let (answer, near) = calling.answer(&challenge).map_err(|why| (1, why))?;
        let mut answer = answer.to_vec();
        between(2, &mut answer);
        let far = listening.answered(&answer).map_err(|why| (2, why))?;
        Ok([near, far])
    }

    /// Goal: two nodes with a key in common trust each other and have the same seals, by the newest of these keys
    /// on the listening node; without a common key they do not. Method: rings of keys, as in the middle of a
    /// rotation.
    #[test]
    fn nodes_with_a_key_in_common_trust_each_other() {
        for (caller, listener) in [(&[3][..], &[3][..]), (&[3], &[4, 3]), (&[4, 3], &[3]), (&[3, 4], &[4, 3])] {
            let [mut near, mut far] = meet(&keys(caller), &keys(listener), ASKS, |_, _| ()).unwrap();
            for _ in 0..2 {
                let (out, back) = (near.sending.seal(b"out"), far.sending.seal(b"back"));
                assert!(far.receiving.holds(b"out", &out) && near.receiving.holds(b"back", &back));
                assert_ne!(out, back);
            }
            let told = near.sending.seal(b"x");
            assert!(!near.receiving.holds(b"x", &told), "a packet that comes back is none of the other side's");
        }
        assert_eq!(meet(&keys(&[3]), &keys(&[5]), ASKS, |_, _| ()).err(), Some((0, Mistrust::NoCommonKey)));
    }

    /// Goal: H2, H3: neither side trusts a peer that does not have the secret, whatever was recorded before or is
    /// changed between them. Method: every byte of every message changed, messages cut and extended; another
    /// purpose; answers of another connection; the listening node's proof sent back to it.
    #[test]
    fn nobody_is_trusted_who_does_not_have_the_key() {
        let ring = keys(&[3, 4]);
        for message in 0..3_u8 {
            for at in 0..98 {
                let changed = meet(&ring, &ring, ASKS, |now, bytes| {
                    if let Some(byte) = bytes.get_mut(at).filter(|_| now == message) {
                        *byte ^= 0x10;
                    }
                });
                let is_long = [50, 72, 32].get(usize::from(message)).is_some_and(|length| at < *length);
                assert_eq!(changed.is_err(), is_long, "byte {at} of message {message}");
            }
            for grown in [false, true] {
                let cut = meet(&ring, &ring, ASKS, |now, bytes| {
                    if now == message {
                        let length = if grown { bytes.len() + 1 } else { bytes.len() - 1 };
                        bytes.resize(length, 0);
                    }
                });
                assert!(cut.is_err(), "message {message}");
            }
        }
        for other in [
            Purpose { what: "collie-terms", ..ASKS },
            Purpose { name: "standb", cluster: "y", ..ASKS },
            Purpose { cluster: "00", ..ASKS },
        ] {
            assert_eq!(meet(&ring, &ring, other, |_, _| ()).err(), Some((1, Mistrust::WrongProof)), "{other:?}");
        }
        let greeting = Caller::new(&ring, ASKS, [1; WORD]).greeting();
        let (challenge, _) = Listener::greeted(&ring, &ASKS, &[2; WORD], &greeting).unwrap();
        let (recorded, _) = Caller::new(&ring, ASKS, [1; WORD]).answer(&challenge).unwrap();
        for (nonce, answer) in [([9; WORD], &recorded[..]), ([2; WORD], challenge.split_at(40).1)] {
            let (_, listening) = Listener::greeted(&ring, &ASKS, &nonce, &greeting).unwrap();
            assert_eq!(listening.answered(answer).err(), Some(Mistrust::WrongProof));
        }
        for bytes in [&[][..], &[1], &[2; 42], greeting.split_at(41).0] {
            assert_eq!(Listener::greeted(&ring, &ASKS, &[2; WORD], bytes).err(), Some(Mistrust::Malformed));
        }
        assert_eq!(Caller::new(&ring, ASKS, [1; WORD]).answer(&[0; 39]).err(), Some(Mistrust::Malformed));
    }

    /// Goal: the proof is HMAC-SHA-256 as other implementations compute it. Method: test case 2 of RFC 4231.
    #[test]
    fn proofs_are_hmac_sha_256() {
        let computed = word(mac(b"Jefe", b"what do ya want ", &[b"for nothing?"]));
        let hex: String = computed.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    }
}
