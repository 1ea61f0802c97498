//! The in-flight flush: it takes the permit, places a frame, writes it, syncs, and completes.
//!
//! One flush is in flight at a time, so a flush has the frame writer for itself. If a write or a sync fails, the same
//! flush rewrites what is not durable to another file (`rewrite`, W5).

use std::{sync::atomic::Ordering, task::Waker};

use collie_base::Lsn;
use collie_env::fault_point;
use collie_obs::{Ended, LogFlush, Source, word, work_for};

use super::{
    Flusher,
    background::FLUSHER_SLEEPS,
    queue::{InFlight, Purpose, Queue, lane},
};
use crate::{
    WalError,
    append::State,
    flush::frame_writer::{FrameWriter, Placed, sync_file},
    flush::recent::Wrote,
    format::decode::frame_claim,
    read::record_count,
};

/// The permit to flush, until the flush completes.
#[derive(Debug)]
#[must_use]
pub(crate) struct Permit {
    pub(super) purpose: Purpose,
    /// The position that it must cover.
    pub(super) target: Lsn,
}

/// Durations of the parts of a flush that is measured.
#[derive(Debug, Default)]
struct Times {
    write_ns: u64,
    sync_ns: u64,
}

impl Flusher {
    /// Takes the permit to flush, if it is free.
    pub(crate) fn begin(&self, queue: &mut Queue, purpose: Purpose) -> Option<Permit> {
        if !queue.may_begin() {
            return None;
        }
        queue.flush += 1;
        let boundary = self.reserve.advance();
        let target = if purpose == Purpose::SyncOnly { self.written.load() } else { boundary };
        let (number, began_ns) = (queue.flush, self.clock.now_ns());
        let last_ns = std::mem::replace(&mut queue.last_began_ns, began_ns);
        let since_last_ns = if last_ns == 0 { 0 } else { began_ns.saturating_sub(last_ns) };
        queue.in_flight = Some(InFlight { number, purpose, target, began_ns, since_last_ns });
        Some(Permit { purpose, target })
    }

    /// Flushes once, then wakes a next leader and the waiters that the flush covers.
    pub(crate) fn flush(&self, permit: Permit) -> Result<(), WalError> {
        let mut completion = Completion { flusher: self, failed: true };
        let flushed = self.flush_inner(&permit);
        completion.failed = flushed.is_err();
        drop(completion);
        self.tell();
        flushed
    }

    /// Returns the permit unused.
    pub(crate) fn give_back(&self, permit: Permit) {
        let Permit { .. } = permit;
        self.complete();
    }

    fn flush_inner(&self, permit: &Permit) -> Result<(), WalError> {
        let _scope = self.follows.then(|| work_for(Source::Apply));
        let mut writer = self.frame_writer.lock();
        // A file that failed under a jump of positions comes first: nothing may be placed in it (W5).
        if self.rewrite(&mut writer, permit.target)? {
            return self.after_rewrite(&mut writer, permit);
        }
        let (span, before) = (collie_obs::start::<LogFlush>(), self.counters.counts());
        let mut times = span.is_some().then(Times::default);
        match self.write_and_sync(&mut writer, permit, times.as_mut()) {
            Ok(false) => {}
            Ok(true) => {
                if let (Some(span), Some(times)) = (span, times) {
                    let after = self.counters.counts();
                    let stream_bytes = after.stream_bytes - before.stream_bytes;
                    let disk_bytes = after.file_bytes - before.file_bytes;
                    let records = if stream_bytes > 0 { records_of(writer.last_frame()) } else { 0 };
                    self.tell_flush(
                        span.end(),
                        permit,
                        [stream_bytes, records],
                        [times.write_ns, times.sync_ns, disk_bytes],
                    );
                }
            }
            Err(error) => {
                if !self.rewrite(&mut writer, permit.target)? {
                    return Err(error);
                }
                return self.after_rewrite(&mut writer, permit);
            }
        }
        self.link_changed_copies(&mut writer, permit)
    }

    /// Ends a flush after a rewrite, which covers its target, except for a closing frame.
    fn after_rewrite(&self, writer: &mut FrameWriter, permit: &Permit) -> Result<(), WalError> {
        if permit.purpose == Purpose::Close { self.close_log(writer) } else { Ok(()) }
    }

