//! `Disk`: the state behind the simulated files: the content of each sector and the meaning of each name, synced or
//! not.
//!
//! # What always holds
//! - S1. Every power cut keeps `durable` of each file, and `durable_names`.
//! - S2. `dirty` lists, oldest first, the content of a block after each write since the last successful sync; a
//!   power cut keeps the durable content or any one of them, for each sector independently (torn and reordered
//!   writes).
//! - S3. A failed sync moves `dirty` to `orphaned`: the process still reads it, and no later sync makes it durable.
//! - S4. A clone shares all content: it costs a few reference counts per file.
//!
//! The module `crash_point` computes the states that a power cut may leave.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use collie_base::{Map, Set};

use crate::sim::blocks::{BLOCK, Block, Blocks, SECTOR, SECTORS, sector_of};

/// The content of a block after a write.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    /// Number of the write among all writes to the disk.
    pub(crate) write: u64,
    /// The sectors that were written: bit i is sector i of the block.
    pub(crate) sectors: u8,
    pub(crate) content: Block,
}

/// Versions by block, oldest first.
pub(crate) type Versions = BTreeMap<usize, Vec<Version>>;

/// A file, by its number; names refer to it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inode {
    /// The content that the process reads.
    pub(crate) current: Blocks,
    pub(crate) durable: Blocks,
    pub(crate) dirty: Versions,
    pub(crate) orphaned: Versions,
    /// Lengths that the file had since the last successful sync, oldest first, without equal neighbours.
    pub(crate) lens: Vec<usize>,
    /// Numbers of the blocks that take up no room.
    pub(crate) holes: BTreeSet<usize>,
    /// Number of failed syncs: each file description reports each of them once.
    pub(crate) failed_syncs: u64,
}

impl Inode {
    /// Makes a file whose content is durable.
    pub(crate) fn durable(content: Blocks) -> Self {
        Self { current: content.clone(), durable: content, ..Self::default() }
    }

    /// Writes `bytes` at `offset` as the disk's `write`-th write, growing the file with zeros.
    pub(crate) fn write(&mut self, write: u64, offset: usize, bytes: &[u8]) {
        let end = offset + bytes.len();
        self.current.write(offset, bytes);
        self.note_len();
        if !self.holes.is_empty() {
            self.holes.retain(|block| !(offset / BLOCK..end.div_ceil(BLOCK)).contains(block));
        }
        let (mut sector, last) = (offset / SECTOR, end.div_ceil(SECTOR));
        while sector < last {
            let (block, from) = (sector / SECTORS, sector % SECTORS);
            let to = SECTORS.min(from + last - sector);
            let sectors = mask(from, to);
            let content = self.current.block(block).clone();
            self.dirty.entry(block).or_default().push(Version { write, sectors, content });
            sector += to - from;
        }
    }

    /// Returns how many more bytes of the disk a write of `offset..end` takes.
    pub(crate) fn growth(&self, offset: usize, end: usize) -> usize {
        let filled = self.holes.range(offset / BLOCK..end.div_ceil(BLOCK).max(offset / BLOCK)).count() * BLOCK;
        end.saturating_sub(self.current.len()) + filled
    }

    /// Returns how many bytes of the disk the file takes up.
    pub(crate) fn used_bytes(&self) -> u64 {
        (self.current.len() - self.holes.len() * BLOCK) as u64
    }

    /// Truncates the file or grows it with zeros; a sync makes the change durable.
    pub(crate) fn set_len(&mut self, len: usize) {
        self.holes.split_off(&(len / BLOCK));
        self.current.set_len(len);
        self.note_len();
    }

    fn note_len(&mut self) {
        let len = self.current.len();
        if self.lens.last().copied().unwrap_or(self.durable.len()) != len {
            self.lens.push(len);
        }
    }

    /// Makes everything that is not orphaned durable.
    pub(crate) fn sync(&mut self) {
        self.lens.clear();
        for (block, versions) in std::mem::take(&mut self.dirty) {
            let written = versions.iter().fold(0, |all, version| all | version.sectors);
            let newest = versions.last().expect("an entry is made with a version");
            if written == u8::MAX {
                self.durable.put(block, newest.content.clone());
            } else {
                for sector in (0..SECTORS).filter(|sector| written & 1 << sector != 0) {
                    put_sector(&mut self.durable, block, sector, sector_of(&newest.content, sector));
                }
            }
            if let Some(lost) = self.orphaned.get_mut(&block) {
                lost.iter_mut().for_each(|version| version.sectors &= !written);
                lost.retain(|version| version.sectors != 0);
            }
        }
        self.durable.set_len(self.current.len());
    }

    /// Moves the unsynced writes to `orphaned`, so that no later sync makes them durable (S3).
    pub(crate) fn fail_sync(&mut self) {
        for (block, versions) in std::mem::take(&mut self.dirty) {
            self.orphaned.entry(block).or_default().extend(versions);
        }
        self.failed_syncs += 1;
    }

    /// Returns whether a power cut may leave more than one content.
    pub(crate) fn is_unsynced(&self) -> bool {
        !self.dirty.is_empty() || !self.orphaned.is_empty() || !self.lens.is_empty()
    }
}

/// Returns the bits of the sectors `from..to` of a block.
fn mask(from: usize, to: usize) -> u8 {
    (from..to).fold(0, |bits, sector| bits | 1 << sector)
}

