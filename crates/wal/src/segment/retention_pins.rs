//! `RetentionPins`: the positions that readers still need. A segment with records at or above the lowest hold is
//! neither removed nor recycled.
//!
//! This module knows no files: `Segments` consults it before it frees, and readers of mappings and owners of cursors
//! have holds.
//!
//! # Invariants
//! - K1. A hold is created in the same critical section (of `Segments`) in which its owner gets the list of segments:
//!   segments of that list are not freed while the hold exists.
//! - K2. A hold only moves up; dropping it releases the files.
//! - K3. `start` is the position of the oldest record kept. It moves before the files below it are touched, so that a
//!   reader that finds a file changed finds `start` moved too.
//! - K4. A hold with a bound keeps at most that much. At the bound, depending on its policy, it closes admission, is
//!   lost, or releases its files until it is below the bound again. Holds without a bound belong to mapped
//!   readers and pins.
//! - K5. A bound counts files and bytes that exist: positions that a crash or a promotion skipped are no bytes.
//!
//! Checked by `tests/read.rs` (mapped files are not freed) and `tests/consumers.rs` (every policy at its bound).

use std::{collections::BTreeMap, sync::Arc};

use collie_base::Lsn;
use parking_lot::Mutex;

use crate::segment::Span;

/// The consequence if a consumer falls behind by its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum LagPolicy {
    /// Block: appends are refused with `Full`, which names the consumer, until it has moved on or was removed. For
    /// consumers that must see everything, such as an archive.
    Hold,
    /// Drop: the consumer loses its place and gets `CursorLost`, and the files kept for it may be freed. Never stops an
    /// append.
    #[default]
    Invalidate,
    /// Read from files: the consumer no longer keeps any file, reads on as long as they exist, and gets `CursorLost`
    /// only if one that it needs is gone. Below the bound it keeps files again. Never stops an append.
    Files,
}

/// How far a hold may fall behind, and the policy at that point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) policy: LagPolicy,
    /// Number of files begun after the one that holds the position.
    pub(crate) segments: u32,
    /// Bytes in the files that are kept for it, as [`lag`] counts them.
    pub(crate) bytes: u64,
}

/// The bound at which a consumer lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagLimit {
    /// The number of files; without a lower bound this follows from `wal.max_segments`.
    Files,
    /// The bytes in files.
    Bytes,
}

#[derive(Debug)]
struct Held {
    lsn: Lsn,
    who: String,
    bound: Option<Bound>,
    /// Lost for good (`Invalidate`).
    lost: bool,
    /// The bound, if that happened in this incarnation of the log.
    lost_by: Option<LagLimit>,
    /// Releases its files while it is beyond its bound (`Files`).
    released: bool,
    /// Whether a warning named it at its bound; reset when it is below.
    announced: bool,
}

#[derive(Debug)]
struct Inner {
    next_id: u64,
    held: BTreeMap<u64, Held>,
    start: Lsn,
    /// The reason why appends are refused: a pin with policy `Hold` is at its bound.
    closed: Option<String>,
}

/// The held positions, with their holders.
#[derive(Debug)]
pub(crate) struct RetentionPins(Mutex<Inner>);

