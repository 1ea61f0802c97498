//! `Harness`: everything around a protocol that is the same for all of them: ring, room, copy, sink.
//!
//! An appender reserves its positions, waits for room, copies its record and finishes. One thread empties the ring as
//! the log's background flusher does: it takes the complete bytes when enough have gathered, or when an appender or a
//! drain waits; it copies them into a frame buffer, computes the checksum of the frame, and drops it (the null sink).
//!
//! # Ordering
//! | store | pairs with | carries |
//! |---|---|---|
//! | `sunk` Release, sink | `sunk` Acquire, appender | that the ring's bytes below may be written again |
//! | `waiting`, `stop` under `state` | the same | the waits; `asleep` only saves the mutex while the sink is awake |

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering, fence},
    },
    thread::JoinHandle,
    time::Duration,
};

use collie_base::checksum::crc32c;
use collie_sync::Padded;
use parking_lot::{Condvar, Mutex};

use crate::{
    protocols::Protocol,
    record::Head,
    ring::Ring,
    subject::{Append, Subject},
};

/// Position of the first record, as in a log.
const FIRST: u64 = 4096;
/// Most bytes that the sink takes at once: the log's frame size.
const FRAME_BYTES: u64 = 1 << 20;
/// How long the sink waits, if no thread wakes it, before it checks for bytes again.
const IDLE: Duration = Duration::from_millis(10);

/// The requests to the sink thread.
#[derive(Debug, Default)]
struct State {
    /// The number of appenders that wait for room, and of drains.
    waiting: usize,
    stop: bool,
}

/// The destination of drained bytes.
pub(crate) enum Sink {
    /// Framed, checksummed and dropped.
    Null,
    /// Also kept, for tests.
    #[cfg(test)]
    Keep(Arc<Mutex<Vec<u8>>>),
}

struct Shared<P> {
    protocol: P,
    ring: Ring,
    sunk: Padded<AtomicU64>,
    /// Whether the sink waits to be woken.
    asleep: Padded<AtomicBool>,
    state: Mutex<State>,
    moved: Condvar,
    poked: Condvar,
    /// The number of pending bytes from which on the sink is woken.
    flush_bytes: u64,
}

/// A protocol with its ring and its sink thread.
pub(crate) struct Harness<P: Protocol> {
    shared: Arc<Shared<P>>,
    thread: Option<JoinHandle<()>>,
}

impl<P: Protocol> Harness<P> {
    /// Starts `P` for `threads` appenders and a ring of `ring_bytes`; the sink is woken at `flush_bytes`.
    pub(crate) fn new(threads: usize, ring_bytes: u64, flush_bytes: u64, sink: Sink) -> Self {
        let shared = Arc::new(Shared {
            protocol: P::new(FIRST, threads, ring_bytes),
            ring: Ring::new(ring_bytes),
            sunk: Padded::new(AtomicU64::new(FIRST)),
            asleep: Padded::default(),
            state: Mutex::default(),
            moved: Condvar::new(),
            poked: Condvar::new(),
            flush_bytes,
        });
        let of_thread = shared.clone();
        let thread = std::thread::spawn(move || of_thread.run_sink(&sink));
        Self { shared, thread: Some(thread) }
    }
}

impl<P: Protocol> Drop for Harness<P> {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.poked.notify_one();
        if let Some(thread) = self.thread.take()
            && let Err(panic) = thread.join()
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl<P: Protocol> Shared<P> {
    fn sunk(&self) -> u64 {
        self.sunk.load(Ordering::Acquire)
    }

    /// Waits until the ring has room for positions below `end`.
    #[cold]
    fn wait_for_room(&self, end: u64) {
        let mut state = self.state.lock();
        state.waiting += 1;
        while self.sunk() + self.ring.len_bytes() < end {
            self.poked.notify_one();
            self.moved.wait(&mut state);
        }
        state.waiting -= 1;
    }

    /// Wakes the sink if it sleeps. The fence orders `finish` before the load of `asleep`; the sink stores `asleep`,
    /// fences, and then reads the reserved end.
    #[cold]
    fn poke(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            let _state = self.state.lock();
            self.poked.notify_one();
        }
    }

    /// Waits until there may be bytes to take; returns `false` if the sink must stop.
    fn sleep(&self) -> bool {
        let mut state = self.state.lock();
        while !state.stop {
            if state.waiting > 0 {
                drop(state);
                // Another thread is still copying, perhaps on this processor.
                std::thread::yield_now();
                return true;
            }
            self.asleep.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if self.protocol.reserved() - self.sunk() >= self.flush_bytes {
                self.asleep.store(false, Ordering::Relaxed);
                return true;
            }
            self.poked.wait_for(&mut state, IDLE);
            self.asleep.store(false, Ordering::Relaxed);
        }
        false
    }

    fn run_sink(&self, sink: &Sink) {
        let mut frame = Vec::new();
        let mut summed = 0;
        loop {
            let sunk = self.sunk.load(Ordering::Relaxed);
            let boundary = self.protocol.boundary();
            if boundary > sunk {
                let end = boundary.min(sunk + FRAME_BYTES);
                frame.clear();
                // SAFETY: ring R2: this is the only sink, and by K2 the bytes below the boundary are complete.
                unsafe { self.ring.read_into(sunk, end, &mut frame) };
                summed ^= crc32c(&frame);
                match sink {
                    Sink::Null => {}
                    #[cfg(test)]
                    Sink::Keep(kept) => kept.lock().extend_from_slice(&frame),
                }
                self.sunk.store(end, Ordering::Release);
                let state = self.state.lock();
                if state.waiting > 0 {
                    self.moved.notify_all();
                }
                if end < boundary {
                    continue;
                }
            }
            if !self.sleep() {
                break;
            }
        }
        std::hint::black_box(summed);
    }
}

/// One thread's access to a [`Harness`].
pub(crate) struct Appender<'a, P: Protocol> {
    shared: &'a Shared<P>,
    handle: P::Handle,
}

impl<P: Protocol> Append for Appender<'_, P> {
    fn append_with<F: FnOnce()>(&mut self, body: &[u8], hook: F) -> u64 {
        let shared = self.shared;
        let head = Head::new(body.len());
        let bytes = (head.as_slice().len() + body.len()) as u64;
        let (start, turn) = shared.protocol.begin(&mut self.handle, bytes);
        let end = start + bytes;
        if shared.sunk() + shared.ring.len_bytes() < end {
            shared.protocol.blocked(&turn, start);
            shared.wait_for_room(end);
        }
        hook();
        // SAFETY: ring R1: by K1 these positions belong to this thread alone, and there is room.
        unsafe { shared.ring.write_record(start, &head, body) };
        shared.protocol.finish(&mut self.handle, turn, start, end);
        if end.saturating_sub(shared.sunk()) >= shared.flush_bytes {
            shared.poke();
        }
        end
    }

    /// Polls, since none of these protocols notifies a waiter when the boundary moves.
    fn wait_boundary(&mut self, end: u64) {
        while self.shared.protocol.boundary() < end {
            std::thread::yield_now();
        }
    }
}

impl<P: Protocol> Subject for Harness<P> {
    type Writer<'a> = Appender<'a, P>;

    fn writer(&self, thread: usize) -> Appender<'_, P> {
        Appender { shared: &self.shared, handle: self.shared.protocol.handle(thread) }
    }

    fn drain(&self) {
        let end = self.shared.protocol.reserved();
        self.shared.wait_for_room(end + self.shared.ring.len_bytes());
    }
}
