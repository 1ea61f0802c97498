//! `Consumers`: named readers of a log, each with a cursor that survives a crash and keeps the files it needs, up to a
//! bound.
//!
//! This module handles names and positions. `retention_pins` defines what a hold does at its bound, and `cursor_file`
//! defines the bytes.
//!
//! # Invariants
//! - U1. A hold protects what the file says: it moves up only after the file was replaced, so that a crash moves no
//!   cursor back below what was freed.
//! - U2. A cursor is in the file before its tail exists, and again at least whenever it comes to another log file.
//!   Records that it passed since then are sent again after a crash.
//! - U3. Every cursor has a bound, and every bound is reached before `wal.max_segments`.
//! - U4. At most one tail at a time has a cursor, and no tail gets a cursor that has lost its place: the attach fails
//!   at once.
//! - U5. Nothing is written once the log is closed: another owner may have the directory then.
//! - U6. A consumer that had passed the place where `point_in_time` opened a damaged log has lost its place: records
//!   that it got are no longer in the log.
//!
//! # Locks
//! `saving`, then `cursors`, then `Segments`; no I/O while `cursors` is held.
//!
//! Checked by `tests/consumers.rs`, and by the crash lab (U1, U2: `lab::model` E7).
//!
//! | file | holds |
//! |---|---|
//! | `cursor_file` | the file of the cursors |
//! | `tail_options` | where a tail starts, and how far it may fall behind |

use std::{
    collections::{BTreeMap, btree_map::Entry},
    path::PathBuf,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use collie_base::Lsn;
use collie_env::Env;
use parking_lot::Mutex;

use crate::{
    LagPolicy, Options, TailOptions, WalError, consumers::cursor_file::CONSUMERS_MAX,
    consumers::cursor_file::StoredCursor, consumers::cursor_file::StoredCursors, consumers::cursor_file::name_refusal,
    segment::Segments, segment::Span, segment::retention_pins::Bound, segment::retention_pins::LagLimit,
    segment::retention_pins::RetentionPin, segment::retention_pins::lag,
};

/// Figures of one consumer of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerStat {
    /// Its name.
    pub name: String,
    /// Everything below was consumed.
    pub lsn: Lsn,
    /// Files are needed from this position on: `lsn`, or below it the beginning of a record that was not finished
    /// there. It is the position that is on disk.
    pub restart: Lsn,
    /// What happens at the bound.
    pub policy: LagPolicy,
    /// The bound in log files that were begun after the one that holds `restart`.
    pub bound_segments: u32,
    /// The bound in bytes written to log files.
    pub bound_bytes: u64,
    /// Whether a tail has the cursor now.
    pub attached: bool,
    /// Whether it reached its bound and lost its place.
    pub lost: bool,
    /// The bound at which it lost its place, if that happened since the log was opened.
    pub lost_by: Option<LagLimit>,
    /// Positions between `restart` and the durable end: bytes of records, and skipped positions among them.
    pub lag_bytes: u64,
    /// Bytes that were written to the files in `pins`; of the oldest file the share above `restart`. This counts for
    /// the bound.
    pub kept_bytes: u64,
    /// The files that are kept for it, oldest first: those with records at or above `restart`, except the one being
    /// written. Empty if it keeps none.
    pub pins: Vec<PathBuf>,
    /// How long it has been at `restart`; zero in a log that is not open.
    pub stands_for: Duration,
}

#[derive(Debug)]
struct Cursor {
    lsn: Lsn,
    restart: Lsn,
    bound: Bound,
    hold: RetentionPin,
    attached: bool,
    /// Whether the file does not have this state yet.
    dirty: bool,
    moved_ns: u64,
}

/// The consumers of an open log.
#[derive(Debug)]
pub(crate) struct Consumers {
    env: Env,
    dir: PathBuf,
    log_id: [u8; 16],
    max_segments: u32,
    spares: u32,
    cursors: Mutex<BTreeMap<String, Cursor>>,
    /// The number of cursors, stored under the lock of `cursors`.
    count: AtomicUsize,
    /// Whether the file may still be written (U5); locked during a write.
    saving: Mutex<bool>,
}

