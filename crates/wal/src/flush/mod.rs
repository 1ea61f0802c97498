//! Group commit: which thread leads a flush, which threads wait for it, and which are woken.
//!
//! The first thread that needs a mark leads a flush for all; the others park. Up to `wal.flights` flushes are in flight
//! at a time. Meanwhile new records gather, and the next leader is woken as soon as a flush ends: no timer is on that
//! path. Threads park in the lane of the flush that will cover them, so that a flush wakes its own waiters and one next
//! leader. Futures leave their waker, and the background flusher leads for them.
//!
//! A flush takes the right to flush (`begin`), places a frame while it holds the frame writer, writes it, syncs, and
//! ends.
//!
//! # Invariants
//! - W1. Rights are handed out under the queue's mutex, at most `wal.flights` at a time, each with its own file
//!   description. A flush that closes the log or writes an empty frame is alone.
//! - W2. A thread that parks has seen under the mutex that its mark is not reached, and a thread that moves a mark
//!   takes the mutex before it wakes waiters: no wake-up is lost.
//! - W3. When a flush ends and a waiter is left that no in-flight flush covers, a thread or the background flusher is
//!   woken to lead.
//! - W4. `durable <= written <= boundary`; both move as [`Track`] says (LOG-8).
//! - W5. After a failed write or sync that file is left for good (LOG-9). Nothing is placed, and the next thread that
//!   locks the frame writer waits for the other in-flight flushes and writes everything above `durable` elsewhere
//!   (`course` A5). If that fails too, the log is poisoned: every wait fails.
//! - W6. No I/O under the queue's mutex, nor under the track's, and no code of a waker under the former: it is not
//!   woken, cloned or dropped there.
//! - W7. The current file is left only while no flush writes or syncs: the thread that leaves it holds the frame writer
//!   and waits for them. Lock order: frame writer, then queue or track.
//!
//! | file | holds | keeps |
//! |---|---|---|
//! | `queue` | in-flight flushes and waiters, under one mutex | W1 |
//! | `flight` | a flush from its right to its end | W4, W6 |
//! | `mend` | work of a flush while no other write is in progress | W5, W7 |
//! | `wait` | threads and futures that wait, and the wake-ups | W2, W3 |
//! | `keeper` | the background flusher, which leads for futures and for records that no caller waits for | W3 |
//! | `haste` | the flush delay override | |
//! | `patience` | how long, and how many, records without a waiter may stay in memory | |
//!
//! Checked by the concurrency test, the fault sweep, the crash lab and `flights_tests`.

mod flight;
mod haste;
mod keeper;
mod mend;
mod patience;
mod queue;
mod wait;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::Waker,
    time::Duration,
};

use collie_base::Lsn;
use collie_env::{Clock, Env};
use parking_lot::{Condvar, Mutex};

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
pub(crate) use self::keeper::{KEEPER_SILENT, KEEPER_SLEEPS};
pub(crate) use self::{flight::Right, haste::Haste, queue::Purpose, wait::MeasuredWait};
use self::{
    haste::Delays,
    keeper::KEEPER_BUSY,
    patience::Patience,
    queue::{LANES, Queue},
};
use crate::{
    Mark, Options, WalError, Warnings,
    copies::Mirror,
    course::{Counts, Course},
    recent::Recent,
    reserve::{Place, Reserve, State, Word},
    ring_file::{Home, WordAt},
    segments::Segments,
    stall::{Oldest, Stalls},
    track::Track,
    watch::Watch,
};

/// Flushing and waiting.
#[derive(Debug)]
pub(crate) struct Flusher {
    // Constant after open, or with locks of their own.
    pub(crate) reserve: Reserve,
    pub(crate) segments: Segments,
    /// Whether the records come from another log: nothing is appended, and everything is flushed at once.
    pub(crate) follows: bool,
    /// Whether, below `flush_bytes`, only calls of the user flush (`wal.manual_wal_flush`).
    manual: bool,
    patience: Patience,
    warnings: Warnings,
    clock: Arc<dyn Clock>,
    stalls: Mutex<Stalls>,
    /// The frames that the flushes wrote last, for readers.
    pub(crate) recent: Recent,
    /// The watchers of the durable mark.
    pub(crate) watch: Watch,
    /// Writes the copies, if there are several.
    mirror: Option<Mirror>,
    // The marks: only flushes move them (W4).
    pub(crate) written: Word,
    pub(crate) durable: Place<Word>,
    /// The durable position that the last frame names.
    pub(crate) named: Word,
    /// Whether appends are refused for lack of room.
    pub(crate) full: AtomicU8,
    // Leaders and waiters.
    pub(crate) queue: Mutex<Queue>,
    flight_ended: [Condvar; LANES],
    written_moved: Condvar,
    pub(crate) keeper_poked: Condvar,
    pub(crate) keeper: AtomicU8,
    delays: Arc<Delays>,
    // The placed frames, and their outcomes.
    course: Mutex<Course>,
    track: Arc<Track>,
    /// One for each flush in flight, for its frames.
    buffers: Vec<Mutex<Vec<u8>>>,
}

