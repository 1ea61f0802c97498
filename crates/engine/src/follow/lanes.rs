//! `Lanes`: workers that apply row writes, each for its own keys; their queues, and the signal that the watermark has
//! moved.
//!
//! # Invariants
//! - L1. All writes of a key go to one lane, chosen by a hash of family and key, in the order of the log. The number of
//!   lanes in use changes only while every write that was handed over is in place.
//! - L2. The queues hold [`QUEUE_BYTES`] together, and one batch more each: a dispatcher that hands over more waits. No
//!   thread waits for a reader.
//! - L3. A worker that cannot continue signals that before it ends; threads that wait for it are woken.
//!
//! Order of locks: a lane's queue alone. The watermark has its own rules (`watermark.rs`). Checked by
//! `tests/lanes.rs`, and the words by the models of `watermark.rs`.

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread::JoinHandle;
use std::time::Duration;

use collie_base::{CfId, Lsn, Map};
use collie_obs::{ApplyRow, CALLS_MAX, Ended, Source, Span, start, word, work_for};
use collie_store::{Family, LoggedWrite, Pin, Row, Superseded, pin};
use parking_lot::{Condvar, Mutex};

use crate::EngineError;
use crate::families::Families;
use crate::follow::ApplyStat;
use crate::follow::measured_commits::{Ahead, MeasuredCommit, MeasuredCommits};
use crate::follow::watermark::{Dispatched, Watermark, Worked};
use crate::gc::garbage::Garbage;
use crate::redo::Op;

/// Maximum bytes of waiting writes in all queues together.
pub(crate) const QUEUE_BYTES: usize = 64 << 20;
/// Bytes and writes at which a batch is handed over at the latest.
const BATCH_BYTES: usize = 128 << 10;
const BATCH_WRITES: usize = 1024;
/// Writes under one pin; the versions that they supersede can be freed after it.
const PIN_WRITES: usize = 256;
/// Number of empty batches that each lane keeps for reuse.
const SPARE_BATCHES: usize = 4;
/// Bytes that a write takes in a queue in addition to its key and value.
const PLACE_BYTES: usize = size_of::<Place>();

/// A write of a batch: its place in the bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    cf: CfId,
    is_put: bool,
    csn: Lsn,
    since: Lsn,
    key: usize,
    value: usize,
    end: usize,
}

/// Writes that are on their way to a worker.
#[derive(Debug, Default)]
struct Batch {
    places: Vec<Place>,
    bytes: Vec<u8>,
}

impl Batch {
    fn push(&mut self, op: &Op<'_>, csn: Lsn, since: Lsn) {
        let key = self.bytes.len();
        self.bytes.extend_from_slice(op.key);
        let value = self.bytes.len();
        self.bytes.extend_from_slice(op.value.unwrap_or_default());
        let end = self.bytes.len();
        self.places.push(Place { cf: op.cf, is_put: op.value.is_some(), csn, since, key, value, end });
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= BATCH_BYTES || self.places.len() >= BATCH_WRITES
    }

    fn size(&self) -> usize {
        self.bytes.len() + self.places.len() * PLACE_BYTES
    }

    fn clear(&mut self) {
        self.places.clear();
        self.bytes.clear();
        self.bytes.shrink_to(2 * BATCH_BYTES); // one large value is no reason to keep its memory
    }
}

#[derive(Debug, Default)]
struct Inner {
    batches: VecDeque<Batch>,
    /// Bytes of `batches` and of the batch that is being applied.
    bytes: usize,
    spare: Vec<Batch>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Queue {
    inner: Mutex<Inner>,
    filled: Condvar,
    emptied: Condvar,
}

/// The database that workers apply writes to.
pub(crate) trait Target: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the families.
    fn families(&self) -> &Families;

    /// Returns the queue of rows with old versions, and the bytes of these versions.
    fn garbage(&self) -> &Garbage;

    /// Frees the invisible versions of a row that was just written, if that is worthwhile.
    fn prune(&self, family: &Family, row: &Row);

    /// Notifies that the watermark has reached `applied`.
    fn applied(&self, applied: Lsn);

    /// Notifies that a worker has ended early: the watermark may never move again.
    fn stopped(&self);

    /// Returns the time since a fixed moment, in nanoseconds, to measure work with.
    fn now_ns(&self) -> u64;
}

