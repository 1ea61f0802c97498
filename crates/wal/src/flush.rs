//! Group commit: who leads a flush, who waits for it, and who is woken.
//!
//! Whoever needs a mark first leads a flush for everybody (one at a time); the others park. While a flush is on its
//! way new records gather, and the next leader is woken the moment it ends: no timer is on that path. Threads park on
//! one of two condition variables, by the parity of the flight that will cover them, so a flight wakes its own and one
//! next leader. Futures leave their waker and the keeper leads for them.
//!
//! # Invariants
//! - W1. `leading` is set by one thread at a time, under the queue's mutex, and that thread alone uses the flight.
//! - W2. Whoever parks has seen its mark not reached under the mutex, and whoever moves a mark takes the mutex before
//!   waking: no wake-up is lost.
//! - W3. When a flight ends and somebody is left waiting, a thread beyond it or the keeper is woken to lead.
//! - W4. `durable <= written <= boundary`; `durable` moves only after a successful sync of all below it (log.md L8).
//! - W5. After a failed write or sync that file is left for good (log.md L9). Its leader keeps the right to fly, so nothing
//!   is acknowledged, until everything above `durable` is written and synced elsewhere (`flight` A5); when that fails
//!   too, the log is poisoned: every wait fails.
//! - W6. No I/O under the queue's mutex.
//!
//! Checked by the concurrency test, the fault sweep and the crash tests.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU8, Ordering, fence},
    task::Waker,
};

use collie_base::Lsn;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    Mark, Options, WalError, Warnings,
    flight::Flight,
    recent::{Recent, Wrote},
    reserve::{Reserve, State, Word},
    segments::Segments,
    watch::Watch,
};

/// The keeper runs, or will look again soon.
pub(crate) const KEEPER_BUSY: u8 = 0;
/// The keeper waits for `wal.flush_delay` to pass.
pub(crate) const KEEPER_DELAYS: u8 = 1;
/// The keeper sleeps until it is poked.
pub(crate) const KEEPER_SLEEPS: u8 = 2;

/// Futures that wait, by position and a number of their own.
type Wakers = BTreeMap<(Lsn, u64), Waker>;

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) leading: bool,
    /// Number of the flight now or last on its way.
    pub(crate) flight: u64,
    /// What the flight will cover, and whether down to the disk.
    target: Lsn,
    syncs: bool,
    parked: [usize; 2],
    parked_written: usize,
    durable_wakers: Wakers,
    written_wakers: Wakers,
    next_waker: u64,
    pub(crate) state: State,
    pub(crate) stop: bool,
}

/// What a flight is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Write, no sync.
    Write,
    /// Write and sync.
    Sync,
    /// Sync what is written, write nothing.
    SyncOnly,
    /// Write an empty frame that names what is durable, no sync.
    Heartbeat,
    /// Write and sync the closing frame; everything is durable, nothing is appended any more.
    Close,
}

/// Flushing and waiting.
#[derive(Debug)]
pub(crate) struct Flusher {
    pub(crate) reserve: Reserve,
    pub(crate) segments: Segments,
    warnings: Warnings,
    pub(crate) written: Word,
    pub(crate) durable: Word,
    /// The durable position that the last frame names.
    pub(crate) named: Word,
    /// Whether appends are refused for lack of room.
    pub(crate) full: AtomicU8,
    pub(crate) queue: Mutex<Queue>,
    flight_ended: [Condvar; 2],
    written_moved: Condvar,
    pub(crate) keeper_poked: Condvar,
    pub(crate) keeper: AtomicU8,
    /// What the flights wrote last, for readers.
    pub(crate) recent: Recent,
    /// Those who follow the durable mark.
    pub(crate) watch: Watch,
    flight: Mutex<Flight>,
}

/// The right to fly, held while `Queue::leading`.
#[derive(Debug)]
#[must_use]
pub(crate) struct Right(Purpose);

