//! Redundant copies of the log: byte-identical segments in several directories (`wal.copies`).
//!
//! `merge` presents several directories as one, each frame from whichever copy has it intact; `census` determines which
//! copies exist and whether they suffice; `cut` recognizes a copy from before an offline cut; `repair` makes the copies
//! equal before the log opens; `mirror` keeps them equal while it runs. A log in one directory uses none of this.
//!
//! # Invariants
//! - C1. A log opens only if no copy that is absent can hold acknowledged records that the present ones lack, or if the
//!   operator allows it (`census` S1).
//! - C2. When an opening has written its first frame, every copy it uses holds the whole chain, durably (`repair` R4).
//! - C3. From a stale copy the log takes only frames that the up-to-date copies lack and prove to belong there.

mod catch_up;
mod census;
mod cut;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod faulty;
mod files;
mod lane;
mod members;
mod merge;
mod mirror;
mod repair;
mod round;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, FileLock, Files, LockError};

pub(crate) use self::{census::Census, merge::CopyDir, mirror::Mirror};
use self::{
    merge::MergedFiles,
    repair::{Repairs, clear_leftovers},
};
use crate::{
    Checked, Inspection, Options, WalError, format::segment_number, scan::Scan, scan::inspect::inspect,
    scan::scan_watched, segment::Span,
};

/// The directories of a log: its own, then `wal.copies`. Those that can be used are locked.
#[derive(Debug)]
pub(crate) struct Copies {
    pub(crate) home: PathBuf,
    /// All configured directories, in order.
    pub(crate) dirs: Vec<PathBuf>,
    pub(crate) usable: Vec<CopyDir>,
    missing: Vec<PathBuf>,
    /// Locks in the order of `dirs`.
    pub(crate) locks: Vec<Option<Arc<dyn FileLock>>>,
}

