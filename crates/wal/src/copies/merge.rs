//! `MergedFiles`: several copies of a log directory as one directory for reading. Each frame comes from a copy in which
//! it is valid.
//!
//! Code that reads a log (recovery scan, readers, tools) reads this in place of one directory and knows nothing of
//! copies. It writes nothing; `repair` does.
//!
//! # Invariants
//! - M1. If a frame is valid in any of the copies, under the salt of its segment, it is valid here.
//! - M2. Two valid frames at one place are the same frame in all copies that are trusted equally; otherwise the copies
//!   have diverged and merging is refused. Copies beyond the first `trusted` only fill gaps.
//! - M3. The copies do not change while this is used: the caller holds their locks, or reads a moment of a running log
//!   and reports that.
//!
//! Checked by `copies/tests.rs` (every block of every copy flipped; copies cut, dropped, swapped).

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Access, File, FileLock, Files, LockError};

use super::{
    census::Witness,
    cut::{Reference, cut_above},
};
use crate::{
    WalError,
    format::decode::HeaderBlock,
    format::{BLOCK, BLOCK_BYTES, segment_number},
    read::source::FrameSource,
    read::window::Window,
};

/// A copy of a log directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopyDir {
    /// 0 for the log directory itself, then `wal.copies` in order.
    pub(crate) index: usize,
    pub(crate) dir: PathBuf,
}

/// The copies from which the bytes of a segment come.
#[derive(Debug, Default)]
struct Plan {
    /// The copies that are read, as indexes into `MergedFiles::copies`.
    sources: Vec<usize>,
    /// The places where another source begins: (offset, index into `sources`). The first run starts at 0.
    runs: Vec<(u64, usize)>,
    bytes: u64,
    /// The copies that lack the segment, its header or a frame that another copy has.
    suspects: BTreeSet<usize>,
}

/// Several directories presented as one; paths are those in `home`.
#[derive(Debug)]
pub(crate) struct MergedFiles {
    files: Arc<dyn Files>,
    home: PathBuf,
    copies: Vec<CopyDir>,
    plans: BTreeMap<String, Plan>,
}

/// One copy of a segment during the comparison.
#[derive(Debug)]
struct Source {
    copy: usize,
    window: Window,
    /// The salt in its header, if the header is valid.
    salt: Option<u64>,
    /// Whether its frame at the place last checked is valid.
    valid: bool,
}

impl MergedFiles {
    /// Compares the segments in `copies`, of which the first `trusted` must be equal, and merges them.
    ///
    /// # Errors
    /// `CopiesDiffer` if trusted copies hold different frames at one place; `Io` if none can be read.
    pub(crate) fn new(
        files: &Arc<dyn Files>,
        home: &Path,
        copies: Vec<CopyDir>,
        trusted: usize,
    ) -> Result<Self, WalError> {
        let mut names = BTreeSet::new();
        for copy in &copies {
            let listed = files.list(&copy.dir).map_err(|source| WalError::io("list", &copy.dir, source))?;
            names.extend(listed.into_iter().filter(|name| segment_number(name).is_some()));
        }
        let mut merged = Self { files: files.clone(), home: home.to_owned(), copies, plans: BTreeMap::new() };
        for name in names {
            let plan = merged.plan(&name, trusted)?;
            merged.plans.insert(name, plan);
        }
        Ok(merged)
    }

