//! `Timer`: ends statements and lock waits at their time limit, by one thread per database, which the first limit
//! starts.
//!
//! It does not time idle clients: the task that waits for a client's next message uses [`IdleLimit`](super::IdleLimit).
//!
//! A session has one [`Alarm`]: the time limits of its statement and of its current lock wait. Setting either is a
//! store under the alarm's own lock. The heap is changed only if it would check the alarm too late, so a limit of a
//! minute costs one entry per minute and not one per statement. No limit is removed when its statement ends: once it is
//! due, it finds nothing to end.
//!
//! # Invariants
//! - M1. For each time in an alarm the heap has an entry that is not later: `looked_at` of the alarm is the time of its
//!   entry.
//! - M2. A late check ends nothing else: a statement is identified by its generation ([`CancelHandle::cancel_in`]), a
//!   wait by itself ([`WaitLimit`]).
//! - M3. If both limits are due, the earlier one is applied first; of equal ones the lock's, as PostgreSQL reports
//!   them.
//!
//! Checked by `timer/tests.rs` and by the clients' tests of time limits.

use std::{
    cmp::Reverse,
    collections::BinaryHeap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use collie_engine::{CancelHandle, CancelReason, WaitLimit};
use collie_env::{Clock, Env};
use parking_lot::{Condvar, Mutex};

/// Stands for no time.
const NEVER: u64 = u64::MAX;

/// The time limits of a session's statement and of its lock wait.
#[derive(Debug)]
pub(super) struct Alarm {
    cancel: CancelHandle,
    times: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// The time, the statement's generation, and the reason.
    statement: Option<(u64, u64, CancelReason)>,
    wait: Option<(u64, WaitLimit)>,
    /// The time of the alarm's entry in the heap (M1).
    looked_at: u64,
}

/// Something to be ended.
enum Due {
    Statement(u64, CancelReason),
    Wait(WaitLimit),
}

impl Alarm {
    pub(super) fn new(cancel: CancelHandle) -> Arc<Self> {
        Arc::new(Self { cancel, times: Mutex::new(Times { statement: None, wait: None, looked_at: NEVER }) })
    }

    /// Takes the limits that are due at `now`, in order (M3), and returns the time of the next check.
    fn take_due(&self, now: u64) -> (Vec<Due>, u64) {
        let mut times = self.times.lock();
        let mut due = Vec::new();
        if times.wait.as_ref().is_some_and(|(at, _)| *at <= now)
            && let Some((at, wait)) = times.wait.take()
        {
            due.push((at, Due::Wait(wait)));
        }
        if let Some((at, generation, reason)) = times.statement.filter(|(at, ..)| *at <= now) {
            times.statement = None;
            due.push((at, Due::Statement(generation, reason)));
        }
        // The sort is stable, and the wait comes first.
        due.sort_by_key(|(at, _)| *at);
        let statement = times.statement.map_or(NEVER, |(at, ..)| at);
        times.looked_at = times.wait.as_ref().map_or(NEVER, |(at, _)| *at).min(statement);
        (due.into_iter().map(|(_, due)| due).collect(), times.looked_at)
    }

    fn end(&self, due: Due) {
        match due {
            Due::Statement(generation, reason) => _ = self.cancel.cancel_in(generation, reason),
            Due::Wait(wait) => wait.expire(),
        }
    }
}

/// An alarm in the heap, by the time of its check and a number that distinguishes entries.
struct Entry(u64, u64, Weak<Alarm>);

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.0, self.1) == (other.0, other.1)
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

#[derive(Default)]
struct Heap {
    entries: BinaryHeap<Reverse<Entry>>,
    numbered: u64,
    running: bool,
    stopping: bool,
}

struct Shared {
    clock: Arc<dyn Clock>,
    heap: Mutex<Heap>,
    changed: Condvar,
}

/// The timer of a database. Dropping it ends its thread soon after.
pub(super) struct Timer(Arc<Shared>);

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("entries", &self.0.heap.lock().entries.len()).finish_non_exhaustive()
    }
}

impl Timer {
    pub(super) fn new(env: &Env) -> Self {
        Self(Arc::new(Shared { clock: env.clock.clone(), heap: Mutex::default(), changed: Condvar::new() }))
    }

    /// Returns the nanoseconds since a fixed moment.
    pub(super) fn now_ns(&self) -> u64 {
        self.0.clock.now_ns()
    }

    /// Sets a limit that ends `generation` of the alarm's session for `reason` at `at_ns`.
    pub(super) fn limit_statement(&self, alarm: &Arc<Alarm>, at_ns: u64, generation: u64, reason: CancelReason) {
        let mut times = alarm.times.lock();
        times.statement = Some((at_ns, generation, reason));
        self.look(alarm, &mut times, at_ns);
    }

    /// Sets a limit that ends a wait of the alarm's session at `at_ns`.
    pub(super) fn limit_wait(&self, alarm: &Arc<Alarm>, at_ns: u64, wait: WaitLimit) {
        let mut times = alarm.times.lock();
        times.wait = Some((at_ns, wait));
        self.look(alarm, &mut times, at_ns);
    }

    /// Ensures that the alarm is checked by `at_ns` (M1).
    fn look(&self, alarm: &Arc<Alarm>, times: &mut Times, at_ns: u64) {
        if times.looked_at <= at_ns {
            return;
        }
        times.looked_at = at_ns;
        let mut heap = self.0.heap.lock();
        heap.push(at_ns, Arc::downgrade(alarm));
        let first = heap.entries.peek().is_some_and(|Reverse(entry)| entry.0 == at_ns);
        if !heap.running {
            let shared = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("collie-timer".to_owned());
            // Without a thread no limit is enforced now; the next limit tries again to start one.
            heap.running = thread.spawn(move || shared.run()).is_ok();
        } else if first {
            self.0.changed.notify_one();
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // The thread is not joined: the last owner of the database may be a task that the timer itself woke.
        self.0.heap.lock().stopping = true;
        self.0.changed.notify_one();
    }
}

impl Heap {
    fn push(&mut self, at_ns: u64, alarm: Weak<Alarm>) {
        self.numbered += 1;
        self.entries.push(Reverse(Entry(at_ns, self.numbered, alarm)));
    }
}

impl Shared {
    fn run(&self) {
        let mut heap = self.heap.lock();
        while !heap.stopping {
            let now = self.clock.now_ns();
            match heap.entries.peek().map(|Reverse(Entry(at, ..))| *at) {
                None => self.changed.wait(&mut heap),
                Some(at) if at > now => {
                    let _ = self.changed.wait_for(&mut heap, Duration::from_nanos(at - now));
                }
                Some(_) => {
                    let entry = heap.entries.pop();
                    // An alarm's lock is taken before the heap's, never after it.
                    drop(heap);
                    let again = entry.and_then(|Reverse(Entry(at, _, alarm))| ring(&alarm, at, now));
                    heap = self.heap.lock();
                    if let Some((at, alarm)) = again {
                        heap.push(at, alarm);
                    }
                }
            }
        }
    }
}

/// Applies the due limits of the alarm that was to be checked at `at`; returns the time of its next check.
fn ring(alarm: &Weak<Alarm>, at: u64, now: u64) -> Option<(u64, Weak<Alarm>)> {
    let held = alarm.upgrade()?;
    if held.times.lock().looked_at != at {
        // An earlier check was requested meanwhile, and has its own entry.
        return None;
    }
    let (due, again) = held.take_due(now);
    due.into_iter().for_each(|due| held.end(due));
    (again != NEVER).then(|| (again, alarm.clone()))
}

#[cfg(test)]
mod tests;
