//! `Writer`: appends records, and commits: appends one and waits for its level.
//!
//! # One append
//! [`Writer::append`] makes the record's head; [`Core::append`] checks that the disk has room, and reserves, copies and
//! publishes the record ([`crate::append`]). All of it is inlined into the caller up to the protocol's own function;
//! the rare work of an append (a record in pieces, a shared slot, no room) is kept out of line, so that the path itself
//! stays short. `tests/assembly.rs` counts its locked instructions.
//!
//! # One commit
//! [`Writer::commit`] appends, gets from [`Log::commit_level`] how far to wait, and waits: for the boundary with the
//! writer's own slot, for a flush through [`Log::wait`].

use std::sync::atomic::Ordering;

use collie_base::Lsn;
use collie_obs::{Ended, LogAppend, word};

use crate::append::Appended;
use crate::{
    Level, Log, Mark, RingKind, WalError, WriteOptions, append::Record, append::Slot, core::Core, format::KIND_DATA,
    format::KIND_LAST, format::KIND_PART, format::KIND_UNLOGGED, format::RecordHead, format::TAG_MAX,
    format::piece_head, options::RECORD_OVERHEAD,
};

/// Longest note of a marker, which takes 2 to 8 bytes in all.
const UNLOGGED_NOTE_MAX: u64 = 6;

const _: () = assert!(TAG_MAX == 31, "Writer::append says so");

/// A handle that appends records. Cheap to keep per thread; `Send`, used by one thread at a time.
#[derive(Debug)]
pub struct Writer {
    log: Log,
    /// Its own slot; without one it takes a turn at a shared slot for each record.
    slot: Option<Slot>,
    /// Whether an append waits while the ring is full; `false` inside a write with `no_slowdown`.
    waits: bool,
    /// Whether its appends give room on the disk back, and may use the log's reserve.
    gives_back: bool,
}

impl Writer {
    pub(crate) fn new(log: Log, slot: Option<Slot>) -> Self {
        Self { log, slot, waits: true, gives_back: false }
    }

    /// Appends the concatenation of `parts` as one record with `tag` (at most 31), of any size up to `wal.max_record`.
    ///
    /// # Errors
    /// `TooLarge`, `Full`: no record was appended. `Poisoned`, `Closed`: none can be any more. Of a record larger than
    /// `wal.chunk_size` some pieces may have been appended, which no reader yields.
    ///
    /// # Durability
    /// None yet: wait for `end`.
    ///
    /// # Progress
    /// Wait-free with `base` and `help` until the ring is full, then blocks on a flush. The mutex protocol blocks on
    /// the copy of another appender. A writer beyond `wal.slots` also waits for its turn.
    #[inline]
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
        self.append_record(&Record::new(head, parts), false, |_| ())
    }

    /// Appends one record of at most `wal.chunk_size` and calls `publish` with its position before the boundary passes
    /// it. A stall in `publish` holds back the boundary for all threads: it must not block, allocate, lock or append. A
    /// panic in it goes on to the caller and leaves a VOID record, which no reader yields, or nothing with the mutex
    /// protocol.
    ///
    /// # Errors
    /// As [`Writer::append`]; then `publish` was not called.
    ///
    /// # Durability
    /// None yet: wait for `end`.
    ///
    /// # Progress
    /// Wait-free where [`Writer::append`] is, if `publish` is.
    pub fn append_with(&mut self, tag: u8, bytes: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, WalError> {
        let limit_bytes = self.log.core().options.chunk_bytes;
        if bytes.len() as u64 > limit_bytes {
            return Err(WalError::TooLarge { bytes: bytes.len() as u64, limit_bytes });
        }
        let head = RecordHead::new(bytes.len(), KIND_DATA, tag);
        self.append_record(&Record::new(head, &[bytes]), true, publish)
    }

    /// Appends a marker for a write that is not logged: it has a position in the order of commits, and readers yield a
    /// hole of kind [`Unlogged`](crate::RecordKind::Unlogged) with `note`, at most 6 bytes (for example the family).
    /// `publish` as in [`Writer::append_with`].
    ///
    /// # Errors
    /// As [`Writer::append_with`].
    ///
    /// # Durability
    /// None, whatever the caller waits for: only the marker is durable.
    ///
    /// # Progress
    /// Wait-free where [`Writer::append`] is, if `publish` is.
    pub fn append_unlogged(&mut self, tag: u8, note: &[u8], publish: impl FnOnce(Lsn)) -> Result<Appended, WalError> {
        if note.len() as u64 > UNLOGGED_NOTE_MAX {
            return Err(WalError::TooLarge { bytes: note.len() as u64, limit_bytes: UNLOGGED_NOTE_MAX });
        }
        let head = RecordHead::new(note.len(), KIND_UNLOGGED, tag);
        self.append_record(&Record::new(head, &[note]), true, publish)
    }

    /// Appends a record; `commits` if `publish` publishes something with it.
    #[inline]
    fn append_record<F: FnOnce(Lsn)>(
        &mut self,
        record: &Record<'_>,
        commits: bool,
        publish: F,
    ) -> Result<Appended, WalError> {
        let core = self.log.core();
        if !self.waits {
            core.look_for_room_in_the_ring(record.bytes())?;
        }
        let span = collie_obs::start::<LogAppend>();
        let appended = match &mut self.slot {
            Some(slot) => core.append(slot, record, self.gives_back, publish),
            None => core.append_in_turn(record, self.gives_back, publish),
        };
        if let (Some(span), Ok(appended)) = (span, &appended) {
            core.tell_append(span.end(), appended, record.bytes(), commits);
        }
        appended
    }
}

