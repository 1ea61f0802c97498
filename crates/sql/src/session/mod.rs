//! Sessions: the state of a connected user, and the path of a statement from its text to its reply.
//!
//! `session` joins the other modules: it parses, finds or makes a plan, takes table locks, checks the catalog again,
//! takes a snapshot, steps the execution, and commits. It knows no socket: answers go to a [`Client`]. Its functions
//! are async only where they wait for a lock, for the disk or for the client. Nothing waits between the append of a
//! commit record and its publication, and nothing but the registered snapshot and transaction locks is held over a wait
//! (SQL-8, SQL-9).
//!
//! | file | noun |
//! |---|---|
//! | `database.rs` | the state that all sessions share |
//! | `activity.rs` | a session's activity, as others see it |
//! | `simple.rs`, `extended.rs` | the two query protocols |
//! | `run.rs` | one planned statement: plan, lock, re-check, snapshot, step |
//! | `transaction.rs` | blocks, savepoints, commit |
//! | `definition.rs`, `table/` | CREATE, DROP, ALTER, TRUNCATE |
//! | `foreign_key.rs` | foreign keys: their definition, and the dependents of a table |
//! | `referential.rs` | foreign keys: their checks and actions |
//! | `commit_times.rs` | wait times of commits |
//! | `replicas.rs` | a commit's wait for replicas, and the reply to its client |
//! | `publication.rs` | the publication of a changed catalog, and what older snapshots may still read |
//! | `copy.rs`, `copy_format.rs` | COPY |
//! | `checkpoint.rs` | CHECKPOINT, and copying the database |
//! | `copies.rs` | the place where copies are made |
//! | `option.rs` | an option of the running server |
//! | `resource_limits.rs` | limits of statements' memory, and of what one session keeps |
//! | `text_memory.rs` | memory for parsing and planning a long text |
//! | `turn.rs` | how long a session keeps its thread |
//! | `workers.rs` | threads for work that cannot stop in between |
//! | `limits.rs`, `timer.rs` | time limits, and the thread that enforces them |
//! | `position.rs` | tokens of commits, and waiting for them on another node |
//! | `utility.rs`, `settings.rs` | everything else |
//! | `sampled/` | reads that are sampled, and run again on a replica |
//! | `health.rs` | troubles of the running database |
//! | `facts.rs` | the view of a session for built-in functions and system tables |

pub mod activity;
mod cache;
mod checkpoint;
mod client;
mod commit_times;
mod copies;
mod copy;
pub mod copy_format;
mod custom_settings;
mod database;
mod definition;
mod described;
mod effective;
mod extended;
mod facts;
mod following;
mod foreign_key;
mod health;
mod limits;
mod named;
mod option;
mod position;
mod prepared;
mod promotion;
mod publication;
mod referential;
mod replicas;
mod reported;
mod resource_limits;
mod run;
mod sampled;
pub mod settings;
mod simple;
mod standbys;
mod table;
mod text_memory;
mod time;
mod timer;
mod transaction;
mod turn;
mod utility;
mod workers;

use std::sync::{Arc, atomic::Ordering};

pub use crate::catalog::system::Promotion;
pub use client::{Client, CopyInput, Formats, NoticeLevel, disconnected};
use collie_base::Lsn;
use collie_engine::{Advisory, CancelHandle};
pub use database::{Blocking, Connected, DATABASE, Database, OpenError, Yielding, no_database};
pub use limits::IdleLimit;
use limits::Limits;
pub use position::COMMIT_PARAMETER;
use prepared::Names;
pub use prepared::{Planned, Prepared};
pub use promotion::Promote;
pub use replicas::ReplicasAsked;
use reported::Reported;
pub use resource_limits::{ResourceLimits, ResourcesAsked};
use run::is_long;
pub use sampled::{ReadSession, ReadShare, ReadSink, Rerun, TakenRead, fuzz_parameters};
use settings::Settings;
pub use standbys::{NodeState, Replication, no_slot};
use transaction::Transaction;

