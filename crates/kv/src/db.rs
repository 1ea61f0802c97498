//! `Db`: an open database in a program that embeds it.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use collie_base::{CfId, HistoryId, Lsn};
use collie_engine::{
    Backup, CheckpointOptions, EngineError, Env, ErrorKind, FamilyStat, Isolation, OpenProgress, OpenReport, RowBytes,
    Session, StatementKind, Stats, UpsertStep,
};

use crate::batch::{Put, check_sizes};
use crate::core::Core;
use crate::sessions::Lent;
use crate::{Batch, Cf, CfOptions, Durability, Error, Options, Receipt, Snapshot, Txn, TxnOptions, WriteOptions, scan};

/// An open database: a directory of named column families. Clones share it and may be used from any thread; dropping
/// the last handle closes the log as well as possible.
#[derive(Clone, Debug)]
pub struct Db {
    core: Arc<Core>,
}

impl Db {
    /// Opens the database in the directory `dir` with the default options, or creates one. [`Options::open`] does so
    /// with others.
    ///
    /// # Durability
    /// Everything that was acknowledged as durable is there.
    ///
    /// # Errors
    /// If the directory is foreign, open elsewhere, of a newer format, damaged, or cannot be read or written.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self, Error> {
        Options::new().open(dir)
    }

    /// Returns the key-value interface of a database that is already open in the engine, such as that of a server. The
    /// engine is internal: its interface may change with any version.
    pub fn over(engine: &collie_engine::Db) -> Self {
        let history = engine.histories().1.last().map_or(HistoryId::new(0), |history| history.history);
        Self { core: Arc::new(Core::new(engine.clone(), history)) }
    }

    /// Returns the engine below: sessions, families by id, the log. Its interface may change with any version.
    pub fn engine(&self) -> &collie_engine::Db {
        &self.core.engine
    }

    fn lend(&self) -> Result<Lent<'_>, Error> {
        self.core.lend()
    }

    /// Creates a column family.
    ///
    /// # Durability
    /// On disk on return.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for a name that is empty, longer than 255 bytes or begins with `sql:`, or for
    /// a longer name of a group; errors of the log.
    ///
    /// # Progress
    /// Blocks on a flush, and on other threads that create or drop families.
    pub fn create_cf(&self, name: &str, options: CfOptions) -> Result<Cf, Error> {
        Ok(Cf::new(self.lend()?.create_named_family(name, &options.group)?))
    }

    /// Returns the column family with this name, and creates it if there is none.
    ///
    /// # Durability
    /// As [`Db::create_cf`].
    ///
    /// # Errors
    /// As of [`Db::create_cf`]; `InvalidArgument` if there is one that is not in the atomic group of the options.
    ///
    /// # Progress
    /// Waits for nothing if the family exists; else as [`Db::create_cf`].
    pub fn open_cf(&self, name: &str, options: CfOptions) -> Result<Cf, Error> {
        let is_missing = |error: &Error| error.kind() == ErrorKind::NotFound;
        let found = match self.cf(name) {
            Err(error) if is_missing(&error) => match self.create_cf(name, options.clone()) {
                // Another thread was first.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => self.cf(name)?,
                made => made?,
            },
            found => found?,
        };
        if found.group() != options.group {
            return Err(Error::invalid("the column family exists in another atomic group: open it with that one"));
        }
        Ok(found)
    }

    /// Returns the column family with this name. SQL's tables and indexes are named `sql:` and their OID, and can be
    /// read.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn cf(&self, name: &str) -> Result<Cf, Error> {
        Ok(Cf::new(self.lend()?.find_named_family(name)?))
    }

    /// Returns the names and ids of the column families, including SQL's, in order of the names.
    ///
    /// # Errors
    /// `Corruption` for a name that cannot be read.
    pub fn list_cfs(&self) -> Result<Vec<(String, CfId)>, Error> {
        Ok(self.lend()?.list_named_families()?)
    }

    /// Drops a column family and frees its rows. Later calls with one of its handles, in a snapshot or in a transaction
    /// that wrote to it too, fail with `NotFound`.
    ///
    /// # Durability
    /// On disk on return.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for a family of SQL; errors of the log.
    ///
    /// # Progress
    /// As [`Db::create_cf`].
    pub fn drop_cf(&self, cf: &Cf) -> Result<(), Error> {
        Ok(self.lend()?.drop_named_family(cf.named())?)
    }

    /// Sets `key` to the value, whether the key exists or not, in a transaction for this call.
    ///
    /// # Durability
    /// On return as stated by [`WriteOptions`].
    ///
    /// # Errors
    /// `InvalidArgument` for a key above 65,531 bytes, a value above 64 MiB, a table of SQL, or options that contradict
    /// each other; `NotFound`, `Busy`; errors of the log. Nothing was written in these cases, unless the log failed.
    ///
    /// # Progress
    /// Blocks on flushes while they are so far behind that the log is one and a half times as long as its limit
    /// (`wal.max_total_wal_size`), and on a transaction that holds the row, without a timeout; then as [`Txn::commit`].
    pub fn put(
        &self,
        cf: &Cf,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: impl Into<WriteOptions>,
    ) -> Result<Receipt, Error> {
        self.write_one(Put { cf, key: key.as_ref(), value: Some(value.as_ref()) }, options.into())
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
    pub fn delete(&self, cf: &Cf, key: impl AsRef<[u8]>, options: impl Into<WriteOptions>) -> Result<Receipt, Error> {
        self.write_one(Put { cf, key: key.as_ref(), value: None }, options.into())
    }

    fn write_one(&self, put: Put<'_>, options: WriteOptions) -> Result<Receipt, Error> {
        self.core.check_options(options)?;
        check_sizes(put.key, put.value).map_err(Error::invalid)?;
        put.cf.check_writable()?;
        let mut session = self.lend()?;
        begin_with_room(&mut session, options)?;
        session.note_purpose(put.value.is_none());
        put.upsert().block(&mut session, None)?;
        put.cf.check()?;
        session.end_statement();
        self.commit(&mut session, options)
    }

    /// Commits and waits on this thread for as long as the options ask.
    fn commit(&self, session: &mut Session, options: WriteOptions) -> Result<Receipt, Error> {
        let mut ack = session.commit_at(options.durability.level())?;
        let receipt = ack.wait()?;
        Ok(self.core.receipt(receipt, options, ack.is_unconfirmed()))
    }

    /// Applies all operations of the batch, to any families, as one transaction. An empty batch does nothing and
    /// returns no token.
    ///
    /// # Durability
    /// As [`Db::put`]; after a crash all of the batch is there or nothing.
    ///
    /// # Errors
    /// As of [`Db::put`]; `InvalidArgument` for more than 1 GiB; `Deadlock` if the batch and a transaction that writes
    /// in another order wait for each other (batches never wait for each other in a cycle).
    ///
    /// # Progress
    /// As [`Db::put`].
    pub fn write(&self, mut batch: Batch, options: impl Into<WriteOptions>) -> Result<Receipt, Error> {
        let options = options.into();
        if !self.prepare(&mut batch, options)? {
            return Ok(Receipt { token: None, durability: options.durability });
        }
        let mut session = self.lend()?;
        begin_with_room(&mut session, options)?;
        for put in batch.iter() {
            put.upsert().block(&mut session, None)?;
        }
        batch.check()?;
        session.end_statement();
        self.commit(&mut session, options)
    }

    /// Writes a batch as [`Db::write`] does, as a future of the standard library: no thread waits for locks or the
    /// disk. It needs no runtime, but it needs the log's own threads, unless the program calls
    /// [`collie_engine::Db::try_lead_flush`].
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
    pub async fn write_async(&self, mut batch: Batch, options: impl Into<WriteOptions>) -> Result<Receipt, Error> {
        let options = options.into();
        if !self.prepare(&mut batch, options)? {
            return Ok(Receipt { token: None, durability: options.durability });
        }
        let mut session = self.lend()?;
        session.set_no_slowdown(options.no_slowdown);
        if let Some(wait) = session.wait_for_room()? {
            wait.await?;
        }
        begin(&mut session, options)?;
        for put in batch.iter() {
            let mut upsert = put.upsert();
            while let UpsertStep::Wait(blocker) = upsert.step(&mut session)? {
                session.wait(blocker).await?;
            }
        }
        batch.check()?;
        session.end_statement();
        let mut ack = session.commit_at(options.durability.level())?;
        let receipt = (&mut ack).await?;
        Ok(self.core.receipt(receipt, options, ack.is_unconfirmed()))
    }

    /// Checks a batch and sorts it; returns `false` if there is nothing to do.
    fn prepare(&self, batch: &mut Batch, options: WriteOptions) -> Result<bool, Error> {
        self.core.check_options(options)?;
        batch.check()?;
        if self.core.is_unlogged(options) {
            self.core.engine.check_unlogged(&batch.families())?;
        }
        batch.settle();
        if self.core.engine.is_closed() {
            return Err(EngineError::Closed.into());
        }
        Ok(!batch.is_empty())
    }

    /// Returns the newest acknowledged value at `key`, without copying its bytes.
    ///
    /// # Errors
    /// `NotFound`, `Closed`, `Busy`.
    ///
    /// # Progress
    /// Waits for no transaction and for no disk, except after a failed write of this thread.
    pub fn get(&self, cf: &Cf, key: impl AsRef<[u8]>) -> Result<Option<RowBytes>, Error> {
        let mut session = self.lend()?;
        session.begin(Isolation::ReadCommitted, true)?;
        session.begin_statement(StatementKind::ReadOnly)?;
        scan::get(&session, cf, key.as_ref())
    }

    /// Takes a snapshot: one consistent state to read from.
    ///
    /// # Errors
    /// `Closed`, `Busy`.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::new(&self.core)
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// `Closed`, `Busy`.
    pub fn begin(&self, options: TxnOptions) -> Result<Txn, Error> {
        Txn::new(&self.core, options)
    }

    /// Moves everything acknowledged so far from the log's memory to the kernel, or on to the disk.
    ///
    /// # Durability
    /// Everything acknowledged before the call survives the end of the process, and with [`FlushTo::Disk`] a power cut.
    ///
    /// # Errors
    /// Errors of the log; `InvalidArgument` with `wal.enabled = false`.
    ///
    /// # Progress
    /// Blocks on a flush.
    pub fn flush_wal(&self, to: FlushTo) -> Result<(), Error> {
        self.core.engine.check_log()?;
        let flush = |log: &collie_wal::Log| log.flush_wal(to == FlushTo::Disk);
        Ok(self.core.engine.log().map_or(Ok(()), flush).map_err(EngineError::from)?)
    }

    /// Makes durable what was handed to the kernel before. Records that are only in the log's memory stay there, so a
    /// write followed by this call is not on disk: see [`Db::flush_wal`].
    ///
    /// # Durability
    /// Everything that had reached the kernel before the call survives a power cut.
    ///
    /// # Errors
    /// As of [`Db::flush_wal`].
    ///
    /// # Progress
    /// Blocks on a sync.
    pub fn sync_wal(&self) -> Result<(), Error> {
        self.core.engine.check_log()?;
        Ok(self.core.engine.log().map_or(Ok(()), collie_wal::Log::sync_wal).map_err(EngineError::from)?)
    }

    /// Flushes families to their LSM levels: afterwards the tables hold everything acknowledged before the call, which
    /// no longer needs the log. The engine also flushes families by itself (`store.write_buffer_size`,
    /// `wal.max_total_wal_size`).
    ///
    /// # Durability
    /// Everything acknowledged before the call is on disk on return.
    ///
    /// # Errors
    /// `NotFound`; errors of the log and of the LSM levels.
    ///
    /// # Progress
    /// Blocks on a flush of the log, on writing tables, and on other flushes of the same families.
    pub fn flush_cf(&self, cfs: &[&Cf]) -> Result<(), Error> {
        cfs.iter().try_for_each(|cf| cf.check())?;
        let ids: Vec<CfId> = cfs.iter().map(|cf| cf.id()).collect();
        Ok(self.core.engine.flush_cf(&ids)?)
    }

    /// Changes an option of the open database by its name, from text as [`Options::set`] takes it. Only
    /// `store.gc_interval`, `store.write_buffer_size`, `wal.flush_bytes`, `wal.flush_delay` and
    /// `wal.max_total_wal_size` can be changed. The change is in force at once, until the database is closed.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown option, a value that the option cannot take, an option that only an opening
    /// reads, and an option of the log with `wal.enabled = false`.
    pub fn set_option(&self, name: &str, value: &str) -> Result<(), Error> {
        Ok(self.core.engine.set_option(name, value)?)
    }

    /// Copies the database to the directory `to`, which must be missing or empty. The copy opens by itself and has
    /// everything acknowledged before the call. Tables are linked if both directories are on one file system.
    /// [`engine`](Db::engine)`.checkpoint` has more options.
    ///
    /// # Durability
    /// On disk on return. After an error or a crash `to` is missing, or empty if it existed before.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory that is not empty; errors of the log, of the LSM levels and of the disk.
    ///
    /// # Progress
    /// As [`collie_engine::Db::checkpoint`].
    pub fn checkpoint(&self, to: impl AsRef<Path>) -> Result<Backup, Error> {
        let engine = &self.core.engine;
        Ok(engine.checkpoint(to.as_ref(), CheckpointOptions::default(), &mut |_| ControlFlow::Continue(()))?)
    }

    /// Returns the position below which everything is on disk.
    pub fn durable(&self) -> Lsn {
        self.core.engine.durable()
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
    pub fn compact(&self, cf: &Cf) -> Result<(), Error> {
        cf.check()?;
        Ok(self.core.engine.compact(cf.id())?)
    }

    /// Returns the figures of the database.
    ///
    /// # Progress
    /// Waits for running flushes and compactions.
    pub fn stats(&self) -> Stats {
        self.core.engine.stats()
    }

    /// Returns the counters of one family.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn cf_stats(&self, cf: &Cf) -> Result<FamilyStat, Error> {
        cf.check()?;
        Ok(cf.family().stat())
    }

    /// Writes everything, flushes families that have unlogged rows, and closes the log. Open snapshots and transactions
    /// can still read; every other call fails with `Closed`.
    ///
    /// # Durability
    /// Everything acknowledged is on disk on return, except, with `store.avoid_flush_at_close`, unlogged writes that no
    /// flush has written.
    ///
    /// # Errors
    /// Errors of the log. Closing twice is no error.
    pub fn close(&self) -> Result<(), Error> {
        let closed = self.core.engine.close();
        self.core.sessions.clear();
        Ok(closed?)
    }
}

