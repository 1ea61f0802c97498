//! Waiting for a mark: threads that lead, or park in the lane of the flush that covers them, and futures that leave a
//! waker.
//!
//! Threads that move a mark wake waiters from here too: `wake_written` while a sync is still running, `pass_on` for the
//! duty to lead.

use std::{task::Waker, time::Duration};

use collie_base::Lsn;
use collie_obs::{CommitWait, Wait, start_wait, word};
use parking_lot::MutexGuard;

use super::{
    Flusher,
    queue::{Purpose, Queue, lane},
};
use crate::{Mark, WalError, append::State, report::stall::STALL_NS};

/// A wait that is measured, and its features for the sample.
pub(crate) type MeasuredWait = (Wait<CommitWait>, CommitWait);

/// How long a thread waits before it looks for the cause.
const STALL: Duration = Duration::from_nanos(STALL_NS);

impl Flusher {
    /// Blocks until `mark` reaches `lsn`; leads a flush if no in-flight flush covers it.
    ///
    /// # Errors
    /// `Poisoned` or `Closed` if it never will.
    pub(crate) fn wait(&self, mark: Mark, lsn: Lsn) -> Result<(), WalError> {
        let purpose = if mark == Mark::Durable { Purpose::Sync } else { Purpose::Write };
        self.wait_leading(mark, lsn, purpose)
    }

    /// As [`Flusher::wait`]; the flushes that it leads have `purpose`.
    pub(crate) fn wait_leading(&self, mark: Mark, lsn: Lsn, purpose: Purpose) -> Result<(), WalError> {
        if self.mark(mark) >= lsn {
            return Ok(());
        }
        assert!(self.reserve.has_reserved(lsn), "waits are for records that were appended");
        let measured = self.measure_wait(mark, lsn);
        let waited = self.wait_for(mark, lsn, purpose);
        if let (Some((wait, about)), Ok(())) = (measured, &waited) {
            wait.stop_with(lsn, about, []);
        }
        waited
    }

    /// Begins to measure a wait, if it is sampled, and returns it with the work ahead of it.
    #[inline]
    pub(crate) fn measure_wait(&self, mark: Mark, lsn: Lsn) -> Option<MeasuredWait> {
        let mut wait = start_wait()?;
        let about = self.about_wait(mark, lsn);
        wait.restart(); // the queries above take locks
        Some((wait, about))
    }

    /// Returns the work ahead of a wait that is measured.
    #[cold]
    fn about_wait(&self, mark: Mark, lsn: Lsn) -> CommitWait {
        let bytes_ahead = word(lsn.get().saturating_sub(self.mark(mark).get()));
        let flush_ewma_us = word(self.counters.sync_ewma_ns() / 1_000);
        let queue = self.queue.lock();
        let flights = u32::from(queue.in_flight.is_some());
        let futures = queue.durable_wakers.len() + queue.written_wakers.len();
        let waiters = queue.parked.iter().sum::<usize>() + queue.parked_written + futures;
        let level = match mark {
            Mark::Boundary => 0,
            Mark::Written => 1,
            Mark::Durable => 2,
        };
        CommitWait { level, bytes_ahead, flights, waiters: word(waiters), flush_ewma_us }
    }

    fn wait_for(&self, mark: Mark, lsn: Lsn, purpose: Purpose) -> Result<(), WalError> {
        if mark == Mark::Boundary {
            return self.wait_boundary(lsn);
        }
        let mut queue = self.queue.lock();
        loop {
            if self.mark(mark) >= lsn {
                if queue.in_flight.is_none() {
                    // This thread may have been woken to lead and need not: it passes the duty on (W3).
                    let _woken = self.pass_on(&queue);
                }
                return Ok(());
            }
            if queue.state != State::Open {
                return Err(self.refusal(queue.state));
            }
            let covering = queue.covering(mark, lsn);
            if let Some(permit) = self.begin(&mut queue, purpose) {
                drop(queue);
                if lsn <= permit.target {
                    self.flush(permit)?;
                } else {
                    // The permit is never held while waiting for the boundary.
                    self.give_back(permit);
                    self.wait_boundary(lsn)?;
                }
                queue = self.queue.lock();
                continue;
            }
            let stalled = if mark == Mark::Durable {
                let lane = lane(covering.unwrap_or(queue.flush + 1));
                queue.parked[lane] += 1;
                let waited = self.flush_ended[lane].wait_for(&mut queue, STALL);
                queue.parked[lane] -= 1;
                waited.timed_out()
            } else {
                queue.parked_written += 1;
                let waited = self.written_moved.wait_for(&mut queue, STALL);
                queue.parked_written -= 1;
                waited.timed_out()
            };
            if stalled {
                MutexGuard::unlocked(&mut queue, || self.look_for_stalls());
            }
        }
    }

    /// Blocks until the boundary reaches `lsn`.
    fn wait_boundary(&self, lsn: Lsn) -> Result<(), WalError> {
        match self.reserve.wait_boundary(lsn, None) {
            Ok(_there) => Ok(()),
            Err(state) => Err(self.refusal(state)),
        }
    }

    /// Leaves a waker until `mark` reaches `lsn`. `id` is the future's number from its last call. Returns `true` if the
    /// mark is reached already.
    ///
    /// # Errors
    /// `Poisoned` or `Closed` if it never will be.
    pub(crate) fn register(&self, mark: Mark, lsn: Lsn, id: &mut Option<u64>, waker: &Waker) -> Result<bool, WalError> {
        if mark == Mark::Boundary {
            return self.reserve.park(lsn, id, waker).map_err(|state| self.refusal(state));
        }
        let waker = waker.clone();
        let mut queue = self.queue.lock();
        if self.mark(mark) >= lsn {
            return Ok(true);
        }
        if queue.state != State::Open {
            return Err(self.refusal(queue.state));
        }
        let number = *id.get_or_insert(queue.next_waker);
        queue.next_waker = queue.next_waker.max(number + 1);
        let replaced = queue.wakers(mark).insert((lsn, number), waker);
        if queue.in_flight.is_none() {
            self.background_poked.notify_one();
        }
        drop(queue);
        drop(replaced);
        Ok(false)
    }

    /// Removes the waker of a dropped future.
    pub(crate) fn forget(&self, mark: Mark, lsn: Lsn, id: u64) {
        if mark == Mark::Boundary {
            return self.reserve.forget(lsn, id);
        }
        let forgotten = self.queue.lock().wakers(mark).remove(&(lsn, id));
        drop(forgotten);
    }

    /// Wakes waiters for `written` while the sync is still running.
    pub(super) fn wake_written(&self) {
        let mut queue = self.queue.lock();
        if queue.parked_written > 0 {
            self.written_moved.notify_all();
        }
        let reached = queue.take_written(self.written.load());
        drop(queue);
        reached.for_each(Waker::wake);
    }

    /// Wakes one thread that will lead (W3): a thread that waits for the next flush, or the background flusher if
    /// futures wait. Returns whether a thread was woken.
    pub(super) fn pass_on(&self, queue: &MutexGuard<'_, Queue>) -> bool {
        let next = lane(queue.flush + 1);
        if queue.parked[next] > 0 {
            return self.flush_ended[next].notify_one();
        }
        let futures = !queue.durable_wakers.is_empty() || !queue.written_wakers.is_empty();
        futures && self.background_poked.notify_one()
    }
}
