//! Larger mixes than loom can hold, under shuttle, on the product's own types: four or five workers with several
//! records each, which go around the ring; waits of every kind; two flushes in flight that give the ring back; readers;
//! a slot that goes from one worker to the next; a log that is closed during the run. Run with `--cfg shuttle`;
//! `SHUTTLE_LONG=1` draws more.
//!
//! Schedules are drawn, not enumerated, by two rules: any thread next, and priorities with a few changes (PCT). The
//! seeds are fixed, so a run is repeatable; a failure reports its seed and the number of the execution, and prints the
//! schedule.
//!
//! Checks of each execution:
//! - M1 (V1, V2). What a reader sees at a snapshot is exactly what lies below it, and stays so.
//! - M2 (V3). An acknowledged record is below every later snapshot.
//! - M3. Positions have no hole and no overlap, and every byte that was flushed is the one that was appended.
//! - M4. No two threads access a ring byte at the same time.
//! - M5. Every thread ends: no waiter sleeps forever.
//!
//! Each of the mistakes must be caught by one of these checks, and the test says by which.
//!
//! Shuttle does not check orderings (it is sequentially consistent: `loom_tests`), nor the order between two accesses
//! of a cell that do not overlap. The election and the lanes of the flush use parking_lot directly, so no model reaches
//! them. Here two flushes run in parallel, one more than in a log, and each takes the complete records
//! (`tests/flush.rs`, `mix_tests` and the lab have the real ones).

use std::{collections::BTreeMap, sync::Arc, task::Waker};

use collie_base::Lsn;
use collie_sync::{
    Condvar, Mutex,
    atomic::{AtomicU64, Ordering},
    model::{Draw, Explored, below, sample},
    mutant, thread,
};

use super::{
    Record, Reserve, Room, Rule, Slot, SlotAllocator, State,
    bell::Bell,
    help::Helping,
    slots::{Limit, Slots},
};
use crate::{
    Protocol, WalError,
    append::ring::Ring,
    append::ring_file::Home,
    format::{KIND_DATA, RecordHead},
};

const START: Lsn = Lsn::FIRST;
const BODY_BYTES_MAX: usize = 10;
/// A body and its head.
const RECORD_BYTES_MAX: u64 = 12;
/// A few records; as in `Options`, one is at most a quarter of it.
const RING_BYTES: u64 = 64;
/// Slots with a writer of their own, and the two that other writers share.
const SLOTS: usize = 7;

/// The threads that run in parallel.
#[derive(Clone, Copy)]
struct Form {
    protocol: Protocol,
    workers: usize,
    records: usize,
    flushers: usize,
    looks: usize,
}

const BASE: Form = Form { protocol: Protocol::Base, workers: 4, records: 4, flushers: 2, looks: 3 };
const HELP: Form = Form { protocol: Protocol::Help, ..BASE };
/// More workers, which wait for each other more often.
const CROWD: Form = Form { workers: 5, records: 3, flushers: 1, looks: 1, ..BASE };

/// The flushes, by their positions.
#[derive(Default)]
struct Flushes {
    /// Everything below was taken by a flush.
    issued: Lsn,
    /// Flushes that ended before one in front of them: by start, their end and bytes.
    completed: BTreeMap<Lsn, (Lsn, Vec<u8>)>,
    /// The bytes on disk.
    disk: Vec<u8>,
}

/// A log without files.
struct Mix {
    form: Form,
    reserve: Reserve,
    durable: AtomicU64,
    flushes: Mutex<Flushes>,
    has_completed: Condvar,
    /// By record: 0, or the start that `publish` got.
    published: Vec<AtomicU64>,
    /// Highest start of an acknowledged record.
    acknowledged: AtomicU64,
}

/// A record that was appended.
struct Entry {
    number: usize,
    start: Lsn,
    bytes: Vec<u8>,
}

impl Entry {
    fn end(&self) -> Lsn {
        self.start.plus(self.bytes.len() as u64)
    }
}

/// The state that a reader saw at one snapshot.
struct Look {
    acknowledged: u64,
    snapshot: Lsn,
    seen: Vec<u64>,
    again: Vec<u64>,
}

