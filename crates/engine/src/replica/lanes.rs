//! `Lanes`: workers that apply row writes, each of the keys that are its own; their queues, and who waits for the watermark.
//!
//! # Invariants
//! - L1. All writes of a key go to one lane, in the order of the log: a hash of family and key says which. Over how many lanes they are
//!   spread changes only while every write that was handed over is in place.
//! - L2. The queues hold [`QUEUE_BYTES`] together, and one batch more each: whoever hands over more waits. Nobody waits for a reader.
//! - L3. A worker that cannot go on says so before it ends; whoever waits for it is told.
//!
//! Order of locks: a lane's queue alone. The watermark has its own rules (`watermark.rs`).
//! Checked by `tests.rs`, and the words by the models of `watermark.rs`.

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
use crate::garbage::Garbage;
use crate::redo::Op;
use crate::replica::ApplyStat;
use crate::replica::measured_commits::{Ahead, MeasuredCommit, MeasuredCommits};
use crate::replica::watermark::{Dispatched, Watermark, Worked};

/// Bytes of writes that wait in all queues together.
pub(crate) const QUEUE_BYTES: usize = 64 << 20;
/// Bytes and writes at which a batch is handed over at the latest.
const BATCH_BYTES: usize = 128 << 10;
const BATCH_WRITES: usize = 1024;
/// Writes under one pin: what they supersede can be freed after so many.
const PIN_WRITES: usize = 256;
/// Batches that are kept to be filled again, of each lane.
const SPARE_BATCHES: usize = 4;
/// What a write takes in a queue beside its bytes.
const PLACE_BYTES: usize = size_of::<Place>();

/// A write of a batch: where it lies in the bytes.
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

/// Writes on their way to a worker.
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
        self.bytes.shrink_to(2 * BATCH_BYTES); // one large value is no reason to keep its space
    }
}

#[derive(Debug, Default)]
struct Inner {
    batches: VecDeque<Batch>,
    /// Of `batches`, and of the one at work.
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

/// What workers put writes into.
pub(crate) trait Target: Send + Sync + std::fmt::Debug + 'static {
    /// The families.
    fn families(&self) -> &Families;

    /// Rows with old versions, and those versions' bytes.
    fn garbage(&self) -> &Garbage;

    /// Frees what nobody sees of a row that was just written, when that is worth it.
    fn prune(&self, family: &Family, row: &Row);

    /// The watermark has come to `applied`.
    fn applied(&self, applied: Lsn);

    /// A worker has ended before its time: the watermark may stand still for ever.
    fn stopped(&self);

    /// Returns the time since some fixed moment, in nanoseconds, by which work is measured.
    fn now_ns(&self) -> u64;
}

/// What the dispatcher, the workers and readers share.
#[derive(Debug)]
pub(crate) struct Applying {
    watermark: Watermark,
    queues: Box<[Queue]>,
    /// Over how many lanes writes are to be spread, 1 or more: the first ones. Carries nothing, so Relaxed.
    spread: AtomicUsize,
    queue_bytes_max: usize,
    queued_bytes: AtomicU64,
    queued_rows: AtomicU64,
    measured: MeasuredCommits,
    /// For how long workers were at batches that they have done, in nanoseconds.
    busy_ns: AtomicU64,
    commits: AtomicU64,
    /// L3.
    is_broken: AtomicBool,
    /// The dispatcher waits here for lanes to be empty.
    idle: Mutex<()>,
    moved: Condvar,
}

/// What [`Lanes::start`] needs beside what is shared.
#[derive(Debug)]
pub(crate) struct Hands {
    dispatched: Dispatched,
    workers: Vec<Worked>,
    start: Lsn,
}

impl Applying {
    /// For `count` workers behind `start`, with queues of so many bytes together.
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

