//! Random mixes of real threads on a tiny ring, under every protocol, compared with the guarantees that the mutex
//! protocol gives by its mutex: positions without a gap or an overlap, every record whole and published once, marks
//! that only grow, and no acknowledged record that is not read back.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use collie_env::{Env, Random, SimFiles, SimRandom};

use crate::{Level, Log, Lsn, Mark, Options, Protocol, Writer, testing::tiny};

const THREADS: u8 = 8;

/// The start, the end and the body of one append; the body is `None` if `publish` panicked.
type Entry = (Lsn, Lsn, Option<Vec<u8>>);

fn options(protocol: Protocol, threads: bool) -> Options {
    // Fewer slots than threads, so that some threads share one; a ring that a few records fill.
    Options { protocol, slots: 5, segment_bytes: 80 << 10, max_segments: 1 << 20, threads, ..tiny() }
}

/// Runs one thread's share of a mix.
fn run(thread: u8, log: &Log, random: &SimRandom, appends: u64, published: &AtomicU64) -> Vec<Entry> {
    let mut writer: Writer = log.writer();
    let mut entries = Vec::new();
    let (mut boundary, mut durable) = (Lsn::ZERO, Lsn::ZERO);
    for _ in 0..appends {
        if random.below(40) == 0 {
            writer = log.writer();
        }
        let size = [0, 7, 300, 2_000, 4_096][usize::try_from(random.below(5)).unwrap()] + random.below(9);
        let mut body = vec![thread; usize::try_from(size.min(4_096)).unwrap()];
        random.fill(&mut body);
        let choice = random.below(30);
        let mut start = None;
        let publish = |at: Lsn| {
            start = Some(at);
            // Publications may come in any order; the test checks that each happens once.
            published.fetch_add(1, SeqCst);
            match choice {
                0 => panic!("in publish"),
                1..=3 => std::thread::yield_now(),
                _ => {}
            }
        };
        let appended = catch_unwind(AssertUnwindSafe(|| writer.append_with(thread, &body, publish)));
        match appended {
            Ok(appended) => {
                let appended = appended.unwrap();
                assert_eq!(start, Some(appended.start), "published at another position");
                match random.below(12) {
                    0 => log.wait(Mark::Durable, appended.end).unwrap(),
                    1 => log.wait(Mark::Written, appended.end).unwrap(),
                    2..=4 => {
                        log.wait(Mark::Boundary, appended.end).unwrap();
                        assert!(log.boundary() >= appended.end);
                    }
                    5 => drop(log.try_lead().map(|lead| lead.run().unwrap())),
                    6 => {
                        // One more record, through `commit` and acknowledged from memory.
                        let body = vec![thread; 33];
                        let more = writer.commit(thread, &body, Level::Memory).unwrap();
                        assert!(log.boundary() >= more.end);
                        published.fetch_add(1, SeqCst);
                        entries.push((more.start, more.end, Some(body)));
                    }
                    _ => {}
                }
                entries.push((appended.start, appended.end, Some(body)));
            }
            Err(_) => {
                let start = start.expect("only publish panics");
                let head = if body.len() < 128 { 2 } else { 3 };
                entries.push((start, start.plus(body.len() as u64 + head), None));
            }
        }
        let now = (log.boundary(), log.durable());
        assert!(now.0 >= boundary && now.1 >= durable, "a mark went back");
        (boundary, durable) = now;
        // Loaded in this order, since the marks move between the loads.
        let (durable, written, boundary, next) = (log.durable(), log.written(), log.boundary(), log.glsn());
        assert!(durable <= written && written <= boundary && boundary <= next, "L1");
    }
    entries
}

fn mix(protocol: Protocol, seed: u64, appends: u64, threads: bool) {
    let disk = SimFiles::new();
    let env = Env::over(disk.clone(), seed);
    let (log, _) = Log::open(&env, "/wal".as_ref(), options(protocol, threads)).unwrap();
    let (published, all) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, published, all) = (log.clone(), &published, &all);
            scope.spawn(move || {
                let random = SimRandom::new(seed << 8 | u64::from(thread));
                let entries = run(thread, &log, &random, appends, published);
                all.lock().unwrap().extend(entries);
            });
        }
    });
    let mut all = all.into_inner().unwrap();
    all.sort_unstable_by_key(|entry| entry.0);
    assert_eq!(all.len() as u64, published.into_inner(), "{protocol:?} seed {seed}: published once each");
    if protocol == Protocol::Mutex {
        // With this protocol a panic takes no position; the next record gets it.
        all.retain(|entry| entry.2.is_some());
    }
    let mut next = Lsn::FIRST;
    for (start, end, _) in &all {
        assert_eq!(*start, next, "{protocol:?} seed {seed}: a hole or an overlap");
        next = *end;
    }
    assert_eq!(log.glsn(), all.last().map_or(Lsn::FIRST, |entry| entry.1));
    log.flush_wal(true).unwrap();
    assert_eq!(log.boundary(), log.glsn(), "an idle log is complete");
    log.close().unwrap();
    drop(log);
    let (log, _) = Log::open(&Env::over(disk.power_cut(seed), 2), "/wal".as_ref(), options(protocol, false)).unwrap();
    let mut expected = all.iter().filter(|entry| entry.2.is_some());
    for record in log.read(Lsn::ZERO) {
        let record = record.unwrap();
        let (start, end, body) = expected.next().expect("a record that nobody appended");
        assert_eq!((record.lsn, record.end, Some(&record.body)), (*start, *end, body.as_ref()), "{protocol:?} {seed}");
    }
    assert!(expected.next().is_none(), "{protocol:?} seed {seed}: a record is lost");
}

/// Goal: however threads, boundary waiters, panics and a full ring mix, a log keeps the rules of the mutex protocol.
/// Method: 8 threads on 5 slots and a ring of 16 KiB, every protocol, several seeds, with and without the log's own
/// threads.
#[test]
fn random_mix_keeps_the_oracles_rules_under_every_protocol() {
    let seeds = std::env::var("COLLIE_WAL_MIXES").ok().and_then(|text| text.parse().ok()).unwrap_or(4);
    for seed in 0..seeds {
        for protocol in [Protocol::Mutex, Protocol::Base, Protocol::Help] {
            mix(protocol, seed, 250, seed % 2 == 0);
        }
    }
}
