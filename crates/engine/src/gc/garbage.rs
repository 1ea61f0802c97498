//! `Garbage`: the rows that have old versions, and when each is worth another visit.
//!
//! A row is in `queue` from the commit that superseded one of its versions until it has been cleaned up to that
//! commit, in roughly the order of commits. If a snapshot still reads a remaining version, the row is then in
//! `held` under that snapshot until the snapshot ends. So one old snapshot keeps a row waiting once, however often
//! the row is written.
//!
//! # Invariants
//! - G1. A row with old versions whose successors are stamped is in `queue` or `held`, at most once in each, so
//!   both are bounded by the number of rows. The marks are in the row itself (R7 of `store`'s rows).
//! - G2. The counted bytes are those of versions that commits made old, minus those that pruning freed. A dropped
//!   family takes its share with it.
//! - G3. The keys of `held` are snapshots below `up`; the next rounds empty the entry of a snapshot that is no
//!   longer live.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use collie_base::{CfId, LiveSnapshots, Lsn};
use collie_obs::{GcTick, word};
use collie_store::{Family, Kept, Pending, Pruned, Row};
use collie_sync::{Mutex, StripedCounter, mutant};

use crate::families::Families;

/// Rows taken from a queue each time that its lock is held.
const CLEAN_BATCH_ROWS: usize = 256;

/// The most rows cleaned in one round, so that a round stays short.
const ROUND_ROWS_MAX: usize = 50_000;

/// Which rows a round visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of which something can be freed, up to a limit.
    Due,
    /// All of them, including those that wait for a live snapshot: memory is short.
    All,
}

type Held = BTreeMap<Lsn, Vec<(CfId, Arc<Row>)>>;
type Queue = VecDeque<(Lsn, CfId, Arc<Row>)>;

/// Rows with old versions.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    /// By the first commit that superseded a version since the row was cleaned.
    queue: Mutex<Queue>,
    /// By a snapshot that reads a remaining version. Only the thread that is cleaning changes it.
    held: Mutex<Held>,
    /// The number of rows in `held`, for figures: its lock is held for a whole round.
    held_rows: AtomicUsize,
    /// Bytes of old versions (G2).
    bytes: StripedCounter,
    /// When the last round began, and the time since the one before it. They are only reported and publish nothing
    /// else.
    round_began_us: AtomicU64,
    since_last_us: AtomicU64,
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Returns whether the collector visits a row that was superseded at `csn`: no snapshot that begins now sees the
/// old version.
fn is_due(csn: Lsn, up: Lsn) -> bool {
    if mutant!("FREED_AT_HORIZON") { csn <= up } else { csn < up }
}

impl Garbage {
    /// Adds the bytes that the commit at `csn`, whose versions are stamped, made old, and queues the rows that
    /// have them.
    pub(crate) fn add(&self, csn: Lsn, entries: &[(CfId, Pending)]) {
        self.bytes.add(signed(entries.iter().map(|(_, pending)| pending.outdates()).sum()));
        let superseding = entries.iter().filter(|(_, pending)| pending.supersedes());
        let mut new = superseding.filter(|(_, pending)| pending.row().queue()).peekable();
        if new.peek().is_some() {
            self.queue.lock().extend(new.map(|(cf, pending)| (csn, *cf, Arc::clone(pending.row()))));
        }
    }

    /// Adds bytes of old versions that an opening has loaded or found superseded.
    pub(crate) fn loaded(&self, bytes: i64) {
        if bytes != 0 {
            self.bytes.add(bytes);
        }
    }

    /// Adds the bytes of versions that commits, whose versions are stamped, made old, and queues their rows, in
    /// roughly the order of the commits. This is for a database that follows a log.
    pub(crate) fn superseded(&self, bytes: u64, mut rows: Vec<(Lsn, CfId, Arc<Row>)>) {
        self.bytes.add(signed(bytes));
        rows.retain(|(_, _, row)| row.queue());
        if !rows.is_empty() {
            self.queue.lock().extend(rows);
        }
    }

    /// Queues a row whose deletion at `csn` waited for a flush.
    pub(crate) fn look_again(&self, csn: Lsn, cf: CfId, row: &Arc<Row>) {
        if row.queue() {
            self.queue.lock().push_back((csn, cf, Arc::clone(row)));
        }
    }