impl Core {
    /// Appends a record of at most one piece through `slot`.
    #[inline]
    fn append<F: FnOnce(Lsn)>(
        &self,
        slot: &mut Slot,
        record: &Record<'_>,
        gives_back: bool,
        publish: F,
    ) -> Result<Appended, WalError> {
        if self.flusher.full.load(Ordering::Acquire) != 0 {
            self.look_for_room_on_disk(gives_back)?;
        }
        let start = self.flusher.reserve.append(slot, self, record, publish)?;
        let end = start.plus(record.bytes());
        if end.bytes_since(self.flusher.durable.load()) >= self.flusher.flush_bytes() {
            self.flusher.poke(true);
        }
        Ok(Appended { start, end })
    }

    /// Records a measured append.
    #[cold]
    #[inline(never)]
    fn tell_append(&self, ended: Ended<LogAppend>, appended: &Appended, bytes: u64, commits: bool) {
        let ahead = appended.end.get().saturating_sub(self.flusher.durable.load().get());
        let append = LogAppend {
            bytes: word(bytes),
            is_commit: u32::from(commits),
            workers: word(self.flusher.reserve.writers()),
            ring_fill_pct: word(ahead * 100 / self.options.ring_bytes),
        };
        ended.tell(appended.start, append, []);
    }

    /// Appends through a shared slot.
    #[cold]
    #[inline(never)]
    fn append_in_turn<F: FnOnce(Lsn)>(
        &self,
        record: &Record<'_>,
        gives_back: bool,
        publish: F,
    ) -> Result<Appended, WalError> {
        self.append(self.flusher.reserve.shared_slot().slot(), record, gives_back, publish)
    }
}

impl Writer {
    /// Appends a record that is larger than a piece, piece by piece.
    #[cold]
    #[inline(never)]
    fn append_pieces(&mut self, tag: u8, body: &[u8]) -> Result<Appended, WalError> {
        let (core, waits, gives_back) = (self.log.core(), self.waits, self.gives_back);
        let piece_bytes = usize::try_from(core.options.chunk_bytes).expect("at most 1 MiB") - 16;
        let (count, mut last) = (body.len().div_ceil(piece_bytes), None);
        // Readers join the pieces by the slot's number, so a shared slot is kept until the last piece.
        let mut turn = None;
        let slot = match &mut self.slot {
            Some(slot) => slot,
            None => turn.insert(core.flusher.reserve.shared_slot()).slot(),
        };
        if !waits {
            // For the whole record: once begun, it does not fail for lack of room in the ring.
            core.look_for_room_in_the_ring(body.len() as u64 + count as u64 * RECORD_OVERHEAD)?;
        }
        for (number, piece) in body.chunks(piece_bytes).enumerate() {
            let kind = if number + 1 == count { KIND_LAST } else { KIND_PART };
            let within = piece_head(slot.number(), number as u64);
            let head = RecordHead::new(within.len() + piece.len(), kind, tag);
            match core.append(slot, &Record::new(head, &[within.as_slice(), piece]), gives_back, |_| ()) {
                Ok(appended) => last = Some(appended),
                Err(error) => {
                    if number > 0 {
                        core.give_up_pieces(slot, number as u64, tag);
                    }
                    return Err(error);
                }
            }
        }
        Ok(last.expect("a body above one piece has pieces"))
    }
}

