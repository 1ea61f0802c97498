//! Transaction blocks of a session: BEGIN, COMMIT, ROLLBACK, savepoints, and the state after a failure.
//!
//! | block | meaning | left by |
//! |---|---|---|
//! | `None` | nothing open | a statement (to `Implicit`), BEGIN (to `Explicit`) |
//! | `Implicit` | one query string, or one pipeline up to Sync | its end (commits), an error, BEGIN (to `Explicit`) |
//! | `Explicit` | after BEGIN | COMMIT, ROLLBACK, an error (to `Failed`) |
//! | `Failed` | after an error; work since the last savepoint is undone | ROLLBACK, COMMIT, ROLLBACK TO (`Explicit`) |
//!
//! An error in `Implicit`, and COMMIT in `Failed`, roll the transaction back.
//!
//! # Invariants
//! - B1. The engine's transaction begins with the first statement that needs it, so that SET TRANSACTION before it
//!   counts.
//! - B2. A private catalog exists iff this transaction changed definitions; then it holds the catalog lock.
//! - B3. Families made by a transaction that ends without a commit are freed; families that it replaced are freed only
//!   after its commit is acknowledged.
//! - B4. ROLLBACK TO and RELEASE restore the modes that the transaction had when the savepoint was set.
//! - B5. Deferred events are answered before the commit is appended; ROLLBACK TO restores the deferred events and the
//!   timing of constraints from when the savepoint was set.

use std::sync::Arc;

use collie_base::CfId;
use collie_engine::{EngineError, Isolation, Mark};

use crate::{
    catalog::snapshot::Catalog,
    error::{Result, SqlError, SqlState},
    exec::{check_cancel, foreign::Event},
    parse::ast,
    session::{
        Client, NoticeLevel, Session, Status, client::draining, publication::Publication, referential::Timing,
        settings::Settings,
    },
};

/// The kind of the open block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Block {
    #[default]
    None,
    Implicit,
    Explicit,
    Failed,
}

/// The modes that BEGIN and SET TRANSACTION give to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modes {
    /// As written: READ UNCOMMITTED is shown as such, and runs as READ COMMITTED.
    level: ast::IsolationLevel,
    read_only: bool,
    deferrable: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self { level: ast::IsolationLevel::ReadCommitted, read_only: false, deferrable: false }
    }
}

/// The open transaction of a session.
#[derive(Default)]
pub(super) struct Transaction {
    pub(super) block: Block,
    began: i64,
    /// The modes of the open block.
    modes: Modes,
    /// Whether a statement with a snapshot ran, after which SET TRANSACTION is mostly refused.
    used: bool,
    /// The settings from before their first change in the block.
    settings_before: Option<Settings>,
    /// The settings after a commit: SET LOCAL ends with the transaction, plain SET survives a commit.
    settings_after_commit: Option<Settings>,
    /// The private catalog (B2).
    pub(super) overlay: Option<Arc<Catalog>>,
    /// On a replica: the catalog that the transaction's snapshot shows, if it keeps a snapshot (L4 of `following.rs`).
    pub(super) pinned: Option<Arc<Catalog>>,
    /// Families that this transaction made (B3).
    pub(super) made: Vec<CfId>,
    /// Families that no definition names once it commits (B3).
    pub(super) replaced: Vec<CfId>,
    savepoints: Vec<Savepoint>,
    /// The effect of SET CONSTRAINTS.
    pub(super) timing: Timing,
    /// The deferred events of foreign keys (B5).
    pub(super) deferred: Vec<Event>,
}

struct Savepoint {
    name: String,
    mark: Mark,
    modes: Modes,
    overlay: Option<Arc<Catalog>>,
    settings: Settings,
    settings_after_commit: Option<Settings>,
    replaced: usize,
    made: usize,
    timing: Timing,
    deferred: Vec<Event>,
}

impl Transaction {
    pub(super) fn status(&self) -> Status {
        match self.block {
            Block::None | Block::Implicit => Status::Idle,
            Block::Explicit => Status::InBlock,
            Block::Failed => Status::Failed,
        }
    }

