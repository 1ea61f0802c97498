//! Asynchronous commits: thousands pending from one thread, completed in the order of their positions.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use collie_env::{Env, SimFiles};
use parking_lot::Mutex;

use crate::{
    Log, Lsn, Mark, Options, Reached, TailOptions, WalError,
    testing::{asks_when_dropped, tiny},
};

/// Records its number when it is woken.
struct Noted {
    number: usize,
    order: Arc<Mutex<Vec<usize>>>,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.order.lock().push(self.number);
    }
}

/// Returns settings without threads under which many small records gather and are flushed in several frames.
fn roomy() -> Options {
    Options { ring_bytes: 1 << 20, segment_bytes: 4 << 20, frame_bytes: 32 << 10, flush_bytes: 512 << 10, ..tiny() }
}

fn poll(future: &mut Pin<Box<Reached>>, waker: &Waker) -> Poll<Result<(), WalError>> {
    future.as_mut().poll(&mut Context::from_waker(waker))
}

/// Goal: one thread has 10,000 commits pending; each future is woken once, in the order of positions for each mark, and
/// is ready then; dropping one removes that waiter and nothing else. Method: futures of two marks over 10,000 records,
/// every seventh dropped, then flushes by hand.
#[test]
fn ten_thousand_commits_in_flight_from_one_thread_complete_in_order() {
    let (log, _) = Log::open(&Env::over(SimFiles::new(), 1), "/wal".as_ref(), roomy()).unwrap();
    let (mut writer, order) = (log.writer(), Arc::new(Mutex::new(Vec::new())));
    let mark_of = |number: usize| if number.is_multiple_of(3) { Mark::Written } else { Mark::Durable };
    let mut ends: Vec<Lsn> = Vec::new();
    let mut futures: Vec<Option<Pin<Box<Reached>>>> = Vec::new();
    for number in 0..10_000_usize {
        let end = writer.append(0, &[&number.to_le_bytes()]).unwrap().end;
        let mut future = Box::pin(log.reached(mark_of(number), end));
        let waker = Waker::from(Arc::new(Noted { number, order: order.clone() }));
        assert!(poll(&mut future, &waker).is_pending());
        ends.push(end);
        futures.push(Some(future));
    }
    for dropped in futures.iter_mut().step_by(7) {
        *dropped = None;
    }
    assert_eq!(order.lock().len(), 0, "nothing was flushed yet");
    let mut flushes = 0;
    while let Some(lead) = log.try_lead() {
        lead.run().unwrap();
        flushes += 1;
        let (written, durable) = (log.written(), log.durable());
        let reached =
            |number: &usize| ends[*number] <= if mark_of(*number) == Mark::Written { written } else { durable };
        let covered = (0..10_000).filter(|number| number % 7 > 0 && reached(number)).count();
        assert_eq!(order.lock().len(), covered, "after flush {flushes}");
    }
    assert!(flushes > 3, "{flushes}");
    let order = std::mem::take(&mut *order.lock());
    for mark in [Mark::Written, Mark::Durable] {
        let woken: Vec<usize> = order.iter().copied().filter(|number| mark_of(*number) == mark).collect();
        let expected = (0..10_000).filter(|number| number % 7 > 0 && mark_of(*number) == mark);
        assert!(expected.eq(woken), "{mark:?} is out of order");
    }
    for future in futures.iter_mut().flatten() {
        assert!(matches!(poll(future, Waker::noop()), Poll::Ready(Ok(()))));
    }
}

/// Goal: every future gets an error when the log ends, and none before. Method: abandon the log without a flush, as
/// when the process dies.
#[test]
fn futures_hear_of_the_end_of_the_log() {
    let (log, _) = Log::open(&Env::over(SimFiles::new(), 1), "/wal".as_ref(), roomy()).unwrap();
    let (mut writer, order) = (log.writer(), Arc::new(Mutex::new(Vec::new())));
    let mut futures: Vec<_> = (0..1_000_usize)
        .map(|number| {
            let end = writer.append(0, &[b"x"]).unwrap().end;
            let mut future = Box::pin(log.reached(Mark::Durable, end));
            let waker = Waker::from(Arc::new(Noted { number, order: order.clone() }));
            assert!(poll(&mut future, &waker).is_pending());
            future
        })
        .collect();
    log.abandon();
    assert!(order.lock().iter().copied().eq(0..1_000));
    for future in &mut futures {
        assert!(matches!(poll(future, Waker::noop()), Poll::Ready(Err(WalError::Closed))));
    }
}

/// Goal: a waker may run any code when it is dropped: that of an executor may own the last handle of a task that uses
/// the log. Method: the next poll replaces the waker of a future, and dropping the future drops the other; a waker that
/// is dropped lets another thread use the log and notes whether that succeeded.
#[test]
fn wakers_go_outside_the_mutex() {
    let (log, _) = Log::open(&Env::over(SimFiles::new(), 1), "/wal".as_ref(), roomy()).unwrap();
    let answered = Arc::new(AtomicUsize::new(0));
    for mark in [Mark::Written, Mark::Durable] {
        let end = log.writer().append(0, &[b"x"]).unwrap().end;
        let mut future = Box::pin(log.reached(mark, end));
        for _ in 0..2 {
            let log = log.clone();
            // `stat` looks for the oldest in-flight flush, so it takes the mutex.
            let waker = asks_when_dropped(&answered, move || drop(log.stat()));
            assert!(poll(&mut future, &waker).is_pending());
        }
        assert_eq!(answered.swap(0, Ordering::Relaxed), 1, "{mark:?}: the waker that was replaced");
        drop(future);
        assert_eq!(answered.swap(0, Ordering::Relaxed), 1, "{mark:?}: the waker of a dropped future");
    }
    log.flush_wal(true).unwrap();
    let mut tail = log.tail("feed", TailOptions::from(log.durable())).unwrap();
    let mut future = pin!(tail.next_async());
    for _ in 0..2 {
        let (log, mut writer) = (log.clone(), log.writer());
        let waker = asks_when_dropped(&answered, move || {
            // The end of a flush wakes tails.
            writer.append(0, &[b"y"]).unwrap();
            log.flush_wal(true).unwrap();
        });
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    let answered = answered.load(Ordering::Relaxed);
    assert_eq!(answered, 2, "the waker of a tail that was replaced, and the one that its flush woke");
}