/// The position at which a tail that attached to a cursor starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attached {
    pub(crate) lsn: Lsn,
    pub(crate) restart: Lsn,
}

impl Consumers {
    /// Takes the `stored` cursors and creates a hold for each. If the log was opened without its damaged end,
    /// `lost_above` is the position from which on records are lost (U6).
    pub(crate) fn new(
        env: &Env,
        options: &Options,
        segments: &Segments,
        stored: Option<StoredCursors>,
        lost_above: Option<Lsn>,
    ) -> Self {
        let mut cursors = BTreeMap::new();
        let moved_ns = env.clock.now_ns();
        for StoredCursor { name, lsn, restart, bound, lost } in stored.map_or(Vec::new(), |stored| stored.cursors) {
            let (hold, _) = segments.hold_from(restart, who(&name), Some(bound));
            let loses = restart < segments.pins.start() || lost_above.is_some_and(|end| lsn > end);
            if lost || loses {
                hold.lose();
            }
            let dirty = loses && !lost;
            cursors.insert(name, Cursor { lsn, restart, bound, hold, attached: false, dirty, moved_ns });
        }
        segments.enforce();
        Self {
            env: env.clone(),
            dir: segments.dir().to_owned(),
            log_id: segments.log_id(),
            max_segments: options.max_segments,
            spares: options.spares,
            count: AtomicUsize::new(cursors.len()),
            cursors: Mutex::new(cursors),
            saving: Mutex::new(true),
        }
    }

    /// Checks the bounds of a tail and completes them with the defaults.
    fn bound(&self, options: &TailOptions) -> Result<Bound, WalError> {
        // The last files before the limit are the spares and the file being written (U3).
        let most = self.max_segments.saturating_sub(self.spares + 4).max(1);
        // A bound in bytes suffices; without one the default bound in files applies.
        let by_files = if options.bound_bytes.is_some() { most } else { (self.max_segments / 4).min(most) };
        let segments = options.bound_segments.unwrap_or(by_files);
        if !(1..=most).contains(&segments) {
            return Err(WalError::options(format!(
                "a consumer bound of {segments} files is out of bounds under wal.max_segments = {}: use 1 to {most}",
                self.max_segments
            )));
        }
        let bytes = options.bound_bytes.unwrap_or(u64::MAX);
        if bytes == 0 {
            return Err(WalError::options("a consumer bound of 0 bytes holds nothing: use 1 or more"));
        }
        Ok(Bound { policy: options.policy, segments, bytes })
    }

    /// Gives the cursor `name` to a tail, placed according to `options`, and makes it durable (U2, U4).
    pub(crate) fn attach(&self, segments: &Segments, name: &str, options: &TailOptions) -> Result<Attached, WalError> {
        if let Some(refusal) = name_refusal(name) {
            return Err(WalError::options(refusal));
        }
        let bound = self.bound(options)?;
        let attached = {
            let mut cursors = self.cursors.lock();
            if cursors.len() >= CONSUMERS_MAX && !cursors.contains_key(name) {
                return Err(WalError::options(format!(
                    "the log has {CONSUMERS_MAX} consumers already: remove one with remove_consumer"
                )));
            }
            let entry = cursors.entry(name.to_owned());
            let known = match &entry {
                Entry::Occupied(held) if held.get().attached => {
                    return Err(WalError::options(format!("consumer {name} is being read by another tail")));
                }
                Entry::Occupied(held) => Some((held.get().lsn, held.get().restart, held.get().hold.is_lost())),
                Entry::Vacant(_) => None,
            };
            let oldest = segments.pins.start();
            let (lsn, restart) = match (options.from, known) {
                (None, Some((_, _, true))) => return Err(WalError::CursorLost { oldest }),
                (None, Some((lsn, restart, false))) => (lsn, restart),
                (None, None) => (oldest, oldest),
                // The same position again: the record that was not finished there is kept too.
                (Some(from), Some((lsn, restart, false))) if from == lsn => (lsn, restart),
                (Some(from), _) => {
                    let kept = Lsn::new(from.get().saturating_sub(options.keep_below));
                    (from.max(Lsn::FIRST), kept.max(Lsn::FIRST))
                }
            };
            // The hold comes before the check, so that the files that the check finds cannot be freed.
            let (hold, _) = segments.hold_from(restart, who(name), Some(bound));
            let oldest = segments.pins.start();
            let needed = if options.keep_below > 0 { lsn } else { restart };
            if needed < oldest {
                return Err(WalError::CursorLost { oldest });
            }
            // Files below the position that are already freed cannot be held.
            let restart = restart.max(oldest);
            hold.move_to(restart);
            let moved_ns = self.env.clock.now_ns();
            let cursor = Cursor { lsn, restart, bound, hold, attached: true, dirty: true, moved_ns };
            match entry {
                Entry::Occupied(mut held) => drop(held.insert(cursor)),
                Entry::Vacant(vacant) => drop(vacant.insert(cursor)),
            }
            self.count.store(cursors.len(), Ordering::Relaxed);
            Attached { lsn, restart }
        };
        let saved = self.save(segments).and_then(|()| match self.is_lost(name) {
            // `save` has enforced the bounds: more log lies after this position than the bound allows.
            true => Err(WalError::CursorLost { oldest: segments.pins.start() }),
            false => Ok(attached),
        });
        if saved.is_err() {
            self.detach(segments, name);
        }
        saved
    }

