//! `cut_above`: whether a log lacks the durable end of a stale copy because it was cut offline.
//!
//! An offline cut (`truncate`) is made in one directory; the others still hold the records that it removed. If they
//! know of durable frames that the cut directory lacks, this does not prove that they diverged.
//!
//! # Invariants
//! - X1. A cut explains frames of a copy beyond it only if the copy is from an incarnation before the cut: a copy that
//!   was opened since, without the cut directory, has diverged.
//! - X2. It explains them only if copy and log are equal up to the frame from which the cut continues: from the last
//!   frame that both have up to that one, the copy's file has no other frame and no other salt.
//!
//! Checked by `cut_tests`.

use std::{io, path::Path};

use collie_base::Lsn;
use collie_env::Files;

use super::census::Witness;
use crate::{
    WalError,
    format::decode::HeaderBlock,
    format::{BLOCK_BYTES, REASON_TRUNCATE},
    read::source::FrameSource,
    read::window::Window,
};

/// The log with which a copy is compared: the segments `names` in `dir`, oldest first.
pub(super) struct Reference<'a> {
    pub(super) files: &'a dyn Files,
    pub(super) dir: &'a Path,
    pub(super) names: &'a [&'a str],
}

/// The frame from which a cut continues, as its LINK names it.
#[derive(Clone, Copy)]
struct Anchor {
    end: Lsn,
    crc: u32,
}

/// The offset of a frame in its segment, and its checksum.
struct Place {
    offset: u64,
    crc: u32,
}

/// Returns whether `log` lacks `witness`, a frame of the copy in `copy_dir`, because it was cut below that frame after
/// the copy's last incarnation.
///
/// # Errors
/// `Io` if the log cannot be read. A copy that cannot be read is no error: it explains nothing.
pub(super) fn cut_above(
    log: &Reference<'_>,
    copy_files: &dyn Files,
    copy_dir: &Path,
    witness: &Witness,
) -> Result<bool, WalError> {
    let Some(life) = witness.life else { return Ok(false) };
    for (at, name) in log.names.iter().enumerate().rev() {
        let Some(anchor) = log.cut_made_by(name, life, witness.end)? else { continue };
        for older in log.names[..at].iter().rev() {
            let Some((salt, places)) = log.places_up_to(older, anchor)? else { continue };
            // An unreadable frame of the copy counts like one with a wrong checksum.
            return Ok(shares(copy_files, &copy_dir.join(older), salt, &places).unwrap_or(false));
        }
    }
    Ok(false)
}

impl Reference<'_> {
    fn open(&self, name: &str) -> Result<Option<(Window, u64)>, WalError> {
        let mut window = match Window::open(self.files, self.dir.join(name)) {
            // It was freed in the meantime.
            Err(WalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        Ok(match window.segment_header()? {
            HeaderBlock::Segment(header) => Some((window, header.salt)),
            _ => None,
        })
    }

    /// Returns the anchor of the cut with which segment `name` begins, if that cut came after `life` and removed `end`
    /// (X1).
    fn cut_made_by(&self, name: &str, life: u64, end: Lsn) -> Result<Option<Anchor>, WalError> {
        let Some((mut window, salt)) = self.open(name)? else { return Ok(None) };
        let Ok(frame) = window.frame_at(BLOCK_BYTES, Some(salt))? else { return Ok(None) };
        let cut = frame.header.link.filter(|link| link.reason == REASON_TRUNCATE);
        let cut = cut.filter(|link| link.incarnation > life && link.previous_end < end);
        Ok(cut.map(|link| Anchor { end: link.previous_end, crc: frame.header.previous_crc }))
    }

    /// Returns the salt and the frames of segment `name` up to the anchor; `None` if the anchor is not in it.
    fn places_up_to(&self, name: &str, anchor: Anchor) -> Result<Option<(u64, Vec<Place>)>, WalError> {
        let Some((mut window, salt)) = self.open(name)? else { return Ok(None) };
        let (mut offset, mut places) = (BLOCK_BYTES, Vec::new());
        while let Ok(frame) = window.frame_at(offset, Some(salt))? {
            places.push(Place { offset, crc: frame.crc });
            if (frame.header.end(), frame.crc) == (anchor.end, anchor.crc) {
                return Ok(Some((salt, places)));
            }
            offset = frame.next_offset;
        }
        Ok(None)
    }
}

/// Returns whether the copy's segment holds the same frame at the last of `places` at which it holds a valid one (X2).
fn shares(files: &dyn Files, path: &Path, salt: u64, places: &[Place]) -> Result<bool, WalError> {
    let mut window = Window::open(files, path.to_owned())?;
    if matches!(window.segment_header()?, HeaderBlock::Segment(header) if header.salt != salt) {
        return Ok(false);
    }
    for place in places.iter().rev() {
        if let Ok(frame) = window.frame_at(place.offset, Some(salt))? {
            return Ok(frame.crc == place.crc);
        }
    }
    Ok(false)
}
