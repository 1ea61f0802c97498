//! Compares SERIALIZABLE with serial execution: random histories of three sessions, replayed one transaction after the
//! other.
//!
//! The checker knows nothing of read sets: it takes the committed transactions in the order of their CSNs (one that
//! wrote nothing is placed at its snapshot), runs each alone on a plain map, and compares every answer and the final
//! state.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;

use collie_base::Lsn;
use collie_env::SimFiles;

use crate::planted::with_planted;
use crate::{
    Basis, Db, EngineError, Env, Family, Insert, Isolation, KeyRange, LockStrength, Mark, Options, Outcome, Session,
    StatementKind, Write,
};

type Rows = BTreeMap<u8, u32>;

/// An operation of a transaction, with its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Op {
    Get(u8, Option<u32>),
    /// First key, last key, whether backwards, the limit, and the rows returned.
    Scan(u8, u8, bool, usize, Vec<(u8, u32)>),
    /// Whether the key was free.
    Insert(u8, u32, bool),
    /// Whether there was a row.
    Put(u8, u32, bool),
    Delete(u8, bool),
    Lock(u8, bool),
    Savepoint,
    RollbackTo,
}

/// One committed transaction: its place in the order, and its operations.
#[derive(Debug)]
struct Done {
    at: (Lsn, bool),
    ops: Vec<Op>,
}

#[derive(Default, Debug, Clone, Copy)]
struct Count {
    wrote: u64,
    only_read: u64,
    refused: u64,
    conflicts: u64,
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn key(&mut self) -> u8 {
        u8::try_from(self.below(4)).unwrap()
    }
}

fn still() -> Db {
    let mut options = Options { background: false, ..Options::small() };
    options.log.threads = false;
    Db::open(Path::new("/db"), options, Env::over(SimFiles::default(), 1), &mut |_| ()).unwrap().0
}

fn number(value: &[u8]) -> u32 {
    u32::from_le_bytes(value.try_into().unwrap())
}

/// One session and its open transaction.
struct Client {
    session: Session,
    ops: Vec<Op>,
    mark: Option<(Mark, usize)>,
}

impl Client {
    fn new(db: &Db) -> Self {
        Self { session: db.session().unwrap(), ops: Vec::new(), mark: None }
    }

    fn forget(&mut self) {
        self.session.rollback();
        self.ops.clear();
        self.mark = None;
    }

