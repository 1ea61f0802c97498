//! Loom models of the lock-free protocols on the product's own types: visibility, a flush during a copy, sleeping and
//! waking, a full ring. Run with `--cfg loom`; `LOOM_LONG=1` raises the bounds.
//!
//! Each correct model asserts a floor on its executions, about half of what was counted when it was written, and each
//! mistake must be caught by the assertion that was meant. The name in brackets behind a model is that of
//! commit-protocol.md section 9, whose floors are reached at its bounds, in the short form or the long one
//! (`docs/models.md`). The long form takes one preemption more than the page, except for P3 and for the models without
//! a bound there (H, P; 20 is no bound for so few steps). Ring bytes are cells, so a byte that two threads access at
//! the same time is found.
//!
//! The faults of the PostgreSQL port (`docs/design/log.md`, "Faults of earlier logs") are among the mistakes: flag
//! after reserving (BLACK_AFTER_ADD), end before the colour (END_BEFORE_COLOUR), a weak white (WHITE_SWAP), no limit or
//! a late one (NO_LIMIT, LIMIT_AFTER_FLAGS), slots counted before the limit (USED_BEFORE_LIMIT), a boundary that may go
//! back (BOUNDARY_BY_STORE). A const assert of `words` excludes that zeroed memory means black; `mix_tests` has an idle
//! log with boundary = next; `tests/assembly.rs` and `freeze_tests` check that committers use it.
//!
//! Two orderings differ from the page's table on purpose. Leaving black is a swap, so a relaxed one still carries
//! black's release: that staged must be a release shows when it is a plain store. And a scan loads the boundary before
//! it raises it; loom branches only at the last access to a word, so the models do without that load, and one has it
//! (SHORTCUT).
//!
//! Loom does not check load buffering, SeqCst accesses (there are none here), and read-modify-writes that read an old
//! value. A model has no time: a thread that would spin for a moment before it sleeps sleeps at once.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    task::{Wake, Waker},
};

use collie_base::Lsn;
use collie_sync::{
    Mutex,
    atomic::{AtomicU64, Ordering},
    model::{bounds, check, check_variant, is_long},
    mutant, thread,
};

use super::{
    Record, Reserve, Room, Rule, Slot, State,
    bell::Bell,
    help::Helping,
    model_log::{Endless, LEN, reserve},
    slots::{Limit, Slots},
    words::Flag,
};
use crate::{
    Protocol, WalError,
    format::{KIND_DATA, RecordHead},
};

const START: Lsn = Lsn::FIRST;

/// Loom's message for a byte that two threads access at the same time.
const RACE: &str = "Causality violation";

fn slots(reserve: &Reserve) -> &Slots {
    reserve.slots().expect("a lock-free protocol")
}

fn helping(reserve: &Reserve) -> &Helping {
    let Rule::Help(_, helping) = &reserve.rule else { unreachable!("the helping protocol") };
    helping
}

/// Commits, rows and messages of the visibility models.
struct Commits {
    reserve: Reserve,
    /// By transaction: 0, or the start of its commit record.
    state: [AtomicU64; 3],
    /// By committer: 0, or the start of a commit that was acknowledged.
    acknowledged: [AtomicU64; 2],
}

/// The ways in which the committers of a visibility model differ from the plainest ones.
#[derive(Clone, Copy)]
struct Form {
    protocol: Protocol,
    /// Scans compare with the committer's own end instead of the next free position.
    own_end: bool,
    /// The bound is raised while waiting for room.
    raised: bool,
    /// The first committer commits twice and scans once at the end.
    twice: bool,
}

const BASE: Form = Form { protocol: Protocol::Base, own_end: false, raised: false, twice: false };
const HELP: Form = Form { protocol: Protocol::Help, ..BASE };

impl Commits {
    fn new(form: Form) -> std::sync::Arc<Self> {
        let word = || AtomicU64::new(0);
        std::sync::Arc::new(Self {
            reserve: reserve(form.protocol, START, 16, LEN),
            state: [word(), word(), word()],
            acknowledged: [word(), word()],
        })
    }

    /// Appends the commit record of `transaction`; returns its start.
    fn commit(&self, form: Form, slot: &mut Slot, transaction: usize) -> Lsn {
        let record = Record::new(RecordHead::new(0, KIND_DATA, 0), &[]);
        let room = Endless::new(form.raised);
        let publish = |start: Lsn| self.state[transaction].store(start.get(), Ordering::Release);
        self.reserve.append(slot, &room, &record, publish).expect("the log is open")
    }

