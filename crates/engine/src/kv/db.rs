//! `Db`: an open database for a program that embeds it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use collie_base::{CfId, HistoryId, Lsn};

use super::batch::{Put, check_sizes};
use super::sessions::{Lent, Sessions};
use super::txn::Savepoint;
use super::write::{self, Step, Upsert};
use super::{
    Batch, Cf, CfOptions, Options, Receipt, Snapshot, Stats, Token, Txn, TxnOptions, WriteOptions, registry, scan,
};
use crate::no_log::{NO_LOG_TO_BOUND, NOTHING_TO_SYNC};
use crate::writes::UNLOGGED_FAMILIES;
use crate::{
    Backup, CheckpointOptions, EngineError, Env, FamilyStat, Isolation, OpenProgress, OpenReport, RowBytes, Session,
    StatementKind,
};

/// An open database: a directory of named column families. Clones share it and may be used from any thread; the last handle
/// to go closes the log as well as it can.
#[derive(Clone, Debug)]
pub struct Db {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Before the engine: kept sessions go first.
    sessions: Sessions,
    engine: crate::Db,
    /// The line of positions that commits are made in.
    history: HistoryId,
    savepoints: AtomicU64,
}

impl Db {
    /// Opens the database in `dir`, or makes one.
    ///
    /// # Durability
    /// Everything that was acknowledged as durable is there.
    ///
    /// # Errors
    /// When the directory is foreign, open elsewhere, of a newer format, damaged, or cannot be read or written.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, EngineError> {
        Self::open_with(dir, options, Env::real(), &mut |_| ()).map(|(db, _report)| db)
    }

    /// [`Db::open`] in another environment; calls `progress` now and then, and says what it found.
    ///
    /// # Errors
    /// As of [`Db::open`].
    pub fn open_with(
        dir: impl AsRef<Path>,
        options: Options,
        env: Env,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Self, OpenReport), EngineError> {
        let (engine, report) = crate::Db::open(dir.as_ref(), options.into_engine(), env, progress)?;
        Ok((Self::over(&engine), report))
    }

    /// Returns this face of a database that is open already: the one under a server, say.
    pub fn over(engine: &crate::Db) -> Self {
        let history = engine.shared.control().histories.last().map_or(HistoryId::new(0), |history| history.id);
        let (sessions, savepoints) = (Sessions::default(), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { sessions, engine: engine.clone(), history, savepoints }) }
    }

    /// Returns the engine's own face: sessions, families by id, the log.
    pub fn engine(&self) -> &crate::Db {
        &self.inner.engine
    }

    fn lend(&self) -> Result<Lent<'_>, EngineError> {
        self.inner.sessions.lend(&self.inner.engine)
    }

    pub(crate) fn take_session(&self) -> Result<Session, EngineError> {
        self.inner.sessions.take(&self.inner.engine)
    }

    pub(crate) fn give_back(&self, session: Session) {
        self.inner.sessions.give_back(session);
    }

    pub(crate) fn next_savepoint(&self) -> Savepoint {
        Savepoint::new(self.inner.savepoints.fetch_add(1, Relaxed))
    }

    /// Returns what the write told; one that is not in the log is on disk only once its family was flushed.
    pub(crate) fn receipt(&self, receipt: crate::Receipt, options: WriteOptions) -> Receipt {
        let durable = receipt.csn.is_none_or(|csn| !self.is_unlogged(options) && self.durable() > csn);
        Receipt { token: receipt.end.map(|lsn| Token { history: self.inner.history, lsn }), durable }
    }

    /// Returns whether a write with these options leaves a marker in the log only.
    fn is_unlogged(&self, options: WriteOptions) -> bool {
        options.disable_wal || self.inner.engine.shared.has_no_log()
    }

    /// Fails where there is no log to write or to sync.
    fn check_log(&self) -> Result<(), EngineError> {
        if self.inner.engine.shared.has_no_log() { Err(NOTHING_TO_SYNC) } else { Ok(()) }
    }

    /// Fails for options that contradict each other or how things stand.
    pub(crate) fn check_options(&self, options: WriteOptions) -> Result<(), EngineError> {
        options.check()?;
        if options.sync && self.inner.engine.shared.has_no_log() {
            return Err(NOTHING_TO_SYNC);
        }
        if self.is_unlogged(options) { self.inner.engine.shared.check_unlogged() } else { Ok(()) }
    }

    /// Makes a column family.
    ///
    /// # Durability
    /// On disk when it returns.
    ///
    /// # Errors
    /// [`EngineError::FamilyExists`]; [`EngineError::InvalidArgument`] for a name that is empty, longer than 255 bytes or
    /// begins with `sql:`, or for a group's name that is longer; the log's.
    ///
    /// # Progress
    /// Blocks on a flush, and on others who make or drop families.
    pub fn create_cf(&self, name: &str, options: CfOptions) -> Result<Cf, EngineError> {
        registry::create(self.engine(), &mut *self.lend()?, name, &options)
    }

    /// Finds a column family. SQL's tables and indexes are found as `sql:` and their OID, and can be read.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`].
    pub fn cf(&self, name: &str) -> Result<Cf, EngineError> {
        registry::find(self.engine(), &mut *self.lend()?, name)
    }

    /// Returns the names and ids of the column families, SQL's among them, in order of the names.
    ///
    /// # Errors
    /// [`EngineError::BadName`].
    pub fn list_cfs(&self) -> Result<Vec<(String, CfId)>, EngineError> {
        registry::list(self.engine(), &mut *self.lend()?)
    }

    /// Drops a column family and frees its rows. Whoever still uses one of its handles, a snapshot or a transaction that wrote
    /// to it gets [`EngineError::NoSuchFamily`].
    ///
    /// # Durability
    /// On disk when it returns.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`]; [`EngineError::InvalidArgument`] for one of SQL's; the log's.
    ///
    /// # Progress
    /// As [`Db::create_cf`].
    pub fn drop_cf(&self, cf: &Cf) -> Result<(), EngineError> {
        registry::drop(self.engine(), &mut *self.lend()?, cf)
    }

    /// Gives `key` the value, whether it is there or not: a transaction of its own.
    ///
    /// # Durability
    /// When it returns: as [`WriteOptions`] says.
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] for a key above 65,531 bytes, a value above 64 MiB, a table of SQL, or options that
    /// contradict each other; [`EngineError::NoSuchFamily`], [`EngineError::Busy`]; the log's. Nothing was written then,
    /// unless the log failed.
    ///
    /// # Progress
    /// Blocks on flushes while these are so far behind that the log is one and a half times as long as it may be
    /// (`wal.max_total_wal_size`), and on a transaction that holds the row, as long as it takes; then as [`Txn::commit`].
    pub fn put(
        &self,
        cf: &Cf,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Receipt, EngineError> {
        self.write_one(Put { cf, key: key.as_ref(), value: Some(value.as_ref()) }, *options)
    }

    /// Removes `key`, if it is there: a transaction of its own. Where it was not, the receipt has no token.
    ///
    /// # Durability
    /// As [`Db::put`].
    ///
    /// # Errors
    /// As of [`Db::put`].
    ///
    /// # Progress
    /// As [`Db::put`].
    pub fn delete(&self, cf: &Cf, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<Receipt, EngineError> {
        self.write_one(Put { cf, key: key.as_ref(), value: None }, *options)
    }

    fn write_one(&self, put: Put<'_>, options: WriteOptions) -> Result<Receipt, EngineError> {
        self.check_options(options)?;
        check_sizes(put.key, put.value).map_err(|what| EngineError::InvalidArgument { what })?;
        put.cf.check_writable()?;
        let mut session = self.lend()?;
        write::begin_with_room(&mut session, options)?;
        session.note_purpose(put.value.is_none());
        Upsert::new(put).block(&mut session, None)?;
        put.cf.check()?;
        session.end_statement();
        let ack = session.commit(options.sync)?;
        Ok(self.receipt(ack.block()?, options))
    }

    /// Does everything in the batch as one transaction, over any families. An empty batch does nothing and has no token.
    ///
    /// # Durability
    /// As [`Db::put`]; after a crash all of it is there or nothing.
    ///
    /// # Errors
    /// As of [`Db::put`]; [`EngineError::InvalidArgument`] for more than 1 GiB; [`EngineError::Deadlock`] when it and a
    /// transaction that writes in another order wait for each other (batches never do).
    ///
    /// # Progress
    /// As [`Db::put`].
    pub fn write(&self, mut batch: Batch, options: &WriteOptions) -> Result<Receipt, EngineError> {
        if !self.prepare(&mut batch, *options)? {
            return Ok(Receipt { token: None, durable: true });
        }
        let mut session = self.lend()?;
        write::begin_with_room(&mut session, *options)?;
        for put in batch.iter() {
            Upsert::new(put).block(&mut session, None)?;
        }
        batch.check()?;
        session.end_statement();
        let ack = session.commit(options.sync)?;
        Ok(self.receipt(ack.block()?, *options))
    }

    /// [`Db::write`] as a future of the standard library: no thread waits for locks or the disk. It needs no runtime, and the
    /// log's own threads, unless somebody calls [`crate::Db::try_lead_flush`].
    ///
    /// # Durability
    /// As [`Db::write`].
    ///
    /// # Errors
    /// As of [`Db::write`].
    ///
    /// # Cancel safety
    /// Dropped before its last wait it has written nothing; later the batch stands, only nobody is told.
    pub async fn write_async(&self, mut batch: Batch, options: &WriteOptions) -> Result<Receipt, EngineError> {
        if !self.prepare(&mut batch, *options)? {
            return Ok(Receipt { token: None, durable: true });
        }
        let mut session = self.lend()?;
        session.set_no_slowdown(options.no_slowdown);
        if let Some(wait) = session.wait_for_room()? {
            wait.await?;
        }
        write::begin(&mut session, *options)?;
        for put in batch.iter() {
            let mut upsert = Upsert::new(put);
            while let Step::Wait(blocker) = upsert.step(&mut session)? {
                session.wait(blocker).await?;
            }
        }
        batch.check()?;
        session.end_statement();
        let ack = session.commit(options.sync)?;
        Ok(self.receipt(ack.await?, *options))
    }

    /// Checks a batch and brings it in order; `false` when there is nothing to do.
    fn prepare(&self, batch: &mut Batch, options: WriteOptions) -> Result<bool, EngineError> {
        self.check_options(options)?;
        batch.check()?;
        if self.is_unlogged(options) && !self.inner.engine.shared.families.are_together(&batch.families()) {
            return Err(UNLOGGED_FAMILIES);
        }
        batch.settle();
        if self.inner.engine.is_closed() {
            return Err(EngineError::Closed);
        }
        Ok(!batch.is_empty())
    }

    /// Reads the newest acknowledged value at `key`. Copies no bytes.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`], [`EngineError::Closed`], [`EngineError::TooManySessions`].
    ///
    /// # Progress
    /// Waits for nobody's transaction and, but after a write of this thread that failed, for no disk.
    pub fn get(&self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, EngineError> {
        let mut session = self.lend()?;
        session.begin(Isolation::ReadCommitted, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        scan::get(&session, cf, key.as_ref())
    }

    /// Takes a snapshot: one state to read from.
    ///
    /// # Errors
    /// [`EngineError::Closed`], [`EngineError::TooManySessions`].
    pub fn snapshot(&self) -> Result<Snapshot, EngineError> {
        Snapshot::new(self)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// [`EngineError::Closed`], [`EngineError::TooManySessions`].
    pub fn begin(&self, options: TxnOptions) -> Result<Txn, EngineError> {
        Txn::new(self, options)
    }

    /// Hands everything acknowledged so far to the kernel, and with `sync` makes it durable.
    ///
    /// # Durability
    /// What was acknowledged before the call survives the end of the process, with `sync` a power cut.
    ///
    /// # Errors
    /// The log's; [`EngineError::InvalidArgument`] with `wal.enabled = false`.
    ///
    /// # Progress
    /// Blocks on a flush.
    pub fn flush_wal(&self, sync: bool) -> Result<(), EngineError> {
        self.check_log()?;
        Ok(self.inner.engine.log().map_or(Ok(()), |log| log.flush_wal(sync))?)
    }

    /// Makes durable what was handed to the kernel. What is only in the log's memory stays there: a write followed by this is
    /// not a write with `sync`.
    ///
    /// # Durability
    /// What had reached the kernel before the call survives a power cut.
    ///
    /// # Errors
    /// As of [`Db::flush_wal`].
    ///
    /// # Progress
    /// Blocks on a sync.
    pub fn sync_wal(&self) -> Result<(), EngineError> {
        self.check_log()?;
        Ok(self.inner.engine.log().map_or(Ok(()), collie_wal::Log::sync_wal)?)
    }

    /// Flushes families to their levels: what was acknowledged before the call is in tables then, and the log is not needed for
    /// it. They are flushed by themselves too (`store.write_buffer_size`, `wal.max_total_wal_size`).
    ///
    /// # Durability
    /// Everything acknowledged before the call is on disk when it returns.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`]; the log's and the levels'.
    ///
    /// # Progress
    /// Blocks on a flush of the log and on writing tables; on other flushes of the same families.
    pub fn flush_cf(&self, cfs: &[&Cf]) -> Result<(), EngineError> {
        cfs.iter().try_for_each(|cf| cf.check())?;
        let ids: Vec<CfId> = cfs.iter().map(|cf| cf.id()).collect();
        self.inner.engine.flush_cf(&ids)
    }

    /// Changes an option of the open database, by its name and from text, as [`Options::set`] takes them: `store.gc_interval`,
    /// `store.write_buffer_size`, `wal.flush_bytes`, `wal.flush_delay` and `wal.max_total_wal_size` can be changed. In force at once, until
    /// the database is closed.
    ///
    /// # Errors
    /// [`EngineError::UnknownOption`]; [`EngineError::BadOption`] for a value that it cannot take, and for an option that is read by an
    /// open only; [`EngineError::InvalidArgument`] with `wal.enabled = false`.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), EngineError> {
        let mut given = Options::default();
        given.set(name, value)?;
        let engine = &self.inner.engine;
        let what = "wal.flush_delay or wal.flush_bytes, and wal.enabled = false: there is no log to flush";
        let log = || engine.log().ok_or(EngineError::InvalidArgument { what });
        match name {
            "store.gc_interval" => engine.set_gc_interval(given.store.gc_interval)?,
            "store.write_buffer_size" => engine.set_write_buffer_size(given.store.write_buffer_size),
            "wal.flush_bytes" => log()?.set_flush_bytes(given.wal.flush_bytes)?,
            "wal.flush_delay" => log()?.set_flush_delay(given.wal.flush_delay)?,
            "wal.max_total_wal_size" if engine.shared.has_no_log() => return Err(NO_LOG_TO_BOUND),
            "wal.max_total_wal_size" => engine.set_max_total_wal_size(given.wal.max_total_wal_size),
            _ => {
                let wanted = "a value when the database is opened: of one that is open only store.gc_interval, \
                              store.write_buffer_size, wal.flush_bytes, wal.flush_delay and wal.max_total_wal_size change";
                return Err(EngineError::BadOption { name: name.into(), value: value.into(), wanted: wanted.into() });
            }
        }
        Ok(())
    }

    /// Copies the database as it is to the directory `to`, which is not there yet or empty: it opens by itself, with everything
    /// acknowledged before the call. Tables are shared by links where both are on one file system.
    /// [`engine`](Db::engine)`.checkpoint` has more choice.
    ///
    /// # Durability
    /// On disk when it returns. After an error or a crash there is no `to`, or it is empty as it was.
    ///
    /// # Errors
    /// [`EngineError::BadTarget`]; the log's, the levels', the disk's.
    ///
    /// # Progress
    /// As [`crate::Db::checkpoint`].
    pub fn checkpoint(&self, to: impl AsRef<Path>) -> Result<Backup, EngineError> {
        self.inner.engine.checkpoint(to.as_ref(), CheckpointOptions::default(), &mut |_| ControlFlow::Continue(()))
    }

    /// Returns the position below which everything is on disk.
    pub fn durable(&self) -> Lsn {
        self.inner.engine.durable()
    }

    /// Merges the tables of a family into one run that holds one entry per row and nothing else, after flushing it. They are merged
    /// by themselves too, not as far.
    ///
    /// # Durability
    /// As [`Db::flush_cf`].
    ///
    /// # Errors
    /// As of [`Db::flush_cf`].
    ///
    /// # Progress
    /// Blocks on writing all rows of the family to disk, and other flushes of it meanwhile; readers and writers go on.
    pub fn compact(&self, cf: &Cf) -> Result<(), EngineError> {
        cf.check()?;
        self.inner.engine.compact(cf.id())
    }

    /// Returns the figures of the database.
    ///
    /// # Progress
    /// Waits for flushes and compactions that are under way.
    pub fn stats(&self) -> Stats {
        Stats::of(self.engine(), self.engine().level_stat())
    }

    /// Returns the counters of one family.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`].
    pub fn cf_stats(&self, cf: &Cf) -> Result<FamilyStat, EngineError> {
        cf.check()?;
        Ok(cf.family().stat())
    }

    /// Writes everything, flushes families that have unlogged rows, and closes the log. Snapshots and transactions that are open can
    /// still read; every other call fails with [`EngineError::Closed`].
    ///
    /// # Durability
    /// Everything acknowledged is on disk when it returns; with `store.avoid_flush_at_close`, but for unlogged writes that no flush
    /// has reached.
    ///
    /// # Errors
    /// The log's. Closing twice is no error.
    pub fn close(&self) -> Result<(), EngineError> {
        let closed = self.inner.engine.close();
        self.inner.sessions.clear();
        closed
    }
}
