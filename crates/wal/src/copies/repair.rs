//! Repair: makes every copy hold the chain of the log, each frame from any copy that has it, and returns what it did.
//!
//! # Invariants
//! - R1. A frame that is valid in an up-to-date copy is never overwritten; a rotten one is written in place, from the
//!   merged view. Every other difference is repaired by a whole new file under a temporary name, synced, renamed.
//! - R2. A stale copy first loses the files that are not part of the chain, then gets its segments in order, oldest
//!   first, each durable before the next: after a crash it holds the newest LINK only if it holds everything before
//!   (`census`).
//! - R3. Every step may be repeated: after a crash on the way the same copies are up to date.
//! - R4. All of it is durable before the opening writes its first frame.
//! - R5. A copy is marked [`INCOMPLETE`] before R2 begins; the mark is removed when a LINK that counts the copy is
//!   durable.
//! - R6. Bytes of a copy behind the last position that it knows to be durable may be only in the page cache: an
//!   up-to-date copy is synced from there on; a stale one, whose last sync may have failed, gets those segments again.
//! - R7. An up-to-date copy gets missing files newest first: older ones that it had freed leave no gap while they come
//!   back from a stale copy, so that at every moment the copy would open alone as before.
//! - R8. A copy that cannot be written stays as it is: the chain was read with its content, and is whole in the others.
//!
//! Checked by `copies/tests.rs`, which cuts the power at every call of a repair.

use std::{
    collections::BTreeSet,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Access, File, Files};

use super::{
    census::{Census, INCOMPLETE},
    merge::{CopyDir, MergedFiles},
};
use crate::{
    WalError,
    format::{BLOCK, BLOCK_BYTES, segment_number},
    read::source::FrameSource,
    read::window::Window,
    segment::Span,
};

/// The outcome of a repair.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repairs {
    /// Number of frames and header blocks written in place, and of files rewritten.
    pub(crate) count: u64,
    /// One line per copy and segment, or one for a copy that was filled.
    pub(crate) notes: Vec<String>,
}

/// Makes the copies equal to the chain that `spans` name, as `merged` presents it.
///
/// # Errors
/// `Io`, naming the copy; completed repairs stay.
pub(crate) fn repair(
    files: &Arc<dyn Files>,
    merged: &MergedFiles,
    census: &Census,
    spans: &[Span],
) -> Result<Repairs, WalError> {
    let spans: Vec<&Span> = spans.iter().filter(|span| span.until != Some(BLOCK_BYTES)).collect();
    let mut repairs = Repairs::default();
    let is_written = |copy: &&CopyDir| census.why_left_out(copy).is_none();
    for (index, copy) in census.holders.iter().enumerate().filter(|(_, copy)| is_written(copy)) {
        // R7.
        for span in spans.iter().rev().filter(|span| merged.suspects(index, &span.path)) {
            mend(&**files, merged, copy, span, &mut repairs)?;
        }
        // R6.
        for span in spans.iter().filter(|span| census.is_doubtful(copy, &name_of(span))) {
            let path = path_in(copy, span);
            let synced = files.open(&path, Access::ReadWrite).and_then(|file| file.sync_data());
            synced.map_err(|source| WalError::io("sync", path, source))?;
        }
    }
    let stale = census.stale.iter().map(|copy| (copy, "stale"));
    let others = stale.chain(census.empty.iter().map(|copy| (copy, "empty")));
    for (copy, what) in others.filter(|(copy, _)| is_written(copy)) {
        if census.has_log() {
            // R5: the mark is durable before the copy gets anything.
            mark(&**files, &copy.dir).map_err(|source| WalError::io("mark", &copy.dir, source))?;
        }
        clear(&**files, &copy.dir, &names_of(&spans))?;
        let before = repairs.count;
        for span in &spans {
            if census.is_doubtful(copy, &name_of(span)) || !is_same(&**files, merged, copy, span) {
                write_anew(&**files, merged, copy, span)?;
                repairs.count += 1;
            }
        }
        if spans.is_empty() {
            // A new log.
            continue;
        }
        repairs.notes.push(format!(
            "wal: the copy in {} was {what}: {} of {} segments written from the others",
            copy.dir.display(),
            repairs.count - before,
            spans.len()
        ));
    }
    Ok(repairs)
}

