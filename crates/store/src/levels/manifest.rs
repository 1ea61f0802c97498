//! `Manifest`: the file that records which trees exist, which families they hold and what was flushed to them.
//!
//! It is the authority: a tree that it does not name is garbage, and a tree that it names must exist. It knows nothing
//! of tables, and readers of rows need nothing from it.
//!
//! # Invariants
//! - N1. If [`Manifest::append`] returned success, the change survives a power cut.
//! - N2. The file at `MANIFEST` is complete at every moment: it is replaced by a rename of a synced file. Only its last
//!   frame can be torn (`frames.rs` B1 to B3).
//! - N3. After a failed append or rewrite nothing is written behind what may have arrived: the next change rewrites the
//!   file without the failed one.
//! - N4. The state in memory contains a change only once it is durable, except what loading settles on a full disk: the
//!   next change writes it too, and until then the next open would settle it again. A MANIFEST opened for reading
//!   changes in memory only.
//! - N5. Opening needs no room on the disk: if the file cannot be rewritten it stays as it is, and the next change
//!   rewrites it.
//!
//! Checked by `levels/crash_tests.rs` (power cuts at every call, each with torn sectors) and by `frames.rs`.

mod frames;
mod record;
mod state;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Env, File, Files, Random, read_all};

use self::frames::{Contents, Refused, decode_file, encode_file, encode_frame};
pub(crate) use self::{
    record::{Flush, Record, Tree},
    state::{KnownTree, State},
};
use crate::levels::{LevelsError, TreeId};

/// Name of the file.
pub(crate) const NAME: &str = "MANIFEST";
/// Name of the file being written; the next write removes it.
pub(crate) const TEMPORARY_NAME: &str = "MANIFEST.new";
/// Length above which the file is rewritten: reading it takes milliseconds, and rewrites are rare.
pub(crate) const REWRITE_ABOVE_BYTES: u64 = 1 << 20;
/// Maximum number of bytes that are carried with the log's start.
pub(crate) const CARRY_BYTES_MAX: usize = 256 << 10;
/// Maximum length that is read, enough for more than a million trees: it guards against garbage, not use.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Returns whether the bytes of a MANIFEST are accepted. For the fuzz target: all other code reads a file.
///
/// # Panics
/// If accepted contents do not survive being written again.
pub fn check_manifest(bytes: &[u8]) -> bool {
    let Ok(contents) = decode_file(bytes) else { return false };
    let again = decode_file(&encode_file(1, &contents.state.snapshot()));
    assert_eq!(again.map(|contents| contents.state), Ok(contents.state), "a snapshot makes the same state");
    true
}

/// Returns the bytes of a MANIFEST with trees, flushes begun and done, and a log start. A seed for fuzzing.
pub fn sample_manifest() -> Vec<u8> {
    use collie_base::{CfId, Lsn};
    let tree = |id, cfs: &[u32], lsn| Tree {
        id: TreeId::new(id),
        flush: Flush { lsn: Lsn::new(lsn), live_keys: lsn / 100 },
        ceiling: Lsn::new(lsn),
        cfs: cfs.iter().copied().map(CfId::new).collect(),
        dropped: Vec::new(),
    };
    let (one, two) = (tree(1, &[0], 4096), tree(3, &[16, 17, 300], 0));
    let begun = Record::Begin(two.id, Flush { lsn: Lsn::new(1 << 33), live_keys: 12 });
    let written =
        [Record::Tree(one.clone()), Record::Tree(two.clone()), begun, Record::LogStart(Lsn::new(8192), vec![1])];
    let mut file = encode_file(77, &written);
    let appended = [
        Record::FamilyAdded(two.id, CfId::new(301)),
        Record::FamilyDropped(two.id, CfId::new(17)),
        Record::Done(two.id, Flush { lsn: Lsn::new(1 << 34), live_keys: 20 }),
        Record::TreeDropped(one.id),
    ];
    for (number, record) in (4..).zip(&appended) {
        file.extend_from_slice(&encode_frame(77, number, record));
    }
    file
}