    pub(super) fn began(&self) -> Option<i64> {
        (self.block != Block::None).then_some(self.began)
    }

    /// Returns the value of a setting that describes the transaction, as SHOW prints it; `None` for other settings. On
    /// a replica every transaction is read-only.
    pub(super) fn shown(&self, name: &str, settings: &Settings, is_replica: bool) -> Option<&'static str> {
        let modes = if self.block == Block::None { usual_modes(settings, is_replica) } else { self.modes };
        Some(match name {
            "transaction_isolation" => isolation_text(modes.level),
            "transaction_read_only" => on_off(modes.read_only),
            "transaction_deferrable" => on_off(modes.deferrable),
            _ => return None,
        })
    }
}

/// Returns the modes of a transaction that states none.
fn usual_modes(settings: &Settings, is_replica: bool) -> Modes {
    Modes {
        level: isolation_level(settings.get("default_transaction_isolation"))
            .unwrap_or(ast::IsolationLevel::ReadCommitted),
        read_only: settings.effective().read_only || is_replica,
        deferrable: settings.is_on("default_transaction_deferrable"),
    }
}

/// Returns the error for any statement in a failed block.
pub(super) fn failed_block() -> SqlError {
    SqlError::new(
        SqlState::IN_FAILED_SQL_TRANSACTION,
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}

fn warning(state: SqlState, text: &str) -> SqlError {
    SqlError::new(state, text)
}

impl Session {
    /// Ensures that a block is open, an implicit one if necessary, and the engine's transaction with it (B1).
    pub(super) fn ensure_transaction(&mut self) -> Result<()> {
        match self.transaction.block {
            Block::Failed => return Err(failed_block()),
            Block::None => self.open_block(Block::Implicit),
            Block::Implicit | Block::Explicit => {}
        }
        self.transaction.used = true;
        self.begin_engine()
    }

    /// Begins the engine's transaction in an open block, if it has not begun.
    fn begin_engine(&mut self) -> Result<()> {
        if !self.engine.in_transaction() {
            let modes = self.transaction.modes;
            self.engine.begin(isolation_of(modes.level), modes.read_only)?;
        }
        Ok(())
    }

    /// Ensures that a block is open, for a statement that neither reads nor writes rows.
    pub(super) fn ensure_block(&mut self) {
        if self.transaction.block == Block::None {
            self.open_block(Block::Implicit);
        }
    }

    fn open_block(&mut self, block: Block) {
        self.transaction =
            Transaction { block, began: self.statement_time, modes: self.usual_modes(), ..Transaction::default() };
    }

    fn usual_modes(&self) -> Modes {
        usual_modes(&self.settings, self.database.db.is_replica())
    }

    fn modes(&self) -> Modes {
        if self.transaction.block == Block::None { self.usual_modes() } else { self.transaction.modes }
    }

    /// Returns whether writes are refused now.
    pub(super) fn is_read_only(&self) -> bool {
        self.modes().read_only
    }

    /// Returns whether all statements of the transaction use one snapshot.
    pub(super) fn is_repeatable(&self) -> bool {
        self.isolation() != Isolation::ReadCommitted
    }

    /// Returns the isolation of the open transaction, or of the next one.
    pub(super) fn isolation(&self) -> Isolation {
        isolation_of(self.modes().level)
    }

    /// Refuses a statement that cannot run inside a block.
    pub(super) fn refuse_in_block(&self, what: &str) -> Result<()> {
        if self.transaction.block == Block::Explicit {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        Ok(())
    }

    /// Refuses a write in a read-only transaction.
    pub(super) fn refuse_read_only(&self, what: &str) -> Result<()> {
        if self.is_read_only() {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {what} in a read-only transaction"),
            ));
        }
        Ok(())
    }

    /// Runs a transaction command and returns its tag.
    pub(super) async fn transaction_command<C: Client>(
        &mut self,
        command: &ast::Transaction,
        client: &mut C,
    ) -> Result<&'static str> {
        match command {
            ast::Transaction::Begin { modes, start } => {
                self.begin_block(modes, client).await?;
                Ok(if *start { "START TRANSACTION" } else { "BEGIN" })
            }
            ast::Transaction::Commit { chain } => {
                refuse_chain(*chain)?;
                self.commit_command(client).await
            }
            ast::Transaction::Rollback { chain } => {
                refuse_chain(*chain)?;
                if matches!(self.transaction.block, Block::None | Block::Implicit) {
                    let text = "there is no transaction in progress";
                    client.notice(NoticeLevel::Warning, warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, text).report());
                }
                self.roll_back().await;
                Ok("ROLLBACK")
            }
            ast::Transaction::Savepoint(name) => self.savepoint(name),
            ast::Transaction::Release(name) => self.release(name),
            ast::Transaction::RollbackTo(name) => self.roll_back_to(name).await,
            ast::Transaction::Prepare(_)
            | ast::Transaction::CommitPrepared(_)
            | ast::Transaction::RollbackPrepared(_) => {
                Err(SqlError::unsupported("two-phase commit").hint("Use COMMIT."))
            }
        }
    }

    async fn begin_block<C: Client>(&mut self, modes: &[ast::TransactionMode], client: &mut C) -> Result<()> {
        let block = self.transaction.block;
        match block {
            Block::Failed => return Err(failed_block()),
            Block::Explicit => {
                let text = "there is already a transaction in progress";
                client.notice(NoticeLevel::Warning, warning(SqlState::ACTIVE_SQL_TRANSACTION, text).report());
            }
            Block::None => self.open_block(Block::Explicit),
            Block::Implicit => {
                self.transaction.block = Block::Explicit;
                if !self.transaction.used {
                    self.transaction.modes = self.usual_modes(); // SET may have changed them in the same query string
                }
            }
        }
        let applied = self.transaction_modes(modes);
        if applied.is_err() && block != Block::Explicit {
            // A BEGIN that fails has no effect: it leaves no block to be ended.
            self.roll_back().await;
        }
        applied
    }

    /// Applies the modes of BEGIN or SET TRANSACTION to the open block.
    pub(super) fn transaction_modes(&mut self, modes: &[ast::TransactionMode]) -> Result<()> {
        self.ensure_block();
        let refused = |text: &str| Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, text));
        let (used, in_savepoint) = (self.transaction.used, !self.transaction.savepoints.is_empty());
        let before = self.transaction.modes;
        for mode in modes {
            let now = &mut self.transaction.modes;
            match *mode {
                ast::TransactionMode::Isolation(level) if level == now.level => {}
                ast::TransactionMode::Isolation(_) if used => {
                    return refused("SET TRANSACTION ISOLATION LEVEL must be called before any query");
                }
                ast::TransactionMode::Isolation(_) if in_savepoint => {
                    return refused("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction");
                }
                ast::TransactionMode::Isolation(level) => now.level = level,
                ast::TransactionMode::ReadOnly(false) if now.read_only => {
                    if in_savepoint {
                        return refused("cannot set transaction read-write mode inside a read-only transaction");
                    }
                    if used {
                        return refused("transaction read-write mode must be set before any query");
                    }
                    if self.database.db.is_replica() {
                        return Err(SqlError::new(
                            SqlState::FEATURE_NOT_SUPPORTED,
                            "cannot set transaction read-write mode during recovery",
                        ));
                    }
                    now.read_only = false;
                }
                ast::TransactionMode::ReadOnly(read_only) => now.read_only = read_only,
                ast::TransactionMode::Deferrable(_) if in_savepoint => {
                    return refused("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction");
                }
                ast::TransactionMode::Deferrable(_) if used => {
                    return refused("SET TRANSACTION [NOT] DEFERRABLE must be called before any query");
                }
                // Shown only. DEFERRABLE asks for a snapshot whose reads cannot fail later. Every snapshot is one: it
                // shows exactly the commits below it in the one serial order, so a reader is placed there whatever
                // commits later.
                ast::TransactionMode::Deferrable(deferrable) => now.deferrable = deferrable,
            }
        }
        let now = self.transaction.modes;
        let is_begun_otherwise =
            isolation_of(now.level) != isolation_of(before.level) || before.read_only && !now.read_only;
        if is_begun_otherwise && self.engine.in_transaction() {
            // It has done no work, and no savepoint marks it: it begins again with the first statement.
            self.engine.rollback();
        }
        Ok(())
    }

    async fn commit_command<C: Client>(&mut self, client: &mut C) -> Result<&'static str> {
        match self.transaction.block {
            Block::Failed => {
                self.roll_back().await;
                return Ok("ROLLBACK");
            }
            Block::None | Block::Implicit => {
                let text = "there is no transaction in progress";
                client.notice(NoticeLevel::Warning, warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, text).report());
            }
            Block::Explicit => {}
        }
        self.commit(client).await?;
        Ok("COMMIT")
    }

    /// Commits the open transaction. On return the reply may leave, and the client was warned if replicas that were
    /// asked for do not have the commit. After an error no transaction is open, and unless the error is 08007 (outcome
    /// unknown) nothing was committed.
    pub(super) async fn commit<C: Client>(&mut self, client: &mut C) -> Result<()> {
        let answered = match self.answer_deferred().await {
            Ok(()) => self.validate().await,
            Err(error) => Err(error),
        };
        if let Err(error) = answered {
            self.roll_back().await;
            return Err(error);
        }
        // The time limit ends before the commit is appended: a commit that waits for the disk has happened.
        self.stop_clock();
        self.limits.end_transaction();
        let transaction = std::mem::take(&mut self.transaction);
        self.names.portals.clear();
        // Loaded while SET LOCAL still holds: it may choose the level of its own transaction.
        let level = self.settings.effective().synchronous_commit;
        if !self.engine.in_transaction() {
            self.restore_settings(transaction.settings_after_commit);
            return Ok(());
        }
        let begun_ns = self.database.env.clock.now_ns();
        let mut ack = match self.engine.commit_at(level) {
            Ok(ack) => ack,
            Err(error) => {
                self.engine.rollback();
                self.restore_settings(transaction.settings_before);
                self.free(&transaction.made);
                return Err(error.into());
            }
        };
        self.restore_settings(transaction.settings_after_commit);
        // The table locks stay until the changed catalog is published (P1 of `publication.rs`).
        let publication = transaction
            .overlay
            .map(|overlay| Publication::new(&self.database, overlay, transaction.made, ack.take_locks()));
        if level.is_synchronous() && self.database.running.load(std::sync::atomic::Ordering::Relaxed) <= 1 {
            // No other session has work for this core: flushing here saves two thread switches.
            self.database.db.try_lead_flush();
        }
        let writes = ack.csn().is_some();
        let acknowledged = draining(client, self.acknowledged(ack, publication.is_some())).await;
        if let Some(publication) = publication {
            publication.end(acknowledged.as_ref().ok().map(|(receipt, _)| receipt));
        }
        let (receipt, told) = acknowledged.map_err(|error| {
            let ended = matches!(error, EngineError::Closed);
            if writes && !ended { outcome_unknown(&error) } else { error.into() }
        })?;
        if level.is_synchronous() && receipt.csn.is_some() {
            self.database.commit_times.note(begun_ns, self.database.env.clock.now_ns());
        }
        if let Some(end) = receipt.end {
            (self.last_commit, self.is_commit_told) = (Some(end), false);
        }
        self.free(&transaction.replaced);
        // A client that frees memory for its next statement finds it free.
        self.database.db.wait_freed(&transaction.replaced).await;
        if let Some(warning) = told? {
            client.notice(NoticeLevel::Warning, warning.report());
        }
        Ok(())
    }

    /// Validates the reads of a SERIALIZABLE transaction, and lets other sessions run meanwhile if there are many.
    async fn validate(&mut self) -> Result<()> {
        while !self.engine.validate_some()? {
            check_cancel(&self.cancel)?;
            self.database.give_way().await;
        }
        Ok(())
    }

    fn free(&self, families: &[CfId]) {
        for cf in families {
            self.database.db.free_family(*cf);
        }
    }

    /// Undoes the writes since `to`, or those of the whole transaction, except for the last millisecond's work. Other
    /// sessions run meanwhile; nothing ends it.
    async fn undo(&mut self, to: Option<Mark>) {
        while !self.engine.undo_some(to) {
            self.database.give_way().await;
        }
    }

    /// Rolls back the open transaction.
    pub(super) async fn roll_back(&mut self) {
        self.limits.end_transaction(); // before the undo, whose time does not count as the transaction's
        self.undo(None).await;
        self.roll_back_at_once();
    }

    /// Rolls back the open transaction before the session is dropped, while other sessions run. The client may learn of
    /// the session's end afterwards.
    pub async fn end(&mut self) {
        self.roll_back().await;
    }

    /// Does the work of [`Session::roll_back`] in one go.
    pub(super) fn roll_back_at_once(&mut self) {
        self.limits.end_transaction();
        let transaction = std::mem::take(&mut self.transaction);
        self.names.portals.clear();
        if self.engine.in_transaction() {
            self.engine.rollback();
        }
        self.restore_settings(transaction.settings_before);
        self.free(&transaction.made);
    }

    /// Undoes the work that a failed statement leaves: in an implicit block all of it; in an explicit one, everything
    /// since the last savepoint, or all of it if there is none.
    pub(super) async fn fail(&mut self) {
        match self.transaction.block {
            Block::None | Block::Implicit => self.roll_back().await,
            Block::Failed => {}
            Block::Explicit => {
                self.transaction.block = Block::Failed;
                self.names.portals.clear();
                self.engine.end_statement();
                let mark = self.transaction.savepoints.last().map(|savepoint| savepoint.mark);
                self.undo(mark).await;
                match mark {
                    Some(mark) => self.engine.rollback_to(mark),
                    None => {
                        if self.engine.in_transaction() {
                            self.engine.rollback();
                        }
                    }
                }
            }
        }
    }

    fn savepoint(&mut self, name: &str) -> Result<&'static str> {
        self.in_block("SAVEPOINT")?;
        if self.transaction.block == Block::Failed {
            return Err(failed_block());
        }
        self.begin_engine()?;
        self.transaction.savepoints.push(Savepoint {
            name: name.to_owned(),
            mark: self.engine.savepoint(),
            modes: self.transaction.modes,
            overlay: self.transaction.overlay.clone(),
            settings: self.settings.clone(),
            settings_after_commit: self.transaction.settings_after_commit.clone(),
            replaced: self.transaction.replaced.len(),
            made: self.transaction.made.len(),
            timing: self.transaction.timing.clone(),
            deferred: self.transaction.deferred.clone(),
        });
        Ok("SAVEPOINT")
    }

    fn release(&mut self, name: &str) -> Result<&'static str> {
        self.in_block("RELEASE SAVEPOINT")?;
        if self.transaction.block == Block::Failed {
            return Err(failed_block());
        }
        let at = self.find_savepoint(name)?;
        self.transaction.modes = self.transaction.savepoints[at].modes;
        self.transaction.savepoints.truncate(at);
        Ok("RELEASE")
    }

    async fn roll_back_to(&mut self, name: &str) -> Result<&'static str> {
        self.in_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.transaction.savepoints.truncate(at + 1);
        self.undo(Some(self.transaction.savepoints[at].mark)).await;
        // B4, B5: everything that the savepoint remembers.
        let savepoint = &self.transaction.savepoints[at];
        self.engine.rollback_to(savepoint.mark);
        self.transaction.modes = savepoint.modes;
        self.transaction.overlay = savepoint.overlay.clone();
        self.transaction.timing = savepoint.timing.clone();
        self.transaction.deferred = savepoint.deferred.clone();
        self.transaction.replaced.truncate(savepoint.replaced);
        let unmade = self.transaction.made.split_off(savepoint.made);
        self.transaction.settings_after_commit = savepoint.settings_after_commit.clone();
        let settings = savepoint.settings.clone();
        self.restore_settings(Some(settings));
        self.transaction.block = Block::Explicit;
        self.names.portals.clear();
        self.free(&unmade);
        Ok("ROLLBACK")
    }

    fn in_block(&self, what: &str) -> Result<()> {
        match self.transaction.block {
            Block::Explicit | Block::Failed => Ok(()),
            Block::None | Block::Implicit => Err(SqlError::new(
                SqlState::NO_ACTIVE_SQL_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )),
        }
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.transaction.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SAVEPOINT_SPECIFICATION, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// Sets a setting for the time that SET or SET LOCAL gives it.
    pub(super) fn set_in_transaction<C: Client>(
        &mut self,
        name: &str,
        value: Option<&str>,
        local: bool,
        client: &mut C,
    ) -> Result<()> {
        if local && self.transaction.block != Block::Explicit {
            let text = "SET LOCAL can only be used in transaction blocks";
            client.notice(NoticeLevel::Warning, warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, text).report());
            return Ok(());
        }
        self.change_setting(name, value, local)
    }

    /// Sets a setting for the session or, if `local`, until the transaction ends; outside a block the transaction is
    /// that of the statement's query string or pipeline. A rollback restores the former value.
    pub(super) fn change_setting(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<()> {
        self.change_settings(local, |settings| settings.set(name, value))
    }

    /// Changes settings as [`Self::change_setting`] does. `change` is applied again to the settings after a commit if
    /// the transaction has local ones.
    pub(super) fn change_settings(&mut self, local: bool, change: impl Fn(&mut Settings) -> Result<()>) -> Result<()> {
        let kept = &self.transaction;
        let is_first = kept.settings_before.is_none() || local && kept.settings_after_commit.is_none();
        let before = is_first.then(|| self.settings.clone());
        change(&mut self.settings)?;
        self.reported.note_change();
        self.ensure_block();
        let kept = &mut self.transaction;
        if let Some(before) = before {
            if local {
                kept.settings_after_commit.get_or_insert_with(|| before.clone());
            }
            kept.settings_before.get_or_insert(before);
        }
        match &mut kept.settings_after_commit {
            Some(after) if !local => change(after),
            _ => Ok(()),
        }
    }

    /// Replaces the settings by those that the end of a transaction or of a part of it restores, if it changed any.
    fn restore_settings(&mut self, settings: Option<Settings>) {
        if let Some(settings) = settings {
            self.settings = settings;
            self.reported.note_change();
        }
    }
}

