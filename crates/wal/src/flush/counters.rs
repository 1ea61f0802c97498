//! `FlushCounters`: totals of frames, bytes and syncs. They are read without a lock, so that no reader waits for a
//! flush.
//!
//! Each is independent and publishes no other data, so all loads and stores are Relaxed. Only the thread with the frame
//! writer counts.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct FlushCounters {
    frames: AtomicU64,
    stream_bytes: AtomicU64,
    file_bytes: AtomicU64,
    rewrites: AtomicU64,
    syncs: AtomicU64,
    timed_syncs: AtomicU64,
    sync_ns: AtomicU64,
    sync_ewma_ns: AtomicU64,
}

/// The totals at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) frames: u64,
    pub(crate) stream_bytes: u64,
    pub(crate) file_bytes: u64,
    /// Number of files left because a write or sync of them failed.
    pub(crate) rewrites: u64,
    /// Number of successful syncs.
    pub(crate) syncs: u64,
    /// Number of those that flushes made.
    pub(crate) timed_syncs: u64,
    /// Their total duration in nanoseconds.
    pub(crate) sync_ns: u64,
}

fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Relaxed).saturating_add(more), Relaxed);
}

impl FlushCounters {
    /// Counts a frame that has its place.
    pub(crate) fn placed(&self, stream_bytes: u64, file_bytes: u64) {
        add(&self.frames, 1);
        add(&self.stream_bytes, stream_bytes);
        add(&self.file_bytes, file_bytes);
    }

    /// Counts a file that is left after an error.
    pub(crate) fn rewrote(&self) {
        add(&self.rewrites, 1);
    }

    /// Counts a successful sync.
    pub(crate) fn synced(&self) {
        add(&self.syncs, 1);
    }

    /// Notes the duration of a successful sync of a flush.
    pub(crate) fn took(&self, ns: u64) {
        let before = if self.timed_syncs.load(Relaxed) == 0 { ns } else { self.sync_ewma_ns.load(Relaxed) };
        self.sync_ewma_ns.store(before - before / 8 + ns / 8, Relaxed);
        add(&self.timed_syncs, 1);
        add(&self.sync_ns, ns);
    }

    /// Returns the approximate duration of a sync of a flush, in nanoseconds: a mean in which each weighs 7/8 of the
    /// one after it.
    pub(crate) fn sync_ewma_ns(&self) -> u64 {
        self.sync_ewma_ns.load(Relaxed)
    }

    /// Returns the totals.
    pub(crate) fn counts(&self) -> Counts {
        let Self { frames, stream_bytes, file_bytes, rewrites, syncs, timed_syncs, sync_ns, .. } = self;
        let [timed_syncs, sync_ns] = [timed_syncs, sync_ns].map(|counter| counter.load(Relaxed));
        let [frames, stream_bytes, file_bytes, rewrites, syncs] =
            [frames, stream_bytes, file_bytes, rewrites, syncs].map(|counter| counter.load(Relaxed));
        Counts { frames, stream_bytes, file_bytes, rewrites, syncs, timed_syncs, sync_ns }
    }
}
