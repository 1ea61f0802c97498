//! Larger mixes than loom can hold, under shuttle: four sessions over three rows and one table lock, with waits of
//! every kind (rows, shared rows, a table), deadlocks, savepoints, rollbacks, rows that are deleted and created again,
//! cleaning, and commits whose versions a tick stamps, on the product's own rows, transactions and queues. Run with
//! `--cfg shuttle`; `SHUTTLE_LONG=1` draws more.
//!
//! Schedules are drawn by two rules, any thread next and priorities with a few changes (PCT), from fixed seeds.
//!
//! Each execution is checked for these rules:
//! - X1. Every snapshot shows amounts that add up, and shows the same amounts when read again.
//! - X2. A row held FOR SHARE does not change until the holder ends.
//! - X3. No committed change is lost and no rolled-back one stays: the rows end as the ledger of commits says.
//! - X4. A table lock is exclusive: two sessions never hold it.
//! - X5. Every session ends: none sleeps for ever, and no lock is left.
//! - X6. Once there is no reader, no old version is left, and none is counted.
//!
//! Each mistake must be caught by one of these rules, and the test names it. Orderings are not checked here, since
//! shuttle is sequentially consistent; the loom models check them. The log is one mutex; the lock-free one has its own
//! mixes (`collie-wal`).

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_store::{Basis, Change, Family, InsertOutcome, Origin, Pending, View, WriteOutcome, WriteRules, pin};
use collie_sync::Mutex;
use collie_sync::atomic::{AtomicU64, Ordering};
use collie_sync::model::{Draw, Explored, below, sample};
use collie_sync::{mutant, thread};
use collie_txn::{
    Appended, Blocker, CommitLog, CommitRecord, Ended, Isolation, LockTarget, Mark, Options, RowKey, RowLockRequest,
    Session, Start, StatementKind, TableLock, TableLockMode, Transaction, TxnError, Txns, WriteSet as _,
};

use crate::families::Families;
use crate::gc::garbage::{Garbage, Reach};
use crate::log::txn_statuses::TxnStatuses;
use crate::session::writes::Writes;

const ROWS: usize = 3;
const OPENING: i64 = 100;
const SESSIONS: usize = 4;
const TRANSACTIONS: usize = 3;
/// Commits of more versions than this leave the stamping to a tick.
const STAMPED_AT_COMMIT_MAX: usize = 1;
const TABLE: LockTarget = LockTarget::Table(7);

/// A log under one mutex; everything is durable at once.
#[derive(Debug)]
struct Line {
    next: Mutex<u64>,
    boundary: AtomicU64,
}

impl CommitLog for Line {
    type Writer = ();
    type Error = Infallible;

    fn append(&self, _: &mut (), _: u8, _: &[&[u8]]) -> Result<Appended, Infallible> {
        unreachable!("the mixes append commits only")
    }

    fn append_commit(&self, (): &mut (), _: u8, _: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, Infallible> {
        let mut next = self.next.lock();
        let (start, end) = (*next, *next + 2);
        *next = end;
        if mutant!("PUBLISH_AFTER_BOUNDARY") {
            self.boundary.store(end, Ordering::Release);
            publish(Lsn::new(start));
        } else {
            publish(Lsn::new(start));
            self.boundary.store(end, Ordering::Release);
        }
        Ok(Appended { start: Lsn::new(start), end: Lsn::new(end) })
    }

    fn boundary(&self) -> Lsn {
        Lsn::new(self.boundary.load(Ordering::Acquire))
    }

    fn durable(&self) -> Lsn {
        self.boundary()
    }
}

struct World {
    txns: Arc<Txns<Line>>,
    families: Arc<Families>,
    garbage: Arc<Garbage>,
    family: Arc<Family>,
    /// The amount that commits added to each row.
    ledger: [AtomicI64; ROWS],
    /// Sessions that hold the table exclusively.
    inside: AtomicUsize,
}

fn key(row: usize) -> [u8; 1] {
    [u8::try_from(row).expect("few rows")]
}

fn amount(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().expect("an amount"))
}

