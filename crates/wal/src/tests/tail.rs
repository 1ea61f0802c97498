//! Tails: every record once and in order, from memory and from files; waiting threads and futures; the end of the log.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use collie_env::{Env, SimFiles, SimRandom};

use crate::{LagPolicy, Level, Log, Lsn, Mark, Options, RecordKind, Tail, TailOptions, WalError, testing::tiny};

const DIR: &str = "/wal";

fn open(disk: &SimFiles, options: Options) -> Log {
    Log::open(&Env::over(disk.clone(), 1), DIR.as_ref(), options).unwrap().0
}

fn from_start(log: &Log) -> Tail {
    log.tail("feed", TailOptions::from(Lsn::ZERO)).unwrap()
}

/// Takes all records that are ready now.
fn drain(tail: &mut Tail) -> Vec<(Lsn, Vec<u8>)> {
    std::iter::from_fn(|| tail.try_next().unwrap()).map(|record| (record.lsn, record.body)).collect()
}

/// Goal: a tail yields exactly the durable records, in order, each once, wherever it finds them (C1, C2). Method:
/// seeded mixes of appends of all sizes, flushes and drains, under bounds from "nothing in memory" to "everything",
/// compared with the appended records.
#[test]
fn tail_yields_every_durable_record_once_from_memory_or_files() {
    for seed in 0..60 {
        let random = SimRandom::new(seed);
        let recent_bytes = [0, 5_000, 40_000, 1 << 20][usize::try_from(seed % 4).unwrap()];
        let log = open(&SimFiles::new(), Options { recent_bytes, ..tiny() });
        let (mut writer, mut tail) = (log.writer(), from_start(&log));
        let (mut appended, mut seen) = (Vec::new(), Vec::new());
        for number in 0..120_u32 {
            let size = [8, 300, 4_090, 9_000][usize::try_from(random.below(4)).unwrap()];
            let mut body = vec![0; size];
            body[..4].copy_from_slice(&number.to_le_bytes());
            let at = writer.append(0, &[&body]).unwrap();
            appended.push((at.start, at.end, body));
            match random.below(5) {
                0 => log.flush_wal(true).unwrap(),
                1 => log.flush_wal(false).unwrap(),
                2 => log.tick().unwrap(),
                3 => {
                    seen.extend(drain(&mut tail));
                    let durable = log.durable();
                    let expected = appended.iter().filter(|(_, end, _)| *end <= durable).count();
                    assert_eq!(seen.len(), expected, "seed {seed}: at {durable}");
                }
                _ => {}
            }
        }
        log.flush_wal(true).unwrap();
        seen.extend(drain(&mut tail));
        let appended: Vec<_> = appended.into_iter().map(|(start, _, body)| (start, body)).collect();
        assert_eq!(seen, appended, "seed {seed}");
    }
}

/// Goal: tails may come and go at any time, and each starts at the requested position, also inside an older incarnation
/// of the log. Method: three incarnations, the second ended without closing; a tail from each record on in the third,
/// then more records.
#[test]
fn tail_starts_anywhere_and_crosses_lives() {
    let disk = SimFiles::new();
    let mut expected = Vec::new();
    for life in 0..3_u8 {
        let log = open(&disk, tiny());
        let mut writer = log.writer();
        for number in 0..12_u8 {
            let body = vec![life * 16 + number; 2_500];
            expected.push((writer.commit(0, &body, Level::Disk).unwrap().start, body));
        }
        if life < 2 {
            if life == 0 {
                log.close().unwrap()
            } else {
                log.abandon()
            }
            continue;
        }
        let mut tails: Vec<Tail> = expected
            .iter()
            .map(|(start, _)| log.tail(&start.get().to_string(), TailOptions::from(*start)).unwrap())
            .collect();
        let now = log.tail("now", TailOptions::from(log.durable())).unwrap();
        expected.push((writer.commit(0, b"news", Level::Disk).unwrap().start, b"news".to_vec()));
        for (at, tail) in tails.iter_mut().chain([&mut { now }]).enumerate() {
            assert_eq!(drain(tail), expected[at..], "from record {at}");
        }
    }
}

/// Goal: a long record begun before the position and ended behind it is yielded (C3). Method: a tail from each position
/// around a long record whose pieces lie between short ones.
#[test]
fn long_record_that_was_begun_before_the_position_is_yielded() {
    let log = open(&SimFiles::new(), tiny());
    let (mut long, mut short) = (log.writer(), log.writer());
    let before = short.commit(0, b"before", Level::Disk).unwrap();
    let whole = long.append(1, &[&[9; 12_000]]).unwrap();
    log.flush_wal(true).unwrap();
    // Between the first piece and the last one: the record has the position of its last piece.
    for from in [before.start, before.end, before.end.plus(4_200), whole.start] {
        let mut tail = log.tail("feed", TailOptions::from(from)).unwrap();
        let last = drain(&mut tail).pop();
        assert_eq!(last, Some((whole.start, vec![9; 12_000])), "from {from}");
    }
    assert_eq!(drain(&mut log.tail("feed", TailOptions::from(whole.end)).unwrap()), []);
}

struct Flag(std::sync::Mutex<bool>);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        *self.0.lock().unwrap() = true;
    }
}