    /// Chooses for one segment the copy from which each of its blocks is read (M1).
    fn plan(&self, name: &str, trusted: usize) -> Result<Plan, WalError> {
        let mut sources = Vec::new();
        let mut unreadable = None;
        for (copy, place) in self.copies.iter().enumerate() {
            match Source::open(&*self.files, copy, place.dir.join(name), segment_number(name)) {
                Ok(source) => sources.push(source),
                Err(WalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                // Another copy may have it. If this one is to be repaired, that fails with the same error.
                Err(error) => unreadable = Some(error),
            }
        }
        if sources.is_empty() {
            return unreadable.map_or(Ok(Plan::default()), Err);
        }
        let salt = self.salt_in_use(name, &mut sources, trusted)?;
        if salt.is_some() {
            // A valid header with another salt is another use of the number. A rotten header proves nothing.
            sources.retain(|source| source.salt.is_none() || source.salt == salt);
            // A source with a valid header comes first, because its header is the one that is read.
            sources.sort_by_key(|source| source.salt.is_none());
        }
        let bytes = sources.iter().map(|source| source.window.file_bytes()).max().unwrap_or(0);
        let in_order: Vec<usize> = sources.iter().map(|source| source.copy).collect();
        let whole: BTreeSet<usize> =
            sources.iter().filter(|source| source.salt.is_some()).map(|source| source.copy).collect();
        let suspects = (0..self.copies.len()).filter(|copy| !whole.contains(copy)).collect();
        let mut plan = Plan { sources: in_order, runs: vec![(0, 0)], bytes, suspects };
        let Some(salt) = salt.filter(|_| sources.len() > 1) else { return Ok(plan) };
        let (mut offset, mut begun) = (BLOCK_BYTES, None);
        while offset < bytes {
            let (from, next) = match self.valid_at(name, &mut sources, offset, salt, trusted)? {
                Some(found) => {
                    begun = None;
                    plan.suspects.extend(sources.iter().filter(|source| !source.valid).map(|source| source.copy));
                    found
                }
                // No copy has a frame here. An incomplete frame is read from one copy only: halves from two copies
                // could make a frame that neither of them has.
                None => {
                    begun = begun.or_else(|| sources.iter_mut().position(|source| source.is_written(offset)));
                    (begun.unwrap_or(0), offset + BLOCK_BYTES)
                }
            };
            if plan.runs.last().is_none_or(|(_, last)| *last != from) {
                plan.runs.push((offset, from));
            }
            offset = next;
        }
        Ok(plan)
    }

    /// Returns the salt of the use of this segment that counts: a use with frames goes before one without.
    fn salt_in_use(&self, name: &str, sources: &mut [Source], trusted: usize) -> Result<Option<u64>, WalError> {
        let mut in_use: Option<(u64, usize)> = None;
        for source in sources.iter_mut() {
            let Some(salt) = source.salt else { continue };
            if !matches!(source.window.frame_at(BLOCK_BYTES, Some(salt)), Ok(Ok(_))) {
                continue;
            }
            match in_use {
                Some((other, of)) if other != salt && source.copy.max(of) < trusted => {
                    return Err(self.differ(name, BLOCK_BYTES, of, source.copy));
                }
                Some(_) => {}
                None => in_use = Some((salt, source.copy)),
            }
        }
        Ok(in_use.map(|(salt, _)| salt).or_else(|| sources.iter().find_map(|source| source.salt)))
    }

    /// Returns the first source with a valid frame at `offset`, and the end of that frame.
    fn valid_at(
        &self,
        name: &str,
        sources: &mut [Source],
        offset: u64,
        salt: u64,
        trusted: usize,
    ) -> Result<Option<(usize, u64)>, WalError> {
        let mut found: Option<(usize, usize, u32, u64)> = None;
        for (at, source) in sources.iter_mut().enumerate() {
            // An unreadable frame counts like one with a wrong checksum.
            source.valid = false;
            let Ok(Ok(frame)) = source.window.frame_at(offset, Some(salt)) else { continue };
            source.valid = true;
            match found {
                Some((_, of, crc, _)) if crc != frame.crc && source.copy.max(of) < trusted => {
                    return Err(self.differ(name, offset, of, source.copy));
                }
                // The more trusted copy comes first.
                Some((_, of, ..)) if of < source.copy => {}
                _ => found = Some((at, source.copy, frame.crc, frame.next_offset)),
            }
        }
        Ok(found.map(|(at, _, _, next)| (at, next)))
    }

    fn differ(&self, name: &str, offset: u64, one: usize, other: usize) -> WalError {
        let path = |copy: usize| self.copies[copy].dir.join(name);
        WalError::CopiesDiffer { path: path(one), other: path(other), offset }
    }

    /// Looks for a frame of a stale `copy` in the merged view. If it is there, the copy is an earlier state of this
    /// log.
    ///
    /// # Errors
    /// `CopiesDiffer` if another frame, or none, is at its place. It is no error if the frame's segment lies before
    /// everything that is left, or if the log was cut below that frame since (`cut`).
    pub(crate) fn confirm(&self, copy: &CopyDir, witness: &Witness) -> Result<(), WalError> {
        if self.plans.keys().next().is_none_or(|oldest| witness.name < *oldest) {
            return Ok(());
        }
        if self.plans.contains_key(&witness.name) {
            let mut window = Window::open(self, self.home.join(&witness.name))?;
            let found = window.frame_at(witness.offset, Some(witness.salt))?;
            if found.is_ok_and(|frame| frame.crc == witness.crc) {
                return Ok(());
            }
        }
        let names: Vec<&str> = self.plans.keys().map(String::as_str).collect();
        let log = Reference { files: self, dir: &self.home, names: &names };
        if cut_above(&log, &*self.files, &copy.dir, witness)? {
            return Ok(());
        }
        let (path, other) = (self.copies[0].dir.join(&witness.name), copy.dir.join(&witness.name));
        Err(WalError::CopiesDiffer { path, other, offset: witness.offset })
    }

    /// Returns whether the copy at `index` of the merged ones may lack a part of the segment at `path`.
    pub(crate) fn suspects(&self, index: usize, path: &Path) -> bool {
        let plan = self.name_in_home(path).and_then(|name| self.plans.get(name));
        plan.is_some_and(|plan| plan.suspects.contains(&index))
    }

    /// Opens a merged segment.
    fn open_merged(&self, name: &str, plan: &Plan) -> io::Result<Arc<dyn File>> {
        let mut sources = Vec::new();
        for copy in &plan.sources {
            sources.push(self.files.open(&self.copies[*copy].dir.join(name), Access::Read)?);
        }
        Ok(Arc::new(MergedFile { sources, runs: plan.runs.clone(), bytes: plan.bytes }))
    }

    fn name_in_home<'a>(&self, path: &'a Path) -> Option<&'a str> {
        path.file_name()?.to_str().filter(|_| path.parent() == Some(&self.home))
    }
}

