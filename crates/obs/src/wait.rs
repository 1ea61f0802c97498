//! Waits: calls that may end on another thread than they began on, since a waiting task moves between threads.
//!
//! Only waits use this. Their time includes the scheduler and the task's queueing for a thread, all of which a
//! model of a wait should predict. Work is measured by spans, which the compiler keeps on their thread.
//!
//! # Invariants
//! - A1. The source and the probability are those of the thread that began; the sample goes into the lane of the
//!   thread that ended.
//! - A2. A wait that is dropped, because it failed or was given up, leaves no sample.

use std::marker::PhantomData;

use collie_base::Lsn;

use crate::local;
use crate::measured::Started;
use crate::schema::Features;
use crate::span::record;

/// A measured wait.
#[derive(Debug)]
#[must_use = "a wait that is not stopped leaves no sample"]
pub struct Wait<F> {
    started: Started,
    of: PhantomData<fn() -> F>,
}

/// Begins to measure a wait of the unit `F`, if this wait is drawn. Progress: as [`crate::start`].
#[inline]
pub fn start_wait<F: Features>() -> Option<Wait<F>> {
    Some(Wait { started: local::begin(F::ID)?, of: PhantomData })
}

impl<F: Features> Wait<F> {
    /// Restarts the time of the wait, after values were collected that describe it.
    #[inline]
    pub fn restart(&mut self) {
        self.started.ticks = local::now();
    }

    /// Returns the microseconds from `moment` ([`crate::moment_for`]) to the start of the wait, rounded up and at
    /// least 1; 0 for no moment, and before a drain has measured the length of a tick.
    pub fn us_since(&self, moment: u64) -> u32 {
        if moment == 0 { 0 } else { local::us_between(moment, self.started.ticks) }
    }

    /// Ends the wait, which concerned the position `at` of the log; `labels` are those beyond elapsed time.
    ///
    /// # Progress
    /// Wait-free, except that a thread without a lane makes one, after the time has ended.
    #[inline]
    pub fn stop_with(self, at: Lsn, features: F, labels: F::Labels) {
        record::<F>(self.started, local::now(), at, 1, features.words(), &labels);
    }

    /// Gives the sample up and counts it as dropped, for a caller without room to keep it until the wait ends.
    pub fn give_up(self) {
        local::drop_one(F::ID);
    }
}

const _: () = {
    const fn moves_between_threads<T: Send + Sync>() {}
    moves_between_threads::<Wait<crate::CommitWait>>();
};