impl Copies {
    /// Creates missing directories and locks all. With several, one that cannot be created or locked counts as missing.
    ///
    /// # Errors
    /// `Locked`; `InvalidOptions` if one directory lies inside another; `Io` if none can be used.
    pub(crate) fn lock(env: &Env, home: &Path, others: &[PathBuf]) -> Result<Self, WalError> {
        if let Some(dir) = others.iter().find(|dir| dir.starts_with(home) || home.starts_with(dir)) {
            let (dir, home) = (dir.display(), home.display());
            return Err(WalError::options(format!("wal.copies: {dir} is not a directory beside {home}: name another")));
        }
        let dirs = std::iter::once(home).chain(others.iter().map(PathBuf::as_path));
        let dirs: Vec<PathBuf> = dirs.map(Path::to_owned).collect();
        let (usable, missing, locks) = (Vec::new(), Vec::new(), Vec::new());
        let mut copies = Self { home: home.to_owned(), dirs: dirs.clone(), usable, missing, locks };
        let mut failed = None;
        for (index, dir) in dirs.iter().enumerate() {
            let lock_path = dir.join(if mistake!("LOCK_SKIPPED") { "OTHER" } else { "LOCK" });
            let made = env.files.create_dir_all(dir).map_err(|source| WalError::io("create", dir, source));
            let locked = made.and_then(|()| {
                env.files.lock(&lock_path).map_err(|error| match error {
                    LockError::Held { pid } => WalError::Locked { pid },
                    LockError::Io(source) => WalError::io("lock", &lock_path, source),
                })
            });
            match locked {
                Ok(lock) => {
                    copies.usable.push(CopyDir { index, dir: dir.to_owned() });
                    copies.locks.push(Some(lock.into()));
                }
                Err(error @ WalError::Io { .. }) => {
                    copies.missing.push(dir.to_owned());
                    copies.locks.push(None);
                    failed.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        match failed.filter(|_| copies.usable.is_empty()) {
            Some(error) => Err(error),
            None => Ok(copies),
        }
    }

    /// Returns what `read` finds in the first directory in which it finds something; copies that hold the whole log
    /// come before stale ones. Returns an error only if `read` finds nothing anywhere and failed in a directory.
    ///
    /// # Errors
    /// The first error of `read`.
    pub(crate) fn first_of<R>(
        &self,
        files: &Arc<dyn Files>,
        read: impl Fn(&Path) -> Result<Option<R>, WalError>,
    ) -> Result<Option<R>, WalError> {
        let mut failed = None;
        let mut order = self.usable.clone();
        if self.are_several()
            // The opening reports what is wrong with the copies.
            && let Ok(census) = Census::take(files, &self.usable, Vec::new())
        {
            order = census.usable().cloned().collect();
        }
        for copy in &order {
            match read(&copy.dir) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) => {
                    failed.get_or_insert(error);
                }
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Returns the one of several copies that an error names which occurred before `Mirror` writes to them, with the
    /// system's error.
    pub(crate) fn blamed(&self, error: &WalError) -> Option<(usize, io::Error)> {
        let WalError::Io { path, source, .. } = error else { return None };
        let copy = self.usable.iter().find(|copy| path.starts_with(&copy.dir)).filter(|_| self.are_several())?;
        Some((copy.index, io::Error::new(source.kind(), source.to_string())))
    }

    /// Returns the locks, to be held as long as the log is open.
    pub(crate) fn into_locks(self) -> Vec<Option<Arc<dyn FileLock>>> {
        self.locks
    }

    fn are_several(&self) -> bool {
        self.usable.len() + self.missing.len() > 1
    }
}

/// State of a copy of a running log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyState {
    /// It holds everything that is durable.
    Live,
    /// It has caught up and is written again; it counts once a LINK says so.
    Joining,
    /// It is left out: it failed, hung, or was not there. The log tries it again every `wal.copy_stall`.
    Down,
}

/// One copy of a running log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyStat {
    /// Its directory.
    pub dir: PathBuf,
    /// Whether it counts.
    pub state: CopyState,
    /// Why it is down, or why its last catch-up failed; empty otherwise.
    pub why: String,
}

/// A log in several directories, as an opening finds it.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) census: Census,
    merged: MergedFiles,
}

impl Gathered {
    /// Scans all copies as one log; `None` if there is only one directory.
    ///
    /// # Errors
    /// `CopiesMissing`, `CopiesDiffer`, `ForeignLog`, `NewerFormat`, `Io`. Damage that no copy can repair is in the
    /// returned `Scan`.
    pub(crate) fn of(
        env: &Env,
        copies: &Copies,
        options: &Options,
        known_durable: Option<Lsn>,
    ) -> Result<Option<(Self, Scan)>, WalError> {
        Self::leaving_out(env, copies, options, known_durable, &BTreeMap::new())
    }

    /// As [`Gathered::of`]; the copies in `left_out`, by index and with the reason, are read and not written.
    pub(crate) fn leaving_out(
        env: &Env,
        copies: &Copies,
        options: &Options,
        known_durable: Option<Lsn>,
        left_out: &BTreeMap<usize, String>,
    ) -> Result<Option<(Self, Scan)>, WalError> {
        if !copies.are_several() {
            return Ok(None);
        }
        let mut census = Census::take(&env.files, &copies.usable, copies.missing.clone())?;
        census.admit(options.open_with)?;
        census.leave_out(left_out);
        Self::scan(&env.files, &copies.home, census, known_durable, &options.checked).map(Some)
    }