use crate::{
    analyze::AnalyzeContext,
    catalog::{
        relation::Oid,
        snapshot::{Catalog, PG_CATALOG},
        system::State,
    },
    error::{Result, SqlError, SqlState},
    types::io::TextContext,
};

/// One user's session. Dropping it rolls back its open transaction in one go; if that may be long, call
/// [`Session::end`] before.
pub struct Session {
    database: Arc<Database>,
    engine: collie_engine::Session,
    cancel: CancelHandle,
    advisory: Advisory,
    /// Warnings of functions, to be sent to the client.
    warnings: Vec<SqlError>,
    pid: u32,
    identity: Connected,
    settings: Settings,
    reported: Reported,
    transaction: Transaction,
    names: Names,
    limits: Limits,
    /// The time when the current message arrived, in microseconds since 2000-01-01.
    statement_time: i64,
    /// Whether a message is being answered; in the extended protocol, until Sync.
    answering: bool,
    /// The end of the record of the session's last commit.
    last_commit: Option<Lsn>,
    /// Whether the last commit needs no report to the client any more.
    is_commit_told: bool,
    /// The number of reads to skip before one is sampled.
    skip: sampled::Skip,
    /// The sampled read that is running; a failed one stays until the next.
    reading: Option<Box<sampled::Reading>>,
    /// Limit of the rows that a statement may keep in memory, in bytes, if it is lower than for other sessions.
    row_bytes_max: u64,
    /// Whether the current message's text is so long that planning it would block a thread.
    has_long_text: bool,
}

/// The transaction status of a session, as ReadyForQuery reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// No transaction block.
    Idle,
    /// In a transaction block.
    InBlock,
    /// In a transaction block that failed.
    Failed,
}

impl Session {
    pub(in crate::session) fn new(
        database: Arc<Database>,
        engine: collie_engine::Session,
        pid: u32,
        identity: Connected,
        mut settings: Settings,
    ) -> Self {
        settings.describe("session_authorization", &identity.user);
        settings.describe("application_name", &identity.application);
        if database.db.is_replica() {
            settings.describe("in_hot_standby", "on");
        }
        let (cancel, advisory) = (engine.cancel_handle(), engine.advisory());
        let limits = Limits::new(cancel.clone());
        let statement_time = database.now();
        Self {
            database,
            engine,
            cancel,
            advisory,
            warnings: Vec::new(),
            pid,
            identity,
            settings,
            reported: Reported::default(),
            transaction: Transaction::default(),
            names: Names::default(),
            limits,
            statement_time,
            answering: false,
            last_commit: None,
            is_commit_told: true,
            skip: sampled::Skip::default(),
            reading: None,
            row_bytes_max: u64::MAX,
            has_long_text: false,
        }
    }

    /// Returns the process id by which clients know the session.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the secret that a cancel request must show.
    pub fn secret(&self) -> u32 {
        self.identity.secret
    }

    /// Returns the session's settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets a setting outside any transaction, as connection options do; RESET returns to this value.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 22023 for a value that it cannot take.
    pub fn set_at_connect(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set_at_connect(name, value)
    }

    /// Returns the transaction status.
    pub fn status(&self) -> Status {
        self.transaction.status()
    }

    /// Begins the answer to a message. A cancel that came while no message was being answered has no effect on it.
    fn begin_message(&mut self, text: &str) {
        if !std::mem::replace(&mut self.answering, true) {
            self.cancel.clear();
            if self.is_told_to_end() {
                // The order may have come between the caller's check and the line above.
                self.cancel.cancel();
            }
        }
        self.statement_time = self.database.now();
        self.has_long_text = is_long(text);
        self.identity.activity.begin(text, self.statement_time, self.transaction.began());
        self.start_clock();
    }

