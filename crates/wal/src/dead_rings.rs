//! Shared rings that no log can need any more, removed when a log is opened with a ring in the same directory.
//!
//! A ring goes with a clean close. That of a killed process waits for the next opening of its log, which never comes when the directory was
//! deleted, or finds nothing when that opening looks in another `wal.ring_dir`: then it would take up memory until the next boot.
//!
//! # Invariants
//! - D1. Only a ring is removed: a file of this user alone, with a header that reads, under the name that the header calls for, of this boot.
//! - D2. No ring of a running process is removed: that process has claimed it (G4 of `collie_env::SharedMemory`), wherever its directory is now.
//! - D3. No ring is removed from which an opening may take something. That is certain of two:
//!   of one whose directory is where it was and has begun a later incarnation, which X1 of `dead_ring` says does not count; and of one whose
//!   directory is not where it was, when everything in it was on disk: should the directory have been moved, its files have it all.
//!   A ring with records that no file has is kept for a directory that is not to be found, since it may come back under another name.
//! - D4. A ring is removed with its claim, so a successor under its name, which the next opening of that directory makes, is not.
//!
//! Rings of programs that did not write where the directory was are kept.
//!
//! Checked by `dead_rings_tests`.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Env, File};

use crate::{
    WalError,
    dead_ring::DeadRing,
    decode::HeaderBlock,
    format::{BLOCK, BLOCK_BYTES, REASON_REWRITE, segment_number},
    ring_file::{Header, ring_path},
    source::FrameSource,
    window::Window,
};

/// Removes the rings in `ring_dir` that no log can need any more. What cannot be read or removed stays.
pub(crate) fn remove(env: &Env, ring_dir: &Path) {
    let (Ok(boot_id), Ok(paths)) = (env.memory.boot_id(), env.memory.list(ring_dir)) else { return };
    let is_ring = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("collie-") && name.ends_with(".ring")
    };
    for path in paths.iter().filter(is_ring) {
        let Ok(claimed) = env.memory.claim(path) else { continue }; // D2
        if is_needless(env, path, &claimed, boot_id).unwrap_or(false) {
            // With its claim (D4). The next opening tries again.
            let _removed = env.memory.remove(path);
        }
    }
}

/// D1, D3.
fn is_needless(env: &Env, path: &Path, ring: &Arc<dyn File>, boot_id: [u8; 16]) -> Result<bool, WalError> {
    let io = |source| WalError::io("read the shared ring", path, source);
    let mut block = vec![0; BLOCK];
    let count = ring.read_at(0, &mut block).map_err(io)?;
    let Ok(header) = Header::decode(block.get(..count).unwrap_or_default()) else { return Ok(false) };
    let Header { owner, dir: Some(dir), .. } = &header else { return Ok(false) };
    let ring_dir = path.parent().unwrap_or(Path::new(""));
    if owner.boot_id != boot_id || ring_path(ring_dir, &owner.log_id, owner.directory_id) != path {
        return Ok(false);
    }
    let is_there = match env.files.list(dir) {
        Ok(_) => env.memory.directory_id(dir).map_err(io)? == owner.directory_id,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => false,
        // It may be there, behind a directory that this user cannot read.
        Err(error) => return Err(io(error)),
    };
    if is_there {
        return Ok(incarnation_at(env, dir, &owner.log_id)?.is_some_and(|at| at > owner.incarnation));
    }
    DeadRing::is_on_disk(ring, path, &header).map_err(io)
}

/// Returns an incarnation that the log `log_id` in `dir` has come to: the highest of those that begin in one of its segments, behind what an
/// opening has written again.
fn incarnation_at(env: &Env, dir: &Path, log_id: &[u8; 16]) -> Result<Option<u64>, WalError> {
    let names = env.files.list(dir).map_err(|source| WalError::io("list", dir, source))?;
    let mut highest = None;
    for name in names.iter().filter(|name| segment_number(name).is_some()) {
        let mut window = Window::open(&*env.files, dir.join(name))?;
        let HeaderBlock::Segment(segment) = window.segment_header()? else { continue };
        if segment.log_id != *log_id {
            return Ok(None);
        }
        let mut offset = BLOCK_BYTES;
        while let Ok(frame) = window.frame_at(offset, Some(segment.salt))? {
            offset = frame.next_offset;
            // A rewrite may be that of an opening that was cut short.
            if let Some(link) = frame.header.link
                && link.reason != REASON_REWRITE
            {
                highest = highest.max(Some(link.incarnation));
                break;
            }
        }
    }
    Ok(highest)
}