/// Stores a sector's content.
pub(crate) fn put_sector(content: &mut Blocks, block: usize, sector: usize, bytes: &[u8]) {
    content.change(block)[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(bytes);
}

/// The file that each name refers to.
pub(crate) type Names = BTreeMap<Arc<Path>, u64>;

/// A change of names that no `sync_dir` has covered.
#[derive(Clone, Debug)]
pub(crate) enum NameChange {
    /// The name now refers to the file.
    Link(Arc<Path>, u64),
    /// The name refers to nothing.
    Unlink(Arc<Path>),
    /// The file moved from the first name to the second, in one step.
    Rename(Arc<Path>, Arc<Path>, u64),
    /// The directory moved with everything in it, in one step, to a name without a directory (`false`) or with an
    /// empty one.
    MoveDir(Arc<Path>, Arc<Path>, bool),
}

/// Returns the name that `path` has after the directory `from` has moved to `to`. A path outside `from` stays.
pub(crate) fn moved(path: &Arc<Path>, from: &Path, to: &Path) -> Arc<Path> {
    match path.strip_prefix(from) {
        Ok(rest) if rest.as_os_str().is_empty() => to.into(),
        Ok(rest) => to.join(rest).into(),
        Err(_elsewhere) => path.clone(),
    }
}

impl NameChange {
    /// Returns the path that the change gives a meaning.
    fn target(&self) -> &Arc<Path> {
        let (Self::Link(path, _) | Self::Unlink(path) | Self::Rename(_, path, _) | Self::MoveDir(_, path, _)) = self;
        path
    }

    /// Returns the same change where the directory `from` is at `to`.
    pub(crate) fn within(&self, from: &Path, to: &Path) -> Self {
        let moved = |path| moved(path, from, to);
        match self {
            Self::Link(path, inode) => Self::Link(moved(path), *inode),
            Self::Unlink(path) => Self::Unlink(moved(path)),
            Self::Rename(one, other, inode) => Self::Rename(moved(one), moved(other), *inode),
            Self::MoveDir(one, other, was_there) => Self::MoveDir(moved(one), moved(other), *was_there),
        }
    }

    /// Returns the file that the change gives a name.
    pub(crate) fn inode(&self) -> Option<u64> {
        match self {
            Self::Link(_, inode) | Self::Rename(_, _, inode) => Some(*inode),
            Self::Unlink(_) | Self::MoveDir(..) => None,
        }
    }

    /// Applies the change.
    pub(crate) fn apply(&self, names: &mut Names) {
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
            Self::MoveDir(from, to, _) => {
                *names =
                    std::mem::take(names).into_iter().map(|(path, inode)| (moved(&path, from, to), inode)).collect();
            }
        }
    }

    /// Applies the half of a rename that gives the file its new name; the old name stays, if there is one.
    pub(crate) fn apply_target_only(&self, names: &mut Names) {
        if let Self::Rename(_, to, inode) = self {
            names.insert(to.clone(), *inode);
        }
    }
}

/// The whole disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) inodes: Map<u64, Inode>,
    pub(crate) names: Names,
    pub(crate) durable_names: Names,
    pub(crate) changes: Vec<NameChange>,
    pub(crate) dirs: Arc<BTreeSet<Arc<Path>>>,
    pub(crate) locks: Set<Arc<Path>>,
    /// How many readers hold each lock in shared mode.
    pub(crate) lock_readers: Map<Arc<Path>, u64>,
    pub(crate) next_inode: u64,
    pub(crate) writes: u64,
}

impl Disk {
    /// Changes a name, not durably.
    pub(crate) fn change(&mut self, change: NameChange) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Moves a directory, not durably.
    pub(crate) fn move_dir(&mut self, from: &Path, to: &Path) {
        let was_there = self.dirs.contains(to);
        let dirs = self.dirs.iter().filter(|dir| !dir.starts_with(to)); // removes the empty target
        self.dirs = Arc::new(dirs.map(|dir| moved(dir, from, to)).collect());
        self.change(NameChange::MoveDir(from.into(), to.into(), was_there));
    }

    /// Makes the changes of names in `dir` durable, and the removal of directories from it.
    pub(crate) fn sync_dir(&mut self, dir: &Path) {
        let mut kept: Vec<NameChange> = Vec::new();
        let changes = std::mem::take(&mut self.changes);
        let moved_away = |path: &Path| {
            changes.iter().any(|change| matches!(change, NameChange::MoveDir(from, ..) if path.starts_with(from)))
        };
        let is_covered = |change: &NameChange| {
            let target = change.target();
            let Ok(rest) = target.strip_prefix(dir) else { return false };
            let mut names = rest.components();
            match (names.next(), names.next()) {
                (Some(_), None) => true,
                // No power cut brings back what a directory held whose removal from `dir` is durable.
                (Some(inside), Some(_)) => !self.dirs.contains(&*dir.join(inside)) && !moved_away(target),
                (None, _) => false,
            }
        };
        let covered: Vec<bool> = changes.iter().map(is_covered).collect();
        for (change, is_covered) in changes.into_iter().zip(covered) {
            if is_covered {
                if let NameChange::MoveDir(from, to, _) = &change {
                    // Changes inside the directory that are not durable yet move with it.
                    kept.iter_mut().for_each(|earlier| *earlier = earlier.within(from, to));
                }
                change.apply(&mut self.durable_names);
            } else {
                kept.push(change);
            }
        }
        self.changes = kept;
    }

    /// Writes to a file.
    pub(crate) fn write(&mut self, inode: u64, offset: usize, bytes: &[u8]) {
        self.writes += 1;
        let write = self.writes;
        self.inode(inode).write(write, offset, bytes);
    }

    /// Returns a file.
    pub(crate) fn inode(&mut self, number: u64) -> &mut Inode {
        self.inodes.get_mut(&number).expect("files outlive their names here")
    }

    /// Returns the bytes that the files with names hold.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.names.values().filter_map(|inode| self.inodes.get(inode)).map(Inode::used_bytes).sum()
    }
}