impl Mix {
    fn new(form: Form) -> Self {
        let slots = || Slots::new(&Home::Private, SLOTS, START);
        let rule = match form.protocol {
            Protocol::Mutex => unreachable!("the mutex protocol is its mutex"),
            Protocol::Base => Rule::Base(slots()),
            Protocol::Help => Rule::Help(slots(), Helping::new(&Home::Private, SLOTS, RECORD_BYTES_MAX, START)),
        };
        Self {
            form,
            reserve: Reserve {
                ring: Ring::new(&Home::Private, RING_BYTES),
                slot_allocator: SlotAllocator::new(5),
                rule,
            },
            durable: AtomicU64::new(START.get()),
            flushes: Mutex::new(Flushes { issued: START, ..Flushes::default() }),
            has_completed: Condvar::new(),
            published: (0..form.workers * form.records).map(|_| AtomicU64::new(0)).collect(),
            acknowledged: AtomicU64::new(0),
        }
    }

    fn slots(&self) -> &Slots {
        self.reserve.slots().expect("a lock-free protocol")
    }

    /// Takes everything that is complete and not taken yet; returns how far that is.
    fn flush(&self) -> Lsn {
        let mut flushes = self.flushes.lock();
        let from = flushes.issued;
        let early = mutant!("FLAGS_BEFORE_BOUNDARY").then(|| match &self.reserve.rule {
            Rule::Help(slots, helping) => helping.staged(slots, from, Lsn::MAX),
            _ => unreachable!("a mistake of the helping protocol"),
        });
        let to = self.reserve.advance();
        if to <= from {
            return to;
        }
        flushes.issued = to;
        drop(flushes);
        let mut bytes = Vec::new();
        match early {
            // SAFETY: none: this is the mistake, and the model sees its race.
            Some(staged) => unsafe { Helping::assemble(&self.reserve.ring, [from, to], &staged, &mut bytes) },
            // SAFETY: ring R2: `issued` gives the range to this flush alone, and `to` came from a scan.
            None => unsafe { self.reserve.read_into(from, to, to, &mut bytes) },
        }
        let mut flushes = self.flushes.lock();
        flushes.completed.insert(from, (to, bytes));
        let mut durable = self.durable();
        while let Some((end, bytes)) = flushes.completed.remove(&durable) {
            durable = end;
            flushes.disk.extend_from_slice(&bytes);
        }
        self.durable.fetch_max(durable.get(), Ordering::Release);
        self.has_completed.notify_all();
        to
    }

    /// Sleeps until the boundary is at `lsn`.
    fn sleep(&self, lsn: Lsn, own: Option<&Slot>) {
        let bell = Arc::new(Bell::default());
        let waker = Waker::from(Arc::clone(&bell));
        let mut number = None;
        while self.slots().park(lsn, Limit::Next, own.map(Slots::own), &mut number, &waker) == Ok(false) {
            bell.wait();
        }
        if let Some(number) = number {
            self.reserve.forget(lsn, number);
        }
    }

    /// Appends record `number`; returns `None` if the log was closed before.
    fn append(&self, slot: &mut Slot, number: usize) -> Option<Entry> {
        let body = vec![u8::try_from(number).expect("a few records") + 1; below(BODY_BYTES_MAX + 1)];
        let parts = [body.as_slice()];
        let record = Record::new(RecordHead::new(body.len(), KIND_DATA, 0), &parts);
        let publish = |start: Lsn| self.published[number].store(start.get(), Ordering::Release);
        let start = self.reserve.append(slot, self, &record, publish).ok()?;
        Some(Entry { number, start, bytes: record.parts().flatten().copied().collect() })
    }

    /// Waits, scans or flushes after a record, or does nothing, and acknowledges the record if it is covered.
    fn follow_up(&self, slot: &Slot, entry: &Entry) {
        let end = entry.end();
        let covered = match below(5) {
            0 | 1 => false,
            2 => self.slots().scan(Limit::End(end), Some(Slots::own(slot))).boundary >= end,
            3 => {
                self.sleep(end, Some(slot));
                true
            }
            _ => {
                self.wait_durable(end).expect("the model's disk does not fail");
                assert!(self.durable() >= end, "M2: not durable");
                true
            }
        };
        if covered || mutant!("ACKNOWLEDGED_UNSEEN") {
            self.acknowledged.fetch_max(entry.start.get(), Ordering::Release);
        }
    }

    /// Appends the records of one worker, which takes its slot only now.
    fn work(&self, worker: usize) -> Vec<Entry> {
        let mut slot = self.reserve.take_slot().expect("a free slot");
        let mut entries = Vec::new();
        for number in worker * self.form.records..(worker + 1) * self.form.records {
            let entry = if below(6) == 0 {
                self.append(self.reserve.shared_slot().slot(), number)
            } else {
                self.append(&mut slot, number)
            };
            let Some(entry) = entry else { break };
            self.follow_up(&slot, &entry);
            entries.push(entry);
            if below(6) == 0 {
                self.reserve.give_back(slot);
                slot = self.reserve.take_slot().expect("a free slot");
            }
        }
        self.reserve.give_back(slot);
        entries
    }

