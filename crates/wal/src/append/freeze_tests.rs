//! A worker that stops inside an append, at every step: what the other threads can still do
//! (`docs/design/commit-protocol.md` section 7), and what becomes of its record.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::mpsc,
};

use collie_env::{Env, Fault, SimFiles};

use super::{Record, Rule, Slot, State, words::Flag};
use crate::{
    Appended, Level, Log, Lsn, Mark, Options, Protocol, RecordKind, WalError,
    format::{KIND_DATA, RecordHead},
    testing::{bodies, eventually, tiny},
};

const PROTOCOLS: [Protocol; 3] = [Protocol::Mutex, Protocol::Base, Protocol::Help];

fn open(disk: &SimFiles, protocol: Protocol) -> Log {
    let options = Options { protocol, slots: 2, segment_bytes: 48 << 10, ..tiny() };
    Log::open(&Env::over(disk.clone(), 1), "/wal".as_ref(), options).unwrap().0
}

/// A worker whose append a test takes through its steps one at a time.
struct Worker<'a> {
    log: &'a Log,
    slot: Slot,
    body: Vec<u8>,
    at: Option<Appended>,
}

impl<'a> Worker<'a> {
    fn new(log: &'a Log, body: &[u8]) -> Self {
        let slot = log.flusher().reserve.take_slot().unwrap();
        Self { log, slot, body: body.to_owned(), at: None }
    }

    fn with<R>(&mut self, step: impl FnOnce(&Rule, &crate::append::ring::Ring, &mut Slot, &Record<'_>) -> R) -> R {
        let body = [self.body.as_slice()];
        let record = Record::new(RecordHead::new(self.body.len(), KIND_DATA, 1), &body);
        let reserve = &self.log.flusher().reserve;
        step(&reserve.rule, &reserve.ring, &mut self.slot, &record)
    }

    /// S0, W1, W2.
    fn reserve(&mut self) {
        let at = self.with(|rule, _, slot, record| {
            if let Rule::Help(_, helping) = rule {
                helping.staging_of(slot).put(record);
            }
            let (Rule::Base(slots) | Rule::Help(slots, _)) = rule else {
                unreachable!("the mutex protocol has no steps")
            };
            slots.blacken(slot);
            let start = slots.reserve(slot, record.bytes()).unwrap();
            Appended { start, end: start.plus(record.bytes()) }
        });
        self.at = Some(at);
    }

    fn at(&self) -> Appended {
        self.at.expect("reserved before")
    }

    /// W3b.
    fn stage(&mut self) {
        let end = self.at().end;
        self.with(|rule, _, slot, _| {
            let Rule::Help(slots, _) = rule else { unreachable!("base does not stage") };
            slots.leave_black(slot, Flag::staged(end));
        });
    }

    /// The copy into the ring.
    fn copy(&mut self) {
        let start = self.at().start;
        // SAFETY: ring R1: only this worker has the positions; the tests that call this leave room.
        self.with(|_, ring, _, record| unsafe { ring.write_record(start, record) });
    }

    /// W5.
    fn whiten(&mut self) {
        let end = self.at().end;
        self.with(|rule, _, slot, _| match rule {
            Rule::Base(slots) => slots.leave_black(slot, Flag::white(end)),
            Rule::Help(slots, _) => slots.whiten_staged(slot),
            Rule::Mutex(_) => unreachable!("the mutex protocol has no steps"),
        });
    }
}

/// Goal: a worker frozen between its positions and the end of black stops acknowledgements and nothing else: appends
/// and reads go on, and as soon as it continues, all waiters do. Method: freeze one by hand; another appends, then
/// threads wait for each mark; release it.
#[test]
fn frozen_black_worker_holds_acknowledgements_and_nothing_else() {
    for protocol in [Protocol::Base, Protocol::Help] {
        let disk = SimFiles::new();
        let log = open(&disk, protocol);
        log.writer().commit(0, b"before", Level::Disk).unwrap();
        let (boundary, mut worker) = (log.boundary(), Worker::new(&log, b"frozen"));
        worker.reserve();
        let mut writer = log.writer();
        let end = (0..5).map(|n| writer.append(0, &[&[n]]).unwrap().end).last().unwrap();
        assert!(!log.is_reached(Mark::Boundary, end) && log.boundary() == boundary, "{protocol:?}");
        log.flush_wal(true).unwrap();
        assert_eq!(log.durable(), boundary, "a flush takes what is complete and waits for nobody");
        assert_eq!(bodies(&log), [b"before"]);
        std::thread::scope(|scope| {
            let (done, finished) = mpsc::channel();
            for mark in [Mark::Boundary, Mark::Written, Mark::Durable] {
                let (log, done) = (log.clone(), done.clone());
                scope.spawn(move || {
                    log.wait(mark, end).unwrap();
                    done.send(()).unwrap();
                });
            }
            // The waiters sleep on the frozen worker's flag, which then carries NOTIFY.
            let asked = || {
                worker.with(|rule, _, slot, _| match rule {
                    Rule::Base(slots) | Rule::Help(slots, _) => slots.flag(slot.index).has_notify(),
                    Rule::Mutex(_) => unreachable!("the mutex protocol has no flags"),
                })
            };
            let mut asked = asked;
            eventually("asking the frozen worker to notify", &mut asked);
            assert!(finished.try_recv().is_err(), "somebody was acknowledged beyond a frozen worker");
            if protocol == Protocol::Base {
                worker.copy();
            } else {
                worker.stage();
            }
            if protocol == Protocol::Base {
                worker.whiten();
            }
            (0..3).for_each(|_| finished.recv().unwrap());
        });
        assert_eq!(bodies(&log)[1], b"frozen");
        if protocol == Protocol::Help {
            worker.copy();
            worker.whiten();
        }
        log.close().unwrap();
    }
}

/// Goal: with helping no thread waits for a worker that stalls in its copy, and its record reaches the disk from the
/// staging buffer. Method: freeze it staged; others commit to disk until positions come around to its ring bytes, and
/// only then stop. Then it copies, and all go on.
#[test]
fn frozen_staged_worker_holds_nobody_until_its_ring_bytes_come_around() {
    let disk = SimFiles::new();
    let log = open(&disk, Protocol::Help);
    let mut worker = Worker::new(&log, &[7; 3_001]);
    worker.reserve();
    worker.stage();
    let mut writer = log.writer();
    for number in 0..3_u8 {
        writer.commit(0, &[number; 2_000], Level::Disk).unwrap();
    }
    assert!(log.durable() >= worker.at().end && log.stat().staged_taken == 1, "{:?}", log.stat());
    let ring = 16 << 10;
    while log.glsn().bytes_since(worker.at().start) + 2_100 < ring {
        writer.commit(0, &[9; 2_000], Level::Disk).unwrap();
    }
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel();
        scope.spawn(move || {
            for _ in 0..3 {
                writer.commit(0, &[9; 2_000], Level::Disk).unwrap();
            }
            done.send(()).unwrap();
        });
        let limit = worker.at().start.get() + ring;
        eventually("reserving beyond the straggler's ring bytes", || log.glsn().get() > limit);
        assert!(finished.try_recv().is_err(), "ring bytes of a straggler were given to another");
        worker.copy();
        worker.whiten();
        finished.recv().unwrap();
    });
    assert_eq!(bodies(&log)[0], [7; 3_001]);
    log.close().unwrap();
}

