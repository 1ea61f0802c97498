//! `frames`: visits every frame of a chain, in order. For tools that need more than the records in them.
//!
//! It decides nothing: `scan` determines which files count and how far, `decode` what the bytes mean.

use std::ops::ControlFlow;

use collie_base::Lsn;
use collie_env::Files;

use crate::{
    WalError,
    format::BLOCK_BYTES,
    format::decode::{self, RawRecord},
    read::source::{Frame, FrameSource as _},
    read::window::Window,
    segment::Span,
};

/// Calls `visit` with the frames of `spans` (whose `until` is set) and the index of the span that each lies in, oldest
/// first, until it breaks.
///
/// # Errors
/// `Io`; `Damaged` if a frame that was good when the spans were made is not good any more.
pub(crate) fn frames(
    files: &dyn Files,
    spans: &[Span],
    durable: Lsn,
    mut visit: impl FnMut(usize, &Frame<'_>) -> ControlFlow<()>,
) -> Result<(), WalError> {
    let mut end = Lsn::ZERO;
    for (span, segment) in spans.iter().enumerate() {
        let until = segment.until.unwrap_or(BLOCK_BYTES);
        if until == BLOCK_BYTES {
            continue;
        }
        let mut window = Window::open(files, segment.path.clone())?;
        let mut offset = BLOCK_BYTES;
        while offset < until {
            let frame = window.frame_at(offset, Some(segment.salt))?.map_err(|bad| WalError::Damaged {
                lsn: end,
                path: segment.path.clone(),
                offset,
                stored: bad.stored,
                computed: bad.computed,
                durable,
            })?;
            end = frame.header.end();
            if visit(span, &frame).is_break() {
                return Ok(());
            }
            offset = frame.next_offset;
        }
    }
    Ok(())
}

/// Iterates over the records of a frame with their positions; stops early at bytes that are no record.
pub(crate) fn records<'a>(frame: &Frame<'a>) -> impl Iterator<Item = (Lsn, RawRecord<'a>)> {
    let (mut at, mut rest) = (frame.header.start, frame.payload);
    std::iter::from_fn(move || {
        let raw = decode::record(rest)?;
        rest = usize::try_from(raw.bytes).ok().and_then(|taken| rest.get(taken..)).unwrap_or(&[]);
        let start = at;
        at = at.plus(raw.bytes);
        Some((start, raw))
    })
}