    /// Makes one step, in its own statement. It does not wait for a lock, since no other session runs meanwhile.
    fn step(&mut self, f: &Family, dice: &mut Dice, value: u32, count: &mut Count) {
        if !self.session.in_transaction() {
            self.session.begin(Isolation::Serializable, false).unwrap();
        }
        self.session.begin_statement(StatementKind::Write).unwrap();
        let outcome = self.act(f, dice, value);
        self.session.end_statement();
        match outcome {
            Ok(op) => self.ops.extend(op),
            Err(EngineError::Conflict) => {
                count.conflicts += 1;
                self.forget();
            }
            Err(EngineError::ReadChanged) => {
                count.refused += 1;
                self.forget();
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn act(&mut self, f: &Family, dice: &mut Dice, value: u32) -> Result<Option<Op>, EngineError> {
        let (key, bytes) = (dice.key(), value.to_le_bytes());
        let write = |outcome| match outcome {
            Outcome::Done => Some(true),
            Outcome::Gone => Some(false),
            Outcome::Wait(_) => None,
            other => panic!("{other:?}"),
        };
        Ok(match dice.below(19) {
            0..=2 => Some(Op::Get(key, self.session.get_with(f, &[key], number)?)),
            3..=4 => {
                let (other, reverse) = (dice.key(), dice.below(2) == 1);
                let (low, high) = (key.min(other), key.max(other));
                let limit = if dice.below(3) == 0 { 1 } else { 100 };
                let range = KeyRange { start: Bound::Included(vec![low]), end: Bound::Included(vec![high]) };
                let mut rows = Vec::new();
                let _ = self.session.scan(f, &range, None, reverse, limit, &mut |key, value| {
                    rows.push((key[0], number(value)));
                    ControlFlow::Continue(())
                })?;
                Some(Op::Scan(low, high, reverse, limit, rows))
            }
            5..=7 => match self.session.insert(f, &[key], &bytes)? {
                Insert::Done => Some(Op::Insert(key, value, true)),
                Insert::Duplicate(_) => Some(Op::Insert(key, value, false)),
                Insert::Wait(_) => None,
            },
            8..=10 => write(self.session.write(f, &[key], Basis::Snapshot, Write::Put(&bytes))?)
                .map(|found| Op::Put(key, value, found)),
            11..=12 => write(self.session.write(f, &[key], Basis::Snapshot, Write::Delete)?)
                .map(|found| Op::Delete(key, found)),
            13 => write(self.session.write(f, &[key], Basis::Snapshot, Write::Lock(LockStrength::Update))?)
                .map(|found| Op::Lock(key, found)),
            14..=15 => {
                self.mark = Some((self.session.savepoint(), self.ops.len()));
                Some(Op::Savepoint)
            }
            _ => self.mark.map(|(mark, _)| {
                self.session.rollback_to(mark);
                Op::RollbackTo
            }),
        })
    }

    /// Ends the transaction; if it committed, adds it to `done`.
    fn end(&mut self, done: &mut Vec<Done>, count: &mut Count) {
        let Some(snapshot) = self.session.snapshot() else { return };
        match self.session.commit(count.wrote.is_multiple_of(3)) {
            Ok(ack) => {
                let at = match ack.block().unwrap().csn {
                    Some(csn) => {
                        count.wrote += 1;
                        (csn, true)
                    }
                    None => {
                        count.only_read += 1;
                        (snapshot, false) // before a commit at its snapshot, which it does not see
                    }
                };
                done.push(Done { at, ops: std::mem::take(&mut self.ops) });
            }
            Err(EngineError::ReadChanged) => count.refused += 1,
            Err(error) => panic!("{error}"),
        }
        self.forget();
    }
}

/// Runs the transactions one after the other; returns the first answer that would differ.
fn replay(mut done: Vec<Done>, last: &Rows) -> Result<(), String> {
    done.sort_by_key(|done| done.at);
    let mut rows = Rows::new();
    for Done { at, ops } in &done {
        let mut saved = rows.clone();
        for op in ops {
            let same = match op {
                Op::Get(key, value) => rows.get(key) == value.as_ref(),
                Op::Scan(low, high, reverse, limit, found) => {
                    let mut all: Vec<_> = rows.range(low..=high).map(|(key, value)| (*key, *value)).collect();
                    if *reverse {
                        all.reverse();
                    }
                    all.truncate(*limit);
                    all == *found
                }
                Op::Insert(key, value, free) => {
                    let is_free = !rows.contains_key(key);
                    rows.entry(*key).or_insert(*value);
                    is_free == *free
                }
                Op::Put(key, value, found) => rows.get_mut(key).map(|row| *row = *value).is_some() == *found,
                Op::Delete(key, found) => rows.remove(key).is_some() == *found,
                Op::Lock(key, found) => rows.contains_key(key) == *found,
                Op::Savepoint => {
                    saved = rows.clone();
                    true
                }
                Op::RollbackTo => {
                    rows = saved.clone();
                    true
                }
            };
            if !same {
                return Err(format!("{op:?} of the transaction at {at:?} is not what serial execution answers"));
            }
        }
    }
    if rows == *last { Ok(()) } else { Err(format!("the final state is {last:?}, serial execution leaves {rows:?}")) }
}

/// Runs one random history on a new family, and checks it.
fn history(db: &Db, seed: u64, count: &mut Count) -> Result<(), String> {
    let cf = db.create_family();
    let f: Arc<Family> = db.family(cf);
    let mut dice = Dice(seed);
    let mut clients = [Client::new(db), Client::new(db), Client::new(db)];
    let mut done = Vec::new();
    // The family begins with two rows.
    let mut first = Client::new(db);
    first.session.begin(Isolation::Serializable, false).unwrap();
    first.session.begin_statement(StatementKind::Write).unwrap();
    for key in [1, 2] {
        assert_eq!(first.session.insert(&f, &[key], &u32::from(key).to_le_bytes()).unwrap(), Insert::Done);
        first.ops.push(Op::Insert(key, u32::from(key), true));
    }
    first.end(&mut done, &mut Count::default());
    for step in 0..30 {
        let client = &mut clients[usize::try_from(dice.below(3)).unwrap()];
        match dice.below(7) {
            0 => client.end(&mut done, count),
            1 if dice.below(4) == 0 => client.forget(),
            2 if dice.below(4) == 0 => drop(db.tick()),
            _ => client.step(&f, &mut dice, 100 + step, count),
        }
    }
    clients.iter_mut().for_each(|client| client.end(&mut done, count));
    drop(clients);
    let mut last = Rows::new();
    first.session.begin(Isolation::RepeatableRead, false).unwrap();
    first.session.begin_statement(StatementKind::Write).unwrap();
    let _ = first
        .session
        .scan(&f, &KeyRange::ALL, None, false, 100, &mut |key, value| {
            last.insert(key[0], number(value));
            ControlFlow::Continue(())
        })
        .unwrap();
    drop(first);
    db.drop_family(cf);
    replay(done, &last).map_err(|text| format!("history {seed}: {text}"))
}

/// Goal: transactions that commit at SERIALIZABLE act as if run one after the other, in the order of commits. Method:
/// 12,000 random histories of three sessions on four keys (reads, ranges in both directions, inserts that meet rows,
/// updates, deletions, locks, savepoints, cleaning of old versions), each replayed serially.
#[test]
fn committed_serializable_transactions_are_some_serial_execution() {
    let db = still();
    let mut count = Count::default();
    for seed in 0..12_000 {
        history(&db, seed, &mut count).unwrap_or_else(|text| panic!("{text}"));
    }
    eprintln!("{count:?}");
    assert!(count.wrote > 20_000 && count.only_read > 2_000, "too few transactions end well: {count:?}");
    assert!(count.refused > 1_000 && count.conflicts > 1_000, "too few transactions meet: {count:?}");
}

/// Goal: the histories above notice each part of the validation that is left out. Method: one part at a time; a history
/// that no serial execution explains must come soon.
#[test]
fn each_part_of_the_validation_is_needed() {
    for mistake in [
        "nothing is validated",
        "keys are not kept",
        "ranges are not kept",
        "later duplicates are forgotten",
        "undone writes are forgotten",
    ] {
        let db = still();
        let caught = with_planted(mistake, || {
            let mut count = Count::default();
            (0..60_000).find_map(|seed| history(&db, seed, &mut count).err())
        });
        eprintln!("{mistake}: {caught:?}");
        assert!(caught.is_some(), "{mistake}: not noticed");
    }
}
