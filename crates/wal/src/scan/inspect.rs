//! `inspect`: the contents of a log directory, read without opening the log.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, Files};

use super::{Scan, scan};
use crate::{
    Records, WalError,
    append::ring_file::ring_path_of,
    consumers::{
        self, ConsumerStat,
        cursor_file::{self, StoredCursors},
    },
    format::BLOCK_BYTES,
    options::RECORD_BYTES_LIMIT,
    read::frame_reader::FrameReader,
    segment::Span,
};

/// One log file, as [`inspect`] found it.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// The file.
    pub path: PathBuf,
    /// Where the records before it end; its own begin there, or above if positions jumped because the log was not
    /// closed.
    pub first: Lsn,
    /// Where its last frame that counts ends.
    pub used_bytes: u64,
    /// Its size.
    pub segment_bytes: u64,
}

/// The contents of a log directory, read without a lock and without writing, of a closed log or a running one.
#[derive(Debug)]
pub struct Inspection {
    pub(crate) files: Arc<dyn Files>,
    dir: PathBuf,
    pub(crate) scan: Scan,
}

impl Inspection {
    /// Returns where the log starts: it has every record from there on.
    pub fn start(&self) -> Lsn {
        self.scan.start()
    }

    /// Returns the end of the last frame.
    pub fn end(&self) -> Lsn {
        self.scan.end
    }

    /// Returns the largest position that the frames name as durable.
    pub fn durable(&self) -> Lsn {
        self.scan.durable
    }

    /// Returns the number of the last opening.
    pub fn incarnation(&self) -> u64 {
        self.scan.incarnation
    }

    /// Returns the number of directories that the newest opening configured for the log: 1 without copies.
    pub fn copies(&self) -> u64 {
        self.scan.copies.configured.into()
    }

    /// Returns the path of the shared ring in `ring_dir` that bears this log's name, if there is one: the ring of a
    /// running log, or one that a killed process left for the next open. The ring is not read.
    pub fn ring(&self, env: &Env, ring_dir: &Path) -> Option<PathBuf> {
        ring_path_of(env, ring_dir, &self.scan.log_id?, &self.dir)
    }

    /// Returns whether the log was closed.
    pub fn is_clean(&self) -> bool {
        self.scan.clean
    }

    /// Returns the reason why the log would not open by default, if there is one.
    pub fn damage(&self) -> Option<WalError> {
        self.scan.damage_error()
    }

    /// Returns the line that an open would print about an unfinished flush, if there is one.
    pub fn torn_note(&self) -> Option<String> {
        self.scan.torn_note()
    }

    /// Returns the files that hold the log, oldest first.
    pub fn segments(&self) -> Vec<SegmentInfo> {
        let info = |span: &Span| SegmentInfo {
            path: span.path.clone(),
            first: span.first,
            used_bytes: span.until.unwrap_or(BLOCK_BYTES),
            segment_bytes: span.segment_bytes,
        };
        self.scan.spans.iter().map(info).collect()
    }

    /// Returns the number of files that hold nothing of the log: spares.
    pub fn spare_count(&self) -> usize {
        self.scan.leftovers.len()
    }

    /// Reads the cursors of the log's consumers, with their names and the files that each keeps.
    ///
    /// # Errors
    /// `BadConsumers`, `NewerFormat`, `Io`; `ForeignLog` if the file belongs to another log.
    ///
    /// # Progress
    /// Blocks on reading a small file.
    pub fn consumers(&self) -> Result<Vec<ConsumerStat>, WalError> {
        let Some(stored) = StoredCursors::read(&*self.files, &self.dir)? else { return Ok(Vec::new()) };
        if self.scan.log_id.is_some_and(|log_id| log_id != stored.log_id) {
            return Err(WalError::ForeignLog { path: self.dir.join(cursor_file::FILE_NAME) });
        }
        let stat = |cursor| consumers::stat_of(cursor, &self.scan.spans, self.durable());
        Ok(stored.cursors.into_iter().map(stat).collect())
    }

    /// Iterates over the records from `from` to the end of the chain, or to the damage; yields nothing behind a gap.
    pub fn records(&self, from: Lsn) -> Records {
        let good = self.scan.damage.as_ref().map_or(self.scan.end, |damage| damage.lsn.min(self.scan.end));
        let frames = FrameReader::new(self.files.clone(), self.scan.spans.clone(), from, None);
        Records::new(frames, from, good, RECORD_BYTES_LIMIT)
    }
}

/// Reads the log directory `dir` once; no process may write to it.
#[cfg(any(test, feature = "lab"))]
pub(crate) fn inspect_resting(env: &Env, dir: &Path) -> Result<Inspection, WalError> {
    Ok(Inspection { files: env.files.clone(), dir: dir.to_owned(), scan: scan(&*env.files, dir, None)? })
}

/// Reads the log directory `dir` without locking or changing it. A running log is read as far as it was written when
/// the files were read; its last flush may then look unfinished.
///
/// # Errors
/// `Io`, `ForeignLog`, `NewerFormat`. Damage is no error here: see [`Inspection::damage`].
///
/// # Progress
/// Blocks on reading the whole log; a running log goes on.
pub fn inspect(env: &Env, dir: &Path) -> Result<Inspection, WalError> {
    let look = || {
        for _ in 0..3 {
            match scan(&*env.files, dir, None) {
                // A running log frees and renames files between the listing and the opening of them.
                Err(WalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                other => return other,
            }
        }
        scan(&*env.files, dir, None)
    };
    let mut found = look()?;
    if found.damage.is_some() || found.torn_bytes > 0 {
        // A running log writes during the scan: an in-flight flush looks unfinished, and frames behind a place that was
        // still empty when the scan passed it look like proof of damage. In a closed log both stay where they are; the
        // end of a running one moves.
        let again = look()?;
        let runs = again.end > found.end;
        found = again;
        if runs {
            (found.damage, found.torn_bytes) = (None, 0);
        }
    }
    Ok(Inspection { files: env.files.clone(), dir: dir.to_owned(), scan: found })
}
