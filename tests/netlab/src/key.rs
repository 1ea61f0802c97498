//! The replication key of tests: one for all, so that nodes that a test starts know each other; and what it proves, by another hand than
//! the servers' (docs/replication-protocol.md).

use std::{
    fs::OpenOptions,
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

/// The secret.
pub(crate) const SECRET: [u8; 32] = *b"a key of tests, known to anybody";

/// Bytes of a nonce, and of a proof.
const WORD: usize = 32;

/// Bytes of a key's id.
const ID_BYTES: usize = 8;

/// Returns what is in the file of the key.
pub fn key_text() -> String {
    let digits: String = SECRET.iter().map(|byte| format!("{byte:02x}")).collect();
    digits + "\n"
}

/// Writes the file of the key to `path`, with mode 0600, if there is none.
///
/// # Errors
/// The disk's.
pub fn plant_key(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(key_text().as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns HMAC-SHA-256 of `parts` one after the other.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(key).expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Returns the key of the packets from the node that listens, of a connection whose start-up and first messages were these: what the node
/// that connects has said, and the challenge.
pub(crate) fn key_of_listener(startup: &[u8], greeting: &[u8], challenge: &[u8]) -> Option<[u8; 32]> {
    let parameters: Vec<&[u8]> = startup.split(|byte| *byte == 0).collect();
    let of = |name: &[u8]| {
        let pair = parameters.chunks_exact(2).find(|pair| pair[0] == name);
        pair.map_or(&[][..], |pair| pair[1])
    };
    let mut said = Vec::new();
    for name in [&b"replication"[..], b"application_name", b"collie_cluster"] {
        let value = of(name);
        said.extend_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
        said.extend_from_slice(value);
    }
    // What was said after the greeting may follow it here.
    let keys = usize::from(*greeting.get(1 + WORD)?);
    said.extend_from_slice(greeting.get(..2 + WORD + keys * ID_BYTES)?);
    said.extend_from_slice(challenge.get(ID_BYTES..ID_BYTES + WORD)?);
    said.extend_from_slice(challenge.get(..ID_BYTES)?);
    let shared = hmac(&SECRET, &[b"collie replication 1: session\0", &said]);
    Some(hmac(&shared, &[b"collie replication 1: packets of the node that listens\0"]))
}
