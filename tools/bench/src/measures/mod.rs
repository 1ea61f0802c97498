//! The sections of `collie-bench log`, one file each.

pub(crate) mod append;
pub(crate) mod frozen;
pub(crate) mod recovery;
pub(crate) mod threads;

use collie_wal::Options;

use crate::{Pace, Plan};

/// The length of the ring of all subjects: Collie's default.
pub(crate) const RING_BYTES: u64 = 16 << 20;
/// Its name in rows.
pub(crate) const RING: &str = "private 16 MiB";
/// Pending bytes from which on the ring is emptied: Collie's default.
pub(crate) const FLUSH_BYTES: u64 = 1 << 20;
/// The figure of a protocol that the log refuses.
pub(crate) const NOT_BUILT: &str = "not built";

/// Returns the options of logs on disk: Collie's defaults, or at the pace Touch small files.
pub(crate) fn disk_options(plan: &Plan) -> Options {
    if plan.pace == Pace::Touch { Options::small() } else { Options::default() }
}

#[expect(clippy::cast_precision_loss, reason = "counts and times of a benchmark are far below 2^52")]
pub(crate) fn float(count: u64) -> f64 {
    count as f64
}

/// Returns `count` per second over `ns`.
pub(crate) fn per_s(count: u64, ns: u64) -> f64 {
    float(count) * 1e9 / float(ns.max(1))
}

pub(crate) fn micros(ns: u64) -> f64 {
    float(ns) / 1000.0
}

/// Returns the median of `values`, at least one.
pub(crate) fn median(values: &[f64]) -> f64 {
    crate::Spread::of(values).median
}