/// The state that the dispatcher, the workers and readers share.
#[derive(Debug)]
pub(crate) struct Applying {
    watermark: Watermark,
    queues: Box<[Queue]>,
    /// The number of lanes that are to be used, 1 or more: the first ones. It carries no other data, so Relaxed.
    spread: AtomicUsize,
    queue_bytes_max: usize,
    queued_bytes: AtomicU64,
    queued_rows: AtomicU64,
    measured: MeasuredCommits,
    /// Total time of workers on batches that they have finished, in nanoseconds.
    busy_ns: AtomicU64,
    commits: AtomicU64,
    /// Whether a worker has ended early (L3).
    is_broken: AtomicBool,
    /// The dispatcher waits with this for empty lanes.
    idle: Mutex<()>,
    moved: Condvar,
}

/// The unshared parts that [`Lanes::start`] takes.
#[derive(Debug)]
pub(crate) struct Hands {
    dispatched: Dispatched,
    workers: Vec<Worked>,
    start: Lsn,
}

impl Applying {
    /// Returns the state for `count` workers that begin at `start`, with queues of `queue_bytes` together.
    pub(crate) fn new(start: Lsn, count: usize, queue_bytes: usize) -> (Arc<Self>, Hands) {
        let count = count.max(1);
        let (watermark, dispatched, workers) = Watermark::new(start, count);
        let applying = Self {
            watermark,
            queues: (0..count).map(|_| Queue::default()).collect(),
            spread: AtomicUsize::new(count),
            queue_bytes_max: queue_bytes / count,
            queued_bytes: AtomicU64::new(0),
            queued_rows: AtomicU64::new(0),
            measured: MeasuredCommits::new(),
            busy_ns: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            idle: Mutex::new(()),
            moved: Condvar::new(),
        };
        (Arc::new(applying), Hands { dispatched, workers, start })
    }

    /// Returns the position below which everything is applied.
    pub(crate) fn applied(&self) -> Lsn {
        self.watermark.applied()
    }

    /// Returns the bytes of waiting writes.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.load(Relaxed)
    }

    /// Returns the figures of the workers.
    pub(crate) fn stat(&self) -> ApplyStat {
        let busy = Duration::from_nanos(self.busy_ns.load(Relaxed));
        ApplyStat { workers: self.spread.load(Relaxed), busy, commits: self.commits.load(Relaxed) }
    }

    /// Returns the number of workers, idle ones included.
    pub(crate) fn workers_max(&self) -> usize {
        self.queues.len()
    }

    /// Sets the number of lanes to use, at most all of them. It takes effect at the next dispatched position.
    pub(crate) fn spread_over(&self, lanes: usize) {
        self.spread.store(lanes.clamp(1, self.queues.len()), Relaxed);
    }

    /// Returns whether a worker has ended early (L3).
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Acquire)
    }

    /// Moves the watermark after one of its words was stored, and wakes the waiters.
    fn publish(&self, target: &dyn Target) {
        let applied = self.watermark.publish();
        self.measured.passed(|| self.watermark.applied());
        target.applied(applied);
        drop(self.idle.lock()); // a waiter that has checked the watermark before is parked by now
        self.moved.notify_all();
    }

    /// Hands a batch over; waits while the queues are full (L2).
    fn push(&self, dispatched: &mut Dispatched, lane: usize, batch: Batch) -> Batch {
        let queue = &self.queues[lane];
        let (size, rows) = (batch.size(), batch.places.len());
        let mut inner = queue.inner.lock();
        while !inner.batches.is_empty() && inner.bytes + size > self.queue_bytes_max && !self.is_broken() {
            queue.emptied.wait(&mut inner);
        }
        self.watermark.hand(dispatched, lane, || inner.batches.push_back(batch));
        inner.bytes += size;
        self.queued_bytes.fetch_add(size as u64, Relaxed);
        self.queued_rows.fetch_add(rows as u64, Relaxed);
        let spare = inner.spare.pop().unwrap_or_default();
        drop(inner);
        queue.filled.notify_one();
        spare
    }

    /// Returns the next batch of a worker and takes back the finished one; `None` if the lane is closed and empty.
    fn pop(&self, lane: usize, done: Option<Batch>) -> Option<Batch> {
        let queue = &self.queues[lane];
        let mut inner = queue.inner.lock();
        if let Some(mut done) = done {
            let size = done.size();
            inner.bytes -= size;
            self.queued_bytes.fetch_sub(size as u64, Relaxed);
            self.queued_rows.fetch_sub(done.places.len() as u64, Relaxed);
            if inner.spare.len() < SPARE_BATCHES {
                done.clear();
                inner.spare.push(done);
            }
            queue.emptied.notify_one();
        }
        loop {
            if let Some(batch) = inner.batches.pop_front() {
                return Some(batch);
            }
            if inner.is_closed {
                return None;
            }
            queue.filled.wait(&mut inner);
        }
    }
}

