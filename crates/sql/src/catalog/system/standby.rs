//! `Standby`: a replica of this database, as `pg_stat_replication` and `collie_replication` show it; `SlotRow`: what is kept for one,
//! as `pg_replication_slots` and `collie_slots` show it; `DelayRow`: how far one was behind; `NodeRow`:
//! who this database is, as `collie_node` shows it.

use collie_base::Lsn;

/// How much later a replica's readers saw commits than their replies left, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelayFigures {
    /// For how many commits the figures stand, at least 1.
    pub commits: i64,
    /// The mean.
    pub mean_us: i64,
    /// Half of them were not later.
    pub p50_us: i64,
    /// All but one in a hundred were not later.
    pub p99_us: i64,
    /// The latest.
    pub max_us: i64,
}

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
    /// How much later its readers saw commits, by this server's clock, in the newest second in which any were measured; `None`: in none of the last
    /// ten, or it does not keep up.
    pub delay: Option<DelayFigures>,
    /// The same of the last minute or two.
    pub delay_recent: Option<DelayFigures>,
    /// For how many commits a delay was measured since its slot was made or this server was started.
    pub measured_commits: i64,
    /// The sum of these delays, in microseconds.
    pub measured_us: i64,
    /// For how long it has owed the oldest of what it does not show, in microseconds.
    pub oldest_us: i64,
    /// In how long it will have made up for that, as it goes now, in microseconds; `None` when it is not gaining.
    pub drain_us: Option<i64>,
    /// Until its acks say that something is in its log, in microseconds; `None` for one that is idle.
    pub write_lag_us: Option<i64>,
    /// Until they say that it is on its disk.
    pub flush_lag_us: Option<i64>,
    /// Until its readers see it.
    pub replay_lag_us: Option<i64>,
    /// The shortest round trip to it, in microseconds; `None` before the first.
    pub rtt_us: Option<i64>,
    /// Bytes that wait there to be applied.
    pub queue_bytes: i64,
    /// Whether commits wait for it: `quorum`; `degraded`, if they would and do without now; `async`.
    pub sync_state: &'static str,
    /// Below here its rows were found to be this database's; `None` if nobody has looked.
    pub verified: Option<Lsn>,
    /// Below here its log was found to hold this database's bytes, as far as both had them; `None` if nobody has looked.
    pub log_verified: Option<Lsn>,
}

/// A replication slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotRow {
    /// Its name.
    pub slot: String,
    /// The id of its replica's directory; `None` while nobody has said.
    pub node: Option<u64>,
    /// What its replica is doing, a word.
    pub state: &'static str,
    /// Whether it is connected.
    pub is_connected: bool,
    /// Log is kept from here on; `None` when none is.
    pub restart: Option<Lsn>,
    /// What its replica has on disk.
    pub durable: Lsn,
    /// How much log that is, in bytes.
    pub kept_bytes: i64,
    /// How much it may be.
    pub bytes_max: i64,
    /// For how long nobody has heard of it, in milliseconds, while this server ran.
    pub unheard_ms: i64,
    /// How long that may be; `None`: for ever.
    pub age_max_ms: Option<i64>,
    /// When it was last heard of, in microseconds since 2000-01-01; `None` when that is not known.
    pub last_seen_us: Option<i64>,
    /// Which limit it is beyond, a word, once it keeps no log any more.
    pub expired_by: Option<&'static str>,
    /// Why its replica is failing or has stopped, if it is so.
    pub problem: Option<String>,
}

/// A second of a replica's delay, as `collie_replication_delay` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DelayRow {
    /// The name of its slot.
    pub slot: String,
    /// When the second ended, in microseconds since 2000-01-01.
    pub at_us: i64,
    /// What the replica was doing at its end, a word.
    pub state: &'static str,
    /// What was measured in it; `None`: nothing was committed, or it did not keep up.
    pub delay: Option<DelayFigures>,
    /// For how long, at its end, the replica had owed the oldest of what it did not show, in microseconds; 0: nothing.
    pub oldest_us: i64,
    /// What was durable here at its end.
    pub durable: Lsn,
    /// What the replica's readers saw at its end.
    pub applied: Lsn,
}

/// Who a database is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRow {
    /// Whether it follows another one.
    pub is_replica: bool,
    /// The id of the database, the same on every node.
    pub cluster: u128,
    /// The id of its directory.
    pub node: u64,
    /// Its term.
    pub term: u64,
    /// Its newest history, and where that began.
    pub history: Option<(u64, Lsn)>,
    /// Transactions that have committed here since it was opened.
    pub commits: u64,
    /// What is wrong with its copy of another's rows, and what to do, if anything is.
    pub problem: Option<String>,
    /// Transactions that had begun to write and were rolled back here since.
    pub aborts: u64,
    /// The highest term it has promised to follow or leads in; `None` where nobody keeps promises.
    pub promised: Option<u64>,
    /// Where its term began: the start of the first history of it, as far as it is known.
    pub term_start: Option<Lsn>,
}
