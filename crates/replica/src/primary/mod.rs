//! The sending side: slots, and for each connected replica a stream of the records that become durable.
//!
//! | file | noun |
//! |---|---|
//! | `source.rs` | [`Source`]: the interface to the database that is followed |
//! | `progress.rs` | [`Progress`]: the positions of one replica, and what may be sent to it; no I/O |
//! | `quorum_config.rs` | [`QuorumConfig`]: the list of replicas that commits need, or two while it changes; no I/O |
//! | `quorum.rs` | [`Quorum`]: which replicas must have a commit, and their positions; no I/O |
//! | `synchronous.rs` | [`Synchronous`]: the quorum, shared with the connections that report to it |
//! | `slots.rs` | [`Slots`]: the replicas by name, and how long log is kept for each |
//! | `slots_file.rs` | the file `slots`, from which a primary knows them after a restart |
//! | `handover.rs` | [`Handover`](handover::Handover): a primary that transfers the lead, or keeps it; no I/O |
//! | `switchover.rs` | [`Switchover`]: a switchover, shared by the connections and the task that lets writers end |
//! | `replica_fault.rs` | [`ReplicaFault`](replica_fault::ReplicaFault): consecutive faults of a slot's streams; no I/O |
//! | `serve.rs` | one connection, from hello to its end |
//! | `delay.rs` | [`Delay`]: how much later a replica's readers see commits; no I/O |
//! | `clock_offset.rs` | [`ClockOffset`]: a replica's clock against this node's; no I/O |
//! | `delay_history.rs` | [`DelayHistory`]: delays window by window, and quantiles; no I/O |
//! | `marks.rs` | [`Marks`]: when positions were passed, and how long one has been owed; no I/O |
//! | `backup.rs` | a base backup, file by file |

#[cfg(test)]
mod asked_model_tests;
mod backup;
mod clock_offset;
mod delay;
mod delay_history;
mod handover;
mod marks;
mod progress;
mod quorum;
mod quorum_config;
#[cfg(test)]
mod quorum_tests;
mod replica_fault;
mod serve;
mod slots;
mod slots_file;
#[cfg(test)]
mod slots_tests;
mod source;
mod switchover;
mod synchronous;
#[cfg(test)]
mod synchronous_tests;

pub use self::{
    clock_offset::ClockOffset,
    delay::{Delay, DrawnCommit, Lags, Measured},
    delay_history::{DelayHistory, DelaySecond, DelayTotals, SECONDS_MAX, Standing},
    handover::Phase,
    marks::Marks,
    progress::{Progress, Sent},
    quorum::{Change, Degrade, NEAR_BYTES, NEAR_NS, Quorum, QuorumError, QuorumList},
    quorum_config::{QuorumConfig, list_text},
    serve::serve,
    slots::{DropError, Expiry, SlotStat, SlotState, Slots},
    slots_file::NewerSlots,
    source::{BackupFile, BackupFiles, HeldSlot, Ship, Shipment, Source, SourceError},
    switchover::{HandoverAsked, Switchover},
    synchronous::{QuorumStat, Synchronous},
};

use std::time::Duration;

/// How a primary streams to its replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOptions {
    /// The time between two heartbeats to a replica.
    pub heartbeat: Duration,
    /// The silence after which a connection is given up.
    pub timeout: Duration,
    /// The unacknowledged bytes of log at which sending waits for acks of the replica.
    pub window_bytes: u64,
    /// The most slots.
    pub slots_max: usize,
    /// How often a replica's rows are compared with the primary's, which reads all rows on both; `None`: never.
    pub verify: Option<Duration>,
    /// The most bytes per second of a base backup's files; at least 1.
    pub backup_bytes_per_s: u64,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(100),
            timeout: Duration::from_secs(5),
            window_bytes: 64 << 20,
            slots_max: 10,
            verify: None,
            backup_bytes_per_s: 100 << 20,
        }
    }
}
