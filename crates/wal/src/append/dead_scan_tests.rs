//! The state of a shared ring after a kill at every step of an append: the scan over the dead words finds what a scan
//! by a live thread would, and every record below is whole.

use collie_env::{Env, SimFiles};

use super::{Record, Reserve, Rule, Slot, words::Flag};
use crate::{
    Level, Log, Lsn, Options, Protocol, RingKind,
    format::{KIND_DATA, RecordHead},
    testing::tiny,
};

fn open(disk: &SimFiles, protocol: Protocol, ring: RingKind) -> Log {
    let options = Options { protocol, ring, slots: 2, segment_bytes: 48 << 10, ..tiny() };
    Log::open(&Env::over(disk.clone(), 1), "/wal".as_ref(), options).unwrap().0
}

/// A worker that takes the steps of an append one at a time.
struct Worker {
    slot: Slot,
    body: Vec<u8>,
    start: Lsn,
    steps: usize,
}

/// Steps of an append. Base: black, positions, half the copy, the copy, white. Help: stage and black, positions,
/// staged, half the copy, the copy, white.
const BASE_STEPS: usize = 5;
const HELP_STEPS: usize = 6;

impl Worker {
    fn step(&mut self, reserve: &Reserve) {
        let body = [self.body.as_slice()];
        let record = Record::new(RecordHead::new(self.body.len(), KIND_DATA, 1), &body);
        let end = self.start.plus(record.bytes());
        let copy = |share: usize| {
            let bytes: Vec<u8> = record.parts().flatten().copied().collect();
            // SAFETY: ring R1: only this worker has the positions, and there is room.
            unsafe { reserve.ring.write(self.start, &bytes[..bytes.len() * share / 2]) };
        };
        match (&reserve.rule, self.steps) {
            (Rule::Base(slots), 0) => slots.blacken(&self.slot),
            (Rule::Help(slots, helping), 0) => {
                helping.staging_of(&self.slot).put(&record);
                slots.blacken(&self.slot);
            }
            (Rule::Base(slots) | Rule::Help(slots, _), 1) => {
                self.start = slots.reserve(&mut self.slot, record.bytes()).unwrap();
            }
            (Rule::Help(slots, _), 2) => slots.leave_black(&mut self.slot, Flag::staged(end)),
            (Rule::Base(_), 2) | (Rule::Help(..), 3) => copy(1),
            (Rule::Base(_), 3) | (Rule::Help(..), 4) => copy(2),
            (Rule::Base(slots), 4) => slots.leave_black(&mut self.slot, Flag::white(end)),
            (Rule::Help(slots, _), 5) => slots.whiten_staged(&self.slot),
            _ => unreachable!("no such step"),
        }
        self.steps += 1;
    }
}

/// Compares a kill after the steps `order` (which worker goes next) with a live scan; another scan runs before step
/// `scanned`. Returns whether both records are back.
fn kill_after(protocol: Protocol, order: &[usize], scanned: usize) -> bool {
    let disk = SimFiles::new();
    let log = open(&disk, protocol, RingKind::Shared);
    log.writer().commit(0, b"on disk", Level::Disk).unwrap();
    let reserve = &log.flusher().reserve;
    let mut workers = [1_u8, 2].map(|number| Worker {
        slot: reserve.take_slot().unwrap(),
        body: vec![number; 100 * usize::from(number)],
        start: Lsn::ZERO,
        steps: 0,
    });
    for (at, next) in order.iter().enumerate() {
        if at == scanned {
            reserve.advance();
        }
        workers[*next].step(reserve);
    }
    let after = disk.process_kill();
    let expected = reserve.advance();
    // A close would wait for the workers forever.
    log.abandon();
    let again = open(&after, protocol, RingKind::Private);
    assert_eq!(again.durable(), again.boundary());
    let back: Vec<_> = again.read(Lsn::ZERO).map(Result::unwrap).skip(1).collect();
    let mut reserved: Vec<&Worker> = workers.iter().filter(|worker| worker.steps > 1).collect();
    reserved.sort_by_key(|worker| worker.start);
    let whole: Vec<_> =
        reserved.iter().map(|worker| (worker.start, &worker.body)).take_while(|(start, _)| *start < expected).collect();
    let found: Vec<_> = back.iter().map(|record| (record.lsn, &record.body)).collect();
    assert_eq!(found, whole, "{protocol:?}, {order:?}, scanned before {scanned}");
    back.len() == 2
}

