//! `Shipper`: hands out the log's records as they lie in it, for a sender of replication: runs of whole records with
//! their positions, each once it is durable.
//!
//! It knows no packets and no replicas: it has a cursor (the replication slot) and bytes. [`Follower`](crate::Follower)
//! writes them at the replica. No commit waits for a shipper, and memory keeps nothing for it but what `Recent` keeps
//! for every reader. A shipper that falls behind reads files; one that falls behind its bound loses its place.
//!
//! # Invariants
//! - X1. Shipments follow each other: `prev_end` is the `end` of the one before, or where the shipper began; every byte
//!   of the stream from there on comes once, in order.
//! - X2. A shipment is whole records without a jump inside; positions jump only from `prev_end` to `start`.
//! - X3. `end <= durable`, the durable position of the same moment (REPL-1).
//! - X4. On an error, and if there is nothing to ship, `out` is unchanged.
//! - X5. The log keeps the files with [`TAIL_CHECK_BYTES`] below the cursor: a replica that reconnects proves by these
//!   bytes that it holds the same ones (`tail_check`).
//!
//! Checked by `tests/ship.rs`: everything shipped is compared with everything appended, whatever the frames, bounds,
//! crashes, failed writes and incarnations.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use collie_base::Lsn;
use collie_obs::{ReplSend, word};

use crate::{
    LagPolicy, TailOptions, WalError, consumers::Attached, core::Core, flush::FlushDelayOverride, format::KIND_DATA,
    format::KIND_LAST, format::KIND_UNLOGGED, format::decode, format::decode::whole_records, read::assemble::Place,
    read::record_count, read::source::Frame, stream::frame_tail::FrameTail, stream::tail_check::TAIL_CHECK_BYTES,
};

/// Where a [`Shipper`] starts, how far it may fall behind, and how soon records that no caller waits for are flushed
/// for it.
#[derive(Clone, Debug)]
pub struct ShipOptions {
    tail: TailOptions,
    flush_delay: Duration,
    is_commit: fn(u8) -> bool,
}

impl ShipOptions {
    /// Starts at `from`, the end of a record: the receiver has everything below.
    pub fn from(from: Lsn) -> Self {
        let tail = TailOptions { keep_below: u64::from(TAIL_CHECK_BYTES), ..TailOptions::from(from) };
        let tail = tail.policy(LagPolicy::Invalidate);
        Self { tail, flush_delay: Duration::from_micros(500), is_commit: |_| false }
    }

    /// Bounds how much log is kept for it, in bytes of files, as [`TailOptions::bound_bytes`]; beyond the bound it
    /// loses its place. Default: bounded by the number of files only.
    #[must_use]
    pub fn bound_bytes(self, bytes: u64) -> Self {
        Self { tail: self.tail.bound_bytes(bytes), ..self }
    }

    /// Bounds how much log is kept for it in files, as [`TailOptions::bound_segments`].
    #[must_use]
    pub fn bound_segments(self, segments: u32) -> Self {
        Self { tail: self.tail.bound_segments(segments), ..self }
    }

    /// `replication.flush_delay`: records that no caller waits for are flushed this long after they were appended,
    /// instead of `wal.flush_delay`, as long as the shipper exists. Zero leaves `wal.flush_delay`. No effect with
    /// `wal.manual_wal_flush`. Default 500 us.
    #[must_use]
    pub fn flush_delay(self, delay: Duration) -> Self {
        Self { flush_delay: delay, ..self }
    }

    /// Sets the function that says by a record's tag whether it is a commit: the log does not know, and REPL_SEND holds
    /// the number of commits in a shipment. Default: no record is.
    #[must_use]
    pub fn commits_by(self, is_commit: fn(u8) -> bool) -> Self {
        Self { is_commit, ..self }
    }
}

/// The positions of a shipment's bytes in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipment {
    /// The end of the record before.
    pub prev_end: Lsn,
    /// The position of the first record: `prev_end`, or above if positions jump because an incarnation of the log began
    /// there.
    pub start: Lsn,
    /// The position after the last record.
    pub end: Lsn,
    /// The durable position of the log at that moment.
    pub durable: Lsn,
}

/// Records that were taken from a frame and did not fit into a shipment.
#[derive(Debug, Default)]
struct Rest {
    start: Lsn,
    bytes: Vec<u8>,
    taken: usize,
}

impl Rest {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or(&[])
    }
}

/// A source of a log's records for a sender, made by [`Log::ship`](crate::Log::ship). It does not keep the log open.
#[derive(Debug)]
pub struct Shipper {
    frames: FrameTail,
    rest: Rest,
    /// The end of the last shipment.
    position: Lsn,
    /// The end of the last record that was read, shipped or not; `None` before the first.
    seen: Option<Lsn>,
    advanced: Lsn,
    is_commit: fn(u8) -> bool,
    _flush_delay: FlushDelayOverride,
}