    /// Scans once, and acknowledges the commit at `start` through message `number` if the boundary has passed it.
    fn acknowledge(&self, form: Form, slot: &Slot, start: Lsn, number: usize) {
        let end = start.plus(LEN);
        let limit = if form.own_end { Limit::End(end) } else { Limit::Next };
        let covered =
            mutant!("ACKNOWLEDGED_UNSEEN") || slots(&self.reserve).scan(limit, Some(Slots::own(slot))).boundary >= end;
        if covered {
            self.acknowledged[number].store(start.get(), Ordering::Release);
        }
    }

    fn look(&self, transactions: usize) -> Vec<u64> {
        self.state[..transactions].iter().map(|state| state.load(Ordering::Acquire)).collect()
    }

    /// Returns whether a reader at `snapshot` sees the commit of a state word.
    fn is_visible(state: u64, snapshot: Lsn) -> bool {
        state != 0 && (state < snapshot.get() || mutant!("VISIBLE_AT_ITS_OWN_CSN") && state == snapshot.get())
    }

    /// Compares what a reader saw with the commits and their positions.
    fn judge(snapshot: Lsn, seen: &[u64], again: &[u64], commits: &[(usize, Lsn)]) {
        for (transaction, start) in commits {
            let below = *start < snapshot || mutant!("VISIBLE_AT_ITS_OWN_CSN") && *start == snapshot;
            if below {
                assert_eq!(seen[*transaction], start.get(), "V1: a commit below the snapshot is not there");
            }
            let visible = Self::is_visible(seen[*transaction], snapshot);
            assert_eq!(visible, Self::is_visible(again[*transaction], snapshot), "V2: the answer changed");
            assert_eq!(visible, below, "V2: not the prefix");
        }
    }
}

/// Runs two committers that scan and acknowledge, and a reader that reads the acknowledgements first.
fn visibility(form: Form) {
    let log = Commits::new(form);
    let mut workers = Vec::new();
    for number in 0..2 {
        let (log, mut slot) = (std::sync::Arc::clone(&log), log.reserve.take_slot().expect("a free slot"));
        workers.push(thread::spawn(move || {
            let first = log.commit(form, &mut slot, number);
            if form.twice && number == 0 {
                return vec![(number, first), (2, log.commit(form, &mut slot, 2))];
            }
            log.acknowledge(form, &slot, first, number);
            vec![(number, first)]
        }));
    }
    let messages = if form.twice { [0; 2] } else { [0, 1].map(|n| log.acknowledged[n].load(Ordering::Acquire)) };
    let snapshot = log.reserve.boundary();
    let transactions = if form.twice { 3 } else { 2 };
    let (seen, again) = (log.look(transactions), log.look(transactions));
    let commits: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    Commits::judge(snapshot, &seen, &again, &commits);
    for message in messages {
        assert!(message < snapshot.get(), "V3: an acknowledged commit is not in a later snapshot");
    }
}

const V1: &str = "V1: ";

/// Goal: a snapshot sees exactly the commits below it, always the same, and all that were acknowledged before. Method:
/// base (V1-V3).
#[test]
fn loom_base_shows_exactly_what_is_below_the_boundary() {
    let (preemptions, floor) = bounds((3, 42_000), (4, 344_000));
    check(
        "V1-V3 base",
        || visibility(BASE),
        preemptions,
        floor,
        &[
            ("BLACK_AFTER_ADD", 2, V1),
            ("NO_BLACK", 2, V1),
            ("END_BEFORE_COLOUR", 2, V1),
            ("PUBLISH_AFTER_WHITE", 2, V1),
            ("GLSN_ADD", 2, V1),
            ("GLSN_ADD_ACQUIRE", 2, V1),
            ("WHITE_SWAP", 2, V1),
            ("BOUNDARY_MAX", 2, V1),
            ("BOUNDARY_LOAD", 2, V1),
            ("LIMIT_AFTER_FLAGS", 3, V1),
            ("NO_LIMIT", 2, V1),
            ("BOUNDARY_BY_STORE", 2, "V3: "),
            ("ACKNOWLEDGED_UNSEEN", 2, "V3: "),
            ("VISIBLE_AT_ITS_OWN_CSN", 2, V1),
        ],
    );
}

