//! PostgreSQL's system tables and functions, computed from the catalog and the session when they are read.
//!
//! Nothing here is stored: `pg_class` and its kin are views of [`Catalog`], shown with the names, types and OIDs that
//! clients of PostgreSQL 15 expect. Relations that only exist so that clients can join them have the right columns and
//! no rows.
//!
//! | file | knows |
//! |---|---|
//! | `tables` | which system relations there are, with their columns (`crates/sql/builtin/system_columns.tsv`) |
//! | `output` | how a row is put together by column names, and what a look-up asks for |
//! | `relation_rows`, `builtin_rows`, `session_rows`, `lock_rows`, `store_rows`, `view_rows`, `information_schema` | the rows |
//! | `functions`, `object_names` | the functions; `reg*` types and visibility |
//! | `training`, `collected` | the rows of `collie_training` |
//! | `definition`, `name`, `role`, `size` | texts of definitions, names and their quoting, who owns what, estimates |
//!
//! # Invariants
//! - S1. A row has one value per column of its relation, NULL only where the column allows it.
//! - S2. With a look-up, at least the matching rows are returned; it only ever saves work.
//! - S3. Rows come in an order that does not depend on hashing: one catalog always gives the same rows.
//!
//! Checked by `system_tests`, which reads every relation and calls every function.

mod advisory;
mod builtin_rows;
mod collected;
mod commits;
mod definition;
mod doing;
mod functions;
mod information_schema;
mod lock_rows;
mod name;
mod object_names;
mod output;
mod promotion;
mod reads;
mod redundancy;
mod relation_rows;
mod role;
mod session_rows;
mod size;
mod standby;
mod store_rows;
mod tables;
mod training;
mod view_rows;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod system_tests;

use std::{net::SocketAddr, sync::Arc, time::Duration};

pub use collected::{HardwareRow, PredictionRow, SampleFileRow, UnitRow};
use collie_base::{CfId, Lsn, Xid};
use collie_engine::{AdvisoryScope, LockPicture, LockTarget, TableLockMode, XidFate, kv::Token};
pub use commits::CommitsRow;
pub(crate) use definition::key_expression_text;
pub use doing::{Doing, State};
pub(crate) use name::object as object_name;
pub use promotion::Promotion;
pub use reads::{ReadsRow, ReadsShipped};
pub use redundancy::{FollowingRow, FollowingState, QuorumRow, QuorumState, Severity, Trouble};
pub use standby::{DelayFigures, DelayRow, NodeRow, SlotRow, Standby};
pub use store_rows::StoreFigures;
pub use training::{CandidateRow, DecisionRow, Model, ModelRow, PolicyChange, PolicyRow, SwitchRow, Training};

use crate::{
    builtin::Rows,
    catalog::{
        relation::{Oid, Relation},
        snapshot::Catalog,
    },
    error::{Result, SqlError},
    types::{Value, XidSnapshot},
};

