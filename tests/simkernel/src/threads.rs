//! Threads and time: one thread runs at a time, and the seed decides which one is next.
//!
//! # Invariants
//! - K1. One simulated thread runs at a time: the one that has the turn. It gives the turn away only where it would
//!   wait in a kernel, where it ends or yields, or where it is preempted at a call of this kernel; so the seed
//!   determines what the others do in between.
//! - K2. Time stands still while a thread computes, except for a little at each call. Once no thread can run, time
//!   jumps to the next event.
//! - K3. A thread of a killed process never gets the turn again; one of a paused process gets it once the process
//!   continues.
//! - K4. A thread that starts or ends does not run in parallel with the one that has the turn either: the addresses of
//!   allocations depend on that, and addresses decide which locks share a queue.
//!
//! Checked by `tests`; K4 by `same_seed_is_the_same_run` of `tests/crash/tests/cluster.rs`.

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::atomic::{AtomicI32, AtomicU32, Ordering},
};

use crate::{
    kernel::{Kernel, enter},
    real::{futex_wait, futex_wake, give_up_processor, is_alive, own_number, print},
};

/// A thread, by its number.
pub(crate) type ThreadId = usize;

/// The event for which a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wait {
    /// Only the time.
    Sleep,
    /// Another thread wakes the waiters at this address.
    Futex(usize),
    /// A thread ends.
    Join(ThreadId),
    /// This epoll has news.
    Epoll(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has the turn, or could have it.
    Ready,
    Waiting(Wait),
    Ended,
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    ByEvent,
    ByTime,
}

#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) process: usize,
    pub(crate) state: State,
    /// Its place in the queue of threads that wait for the same event.
    ticket: u64,
    deadline_ns: Option<u64>,
    woken: Woken,
    /// 1 if it has the turn.
    gate: &'static AtomicU32,
}

/// The state of a process, which decides whether its threads can run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Runs,
    Paused,
    Ended,
}

#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    pub(crate) host: usize,
    pub(crate) life: Life,
    /// The threads that became ready while it is paused.
    held: Vec<ThreadId>,
    /// The last lines that it wrote to standard output and error.
    pub(crate) console: VecDeque<String>,
    /// The line that is not complete yet.
    pub(crate) line: Vec<u8>,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    pub(crate) all: Vec<Thread>,
    ready: Vec<ThreadId>,
    timers: BTreeSet<(u64, ThreadId)>,
    /// The threads by the handles of the C library.
    handles: BTreeMap<libc::pthread_t, ThreadId>,
    /// The threads that wait for one event, by their tickets, so in the order of their arrival.
    queues: BTreeMap<Wait, BTreeMap<u64, ThreadId>>,
    tickets: u64,
    pub(crate) processes: Vec<Process>,
}

thread_local! {
    /// The number of this thread, if it is simulated.
    static CURRENT: Cell<Option<ThreadId>> = const { Cell::new(None) };
}

/// Returns the number of this thread, if it is simulated.
pub(crate) fn current() -> Option<ThreadId> {
    CURRENT.get()
}

/// Makes this thread the simulated one of this number, or a real one.
pub(crate) fn become_thread(thread: Option<ThreadId>) {
    CURRENT.set(thread);
}

impl Threads {
    /// Adds a process without threads.
    pub(crate) fn add_process(&mut self, name: &str, host: usize) -> usize {
        let (held, console, line) = Default::default();
        self.processes.push(Process { name: name.to_owned(), host, life: Life::Runs, held, console, line });
        self.processes.len() - 1
    }

    /// Adds a thread that is not ready yet ([`Threads::begin`]).
    pub(crate) fn add(&mut self, process: usize) -> ThreadId {
        let gate: &'static AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
        let state = State::Waiting(Wait::Sleep);
        self.all.push(Thread { process, state, ticket: 0, deadline_ns: None, woken: Woken::ByEvent, gate });
        self.all.len() - 1
    }

    /// Makes a thread ready, unless its process has ended (K3).
    pub(crate) fn begin(&mut self, thread: ThreadId) {
        let of = &mut self.all[thread];
        let process = &mut self.processes[of.process];
        match process.life {
            Life::Ended => return,
            Life::Runs => self.ready.push(thread),
            Life::Paused => process.held.push(thread),
        }
        of.state = State::Ready;
    }

    /// Gives the first thread the turn.
    pub(crate) fn take_turn(&mut self, thread: ThreadId) {
        self.all[thread].state = State::Ready;
    }