/// Goal: the end of a worker's own record serves as the limit of its scan. Method: base, C = own end (V1-V3).
#[test]
fn loom_base_may_compare_with_its_own_end() {
    let form = Form { own_end: true, ..BASE };
    let (preemptions, floor) = bounds((3, 27_000), (4, 198_000));
    check("V1-V3 base, own end", move || visibility(form), preemptions, floor, &[("GLSN_ADD_RELEASE", 2, V1)]);
}

/// Goal: raising the bound while waiting for room breaks nothing. Method: base, raised bound (V1-V3).
#[test]
fn loom_base_may_raise_its_bound() {
    let form = Form { raised: true, ..BASE };
    let (preemptions, floor) = bounds((2, 7_000), (4, 900_000));
    check("V1-V3 base, raised", move || visibility(form), preemptions, floor, &[]);
}

/// Goal: the boundary may pass a record that is staged. Method: help (V1-V3).
#[test]
fn loom_help_shows_exactly_what_is_below_the_boundary() {
    let (preemptions, floor) = bounds((2, 7_000), (4, 905_000));
    check(
        "V1-V3 help",
        || visibility(HELP),
        preemptions,
        floor,
        &[
            ("STAGED_BEFORE_PUBLISH", 2, V1),
            ("BLACK_AFTER_ADD", 2, V1),
            ("GLSN_ADD", 2, V1),
            ("WHITE_SWAP", 2, V1),
            ("BOUNDARY_MAX", 2, V1),
            ("BOUNDARY_BY_STORE", 2, "V3: "),
        ],
    );
}

/// Goal: the second commit of a worker is as safe as its first. Method: two commits of one worker, base and help
/// (V1-V3).
#[test]
fn loom_second_commit_of_a_worker_is_seen_whole_too() {
    let twice = |form| Form { twice: true, ..form };
    let (preemptions, floor) = bounds((2, 2_400), (3, 25_000));
    check(
        "V1-V3 base, two commits",
        move || visibility(twice(BASE)),
        preemptions,
        floor,
        &[("GLSN_ADD_ACQUIRE", 2, V1)],
    );
    let (preemptions, floor) = bounds((2, 3_200), (4, 350_000));
    check(
        "V1-V3 help, two commits",
        move || visibility(twice(HELP)),
        preemptions,
        floor,
        &[("STAGED_BEFORE_PUBLISH", 2, V1)],
    );
}

/// Runs a committer that never scans, a thread that only scans, and a reader. If `registers`, the committer registers
/// its slot itself.
fn herder(form: Form, commits: usize, scans: usize, registers: bool) {
    let log = Commits::new(form);
    let slot = (!registers).then(|| log.reserve.take_slot().expect("a free slot"));
    let committer = thread::spawn({
        let log = std::sync::Arc::clone(&log);
        move || {
            let mut slot = slot.or_else(|| log.reserve.take_slot()).expect("a free slot");
            (0..commits).map(|transaction| (transaction, log.commit(form, &mut slot, transaction))).collect::<Vec<_>>()
        }
    });
    let looker = thread::spawn({
        let log = std::sync::Arc::clone(&log);
        move || {
            (0..scans).for_each(|_| {
                let _ = slots(&log.reserve).scan(Limit::Next, None);
            })
        }
    });
    let snapshot = log.reserve.boundary();
    let seen = log.look(commits);
    let committed = committer.join().unwrap();
    looker.join().unwrap();
    Commits::judge(snapshot, &seen, &seen, &committed);
}

/// Goal: any thread that scans raises the boundary correctly, also between two records of one worker. Method: herder,
/// base and help.
#[test]
fn loom_anybody_may_move_the_boundary() {
    let (preemptions, floor) = bounds((3, 39_000), (4, 167_000));
    check("herder base", || herder(BASE, 2, 2, false), preemptions, floor, &[]);
    check_variant("herder base", "SHORTCUT", || herder(BASE, 2, 2, false), 3, 13_000);
    let (preemptions, floor) = bounds((3, 5_000), (4, 21_000));
    check("herder base, one look", || herder(BASE, 2, 1, false), preemptions, floor, &[("BLACK_STORE", 3, V1)]);
    let once = || herder(BASE, 1, 1, false);
    let (preemptions, floor) = bounds((3, 700), (4, 2_000));
    check(
        "herder base, once",
        once,
        preemptions,
        floor,
        &[("GLSN_ADD_ACQUIRE", 3, V1), ("GLSN_LOAD", 3, V1), ("FLAG_LOAD", 3, V1)],
    );
    let (preemptions, floor) = bounds((2, 9_000), (4, 406_000));
    check("herder help", || herder(HELP, 2, 2, false), preemptions, floor, &[]);
    let (preemptions, floor) = bounds((3, 1_100), (4, 3_400));
    check("herder help, once", || herder(HELP, 1, 1, false), preemptions, floor, &[("STAGED_BEFORE_PUBLISH", 3, V1)]);
}