/// Marks a copy that is about to be filled (`census` S4), durably.
pub(super) fn mark(files: &dyn Files, dir: &Path) -> io::Result<()> {
    if mistake!("COPY_MARK_SKIPPED") {
        return Ok(());
    }
    match files.create(&dir.join(INCOMPLETE)) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        made => drop(made?),
    }
    files.sync_dir(dir)
}

/// Removes the mark: a LINK counts the copy.
pub(super) fn unmark(files: &dyn Files, dir: &Path) -> io::Result<()> {
    match files.remove(&dir.join(INCOMPLETE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| files.sync_dir(dir)),
    }
}

/// Removes segments without records of the log from all copies: spares and void ones.
pub(crate) fn clear_leftovers(files: &dyn Files, census: &Census, spans: &[Span]) -> Result<(), WalError> {
    let keep = names_of(&spans.iter().collect::<Vec<_>>());
    census.usable().try_for_each(|copy| clear(files, &copy.dir, &keep))
}

fn names_of(spans: &[&Span]) -> BTreeSet<String> {
    spans.iter().map(|span| name_of(span)).collect()
}

fn name_of(span: &Span) -> String {
    span.path.file_name().expect("a segment has a name").to_string_lossy().into_owned()
}

/// Removes the segments in `dir` that are not in `keep`, newest first, so that the rest never looks like a whole log.
fn clear(files: &dyn Files, dir: &Path, keep: &BTreeSet<String>) -> Result<(), WalError> {
    let names = files.list(dir).map_err(|source| WalError::io("list", dir, source))?;
    for name in names.iter().rev().filter(|name| segment_number(name).is_some() && !keep.contains(*name)) {
        let path = dir.join(name);
        files.remove(&path).map_err(|source| WalError::io("remove", path, source))?;
        files.sync_dir(dir).map_err(|source| WalError::io("sync", dir, source))?;
    }
    Ok(())
}

/// A segment in one copy, with its merged view.
struct Pair {
    path: PathBuf,
    good: Window,
    target: Arc<dyn File>,
    bytes: u64,
}

impl Pair {
    fn open(files: &dyn Files, merged: &dyn Files, copy: &CopyDir, span: &Span) -> Result<Self, WalError> {
        let path = path_in(copy, span);
        let good = Window::open(merged, span.path.clone())?;
        let io = |source| WalError::io("open", &path, source);
        let target = files.open(&path, Access::ReadWrite).map_err(io)?;
        let bytes = target.len().map_err(io)?;
        Ok(Self { good, target, bytes, path })
    }

    /// Returns the good bytes of a range if the copy's bytes differ there.
    fn difference(&mut self, offset: u64, len: u64) -> Result<Option<Vec<u8>>, WalError> {
        let len = usize::try_from(len).expect("a block or a frame");
        let good = self.good.bytes_at(offset, len)?;
        let mut held = vec![0; len];
        // A sector that cannot be read differs.
        let read = self.target.read_at(offset, &mut held).unwrap_or(0);
        Ok((read < len || held != good).then(|| good.to_vec()))
    }
}

fn path_in(copy: &CopyDir, span: &Span) -> PathBuf {
    copy.dir.join(span.path.file_name().expect("a segment has a name"))
}