/// Goal: a panic while publishing leaves a VOID record that no reader yields, the slot white, and the log going on.
/// Method: panic inside `publish` between good records, under each protocol; read, close, reopen.
#[test]
fn panic_while_publishing_leaves_a_void_record_and_the_log_goes_on() {
    for protocol in PROTOCOLS {
        let disk = SimFiles::new();
        let log = open(&disk, protocol);
        let mut writer = log.writer();
        writer.append(0, &[b"one"]).unwrap();
        for size in [0, 1, 126, 127, 128, 4_000] {
            let panicking = AssertUnwindSafe(|| writer.append_with(3, &vec![5; size], |_| panic!("in publish")));
            assert!(catch_unwind(panicking).is_err());
        }
        writer.commit(0, b"two", Level::Disk).unwrap();
        log.writer().commit(0, b"of another", Level::Memory).unwrap();
        log.close().unwrap();
        drop(log);
        let log = open(&disk, protocol);
        assert_eq!(bodies(&log), [&b"one"[..], b"two", b"of another"], "{protocol:?}");
        assert!(log.read(Lsn::ZERO).all(|record| record.unwrap().kind == RecordKind::Data));
    }
}

/// Goal: when the log stops, appends that wait for room fail: base takes the record back; help lets it stand (it is
/// published), and its durability fails. Method: a frozen black worker, a ring filled by another, then the log is
/// poisoned.
#[test]
fn writers_that_wait_for_room_hear_of_poison() {
    for protocol in [Protocol::Base, Protocol::Help] {
        let disk = SimFiles::new();
        let log = open(&disk, protocol);
        let mut worker = Worker::new(&log, b"frozen");
        worker.reserve();
        std::thread::scope(|scope| {
            let filler = log.clone();
            let waiting = scope.spawn(move || {
                let (mut writer, mut published) = (filler.writer(), 0);
                let error = loop {
                    let appended = writer.append_with(0, &[1; 1_000], |_| published += 1);
                    match appended.and_then(|at| {
                        // With help the append may have ended already, since the record is published: then wait for its
                        // durability.
                        if at.end > worker_limit() { filler.wait(Mark::Durable, at.end).map(|()| at) } else { Ok(at) }
                    }) {
                        Ok(_) => {}
                        Err(error) => break error,
                    }
                };
                (error, published, writer.append(0, &[b"late"]))
            });
            eventually("filling the ring", || log.stat().ring_full > 0);
            log.flusher().poison();
            let (error, published, late) = waiting.join().unwrap();
            assert!(matches!(error, WalError::Poisoned { .. }), "{error}");
            assert!(matches!(late, Err(WalError::Poisoned { .. })), "{late:?}");
            assert_eq!(published, if protocol == Protocol::Base { 16 } else { 17 }, "{protocol:?}");
        });
    }
}

