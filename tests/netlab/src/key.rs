//! The replication key of tests: one for all, so that the nodes of a test know each other. Its proofs are implemented
//! here independently of the servers (docs/replication-protocol.md).

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

/// The bytes of a nonce, and of a proof.
const WORD: usize = 32;

/// The bytes of a key's id.
const ID_BYTES: usize = 8;

/// Returns the content of the key file.
pub fn key_text() -> String {
    let digits: String = SECRET.iter().map(|byte| format!("{byte:02x}")).collect();
    digits + "\n"
}

/// Writes the key file to `path`, with mode 0600, if there is none.
///
/// # Errors
/// Those of the disk.
pub fn plant_key(path: &Path) -> io::Result<()> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => file.write_all(key_text().as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns HMAC-SHA-256 of the concatenated `parts`.
pub(crate) fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac: Hmac<Sha256> = Hmac::new_from_slice(key).expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

/// Returns the key for the packets of the listening node. It is derived from the start-up and the greeting of the
/// connecting node, and from the challenge; `None` if one of them is too short.
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
    // The bytes after the greeting may follow it here.
    let keys = usize::from(*greeting.get(1 + WORD)?);
    said.extend_from_slice(greeting.get(..2 + WORD + keys * ID_BYTES)?);
    said.extend_from_slice(challenge.get(ID_BYTES..ID_BYTES + WORD)?);
    said.extend_from_slice(challenge.get(..ID_BYTES)?);
    let shared = hmac(&SECRET, &[b"collie replication 1: session\0", &said]);
    Some(hmac(&shared, &[b"collie replication 1: packets of the node that listens\0"]))
}
