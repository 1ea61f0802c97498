//! `Disk`: the state behind the simulated files: what each sector and each name held, synced or not.
//!
//! # What always holds
//! - S1. `durable` of a file and `durable_names` are what every power cut keeps.
//! - S2. `dirty` lists, oldest first, what a sector held at each write since its last successful sync; a power cut
//!   keeps the durable content or any one of them, each sector by itself (torn and reordered writes).
//! - S3. A failed sync moves `dirty` to `orphaned`: the process still reads it, no later sync makes it durable.

use std::{collections::BTreeMap, path::PathBuf};

use collie_base::{Map, Set};

use crate::random::{Random, SimRandom};

/// The unit that a power cut keeps or drops as a whole.
pub(crate) const SECTOR: usize = 512;

type Sector = [u8; SECTOR];

/// A file, by its number; names point to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    /// What the process reads.
    pub(crate) current: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeMap<usize, Vec<Sector>>,
    orphaned: BTreeMap<usize, Vec<Sector>>,
}

impl Inode {
    /// Writes `bytes` at `offset`, growing the file with zeros.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        if self.current.len() < end {
            self.current.resize(end, 0);
        }
        self.current[offset..end].copy_from_slice(bytes);
        for sector in offset / SECTOR..end.div_ceil(SECTOR) {
            let content = sector_of(&self.current, sector);
            self.dirty.entry(sector).or_default().push(content);
        }
    }

    /// Makes everything that is not orphaned durable.
    pub(crate) fn sync(&mut self) {
        let len = self.current.len();
        self.durable.resize(len, 0);
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            let content = versions.last().expect("an entry is made with a version");
            put_sector(&mut self.durable, sector, content);
            self.orphaned.remove(&sector);
        }
    }

    /// Forgets that anything is to be written (S3).
    pub(crate) fn fail_sync(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.dirty) {
            self.orphaned.entry(sector).or_default().extend(versions);
        }
    }

    /// Returns what a power cut may leave.
    fn after_power_cut(&self, random: &SimRandom) -> Self {
        let lens = [self.durable.len(), self.current.len()];
        let len = if self.dirty.is_empty() && self.orphaned.is_empty() {
            lens[0]
        } else {
            lens[usize::from(random.below(2) == 1)]
        };
        let mut kept = self.durable.clone();
        kept.resize(len, 0);
        // Most cuts keep nearly all or nearly none; the rest mix.
        let keep_of_100 = [0, 10, 50, 90, 100][pick(random, 5)];
        let unsynced: std::collections::BTreeSet<usize> =
            self.orphaned.keys().chain(self.dirty.keys()).copied().collect();
        for sector in unsynced {
            if random.below(100) >= keep_of_100 {
                continue;
            }
            let versions: Vec<&Sector> =
                [&self.orphaned, &self.dirty].iter().filter_map(|side| side.get(&sector)).flatten().collect();
            // The newest version is the likely one.
            let at = if random.below(4) > 0 { versions.len() - 1 } else { pick(random, versions.len()) };
            put_sector(&mut kept, sector, versions[at]);
        }
        Self { current: kept.clone(), durable: kept, dirty: BTreeMap::new(), orphaned: BTreeMap::new() }
    }
}

/// Returns an index below `count`.
fn pick(random: &SimRandom, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).expect("below a usize")
}

/// Returns a sector's content, with zeros behind the end of the file.
fn sector_of(bytes: &[u8], sector: usize) -> Sector {
    let mut content = [0; SECTOR];
    let from = (sector * SECTOR).min(bytes.len());
    let to = (from + SECTOR).min(bytes.len());
    content[..to - from].copy_from_slice(&bytes[from..to]);
    content
}

/// Stores a sector's content, as far as the file reaches.
fn put_sector(bytes: &mut [u8], sector: usize, content: &Sector) {
    let from = (sector * SECTOR).min(bytes.len());
    let to = (from + SECTOR).min(bytes.len());
    bytes[from..to].copy_from_slice(&content[..to - from]);
}

/// A change of names that no `sync_dir` has covered.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    /// The name now means the file.
    Link(PathBuf, u64),
    /// The name means nothing.
    Unlink(PathBuf),
    /// The file moved from the first name to the second, in one step.
    Rename(PathBuf, PathBuf, u64),
}

impl NameChange {
    fn touches_dir(&self, dir: &std::path::Path) -> bool {
        let (Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _)) = self;
        path.parent() == Some(dir)
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, u64>) {
        match self {
            Self::Link(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Self::Unlink(path) => {
                names.remove(path);
            }
            Self::Rename(from, to, inode) => {
                if names.get(from) == Some(inode) {
                    names.remove(from);
                }
                names.insert(to.clone(), *inode);
            }
        }
    }
}

/// The whole disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) inodes: Map<u64, Inode>,
    pub(crate) names: BTreeMap<PathBuf, u64>,
    durable_names: BTreeMap<PathBuf, u64>,
    changes: Vec<NameChange>,
    pub(crate) dirs: std::collections::BTreeSet<PathBuf>,
    pub(crate) locks: Set<PathBuf>,
    pub(crate) next_inode: u64,
}

impl Disk {
    /// Changes a name, not durably.
    pub(crate) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Makes the changes of names in `dir` durable.
    pub(crate) fn sync_dir(&mut self, dir: &std::path::Path) {
        let mut kept = Vec::new();
        for change in std::mem::take(&mut self.changes) {
            if change.touches_dir(dir) {
                change.apply(&mut self.durable_names);
            } else {
                kept.push(change);
            }
        }
        self.changes = kept;
    }

    /// Returns the bytes that the files behind names hold.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(|inode| inode.current.len() as u64).sum()
    }

    /// Returns what a power cut may leave: durable state, and any subset of the rest.
    pub(crate) fn after_power_cut(&self, random: &SimRandom) -> Self {
        let mut names = self.durable_names.clone();
        let keep_of_100 = [0, 50, 100][pick(random, 3)];
        for change in &self.changes {
            if random.u64() % 100 < keep_of_100 {
                change.apply(&mut names);
            }
        }
        let mut inodes = Map::default();
        for number in names.values() {
            let inode = self.inodes.get(number).expect("a name points to a file that is kept");
            inodes.insert(*number, inode.after_power_cut(random));
        }
        Self {
            inodes,
            durable_names: names.clone(),
            names,
            changes: Vec::new(),
            dirs: self.dirs.clone(),
            locks: Set::default(),
            next_inode: self.next_inode,
        }
    }
}
