//! Loom models of the watermark, on the product's words and batches: a dispatcher, two workers, a reader.
//!
//! Commits are at 10, 20 and 30, and their records end at 20, 30 and 40: the first writes a row of each lane, the
//! second one more of lane 0. Rows are words that are read Relaxed, so their order must come from the watermark. A
//! queue has one word per batch; the lock of the product's queue only adds order.

use std::sync::Arc;

use collie_base::Lsn;
use collie_sync::atomic::{AtomicU64, Ordering::Relaxed};
use collie_sync::model::{bounds, check, check_variant};
use collie_sync::{mutant, thread};

use super::{Dispatched, Watermark, Worked};

/// The batches and the rows of one lane.
struct Lane {
    queue: [AtomicU64; 2],
    rows: [AtomicU64; 2],
}

struct World {
    watermark: Watermark,
    lanes: [Lane; 2],
}

impl World {
    fn new() -> (Arc<Self>, Dispatched, Vec<Worked>) {
        let (watermark, dispatched, workers) = Watermark::new(Lsn::new(10), 2);
        let two = || [AtomicU64::new(0), AtomicU64::new(0)];
        let lane = || Lane { queue: two(), rows: two() };
        (Arc::new(Self { watermark, lanes: [lane(), lane()] }), dispatched, workers)
    }

    fn hand(&self, dispatched: &mut Dispatched, lane: usize, number: usize, csn: u64) {
        let push = || self.lanes[lane].queue[number].store(csn, Relaxed);
        self.watermark.hand(dispatched, lane, push);
    }

    /// Applies the batches of the lane that have arrived.
    fn work(&self, mut worked: Worked, batches: usize) {
        let (lane, watermark) = (&self.lanes[worked.lane], &self.watermark);
        for number in 0..batches {
            let csn = lane.queue[number].load(Relaxed);
            if csn == 0 {
                return;
            }
            let next = lane.queue.get(number + 1).filter(|_| mutant!("AT_BEFORE_THE_WRITE_BEFORE"));
            match next.map(|next| next.load(Relaxed)).filter(|next| *next > 0) {
                Some(next) => watermark.begin(&mut worked, Lsn::new(next)),
                None if mutant!("AT_AFTER_THE_WRITE") => {}
                None => watermark.begin(&mut worked, Lsn::new(csn)),
            }
            if mutant!("DONE_BEFORE_THE_WRITE") {
                watermark.finish(&mut worked);
            }
            lane.rows[number].store(csn, Relaxed);
            if mutant!("AT_AFTER_THE_WRITE") {
                watermark.begin(&mut worked, Lsn::new(csn));
            }
            if !mutant!("DONE_BEFORE_THE_WRITE") {
                watermark.finish(&mut worked);
            }
        }
    }

    /// Checks the rows that a snapshot shows.
    fn read(&self, snapshot: Lsn) {
        let is_seen = |csn: u64| match mutant!("SEEN_AT_THE_SNAPSHOT") {
            true => csn <= snapshot.get(),
            false => csn < snapshot.get(),
        };
        let row = |lane: usize, number: usize| self.lanes[lane].rows[number].load(Relaxed);
        if is_seen(10) {
            assert_eq!((row(0, 0), row(1, 0)), (10, 10), "R4: half a commit is shown");
        }
        if is_seen(20) {
            assert_eq!(row(0, 1), 20, "R4: a commit is shown without its write");
        }
    }
}

/// The reader computes the watermark itself.
fn look() {
    let (world, mut dispatched, workers) = World::new();
    let mut threads = Vec::new();
    for (worked, batches) in workers.into_iter().zip([2, 1]) {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || world.work(worked, batches)));
    }
    let reader = Arc::clone(&world);
    threads.push(thread::spawn(move || {
        let snapshot = reader.watermark.publish();
        reader.read(snapshot);
        assert!(reader.watermark.applied() >= snapshot, "W3: it falls");
    }));
    world.hand(&mut dispatched, 0, 0, 10);
    if mutant!("DISPATCHED_BEFORE_THE_LAST") {
        world.watermark.dispatch(Lsn::new(20));
        world.hand(&mut dispatched, 1, 0, 10);
    } else {
        world.hand(&mut dispatched, 1, 0, 10);
        world.watermark.dispatch(Lsn::new(20));
    }
    world.hand(&mut dispatched, 0, 1, 20);
    world.watermark.dispatch(Lsn::new(30));
    threads.into_iter().for_each(|thread| thread.join().expect("it ran"));
}

/// Goal: W1 to W3, R4, R6: a reader that takes the watermark as its snapshot finds every write of every commit below
/// it. Method: a dispatcher, two workers and a reader in every order; the mistakes of `docs/design/replication.md`,
/// each of which must be caught, and `at` stored late, which only lowers the bound and must pass.
#[test]
fn loom_watermark_shows_whole_commits_only() {
    let (preemptions, floor) = bounds((2, 10_000), (3, 100_000));
    let half = "half a commit is shown";
    let any = "R4";
    check(
        "watermark",
        look,
        preemptions,
        floor,
        &[
            ("LANES_NOT_WAITED_FOR", 2, any),
            ("LANES_BEFORE_DISPATCHED", 2, any),
            ("DISPATCHED_BEFORE_THE_LAST", 2, half),
            ("DISPATCHED_STORE", 2, any),
            ("DISPATCHED_LOAD", 2, any),
            ("DONE_BEFORE_THE_WRITE", 2, any),
            ("DONE_STORE", 2, any),
            ("DONE_LOAD", 2, any),
            ("AT_BEFORE_THE_WRITE_BEFORE", 2, any),
            ("AT_STORE", 2, any),
            ("AT_LOAD", 2, any),
            ("SEEN_AT_THE_SNAPSHOT", 2, any),
        ],
    );
    check_variant("watermark", "AT_AFTER_THE_WRITE", look, preemptions, floor / 2);
}

/// Workers publish; the reader only loads what they have published.
fn publish() {
    let (world, mut dispatched, workers) = World::new();
    let mut threads = Vec::new();
    for worked in workers {
        let world = Arc::clone(&world);
        threads.push(thread::spawn(move || {
            world.work(worked, 1);
            world.watermark.publish();
        }));
    }
    world.hand(&mut dispatched, 0, 0, 10);
    world.hand(&mut dispatched, 1, 0, 10);
    world.watermark.dispatch(Lsn::new(20));
    world.watermark.publish();
    world.read(world.watermark.applied());
    threads.into_iter().for_each(|thread| thread.join().expect("it ran"));
    // A worker that ran before its batch arrived has ended without it.
    if [0, 1].iter().all(|lane| world.lanes[*lane].rows[0].load(Relaxed) == 10) {
        assert_eq!(world.watermark.applied(), Lsn::new(20), "W4: nobody published the end");
    }
}

/// Goal: W3, W4: the published watermark carries the writes, and the last publisher covers all stores. Method: a
/// dispatcher and two workers, each of which publishes after its own store.
#[test]
fn loom_watermark_published_by_the_last_carries_the_writes() {
    let (preemptions, floor) = bounds((2, 1_000), (3, 10_000));
    check(
        "published watermark",
        publish,
        preemptions,
        floor,
        &[
            ("PUBLISHED_WITHOUT_FENCE", 2, "nobody published the end"),
            ("APPLIED_LOAD", 2, "R4"),
            ("APPLIED_MAX", 2, "R4"),
        ],
    );
}