/// Goal: a worker that registers during scans is not overlooked. Method: it takes its slot inside the race; the number
/// of slots is loaded after the limit (P5 of `docs/design/log.md`).
#[test]
fn loom_worker_that_registers_is_not_overlooked() {
    let (preemptions, floor) = bounds((3, 9_000), (4, 38_000));
    check("registration", || herder(BASE, 1, 2, true), preemptions, floor, &[("USED_BEFORE_LIMIT", 3, V1)]);
}

/// Runs two committers, one of which registers its slot during the race, and a thread that scans and reads.
fn registration_beside_another() {
    let log = Commits::new(BASE);
    let first = log.reserve.take_slot().expect("a free slot");
    let workers = [Some(first), None].into_iter().enumerate().map(|(number, slot)| {
        let log = std::sync::Arc::clone(&log);
        thread::spawn(move || {
            let mut slot = slot.or_else(|| log.reserve.take_slot()).expect("a free slot");
            (number, log.commit(BASE, &mut slot, number))
        })
    });
    let workers: Vec<_> = workers.collect();
    let _ = slots(&log.reserve).scan(Limit::Next, None);
    let snapshot = log.reserve.boundary();
    let seen = log.look(2);
    let commits: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    Commits::judge(snapshot, &seen, &seen, &commits);
}

/// Goal: a worker that registers after the slots were counted is not passed because another worker's record lies behind
/// its own. Method: it takes its slot inside the race, with a second committer; the slots are counted again after the
/// flags.
#[test]
fn loom_worker_that_registers_is_not_passed_with_another() {
    let (preemptions, floor) = bounds((3, 12_000), (4, 67_000));
    check("late registration", registration_beside_another, preemptions, floor, &[("USED_ONCE", 3, V1)]);
}

/// The waker of a boundary waiter, which remembers that it was called.
#[derive(Default)]
struct Called(AtomicBool);

