//! `Stat`: the figures and the state of a running log.

use std::{path::PathBuf, sync::atomic::Ordering, time::Duration};

use crate::{ConsumerStat, Mark, RingKind, copies::CopyStat, copies::Mirror, core::Core};

/// Figures of a running log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stat {
    /// Flushes that wrote a frame.
    pub frames: u64,
    /// Successful syncs of the log files.
    pub syncs: u64,
    /// Those of them that flushes made.
    pub timed_syncs: u64,
    /// The time that the `timed_syncs` took together.
    pub sync_time: Duration,
    /// Bytes of records written.
    pub stream_bytes: u64,
    /// Bytes of frames written, headers and padding included.
    pub file_bytes: u64,
    /// Where the ring is: `Private`, or `Shared`.
    pub ring: RingKind,
    /// The file of a shared ring.
    pub ring_path: Option<PathBuf>,
    /// Appends that found the ring full.
    pub ring_full: u64,
    /// Writers made beyond `wal.slots`.
    pub slotless_writers: u64,
    /// Records flushed from a staging buffer because their writer had not copied them into the ring yet (`help`).
    pub staged_taken: u64,
    /// Files that hold records.
    pub segments: usize,
    /// Files left because a write or sync of them failed.
    pub rewrites: u64,
    /// Files prepared ahead.
    pub spares: usize,
    /// Bytes of frames kept in memory for tails.
    pub recent_bytes: u64,
    /// The consumers by name, and the files that each keeps.
    pub consumers: Vec<ConsumerStat>,
    /// The age of the in-flight flush, if there is one.
    pub in_flight_age: Option<Duration>,
    /// A problem that will stop commits unless an operator acts, if there is one.
    pub alarm: Option<String>,
    /// Why appends are refused for lack of room now, if they are.
    pub full: Option<String>,
    /// Whether a write or sync failed and writing elsewhere failed too: nothing is acknowledged until the log is opened
    /// again.
    pub poisoned: bool,
    /// The state of each copy, the log's own directory first; empty for a log in one directory.
    pub copies: Vec<CopyStat>,
}

impl Stat {
    /// Gathers the figures. Waits while a frame is placed or a file is turned.
    pub(crate) fn of(core: &Core) -> Self {
        let flusher = &core.flusher;
        let counts = flusher.counters.counts();
        let (segments, spares) = flusher.segments.counts();
        Self {
            frames: counts.frames,
            syncs: counts.syncs,
            timed_syncs: counts.timed_syncs,
            sync_time: Duration::from_nanos(counts.sync_ns),
            stream_bytes: counts.stream_bytes,
            file_bytes: counts.file_bytes,
            rewrites: counts.rewrites,
            ring: core.home.kind(),
            ring_path: core.home.file().map(|file| file.path().to_owned()),
            ring_full: core.ring_full.load(Ordering::Relaxed),
            slotless_writers: core.slotless_writers.load(Ordering::Relaxed),
            staged_taken: flusher.reserve.staged_taken(),
            segments,
            spares,
            recent_bytes: flusher.recent.held_bytes(),
            consumers: core.consumers.stats(&flusher.segments.spans(), flusher.mark(Mark::Durable)),
            in_flight_age: flusher.in_flight_age(),
            alarm: flusher.segments.alarm().or_else(|| flusher.segments.pins.closed()),
            full: flusher.segments.full(),
            poisoned: flusher.is_poisoned(),
            copies: core.mirror.as_ref().map_or_else(Vec::new, Mirror::standing),
        }
    }
}