/// The open file and its state.
#[derive(Debug)]
pub(crate) struct Manifest {
    files: Arc<dyn Files>,
    random: Arc<dyn Random>,
    dir: PathBuf,
    state: State,
    /// `None` after a failure (N3).
    open: Option<Open>,
    rewrites: u64,
    /// Changes are made in memory only: nothing is ever written.
    to_read: bool,
}

#[derive(Debug)]
struct Open {
    file: Arc<dyn File>,
    salt: u64,
    next_number: u64,
    bytes: u64,
}

impl Manifest {
    /// Reads the file in `dir`, or starts an empty one if there is none and `fresh_allowed`, and rewrites it.
    ///
    /// # Errors
    /// `ManifestDamaged` (also if it is missing and `fresh_allowed` is false), `NewerFormat`, `NoSpace`, `Io`.
    pub(crate) fn open(env: &Env, dir: &Path, fresh_allowed: bool) -> Result<(Self, Found), LevelsError> {
        let (mut manifest, found) = Self::open_to_read(env, dir, fresh_allowed)?;
        manifest.to_read = false;
        match manifest.rewrite_as(manifest.state.clone()) {
            Err(LevelsError::NoSpace { .. }) if !found.created => {} // N5
            rewritten => rewritten?,
        }
        Ok((manifest, found))
    }

    /// As [`Manifest::open`], but neither this call nor a later one writes anything: changes are made in memory only.
    ///
    /// # Errors
    /// As there, except those of writes.
    pub(crate) fn open_to_read(env: &Env, dir: &Path, fresh_allowed: bool) -> Result<(Self, Found), LevelsError> {
        let (state, torn_bytes) = match Self::read(&*env.files, dir)? {
            Some(contents) => (contents.state, Some(contents.torn_bytes)),
            None if fresh_allowed => (State::default(), None),
            None => return Err(Self::missing(dir)),
        };
        let found = Found { created: torn_bytes.is_none(), torn_bytes: torn_bytes.unwrap_or(0) as u64 };
        let (files, random) = (env.files.clone(), env.random.clone());
        let manifest = Self { files, random, dir: dir.to_owned(), state, open: None, rewrites: 0, to_read: true };
        Ok((manifest, found))
    }

    /// Returns the error for a `dir` that has trees but no such file.
    pub(crate) fn missing(dir: &Path) -> LevelsError {
        LevelsError::ManifestDamaged { path: dir.join(NAME), offset: 0, what: "there are trees but no MANIFEST" }
    }

