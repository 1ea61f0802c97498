//! The keeper thread: flushes for futures, for data that nobody waits for, and after a silence.
//!
//! Not on the path of a thread that waits: that one leads itself. It never prepares files either, since that takes
//! long (the preparer does, `segments`).

use std::{
    sync::atomic::{Ordering, fence},
    time::Duration,
};

use crate::{
    Options,
    flush::{Flusher, KEEPER_BUSY, KEEPER_DELAYS, KEEPER_SLEEPS, Purpose},
    reserve::State,
};

/// After this silence an empty frame names what is durable, so that rot of the last full frame cannot look like an
/// unfinished flush.
const SILENCE: Duration = Duration::from_millis(100);

/// Runs until the queue says stop.
pub(crate) fn run(flusher: &Flusher, options: &Options) {
    let mut queue = flusher.queue.lock();
    while !queue.stop {
        if queue.state != State::Open {
            flusher.keeper_poked.wait(&mut queue);
            continue;
        }
        let (boundary, durable) = (flusher.reserve.advance(), flusher.durable.load());
        let pending = boundary.bytes_since(durable);
        let limit = if options.manual_wal_flush { options.ring_bytes / 2 } else { options.flush_bytes };
        let needed = flusher.futures_need(&queue);
        if let Some((_, lsn)) = needed.filter(|(_, lsn)| *lsn > boundary) {
            // A flight would not help them: a writer is still between its reservation and the end of its copy.
            drop(queue);
            let _there = flusher.reserve.wait_boundary(lsn, Some(options.flush_delay));
            queue = flusher.queue.lock();
            continue;
        }
        let needed = needed.map(|(purpose, _)| purpose);
        let due = needed.or((pending >= limit).then_some(Purpose::Sync));
        if let Some(right) = due.and_then(|purpose| flusher.begin(&mut queue, purpose)) {
            drop(queue);
            // A failure has poisoned the log, which is how everybody hears of it.
            let _poisoned = flusher.fly(right);
            queue = flusher.queue.lock();
            continue;
        }
        // Also what is still being copied will have to be flushed.
        let in_flight = flusher.reserve.next() > durable;
        let delayed = in_flight && !options.manual_wal_flush;
        let silent = !in_flight && flusher.named.load() < durable;
        if delayed || silent {
            let flight = queue.flight;
            flusher.keeper.store(KEEPER_DELAYS, Ordering::Relaxed);
            let time = if delayed { options.flush_delay } else { SILENCE };
            let timed_out = flusher.keeper_poked.wait_for(&mut queue, time).timed_out();
            flusher.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
            let purpose = if delayed { Purpose::Sync } else { Purpose::Heartbeat };
            let idle = delayed || queue.flight == flight;
            if timed_out
                && idle
                && !queue.stop
                && let Some(right) = flusher.begin(&mut queue, purpose)
            {
                drop(queue);
                let _poisoned = flusher.fly(right);
                queue = flusher.queue.lock();
            }
            continue;
        }
        flusher.keeper.store(KEEPER_SLEEPS, Ordering::Relaxed);
        // Pairs with the fence in `Flusher::poke`.
        fence(Ordering::SeqCst);
        let woken_early = flusher.reserve.next() > flusher.durable.load() && !options.manual_wal_flush;
        if !woken_early {
            flusher.keeper_poked.wait(&mut queue);
        }
        flusher.keeper.store(KEEPER_BUSY, Ordering::Relaxed);
    }
}