impl Wake for Called {
    fn wake(self: std::sync::Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

/// Appends once, then checks once whether the boundary has passed the record, and else leaves a waker. The flag that it
/// returns is set if the boundary had passed it, or once the waker is called.
fn commit_and_park(log: &Commits, form: Form, slot: &mut Slot, transaction: usize) -> std::sync::Arc<Called> {
    let end = log.commit(form, slot, transaction).plus(LEN);
    let called = std::sync::Arc::new(Called::default());
    let waker = Waker::from(std::sync::Arc::clone(&called));
    let passed = slots(&log.reserve).park(end, Limit::Next, Some(Slots::own(slot)), &mut None, &waker);
    if passed == Ok(true) {
        called.0.store(true, Relaxed);
    }
    called
}

/// Runs several committers that each sleep until the boundary has passed their record.
fn parking(form: Form, committers: usize) {
    let log = Commits::new(form);
    let mut workers: Vec<_> = (0..committers).map(|_| log.reserve.take_slot().expect("a free slot")).collect();
    let mut own = workers.pop().expect("at least one");
    let others: Vec<_> = workers
        .into_iter()
        .enumerate()
        .map(|(number, mut slot)| {
            let log = std::sync::Arc::clone(&log);
            thread::spawn(move || commit_and_park(&log, form, &mut slot, number))
        })
        .collect();
    let mut called = vec![commit_and_park(&log, form, &mut own, committers - 1)];
    called.extend(others.into_iter().map(|other| other.join().unwrap()));
    // All is appended: a waiter that was not woken by now sleeps forever.
    assert!(called.iter().all(|called| called.0.load(Relaxed)), "P: parked for ever");
}

const ASLEEP: &str = "P: parked for ever";

/// Goal: no waiter sleeps forever. Method: two committers that sleep on each other's flag, with and without a bound
/// that is raised first (P).
#[test]
fn loom_committer_that_sleeps_is_woken() {
    let raised = Form { raised: true, ..BASE };
    check(
        "P base",
        || parking(BASE, 2),
        20,
        13_000,
        &[("WHITE_BY_STORE", 3, ASLEEP), ("DRAIN_WITH_OWN_END", 3, ASLEEP), ("NOTIFY_BEFORE_ENTERING", 3, ASLEEP)],
    );
    let (preemptions, floor) = bounds((3, 1_100), (20, 105_000));
    check("P base, raised", move || parking(raised, 2), preemptions, floor, &[("RAISE_BY_STORE", 3, ASLEEP)]);
    let (preemptions, floor) = bounds((3, 1_000), (20, 72_000));
    check("P help", || parking(HELP, 2), preemptions, floor, &[("WHITE_BY_STORE", 3, ASLEEP)]);
}

/// Goal: the duty to wake is handed on along a chain of black slots. Method: three committers (P3). The mistake shows
/// in the long form only, and not below three preemptions.
#[test]
fn loom_duty_to_wake_is_handed_on() {
    if !is_long() {
        check("P3", || parking(BASE, 3), 2, 13_000, &[]);
        return;
    }
    check("P3", || parking(BASE, 3), 3, 281_000, &[("DUTY_NOT_HANDED_ON", 3, ASLEEP)]);
}

/// Runs two workers between their positions and white, and one that sleeps behind the first. Both continue.
fn chain() {
    let log = Commits::new(BASE);
    let mut blockers = [(); 2].map(|()| {
        let mut slot = log.reserve.take_slot().expect("a free slot");
        slots(&log.reserve).blacken(&slot);
        let start = slots(&log.reserve).reserve(&mut slot, LEN).expect("the log is open");
        (slot, start.plus(LEN))
    });
    // The bounds differ: the first one holds the waiter, and the second comes after it.
    let (second, start) = (&mut blockers[1].0, blockers[1].1.get() - LEN);
    slots(&log.reserve).raise(second, Lsn::new(start));
    let mut sleeper = log.reserve.take_slot().expect("a free slot");
    let called = commit_and_park(&log, BASE, &mut sleeper, 2);
    assert!(!called.0.load(Relaxed), "two black slots are in the way");
    let leave =
        |log: &Commits, (mut slot, end): (Slot, Lsn)| slots(&log.reserve).leave_black(&mut slot, Flag::white(end));
    let [first, second] = blockers;
    let other = thread::spawn({
        let log = std::sync::Arc::clone(&log);
        move || leave(&log, first)
    });
    leave(&log, second);
    other.join().unwrap();
    assert!(called.0.load(Relaxed), "P: parked for ever");
}

/// Goal: a worker that was asked to notify and cannot hands the duty on. Method: two black slots, a waiter behind the
/// first; both leave in every order (the chain of P3 alone, so that it shows without preemptions).
#[test]
fn loom_duty_is_handed_on_to_the_next_black_slot() {
    check("chain", chain, 20, 4, &[("DUTY_NOT_HANDED_ON", 20, ASLEEP)]);
}

/// Runs a committer that sleeps behind another one, which leaves black while the log is closed; a third slot is idle.
fn closing() {
    let log = Commits::new(BASE);
    let _idle = log.reserve.take_slot().expect("a free slot");
    let (mut first, mut sleeper) = [(); 2].map(|()| log.reserve.take_slot().expect("a free slot")).into();
    slots(&log.reserve).blacken(&first);
    let start = slots(&log.reserve).reserve(&mut first, LEN).expect("the log is open");
    let called = commit_and_park(&log, BASE, &mut sleeper, 1);
    assert!(!called.0.load(Relaxed), "a black slot is in the way");
    let closer = thread::spawn({
        let log = std::sync::Arc::clone(&log);
        move || log.reserve.stop(State::Closed)
    });
    slots(&log.reserve).leave_black(&mut first, Flag::white(start.plus(LEN)));
    let reserved = log.reserve.has_reserved(start.plus(LEN));
    closer.join().unwrap();
    assert!(called.0.load(Relaxed), "P: parked for ever");
    assert!(reserved, "P: a record that is there is taken for one that was never appended");
}

/// Goal: closing neither drops the duty to wake nor hides where the log ends. Method: a waiter that is woken while the
/// log closes.
#[test]
fn loom_sleeper_is_woken_while_the_log_closes() {
    check("closing", closing, 20, 8, &[("CLOSED_BEFORE_LAST", 20, ASLEEP)]);
}

/// A disk that takes no time: a flush determines how far the log is complete and reads that far.
struct Disk {
    reserve: Reserve,
    durable: AtomicU64,
    /// How far the bytes were taken, and the bytes; only the leader uses it.
    taken: Mutex<(Lsn, Vec<u8>)>,
}

impl Disk {
    fn new(protocol: Protocol, ring_bytes: u64, record_bytes_max: u64) -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self {
            reserve: reserve(protocol, START, ring_bytes, record_bytes_max),
            durable: AtomicU64::new(START.get()),
            taken: Mutex::new((START, Vec::new())),
        })
    }

