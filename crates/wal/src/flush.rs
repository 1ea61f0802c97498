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
//! - W4. `durable <= written <= boundary`; both move as [`Track`] says (log.md L8).
//! - W5. After a failed write or sync that file is left for good (log.md L9). Nothing is placed, and whoever takes the course
//!   next waits for the flights on their way and writes everything above `durable` elsewhere (`course` A5); when that
//!   fails too, the log is poisoned: every wait fails.
//! - W6. No I/O under the queue's mutex, nor under the track's.
//! - W7. The current file is left only when no flight writes or syncs: whoever leaves it holds the course and waits for
//!   them. Order of locks: course, then queue or track.
//!
//! Checked by the concurrency test, the fault sweep, the crash tests and `flights_tests`.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering, fence},
    },
    task::Waker,
    time::Duration,
};

use collie_base::Lsn;
use collie_env::{Clock, Env, File};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::{
    Mark, Options, WalError, Warnings,
    copies::Mirror,
    course::{Counts, Course, Placed, sync_file},
    options::FLIGHTS_MAX,
    recent::{Recent, Wrote},
    reserve::{Place, Reserve, State, Word},
    ring_file::{Home, WordAt},
    segments::Segments,
    stall::{Oldest, STALL_NS, Stalls},
    track::{Legs, Track},
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

/// How long a wait goes on before it looks for what is in its way.
const STALL: Duration = Duration::from_nanos(STALL_NS);

/// Lanes to park in: one for each flight that is in the air or next. Numbers of flights are taken modulo this.
const LANES: usize = 16;
const _: () =
    assert!(LANES as u64 > 2 * FLIGHTS_MAX - 1, "landed flights wait for those before them: at most twice as many");

/// A flight that has begun and is not done with.
#[derive(Clone, Copy, Debug)]
struct InAir {
    number: u64,
    purpose: Purpose,
    /// What it covers, down to the disk if it syncs.
    target: Lsn,
    /// Whether it has landed, and only waits for those before it.
    landed: bool,
    began_ns: u64,
}

impl InAir {
    fn covers(&self, mark: Mark, lsn: Lsn) -> bool {
        let purposes: &[Purpose] = match mark {
            Mark::Durable => &[Purpose::Sync, Purpose::SyncOnly],
            _ => &[Purpose::Sync, Purpose::Write],
        };
        self.target >= lsn && purposes.contains(&self.purpose)
    }
}

#[derive(Debug)]
pub(crate) struct Queue {
    /// Oldest first, numbered without a gap.
    air: VecDeque<InAir>,
    /// File descriptions that no flight uses.
    free: Vec<usize>,
    /// Number of the flight that began last.
    pub(crate) flight: u64,
    parked: [usize; LANES],
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
    clock: Arc<dyn Clock>,
    stalls: Mutex<Stalls>,
    pub(crate) written: Word,
    pub(crate) durable: Place<Word>,
    /// The durable position that the last frame names.
    pub(crate) named: Word,
    /// Whether appends are refused for lack of room.
    pub(crate) full: AtomicU8,
    pub(crate) queue: Mutex<Queue>,
    flight_ended: [Condvar; LANES],
    written_moved: Condvar,
    pub(crate) keeper_poked: Condvar,
    pub(crate) keeper: AtomicU8,
    /// What the flights wrote last, for readers.
    pub(crate) recent: Recent,
    /// Those who follow the durable mark.
    pub(crate) watch: Watch,
    course: Mutex<Course>,
    /// Writes the copies, where there are several.
    mirror: Option<Mirror>,
    track: Arc<Track>,
    /// Of each flight, for its frames.
    buffers: Vec<Mutex<Vec<u8>>>,
}

/// The right to fly, until it lands.
#[derive(Debug)]
#[must_use]
pub(crate) struct Right {
    number: u64,
    purpose: Purpose,
    /// The file description that is its own.
    description: usize,
    /// What it is to cover.
    target: Lsn,
}

/// What a flight does once it has let go of the course.
#[derive(Debug)]
struct Departed {
    placed: Option<Placed>,
    file: Arc<dyn File>,
    path: std::path::PathBuf,
}

impl Queue {
    /// Returns the flight in the air that will bring `mark` to `lsn`.
    fn ride(&self, mark: Mark, lsn: Lsn) -> Option<u64> {
        self.air.iter().find(|flight| flight.covers(mark, lsn)).map(|flight| flight.number)
    }

    /// Returns how many threads wait for a flight to end.
    #[cfg(test)]
    pub(crate) fn parked_threads(&self) -> usize {
        self.parked.iter().sum::<usize>() + self.parked_written
    }

    /// Returns whether a flight with `purpose` may begin (W1).
    fn may_begin(&self, purpose: Purpose) -> bool {
        let alone = |purpose| matches!(purpose, Purpose::Close | Purpose::Heartbeat);
        let mut flying = self.air.iter().filter(|flight| !flight.landed);
        let blocked = if alone(purpose) { flying.next().is_some() } else { flying.any(|flight| alone(flight.purpose)) };
        !blocked && !self.free.is_empty() && self.state == State::Open
    }
}

fn lane(flight: u64) -> usize {
    usize::try_from(flight % LANES as u64).expect("below the number of lanes")
}

impl Flusher {
    pub(crate) fn new(
        home: &Home,
        reserve: Reserve,
        segments: Segments,
        course: Course,
        options: &Options,
        env: &Env,
    ) -> Self {
        let (start, flights) = (course.issued, course.files.len());
        let recent = Recent::new(options.recent_bytes, start, &course.path, course.offset);
        Self {
            reserve,
            segments,
            warnings: options.warnings.clone(),
            clock: env.clock.clone(),
            stalls: Mutex::default(),
            written: Word::new(start),
            durable: home.word(WordAt::Durable, || Word::new(start)),
            named: Word::new(start),
            full: AtomicU8::new(0),
            queue: Mutex::new(Queue {
                air: VecDeque::new(),
                free: (0..flights).rev().collect(),
                flight: 0,
                parked: [0; LANES],
                parked_written: 0,
                durable_wakers: Wakers::new(),
                written_wakers: Wakers::new(),
                next_waker: 0,
                state: State::Open,
                stop: false,
            }),
            flight_ended: std::array::from_fn(|_| Condvar::new()),
            written_moved: Condvar::new(),
            keeper_poked: Condvar::new(),
            keeper: AtomicU8::new(KEEPER_BUSY),
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

    /// Takes a right to fly, if one is free.
    pub(crate) fn begin(&self, queue: &mut Queue, purpose: Purpose) -> Option<Right> {
        if !queue.may_begin(purpose) {
            return None;
        }
        let description = queue.free.pop()?;
        queue.flight += 1;
        let boundary = self.reserve.advance();
        let target = if purpose == Purpose::SyncOnly { self.written.load() } else { boundary };
        let number = queue.flight;
        let began_ns = self.clock.now_ns();
        queue.air.push_back(InAir { number, purpose, target, landed: false, began_ns });
        Some(Right { number, purpose, description, target })
    }

    /// Flies once, then wakes whoever is covered and a next leader.
    pub(crate) fn fly(&self, right: Right) -> Result<(), WalError> {
        let mut landing = Landing { flusher: self, number: right.number, description: right.description, failed: true };
        let flown = self.fly_inner(&right);
        landing.failed = flown.is_err();
        flown
    }

    /// Gives the right back unused.
    pub(crate) fn give_up(&self, right: Right) {
        self.land(right.number, right.description);
    }

    fn fly_inner(&self, right: &Right) -> Result<(), WalError> {
        let mut course = self.course.lock();
        if self.mend(&mut course, right.target)? {
            // The rewrite covers what this flight was for, but for a closing frame.
            return if right.purpose == Purpose::Close { self.close_course(&mut course) } else { Ok(()) };
        }
        let departed = match self.depart(&mut course, right) {
            Ok(Some(departed)) => departed,
            Ok(None) => return self.link_copies(&mut course, right),
            Err(error) => {
                if !self.mend(&mut course, right.target)? {
                    return Err(error);
                }
                return if right.purpose == Purpose::Close { self.close_course(&mut course) } else { Ok(()) };
            }
        };
        self.track.begin();
        drop(course);
        let carried = self.carry_out(right, departed);
        self.track.end();
        if carried.is_err() {
            // Unless another flight that met the same break has done it by now.
            let _mended = self.mend(&mut self.course.lock(), right.target)?;
        }
        if self.is_settled() { Ok(()) } else { self.link_copies(&mut self.course.lock(), right) }
    }

    /// Does what must be done in the order of the log: leaves a full file and places a frame. Returns what is left to do
    /// beside other flights.
    fn depart(&self, course: &mut Course, right: &Right) -> Result<Option<Departed>, WalError> {
        let state = self.queue.lock().state;
        if state != State::Open {
            // Closed between taking the right and using it: the files are somebody else's by now.
            return Err(self.refusal(state));
        }
        let placed = match right.purpose {
            Purpose::Close => {
                self.close_course(course)?;
                return Ok(None);
            }
            Purpose::SyncOnly => None,
            Purpose::Write | Purpose::Sync if right.target <= course.issued => None,
            Purpose::Write | Purpose::Sync => Some(self.place(course, right, right.target)?),
            // Not worth the last room there is, nor the log.
            Purpose::Heartbeat if course.must_turn(course.issued) && self.segments.is_short() => None,
            Purpose::Heartbeat => Some(self.place(course, right, course.issued)?),
        };
        let syncs = matches!(right.purpose, Purpose::Sync | Purpose::SyncOnly);
        if placed.is_none() && !(syncs && self.track.lock().is_unsynced()) {
            return Ok(None);
        }
        let file = course.files[right.description].clone();
        Ok(Some(Departed { placed, file, path: course.path.clone() }))
    }

    fn place(&self, course: &mut Course, right: &Right, boundary: Lsn) -> Result<Placed, WalError> {
        // What is reserved must fit into what is allocated, so this comes before anything is written.
        let full = self.segments.ensure_room(course.half_full());
        self.full.store(u8::from(full), Ordering::Release);
        if course.must_turn(boundary) {
            // W7. One of those that we waited for may have broken the file.
            self.track.wait_quiet();
            self.still_whole()?;
            if self.track.lock().is_unsynced() {
                self.sync_course(course)?;
            }
        }
        let (durable, start) = (self.durable.load(), course.issued);
        let buffer = std::mem::take(&mut *self.buffers[right.description].lock());
        let placed = course.place_from_ring(&self.reserve, &self.segments, boundary, durable, buffer)?;
        let (path, next_offset, bytes) = (&*course.path, course.offset, &*placed.bytes);
        self.recent.wrote(&Wrote { start, end: placed.end, path, next_offset, bytes }, durable);
        self.named.store(durable);
        if placed.end < right.target {
            let mut queue = self.queue.lock();
            let flight = queue.air.iter_mut().find(|flight| flight.number == right.number);
            flight.expect("it has not landed").target = placed.end;
        }
        Ok(placed)
    }

    /// Writes what was placed, and syncs; others may do so too.
    fn carry_out(&self, right: &Right, departed: Departed) -> Result<(), WalError> {
        let Departed { placed, file, path } = departed;
        let leg = placed.as_ref().map(|placed| placed.leg);
        if let Some(placed) = placed {
            self.still_whole()?;
            let skipped = mistake!("WRITE_SKIPPED");
            let written = if skipped { Ok(()) } else { file.write_at(placed.offset, &placed.bytes) };
            *self.buffers[right.description].lock() = placed.bytes;
            let mut legs = self.track.lock();
            written.map_err(|source| legs.fail(WalError::io("write", &path, source)))?;
            legs.wrote(placed.leg);
            self.written.store(legs.written());
        }
        if right.purpose == Purpose::Write || right.purpose == Purpose::Sync {
            self.wake_written();
        }
        if matches!(right.purpose, Purpose::Sync | Purpose::SyncOnly) {
            self.still_whole()?;
            let Some(cover) = self.track.lock().sync_begins(leg) else { return Ok(()) };
            self.acknowledge_early();
            let synced = sync_file(&*file);
            let mut legs = self.track.lock();
            synced.map_err(|source| legs.fail(WalError::io("sync", &path, source)))?;
            let durable = legs.synced(cover);
            if self.is_settled() {
                self.durable.store(durable);
            }
        }
        Ok(())
    }

    /// Returns whether the log says who holds it; until it does nothing is acknowledged.
    fn is_settled(&self) -> bool {
        self.mirror.as_ref().is_none_or(Mirror::is_settled)
    }

    /// Writes down which copies hold the log, if that changed, for a flight that was to sync; then moves the mark.
    fn link_copies(&self, course: &mut Course, right: &Right) -> Result<(), WalError> {
        let syncs = matches!(right.purpose, Purpose::Sync | Purpose::SyncOnly);
        if !syncs || self.is_settled() {
            return Ok(());
        }
        self.track.wait_quiet();
        let state = self.queue.lock().state;
        if state != State::Open {
            return Err(self.refusal(state));
        }
        if self.mend(course, right.target)? || self.sync_course(course).is_ok() || self.mend(course, right.target)? {
            return Ok(());
        }
        Err(self.refusal(State::Poisoned))
    }

    /// Has a flight write down that a copy left or came back, if that is so and nobody flies.
    pub(crate) fn settle_copies(&self) {
        let right = if self.is_settled() { None } else { self.begin(&mut self.queue.lock(), Purpose::Sync) };
        if let Some(right) = right {
            // A failure has poisoned the log, which is how everybody hears of it.
            let _poisoned = self.fly(right);
        }
    }

    /// Stops a flight whose file another flight has broken (log.md L9).
    fn still_whole(&self) -> Result<(), WalError> {
        if self.track.lock().broken().is_some() { Err(self.refusal(State::Poisoned)) } else { Ok(()) }
    }

    /// Syncs while nothing else writes, and moves the mark.
    fn sync_course(&self, course: &mut Course) -> Result<(), WalError> {
        self.acknowledge_early();
        course.sync()?;
        course.settle(&self.segments, self.durable.load())?;
        self.publish(&self.track.lock());
        Ok(())
    }

    /// The mistake of moving the mark before the sync.
    fn acknowledge_early(&self) {
        if mistake!("ACK_BEFORE_SYNC") {
            self.durable.store(self.written.load());
        }
    }

    /// Moves the marks to where the track has them.
    fn publish(&self, legs: &Legs) {
        self.written.store(legs.written());
        self.durable.store(legs.anchor().end);
    }

    /// Writes and syncs the closing frame; this flight is alone.
    fn close_course(&self, course: &mut Course) -> Result<(), WalError> {
        self.track.wait_quiet();
        loop {
            course.write_end(&self.segments, self.durable.load())?;
            self.sync_course(course)?;
            // Otherwise a copy left meanwhile, and that was written behind it.
            if course.end_marked {
                return Ok(());
            }
        }
    }

    /// Writes everything that is not durable to another file, if the current one is broken (W5); returns whether it was.
    fn mend(&self, course: &mut Course, target: Lsn) -> Result<bool, WalError> {
        let Some(cause) = self.track.lock().broken().map(str::to_owned) else { return Ok(false) };
        self.track.wait_quiet();
        let (durable, state) = (self.durable.load(), self.queue.lock().state);
        if state != State::Open || self.track.lock().is_lost() {
            return Err(self.refusal(state));
        }
        let to = target.max(course.issued);
        let rewritten = course.rewrite(&self.reserve, &self.segments, to);
        if let Err(error) = rewritten.and_then(|()| course.settle(&self.segments, durable)) {
            self.track.lock().lose();
            self.warnings.say(&format!(
                "{cause}; writing what lies above {durable} to another file failed too ({error}): nothing is \
                 acknowledged until the log is opened again"
            ));
            return Err(error);
        }
        self.warnings.say(&format!(
            "{cause}; that file is not used again, {} bytes above {durable} were written to {} instead and the log goes on",
            to.bytes_since(durable),
            course.path.display()
        ));
        self.named.store(durable);
        self.recent.written_elsewhere(course.issued, &course.path, course.offset);
        self.publish(&self.track.lock());
        self.wake_written();
        Ok(true)
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

    /// Ends a flight: wakes the next leader first, then those it covered.
    fn land(&self, number: u64, description: usize) {
        let mut queue = self.queue.lock();
        queue.free.push(description);
        let flight = queue.air.iter_mut().find(|flight| flight.number == number);
        flight.expect("a flight lands once").landed = true;
        let durable = self.durable.load();
        let durable_wakers = take_reached(&mut queue.durable_wakers, durable);
        let written_wakers = take_reached(&mut queue.written_wakers, self.written.load());
        if !self.pass_on(&queue) && self.keeper.load(Ordering::Relaxed) == KEEPER_SLEEPS {
            // So that the silence after this flight is noticed: the keeper's timer is not running.
            if self.named.load() < durable {
                self.keeper_poked.notify_one();
            }
        }
        // What a flight that landed early has to say counts when those before it have landed, or durable says so.
        let mut all_before = true;
        for flight in &queue.air {
            all_before &= flight.landed;
            if flight.landed && (all_before || flight.target <= durable) && queue.parked[lane(flight.number)] > 0 {
                self.flight_ended[lane(flight.number)].notify_all();
            }
        }
        while queue.air.front().is_some_and(|flight| flight.landed) {
            queue.air.pop_front();
        }
        if queue.parked_written > 0 {
            self.written_moved.notify_all();
        }
        drop(queue);
        durable_wakers.into_values().chain(written_wakers.into_values()).for_each(Waker::wake);
        self.watch.notify();
    }

    /// Wakes one that will lead (W3): a thread that waits for the next flight, or the keeper when futures wait. Returns
    /// whether anybody was woken.
    fn pass_on(&self, queue: &MutexGuard<'_, Queue>) -> bool {
        let next = lane(queue.flight + 1);
        if queue.parked[next] > 0 {
            return self.flight_ended[next].notify_one();
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
                if !queue.free.is_empty() {
                    // We may have been woken to lead and need not: hand the duty on (W3).
                    let _woken = self.pass_on(&queue);
                }
                return Ok(());
            }
            if queue.state != State::Open {
                return Err(self.refusal(queue.state));
            }
            let ride = queue.ride(mark, lsn);
            if ride.is_none()
                && let Some(right) = self.begin(&mut queue, purpose)
            {
                drop(queue);
                if lsn <= right.target {
                    self.fly(right)?;
                } else {
                    // A right is never held while waiting for the boundary.
                    self.give_up(right);
                    self.wait_boundary(lsn)?;
                }
                queue = self.queue.lock();
                continue;
            }
            let stalled = if mark == Mark::Durable {
                let lane = lane(ride.unwrap_or(queue.flight + 1));
                queue.parked[lane] += 1;
                let waited = self.flight_ended[lane].wait_for(&mut queue, STALL);
                queue.parked[lane] -= 1;
                waited.timed_out()
            } else {
                queue.parked_written += 1;
                let waited = self.written_moved.wait_for(&mut queue, STALL);
                queue.parked_written -= 1;
                waited.timed_out()
            };
            if stalled {
                MutexGuard::unlocked(&mut queue, || self.look_for_stalls());
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
        if !queue.free.is_empty() && queue.ride(mark, lsn).is_none() {
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

    /// Says what has held everybody up for long, if anything has.
    pub(crate) fn look_for_stalls(&self) {
        let (oldest, blocker) = (self.oldest_flight(), self.reserve.blocker());
        let lines = self.stalls.lock().look(self.segments.dir(), self.clock.now_ns(), oldest, blocker);
        lines.iter().for_each(|line| self.warnings.say(line));
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

    /// Returns what was placed so far, and how many syncs succeeded.
    pub(crate) fn counts(&self) -> (Counts, u64) {
        let counts = self.course.lock().counts;
        (counts, self.track.lock().syncs())
    }
}

/// Ends the flight however its leader leaves it: a panic on the way poisons the log instead of leaving all asleep.
struct Landing<'a> {
    flusher: &'a Flusher,
    number: u64,
    description: usize,
    failed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if self.failed {
            self.flusher.poison();
        }
        self.flusher.land(self.number, self.description);
    }
}

/// Takes out the wakers whose position is reached.
fn take_reached(wakers: &mut Wakers, mark: Lsn) -> Wakers {
    let waiting = wakers.split_off(&(mark.plus(1), 0));
    std::mem::replace(wakers, waiting)
}