    /// Returns the thread of a handle, unless it has ended.
    pub(crate) fn running(&self, handle: libc::pthread_t) -> Option<ThreadId> {
        self.handles.get(&handle).copied().filter(|thread| self.all[*thread].state != State::Ended)
    }

    /// Notes the handle of a thread.
    pub(crate) fn know_handle(&mut self, thread: ThreadId, handle: libc::pthread_t) {
        self.handles.insert(handle, thread);
    }

    /// Forgets a handle, which may be used again for another thread.
    pub(crate) fn forget_handle(&mut self, handle: libc::pthread_t) {
        self.handles.remove(&handle);
    }

    /// Ends a thread's wait.
    pub(crate) fn wake(&mut self, thread: ThreadId, woken: Woken) {
        let of = &mut self.all[thread];
        let State::Waiting(wait) = of.state else { return };
        if let Some(deadline_ns) = of.deadline_ns.take() {
            self.timers.remove(&(deadline_ns, thread));
        }
        of.woken = woken;
        if let Some(waiting) = self.queues.get_mut(&wait) {
            waiting.remove(&of.ticket);
            if waiting.is_empty() {
                self.queues.remove(&wait);
            }
        }
        self.begin(thread);
    }

    /// Wakes up to `most` threads that wait for this event, in the order of their arrival; returns their number.
    pub(crate) fn wake_some(&mut self, wait: Wait, most: usize) -> usize {
        let Some(waiting) = self.queues.get(&wait) else { return 0 };
        let woken: Vec<ThreadId> = waiting.values().take(most).copied().collect();
        woken.iter().for_each(|thread| self.wake(*thread, Woken::ByEvent));
        woken.len()
    }

    /// Makes a thread wait.
    fn put_to_sleep(&mut self, thread: ThreadId, wait: Wait, deadline_ns: Option<u64>) {
        let of = &mut self.all[thread];
        of.state = State::Waiting(wait);
        of.deadline_ns = deadline_ns;
        self.timers.extend(deadline_ns.map(|deadline_ns| (deadline_ns, thread)));
        if wait != Wait::Sleep {
            self.tickets += 1;
            of.ticket = self.tickets;
            self.queues.entry(wait).or_default().insert(of.ticket, thread);
        }
    }

    /// Ends a thread.
    fn end(&mut self, thread: ThreadId) {
        self.all[thread].state = State::Ended;
        self.wake_some(Wait::Join(thread), usize::MAX);
    }

    /// Returns the time at which the next wait times out.
    pub(crate) fn next_timer_ns(&self) -> Option<u64> {
        self.timers.first().map(|(at_ns, _)| *at_ns)
    }

    /// Ends the waits whose time has come.
    pub(crate) fn ring(&mut self, now_ns: u64) {
        while let Some((at_ns, thread)) = self.timers.first().copied().filter(|(at_ns, _)| *at_ns <= now_ns) {
            self.timers.remove(&(at_ns, thread));
            self.all[thread].deadline_ns = None;
            self.wake(thread, Woken::ByTime);
        }
    }

    /// Pauses a process.
    pub(crate) fn pause(&mut self, process: usize) {
        if self.processes[process].life == Life::Runs {
            self.processes[process].life = Life::Paused;
            let (held, ready) = self.ready.drain(..).partition(|thread| self.all[*thread].process == process);
            (self.processes[process].held, self.ready) = (held, ready);
        }
    }

    /// Lets a paused process continue.
    pub(crate) fn resume(&mut self, process: usize) {
        if self.processes[process].life == Life::Paused {
            self.processes[process].life = Life::Runs;
            let held = std::mem::take(&mut self.processes[process].held);
            self.ready.extend(held);
        }
    }

    /// Ends a process: none of its threads runs any more, except for the calling one until it gives the turn away.
    pub(crate) fn end_process(&mut self, process: usize) {
        self.processes[process].life = Life::Ended;
        self.processes[process].held.clear();
        self.ready.retain(|thread| self.all[*thread].process != process);
        self.timers.retain(|(_, thread)| self.all[*thread].process != process);
        self.queues.retain(|_, waiting| {
            waiting.retain(|_, thread| self.all[*thread].process != process);
            !waiting.is_empty()
        });
    }