/// What system tables and functions may ask of a session.
pub trait SessionFacts {
    /// The catalog the statement sees.
    fn catalog(&self) -> &Catalog;
    /// Schemas of the search path that exist, in order, `pg_catalog` not included unless the path names it.
    fn search_path(&self) -> &[Oid];
    /// Who is connected.
    fn user(&self) -> &str;
    /// Name of the database.
    fn database(&self) -> &str;
    /// Process id of the session.
    fn pid(&self) -> u32;
    /// A setting's value as SHOW prints it.
    ///
    /// # Errors
    /// 42704 for an unknown one.
    fn setting(&self, name: &str) -> Result<String>;
    /// Every setting: name, value, kind of value, default, description.
    fn settings(&self) -> Vec<SettingRow>;
    /// Sets a setting, as `set_config` does, and returns its new value.
    ///
    /// # Errors
    /// As SET.
    fn set_config(&self, name: &str, value: &str, local: bool) -> Result<String>;
    /// Id of the transaction, once it wrote.
    fn xid(&self) -> Option<Xid>;
    /// The statement's snapshot, told in transaction ids.
    ///
    /// # Errors
    /// 55000 when it is older than what is remembered of them.
    fn xid_snapshot(&self) -> Result<XidSnapshot>;
    /// How a transaction ended, as far as it is remembered.
    fn xid_fate(&self, xid: Xid) -> XidFate;
    /// The boundary and the durable end of the log.
    fn positions(&self) -> (Lsn, Lsn);
    /// Where a new snapshot of what no crash takes back is, and the state hash there. Reads every row.
    ///
    /// # Errors
    /// There are too many sessions.
    fn state_hash(&self) -> Result<(Lsn, u64)>;
    /// Whether the database follows the log of another one.
    fn is_replica(&self) -> bool;
    /// Makes a replica a primary, without asking other nodes if `force`; says what was done.
    ///
    /// # Errors
    /// 55000 for what is no replica, or cannot be promoted.
    fn promote(&self, how: Promotion) -> Result<String>;
    /// The token of the session's last commit.
    fn last_commit(&self) -> Option<Token>;
    /// Of a replica: how far it is.
    fn replay(&self) -> Option<ReplayRow>;
    /// The replicas that follow.
    fn standbys(&self) -> Vec<Standby>;
    /// The slots of replicas.
    fn slots(&self) -> Vec<SlotRow>;
    /// How far replicas were behind, second by second.
    fn delays(&self) -> Vec<DelayRow>;
    /// Who this database is.
    fn node(&self) -> NodeRow;
    /// How the replicas stand that commits wait for, if they do.
    fn quorum(&self) -> Option<QuorumRow>;
    /// Whom the database follows, if it does.
    fn following(&self) -> Option<FollowingRow>;
    /// How long commits waited.
    fn commit_times(&self) -> CommitsRow;
    /// What became of sampled reads.
    fn replayed_reads(&self) -> Vec<ReadsRow>;
    /// What somebody should know of the running database.
    fn health(&self) -> Vec<Trouble>;
    /// What the server knows of its training, if it does any.
    fn training(&self) -> Option<&dyn Training>;
    /// Forgets a slot.
    ///
    /// # Errors
    /// 42704, 55006, and the disk's.
    fn drop_slot(&self, name: &str) -> Result<()>;
    /// Rows of a family, about.
    fn row_estimate(&self, cf: CfId) -> u64;
    /// Sessions connected, by process id.
    fn activity(&self) -> Vec<ActivityRow>;
    /// Every lock that is held or waited for.
    fn locks(&self) -> LockPicture;
    /// Process ids of the sessions that a session waits for.
    fn blocking_pids(&self, pid: u32) -> Vec<u32>;
    /// Cancels what a session runs, or with `end` ends the session; whether there is one.
    fn stop_backend(&self, pid: u32, end: bool) -> bool;
    /// Snapshots that sessions hold, lowest first.
    fn snapshots(&self) -> Vec<SnapshotRow>;
    /// What the engine says of its store; `None` where there is none.
    fn store_figures(&self) -> Option<StoreFigures>;
    /// Takes an advisory lock; waits on this thread while somebody is in the way.
    ///
    /// # Errors
    /// 40P01, 55P03, 53200 when the session holds as many as it may, and as a statement that is cancelled.
    fn lock_advisory(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Result<()>;
    /// Takes an advisory lock if nobody is in the way; whether it did.
    ///
    /// # Errors
    /// 53200 when the session holds as many as it may.
    fn try_advisory(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Result<bool>;
    /// Gives an advisory lock of the session back; whether there was one.
    fn give_advisory_back(&self, target: LockTarget, mode: TableLockMode) -> bool;
    /// Gives every advisory lock of the session back.
    fn give_all_advisory_back(&self);
    /// Has the client told, after the step.
    fn warn(&self, warning: SqlError);
    /// Sleeps on this thread, or until the statement is cancelled.
    ///
    /// # Errors
    /// As a statement that is cancelled.
    fn sleep(&self, time: Duration) -> Result<()>;
    /// Prepared statements of this session that have a name.
    fn prepared_statements(&self) -> Vec<PreparedRow>;
}

/// A row of `pg_prepared_statements`.
#[derive(Clone, Debug)]
pub struct PreparedRow {
    /// Its name.
    pub name: String,
    /// The text as it was sent.
    pub text: Arc<str>,
    /// When it was prepared, in microseconds since 2000.
    pub since: i64,
    /// Types of its parameters.
    pub parameters: Vec<Oid>,
    /// Whether PREPARE made it.
    pub from_sql: bool,
    /// How often it ran.
    pub runs: u64,
}

/// How far a replica is.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRow {
    /// The end of what it has received.
    pub received: Lsn,
    /// New snapshots show the commits below.
    pub shown: Lsn,
    /// What time it was on its primary then, within a second or so, in microseconds since 1970; `None`: not known yet.
    pub time_us: Option<i64>,
}

/// A row of `pg_settings`.
#[derive(Clone, Debug)]
pub struct SettingRow {
    /// Name.
    pub name: &'static str,
    /// Value.
    pub value: String,
    /// bool, integer, enum or string.
    pub kind: &'static str,
    /// Default.
    pub default: &'static str,
    /// One line.
    pub description: &'static str,
    /// When it may be changed: user (by SET), backend (as a client connects), internal (never).
    pub context: &'static str,
}

/// A row of `pg_stat_activity`.
#[derive(Clone, Debug)]
pub struct ActivityRow {
    /// Process id.
    pub pid: u32,
    /// User.
    pub user: Arc<str>,
    /// Where its client is; `None` in this process.
    pub address: Option<SocketAddr>,
    /// When it connected, microseconds since 2000-01-01.
    pub since: i64,
    /// The slot by which locks know it.
    pub slot: usize,
    /// What it does.
    pub doing: Doing,
}

/// A row of `collie_snapshots`.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// Process id of the session that holds it.
    pub pid: u32,
    /// It sees the commits below.
    pub snapshot: Lsn,
    /// When its transaction began, microseconds since 2000-01-01.
    pub since: Option<i64>,
    /// How long it has been there, as far as the background has seen it.
    pub age: Duration,
    /// Rows with old versions that wait for its end, or were not looked at since a commit above it.
    pub rows_kept: u64,
    /// Bytes of all old versions in memory; of the lowest snapshot only, for which most of them are kept.
    pub bytes_kept: Option<u64>,
}

