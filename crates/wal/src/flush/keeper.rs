//! The keeper thread: flushes for futures, for data that nobody waits for, and after a silence.
//!
//! Not on the path of a thread that waits: that one leads itself. It never prepares files either, since that takes
//! long (the preparer does, `segments`).
//!
//! # Ordering
//! Between an append and a keeper that falls asleep, or into a silence, each side stores, fences and loads, so one of the
//! two sees the other:
//!
//! | side | stores | fence | loads |
//! |---|---|---|---|
//! | append (`poke`) | its reservation | SeqCst | `keeper` |
//! | keeper | `keeper` = sleeps, silent | SeqCst | the next free position |
//!
//! The loads and stores of `keeper` are Relaxed but for that: it guards no data, the mutex does.

use std::{
    sync::atomic::{Ordering, fence},
    time::Duration,
};

use collie_base::Lsn;

use super::{
    Flusher,
    queue::{Purpose, Queue, Wakers},
};
use crate::reserve::State;

/// The keeper runs, or will look again soon.
pub(super) const KEEPER_BUSY: u8 = 0;
/// The keeper waits for `wal.flush_delay` to pass, or for the shorter delay of a `Haste`.
const KEEPER_DELAYS: u8 = 1;
/// The keeper sleeps until it is poked.
pub(crate) const KEEPER_SLEEPS: u8 = 2;
/// The keeper waits for a silence to end; an append that nobody waits for begins its delay at once, not after that.
pub(crate) const KEEPER_SILENT: u8 = 3;

/// After this silence an empty frame names what is durable, so that rot of the last full frame cannot look like an
/// unfinished flush.
const SILENCE: Duration = Duration::from_millis(100);

impl Flusher {
    /// Runs the keeper until the queue says stop.
    pub(crate) fn run_keeper(&self) {
        let mut queue = self.queue.lock();
        while !queue.stop {
            if queue.state != State::Open {
                self.keeper_poked.wait(&mut queue);
                continue;
            }
            let (boundary, durable) = (self.reserve.advance(), self.durable.load());
            let pending = boundary.bytes_since(durable);
            let needed = self.futures_need(&queue);
            if let Some((_, lsn)) = needed.filter(|(_, lsn)| *lsn > boundary) {
                // A flight would not help them: a writer is still between its reservation and the end of its copy.
                drop(queue);
                let _there = self.reserve.wait_boundary(lsn, Some(self.flush_delay()));
                queue = self.queue.lock();
                continue;
            }
            let needed = needed.map(|(purpose, _)| purpose);
            let due = needed.or((pending >= self.flush_bytes()).then_some(Purpose::Sync));
            if let Some(right) = due.and_then(|purpose| self.begin(&mut queue, purpose)) {
                drop(queue);
                // A failure has poisoned the log, which is how everybody hears of it.
                let _poisoned = self.fly(right);
                queue = self.queue.lock();
                continue;
            }
            // Also what is still being copied will have to be flushed.
            let delayed = self.has_work() && !self.manual;
            let silent = !delayed && self.named.load() < durable && self.reserve.next() <= durable;
            if delayed || silent {
                let flight = queue.flight;
                self.keeper.store(if delayed { KEEPER_DELAYS } else { KEEPER_SILENT }, Ordering::Relaxed);
                // Pairs with the fence in `Flusher::poke`.
                fence(Ordering::SeqCst);
                if silent && self.has_work() {
                    self.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
                    continue;
                }
                let time = if delayed { self.delays.shortest(self.flush_delay()) } else { SILENCE };
                let timed_out = self.keeper_poked.wait_for(&mut queue, time).timed_out();
                self.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
                let purpose = if delayed { Purpose::Sync } else { Purpose::Heartbeat };
                let idle = delayed || queue.flight == flight;
                if timed_out
                    && idle
                    && !queue.stop
                    && let Some(right) = self.begin(&mut queue, purpose)
                {
                    drop(queue);
                    let _poisoned = self.fly(right);
                    queue = self.queue.lock();
                }
                continue;
            }
            self.keeper.store(KEEPER_SLEEPS, Ordering::Relaxed);
            // Pairs with the fence in `Flusher::poke`.
            fence(Ordering::SeqCst);
            let woken_early = self.has_work() && !self.manual;
            if !woken_early {
                self.keeper_poked.wait(&mut queue);
            }
            self.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
        }
    }

    /// Returns whether anything was reserved that is not durable.
    fn has_work(&self) -> bool {
        self.reserve.next() > self.durable.load()
    }

    /// Returns what the futures need, if they need a flight, and the lowest position that would help one.
    fn futures_need(&self, queue: &Queue) -> Option<(Purpose, Lsn)> {
        let lowest = |wakers: &Wakers| wakers.first_key_value().map(|((lsn, _), _)| *lsn);
        let durable = lowest(&queue.durable_wakers).map(|lsn| (Purpose::Sync, lsn));
        durable.or_else(|| lowest(&queue.written_wakers).map(|lsn| (Purpose::Write, lsn)))
    }

    /// Wakes the keeper if it has nothing to do, or also if it waits for its delay, after an append that nobody waits for.
    #[inline(never)]
    pub(crate) fn poke(&self, also_delayed: bool) {
        if self.manual && self.reserve.next().bytes_since(self.durable.load()) < self.flush_bytes() {
            return; // it would look and sleep again
        }
        fence(Ordering::SeqCst);
        let keeper = self.keeper.load(Ordering::Relaxed);
        let waits_for_work = keeper == KEEPER_SLEEPS || keeper == KEEPER_SILENT;
        if waits_for_work || (also_delayed && keeper == KEEPER_DELAYS) {
            self.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
            let _queue = self.queue.lock();
            self.keeper_poked.notify_one();
        }
    }
}