    /// Returns a description of what each thread waits for.
    pub(crate) fn describe(&self) -> String {
        let mut lines = Vec::new();
        for (number, thread) in self.all.iter().enumerate() {
            let process = &self.processes[thread.process];
            if thread.state != State::Ended && process.life != Life::Ended {
                lines.push(format!("thread {number} of {} ({:?}): {:?}", process.name, process.life, thread.state));
            }
        }
        lines.join("\n")
    }
}

impl Kernel {
    /// Draws the thread that gets the turn next (K2).
    fn pick(&mut self) -> ThreadId {
        loop {
            self.threads.ring(self.now_ns);
            self.deliver();
            if !self.threads.ready.is_empty() {
                let at = self.below(self.threads.ready.len());
                let next = self.threads.ready.swap_remove(at);
                self.turns += 1;
                self.now_ns += self.options.turn_ns;
                self.note(next as u64);
                return next;
            }
            let next_ns = [self.threads.next_timer_ns(), self.next_event_ns()].into_iter().flatten().min();
            let Some(next_ns) = next_ns else { self.abort("every thread waits for another one, for ever") };
            self.now_ns = self.now_ns.max(next_ns);
            if self.now_ns > self.options.end_ns {
                self.abort("the time of this simulation is over");
            }
        }
    }
}

impl Kernel {
    /// Aborts the real process. A panic would make calls that lead back to this kernel.
    fn abort(&self, why: &str) -> ! {
        print(format!("{why}:\n{}\n", self.threads.describe()).as_bytes());
        std::process::abort();
    }
}

/// Passes the turn from `this` to `next`; without `this` the caller gives it up for good.
fn hand_over(this: Option<&AtomicU32>, next: &AtomicU32) {
    if this.is_some_and(|this| std::ptr::eq(this, next)) {
        return;
    }
    next.store(1, Ordering::Release);
    futex_wake(next);
    this.into_iter().for_each(await_turn);
}

fn await_turn(gate: &AtomicU32) {
    while gate.swap(0, Ordering::Acquire) == 0 {
        futex_wait(gate, 0);
    }
    await_end(DYING.swap(0, Ordering::Acquire)); // K4
}

/// The real kernel's number of the thread that has given the turn up for good; 0 if there is none.
static DYING: AtomicI32 = AtomicI32::new(0);

/// Waits until the real kernel no longer has this thread.
fn await_end(number: i32) {
    while number != 0 && is_alive(number) {
        give_up_processor();
    }
}

/// Waits until this new thread has the turn.
pub(crate) fn await_birth(thread: ThreadId, gate: &AtomicU32, is_born: &AtomicU32) {
    become_thread(Some(thread));
    is_born.store(1, Ordering::Release);
    futex_wake(is_born);
    await_turn(gate);
}

/// Returns the word that is set when a thread gets the turn.
pub(crate) fn gate_of(kernel: &Kernel, thread: ThreadId) -> &'static AtomicU32 {
    kernel.threads.all[thread].gate
}

/// Gives the turn away after `leave` has run in the kernel; returns, with the turn, how the wait ended.
fn switch(this: ThreadId, leave: impl FnOnce(&mut Kernel)) -> Woken {
    let (own, next) = enter(|kernel| {
        leave(kernel);
        let next = kernel.pick();
        (gate_of(kernel, this), gate_of(kernel, next))
    });
    hand_over(Some(own), next);
    enter(|kernel| kernel.threads.all[this].woken)
}

/// Waits until another thread or an arrival from the network ends the wait, or until `deadline_ns`.
pub(crate) fn wait(this: ThreadId, wait: Wait, deadline_ns: Option<u64>) -> Woken {
    switch(this, |kernel| kernel.threads.put_to_sleep(this, wait, deadline_ns))
}

/// Lets other threads run.
pub(crate) fn give_way(this: ThreadId) {
    switch(this, |kernel| kernel.threads.begin(this));
}

/// Lets other threads run now and then, as the seed decides.
pub(crate) fn may_be_preempted(this: ThreadId) {
    let is_due = enter(|kernel| {
        kernel.now_ns += kernel.options.call_ns;
        let one_in = kernel.options.preempted_one_in;
        one_in > 0 && kernel.below(one_in) == 0
    });
    if is_due {
        give_way(this);
    }
}

/// Ends this thread and gives the turn up for good.
pub(crate) fn end(this: ThreadId) {
    let next = enter(|kernel| {
        kernel.threads.end(this);
        let next = kernel.pick();
        gate_of(kernel, next)
    });
    become_thread(None);
    DYING.store(own_number(), Ordering::Release);
    hand_over(None, next);
}
