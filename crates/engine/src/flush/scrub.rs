//! `Scrub`: reads the LSM levels of an open database at a limited rate to find rot, and repairs it: the tree is
//! rewritten from the rows in memory (`tree_rewrite.rs`), and the damaged file is kept in `levels/quarantine`.
//!
//! No reader uses the LSM levels, so rot would go unnoticed until the next opening, when memory is gone and the log may
//! be cut. The scrub reads through the system's page cache: rot on the medium below a cached file shows once the file
//! is no longer cached.
//!
//! # Invariants
//! - S1. Only a table that its tree still has after it was read is judged: a merge removes tables, and a read in
//!   parallel with that returns all of the table or none.
//! - S2. Rot is reported once, in a log line, and stays in [`Db::rot`] until the database is closed, repaired or not.
//! - S3. A tree that could not be repaired is tried again by the next pass, and by every copy that meets it.
//! - S4. The database is not kept open: a round reads one piece and returns.
//!
//! Checked by `tests/rot.rs`.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use collie_base::CfId;
use collie_env::{Access, Env, File};
use collie_store::{LevelSums, Levels, LevelsError, TableCheck, TreeId};
use collie_wal::Warnings;
use parking_lot::Mutex;

use crate::flush::Base;
use crate::flush::figures::FlushCause;
use crate::shared::Shared;
use crate::{Db, EngineError, Options};

/// Pause between two passes, and before the first one, since the opening has read everything.
const PASS_PAUSE: Duration = Duration::from_secs(60);
/// Pieces read per second.
const PIECES_PER_S: u64 = 10;
const PIECE_BYTES_MIN: u64 = 4 << 10;
const PIECE_BYTES_MAX: u64 = 4 << 20;
/// Maximum number of findings that are remembered.
const ROT_MAX: usize = 100;

/// A file of the LSM levels that has changed since it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The file.
    pub path: PathBuf,
    /// The families with rows in the file; empty for MANIFEST.
    pub families: Vec<CfId>,
    /// A description of the fault.
    pub what: String,
    /// Whether the content was written again.
    pub is_mended: bool,
    /// The present path of the file, if it is kept.
    pub quarantined: Option<PathBuf>,
}

/// Counters of the scrub since the opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScrubStat {
    /// Completed passes over all tables.
    pub passes: u64,
    /// Tables that were read and are intact.
    pub tables: u64,
    /// Bytes of tables that were read.
    pub bytes: u64,
    /// Files that have changed since they were written, including those found by a copy.
    pub rotten: u64,
    /// Number of those that were repaired by rewriting their tree.
    pub mended: u64,
}

/// The findings, and the channel for warnings.
#[derive(Debug)]
pub(crate) struct Scrub {
    bytes_per_s: u64,
    warnings: Warnings,
    found: Mutex<(ScrubStat, Vec<Rot>)>,
    /// One thread repairs at a time: a second one that meets the same rot finds it gone.
    mending: Mutex<()>,
}

impl Scrub {
    pub(crate) fn new(options: &Options) -> Self {
        let (bytes_per_s, warnings) = (options.scrub_rate, options.log.warnings.clone());
        Self { bytes_per_s, warnings, found: Mutex::default(), mending: Mutex::default() }
    }

    /// Returns whether a thread scrubs.
    pub(crate) fn is_on(&self) -> bool {
        self.bytes_per_s > 0
    }

    fn count(&self, count: impl FnOnce(&mut ScrubStat)) {
        count(&mut self.found.lock().0);
    }

    /// Notes rot, in place of an earlier note of the same file (S2).
    fn note(&self, rot: Rot) {
        let (stat, all) = &mut *self.found.lock();
        stat.mended += u64::from(rot.is_mended);
        match all.iter_mut().find(|known| known.path == rot.path && !known.is_mended) {
            Some(known) => *known = rot,
            None => {
                stat.rotten += 1;
                all.push(rot);
                let over = all.len().saturating_sub(ROT_MAX);
                drop(all.drain(..over));
            }
        }
    }
}

/// The state of a pass over the tables.
#[derive(Debug, Default)]
struct Pass {
    trees: VecDeque<TreeId>,
    tables: VecDeque<PathBuf>,
    sums: LevelSums,
    reading: Option<Reading>,
}

/// A table that is being read.
#[derive(Debug)]
struct Reading {
    path: PathBuf,
    file: Arc<dyn File>,
    at: u64,
    check: TableCheck,
}

/// The result of a step of a pass.
enum Step {
    /// This number of bytes was read.
    Read(u64),
    /// The table is intact.
    Whole,
    /// Another table, or tree, is next.
    Next,
    Rotten(TreeId, LevelsError),
    Over,
}

impl Pass {
    fn of(levels: &Levels) -> Self {
        Self { trees: levels.trees().iter().map(|tree| tree.id).collect(), ..Self::default() }
    }

