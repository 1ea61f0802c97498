//! `FrameReader`: the frames of a log's files in the order of the chain.
//!
//! The caller gives it the segments (`Segments` of a running log, `Scan` of a closed one), and it makes no decisions:
//! a frame below the limit that does not read back is damage.
//!
//! # Invariants
//! - T1. Positions only grow, and jump only at a LINK: a frame without one starts where the frame before it ended.
//! - T2. Nothing at or above the limit of a call is read, and no byte behind the last durable one: it may be half
//!   written.
//! - T3. A segment is mapped only while a hold is at its first record, and only up to its durable end.
//!
//! Checked by `tests/read.rs`.

use std::{collections::VecDeque, path::Path, sync::Arc};

use collie_base::Lsn;
use collie_env::Files;

use crate::{
    WalError,
    format::BLOCK_BYTES,
    format::decode::{Bad, HeaderBlock},
    read::assemble::Place,
    read::source::{Frame, FrameSource, MappedSegment},
    read::window::Window,
    segment::Span,
    segment::retention_pins::{RetentionPin, RetentionPins},
};

/// Where the records of a frame end in a file.
#[derive(Clone, Debug)]
pub(crate) struct End {
    pub(crate) start: Lsn,
    pub(crate) lsn: Lsn,
    pub(crate) path: Arc<Path>,
    pub(crate) offset: u64,
}

/// The segment being read.
#[derive(Debug)]
struct Entered {
    source: Box<dyn FrameSource>,
    span: Span,
    /// The place of the frame read last; between calls its offset is that of the next frame.
    place: Place,
    /// Offset and size in bytes of the payload of the frame read last.
    payload: (u64, usize),
}

/// What a reader of a running log needs.
#[derive(Debug)]
pub(crate) struct Running {
    /// Tells whether an absent file was freed.
    pub(crate) pins: Arc<RetentionPins>,
    /// The durable end of the records: behind that place the file may be written to at the same time.
    pub(crate) end: End,
    /// With reads through mappings, the hold that keeps the files (T3).
    pub(crate) mapped: Option<RetentionPin>,
}

/// Reads frames one after the other.
#[derive(Debug)]
pub(crate) struct FrameReader {
    files: Arc<dyn Files>,
    spans: VecDeque<Span>,
    entered: Option<Entered>,
    /// The position at which reading begins.
    from: Lsn,
    position: Lsn,
    running: Option<Running>,
}

impl FrameReader {
    /// Starts at the segment of `spans` that holds `from`, or at the oldest. `running` is needed for segments that may
    /// be written or freed during the reading.
    pub(crate) fn new(files: Arc<dyn Files>, spans: Vec<Span>, from: Lsn, running: Option<Running>) -> Self {
        let skip = spans.iter().rposition(|span| span.first <= from).unwrap_or(0);
        let spans = spans.into_iter().skip(skip).collect();
        Self { files, spans, entered: None, from, position: Lsn::ZERO, running }
    }

    /// Returns the end of the last frame read.
    pub(crate) fn position(&self) -> Lsn {
        self.position
    }

    /// Continues behind a frame that ended at `position`, at `offset` of the segment at `path`, unless nothing follows
    /// it there.
    ///
    /// # Errors
    /// `CursorLost` if the next records were freed; `Io`.
    pub(crate) fn go_on_at(&mut self, path: &Path, offset: u64, position: Lsn) -> Result<(), WalError> {
        self.position = position;
        let at = self.spans.iter().position(|span| *span.path == *path);
        if let Some(at) = at {
            self.spans.drain(..at);
            self.enter(Lsn::MAX)?;
        }
        if let Some(entered) = &mut self.entered {
            entered.place.offset = offset;
        }
        let oldest = self.spans.front().map_or(position, |span| span.first);
        if self.entered.is_none() && oldest > position { Err(WalError::CursorLost { oldest }) } else { Ok(()) }
    }

    /// Notes that no further record lies below `limit`: positions jump there.
    pub(crate) fn reach(&mut self, limit: Lsn) {
        self.position = self.position.max(limit);
    }

    /// Takes the current segments of a running log and its durable end: there may be more segments, or more records in
    /// the last one.
    ///
    /// # Errors
    /// `CursorLost` if the next records were freed.
    pub(crate) fn follow(&mut self, spans: Vec<Span>, end: End) -> Result<(), WalError> {
        if let Some(running) = &mut self.running {
            running.end = end;
        }
        let mut spans = VecDeque::from(spans);
        let oldest = spans.front().map_or(Lsn::FIRST, |span| span.first);
        match &mut self.entered {
            Some(entered) => {
                let at = spans.iter().position(|span| span.path == entered.span.path);
                let known = at.and_then(|at| spans.drain(..=at).next_back());
                match known {
                    Some(span) => {
                        entered.source.extend_to(steady_bytes(&span, self.running.as_ref()));
                        entered.span = span;
                    }
                    // It was freed: this is correct once everything in it was read.
                    None if oldest > self.position => return Err(WalError::CursorLost { oldest }),
                    None => self.entered = None,
                }
            }
            None if oldest > self.position && self.position > Lsn::ZERO => {
                return Err(WalError::CursorLost { oldest });
            }
            None => {}
        }
        if self.entered.is_none() {
            let next = self.position.max(self.from);
            let skip = spans.iter().rposition(|span| span.first <= next).unwrap_or(0);
            spans.drain(..skip);
        }
        self.spans = spans;
        Ok(())
    }