impl Core {
    /// Ends a payload of which `pieces` were appended and no more will be, with a last piece out of turn: readers drop
    /// the payload, and no longer start at its first piece. Otherwise a consumer whose bound refuses the rest of a
    /// record would keep that record's files, stay at its bound, and refuse forever.
    #[cold]
    fn give_up_pieces(&self, slot: &mut Slot, pieces: u64, tag: u8) {
        let within = piece_head(slot.number(), pieces + 1);
        let head = RecordHead::new(within.len(), KIND_LAST, tag);
        // A log that has stopped needs no end. The piece is appended without a check of the room on disk: it has a few
        // bytes, and reserved records have room.
        let _unless_stopped = self.flusher.reserve.append(slot, self, &Record::new(head, &[&within]), |_| ());
    }
}

impl Writer {
    /// Appends, then waits for `level`; with [`Level::None`] it appends only a marker without a note. Counts for
    /// `wal.sync_every`.
    ///
    /// # Errors
    /// As [`Writer::append`] and [`Log::wait`]. After `Poisoned` and `Closed` the next open may still find the record.
    ///
    /// # Durability
    /// That of `level`: see [`Level`].
    ///
    /// # Progress
    /// Blocks on a flush at `Disk`, and at `Process` with a private ring; else on the copies of other appenders.
    pub fn commit(&mut self, tag: u8, bytes: &[u8], level: Level) -> Result<Appended, WalError> {
        let appended = match level {
            Level::None => self.append_unlogged(tag, &[], |_| ())?,
            _ => self.append(tag, &[bytes])?,
        };
        match self.log.commit_level(level) {
            Level::None | Level::Memory => {
                self.wait_boundary(appended.end)?;
                self.log.flush_soon();
            }
            Level::Process if self.log.ring() == RingKind::Shared => {
                self.wait_boundary(appended.end)?;
                self.log.flush_soon();
            }
            Level::Process => {
                self.log.wait(Mark::Written, appended.end)?;
                self.log.flush_soon();
            }
            Level::Disk => self.log.wait(Mark::Durable, appended.end)?,
        }
        Ok(appended)
    }

    /// Commits like [`Writer::commit`], with RocksDB's options.
    ///
    /// # Errors
    /// As [`Writer::commit`]; `InvalidOptions` for `sync` with `disable_wal`; `RingFull` for `no_slowdown` if the ring
    /// is full.
    ///
    /// # Durability
    /// That of the level that `options` give: see [`WriteOptions::level`].
    ///
    /// # Progress
    /// Blocks on what [`Writer::commit`] does; with `no_slowdown` never on room in the ring.
    pub fn write(&mut self, tag: u8, bytes: &[u8], options: WriteOptions) -> Result<Appended, WalError> {
        let level = options.level(self.log.ring())?;
        self.waits = !options.no_slowdown;
        let committed = self.commit(tag, bytes, level);
        self.waits = true;
        committed
    }

    /// Sets whether appends from now on fail with `RingFull` instead of waiting for room in the ring, like those of a
    /// write with `no_slowdown`. Of a record larger than `wal.chunk_size` some pieces may have been appended then,
    /// which no reader yields.
    ///
    /// # Progress
    /// Wait-free.
    pub fn set_no_slowdown(&mut self, no_slowdown: bool) {
        self.waits = !no_slowdown;
    }

    /// Sets whether the records appended from now on give room on the disk back once they are durable: they may use the
    /// reserve that the log keeps with two or more `wal.spares`, when others are refused with `Full`.
    ///
    /// # Progress
    /// Wait-free.
    pub fn set_gives_back(&mut self, gives_back: bool) {
        self.gives_back = gives_back;
    }

    /// Returns the log.
    ///
    /// # Progress
    /// Wait-free.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Waits for the boundary at the end of this writer's last record.
    fn wait_boundary(&self, end: Lsn) -> Result<(), WalError> {
        let (flusher, Some(slot)) = (self.log.flusher(), &self.slot) else {
            return self.log.flusher().wait(Mark::Boundary, end);
        };
        flusher.reserve.wait_own(slot, end).map_err(|state| flusher.refusal(state))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            self.log.flusher().reserve.give_back(slot);
        }
    }
}
