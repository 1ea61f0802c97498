//! A round: one call made in every copy that takes part, each on its lane, and the decision over the outcomes (`mirror`
//! I1 to I3).

use std::{
    io,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use super::{lane::Lane, members::Shared};
use crate::CopyState;

/// Number of waiting calls from which on a copy that lags behind a majority counts as stalled.
const LAG_MAX: usize = 64;

/// The kind of caller, which selects the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// A flush: writes and syncs of frames.
    Flush,
    /// Code that creates, renames and removes files.
    Names,
}

/// The call to be made in one copy.
pub(super) type Job<R> = Box<dyn FnOnce() -> io::Result<R> + Send>;

/// The outcomes of one call in each copy.
struct Round<R> {
    outcomes: Mutex<Outcomes<R>>,
    arrived: Condvar,
}

struct Outcomes<R> {
    of: Vec<Option<io::Result<R>>>,
    /// The caller no longer waits: a failure that arrives now is that of a lagging copy.
    closed: bool,
}

/// Returns a copy of an error.
fn same(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error)
}

impl Shared {
    /// Runs the job that `job` returns for each copy that takes part; returns the outcomes of the copies in which it
    /// succeeded.
    ///
    /// # Errors
    /// The first failure, if it succeeded in too few copies. The failing live copies are not left out then: the caller
    /// handles the error.
    pub(super) fn each<R: Send + 'static>(
        self: &Arc<Self>,
        by: By,
        mut job: impl FnMut(usize) -> Option<Job<R>>,
    ) -> io::Result<Vec<(usize, R)>> {
        let taking_part: Vec<(usize, bool, Arc<Lane>)> = {
            let state = self.state.lock();
            let part = state.copies.iter().enumerate().filter(|(_, copy)| copy.takes_part());
            part.filter_map(|(index, copy)| {
                // None once the log is closed.
                let lanes = copy.lanes.as_ref()?;
                Some((index, copy.state == CopyState::Live, lanes[usize::from(by == By::Names)].clone()))
            })
            .collect()
        };
        let jobs = taking_part.into_iter().filter_map(|(index, live, lane)| Some((index, live, lane, job(index)?)));
        let jobs: Vec<_> = jobs.collect();
        let round = Arc::new(Round {
            outcomes: Mutex::new(Outcomes { of: jobs.iter().map(|_| None).collect(), closed: false }),
            arrived: Condvar::new(),
        });
        let who: Vec<(usize, bool)> = jobs.iter().map(|(index, live, ..)| (*index, *live)).collect();
        for (at, (index, _, lane, job)) in jobs.into_iter().enumerate() {
            if lane.waiting() >= LAG_MAX {
                self.lose(index, "it lags behind the others");
            }
            let (shared, round) = (self.clone(), round.clone());
            lane.submit(Box::new(move || shared.run(index, at, &round, job)));
        }
        self.settle(by, &who, &round)
    }

    /// Runs a job in one copy, on its lane.
    fn run<R>(&self, index: usize, at: usize, round: &Round<R>, job: Job<R>) {
        let down = self.state.lock().copies[index].state == CopyState::Down;
        let outcome = if down { Err(io::Error::other("this copy was left out")) } else { job() };
        let mut outcomes = round.outcomes.lock();
        match &outcome {
            // The copy is left out before its lane takes the next job (I2).
            Err(error) if outcomes.closed => self.lose(index, &error.to_string()),
            Ok(_) if outcomes.closed => {}
            _ => {
                outcomes.of[at] = Some(outcome);
                round.arrived.notify_all();
            }
        }
    }

    /// Waits for the outcomes and decides.
    fn settle<R>(&self, by: By, who: &[(usize, bool)], round: &Round<R>) -> io::Result<Vec<(usize, R)>> {
        let strict = !self.opened.load(Ordering::Relaxed);
        let mut outcomes = round.outcomes.lock();
        let mut stalled = false;
        let enough = loop {
            let done = |at: &usize| matches!(outcomes.of[*at], Some(Ok(_)));
            let succeeded = (0..who.len()).filter(|at| who[*at].1 && done(at)).count();
            let pending = outcomes.of.iter().any(Option::is_none);
            let enough = succeeded >= self.needed();
            let early = self.rules.quorum && by == By::Flush && !strict;
            if !pending || (enough && (early || stalled)) {
                break enough;
            }
            // With fewer than the minimum the call can only wait, as a log without copies does.
            let limit = if enough && !strict { self.rules.stall } else { Duration::from_secs(3600) };
            stalled = round.arrived.wait_for(&mut outcomes, limit).timed_out() && enough;
        };
        outcomes.closed = true;
        let of = std::mem::take(&mut outcomes.of);
        drop(outcomes);
        let (mut succeeded, mut failed) = (Vec::new(), Vec::new());
        for ((index, live), outcome) in who.iter().zip(of) {
            match outcome {
                Some(Ok(done)) => succeeded.push((*index, done)),
                Some(Err(error)) => failed.push((*index, *live, error)),
                // The call is still running, and may take its time.
                None if !stalled => {}
                None => {
                    let why = format!("it took longer than wal.copy_stall = {} ms", self.rules.stall.as_millis());
                    self.lose(*index, &why);
                }
            }
        }
        if strict && !failed.is_empty() {
            let (index, _, error) = failed.swap_remove(0);
            *self.failed.lock() = Some((index, same(&error)));
            return Err(error);
        }
        for (index, live, error) in &failed {
            if enough || !live {
                self.lose(*index, &error.to_string());
            }
        }
        match failed.into_iter().find(|_| !enough) {
            Some((_, _, error)) => Err(error),
            None if !enough => Err(io::Error::other("too few copies of the log are left")),
            None => Ok(succeeded),
        }
    }
}
