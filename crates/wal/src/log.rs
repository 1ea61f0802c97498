//! `Log` and `Writer`: the public face. It joins the parts and holds no rule of its own beyond their order.

use std::{
    future::Future,
    path::{Path, PathBuf},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread::JoinHandle,
};

use collie_base::Lsn;
use collie_env::{Env, FileLock, LockError};
use parking_lot::Mutex;

use crate::{
    Level, Mark, Options, Records, Recovered, WalError, WriteOptions,
    flush::{Flusher, Purpose, Right},
    format::{KIND_DATA, KIND_LAST, KIND_PART, KIND_UNLOGGED, RecordHead, TAG_MAX, piece_head},
    keeper, recover,
    reserve::{Reserve, State, Try},
    segments::Segments,
};

/// Where an append landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Position of the record (of its last piece, when it is long).
    pub start: Lsn,
    /// The position after it: what to wait for.
    pub end: Lsn,
}

/// Figures of a running log.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stat {
    /// Flights that wrote a frame.
    pub frames: u64,
    /// Successful syncs of the log files.
    pub syncs: u64,
    /// Bytes of records written.
    pub stream_bytes: u64,
    /// Bytes of frames written, headers and padding included.
    pub file_bytes: u64,
    /// Appends that found the ring full.
    pub ring_full: u64,
    /// Writers made beyond `wal.slots`.
    pub slotless_writers: u64,
    /// Files that hold records.
    pub segments: usize,
    /// Files left because a write or sync of them failed.
    pub rewrites: u64,
    /// Files prepared ahead.
    pub spares: usize,
    /// What is wrong now and will stop commits if nobody acts, if anything is.
    pub alarm: Option<String>,
}

#[derive(Debug)]
struct Core {
    flusher: Flusher,
    options: Options,
    env: Env,
    dir: PathBuf,
    slots: Mutex<Vec<u32>>,
    /// Held while a writer without a slot appends a record of several pieces.
    slotless: Mutex<()>,
    ring_full: AtomicU64,
    slotless_writers: AtomicU64,
    /// Commits counted for `wal.sync_every`; stays 0 without it.
    commits: AtomicU64,
    lock: Mutex<Option<Box<dyn FileLock>>>,
}

/// Stops the threads when the last `Log` goes.
#[derive(Debug)]
struct Owner {
    core: Arc<Core>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An open log. Clones are handles of the same one; the last one to go closes it as well as it can.
#[derive(Clone, Debug)]
pub struct Log {
    owner: Arc<Owner>,
}

impl Log {
    /// Opens the log in `dir`, creating it where there is none.
    ///
    /// # Errors
    /// `InvalidOptions`; `Locked` when somebody has it open; `Damaged`, `Unfinished`, `ForeignLog`, `NewerFormat` as
    /// `wal.recovery_mode` says; `Io`.
    ///
    /// # Durability
    /// What [`Recovered`] names survives a power cut once this returns.
    pub fn open(env: &Env, dir: &Path, options: Options) -> Result<(Self, Recovered), WalError> {
        options.validate()?;
        env.files.create_dir_all(dir).map_err(|source| WalError::io("create", dir, source))?;
        let lock_path = dir.join("LOCK");
        let lock = env.files.lock(&lock_path).map_err(|error| match error {
            LockError::Held { pid } => WalError::Locked { pid },
            LockError::Io(source) => WalError::io("lock", &lock_path, source),
        })?;
        let opened = recover::open(env, dir, &options)?;
        let reserve = Reserve::new(options.ring_bytes, opened.recovered.next);
        let segments = Segments::new(env.clone(), dir.to_owned(), &options, opened.start);
        let core = Arc::new(Core {
            flusher: Flusher::new(reserve, segments, opened.flight, options.warnings.clone()),
            env: env.clone(),
            dir: dir.to_owned(),
            slots: Mutex::new((0..options.slots).rev().collect()),
            slotless: Mutex::new(()),
            ring_full: AtomicU64::new(0),
            slotless_writers: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            lock: Mutex::new(Some(lock)),
            options,
        });
        // From here on a failure drops `log`, which stops the threads that run already.
        let log = Self { owner: Arc::new(Owner { core, threads: Mutex::new(Vec::new()) }) };
        if log.core().options.threads {
            log.spawn("wal-keeper", |core| keeper::run(&core.flusher, &core.options))?;
            log.spawn("wal-preparer", |core| {
                core.flusher.segments.run_preparer(|| core.flusher.refresh_full());
            })?;
        }
        if opened.recovered.ending == crate::Ending::Unclean
            && let Some((tag, body)) = log.core().options.first_record.clone()
        {
            log.writer().append(tag, &[&body])?;
        }
        Ok((log, opened.recovered))
    }

