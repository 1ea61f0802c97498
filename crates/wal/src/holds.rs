//! `Holds`: which positions are still needed by readers. A segment with records at or above the lowest hold is neither
//! removed nor used again.
//!
//! Knows no files: `Segments` asks before it frees, and whoever reads through a mapping or owns a cursor holds.
//!
//! # Invariants
//! - K1. A hold is made in the same critical section (of `Segments`) in which its owner learns the segments: what it
//!   learned there is not freed while the hold stands.
//! - K2. A hold only moves up; dropping it lets go.
//! - K3. `start` is the position of the oldest record kept. It moves before the files below it are touched, so a reader
//!   that finds a file changed finds `start` moved too.
//! - K4. A hold with a bound holds at most that much: at the bound it closes admission, or it is lost, or it lets go
//!   until it is below the bound again, as its policy says. A hold without one is a mapped reader's.
//! - K5. A bound counts files and bytes that exist: positions that a crash or a promotion skipped are no bytes.
//!
//! Checked by `read_tests` (mapped files are not freed) and `consumers_tests` (every policy at its bound).

use std::{collections::BTreeMap, sync::Arc};

use collie_base::Lsn;
use parking_lot::Mutex;

use crate::{LagPolicy, segments::Span};

/// How far a hold may fall behind, and what happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) policy: LagPolicy,
    /// Files that were begun since the one that holds the position.
    pub(crate) segments: u32,
    /// Bytes in the files that are kept for it: those of [`lag`].
    pub(crate) bytes: u64,
}

/// By which of its two bounds a consumer lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagLimit {
    /// The number of files: in the end that is `wal.max_segments`.
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
    /// By what, if that happened in this life of the log.
    lost_by: Option<LagLimit>,
    /// Let go while it is beyond its bound (`Files`).
    released: bool,
    /// Whether it was said that it is at its bound; until it is not.
    announced: bool,
}

#[derive(Debug)]
struct Inner {
    next_id: u64,
    held: BTreeMap<u64, Held>,
    start: Lsn,
    /// Why appends are refused: a hold with policy `Hold` is at its bound.
    closed: Option<String>,
}

/// The positions that are held, and by whom.
#[derive(Debug)]
pub(crate) struct Holds(Mutex<Inner>);

impl Holds {
    /// Starts with nothing held and the oldest record at `start`.
    pub(crate) fn new(start: Lsn) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inner { next_id: 0, held: BTreeMap::new(), start, closed: None })))
    }

    /// Holds everything at or above `lsn` for `who`. K1: called through `Segments::hold_from`.
    pub(crate) fn hold(self: &Arc<Self>, lsn: Lsn, who: String, bound: Option<Bound>) -> Hold {
        let mut inner = self.0.lock();
        let id = inner.next_id;
        inner.next_id += 1;
        inner.held.insert(id, Held { lsn, who, bound, lost: false, lost_by: None, released: false, announced: false });
        Hold { holds: self.clone(), id }
    }

    /// Returns the lowest position held, and by whom.
    pub(crate) fn lowest(&self) -> Option<(Lsn, String)> {
        let inner = self.0.lock();
        let holding = inner.held.values().filter(|held| !held.lost && !held.released);
        holding.min_by_key(|held| held.lsn).map(|held| (held.lsn, held.who.clone()))
    }

    /// Applies the bounds to the segments as they are now (K4); called with every change of either. Returns what an
    /// operator should read: who has come to its bound since the last call, and what that means.
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
                    "it has lost its place and must start anew"
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

    /// Returns what closes admission, if a hold does.
    pub(crate) fn closed(&self) -> Option<String> {
        self.0.lock().closed.clone()
    }

    /// Returns the position of the oldest record kept.
    pub(crate) fn start(&self) -> Lsn {
        self.0.lock().start
    }

    /// Notes that records below `start` are about to go (K3).
    pub(crate) fn set_start(&self, start: Lsn) {
        self.0.lock().start = start;
    }
}

/// Returns how far `lsn` lies behind: how many files were begun since the one that holds it, and how many bytes the files before the one
/// being written hold at or above it: what was written to them, frames with their padding (K5). Of the file that holds `lsn`, as much
/// counts as its share of the positions above.
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

/// One position held; dropping it lets go.
#[derive(Debug)]
pub(crate) struct Hold {
    holds: Arc<Holds>,
    id: u64,
}

impl Hold {
    /// Lets go of what lies below `lsn` (K2).
    pub(crate) fn move_to(&self, lsn: Lsn) {
        if let Some(held) = self.holds.0.lock().held.get_mut(&self.id) {
            held.lsn = lsn.max(held.lsn);
        }
    }

    /// Takes it as lost for good: it holds nothing any more.
    pub(crate) fn lose(&self) {
        if let Some(held) = self.holds.0.lock().held.get_mut(&self.id) {
            held.lost = true;
        }
    }

    /// Gives it another bound, which counts when bounds are applied next.
    pub(crate) fn set_bound(&self, bound: Bound) {
        if let Some(held) = self.holds.0.lock().held.get_mut(&self.id) {
            held.bound = Some(bound);
        }
    }

    /// Returns the position held.
    pub(crate) fn lsn(&self) -> Lsn {
        self.holds.0.lock().held.get(&self.id).map_or(Lsn::MAX, |held| held.lsn)
    }

    /// Returns whether it lets files go now: lost, or released until it catches up.
    pub(crate) fn is_loose(&self) -> bool {
        self.holds.0.lock().held.get(&self.id).is_some_and(|held| held.lost || held.released)
    }

    /// Returns whether it was lost for good.
    pub(crate) fn is_lost(&self) -> bool {
        self.holds.0.lock().held.get(&self.id).is_some_and(|held| held.lost)
    }

    /// Returns by which bound it was lost, if that happened in this life of the log.
    pub(crate) fn lost_by(&self) -> Option<LagLimit> {
        self.holds.0.lock().held.get(&self.id).and_then(|held| held.lost_by)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.holds.0.lock().held.remove(&self.id);
    }
}
