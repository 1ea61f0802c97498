//! `Standby`: a replica of this database, as `pg_stat_replication` and `collie_replication` show it.

use collie_base::Lsn;

/// A replica that follows this database, or did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// The name of its slot.
    pub slot: String,
    /// The id of its directory.
    pub node: u64,
    /// Where it connected from.
    pub address: String,
    /// What it is doing, a word.
    pub state: &'static str,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Sent to it.
    pub sent: Lsn,
    /// In its log.
    pub received: Lsn,
    /// On its disk.
    pub durable: Lsn,
    /// Seen by its readers.
    pub applied: Lsn,
    /// How far its readers are behind, in microseconds, by this server's clock.
    pub delay_us: i64,
    /// The shortest round trip to it, in microseconds; `None` before the first.
    pub rtt_us: Option<i64>,
    /// Bytes that wait there to be applied.
    pub queue_bytes: i64,
}
