//! `Segments`: the files of an open log: its segments, their contents, and the spares prepared ahead.
//!
//! # Invariants
//! - G1. A spare is whole and durable (`spare` H1, H2) before a flush writes to it: turning to it costs no extra sync.
//! - G2. Segment numbers grow; a number is used once per log, a salt once.
//! - G3. Segments are freed oldest first, one at a time, each durably before the next, and never the last two: an open
//!   after a crash continues from the end of the one before the current.
//! - G4. A freed file becomes a spare again while spares are wanted, and is removed otherwise.
//! - G5. One spare in addition to `wal.spares` is for emergencies: if it is the only one left, no further one can be
//!   prepared and the current segment is half full with the next frame, appends are refused before they reserve. The
//!   reserved records fit into the rest of the current segment, and the emergency spare takes them if that segment
//!   fails (LOG-11). A consumer at its bound (`retention_pins` K4) closes admission too.
//! - G8. With two or more `wal.spares` one of them is a reserve: once no further one can be prepared, only appends that
//!   give room back may use it, and these are refused as G5 says. It may be lent too: its file is removed, and a
//!   borrower has its room for a while. The emergency spare is never lent.
//! - G6. A broken segment behind the anchor of a rewrite holds nothing that counts, and it is removed before an older
//!   one is freed: at the front of the log its frames would look like the log's start.
//! - G7. A segment with records at or above a hold is not freed; holds are made under the same mutex.
//!
//! Checked by the crash lab (names lost at power cuts), `tests/recycle.rs`, and `tests/fault.rs` (full disk).
//!
//! | file | holds |
//! |---|---|
//! | `spare` | a segment file that is ready to be written to |
//! | `retention_pins` | the positions that readers still need |

pub(crate) mod retention_pins;
pub(crate) mod spare;

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_base::Lsn;
use collie_env::Env;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    WalError, format::SegmentHeader, report::warning::Warnings, segment::retention_pins::Bound,
    segment::retention_pins::RetentionPin, segment::retention_pins::RetentionPins, segment::spare::Spare,
};

/// Where a frame ends, and the next one continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Anchor {
    /// The segment that holds it.
    pub(crate) salt: u64,
    /// Where it ends in the segment.
    pub(crate) until: u64,
    pub(crate) crc: u32,
    pub(crate) end: Lsn,
}

/// Spares kept in addition to `wal.spares`, for reserved records when no more can be prepared (G5).
pub(crate) const EMERGENCY_SPARES: usize = 1;
/// Those of two or more `wal.spares` that are kept for appends that give room back, when no more can be prepared (G8).
const RESERVE_SPARES: usize = 1;

/// A segment that holds part of the log.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) path: PathBuf,
    pub(crate) salt: u64,
    pub(crate) segment_bytes: u64,
    /// Where the records before it end: all from here to the next segment's are in it. Positions may jump behind it.
    pub(crate) first: Lsn,
    /// Where its last frame that counts ends; `None` while it is the current one.
    pub(crate) until: Option<u64>,
    /// Whether a write or sync of it failed: it is never written again, not even as a spare (LOG-9).
    pub(crate) broken: bool,
}

#[derive(Debug)]
struct Inner {
    spares: VecDeque<Spare>,
    spans: Vec<Span>,
    /// Broken segments without a frame that counts, still to be removed (G6).
    condemned: Vec<PathBuf>,
    /// Files that held the log and wait to be prepared again (G4).
    freed: VecDeque<PathBuf>,
    next_number: u64,
    preparing: bool,
    /// Why the last preparation failed; cleared by a success.
    failed: Option<String>,
    /// Whether the current segment is more than half full.
    half_full: bool,
    /// Whether the shortage of spares was announced; reset when they are no longer scarce.
    announced: bool,
    /// Loans in progress: no spare is prepared during one (G8).
    lent: u32,
    /// Whether the preparer waits for [`Segments::let_prepare`], so that the opener has the room on the disk.
    held_back: bool,
    stop: bool,
}

