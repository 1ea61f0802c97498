//! `LogRoom`: how long the log may get while flushes are behind. Beyond that, transactions that are about to write
//! wait.
//!
//! Only the log from where flushes need it up to `durable` counts. Log that open transactions, consumers of the log
//! or its copies keep does not count: no flush releases it, and `wal.max_segments` bounds it.
//!
//! | length, in limits (`wal.max_total_wal_size`) | a statement that is about to write |
//! |---|---|
//! | below 3/2 | continues |
//! | from 3/2 | continues as far as there are tokens: bytes of log, per second as many as are left up to 2 limits |
//! | from 2 | waits |
//!
//! # Invariants
//! - B1. `pass` is at most two limits above `start`, with the values of the last `tell`: at that `durable` no
//!   statement begins to write. Statements that have begun continue, so the log may exceed that by what they write,
//!   and by the ring.
//! - B2. A waiter is noted under the lock under which there was no room; a thread that makes room takes the wakers
//!   of all waiters under that lock and then wakes them. So no waiter sleeps through it.
//! - B3. Waiters wait for flushes, and these wait for no transaction: an unfinished row is listed again after a
//!   flush, an open large transaction does not count, and a flush has a snapshot slot of its own. So a waiter may
//!   hold locks.
//! - B4. No statement waits in a database without a background flusher of families, nor in a closed one.
//!
//! `pass` is stored and loaded Relaxed: it publishes nothing else. A reader of an old value takes the lock for
//! nothing, or writes one more time.
//!
//! Checked by the tests below and, with a flush that is held up, by `room/tests.rs`.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::task::{Poll, Waker};
use std::time::Duration;

use collie_base::{CfId, Lsn};
use collie_wal::Warnings;
use parking_lot::Mutex;

use crate::EngineError;

/// Least time between two warnings that writers wait.
const WARN_AGAIN: Duration = Duration::from_secs(60);
/// Tokens are given out, saved or owed for at most this much time at once.
const BURST: Duration = Duration::from_millis(64);

/// Waits of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    /// Number of waits that have ended.
    pub count: u64,
    /// Their total duration.
    pub time: Duration,
}

impl Stalls {
    fn add(&mut self, time: Duration) {
        self.count += 1;
        self.time += time;
    }
}

/// How writers waited for room in the log, since the database was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallStat {
    /// Waits for tokens, between one and a half and two limits.
    pub slowed: Stalls,
    /// Waits for a flush, at two limits.
    pub stopped: Stalls,
    /// Writes that were refused instead (`no_slowdown`).
    pub refused: u64,
    /// Writers that wait now.
    pub waiting: u64,
    /// Whether a statement that is about to write waits for a flush now: the log is at two limits.
    pub is_stopped: bool,
    /// Reason of the present waits, or of those that would begin; `None`: there is room.
    pub cause: Option<String>,
    /// Why flushes fail, if some do.
    pub trouble: Option<String>,
    /// The same waits by the column family that needed the oldest part of the log when they began, if a family did.
    pub by_family: BTreeMap<CfId, Stalls>,
}

/// Why a writer waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Slowed,
    Stopped,
}

#[derive(Debug)]
struct Waiting {
    /// Taken by the thread that wakes.
    waker: Option<Waker>,
    from: Duration,
    reason: Reason,
    oldest: Option<CfId>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Flushes need the log from here on.
    start: Lsn,
    /// Zero: no limit was set.
    limit_bytes: u64,
    /// The family that needs the oldest part, as the last waiter found.
    oldest: Option<CfId>,
    /// Why flushes fail.
    trouble: Option<String>,
    /// When tokens were last given out.
    filled: Duration,
    /// By the slots of their sessions.
    waiting: BTreeMap<usize, Waiting>,
    is_closed: bool,
    /// Whether the warning that writers wait is in force, and when the last one was logged.
    is_warned: bool,
    warned: Option<Duration>,
    stat: StallStat,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct LogRoom {
    /// B4.
    is_flushed: bool,
    /// Below this position writers continue without taking the lock.
    pass: AtomicU64,
    inner: Mutex<Inner>,
    warnings: Warnings,
}

/// Wakers to call without a lock, and a line to log.
#[must_use]
#[derive(Default)]
struct Woken {
    wakers: Vec<Waker>,
    line: Option<String>,
}

impl Inner {
    fn slow_from(&self) -> Lsn {
        Lsn::new(self.start.get().saturating_add(self.limit_bytes + self.limit_bytes / 2))
    }

