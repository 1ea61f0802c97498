//! `Standby`: a replica of this database, as `pg_stat_replication` and `collie_replication` show it. `SlotRow`: a
//! replication slot, as `pg_replication_slots` and `collie_slots` show it. `DelayRow`: the delay of a replica in one
//! second. `NodeRow`: the identity of this node, as `collie_node` shows it.

use collie_base::Lsn;

/// The delays from the reply to a commit until a replica's readers saw it, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayFigures {
    /// The number of measured commits, at least 1.
    pub commits: i64,
    /// The mean.
    pub mean_us: i64,
    /// The median.
    pub p50_us: i64,
    /// The 99th percentile.
    pub p99_us: i64,
    /// The maximum.
    pub max_us: i64,
}

/// A replica that follows this database, or has followed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    /// The name of its slot.
    pub slot: String,
    /// The id of its directory.
    pub node: u64,
    /// The address from which it connected.
    pub address: String,
    /// Its state, in a word.
    pub state: &'static str,
    /// Whether it is connected.
    pub is_connected: bool,
    /// The end of the log that was sent to it.
    pub sent: Lsn,
    /// The end of what is in its log.
    pub received: Lsn,
    /// The end of what is on its disk.
    pub durable: Lsn,
    /// The position up to which its readers see commits.
    pub applied: Lsn,
    /// The delays of its readers, on this server's clock, in the newest second with measured commits; `None` if there
    /// were
    /// none in the last ten seconds, or if it does not keep up.
    pub delay: Option<DelayFigures>,
    /// The delays of the last minute or two.
    pub delay_recent: Option<DelayFigures>,
    /// The number of commits whose delay was measured since its slot was created or this server was started.
    pub measured_commits: i64,
    /// The sum of these delays, in microseconds.
    pub measured_us: i64,
    /// The age of the oldest commit that it does not show yet, in microseconds.
    pub oldest_us: i64,
    /// The estimated time until it has caught up, in microseconds; `None` if it is not catching up.
    pub drain_us: Option<i64>,
    /// The time until its acknowledgements cover log as received, in microseconds; `None` if it is idle.
    pub write_lag_us: Option<i64>,
    /// The time until they cover it as durable.
    pub flush_lag_us: Option<i64>,
    /// The time until its readers see it.
    pub replay_lag_us: Option<i64>,
    /// The shortest round trip to it, in microseconds; `None` before the first.
    pub rtt_us: Option<i64>,
    /// Bytes that wait on the replica to be applied.
    pub queue_bytes: i64,
    /// Whether commits wait for it: `quorum`; `degraded` if they normally would but do not now; `async`.
    pub sync_state: &'static str,
    /// The position below which its rows were verified to equal this database's; `None` if they were never compared.
    pub verified: Option<Lsn>,
    /// The position below which its log was verified to hold this database's bytes, as far as both had them; `None` if
    /// the
    /// logs were never compared.
    pub log_verified: Option<Lsn>,
}

/// A replication slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// Its name.
    pub slot: String,
    /// The id of its replica's directory; `None` until a replica has reported one.
    pub node: Option<u64>,
    /// The state of its replica, in a word.
    pub state: &'static str,
    /// Whether it is connected.
    pub is_connected: bool,
    /// The position from which on log is kept; `None` if none is kept.
    pub restart: Option<Lsn>,
    /// The end of the log on its replica's disk.
    pub durable: Lsn,
    /// The bytes of log kept for it.
    pub kept_bytes: i64,
    /// The limit of these bytes.
    pub bytes_max: i64,
    /// The time since its replica was last heard, in milliseconds, not counting the time when this server was not
    /// running.
    pub unheard_ms: i64,
    /// The limit of that time; `None` for no limit.
    pub age_max_ms: Option<i64>,
    /// The time at which its replica was last heard, in microseconds since 2000-01-01; `None` if unknown.
    pub last_seen_us: Option<i64>,
    /// The limit that was exceeded, in a word, once no log is kept for it.
    pub expired_by: Option<&'static str>,
    /// The reason why its replica is failing or has stopped, if so.
    pub problem: Option<String>,
}

/// One second of a replica's delay, as `collie_replication_delay` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayRow {
    /// The name of its slot.
    pub slot: String,
    /// The end of the second, in microseconds since 2000-01-01.
    pub at_us: i64,
    /// The state of the replica at its end, in a word.
    pub state: &'static str,
    /// The delays measured in it; `None` if nothing was committed, or if the replica did not keep up.
    pub delay: Option<DelayFigures>,
    /// The age, at its end, of the oldest commit that the replica did not show yet, in microseconds; 0 if there was
    /// none.
    pub oldest_us: i64,
    /// The durable position of this node at its end.
    pub durable: Lsn,
    /// The position up to which the replica's readers saw commits at its end.
    pub applied: Lsn,
}

/// The identity of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Whether it follows another node.
    pub is_replica: bool,
    /// The id of the database, the same on every node.
    pub cluster: u128,
    /// The id of its directory.
    pub node: u64,
    /// Its term.
    pub term: u64,
    /// Its newest history, and the position where that began.
    pub history: Option<(u64, Lsn)>,
    /// Transactions that have committed on this node since the database was opened.
    pub commits: u64,
    /// The problem of its copy of the primary's rows, and the remedy, if there is a problem.
    pub problem: Option<String>,
    /// Transactions that had begun to write and were rolled back on this node since then.
    pub aborts: u64,
    /// The highest term that it has promised to follow or leads in; `None` if the node keeps no promises.
    pub promised: Option<u64>,
    /// The position where its term began: the start of the first known history of the term.
    pub term_start: Option<Lsn>,
}
