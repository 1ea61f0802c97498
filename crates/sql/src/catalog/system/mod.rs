//! PostgreSQL's system tables and functions, computed from the catalog and the session when they are read.
//!
//! Nothing here is stored: `pg_class` and its kin are views of [`Catalog`], shown with the names, types and OIDs that
//! clients of PostgreSQL 15 expect. Relations that exist only so that clients can join them have the right columns and
//! no rows.
//!
//! | file | knows |
//! |---|---|
//! | `tables` | the system relations, with their columns (`crates/sql/builtin/system_columns.tsv`) |
//! | `output` | assembling a row by column names, and the value that a look-up asks for |
//! | `relation_rows`, `builtin_rows`, `session_rows`, `lock_rows`, `store_rows`, `view_rows`, `information_schema` |
//! the rows |
//! | `functions`, `object_names` | the functions; `reg*` types and visibility |
//! | `training`, `collected` | the rows of `collie_training` |
//! | `definition`, `name`, `role`, `size` | texts of definitions, names and their quoting, owners, size estimates |
//!
//! # Invariants
//! - S1. A row has one value per column of its relation, which is NULL only where the column allows it.
//! - S2. With a look-up, at least the matching rows are returned; a look-up only saves work.
//! - S3. The order of rows does not depend on hashing: one catalog always gives the same rows.
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
use collie_engine::{AdvisoryScope, LockPicture, LockTarget, TableLockMode, Token, XidFate};
pub use commits::CommitsRow;
pub(crate) use definition::key_expression_text;
pub use doing::{Doing, State};
pub(crate) use name::object as object_name;
pub use promotion::Promotion;
pub use reads::{ReadsRow, ReadsShipped};
pub use redundancy::{FollowingRow, FollowingState, QuorumRow, QuorumState, Severity, Trouble, WitnessState};
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

