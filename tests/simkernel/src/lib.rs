//! A simulated kernel under real programs: their threads, their time and their network, in one process and determined by a seed.
//!
//! A program that runs here is compiled as it always is. What it asks the C library for (threads, locks, time, chance, sockets, epoll) comes to
//! this crate's symbols of the same names (`calls`), which answer threads of a simulation themselves and pass everything else on. One thread
//! runs at a time, and the seed draws which is next (`threads`); time jumps to where something happens, so that an hour in which little
//! does takes seconds; hosts are joined by links that can be cut and slow (`network`). Processes can be paused and killed, hosts can lose
//! their power. Equal seeds give equal runs, which [`Ended::trace`] shows.
//!
//! What is not simulated: files (bring `collie_env`'s simulated disk), signals, blocking sockets, names of hosts, and memory that threads share
//! without a call in between: the order of loads and stores is loom's to check.
//!
//! Linux only. A process runs one simulation at a time, and threads that were killed in it stay until the process ends: run one in a process of
//! its own.
//!
//! ```
//! use std::{sync::mpsc, thread, time::Duration};
//! let lived = || {
//!     let (send, receive) = mpsc::channel();
//!     for n in 0..4 {
//!         let send = send.clone();
//!         thread::spawn(move || {
//!             thread::sleep(Duration::from_secs(3600));
//!             send.send(n).ok();
//!         });
//!     }
//!     receive.iter().take(4).collect::<Vec<u32>>()
//! };
//! let first = collie_simkernel::run(7, Default::default(), lived);
//! let second = collie_simkernel::run(7, Default::default(), lived);
//! assert_eq!((&first.result, first.trace), (&second.result, second.trace));
//! assert!(first.passed > Duration::from_secs(3600));
//! ```
#![cfg(target_os = "linux")]

mod calls;
mod descriptors;
mod kernel;
mod network;
mod process;
mod real;
#[cfg(test)]
mod tests;
mod threads;

use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
    time::Duration,
};

use collie_env::Clock;

pub use crate::{
    kernel::Options,
    process::{Host, Process},
};
use crate::{
    kernel::{EPOCH_US, Kernel, enter, exchange},
    threads::{become_thread, current},
};

/// What a simulation came to.
#[derive(Clone, Copy, Debug)]
pub struct Ended<T> {
    /// What `world` returned.
    pub result: T,
    /// Sums up in which order threads ran, and when: equal for equal seeds.
    pub trace: u64,
    /// The simulated time that passed.
    pub passed: Duration,
    /// How often a thread was given the turn.
    pub turns: u64,
}

/// Runs `world` in a simulation that `seed` determines, on a host and in a process of its own; processes that it started and did not end
/// stop where they are once it returns.
///
/// # Panics
/// A simulation runs in this process already; `world` panicked.
pub fn run<T: Send>(seed: u64, options: Options, world: impl FnOnce() -> T + Send) -> Ended<T> {
    calls::link();
    calls::prepare();
    let mut kernel = Kernel::new(seed, options);
    let host = kernel.network.add_host(std::net::Ipv4Addr::LOCALHOST);
    let process = kernel.threads.add_process("world", host);
    let thread = kernel.threads.add(process);
    kernel.threads.take_turn(thread);
    let start_ns = kernel.now_ns;
    assert!(exchange(Some(kernel)).is_none(), "one simulation at a time");
    // A thread of its own has no keys of maps, and nothing else, from before.
    let result = std::thread::scope(|scope| {
        let world = scope.spawn(move || {
            become_thread(Some(thread));
            let result = catch_unwind(AssertUnwindSafe(world));
            become_thread(None);
            result
        });
        world.join()
    });
    let Some(Kernel { now_ns, trace, turns, .. }) = exchange(None) else {
        panic!("the simulation was ended by another")
    };
    let result = result.and_then(|result| result).unwrap_or_else(|panicked| resume_unwind(panicked));
    Ended { result, trace, passed: Duration::from_nanos(now_ns - start_ns), turns }
}

/// Returns nanoseconds since the simulation's beginning of time; never falls.
///
/// # Panics
/// This thread is not simulated.
pub fn now_ns() -> u64 {
    enter(|kernel| kernel.now_ns)
}

/// Lets other threads run now and then, as the seed says: for what a simulated program brings along, such as a disk.
pub fn may_be_preempted() {
    current().into_iter().for_each(threads::may_be_preempted);
}

/// Returns a number that the seed determines.
pub fn draw() -> u64 {
    enter(Kernel::draw)
}

/// The clock of a host: its monotonic time counts from its own beginning, and its calendar may be wrong.
#[derive(Clone, Copy, Debug)]
struct HostClock {
    behind_ns: u64,
    wrong_by_us: i64,
}

/// Returns the clock of a host that was turned on `behind` before the simulation began, and whose calendar is wrong by `wrong_by_us`.
pub fn clock(behind: Duration, wrong_by_us: i64) -> Arc<dyn Clock> {
    Arc::new(HostClock { behind_ns: u64::try_from(behind.as_nanos()).unwrap_or(0), wrong_by_us })
}

impl Clock for HostClock {
    fn now_ns(&self) -> u64 {
        may_be_preempted();
        now_ns() + self.behind_ns
    }

    fn wall_us(&self) -> i64 {
        EPOCH_US + i64::try_from(now_ns() / 1_000).unwrap_or(i64::MAX) + self.wrong_by_us
    }
}
