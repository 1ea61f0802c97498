//! How a transaction ends: its record is appended and its writes stand, or they are undone. Either way its locks are
//! released.
//!
//! A commit takes its read set, determines the kind of its record, and first logs redo that is too long for one
//! record. Then, with a writer of the log, the record is appended and the versions are stamped with its position
//! (`collie_txn`). The [`Ack`] resolves when the commit is as safe as requested.

use collie_base::Xid;
use collie_obs::{TxnAbort, TxnCommit};
use collie_txn::{Appended, CommitRecord, Ended, TableLocksHeld, Transaction, WriteSet as _};
use collie_wal::{Level, WalError};

use super::{NO_TRANSACTION, Session, UNDOING};
use crate::log::no_log::NOTHING_TO_SYNC;
use crate::log::settled::CommitLevel;
use crate::log::txn_statuses::TxnStatuses;
use crate::measured;
use crate::redo::{encode_integers, tag};
use crate::serial::serial_writes::{KEYS_MAX, Since};
use crate::session::wait::Ack;
use crate::{EngineError, Mark, Receipt};

/// Versions and locks that one part undoes: about a millisecond of work.
const UNDO_PART: u64 = 256;

impl Session {
    /// Commits. On return the transaction has ended and row locks are released; the reply may leave when the [`Ack`]
    /// resolves.
    ///
    /// # Durability
    /// None before the [`Ack`] resolves; then as `sync` requested: on disk, or on its way there.
    ///
    /// # Progress
    /// A SERIALIZABLE transaction that wrote validates its whole read set, and such transactions commit one at a time.
    /// Other transactions wait only for room in a full log.
    ///
    /// # Errors
    /// [`EngineError::ReadChanged`] of a SERIALIZABLE transaction; [`EngineError::InvalidArgument`] for `sync` without
    /// a log; errors of the log. The transaction is then rolled back.
    pub fn commit(&mut self, sync: bool) -> Result<Ack, EngineError> {
        self.commit_at(if sync { CommitLevel::Local } else { CommitLevel::Async })
    }

    /// Commits as [`Session::commit`] does, at any level.
    ///
    /// # Errors
    /// As of [`Session::commit`].
    pub fn commit_at(&mut self, level: CommitLevel) -> Result<Ack, EngineError> {
        let span = collie_obs::start::<TxnCommit>();
        let written = span.as_ref().map(|_| measured::Written::of(&self.redo));
        let ack = self.commit_now(level)?;
        if let (Some(span), Some(written)) = (span, written) {
            written.committed(span, ack.csn().unwrap_or_default());
        }
        Ok(ack)
    }

