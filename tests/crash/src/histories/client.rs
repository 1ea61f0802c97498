//! `Client`: the random transactions of one session over a few families, with hot and cold keys.
//!
//! It tries everything that a session can do with rows: reads, scans in both directions, inserts, updates, deletions,
//! reinsertions, moves, locks of every strength, savepoints, rollbacks; alone and in long transactions that others
//! overtake. It follows a row that changed as a statement of READ COMMITTED does, and rolls back after a conflict, a
//! deadlock, or a cancelled snapshot.

use std::{
    ops::{Bound, ControlFlow},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::ensure;
use collie_base::LockStrength;
use collie_engine::{
    Basis, Db, EngineError, Event, Family, Insert, Isolation, KeyRange, Mark, Outcome, StatementKind, TracedSession,
    Write,
};

use crate::random::Random;

/// The number of keys of a family; every second one exists at first.
const KEYS: u64 = 400;
/// A third of the operations use these first keys.
const HOT_KEYS: u64 = 4;
/// A wait that no deadlock explains ends after this time, and the transaction with it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// The families that all clients use.
#[derive(Clone, Debug)]
pub(crate) struct Tables([Arc<Family>; 2]);

impl Tables {
    pub(crate) fn create(db: &Db) -> Self {
        Self(std::array::from_fn(|_| db.family(db.create_family())))
    }

    /// Inserts the first rows; returns the history of that transaction.
    pub(crate) fn fill(&self, mut session: TracedSession) -> anyhow::Result<Vec<Event>> {
        session.begin(Isolation::ReadCommitted, false)?;
        session.begin_statement(StatementKind::Write)?;
        for (family, key) in self.0.iter().flat_map(|family| (0..KEYS).step_by(2).map(move |key| (family, key))) {
            let inserted = session.insert(family, &key.to_be_bytes(), &key.to_le_bytes())?;
            ensure!(inserted == Insert::Done, "key {key} is taken in a new database");
        }
        session.end_statement();
        session.commit(true)?;
        Ok(session.into_events())
    }
}

/// Whether to continue after an operation.
type Step = Result<(), EngineError>;

/// A session, and the source of its random operations.
#[derive(Debug)]
pub(crate) struct Client {
    session: TracedSession,
    tables: Tables,
    random: Random,
    levels: Vec<Isolation>,
    /// The highest commit that any client got an answer for: all later snapshots must be above it.
    heard: Arc<AtomicU64>,
    /// Numbers the values, so that all are different.
    next_value: u64,
}

impl Client {
    pub(crate) fn new(
        number: u64,
        session: TracedSession,
        tables: &Tables,
        random: Random,
        levels: &[Isolation],
        heard: &Arc<AtomicU64>,
    ) -> Self {
        let (tables, levels, heard) = (tables.clone(), levels.to_vec(), Arc::clone(heard));
        Self { session, tables, random, levels, heard, next_value: (number + 1) << 40 }
    }

    /// Runs `transactions` transactions; returns the history.
    pub(crate) fn run(mut self, transactions: u64) -> anyhow::Result<Vec<Event>> {
        for _ in 0..transactions {
            match self.transaction() {
                Ok(()) => {}
                Err(error) => match error.downcast_ref::<EngineError>() {
                    Some(
                        EngineError::Conflict
                        | EngineError::ReadChanged
                        | EngineError::Deadlock
                        | EngineError::LockTimeout
                        | EngineError::SnapshotCancelled(_)
                        | EngineError::OldVersionMemory { .. },
                    ) => {
                        self.session.rollback();
                    }
                    _ => return Err(error),
                },
            }
        }
        Ok(self.session.into_events())
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.random.below(odds) == 0
    }

    fn transaction(&mut self) -> anyhow::Result<()> {
        let level = usize::try_from(self.random.below(self.levels.len() as u64))?;
        let read_only = self.one_in(8);
        let is_long = self.one_in(100);
        let statements = 1 + self.random.below(if is_long { 30 } else { 4 });
        self.session.begin(self.levels[level], read_only)?;
        let mut marks: Vec<Mark> = Vec::new();
        for number in 0..statements {
            let reads_only = read_only || self.one_in(3);
            let takes_snapshot = number == 0 || self.levels[level] == Isolation::ReadCommitted;
            self.statement(reads_only, takes_snapshot)?;
            if is_long {
                thread::yield_now();
            }
            if self.one_in(8) {
                marks.push(self.session.savepoint());
            }
            if !marks.is_empty() && self.one_in(6) {
                let kept = usize::try_from(self.random.below(marks.len() as u64))?;
                marks.truncate(kept + 1);
                self.session.rollback_to(marks[kept]);
            }
        }
        if self.one_in(8) {
            self.session.rollback();
            return Ok(());
        }
        let sync = self.one_in(200);
        if let Some(csn) = self.session.commit(sync)?.csn {
            self.heard.fetch_max(csn.get(), Ordering::SeqCst);
        }
        Ok(())
    }

    fn statement(&mut self, reads_only: bool, takes_snapshot: bool) -> anyhow::Result<()> {
        let heard = self.heard.load(Ordering::SeqCst);
        let kind = if reads_only { StatementKind::ReadOnly } else { StatementKind::Write };
        let snapshot = self.session.begin_statement(kind)?;
        ensure!(!takes_snapshot || snapshot.get() > heard, "P5: snapshot {snapshot} after {heard} was acknowledged");
        for _ in 0..=self.random.below(3) {
            self.operation(reads_only)?;
        }
        self.session.end_statement();
        Ok(())
    }

    fn operation(&mut self, reads_only: bool) -> Step {
        let family = Arc::clone(&self.tables.0[usize::from(self.one_in(4))]);
        let key = self.key();
        match if reads_only { self.random.below(6) } else { self.random.below(16) } {
            0..=3 => {
                self.session.get(&family, &key)?;
                Ok(())
            }
            4 | 5 => self.scan(&family),
            6 | 7 => self.insert(&family, &key),
            8..=11 => {
                let value = self.value();
                let keeps_keys = self.one_in(2);
                self.write(&family, &key, if keeps_keys { Write::Put(&value) } else { Write::PutKeys(&value) })
            }
            12 | 13 => self.write(&family, &key, Write::Delete),
            14 => {
                let strengths =
                    [LockStrength::KeyShare, LockStrength::Share, LockStrength::NoKeyUpdate, LockStrength::Update];
                let strength = strengths[usize::try_from(self.random.below(4)).unwrap_or_default()];
                self.write(&family, &key, Write::Lock(strength))
            }
            _ => {
                let new_key = self.key();
                self.write(&family, &key, Write::MoveTo { new_key: &new_key })?;
                self.insert(&family, &new_key)
            }
        }
    }

    fn key(&mut self) -> [u8; 8] {
        let keys = if self.one_in(3) { HOT_KEYS } else { KEYS };
        self.random.below(keys).to_be_bytes()
    }

    /// Returns a unique value, now and then one that fills a chunk of the log.
    fn value(&mut self) -> Vec<u8> {
        self.next_value += 1;
        let mut value = self.next_value.to_le_bytes().to_vec();
        if self.one_in(200) {
            value.resize(6_000, 0);
        }
        value
    }

    fn scan(&mut self, family: &Family) -> Step {
        let start = self.random.below(KEYS);
        let rows = if self.one_in(16) { KEYS } else { 12 };
        let range = KeyRange {
            start: Bound::Included(start.to_be_bytes().to_vec()),
            end: Bound::Excluded((start + rows).to_be_bytes().to_vec()),
        };
        let limit = if self.one_in(2) { usize::MAX } else { 5 };
        let reverse = self.one_in(2);
        self.session.scan(family, &range, reverse, limit, &mut |_, _| ControlFlow::Continue(()))?;
        Ok(())
    }

    fn insert(&mut self, family: &Family, key: &[u8]) -> Step {
        let value = self.value();
        loop {
            match self.session.insert(family, key, &value)? {
                Insert::Done | Insert::Duplicate(_) => return Ok(()),
                Insert::Wait(blocker) => self.session.session().wait(blocker).block(Some(LOCK_TIMEOUT))?,
            }
        }
    }

    fn write(&mut self, family: &Family, key: &[u8], what: Write<'_>) -> Step {
        let mut basis = Basis::Snapshot;
        loop {
            match self.session.write(family, key, basis, what)? {
                Outcome::Wait(blocker) => self.session.session().wait(blocker).block(Some(LOCK_TIMEOUT))?,
                Outcome::Changed { csn, .. } => basis = Basis::After(csn),
                Outcome::Done | Outcome::Gone | Outcome::Moved(_) | Outcome::SelfModified => return Ok(()),
            }
        }
    }
}