/// Goal: wherever two workers are in their appends when the process is killed, the next open finds exactly the records
/// that a scan at that instant would have allowed to be acknowledged, each whole, from the ring or from a staging
/// buffer. Method: every order of their steps, killed after each step, with a scan before a step in the middle.
#[test]
fn kill_at_every_step_of_two_workers_leaves_what_a_scan_would_have_acknowledged() {
    for (protocol, steps) in [(Protocol::Base, BASE_STEPS), (Protocol::Help, HELP_STEPS)] {
        let (mut orders, mut kills, mut both) = (vec![Vec::new()], 0, 0);
        while let Some(order) = orders.pop() {
            both += u32::from(kill_after(protocol, &order, order.len() * 2 / 3));
            kills += 1;
            for worker in 0..2 {
                if order.iter().filter(|next| **next == worker).count() < steps {
                    orders.push([order.as_slice(), &[worker]].concat());
                }
            }
        }
        assert!(kills > 900 && both > 200 && both < kills - 200, "{protocol:?}: {both} of {kills}");
    }
}

/// Goal: records beyond the ring, which exist only in staging buffers, are back. Method: fill the ring behind a worker
/// that stays staged, stage a record of the other one beyond the end of the ring, kill.
#[test]
fn staged_records_beyond_the_ring_are_back() {
    let disk = SimFiles::new();
    let log = open(&disk, Protocol::Help, RingKind::Shared);
    let reserve = &log.flusher().reserve;
    let worker = |number: u8| Worker {
        slot: reserve.take_slot().unwrap(),
        body: vec![number; 3_000],
        start: Lsn::ZERO,
        steps: 0,
    };
    let (mut first, mut last) = (worker(1), worker(2));
    let mut writer = log.writer();
    (0..3).for_each(|_| first.step(reserve));
    let mut count = 0;
    while log.glsn().bytes_since(log.durable()) + 1_010 < 16 << 10 {
        writer.append(0, &[&[count; 1_000]]).unwrap();
        count += 1;
    }
    (0..3).for_each(|_| last.step(reserve));
    let end = reserve.advance();
    let beyond = end.bytes_since(log.durable()) > 16 << 10;
    let after = disk.process_kill();
    log.abandon();
    assert!(beyond, "beyond the ring");
    let again = open(&after, Protocol::Base, RingKind::Private);
    let bodies: Vec<Vec<u8>> = again.read(Lsn::ZERO).map(|record| record.unwrap().body).collect();
    assert_eq!(bodies.len(), usize::from(count) + 2);
    assert_eq!((&bodies[0], bodies.last().unwrap()), (&first.body, &last.body));
}

/// Goal: a log that is killed while it closes keeps the records that it had acknowledged. Method: stop appends, kill,
/// open.
#[test]
fn kill_while_closing_keeps_what_was_complete() {
    for protocol in [Protocol::Mutex, Protocol::Base, Protocol::Help] {
        let disk = SimFiles::new();
        let log = open(&disk, protocol, RingKind::Shared);
        log.writer().commit(0, b"in memory", Level::Process).unwrap();
        log.flusher().reserve.stop(super::State::Closed);
        assert!(log.writer().append(0, &[b"late"]).is_err());
        let again = open(&disk.process_kill(), protocol, RingKind::Private);
        assert_eq!(again.read(Lsn::ZERO).map(|record| record.unwrap().body).collect::<Vec<_>>(), [b"in memory"]);
    }
}