/// The facts and operations of a session that system tables and functions use.
pub trait SessionFacts {
    /// Returns the catalog that the statement sees.
    fn catalog(&self) -> &Catalog;
    /// Returns the schemas of the search path that exist, in order; `pg_catalog` only if the path names it.
    fn search_path(&self) -> &[Oid];
    /// Returns the name of the connected user.
    fn user(&self) -> &str;
    /// Returns the name of the database.
    fn database(&self) -> &str;
    /// Returns the process id of the session.
    fn pid(&self) -> u32;
    /// Returns a setting's value as SHOW prints it.
    ///
    /// # Errors
    /// 42704 for an unknown setting.
    fn setting(&self, name: &str) -> Result<String>;
    /// Returns every setting.
    fn settings(&self) -> Vec<SettingRow>;
    /// Sets a setting, as `set_config` does, and returns its new value.
    ///
    /// # Errors
    /// As SET.
    fn set_config(&self, name: &str, value: &str, local: bool) -> Result<String>;
    /// Returns the id of the transaction, once it has written.
    fn xid(&self) -> Option<Xid>;
    /// Returns the statement's snapshot in terms of transaction ids.
    ///
    /// # Errors
    /// 55000 if the snapshot is too old for that.
    fn xid_snapshot(&self) -> Result<XidSnapshot>;
    /// Returns how a transaction ended, as far as that is still known.
    fn xid_fate(&self, xid: Xid) -> XidFate;
    /// Returns the boundary and the durable end of the log.
    fn positions(&self) -> (Lsn, Lsn);
    /// Takes a snapshot of what no crash takes back, and returns its position and the state hash there. Reads every
    /// row.
    ///
    /// # Errors
    /// If there are too many sessions.
    fn state_hash(&self) -> Result<(Lsn, u64)>;
    /// Returns whether the database follows the log of another database.
    fn is_replica(&self) -> bool;
    /// Makes a replica a primary in the given way; returns a description of what was done.
    ///
    /// # Errors
    /// 55000 for a node that is not a replica or cannot be promoted.
    fn promote(&self, how: Promotion) -> Result<String>;
    /// Returns the token of the session's last commit.
    fn last_commit(&self) -> Option<Token>;
    /// Returns the progress of a replica; `None` on any other node.
    fn replay(&self) -> Option<ReplayRow>;
    /// Returns the replicas that follow this primary, or have followed it.
    fn standbys(&self) -> Vec<Standby>;
    /// Returns the slots of replicas.
    fn slots(&self) -> Vec<SlotRow>;
    /// Returns the delays of replicas, second by second.
    fn delays(&self) -> Vec<DelayRow>;
    /// Returns the identity of this node.
    fn node(&self) -> NodeRow;
    /// Returns the state of the replicas that commits wait for, if they wait for any.
    fn quorum(&self) -> Option<QuorumRow>;
    /// Returns the primary that the database follows, if it follows one.
    fn following(&self) -> Option<FollowingRow>;
    /// Returns the waits of commits.
    fn commit_times(&self) -> CommitsRow;
    /// Returns the outcomes of sampled reads.
    fn replayed_reads(&self) -> Vec<ReadsRow>;
    /// Returns the known troubles of the running database.
    fn health(&self) -> Vec<Trouble>;
    /// Returns the server's training, if it does any.
    fn training(&self) -> Option<&dyn Training>;
    /// Drops a slot.
    ///
    /// # Errors
    /// 42704, 55006, and errors of the disk.
    fn drop_slot(&self, name: &str) -> Result<()>;
    /// Returns an estimate of the number of rows of a family.
    fn row_estimate(&self, cf: CfId) -> u64;
    /// Returns the connected sessions, by process id.
    fn activity(&self) -> Vec<ActivityRow>;
    /// Returns every lock that is held or waited for.
    fn locks(&self) -> LockPicture;
    /// Returns the process ids of the sessions that a session waits for.
    fn blocking_pids(&self, pid: u32) -> Vec<u32>;
    /// Cancels the statement of a session, or with `end` ends the session; returns whether there is such a session.
    fn stop_backend(&self, pid: u32, end: bool) -> bool;
    /// Returns the snapshots that sessions hold, lowest first.
    fn snapshots(&self) -> Vec<SnapshotRow>;
    /// Returns the engine's figures of its store; `None` if there are none.
    fn store_figures(&self) -> Option<StoreFigures>;
    /// Takes an advisory lock; blocks this thread while other sessions hold it.
    ///
    /// # Errors
    /// 40P01, 55P03, 53200 if the session holds as many as it may, and the errors of a cancelled statement.
    fn lock_advisory(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Result<()>;
    /// Takes an advisory lock if no other session is in the way; returns whether it did.
    ///
    /// # Errors
    /// 53200 if the session holds as many as it may.
    fn try_advisory(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Result<bool>;
    /// Releases an advisory lock of the session; returns whether it held one.
    fn give_advisory_back(&self, target: LockTarget, mode: TableLockMode) -> bool;
    /// Releases every advisory lock of the session.
    fn give_all_advisory_back(&self);
    /// Sends a warning to the client, after the step.
    fn warn(&self, warning: SqlError);
    /// Blocks this thread for a time, or until the statement is cancelled.
    ///
    /// # Errors
    /// The errors of a cancelled statement.
    fn sleep(&self, time: Duration) -> Result<()>;
    /// Returns the named prepared statements of this session.
    fn prepared_statements(&self) -> Vec<PreparedRow>;
}

/// A row of `pg_prepared_statements`.
#[derive(Clone, Debug)]
pub struct PreparedRow {
    /// Its name.
    pub name: String,
    /// The text as it was sent.
    pub text: Arc<str>,
    /// The time at which it was prepared, in microseconds since 2000-01-01.
    pub since: i64,
    /// Types of its parameters.
    pub parameters: Vec<Oid>,
    /// Whether it was created by PREPARE.
    pub from_sql: bool,
    /// The number of its executions.
    pub runs: u64,
}

/// The progress of a replica.
#[derive(Clone, Copy, Debug)]
pub struct ReplayRow {
    /// The end of the received log.
    pub received: Lsn,
    /// The read horizon: new snapshots show the commits below.
    pub shown: Lsn,
    /// The primary's time at that position, within a second or so, in microseconds since 1970; `None` if not known yet.
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
    /// Description, in one line.
    pub description: &'static str,
    /// When it may be changed: user (by SET), backend (when a client connects), internal (never).
    pub context: &'static str,
}

/// A row of `pg_stat_activity`.
#[derive(Clone, Debug)]
pub struct ActivityRow {
    /// Process id.
    pub pid: u32,
    /// User.
    pub user: Arc<str>,
    /// Address of its client; `None` for a client in this process.
    pub address: Option<SocketAddr>,
    /// The time at which it connected, in microseconds since 2000-01-01.
    pub since: i64,
    /// The slot that identifies it to the lock tables.
    pub slot: usize,
    /// Its current activity.
    pub doing: Doing,
}

/// A row of `collie_snapshots`.
#[derive(Clone, Debug)]
pub struct SnapshotRow {
    /// Process id of the session that holds it.
    pub pid: u32,
    /// The position of the snapshot: it sees the commits below.
    pub snapshot: Lsn,
    /// The start of its transaction, in microseconds since 2000-01-01.
    pub since: Option<i64>,
    /// Its age, as far as the background thread has seen it.
    pub age: Duration,
    /// The number of rows with old versions that wait for its end, or that were not visited since a commit above it.
    pub rows_kept: u64,
    /// The bytes of all old versions in memory; shown for the lowest snapshot only, which keeps most of them.
    pub bytes_kept: Option<u64>,
}

/// Adds the system schemas and relations to a catalog read from disk, and `public` if it is missing.
pub fn install(catalog: &mut Catalog) {
    tables::install(catalog);
}

/// Returns the rows of a system relation: all of them, or with `lookup` at least those whose column at that place
/// equals the value.
///
/// # Errors
/// Errors that the session returns.
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
        // Relations of features that are not built exist only for joins.
        return Ok(Vec::new());
    }
    Ok(out.finish())
}

/// Computes the function with this source (`pg_proc.prosrc`).
///
/// # Errors
/// The errors of the function; 0A000 for an unknown source.
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
