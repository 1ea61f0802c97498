//! Threads on one family: nothing is lost, nothing is torn, nothing is left over.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use collie_base::{CfId, LiveSnapshots, Lsn, Xid};

use crate::row::tests::{TxnStatuses, rules, view};
use crate::{
    Basis, Change, Family, InsertOutcome, Pending, Row, ScanRequest, ScanStop, Span, TxnStatus, View, WriteOutcome, pin,
};

/// A log, a boundary, snapshots and garbage: the minimum that turns rows into transactions.
struct World {
    family: Family,
    fates: TxnStatuses,
    log: Mutex<u64>,
    boundary: AtomicU64,
    live: Mutex<Vec<u64>>,
    next_xid: AtomicU64,
    garbage: Mutex<Vec<Arc<Row>>>,
    /// Bytes of old versions.
    old: AtomicI64,
    committed: AtomicU64,
}

impl World {
    fn new() -> Self {
        Self {
            family: Family::new(CfId::new(1)),
            fates: TxnStatuses::default(),
            log: Mutex::new(10_000),
            boundary: AtomicU64::new(10_000),
            live: Mutex::default(),
            next_xid: AtomicU64::new(1),
            garbage: Mutex::default(),
            old: AtomicI64::new(0),
            committed: AtomicU64::new(0),
        }
    }

    fn snapshot(&self) -> u64 {
        let mut live = self.live.lock().unwrap();
        let snapshot = self.boundary.load(SeqCst);
        live.push(snapshot);
        snapshot
    }

    fn release(&self, snapshot: u64) {
        let mut live = self.live.lock().unwrap();
        let at = live.iter().position(|l| *l == snapshot).unwrap();
        live.swap_remove(at);
    }

    fn live(&self) -> LiveSnapshots {
        let live = self.live.lock().unwrap();
        let up = self.boundary.load(SeqCst);
        LiveSnapshots::new(Lsn::new(up), live.iter().copied().map(Lsn::new).collect())
    }

    /// Prunes as a writer does.
    fn prune(&self, pending: &Pending) {
        if pending.row().is_grown() {
            let pruned = pending.row().prune(&self.live(), &pin());
            self.old.fetch_sub(pruned.map_or(0, |pruned| i64::try_from(pruned.bytes).unwrap()), SeqCst);
        }
    }

    /// Publishes, lets other threads run, then stamps.
    fn commit(&self, xid: u64, pending: Vec<Pending>) {
        let csn = {
            let mut log = self.log.lock().unwrap();
            *log += 10;
            self.fates.set(Xid::new(xid), TxnStatus::Committed(Lsn::new(*log)));
            self.boundary.store(*log + 10, SeqCst);
            Lsn::new(*log)
        };
        std::thread::yield_now();
        for pending in pending {
            let row = pending.supersedes().then(|| Arc::clone(pending.row()));
            self.old.fetch_add(i64::try_from(pending.outdates()).unwrap(), SeqCst);
            pending.commit(csn);
            self.garbage.lock().unwrap().extend(row.filter(|row| row.queue()));
        }
        self.committed.fetch_add(1, SeqCst);
    }

    fn undo(&self, pending: Vec<Pending>) {
        pending.into_iter().rev().for_each(|p| self.family.undo(p));
    }

    fn collect(&self) {
        let live = self.live();
        let rows = std::mem::take(&mut *self.garbage.lock().unwrap());
        for row in rows {
            row.unqueue();
            let pruned = self.family.clean(&row, &live);
            self.old.fetch_sub(i64::try_from(pruned.bytes).unwrap(), SeqCst);
            if pruned.kept.is_some() && row.queue() {
                self.garbage.lock().unwrap().push(row);
            }
        }
    }

    fn rows_at(&self, view: &View) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let span = Span { start: std::ops::Bound::Unbounded, end: std::ops::Bound::Unbounded, reverse: false };
        let mut rows = BTreeMap::new();
        let stop = self.family.scan(ScanRequest { span, limit: usize::MAX }, view, &self.fates, &mut |key, value| {
            assert!(rows.insert(key.to_vec(), value.to_vec()).is_none(), "a key comes once");
            ControlFlow::Continue(())
        });
        assert_eq!(stop, ScanStop::Exhausted);
        rows
    }
}

/// A repeatable sequence of choices.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

const fn key(number: u64) -> [u8; 8] {
    number.to_be_bytes()
}

fn amount(value: &[u8]) -> i64 {
    i64::from_le_bytes(value.try_into().unwrap())
}

