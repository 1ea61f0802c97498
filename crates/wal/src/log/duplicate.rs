//! `LogPin`: keeps the log of a running database from a position on, and copies it to another directory as an
//! independent log.
//!
//! A copy holds the files with records from the pinned position on, each up to the end of its frames, the last one up
//! to its last durable frame. It does not hold spares, cursors of consumers, the ring, or anything behind the last
//! durable frame.
//!
//! The copy ends with a cut at its end (`truncate`): one more file, whose LINK counts one copy and whose last frame
//! names everything below as durable. So it opens alone however many copies its source keeps, its tail cannot rot
//! unnoticed, and its next incarnation begins above every position that its source may have handed out so far.
//!
//! # Invariants
//! - D1. No byte behind the last durable frame is read: a copy holds nothing that its source could still lose.
//! - D2. A copy has an id of its own: neither the copies of its source (`wal.copies`) nor its source's ring are ever
//!   taken for its own.
//! - D3. While the pin exists, no file with records at or above its position is freed (`retention_pins` K1).
//!
//! Checked by `tests/duplicate.rs`.

use std::path::Path;

use collie_base::Lsn;
use collie_env::{Access, Env};

use crate::{
    Log, WalError,
    format::decode::HeaderBlock,
    format::{BLOCK_BYTES, SegmentHeader, segment_name, segment_number},
    read::window::Window,
    recovery::truncate,
    segment::Span,
    segment::retention_pins::RetentionPin,
};

/// Number of bytes copied at a time.
const COPY_BYTES: u64 = 1 << 20;

/// The range of a copied log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Duplicate {
    /// Its start; at or below the pinned position.
    pub start: Lsn,
    /// Its end: the position up to which its source was durable.
    pub end: Lsn,
}

/// A position of a running log from which on its files are kept, until the pin is dropped.
#[derive(Debug)]
pub struct LogPin {
    log: Log,
    hold: RetentionPin,
}

impl Log {
    /// Keeps the files with records at or above `from` until the pin is dropped. Figures and errors name `who` as the
    /// holder.
    ///
    /// # Progress
    /// Short mutexes, no I/O.
    pub fn pin(&self, from: Lsn, who: &str) -> LogPin {
        let (hold, _spans) = self.flusher().segments.hold_from(from, who.to_owned(), None);
        LogPin { log: self.clone(), hold }
    }
}

impl LogPin {
    /// Copies the log from the pinned position up to the durable position of now into `dir`, which exists and is empty.
    /// Calls `step` with the number of bytes of each piece; an error of `step` ends the copy.
    ///
    /// # Errors
    /// Those of `step`; `Damaged` and similar errors if durable bytes do not read back; `Io`. After an error the
    /// content of `dir` is undefined.
    ///
    /// # Durability
    /// The copy survives a power cut once this returns, except for the name of `dir`.
    ///
    /// # Progress
    /// Blocks on reading the log three times, to copy, to check and to end it. The log itself continues.
    pub fn copy_to<E: From<WalError>>(
        &self,
        env: &Env,
        dir: &Path,
        step: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<Duplicate, E> {
        let core = self.log.core();
        let segments = &core.flusher.segments;
        // In this order: everything durable lies in the segments that are listed afterwards.
        let end = core.flusher.recent.durable_end(self.log.durable());
        let from = self.hold.lsn();
        let (_held, spans) = segments.hold_from(from, "a copy of the log".to_owned(), None);
        let first = spans.iter().rposition(|span| span.first <= from).unwrap_or(0);
        let log_id = draw_id(env);
        for span in spans.iter().skip(first) {
            let is_last = *span.path == *end.path;
            let until = if is_last { end.offset } else { span.until.unwrap_or(BLOCK_BYTES) };
            if until > BLOCK_BYTES {
                self.copy_segment(env, dir, span, until, log_id, step)?;
            }
            if is_last {
                break;
            }
        }
        let (start, sealed) = truncate::seal(env, dir)?;
        if sealed < end.lsn {
            let (lsn, path, offset) = (sealed, end.path.to_path_buf(), end.offset);
            return Err(WalError::Damaged { lsn, path, offset, stored: 0, computed: 0, durable: end.lsn }.into());
        }
        Ok(Duplicate { start, end: sealed })
    }

    /// Copies a segment as one that is as long as its frames.
    fn copy_segment<E: From<WalError>>(
        &self,
        env: &Env,
        dir: &Path,
        span: &Span,
        until: u64,
        log_id: [u8; 16],
        step: &mut dyn FnMut(u64) -> Result<(), E>,
    ) -> Result<(), E> {
        let name = span.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let number = segment_number(&name).unwrap_or(0);
        let to = dir.join(segment_name(number));
        let (reading, writing) =
            (|source| WalError::io("read", &span.path, source), |source| WalError::io("write", &to, source));
        let source = self.log.core().env.files.open(&span.path, Access::Read).map_err(reading)?;
        let target = env.files.create(&to).map_err(writing)?;
        let header = SegmentHeader { log_id, number, salt: span.salt, segment_bytes: until };
        target.write_at(0, &header.encode()).map_err(writing)?;
        let mut piece = vec![0; usize::try_from(COPY_BYTES).expect("1 MiB")];
        let mut at = BLOCK_BYTES;
        while at < until {
            let wanted = usize::try_from(COPY_BYTES.min(until - at)).expect("at most 1 MiB");
            let piece = &mut piece[..wanted];
            let count = source.read_at(at, piece).map_err(reading)?;
            if count < wanted {
                return Err(reading(std::io::ErrorKind::UnexpectedEof.into()).into());
            }
            target.write_at(at, piece).map_err(writing)?;
            at += wanted as u64;
            step(wanted as u64)?;
        }
        target.sync_data().map_err(writing)?;
        Ok(())
    }
}

/// Gives the closed log in `dir` a new id, so that it is never taken for the one that it was copied from (D2).
///
/// # Errors
/// `Io`: then some of its files may have the new id, and opening the log is refused.
///
/// # Durability
/// The new id is on disk once this returns.
///
/// # Progress
/// Blocks on reading, writing and syncing a block of each file.
pub fn give_new_id(env: &Env, dir: &Path) -> Result<(), WalError> {
    let log_id = draw_id(env);
    for name in env.files.list(dir).map_err(|source| WalError::io("list", dir, source))? {
        if segment_number(&name).is_none() {
            continue;
        }
        let path = dir.join(&name);
        let HeaderBlock::Segment(header) = Window::open(&*env.files, path.clone())?.segment_header()? else { continue };
        let write = || -> std::io::Result<()> {
            let file = env.files.open(&path, Access::ReadWrite)?;
            file.write_at(0, &SegmentHeader { log_id, ..header }.encode())?;
            file.sync_data()
        };
        write().map_err(|source| WalError::io("write", &path, source))?;
    }
    Ok(())
}

fn draw_id(env: &Env) -> [u8; 16] {
    let mut id = [0; 16];
    env.random.fill(&mut id);
    id
}