    /// Subtracts bytes that were freed elsewhere.
    pub(crate) fn freed(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes.add(-signed(bytes));
        }
    }

    /// Returns the bytes of old versions, approximately while commits and pruning are in progress.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.sum()).unwrap_or(0)
    }

    /// Notes that a round begins at `now`.
    pub(crate) fn note_round(&self, now: Duration) {
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let last_us = self.round_began_us.swap(now_us, Relaxed);
        let since_last_us = if last_us == 0 { 0 } else { now_us.saturating_sub(last_us) };
        self.since_last_us.store(since_last_us, Relaxed);
    }

    /// Cleans rows and returns their number: rows superseded below `up`, and rows whose snapshot has ended.
    pub(crate) fn clean(&self, families: &Families, live: &LiveSnapshots, reach: Reach) -> usize {
        let span = collie_obs::start::<GcTick>();
        let (mut cleaned, mut freed, mut versions) = (0, 0, 0);
        let mut held = self.held.lock();
        // Rows that are put back during this round are not visited again.
        let mut waiting = if reach == Reach::All { std::mem::take(&mut *held) } else { BTreeMap::new() };
        let mut family = Cached { families, family: None };
        let mut again = Vec::new();
        let mut batch = Vec::with_capacity(CLEAN_BATCH_ROWS);
        while reach == Reach::All || cleaned < ROUND_ROWS_MAX {
            {
                let mut queue = self.queue.lock();
                while batch.len() < CLEAN_BATCH_ROWS && queue.front().is_some_and(|(csn, ..)| is_due(*csn, live.up())) {
                    batch.extend(queue.pop_front());
                }
            }
            if batch.is_empty() {
                batch.extend(match reach {
                    Reach::Due => release(&mut held, |snapshot| live.below_up().binary_search(&snapshot).is_err()),
                    Reach::All => release(&mut waiting, |_| true),
                });
            }
            if batch.is_empty() {
                break;
            }
            cleaned += batch.len();
            for (csn, cf, row) in batch.drain(..) {
                let Some(family) = family.get(cf) else { continue };
                row.unqueue(); // before it is cleaned (R7)
                let before = if span.is_some() { row.version_count() } else { 0 };
                let Pruned { bytes, kept, left, .. } = family.clean(&row, live);
                self.freed(bytes);
                freed += bytes;
                versions += before.saturating_sub(left as usize);
                match kept {
                    Some(Kept::By(snapshot)) if row.hold() => held.entry(snapshot).or_default().push((cf, row)),
                    Some(Kept::Until(superseded)) => again.push((superseded, cf, row)),
                    Some(Kept::Unfinished) => again.push((csn, cf, row)),
                    None | Some(Kept::By(_)) => {}
                }
            }
        }
        self.held_rows.store(held.values().map(Vec::len).sum(), Relaxed);
        again.retain(|(_, _, row)| row.queue());
        if !again.is_empty() {
            self.queue.lock().extend(again);
        }
        if let Some(span) = span {
            let (rows_visited, versions_freed) = (word(cleaned), word(versions));
            let live_snapshots = word(live.below_up().len());
            let us_since_last = word(self.since_last_us.load(Relaxed));
            let tick = GcTick { rows_visited, versions_freed, live_snapshots, us_since_last };
            span.stop_with(live.up(), tick, [freed]);
        }
        cleaned
    }

    /// Calls `act` while no row is being cleaned.
    pub(crate) fn while_nobody_cleans(&self, act: impl FnOnce()) {
        let _held = self.held.lock();
        act();
    }

    /// Returns the approximate number of rows that wait for the end of `snapshot`, or were superseded above it and
    /// not visited since. Waits for a round of cleaning that is in progress.
    pub(crate) fn kept_for(&self, snapshot: Lsn) -> usize {
        let held = self.held.lock().get(&snapshot).map_or(0, Vec::len);
        let queue = self.queue.lock();
        held + queue.len() - queue.partition_point(|(csn, ..)| *csn < snapshot)
    }

    /// Returns how many rows wait to be cleaned, and how many for the end of a snapshot.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.queue.lock().len(), self.held_rows.load(Relaxed))
    }
}

/// Removes rows that waited for a snapshot which `is_gone`, at most one batch of them.
fn release(held: &mut Held, is_gone: impl Fn(Lsn) -> bool) -> Queue {
    let gone = held.keys().copied().find(|snapshot| is_gone(*snapshot));
    let Some(snapshot) = gone else { return Queue::new() };
    let rows = held.get_mut(&snapshot).map_or_else(Vec::new, |rows| {
        let kept = rows.len().saturating_sub(CLEAN_BATCH_ROWS);
        rows.split_off(kept)
    });
    if held.get(&snapshot).is_some_and(Vec::is_empty) {
        held.remove(&snapshot);
    }
    rows.into_iter().map(|(cf, row)| (snapshot, cf, row)).inspect(|(_, _, row)| row.unhold()).collect()
}

/// The family of the last row: rows of one family come in runs.
struct Cached<'a> {
    families: &'a Families,
    family: Option<Arc<Family>>,
}

impl Cached<'_> {
    fn get(&mut self, cf: CfId) -> Option<&Arc<Family>> {
        if self.family.as_ref().is_none_or(|family| family.id() != cf) {
            self.family = self.families.get(cf);
        }
        self.family.as_ref()
    }
}
