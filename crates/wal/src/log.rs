//! `Log`: the handle of an open log: what can be asked of it, waited for, read and ended. It joins the parts and holds no
//! rule of its own beyond their order.
//!
//! Appending and committing is [`Writer`]'s.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
};

use collie_base::Lsn;
use collie_env::Env;

use crate::{
    ConsumerStat, Ending, Freed, Lead, Level, Mark, Options, Reached, ReadMode, Records, Recovered, RingKind,
    ShipOptions, Shipper, Stat, Tail, TailCheck, TailOptions, WalError, Writer,
    core::Core,
    flush::{Flusher, Purpose},
    frame_reader::{FrameReader, Running},
    owner::Owner,
    tail_check,
};

/// An open log. Clones are handles of the same one; the last one to go closes it as well as it can.
#[derive(Clone, Debug)]
pub struct Log {
    owner: Arc<Owner>,
}

/// The room of a log file that was given up ([`Log::lend_spare`]): until this is dropped.
#[derive(Debug)]
#[must_use = "the room is taken back when this is dropped"]
pub struct LentSpare {
    log: Log,
}

impl Drop for LentSpare {
    fn drop(&mut self) {
        self.log.flusher().segments.end_loan();
    }
}

impl Log {
    /// Opens the log in `dir`, creating it where there is none.
    ///
    /// # Errors
    /// `InvalidOptions`; `Locked` when somebody has it open; `Damaged`, `Unfinished`, `ForeignLog`, `NewerFormat` as
    /// `wal.recovery_mode` says; `CopiesMissing`, `CopiesDiffer` with several copies; `Io`.
    ///
    /// # Durability
    /// What [`Recovered`] names survives a power cut once this returns.
    ///
    /// # Progress
    /// Blocks on reading the whole log, on writing its first frame, and on preparing spares.
    pub fn open(env: &Env, dir: &Path, options: Options) -> Result<(Self, Recovered), WalError> {
        let (log, recovered) = Self::open_as(env, dir, options, false)?;
        if recovered.ending == Ending::Unclean
            && let Some((tag, body)) = log.core().options.first_record.clone()
        {
            log.writer().append(tag, &[&body])?;
        }
        Ok((log, recovered))
    }

    /// Opens the log in `dir` as one that takes its records from another.
    pub(crate) fn open_following(env: &Env, dir: &Path, options: Options) -> Result<(Self, Recovered), WalError> {
        Self::open_as(env, dir, options, true)
    }

    fn open_as(env: &Env, dir: &Path, options: Options, follows: bool) -> Result<(Self, Recovered), WalError> {
        let (core, recovered) = Core::open(env, dir, options, follows)?;
        // From here on a failure drops `log`, which stops the threads that run already.
        let log = Self { owner: Arc::new(Owner::new(core)) };
        if log.core().options.threads {
            log.owner.start_threads()?;
        }
        Ok((log, recovered))
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    pub(crate) fn flusher(&self) -> &Flusher {
        &self.core().flusher
    }

    /// Makes a writer. Never fails: writers beyond `wal.slots` take turns at two shared slots.
    ///
    /// # Progress
    /// Short mutexes.
    pub fn writer(&self) -> Writer {
        let slot = self.flusher().reserve.take_slot();
        if slot.is_none() {
            self.core().slotless_writers.fetch_add(1, Ordering::Relaxed);
        }
        Writer::new(self.clone(), slot)
    }

    /// Counts a commit and returns how far it has to wait: `level`, or `Disk` when `wal.sync_every` says that it is its
    /// turn. For callers that append and wait by themselves; [`Writer::commit`] and [`Writer::write`] do it. What is not
    /// logged does not count.
    ///
    /// # Progress
    /// Wait-free: at most one `fetch_add`.
    pub fn commit_level(&self, level: Level) -> Level {
        let (core, every) = (self.core(), self.core().options.sync_every);
        if every == 0 || level == Level::None {
            return level;
        }
        let nth = core.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if nth.is_multiple_of(every) { Level::Disk } else { level }
    }

    /// Returns where the ring is: `Private`, or `Shared`: then everything below the boundary survives the process.
    ///
    /// # Progress
    /// Wait-free.
    pub fn ring(&self) -> RingKind {
        self.core().home.kind()
    }

    /// Returns the boundary as it was moved last: every record below is complete in memory. With a lock-free protocol an
    /// append that has returned may not be below it yet: wait for [`Mark::Boundary`].
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn boundary(&self) -> Lsn {
        self.flusher().mark(Mark::Boundary)
    }

    /// Returns the next free position.
    ///
    /// # Progress
    /// Wait-free: one load. With the oracle, blocks on the copy of another appender.
    pub fn glsn(&self) -> Lsn {
        self.flusher().reserve.next()
    }

    /// Returns what the kernel has: every byte below.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn written(&self) -> Lsn {
        self.flusher().mark(Mark::Written)
    }