    fn spawn(&self, name: &str, run: fn(&Core)) -> Result<(), WalError> {
        let core = self.core().clone();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(&core));
        let thread = thread.map_err(|source| WalError::io("start a thread for", self.dir(), source))?;
        self.owner.threads.lock().push(thread);
        Ok(())
    }

    fn core(&self) -> &Arc<Core> {
        &self.owner.core
    }

    fn flusher(&self) -> &Flusher {
        &self.core().flusher
    }

    /// Makes a writer. Never fails: writers beyond `wal.slots` take turns at records of several pieces.
    pub fn writer(&self) -> Writer {
        let slot = self.core().slots.lock().pop();
        if slot.is_none() {
            self.core().slotless_writers.fetch_add(1, Ordering::Relaxed);
        }
        Writer { log: self.clone(), slot, waits: true }
    }

    /// Counts a commit and returns how far it has to wait: `level`, or `Disk` when `wal.sync_every` says that it is its
    /// turn. For callers that append and wait by themselves; [`Writer::commit`] and [`Writer::write`] do it. What is not
    /// logged does not count.
    pub fn commit_level(&self, level: Level) -> Level {
        let (core, every) = (self.core(), self.core().options.sync_every);
        if every == 0 || level == Level::None {
            return level;
        }
        let nth = core.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if nth.is_multiple_of(every) { Level::Disk } else { level }
    }

    /// Returns the boundary: every record below is complete in memory.
    pub fn boundary(&self) -> Lsn {
        self.flusher().mark(Mark::Boundary)
    }

    /// Returns the next free position.
    pub fn glsn(&self) -> Lsn {
        self.flusher().mark(Mark::Boundary)
    }

    /// Returns what the kernel has: every byte below.
    pub fn written(&self) -> Lsn {
        self.flusher().mark(Mark::Written)
    }

    /// Returns what is on disk: every byte below.
    pub fn durable(&self) -> Lsn {
        self.flusher().mark(Mark::Durable)
    }

