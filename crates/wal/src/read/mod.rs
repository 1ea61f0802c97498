//! `Records`: reads a log's records back from its files, oldest first. `inspect` reads a directory without opening the
//! log.
//!
//! It never reads the ring, so records that are in memory only are not yielded. `frame_reader` finds the frames,
//! `assemble` makes records of them.
//!
//! | file | holds |
//! |---|---|
//! | `window`, `source` | the bytes of a segment file, and frames made of them |
//! | `frame_reader`, `walk` | the frames of the chain, in order |
//! | `assemble`, `record_count` | records made of frames, and their number |
//! | `figures`, `view` | totals over a log, and a log that is read without being opened |

pub(crate) mod assemble;
pub(crate) mod figures;
pub(crate) mod frame_reader;
pub(crate) mod record_count;
pub(crate) mod source;
pub(crate) mod view;
pub(crate) mod walk;
pub(crate) mod window;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Env, Files};

use crate::{
    ConsumerStat, Unpacker, WalError,
    append::ring_file::ring_path_of,
    format::BLOCK_BYTES,
    format::decode::RecordKind,
    options::RECORD_BYTES_LIMIT,
    read::assemble::{Assembler, Place, Taking},
    read::frame_reader::FrameReader,
    recovery::scan::{Scan, scan},
    segment::Span,
    stream::consumers,
    stream::cursor_file::{self, StoredCursors},
};

/// One record read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its position; of a record in several pieces, that of the last one.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// Payload or hole.
    pub kind: RecordKind,
    /// The appender's tag.
    pub tag: u8,
    /// The payload.
    pub body: Vec<u8>,
    /// The file it lies in.
    pub path: Arc<Path>,
    /// Where its frame starts in the file.
    pub offset: u64,
}

/// One record as it was read: like [`Record`], without a copy of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordRef<'a> {
    /// Its position; of a record in several pieces, that of the last one.
    pub lsn: Lsn,
    /// The position after it.
    pub end: Lsn,
    /// Payload or hole.
    pub kind: RecordKind,
    /// The appender's tag.
    pub tag: u8,
    /// The payload.
    pub body: &'a [u8],
}

/// How [`Log::read_with`](crate::Log::read_with) accesses the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReadMode {
    /// By reads of about 1 MiB, the next one announced ahead. Keeps no file: if one is freed before it is read, reading
    /// ends with `CursorLost`.
    #[default]
    File,
    /// Mapped into memory, without a copy before the records themselves. The files still to be read are neither freed
    /// nor used again until the iterator is dropped.
    Map,
}

/// An iterator over records, made by [`Log::read`](crate::Log::read), [`Log::read_with`](crate::Log::read_with) and
/// [`Inspection::records`].
///
/// Yields those at or above the requested position, up to the position that was durable when it was made, in order;
/// ends after the first error. A record of several pieces is yielded if all of them lie in or behind the file that
/// holds the requested position.
///
/// # Errors
/// `Damaged`: bytes that were durable do not read back. `CursorLost`: the log freed the next records first. `Io`.
///
/// # Progress
/// Blocks on reading files and on nothing else; the log goes on.
#[derive(Debug)]
pub struct Records {
    frames: FrameReader,
    assembler: Assembler,
    /// How far the records of the frame read last were taken, and where it lies; `None` behind its last record.
    taking: Option<(Taking, Place)>,
    limit: Lsn,
    ended: bool,
    error: Option<WalError>,
}

impl Records {
    pub(crate) fn new(frames: FrameReader, from: Lsn, limit: Lsn, max_record: u64) -> Self {
        let max_record = usize::try_from(max_record).unwrap_or(usize::MAX);
        let assembler = Assembler::new(from, max_record);
        Self { frames, assembler, taking: None, limit, ended: false, error: None }
    }

    /// Returns the position behind the last frame read.
    ///
    /// # Progress
    /// Wait-free.
    pub fn position(&self) -> Lsn {
        self.frames.position()
    }