    /// Returns the bytes of writes that wait.
    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.load(Relaxed)
    }

    /// Returns what the workers have done.
    pub(crate) fn stat(&self) -> ApplyStat {
        let busy = Duration::from_nanos(self.busy_ns.load(Relaxed));
        ApplyStat { workers: self.spread.load(Relaxed), busy, commits: self.commits.load(Relaxed) }
    }

    /// Returns how many workers there are, whether or not they have anything to do.
    pub(crate) fn workers_max(&self) -> usize {
        self.queues.len()
    }

    /// Has writes spread over so many lanes, at the most over as many as there are: from the next position on that is dispatched.
    pub(crate) fn spread_over(&self, lanes: usize) {
        self.spread.store(lanes.clamp(1, self.queues.len()), Relaxed);
    }

    /// Returns whether a worker has ended before its time (L3).
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken.load(Acquire)
    }

    /// Moves the watermark after one of its words was stored, and tells who waits.
    fn publish(&self, target: &dyn Target) {
        let applied = self.watermark.publish();
        self.measured.passed(|| self.watermark.applied());
        target.applied(applied);
        drop(self.idle.lock()); // whoever looked before this and waits is there to be told
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

    /// Gives a worker its next batch, and takes back the one it has done; `None`: there are no more.
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

/// Says that a worker ends before its time, unless it is told that it does not (L3).
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

/// A lane's thread: what it keeps from write to write.
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

/// Tells of a run of writes that was measured, with so many rows in the queues, and so many versions below those that it wrote.
#[cold]
fn tell_run(ended: Ended<ApplyRow>, places: &[Place], queued_rows: u64, older: usize) {
    let (queue_rows, mut older) = (word(queued_rows), word(older));
    let calls = places.iter().map(|place| {
        let (key_bytes, value_bytes) = (word(place.value - place.key), word(place.end - place.value));
        // Of a run only the sums count.
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
        // Two looks at the clock for each batch, not for each write.
        applying.busy_ns.fetch_add(target.now_ns().saturating_sub(began_ns), Relaxed);
        done = Some(batch);
    }
    std::mem::forget(alarm);
}

/// See the module's documentation. The dispatcher's.
#[derive(Debug)]
pub(crate) struct Lanes {
    applying: Arc<Applying>,
    target: Arc<dyn Target>,
    dispatched: Dispatched,
    filling: Vec<Batch>,
    /// The commit whose writes are being taken, if it is measured.
    measuring: Option<MeasuredCommit>,
    /// Over how many lanes writes are spread now.
    spread: usize,
    /// For its hash function.
    hash: Map<(), ()>,
    threads: Vec<JoinHandle<()>>,
    /// Everything below was taken.
    taken: Lsn,
}

impl Lanes {
    /// Starts the workers.
    ///
    /// # Errors
    /// The system's, when no thread can be had.
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

    /// A commit comes: its writes, and then [`Lanes::note_commit`].
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

    /// Counts the commit at `csn`, whose writes were taken; `is_barrier`: those before it were waited for.
    pub(crate) fn note_commit(&mut self, csn: Lsn, is_barrier: bool) {
        self.applying.commits.fetch_add(1, Relaxed);
        if let Some(measured) = self.measuring.take() {
            self.applying.measured.put(measured, csn, is_barrier);
        }
    }

    /// Returns whose key it is (L1).
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

    /// Hands over what was taken, without saying that everything below a position was.
    pub(crate) fn hand_all(&mut self) {
        (0..self.filling.len()).for_each(|lane| self.hand_over(lane));
    }

    /// Says that every write of commits below `end` was taken (W1 of the watermark).
    pub(crate) fn dispatch(&mut self, end: Lsn) {
        self.hand_all();
        self.follow_spread();
        if end > self.taken {
            self.taken = end;
            self.applying.watermark.dispatch(end);
            self.applying.publish(&*self.target);
        }
    }

    /// Spreads writes from here on over as many lanes as is asked for, once those that were taken are in place (L1).
    fn follow_spread(&mut self) {
        let asked = self.applying.spread.load(Relaxed);
        // A worker that has ended is told of by the next `check`.
        if asked != self.spread && self.drain().is_ok() {
            self.spread = asked;
        }
    }

    /// Waits until every write that was taken is in place, seen or not.
    ///
    /// # Errors
    /// A worker has ended before its time.
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

    /// Fails when a worker has ended before its time (L3).
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
            let _ = thread.join(); // a panic was told by its alarm
        }
    }
}