    /// Scans the up-to-date copies; if that shows damage, or a stale copy has older segments, scans again with the
    /// stale ones to fill gaps (C3). A copy that cannot be placed is stale after all if the others are whole without it
    /// and begin behind everything that it has: it was away while they continued, and its records were freed.
    fn scan(
        files: &Arc<dyn Files>,
        home: &Path,
        mut census: Census,
        known_durable: Option<Lsn>,
        checked: &Checked,
    ) -> Result<(Self, Scan), WalError> {
        let look = |dirs: Vec<CopyDir>, trusted: usize| {
            let merged = MergedFiles::new(files, home, dirs, trusted)?;
            let found = scan_watched(&merged, home, known_durable, checked)?;
            Ok::<_, WalError>((merged, found))
        };
        let (mut merged, mut found) = look(census.holders.clone(), census.holders.len())?;
        if found.damage.is_some()
            && let Some((placed, end)) = census.placed()
            && let Ok(other) = look(placed.holders.clone(), placed.holders.len())
            && other.1.damage.is_none()
            && end <= other.1.start()
        {
            (census, (merged, found)) = (placed, other);
        }
        if found.damage.is_some() || have_older(&**files, &census.stale, &found) {
            let all = census.holders.iter().chain(&census.stale).cloned().collect();
            // Stale copies may hold anything: an error with them means nothing for the log.
            let wider = look(all, census.holders.len()).ok().filter(|(_, wider)| wider.damage.is_none());
            if let Some(wider) = wider.filter(|(_, wider)| found.damage.is_some() || wider.end == found.end) {
                (merged, found) = wider;
            }
        }
        for copy in &census.stale {
            census.witnesses.get(&copy.index).map_or(Ok(()), |witness| merged.confirm(copy, witness))?;
        }
        found.segment_number_max = found.segment_number_max.max(census.segment_number_max);
        Ok((Self { census, merged }, found))
    }

    /// Makes every usable copy hold the whole chain.
    pub(crate) fn repair(&self, files: &Arc<dyn Files>, found: &Scan) -> Result<Repairs, WalError> {
        repair::repair(files, &self.merged, &self.census, &found.spans)
    }

    /// Removes files that are not part of the log from all copies.
    pub(crate) fn clear_leftovers(&self, files: &dyn Files, spans: &[Span]) -> Result<(), WalError> {
        clear_leftovers(files, &self.census, spans)
    }

    /// Removes the marks of incomplete copies: the LINK of this opening, which counts all usable copies, is durable.
    pub(crate) fn confirm(&self, files: &dyn Files) -> Result<(), WalError> {
        self.census.usable().try_for_each(|copy| {
            repair::unmark(files, &copy.dir).map_err(|source| WalError::io("unmark", &copy.dir, source))
        })
    }
}

/// Returns whether one of `copies` has segments from before the chain: the log may have been freed up to there, or the
/// up-to-date copies may have lost them.
fn have_older(files: &dyn Files, copies: &[CopyDir], found: &Scan) -> bool {
    let Some(first) = found.spans.first().and_then(|span| span.path.file_name()) else { return false };
    let older = |name: &String| segment_number(name).is_some() && name.as_str() < &*first.to_string_lossy();
    copies.iter().any(|copy| files.list(&copy.dir).is_ok_and(|names| names.iter().any(older)))
}

/// The outcome of [`repair_copies`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CopyRepair {
    /// Number of frames and headers written in place, and of files rewritten.
    pub repaired: u64,
    /// The changes made, one line per file or copy.
    pub notes: Vec<String>,
}

/// Repairs a closed log in several directories, `dir` and `options.copies`, without opening it; each part comes from a
/// copy that has it intact. Of `options` it reads only `copies`, `open_with` and `known_durable`. Repeating it is
/// harmless.
///
/// # Errors
/// `Locked` while the log is open elsewhere; `CopiesMissing`, `CopiesDiffer`; `Damaged` if no copy has what is lost,
/// and then nothing was written; `InvalidOptions` with fewer than two directories; `Io`.
///
/// # Durability
/// The repair is durable on return.
///
/// # Progress
/// Blocks on reading every copy, and on writing and syncing the repairs.
pub fn repair_copies(env: &Env, dir: &Path, options: &Options) -> Result<CopyRepair, WalError> {
    if options.copies.is_empty() {
        return Err(WalError::options("a log in one directory has no copy to repair it from: give wal.copies"));
    }
    let copies = Copies::lock(env, dir, &options.copies)?;
    let gathered = Gathered::of(env, &copies, options, options.known_durable)?;
    let (gathered, found) = gathered.expect("there are two directories");
    if let Some(error) = found.damage_error() {
        return Err(error);
    }
    let repairs = gathered.repair(&env.files, &found)?;
    Ok(CopyRepair { repaired: repairs.count, notes: repairs.notes })
}

