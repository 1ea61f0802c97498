//! `Garbage`: the rows that have old versions, and when another look at each is worth it.
//!
//! A row is in `queue` from the commit that superseded something of it until it was cleaned up to there, in about the order
//! of commits; then, if a snapshot still reads what is left, in `held` under that snapshot, until it is gone. So one old
//! snapshot keeps a row waiting once, however often it is written.
//!
//! # Invariants
//! - G1. A row with old versions that somebody stamped is in `queue` or `held`: at most once in each, so both are bounded by
//!   the rows there are. The marks are the row's own (R7 of `store`'s rows).
//! - G2. The bytes counted are those of versions that commits made old, minus those that pruning freed. A family that is
//!   dropped takes its share along.
//! - G3. `held` has keys below the horizon's `up` only, and one that is not live is emptied by the next round.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use collie_base::{CfId, LiveSnapshots, Lsn};
use collie_obs::{GcTick, word};
use collie_store::{Family, Kept, Pending, Pruned, Row};
use collie_sync::{Mutex, StripedCounter, mutant};

use crate::families::Families;

/// Rows taken from a queue under one hold of its lock.
const CLEAN_BATCH_ROWS: usize = 256;

/// Rows cleaned in one round at most, so that a round stays short.
const ROUND_ROWS_MAX: usize = 50_000;

/// Which rows a round looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those of which something can be freed, and not too many of them.
    Due,
    /// Every one, those too that wait for a snapshot which is there: memory is short.
    All,
}

type Held = BTreeMap<Lsn, Vec<(CfId, Arc<Row>)>>;
type Queue = VecDeque<(Lsn, CfId, Arc<Row>)>;

/// Rows with old versions.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    /// By the commit that superseded something first since the row was cleaned.
    queue: Mutex<Queue>,
    /// By a snapshot that reads what is left. Changed by one thread at a time, which cleans.
    held: Mutex<Held>,
    /// Rows in `held`, for figures: the lock lasts as long as a round.
    held_rows: AtomicUsize,
    /// Of old versions (G2).
    bytes: StripedCounter,
    /// When the last round began, and how long after the one before it: only told, nothing is read through them.
    round_began_us: AtomicU64,
    since_last_us: AtomicU64,
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// Whether the collector looks at a row that was superseded at `csn`: nobody who begins now sees what lies below.
fn is_due(csn: Lsn, up: Lsn) -> bool {
    if mutant!("FREED_AT_HORIZON") { csn <= up } else { csn < up }
}

impl Garbage {
    /// Takes note of what the commit at `csn`, stamped already, made old, and of the rows that have it.
    pub(crate) fn add(&self, csn: Lsn, entries: &[(CfId, Pending)]) {
        self.bytes.add(signed(entries.iter().map(|(_, pending)| pending.outdates()).sum()));
        let superseding = entries.iter().filter(|(_, pending)| pending.supersedes());
        let mut new = superseding.filter(|(_, pending)| pending.row().queue()).peekable();
        if new.peek().is_some() {
            self.queue.lock().extend(new.map(|(cf, pending)| (csn, *cf, Arc::clone(pending.row()))));
        }
    }

    /// Takes note of bytes of old versions that an open has loaded, or found superseded.
    pub(crate) fn loaded(&self, bytes: i64) {
        if bytes != 0 {
            self.bytes.add(bytes);
        }
    }

    /// Takes note of rows in which commits, stamped already, made versions old, with the bytes of these, in about the order of the
    /// commits: of a database that follows a log.
    pub(crate) fn superseded(&self, bytes: u64, mut rows: Vec<(Lsn, CfId, Arc<Row>)>) {
        self.bytes.add(signed(bytes));
        rows.retain(|(_, _, row)| row.queue());
        if !rows.is_empty() {
            self.queue.lock().extend(rows);
        }
    }

    /// Has a row looked at again whose deletion at `csn` was waiting for a flush.
    pub(crate) fn look_again(&self, csn: Lsn, cf: CfId, row: &Arc<Row>) {
        if row.queue() {
            self.queue.lock().push_back((csn, cf, Arc::clone(row)));
        }
    }

    /// Takes note of bytes that were freed elsewhere.
    pub(crate) fn freed(&self, bytes: u64) {
        if bytes > 0 {
            self.bytes.add(-signed(bytes));
        }
    }

    /// Returns the bytes of old versions, about while commits and pruning go on.
    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.bytes.sum()).unwrap_or(0)
    }

    /// Takes note that a round begins at `now`.
    pub(crate) fn note_round(&self, now: Duration) {
        let now_us = u64::try_from(now.as_micros()).unwrap_or(u64::MAX);
        let last_us = self.round_began_us.swap(now_us, Relaxed);
        let since_last_us = if last_us == 0 { 0 } else { now_us.saturating_sub(last_us) };
        self.since_last_us.store(since_last_us, Relaxed);
    }

    /// Cleans rows and returns how many: those superseded below `up`, and those that waited for a snapshot that is gone.
    pub(crate) fn clean(&self, families: &Families, live: &LiveSnapshots, reach: Reach) -> usize {
        let span = collie_obs::start::<GcTick>();
        let (mut cleaned, mut freed, mut versions) = (0, 0, 0);
        let mut held = self.held.lock();
        // What is put back meanwhile is not looked at again.
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
                row.unqueue(); // before it is cleaned
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

    /// Returns how many rows wait for the end of `snapshot`, or were superseded above it and not looked at since: about. Waits
    /// for the round of cleaning that is under way.
    pub(crate) fn kept_for(&self, snapshot: Lsn) -> usize {
        let held = self.held.lock().get(&snapshot).map_or(0, Vec::len);
        let queue = self.queue.lock();
        held + queue.len() - queue.partition_point(|(csn, ..)| *csn < snapshot)
    }

    /// Returns how many rows wait: to be cleaned, and for a snapshot to end.
    pub(crate) fn len(&self) -> (usize, usize) {
        (self.queue.lock().len(), self.held_rows.load(Relaxed))
    }
}

/// Takes rows out that waited for a snapshot which `is_gone`.
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

/// The family last asked for: rows of one come in runs.
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