impl Inner {
    /// Returns whether at most the emergency spare is left.
    fn is_short(&self) -> bool {
        self.spares.len() <= EMERGENCY_SPARES
    }
}

/// The files of an open log.
#[derive(Debug)]
pub(crate) struct Segments {
    env: Env,
    dir: PathBuf,
    log_id: [u8; 16],
    segment_bytes: u64,
    /// Least size of a file if the disk has no room for a whole one.
    segment_bytes_min: u64,
    wanted_spares: usize,
    /// Of these, kept for appends that give room back (G8).
    reserve_spares: usize,
    /// Whether a thread prepares spares.
    has_preparer: bool,
    max_segments: usize,
    warnings: Warnings,
    /// Positions that readers need (G7).
    pub(crate) pins: Arc<RetentionPins>,
    inner: Mutex<Inner>,
    changed: Condvar,
    /// Held while files are freed (G3).
    freeing: Mutex<()>,
}

/// The result of freeing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Freed {
    /// Where the log starts now.
    pub start: Lsn,
    /// The holder of records below the requested position, if it kept a file: a consumer, a reader by mapping or a pin.
    pub held_by: Option<String>,
}

/// The state from which [`Segments::new`] starts.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) spans: Vec<Span>,
    pub(crate) spares: Vec<Spare>,
    pub(crate) next_number: u64,
    pub(crate) log_id: [u8; 16],
}

impl Segments {
    pub(crate) fn new(env: Env, dir: PathBuf, options: &crate::Options, start: Start) -> Self {
        Self {
            env,
            dir,
            log_id: start.log_id,
            segment_bytes: options.segment_bytes,
            segment_bytes_min: options.segment_bytes_min(),
            wanted_spares: options.spares as usize + EMERGENCY_SPARES,
            reserve_spares: if options.spares > 1 { RESERVE_SPARES } else { 0 },
            has_preparer: options.threads,
            max_segments: options.max_segments as usize,
            warnings: options.warnings.clone(),
            pins: RetentionPins::new(start.spans.first().map_or(Lsn::FIRST, |span| span.first)),
            inner: Mutex::new(Inner {
                spares: start.spares.into(),
                spans: start.spans,
                condemned: Vec::new(),
                freed: VecDeque::new(),
                next_number: start.next_number,
                preparing: false,
                failed: None,
                half_full: false,
                announced: false,
                lent: 0,
                held_back: options.spares_wait,
                stop: false,
            }),
            changed: Condvar::new(),
            freeing: Mutex::new(()),
        }
    }

    /// Returns whether at most the emergency spare is left.
    pub(crate) fn is_short(&self) -> bool {
        self.inner.lock().is_short()
    }

    /// Returns whether at most the emergency spare and the reserve are left.
    fn is_scarce(&self, inner: &Inner) -> bool {
        inner.spares.len() <= EMERGENCY_SPARES + self.reserve_spares
    }

    /// Returns whether there is no room, if no spare can be prepared (G5, G8).
    fn has_no_room(&self, inner: &Inner) -> bool {
        let takes_the_reserve = self.reserve_spares > 0 && inner.is_short();
        takes_the_reserve || inner.half_full && self.is_scarce(inner)
    }

    /// Returns the reason why appends are refused now, if they are (G5, G8).
    pub(crate) fn full(&self) -> Option<String> {
        let inner = self.inner.lock();
        let no_room = self.has_no_room(&inner);
        inner.failed.clone().filter(|_| no_room).or_else(|| self.pins.closed())
    }

    /// Returns the reason why appends that give room back are refused now, if they are (G5).
    pub(crate) fn full_to_give_back(&self) -> Option<String> {
        let inner = self.inner.lock();
        let no_room = inner.half_full && inner.is_short();
        inner.failed.clone().filter(|_| no_room).or_else(|| self.pins.closed())
    }

    /// Returns a line for an operator if the spares run out: that they do, and why.
    pub(crate) fn alarm(&self) -> Option<String> {
        let inner = self.inner.lock();
        inner.failed.as_deref().filter(|_| self.is_scarce(&inner)).map(|cause| shortage(inner.spares.len(), cause))
    }

