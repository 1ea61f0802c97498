//! `Slots`: the words of the lock-free protocols, the scan that raises the boundary, and the wake-ups.
//!
//! A worker shows in its flag what it is about to reserve before it reserves; a thread that needs to know how far the
//! log is complete reads all flags. No writer waits for another, and no thread has to keep an order.
//!
//! # Invariants
//! - S1. The value that a scan uses for a slot is a safe bound: all records of that slot below it are complete, and the
//!   slot will never reserve below it.
//! - S2. `boundary` is the end of a record and only grows: it is raised by `fetch_max` alone.
//! - S3. `glsn` changes by `fetch_add` alone, and once by the exchange that closes: a store would end the chain of
//!   read-modify-writes by which a scan that loads it sees the flags of every reservation below.
//! - S4. An owner that leaves black and finds NOTIFY drains or hands the duty on; no waiter sleeps without NOTIFY on
//!   the black slot with the lowest bound.
//! - S5. Once `glsn` carries CLOSED nothing is reserved, and `last` already says where the log ended: a thread that
//!   compared flags with an older end would drop the duty to wake, or refuse a wait for a record that is there.
//! - S6. A scan counts the slots after its limit, and again after the flags: of a slot in its first use it knows only
//!   that it reserves at or above the limit, and the flag of another slot may be above because that one reserved in
//!   between.
//! # Ordering
//! | store                            | pairs with                 | carries                                         |
//! |----------------------------------|----------------------------|-------------------------------------------------|
//! | black Release, owner             | flag Acquire, scan         | completeness of the owner's earlier records     |
//! | `glsn` fetch_add AcqRel, owner   | `glsn` Acquire, scan       | black of every reservation below, and `used`    |
//! | white, staged AcqRel, owner      | flag Acquire, scan         | bytes of the record and what publish did        |
//! | `boundary` fetch_max AcqRel      | `boundary` Acquire, all    | everything below the boundary                   |
//! | NOTIFY compare-exchange AcqRel   | swap AcqRel, owner         | the waiter's entry  and the position it is at   |
//! | `used` Release, registration     | `used` Acquire, scan       | nothing by itself: see `glsn` and, for S6, flags |
//! | `glsn` exchange AcqRel, closing  | `glsn` Acquire, scan       | `last`, and black of every reservation below    |
//!
//! # Progress
//! `blacken`, `reserve`, `leave_black`: wait-free, except for the drain if NOTIFY was set. `scan`: wait-free in the
//! number of slots, except for `fetch_max`, which is a compare-exchange loop on x86-64 (lock-free). `close`: lock-free,
//! a compare-exchange loop that competes with the appends.
//!
//! Checked by the models in `loom_tests`, by `freeze_tests`, which stop a worker at every step, and by `mix_tests`.

use std::{task::Waker, time::Duration};

use collie_base::Lsn;
use collie_sync::{
    Mutex, Padded,
    atomic::{AtomicU64, AtomicUsize, Ordering},
    hint, mutant, ord, thread_waker,
};

use crate::append::ring_file::{Home, WordAt};

use super::{
    Place, State,
    boundary_waiters::BoundaryWaiters,
    slot_allocator::Slot,
    words::{Colour, Flag, Word},
};

/// Set in `glsn` once nothing is reserved any more. Positions stay below 2^60, and late writers cannot add 2^61.
const CLOSED: u64 = 1 << 62;

/// Returns whether `glsn` says that nothing is reserved any more.
pub(crate) const fn is_closed(glsn: u64) -> bool {
    glsn >= CLOSED
}

/// Number of looks at a black flag before a waiter sleeps: well below a microsecond.
const SPINS: u32 = 48;

/// The words of a log with a lock-free protocol.
#[derive(Debug)]
pub(super) struct Slots {
    glsn: Place<Padded<AtomicU64>>,
    boundary: Place<Padded<AtomicU64>>,
    last: Place<Word>,
    used: Place<Padded<AtomicUsize>>,
    flags: Place<[Padded<AtomicU64>]>,
    boundary_waiters: BoundaryWaiters,
    state: Mutex<State>,
}

/// The position with which a scan compares the flags.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The next free position, loaded before the flags.
    Next,
    /// The end of a record of the scanning thread itself.
    End(Lsn),
}

/// The scanning thread's own slot, whose flag it does not load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    index: usize,
    flag: Flag,
}

/// A slot that holds the boundary back.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocker {
    index: usize,
    flag: Flag,
}

/// The result of a scan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// The log is complete at least up to here.
    pub(super) boundary: Lsn,
    /// The position with which the flags were compared.
    limit: Lsn,
    /// The black slot with the lowest bound.
    blocker: Option<Blocker>,
}