    /// Reads the next piece of a table, or moves on to the next table.
    fn step(&mut self, levels: &Levels, env: &Env, piece: &mut [u8]) -> Step {
        if let Some(mut reading) = self.reading.take() {
            return match reading.file.read_at(reading.at, piece) {
                // The disk refuses to read; a flush or the next opening reports that.
                Err(_) => Step::Next,
                Ok(0) => match reading.check.end() {
                    Ok(()) => Step::Whole,
                    Err(fault) => self.judge(levels, &reading.path, fault),
                },
                Ok(count) => {
                    reading.check.piece(&piece[..count]);
                    reading.at += count as u64;
                    self.reading = Some(reading);
                    Step::Read(count as u64)
                }
            };
        }
        if let Some(path) = self.tables.pop_front() {
            let Some(check) = self.sums.check(&path) else { return Step::Next };
            return match env.files.open(&path, Access::Read) {
                Ok(file) => {
                    self.reading = Some(Reading { path, file, at: 0, check });
                    Step::Next
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.judge(levels, &path, check.missing()),
                Err(_) => Step::Next,
            };
        }
        let Some(tree) = self.trees.pop_front() else { return Step::Over };
        match levels.sums_of(tree) {
            Ok(sums) => {
                self.tables = sums.paths().into();
                self.sums = sums;
                Step::Next
            }
            Err(fault @ LevelsError::TreeDamaged { .. }) => Step::Rotten(tree, fault),
            // Dropped since, or failed, which is reported elsewhere.
            Err(_) => Step::Next,
        }
    }

    /// Judges a fault: it is rot only if the tree still has the table (S1).
    fn judge(&mut self, levels: &Levels, path: &Path, fault: LevelsError) -> Step {
        let Some(tree) = self.sums.check(path).map(|check| check.tree()) else { return Step::Next };
        let is_there = levels.sums_of(tree).is_ok_and(|sums| sums.check(path).is_some());
        if !is_there {
            return Step::Next;
        }
        self.tables.clear(); // the tree is rewritten
        Step::Rotten(tree, fault)
    }
}

/// Returns the round function of the scrub thread.
pub(crate) fn scrubber() -> impl FnMut(&Shared) -> Duration + Send {
    let (mut pass, mut is_first, mut piece) = (None::<Pass>, true, Vec::new());
    move |shared| {
        let Some(base) = &shared.base else { return PASS_PAUSE };
        if std::mem::take(&mut is_first) {
            return PASS_PAUSE;
        }
        let per_s = shared.scrub.bytes_per_s.max(1);
        let bytes = (per_s / PIECES_PER_S).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        piece.resize(usize::try_from(bytes).unwrap_or(0), 0);
        let now = pass.get_or_insert_with(|| {
            shared.scrub_manifest(base);
            Pass::of(base.levels())
        });
        match now.step(base.levels(), &shared.env, &mut piece) {
            Step::Next => Duration::ZERO,
            Step::Read(bytes) => {
                shared.scrub.count(|stat| stat.bytes += bytes);
                Duration::from_micros(bytes.saturating_mul(1_000_000) / per_s)
            }
            Step::Whole => {
                shared.scrub.count(|stat| stat.tables += 1);
                Duration::ZERO
            }
            Step::Rotten(tree, fault) => {
                shared.mend(base, tree, &fault);
                Duration::ZERO
            }
            Step::Over => {
                pass = None;
                shared.scrub.count(|stat| stat.passes += 1);
                PASS_PAUSE
            }
        }
    }
}

impl Shared {
    /// Reads every table once, without a pause, and repairs rot. Returns the findings.
    pub(crate) fn scrub(&self) -> Result<Vec<Rot>, EngineError> {
        let base = self.writable_base()?;
        let _told = self.mend_failed(base); // their files would be unknown otherwise
        let mut found: Vec<Rot> = self.scrub_manifest(base).into_iter().collect();
        let mut pass = Pass::of(base.levels());
        let mut piece = vec![0; usize::try_from(PIECE_BYTES_MAX).unwrap_or(0)];
        loop {
            match pass.step(base.levels(), &self.env, &mut piece) {
                Step::Next => {}
                Step::Read(bytes) => self.scrub.count(|stat| stat.bytes += bytes),
                Step::Whole => self.scrub.count(|stat| stat.tables += 1),
                Step::Rotten(tree, fault) => found.extend(self.mend(base, tree, &fault)),
                Step::Over => break,
            }
        }
        self.scrub.count(|stat| stat.passes += 1);
        Ok(found)
    }

    /// Compares MANIFEST with memory, and writes it again if they differ.
    fn scrub_manifest(&self, base: &Base) -> Option<Rot> {
        // If the disk refuses, the next flush reports it.
        let fault = base.levels().mend_manifest().ok()??;
        self.scrub.warnings.warn(format!("levels: {fault}: it was written again from memory; look at the disk"));
        let path = match &fault {
            LevelsError::ManifestDamaged { path, .. } | LevelsError::NewerFormat { path, .. } => path.clone(),
            _ => base.levels().dir().to_owned(),
        };
        let rot = Rot { path, families: Vec::new(), what: fault.to_string(), is_mended: true, quarantined: None };
        self.scrub.note(rot.clone());
        Some(rot)
    }