    /// Gives the cursor another bound in bytes of files, or with `None` the largest possible bound in files, and makes
    /// it durable. Returns whether there is a cursor of that name. A lost cursor stays lost.
    pub(crate) fn set_bound(&self, segments: &Segments, name: &str, bytes: Option<u64>) -> Result<bool, WalError> {
        let most = self.bound(&TailOptions::resume().bound_bytes(bytes.unwrap_or(u64::MAX)))?;
        {
            let mut cursors = self.cursors.lock();
            let Some(cursor) = cursors.get_mut(name) else { return Ok(false) };
            let bound = Bound { policy: cursor.bound.policy, ..most };
            cursor.dirty |= cursor.bound != bound;
            cursor.bound = bound;
            cursor.hold.set_bound(bound);
        }
        self.save(segments)?;
        Ok(true)
    }

    /// Moves the cursor up to `lsn`; `restart` is the position at which reading would have to start again.
    pub(crate) fn advance(&self, segments: &Segments, name: &str, lsn: Lsn, restart: Lsn) -> Result<(), WalError> {
        let elsewhere = {
            let mut cursors = self.cursors.lock();
            let Some(cursor) = cursors.get_mut(name) else { return Ok(()) };
            if cursor.hold.is_lost() {
                return Err(WalError::CursorLost { oldest: segments.pins.start() });
            }
            if lsn <= cursor.lsn {
                return Ok(());
            }
            (cursor.lsn, cursor.restart) = (lsn, restart.max(cursor.restart));
            cursor.dirty = true;
            if mistake!("HOLD_BEFORE_CURSOR") {
                cursor.hold.move_to(cursor.restart);
                cursor.dirty = false;
            }
            segments.turned_between(cursor.hold.lsn(), cursor.restart)
        };
        if elsewhere { self.save(segments) } else { Ok(()) }
    }

    /// Returns whether there are no consumers.
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Returns whether the cursor has lost its place.
    pub(crate) fn is_lost(&self, name: &str) -> bool {
        self.cursors.lock().get(name).is_some_and(|cursor| cursor.hold.is_lost())
    }

    /// Takes the cursor back from its tail.
    pub(crate) fn detach(&self, segments: &Segments, name: &str) {
        if let Some(cursor) = self.cursors.lock().get_mut(name) {
            cursor.attached = false;
        }
        // If this fails, records are only sent again.
        let _best_effort = self.save(segments);
    }

    /// Removes the cursor; returns whether there was one.
    pub(crate) fn remove(&self, segments: &Segments, name: &str) -> Result<bool, WalError> {
        {
            let mut cursors = self.cursors.lock();
            match cursors.get(name) {
                None => return Ok(false),
                Some(cursor) if cursor.attached => {
                    return Err(WalError::options(format!("consumer {name} is being read: drop its tail first")));
                }
                Some(_) => drop(cursors.remove(name)),
            }
            self.count.store(cursors.len(), Ordering::Relaxed);
        }
        self.write(segments)?;
        Ok(true)
    }