impl Scan {
    /// Returns the slot with the lowest bound, and the bound.
    pub(super) fn blocker(&self) -> Option<(usize, Lsn)> {
        self.blocker.map(|blocker| (blocker.index, blocker.flag.lsn()))
    }
}

/// The refusal of a log that takes no more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

impl Slots {
    /// Starts handing out positions at `next`, to at most `slots` writers at a time.
    pub(super) fn new(home: &Home, slots: usize, next: Lsn) -> Self {
        let position = || Padded::new(AtomicU64::new(next.get()));
        Self {
            glsn: home.word(WordAt::Next, position),
            boundary: home.word(WordAt::Boundary, position),
            last: home.word(WordAt::Last, || Word::new(next)),
            used: home.word(WordAt::Used, || Padded::new(AtomicUsize::new(0))),
            flags: home.flags(slots, || Padded::new(AtomicU64::new(Flag::white(Lsn::ZERO).raw()))),
            boundary_waiters: BoundaryWaiters::default(),
            state: Mutex::new(State::Open),
        }
    }

    /// Makes scans read slot `index` from now on; called in the order of the numbers.
    pub(super) fn register(&self, index: usize) {
        self.used.store(index + 1, ord!("USED_STORE", Release));
    }

    /// Returns the number of slots that were ever in use.
    pub(super) fn used(&self) -> usize {
        self.used.load(ord!("USED_LOAD", Acquire))
    }

    /// Returns the boundary.
    pub(super) fn boundary(&self) -> Lsn {
        Lsn::new(self.boundary.load(ord!("BOUNDARY_LOAD", Acquire)))
    }

    /// Returns the next free position, or the end of a closed log.
    pub(super) fn next(&self) -> Lsn {
        let next = self.glsn.load(ord!("GLSN_LOAD", Acquire));
        if next < CLOSED { Lsn::new(next) } else { self.last.load() }
    }

    pub(super) fn flag(&self, index: usize) -> Flag {
        Flag::from_raw(self.flags[index].load(ord!("FLAG_LOAD", Acquire)))
    }

    /// W1: announces a reservation at or above the end of the last one.
    pub(super) fn blacken(&self, slot: &Slot) {
        if mutant!("NO_BLACK") {
            return;
        }
        if mutant!("BLACK_AFTER_ADD") {
            return;
        }
        self.flags[slot.index].store(Flag::black(slot.end).raw(), ord!("BLACK_STORE", Release));
    }

    /// W2: takes `bytes` positions and with them the place in the order of the log.
    pub(super) fn reserve(&self, slot: &mut Slot, bytes: u64) -> Result<Lsn, Closed> {
        let start = self.glsn.fetch_add(bytes, add_ordering());
        if start >= CLOSED {
            self.withdraw(slot);
            return Err(Closed);
        }
        let start = Lsn::new(start);
        if mutant!("BLACK_AFTER_ADD") {
            self.flags[slot.index].store(Flag::black(start).raw(), Ordering::Release);
        }
        if mutant!("END_BEFORE_COLOUR") {
            self.flags[slot.index].store(Flag::white(start.plus(bytes)).raw(), Ordering::Release);
        }
        Ok(start)
    }

    /// Leaves black without having reserved.
    #[cold]
    #[inline(never)]
    pub(super) fn withdraw(&self, slot: &mut Slot) {
        let end = slot.end;
        self.leave_black(slot, Flag::white(end));
    }

    /// Raises the bound of a black slot to the start of its reservation, before it waits for anything (RULE-11).
    #[cold]
    #[inline(never)]
    pub(super) fn raise(&self, slot: &mut Slot, start: Lsn) {
        let raised = Flag::black(start);
        if mutant!("RAISE_BY_STORE") {
            self.flags[slot.index].store(raised.raw(), Ordering::Release);
            return;
        }
        let old = Flag::from_raw(self.flags[slot.index].swap(raised.raw(), ord!("RAISE_SWAP", AcqRel)));
        if old.has_notify() {
            self.drain(slot, raised);
        }
    }

    /// Leaves black for `flag`: white or staged, at the end of the record. Drains if a waiter asked for it, or if the
    /// slot owes it. Always inlined, for `tests/assembly.rs`.
    #[inline(always)]
    pub(super) fn leave_black(&self, slot: &mut Slot, flag: Flag) {
        slot.end = flag.lsn();
        if mutant!("STAGED_BY_RELAXED_STORE") {
            self.flags[slot.index].store(flag.raw(), Ordering::Relaxed);
            return;
        }
        if mutant!("WHITE_BY_STORE") {
            self.flags[slot.index].store(flag.raw(), Ordering::Release);
            return;
        }
        let old = Flag::from_raw(self.flags[slot.index].swap(flag.raw(), ord!("WHITE_SWAP", AcqRel)));
        if old.has_notify() || slot.owes {
            self.drain(slot, flag);
        }
    }

