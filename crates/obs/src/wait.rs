//! Waits: a call that may end on another thread than it began on, since the task that waits moves between threads.
//!
//! For waits only. Their time is that of those they wait for, of the scheduler and of the task's turn: all of it is what a model of a
//! wait is about. Work is measured by spans, which the compiler keeps on their thread.
//!
//! # Invariants
//! - A1. The source and the probability are those of the thread that began; the sample goes into the lane of the one that ended.
//! - A2. A wait that is dropped, because what it waited for failed or nobody waits any more, leaves no sample.

use std::marker::PhantomData;

use collie_base::Lsn;

use crate::local;
use crate::measured::Started;
use crate::schema::Features;
use crate::span::record;

/// A wait that is measured.
#[derive(Debug)]
#[must_use = "a wait that is not stopped leaves no sample"]
pub struct Wait<F> {
    started: Started,
    of: PhantomData<fn() -> F>,
}

/// Begins to measure a wait of the unit `F`, if it is this one's turn. Progress: as [`crate::start`].
#[inline]
pub fn start_wait<F: Features>() -> Option<Wait<F>> {
    Some(Wait { started: local::begin(F::ID)?, of: PhantomData })
}

impl<F: Features> Wait<F> {
    /// Has its time begin now: for what is to be told of it and had to be asked for before.
    #[inline]
    pub fn restart(&mut self) {
        self.started.ticks = local::now();
    }

    /// Returns for how many microseconds `moment` ([`crate::moment_for`]) lies before the wait's begin, rounded up and at least 1; 0 for
    /// none, and while nobody takes samples out.
    pub fn us_since(&self, moment: u64) -> u32 {
        if moment == 0 { 0 } else { local::us_between(moment, self.started.ticks) }
    }

    /// Ends the wait, which was about the position `at` of the log; `labels` are those beyond elapsed time.
    ///
    /// # Progress
    /// Wait-free; on a thread that never took a sample it makes the thread's lane, after the time has ended.
    #[inline]
    pub fn stop_with(self, at: Lsn, features: F, labels: F::Labels) {
        record::<F>(self.started, local::now(), at, 1, features.words(), &labels);
    }

    /// Gives the sample up, and counts it as dropped: nobody has room to keep it until the wait ends.
    pub fn give_up(self) {
        local::drop_one(F::ID);
    }
}

const _: () = {
    const fn moves_between_threads<T: Send + Sync>() {}
    moves_between_threads::<Wait<crate::CommitWait>>();
};