    /// Calls `visit` with every record that is left, without copying payloads; replay uses this. It allocates nothing
    /// per record, except for those of several pieces.
    ///
    /// # Errors
    /// The first one, of reading or of `visit`, which is not called again after it.
    ///
    /// # Durability
    /// The records were durable when the iterator was made.
    ///
    /// # Progress
    /// Blocks on reading files; the log goes on.
    pub fn visit<E: From<WalError>>(mut self, visit: impl FnMut(RecordRef<'_>) -> Result<(), E>) -> Result<(), E> {
        self.visit_rest(visit)
    }

    /// Does the same as [`Records::visit`] for a caller that continues behind the last record
    /// ([`Records::into_unpacker`]).
    ///
    /// # Errors
    /// As [`Records::visit`].
    ///
    /// # Durability
    /// As [`Records::visit`].
    ///
    /// # Progress
    /// Blocks on reading files; the log goes on.
    pub fn visit_rest<E: From<WalError>>(
        &mut self,
        mut visit: impl FnMut(RecordRef<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some((taking, place)) = &mut self.taking {
            while let Some(record) = self.assembler.step(self.frames.payload(), taking, place, self.limit)? {
                visit(record)?;
            }
            self.taking = None;
        }
        if let Some(error) = self.error.take() {
            return Err(error.into());
        }
        while let Some((frame, place)) = self.frames.next_frame(self.limit)?.filter(|_| !self.ended) {
            let mut stopped = None;
            let read = self.assembler.visit(&frame, &place, self.limit, |record| {
                if stopped.is_none() {
                    stopped = visit(record).err();
                }
            });
            if let Some(error) = stopped {
                return Err(error);
            }
            read?;
        }
        Ok(())
    }

    /// Returns an unpacker that continues behind the last record with bytes from another source: it has the pieces of
    /// records that are not complete there. Records that were not read yet are read and not yielded.
    ///
    /// # Errors
    /// As [`Records::visit`].
    ///
    /// # Durability
    /// The pieces in it were durable when the records were requested.
    ///
    /// # Progress
    /// Blocks on reading files; the log goes on.
    pub fn into_unpacker(mut self) -> Result<Unpacker, WalError> {
        self.visit_rest::<WalError>(|_| Ok(()))?;
        Ok(Unpacker::over(self.assembler, self.limit))
    }

    /// Begins the next frame; returns `Ok(false)` at the end.
    fn begin_frame(&mut self) -> Result<bool, WalError> {
        let Some((frame, place)) = self.frames.next_frame(self.limit)? else { return Ok(false) };
        self.taking = Some((self.assembler.begin(&frame.header)?, place));
        Ok(true)
    }

    /// Returns the next record of the current frame, copied out; `Ok(None)` behind its last one.
    fn next_in_frame(&mut self) -> Result<Option<Record>, WalError> {
        let Some((taking, place)) = &mut self.taking else { return Ok(None) };
        let record = self.assembler.step(self.frames.payload(), taking, place, self.limit)?;
        Ok(record.map(|RecordRef { lsn, end, kind, tag, body }| {
            let (body, path, offset) = (body.to_vec(), place.path.clone(), place.offset);
            Record { lsn, end, kind, tag, body, path, offset }
        }))
    }
}

impl Iterator for Records {
    type Item = Result<Record, WalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let read = match self.next_in_frame() {
                Ok(Some(record)) => return Some(Ok(record)),
                Ok(None) if self.ended => return self.error.take().map(Err),
                Ok(None) => self.begin_frame(),
                Err(error) => Err(error),
            };
            match read {
                Ok(true) => {}
                Ok(false) => (self.taking, self.ended) = (None, true),
                // The error is yielded after the records before the bad place.
                Err(error) => (self.taking, self.ended, self.error) = (None, true, Some(error)),
            }
        }
    }
}

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