    /// Blocks until `mark` reaches `lsn`, which an append of this log returned.
    ///
    /// # Progress
    /// Leads a flush when nobody does, else parks until one ends.
    ///
    /// # Errors
    /// `Poisoned`, `Closed`: it never will.
    pub fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        if mark == Mark::Boundary {
            self.flush_soon();
        }
        self.flusher().wait(mark, lsn)
    }

    /// Returns a future that is ready once `mark` reaches `lsn`. Its first poll starts a flush on the keeper.
    ///
    /// # Cancel safety
    /// Dropping it forgets the waiter and nothing else.
    pub fn reached(&self, mark: Mark, lsn: Lsn) -> Reached {
        Reached { core: self.core().clone(), mark, lsn, id: None }
    }

    /// Takes the right to flush now on this thread, when records wait to become durable and nobody flushes.
    pub fn try_lead(&self) -> Option<Lead> {
        let flusher = self.flusher();
        if flusher.mark(Mark::Durable) >= flusher.mark(Mark::Boundary) {
            return None;
        }
        let right = flusher.begin(&mut flusher.queue.lock(), Purpose::Sync)?;
        Some(Lead { core: self.core().clone(), right: Some(right) })
    }

    /// Has everything appended so far durable within `wal.flush_delay`, without waiting for it. Costs a fence and a
    /// load, unless the keeper sleeps.
    pub fn flush_soon(&self) {
        self.flusher().poke(false);
    }

    /// Makes everything below the boundary `written`, or `durable` when `sync`.
    ///
    /// # Errors
    /// As [`Log::wait`].
    pub fn flush_wal(&self, sync: bool) -> Result<(), WalError> {
        let mark = if sync { Mark::Durable } else { Mark::Written };
        self.flusher().wait(mark, self.boundary())
    }

    /// Makes everything `written` durable; what is only in the ring stays there.
    ///
    /// # Errors
    /// As [`Log::wait`].
    pub fn sync_wal(&self) -> Result<(), WalError> {
        self.flusher().wait_leading(Mark::Durable, self.written(), Purpose::SyncOnly)
    }

    /// Reads the records at or above `from` up to what is durable now.
    pub fn read(&self, from: Lsn) -> Records {
        let (durable, spans) = (self.durable(), self.flusher().segments.spans());
        let max_record = usize::try_from(self.core().options.max_record_bytes).unwrap_or(usize::MAX);
        Records::new(self.core().env.files.clone(), spans, from, durable, max_record)
    }

    /// Frees whole files whose records all lie below `lsn`, but never the last two; returns where the log starts now.
    ///
    /// # Errors
    /// `Io`; what was freed before stays freed.
    pub fn truncate_before(&self, lsn: Lsn) -> Result<Lsn, WalError> {
        self.flusher().segments.free_before(lsn.min(self.durable()))
    }

    /// Returns figures. Waits for a flush on its way.
    pub fn stat(&self) -> Stat {
        let counts = self.flusher().with_flight(|flight| flight.counts);
        let (segments, spares) = self.flusher().segments.counts();
        Stat {
            frames: counts.frames,
            syncs: counts.syncs,
            stream_bytes: counts.stream_bytes,
            file_bytes: counts.file_bytes,
            rewrites: counts.rewrites,
            ring_full: self.core().ring_full.load(Ordering::Relaxed),
            slotless_writers: self.core().slotless_writers.load(Ordering::Relaxed),
            segments,
            spares,
            alarm: self.flusher().segments.alarm(),
        }
    }

    /// Does the keeper's and the preparer's work once; for logs without threads.
    ///
    /// # Errors
    /// As [`Log::wait`]. A file that could not be prepared is no error here: it closes admission when it matters.
    pub fn tick(&self) -> Result<(), WalError> {
        // Noted in `segments`, where appends see it.
        let _noted = self.flusher().segments.prepare_one();
        self.flusher().refresh_full();
        self.flush_wal(true)
    }

    /// Closes: flushes, syncs, marks the end, frees the directory. Later appends and waits return `Closed`.
    ///
    /// # Errors
    /// `Poisoned` or `Io`: the end is not marked, and the next open recovers. Closing again is no error.
    pub fn close(&self) -> Result<(), WalError> {
        self.owner.close(true)
    }

    /// Stops using the files without flushing anything, as if the process had died here. For tests of recovery.
    pub fn abandon(&self) {
        // Nothing is flushed, so nothing can fail.
        let _nothing = self.owner.close(false);
    }

    /// Writes the empty frame that follows a silence.
    #[cfg(test)]
    pub(crate) fn heartbeat(&self) -> Result<(), WalError> {
        let right = self.flusher().begin(&mut self.flusher().queue.lock(), Purpose::Heartbeat);
        right.map_or(Ok(()), |right| self.flusher().fly(right))
    }

    /// Returns what the keeper is doing.
    #[cfg(test)]
    pub(crate) fn keeper_state(&self) -> &std::sync::atomic::AtomicU8 {
        &self.flusher().keeper
    }

    /// Returns the directory.
    pub fn dir(&self) -> &Path {
        &self.core().dir
    }
}

impl Owner {
    fn close(&self, orderly: bool) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        flusher.reserve.stop(State::Closed);
        let outcome = if orderly { self.finish() } else { Ok(()) };
        flusher.end(State::Closed);
        // Waits for a flight on its way; the next one sees that the log is closed.
        flusher.with_flight(|_| ());
        flusher.queue.lock().stop = true;
        flusher.keeper_poked.notify_one();
        flusher.segments.stop();
        let me = std::thread::current().id();
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // A waker may drop the last handle on the keeper itself: that thread ends by itself.
            if thread.thread().id() != me && thread.join().is_err() {
                return Err(WalError::Poisoned { durable: flusher.mark(Mark::Durable) });
            }
        }
        self.core.lock.lock().take();
        outcome
    }

    /// Flushes and writes the closing frame, once.
    fn finish(&self) -> Result<(), WalError> {
        let flusher = &self.core.flusher;
        if flusher.queue.lock().state == State::Closed {
            return Ok(());
        }
        flusher.wait(Mark::Durable, flusher.mark(Mark::Boundary))?;
        loop {
            let right = flusher.begin(&mut flusher.queue.lock(), Purpose::Close);
            match right {
                Some(right) => return flusher.fly(right),
                None if flusher.queue.lock().state != State::Open => {
                    return Err(flusher.refusal(State::Poisoned));
                }
                // Only a flight without data can be on its way now: it ends by itself.
                None => std::thread::yield_now(),
            }
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // Nobody is left to hear of it; the next open recovers.
        let _best_effort = self.close(true);
    }
}