    /// Places the frame of a flush, writes it and syncs. Returns whether there was anything to write or sync.
    fn write_and_sync(
        &self,
        writer: &mut FrameWriter,
        permit: &Permit,
        mut times: Option<&mut Times>,
    ) -> Result<bool, WalError> {
        let state = self.queue.lock().state;
        if state != State::Open {
            // The log was closed after the permit was taken: another owner may have the files by now.
            return Err(self.refusal(state));
        }
        let placed = match permit.purpose {
            Purpose::Close => {
                self.close_log(writer)?;
                return Ok(false);
            }
            Purpose::SyncOnly => None,
            Purpose::Write | Purpose::Sync if permit.target <= writer.issued => None,
            Purpose::Write | Purpose::Sync => Some(self.place(writer, permit.target)?),
            // A heartbeat is not worth the last room, nor an error of the log.
            Purpose::Heartbeat if writer.must_turn(writer.issued) && self.segments.is_short() => None,
            Purpose::Heartbeat => Some(self.place(writer, writer.issued)?),
        };
        let syncs = permit.purpose.syncs();
        if placed.is_none() && !(syncs && writer.is_unsynced()) {
            return Ok(false);
        }
        if let Some(placed) = placed {
            let skipped = mistake!("WRITE_SKIPPED");
            fault_point!("wal.write");
            let began_ns = times.is_some().then(|| self.clock.now_ns());
            let written = writer.write_by(
                placed,
                |file, offset, bytes| {
                    if skipped { Ok(()) } else { file.write_at(offset, bytes) }
                },
            );
            if let (Some(times), Some(began_ns)) = (&mut times, began_ns) {
                times.write_ns = self.clock.now_ns().saturating_sub(began_ns);
            }
            written?;
            self.written.store(writer.written());
        }
        if permit.purpose.writes() {
            self.wake_written();
        }
        if syncs && writer.is_unsynced() {
            self.acknowledge_early();
            fault_point!("wal.sync");
            let began_ns = self.clock.now_ns();
            let synced = writer.sync_by(sync_file);
            let took_ns = self.clock.now_ns().saturating_sub(began_ns);
            if let Some(times) = times {
                times.sync_ns = took_ns;
            }
            fault_point!("wal.synced");
            synced?;
            self.counters.took(took_ns);
            // While a change of the copies has no durable LINK, nothing more is acknowledged (LOG-16).
            if self.copies_are_linked() {
                self.durable.store(writer.durable());
            }
        }
        Ok(true)
    }

    /// Turns to the next segment if the current one is full, and places the records between the last frame and
    /// `boundary`.
    fn place(&self, writer: &mut FrameWriter, boundary: Lsn) -> Result<Placed, WalError> {
        // Checked before anything is written: reserved records must fit into the allocated files.
        let full = self.segments.ensure_room(writer.half_full(boundary));
        self.full.store(u8::from(self.follows || full), Ordering::Release);
        if writer.must_turn(boundary) && writer.is_unsynced() {
            self.sync_and_publish(writer)?; // A4 of `frame_writer`
        }
        let (durable, start) = (self.durable.load(), writer.issued);
        let placed = writer.place_from_ring(&self.reserve, &self.segments, boundary, durable)?;
        let (path, next_offset, bytes, end) = (&*writer.path, writer.offset, &*placed.bytes, placed.end());
        self.recent.wrote(&Wrote { start, end, path, next_offset, bytes }, durable);
        self.named.store(durable);
        // A frame may not have room for all; waiters for the rest park for the next flush.
        if let Some(in_flight) = &mut self.queue.lock().in_flight {
            in_flight.target = in_flight.target.min(end);
        }
        Ok(placed)
    }

    /// Reports a flush that was measured. `stream` is the number of its bytes and records; `labels` are the durations
    /// of its write and sync, and its bytes on disk.
    #[cold]
    fn tell_flush(&self, ended: Ended<LogFlush>, permit: &Permit, [stream_bytes, records]: [u64; 2], labels: [u64; 3]) {
        let since_last_ns = self.queue.lock().in_flight.map_or(0, |flush| flush.since_last_ns);
        let flush = LogFlush {
            stream_bytes: word(stream_bytes),
            records: word(records),
            flights: 1,
            us_since_last: word(since_last_ns / 1_000),
            copies: self.mirror.as_ref().map_or(1, |mirror| u32::from(mirror.counts().configured)),
            io_mode: match permit.purpose {
                Purpose::Write | Purpose::Heartbeat => 1,
                Purpose::SyncOnly => 2,
                Purpose::Sync | Purpose::Close => 0,
            },
        };
        ended.tell(permit.target, flush, labels);
    }

    /// Ends a flush: wakes the next leader first, then the waiters that it covered.
    fn complete(&self) {
        let mut queue = self.queue.lock();
        let in_flight = queue.in_flight.take().expect("a flush completes once");
        let durable = self.durable.load();
        let reached = queue.take_reached(durable, self.written.load());
        if self.follows {
            // More records may have arrived during this flush.
            self.background_poked.notify_one();
        }
        if !self.pass_on(&queue) && self.background.load(Ordering::Relaxed) == FLUSHER_SLEEPS {
            // The silence after this flush must be noticed: the timer of the background flusher is not running.
            if self.named.load() < durable {
                self.background_poked.notify_one();
            }
        }
        let lane = lane(in_flight.number);
        if queue.parked[lane] > 0 {
            self.flush_ended[lane].notify_all();
        }
        if queue.parked_written > 0 {
            self.written_moved.notify_all();
        }
        drop(queue);
        reached.for_each(Waker::wake);
        self.watch.notify();
    }
}

/// Returns the number of records in a frame.
fn records_of(frame: &[u8]) -> u64 {
    let header = frame_claim(frame).map(|claim| claim.header);
    let records = header.and_then(|header| frame.get(header.header_bytes()..header.bytes()));
    records.map_or(0, |records| record_count::count(records, |_| true))
}

/// Completes the flush however its leader leaves it: a panic poisons the log, so that no waiter sleeps forever.
struct Completion<'a> {
    flusher: &'a Flusher,
    failed: bool,
}

impl Drop for Completion<'_> {
    fn drop(&mut self) {
        if self.failed {
            self.flusher.poison();
        }
        self.flusher.complete();
    }
}
