//! Writers while flushes are behind: tokens by the clock, and real writers during a flush that is held up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Wake;
use std::thread;

use super::*;
use crate::{Db, Env, Insert, Isolation, Options, Session, StatementKind};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Goal: B1: below one and a half limits there is room, above that as much as there are tokens, and none from two
/// limits on; neither an hour without a tick nor a long burst changes that. Method: positions around each edge, a
/// clock that the test sets.
#[test]
fn room_ends_at_two_limits_and_comes_in_tokens_from_one_and_a_half() {
    let room = LogRoom::new(true, Warnings::default());
    assert!(room.has_room(Lsn::new(1 << 60)), "nobody told a limit");
    let at = Lsn::new;
    room.tell(at(10_000), 64_000, at(10_000), ms(0));
    assert!(room.has_room(at(105_999)) && !room.has_room(at(106_000)));
    // 32,000 are left, so the rate is 32,000 a second: 320 in 10 ms.
    assert!(!room.tick(at(106_000), ms(10)), "nobody waits");
    assert!(room.has_room(at(106_319)) && !room.has_room(at(106_320)));
    // 2,048 in 64 ms, which is all that an hour gives.
    room.tick(at(106_000), ms(3_600_000));
    assert!(room.has_room(at(108_047)) && !room.has_room(at(108_048)));
    // After a burst: 1,000 are left, the lowest rate is 4,000 a second, and at most 256 tokens are owed.
    room.tick(at(137_000), ms(3_600_001));
    assert!(!room.has_room(at(137_000)));
    room.tick(at(137_000), ms(3_600_061));
    assert!(!room.has_room(at(137_000)));
    room.tick(at(137_000), ms(3_600_071));
    assert!(room.has_room(at(137_000)));
    for tick in 0..1000 {
        room.tick(at(138_000), ms(3_700_000 + tick * 100));
        assert!(!room.has_room(at(138_000)));
    }
    assert!(matches!(room.refuse(at(138_000), ms(3_900_000), None), Err(EngineError::Busy { .. })));
    room.tell(at(80_000), 64_000, at(138_000), ms(3_900_000));
    assert!(room.has_room(at(138_000)) && room.refuse(at(138_000), ms(3_900_000), None).is_ok());
    assert_eq!(room.stat(at(138_000)).refused, 1);
    room.close(at(900_000), ms(3_900_000));
    assert!(room.has_room(at(900_000)), "B4");
    let unflushed = LogRoom::new(false, Warnings::default());
    unflushed.tell(at(0), 1, at(100), ms(0));
    assert!(unflushed.has_room(at(100)), "B4");
}