    fn commit_now(&mut self, level: CommitLevel) -> Result<Ack, EngineError> {
        let Some(t) = self.open.take() else { return Err(NO_TRANSACTION) };
        self.view = None;
        (self.checking, self.newest) = (false, None);
        let reads = self.reads.take().map(|reads| reads.into_inner());
        if self.is_undoing {
            self.abort(t); // N7
            return Err(UNDOING);
        }
        let Some(xid) = t.xid().filter(|_| !self.redo.is_empty() && self.doomed.is_none()) else {
            // Nothing was written: the transaction stands at its snapshot in the order of commits, unless it learned of
            // later commits.
            if reads.is_some_and(|reads| reads.saw_beyond()) {
                self.abort(t);
                return Err(EngineError::ReadChanged);
            }
            return self.end_without_record(t, level);
        };
        // Refusals come before anything of the commit is logged.
        if level >= CommitLevel::Local && self.shared.has_no_log() {
            self.abort(t);
            return Err(NOTHING_TO_SYNC);
        }
        if let Err(error) = self.shared.check_leads() {
            self.abort(t);
            return Err(error);
        }
        let marker = match self.unlogged.then(|| self.marker()) {
            None => None,
            Some(Ok(Some(marker))) => Some(marker),
            Some(Ok(None)) => return self.end_without_record(t, level),
            Some(Err(error)) => {
                self.abort(t);
                return Err(error);
            }
        };
        // Redo that is too long for one record must be in the log before the COMMIT record that counts its chunks.
        if marker.is_none()
            && self.redo.must_flush()
            && let Err(error) = self.write_chunk(xid)
        {
            self.abort(t);
            return Err(error);
        }
        let validated = self.validated.take();
        // The keys are collected before the lock of validation is taken, to hold it for a short time.
        let watched = reads.is_some() && self.shared.serial_writes.is_watched();
        let keys = (watched && self.writes.position() <= KEYS_MAX as u64)
            .then(|| self.writes.keys_from(0).map(|(cf, key)| (cf, key.into())).collect());
        let log = self.shared.txns.log();
        let ended = log.with_writer_or(self.manner, |writer| {
            let writer = match writer {
                Ok(writer) => writer,
                Err(error) => {
                    self.txn.abort(t, &mut self.writes);
                    return Err(error);
                }
            };
            let record = match &marker {
                None => CommitRecord { tag: tag::COMMIT, bytes: self.redo.commit_record(xid) },
                Some(marker) => CommitRecord { tag: tag::UNLOGGED, bytes: marker },
            };
            let ended = match &reads {
                None => self.txn.commit(t, writer, Some(record), &mut self.writes),
                Some(reads) => {
                    let snapshot =
                        t.snapshot().expect("a transaction that wrote had a statement, and keeps its snapshot");
                    let (slot, txns) = (self.txn.slot(), &self.shared.txns);
                    self.txn.commit_validated(t, writer, record, &mut self.writes, || {
                        let families = &self.shared.families;
                        let since = validated.as_ref().map_or(Since::Forgotten, |validated| validated.since(reads));
                        let changed = match since {
                            Since::Unchanged => None,
                            Since::Changed(cf, key) => Some(
                                families
                                    .get(cf)
                                    .and_then(|family| family.changed_since(&key, snapshot, &TxnStatuses(txns)))
                                    .unwrap_or(snapshot),
                            ),
                            Since::Forgotten => reads.changed_since(snapshot, families, &TxnStatuses(txns)),
                        };
                        // A row that was deleted since may be gone if the snapshot is no longer in force (N6).
                        let changed = changed.or_else(|| txns.is_cancelled(slot).then_some(snapshot));
                        if changed.is_none() {
                            self.shared.serial_writes.add(keys);
                        }
                        changed.map_or(Ok(()), Err)
                    })
                }
            };
            let counts = marker.is_none() && matches!(ended, Ok(Ended::Committed { .. }));
            if !counts && self.redo.has_chunks() {
                // If the log refuses this too, the next opening drops the chunks.
                let _ = writer.append(tag::ABORT, &[&encode_integers(&[xid.get()])]);
            }
            ended
        });
        self.settle_chunks(xid, marker.is_none(), &ended);
        let keep_locks = std::mem::take(&mut self.wrote_catalog);
        self.redo.clear();
        if !matches!(ended, Ok(Ended::Committed { .. })) {
            self.shared.aborts.add(1);
        }
        let ended = ended.map_err(|error| match error {
            WalError::Closed if log.is_held() => EngineError::Replica,
            error => error.into(),
        });
        match ended? {
            Ended::Committed { at, locks } => Ok(self.acknowledge(at, level, keep_locks.then_some(locks))),
            Ended::ReadChanged { .. } => Err(EngineError::ReadChanged),
            Ended::Nothing => unreachable!("a commit with a record is in the log"),
        }
    }

    /// Notifies `large` of the outcome for the transaction's redo that was logged before the commit.
    fn settle_chunks(&self, xid: Xid, is_logged: bool, ended: &Result<Ended, WalError>) {
        let Some(base) = self.shared.base().filter(|_| self.redo.has_chunks()) else { return };
        match ended {
            Ok(Ended::Committed { at, .. }) if is_logged => {
                base.large.commit(xid, self.redo.first_chunk(), at.start, self.redo.families());
            }
            _ => base.large.abort(xid),
        }
    }