    fn stop_at(&self) -> Lsn {
        Lsn::new(self.start.get().saturating_add(self.limit_bytes.saturating_mul(2)))
    }

    /// Returns the position below which writers continue at `now`, after the previous `pass` (B1).
    fn refill(&mut self, pass: Lsn, durable: Lsn, now: Duration) -> Lsn {
        let time = now.saturating_sub(self.filled).min(BURST);
        self.filled = now;
        if self.is_closed || self.limit_bytes == 0 {
            return Lsn::MAX; // B4
        }
        if durable < self.slow_from() {
            return self.slow_from();
        }
        // As many per second as are left, but enough to reach the end.
        let rate = self.stop_at().bytes_since(durable).max(self.limit_bytes / 16).max(1);
        let tokens = |time: Duration| {
            let tokens = u128::from(rate) * time.as_micros() / Duration::from_secs(1).as_micros();
            u64::try_from(tokens).unwrap_or(u64::MAX)
        };
        // Neither debts nor savings beyond one burst.
        let burst = tokens(BURST);
        let (least, most) = (durable.get().saturating_sub(burst), durable.get().saturating_add(burst));
        let before = pass.min(self.stop_at()).max(self.slow_from()).get().max(least);
        Lsn::new(before.saturating_add(tokens(time)).min(most)).min(self.stop_at())
    }

    /// Notes the end of a wait.
    fn over(&mut self, slot: usize, now: Duration) {
        let Some(Waiting { from, reason, oldest, .. }) = self.waiting.remove(&slot) else { return };
        let time = now.saturating_sub(from);
        match reason {
            Reason::Slowed => self.stat.slowed.add(time),
            Reason::Stopped => self.stat.stopped.add(time),
        }
        if let Some(cf) = oldest {
            self.stat.by_family.entry(cf).or_default().add(time);
        }
    }

    /// Returns the reason why writers wait, as text.
    fn why(&self, durable: Lsn) -> String {
        let (kept, limit) = (durable.bytes_since(self.start), self.limit_bytes);
        let behind = match self.oldest {
            Some(cf) => format!("flushes are behind, of column family {cf} most"),
            None => "flushes are behind".to_owned(),
        };
        let trouble = self.trouble.as_ref().map_or_else(String::new, |why| format!("; {why}"));
        format!("{kept} bytes of log are kept, wal.max_total_wal_size is {limit}: {behind}{trouble}")
    }
}

impl LogRoom {
    /// Makes room without a limit. `is_flushed`: a background thread flushes families (B4).
    pub(crate) fn new(is_flushed: bool, warnings: Warnings) -> Self {
        Self { is_flushed, pass: AtomicU64::new(u64::MAX), inner: Mutex::default(), warnings }
    }

    /// Notes that flushes need the log from `start` on, and may let it grow to `limit_bytes`.
    pub(crate) fn tell(&self, start: Lsn, limit_bytes: u64, durable: Lsn, now: Duration) {
        if !self.is_flushed {
            return;
        }
        let mut inner = self.inner.lock();
        (inner.start, inner.limit_bytes) = (start, limit_bytes);
        let woken = self.fill(&mut inner, durable, now);
        drop(inner);
        self.wake(woken);
    }

    /// Notes why flushes fail, if some do.
    pub(crate) fn note_trouble(&self, why: Option<String>) {
        self.inner.lock().trouble = why;
    }

    /// Returns the warnings for the operator.
    pub(crate) const fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Gives out tokens. Returns whether a writer waits for more.
    pub(crate) fn tick(&self, durable: Lsn, now: Duration) -> bool {
        if !self.is_flushed {
            return false;
        }
        let mut inner = self.inner.lock();
        let woken = self.fill(&mut inner, durable, now);
        let is_waited_for = !inner.waiting.is_empty();
        drop(inner);
        self.wake(woken);
        is_waited_for
    }