/// The right to run one flush; dropping it unused gives it back.
#[derive(Debug)]
#[must_use]
pub struct Lead {
    core: Arc<Core>,
    right: Option<Right>,
}

impl Lead {
    /// Writes and syncs everything gathered so far (up to one frame) and wakes whoever waits for it.
    ///
    /// # Errors
    /// `Io`: a write or sync failed, writing to the next file failed too, and the log is poisoned.
    pub fn run(mut self) -> Result<(), WalError> {
        let right = self.right.take().expect("taken here and in drop only");
        self.core.flusher.fly(right)
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        if let Some(right) = self.right.take() {
            self.core.flusher.give_up(right);
        }
    }
}

/// The future of [`Log::reached`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Reached {
    core: Arc<Core>,
    mark: Mark,
    lsn: Lsn,
    id: Option<u64>,
}

impl Future for Reached {
    type Output = Result<(), WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let flusher = &this.core.flusher;
        if flusher.mark(this.mark) >= this.lsn {
            if this.mark == Mark::Boundary {
                flusher.poke(false);
            }
            return Poll::Ready(Ok(()));
        }
        assert!(this.lsn <= flusher.mark(Mark::Boundary), "waits are for records that were appended");
        match flusher.register(this.mark, this.lsn, &mut this.id, context.waker()) {
            Ok(true) => Poll::Ready(Ok(())),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.core.flusher.forget(self.mark, self.lsn, id);
        }
    }
}

/// Appends records. Cheap to keep per thread; `Send`, used by one thread at a time.
#[derive(Debug)]
pub struct Writer {
    log: Log,
    slot: Option<u32>,
    /// Whether an append may wait for room in the ring.
    waits: bool,
}

impl Writer {
    /// Appends the concatenation of `parts` as one record with `tag` (at most 31), of any size up to `wal.max_record`.
    ///
    /// # Durability
    /// None yet: wait for `end`.
    ///
    /// # Progress
    /// Blocks for one copy by another appender, and on a flush while the ring is full.
    ///
    /// # Errors
    /// `TooLarge`, `Full`: nothing was appended. `Poisoned`, `Closed`: nothing can be; of a record larger than
    /// `wal.chunk_size` some pieces may have been, which no reader yields.
    pub fn append(&mut self, tag: u8, parts: &[&[u8]]) -> Result<Appended, WalError> {
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let options = &self.log.core().options;
        if bytes > options.max_record_bytes {
            return Err(WalError::TooLarge { bytes, limit_bytes: options.max_record_bytes });
        }
        if bytes > options.chunk_bytes {
            return self.append_pieces(tag, &parts.concat());
        }
        let head = RecordHead::new(usize::try_from(bytes).expect("at most a piece"), KIND_DATA, tag);
        const FEW: usize = 8;
        if parts.len() < FEW {
            let mut all = [&[][..]; FEW];
            all[0] = head.as_slice();
            all[1..=parts.len()].copy_from_slice(parts);
            return self.append_record(&all[..=parts.len()], None::<fn(Lsn)>);
        }
        let mut all = Vec::with_capacity(parts.len() + 1);
        all.push(head.as_slice());
        all.extend_from_slice(parts);
        self.append_record(&all, None::<fn(Lsn)>)
    }

