//! Explains faults in the set of files other than bytes that do not read back: a file that is missing, that was
//! shortened by a copy, or that has the name of another. The error then names the file to put back, not a checksum.
//!
//! # Invariants
//! - X1. A segment has its full size before its header is written (`spare` H1), so a smaller one was cut or copied in
//!   part. The bytes behind the cut are unknown; therefore the log is not opened as if none had been there.
//! - X2. A file whose header carries another number is a spare that was not renamed yet and holds no frame, or a copy.
//! - X3. A file is called missing only if numbers are missing between the end of the chain and the first file that does
//!   not join, nothing was begun behind that end, and that file continues from records that are not there.
//!
//! Checked by `tests/misplaced.rs`; the crash lab checks that no crash looks like this.

use std::path::{Path, PathBuf};

use collie_base::Lsn;
use collie_env::Files;

use crate::{
    WalError, format::BLOCK, format::BLOCK_BYTES, format::SegmentHeader, format::decode::Bad, format::segment_name,
    format::segment_number, read::source::FrameSource, read::window::Window, scan::Damage, scan::Scan,
};

/// Why the log ends before it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Bytes do not read back.
    Bytes,
    /// The last file that joins is shorter than it was.
    Shortened(Shortened),
    /// Files are missing.
    Missing(String),
}

/// A segment that is smaller than its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortened {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) segment_bytes: u64,
}

/// Refuses a segment whose name has another number than its header, unless it is a spare that was not renamed yet (X2).
pub(crate) fn refuse_wrong_name(window: &mut Window, path: &Path, header: &SegmentHeader) -> Result<(), WalError> {
    if window.frame_at(BLOCK_BYTES, Some(header.salt))?.is_err() {
        return Ok(());
    }
    Err(WalError::WrongName { path: path.to_owned(), name: segment_name(header.number) })
}

/// Returns the number in a file's name.
fn number_of(path: &Path) -> Option<u64> {
    segment_number(&path.file_name()?.to_string_lossy())
}

/// Determines whether the chain ends for a reason that a checksum does not show.
pub(crate) fn explain(files: &dyn Files, scan: &mut Scan, shortened: &[Shortened]) -> Result<(), WalError> {
    let Some((tail, offset)) = scan.tail().map(|(path, offset)| (path.to_owned(), offset)) else { return Ok(()) };
    if let Some(short) = shortened.iter().find(|short| short.path == tail) {
        // X1: even if no frame that is left proves it.
        let durable = scan.damage.as_ref().map_or(scan.durable, |damage| damage.durable);
        let (lsn, offset, bad) = (scan.end, short.bytes, Bad { stored: 0, computed: 0 });
        let cause = Cause::Shortened(short.clone());
        scan.damage = Some(Damage { lsn, path: tail, offset, bad, durable, cause });
        return Ok(());
    }
    if scan.damage.is_none() || scan.torn_bytes > 0 || was_begun(files, &tail, offset)? {
        return Ok(());
    }
    let Some(names) = missing_behind(files, scan, &tail)? else { return Ok(()) };
    if let Some(damage) = &mut scan.damage {
        damage.cause = Cause::Missing(names);
    }
    Ok(())
}

/// Returns whether a write to this use of the file began at `offset`: the bytes there are neither zeros nor a whole
/// frame.
fn was_begun(files: &dyn Files, path: &Path, offset: u64) -> Result<bool, WalError> {
    let mut window = Window::open(files, path.to_owned())?;
    if window.frame_at(offset, None)?.is_ok() {
        return Ok(false);
    }
    Ok(window.bytes_at(offset, BLOCK)?.iter().any(|byte| *byte != 0))
}

/// Returns a phrase that names the files missing behind the last one of the chain (X3), if any are.
fn missing_behind(files: &dyn Files, scan: &Scan, tail: &Path) -> Result<Option<String>, WalError> {
    let Some(last) = number_of(tail) else { return Ok(None) };
    let behind = scan.leftovers.iter().filter(|file| file.lost_frames && file.number > last);
    let Some(next) = behind.min_by_key(|file| file.number) else { return Ok(None) };
    let mut window = Window::open(files, next.path.clone())?;
    let Ok(frame) = window.frame_at(BLOCK_BYTES, None)? else { return Ok(None) };
    if frame.header.link.is_none_or(|link| link.previous_end <= scan.end) {
        return Ok(None);
    }
    let present = |number: &u64| scan.leftovers.iter().any(|file| file.number == *number);
    // Each search steps over present files only, however far apart the numbers are.
    let between = last + 1..next.number;
    let ends = between.clone().find(|number| !present(number)).zip(between.rev().find(|number| !present(number)));
    Ok(ends.map(|(first, last)| {
        if first == last {
            format!("segment {} is missing", segment_name(first))
        } else {
            format!("segments {} to {} are missing", segment_name(first), segment_name(last))
        }
    }))
}

/// Refuses a log that starts above what the caller's checkpoint needs.
pub(crate) fn refuse_late_start(scan: &Scan, needed: Option<Lsn>) -> Result<(), WalError> {
    let Some((first, needed)) = scan.spans.first().zip(needed) else { return Ok(()) };
    let start = first.first;
    if needed >= start {
        return Ok(());
    }
    let before = number_of(&first.path).unwrap_or(1).saturating_sub(1);
    Err(WalError::MissingStart { start, needed, missing: segment_name(before) })
}