/// Where [`Db::flush_wal`] moves the log's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushTo {
    /// To the kernel: it survives the end of the process.
    Kernel,
    /// To the disk: it survives a power cut, too.
    Disk,
}

impl Options {
    /// Opens the database in the directory `dir` with these options, or creates one.
    ///
    /// # Durability
    /// As [`Db::open`].
    ///
    /// # Errors
    /// As of [`Db::open`]; `InvalidArgument` for options out of bounds or that contradict each other.
    pub fn open(self, dir: impl AsRef<Path>) -> Result<Db, Error> {
        self.open_in(dir, Env::real(), &mut |_| ()).map(|(db, _report)| db)
    }

    /// Opens as [`Options::open`] does, in another environment; calls `progress` now and then, and returns a report.
    ///
    /// # Errors
    /// As of [`Options::open`].
    pub fn open_in(
        self,
        dir: impl AsRef<Path>,
        env: Env,
        progress: &mut dyn FnMut(&OpenProgress),
    ) -> Result<(Db, OpenReport), Error> {
        let (engine, report) = collie_engine::Db::open(dir.as_ref(), self.into_engine(), env, progress)?;
        Ok((Db::over(&engine), report))
    }
}

/// Waits on this thread until flushes have made room in the log, and begins the transaction of one write.
fn begin_with_room(session: &mut Session, options: WriteOptions) -> Result<(), Error> {
    session.set_no_slowdown(options.no_slowdown);
    if let Some(wait) = session.wait_for_room()? {
        wait.block()?;
    }
    begin(session, options)
}

/// Begins the transaction of one write.
fn begin(session: &mut Session, options: WriteOptions) -> Result<(), Error> {
    session.set_no_slowdown(options.no_slowdown);
    session.set_unlogged(options.durability == Durability::Unlogged);
    session.begin(Isolation::ReadCommitted, false)?;
    session.begin_statement(StatementKind::Write)?;
    Ok(())
}
