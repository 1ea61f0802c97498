//! The sending side: slots, and for each connected replica a stream of what becomes durable.
//!
//! | file | noun |
//! |---|---|
//! | `source.rs` | [`Source`]: what is asked of the database that is followed |
//! | `progress.rs` | [`Progress`]: how far one replica has come, and what may be sent to it; no I/O |
//! | `slots.rs` | [`Slots`]: who follows, by name |
//! | `serve.rs` | one connection, from hello to its end |
//! | `delay.rs` | [`Delay`]: how far a replica is behind in time; no I/O |
//! | `backup.rs` | a base backup, file by file |

mod backup;
mod delay;
mod progress;
mod serve;
mod slots;
mod source;

pub use self::{
    delay::{Delay, Marks},
    progress::{Progress, Sent},
    serve::serve,
    slots::{SlotStat, SlotState, Slots},
    source::{BackupFile, BackupFiles, Ship, Shipment, Source, SourceError},
};

use std::time::Duration;

/// How a primary streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// How often a replica hears that the primary is alive.
    pub heartbeat: Duration,
    /// After how long a silence a connection is given up.
    pub timeout: Duration,
    /// Bytes of log under way to a replica at which sending waits for its acks.
    pub window_bytes: u64,
    /// Most slots there may be.
    pub slots_max: usize,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            timeout: Duration::from_secs(5),
            window_bytes: 64 << 20,
            slots_max: 10,
        }
    }
}
