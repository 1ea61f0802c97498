//! Shared rings that no log can need any more. They are removed when a log is opened with a ring in the same directory.
//!
//! A clean close removes the ring. The ring of a killed process waits for the next opening of its log. That opening
//! never happens if the directory was deleted, and it does not find the ring if it uses another `wal.ring_dir`: then
//! the ring would use memory until the next boot.
//!
//! # Invariants
//! - D1. Only a ring is removed: a file that belongs to this user alone, has a readable header, lies under the name
//!   that the header requires, and is of this boot.
//! - D2. No ring of a running process is removed: that process has claimed it (G4 of `collie_env::SharedMemory`),
//!   wherever its directory is now.
//! - D3. No ring is removed from which an opening may take records. Two kinds are safe: a ring whose directory is where
//!   it was and has begun a later incarnation, because the ring then does not count (X1 of `dead_ring`); and a ring
//!   whose directory is not where it was, if all its records are on disk: if the directory was moved, its files have
//!   them. A ring with records that no file has is kept if its directory is not found, because the directory may come
//!   back under another name.
//! - D4. A ring is removed together with its claim, so that a new ring under the same name, which the next opening of
//!   that directory makes, is not.
//!
//! Rings of program versions that did not store the path of the directory are kept.
//!
//! Checked by `tests/dead_rings.rs`.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_env::{Env, File};

use crate::{
    WalError,
    append::ring_file::{Header, ring_path},
    format::decode::HeaderBlock,
    format::{BLOCK, BLOCK_BYTES, REASON_REWRITE, segment_number},
    read::source::FrameSource,
    read::window::Window,
    recovery::dead_ring::DeadRing,
};

/// Removes the rings in `ring_dir` that no log can need any more. Rings that cannot be read or removed stay.
pub(crate) fn remove(env: &Env, ring_dir: &Path) {
    let (Ok(boot_id), Ok(paths)) = (env.memory.boot_id(), env.memory.list(ring_dir)) else { return };
    let is_ring = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("collie-") && name.ends_with(".ring")
    };
    for path in paths.iter().filter(is_ring) {
        let Ok(claimed) = env.memory.claim(path) else { continue }; // D2
        if is_needless(env, path, &claimed, boot_id).unwrap_or(false) {
            // Removed under its claim (D4). If that fails, the next opening tries again.
            let _removed = env.memory.remove(path);
        }
    }
}

/// Returns whether the ring may be removed (D1, D3).
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
        // The directory may exist, behind a directory that this user cannot read.
        Err(error) => return Err(io(error)),
    };
    if is_there {
        return Ok(incarnation_at(env, dir, &owner.log_id)?.is_some_and(|at| at > owner.incarnation));
    }
    DeadRing::is_on_disk(ring, path, &header).map_err(io)
}

/// Returns an incarnation that the log `log_id` in `dir` has reached: the highest among the first LINKs of its segments
/// that do not belong to the rewrite of an opening.
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
            // A rewrite may come from an opening that was cut short.
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