    /// Writes the cursors if they have moved, and releases the files that they have passed (U1).
    pub(crate) fn save(&self, segments: &Segments) -> Result<(), WalError> {
        let dirty = self.cursors.lock().values().any(|cursor| cursor.dirty);
        if dirty { self.write(segments) } else { Ok(()) }
    }

    fn write(&self, segments: &Segments) -> Result<(), WalError> {
        let open = self.saving.lock();
        if !*open {
            return Err(WalError::Closed);
        }
        let cursors: Vec<StoredCursor> = {
            let mut cursors = self.cursors.lock();
            let stored = |(name, cursor): (&String, &mut Cursor)| {
                cursor.dirty = false;
                let (name, lost) = (name.clone(), cursor.hold.is_lost());
                let lsn = if mistake!("CURSOR_AHEAD") { cursor.lsn.plus(1) } else { cursor.lsn };
                StoredCursor { name, lsn, restart: cursor.restart, bound: cursor.bound, lost }
            };
            cursors.iter_mut().map(stored).collect()
        };
        let stored = StoredCursors { log_id: self.log_id, cursors };
        // U1: a hold moves only after this write.
        let written = if mistake!("CURSOR_NOT_STORED") { Ok(()) } else { stored.write(&*self.env.files, &self.dir) };
        let now_ns = self.env.clock.now_ns();
        let mut cursors = self.cursors.lock();
        for saved in stored.cursors {
            let Some(cursor) = cursors.get_mut(&saved.name) else { continue };
            cursor.dirty |= written.is_err();
            if written.is_ok() && saved.restart > cursor.hold.lsn() {
                cursor.hold.move_to(saved.restart);
                cursor.moved_ns = now_ns;
            }
        }
        drop(cursors);
        segments.enforce();
        written
    }

    /// Ends all writing; if the log is closed in order, saves the cursors first.
    pub(crate) fn close(&self, segments: &Segments, orderly: bool) -> Result<(), WalError> {
        let saved = if orderly && *self.saving.lock() { self.save(segments) } else { Ok(()) };
        *self.saving.lock() = false;
        saved
    }

    /// Returns the figures of all consumers, ordered by name.
    pub(crate) fn stats(&self, spans: &[Span], durable: Lsn) -> Vec<ConsumerStat> {
        let now_ns = self.env.clock.now_ns();
        let cursors = self.cursors.lock();
        let stat = |(name, cursor): (&String, &Cursor)| {
            let held = cursor.hold.lsn();
            let stored = StoredCursor {
                name: name.clone(),
                lsn: cursor.lsn,
                restart: held,
                bound: cursor.bound,
                lost: cursor.hold.is_lost(),
            };
            let stands_for = Duration::from_nanos(now_ns.saturating_sub(cursor.moved_ns));
            let mut stat = stat_of(stored, spans, durable);
            (stat.attached, stat.stands_for) = (cursor.attached, stands_for);
            stat.lost_by = cursor.hold.lost_by();
            if cursor.hold.is_loose() {
                stat.pins.clear();
                stat.kept_bytes = 0;
            }
            stat
        };
        cursors.iter().map(stat).collect()
    }
}

/// Returns the name of a consumer in messages.
fn who(name: &str) -> String {
    format!("consumer {name}")
}

/// Returns the figures of a cursor in a log with these segments.
pub(crate) fn stat_of(cursor: StoredCursor, spans: &[Span], durable: Lsn) -> ConsumerStat {
    let StoredCursor { name, lsn, restart, bound, lost } = cursor;
    let (behind, bytes) = lag(spans, restart);
    let complete = spans.len().saturating_sub(1);
    let pinned = if lost { 0 } else { behind.min(complete) };
    let pins = spans[complete - pinned..complete].iter().map(|span| span.path.clone()).collect();
    ConsumerStat {
        name,
        lsn,
        restart,
        policy: bound.policy,
        bound_segments: bound.segments,
        bound_bytes: bound.bytes,
        attached: false,
        lost,
        lost_by: None,
        lag_bytes: durable.bytes_since(restart),
        kept_bytes: if lost { 0 } else { bytes },
        pins,
        stands_for: Duration::ZERO,
    }
}
pub(crate) mod cursor_file;
pub(crate) mod tail_options;