    /// Ends the answer: the session waits for the client next.
    fn end_message(&mut self) {
        self.stop_clock();
        self.answering = false;
        let state = match self.status() {
            Status::Idle => State::Idle,
            Status::InBlock => State::InTransaction,
            Status::Failed => State::InFailedTransaction,
        };
        let application = self.settings.get("application_name");
        let now = self.database.now();
        // The wall clock may have been set back meanwhile: such an answer counts as fast.
        let us = u64::try_from(now - self.statement_time).unwrap_or(0);
        self.database.latencies.record(self.pid, us.saturating_mul(1000));
        self.identity.activity.end(state, now, self.transaction.began(), application);
    }

    /// Sets the callback for an order of another session to end this one (`pg_terminate_backend`). It is called on the
    /// other session's thread, so it should only wake the owner of this session, which then calls
    /// [`Session::is_told_to_end`].
    pub fn on_told_to_end(&self, call: impl Fn() + Send + Sync + 'static) {
        self.identity.activity.on_end(Box::new(call));
    }

    /// Returns whether another session ordered this one to end: its owner then tells the client and drops it.
    pub fn is_told_to_end(&self) -> bool {
        self.identity.activity.is_told_to_end()
    }

    /// Returns the catalog that this session sees: the newest committed one, or its private one while it changes
    /// definitions; on a replica the catalog of its snapshot, if it keeps one.
    fn catalog(&self) -> Arc<Catalog> {
        let own = self.transaction.overlay.clone().or_else(|| self.pinned_catalog());
        own.unwrap_or_else(|| self.database.catalog())
    }

    /// Returns the schemas of the search path that exist, in order.
    fn search_path(&self, catalog: &Catalog) -> Vec<Oid> {
        search_path(&self.settings, &self.identity.user, catalog)
    }

    /// Returns the schema in which objects with unqualified names are created.
    fn creation_schema(&self, catalog: &Catalog) -> Result<Oid> {
        let first = self.search_path(catalog).into_iter().find(|oid| *oid != PG_CATALOG);
        first.ok_or_else(|| SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))
    }

    /// Calls `work` with the context that analysis needs. `declared` are parameter types, 0 for unknown; `None` where
    /// parameters are not allowed.
    fn analyzing<T>(&self, declared: Option<&[u32]>, work: impl FnOnce(&AnalyzeContext<'_>) -> Result<T>) -> Result<T> {
        self.wait_for_position()?; // P2 of `position.rs`
        let catalog = self.catalog();
        let search_path = self.search_path(&catalog);
        let text = self.text_context();
        work(&AnalyzeContext {
            catalog: &catalog,
            search_path: &search_path,
            parameter_types: declared.unwrap_or(&[]),
            parameters_allowed: declared.is_some(),
            text: &text,
            database: DATABASE,
        })
    }

    /// Returns the context by which values are read from text and written as text.
    pub fn text_context(&self) -> TextContext {
        self.settings.effective().text_context(self.transaction_time())
    }

    /// Returns the start of the transaction, or the arrival of the message outside a transaction.
    fn transaction_time(&self) -> i64 {
        self.transaction.began().unwrap_or(self.statement_time)
    }

    /// Counts this session as running until the guard is dropped.
    fn running(&self) -> Running {
        self.database.running.fetch_add(1, Ordering::Relaxed);
        Running(self.database.clone())
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back_at_once();
        self.database.disconnect(self.pid);
    }
}

/// Returns the schemas of a user's search path that exist, in order.
fn search_path(settings: &Settings, user: &str, catalog: &Catalog) -> Vec<Oid> {
    let mut path = Vec::new();
    for name in settings.get("search_path").split(',') {
        let name = name.trim();
        let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
        let name = if name == "$user" { user } else { name };
        path.extend(catalog.schema_named(name).map(|schema| schema.oid).filter(|oid| !path.contains(oid)));
    }
    path
}

/// A session that is running a statement.
struct Running(Arc<Database>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
