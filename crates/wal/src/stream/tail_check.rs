//! `TailCheck`: a checksum over the last bytes of the stream, by which two logs verify that they hold the same records
//! below a position, and a checksum over any stretch of it. Equal positions alone do not prove that.
//!
//! Frames, files and padding play no part: two logs that cut the same stream into other frames agree.

use std::sync::Arc;

use collie_base::{
    Lsn,
    checksum::{Crc32c, crc32c},
};

use crate::{WalError, core::Core, read::frame_reader::FrameReader, read::frame_reader::Running};

/// Largest number of bytes of the stream that a check covers.
pub const TAIL_CHECK_BYTES: u32 = 64 << 10;

/// The checksum of the last bytes of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailCheck {
    /// Where the stream ends.
    pub end: Lsn,
    /// How many bytes before it are covered: [`TAIL_CHECK_BYTES`], or fewer if the log or an incarnation begins among
    /// them.
    pub bytes: u32,
    /// CRC-32C of them.
    pub crc32c: u32,
}

/// Returns the check of the stream below the durable position `end`.
pub(crate) fn tail_check(core: &Arc<Core>, end: Lsn) -> Result<TailCheck, WalError> {
    let bytes = stream_before(core, end, TAIL_CHECK_BYTES)?;
    let count = u32::try_from(bytes.len()).expect("at most TAIL_CHECK_BYTES");
    Ok(TailCheck { end, bytes: count, crc32c: crc32c(&bytes) })
}

/// Returns the checksum of the `bytes` bytes before `end`; `None` if they are not all there.
pub(crate) fn crc_before(core: &Arc<Core>, end: Lsn, bytes: u32) -> Result<Option<u32>, WalError> {
    if bytes > TAIL_CHECK_BYTES || end > core.flusher.durable.load() {
        return Ok(None);
    }
    let found = match stream_before(core, end, bytes) {
        Ok(found) => found,
        Err(WalError::CursorLost { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    Ok((found.len() == bytes as usize).then(|| crc32c(&found)))
}

/// Returns the checksum of the stream from `from` to `to`, and of where it jumps between; `None` if it is not all
/// there.
pub(crate) fn crc_between(core: &Arc<Core>, from: Lsn, to: Lsn) -> Result<Option<u32>, WalError> {
    let is_there = core.flusher.segments.spans().first().is_some_and(|span| span.first <= from);
    if !is_there || from >= to || to > core.flusher.durable.load() {
        return Ok(None);
    }
    match sum_between(core, from, to) {
        Err(WalError::CursorLost { .. }) => Ok(None),
        summed => summed,
    }
}

fn sum_between(core: &Arc<Core>, from: Lsn, to: Lsn) -> Result<Option<u32>, WalError> {
    let (mut frames, limit) = frames_from(core, from);
    let (mut crc, mut at) = (Crc32c::new(), from);
    while let Some((frame, _)) = frames.next_frame(limit)? {
        let (start, stop) = (frame.header.start, frame.header.end());
        if start >= to {
            break;
        }
        if stop <= from || start == stop {
            continue;
        }
        if start > at {
            crc.update(&start.get().to_le_bytes());
        }
        let (begin, stop) = (start.max(from), stop.min(to));
        let part = |lsn: Lsn| usize::try_from(lsn.bytes_since(start)).expect("inside a frame");
        crc.update(frame.payload.get(part(begin)..part(stop)).unwrap_or(&[]));
        at = stop;
    }
    Ok((at == to).then(|| crc.finish()))
}

/// Returns a reader of the durable frames from the one that holds `from` on, or from the oldest, and the position at
/// which they end.
fn frames_from(core: &Arc<Core>, from: Lsn) -> (FrameReader, Lsn) {
    let segments = &core.flusher.segments;
    // In this order: durable records lie in the segments that are listed afterwards.
    let durable = core.flusher.recent.durable_end(core.flusher.durable.load());
    let limit = durable.lsn;
    let running = Running { pins: segments.pins.clone(), end: durable, mapped: None };
    (FrameReader::new(core.env.files.clone(), segments.spans(), from, Some(running)), limit)
}

/// Returns the bytes of the stream before `end`, at most `most`, back to where positions jump.
fn stream_before(core: &Arc<Core>, end: Lsn, most: u32) -> Result<Vec<u8>, WalError> {
    let from = Lsn::new(end.get().saturating_sub(u64::from(most)));
    let (mut bytes, mut at) = (Vec::new(), None);
    if most == 0 {
        return Ok(bytes);
    }
    let (mut frames, limit) = frames_from(core, from);
    while let Some((frame, _)) = frames.next_frame(limit)? {
        let (start, stop) = (frame.header.start, frame.header.end());
        if start >= end {
            break;
        }
        if stop <= from || start == stop {
            continue;
        }
        if at != Some(start) {
            bytes.clear();
        }
        let skipped = usize::try_from(from.max(start).bytes_since(start)).expect("inside a frame");
        let taken = usize::try_from(stop.min(end).bytes_since(start)).expect("inside a frame");
        bytes.extend_from_slice(frame.payload.get(skipped..taken).unwrap_or(&[]));
        at = Some(stop.min(end));
    }
    if at != Some(end) {
        bytes.clear();
    }
    Ok(bytes)
}