    /// Returns how many bytes the file system of the log holds in all, the smallest of several copies'; `None` where that is not
    /// known.
    ///
    /// # Progress
    /// Blocks on the operating system.
    pub fn disk_bytes(&self) -> Option<u64> {
        self.core().env.files.disk_bytes(&self.core().dir)
    }

    /// Returns what is on disk: every byte below.
    ///
    /// # Progress
    /// Wait-free: one load.
    pub fn durable(&self) -> Lsn {
        self.flusher().mark(Mark::Durable)
    }

    /// Returns whether `mark` has reached `lsn`. For the boundary a look at every slot in use, unless it is known already.
    ///
    /// # Progress
    /// Wait-free: one load; for the boundary lock-free, as moving it is a `fetch_max`.
    pub fn is_reached(&self, mark: Mark, lsn: Lsn) -> bool {
        let flusher = self.flusher();
        match mark {
            Mark::Boundary => flusher.reserve.is_complete(lsn),
            Mark::Written | Mark::Durable => flusher.mark(mark) >= lsn,
        }
    }

    /// Blocks until `mark` reaches `lsn`, which an append of this log returned.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`: it never will.
    ///
    /// # Durability
    /// For [`Mark::Durable`], every record below `lsn` survives a power cut; for [`Mark::Written`], the end of the process.
    ///
    /// # Progress
    /// Blocks on a flush: leads one when nobody does, else parks until one ends. For the boundary, blocks on the copies of
    /// other appenders.
    pub fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        if mark == Mark::Boundary {
            self.flush_soon();
        }
        self.flusher().wait(mark, lsn)
    }

    /// Returns a future that is ready once `mark` reaches `lsn`. Its first poll starts a flush on the keeper. Futures of
    /// one mark complete in the order of their positions, and one thread may have thousands in flight:
    ///
    /// ```
    /// # use collie_wal::{Log, Mark, Options};
    /// # use std::{future::Future, pin::pin, sync::Arc, task::{Context, Poll, Wake}, thread::Thread};
    /// # struct Unpark(Thread);
    /// # impl Wake for Unpark { fn wake(self: Arc<Self>) { self.0.unpark() } }
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let waker = Arc::new(Unpark(std::thread::current())).into();
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         match future.as_mut().poll(&mut Context::from_waker(&waker)) {
    /// #             Poll::Ready(output) => return output,
    /// #             Poll::Pending => std::thread::park(),
    /// #         }
    /// #     }
    /// # }
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let (log, _) = Log::open(&collie_env::Env::real(), dir.path(), Options::small())?;
    /// let mut writer = log.writer();
    /// let mut in_flight = Vec::new();
    /// for number in 0..10_000_u32 {
    ///     let end = writer.append(1, &[&number.to_le_bytes()])?.end; // returns at once
    ///     in_flight.push(log.reached(Mark::Durable, end));
    /// }
    /// // With the executor of your choice; the first wait flushes for many.
    /// for acknowledged in in_flight {
    ///     block_on(acknowledged)?;
    /// }
    /// # Ok::<(), collie_wal::WalError>(())
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it forgets the waiter and nothing else.
    ///
    /// # Progress
    /// Wait-free. A poll of the future takes a short mutex and blocks on nothing.
    pub fn reached(&self, mark: Mark, lsn: Lsn) -> Reached {
        Reached::new(self.core().clone(), mark, lsn)
    }

    /// Takes the right to flush now on this thread, when records wait to become durable and nobody flushes.
    ///
    /// # Progress
    /// Short mutexes; lock-free where it moves the boundary.
    pub fn try_lead(&self) -> Option<Lead> {
        let flusher = self.flusher();
        if flusher.mark(Mark::Durable) >= flusher.reserve.advance() {
            return None;
        }
        let right = flusher.begin(&mut flusher.queue.lock(), Purpose::Sync)?;
        Some(Lead::new(self.core().clone(), right))
    }

    /// Has everything appended so far durable within `wal.flush_delay`, without waiting for it.
    ///
    /// # Progress
    /// Wait-free: a fence and a load; a short mutex when the keeper sleeps.
    pub fn flush_soon(&self) {
        self.flusher().poke(false);
    }

    /// Makes everything below the boundary `written`, or `durable` when `sync`.
    ///
    /// # Errors
    /// As [`Log::wait`].
    ///
    /// # Durability
    /// With `sync` everything below the boundary survives a power cut, else the end of the process.
    ///
    /// # Progress
    /// Blocks on a flush, as [`Log::wait`].
    pub fn flush_wal(&self, sync: bool) -> Result<(), WalError> {
        let mark = if sync { Mark::Durable } else { Mark::Written };
        self.flusher().wait(mark, self.flusher().reserve.advance())
    }

    /// Makes everything `written` durable; what is only in the ring stays there.
    ///
    /// # Errors
    /// As [`Log::wait`].
    ///
    /// # Durability
    /// Everything `written` before the call survives a power cut.
    ///
    /// # Progress
    /// Blocks on a sync, its own or another's.
    pub fn sync_wal(&self) -> Result<(), WalError> {
        self.flusher().wait_leading(Mark::Durable, self.written(), Purpose::SyncOnly)
    }

    /// Reads the records at or above `from` up to what is durable now, by file reads: see [`Log::read_with`].
    ///
    /// # Progress
    /// Short mutexes, no I/O. The iterator blocks on reading files; the log goes on meanwhile.
    pub fn read(&self, from: Lsn) -> Records {
        self.records(from, ReadMode::File)
    }

    /// Reads the records at or above `from` up to what is durable now. A `from` below the oldest record reads from there.
    ///
    /// # Errors
    /// None yet; files are opened as the iterator comes to them.
    ///
    /// # Durability
    /// What is yielded is durable.
    ///
    /// # Progress
    /// Short mutexes, no I/O. The iterator blocks on reading files; the log goes on meanwhile.
    pub fn read_with(&self, from: Lsn, mode: ReadMode) -> Result<Records, WalError> {
        Ok(self.records(from, mode))
    }

    fn records(&self, from: Lsn, mode: ReadMode) -> Records {
        let core = self.core();
        // In this order: what is durable lies in the segments that are listed afterwards.
        let end = core.flusher.recent.durable_end(self.durable());
        let (limit, holds) = (end.lsn, core.flusher.segments.holds.clone());
        let (hold, spans) = core.flusher.segments.hold_from(from, format!("a mapped reader from {from}"), None);
        let running = Running { holds, end, mapped: (mode == ReadMode::Map).then_some(hold) };
        let frames = FrameReader::new(core.env.files.clone(), spans, from, Some(running));
        Records::new(frames, from, limit, core.options.max_record_bytes)
    }

    /// Follows the log as the consumer `name`: yields each record at or above its cursor once it is durable, and keeps the
    /// files it needs, up to its bound. The cursor stays when the tail goes: it keeps files until the consumer comes back,
    /// falls behind its bound, or is removed.
    ///
    /// # Errors
    /// `CursorLost` when records at or above the cursor were freed, or it fell behind its bound: place it anew with
    /// [`TailOptions::from`]. `InvalidOptions`: the name, the bound, or another tail has the cursor. `Io`, `Closed`.
    ///
    /// # Durability
    /// The cursor is on disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file.
    pub fn tail(&self, name: &str, options: TailOptions) -> Result<Tail, WalError> {
        Tail::new(self.core().clone(), name, &options)
    }

    /// Hands out the log's records as they lie in it, as the consumer `name`: for a sender of replication, whose slot the
    /// cursor is. It never stops an append: beyond its bound it loses its place.
    ///
    /// # Errors
    /// As [`Log::tail`]; `CursorLost` also says that a replica is too far behind.
    ///
    /// # Durability
    /// The cursor is on disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file.
    pub fn ship(&self, name: &str, options: ShipOptions) -> Result<Shipper, WalError> {
        Shipper::new(self.core().clone(), name, &options)
    }

    /// Returns the checksum of the last bytes of the stream below what is durable: by [`Log::crc_before`] another log with
    /// the same positions says whether it holds the same bytes there.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    ///
    /// # Durability
    /// What is covered is durable.
    ///
    /// # Progress
    /// Blocks on reading files, as [`Log::crc_before`].
    pub fn tail_check(&self) -> Result<TailCheck, WalError> {
        tail_check::tail_check(self.core(), self.durable())
    }

    /// Returns the CRC-32C of the `bytes` bytes of the stream before `end`, as [`Log::tail_check`] gives it at the other
    /// end; `None` when the log does not hold all of them in one piece below its durable end.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    ///
    /// # Durability
    /// What is covered is durable.
    ///
    /// # Progress
    /// Blocks on reading files, of at most [`TAIL_CHECK_BYTES`](crate::TAIL_CHECK_BYTES) and what lies before them in the
    /// same file.
    pub fn crc_before(&self, end: Lsn, bytes: u32) -> Result<Option<u32>, WalError> {
        tail_check::crc_before(self.core(), end, bytes)
    }

    /// Returns the CRC-32C of the stream from `from` to `to`, with the position (u64, little-endian) that each jump on the way leads to
    /// in front of what follows it: another log with the same positions has the same. `None` when the log does not hold all of it
    /// below its durable end.
    ///
    /// # Errors
    /// `Damaged`, `Io`.
    ///
    /// # Durability
    /// What is covered is durable.
    ///
    /// # Progress
    /// Blocks on reading files, of all that is covered and what lies before it in the same file.
    pub fn crc_between(&self, from: Lsn, to: Lsn) -> Result<Option<u32>, WalError> {
        tail_check::crc_between(self.core(), from, to)
    }

    /// Returns whether there are consumers, attached or not.
    ///
    /// # Progress
    /// Wait-free.
    pub fn has_consumers(&self) -> bool {
        !self.core().consumers.is_empty()
    }

    /// Returns the consumers by name, and the files that each keeps, as [`Log::stat`] does.
    ///
    /// # Progress
    /// Blocks on turning to the next file.
    pub fn consumers(&self) -> Vec<ConsumerStat> {
        self.core().consumers.stats(&self.flusher().segments.spans(), self.durable())
    }

    /// Bounds how much log is kept for the consumer `name` from now on, in bytes of files as [`TailOptions::bound_bytes`]; `None`: as many
    /// files as `wal.max_segments` allows a consumer. Its policy stays. Returns whether there is such a consumer; one that has lost its
    /// place stays lost.
    ///
    /// # Errors
    /// `InvalidOptions` for 0 bytes; `Io`, `Closed`: the bound counts until the log is closed.
    ///
    /// # Durability
    /// On disk once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file where the bound is another one.
    pub fn bound_consumer(&self, name: &str, bytes: Option<u64>) -> Result<bool, WalError> {
        let bounded = self.core().consumers.set_bound(&self.flusher().segments, name, bytes);
        self.flusher().refresh_full();
        bounded
    }

    /// Forgets the consumer `name` and its cursor; returns whether there was one.
    ///
    /// # Errors
    /// `InvalidOptions` while a tail has it; `Io`: it may come back after a crash.
    ///
    /// # Durability
    /// Gone once this returns.
    ///
    /// # Progress
    /// Blocks on writing and syncing a small file.
    pub fn remove_consumer(&self, name: &str) -> Result<bool, WalError> {
        let (core, segments) = (self.core(), &self.flusher().segments);
        let removed = core.consumers.remove(segments, name);
        self.flusher().refresh_full();
        removed
    }

    /// Frees whole files whose records all lie below `lsn` and below what is held, oldest first, but never the last two.
    /// Returns where the log starts now, and who holds the rest.
    ///
    /// # Errors
    /// `Io`; what was freed before stays freed.
    ///
    /// # Durability
    /// What is freed is gone once this returns, and after a crash too.
    ///
    /// # Progress
    /// Blocks on writing and syncing the file of the cursors, if one moved, and on removing files.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<Freed, WalError> {
        let segments = &self.flusher().segments;
        // So that consumers let go of all that they have passed.
        self.core().consumers.save(segments)?;
        segments.free_before(lsn.min(self.durable()))
    }

    /// Returns why records are refused for lack of room on the disk, or of files, if they are.
    ///
    /// # Progress
    /// Short mutexes.
    pub fn full(&self) -> Option<String> {
        self.flusher().segments.full()
    }

    /// Lets files be prepared ahead, where that was to wait ([`Options::spares_wait`](crate::Options)).
    ///
    /// # Progress
    /// Short mutexes.
    pub fn let_prepare(&self) {
        self.flusher().segments.let_prepare();
    }

    /// Gives up a file of at least `bytes` that was prepared ahead, so that its room on a full disk is somebody else's, and prepares none until
    /// what is returned is dropped. `None`: there is none to give, for one is always kept.
    ///
    /// # Durability
    /// The file is gone when this returns.
    ///
    /// # Progress
    /// Blocks on removing a file.
    pub fn lend_spare(&self, bytes: u64) -> Option<LentSpare> {
        self.flusher().segments.lend_spare(bytes).then(|| LentSpare { log: self.clone() })
    }

    /// Returns figures.
    ///
    /// # Progress
    /// Blocks on a flight that puts its frame together, turns to the next file, or mends a failed one.
    pub fn stat(&self) -> Stat {
        Stat::of(self.core())
    }

    /// Does the keeper's and the preparer's work once, and brings back copies that were left out; for logs without threads.
    ///
    /// # Errors
    /// As [`Log::wait`]. A file that could not be prepared is no error here: it closes admission when it matters.
    ///
    /// # Durability
    /// Everything below the boundary survives a power cut.
    ///
    /// # Progress
    /// Blocks on a flush, on preparing one file, and on bringing copies up to date.
    pub fn tick(&self) -> Result<(), WalError> {
        // Noted in `segments`, where appends see it.
        let _noted = self.flusher().segments.prepare_one();
        self.flusher().refresh_full();
        if let Some(mirror) = &self.core().mirror {
            mirror.catch_up();
            self.flusher().settle_copies();
        }
        self.flusher().tell();
        self.flush_wal(true)
    }

    /// Closes: flushes, syncs, marks the end, frees the directory. Later appends and waits return `Closed`.
    ///
    /// # Errors
    /// `Poisoned` or `Io`: the end is not marked, and the next open recovers. Closing again is no error.
    ///
    /// # Durability
    /// Everything that was appended survives a power cut, and the next open finds a clean end.
    ///
    /// # Progress
    /// Blocks on a flush, on the threads of the log, and on writing the file of the cursors.
    pub fn close(&self) -> Result<(), WalError> {
        self.owner.close(true)
    }

    /// Stops using the files without flushing anything, as if the process had died here. For tests of recovery.
    ///
    /// # Progress
    /// Blocks on a flight on its way and on the threads of the log.
    pub fn abandon(&self) {
        // Nothing is flushed, so nothing can fail.
        let _nothing = self.owner.close(false);
    }

    /// Writes the empty frame that follows a silence.
    #[cfg(any(test, feature = "lab"))]
    pub(crate) fn heartbeat(&self) -> Result<(), WalError> {
        let right = self.flusher().begin(&mut self.flusher().queue.lock(), Purpose::Heartbeat);
        right.map_or(Ok(()), |right| self.flusher().fly(right))
    }

    /// Says what holds everybody up, as the preparer and whoever waits do by themselves.
    #[cfg(test)]
    pub(crate) fn look_for_stalls(&self) {
        self.flusher().look_for_stalls();
    }

    /// Returns how many threads wait for a flight.
    #[cfg(test)]
    pub(crate) fn parked_threads(&self) -> usize {
        self.flusher().queue.lock().parked_threads()
    }

    /// Returns what the keeper is doing.
    #[cfg(test)]
    pub(crate) fn keeper_state(&self) -> &std::sync::atomic::AtomicU8 {
        &self.flusher().keeper
    }

    /// Returns the frames written last.
    #[cfg(test)]
    pub(crate) fn recent(&self) -> &crate::recent::Recent {
        &self.flusher().recent
    }

    /// Returns the directory.
    ///
    /// # Progress
    /// Wait-free.
    pub fn dir(&self) -> &Path {
        &self.core().dir
    }
}