    /// Reads everything at one snapshot, twice.
    fn look(&self) -> Look {
        let read = || self.published.iter().map(|word| word.load(Ordering::Acquire)).collect();
        // In this order: the acknowledgement precedes the snapshot.
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        let snapshot = self.reserve.boundary();
        Look { acknowledged, snapshot, seen: read(), again: read() }
    }

    fn judge(&self, entries: &[Entry], looks: &[Look]) {
        for Look { acknowledged, snapshot, seen, again } in looks {
            assert!(*acknowledged < snapshot.get(), "M2: an acknowledged record is not in a later snapshot");
            for Entry { number, start, .. } in entries {
                let is_below = start < snapshot;
                assert!(!is_below || seen[*number] == start.get(), "M1: a record below the snapshot is not there");
                let visible = |word: u64| word != 0 && word < snapshot.get();
                assert_eq!(visible(seen[*number]), is_below, "M1: not the prefix");
                assert_eq!(visible(again[*number]), is_below, "M1: the answer changed");
            }
        }
        let mut next = START;
        let mut appended = Vec::new();
        for entry in entries {
            assert_eq!(entry.start, next, "M3: a hole or an overlap");
            next = entry.end();
            appended.extend_from_slice(&entry.bytes);
        }
        assert_eq!((self.reserve.next(), self.reserve.boundary(), self.durable()), (next, next, next), "M3: the marks");
        // Unlocked before the comparison: a failure while a lock is held is reported as something else.
        let disk = std::mem::take(&mut self.flushes.lock().disk);
        assert_eq!(disk, appended, "M3: wrong bytes");
    }
}

impl Room for Mix {
    fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    fn wait_durable(&self, until: Lsn) -> Result<(), WalError> {
        while self.durable() < until {
            if self.flush() < until {
                self.sleep(until, None);
                continue;
            }
            let mut flushes = self.flushes.lock();
            while self.durable() < until {
                flushes = self.has_completed.wait(flushes);
            }
        }
        Ok(())
    }

    fn has_stopped(&self) -> bool {
        false
    }

    /// Called only after a failure was found.
    fn poison(&self) {}

    fn refusal(&self, _: State) -> WalError {
        WalError::Closed
    }
}

/// Runs one execution.
fn run(form: Form) {
    let mix = Arc::new(Mix::new(form));
    let start = |act: fn(&Mix) -> Vec<Look>| {
        let mix = Arc::clone(&mix);
        thread::spawn(move || act(&mix))
    };
    let workers: Vec<_> = (0..form.workers)
        .map(|worker| {
            let mix = Arc::clone(&mix);
            thread::spawn(move || mix.work(worker))
        })
        .collect();
    let mut others = vec![start(|mix| (0..mix.form.looks).map(|_| mix.look()).collect())];
    for _ in 0..form.flushers {
        others.push(start(|mix| {
            for _ in 0..3 {
                mix.flush();
                thread::yield_now();
            }
            Vec::new()
        }));
    }
    if below(4) == 0 {
        others.push(start(|mix| {
            mix.reserve.stop(State::Closed);
            Vec::new()
        }));
    }
    let mut entries: Vec<Entry> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    let mut looks: Vec<Look> = others.into_iter().flat_map(|other| other.join().unwrap()).collect();
    entries.sort_unstable_by_key(|entry| entry.start);
    mix.flush();
    looks.push(mix.look());
    mix.judge(&entries, &looks);
}

/// Returns whether the long form is enabled.
fn is_long() -> bool {
    std::env::var_os("SHUTTLE_LONG").is_some()
}

const SEED: u64 = 1;
/// `None` is the first rule; a number is the depth of the second one: its priority changes, plus one.
const DEPTHS: [Option<usize>; 3] = [None, Some(3), Some(6)];

/// Runs a form without a mistake, under each rule.
fn check(name: &str, form: Form) {
    let executions = if is_long() { 200_000 } else { 4_000 };
    for depth in DEPTHS {
        let draw = Draw { seed: SEED, depth, executions };
        match sample(None, draw, move || run(form)) {
            Explored::Passed(passed) => {
                eprintln!("{name}: {passed} executions, {draw:?}");
                assert_eq!(passed, executions as u64, "{name}: not all were run");
            }
            Explored::Failed(message) => panic!("{name}: {message}"),
        }
    }
}