    /// Prepares one spare if there are too few; returns `Ok(false)` if there was nothing to do.
    pub(crate) fn prepare_one(&self) -> Result<bool, WalError> {
        let (header, freed) = {
            let mut inner = self.inner.lock();
            // A caller that finds no spare does not wait for the end of a loan (`take_spare`).
            let is_lent = inner.lent > 0 && !inner.spares.is_empty();
            if inner.preparing || inner.stop || is_lent || inner.spares.len() >= self.wanted_spares {
                return Ok(false);
            }
            let freed = inner.freed.pop_front();
            let files = inner.spans.len() + inner.spares.len() + inner.freed.len();
            if freed.is_none() && files >= self.max_segments {
                let limit = self.max_segments;
                let held =
                    self.pins.lowest().filter(|(lsn, _)| inner.spans.get(1).is_some_and(|next| *lsn < next.first));
                let by = held.map_or(String::new(), |(lsn, who)| format!(": {who} holds all from {lsn}"));
                let pinned_by = format!("wal.max_segments = {limit} files hold records that are still needed{by}");
                self.note_failure(inner, pinned_by.clone());
                return Err(WalError::Full { pinned_by });
            }
            inner.preparing = true;
            let number = inner.next_number;
            inner.next_number += 1;
            let salt = self.env.random.u64();
            let header = SegmentHeader { log_id: self.log_id, number, salt, segment_bytes: self.segment_bytes };
            (header, freed)
        };
        let prepared = match &freed {
            Some(file) => spare::prepare_again(&self.env, &self.dir, file, header),
            None => {
                let stopped = || self.inner.lock().stop;
                let least = self.segment_bytes_min;
                spare::prepare_what_fits(&self.env, &self.dir, header, least, &stopped)
            }
        };
        if let (Err(_), Some(file)) = (&prepared, &freed) {
            // The next opening removes it if this fails.
            let _best_effort = spare::remove(&self.env, file);
        }
        let mut inner = self.inner.lock();
        inner.preparing = false;
        self.changed.notify_all();
        match prepared {
            Ok(spare) => {
                inner.spares.push_back(spare);
                inner.failed = None;
                inner.announced &= self.is_scarce(&inner);
                Ok(true)
            }
            // Given up because the log closes: no shortage.
            Err(error) if inner.stop => Err(error),
            Err(error) => {
                self.note_failure(inner, error.to_string());
                Err(error)
            }
        }
    }

    /// Notes why no spare could be prepared, and warns once per shortage.
    fn note_failure(&self, mut inner: MutexGuard<'_, Inner>, cause: String) {
        let line = (self.is_scarce(&inner) && !inner.announced).then(|| shortage(inner.spares.len(), &cause));
        inner.announced |= line.is_some();
        inner.failed = Some(cause);
        drop(inner);
        if let Some(line) = line {
            self.warnings.note(line);
        }
    }

    /// Notes whether the current segment is more than half full. If so, and too few spares are left, waits for the
    /// preparer, or prepares one here unless the last try failed (G5). Returns whether appends must be refused now.
    pub(crate) fn ensure_room(&self, half_full: bool) -> bool {
        self.lacks_spares(half_full) || self.pins.closed().is_some()
    }

    fn lacks_spares(&self, half_full: bool) -> bool {
        let mut inner = self.inner.lock();
        inner.half_full = half_full;
        loop {
            if inner.failed.is_some() && self.has_no_room(&inner) {
                return true;
            }
            // Without a preparer thread the writer prepares a spare before it takes the reserve.
            let must_prepare = if self.has_preparer { inner.is_short() } else { self.is_scarce(&inner) };
            if !half_full || !must_prepare {
                return false;
            }
            if inner.preparing {
                self.changed.wait(&mut inner);
                continue;
            }
            if inner.failed.is_some() || inner.stop || inner.lent > 0 {
                return true;
            }
            drop(inner);
            // The outcome is read from `spares` and `failed` in the next iteration.
            let _noted = self.prepare_one();
            inner = self.inner.lock();
        }
    }

