//! An in-flight flush: takes the right to flush, places a frame while it holds the frame writer, writes it, syncs,
//! ends.
//!
//! Steps that must follow the order of the log run while the frame writer is locked (`depart`); steps that may run in
//! parallel with other flushes run after it is unlocked (`carry_out`). If a file fails, the next thread that locks the
//! frame writer repairs the log (`mend`, W5).

use std::{
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    task::Waker,
};

use collie_base::Lsn;
use collie_env::{File, fault_point};
use collie_obs::{Ended, LogFlush, Source, word, work_for};

use super::{
    Flusher,
    keeper::KEEPER_SLEEPS,
    queue::{InAir, Purpose, Queue, lane},
};
use crate::{
    WalError,
    course::{Course, Placed, sync_file},
    decode::frame_claim,
    recent::Wrote,
    record_count,
    reserve::State,
};

/// The right to flush, until the flush ends.
#[derive(Debug)]
#[must_use]
pub(crate) struct Right {
    number: u64,
    pub(super) purpose: Purpose,
    /// The index of the file description that only this flush uses.
    description: usize,
    /// The position that it must cover.
    pub(super) target: Lsn,
}

/// The remaining work of a flush after it has unlocked the frame writer.
#[derive(Debug)]
struct Departed {
    placed: Option<Placed>,
    file: Arc<dyn File>,
    path: PathBuf,
}

/// Durations of the parts of a flush that is measured.
#[derive(Debug, Default)]
struct Times {
    write_ns: u64,
    sync_ns: u64,
}

impl Flusher {
    /// Takes a right to flush, if one is free.
    pub(crate) fn begin(&self, queue: &mut Queue, purpose: Purpose) -> Option<Right> {
        if !queue.may_begin(purpose) {
            return None;
        }
        let description = queue.free.pop()?;
        queue.flight += 1;
        let boundary = self.reserve.advance();
        let target = if purpose == Purpose::SyncOnly { self.written.load() } else { boundary };
        let number = queue.flight;
        let began_ns = self.clock.now_ns();
        let last_ns = std::mem::replace(&mut queue.last_began_ns, began_ns);
        let since_last_ns = if last_ns == 0 { 0 } else { began_ns.saturating_sub(last_ns) };
        queue.air.push_back(InAir { number, purpose, target, landed: false, began_ns, since_last_ns });
        Some(Right { number, purpose, description, target })
    }

    /// Flushes once, then wakes a next leader and the waiters that the flush covers.
    pub(crate) fn fly(&self, right: Right) -> Result<(), WalError> {
        let mut landing = Landing { flusher: self, number: right.number, description: right.description, failed: true };
        let flown = self.fly_inner(&right);
        landing.failed = flown.is_err();
        drop(landing);
        self.tell();
        flown
    }

    /// Gives the right back unused.
    pub(crate) fn give_up(&self, right: Right) {
        self.land(right.number, right.description);
    }

    fn fly_inner(&self, right: &Right) -> Result<(), WalError> {
        let _scope = self.follows.then(|| work_for(Source::Apply));
        // A failed file comes first: nothing may be placed in it (W5).
        let mut course = self.course.lock();
        if self.mend(&mut course, right.target)? {
            // The rewrite covers the target of this flush, except for a closing frame.
            return if right.purpose == Purpose::Close { self.close_course(&mut course) } else { Ok(()) };
        }
        let (span, before) = (collie_obs::start::<LogFlush>(), course.counts);
        let departed = match self.depart(&mut course, right) {
            Ok(Some(departed)) => departed,
            Ok(None) => return self.link_copies(&mut course, right),
            Err(error) => {
                if !self.mend(&mut course, right.target)? {
                    return Err(error);
                }
                return if right.purpose == Purpose::Close { self.close_course(&mut course) } else { Ok(()) };
            }
        };
        self.track.begin();
        let placed = course.counts;
        drop(course);
        let mut times = span.is_some().then(Times::default);
        let carried = self.carry_out(right, departed, times.as_mut());
        self.track.end();
        if let (Some(span), Some(times), Ok(())) = (span, times, &carried) {
            let stream_bytes = placed.stream_bytes - before.stream_bytes;
            let disk_bytes = placed.file_bytes - before.file_bytes;
            self.tell_flush(span.end(), right, stream_bytes, [times.write_ns, times.sync_ns, disk_bytes]);
        }
        if carried.is_err() {
            // Another flush that met the same error may have done the repair by now; then this does nothing.
            let _mended = self.mend(&mut self.course.lock(), right.target)?;
        }
        if self.is_settled() { Ok(()) } else { self.link_copies(&mut self.course.lock(), right) }
    }