    /// Reads the file in `dir`; `None` if there is none.
    ///
    /// # Errors
    /// `ManifestDamaged`, `NewerFormat`, `Io`.
    pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<Option<Contents>, LevelsError> {
        let path = dir.join(NAME);
        let bytes = match read_all(files, &path, FILE_BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LevelsError::io("read", &path, error)),
        };
        decode_file(&bytes).map(Some).map_err(|refused| match refused {
            Refused::Newer(version) => LevelsError::NewerFormat { path, version },
            Refused::Damaged { what, offset } => {
                LevelsError::ManifestDamaged { path, offset: u64::try_from(offset).unwrap_or(u64::MAX), what }
            }
        })
    }

    /// Returns the recorded state.
    pub(crate) const fn state(&self) -> &State {
        &self.state
    }

    /// Returns the file's length and how often it was rewritten.
    pub(crate) fn stat(&self) -> (u64, u64) {
        (self.open.as_ref().map_or(0, |open| open.bytes), self.rewrites)
    }

    /// Makes a change. Durable on return.
    ///
    /// # Errors
    /// `InvalidCall` if it contradicts the state. After `NoSpace` and `Io` the change may or may not survive a crash
    /// before the next successful change, and is gone after that one.
    pub(crate) fn append(&mut self, record: &Record) -> Result<(), LevelsError> {
        let mut next = self.state.clone();
        next.apply(record).map_err(|what| LevelsError::InvalidCall { what })?;
        if self.to_read {
            self.state = next;
            return Ok(());
        }
        let Some(open) = self.open.as_mut().filter(|open| open.bytes <= REWRITE_ABOVE_BYTES) else {
            return self.rewrite_as(next);
        };
        let frame = encode_frame(open.salt, open.next_number, record);
        let written = open.file.write_at(open.bytes, &frame).and_then(|()| open.file.sync_data());
        if let Err(error) = written {
            self.open = None;
            return Err(LevelsError::io("append to", &self.dir.join(NAME), error));
        }
        open.next_number += 1;
        open.bytes += frame.len() as u64;
        self.state = next;
        Ok(())
    }

    /// Makes a change that can be derived again from the tables: on a full disk it is made in memory only (N4).
    ///
    /// # Errors
    /// As [`Manifest::append`], except `NoSpace`.
    pub(crate) fn settle(&mut self, record: &Record) -> Result<(), LevelsError> {
        match self.append(record) {
            Err(LevelsError::NoSpace { .. }) => {
                self.state.apply(record).map_err(|what| LevelsError::InvalidCall { what })
            }
            settled => settled,
        }
    }

    /// Replaces the tree `old` by `new`, of the same families: the file is rewritten, so that it names exactly one of
    /// them at every moment. Durable on return.
    ///
    /// # Errors
    /// As [`Manifest::append`].
    pub(crate) fn replace(&mut self, old: TreeId, new: Tree) -> Result<(), LevelsError> {
        let mut next = self.state.clone();
        next.replace(old, new).map_err(|what| LevelsError::InvalidCall { what })?;
        self.rewrite_as(next)
    }

    /// Reads the file again, compares it with the state in memory, and rewrites it if they differ. Returns what was
    /// wrong, if anything.
    ///
    /// # Errors
    /// `NoSpace`, `Io`: the file could not be read or written.
    pub(crate) fn mend(&mut self) -> Result<Option<LevelsError>, LevelsError> {
        if self.open.is_none() {
            return Ok(None); // N3: the next change writes it
        }
        let wrong = match Self::read(&*self.files, &self.dir) {
            Ok(Some(contents)) if contents.state == self.state && contents.torn_bytes == 0 => return Ok(None),
            Ok(Some(_)) => {
                let (path, what) = (self.dir.join(NAME), "it says something else than was written");
                LevelsError::ManifestDamaged { path, offset: 0, what }
            }
            Ok(None) => Self::missing(&self.dir),
            Err(error @ (LevelsError::ManifestDamaged { .. } | LevelsError::NewerFormat { .. })) => error,
            Err(error) => return Err(error),
        };
        self.rewrite_as(self.state.clone())?;
        Ok(Some(wrong))
    }

    /// Writes the state to the directory `to`, which has no MANIFEST. Durable on return.
    pub(crate) fn copy_to(&self, to: &Path) -> Result<(), LevelsError> {
        self.write_file(to, &self.state).map(drop)
    }

    /// Replaces the file by one that records `state`.
    fn rewrite_as(&mut self, state: State) -> Result<(), LevelsError> {
        self.open = None;
        self.open = Some(self.write_file(&self.dir, &state)?);
        self.state = state;
        self.rewrites += 1;
        Ok(())
    }

    fn write_file(&self, dir: &Path, state: &State) -> Result<Open, LevelsError> {
        let (temporary, path) = (dir.join(TEMPORARY_NAME), dir.join(NAME));
        let fail = |op| {
            let path = path.clone();
            move |error| LevelsError::io(op, &path, error)
        };
        match self.files.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail("rewrite")(error)),
            _ => {}
        }
        let (salt, records) = (self.random.u64(), state.snapshot());
        let bytes = encode_file(salt, &records);
        let file = self.files.create(&temporary).map_err(fail("create"))?;
        file.write_at(0, &bytes).map_err(fail("write"))?;
        file.sync_data().map_err(fail("sync"))?;
        self.files.replace(&temporary, &path).map_err(fail("replace"))?;
        Ok(Open { file, salt, next_number: records.len() as u64, bytes: bytes.len() as u64 })
    }
}

/// What an open found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    /// There was no file.
    pub(crate) created: bool,
    /// Bytes of an incomplete append.
    pub(crate) torn_bytes: u64,
}
