//! A simulated kernel under real programs: their threads, time and network, in one process, determined by a seed.
//!
//! A program that runs here is compiled as usual. Its calls of the C library (threads, locks, time, random numbers,
//! sockets, epoll) reach this crate's symbols of the same names (`calls`), which serve the threads of a simulation and
//! pass all other calls on. One thread runs at a time, and the seed draws the next one (`threads`). Time jumps to the
//! next event, so an hour with few events takes seconds. Hosts are joined by links that can be cut or slow (`network`).
//! Processes can be paused and killed, and hosts can lose their power. Equal seeds give equal runs, which
//! [`Ended::trace`] shows.
//!
//! Not simulated: files (use `collie_env`'s simulated disk), signals, blocking sockets, host names, and memory that
//! threads share without a call in between: loom checks the order of loads and stores.
//!
//! Linux only. A process runs one simulation at a time, and threads that were killed in it stay until the process ends:
//! run a simulation in its own process.
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

/// The result of a simulation.
#[derive(Clone, Copy, Debug)]
pub struct Ended<T> {
    /// The value that `world` returned.
    pub result: T,
    /// A hash of the order and the times in which threads ran: equal for equal seeds.
    pub trace: u64,
    /// The simulated time that passed.
    pub passed: Duration,
    /// How often a thread got the turn.
    pub turns: u64,
}

/// Runs `world` in a simulation that `seed` determines, as a process on its own host. The processes that `world`
/// started and did not end stop where they are once it returns.
///
/// # Panics
/// If a simulation runs in this process already, or if `world` panics.
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
    // The world gets a new thread, which has no state from before, such as the random keys of hash maps.
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

/// Returns the nanoseconds since the simulation's time began; never falls.
///
/// # Panics
/// If this thread is not simulated.
pub fn now_ns() -> u64 {
    enter(|kernel| kernel.now_ns)
}

/// Lets other threads run now and then, as the seed decides; for code that a simulated program brings along, such as a
/// disk.
pub fn may_be_preempted() {
    current().into_iter().for_each(threads::may_be_preempted);
}

/// Returns a number that the seed determines.
pub fn draw() -> u64 {
    enter(Kernel::draw)
}

/// The clock of a host: its monotonic time has its own start, and its calendar may be wrong.
#[derive(Clone, Copy, Debug)]
struct HostClock {
    behind_ns: u64,
    wrong_by_us: i64,
}

/// Returns the clock of a host that was turned on `behind` before the simulation began and whose calendar is wrong by
/// `wrong_by_us`.
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