    /// Takes everything below the boundary, as a flush does; returns how far.
    fn flush(&self) -> Lsn {
        let mut taken = self.taken.lock();
        let from = taken.0;
        let early = mutant!("FLAGS_BEFORE_BOUNDARY")
            .then(|| helping(&self.reserve).staged(slots(&self.reserve), from, Lsn::MAX));
        let to = self.reserve.advance();
        if to > from {
            match early {
                // SAFETY: none: this is the mistake, and the model sees its race.
                Some(staged) => unsafe {
                    Helping::assemble(&self.reserve.ring, [from, to], &staged, &mut taken.1);
                },
                // SAFETY: ring R2: the lock makes this thread the only flush, and `to` came from a scan.
                None => unsafe { self.reserve.read_into(from, to, to, &mut taken.1) },
            }
            taken.0 = to;
        }
        self.durable.fetch_max(to.get(), Ordering::Release);
        to
    }

    /// Appends a record whose payload is `body`; returns its start.
    fn append(&self, slot: &mut Slot, body: &[u8]) -> Lsn {
        let body = [body];
        let record = Record::new(RecordHead::new(body[0].len(), KIND_DATA, 0), &body);
        self.reserve.append(slot, self, &record, |_| ()).expect("the log is open")
    }

    /// Compares what was taken with what was appended.
    fn judge(&self, appended: &[(Lsn, Vec<u8>)]) {
        let taken = self.taken.lock();
        for (start, body) in appended {
            let at = usize::try_from(start.bytes_since(START)).unwrap();
            let record = [RecordHead::new(body.len(), KIND_DATA, 0).as_slice(), body].concat();
            if start.plus(record.len() as u64) <= taken.0 {
                assert_eq!(taken.1[at..at + record.len()], record, "H: wrong bytes below the boundary");
            }
        }
    }
}

impl Room for Disk {
    fn durable(&self) -> Lsn {
        Lsn::new(self.durable.load(Ordering::Acquire))
    }

    fn wait_durable(&self, until: Lsn) -> Result<(), WalError> {
        let bell = std::sync::Arc::new(Bell::default());
        let waker = Waker::from(std::sync::Arc::clone(&bell));
        while self.flush() < until {
            if slots(&self.reserve).park(until, Limit::Next, None, &mut None, &waker) == Ok(false) {
                bell.wait();
            }
        }
        Ok(())
    }

    fn has_stopped(&self) -> bool {
        false
    }

    /// Called only in a deadlock that loom has found.
    fn poison(&self) {}

    fn refusal(&self, _: State) -> WalError {
        WalError::Closed
    }
}

/// Ten bytes of payload, so that a record takes two words of staging.
fn body(number: u8) -> Vec<u8> {
    (0..10).map(|at| number * 16 + at).collect()
}

/// Runs a worker that appends twice and a flush that takes complete records during that, from staging or from the ring.
fn flush_beside_a_copy() {
    let disk = Disk::new(Protocol::Help, 32, 12);
    let mut slot = disk.reserve.take_slot().expect("a free slot");
    let worker = thread::spawn({
        let disk = std::sync::Arc::clone(&disk);
        move || [1, 2].map(|number| (disk.append(&mut slot, &body(number)), body(number)))
    });
    disk.flush();
    let appended = worker.join().unwrap();
    disk.judge(&appended);
}

const WRONG: &str = "H: wrong bytes";