impl Flusher {
    pub(crate) fn new(
        home: &Home,
        reserve: Reserve,
        segments: Segments,
        course: Course,
        (options, follows): (&Options, bool),
        env: &Env,
    ) -> Self {
        let (start, flights) = (course.issued, course.files.len());
        let recent = Recent::new(options.recent_bytes, start, &course.path, course.offset);
        Self {
            reserve,
            segments,
            follows,
            manual: options.manual_wal_flush,
            patience: Patience::new(options, follows),
            warnings: options.warnings.clone(),
            clock: env.clock.clone(),
            stalls: Mutex::default(),
            written: Word::new(start),
            durable: home.word(WordAt::Durable, || Word::new(start)),
            named: Word::new(start),
            full: AtomicU8::new(u8::from(follows)),
            queue: Mutex::new(Queue::new(flights)),
            flight_ended: std::array::from_fn(|_| Condvar::new()),
            written_moved: Condvar::new(),
            keeper_poked: Condvar::new(),
            keeper: AtomicU8::new(KEEPER_BUSY),
            delays: Arc::default(),
            recent,
            watch: Watch::default(),
            track: course.track.clone(),
            mirror: course.mirror.clone(),
            course: Mutex::new(course),
            buffers: (0..flights).map(|_| Mutex::default()).collect(),
        }
    }

    /// Returns the position of `mark`.
    pub(crate) fn mark(&self, mark: Mark) -> Lsn {
        match mark {
            Mark::Boundary => self.reserve.boundary(),
            Mark::Written => self.written.load(),
            Mark::Durable => self.durable.load(),
        }
    }

    /// Returns the error of a log that takes no more records.
    pub(crate) fn refusal(&self, state: State) -> WalError {
        match state {
            State::Closed => WalError::Closed,
            State::Open | State::Poisoned => WalError::Poisoned { durable: self.durable.load() },
        }
    }

    /// Stops everything after a failed write or sync whose repair failed too (W5).
    pub(crate) fn poison(&self) {
        self.reserve.stop(State::Poisoned);
        self.end(State::Poisoned);
    }

    /// Fails every wait from now on and wakes all waiters.
    pub(crate) fn end(&self, state: State) {
        self.reserve.end(state);
        let mut queue = self.queue.lock();
        if queue.state == State::Open {
            queue.state = state;
        }
        let waiting = queue.take_wakers();
        self.flight_ended.iter().for_each(|condvar| {
            condvar.notify_all();
        });
        self.written_moved.notify_all();
        self.keeper_poked.notify_one();
        drop(queue);
        waiting.for_each(Waker::wake);
        self.watch.notify();
    }

    /// Applies a change that the preparer made: appends are accepted again once there is room.
    pub(crate) fn refresh_full(&self) {
        self.full.store(u8::from(self.follows || self.segments.full().is_some()), Ordering::Release);
    }

    /// Emits the noted warnings. Call it with no lock held.
    pub(crate) fn tell(&self) {
        self.warnings.tell();
    }

    /// Warns of the flush or slot that has delayed all others for long, if there is one.
    pub(crate) fn look_for_stalls(&self) {
        let (oldest, blocker) = (self.oldest_flight(), self.reserve.blocker());
        let lines = self.stalls.lock().look(self.segments.dir(), self.clock.now_ns(), oldest, blocker);
        lines.into_iter().for_each(|line| self.warnings.note(line));
        self.tell();
    }

    fn oldest_flight(&self) -> Option<Oldest> {
        let queue = self.queue.lock();
        let oldest = queue.air.iter().find(|flight| !flight.landed);
        oldest.map(|flight| Oldest { number: flight.number, began_ns: flight.began_ns })
    }

    /// Returns the age of the oldest in-flight flush.
    pub(crate) fn oldest_flight_age(&self) -> Option<Duration> {
        let oldest = self.oldest_flight()?;
        Some(Duration::from_nanos(self.clock.now_ns().saturating_sub(oldest.began_ns)))
    }

    /// Waits for the in-flight flushes.
    pub(crate) fn settle(&self) {
        let _course = self.course.lock();
        self.track.wait_quiet();
    }

    /// Returns whether a failure has stopped the log.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.queue.lock().state == State::Poisoned
    }

    /// Returns the number of syncs of flushes that succeeded, and their total duration in nanoseconds.
    pub(crate) fn timed_syncs(&self) -> (u64, u64) {
        self.track.lock().timed()
    }

    /// Returns the totals of the placed frames, and the number of syncs that succeeded.
    pub(crate) fn counts(&self) -> (Counts, u64) {
        let counts = self.course.lock().counts;
        (counts, self.track.lock().syncs())
    }
}