    /// Takes the next spare; prepares one if there is none.
    ///
    /// # Errors
    /// The reason why none can be prepared.
    pub(crate) fn take_spare(&self) -> Result<Spare, WalError> {
        let mut inner = self.inner.lock();
        loop {
            if let Some(spare) = inner.spares.pop_front() {
                self.changed.notify_all();
                return Ok(spare);
            }
            if inner.preparing {
                self.changed.wait(&mut inner);
                continue;
            }
            if inner.stop {
                return Err(WalError::Closed);
            }
            drop(inner);
            self.prepare_one()?;
            inner = self.inner.lock();
        }
    }

    /// Leaves the current segment at `until` and takes the next spare, whose first record will be at `first`.
    pub(crate) fn turn(&self, until: u64, first: Lsn) -> Result<Spare, WalError> {
        let spare = self.take_spare()?;
        let mut inner = self.inner.lock();
        if let Some(span) = inner.spans.last_mut() {
            span.until = Some(until);
        }
        let path = spare.path.clone();
        let (salt, segment_bytes) = (spare.header.salt, spare.header.segment_bytes);
        inner.spans.push(Span { path, salt, segment_bytes, first, until: None, broken: false });
        inner.half_full = false;
        let news = self.pins.enforce(&inner.spans);
        drop(inner);
        news.into_iter().for_each(|line| self.warnings.note(line));
        Ok(spare)
    }

    /// Cuts the log behind `anchor`, where `current` continues, because the segment that was current failed. Nothing
    /// between them counts any more (G6).
    pub(crate) fn replace_tail(&self, anchor: Anchor, current: Span) {
        let mut inner = self.inner.lock();
        let kept = inner.spans.iter().rposition(|span| span.salt == anchor.salt);
        let kept = kept.expect("the anchor's segment is not freed: it is one of the last two (G3)");
        let behind = inner.spans.split_off(kept + 1);
        let span = &mut inner.spans[kept];
        span.until = Some(anchor.until);
        // The failed file is the one that was current: the anchor's own or one behind it.
        span.broken |= behind.is_empty();
        inner.spans.push(current);
        inner.half_full = false;
        inner.condemned.extend(behind.into_iter().map(|span| span.path));
        drop(inner);
        // Tried again before an older segment is freed.
        let _best_effort = self.remove_condemned();
    }

    /// Removes the segments that a rewrite left without a frame that counts (G6).
    fn remove_condemned(&self) -> Result<(), WalError> {
        loop {
            let Some(path) = self.inner.lock().condemned.last().cloned() else { return Ok(()) };
            spare::remove(&self.env, &path)?;
            self.inner.lock().condemned.retain(|other| *other != path);
        }
    }

    /// Runs the preparer thread: keeps preparing spares until [`Segments::stop`]; calls `changed` after each try, and
    /// about once a second.
    pub(crate) fn run_preparer(&self, changed: impl Fn()) {
        loop {
            let is_held_back = self.inner.lock().held_back;
            let tried = if is_held_back { Ok(false) } else { self.prepare_one() };
            changed();
            let mut inner = self.inner.lock();
            if inner.stop {
                return;
            }
            match tried {
                Ok(true) => {}
                Ok(false) => {
                    self.changed.wait_for(&mut inner, Duration::from_secs(1));
                }
                Err(_) => {
                    self.changed.wait_for(&mut inner, Duration::from_millis(100));
                }
            }
        }
    }

    /// Lets the preparer begin, if it was to wait for that (`Options::spares_wait`).
    pub(crate) fn let_prepare(&self) {
        self.inner.lock().held_back = false;
        self.changed.notify_all();
    }

    /// Removes a spare of at least `bytes` that is not the last one, so that a borrower has its room until
    /// [`Segments::end_loan`]. Returns `false` if there is none to lend, or it cannot be removed (G8).
    pub(crate) fn lend_spare(&self, bytes: u64) -> bool {
        let spare = {
            let mut inner = self.inner.lock();
            let lendable = if inner.is_short() || inner.stop { 0 } else { inner.spares.len() };
            let large = (0..lendable).rev().find(|at| inner.spares[*at].header.segment_bytes >= bytes);
            let Some(spare) = large.and_then(|at| inner.spares.remove(at)) else { return false };
            inner.lent += 1;
            spare
        };
        drop(spare.file);
        let removed = spare::remove(&self.env, &spare.path).is_ok();
        if !removed {
            self.end_loan();
        }
        removed
    }

