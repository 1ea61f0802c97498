//! `commit_validated`: commits of SERIALIZABLE transactions, one at a time, each only if what it read is unchanged.
//!
//! A SERIALIZABLE transaction reads at one snapshot and commits at its CSN. If nothing that it read was changed in
//! between, it would have read the same at its CSN: so all such commits are equivalent to a serial execution in the
//! order of their CSNs. A transaction that wrote nothing stands at its snapshot in that order, below which everything
//! is published: it has nothing to validate and never fails. Transactions of other levels take no part.
//!
//! # Invariants
//! - V1. A SERIALIZABLE commit holds `Txns::serial` from before it validates until after it is published. So a
//!   validating commit meets every earlier one published, and every later one will meet it. If the mutex covered only
//!   the reservation of a number, two could pass each other: each validates before the other is published (write skew).
//! - V2. Its holder waits for no lock of a transaction and not for the disk, with one exception: an append waits for
//!   room in a full log, when no transaction can commit. The threads that make that room never take it.
//!
//! Order of locks: this one is outermost. Progress: blocks on the validation and append of other SERIALIZABLE commits.
//!
//! Checked by `loom_validation_meets_every_earlier_commit` and, over real rows, by the engine's
//! `tests/serializable.rs`.

use crate::{
    log::CommitLog,
    session::{CommitRecord, Ended, Session},
    transaction::Transaction,
    txns::Txns,
    write_set::WriteSet,
};
use collie_base::Lsn;
use collie_sync::mutant;

impl<L: CommitLog> Txns<L> {
    /// Calls `look` while no SERIALIZABLE commit is between its validation and its publication: each has been
    /// published, or will validate after this call. `look` neither waits nor calls a session.
    pub fn between_validated<R>(&self, look: impl FnOnce() -> R) -> R {
        let _held = self.serial.lock();
        look()
    }
}

impl<L: CommitLog> Session<L> {
    /// Commits like [`Session::commit`] if `validate` finds that what the transaction read is unchanged; else rolls
    /// back and returns [`Ended::ReadChanged`]. `validate` returns the CSN of a change that the snapshot does not show.
    /// It looks at the newest committed state, waits for nothing and does not call the session's transactions.
    ///
    /// A large set of reads is validated in advance, outside the mutex: with [`Txns::between_validated`] the caller
    /// learns from which SERIALIZABLE commit on it must look again here.
    ///
    /// # Durability
    /// As for [`Session::commit`].
    ///
    /// # Progress
    /// Blocks while other transactions validate and append (V2).
    ///
    /// # Errors
    /// Those of the log. The transaction is then rolled back.
    pub fn commit_validated(
        &mut self,
        t: Transaction,
        writer: &mut L::Writer,
        record: CommitRecord<'_>,
        writes: &mut impl WriteSet,
        validate: impl FnOnce() -> Result<(), Lsn>,
    ) -> Result<Ended, L::Error> {
        let mut held = (!mutant!("SERIAL_NOT_HELD")).then(|| self.txns().serial.lock());
        let appended = match validate() {
            Ok(()) => self.append_commit(&t, writer, record, || {
                if mutant!("SERIAL_RELEASED_BEFORE_PUBLICATION") {
                    held = None;
                }
            }),
            Err(csn) => {
                drop(held);
                self.abort(t, writes);
                self.saw(csn);
                return Ok(Ended::ReadChanged { csn });
            }
        };
        drop(held); // V1: the commit is published, or not in the log at all
        self.finish_commit(t, appended, writes)
    }
}
