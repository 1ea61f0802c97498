//! Group commit: who leads a flush, who waits for it, and who is woken.
//!
//! Whoever needs a mark first leads a flush for everybody; the others park. Up to `wal.flights` flushes are in the air at
//! one time. Meanwhile new records gather, and the next leader is woken the moment a flight ends: no timer is on that path.
//! Threads park in the lane of the flight that will cover them, so a flight wakes its own and one next leader. Futures
//! leave their waker and the keeper leads for them.
//!
//! A flight: take the right (`begin`), place a frame while holding the course, write it, sync, land.
//!
//! # Invariants
//! - W1. Rights are handed out under the queue's mutex, at most `wal.flights` at a time, each with a file description of
//!   its own. A flight that closes the log or writes an empty frame is alone.
//! - W2. Whoever parks has seen its mark not reached under the mutex, and whoever moves a mark takes the mutex before
//!   waking: no wake-up is lost.
//! - W3. When a flight ends and somebody is left waiting beyond those in the air, a thread or the keeper is woken to lead.
//! - W4. `durable <= written <= boundary`; both move as [`Track`] says (LOG-8).
//! - W5. After a failed write or sync that file is left for good (LOG-9). Nothing is placed, and whoever takes the course
//!   next waits for the flights on their way and writes everything above `durable` elsewhere (`course` A5); when that
//!   fails too, the log is poisoned: every wait fails.
//! - W6. No I/O under the queue's mutex, nor under the track's, and no code of a waker under the former: not to wake it,
//!   copy it or drop it.
//! - W7. The current file is left only when no flight writes or syncs: whoever leaves it holds the course and waits for
//!   them. Order of locks: course, then queue or track.
//!
//! | file | holds | keeps |
//! |---|---|---|
//! | `queue` | who flies and who waits, under one mutex | W1 |
//! | `flight` | a flight from its right to its landing | W4, W6 |
//! | `mend` | what a flight does while nothing else writes | W5, W7 |
//! | `wait` | threads and futures that wait, and who is woken | W2, W3 |
//! | `keeper` | the thread that leads for those who do not | W3 |
//! | `haste` | who wants what nobody waits for flushed sooner | |
//! | `patience` | how long and how much of it may wait | |
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
    /// Whether nothing is flushed that nobody asked for, below `flush_bytes` (`wal.manual_wal_flush`).
    manual: bool,
    patience: Patience,
    warnings: Warnings,
    clock: Arc<dyn Clock>,
    stalls: Mutex<Stalls>,
    /// What the flights wrote last, for readers.
    pub(crate) recent: Recent,
    /// Those who follow the durable mark.
    pub(crate) watch: Watch,
    /// Writes the copies, where there are several.
    mirror: Option<Mirror>,
    // The marks: flights only (W4).
    pub(crate) written: Word,
    pub(crate) durable: Place<Word>,
    /// The durable position that the last frame names.
    pub(crate) named: Word,
    /// Whether appends are refused for lack of room.
    pub(crate) full: AtomicU8,
    // Who leads and who waits.
    pub(crate) queue: Mutex<Queue>,
    flight_ended: [Condvar; LANES],
    written_moved: Condvar,
    pub(crate) keeper_poked: Condvar,
    pub(crate) keeper: AtomicU8,
    delays: Arc<Delays>,
    // What is placed, and what became of it.
    course: Mutex<Course>,
    track: Arc<Track>,
    /// Of each flight, for its frames.
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

    /// Returns where `mark` stands.
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

    /// Fails every wait from now on and wakes all.
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

    /// Lets the preparer's news count: appends are taken again once there is room.
    pub(crate) fn refresh_full(&self) {
        self.full.store(u8::from(self.follows || self.segments.full().is_some()), Ordering::Release);
    }

    /// Tells the warnings that were noted. Call it with nothing held.
    pub(crate) fn tell(&self) {
        self.warnings.tell();
    }

    /// Says what has held everybody up for long, if anything has.
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

    /// Returns how long the oldest flight has been on its way.
    pub(crate) fn oldest_flight_age(&self) -> Option<Duration> {
        let oldest = self.oldest_flight()?;
        Some(Duration::from_nanos(self.clock.now_ns().saturating_sub(oldest.began_ns)))
    }

    /// Waits for the flights on their way.
    pub(crate) fn settle(&self) {
        let _course = self.course.lock();
        self.track.wait_quiet();
    }

    /// Returns whether a failure ended it.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.queue.lock().state == State::Poisoned
    }

    /// Returns how many syncs of flights succeeded, and how long they took together, in nanoseconds.
    pub(crate) fn timed_syncs(&self) -> (u64, u64) {
        self.track.lock().timed()
    }

    /// Returns what was placed so far, and how many syncs succeeded.
    pub(crate) fn counts(&self) -> (Counts, u64) {
        let counts = self.course.lock().counts;
        (counts, self.track.lock().syncs())
    }
}
