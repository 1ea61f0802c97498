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
//! - S2. Rot is reported once, in a log line, and stays in [`Db::rot`](crate::Db::rot) until the database is
//!   closed, repaired or not.
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

use crate::Options;

/// Pause between two passes, and before the first one, since the opening has read everything.
pub(crate) const PASS_PAUSE: Duration = Duration::from_secs(60);
/// Pieces read per second.
pub(crate) const PIECES_PER_S: u64 = 10;
pub(crate) const PIECE_BYTES_MIN: u64 = 4 << 10;
pub(crate) const PIECE_BYTES_MAX: u64 = 4 << 20;
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
    pub(crate) bytes_per_s: u64,
    pub(crate) warnings: Warnings,
    pub(crate) found: Mutex<(ScrubStat, Vec<Rot>)>,
    /// One thread repairs at a time: a second one that meets the same rot finds it gone.
    pub(crate) mending: Mutex<()>,
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

    pub(crate) fn count(&self, count: impl FnOnce(&mut ScrubStat)) {
        count(&mut self.found.lock().0);
    }

    /// Notes rot, in place of an earlier note of the same file (S2).
    pub(crate) fn note(&self, rot: Rot) {
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
pub(crate) struct Pass {
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
pub(crate) enum Step {
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
    pub(crate) fn of(levels: &Levels) -> Self {
        Self { trees: levels.trees().iter().map(|tree| tree.id).collect(), ..Self::default() }
    }

    /// Reads the next piece of a table, or moves on to the next table.
    pub(crate) fn step(&mut self, levels: &Levels, env: &Env, piece: &mut [u8]) -> Step {
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