impl World {
    fn new() -> Arc<Self> {
        let next = Lsn::FIRST.get() + 2;
        let log = Line { next: Mutex::new(next), boundary: AtomicU64::new(next) };
        let txns = Txns::new(log, Options { xid_slots: 4, sessions_max: SESSIONS + 1, first_xid: Xid::new(1) });
        let families = Arc::new(Families::new());
        let family = families.get_or_make(CfId::new(1));
        (0..ROWS).for_each(|row| family.load(&key(row), Some(&OPENING.to_le_bytes()), Lsn::FIRST));
        let (ledger, inside) = (Default::default(), AtomicUsize::new(0));
        Arc::new(Self { txns, families, garbage: Arc::default(), family, ledger, inside })
    }

    /// Runs a round of background work.
    fn tick(&self) {
        self.txns.tick(Duration::ZERO);
        let live = self.txns.with_live(Clone::clone);
        let _ = self.garbage.clean(&self.families, &live, Reach::Due);
    }

    /// Prunes a row as a writer does after its write.
    fn prune(&self, written: &Pending) {
        let pruned = self.txns.with_live(|live| written.row().prune(live, &pin()));
        self.garbage.freed(pruned.map_or(0, |pruned| pruned.bytes));
    }

    /// Returns the amount of a row; 0 if there is none.
    fn read(&self, row: usize, view: &View) -> i64 {
        let pin = pin();
        self.family.read(&key(row), view, &TxnStatuses(&self.txns), &pin).map_or(0, |value| amount(value))
    }
}

/// A transaction cannot continue.
struct Refused;

/// An action on a row.
#[derive(Clone, Copy)]
enum What {
    Add(i64),
    Delete,
    Lock(LockStrength),
}

impl What {
    fn delta(self, before: i64) -> i64 {
        match self {
            Self::Add(delta) => delta,
            Self::Delete => -before,
            Self::Lock(_) => 0,
        }
    }

    fn change(self, after: &[u8]) -> Change<'_> {
        match self {
            Self::Add(_) => Change::Put(after),
            Self::Delete => Change::Delete,
            Self::Lock(strength) => Change::Lock(strength),
        }
    }
}

struct Client {
    world: Arc<World>,
    session: Session<Line>,
    writes: Writes<Line>,
}

/// One open transaction, and the amounts that its commit will add.
struct Open<'a> {
    client: &'a mut Client,
    t: Transaction,
    added: [i64; ROWS],
    holds_table: bool,
}

impl Client {
    fn new(world: &Arc<World>) -> Self {
        let session = world.txns.session().expect("a free slot");
        let writes = Writes::new(&world.families, &world.garbage, &world.txns, STAMPED_AT_COMMIT_MAX);
        Self { world: Arc::clone(world), session, writes }
    }

    fn begin(&mut self, isolation: Isolation) -> Open<'_> {
        let t = self.session.begin(isolation, false);
        Open { client: self, t, added: [0; ROWS], holds_table: false }
    }
}

