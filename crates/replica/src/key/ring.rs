//! [`Keys`]: the secrets of a node, and the file that holds them.
//!
//! The file is text: a line of 64 hexadecimal digits for each secret, the newest first, at most [`KEYS_MAX`];
//! empty lines and lines that begin with `#` are ignored. Every secret in the file is accepted, so that a key can
//! be changed while nodes run: first each node gets the new key in front of the old one, then the old one is
//! removed from each. The file is read at each connection.
//!
//! # Invariants
//! - R1. A file that users other than its owner have any right to is refused, and so is a malformed one: no node
//!   continues without a key.
//! - R2. A file is replaced as a whole; after a crash it is the old or the new one. It has mode 0600 from its
//!   first byte on.
//! - R3. A secret is displayed only by its id, except where its owner asks for it.

use std::{
    fmt::{self, Write as _},
    io,
    path::{Path, PathBuf},
};

use collie_base::Remedy;
use collie_env::{Env, read_all};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use thiserror::Error;

use super::handshake::WORD;

/// The name of the file in a data directory.
pub const KEY_FILE: &str = "replication.key";

/// The most secrets of a node at one time.
pub(super) const KEYS_MAX: usize = 4;

/// The most bytes of a key file; a longer file is refused.
const FILE_BYTES_MAX: u64 = 4096;

/// Mode bits that give rights to users other than the owner.
const OTHERS: u32 = 0o077;

/// The public name of a secret: the first bytes of HMAC-SHA-256 of a label under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyId(pub [u8; 8]);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One secret, with its id.
#[derive(Clone)]
pub(super) struct Secret {
    bytes: [u8; WORD],
    id: KeyId,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({})", self.id)
    }
}

impl Secret {
    fn new(bytes: [u8; WORD]) -> Self {
        let mut mac: Hmac<Sha256> = Hmac::new_from_slice(&bytes).expect("HMAC takes a key of any length");
        mac.update(b"collie replication 1: id of a key\0");
        let whole = mac.finalize().into_bytes();
        Self { bytes, id: KeyId(*whole.first_chunk().expect("SHA-256 has 32 bytes")) }
    }

    pub(super) fn bytes(&self) -> &[u8; WORD] {
        &self.bytes
    }

    pub(super) fn id(&self) -> KeyId {
        self.id
    }

    /// Reads 64 hexadecimal digits.
    fn parse(line: &str) -> Option<Self> {
        let (pairs, more) = line.as_bytes().as_chunks::<2>();
        let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let bytes =
            pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect::<Option<Vec<u8>>>()?;
        Some(Self::new(bytes.try_into().ok().filter(|_| more.is_empty())?))
    }
}

/// The secrets of a node, the newest first; at least one.
#[derive(Clone, Debug)]
pub struct Keys(Vec<Secret>);

impl Keys {
    /// Creates a ring of one secret, from 32 unpredictable bytes.
    pub fn of(secret: [u8; 32]) -> Self {
        Self(vec![Secret::new(secret)])
    }

    /// Reads the text of a file; returns `None` if it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let secrets = lines.map(Secret::parse).collect::<Option<Vec<_>>>()?;
        (1..=KEYS_MAX).contains(&secrets.len()).then_some(Self(secrets))
    }

    pub(super) fn all(&self) -> &[Secret] {
        &self.0
    }

    pub(super) fn find(&self, id: KeyId) -> Option<&Secret> {
        self.0.iter().find(|secret| secret.id == id)
    }

    /// Returns the ids of the secrets, the newest first.
    pub fn ids(&self) -> Vec<KeyId> {
        self.0.iter().map(Secret::id).collect()
    }

    /// Returns the text of a file, including the secrets (R3).
    pub fn text(&self) -> String {
        let mut text =
            "# The replication key of Collie: with it anyone can read and change the whole database. Newest first.\n"
                .to_owned();
        for secret in &self.0 {
            secret.bytes.iter().for_each(|byte| _ = write!(text, "{byte:02x}"));
            text.push('\n');
        }
        text
    }

    /// Returns the ring with another secret in front; the oldest is dropped if there would be too many.
    #[must_use]
    pub fn with(&self, secret: [u8; 32]) -> Self {
        Self([Secret::new(secret)].into_iter().chain(self.0.iter().cloned()).take(KEYS_MAX).collect())
    }

    /// Returns a ring of the newest secret alone.
    #[must_use]
    pub fn newest(&self) -> Self {
        Self(self.0.iter().take(1).cloned().collect())
    }
}

