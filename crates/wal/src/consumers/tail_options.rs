//! [`TailOptions`]: where a tail starts, and how far it may fall behind.

use collie_base::Lsn;

use crate::segment::retention_pins::LagPolicy;

/// Where a [`Tail`](crate::Tail) starts, and how far it may fall behind.
#[derive(Clone, Debug, Default)]
pub struct TailOptions {
    pub(crate) from: Option<Lsn>,
    pub(crate) policy: LagPolicy,
    pub(crate) bound_segments: Option<u32>,
    pub(crate) bound_bytes: Option<u64>,
    /// Bytes of the stream below the place that are kept with it, as far as they exist: nothing is read from them.
    pub(crate) keep_below: u64,
}

impl TailOptions {
    /// Starts with the first record at or above `from`, wherever the cursor of that name stood. A position below the
    /// first one of a log means the first one.
    pub fn from(from: Lsn) -> Self {
        Self { from: Some(from), ..Self::default() }
    }

    /// Continues where the cursor of that name stands; a new one starts with the oldest record.
    pub fn resume() -> Self {
        Self::default()
    }

    /// Sets the policy at the bound. Default [`LagPolicy::Invalidate`].
    #[must_use]
    pub fn policy(self, policy: LagPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Bounds the lag in log files: one file less than this may be begun behind the one that holds the cursor. At least
    /// 1, and below `wal.max_segments` by the spares and a few more. Default a quarter of `wal.max_segments`; with a
    /// bound in bytes, the largest value.
    #[must_use]
    pub fn bound_segments(self, segments: u32) -> Self {
        Self { bound_segments: Some(segments), ..self }
    }

    /// Bounds the lag in bytes that were written to the files which are kept, up to the beginning of the current file:
    /// frames with their padding, without positions that were skipped. Default: bounded by the number of files only.
    #[must_use]
    pub fn bound_bytes(self, bytes: u64) -> Self {
        Self { bound_bytes: Some(bytes), ..self }
    }
}
