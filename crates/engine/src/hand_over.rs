//! What a primary does to hand over: its writers end, and its log takes nothing more, until it goes on or is a replica.
//!
//! ```text
//! pause_writes -> open_writers is empty -> hold_log: the end of everything -> refuse_commits, and closed
//!                                                                          -> or resume_writes: as if nobody had asked
//! ```

use collie_base::Lsn;

use crate::{Db, EngineError};

impl Db {
    /// Has transactions wait that have not written yet and are about to ([`Session::wait_for_room`](crate::Session::wait_for_room)),
    /// until [`Db::resume_writes`] lets them or [`Db::refuse_commits`] refuses them. Those that have written go on.
    pub fn pause_writes(&self) {
        self.shared.pause.pause();
    }

    /// Returns the slots ([`CancelHandle::slot`](crate::CancelHandle::slot)) of sessions whose transaction is open and has written or
    /// locked rows. Commits that only wait for a disk or for replicas are none.
    pub fn open_writers(&self) -> Vec<usize> {
        let mut slots: Vec<usize> = self.lock_picture().xids.iter().map(|(_, owner)| owner.slot).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// Has the log take no record from here on, of background work neither, until [`Db::resume_writes`]; returns where it ends. A commit
    /// that comes all the same is refused ([`EngineError::Replica`]) and rolled back.
    ///
    /// # Durability
    /// Everything in the log is on disk when it returns, asynchronous commits too.
    ///
    /// # Progress
    /// Waits for appends under way and for a flush.
    ///
    /// # Errors
    /// The log's: it is not held then.
    pub fn hold_log(&self) -> Result<Lsn, EngineError> {
        let log = self.shared.txns.log();
        log.hold();
        let ended = log.wait_published().and_then(|end| log.wait_durable(end).map(|()| end));
        Ok(ended.inspect_err(|_| log.release())?)
    }

    /// Lets the log take records again, and those who wait write.
    pub fn resume_writes(&self) {
        self.shared.txns.log().release();
        self.shared.pause.resume();
    }
}