impl Flusher {
    pub(crate) fn new(reserve: Reserve, segments: Segments, flight: Flight, options: &Options) -> Self {
        let start = flight.issued;
        let recent = Recent::new(options.recent_bytes, start, &flight.path, flight.offset);
        Self {
            reserve,
            segments,
            warnings: options.warnings.clone(),
            written: Word::new(start),
            durable: Word::new(start),
            named: Word::new(start),
            full: AtomicU8::new(0),
            queue: Mutex::new(Queue {
                leading: false,
                flight: 0,
                target: start,
                syncs: false,
                parked: [0; 2],
                parked_written: 0,
                durable_wakers: Wakers::new(),
                written_wakers: Wakers::new(),
                next_waker: 0,
                state: State::Open,
                stop: false,
            }),
            flight_ended: [Condvar::new(), Condvar::new()],
            written_moved: Condvar::new(),
            keeper_poked: Condvar::new(),
            keeper: AtomicU8::new(KEEPER_BUSY),
            recent,
            watch: Watch::default(),
            flight: Mutex::new(flight),
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

    /// Takes the right to fly if nobody has it.
    pub(crate) fn begin(&self, queue: &mut Queue, purpose: Purpose) -> Option<Right> {
        if queue.leading || queue.state != State::Open {
            return None;
        }
        queue.leading = true;
        queue.flight += 1;
        queue.target = if purpose == Purpose::SyncOnly { self.written.load() } else { self.reserve.advance() };
        queue.syncs = matches!(purpose, Purpose::Sync | Purpose::SyncOnly);
        Some(Right(purpose))
    }

    /// Flies once, then wakes whoever is covered and a next leader.
    pub(crate) fn fly(&self, right: Right) -> Result<(), WalError> {
        let mut landing = Landing { flusher: self, failed: true };
        let flown = self.fly_inner(right.0);
        landing.failed = flown.is_err();
        flown
    }

    /// Gives the right back unused.
    pub(crate) fn give_up(&self, _right: Right) {
        self.land();
    }

    fn fly_inner(&self, purpose: Purpose) -> Result<(), WalError> {
        let mut flight = self.flight.lock();
        let (boundary, state) = {
            let queue = self.queue.lock();
            (queue.target, queue.state)
        };
        if state != State::Open {
            // Closed between taking the right and using it: the files are somebody else's by now.
            return Err(self.refusal(state));
        }
        match self.fly_here(&mut flight, purpose, boundary) {
            Err(cause) if flight.broken => self.fly_elsewhere(&mut flight, purpose, boundary, &cause),
            flown => flown,
        }
    }

    fn fly_here(&self, flight: &mut Flight, purpose: Purpose, boundary: Lsn) -> Result<(), WalError> {
        if purpose == Purpose::Close {
            flight.write_end(&self.segments, self.durable.load())?;
            return self.sync(flight);
        }
        let pending = boundary > flight.issued && purpose != Purpose::SyncOnly && purpose != Purpose::Heartbeat;
        if pending || purpose == Purpose::Heartbeat {
            let boundary = if pending { boundary } else { flight.issued };
            // What is reserved must fit into what is allocated, so this comes before anything is written.
            let full = self.segments.ensure_room(flight.half_full());
            self.full.store(u8::from(full), Ordering::Release);
            if flight.must_turn(boundary) && flight.unsynced {
                self.sync(flight)?;
            }
            let (durable, start) = (self.durable.load(), flight.issued);
            let end = flight.write_from_ring(&self.reserve, &self.segments, boundary, durable)?;
            let (path, next_offset, bytes) = (&*flight.path, flight.offset, &*flight.buffer);
            self.recent.wrote(&Wrote { start, end, path, next_offset, bytes }, durable);
            self.named.store(durable);
            self.written.store(end);
            if purpose == Purpose::Write || purpose == Purpose::Sync {
                self.wake_written();
            }
        }
        if flight.unsynced && matches!(purpose, Purpose::Sync | Purpose::SyncOnly) {
            self.sync(flight)?;
        }
        Ok(())
    }

    /// Does what the flight was for in another file, after `cause` broke the current one (W5).
    fn fly_elsewhere(
        &self,
        flight: &mut Flight,
        purpose: Purpose,
        boundary: Lsn,
        cause: &WalError,
    ) -> Result<(), WalError> {
        let writes = matches!(purpose, Purpose::Write | Purpose::Sync);
        let to = if writes { boundary.max(flight.issued) } else { flight.issued };
        let durable = self.durable.load();
        let rewritten = flight.rewrite(&self.reserve, &self.segments, to);
        if let Err(error) = rewritten {
            self.warnings.say(&format!(
                "{cause}; writing what lies above {durable} to another file failed too ({error}): nothing is \
                 acknowledged until the log is opened again"
            ));
            return Err(error);
        }
        self.warnings.say(&format!(
            "{cause}; that file is not used again, {} bytes above {durable} were written to {} instead and the log goes on",
            to.bytes_since(durable),
            flight.path.display()
        ));
        self.named.store(durable);
        self.written.store(flight.issued);
        self.recent.written_elsewhere(flight.issued, &flight.path, flight.offset);
        self.durable.store(flight.issued);
        if purpose == Purpose::Close {
            flight.write_end(&self.segments, self.durable.load())?;
            return self.sync(flight);
        }
        Ok(())
    }

    fn sync(&self, flight: &mut Flight) -> Result<(), WalError> {
        if mistake!("ACK_BEFORE_SYNC") {
            self.durable.store(flight.issued);
        }
        flight.sync()?;
        self.durable.store(flight.issued);
        Ok(())
    }

    /// Wakes those who wait for the kernel only, while the sync is still on its way.
    fn wake_written(&self) {
        let mut queue = self.queue.lock();
        if queue.parked_written > 0 {
            self.written_moved.notify_all();
        }
        let wakers = take_reached(&mut queue.written_wakers, self.written.load());
        drop(queue);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Ends the flight: wakes the next leader first, then those it covered.
    fn land(&self) {
        let mut queue = self.queue.lock();
        queue.leading = false;
        let durable_wakers = take_reached(&mut queue.durable_wakers, self.durable.load());
        let written_wakers = take_reached(&mut queue.written_wakers, self.written.load());
        let this = usize::from(queue.flight % 2 == 1);
        if !self.pass_on(&queue, 1 - this) && self.keeper.load(Ordering::Relaxed) == KEEPER_SLEEPS {
            // So that the silence after this flight is noticed: the keeper's timer is not running.
            if self.named.load() < self.durable.load() {
                self.keeper_poked.notify_one();
            }
        }
        if queue.parked[this] > 0 {
            self.flight_ended[this].notify_all();
        }
        if queue.parked_written > 0 {
            self.written_moved.notify_all();
        }
        drop(queue);
        durable_wakers.into_values().chain(written_wakers.into_values()).for_each(Waker::wake);
        self.watch.notify();
    }

    /// Wakes one that will lead (W3): a thread that waits for the flight of the given parity, or the keeper when
    /// futures wait. Returns whether anybody was woken.
    fn pass_on(&self, queue: &MutexGuard<'_, Queue>, parity: usize) -> bool {
        if queue.parked[parity] > 0 {
            return self.flight_ended[parity].notify_one();
        }
        let futures = !queue.durable_wakers.is_empty() || !queue.written_wakers.is_empty();
        futures && self.keeper_poked.notify_one()
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
        let durable_wakers = std::mem::take(&mut queue.durable_wakers);
        let written_wakers = std::mem::take(&mut queue.written_wakers);
        self.flight_ended.iter().for_each(|condvar| {
            condvar.notify_all();
        });
        self.written_moved.notify_all();
        self.keeper_poked.notify_one();
        drop(queue);
        durable_wakers.into_values().chain(written_wakers.into_values()).for_each(Waker::wake);
        self.watch.notify();
    }

    /// Blocks until `mark` reaches `lsn`, leading when nobody does.
    ///
    /// # Errors
    /// `Poisoned` or `Closed` when it never will.
    pub(crate) fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        let purpose = if mark == Mark::Durable { Purpose::Sync } else { Purpose::Write };
        self.wait_leading(mark, lsn, purpose)
    }

    /// As [`Flusher::wait`], with what the flights it leads are for.
    pub(crate) fn wait_leading(&self, mark: Mark, lsn: Lsn, purpose: Purpose) -> Result<(), WalError> {
        if self.mark(mark) >= lsn {
            return Ok(());
        }
        assert!(self.reserve.has_reserved(lsn), "waits are for records that were appended");
        if mark == Mark::Boundary {
            return self.wait_boundary(lsn);
        }
        let mut queue = self.queue.lock();
        loop {
            if self.mark(mark) >= lsn {
                if !queue.leading {
                    // We may have been woken to lead and need not: hand the duty on (W3).
                    let _woken = self.pass_on(&queue, 0) || self.pass_on(&queue, 1);
                }
                return Ok(());
            }
            if queue.state != State::Open {
                return Err(self.refusal(queue.state));
            }
            if let Some(right) = self.begin(&mut queue, purpose) {
                let covered = lsn <= queue.target;
                drop(queue);
                if covered {
                    self.fly(right)?;
                } else {
                    // Leadership is never held while waiting for the boundary.
                    self.give_up(right);
                    self.wait_boundary(lsn)?;
                }
                queue = self.queue.lock();
                continue;
            }
            if mark == Mark::Durable {
                let covered = queue.syncs && lsn <= queue.target;
                let parity = usize::from((queue.flight + u64::from(!covered)) % 2 == 1);
                queue.parked[parity] += 1;
                self.flight_ended[parity].wait(&mut queue);
                queue.parked[parity] -= 1;
            } else {
                queue.parked_written += 1;
                self.written_moved.wait(&mut queue);
                queue.parked_written -= 1;
            }
        }
    }

    /// Blocks until the boundary reaches `lsn`.
    fn wait_boundary(&self, lsn: Lsn) -> Result<(), WalError> {
        match self.reserve.wait_boundary(lsn, None) {
            Ok(_there) => Ok(()),
            Err(state) => Err(self.refusal(state)),
        }
    }

    /// Leaves a waker until `mark` reaches `lsn`; `id` is the future's number from its last call.
    ///
    /// # Errors
    /// `Poisoned` or `Closed` when it never will.
    pub(crate) fn register(&self, mark: Mark, lsn: Lsn, id: &mut Option<u64>, waker: &Waker) -> Result<bool, WalError> {
        if mark == Mark::Boundary {
            return self.reserve.park(lsn, id, waker).map_err(|state| self.refusal(state));
        }
        let mut queue = self.queue.lock();
        if self.mark(mark) >= lsn {
            return Ok(true);
        }
        if queue.state != State::Open {
            return Err(self.refusal(queue.state));
        }
        let number = *id.get_or_insert(queue.next_waker);
        queue.next_waker = queue.next_waker.max(number + 1);
        let wakers = if mark == Mark::Durable { &mut queue.durable_wakers } else { &mut queue.written_wakers };
        wakers.insert((lsn, number), waker.clone());
        if !queue.leading {
            self.keeper_poked.notify_one();
        }
        Ok(false)
    }

    /// Forgets the waker of a dropped future.
    pub(crate) fn forget(&self, mark: Mark, lsn: Lsn, id: u64) {
        if mark == Mark::Boundary {
            return self.reserve.forget(lsn, id);
        }
        let mut queue = self.queue.lock();
        let wakers = if mark == Mark::Durable { &mut queue.durable_wakers } else { &mut queue.written_wakers };
        wakers.remove(&(lsn, id));
    }

    /// Returns what the futures need, if they need a flight, and the lowest position that would help one.
    pub(crate) fn futures_need(&self, queue: &Queue) -> Option<(Purpose, Lsn)> {
        let lowest = |wakers: &Wakers| wakers.first_key_value().map(|((lsn, _), _)| *lsn);
        let durable = lowest(&queue.durable_wakers).map(|lsn| (Purpose::Sync, lsn));
        durable.or_else(|| lowest(&queue.written_wakers).map(|lsn| (Purpose::Write, lsn)))
    }

    /// Wakes the keeper if it sleeps, or also if it waits for its delay, after an append that nobody waits for.
    ///
    /// The fence stands between the append's reservation and the load of `keeper`; the keeper stores `keeper`, fences, and
    /// loads the next free position. One of the two sees the other.
    #[inline(never)]
    pub(crate) fn poke(&self, also_delayed: bool) {
        fence(Ordering::SeqCst);
        let keeper = self.keeper.load(Ordering::Relaxed);
        if keeper == KEEPER_SLEEPS || (also_delayed && keeper == KEEPER_DELAYS) {
            self.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
            let _queue = self.queue.lock();
            self.keeper_poked.notify_one();
        }
    }

    /// Lets the preparer's news count: appends are taken again once there is room.
    pub(crate) fn refresh_full(&self) {
        self.full.store(u8::from(self.segments.full().is_some()), Ordering::Release);
    }

    /// Uses the flight while nobody leads, for closing.
    pub(crate) fn with_flight<R>(&self, act: impl FnOnce(&mut Flight) -> R) -> R {
        act(&mut self.flight.lock())
    }
}

/// Ends the flight however its leader leaves it: a panic on the way poisons the log instead of leaving all asleep.
struct Landing<'a> {
    flusher: &'a Flusher,
    failed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if self.failed {
            self.flusher.poison();
        }
        self.flusher.land();
    }
}

/// Takes out the wakers whose position is reached.
fn take_reached(wakers: &mut Wakers, mark: Lsn) -> Wakers {
    let waiting = wakers.split_off(&(mark.plus(1), 0));
    std::mem::replace(wakers, waiting)
}