/// Adds the system schemas and relations to a catalog read from disk; `public` only when it is not there.
pub fn install(catalog: &mut Catalog) {
    tables::install(catalog);
}

/// Returns the rows of a system relation: all of them, or with `lookup` at least those where the column in that place
/// equals the value.
///
/// # Errors
/// Whatever the session raises when asked.
pub fn rows(facts: &dyn SessionFacts, relation: &Relation, lookup: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>> {
    let mut out = output::Output::new(relation, lookup);
    if !(relation_rows::fill(facts, &mut out)
        || builtin_rows::fill(&mut out)
        || session_rows::fill(facts, &mut out)
        || lock_rows::fill(facts, &mut out)
        || store_rows::fill(facts, &mut out)
        || view_rows::fill(facts, &mut out)
        || training::fill(facts, &mut out)
        || information_schema::fill(facts, &mut out))
    {
        // Relations of the features that Collie has not are there for joins only.
        return Ok(Vec::new());
    }
    Ok(out.finish())
}

/// Computes the function with this source (`pg_proc.prosrc`).
///
/// # Errors
/// Whatever the function raises; 0A000 for a source that is not known.
pub fn call(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Value> {
    functions::call(facts, source, args)
}

/// Computes the rows of the set-returning function with this source.
///
/// # Errors
/// As [`call`].
pub fn call_set(facts: &dyn SessionFacts, source: &str, args: &[Value]) -> Result<Rows> {
    functions::call_set(facts, source, args)
}