impl Source {
    fn open(files: &dyn Files, copy: usize, path: PathBuf, number: Option<u64>) -> Result<Self, WalError> {
        let mut window = Window::open(files, path)?;
        let salt = match window.segment_header()? {
            HeaderBlock::Segment(header) if Some(header.number) == number => Some(header.salt),
            _ => None,
        };
        Ok(Self { copy, window, salt, valid: false })
    }

    /// Returns whether the block at `offset` can be read and is not all zeros.
    fn is_written(&mut self, offset: u64) -> bool {
        self.window.bytes_at(offset, BLOCK).is_ok_and(|block| block.iter().any(|byte| *byte != 0))
    }
}

/// A merged segment, for reading.
#[derive(Debug)]
struct MergedFile {
    sources: Vec<Arc<dyn File>>,
    runs: Vec<(u64, usize)>,
    bytes: u64,
}

fn read_only<R>() -> io::Result<R> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl File for MergedFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let wanted = usize::try_from(self.bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        let mut done = 0;
        while done < wanted {
            let at = offset + done as u64;
            let run = self.runs.partition_point(|(from, _)| *from <= at) - 1;
            let ends = self.runs.get(run + 1).map_or(self.bytes, |(next, _)| *next);
            let count = usize::try_from(ends - at).unwrap_or(usize::MAX).min(wanted - done);
            let part = &mut bytes[done..done + count];
            let read = self.sources[self.runs[run].1].read_at(at, part)?;
            // The copy was cut short here.
            part[read..].fill(0);
            done += count;
        }
        Ok(done)
    }

    fn write_at(&self, _offset: u64, _bytes: &[u8]) -> io::Result<()> {
        read_only()
    }

    fn sync_data(&self) -> io::Result<()> {
        read_only()
    }

    fn set_len(&self, _bytes: u64) -> io::Result<()> {
        read_only()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }
}

impl Files for MergedFiles {
    fn create_dir_all(&self, _dir: &Path) -> io::Result<()> {
        read_only()
    }

    fn create(&self, _path: &Path) -> io::Result<Arc<dyn File>> {
        read_only()
    }

    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn File>> {
        if access == Access::ReadWrite {
            return read_only();
        }
        let plan = self.name_in_home(path).and_then(|name| self.plans.get(name).map(|plan| (name, plan)));
        match plan {
            Some((name, plan)) => self.open_merged(name, plan),
            None => self.files.open(path, access),
        }
    }

    fn replace(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        read_only()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        read_only()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        if dir == self.home { Ok(self.plans.keys().cloned().collect()) } else { self.files.list(dir) }
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        read_only()
    }

    fn lock(&self, _path: &Path) -> Result<Box<dyn FileLock>, LockError> {
        read_only().map_err(LockError::Io)
    }
}

const _: () = assert!(BLOCK as u64 == BLOCK_BYTES, "runs begin at blocks");