/// Goal: a future of the next record wakes when one becomes durable, loses nothing when dropped, and ends with the log.
/// Method: polled by hand.
#[test]
fn future_of_the_next_record_wakes_once_durable_and_may_be_dropped() {
    let log = open(&SimFiles::new(), tiny());
    let (mut writer, mut tail) = (log.writer(), from_start(&log));
    let flag = Arc::new(Flag(std::sync::Mutex::new(false)));
    let waker = Waker::from(flag.clone());
    let woken = || std::mem::take(&mut *flag.0.lock().unwrap());
    for number in 0..20_u8 {
        let mut next = Box::pin(tail.next_async());
        assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let end = writer.append(0, &[&[number]]).unwrap().end;
        assert!(!woken(), "not durable yet");
        log.wait(Mark::Durable, end).unwrap();
        assert!(woken());
        if number % 3 > 0 {
            let Poll::Ready(record) = next.as_mut().poll(&mut Context::from_waker(&waker)) else { panic!("ready") };
            assert_eq!(record.unwrap().body, [number]);
        }
        // Dropped unpolled in every third round: the record is still there.
        drop(next);
        if number % 3 == 0 {
            assert_eq!(tail.next().unwrap().body, [number]);
        }
    }
    let mut next = pin!(tail.next_async());
    assert!(next.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    log.close().unwrap();
    assert!(woken());
    let Poll::Ready(ended) = next.as_mut().poll(&mut Context::from_waker(&waker)) else { panic!("ready") };
    assert!(matches!(ended, Err(WalError::Closed)), "{ended:?}");
}

/// Goal: waiting tails on threads of their own keep up with writers, each yields everything, fast and slow ones alike,
/// and they end when the log does. Method: four writers, three tails with a small memory, one of which is slow.
#[test]
fn tails_on_threads_follow_writers_to_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { recent_bytes: 30_000, ..Options::small() };
    let (log, _) = Log::open(&Env::real(), dir.path(), options).unwrap();
    std::thread::scope(|scope| {
        let tails: Vec<_> = (0..3_u8)
            .map(|number| {
                let mut tail = log.tail(&format!("tail-{number}"), TailOptions::from(Lsn::ZERO)).unwrap();
                scope.spawn(move || {
                    let mut last = [0_u32; 4];
                    loop {
                        match tail.next() {
                            Ok(record) => {
                                let seen = &mut last[usize::from(record.tag)];
                                *seen += 1;
                                assert_eq!(record.body[..4], seen.to_le_bytes());
                                if number == 0 && *seen % 8 == 0 {
                                    std::thread::yield_now();
                                }
                            }
                            Err(WalError::Closed) => return last,
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        let writers: Vec<_> = (0..4_u8)
            .map(|tag| {
                let mut writer = log.writer();
                scope.spawn(move || {
                    for number in 1..=400_u32 {
                        let mut body = vec![tag; 200 + usize::try_from(number).unwrap() * 7];
                        body[..4].copy_from_slice(&number.to_le_bytes());
                        writer.commit(tag, &body, if number % 5 == 0 { Level::Disk } else { Level::Memory }).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        log.close().unwrap();
        for tail in tails {
            assert_eq!(tail.join().unwrap(), [400; 4]);
        }
    });
}

/// Goal: a tail yields a hole for a write without the log, in its place. Method: one between two records, from memory
/// and from files.
#[test]
fn write_without_the_log_is_declared_as_a_hole() {
    for recent_bytes in [0, 1 << 20] {
        let log = open(&SimFiles::new(), Options { recent_bytes, ..tiny() });
        let (mut writer, mut tail) = (log.writer(), from_start(&log));
        writer.commit(1, b"logged", Level::Disk).unwrap();
        assert_eq!(tail.next().unwrap().body, b"logged");
        let hole = writer.commit(2, b"", Level::None).unwrap();
        writer.commit(3, b"again", Level::Disk).unwrap();
        let declared = tail.next().unwrap();
        assert_eq!((declared.kind, declared.lsn, declared.tag), (RecordKind::Unlogged, hole.start, 2));
        assert_eq!(tail.next().unwrap().body, b"again");
    }
}

/// Goal: a tail whose records were freed gets `CursorLost`, when it starts and when it continues. Method: free behind a
/// tail that stands still, and request a position below the start.
#[test]
fn freed_records_are_reported_as_a_lost_cursor() {
    let log = open(&SimFiles::new(), Options { recent_bytes: 0, ..tiny() });
    let loose = |from| TailOptions::from(from).policy(LagPolicy::Files).bound_segments(1);
    let (mut writer, mut tail) = (log.writer(), log.tail("feed", loose(Lsn::ZERO)).unwrap());
    writer.commit(0, &[0; 1_500], Level::Disk).unwrap();
    assert_eq!(drain(&mut tail).len(), 1);
    for number in 1..60_u8 {
        writer.commit(0, &[number; 1_500], Level::Disk).unwrap();
    }
    let freed = log.truncate_before(log.durable()).unwrap();
    let lost = tail.try_next().unwrap_err();
    assert!(matches!(lost, WalError::CursorLost { oldest } if oldest == freed.start), "{lost}");
    let lost = log.tail("late", loose(Lsn::FIRST)).unwrap_err();
    assert!(matches!(lost, WalError::CursorLost { oldest } if oldest == freed.start), "{lost}");
    assert!(!drain(&mut log.tail("on-time", loose(freed.start)).unwrap()).is_empty());
}
