//! `Figures`: totals over the frames of a log. Computing them reads the whole log, so it also checks the log.

use std::ops::ControlFlow;

use collie_base::codec::Reader;

use crate::{
    Inspection, WalError,
    format::decode::RawRecord,
    format::{BLOCK_BYTES, KIND_DATA, KIND_LAST, KIND_PART, KIND_UNLOGGED, KIND_VOID},
    read::walk,
};

/// Counts and bytes of the frames that an opening would keep.
///
/// `stream_bytes = payload_bytes + record_head_bytes`; `written_bytes = stream_bytes + frame_head_bytes +
/// padding_bytes`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Number of frames.
    pub frames: u64,
    /// Number of frames without a record.
    pub empty_frames: u64,
    /// Payloads; one in several pieces counts once.
    pub records: u64,
    /// Pieces of long payloads.
    pub pieces: u64,
    /// Marks of writes that were made without the log.
    pub unlogged: u64,
    /// Reservations without a record.
    pub voids: u64,
    /// Bytes of payload that writers appended.
    pub payload_bytes: u64,
    /// Bytes of lengths, kinds and piece numbers, and of reservations without a record.
    pub record_head_bytes: u64,
    /// Bytes of the log stream, which positions count.
    pub stream_bytes: u64,
    /// Bytes of frame headers.
    pub frame_head_bytes: u64,
    /// Bytes written only to pad frames to whole blocks.
    pub padding_bytes: u64,
    /// Bytes that flushes wrote.
    pub written_bytes: u64,
    /// Segments with a frame that counts.
    pub segments: u64,
    /// Bytes of the files of these segments, unwritten parts included.
    pub segment_file_bytes: u64,
}

impl Figures {
    /// Returns the share of the written bytes that is padding, 0 to 1; 0 for an empty log.
    #[expect(clippy::cast_precision_loss, reason = "a share for people: 52 bits are enough")]
    pub fn padding_share(&self) -> f64 {
        self.padding_bytes as f64 / self.written_bytes.max(1) as f64
    }

    /// Returns the written bytes per payload; 0 if there is no payload.
    #[expect(clippy::cast_precision_loss, reason = "a mean for people: 52 bits are enough")]
    pub fn written_bytes_per_record(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.written_bytes as f64 / self.records as f64 }
    }

    fn take(&mut self, raw: &RawRecord<'_>) {
        let payload_bytes = match raw.kind {
            KIND_PART | KIND_LAST => piece_bytes(raw.payload),
            KIND_VOID => 0,
            _ => raw.payload.len() as u64,
        };
        self.payload_bytes += payload_bytes;
        self.record_head_bytes += raw.bytes - payload_bytes;
        self.stream_bytes += raw.bytes;
        self.records += u64::from(matches!(raw.kind, KIND_DATA | KIND_LAST));
        self.pieces += u64::from(matches!(raw.kind, KIND_PART | KIND_LAST));
        self.unlogged += u64::from(raw.kind == KIND_UNLOGGED);
        self.voids += u64::from(raw.kind == KIND_VOID);
    }
}

/// Returns the number of bytes of a piece behind its slot and number.
fn piece_bytes(payload: &[u8]) -> u64 {
    let mut reader = Reader::new(payload);
    let _slot_and_number = (reader.varint(), reader.varint());
    reader.rest().len() as u64
}

impl Inspection {
    /// Reads every frame that an opening would keep again, and adds up their content.
    ///
    /// # Errors
    /// `Io`; `Damaged` if a frame has changed since the inspection, or contains bytes that are no record although its
    /// checksum is right.
    ///
    /// # Progress
    /// Blocks on reading the whole log.
    pub fn figures(&self) -> Result<Figures, WalError> {
        let (mut figures, mut bad) = (Figures::default(), None);
        let (files, scan) = (&*self.files, &self.scan);
        for span in scan.spans.iter().filter(|span| span.until.is_some_and(|until| until > BLOCK_BYTES)) {
            figures.segments += 1;
            figures.segment_file_bytes += span.segment_bytes;
        }
        walk::frames(files, &scan.spans, scan.durable, |span, frame| {
            let header = &frame.header;
            figures.frames += 1;
            figures.empty_frames += u64::from(frame.payload.is_empty());
            figures.frame_head_bytes += header.header_bytes() as u64;
            figures.padding_bytes += header.padded_bytes() - header.bytes() as u64;
            figures.written_bytes += header.padded_bytes();
            let mut end = header.start;
            for (start, raw) in walk::records(frame) {
                figures.take(&raw);
                end = start.plus(raw.bytes);
            }
            if end == header.end() {
                return ControlFlow::Continue(());
            }
            bad = Some((span, frame.next_offset - header.padded_bytes(), end));
            ControlFlow::Break(())
        })?;
        let Some((span, offset, lsn)) = bad else { return Ok(figures) };
        let path = scan.spans[span].path.clone();
        Err(WalError::Damaged { lsn, path, offset, stored: 0, computed: 0, durable: scan.durable })
    }

    /// Returns the number of bytes of an unfinished flush that an opening would drop.
    pub fn torn_bytes(&self) -> u64 {
        self.scan.torn_bytes
    }

    /// Returns the number of files without records of the log (spares), and the sum of their bytes.
    pub fn spares(&self) -> (u64, u64) {
        let spares = &self.scan.leftovers;
        (spares.len() as u64, spares.iter().map(|spare| spare.file_bytes).sum())
    }
}