/// Reads a log in several directories, `dir` and `copies`, as an opening would see it, without locking or changing it.
/// Also returns the directories without an up-to-date copy.
///
/// # Errors
/// As [`inspect`], and `CopiesDiffer`.
///
/// # Progress
/// Blocks on reading every copy; a running log continues.
pub fn inspect_copies(env: &Env, dir: &Path, copies: &[PathBuf]) -> Result<(Inspection, Vec<PathBuf>), WalError> {
    if copies.is_empty() {
        return inspect(env, dir).map(|found| (found, Vec::new()));
    }
    let dirs = std::iter::once(dir).chain(copies.iter().map(PathBuf::as_path)).enumerate();
    let dirs: Vec<CopyDir> = dirs.map(|(index, dir)| CopyDir { index, dir: dir.to_owned() }).collect();
    let census = Census::take(&env.files, &dirs, Vec::new())?;
    let lacking = census.stale.iter().chain(&census.empty).map(|copy| copy.dir.clone());
    let lacking = lacking.chain(census.missing.iter().cloned()).collect();
    let (gathered, _) = Gathered::scan(&env.files, dir, census, None, &Checked::default())?;
    let env = Env { files: Arc::new(gathered.merged), ..env.clone() };
    Ok((inspect(&env, dir)?, lacking))
}

fn census_of(files: &Arc<dyn Files>, dirs: &[PathBuf]) -> Result<Census, WalError> {
    let dirs: Vec<CopyDir> = dirs.iter().enumerate().map(|(index, dir)| CopyDir { index, dir: dir.clone() }).collect();
    Census::take(files, &dirs, Vec::new())
}

/// Scans the log in `dirs` as an opening does, even if these are not all of its directories. Also returns the
/// directories as one, `home`, from which the scanned log can be read.
///
/// # Errors
/// `CopiesDiffer`, also if the copies differ only by rot; `ForeignLog`, `NewerFormat`, `Io`.
pub(crate) fn surveyed(
    files: &Arc<dyn Files>,
    home: &Path,
    dirs: &[PathBuf],
) -> Result<(Arc<dyn Files>, Scan), WalError> {
    let (gathered, found) = Gathered::scan(files, home, census_of(files, dirs)?, None, &Checked::default())?;
    Ok((Arc::new(gathered.merged), found))
}

/// Scans the log in `dirs` as an opening does, and refuses if the copies would not suffice for one. Also returns the
/// directories as one, `home`, from which the scanned log can be read. `missing` are those of its directories that
/// cannot be reached.
///
/// # Errors
/// As [`Gathered::of`].
pub(crate) fn surveyed_to_read(
    files: &Arc<dyn Files>,
    home: &Path,
    [dirs, missing]: [&[PathBuf]; 2],
    options: &Options,
    known_durable: Option<Lsn>,
) -> Result<(Arc<dyn Files>, Scan), WalError> {
    let dirs: Vec<CopyDir> = dirs.iter().enumerate().map(|(index, dir)| CopyDir { index, dir: dir.clone() }).collect();
    let census = Census::take(files, &dirs, missing.to_vec())?;
    census.admit(options.open_with)?;
    let (gathered, found) = Gathered::scan(files, home, census, known_durable, &options.checked)?;
    Ok((Arc::new(gathered.merged), found))
}

/// Presents the log in `dirs` as one directory, `home`, to read what is left of it: each frame from any copy that has
/// it, stale ones included.
///
/// # Errors
/// `CopiesDiffer`, `ForeignLog`, `NewerFormat`, `Io`.
pub(crate) fn merged(files: &Arc<dyn Files>, home: &Path, dirs: &[PathBuf]) -> Result<Arc<dyn Files>, WalError> {
    let census = census_of(files, dirs)?;
    let all = census.holders.iter().chain(&census.stale).cloned().collect();
    let merged = MergedFiles::new(files, home, all, census.holders.len())?;
    for copy in &census.stale {
        census.witnesses.get(&copy.index).map_or(Ok(()), |witness| merged.confirm(copy, witness))?;
    }
    Ok(Arc::new(merged))
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod cut_tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod mirror_tests;
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) mod tests;