/// The position a ring after the start of a new log.
fn worker_limit() -> Lsn {
    Lsn::FIRST.plus(16 << 10)
}

/// Goal: slots are reused, counted by use, and writers beyond them share two. Method: many writers at once and in turn.
#[test]
fn slots_go_from_writer_to_writer_and_late_writers_share_two() {
    for protocol in [Protocol::Base, Protocol::Help] {
        let disk = SimFiles::new();
        let log = open(&disk, protocol);
        let used = || log.flusher().reserve.slots().unwrap().used();
        for _ in 0..10 {
            log.writer().append(0, &[b"in turn"]).unwrap();
        }
        assert_eq!(used(), 1);
        let mut writers: Vec<_> = (0..6).map(|_| log.writer()).collect();
        assert_eq!((used(), log.stat().slotless_writers), (2, 4));
        for (number, writer) in (0_u8..).zip(&mut writers) {
            writer.append(0, &[&[number; 9_000]]).unwrap();
            writer.commit(0, &[number], Level::Memory).unwrap();
        }
        assert_eq!(used(), 3, "one after the other they need one of the two");
        log.flush_wal(true).unwrap();
        assert_eq!(bodies(&log).len(), 22);
        assert!((0_u8..6).all(|number| bodies(&log)[10 + 2 * usize::from(number)] == [number; 9_000]));
    }
}

/// Goal: closing waits for records in progress, and later reservations are refused. Method: a frozen worker while
/// another thread closes.
#[test]
fn close_waits_for_records_on_their_way() {
    for protocol in [Protocol::Base, Protocol::Help] {
        let disk = SimFiles::new();
        let log = open(&disk, protocol);
        let mut worker = Worker::new(&log, b"on its way");
        worker.reserve();
        std::thread::scope(|scope| {
            let closing = scope.spawn(|| log.close());
            eventually("closing", || log.flusher().reserve.slots().unwrap().state() == State::Closed);
            assert!(matches!(log.writer().append(0, &[b"x"]), Err(WalError::Closed)));
            assert!(!closing.is_finished());
            if protocol == Protocol::Help {
                worker.stage();
            }
            worker.copy();
            worker.whiten();
            closing.join().unwrap().unwrap();
        });
        assert!(matches!(log.writer().append(0, &[b"x"]), Err(WalError::Closed)));
        drop(log);
        assert_eq!(bodies(&open(&disk, protocol)), [b"on its way"]);
    }
}

/// Goal: a failing write does not strand a base worker that reserved and leads the flush for its own room: it gets the
/// error, and so does every other caller. Method: every write fails from some point on, to whichever file.
#[test]
fn leader_for_its_own_room_survives_a_failing_write() {
    for protocol in PROTOCOLS {
        let disk = SimFiles::new();
        let log = open(&disk, protocol);
        let mut writer = log.writer();
        writer.commit(0, b"kept", Level::Disk).unwrap();
        let first = disk.writes_and_syncs() + 1;
        (first..first + 100).for_each(|call| disk.fail_write_or_sync(call, Fault::Eio));
        let error = (0..100).find_map(|_| writer.append(0, &[&[1; 1_000]]).err()).expect("the ring fills up");
        assert!(matches!(error, WalError::Io { .. } | WalError::Poisoned { .. }), "{protocol:?}: {error}");
        assert!(matches!(writer.append(0, &[b"x"]), Err(WalError::Poisoned { .. })));
        assert!(matches!(log.wait(Mark::Durable, log.glsn()), Err(WalError::Poisoned { .. })));
        log.abandon();
        assert_eq!(bodies(&open(&disk.process_kill(), protocol)), [b"kept"]);
    }
}