impl RetentionPins {
    /// Starts without holds and with the oldest record at `start`.
    pub(crate) fn new(start: Lsn) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner { next_id: 0, held: BTreeMap::new(), start, closed: None })))
    }

    /// Pins everything at or above `lsn` for `who`. K1: called through `Segments::hold_from`.
    pub(crate) fn hold(self: &Arc<Self>, lsn: Lsn, who: String, bound: Option<Bound>) -> RetentionPin {
        let mut inner = self.0.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.held.insert(id, Held { lsn, who, bound, lost: false, lost_by: None, released: false, announced: false });
        RetentionPin { pins: self.clone(), id }
    }

    /// Returns the lowest held position, and its holder.
    pub(crate) fn lowest(&self) -> Option<(Lsn, String)> {
        let inner = self.0.lock();
        let holding = inner.held.values().filter(|held| !held.lost && !held.released);
        holding.min_by_key(|held| held.lsn).map(|held| (held.lsn, held.who.clone()))
    }

    /// Applies the bounds to the current segments (K4); called after every change of either. Returns lines for the
    /// operator: the holders that have reached their bound since the last call, and the consequence.
    #[must_use]
    pub(crate) fn enforce(&self, spans: &[Span]) -> Vec<String> {
        let mut inner = self.0.lock();
        let inner = &mut *inner;
        inner.closed = None;
        let mut news = Vec::new();
        for held in inner.held.values_mut() {
            let Some(bound) = held.bound.filter(|_| !held.lost) else { continue };
            let (segments, bytes) = lag(spans, held.lsn);
            let limit_by = match segments >= bound.segments as usize {
                true => LagLimit::Files,
                false => LagLimit::Bytes,
            };
            let beyond = limit_by == LagLimit::Files || bytes >= bound.bytes;
            let limit = match limit_by {
                LagLimit::Files => format!("{} files", bound.segments),
                LagLimit::Bytes => format!("{} bytes in files", bound.bytes),
            };
            let stands = format!("{} has fallen behind by its bound of {limit}", held.who);
            let means = match bound.policy {
                LagPolicy::Hold => {
                    if beyond {
                        inner.closed.get_or_insert_with(|| format!("{stands} and holds all from {}", held.lsn));
                    }
                    "appends are refused until it moves on or is removed"
                }
                LagPolicy::Invalidate => {
                    (held.lost, held.lost_by) = (beyond, beyond.then_some(limit_by));
                    "it has lost its place and must start again"
                }
                LagPolicy::Files => {
                    held.released = beyond;
                    "it keeps no files until it catches up"
                }
            };
            if beyond && !held.announced {
                news.push(format!("wal: {stands} at LSN {}: {means}", held.lsn));
            }
            held.announced = beyond;
        }
        news
    }

    /// Returns the reason why admission is closed, if a hold closes it.
    pub(crate) fn closed(&self) -> Option<String> {
        self.0.lock().closed.clone()
    }

    /// Returns the position of the oldest record kept.
    pub(crate) fn start(&self) -> Lsn {
        self.0.lock().start
    }

    /// Sets the start before records below it are freed (K3).
    pub(crate) fn set_start(&self, start: Lsn) {
        self.0.lock().start = start;
    }
}

/// Returns how far `lsn` lies behind: the number of files begun after the one that holds it, and the number of bytes at
/// or above it in the files before the one being written. These are the bytes written to the files, frames with their
/// padding (K5). The file that holds `lsn` counts in proportion to its positions above `lsn`.
pub(crate) fn lag(spans: &[Span], lsn: Lsn) -> (usize, u64) {
    let segments = spans.iter().filter(|span| span.first > lsn).count();
    let kept = spans.windows(2).map(|pair| {
        let [span, next] = pair else { return 0 };
        if next.first <= lsn {
            return 0;
        }
        let written = span.until.unwrap_or(span.segment_bytes);
        if lsn <= span.first {
            return written;
        }
        let (above, all) = (next.first.bytes_since(lsn), next.first.bytes_since(span.first));
        let share = u128::from(written) * u128::from(above) / u128::from(all.max(1));
        u64::try_from(share).unwrap_or(written)
    });
    (segments, kept.fold(0, u64::saturating_add))
}

/// One held position; dropping it releases the files.
#[derive(Debug)]
pub(crate) struct RetentionPin {
    pins: Arc<RetentionPins>,
    id: u64,
}

impl RetentionPin {
    /// Releases everything below `lsn` (K2).
    pub(crate) fn move_to(&self, lsn: Lsn) {
        if let Some(held) = self.pins.0.lock().held.get_mut(&self.id) {
            held.lsn = lsn.max(held.lsn);
        }
    }

    /// Marks it as lost for good: it keeps nothing any more.
    pub(crate) fn lose(&self) {
        if let Some(held) = self.pins.0.lock().held.get_mut(&self.id) {
            held.lost = true;
        }
    }

    /// Sets another bound, which counts when bounds are applied next.
    pub(crate) fn set_bound(&self, bound: Bound) {
        if let Some(held) = self.pins.0.lock().held.get_mut(&self.id) {
            held.bound = Some(bound);
        }
    }

    /// Returns the held position.
    pub(crate) fn lsn(&self) -> Lsn {
        self.pins.0.lock().held.get(&self.id).map_or(Lsn::MAX, |held| held.lsn)
    }

    /// Returns whether it keeps no files now: it is lost, or released until it catches up.
    pub(crate) fn is_loose(&self) -> bool {
        self.pins.0.lock().held.get(&self.id).is_some_and(|held| held.lost || held.released)
    }

    /// Returns whether it was lost for good.
    pub(crate) fn is_lost(&self) -> bool {
        self.pins.0.lock().held.get(&self.id).is_some_and(|held| held.lost)
    }

    /// Returns the bound at which it was lost, if that happened in this incarnation of the log.
    pub(crate) fn lost_by(&self) -> Option<LagLimit> {
        self.pins.0.lock().held.get(&self.id).and_then(|held| held.lost_by)
    }
}

impl Drop for RetentionPin {
    fn drop(&mut self) {
        self.pins.0.lock().held.remove(&self.id);
    }
}