    /// Makes the steps that must follow the order of the log: turns to the next file if the current one is full, and
    /// places a frame. Returns the work that may run in parallel with other flushes.
    fn depart(&self, course: &mut Course, right: &Right) -> Result<Option<Departed>, WalError> {
        let state = self.queue.lock().state;
        if state != State::Open {
            // The log was closed after the right was taken: another owner may have the files by now.
            return Err(self.refusal(state));
        }
        let placed = match right.purpose {
            Purpose::Close => {
                self.close_course(course)?;
                return Ok(None);
            }
            Purpose::SyncOnly => None,
            Purpose::Write | Purpose::Sync if right.target <= course.issued => None,
            Purpose::Write | Purpose::Sync => Some(self.place(course, right, right.target)?),
            // A heartbeat is not worth the last room, nor an error of the log.
            Purpose::Heartbeat if course.must_turn(course.issued) && self.segments.is_short() => None,
            Purpose::Heartbeat => Some(self.place(course, right, course.issued)?),
        };
        if placed.is_none() && !(right.purpose.syncs() && self.track.lock().is_unsynced()) {
            return Ok(None);
        }
        let file = course.files[right.description].clone();
        Ok(Some(Departed { placed, file, path: course.path.clone() }))
    }

    /// Turns to the next segment if the current one is full, and places the records between the last frame and
    /// `boundary`.
    fn place(&self, course: &mut Course, right: &Right, boundary: Lsn) -> Result<Placed, WalError> {
        // Checked before anything is written: reserved records must fit into the allocated files.
        let full = self.segments.ensure_room(course.half_full(boundary));
        self.full.store(u8::from(self.follows || full), Ordering::Release);
        if course.must_turn(boundary) {
            // W7. A flush that this one waited for may have broken the file.
            self.track.wait_quiet();
            self.still_whole()?;
            if self.track.lock().is_unsynced() {
                self.sync_course(course)?;
            }
        }
        let (durable, start) = (self.durable.load(), course.issued);
        let buffer = std::mem::take(&mut *self.buffers[right.description].lock());
        let placed = course.place_from_ring(&self.reserve, &self.segments, boundary, durable, buffer)?;
        let (path, next_offset, bytes) = (&*course.path, course.offset, &*placed.bytes);
        self.recent.wrote(&Wrote { start, end: placed.end, path, next_offset, bytes }, durable);
        self.named.store(durable);
        if placed.end < right.target {
            self.queue.lock().flying(right.number).target = placed.end;
        }
        Ok(placed)
    }

    /// Writes the placed frame, and syncs. Other flushes may do so at the same time.
    fn carry_out(&self, right: &Right, departed: Departed, mut times: Option<&mut Times>) -> Result<(), WalError> {
        let Departed { placed, file, path } = departed;
        let leg = placed.as_ref().map(|placed| placed.leg);
        if let Some(placed) = placed {
            self.still_whole()?;
            let skipped = mistake!("WRITE_SKIPPED");
            fault_point!("wal.write");
            let began_ns = times.is_some().then(|| self.clock.now_ns());
            let written = if skipped { Ok(()) } else { file.write_at(placed.offset, &placed.bytes) };
            if let (Some(times), Some(began_ns)) = (&mut times, began_ns) {
                times.write_ns = self.clock.now_ns().saturating_sub(began_ns);
            }
            *self.buffers[right.description].lock() = placed.bytes;
            let mut legs = self.track.lock();
            written.map_err(|source| legs.fail(WalError::io("write", &path, source)))?;
            legs.wrote(placed.leg);
            self.written.store(legs.written());
        }
        if right.purpose.writes() {
            self.wake_written();
        }
        if right.purpose.syncs() {
            self.still_whole()?;
            // Only frames written before the sync begins count for it (LOG-8).
            let Some(cover) = self.track.lock().sync_begins(leg) else { return Ok(()) };
            self.acknowledge_early();
            fault_point!("wal.sync");
            let began_ns = self.clock.now_ns();
            let synced = sync_file(&*file);
            let took_ns = self.clock.now_ns().saturating_sub(began_ns);
            if let Some(times) = times {
                times.sync_ns = took_ns;
            }
            fault_point!("wal.synced");
            let mut legs = self.track.lock();
            synced.map_err(|source| legs.fail(WalError::io("sync", &path, source)))?;
            legs.took(took_ns);
            let durable = legs.synced(cover);
            // While a change of the copies has no durable LINK, nothing more is acknowledged (LOG-16).
            if self.is_settled() {
                self.durable.store(durable);
            }
        }
        Ok(())
    }