impl Open<'_> {
    fn begin_statement(&mut self) -> View {
        loop {
            match self.client.session.begin_statement(&mut self.t, StatementKind::Write).expect("few commands") {
                Start::Ready(snapshot) => return View { snapshot, me: self.t.xid(), command: self.t.command() },
                // It acted on a commit that is published and not yet below the boundary.
                Start::Wait(_) => thread::yield_now(),
            }
        }
    }

    fn end_statement(&mut self) {
        self.client.session.end_statement(&mut self.t);
    }

    fn wait_for_row(&self, row: usize, holder: Xid, strength: LockStrength) -> Result<(), Refused> {
        let world = &self.client.world;
        let (key, family) = (key(row), &world.family);
        let blocker = Blocker::Row(RowLockRequest { row: RowKey::new(family.id(), &key), holder, strength });
        let is_held = || family.is_held(&key, holder, strength, &TxnStatuses(&world.txns));
        let wait = self.client.session.wait_while(&blocker, is_held);
        match wait.block(None) {
            Ok(()) => Ok(()),
            Err(TxnError::Deadlock { .. }) => Err(Refused),
            Err(other) => panic!("{other}"),
        }
    }

    /// Changes, deletes, locks or creates one row, as the engine does, and returns its newest amount before that;
    /// `None` if there is no row to delete or lock.
    fn write(&mut self, row: usize, what: What) -> Result<Option<i64>, Refused> {
        let xid = self.client.session.assign_xid(&mut self.t).expect("it may write");
        let view = self.begin_statement();
        let world = Arc::clone(&self.client.world);
        let rules = WriteRules { xid, repeatable: self.is_repeatable() };
        let (family, fates, key) = (&world.family, TxnStatuses(&world.txns), key(row));
        let mut before = world.read(row, &view);
        let mut basis = Basis::Snapshot;
        let strength = loop {
            let after = (before + what.delta(before)).to_le_bytes();
            let change = what.change(&after);
            let strength = change.strength();
            match family.write(&key, change, basis, &view, &rules, &fates) {
                WriteOutcome::Done(pending) => {
                    world.prune(&pending);
                    self.client.writes.push(family.id(), pending);
                }
                WriteOutcome::Shared(lock) => self.client.writes.push_share(lock),
                WriteOutcome::Held => {}
                WriteOutcome::Wait(holder) => {
                    self.wait_for_row(row, holder, strength)?;
                    continue;
                }
                WriteOutcome::Changed { csn, value } => {
                    self.client.session.saw(csn);
                    (before, basis) = (amount(&value), Basis::After(csn));
                    continue;
                }
                WriteOutcome::Gone(csn) => {
                    self.saw(&view, csn);
                    let What::Add(delta) = what else {
                        self.end_statement();
                        return Ok(None);
                    };
                    match self.make(row, delta, &view, &rules)? {
                        None => before = 0,
                        Some((newer, after)) => {
                            (before, basis) = (newer, after);
                            continue;
                        }
                    }
                }
                WriteOutcome::Conflict(csn) => return Err(self.conflict(csn)),
                other => panic!("{other:?}"),
            }
            break strength;
        };
        self.client.session.took_row(&self.t, family.id(), &key, strength);
        self.added[row] += what.delta(before);
        self.end_statement();
        Ok(Some(before))
    }

    /// Creates a row that did not exist; if it exists by now, returns its amount.
    fn make(
        &mut self,
        row: usize,
        delta: i64,
        view: &View,
        rules: &WriteRules,
    ) -> Result<Option<(i64, Basis)>, Refused> {
        let world = Arc::clone(&self.client.world);
        loop {
            let value = delta.to_le_bytes();
            match world.family.insert(&key(row), &value, view, rules, &TxnStatuses(&world.txns)) {
                InsertOutcome::Done(pending) => {
                    world.prune(&pending);
                    self.client.writes.push(world.family.id(), pending);
                    return Ok(None);
                }
                InsertOutcome::DoneAfter { pending, csn } => {
                    world.prune(&pending);
                    self.client.writes.push(world.family.id(), pending);
                    self.saw(view, Some(csn));
                    return Ok(None);
                }
                InsertOutcome::Wait(holder) => self.wait_for_row(row, holder, LockStrength::Update)?,
                InsertOutcome::Duplicate { origin: Origin::Committed(csn), value } => {
                    self.saw(view, Some(csn));
                    if csn < view.snapshot {
                        return Ok(Some((amount(&value), Basis::Snapshot)));
                    }
                    if rules.repeatable {
                        return Err(self.conflict(csn));
                    }
                    return Ok(Some((amount(&value), Basis::After(csn))));
                }
                InsertOutcome::Conflict(csn) => return Err(self.conflict(csn)),
                other => panic!("{other:?}"),
            }
        }
    }

    fn is_repeatable(&self) -> bool {
        self.t.isolation() != Isolation::ReadCommitted
    }

    fn saw(&mut self, view: &View, csn: Option<Lsn>) {
        if let Some(csn) = csn.filter(|csn| *csn >= view.snapshot) {
            self.client.session.saw(csn);
        }
    }

    fn conflict(&mut self, csn: Lsn) -> Refused {
        let _ = self.client.session.conflict(&self.t, csn);
        Refused
    }

    fn add(&mut self, row: usize, delta: i64) -> Result<(), Refused> {
        self.write(row, What::Add(delta)).map(drop)
    }

    /// Checks that the amounts of one statement add up, twice (X1).
    fn look(&mut self) {
        let view = self.begin_statement();
        let looks = [0, 1].map(|_| (0..ROWS).map(|row| self.client.world.read(row, &view)).collect::<Vec<_>>());
        assert_eq!(looks[0], looks[1], "X1: the answer changed inside a statement");
        let own: i64 = self.added.iter().sum();
        let rows = i64::try_from(ROWS).expect("few");
        assert_eq!(looks[0].iter().sum::<i64>(), OPENING * rows + own, "X1: half a transaction is seen: {looks:?}");
        self.end_statement();
    }

    /// Holds two rows FOR SHARE and checks that they do not change (X2).
    fn share(&mut self, rows: [usize; 2]) -> Result<(), Refused> {
        let mut held = Vec::new();
        for row in rows {
            if self.write(row, What::Lock(LockStrength::Share))?.is_some() {
                held.push(row);
            }
        }
        let look = |open: &mut Self| {
            let view = open.begin_statement();
            let amounts: Vec<i64> = held.iter().map(|row| open.client.world.read(*row, &view)).collect();
            open.end_statement();
            amounts
        };
        let before = look(self);
        thread::yield_now();
        assert_eq!(look(self), before, "X2: changed under a share lock");
        Ok(())
    }

    /// Takes the exclusive table lock and checks it (X4).
    fn lock_table(&mut self) -> Result<(), Refused> {
        while let TableLock::Wait(blocker) =
            self.client.session.lock_table(&mut self.t, TABLE, TableLockMode::AccessExclusive)
        {
            match self.client.session.wait(&blocker).block(None) {
                Ok(()) => {}
                Err(TxnError::Deadlock { .. }) => return Err(Refused),
                Err(other) => panic!("{other}"),
            }
        }
        if !self.holds_table {
            assert_eq!(self.client.world.inside.fetch_add(1, Relaxed), 0, "X4: two hold the table");
            self.holds_table = true;
        }
        Ok(())
    }

    fn savepoint(&self) -> (Mark, [i64; ROWS]) {
        (self.t.savepoint(&self.client.writes), self.added)
    }

    fn roll_back_to(&mut self, savepoint: (Mark, [i64; ROWS])) {
        self.client.session.rollback_to(&mut self.t, savepoint.0, &mut self.client.writes);
        self.added = savepoint.1;
    }

    fn leave_table(&self) {
        if self.holds_table {
            self.client.world.inside.fetch_sub(1, Relaxed);
        }
    }

    fn commit(self) {
        self.leave_table();
        let Client { world, session, writes } = self.client;
        // The ledger comes first: a thread that sees the rows finds the amounts in it.
        (0..ROWS).for_each(|row| _ = world.ledger[row].fetch_add(self.added[row], Relaxed));
        let record = (self.t.xid().is_some() && writes.position() > 0).then_some(CommitRecord { tag: 1, bytes: &[] });
        match session.commit(self.t, &mut (), record, writes) {
            Ok(Ended::Committed { locks, .. }) => drop(locks),
            Ok(Ended::Nothing) => assert_eq!(self.added, [0; ROWS], "X3: a change was dropped"),
            other => panic!("{other:?}"),
        }
    }

    fn roll_back(self) {
        self.leave_table();
        self.client.session.abort(self.t, &mut self.client.writes);
    }
}