    /// Returns the wait of the reply to a commit whose record is in the log.
    fn acknowledge(&self, at: Appended, level: CommitLevel, locks: Option<TableLocksHeld>) -> Ack {
        let log = self.shared.txns.log();
        let asked = if level.is_synchronous() { Level::Disk } else { Level::Memory };
        let level = match log.wal().map_or(asked, |wal| wal.commit_level(asked)) {
            Level::Disk => level.max(CommitLevel::Local),
            _ => CommitLevel::Async,
        };
        if !level.is_synchronous() {
            log.flush_soon();
        }
        self.shared.commits.add(1);
        let receipt = Receipt { csn: Some(at.start), end: Some(at.end) };
        Ack::committed(&self.shared.txns, receipt, at.end, level, locks)
    }

    /// Returns the payload of the record that an unlogged commit gets instead of operations; `None` if nothing was
    /// written.
    fn marker(&self) -> Result<Option<Vec<u8>>, EngineError> {
        let highest = self.writes.note_unlogged()?; // before the commit; a close in between only flushes in vain
        Ok(highest.map(|cf| encode_integers(&[u64::from(cf.get())])))
    }

    fn end_without_record(&mut self, t: Transaction, level: CommitLevel) -> Result<Ack, EngineError> {
        let doomed = self.doomed.take();
        if doomed.is_none() {
            t.note_committed();
            self.undo(t);
        } else {
            self.abort(t);
        }
        match doomed {
            Some(error) => Err(error),
            None => Ok(self.reply_gate(level)),
        }
    }

    /// Rolls back: undoes every write, releases every lock. Does nothing if no transaction is open.
    pub fn rollback(&mut self) {
        self.view = None;
        (self.checking, self.newest) = (false, None);
        if let Some(t) = self.open.take() {
            self.abort(t);
        }
    }

    /// Undoes a part of the open transaction's writes since `to`, or since it began, if they are too many for one step:
    /// about a millisecond of work. Returns whether the rest is small enough for [`Session::rollback_to`] or
    /// [`Session::rollback`], one of which must follow. Until then others see the transaction as open: they do not read
    /// its versions, and wait for its rows.
    ///
    /// # Cancel safety
    /// Between two parts only a rollback is allowed; dropping the session is one.
    #[must_use]
    pub fn undo_some(&mut self, to: Option<Mark>) -> bool {
        let end = to.map_or(0, |mark| mark.writes);
        let next = self.writes.position().saturating_sub(UNDO_PART);
        if next <= end || self.open.is_none() {
            return true;
        }
        self.is_undoing = true;
        if to.is_some() {
            self.note_undone(next);
        }
        self.writes.undo_to(next);
        false
    }

    /// Keeps in the read set that the keys written from `position` on had been read.
    pub(super) fn note_undone(&mut self, position: u64) {
        if let Some(reads) = &self.reads
            && let Err(error) = reads.lock().undone(self.writes.keys_from(position))
        {
            self.doomed = Some(error); // N2
        }
    }

    /// Returns the wait of a reply, outside of a commit, that reveals what this session has seen. It is resolved at
    /// once in nearly all cases.
    pub fn reply_gate(&self, level: CommitLevel) -> Ack {
        Ack::nothing_written(&self.shared.txns, self.txn.gate(level.is_synchronous()), level)
    }

    fn abort(&mut self, t: Transaction) {
        if t.xid().is_some() {
            self.shared.aborts.add(1);
        }
        let span = collie_obs::start::<TxnAbort>();
        let written = span.as_ref().map(|_| measured::Written::of(&self.redo));
        self.undo(t);
        if let (Some(span), Some(written)) = (span, written) {
            written.undone(span);
        }
    }

    /// Ends a transaction that has no COMMIT record.
    fn undo(&mut self, t: Transaction) {
        let xid = t.xid();
        self.txn.abort(t, &mut self.writes);
        if let Some(xid) = xid.filter(|_| self.redo.has_chunks()) {
            let record = encode_integers(&[xid.get()]);
            // If the log refuses, the next opening drops the chunks.
            let log = self.shared.txns.log();
            let _ = log.with_writer_that(self.manner, |writer| writer.append(tag::ABORT, &[&record]));
        }
        if let (Some(base), Some(xid)) = (self.shared.base(), xid) {
            base.large.abort(xid); // begun even if the log refused its first chunk
        }
        self.redo.clear();
        (self.reads, self.validated) = (None, None);
        (self.wrote_catalog, self.doomed, self.is_undoing) = (false, None, false);
    }
}