/// Goal: no half of a commit, no lost update, no lost version under concurrency. Method: two writers move amounts
/// between eight rows, and give up if they would have to wait or look again; two readers sum all rows in snapshots that
/// hold the horizon back, while a collector cleans; the sum never changes.
#[test]
fn concurrent_transfers_keep_the_sum_in_every_snapshot() {
    const ROWS: u64 = 8;
    const COMMITS: u64 = 1500;
    let world = &World::new();
    (0..ROWS).for_each(|row| world.family.load(&key(row), Some(&100_i64.to_le_bytes()), Lsn::new(5000)));
    let add = |xid: u64, snapshot: u64, row: u64, change: i64| {
        let now = view(xid, snapshot, 1);
        let old = world.family.read(&key(row), &now, &world.fates, &pin()).map(|value| amount(value));
        let new = (old.expect("no row is ever deleted") + change).to_le_bytes();
        let rules = rules(xid);
        match world.family.write(&key(row), Change::Put(&new), Basis::Snapshot, &now, &rules, &world.fates) {
            WriteOutcome::Done(pending) => {
                world.prune(&pending);
                Some(pending)
            }
            _ => None,
        }
    };
    std::thread::scope(|scope| {
        for seed in 0..2 {
            scope.spawn(move || {
                let mut dice = Dice(seed);
                while world.committed.load(SeqCst) < COMMITS {
                    let (from, to) = (dice.roll(ROWS), dice.roll(ROWS));
                    let (xid, snapshot) = (world.next_xid.fetch_add(1, SeqCst), world.snapshot());
                    let mut pending = Vec::new();
                    pending.extend(add(xid, snapshot, from, -1));
                    if from != to && !pending.is_empty() {
                        pending.extend(add(xid, snapshot, to, 1));
                    }
                    if pending.len() == 2 && dice.roll(4) > 0 {
                        world.commit(xid, pending);
                    } else {
                        world.undo(pending);
                    }
                    world.release(snapshot);
                }
            });
            scope.spawn(move || {
                while world.committed.load(SeqCst) < COMMITS {
                    let snapshot = world.snapshot();
                    for _ in 0..3 {
                        let rows = world.rows_at(&view(0, snapshot, 0));
                        assert_eq!(rows.values().map(|value| amount(value)).sum::<i64>(), 800, "snapshot {snapshot}");
                    }
                    world.release(snapshot);
                    world.collect();
                }
            });
        }
    });
    world.collect();
    assert_eq!((world.family.stat().rows, world.old.load(SeqCst)), (ROWS, 0));
}

/// Goal: deleting, removing from memory and inserting again do not interfere with each other. Method: three writers
/// turn four keys on and off, some roll back, a collector removes dead rows all the time; the final state is the sum of
/// what was committed, and memory holds nothing else.
#[test]
fn keys_turned_on_and_off_under_a_collector_end_as_committed() {
    const KEYS: usize = 4;
    const COMMITS: u64 = 3000;
    let world = &World::new();
    let on: &[AtomicI64; KEYS] = &Default::default();
    std::thread::scope(|scope| {
        for seed in 0..3 {
            scope.spawn(move || {
                let mut dice = Dice(seed);
                while world.committed.load(SeqCst) < COMMITS {
                    let number = dice.roll(KEYS as u64);
                    let (xid, snapshot) = (world.next_xid.fetch_add(1, SeqCst), world.snapshot());
                    let (now, rules) = (view(xid, snapshot, 1), rules(xid));
                    let key = key(number);
                    let (pending, change) = match world.family.insert(&key, b"on", &now, &rules, &world.fates) {
                        InsertOutcome::Done(pending) | InsertOutcome::DoneAfter { pending, .. } => (Some(pending), 1),
                        InsertOutcome::Duplicate { .. } => {
                            match world.family.write(&key, Change::Delete, Basis::Snapshot, &now, &rules, &world.fates)
                            {
                                WriteOutcome::Done(pending) => (Some(pending), -1),
                                _ => (None, 0),
                            }
                        }
                        _ => (None, 0),
                    };
                    if let Some(pending) = pending {
                        if dice.roll(3) > 0 {
                            world.commit(xid, vec![pending]);
                            on[usize::try_from(number).unwrap()].fetch_add(change, SeqCst);
                        } else {
                            world.undo(vec![pending]);
                        }
                    }
                    world.release(snapshot);
                }
            });
        }
        scope.spawn(|| {
            while world.committed.load(SeqCst) < COMMITS {
                world.collect();
                std::thread::yield_now();
            }
        });
    });
    world.collect();
    let expected: Vec<i64> = on.iter().map(|count| count.load(SeqCst)).collect();
    let rows = world.rows_at(&view(0, u64::MAX, 0));
    let found: Vec<i64> = (0..KEYS as u64).map(|number| i64::from(rows.contains_key(&key(number)[..]))).collect();
    assert_eq!(found, expected);
    let left = u64::try_from(expected.iter().sum::<i64>()).unwrap();
    let found = (world.family.stat().rows, world.garbage.lock().unwrap().len(), world.old.load(SeqCst));
    assert_eq!(found, (left, 0, 0));
}
