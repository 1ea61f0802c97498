//! Files, memory that outlives a process, clock and randomness: all input that a run takes from outside comes
//! through this crate.
//!
//! The crate has four object-safe traits ([`Files`], [`SharedMemory`], [`Clock`], [`Random`]), with the operating
//! system's implementations and simulated ones. [`Env`] bundles one of each. It has no sockets and no threads, and
//! it knows nothing about the meaning of files.
//!
//! The simulated disk ([`SimFiles`]) remembers which 512-byte sectors and directory entries were synced. At a
//! simulated power cut it keeps any subset of the others, chosen by a seed; [`CrashPoint`] lists all of them.
//!
//! ```
//! use collie_env::Env;
//! let (env, disk) = Env::simulated(7);
//! let file = env.files.create("/data/a".as_ref()).unwrap();
//! env.files.sync_dir("/data".as_ref()).unwrap();
//! file.write_at(0, b"synced").unwrap();
//! file.sync_data().unwrap();
//! let after = disk.power_cut(1);
//! assert_eq!(collie_env::read_all(&after, "/data/a".as_ref(), 100).unwrap(), b"synced");
//! ```
#![deny(unsafe_code)]

mod background;
mod child;
mod clock;
mod fault_point;
mod files;
mod machine;
mod mapping;
mod pages;
mod random;
mod real_files;
mod shared_memory;
mod sim;

use std::sync::Arc;

pub use background::{become_background, end_with_parent};
pub use child::{ChildEnd, ChildProcess};
pub use clock::{Clock, RealClock, SimClock};
#[cfg(feature = "planted-bugs")]
#[doc(hidden)]
pub use fault_point::pass_fault_point;
pub use files::{Access, File, FileLock, Files, LockError, is_full, read_all};
pub use machine::{give_way, machine_memory_bytes, open_files_max};
pub use mapping::Mapping;
pub use random::{Random, RealRandom, SimRandom};
pub use real_files::RealFiles;
pub use shared_memory::{RealMemory, Region, SharedMemory};
pub use sim::crash_point::{CrashPoint, Limits, Picks};
pub use sim::files::{Fault, SECTOR_BYTES, SimFiles};

/// One of each: the things that a component needs from outside the process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Env {
    /// The disk.
    pub files: Arc<dyn Files>,
    /// Memory that outlives the process.
    pub memory: Arc<dyn SharedMemory>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The source of randomness.
    pub random: Arc<dyn Random>,
}

impl Env {
    /// Returns the operating system's disk, clock and randomness.
    pub fn real() -> Self {
        Self {
            files: Arc::new(RealFiles),
            memory: Arc::new(RealMemory),
            clock: Arc::new(RealClock),
            random: Arc::new(RealRandom),
        }
    }

    /// Returns an environment with a simulated disk (also returned separately, to inject faults), a clock that
    /// stands still until it is advanced, and randomness that `seed` determines.
    pub fn simulated(seed: u64) -> (Self, SimFiles) {
        let disk = SimFiles::new();
        (Self::over(disk.clone(), seed), disk)
    }

    /// Returns an environment over `disk` and its machine's memory, for instance after a power cut.
    pub fn over(disk: SimFiles, seed: u64) -> Self {
        Self {
            memory: Arc::new(disk.clone()),
            files: Arc::new(disk),
            clock: Arc::new(SimClock::new()),
            random: Arc::new(SimRandom::new(seed)),
        }
    }
}
