//! `Spare`: a segment file that is ready to be written to, and the two ways to get one: a new file filled with zeros,
//! or a file that held an earlier part of the log.
//!
//! # Invariants
//! - H1. A spare's header, with its own number and a fresh salt, is on disk, and so is its name, before this returns.
//! - H2. Every byte behind the header exists in the file, so that a sync of a frame changes no length and allocates
//!   nothing. They may hold frames of an earlier use: no frame counts under another salt (LOG-6). A hole that
//!   `give_back_tail` left is filled before the file is used again.
//! - H3. A new or freed file is prepared under a name that ends in `.tmp`, which opening removes: a crash in between
//!   leaves nothing that could be taken for a segment. An opening prepares a leftover under its old name (`misplaced`
//!   X2).
//!
//! Checked by `tests/recycle.rs` (crashes at every call and every block) and the crash lab.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Access, Env, File, is_full};

use crate::{
    WalError,
    format::{BLOCK_BYTES, SegmentHeader, segment_name},
};

/// A file that is ready to be written to.
#[derive(Debug)]
pub(crate) struct Spare {
    /// Its description for reading and writing.
    pub(crate) file: Arc<dyn File>,
    pub(crate) path: PathBuf,
    pub(crate) header: SegmentHeader,
}

/// Writes a new segment file under a temporary name and gives it its number. Gives up early once `stopped` returns
/// true.
pub(crate) fn prepare(
    env: &Env,
    dir: &Path,
    header: SegmentHeader,
    stopped: &dyn Fn() -> bool,
) -> Result<Spare, WalError> {
    let name = segment_name(header.number);
    let (path, temporary) = (dir.join(&name), dir.join(format!("{name}.tmp")));
    let fill = || {
        // A leftover of an earlier try; usually there is none.
        let _absent = env.files.remove(&temporary);
        let file = env.files.create(&temporary)?;
        let zeros = vec![0; usize::try_from(header.segment_bytes.min(1 << 20)).expect("at most 1 MiB")];
        let mut at = 0;
        while at < header.segment_bytes {
            if stopped() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let piece = zeros.len().min(usize::try_from(header.segment_bytes - at).unwrap_or(usize::MAX));
            file.write_at(at, &zeros[..piece])?;
            at += piece as u64;
            // In steps, so that commits in the meantime never queue behind a whole segment.
            if at.is_multiple_of(8 << 20) {
                file.sync_data()?;
            }
        }
        finish(env, &*file, &temporary, &path, header)?;
        Ok(file)
    };
    match fill() {
        Ok(file) => Ok(Spare { file, path, header }),
        Err(source) => {
            let _best_effort = env.files.remove(&temporary);
            Err(WalError::io("prepare", path, source))
        }
    }
}

/// Does the same as [`prepare`]; if the disk has no room for the whole file, makes one that takes most of the free
/// room, if that is at least `least` bytes.
pub(crate) fn prepare_what_fits(
    env: &Env,
    dir: &Path,
    header: SegmentHeader,
    least: u64,
    stopped: &dyn Fn() -> bool,
) -> Result<Spare, WalError> {
    let whole = prepare(env, dir, header, stopped);
    if !matches!(&whole, Err(WalError::Io { source, .. }) if is_full(source)) {
        return whole;
    }
    // The rest is for small writes: names, a line in MANIFEST.
    let room = env.files.free_bytes(dir).map_or(0, |free| free - free / 16);
    let segment_bytes = room / BLOCK_BYTES * BLOCK_BYTES;
    if !(least..header.segment_bytes).contains(&segment_bytes) {
        return whole;
    }
    prepare(env, dir, SegmentHeader { segment_bytes, ..header }, stopped)
}

/// Gives a new number and salt to a file that holds nothing of the log any more. Its content stays (H2).
pub(crate) fn prepare_again(env: &Env, dir: &Path, old: &Path, header: SegmentHeader) -> Result<Spare, WalError> {
    let path = dir.join(segment_name(header.number));
    let again = || {
        let file = env.files.open(old, Access::ReadWrite)?;
        file.fill_holes(header.segment_bytes)?; // those of `give_back_tail`
        finish(env, &*file, old, &path, header)?;
        Ok(file)
    };
    again()
        .map(|file| Spare { file, path: path.clone(), header })
        .map_err(|source| WalError::io("prepare", old, source))
}

/// Gives back the room behind a segment's last frame, if the disk can, and returns its bytes: nothing is written there
/// any more. The file keeps its length, since a shorter one would count as cut.
pub(crate) fn give_back_tail(env: &Env, path: &Path, until: u64, segment_bytes: u64) -> io::Result<u64> {
    let from = until.next_multiple_of(BLOCK_BYTES);
    let bytes = segment_bytes.saturating_sub(from);
    if bytes > 0 {
        env.files.open(path, Access::ReadWrite)?.punch_hole(from, bytes)?;
    }
    Ok(bytes)
}

/// Takes away a segment's name, durably, and returns the name under which the file waits to be prepared again.
pub(crate) fn set_free(env: &Env, path: &Path) -> Result<PathBuf, WalError> {
    let waiting = path.with_extension("wal.tmp");
    match env.files.replace(path, &waiting) {
        // An earlier try renamed it and then could not sync the directory.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let dir = path.parent().unwrap_or(path);
            env.files.sync_dir(dir).map_err(|source| WalError::io("sync", dir, source))?;
        }
        renamed => renamed.map_err(|source| WalError::io("rename", path, source))?,
    }
    Ok(waiting)
}

/// Removes a segment, durably.
pub(crate) fn remove(env: &Env, path: &Path) -> Result<(), WalError> {
    match env.files.remove(path) {
        // As in `set_free`.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(|source| WalError::io("remove", path, source))?,
    }
    let dir = path.parent().unwrap_or(path);
    env.files.sync_dir(dir).map_err(|source| WalError::io("sync", dir, source))
}

/// Writes the header and gives the file its name, each durable (H1).
fn finish(env: &Env, file: &dyn File, old: &Path, new: &Path, header: SegmentHeader) -> io::Result<()> {
    file.write_at(0, &header.encode())?;
    file.sync_data()?;
    if old == new { Ok(()) } else { env.files.replace(old, new) }
}
