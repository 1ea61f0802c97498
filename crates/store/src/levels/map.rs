//! `MapStore`: a tree as one file, which is read, changed in memory and replaced as a whole.
//!
//! For disks that are not the operating system's, where lsm-tree cannot open files: the simulated disk tears these
//! writes, so that all code above is tested with every crash. Tests also compare lsm-tree with it. It is unsuitable for
//! much data: each flush writes the whole tree.
//!
//! File `map` in the tree's directory: CRC-32C of the rest, 4 bytes; the highest position ever applied, varint; then
//! per entry, ascending by (family, key): family varint, key, value (each a varint count and bytes), CSN varint.
//! `map.new` is the file being written.
//!
//! # Invariants
//! - P1. The file is complete at every moment: it is replaced by a rename of a synced file.
//! - P2. The map in memory contains a change only once the change is durable.
//!
//! Checked by `crash_tests.rs` and `differential_tests.rs`.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::{
    CfId, Lsn,
    checksum::crc32c,
    codec::{DecodeError, Reader, put_length_prefixed, put_varint},
};
use collie_env::{Files, read_all};
use parking_lot::Mutex;

use crate::levels::{
    Edit, Entry, TreeId,
    backend::{BackendError, Effort, FileHash, LevelStore, TreeFiles, tree_dir},
};

const NAME: &str = "map";
const TEMPORARY_NAME: &str = "map.new";
/// Maximum length of the file, far above what a simulation writes.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// A tree: its rows, and the highest position ever applied.
#[derive(Clone, Debug, Default)]
struct Rows {
    by_key: BTreeMap<(CfId, Vec<u8>), (Lsn, Vec<u8>)>,
    highest: Lsn,
}

/// The trees of a directory.
#[derive(Debug)]
pub(crate) struct MapStore {
    files: Arc<dyn Files>,
    dir: PathBuf,
    trees: Mutex<BTreeMap<TreeId, Arc<Rows>>>,
}

impl MapStore {
    /// Creates a store for trees under `dir`.
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path) -> Self {
        Self { files, dir: dir.to_owned(), trees: Mutex::default() }
    }

    fn rows(&self, tree: TreeId) -> Arc<Rows> {
        self.trees.lock().get(&tree).cloned().expect("callers open a tree before they use it")
    }

    /// Replaces the file in `dir`. Durable on return. Returns the file's length.
    fn write(&self, dir: &Path, rows: &Rows) -> Result<u64, BackendError> {
        let bytes = encode(rows);
        let temporary = dir.join(TEMPORARY_NAME);
        let write = || -> io::Result<()> {
            match self.files.remove(&temporary) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let file = self.files.create(&temporary)?;
            file.write_at(0, &bytes)?;
            file.sync_data()
        };
        write().map_err(|source| BackendError::before_change(&temporary, source))?;
        let path = dir.join(NAME);
        self.files.replace(&temporary, &path).map_err(|source| BackendError::Failed { path, source })?;
        Ok(bytes.len() as u64)
    }
}

fn encode(rows: &Rows) -> Vec<u8> {
    let mut out = vec![0; 4];
    put_varint(&mut out, rows.highest.get());
    for ((cf, key), (csn, value)) in &rows.by_key {
        put_varint(&mut out, u64::from(cf.get()));
        put_length_prefixed(&mut out, key);
        put_length_prefixed(&mut out, value);
        put_varint(&mut out, csn.get());
    }
    let crc = crc32c(&out[4..]);
    out[..4].copy_from_slice(&crc.to_le_bytes());
    out
}

fn decode(bytes: &[u8]) -> Result<Rows, DecodeError> {
    let mut reader = Reader::new(bytes);
    if reader.u32()? != crc32c(reader.rest()) {
        return Err(DecodeError { what: "checksum" });
    }
    let mut rows = Rows { by_key: BTreeMap::new(), highest: Lsn::new(reader.varint()?) };
    while !reader.is_empty() {
        let cf = u32::try_from(reader.varint()?).map_err(|_| DecodeError { what: "family" })?;
        let (key, value) = (reader.length_prefixed()?.to_vec(), reader.length_prefixed()?.to_vec());
        rows.by_key.insert((CfId::new(cf), key), (Lsn::new(reader.varint()?), value));
    }
    Ok(rows)
}

