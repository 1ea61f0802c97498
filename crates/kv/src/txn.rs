//! `Txn`: one transaction of reads and writes on any families.

use std::sync::Arc;
use std::time::Duration;

use collie_engine::{Basis, Isolation, KeyRange, LockStrength, Mark, Outcome, RowBytes, Session, StatementKind, Write};

use crate::batch::{Put, check_sizes};
use crate::core::Core;
use crate::{Cf, Durability, Error, Receipt, Scan, WriteOptions, scan};

/// How a transaction runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TxnOptions {
    isolation: Isolation,
    read_only: bool,
    lock_timeout: Option<Duration>,
}

impl Default for TxnOptions {
    fn default() -> Self {
        Self { isolation: Isolation::RepeatableRead, read_only: false, lock_timeout: None }
    }
}

impl TxnOptions {
    /// Returns the default options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets which commits it sees, and which conflicts end it. Default [`Isolation::RepeatableRead`], which is snapshot
    /// isolation.
    #[must_use]
    pub const fn isolation(self, isolation: Isolation) -> Self {
        Self { isolation, ..self }
    }

    /// Makes it only read: a write then fails with `ReadOnly`.
    #[must_use]
    pub const fn read_only(self) -> Self {
        Self { read_only: true, ..self }
    }

    /// Sets how long it waits for a lock before `LockTimeout`. Deadlocks are found at once and never waited out.
    /// Default: without a limit.
    #[must_use]
    pub const fn lock_timeout(self, timeout: Duration) -> Self {
        Self { lock_timeout: Some(timeout), ..self }
    }
}

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint(u64);

/// One transaction. Dropping it rolls it back.
///
/// A call that fails leaves the transaction as it was: the caller can continue, roll back to a savepoint, or roll back
/// the transaction. After `Conflict` or `Deadlock` callers usually run the transaction again from its beginning.
#[derive(Debug)]
pub struct Txn {
    /// Present until the drop.
    session: Option<Session>,
    core: Arc<Core>,
    lock_timeout: Option<Duration>,
    /// Families that were written, each once.
    written: Vec<Cf>,
    /// Savepoints that can still be rolled back to, oldest first.
    savepoints: Vec<(Savepoint, Mark)>,
}

impl Txn {
    pub(crate) fn new(core: &Arc<Core>, options: TxnOptions) -> Result<Self, Error> {
        let mut session = core.take_session()?;
        session.begin(options.isolation, options.read_only)?;
        let (written, savepoints) = (Vec::new(), Vec::new());
        Ok(Self {
            session: Some(session),
            core: Arc::clone(core),
            lock_timeout: options.lock_timeout,
            written,
            savepoints,
        })
    }

    /// Begins a new statement for a call, so that it sees the writes of earlier calls.
    fn statement(&mut self, kind: StatementKind) -> Result<&mut Session, Error> {
        let session = self.session.as_mut().expect("it is given back by the drop only");
        session.end_statement();
        session.begin_statement(kind)?;
        Ok(session)
    }

    /// Returns the value at `key`, without copying its bytes; the transaction's own writes are visible.
    ///
    /// # Errors
    /// `NotFound`, `SnapshotTooOld`.
    ///
    /// # Progress
    /// Waits for no transaction.
    pub fn get(&mut self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, Error> {
        scan::get(self.statement(StatementKind::ReadOnly)?, cf, key.as_ref())
    }

    /// Returns the rows of a range, including the transaction's own writes; see
    /// [`Snapshot::scan`](crate::Snapshot::scan).
    ///
    /// # Errors
    /// As of [`Txn::get`]; also those of the items.
    pub fn scan(&mut self, cf: &Cf, range: impl Into<KeyRange>) -> Result<Scan<'_>, Error> {
        Ok(Scan::new(self.statement(StatementKind::ReadOnly)?, cf, range.into()))
    }