    /// Reports a flush that was measured. `labels` are the durations of its write and sync, and its bytes on disk.
    #[cold]
    fn tell_flush(&self, ended: Ended<LogFlush>, right: &Right, stream_bytes: u64, labels: [u64; 3]) {
        let (flights, since_last_ns) = {
            let mut queue = self.queue.lock();
            let flights = queue.air.iter().filter(|flight| !flight.landed).count();
            (flights, queue.flying(right.number).since_last_ns)
        };
        let flush = LogFlush {
            stream_bytes: word(stream_bytes),
            records: word(if stream_bytes > 0 { self.records_of(right) } else { 0 }),
            flights: word(flights),
            us_since_last: word(since_last_ns / 1_000),
            copies: self.mirror.as_ref().map_or(1, |mirror| u32::from(mirror.counts().configured)),
            io_mode: match right.purpose {
                Purpose::Write | Purpose::Heartbeat => 1,
                Purpose::SyncOnly => 2,
                Purpose::Sync | Purpose::Close => 0,
            },
        };
        ended.tell(right.target, flush, labels);
    }

    /// Returns the number of records in the frame of a flush that has written it and not ended: until then the buffer
    /// belongs to that flush.
    fn records_of(&self, right: &Right) -> u64 {
        let frame = self.buffers[right.description].lock();
        let header = frame_claim(&frame).map(|claim| claim.header);
        let records = header.and_then(|header| frame.get(header.header_bytes()..header.bytes()));
        records.map_or(0, |records| record_count::count(records, |_| true))
    }

    /// Ends a flush: wakes the next leader first, then the waiters that it covered.
    fn land(&self, number: u64, description: usize) {
        let mut queue = self.queue.lock();
        queue.free.push(description);
        queue.flying(number).landed = true;
        let durable = self.durable.load();
        let reached = queue.take_reached(durable, self.written.load());
        if self.follows {
            // More records may have arrived during this flush.
            self.keeper_poked.notify_one();
        }
        if !self.pass_on(&queue) && self.keeper.load(Ordering::Relaxed) == KEEPER_SLEEPS {
            // The silence after this flush must be noticed: the timer of the background flusher is not running.
            if self.named.load() < durable {
                self.keeper_poked.notify_one();
            }
        }
        // The outcome of a flush that ended early counts once those before it have ended, or once `durable` covers it.
        let mut all_before = true;
        for flight in &queue.air {
            all_before &= flight.landed;
            if flight.landed && (all_before || flight.target <= durable) && queue.parked[lane(flight.number)] > 0 {
                self.flight_ended[lane(flight.number)].notify_all();
            }
        }
        while queue.air.front().is_some_and(|flight| flight.landed) {
            queue.air.pop_front();
        }
        if queue.parked_written > 0 {
            self.written_moved.notify_all();
        }
        drop(queue);
        reached.for_each(Waker::wake);
        self.watch.notify();
    }
}

/// Ends the flush however its leader leaves it: a panic on the way poisons the log, so that no waiter sleeps forever.
struct Landing<'a> {
    flusher: &'a Flusher,
    number: u64,
    description: usize,
    failed: bool,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        if self.failed {
            self.flusher.poison();
        }
        self.flusher.land(self.number, self.description);
    }
}
