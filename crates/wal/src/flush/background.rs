//! The background flusher: a thread that flushes for futures, for records that no caller waits for, and after a
//! silence.
//!
//! It is not on the path of a thread that waits: that thread leads itself. It never prepares files either, because that
//! takes long (the preparer does, `segments`).
//!
//! # Ordering
//! Between an append and a background flusher that begins to sleep, or to wait for a silence, each side stores, fences
//! and loads, so that one of the two sees the other:
//!
//! | side | stores | fence | loads |
//! |---|---|---|---|
//! | append (`poke`) | its reservation | SeqCst | `background` |
//! | background flusher | `background` = sleeps, silent | SeqCst | the next free position |
//!
//! Apart from that the loads and stores of `background` are Relaxed: it guards no data, the mutex does.

use std::{
    sync::atomic::{Ordering, fence},
    time::Duration,
};

use collie_base::Lsn;

use super::{
    Flusher,
    queue::{Purpose, Queue, Wakers},
};
use crate::append::State;

/// The background flusher runs, or will look again soon.
pub(super) const FLUSHER_BUSY: u8 = 0;
/// It waits for `wal.flush_delay` to pass, or for the shorter delay of a `FlushDelayOverride`.
const FLUSHER_DELAYS: u8 = 1;
/// It sleeps until it is notified.
pub(crate) const FLUSHER_SLEEPS: u8 = 2;
/// It waits for a silence to end. An append that no caller waits for starts its delay at once, not after the silence.
pub(crate) const FLUSHER_SILENT: u8 = 3;

/// After this silence an empty frame names the durable position, so that rot of the last full frame cannot look like an
/// unfinished flush.
const SILENCE: Duration = Duration::from_millis(100);

impl Flusher {
    /// Runs the background flusher until `stop` is set in the queue.
    pub(crate) fn run_background(&self) {
        let mut queue = self.queue.lock();
        while !queue.stop {
            if queue.state != State::Open {
                self.background_poked.wait(&mut queue);
                continue;
            }
            let (boundary, durable) = (self.reserve.advance(), self.durable.load());
            let pending = boundary.bytes_since(durable);
            let needed = self.futures_need(&queue);
            if let Some((_, lsn)) = needed.filter(|(_, lsn)| *lsn > boundary) {
                // A flush would not help them: a writer is still between its reservation and the end of its copy.
                drop(queue);
                let _there = self.reserve.wait_boundary(lsn, Some(self.flush_delay()));
                queue = self.queue.lock();
                continue;
            }
            let needed = needed.map(|(purpose, _)| purpose);
            let due = needed.or((pending >= self.flush_bytes()).then_some(Purpose::Sync));
            if let Some(permit) = due.and_then(|purpose| self.begin(&mut queue, purpose)) {
                drop(queue);
                // A failure has poisoned the log, and every waiter gets that error.
                let _poisoned = self.flush(permit);
                queue = self.queue.lock();
                continue;
            }
            // Records that are still being copied must be flushed too.
            let delayed = self.has_work() && !self.manual;
            let silent = !delayed && self.named.load() < durable && self.reserve.next() <= durable;
            if delayed || silent {
                let last = queue.flush;
                self.background.store(if delayed { FLUSHER_DELAYS } else { FLUSHER_SILENT }, Ordering::Relaxed);
                // Pairs with the fence in `Flusher::poke`.
                fence(Ordering::SeqCst);
                if silent && self.has_work() {
                    self.background.store(FLUSHER_BUSY, Ordering::Relaxed);
                    continue;
                }
                let time = if delayed { self.delays.shortest(self.flush_delay()) } else { SILENCE };
                let timed_out = self.background_poked.wait_for(&mut queue, time).timed_out();
                self.background.store(FLUSHER_BUSY, Ordering::Relaxed);
                let purpose = if delayed { Purpose::Sync } else { Purpose::Heartbeat };
                let idle = delayed || queue.flush == last;
                if timed_out
                    && idle
                    && !queue.stop
                    && let Some(permit) = self.begin(&mut queue, purpose)
                {
                    drop(queue);
                    let _poisoned = self.flush(permit);
                    queue = self.queue.lock();
                }
                continue;
            }
            self.background.store(FLUSHER_SLEEPS, Ordering::Relaxed);
            // Pairs with the fence in `Flusher::poke`.
            fence(Ordering::SeqCst);
            let woken_early = self.has_work() && !self.manual;
            if !woken_early {
                self.background_poked.wait(&mut queue);
            }
            self.background.store(FLUSHER_BUSY, Ordering::Relaxed);
        }
    }

    /// Returns whether there are reserved positions that are not durable.
    fn has_work(&self) -> bool {
        self.reserve.next() > self.durable.load()
    }

    /// Returns the flush that the futures need, if they need one, and the lowest position that would help one of them.
    fn futures_need(&self, queue: &Queue) -> Option<(Purpose, Lsn)> {
        let lowest = |wakers: &Wakers| wakers.first_key_value().map(|((lsn, _), _)| *lsn);
        let durable = lowest(&queue.durable_wakers).map(|lsn| (Purpose::Sync, lsn));
        durable.or_else(|| lowest(&queue.written_wakers).map(|lsn| (Purpose::Write, lsn)))
    }

    /// Wakes the background flusher if it waits for work, and with `also_delayed` also if it waits for its delay.
    /// Called after an append that no caller waits for.
    #[inline(never)]
    pub(crate) fn poke(&self, also_delayed: bool) {
        if self.manual && self.reserve.next().bytes_since(self.durable.load()) < self.flush_bytes() {
            return; // it would look and sleep again
        }
        fence(Ordering::SeqCst);
        let background = self.background.load(Ordering::Relaxed);
        let waits_for_work = background == FLUSHER_SLEEPS || background == FLUSHER_SILENT;
        if waits_for_work || (also_delayed && background == FLUSHER_DELAYS) {
            self.background.store(FLUSHER_BUSY, Ordering::Relaxed);
            let _queue = self.queue.lock();
            self.background_poked.notify_one();
        }
    }
}