    /// Returns the next frame that starts below `limit`, with its place; `None` if there is none yet.
    ///
    /// # Errors
    /// `Damaged`, `Io`; `CursorLost` if a running log has freed the next records.
    pub(crate) fn next_frame(&mut self, limit: Lsn) -> Result<Option<(Frame<'_>, Place)>, WalError> {
        if !self.stand_before_a_frame(limit)? {
            return Ok(None);
        }
        let Some(entered) = &mut self.entered else { return Ok(None) };
        let place = entered.place.clone();
        let below = self.position.max(entered.span.first);
        let bad = match entered.source.frame_at(place.offset, Some(entered.span.salt))? {
            Ok(frame) => {
                let links = frame.header.link.is_some() && frame.header.start >= self.position;
                if links || self.position == Lsn::ZERO || frame.header.start == self.position {
                    self.position = frame.header.end();
                    entered.place.offset = frame.next_offset;
                    entered.payload = (place.offset + frame.header.header_bytes() as u64, frame.payload.len());
                    return Ok(Some((frame, place)));
                }
                Bad { stored: frame.crc, computed: frame.crc }
            }
            Err(bad) => bad,
        };
        // `start` is loaded after the bytes were read, because it moves before they change (holds K3).
        let start = self.running.as_ref().map(|running| running.pins.start());
        if let Some(oldest) = start.filter(|start| below < *start) {
            return Err(WalError::CursorLost { oldest });
        }
        if self.running.is_none() && was_freed(&*self.files, &entered.span)? {
            return Err(WalError::CursorLost { oldest: self.spans.front().map_or(limit, |next| next.first) });
        }
        let (path, offset) = (place.path.to_path_buf(), place.offset);
        Err(WalError::Damaged { lsn: below, path, offset, stored: bad.stored, computed: bad.computed, durable: limit })
    }

    /// Returns the payload of the frame that [`FrameReader::next_frame`] returned last. Valid until the next call.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        let Some(Entered { source, payload: (offset, len), .. }) = &self.entered else { return &[] };
        let payload = source.held(*offset, *len);
        assert_eq!(payload.len(), *len, "nothing else was read from the source since");
        payload
    }

    /// Enters the next segment while the current one is at its end; returns `false` if no frame starts below `limit`
    /// (T2).
    fn stand_before_a_frame(&mut self, limit: Lsn) -> Result<bool, WalError> {
        loop {
            if self.position >= limit {
                return Ok(false);
            }
            if let Some(entered) = &self.entered {
                if entered.span.until.is_none_or(|until| entered.place.offset < until) {
                    return Ok(true);
                }
                self.entered = None;
            }
            if !self.enter(limit)? {
                return Ok(false);
            }
        }
    }

    /// Opens the next segment; returns `false` if none starts below `limit`.
    fn enter(&mut self, limit: Lsn) -> Result<bool, WalError> {
        let Some(span) = self.spans.pop_front_if(|span| span.first < limit) else { return Ok(false) };
        let opened = self.open(&span);
        let source = opened.map_err(|error| match &error {
            WalError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                let next = self.spans.front().map_or(Lsn::FIRST, |next| next.first);
                WalError::CursorLost { oldest: self.running.as_ref().map_or(next, |running| running.pins.start()) }
            }
            _ => error,
        })?;
        let place = Place { path: Arc::from(span.path.as_path()), offset: BLOCK_BYTES };
        self.entered = Some(Entered { source, span, place, payload: (0, 0) });
        Ok(true)
    }

    fn open(&self, span: &Span) -> Result<Box<dyn FrameSource>, WalError> {
        let steady = steady_bytes(span, self.running.as_ref());
        if let Some(hold) = self.running.as_ref().and_then(|running| running.mapped.as_ref()) {
            // A hold at the first record of a segment without records does not keep that segment.
            let empty = self.spans.front().is_some_and(|next| next.first == span.first);
            if !empty {
                hold.move_to(span.first);
                // SAFETY: T3: the hold at its first record keeps the segment, and these bytes are durable.
                let mapped = unsafe { MappedSegment::new(&*self.files, &span.path, steady) };
                return Ok(Box::new(mapped?));
            }
        }
        let mut window = Window::open(&*self.files, span.path.clone())?;
        window.extend_to(steady);
        Ok(Box::new(window))
    }
}

/// Returns the number of bytes of the segment that are no longer written to: up to the last frame that counts, or in
/// the last segment of a running log up to its durable end.
fn steady_bytes(span: &Span, running: Option<&Running>) -> u64 {
    let last = running.filter(|running| *running.end.path == *span.path);
    last.map(|running| running.end.offset).or(span.until).unwrap_or(BLOCK_BYTES)
}

/// Returns whether another process's log has freed the segment since it was listed: its name is gone, or the file has
/// another salt.
fn was_freed(files: &dyn Files, span: &Span) -> Result<bool, WalError> {
    match Window::open(files, span.path.clone()) {
        Ok(mut window) => Ok(matches!(window.segment_header()?, HeaderBlock::Segment(now) if now.salt != span.salt)),
        Err(WalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}