/// Repairs one segment of an up-to-date copy, in place where that is safe (R1).
fn mend(
    files: &dyn Files,
    merged: &dyn Files,
    copy: &CopyDir,
    span: &Span,
    repairs: &mut Repairs,
) -> Result<(), WalError> {
    let until = span.until.unwrap_or(BLOCK_BYTES);
    let pair = match Pair::open(files, merged, copy, span) {
        Err(WalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        pair => Some(pair?),
    };
    let shorter = |pair: &Pair| pair.bytes < until;
    let Some(mut pair) = pair.filter(|pair| !shorter(pair) && !carries_another_salt(files, pair, span.salt)) else {
        write_anew(files, merged, copy, span)?;
        repairs.count += 1;
        let path = path_in(copy, span);
        repairs.notes.push(format!("wal: {} was missing or cut short: written from another copy", path.display()));
        return Ok(());
    };
    let (mut rotten, mut first) = (0, None);
    let (mut offset, mut len) = (0, BLOCK as u64);
    while offset < until {
        if let Some(good) = pair.difference(offset, len)? {
            let written = pair.target.write_at(offset, &good);
            written.map_err(|source| WalError::io("write", &pair.path, source))?;
            rotten += 1;
            first.get_or_insert(offset);
        }
        offset += len;
        len = match pair.good.frame_at(offset, Some(span.salt))? {
            Ok(frame) => frame.next_offset - offset,
            Err(_) => break,
        };
    }
    if let Some(first) = first {
        pair.target.sync_data().map_err(|source| WalError::io("sync", &pair.path, source))?;
        repairs.count += rotten;
        repairs.notes.push(format!(
            "wal: repaired {rotten} damaged frames of {} from another copy, the first at offset {first}",
            pair.path.display()
        ));
    }
    Ok(())
}

/// Returns whether the copy's file has a valid header of another use.
fn carries_another_salt(files: &dyn Files, pair: &Pair, salt: u64) -> bool {
    let header = Window::open(files, pair.path.clone()).and_then(|mut window| window.segment_header());
    matches!(header, Ok(crate::format::decode::HeaderBlock::Segment(header)) if header.salt != salt)
}

/// Returns whether the segment of a stale copy is equal to the good one, with no other frame in it.
fn is_same(files: &dyn Files, merged: &dyn Files, copy: &CopyDir, span: &Span) -> bool {
    let compare = || -> Result<bool, WalError> {
        let mut pair = Pair::open(files, merged, copy, span)?;
        if pair.bytes != span.segment_bytes {
            return Ok(false);
        }
        let mut offset = 0;
        while offset < pair.bytes {
            let len = (pair.bytes - offset).min(1 << 20);
            if pair.difference(offset, len)?.is_some() {
                return Ok(false);
            }
            offset += len;
        }
        Ok(true)
    };
    // A segment that cannot be read is written again.
    compare().unwrap_or(false)
}

/// Rewrites a whole segment of a copy from the merged view.
fn write_anew(files: &dyn Files, merged: &dyn Files, copy: &CopyDir, span: &Span) -> Result<(), WalError> {
    let path = path_in(copy, span);
    let from = merged.open(&span.path, Access::Read).map_err(|source| WalError::io("open", &span.path, source))?;
    copy_file(&*from, files, &path, span.segment_bytes).map_err(|source| WalError::io("write", path, source))
}

/// Copies `bytes` of a file to `path`, under a temporary name until it is whole and synced.
pub(crate) fn copy_file(from: &dyn File, files: &dyn Files, path: &Path, bytes: u64) -> io::Result<()> {
    // It differs from the name under which a segment is prepared; the opening removes such files.
    let temporary = path.with_extension("copy.wal.tmp");
    let _absent = files.remove(&temporary);
    let to = files.create(&temporary)?;
    let mut piece = vec![0; usize::try_from(bytes.min(1 << 20)).expect("at most 1 MiB")];
    let mut offset = 0;
    while offset < bytes {
        let len = usize::try_from((bytes - offset).min(piece.len() as u64)).expect("at most 1 MiB");
        let read = from.read_at(offset, &mut piece[..len])?;
        // Behind the end of a file that was cut short.
        piece[read..len].fill(0);
        to.write_at(offset, &piece[..len])?;
        offset += len as u64;
    }
    to.sync_data()?;
    files.replace(&temporary, path)
}