    /// Rewrites a tree with a damaged file. Returns the finding and its repair; `None` if another thread has repaired
    /// it, or the tree was dropped.
    fn mend(&self, base: &Base, tree: TreeId, fault: &LevelsError) -> Option<Rot> {
        let LevelsError::TreeDamaged { path, cfs, .. } = fault else { return None };
        let _one_at_a_time = self.scrub.mending.lock();
        if base.levels().trees().iter().all(|known| known.id != tree) {
            return None;
        }
        let mut rot = Rot {
            path: path.clone(),
            families: cfs.clone(),
            what: fault.to_string(),
            is_mended: false,
            quarantined: None,
        };
        self.scrub.warnings.warn(format!("levels: {fault}: writing its rows again from memory"));
        match base.write_rotten_anew(tree, std::slice::from_ref(path), &rot.what, &self.parts()) {
            Ok(None) => return None,
            Ok(Some(written)) => {
                (rot.is_mended, rot.quarantined) = (true, written.quarantined.first().cloned());
                let kept = rot.quarantined.as_ref().map_or_else(String::new, |kept| {
                    format!("; the damaged file is kept as {}", kept.display())
                });
                self.scrub.warnings.warn(format!(
                    "levels: {} is made up for: {} rows were written again, as tree {}{kept}; look at the disk",
                    path.display(),
                    written.keys.values().sum::<u64>(),
                    written.tree
                ));
            }
            Err(error) => self.scrub.warnings.warn(format!(
                "levels: {} cannot be made up for yet: {error}; its rows are in memory alone, and no copy is made until it is",
                path.display()
            )),
        }
        self.scrub.note(rot.clone());
        Some(rot)
    }

    /// Rewrites the trees that failed; flushes report the outcome.
    fn mend_failed(&self, base: &Base) -> Result<(), EngineError> {
        base.flush(&base.levels().to_be_replaced(), FlushCause::Failure, &self.parts())
    }

    /// Repairs the trees that kept a copy from being made, according to its error. Returns `Ok` if a tree was repaired,
    /// so that another attempt is worthwhile.
    ///
    /// # Errors
    /// The fault, with the name that the file has in the database and not in the copy.
    pub(crate) fn mend_for_copy(&self, error: EngineError) -> Result<(), EngineError> {
        let EngineError::Levels(levels_error) = &error else { return Err(error) };
        let base = self.writable_base()?;
        let cfs = match &**levels_error {
            LevelsError::TreeDamaged { cfs, .. } => cfs,
            // Its next flush rewrites it (`tree_rewrite.rs`).
            LevelsError::TreeFailed { .. } => return self.mend_failed(base).map_err(|_told| error),
            _ => return Err(error),
        };
        let levels = base.levels();
        let Some(tree) = cfs.first().and_then(|cf| levels.tree_of(*cf)) else { return Ok(()) }; // dropped
        let fault = match levels.sums_of(tree) {
            Err(fault) => fault,
            Ok(sums) => {
                let faults = sums.read_all::<LevelsError>(&*self.env.files, &mut |_| Ok(()));
                match faults.map_err(EngineError::levels)?.into_iter().next() {
                    Some(fault) => fault,
                    None if levels.tree_of(cfs[0]) != Some(tree) => return Ok(()), // repaired since
                    None => return Err(error),                                     // the copy itself is bad
                }
            }
        };
        match self.mend(base, tree, &fault) {
            Some(rot) if !rot.is_mended => Err(EngineError::levels(fault)),
            _ => Ok(()),
        }
    }
}

impl Db {
    /// Reads every table of the LSM levels now and compares it with its checksum. A tree with a damaged table is
    /// rewritten from the rows in memory, and the damaged file is moved to `levels/quarantine`. Returns the findings. A
    /// thread does the same all the time ([`Options::scrub_rate`]).
    ///
    /// # Durability
    /// Repaired trees are on disk on return.
    ///
    /// # Progress
    /// Blocks on reading the LSM levels; readers and writers continue. Flushes of a tree wait while it is rewritten.
    ///
    /// # Errors
    /// [`EngineError::OpenedReadOnly`], [`EngineError::Salvaged`], [`EngineError::Closed`].
    pub fn scrub(&self) -> Result<Vec<Rot>, EngineError> {
        if self.is_closed() {
            return Err(EngineError::Closed);
        }
        self.shared.scrub()
    }

    /// Returns the counters of the scrub.
    pub fn scrub_stat(&self) -> ScrubStat {
        self.shared.scrub.found.lock().0
    }

    /// Returns the newest hundred findings since the opening, repaired or not.
    pub fn rot(&self) -> Vec<Rot> {
        self.shared.scrub.found.lock().1.clone()
    }
}