    /// Returns the value at `key` and locks the row against other writers until the transaction ends. At READ COMMITTED
    /// it is the newest committed value. If there is no row, nothing is locked.
    ///
    /// # Errors
    /// `Conflict` if the row was changed after the transaction's snapshot (not at READ COMMITTED); `Deadlock`,
    /// `LockTimeout`, `ReadOnly`, `NotFound`.
    ///
    /// # Progress
    /// Blocks on the transactions that hold the row.
    pub fn get_for_update(&mut self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, Error> {
        let (key, limit) = (key.as_ref(), self.lock_timeout);
        cf.check_writable()?;
        let session = self.statement(StatementKind::Write)?;
        let (mut basis, lock) = (Basis::Snapshot, Write::Lock(LockStrength::Update));
        loop {
            match session.write(cf.family(), key, basis, lock)? {
                Outcome::Done | Outcome::SelfModified => break,
                Outcome::Wait(blocker) => session.wait(blocker).block(limit)?,
                Outcome::Changed { csn, .. } => basis = Basis::After(csn),
                Outcome::Gone | Outcome::Moved(_) => break,
            }
        }
        // At READ COMMITTED this takes a new snapshot, above the commit that the lock was based on.
        scan::get(self.statement(StatementKind::Write)?, cf, key)
    }

    /// Sets `key` to the value, whether the key exists or not, and locks the row until the transaction ends.
    ///
    /// # Errors
    /// `Conflict` if the row was changed after the transaction's snapshot (not at READ COMMITTED, which overwrites the
    /// change); `Deadlock`, `LockTimeout`, `ReadOnly`, `NotFound`; `InvalidArgument` for a key above 65,531 bytes or a
    /// value above 64 MiB; `InvalidArgument` once the transaction has 1 GiB of redo.
    ///
    /// # Durability
    /// None before [`Txn::commit`] returns.
    ///
    /// # Progress
    /// Blocks on flushes that are behind, as [`Db::put`](crate::Db::put), and on the transaction that holds the row; in
    /// a large transaction also on room in a full log.
    pub fn put(&mut self, cf: &Cf, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(cf, key.as_ref(), Some(value.as_ref()))
    }

    /// Deletes `key`, if it exists.
    ///
    /// # Errors
    /// As of [`Txn::put`].
    ///
    /// # Durability
    /// None before [`Txn::commit`] returns.
    ///
    /// # Progress
    /// As [`Txn::put`].
    pub fn delete(&mut self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.write(cf, key.as_ref(), None)
    }

    fn write(&mut self, cf: &Cf, key: &[u8], value: Option<&[u8]>) -> Result<(), Error> {
        check_sizes(key, value).map_err(Error::invalid)?;
        cf.check_writable()?;
        let limit = self.lock_timeout;
        let session = self.session.as_ref().expect("it is given back by the drop only");
        if let Some(wait) = session.wait_for_room()? {
            wait.block()?;
        }
        Put { cf, key, value }.upsert().block(self.statement(StatementKind::Write)?, limit)?;
        if self.written.iter().all(|written| written.id() != cf.id()) {
            self.written.push(cf.clone());
        }
        Ok(())
    }

    /// Sets a savepoint. It is cheap and may be done any number of times.
    pub fn savepoint(&mut self) -> Savepoint {
        let session = self.session.as_mut().expect("it is given back by the drop only");
        let savepoint = Savepoint(self.core.next_savepoint());
        self.savepoints.push((savepoint, session.savepoint()));
        savepoint
    }

    /// Undoes everything since the savepoint, releases the locks taken since, and wakes their waiters. The savepoint
    /// stays; later savepoints are gone.
    ///
    /// # Errors
    /// `InvalidArgument` for a savepoint of another transaction, or one that is gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), Error> {
        let Some(place) = self.savepoints.iter().position(|(one, _)| *one == savepoint) else {
            let what = "the savepoint is of another transaction, or was rolled back over: set a new one";
            return Err(Error::invalid(what));
        };
        self.savepoints.truncate(place + 1);
        let session = self.session.as_mut().expect("it is given back by the drop only");
        session.end_statement();
        session.rollback_to(self.savepoints[place].1);
        Ok(())
    }

    /// Commits: from now on every new snapshot shows all writes of the transaction, which ends whatever the result is.
    ///
    /// # Durability
    /// On return as stated by [`WriteOptions`]. After an error of the log the next opening may or may not find the
    /// commit.
    ///
    /// # Errors
    /// `Conflict` of a SERIALIZABLE transaction; `NotFound` if a written family was dropped since; `Busy` with
    /// `no_slowdown`; `InvalidArgument` for options that contradict each other; errors of the log. Nothing was
    /// committed then, unless stated otherwise.
    ///
    /// # Progress
    /// Blocks on a flush with `sync`, else on appends of others that are in progress, and on room in a full log.
    pub fn commit(mut self, options: impl Into<WriteOptions>) -> Result<Receipt, Error> {
        let options = options.into();
        self.core.check_options(options)?;
        self.written.iter().try_for_each(Cf::check)?;
        let session = self.session.as_mut().expect("it is given back by the drop only");
        session.end_statement();
        session.set_no_slowdown(options.no_slowdown);
        session.set_unlogged(options.durability == Durability::Unlogged);
        let mut ack = session.commit_at(options.durability.level())?;
        let receipt = ack.wait()?;
        Ok(self.core.receipt(receipt, options, ack.is_unconfirmed()))
    }

    /// Rolls the transaction back, as dropping it does.
    pub fn rollback(self) {}
}

impl Drop for Txn {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.core.give_back(session);
        }
    }
}
