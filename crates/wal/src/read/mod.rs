//! `Records`: reads a log's records back from its files, oldest first.
//!
//! It never reads the ring, so records that are in memory only are not yielded. `frame_reader` finds the frames,
//! `assemble` makes records of them.
//!
//! | file | holds |
//! |---|---|
//! | `window`, `source` | the bytes of a segment file, and frames made of them |
//! | `frame_reader`, `walk` | the frames of the chain, in order |
//! | `assemble`, `record_count` | records made of frames, and their number |
//! | `unpack` | records made of bytes that a shipper handed out |

pub(crate) mod assemble;
pub(crate) mod frame_reader;
pub(crate) mod record_count;
pub(crate) mod source;
pub(crate) mod unpack;
pub(crate) mod walk;
pub(crate) mod window;

use std::{path::Path, sync::Arc};

use collie_base::Lsn;

use crate::{
    Unpacker, WalError, format::decode::RecordKind, read::assemble::Assembler, read::assemble::Place,
    read::assemble::Taking, read::frame_reader::FrameReader,
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