/// Goal: the flush takes a record's bytes from where they are, whole. Method: a staged record against the flush (H).
#[test]
fn loom_flush_takes_a_staged_record_whole() {
    check(
        "H",
        flush_beside_a_copy,
        20,
        74_000,
        &[
            ("NO_SECOND_LOOK", 20, WRONG),
            ("RESTAGE_BEFORE_WHITE", 20, WRONG),
            ("NO_READER_FENCE", 20, WRONG),
            ("NO_WRITER_FENCE", 20, WRONG),
            ("STAGED_BY_RELAXED_STORE", 20, RACE),
            ("STAGED_TO_WHITE", 20, RACE),
        ],
    );
}

/// Runs two workers, each of which flushes after its record, and a third flush (H2).
fn flush_beside_other_scans() {
    let disk = Disk::new(Protocol::Help, 32, 12);
    let workers: Vec<_> = [1, 2]
        .into_iter()
        .map(|number| {
            let (disk, mut slot) = (std::sync::Arc::clone(&disk), disk.reserve.take_slot().expect("a free slot"));
            thread::spawn(move || {
                let start = disk.append(&mut slot, &body(number));
                if number == 2 {
                    // The second scanner: an asynchronous committer.
                    let _ = slots(&disk.reserve).scan(Limit::Next, None);
                }
                (start, body(number))
            })
        })
        .collect();
    disk.flush();
    let appended: Vec<_> = workers.into_iter().map(|worker| worker.join().unwrap()).collect();
    disk.judge(&appended);
}

/// Goal: the flush decides where bytes are after it knows how far it reaches. Method: two workers, a second scanner
/// (H2).
#[test]
fn loom_flush_decides_after_the_boundary_where_bytes_are() {
    let (preemptions, floor) = bounds((2, 2_600), (4, 154_000));
    check("H2", flush_beside_other_scans, preemptions, floor, &[("FLAGS_BEFORE_BOUNDARY", 3, RACE)]);
}

/// Runs two workers that never appended and now append to a full ring of two records that is not flushed (RF).
fn full_ring_with_idle_workers(protocol: Protocol) {
    let disk = Disk::new(protocol, 4, LEN);
    let mut filler = disk.reserve.take_slot().expect("a free slot");
    for _ in 0..2 {
        disk.append(&mut filler, &[]);
    }
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (disk, mut slot) = (std::sync::Arc::clone(&disk), disk.reserve.take_slot().expect("a free slot"));
            thread::spawn(move || {
                disk.append(&mut slot, &[]);
            })
        })
        .collect();
    for worker in workers {
        worker.join().unwrap();
    }
    assert_eq!(disk.flush(), START.plus(4 * LEN), "RF: not all is complete");
}

/// Goal: no worker waits forever for room. Method: base, a full ring, two idle workers that hold the boundary back
/// (RF).
#[test]
fn loom_workers_that_wake_to_a_full_ring_go_on() {
    let (preemptions, floor) = bounds((2, 870), (3, 6_800));
    check(
        "RF base",
        || full_ring_with_idle_workers(Protocol::Base),
        preemptions,
        floor,
        &[("RAISE_LEFT_OUT", 2, "deadlock"), ("RAISE_BY_STORE", 3, "deadlock")],
    );
    let (preemptions, floor) = bounds((2, 13_000), (3, 116_000));
    check("RF help", || full_ring_with_idle_workers(Protocol::Help), preemptions, floor, &[]);
}

/// Runs a worker that stays staged while another goes once around the ring.
fn lapping() {
    let disk = Disk::new(Protocol::Help, 4, LEN);
    let (mut slow, mut fast) = (disk.reserve.take_slot().expect("a slot"), disk.reserve.take_slot().expect("a slot"));
    let straggler = thread::spawn({
        let disk = std::sync::Arc::clone(&disk);
        move || {
            disk.append(&mut slow, &[]);
        }
    });
    for _ in 0..2 {
        disk.append(&mut fast, &[]);
    }
    straggler.join().unwrap();
    assert_eq!(disk.flush(), START.plus(3 * LEN), "RF: not all is complete");
}

/// Goal: ring bytes of a straggler are not given to another worker. Method: one staged worker, and one that comes
/// around (RF).
#[test]
fn loom_ring_bytes_of_a_straggler_are_kept() {
    let (preemptions, floor) = bounds((2, 140), (3, 380));
    check("lapping", lapping, preemptions, floor, &[("RECYCLE_PASSES_STAGED", 2, RACE)]);
}