/// Signals that a worker ends early, unless it is forgotten before its drop (L3).
struct Alarm<'a>(&'a Applying, &'a dyn Target);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        self.0.is_broken.store(true, Release);
        for queue in &self.0.queues {
            drop(queue.inner.lock());
            queue.emptied.notify_all();
        }
        drop(self.0.idle.lock());
        self.0.moved.notify_all();
        self.1.stopped();
    }
}

/// The thread of a lane, with its state between writes.
struct Worker<'a> {
    applying: &'a Applying,
    target: &'a dyn Target,
    worked: Worked,
    family: Option<Arc<Family>>,
}

impl Worker<'_> {
    /// Applies a batch.
    fn apply(&mut self, batch: &Batch) {
        let (mut superseded, mut bytes) = (Vec::new(), 0);
        for places in batch.places.chunks(PIN_WRITES) {
            let pin = pin();
            for places in places.chunks(usize::from(CALLS_MAX)) {
                let (span, before) = (start::<ApplyRow>(), superseded.len());
                for place in places {
                    let Superseded { row, bytes: more } = self.write(batch, place, &pin);
                    bytes += more;
                    superseded.extend(row.map(|row| (place.csn, place.cf, row)));
                }
                if let Some(ended) = span.map(Span::end) {
                    let older = superseded[before..].iter().map(|(_, _, row)| row.version_count().saturating_sub(1));
                    tell_run(ended, places, self.applying.queued_rows.load(Relaxed), older.sum());
                }
            }
        }
        self.target.garbage().superseded(bytes, superseded);
        self.applying.watermark.finish(&mut self.worked);
        self.applying.publish(self.target);
    }

    fn write(&mut self, batch: &Batch, place: &Place, pin: &Pin) -> Superseded {
        self.applying.watermark.begin(&mut self.worked, place.csn);
        let family = match &self.family {
            Some(family) if family.id() == place.cf && !family.is_cleared() => family,
            _ => self.family.insert(self.target.families().get_or_make(place.cf)),
        };
        let write = LoggedWrite {
            key: &batch.bytes[place.key..place.value],
            value: place.is_put.then(|| &batch.bytes[place.value..place.end]),
            csn: place.csn,
            since: place.since,
            is_settled: true,
        };
        let superseded = family.apply(&write, pin);
        if let Some(row) = &superseded.row {
            self.target.prune(family, row);
        }
        superseded
    }
}

/// Records a measured run of writes, with the number of rows in the queues and of the versions below the written ones.
#[cold]
fn tell_run(ended: Ended<ApplyRow>, places: &[Place], queued_rows: u64, older: usize) {
    let (queue_rows, mut older) = (word(queued_rows), word(older));
    let calls = places.iter().map(|place| {
        let (key_bytes, value_bytes) = (word(place.value - place.key), word(place.end - place.value));
        // Only the sums of a run count.
        let chain_len = std::mem::take(&mut older).saturating_add(1);
        ApplyRow { kind: u32::from(!place.is_put), key_bytes, value_bytes, chain_len, queue_rows }
    });
    ended.tell_run(places.last().map_or(Lsn::ZERO, |place| place.csn), calls, []);
}

/// Applies the batches of a lane until there are no more.
fn work(applying: &Applying, target: &dyn Target, lane: usize, worked: Worked) {
    let alarm = Alarm(applying, target);
    let _scope = work_for(Source::Apply);
    let mut worker = Worker { applying, target, worked, family: None };
    let mut done = None;
    while let Some(batch) = applying.pop(lane, done.take()) {
        let began_ns = target.now_ns();
        worker.apply(&batch);
        // The clock is read twice per batch, not per write.
        applying.busy_ns.fetch_add(target.now_ns().saturating_sub(began_ns), Relaxed);
        done = Some(batch);
    }
    std::mem::forget(alarm);
}

/// The dispatcher's side of the lanes. See the module's documentation.
#[derive(Debug)]
pub(crate) struct Lanes {
    applying: Arc<Applying>,
    target: Arc<dyn Target>,
    dispatched: Dispatched,
    filling: Vec<Batch>,
    /// The commit whose writes are being taken, if it is measured.
    measuring: Option<MeasuredCommit>,
    /// The number of lanes in use.
    spread: usize,
    /// Used for its hash function only.
    hash: Map<(), ()>,
    threads: Vec<JoinHandle<()>>,
    /// The writes of all commits below this position were taken.
    taken: Lsn,
}