/// Runs one transaction of the mix.
fn act(open: &mut Open<'_>) -> Result<(), Refused> {
    let (from, to) = (below(ROWS), below(ROWS));
    match below(8) {
        0 | 1 => {
            open.add(from, -5)?;
            open.add(to, 5)?;
        }
        2 => {
            // The changes after the savepoint are undone while the transaction continues.
            open.add(from, -1)?;
            let savepoint = open.savepoint();
            open.add(to, 50)?;
            open.add(from, 50)?;
            open.roll_back_to(savepoint);
            open.add(to, 1)?;
        }
        3 => open.share([from, to])?,
        4 => {
            // Shared locks first, then changes: two of these transactions deadlock.
            open.write(from, What::Lock(LockStrength::Share))?;
            open.add(from, 3)?;
            open.add(to, -3)?;
        }
        5 => {
            // The whole amount of a row moves to another one, which may be deleted as well.
            let amount = open.write(from, What::Delete)?;
            open.add(to, amount.unwrap_or_default())?;
        }
        6 => {
            // KEY SHARE conflicts with the deletion of the row, which is rolled back.
            open.write(from, What::Lock(LockStrength::KeyShare))?;
            open.add(to, 4)?;
            let savepoint = open.savepoint();
            let _ = open.write(to, What::Delete)?;
            open.roll_back_to(savepoint);
            open.add(from, -4)?;
        }
        _ => {
            open.lock_table()?;
            open.add(from, 2)?;
            open.add(to, -2)?;
        }
    }
    Ok(())
}