impl Shipper {
    pub(crate) fn new(core: Arc<Core>, name: &str, options: &ShipOptions) -> Result<Self, WalError> {
        let flush_delay = core.flusher.override_flush_delay(options.flush_delay);
        let (frames, Attached { lsn, .. }) = FrameTail::new(core, name, &options.tail)?;
        let (rest, is_commit) = (Rest::default(), options.is_commit);
        Ok(Self { frames, rest, position: lsn, seen: None, advanced: lsn, is_commit, _flush_delay: flush_delay })
    }

    /// Returns the name of its cursor.
    ///
    /// # Progress
    /// Wait-free.
    pub fn name(&self) -> &str {
        self.frames.name()
    }

    /// Returns the end of the last shipment.
    ///
    /// # Progress
    /// Wait-free.
    pub fn position(&self) -> Lsn {
        self.position
    }

    /// Moves the cursor up to `lsn`: everything below is safe at the other end. Files that only the cursor needed may
    /// be freed, except those with the last [`TAIL_CHECK_BYTES`] below it.
    ///
    /// # Errors
    /// As [`Tail::advance`](crate::Tail::advance).
    ///
    /// # Durability
    /// As [`Tail::advance`](crate::Tail::advance).
    ///
    /// # Progress
    /// Short mutexes; once per log file it also blocks on writing and syncing a small file, on this thread.
    pub fn advance(&mut self, lsn: Lsn) -> Result<(), WalError> {
        if lsn > self.position {
            let (name, position) = (self.name(), self.position);
            return Err(WalError::options(format!(
                "consumer {name} cannot advance to {lsn}: it has come to {position}"
            )));
        }
        if lsn <= self.advanced {
            return Ok(());
        }
        self.advanced = lsn;
        let restart = Lsn::new(lsn.get().saturating_sub(u64::from(TAIL_CHECK_BYTES)));
        self.frames.advance(lsn, restart.max(Lsn::FIRST))
    }

    /// Appends the next durable records to `out`, from one frame or several: at most `most_bytes`, but at least one
    /// record, which has at most 1 MiB and a few bytes. Returns `None` if there are none now.
    ///
    /// # Errors
    /// `CursorLost`: the next records were freed, or the shipper fell behind its bound. `InvalidOptions`: it was
    /// started where no record ends. `Damaged`: records do not read back. `Io`. `Poisoned`, `Closed`: everything
    /// durable was handed out and nothing more will be.
    ///
    /// # Durability
    /// The records are durable.
    ///
    /// # Progress
    /// Short mutexes; blocks on reading files if it has fallen behind the frames in memory, on nothing else.
    pub fn try_next(&mut self, most_bytes: usize, out: &mut Vec<u8>) -> Result<Option<Shipment>, WalError> {
        let (span, before) = (collie_obs::start::<ReplSend>(), out.len());
        let shipment = self.gather(most_bytes, out)?;
        if let (Some(span), Some(shipment)) = (span, &shipment) {
            let ended = span.end();
            let (sent, from_memory) = (&out[before..], u32::from(self.frames.reads_memory()));
            let send = ReplSend { bytes: word(sent.len()), commits: word(self.commits_in(sent)), from_memory };
            ended.tell(shipment.start, send, []);
        }
        Ok(shipment)
    }

    /// Counts the commits in a measured shipment.
    #[cold]
    fn commits_in(&self, shipment: &[u8]) -> u64 {
        let ends = |kind| matches!(kind, KIND_DATA | KIND_LAST | KIND_UNLOGGED);
        record_count::count(shipment, |raw| ends(raw.kind) && (self.is_commit)(raw.tag))
    }

    fn gather(&mut self, most_bytes: usize, out: &mut Vec<u8>) -> Result<Option<Shipment>, WalError> {
        let (before, prev_end, mut start) = (out.len(), self.position, None);
        loop {
            let taken = out.len() - before;
            if self.rest.bytes().is_empty() {
                if taken > 0 && taken >= most_bytes {
                    break;
                }
                match self.take_frame() {
                    Ok(true) => continue,
                    Ok(false) => break,
                    // The next call returns the error.
                    Err(_) if taken > 0 => break,
                    Err(error) => return Err(error),
                }
            }
            // X2: a jump begins another shipment.
            let jumps = self.rest.start > self.position;
            if taken > 0 && jumps || !self.take_rest(most_bytes.saturating_sub(taken), taken == 0, out) {
                break;
            }
            start.get_or_insert(Lsn::new(self.position.get() - (out.len() - before - taken) as u64));
        }
        if out.len() == before {
            return Ok(None);
        }
        let start = start.unwrap_or(prev_end);
        let durable = self.frames.core().flusher.durable.load();
        Ok(Some(Shipment { prev_end, start, end: self.position, durable }))
    }

