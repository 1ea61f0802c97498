//! Work that a flush does while it holds the frame writer and no other write is in progress: repair after an error, the
//! closing frame, the record of copies that left or came back.

use collie_base::Lsn;

use super::{Flusher, flight::Right, queue::Purpose};
use crate::{
    WalError,
    copies::Mirror,
    course::{Course, sync_file},
    reserve::State,
    track::Legs,
};

impl Flusher {
    /// Writes everything that is not durable to another file if the current one has failed (W5); returns whether it
    /// had.
    pub(super) fn mend(&self, course: &mut Course, target: Lsn) -> Result<bool, WalError> {
        let Some(cause) = self.track.lock().broken().map(str::to_owned) else { return Ok(false) };
        // Other flushes may still use the failed file; their outcome decides which records are durable.
        self.track.wait_quiet();
        let (durable, state) = (self.durable.load(), self.queue.lock().state);
        if state != State::Open || self.track.lock().is_lost() {
            return Err(self.refusal(state));
        }
        let to = target.max(course.issued);
        let rewritten = course.rewrite(&self.reserve, &self.segments, to);
        if let Err(error) = rewritten.and_then(|()| course.settle(&self.segments, durable)) {
            self.track.lock().lose();
            self.warnings.note(format!(
                "{cause}; writing what lies above {durable} to another file failed too ({error}): nothing is \
                 acknowledged until the log is opened again"
            ));
            return Err(error);
        }
        self.warnings.note(format!(
            "{cause}; that file is not used again, {} bytes above {durable} were written to {} instead and the log goes on",
            to.bytes_since(durable),
            course.path.display()
        ));
        self.named.store(durable);
        self.recent.written_elsewhere(course.issued, &course.path, course.offset);
        self.publish(&self.track.lock());
        self.wake_written();
        Ok(true)
    }

    /// Stops a flush whose file has failed under another flush (LOG-9).
    pub(super) fn still_whole(&self) -> Result<(), WalError> {
        if self.track.lock().broken().is_some() { Err(self.refusal(State::Poisoned)) } else { Ok(()) }
    }

    /// Syncs while no other write is in progress, and moves the marks.
    pub(super) fn sync_course(&self, course: &mut Course) -> Result<(), WalError> {
        self.acknowledge_early();
        course.sync()?;
        course.settle(&self.segments, self.durable.load())?;
        self.publish(&self.track.lock());
        Ok(())
    }

    /// Plants the mistake of moving the mark before the sync.
    pub(super) fn acknowledge_early(&self) {
        if mistake!("ACK_BEFORE_SYNC") {
            self.durable.store(self.written.load());
        }
    }

    /// Moves the marks to their positions in the track.
    fn publish(&self, legs: &Legs) {
        self.written.store(legs.written());
        self.durable.store(legs.anchor().end);
    }

    /// Takes records before which positions jump to `start`, in a separate frame, into which they fit, and makes them
    /// durable. Everything before is durable, and no other thread takes records.
    ///
    /// # Errors
    /// `Full`, `Io`: there is no file for it, and nothing was done. `Poisoned`: the records may or may not be in the
    /// log.
    pub(crate) fn jump(&self, start: Lsn, records: &[u8]) -> Result<(), WalError> {
        let mut course = self.course.lock();
        self.track.wait_quiet();
        let state = self.queue.lock().state;
        if state != State::Open {
            return Err(self.refusal(state));
        }
        let issued = course.issued;
        if !self.mend(&mut course, issued)? && self.track.lock().is_unsynced() {
            // The empty frame of a silence is not synced.
            self.sync_course(&mut course)?;
        }
        let link = course.jump_link(&self.segments, records.len())?;
        let jumped = course
            .write_payload(records, start, issued, Some(link), false)
            .and_then(|_end| course.sync_by(|file| if mistake!("JUMP_UNSYNCED") { Ok(()) } else { sync_file(file) }));
        if let Err(error) = jumped {
            // The records cannot be rewritten elsewhere, because they are not in the ring.
            self.track.lock().lose();
            drop(course);
            self.poison();
            return Err(error);
        }
        self.named.store(issued);
        self.recent.written_elsewhere(course.issued, &course.path, course.offset);
        self.reserve.jump(course.issued);
        self.publish(&self.track.lock());
        drop(course);
        self.watch.notify();
        Ok(())
    }

    /// Writes and syncs the closing frame; no other flush is in flight.
    pub(super) fn close_course(&self, course: &mut Course) -> Result<(), WalError> {
        self.track.wait_quiet();
        loop {
            course.write_end(&self.segments, self.durable.load())?;
            self.sync_course(course)?;
            // Otherwise a copy left in between, and the LINK about that was written behind the closing frame.
            if course.end_marked {
                return Ok(());
            }
        }
    }

    /// Returns whether a durable LINK records the current live copies; until then nothing is acknowledged.
    pub(super) fn is_settled(&self) -> bool {
        self.mirror.as_ref().is_none_or(Mirror::is_settled)
    }

    /// Records which copies hold the log, if that changed, for a flush that was to sync; then moves the marks.
    pub(super) fn link_copies(&self, course: &mut Course, right: &Right) -> Result<(), WalError> {
        if !right.purpose.syncs() || self.is_settled() {
            return Ok(());
        }
        self.track.wait_quiet();
        let state = self.queue.lock().state;
        if state != State::Open {
            return Err(self.refusal(state));
        }
        if self.mend(course, right.target)? || self.sync_course(course).is_ok() || self.mend(course, right.target)? {
            return Ok(());
        }
        Err(self.refusal(State::Poisoned))
    }

    /// Runs a flush that records that a copy left or came back, if that is so and a flush may begin.
    pub(crate) fn settle_copies(&self) {
        let right = if self.is_settled() { None } else { self.begin(&mut self.queue.lock(), Purpose::Sync) };
        if let Some(right) = right {
            // A failure has poisoned the log, and every waiter gets that error.
            let _poisoned = self.fly(right);
        }
    }
}