    /// Ends a loan: spares are prepared again.
    pub(crate) fn end_loan(&self) {
        self.inner.lock().lent -= 1;
        self.changed.notify_all();
    }

    /// Stops the preparer.
    pub(crate) fn stop(&self) {
        self.inner.lock().stop = true;
        self.changed.notify_all();
    }

    /// Returns the segments that hold the log, oldest first.
    pub(crate) fn spans(&self) -> Vec<Span> {
        self.inner.lock().spans.clone()
    }

    /// Returns how many segments hold the log and how many spares are ready.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let inner = self.inner.lock();
        (inner.spans.len(), inner.spares.len())
    }

    /// Returns the segments that hold the log, and a hold of those with records at or above `from` (G7).
    pub(crate) fn hold_from(&self, from: Lsn, who: String, bound: Option<Bound>) -> (RetentionPin, Vec<Span>) {
        let inner = self.inner.lock();
        let start = self.pins.start();
        // A segment that is being freed counts as gone.
        let gone = inner.spans.iter().skip(1).take_while(|next| next.first <= start).count();
        (self.pins.hold(from, who, bound), inner.spans[gone..].to_vec())
    }

    /// Applies the bounds of the holds, after they have moved.
    pub(crate) fn enforce(&self) {
        let news = self.pins.enforce(&self.inner.lock().spans);
        news.into_iter().for_each(|line| self.warnings.note(line));
    }

    /// Returns whether a segment begins above `from` and at or below `to`.
    pub(crate) fn turned_between(&self, from: Lsn, to: Lsn) -> bool {
        self.inner.lock().spans.iter().any(|span| from < span.first && span.first <= to)
    }

    /// Returns the directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the id of the log.
    pub(crate) fn log_id(&self) -> [u8; 16] {
        self.log_id
    }

    /// Frees whole segments that end at or below `lsn` and below every hold (G3, G4, G7).
    ///
    /// # Errors
    /// `Io`: the segment at fault is not read any more, and the next call tries it again.
    pub(crate) fn free_before(&self, lsn: Lsn) -> Result<Freed, WalError> {
        let _one_at_a_time = self.freeing.lock();
        self.remove_condemned()?;
        loop {
            let (oldest, wanted) = {
                let inner = self.inner.lock();
                let start = inner.spans.first().map_or(lsn, |span| span.first);
                let second = inner.spans.get(1).map(|next| next.first);
                let Some(second) = second.filter(|second| inner.spans.len() > 2 && *second <= lsn) else {
                    return Ok(Freed { start, held_by: None });
                };
                if let Some((_, who)) = self.pins.lowest().filter(|(held, _)| second > *held) {
                    return Ok(Freed { start, held_by: Some(who) });
                }
                // Before the file is touched: a reader that finds it changed finds the new start too (`retention_pins`
                // K3).
                self.pins.set_start(second);
                let coming = inner.spares.len() + inner.freed.len() + usize::from(inner.preparing);
                (inner.spans[0].clone(), coming < self.wanted_spares)
            };
            let again = wanted && !oldest.broken && oldest.segment_bytes == self.segment_bytes;
            let kept = if again {
                Some(spare::set_free(&self.env, &oldest.path)?)
            } else {
                spare::remove(&self.env, &oldest.path)?;
                None
            };
            let mut inner = self.inner.lock();
            inner.spans.remove(0);
            inner.freed.extend(kept);
            self.changed.notify_all();
        }
    }
}

/// Returns the warning that spares run out.
fn shortage(spares: usize, cause: &str) -> String {
    format!(
        "wal: {spares} spare log files are left and no more can be prepared ({cause}); appends are refused once the \
         current file is half full: free space, the log goes on by itself"
    )
}
