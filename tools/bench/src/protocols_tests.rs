//! Every protocol carries every record completely, without gap or overlap, and in the order of each thread.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    harness::{Harness, Sink},
    protocols::{Flags, InsertLocks, JoinedSlot, LinkBuffer, OneMutex, Protocol, RangeMap},
    record::split,
    subject::{Append, Subject},
};

const THREADS: usize = 4;
const RECORDS: u32 = 3_000;
/// Small, so that the positions lap it hundreds of times and every thread waits for room.
const RING_BYTES: u64 = 16 << 10;

/// Returns a body that names its thread and number, of a length between 8 and about 1,000 bytes, filled with a pattern.
fn body(thread: u32, number: u32) -> Vec<u8> {
    let len = 8 + (number.wrapping_mul(2_654_435_761).wrapping_add(thread) >> 22) as usize;
    let mut body = [thread.to_le_bytes(), number.to_le_bytes()].concat();
    let seed = (number ^ thread).to_le_bytes()[0];
    body.extend((8..len).map(|at| at.to_le_bytes()[0].wrapping_mul(31).wrapping_add(seed)));
    body
}

fn carries_every_record_once<P: Protocol>() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let harness = Harness::<P>::new(THREADS, RING_BYTES, RING_BYTES / 4, Sink::Keep(kept.clone()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let harness = &harness;
            scope.spawn(move || {
                let mut writer = harness.writer(thread);
                let thread = u32::try_from(thread).unwrap();
                for number in 0..RECORDS {
                    writer.append(&body(thread, number));
                    // From time to time a thread yields the processor between begin and finish.
                    if number % 97 == thread {
                        writer.append_with(&body(thread, u32::MAX), std::thread::yield_now);
                    }
                }
            });
        }
    });
    harness.drain();
    let stream = std::mem::take(&mut *kept.lock());
    let (mut rest, mut next) = (&stream[..], [0; THREADS]);
    while !rest.is_empty() {
        let (found, behind) = split(rest).expect("whole records, nothing between them");
        rest = behind;
        let word = |at: usize| u32::from_le_bytes(found[at..at + 4].try_into().unwrap());
        let (thread, number) = (word(0), word(4));
        assert_eq!(found, body(thread, number), "record {number} of thread {thread}");
        if number != u32::MAX {
            let next = &mut next[thread as usize];
            assert_eq!(number, *next, "thread {thread}'s records are in its order");
            *next += 1;
        }
    }
    assert_eq!(next, [RECORDS; THREADS], "every record came out");
}

/// Goal: K1 and K2 of one mutex. Method: 4 threads, a ring of 16 KiB lapped hundreds of times, every byte compared.
#[test]
fn mutex_carries_every_record_once() {
    carries_every_record_once::<OneMutex>();
}

/// Goal: K1 and K2 of PostgreSQL's protocol. Method: as for the mutex.
#[test]
fn insert_locks_carry_every_record_once() {
    carries_every_record_once::<InsertLocks>();
}

/// Goal: K1 and K2 of WiredTiger's protocol. Method: as for the mutex.
#[test]
fn joined_slots_carry_every_record_once() {
    carries_every_record_once::<JoinedSlot>();
}

/// Goal: K1 and K2 of MySQL 8's protocol. Method: as for the mutex.
#[test]
fn link_buffer_carries_every_record_once() {
    carries_every_record_once::<LinkBuffer>();
}

/// Goal: K1 and K2 of wal-db's protocol. Method: as for the mutex.
#[test]
fn range_map_carries_every_record_once() {
    carries_every_record_once::<RangeMap>();
}

/// Goal: K1 and K2 of the published Border-Collie. Method: as for the mutex.
#[test]
fn flags_carry_every_record_once() {
    carries_every_record_once::<Flags>();
}

/// A protocol whose boundary passes reserved positions, finished or not, so K2 is broken.
struct Hasty(std::sync::atomic::AtomicU64);

// SAFETY: none: the check must notice the broken contract. The test runs it with one appender that finishes before the
// sink reads, except for one turn whose bytes stay zero.
unsafe impl Protocol for Hasty {
    type Handle = ();
    type Turn<'a> = ();

    fn new(start: u64, _threads: usize, _ring_bytes: u64) -> Self {
        Self(std::sync::atomic::AtomicU64::new(start))
    }

    fn handle(&self, _thread: usize) {}

    fn begin(&self, _handle: &mut (), bytes: u64) -> (u64, ()) {
        (self.0.fetch_add(bytes, std::sync::atomic::Ordering::AcqRel), ())
    }

    fn finish(&self, _handle: &mut (), _turn: (), _start: u64, _end: u64) {}

    fn reserved(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Acquire)
    }

    fn boundary(&self) -> u64 {
        self.reserved()
    }
}

/// Goal: the check above can fail. Method: a boundary that passes an unfinished turn; the sink reads zeros in place of
/// its bytes.
#[test]
fn a_boundary_that_passes_an_open_turn_is_noticed() {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let harness = Harness::<Hasty>::new(1, RING_BYTES, 1, Sink::Keep(kept.clone()));
    // The hook runs between begin and the copy: the drain inside it takes bytes that are not written yet.
    harness.writer(0).append_with(&body(0, 0), || harness.drain());
    assert!(split(&kept.lock()).is_none(), "zeros are no record");
}
