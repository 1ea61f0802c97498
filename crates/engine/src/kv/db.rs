//! `Db`: an open database in a program that embeds it.

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
use crate::log::no_log::{NO_LOG_TO_BOUND, NOTHING_TO_SYNC};
use crate::session::writes::UNLOGGED_FAMILIES;
use crate::{
    Backup, CheckpointOptions, EngineError, Env, FamilyStat, Isolation, OpenProgress, OpenReport, RowBytes, Session,
    StatementKind,
};

/// An open database: a directory of named column families. Clones share it and may be used from any thread; dropping
/// the last handle closes the log as well as possible.
#[derive(Clone, Debug)]
pub struct Db {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Declared before the engine, so that cached sessions are dropped first.
    sessions: Sessions,
    engine: crate::Db,
    /// The history in which commits are made.
    history: HistoryId,
    savepoints: AtomicU64,
}

impl Db {
    /// Opens the database in `dir`, or creates one.
    ///
    /// # Durability
    /// Everything that was acknowledged as durable is there.
    ///
    /// # Errors
    /// If the directory is foreign, open elsewhere, of a newer format, damaged, or cannot be read or written.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, EngineError> {
        Self::open_with(dir, options, Env::real(), &mut |_| ()).map(|(db, _report)| db)
    }

    /// Opens as [`Db::open`] does, in another environment; calls `progress` now and then, and returns a report.
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

    /// Returns the key-value API of a database that is already open, such as that of a server.
    pub fn over(engine: &crate::Db) -> Self {
        let history = engine.shared.control().histories.last().map_or(HistoryId::new(0), |history| history.id);
        let (sessions, savepoints) = (Sessions::default(), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { sessions, engine: engine.clone(), history, savepoints }) }
    }

    /// Returns the engine's own API: sessions, families by id, the log.
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

    /// Returns the receipt of a write. An unlogged write is on disk only once its family was flushed.
    pub(crate) fn receipt(&self, receipt: crate::Receipt, options: WriteOptions) -> Receipt {
        let durable = receipt.csn.is_none_or(|csn| !self.is_unlogged(options) && self.durable() > csn);
        Receipt { token: receipt.end.map(|lsn| Token { history: self.inner.history, lsn }), durable }
    }

    /// Returns whether a write with these options leaves only a marker in the log.
    fn is_unlogged(&self, options: WriteOptions) -> bool {
        options.disable_wal || self.inner.engine.shared.has_no_log()
    }

    /// Fails if there is no log to write or to sync.
    fn check_log(&self) -> Result<(), EngineError> {
        if self.inner.engine.shared.has_no_log() { Err(NOTHING_TO_SYNC) } else { Ok(()) }
    }

    /// Fails if the options contradict each other or the state of the database.
    pub(crate) fn check_options(&self, options: WriteOptions) -> Result<(), EngineError> {
        options.check()?;
        if options.sync && self.inner.engine.shared.has_no_log() {
            return Err(NOTHING_TO_SYNC);
        }
        if self.is_unlogged(options) { self.inner.engine.shared.check_unlogged() } else { Ok(()) }
    }

    /// Creates a column family.
    ///
    /// # Durability
    /// On disk on return.
    ///
    /// # Errors
    /// [`EngineError::FamilyExists`]; [`EngineError::InvalidArgument`] for a name that is empty, longer than 255 bytes
    /// or begins with `sql:`, or for a longer name of a group; errors of the log.
    ///
    /// # Progress
    /// Blocks on a flush, and on other threads that create or drop families.
    pub fn create_cf(&self, name: &str, options: CfOptions) -> Result<Cf, EngineError> {
        registry::create(self.engine(), &mut *self.lend()?, name, &options)
    }

    /// Returns the column family with this name. SQL's tables and indexes are named `sql:` and their OID, and can be
    /// read.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`].
    pub fn cf(&self, name: &str) -> Result<Cf, EngineError> {
        registry::find(self.engine(), &mut *self.lend()?, name)
    }

    /// Returns the names and ids of the column families, including SQL's, in order of the names.
    ///
    /// # Errors
    /// [`EngineError::BadName`].
    pub fn list_cfs(&self) -> Result<Vec<(String, CfId)>, EngineError> {
        registry::list(self.engine(), &mut *self.lend()?)
    }

    /// Drops a column family and frees its rows. Later calls with one of its handles, in a snapshot or in a transaction
    /// that wrote to it too, fail with [`EngineError::NoSuchFamily`].
    ///
    /// # Durability
    /// On disk on return.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`]; [`EngineError::InvalidArgument`] for a family of SQL; errors of the log.
    ///
    /// # Progress
    /// As [`Db::create_cf`].
    pub fn drop_cf(&self, cf: &Cf) -> Result<(), EngineError> {
        registry::drop(self.engine(), &mut *self.lend()?, cf)
    }

    /// Sets `key` to the value, whether the key exists or not, in a transaction for this call.
    ///
    /// # Durability
    /// On return as stated by [`WriteOptions`].
    ///
    /// # Errors
    /// [`EngineError::InvalidArgument`] for a key above 65,531 bytes, a value above 64 MiB, a table of SQL, or options
    /// that contradict each other; [`EngineError::NoSuchFamily`], [`EngineError::Busy`]; errors of the log. Nothing was
    /// written in these cases, unless the log failed.
    ///
    /// # Progress
    /// Blocks on flushes while they are so far behind that the log is one and a half times as long as its limit
    /// (`wal.max_total_wal_size`), and on a transaction that holds the row, without a timeout; then as [`Txn::commit`].
    pub fn put(
        &self,
        cf: &Cf,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<Receipt, EngineError> {
        self.write_one(Put { cf, key: key.as_ref(), value: Some(value.as_ref()) }, *options)
    }

    /// Deletes `key`, if it exists, in a transaction for this call. If it did not exist, the receipt has no token.
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

    /// Applies all operations of the batch, to any families, as one transaction. An empty batch does nothing and
    /// returns no token.
    ///
    /// # Durability
    /// As [`Db::put`]; after a crash all of the batch is there or nothing.
    ///
    /// # Errors
    /// As of [`Db::put`]; [`EngineError::InvalidArgument`] for more than 1 GiB; [`EngineError::Deadlock`] if the batch
    /// and a transaction that writes in another order wait for each other (batches never wait for each other in a
    /// cycle).
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

    /// Writes a batch as [`Db::write`] does, as a future of the standard library: no thread waits for locks or the
    /// disk. It needs no runtime, but it needs the log's own threads, unless the program calls
    /// [`crate::Db::try_lead_flush`].
    ///
    /// # Durability
    /// As [`Db::write`].
    ///
    /// # Errors
    /// As of [`Db::write`].
    ///
    /// # Cancel safety
    /// If the future is dropped before its last wait, nothing was written; after that the batch stays committed,
    /// without a reply.
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

    /// Checks a batch and sorts it; returns `false` if there is nothing to do.
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

    /// Returns the newest acknowledged value at `key`, without copying its bytes.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`], [`EngineError::Closed`], [`EngineError::TooManySessions`].
    ///
    /// # Progress
    /// Waits for no transaction and for no disk, except after a failed write of this thread.
    pub fn get(&self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, EngineError> {
        let mut session = self.lend()?;
        session.begin(Isolation::ReadCommitted, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        scan::get(&session, cf, key.as_ref())
    }

    /// Takes a snapshot: one consistent state to read from.
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

    /// Hands everything acknowledged so far to the kernel; with `sync` also makes it durable.
    ///
    /// # Durability
    /// Everything acknowledged before the call survives the end of the process, and with `sync` a power cut.
    ///
    /// # Errors
    /// Errors of the log; [`EngineError::InvalidArgument`] with `wal.enabled = false`.
    ///
    /// # Progress
    /// Blocks on a flush.
    pub fn flush_wal(&self, sync: bool) -> Result<(), EngineError> {
        self.check_log()?;
        Ok(self.inner.engine.log().map_or(Ok(()), |log| log.flush_wal(sync))?)
    }

    /// Makes durable what was handed to the kernel before. Records that are only in the log's memory stay there, so a
    /// write followed by this call is not a write with `sync`.
    ///
    /// # Durability
    /// Everything that had reached the kernel before the call survives a power cut.
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

    /// Flushes families to their LSM levels: afterwards the tables hold everything acknowledged before the call, which
    /// no longer needs the log. The engine also flushes families by itself (`store.write_buffer_size`,
    /// `wal.max_total_wal_size`).
    ///
    /// # Durability
    /// Everything acknowledged before the call is on disk on return.
    ///
    /// # Errors
    /// [`EngineError::NoSuchFamily`]; errors of the log and of the LSM levels.
    ///
    /// # Progress
    /// Blocks on a flush of the log, on writing tables, and on other flushes of the same families.
    pub fn flush_cf(&self, cfs: &[&Cf]) -> Result<(), EngineError> {
        cfs.iter().try_for_each(|cf| cf.check())?;
        let ids: Vec<CfId> = cfs.iter().map(|cf| cf.id()).collect();
        self.inner.engine.flush_cf(&ids)
    }

    /// Changes an option of the open database by its name, from text as [`Options::set`] takes it. Only
    /// `store.gc_interval`, `store.write_buffer_size`, `wal.flush_bytes`, `wal.flush_delay` and
    /// `wal.max_total_wal_size` can be changed. The change is in force at once, until the database is closed.
    ///
    /// # Errors
    /// [`EngineError::UnknownOption`]; [`EngineError::BadOption`] for a value that the option cannot take, and for an
    /// option that only an opening reads; [`EngineError::InvalidArgument`] with `wal.enabled = false`.
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

    /// Copies the database to the directory `to`, which must be missing or empty. The copy opens by itself and has
    /// everything acknowledged before the call. Tables are linked if both directories are on one file system.
    /// [`engine`](Db::engine)`.checkpoint` has more options.
    ///
    /// # Durability
    /// On disk on return. After an error or a crash `to` is missing, or empty if it existed before.
    ///
    /// # Errors
    /// [`EngineError::BadTarget`]; errors of the log, of the LSM levels and of the disk.
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

    /// Flushes a family and merges its tables into one run with one entry per row and nothing else. The engine also
    /// merges tables by itself, but not as far.
    ///
    /// # Durability
    /// As [`Db::flush_cf`].
    ///
    /// # Errors
    /// As of [`Db::flush_cf`].
    ///
    /// # Progress
    /// Blocks on writing all rows of the family to disk, and on other flushes of it; readers and writers continue.
    pub fn compact(&self, cf: &Cf) -> Result<(), EngineError> {
        cf.check()?;
        self.inner.engine.compact(cf.id())
    }

    /// Returns the figures of the database.
    ///
    /// # Progress
    /// Waits for running flushes and compactions.
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

    /// Writes everything, flushes families that have unlogged rows, and closes the log. Open snapshots and transactions
    /// can still read; every other call fails with [`EngineError::Closed`].
    ///
    /// # Durability
    /// Everything acknowledged is on disk on return, except, with `store.avoid_flush_at_close`, unlogged writes that no
    /// flush has written.
    ///
    /// # Errors
    /// Errors of the log. Closing twice is no error.
    pub fn close(&self) -> Result<(), EngineError> {
        let closed = self.inner.engine.close();
        self.inner.sessions.clear();
        closed
    }
}
