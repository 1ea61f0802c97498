//! `TracedSession`: a session that records what it did and saw, for a checker of histories (feature `trace-oracle`).
//!
//! It calls a [`Session`] and no other part of the engine. It observes the versions that a read chose where the row
//! chooses them (`collie_store::watch`), and takes the answer from the result. It judges nothing.
//!
//! # Invariants
//! - J1. `events` are in the order of the calls, and a failed call left only events that it had acted on.
//! - J2. The position of a write is the number of versions and share locks that its transaction had before it, so a
//!   rollback to a savepoint undoes the writes at or above the savepoint's position.

use std::ops::{Bound, ControlFlow};

use collie_base::{CfId, LockStrength, Lsn, Xid};
use collie_store::{Origin, RowRead, Visit, digest, watch};
use collie_txn::{Isolation, StatementKind};

use crate::redo::Redo;
use crate::{
    Basis, CHECKPOINT, Db, EngineError, Existing, Family, Insert, KeyRange, Mark, Outcome, Receipt, RowBytes, ScanEnd,
    Session, Write,
};

/// The basis of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Based {
    /// The view of the statement.
    Snapshot,
    /// The commit at this position.
    After(Lsn),
    /// The absence of a live row at the time of the write.
    Free,
}

/// One step of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A transaction began.
    Begin(Isolation),
    /// A statement began.
    Statement {
        /// Its snapshot: it sees commits strictly below.
        snapshot: Lsn,
        /// Its number: it sees the own transaction's versions with lower numbers.
        command: u32,
    },
    /// A row was read.
    Read {
        /// Its family.
        cf: CfId,
        /// The chosen version; `None` if no version was visible.
        chosen: Option<RowRead>,
        /// The requested key.
        key: Box<[u8]>,
        /// Digest of the answer.
        answer: Option<u64>,
    },
    /// Keys were scanned.
    Scan {
        /// Their family.
        cf: CfId,
        /// The lower end of the covered range.
        start: Bound<Box<[u8]>>,
        /// The upper end of the covered range.
        end: Bound<Box<[u8]>>,
        /// Whether the scan went from the upper end down.
        reverse: bool,
        /// Keys and digests that the caller got, in order.
        answers: Vec<(Box<[u8]>, u64)>,
        /// The versions chosen in the examined rows, in order; also beyond the last answer.
        chosen: Vec<RowRead>,
    },
    /// A row was written.
    Write {
        /// Its family.
        cf: CfId,
        /// Its key.
        key: Box<[u8]>,
        /// Digest of the new value; `None` for a deletion.
        value: Option<u64>,
        /// Its basis.
        based: Based,
        /// J2.
        position: u64,
    },
    /// A row was locked and not written.
    Lock {
        /// Its family.
        cf: CfId,
        /// Its key.
        key: Box<[u8]>,
        /// Its strength.
        strength: LockStrength,
        /// The basis of the lock.
        based: Based,
        /// J2.
        position: u64,
    },
    /// The session learned of this commit outside of its snapshot.
    ActedOn(Lsn),
    /// A write learned whether a row exists, and did nothing.
    Met {
        /// Its family.
        cf: CfId,
        /// Its key.
        key: Box<[u8]>,
        /// The commit that wrote the row; `None` for no row.
        made: Option<Lsn>,
    },
    /// Everything written at this position or above was undone.
    RollbackTo(u64),
    /// The transaction was committed and acknowledged.
    Commit {
        /// Its position and its transaction's id; `None` if it wrote nothing.
        at: Option<(Lsn, Xid)>,
    },
    /// The transaction was rolled back.
    Rollback,
}

/// A session with its history. Its calls are those of [`Session`] of the same names, with their errors.
#[derive(Debug)]
pub struct TracedSession {
    session: Session,
    events: Vec<Event>,
}

impl TracedSession {
    /// Begins the history of `session`, which has no open transaction.
    pub const fn new(session: Session) -> Self {
        Self { session, events: Vec::new() }
    }

    /// Returns the session, to wait with. Other calls to it are not in the history.
    pub const fn session(&self) -> &Session {
        &self.session
    }

    /// Ends the session; returns its history.
    pub fn into_events(mut self) -> Vec<Event> {
        if self.session.in_transaction() {
            self.rollback();
        }
        self.events
    }

    /// Begins a transaction.
    pub fn begin(&mut self, isolation: Isolation, read_only: bool) -> Result<(), EngineError> {
        self.session.begin(isolation, read_only)?;
        self.events.push(Event::Begin(isolation));
        Ok(())
    }

    /// Begins a statement; returns its snapshot.
    pub fn begin_statement(&mut self, kind: StatementKind) -> Result<Lsn, EngineError> {
        self.session.begin_statement(kind)?;
        let view = self.session.statement_view().expect("a statement that began sees something");
        self.events.push(Event::Statement { snapshot: view.snapshot, command: view.command });
        Ok(view.snapshot)
    }

    /// Ends a statement.
    pub fn end_statement(&mut self) {
        self.session.end_statement();
    }

