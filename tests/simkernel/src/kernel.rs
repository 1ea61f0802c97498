//! [`Kernel`]: the whole simulated state, and the only access to it.

use std::{
    cell::UnsafeCell,
    sync::atomic::{AtomicBool, Ordering},
};

use collie_env::{Random as _, SimRandom};

use crate::{descriptors::Descriptors, network::Network, threads::Threads};

/// The start of a simulation's calendar: 2020-01-01, in microseconds since 1970.
pub(crate) const EPOCH_US: i64 = 1_577_836_800_000_000;

/// The options of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The time that each turn of a thread takes, in nanoseconds.
    pub turn_ns: u64,
    /// The time that each call of the kernel takes, in nanoseconds.
    pub call_ns: u64,
    /// A thread is preempted at one of this many calls; 0 for never.
    pub preempted_one_in: usize,
    /// A simulation that reaches this time is aborted with a list of the waits of its threads, since it has failed to
    /// end.
    pub end_ns: u64,
    /// The number of each process's lines that are kept.
    pub console_lines: usize,
    /// Whether the lines of processes are printed as they come.
    pub echoes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { turn_ns: 1_000, call_ns: 100, preempted_one_in: 32, end_ns: u64::MAX, console_lines: 400, echoes: false }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) now_ns: u64,
    random: SimRandom,
    pub(crate) turns: u64,
    /// A hash of all events: equal for equal seeds.
    pub(crate) trace: u64,
    pub(crate) options: Options,
    pub(crate) threads: Threads,
    pub(crate) network: Network,
    pub(crate) descriptors: Descriptors,
    /// The process of threads that are made now, if it is not that of their maker.
    pub(crate) birth: Option<usize>,
}

impl Kernel {
    pub(crate) fn new(seed: u64, options: Options) -> Self {
        let (threads, network, descriptors) = Default::default();
        let (now_ns, turns, trace, birth) = (1_000_000_000, 0, 0, None);
        Self { now_ns, random: SimRandom::new(seed), turns, trace, options, threads, network, descriptors, birth }
    }

    /// Draws a number.
    pub(crate) fn draw(&mut self) -> u64 {
        self.random.u64()
    }

    /// Draws a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % bound.max(1) as u64).unwrap_or(0)
    }

    /// Draws a number from `from` up to but not including `to`.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.draw() % to.saturating_sub(from).max(1)
    }

    /// Adds an event to the trace.
    pub(crate) fn note(&mut self, what: u64) {
        self.trace = SimRandom::new(self.trace ^ what.rotate_left(32) ^ self.now_ns).u64();
    }
}

/// The place of the kernel of the running simulation.
struct Place(UnsafeCell<Option<Kernel>>);

// SAFETY: only the thread that has the turn accesses it (K1), and the turn passes between threads by release and
// acquire.
unsafe impl Sync for Place {}

static KERNEL: Place = Place(UnsafeCell::new(None));

/// Whether a thread is in the kernel.
static IS_ENTERED: AtomicBool = AtomicBool::new(false);

/// Starts or ends a simulation; returns the previous kernel.
pub(crate) fn exchange(kernel: Option<Kernel>) -> Option<Kernel> {
    assert!(!IS_ENTERED.swap(true, Ordering::Acquire), "the kernel is in use");
    // SAFETY: the flag was taken, so there is no other reference.
    let before = unsafe { std::mem::replace(&mut *KERNEL.0.get(), kernel) };
    IS_ENTERED.store(false, Ordering::Release);
    before
}

/// Runs `work` in the kernel. Only the thread that has the turn calls this, and `work` makes no call of the kernel.
///
/// # Panics
/// If there is no simulation, or if the kernel is entered twice, which is a bug of this crate.
pub(crate) fn enter<T>(work: impl FnOnce(&mut Kernel) -> T) -> T {
    assert!(!IS_ENTERED.swap(true, Ordering::Acquire), "the kernel was entered twice");
    // SAFETY: the flag was taken, and is released after the last use of the reference, so there is no other one.
    let kernel = unsafe { &mut *KERNEL.0.get() };
    let done = match kernel {
        Some(kernel) => work(kernel),
        None => panic!("no simulation runs"),
    };
    IS_ENTERED.store(false, Ordering::Release);
    done
}
