//! Group commit: which thread leads a flush, which threads wait for it, and which are woken.
//!
//! The first thread that needs a mark leads a flush for all; the others park. One flush is in flight at a time.
//! Meanwhile new records gather, and the next leader is woken as soon as the flush completes: no timer is on that path.
//! Threads park in the lane of the flush that will cover them, so that a flush wakes its own waiters and one next
//! leader. Futures leave their waker, and the background flusher leads for them.
//!
//! A flush takes the permit (`begin`), places a frame with the frame writer, writes it, syncs, and completes.
//!
//! # Invariants
//! - W1. One flush is in flight at a time: the permit is handed out under the queue's mutex.
//! - W2. A thread that parks has seen under the mutex that its mark is not reached, and a thread that moves a mark
//!   takes the mutex before it wakes waiters: no wake-up is lost.
//! - W3. When a flush completes and a waiter is left, a thread or the background flusher is woken to lead.
//! - W4. `durable <= written <= boundary`; both move as the frame writer says (LOG-8).
//! - W5. After a failed write or sync that file is left for good (LOG-9): the flush writes everything above `durable`
//!   elsewhere (A5 of `frame_writer`). If that fails too, the log is poisoned: every wait fails.
//! - W6. No I/O under the queue's mutex, and no code of a waker: it is not woken, cloned or dropped there.
//! - W7. Only the flush in flight has the frame writer, apart from an opening, a jump of positions and a close that
//!   waits for it. Lock order: frame writer, then queue.
//!
//! | file | holds | keeps |
//! |---|---|---|
//! | `queue` | the in-flight flush and the waiters, under one mutex | W1 |
//! | `frame_writer`, `recent` | where the next frame goes, and the frames that were written last | |
//! | `in_flight` | a flush from its permit to its completion | W4, W6 |
//! | `rewrite` | the work of a flush after an error, at the close, and for copies | W5, W7 |
//! | `watch` | threads and futures that wait for the durable mark without asking for a flush | |
//! | `wait` | threads and futures that wait, and the wake-ups | W2, W3 |
//! | `background` | the background flusher, which leads for futures and for records that no caller waits for | W3 |
//! | `delay_override` | the flush delay override | |
//! | `limits` | how long, and how many, records without a waiter may stay in memory | |
//! | `counters` | totals, read without a lock | |
//!
//! Checked by the concurrency test, the fault sweep, the crash lab and `tests/flush.rs`.

pub(crate) mod frame_writer;
pub(crate) mod recent;
pub(crate) mod watch;

mod background;
mod counters;
mod delay_override;
mod in_flight;
mod limits;
mod queue;
mod rewrite;
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
pub(crate) use self::background::{FLUSHER_SILENT, FLUSHER_SLEEPS};
use self::{
    background::FLUSHER_BUSY,
    delay_override::Delays,
    limits::FlushLimits,
    queue::{LANES, Queue},
};
pub(crate) use self::{
    counters::FlushCounters, delay_override::FlushDelayOverride, in_flight::Permit, queue::Purpose, wait::MeasuredWait,
};
use crate::{
    Mark, Options, WalError, Warnings, append::Place, append::Reserve, append::State, append::Word,
    append::ring_file::Home, append::ring_file::WordAt, copies::Mirror, flush::frame_writer::FrameWriter,
    flush::recent::Recent, flush::watch::Watch, report::stall::Stalls, report::stall::Started, segment::Segments,
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
    limits: FlushLimits,
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
    flush_ended: [Condvar; LANES],
    written_moved: Condvar,
    pub(crate) background_poked: Condvar,
    /// What the background flusher does (`background`).
    pub(crate) background: AtomicU8,
    delays: Arc<Delays>,
    /// Locked by the flush in flight (W7).
    frame_writer: Mutex<FrameWriter>,
    pub(crate) counters: Arc<FlushCounters>,
}

impl Flusher {
    pub(crate) fn new(
        home: &Home,
        reserve: Reserve,
        segments: Segments,
        writer: FrameWriter,
        (options, follows): (&Options, bool),
        env: &Env,
    ) -> Self {
        let start = writer.issued;
        let recent = Recent::new(options.recent_bytes, start, &writer.path, writer.offset);
        Self {
            reserve,
            segments,
            follows,
            manual: options.manual_wal_flush,
            limits: FlushLimits::new(options, follows),
            warnings: options.warnings.clone(),
            clock: env.clock.clone(),
            stalls: Mutex::default(),
            written: Word::new(start),
            durable: home.word(WordAt::Durable, || Word::new(start)),
            named: Word::new(start),
            full: AtomicU8::new(u8::from(follows)),
            queue: Mutex::new(Queue::new()),
            flush_ended: std::array::from_fn(|_| Condvar::new()),
            written_moved: Condvar::new(),
            background_poked: Condvar::new(),
            background: AtomicU8::new(FLUSHER_BUSY),
            delays: Arc::default(),
            recent,
            watch: Watch::default(),
            mirror: writer.mirror.clone(),
            counters: writer.counters.clone(),
            frame_writer: Mutex::new(writer),
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
        self.flush_ended.iter().for_each(|condvar| {
            condvar.notify_all();
        });
        self.written_moved.notify_all();
        self.background_poked.notify_one();
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
        let (started, blocker) = (self.started(), self.reserve.blocker());
        let lines = self.stalls.lock().look(self.segments.dir(), self.clock.now_ns(), started, blocker);
        lines.into_iter().for_each(|line| self.warnings.note(line));
        self.tell();
    }

    fn started(&self) -> Option<Started> {
        let in_flight = self.queue.lock().in_flight;
        in_flight.map(|flush| Started { number: flush.number, began_ns: flush.began_ns })
    }

    /// Returns the age of the in-flight flush.
    pub(crate) fn in_flight_age(&self) -> Option<Duration> {
        let started = self.started()?;
        Some(Duration::from_nanos(self.clock.now_ns().saturating_sub(started.began_ns)))
    }

    /// Waits for the in-flight flush.
    pub(crate) fn wait_for_flush(&self) {
        drop(self.frame_writer.lock());
    }

    /// Returns whether a failure has stopped the log.
    pub(crate) fn is_poisoned(&self) -> bool {
        self.queue.lock().state == State::Poisoned
    }
}