/// A mistake, and the messages by which it may be caught.
type Mistake = (&'static str, &'static [&'static str]);

const UNSEEN: &str = "M1: ";
const UNACKNOWLEDGED: &str = "M2: ";
const BYTES: &str = "M3: ";
const RACE: &str = "Causality violation";
const ASLEEP: &str = "deadlock";
/// The message of a thread that checks again and again for an event that never comes.
const ENDLESS: &str = "exceeded max_steps";
/// The message if the log takes an appended record for one that was never appended.
const NOT_APPENDED: &str = "waits are for records that were appended";
/// The message of a flush that gets more than the ring: the boundary passed records that still wait for room.
const TOO_FAR: &str = "a reservation is at most the ring";

/// Draws until each mistake is caught, for at most `EXECUTIONS_MAX` executions under each rule.
fn must_fail(name: &str, form: Form, mistakes: &[Mistake]) {
    const EXECUTIONS_MAX: usize = 20_000;
    for (mistake, meant) in mistakes {
        let caught = DEPTHS.iter().find_map(|depth| {
            let draw = Draw { seed: SEED, depth: *depth, executions: EXECUTIONS_MAX };
            match sample(Some(mistake), draw, move || run(form)) {
                Explored::Passed(_) => None,
                Explored::Failed(message) => Some(message),
            }
        });
        let Some(message) = caught else { panic!("{name}: {mistake} goes unnoticed") };
        assert!(meant.iter().any(|meant| message.contains(meant)), "{name}: {mistake}: not by {meant:?}: {message}");
        eprintln!("{name}: {mistake}: caught: {message}");
    }
}

/// Goal: M1-M5 hold however a crowd of workers, flushes and readers mix. Method: base, drawn schedules.
#[test]
fn shuttle_base_keeps_its_promises_in_a_mix() {
    check("mix base", BASE);
    check("crowd base", CROWD);
}

/// Goal: the same with the helping protocol, where flushes take records from staging and `recycle` gives the ring back.
#[test]
fn shuttle_help_keeps_its_promises_in_a_mix() {
    check("mix help", HELP);
    check("crowd help", Form { protocol: Protocol::Help, ..CROWD });
}

/// Goal: the mixes detect mistakes. Method: one mistake at a time in base.
#[test]
fn shuttle_mistakes_in_base_are_caught() {
    must_fail(
        "mix base",
        BASE,
        &[
            ("BLACK_AFTER_ADD", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("NO_BLACK", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("END_BEFORE_COLOUR", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("PUBLISH_AFTER_WHITE", &[UNSEEN]),
            ("LIMIT_AFTER_FLAGS", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("USED_BEFORE_LIMIT", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("BOUNDARY_BY_STORE", &[UNACKNOWLEDGED, BYTES]),
            ("ACKNOWLEDGED_UNSEEN", &[UNACKNOWLEDGED]),
            ("RAISE_LEFT_OUT", &[ASLEEP]),
            ("RAISE_BY_STORE", &[ASLEEP]),
            ("USED_ONCE", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("CLOSED_BEFORE_LAST", &[ASLEEP, NOT_APPENDED]),
        ],
    );
    must_fail(
        "crowd base",
        CROWD,
        &[
            ("WHITE_BY_STORE", &[ASLEEP]),
            ("NOTIFY_BEFORE_ENTERING", &[ASLEEP]),
            ("DRAIN_WITH_OWN_END", &[ASLEEP]),
            ("DUTY_NOT_HANDED_ON", &[ASLEEP]),
        ],
    );
}

/// Goal: the mixes detect mistakes. Method: one mistake at a time in help.
#[test]
fn shuttle_mistakes_in_help_are_caught() {
    must_fail(
        "mix help",
        HELP,
        &[
            ("STAGED_BEFORE_PUBLISH", &[UNSEEN]),
            ("BLACK_AFTER_ADD", &[UNSEEN, BYTES, RACE, TOO_FAR]),
            ("NO_SECOND_LOOK", &[BYTES, RACE]),
            ("RESTAGE_BEFORE_WHITE", &[BYTES, RACE, ENDLESS]),
            ("FLAGS_BEFORE_BOUNDARY", &[BYTES, RACE]),
            ("RECYCLE_PASSES_STAGED", &[BYTES, RACE]),
        ],
    );
}