    /// Does the same as [`Shipper::try_next`], but waits until a record is durable.
    ///
    /// # Errors
    /// As [`Shipper::try_next`].
    ///
    /// # Durability
    /// The records are durable.
    ///
    /// # Progress
    /// Blocks on a flush by another thread; on reading files as [`Shipper::try_next`].
    pub fn next(&mut self, most_bytes: usize, out: &mut Vec<u8>) -> Result<Shipment, WalError> {
        loop {
            if let Some(shipment) = self.try_next(most_bytes, out)? {
                return Ok(shipment);
            }
            self.frames.wait();
        }
    }

    /// Returns a future of [`Shipper::next`]. A poll may read files, as [`Shipper::try_next`] does.
    ///
    /// # Errors
    /// As [`Shipper::try_next`].
    ///
    /// # Cancel safety
    /// Dropping it loses nothing: the next call hands out the same records.
    ///
    /// # Progress
    /// Wait-free. A poll of the future blocks on what [`Shipper::try_next`] does.
    pub fn next_async<'a>(&'a mut self, most_bytes: usize, out: &'a mut Vec<u8>) -> NextShipment<'a> {
        NextShipment { shipper: self, most_bytes, out, id: None }
    }

    /// Moves whole records from the rest to `out`: as many as fit into `most_bytes`, or the first one if `must`.
    /// Returns whether any were moved.
    fn take_rest(&mut self, most_bytes: usize, must: bool, out: &mut Vec<u8>) -> bool {
        let bytes = self.rest.bytes();
        let first = || decode::record(bytes).and_then(|raw| usize::try_from(raw.bytes).ok()).unwrap_or(0);
        let count = match bytes.get(..most_bytes) {
            None => bytes.len(),
            Some(front) => whole_records(front).filter(|count| *count > 0).unwrap_or(if must { first() } else { 0 }),
        };
        out.extend_from_slice(&bytes[..count]);
        if count > 0 {
            self.position = self.rest.start.plus(count as u64);
            (self.rest.start, self.rest.taken) = (self.position, self.rest.taken + count);
        }
        count > 0
    }

    /// Takes the next frame with records at or above the position as the rest; returns `false` if there is none yet.
    fn take_frame(&mut self) -> Result<bool, WalError> {
        let Self { frames, rest, position, seen, .. } = self;
        frames.take(|frame, place, limit| {
            let (start, end) = (frame.header.start, frame.header.end());
            if end > limit {
                return Err(not_whole(frame, place, limit));
            }
            if start == end {
                // A jump, or a frame that only names a durable position. Only its LINK says where the first jump comes
                // from.
                let from = frame.header.link.map(|link| link.previous_end);
                *seen = seen.or(from.filter(|from| *from == *position));
                return Ok(());
            }
            if end > *position {
                let skipped = if start < *position {
                    records_below(frame, *position).ok_or_else(|| no_record_ends_at(*position))?
                } else {
                    let from = seen.or(frame.header.link.map(|link| link.previous_end)).unwrap_or(start);
                    if start > *position && from != *position {
                        return Err(no_record_ends_at(*position));
                    }
                    0
                };
                if whole_records(frame.payload) != Some(frame.payload.len()) {
                    return Err(not_whole(frame, place, limit));
                }
                rest.bytes.clear();
                rest.bytes.extend_from_slice(frame.payload);
                (rest.taken, rest.start) = (skipped, start.plus(skipped as u64));
            }
            *seen = Some(end);
            Ok(())
        })
    }
}

/// Returns how many bytes of the frame lie below `position`, if a record ends there.
fn records_below(frame: &Frame<'_>, position: Lsn) -> Option<usize> {
    let below = usize::try_from(position.bytes_since(frame.header.start)).ok()?;
    let front = frame.payload.get(..below)?;
    (whole_records(front) == Some(below)).then_some(below)
}

fn no_record_ends_at(position: Lsn) -> WalError {
    WalError::options(format!("cannot ship from {position}: no record of this log ends there"))
}

fn not_whole(frame: &Frame<'_>, place: &Place, durable: Lsn) -> WalError {
    let (lsn, path, offset) = (frame.header.start, place.path.to_path_buf(), place.offset);
    WalError::Damaged { lsn, path, offset, stored: frame.crc, computed: frame.crc, durable }
}

/// The future of [`Shipper::next_async`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct NextShipment<'a> {
    shipper: &'a mut Shipper,
    most_bytes: usize,
    out: &'a mut Vec<u8>,
    id: Option<u64>,
}

impl Future for NextShipment<'_> {
    type Output = Result<Shipment, WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { shipper, most_bytes, out, id } = &mut *self;
        loop {
            match shipper.try_next(*most_bytes, out) {
                Ok(Some(shipment)) => return Poll::Ready(Ok(shipment)),
                Err(error) => return Poll::Ready(Err(error)),
                Ok(None) => {}
            }
            let frames = &shipper.frames;
            if !frames.core().flusher.watch.register(id, context.waker(), || frames.has_news()) {
                return Poll::Pending;
            }
        }
    }
}

impl Drop for NextShipment<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.shipper.frames.core().flusher.watch.forget(id);
        }
    }
}
