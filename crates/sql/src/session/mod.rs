//! Sessions: what a connected user has, and the path of a statement from its text to its reply.
//!
//! `session` joins the other modules: it parses, finds or makes a plan, takes table locks, checks the catalog again, takes
//! a snapshot, steps the execution, and commits. It knows no socket: answers go to a [`Client`]. Its functions are async
//! only where they wait for a lock, for the disk or for the client; nothing waits between the append of a commit record
//! and its publication, and nothing but the registered snapshot and transaction locks is held over a wait (SQL-8, SQL-9).
//!
//! | file | noun |
//! |---|---|
//! | `database.rs` | what all sessions share |
//! | `activity.rs` | what a session does, as others see it |
//! | `simple.rs`, `extended.rs` | the two ways statements arrive |
//! | `run.rs` | one planned statement: plan, lock, re-check, snapshot, step |
//! | `transaction.rs` | blocks, savepoints, commit |
//! | `definition.rs`, `table/` | CREATE, DROP, ALTER, TRUNCATE |
//! | `foreign_key.rs` | foreign keys: their definition, and what depends on a table |
//! | `referential.rs` | foreign keys: their checks and actions |
//! | `commit_times.rs` | how long commits waited |
//! | `replicas.rs` | what a commit waits for, and what the client is told |
//! | `publication.rs` | when a changed catalog becomes everybody's, and what older snapshots may still read |
//! | `copy.rs`, `copy_format.rs` | COPY |
//! | `checkpoint.rs` | CHECKPOINT, and copying the database |
//! | `copies.rs` | where copies are made |
//! | `option.rs` | an option of the running server |
//! | `resource_limits.rs` | memory of statements, and what one session may leave behind |
//! | `text_memory.rs` | memory of what a long text is parsed and planned to |
//! | `turn.rs` | how long a session keeps its thread |
//! | `workers.rs` | threads for work that cannot stop in between |
//! | `limits.rs`, `timer.rs` | time limits, and the thread that keeps them |
//! | `position.rs` | tokens of commits, and waiting for them on another node |
//! | `utility.rs`, `settings.rs` | everything else |
//! | `sampled/` | reads that are taken by chance, and run again on a replica |
//! | `health.rs` | what somebody should know of the running database |
//! | `facts.rs` | what built-in functions and system tables may ask of a session |

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

/// One user's session. Dropping it rolls back what is open, in one go: where that may be much, call [`Session::end`] before.
pub struct Session {
    database: Arc<Database>,
    engine: collie_engine::Session,
    cancel: CancelHandle,
    advisory: Advisory,
    /// What functions have to tell the client.
    warnings: Vec<SqlError>,
    pid: u32,
    identity: Connected,
    settings: Settings,
    transaction: Transaction,
    names: Names,
    limits: Limits,
    /// When the message being answered arrived, microseconds since 2000-01-01.
    statement_time: i64,
    /// Whether a message is being answered whose answer has not ended: not yet at Sync, in the extended protocol.
    answering: bool,
    /// Where the record of its last commit ends.
    last_commit: Option<Lsn>,
    /// Whether the client was told of it, should it want to be.
    is_commit_told: bool,
    /// How many reads are passed over before one is taken.
    skip: sampled::Skip,
    /// The read that was taken and runs; one that has failed stays until the next.
    reading: Option<Box<sampled::Reading>>,
    /// Most bytes of rows that a statement may keep in memory, if less than others may.
    row_bytes_max: u64,
    /// Whether the text of the message being answered is so long that planning it holds up a thread.
    has_long_text: bool,
}

/// What a session is in, as ReadyForQuery tells it.
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

    /// Returns the process id clients know it by.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Returns the secret a cancel request must show.
    pub fn secret(&self) -> u32 {
        self.identity.secret
    }

    /// Returns its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Sets a setting outside any transaction, as options given at connect do; RESET goes back to it.
    ///
    /// # Errors
    /// 42704 for an unknown setting, 22023 for a value it cannot take.
    pub fn set_at_connect(&mut self, name: &str, value: &str) -> Result<()> {
        self.settings.set_at_connect(name, value)
    }

    /// Returns what it is in.
    pub fn status(&self) -> Status {
        self.transaction.status()
    }

    /// Begins the answer to a message: a cancel that came while nothing was answered has no effect on it.
    fn begin_message(&mut self, text: &str) {
        if !std::mem::replace(&mut self.answering, true) {
            self.cancel.clear();
            if self.is_told_to_end() {
                // The order came between the look of the caller and the line above.
                self.cancel.cancel();
            }
        }
        self.statement_time = self.database.now();
        self.has_long_text = is_long(text);
        self.identity.activity.begin(text, self.statement_time, self.transaction.began());
        self.start_clock();
    }

    /// Ends the answer: the client is waited for next.
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
        // The wall may have been set back meanwhile: such an answer counts as fast.
        let us = u64::try_from(now - self.statement_time).unwrap_or(0);
        self.database.latencies.record(self.pid, us.saturating_mul(1000));
        self.identity.activity.end(state, now, self.transaction.began(), application);
    }

    /// Says what to call when another session wants this one to end (`pg_terminate_backend`). It is called on that
    /// session's thread: it should do no more than wake whoever owns this one, who then asks
    /// [`Session::is_told_to_end`].
    pub fn on_told_to_end(&self, call: impl Fn() + Send + Sync + 'static) {
        self.identity.activity.on_end(Box::new(call));
    }

    /// Returns whether another session wants this one to end: drop it, after telling its client.
    pub fn is_told_to_end(&self) -> bool {
        self.identity.activity.is_told_to_end()
    }

    /// Returns the catalog this session sees: the newest committed one, or its own while it changes definitions; on a replica that of its
    /// snapshot, if it keeps one.
    fn catalog(&self) -> Arc<Catalog> {
        let own = self.transaction.overlay.clone().or_else(|| self.pinned_catalog());
        own.unwrap_or_else(|| self.database.catalog())
    }

    /// Returns the schemas of the search path that exist, in order.
    fn search_path(&self, catalog: &Catalog) -> Vec<Oid> {
        search_path(&self.settings, &self.identity.user, catalog)
    }

    /// Returns the schema in which unqualified names are made.
    fn creation_schema(&self, catalog: &Catalog) -> Result<Oid> {
        let first = self.search_path(catalog).into_iter().find(|oid| *oid != PG_CATALOG);
        first.ok_or_else(|| SqlError::new(SqlState::INVALID_SCHEMA_NAME, "no schema has been selected to create in"))
    }

    /// Calls `work` with what analysis needs to know of this session. `declared` are parameter types, 0 for
    /// unknown; `None` where no parameter may stand.
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

    /// Returns how values are read from and written as text.
    pub fn text_context(&self) -> TextContext {
        self.settings.effective().text_context(self.transaction_time())
    }

    /// Returns when the transaction began, or the message arrived outside one.
    fn transaction_time(&self) -> i64 {
        self.transaction.began().unwrap_or(self.statement_time)
    }

    /// Counts this session as running until the guard goes.
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