    /// Appends one record of at most `wal.chunk_size` and calls `publish` with its position, in the order of positions
    /// and before the boundary passes it. `publish` runs under the log's lock: it must not block, panic or append.
    ///
    /// # Errors
    /// As [`Writer::append`]; `publish` was not called then.
    pub fn append_with(&mut self, tag: u8, bytes: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, WalError> {
        let limit_bytes = self.log.core().options.chunk_bytes;
        if bytes.len() as u64 > limit_bytes {
            return Err(WalError::TooLarge { bytes: bytes.len() as u64, limit_bytes });
        }
        let head = RecordHead::new(bytes.len(), KIND_DATA, tag);
        self.append_record(&[head.as_slice(), bytes], Some(publish))
    }

    /// Appends a marker for a write that is not logged: it has a position in the order of commits, and readers yield a
    /// hole of kind [`Unlogged`](crate::RecordKind::Unlogged) with `note`, at most 6 bytes (which family it was, say).
    /// `publish` as in [`Writer::append_with`].
    ///
    /// # Durability
    /// None, whatever is waited for: only the marker is.
    ///
    /// # Errors
    /// As [`Writer::append_with`].
    pub fn append_unlogged(&mut self, tag: u8, note: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, WalError> {
        if note.len() as u64 > UNLOGGED_NOTE_MAX {
            return Err(WalError::TooLarge { bytes: note.len() as u64, limit_bytes: UNLOGGED_NOTE_MAX });
        }
        let head = RecordHead::new(note.len(), KIND_UNLOGGED, tag);
        self.append_record(&[head.as_slice(), note], Some(publish))
    }

    /// Appends, then waits for `level`; with [`Level::None`] a marker without a note is all that is appended. Counts for
    /// `wal.sync_every`.
    ///
    /// # Errors
    /// As [`Writer::append`] and [`Log::wait`].
    pub fn commit(&mut self, tag: u8, bytes: &[u8], level: Level) -> Result<Appended, WalError> {
        let appended = match level {
            Level::None => self.append_unlogged(tag, &[], |_| ())?,
            _ => self.append(tag, &[bytes])?,
        };
        match self.log.commit_level(level) {
            Level::None | Level::Memory => self.log.flush_soon(),
            Level::Process => {
                self.log.wait(Mark::Written, appended.end)?;
                self.log.flush_soon();
            }
            Level::Disk => self.log.wait(Mark::Durable, appended.end)?,
        }
        Ok(appended)
    }

    /// [`Writer::commit`] with RocksDB's options.
    ///
    /// # Errors
    /// As [`Writer::commit`]; `InvalidOptions` for `sync` with `disable_wal`; `Full` for `no_slowdown` when the ring is
    /// full.
    pub fn write(&mut self, tag: u8, bytes: &[u8], options: WriteOptions) -> Result<Appended, WalError> {
        let level = options.level(self.log.core().options.ring)?;
        self.waits = !options.no_slowdown;
        let committed = self.commit(tag, bytes, level);
        self.waits = true;
        committed
    }

    /// Returns the log.
    pub fn log(&self) -> &Log {
        &self.log
    }

    fn append_pieces(&self, tag: u8, body: &[u8]) -> Result<Appended, WalError> {
        let core = self.log.core();
        let _turn = self.slot.is_none().then(|| core.slotless.lock());
        let slot = self.slot.unwrap_or(core.options.slots);
        let piece_bytes = usize::try_from(core.options.chunk_bytes).expect("at most 1 MiB") - 16;
        let (count, mut last) = (body.len().div_ceil(piece_bytes), None);
        for (number, piece) in body.chunks(piece_bytes).enumerate() {
            let kind = if number + 1 == count { KIND_LAST } else { KIND_PART };
            let within = piece_head(slot, number as u64);
            let head = RecordHead::new(within.len() + piece.len(), kind, tag);
            last = Some(self.append_record(&[head.as_slice(), &within, piece], None::<fn(Lsn)>)?);
        }
        Ok(last.expect("a body above one piece has pieces"))
    }

    fn append_record<F: FnOnce(Lsn)>(&self, parts: &[&[u8]], mut publish: Option<F>) -> Result<Appended, WalError> {
        let flusher = self.log.flusher();
        if flusher.full.load(Ordering::Acquire) != 0 {
            flusher.refresh_full();
            let state = flusher.queue.lock().state;
            if state != State::Open {
                return Err(flusher.refusal(state));
            }
            if let Some(pinned_by) = flusher.segments.full() {
                return Err(WalError::Full { pinned_by });
            }
        }
        loop {
            match flusher.reserve.append(&flusher.durable, parts, &mut publish) {
                Try::Done { start, end } => {
                    if end.bytes_since(flusher.durable.load()) >= self.log.core().options.flush_bytes {
                        flusher.poke(true);
                    }
                    return Ok(Appended { start, end });
                }
                Try::RingFull { until } => {
                    self.log.core().ring_full.fetch_add(1, Ordering::Relaxed);
                    if !self.waits {
                        let pinned_by = format!("the ring, whose bytes up to {until} wait for the disk");
                        return Err(WalError::Full { pinned_by });
                    }
                    flusher.wait(Mark::Durable, until)?;
                }
                Try::Refused(state) => return Err(flusher.refusal(state)),
            }
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            self.log.core().slots.lock().push(slot);
        }
    }
}

/// Longest note of a marker: the marker takes 2 to 8 bytes in all.
const UNLOGGED_NOTE_MAX: u64 = 6;

const _: () = assert!(TAG_MAX == 31, "Writer::append says so");