/// Goal: B2: a waiter is woken once there is room, not before, and only once; a wait is counted under its reason
/// and family. Method: wakers that count.
#[test]
fn who_waits_is_woken_by_room_and_counted() {
    struct Count(AtomicU64);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (said, cf) = (Arc::new(Mutex::new(Vec::new())), CfId::new(7));
    let heard = Arc::clone(&said);
    let room = LogRoom::new(true, Warnings::to(move |line| heard.lock().push(line.to_owned())));
    let at = Lsn::new;
    room.tell(at(0), 1000, at(0), ms(0));
    let count = Arc::new(Count(AtomicU64::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let woken = || count.0.load(Ordering::Relaxed);
    assert_eq!(room.poll(3, at(1499), ms(1), Some(cf), &waker), Poll::Ready(()));
    assert_eq!(room.stat(at(1499)), StallStat::default(), "no wait");
    assert_eq!(room.poll(3, at(2000), ms(10), Some(cf), &waker), Poll::Pending);
    assert_eq!(room.poll(4, at(2000), ms(20), Some(cf), &waker), Poll::Pending);
    assert!(room.tick(at(2000), ms(500)));
    let stat = room.stat(at(2000));
    assert_eq!((woken(), stat.waiting, stat.is_stopped), (0, 2, true));
    assert!(stat.cause.as_ref().is_some_and(|cause| cause.ends_with("of column family 7 most")), "{stat:?}");
    room.note_trouble(Some("flushes of column family 7 fail: no space".to_owned()));
    let stat = room.stat(at(2000));
    assert!(stat.cause.is_some_and(|cause| cause.ends_with("7 most; flushes of column family 7 fail: no space")));
    room.note_trouble(None);
    assert!(said.lock().pop().unwrap().contains("column family 7"), "the operator hears of it");
    room.tell(at(1500), 1000, at(2000), ms(1000));
    assert_eq!(woken(), 2);
    room.tick(at(2000), ms(1001));
    assert_eq!(woken(), 2, "nobody is woken twice");
    assert_eq!(room.poll(3, at(2000), ms(1010), Some(cf), &waker), Poll::Ready(()));
    room.leave(4, ms(1020));
    room.leave(4, ms(2000));
    let waits = Stalls { count: 2, time: ms(2000) };
    let by_family = BTreeMap::from([(cf, waits)]);
    assert_eq!(room.stat(at(2000)), StallStat { stopped: waits, by_family, ..StallStat::default() });
    assert_eq!(said.lock().len(), 1, "and of its end");
}

fn begin(session: &mut Session) {
    session.begin(Isolation::ReadCommitted, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
}

/// Options with the smallest possible log files; families are flushed in the background.
fn tiny() -> Options {
    let mut options = Options { max_total_wal_size: 1, ..Options::small() };
    let log = &mut options.log;
    (log.chunk_bytes, log.ring_bytes, log.slots) = (4 << 10, 16 << 10, 8);
    (log.segment_bytes, log.frame_bytes, log.flush_bytes) = (96 << 10, 8 << 10, 8 << 10);
    options
}

/// Lets writers end, even when an assertion fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Waits for a condition that other threads bring about.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Env::real().clock;
    let deadline_ns = clock.now_ns() + 120_000_000_000;
    while !holds() {
        assert!(clock.now_ns() < deadline_ns, "{what}");
        thread::yield_now();
    }
}

/// Goal: S11: while a flush is held up the log stays within two limits and a file, new writes wait, reads and begun
/// commits continue, and every writer continues once the flush does. Method: writers against a lock that flushes
/// need; each way out of a wait.
#[test]
fn writers_stop_at_two_limits_while_a_flush_is_held_up_and_go_on_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = tiny();
    let segment = options.log.segment_bytes;
    let (db, _) = Db::open(dir.path(), options, Env::real(), &mut |_| ()).unwrap();
    let limit = db.log_bytes_max();
    assert_eq!(limit, 2 * segment);
    let f = db.family(db.create_family());
    let mut early = db.session().unwrap();
    begin(&mut early);
    assert_eq!(early.insert(&f, b"early", b"").unwrap(), Insert::Done);
    let base = db.shared.base().unwrap();
    let held = base.hold_up();
    let (stop, written) = (AtomicBool::new(false), AtomicU64::new(0));
    let write = |number: u64| -> Result<(), EngineError> {
        let mut session = db.session()?;
        if let Some(wait) = session.wait_for_room()? {
            wait.block()?;
        }
        begin(&mut session);
        let key = number.to_be_bytes();
        assert_eq!(session.insert(&f, &key, &[1; 3000])?, Insert::Done);
        session.commit(true)?.block()?;
        written.fetch_add(1, Ordering::Relaxed);
        Ok(())
    };
    thread::scope(|scope| {
        let (write, held) = (&write, held);
        let stop = StopAtEnd(&stop);
        for writer in 0..2_u64 {
            let stop = stop.0;
            scope.spawn(move || {
                let mut numbers = writer << 32..;
                while !stop.load(Ordering::Relaxed) {
                    write(numbers.next().unwrap()).unwrap();
                }
            });
        }
        let kept = || db.durable().bytes_since(db.flush_stat().log_start);
        until("writers stop", || kept() >= 2 * limit && db.stall_stat().waiting == 2);
        let before = written.load(Ordering::Relaxed);

        let mut session = db.session().unwrap();
        session.begin(Isolation::ReadCommitted, true).unwrap();
        session.begin_statement(StatementKind::ReadOnly).unwrap();
        assert!(session.get(&f, &0_u64.to_be_bytes()).unwrap().is_some(), "reads go on");
        session.rollback();
        session.set_no_slowdown(true);
        let refused = session.wait_for_room().unwrap_err();
        assert!(matches!(&refused, EngineError::Busy { why } if why.contains("flushes are behind")), "{refused}");
        session.set_no_slowdown(false);
        let wait = session.wait_for_room().unwrap().unwrap();
        session.cancel_handle().cancel();
        assert!(matches!(wait.block(), Err(EngineError::Cancelled)));
        early.commit(true).unwrap().block().unwrap();
        assert!(kept() <= 2 * limit + segment, "{} bytes are kept, the limit is {limit}", kept());
        assert_eq!(written.load(Ordering::Relaxed), before, "nobody wrote meanwhile");

        drop(held);
        until("writers go on", || written.load(Ordering::Relaxed) > before + 20);
    });
    let stat = db.stall_stat();
    assert!(stat.stopped.count >= 2, "{stat:?}");
    assert_eq!((stat.waiting, stat.refused), (0, 1));
    assert!(stat.by_family.contains_key(&f.id()), "{stat:?}");

    // Closing ends a wait as well.
    let held = base.hold_up();
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut numbers = 1 << 40..;
            loop {
                if let Err(error) = write(numbers.next().unwrap()) {
                    return error;
                }
            }
        });
        until("the writer stops", || db.stall_stat().waiting == 1);
        let closing = scope.spawn(|| db.close());
        assert!(matches!(writer.join().unwrap(), EngineError::Closed));
        drop(held);
        closing.join().unwrap().unwrap();
    });
}