    /// Reads a row.
    pub fn get(&mut self, f: &Family, key: &[u8]) -> Result<Option<RowBytes>, EngineError> {
        let (answer, mut chosen) = watch(|| self.session.get(f, key));
        let answer = answer?;
        let digest = answer.as_deref().map(digest);
        self.events.push(Event::Read { cf: f.id(), chosen: chosen.pop(), key: key.into(), answer: digest });
        Ok(answer)
    }

    /// Scans a range.
    pub fn scan(
        &mut self,
        f: &Family,
        range: &KeyRange,
        reverse: bool,
        limit: usize,
        visit: &mut Visit<'_>,
    ) -> Result<ScanEnd, EngineError> {
        let mut answers: Vec<(Box<[u8]>, u64)> = Vec::new();
        let mut noting = |key: &[u8], value: &[u8]| -> ControlFlow<()> {
            answers.push((key.into(), digest(value)));
            visit(key, value)
        };
        let (end, chosen) = watch(|| self.session.scan(f, range, None, reverse, limit, &mut noting));
        let end = end?;
        let owned = |bound: &Bound<Vec<u8>>| bound.as_ref().map(|key| key.clone().into_boxed_slice());
        let (mut low, mut high) = (owned(&range.start), owned(&range.end));
        if let ScanEnd::More(key) = &end {
            *(if reverse { &mut low } else { &mut high }) = Bound::Included(key.clone().into_boxed_slice());
        }
        self.events.push(Event::Scan { cf: f.id(), start: low, end: high, reverse, answers, chosen });
        Ok(end)
    }

    /// Inserts a row.
    pub fn insert(&mut self, f: &Family, key: &[u8], value: &[u8]) -> Result<Insert, EngineError> {
        let position = self.savepoint().txn.writes();
        let outcome = self.session.insert(f, key, value)?;
        match &outcome {
            Insert::Done => {
                let (cf, value) = (f.id(), Some(digest(value)));
                self.events.push(Event::Write { cf, key: key.into(), value, based: Based::Free, position });
            }
            Insert::Duplicate(Existing { origin: Origin::Committed(csn), .. }) => {
                self.events.push(Event::Met { cf: f.id(), key: key.into(), made: Some(*csn) });
            }
            Insert::Duplicate(_) | Insert::Wait(_) => {}
        }
        Ok(outcome)
    }

    /// Writes, deletes, moves or locks a row.
    pub fn write(&mut self, f: &Family, key: &[u8], basis: Basis, what: Write<'_>) -> Result<Outcome, EngineError> {
        let position = self.savepoint().txn.writes();
        let outcome = self.session.write(f, key, basis, what)?;
        let (cf, key) = (f.id(), key.into());
        let based = match basis {
            Basis::Snapshot => Based::Snapshot,
            Basis::After(csn) => Based::After(csn),
        };
        match (&outcome, what) {
            (Outcome::Done, Write::Lock(strength)) => {
                self.events.push(Event::Lock { cf, key, strength, based, position });
            }
            (Outcome::Done, Write::Put(value) | Write::PutKeys(value)) => {
                self.events.push(Event::Write { cf, key, value: Some(digest(value)), based, position });
            }
            (Outcome::Done, Write::Delete | Write::MoveTo { .. }) => {
                self.events.push(Event::Write { cf, key, value: None, based, position });
            }
            (Outcome::Changed { csn, .. }, _) => self.events.push(Event::ActedOn(*csn)),
            (Outcome::Gone, _) => self.events.push(Event::Met { cf, key, made: None }),
            _ => {}
        }
        Ok(outcome)
    }

    /// Sets a mark in the transaction.
    pub fn savepoint(&mut self) -> Mark {
        self.session.savepoint()
    }

    /// Undoes everything since the mark.
    pub fn rollback_to(&mut self, mark: Mark) {
        self.session.rollback_to(mark);
        self.events.push(Event::RollbackTo(mark.txn.writes()));
    }

    /// Commits and waits until the reply may leave.
    pub fn commit(&mut self, sync: bool) -> Result<Receipt, EngineError> {
        let xid = self.session.xid();
        let receipt = self.session.commit(sync)?.block()?;
        self.events.push(Event::Commit { at: receipt.csn.zip(xid) });
        Ok(receipt)
    }

    /// Rolls back.
    pub fn rollback(&mut self) {
        self.session.rollback();
        self.events.push(Event::Rollback);
    }
}

/// Returns the durable commits of the log, in its order.
///
/// # Errors
/// Those of the log; a record that cannot be decoded; [`EngineError::Closed`] in a database opened read-only.
pub fn commits_in_log(db: &Db) -> Result<Vec<(Lsn, Xid)>, EngineError> {
    let mut commits = Vec::new();
    let log = db.log().ok_or(EngineError::Closed)?;
    log.read(CHECKPOINT).visit(|record| -> Result<(), EngineError> {
        let redo = Redo::decode(record.tag, record.body)
            .map_err(|error| EngineError::Corruption { lsn: record.lsn, what: error.what })?;
        if let Redo::Commit { xid, .. } = redo {
            commits.push((record.lsn, xid));
        }
        Ok(())
    })?;
    Ok(commits)
}

/// Returns how many look-ups of a transaction status went past the ring of ids to the map of overtaken transactions.
pub fn lapped_lookups(db: &Db) -> u64 {
    db.shared.txns.lapped_lookups()
}
