//! The work of the lanes: its count, their queues, and the end of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use collie_base::{Lsn, Map};

use super::log::{Change, Log, rows_at};
use super::world::{Way, follow, settle, take};
use crate::EngineError;
use crate::follow::ApplyStat;

/// Goal: the work and cost of applying are counted: commits once each, whatever they wrote, and a worker's time once
/// per batch. Method: forty commits of two writes to one worker, whose clock moves by a microsecond whenever it is
/// read.
#[test]
fn commits_and_the_time_of_workers_are_counted() {
    let mut log = Log::new();
    for number in 0..40_u64 {
        let changes: Vec<Change> = [1, 2].map(|cf| Change::put(cf, &number.to_be_bytes(), b"v")).into();
        log.commit(&[number + 2, 0, 0], &changes, changes.clone());
    }
    let (world, mut live) = follow(&log, &Way::plain(1), Map::default());
    assert_eq!(world.applying.stat(), ApplyStat { workers: 1, ..ApplyStat::default() });
    log.records.iter().for_each(|made| take(&mut live, made).unwrap());
    live.drain().unwrap();
    settle(&world, &live);
    let stat = world.applying.stat();
    assert_eq!((stat.commits, stat.busy), (40, Duration::from_micros(40)), "each was a batch of its own");
}

/// Goal: L2: replay stops taking records when its queues are full, and continues when there is room; waiting bytes are
/// counted. Method: workers that wait at a gate, a thread that gives more than fits.
#[test]
fn full_queues_stop_the_dispatcher_until_there_is_room() {
    let mut log = Log::new();
    for number in 0..200_u64 {
        let changes = vec![Change::put(1, &number.to_be_bytes(), &[7; 1000])];
        log.commit(&[number + 2, 0, 0], &changes, changes.clone());
    }
    let way = Way { queue_bytes: 20_000, ..Way::plain(2) };
    let (world, mut live) = follow(&log, &way, Map::default());
    *world.gate.lock() = false;
    let taken = Arc::new(AtomicUsize::new(0));
    let (records, count) = (log.records.clone(), Arc::clone(&taken));
    let feeder = std::thread::spawn(move || {
        for made in &records {
            live.take(made.as_record()).unwrap();
            count.fetch_add(1, SeqCst);
            // The dispatcher itself must not wait for the gate.
            live.hand_over_all();
        }
        live
    });
    // Each lane: 10,000 bytes of waiting one-write batches, the batch being applied, and one more that is handed over.
    while world.applying.queued_bytes() < 10_000 {
        std::thread::yield_now();
    }
    for _ in 0..1000 {
        std::thread::yield_now();
        let queued = world.applying.queued_bytes();
        assert!(queued <= 2 * (10_000 + 1_200), "{queued} bytes wait");
        assert!(taken.load(SeqCst) <= 24, "records are taken though there is no room");
    }
    *world.gate.lock() = true;
    world.opened.notify_all();
    let mut live = feeder.join().unwrap();
    live.drain().unwrap();
    settle(&world, &live);
    assert_eq!(taken.load(SeqCst), 200);
    assert_eq!(rows_at(&world.families, Lsn::MAX), log.rows_at(Lsn::MAX));
}

/// Goal: L3: when a worker ends early, waiting threads are woken, and nothing more is taken. Method: a worker that
/// panics at a row with a superseded version; records after it, and a drain.
#[test]
fn worker_that_ends_stops_replay_and_nobody_waits_for_it() {
    let mut log = Log::new();
    for number in 0..50_u64 {
        let changes = vec![Change::put(1, b"one key", &[7; 1000])];
        log.commit(&[number + 2, 0, 0], &changes, changes.clone());
    }
    let way = Way { queue_bytes: 3_000, ..Way::plain(1) };
    let (world, mut live) = follow(&log, &way, Map::default());
    world.panics.store(true, SeqCst);
    let fed = log.records.iter().try_for_each(|made| take(&mut live, made));
    let outcome = fed.and_then(|()| live.drain());
    assert!(matches!(outcome, Err(EngineError::ReplayStopped)), "{outcome:?}");
    assert!(matches!(take(&mut live, &log.records[49]), Err(EngineError::ReplayStopped)), "D5");
    assert!(world.applying.applied() < Lsn::new(log.end));
    while !world.is_stopped.load(SeqCst) {
        std::thread::yield_now(); // waiters for the watermark are woken last
    }
}