impl Lanes {
    /// Starts the workers.
    ///
    /// # Errors
    /// Those of the system, if a thread cannot be started.
    pub(crate) fn start(applying: Arc<Applying>, hands: Hands, target: Arc<dyn Target>) -> std::io::Result<Self> {
        let Hands { dispatched, workers, start: taken } = hands;
        let filling: Vec<Batch> = workers.iter().map(|_| Batch::default()).collect();
        let spread = filling.len();
        let (hash, threads) = (Map::default(), Vec::new());
        let mut lanes = Self { applying, target, dispatched, filling, measuring: None, spread, hash, threads, taken };
        for (lane, worked) in workers.into_iter().enumerate() {
            let (applying, target) = (Arc::clone(&lanes.applying), Arc::clone(&lanes.target));
            let name = format!("collie-apply-{lane}");
            let thread = std::thread::Builder::new().name(name).spawn(move || work(&applying, &*target, lane, worked));
            lanes.threads.push(thread?);
        }
        Ok(lanes)
    }

    /// Begins a commit: its writes follow, and then [`Lanes::note_commit`].
    pub(crate) fn begin_commit(&mut self) {
        let (applying, workers) = (&self.applying, self.spread);
        self.measuring = MeasuredCommit::start(|| Ahead { workers, queue_rows: applying.queued_rows.load(Relaxed) });
    }

    /// Takes a write that was committed at `csn` and needs the log from `since` on.
    pub(crate) fn put(&mut self, op: &Op<'_>, csn: Lsn, since: Lsn) {
        if let Some(measuring) = &mut self.measuring {
            measuring.note(op);
        }
        let lane = self.lane_of(op);
        self.filling[lane].push(op, csn, since);
        if self.filling[lane].is_full() {
            self.hand_over(lane);
        }
    }

    /// Counts the commit at `csn`, whose writes were taken; `is_barrier` says that earlier commits were waited for.
    pub(crate) fn note_commit(&mut self, csn: Lsn, is_barrier: bool) {
        self.applying.commits.fetch_add(1, Relaxed);
        if let Some(measured) = self.measuring.take() {
            self.applying.measured.put(measured, csn, is_barrier);
        }
    }

    /// Returns the lane of the operation's key (L1).
    fn lane_of(&self, op: &Op<'_>) -> usize {
        let lanes = self.spread as u64;
        if lanes == 1 {
            return 0;
        }
        let hash = self.hash.hasher().hash_one((op.cf.get(), op.key));
        usize::try_from(hash % lanes).unwrap_or(0)
    }

    fn hand_over(&mut self, lane: usize) {
        if !self.filling[lane].places.is_empty() {
            let batch = std::mem::take(&mut self.filling[lane]);
            self.filling[lane] = self.applying.push(&mut self.dispatched, lane, batch);
        }
    }

    /// Hands over all taken writes without moving `dispatched`.
    pub(crate) fn hand_all(&mut self) {
        (0..self.filling.len()).for_each(|lane| self.hand_over(lane));
    }

    /// Records that every write of the commits below `end` was taken (W1 of the watermark).
    pub(crate) fn dispatch(&mut self, end: Lsn) {
        self.hand_all();
        self.follow_spread();
        if end > self.taken {
            self.taken = end;
            self.applying.watermark.dispatch(end);
            self.applying.publish(&*self.target);
        }
    }

    /// Changes the number of lanes in use to the requested one, once all taken writes are in place (L1).
    fn follow_spread(&mut self) {
        let asked = self.applying.spread.load(Relaxed);
        // If a worker has ended early, the next `check` reports it.
        if asked != self.spread && self.drain().is_ok() {
            self.spread = asked;
        }
    }

    /// Waits until every taken write is in place, visible or not.
    ///
    /// # Errors
    /// If a worker has ended early.
    pub(crate) fn drain(&mut self) -> Result<(), EngineError> {
        self.hand_all();
        let mut idle = self.applying.idle.lock();
        while !self.applying.watermark.is_done(&self.dispatched) {
            if self.applying.is_broken() {
                return Err(EngineError::ReplayStopped);
            }
            self.applying.moved.wait(&mut idle);
        }
        Ok(())
    }

    /// Fails if a worker has ended early (L3).
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.applying.is_broken() { Err(EngineError::ReplayStopped) } else { Ok(()) }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        for queue in &self.applying.queues {
            queue.inner.lock().is_closed = true;
            queue.filled.notify_all();
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // a panic was signalled by its alarm
        }
    }
}