/// Reads the file in `dir` and checks it. Returns the checksum of all its bytes too.
fn read(files: &dyn Files, dir: &Path) -> Result<(u128, Rows), BackendError> {
    let path = dir.join(NAME);
    let damaged = |what: String| BackendError::Damaged { path: path.clone(), what };
    let bytes = match read_all(files, &path, FILE_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(damaged("the file is missing".to_owned()));
        }
        Err(error) => return Err(BackendError::before_change(&path, error)),
    };
    let rows = decode(&bytes).map_err(|error| damaged(error.to_string()))?;
    Ok((FileHash::of(&bytes), rows))
}

/// Reads the file of the tree in `dir`; returns its path and the checksum of all its bytes.
pub(super) fn sums_in(files: &dyn Files, dir: &Path) -> Result<Vec<(PathBuf, u128)>, BackendError> {
    let (sum, _rows) = read(files, dir)?;
    Ok(vec![(dir.join(NAME), sum)])
}

impl LevelStore for MapStore {
    fn create(&self, tree: TreeId) -> Result<(), BackendError> {
        let dir = tree_dir(&self.dir, tree);
        self.files.create_dir_all(&dir).map_err(|source| BackendError::before_change(&dir, source))?;
        self.write(&dir, &Rows::default())?;
        self.trees.lock().insert(tree, Arc::default());
        Ok(())
    }

    fn open(&self, tree: TreeId) -> Result<(), BackendError> {
        let (_, rows) = read(&*self.files, &tree_dir(&self.dir, tree))?;
        self.trees.lock().insert(tree, Arc::new(rows));
        Ok(())
    }

    fn apply<'a>(&self, tree: TreeId, _f: Lsn, edits: &mut dyn Iterator<Item = Edit<'a>>) -> Result<u64, BackendError> {
        let mut rows = Rows::clone(&self.rows(tree));
        for edit in edits {
            let key = (edit.cf, edit.key.to_vec());
            rows.highest = rows.highest.max(edit.csn);
            match edit.value {
                Some(value) => rows.by_key.insert(key, (edit.csn, value.to_vec())),
                None => rows.by_key.remove(&key),
            };
        }
        let bytes = self.write(&tree_dir(&self.dir, tree), &rows)?;
        self.trees.lock().insert(tree, Arc::new(rows));
        Ok(bytes)
    }

    fn scan(&self, tree: TreeId, visit: &mut dyn FnMut(Entry<'_>)) -> Result<(), BackendError> {
        for ((cf, key), (csn, value)) in &self.rows(tree).by_key {
            visit(Entry { cf: *cf, key, value, csn: *csn });
        }
        Ok(())
    }

    fn highest(&self, tree: TreeId) -> Option<Lsn> {
        Some(self.rows(tree).highest).filter(|highest| *highest > Lsn::ZERO)
    }

    fn compact(&self, _tree: TreeId, _effort: Effort) -> Result<u64, BackendError> {
        // A map is always one run with one entry per key.
        Ok(0)
    }

    fn files(&self, _tree: TreeId) -> TreeFiles {
        TreeFiles { tables: 1, runs: 1, new_runs: 1 }
    }

    fn bytes(&self, tree: TreeId) -> u64 {
        encode(&self.rows(tree)).len() as u64
    }

    fn file_entries(&self, tree: TreeId) -> Vec<(PathBuf, u64)> {
        vec![(tree_dir(&self.dir, tree).join(NAME), self.rows(tree).by_key.len() as u64)]
    }

    fn table_sums(&self, tree: TreeId) -> Vec<(PathBuf, u128)> {
        vec![(tree_dir(&self.dir, tree).join(NAME), FileHash::of(&encode(&self.rows(tree))))]
    }

    fn check_list(&self, _tree: TreeId) -> Result<(), BackendError> {
        Ok(())
    }

    fn link_to(&self, tree: TreeId, to: &Path) -> Result<(), BackendError> {
        self.write(to, &self.rows(tree)).map(drop)
    }

    fn forget(&self, tree: TreeId) {
        self.trees.lock().remove(&tree);
    }
}