const fn isolation_of(level: ast::IsolationLevel) -> Isolation {
    match level {
        ast::IsolationLevel::ReadUncommitted | ast::IsolationLevel::ReadCommitted => Isolation::ReadCommitted,
        ast::IsolationLevel::RepeatableRead => Isolation::RepeatableRead,
        ast::IsolationLevel::Serializable => Isolation::Serializable,
    }
}

/// Returns an isolation level as SHOW prints it.
pub(super) const fn isolation_text(level: ast::IsolationLevel) -> &'static str {
    match level {
        ast::IsolationLevel::ReadUncommitted => "read uncommitted",
        ast::IsolationLevel::ReadCommitted => "read committed",
        ast::IsolationLevel::RepeatableRead => "repeatable read",
        ast::IsolationLevel::Serializable => "serializable",
    }
}

/// Reads an isolation level from its words.
pub(super) fn isolation_level(text: &str) -> Option<ast::IsolationLevel> {
    use ast::IsolationLevel as L;
    let levels = [L::ReadUncommitted, L::ReadCommitted, L::RepeatableRead, L::Serializable];
    levels.into_iter().find(|level| isolation_text(*level).eq_ignore_ascii_case(text))
}

/// Returns a Boolean value as SHOW prints it.
pub(super) const fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

fn refuse_chain(chain: bool) -> Result<()> {
    if chain { Err(SqlError::unsupported("AND CHAIN").hint("Send BEGIN after it.")) } else { Ok(()) }
}

/// Returns the error for a commit whose record is in the log, and whose flush failed before the record was known to be
/// on disk.
fn outcome_unknown(why: &EngineError) -> SqlError {
    SqlError::new(
        SqlState::TRANSACTION_RESOLUTION_UNKNOWN,
        "the log has failed: it is not known whether the transaction is committed",
    )
    .detail(why.to_string())
    .hint("Mend the disk, start the server again, and look whether the transaction is there.")
}

#[cfg(test)]
mod tests;