/// Why there is no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file does not exist.
    #[error(
        "there is no replication key at {path}: copy the file {KEY_FILE} of the primary's data directory there, with \
         mode 0600"
    )]
    Missing {
        /// Its path.
        path: PathBuf,
    },
    /// Users other than its owner have rights to it.
    #[error("the replication key {path} has mode {mode:04o}, so others than its owner can use it: chmod 0600 {path}")]
    Exposed {
        /// Its path.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The text is not that of a key file.
    #[error("{path} holds no replication key: it has a line of 64 hexadecimal digits for each key, {KEYS_MAX} at most")]
    Malformed {
        /// Its path.
        path: PathBuf,
    },
    /// A file operation failed.
    #[error("cannot {operation} {path}: {source}")]
    Io {
        /// The operation.
        operation: &'static str,
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl KeyError {
    /// Returns how the caller can recover.
    pub fn remedy(&self) -> Remedy {
        Remedy::FixCall
    }
}

/// The key file of a node.
#[derive(Clone, Debug)]
pub struct KeyFile {
    env: Env,
    path: PathBuf,
}

impl KeyFile {
    /// Creates a handle for the file at `path`.
    pub fn new(env: &Env, path: PathBuf) -> Self {
        Self { env: env.clone(), path }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns an unpredictable number.
    pub(crate) fn nonce(&self) -> [u8; WORD] {
        let mut bytes = [0; WORD];
        self.env.random.fill(&mut bytes);
        bytes
    }

    fn io(&self, operation: &'static str) -> impl FnOnce(io::Error) -> KeyError {
        let path = self.path.clone();
        move |source| KeyError::Io { operation, path, source }
    }

    /// Reads the file (R1).
    ///
    /// # Errors
    /// The file is missing, other users have rights to it, or it is malformed.
    pub fn read(&self) -> Result<Keys, KeyError> {
        let (files, path) = (&self.env.files, self.path.clone());
        match files.mode(&path) {
            Ok(Some(mode)) if mode & OTHERS != 0 => return Err(KeyError::Exposed { path, mode }),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.io("look at")(error)),
            Ok(_) | Err(_) => {}
        }
        match read_all(&**files, &path, FILE_BYTES_MAX) {
            Ok(bytes) => {
                let keys = std::str::from_utf8(&bytes).ok().and_then(Keys::parse);
                keys.ok_or(KeyError::Malformed { path })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(KeyError::Missing { path }),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Err(KeyError::Malformed { path }),
            Err(error) => Err(self.io("read")(error)),
        }
    }

    /// Reads the file; if it is missing, creates it with a fresh secret. Returns the keys, and whether it created
    /// them.
    ///
    /// # Durability
    /// On disk when this returns.
    ///
    /// # Errors
    /// As for [`KeyFile::read`]; or the file cannot be written.
    pub fn read_or_make(&self) -> Result<(Keys, bool), KeyError> {
        match self.read() {
            Err(KeyError::Missing { .. }) => {
                let keys = Keys::of(self.nonce());
                self.write(&keys)?;
                Ok((keys, true))
            }
            read => read.map(|keys| (keys, false)),
        }
    }

    /// Puts a fresh secret in front of the present ones, which stay accepted.
    ///
    /// # Durability
    /// On disk when this returns.
    ///
    /// # Errors
    /// As for [`KeyFile::read`]; or the file cannot be written.
    pub fn rotate(&self) -> Result<Keys, KeyError> {
        let keys = self.read()?.with(self.nonce());
        self.write(&keys).map(|()| keys)
    }

    /// Removes all secrets but the newest.
    ///
    /// # Durability
    /// On disk when this returns.
    ///
    /// # Errors
    /// As for [`KeyFile::read`]; or the file cannot be written.
    pub fn end_rotation(&self) -> Result<Keys, KeyError> {
        let keys = self.read()?.newest();
        self.write(&keys).map(|()| keys)
    }

    /// Replaces the file (R2).
    fn write(&self, keys: &Keys) -> Result<(), KeyError> {
        let (files, mut name) = (&self.env.files, self.path.file_name().unwrap_or_default().to_owned());
        name.push(".new");
        let new = self.path.with_file_name(name);
        match files.remove(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(self.io("replace")(error)),
            _ => {}
        }
        let written = || {
            let file = files.create(&new)?;
            file.write_at(0, keys.text().as_bytes())?;
            file.sync_data()?;
            files.replace(&new, &self.path)
        };
        written().map_err(self.io("write"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(env: &Env) -> KeyFile {
        env.files.create_dir_all("/db".as_ref()).unwrap();
        KeyFile::new(env, "/db/replication.key".into())
    }

    fn put(env: &Env, text: &str) {
        let _was_there = env.files.remove("/db/replication.key".as_ref());
        env.files.create("/db/replication.key".as_ref()).unwrap().write_at(0, text.as_bytes()).unwrap();
    }

    /// Goal: a key is made once, is read as it was written, and is rotated with the old one next to the new one
    /// until the rotation is ended; after a power cut the file is the old or the new one (R2). Method: each step
    /// on one file; a power cut at every call of a rotation.
    #[test]
    fn a_key_is_made_once_and_rotated_by_two_steps() {
        let (env, _disk) = Env::simulated(3);
        let made = file(&env);
        assert!(matches!(made.read(), Err(KeyError::Missing { .. })));
        let (first, is_new) = made.read_or_make().unwrap();
        let (again, is_new_again) = made.read_or_make().unwrap();
        assert!(is_new && !is_new_again && first.ids() == again.ids());
        let both = made.rotate().unwrap();
        assert_eq!(both.ids()[1..], first.ids()[..]);
        for _ in 0..5 {
            assert!(made.rotate().unwrap().ids().len() <= KEYS_MAX);
        }
        let last = made.end_rotation().unwrap();
        assert_eq!((last.ids().len(), made.read().unwrap().ids()), (1, last.ids()));
        for call in 0..8 {
            let (env, disk) = Env::simulated(call);
            let keys = file(&env);
            let (old, _) = keys.read_or_make().unwrap();
            env.files.sync_dir("/".as_ref()).unwrap();
            disk.fail_call(disk.calls() + call, collie_env::Fault::PowerCut);
            let new = keys.rotate().ok();
            let found = file(&Env::over(disk.power_cut(call), 1)).read().unwrap().ids();
            assert!(found.ends_with(&old.ids()), "call {call}");
            assert!(new.is_none_or(|new| found == new.ids()), "call {call}");
        }
    }

    /// Goal: R1, R3: a malformed file is refused by name, and printing keys does not reveal them. Method: files of
    /// each kind.
    #[test]
    fn files_that_are_no_keys_are_refused() {
        let (env, _disk) = Env::simulated(4);
        let keys = file(&env);
        let line = "0123456789abcdefABCDEF0123456789".repeat(2);
        for bad in [
            "",
            "# only words\n",
            "abc\n",
            &line[1..],
            &format!("{line}0"),
            &format!("{line}\nx\n"),
            &format!("{line}\n").repeat(5),
        ] {
            put(&env, bad);
            assert!(matches!(keys.read(), Err(KeyError::Malformed { .. })), "{bad:?}");
        }
        put(&env, &" \n".repeat(4096));
        assert!(matches!(keys.read(), Err(KeyError::Malformed { .. })));
        put(&env, &format!("# of a node\n\n  {line}\r\n"));
        let read = keys.read().unwrap();
        assert_eq!(Keys::parse(&read.text()).unwrap().ids(), read.ids());
        assert!(!format!("{read:?}").contains(&line[..16].to_lowercase()), "{read:?}");
    }

    /// Goal: R1: a key to which other users have rights is refused, with the remedy. Method: a real file with each
    /// mode.
    #[test]
    fn a_key_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let keys = KeyFile::new(&Env::real(), dir.path().join(KEY_FILE));
        keys.read_or_make().unwrap();
        let set = |mode| std::fs::set_permissions(keys.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(std::fs::metadata(keys.path()).unwrap().permissions().mode() & 0o777, 0o600);
        for mode in [0o640, 0o604, 0o666, 0o610] {
            set(mode);
            let refused = keys.read().unwrap_err();
            assert!(
                matches!(refused, KeyError::Exposed { .. }) && refused.to_string().contains("chmod 0600"),
                "{refused}"
            );
        }
        set(0o400);
        keys.read().unwrap();
    }
}