    /// Lets every writer continue, for good.
    pub(crate) fn close(&self, durable: Lsn, now: Duration) {
        let mut inner = self.inner.lock();
        inner.is_closed = true;
        let woken = self.fill(&mut inner, durable, now);
        drop(inner);
        self.wake(woken);
    }

    /// Moves `pass`, and takes the wakers of writers that may continue (B2).
    fn fill(&self, inner: &mut Inner, durable: Lsn, now: Duration) -> Woken {
        let pass = inner.refill(Lsn::new(self.pass.load(Relaxed)), durable, now);
        self.pass.store(pass.get(), Relaxed);
        let mut woken = Woken::default();
        if durable >= inner.stop_at() {
            inner.waiting.values_mut().for_each(|waiting| waiting.reason = Reason::Stopped);
        }
        if durable < pass {
            woken.wakers.extend(inner.waiting.values_mut().filter_map(|waiting| waiting.waker.take()));
            // Only when there is room again, not for each token.
            if inner.is_warned && (inner.is_closed || durable < inner.slow_from()) {
                inner.is_warned = false;
                woken.line = Some("store: writers wait no more for flushes".to_owned());
            }
        } else if !inner.is_warned
            && !inner.waiting.is_empty()
            && durable >= inner.stop_at()
            && inner.warned.is_none_or(|last| now.saturating_sub(last) >= WARN_AGAIN)
        {
            (inner.is_warned, inner.warned) = (true, Some(now));
            woken.line = Some(format!("store: writers wait: {}", inner.why(durable)));
        }
        woken
    }

    fn wake(&self, woken: Woken) {
        woken.wakers.into_iter().for_each(Waker::wake);
        if let Some(line) = woken.line {
            self.warnings.warn(line);
        }
    }

    /// Returns whether there is room without asking for tokens. One load.
    #[inline]
    pub(crate) fn has_room(&self, durable: Lsn) -> bool {
        durable.get() < self.pass.load(Relaxed)
    }

    /// Returns ready if there is room; else notes the waiter (B2), and the family `oldest`, which needs the oldest
    /// log.
    pub(crate) fn poll(
        &self,
        slot: usize,
        durable: Lsn,
        now: Duration,
        oldest: Option<CfId>,
        waker: &Waker,
    ) -> Poll<()> {
        let mut inner = self.inner.lock();
        let woken = self.fill(&mut inner, durable, now);
        let has_room = self.has_room(durable);
        if has_room {
            inner.over(slot, now);
        } else {
            let reason = if durable >= inner.stop_at() { Reason::Stopped } else { Reason::Slowed };
            inner.oldest = oldest;
            let waiting = inner.waiting.entry(slot).or_insert(Waiting { waker: None, from: now, reason, oldest });
            waiting.waker = Some(waker.clone());
        }
        drop(inner);
        self.wake(woken);
        if has_room { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Forgets a waiter.
    pub(crate) fn leave(&self, slot: usize, now: Duration) {
        self.inner.lock().over(slot, now);
    }

    /// Checks once more, with the tokens of now; the error says why there is no room, and is counted.
    pub(crate) fn refuse(&self, durable: Lsn, now: Duration, oldest: Option<CfId>) -> Result<(), EngineError> {
        let mut inner = self.inner.lock();
        inner.oldest = oldest;
        let woken = self.fill(&mut inner, durable, now);
        let refused = (!self.has_room(durable)).then(|| {
            inner.stat.refused += 1;
            EngineError::Busy { why: inner.why(durable) }
        });
        drop(inner);
        self.wake(woken);
        refused.map_or(Ok(()), Err)
    }

    /// Returns the counters and the present state.
    pub(crate) fn stat(&self, durable: Lsn) -> StallStat {
        let inner = self.inner.lock();
        let waiting = u64::try_from(inner.waiting.len()).unwrap_or(u64::MAX);
        let has_limit = self.is_flushed && !inner.is_closed && inner.limit_bytes > 0;
        let is_stopped = has_limit && durable >= inner.stop_at();
        let cause = (is_stopped || waiting > 0).then(|| inner.why(durable));
        StallStat { waiting, is_stopped, cause, trouble: inner.trouble.clone(), ..inner.stat.clone() }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