    /// Leaves staged for white: the ring has the bytes. A plain store suffices, since NOTIFY is only ever set on black.
    pub(super) fn whiten_staged(&self, slot: &Slot) {
        self.flags[slot.index].store(Flag::white(slot.end).raw(), ord!("STAGED_TO_WHITE", Release));
    }

    /// Returns the own slot for a scan by the thread that owns `slot`, which is white.
    pub(super) fn own(slot: &Slot) -> Own {
        Own { index: slot.index, flag: Flag::white(slot.end) }
    }

    /// Reads every flag and raises the boundary to where the log is complete.
    pub(super) fn scan(&self, limit: Limit, own: Option<Own>) -> Scan {
        self.scan_noting(limit, own, |_colour| ())
    }

    /// Does the same as [`Slots::scan`], and passes the colour of each flag that it reads to `note`.
    #[inline(always)]
    pub(super) fn scan_noting(&self, limit: Limit, own: Option<Own>, mut note: impl FnMut(Colour)) -> Scan {
        let load_limit = || match limit {
            Limit::Next => self.next(),
            Limit::End(end) => end,
        };
        let used_early = mutant!("USED_BEFORE_LIMIT").then(|| self.used());
        let early = (!mutant!("LIMIT_AFTER_FLAGS")).then(load_limit);
        let mut used = used_early.unwrap_or_else(|| self.used());
        let (mut blocker, mut complete, mut index) = (None::<Blocker>, None::<Lsn>, 0);
        loop {
            while index < used {
                let flag = match own {
                    Some(own) if own.index == index => own.flag,
                    _ => self.flag(index),
                };
                note(flag.colour());
                if flag.colour() != Colour::Black {
                    complete = Some(complete.map_or(flag.lsn(), |lowest| lowest.min(flag.lsn())));
                } else if blocker.is_none_or(|lowest| flag.lsn() < lowest.flag.lsn()) {
                    blocker = Some(Blocker { index, flag });
                }
                index += 1;
            }
            // S6: the flags count only if no slot was registered since the last count.
            let now = if mutant!("USED_ONCE") || used_early.is_some() { used } else { self.used() };
            if now == used {
                break;
            }
            used = now;
        }
        let limit = if mutant!("NO_LIMIT") { Lsn::MAX } else { early.unwrap_or_else(load_limit) };
        // min over the slots of: black: its bound; else: max(limit, its end).
        let bounds = [complete.map(|end| limit.max(end)), blocker.map(|blocker| blocker.flag.lsn())];
        let bound = bounds.into_iter().flatten().min().unwrap_or(limit);
        Scan { boundary: self.raise_boundary(bound), limit, blocker }
    }

    /// Raises the boundary to `bound` unless it is further already; returns a position that it has at least.
    fn raise_boundary(&self, bound: Lsn) -> Lsn {
        if mutant!("BOUNDARY_BY_STORE") {
            self.boundary.store(bound.get(), Ordering::Release);
            return bound;
        }
        // Loom branches at the last access to a word only, so this load would hide the others' from it: one model
        // (SHORTCUT) has it, the others do without.
        if cfg!(not(loom)) || mutant!("SHORTCUT") {
            let now = self.boundary();
            if now >= bound {
                return now;
            }
        }
        let before = self.boundary.fetch_max(bound.get(), ord!("BOUNDARY_MAX", AcqRel));
        bound.max(Lsn::new(before))
    }

    /// Asks the owner of a black slot to notify when it leaves black; returns `false` if it has left already.
    fn hand_on(&self, blocker: Blocker) -> bool {
        let (old, new) = (blocker.flag.raw(), blocker.flag.with_notify().raw());
        let flag = &self.flags[blocker.index];
        flag.compare_exchange(old, new, ord!("NOTIFY_CAS", AcqRel), ord!("_", Acquire)).is_ok()
    }

    /// Raises the boundary for the waiters and wakes them; if another slot holds it back, hands the duty on (S4).
    #[cold]
    #[inline(never)]
    fn drain(&self, slot: &mut Slot, flag: Flag) {
        let own = Own { index: slot.index, flag };
        slot.owes = false;
        loop {
            let limit = if mutant!("DRAIN_WITH_OWN_END") { Limit::End(slot.end) } else { Limit::Next };
            let scan = self.scan(limit, Some(own));
            let anybody_left = self.boundary_waiters.wake_through(scan.boundary);
            if scan.boundary >= scan.limit || !anybody_left || mutant!("DUTY_NOT_HANDED_ON") {
                return;
            }
            match scan.blocker {
                Some(blocker) if blocker.index == own.index => {
                    slot.owes = true;
                    return;
                }
                Some(blocker) if self.hand_on(blocker) => return,
                _ => hint::spin_loop(),
            }
        }
    }