fn session(world: &Arc<World>) {
    let mut client = Client::new(world);
    for _ in 0..TRANSACTIONS {
        let isolation = if below(3) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let mut open = client.begin(isolation);
        open.look();
        let done = act(&mut open);
        if done.is_ok() {
            open.look();
        }
        if done.is_ok() && below(4) > 0 {
            open.commit()
        } else {
            open.roll_back()
        }
        if below(3) == 0 {
            world.tick();
        }
    }
}

fn mix() {
    let world = World::new();
    let sessions: Vec<_> = (0..SESSIONS)
        .map(|_| {
            let world = Arc::clone(&world);
            thread::spawn(move || session(&world))
        })
        .collect();
    sessions.into_iter().for_each(|session| session.join().expect("a session panicked"));
    world.tick();
    assert_eq!((world.garbage.bytes(), world.garbage.len()), (0, (0, 0)), "X6: old versions are left");
    assert_eq!((world.txns.waiting(), world.txns.row_shares(), world.txns.unstamped()), (0, 0, 0), "X5: left behind");
    let view = View { snapshot: world.txns.log().boundary(), me: None, command: 0 };
    for row in 0..ROWS {
        let ledger = OPENING + world.ledger[row].load(Relaxed);
        assert_eq!(world.read(row, &view), ledger, "X3: row {row} is not what was committed");
    }
}

const SEED: u64 = 1;
/// The rules: any thread next, and priorities with two numbers of changes.
const DEPTHS: [Option<usize>; 3] = [None, Some(3), Some(6)];

/// Goal: X1-X6 hold however sessions mix. Method: drawn schedules under each rule.
#[test]
fn shuttle_sessions_keep_their_promises_in_a_mix() {
    let executions = if std::env::var_os("SHUTTLE_LONG").is_some() { 200_000 } else { 3_000 };
    for depth in DEPTHS {
        match sample(None, Draw { seed: SEED, depth, executions }, mix) {
            Explored::Passed(passed) => {
                eprintln!("sessions: {passed} executions, {depth:?}");
                assert_eq!(passed, executions as u64, "not all were run");
            }
            Explored::Failed(message) => panic!("{message}"),
        }
    }
}

/// Goal: the mix detects mistakes. Method: one mistake at a time, until one of its executions fails as intended.
#[test]
fn shuttle_mistakes_of_sessions_are_caught() {
    const EXECUTIONS_MAX: usize = 10_000;
    const SEEN: &str = "X1: ";
    const SHARED: &str = "X2: ";
    const LOST: &str = "X3: ";
    const ASLEEP: &str = "deadlock";
    const UNKNOWN: &str = "is in no map and its version is not stamped";
    let mistakes: [(&'static str, &[&str]); 12] = [
        ("ROW_LOOKED_AT_ONCE", &[SEEN, LOST]),
        ("ROW_CONFLICT_IGNORED", &[SEEN, LOST]),
        ("ROW_UNFINISHED_IGNORED", &[SEEN, LOST]),
        ("ROW_HEAD_STORED", &[SEEN, LOST, SHARED]),
        ("ROW_SHARED_IGNORED", &[SHARED]),
        ("SHARE_RELEASED_FOR_ALL", &[SHARED]),
        ("PUBLISH_AFTER_BOUNDARY", &[SEEN]),
        ("STAMPED_WHEN_DONE", &[UNKNOWN]),
        ("PRUNE_READERS_IGNORED", &[SEEN]),
        ("DELETED_ROW_FORGOTTEN", &["X6: "]),
        ("LEAVE_WITHOUT_HANDING_ON", &[ASLEEP]),
        ("PARK_AFTER_THE_END", &[ASLEEP]),
    ];
    for (mistake, meant) in mistakes {
        let caught = DEPTHS.iter().find_map(|depth| {
            let draw = Draw { seed: SEED, depth: *depth, executions: EXECUTIONS_MAX };
            // On a separate thread: a failed execution leaves rows behind, which are dropped outside of any execution.
            match std::thread::spawn(move || sample(Some(mistake), draw, mix)).join().expect("it reports") {
                Explored::Passed(_) => None,
                Explored::Failed(message) => Some(message),
            }
        });
        let Some(message) = caught else { panic!("{mistake} goes unnoticed") };
        assert!(meant.iter().any(|meant| message.contains(meant)), "{mistake}: not by {meant:?}: {message}");
        eprintln!("{mistake}: caught: {message}");
    }
}