    /// Checks whether the boundary is at `lsn`; else registers `waker`, to be called when it may be there. `number` is
    /// the waiter's, from its last call.
    ///
    /// # Errors
    /// The state because of which the boundary will not get there.
    pub(super) fn park(
        &self,
        lsn: Lsn,
        limit: Limit,
        own: Option<Own>,
        number: &mut Option<u64>,
        waker: &Waker,
    ) -> Result<bool, State> {
        loop {
            let scan = self.scan(limit, own);
            if scan.boundary >= lsn {
                return Ok(true);
            }
            // Without a black slot the boundary is at the limit, which was loaded after the record's positions were
            // taken.
            let blocker = scan.blocker.expect("waits are for records that were appended");
            if self.leaves_soon(blocker) {
                continue;
            }
            if mutant!("NOTIFY_BEFORE_ENTERING") && self.hand_on(blocker) {
                self.boundary_waiters.enter(lsn, number, waker)?;
                return Ok(false);
            }
            self.boundary_waiters.enter(lsn, number, waker)?;
            if self.hand_on(blocker) {
                return Ok(false);
            }
        }
    }

    /// Watches a black flag for a short while; returns whether it changed.
    #[cfg(not(any(loom, shuttle)))]
    fn leaves_soon(&self, blocker: Blocker) -> bool {
        (0..SPINS).any(|_| {
            hint::spin_loop();
            self.flags[blocker.index].load(Ordering::Relaxed) != blocker.flag.raw()
        })
    }

    /// Returns `false`: a model has no time, so the waiter sleeps at once.
    #[cfg(any(loom, shuttle))]
    fn leaves_soon(&self, _: Blocker) -> bool {
        let _ = SPINS;
        false
    }

    /// Removes a waiter that [`Slots::park`] registered.
    pub(super) fn forget(&self, lsn: Lsn, number: u64) {
        self.boundary_waiters.leave(lsn, number);
    }

    /// Blocks until the boundary is at `lsn`, or for at most about `limit_time`; returns whether it is there.
    ///
    /// # Errors
    /// As [`Slots::park`].
    pub(super) fn wait(
        &self,
        lsn: Lsn,
        limit: Limit,
        own: Option<Own>,
        limit_time: Option<Duration>,
    ) -> Result<bool, State> {
        if self.boundary() >= lsn {
            return Ok(true);
        }
        let (mut number, waker) = (None, thread_waker());
        let outcome = loop {
            match self.park(lsn, limit, own, &mut number, &waker) {
                Ok(false) => {}
                ended => break ended,
            }
            match limit_time {
                None => std::thread::park(),
                Some(time) => {
                    std::thread::park_timeout(time);
                    break Ok(self.scan(limit, own).boundary >= lsn);
                }
            }
        };
        if let Some(number) = number {
            self.forget(lsn, number);
        }
        outcome
    }

    /// Accepts no more reservations; the first reason stays.
    pub(super) fn close(&self, state: State) {
        let mut now = self.state.lock();
        if *now == State::Open {
            *now = state;
            if mutant!("CLOSED_BEFORE_LAST") {
                let last = Lsn::new(self.glsn.fetch_add(CLOSED, Ordering::AcqRel));
                self.last.store(last);
                return;
            }
            // The end of an idle log; otherwise the first exchange returns the end. A load here would hide the appends'
            // from loom.
            let mut next = self.boundary().get();
            loop {
                self.last.store(Lsn::new(next));
                match self.glsn.compare_exchange(next, next + CLOSED, Ordering::AcqRel, Ordering::Acquire) {
                    Ok(_) => return,
                    Err(moved) => next = moved,
                }
            }
        }
    }

    /// Returns the reason why nothing is reserved any more.
    #[cold]
    #[inline(never)]
    pub(super) fn state(&self) -> State {
        *self.state.lock()
    }

    /// Fails every wait for the boundary from now on.
    pub(super) fn end(&self, state: State) {
        self.boundary_waiters.end(state);
    }
}

/// Returns the ordering of W2: both halves are needed (S3), and a model leaves out one at a time.
fn add_ordering() -> Ordering {
    if mutant!("GLSN_ADD_ACQUIRE") {
        return Ordering::Acquire;
    }
    if mutant!("GLSN_ADD_RELEASE") {
        return Ordering::Release;
    }
    ord!("GLSN_ADD", AcqRel)
}
