//! `Facts`: the view of a session that built-in functions and system tables use while one of its statements runs.
//!
//! It is borrowed for one step of an execution, and changes no setting itself. A change that `set_config` asks for is
//! noted, and the session makes it after the step.

use std::{
    borrow::Cow,
    cell::{OnceCell, RefCell},
    sync::Arc,
    time::Duration,
};

use collie_base::{CfId, Lsn, Xid};
use collie_engine::{
    Advisory, AdvisoryScope, CancelHandle, HeldSnapshot, LockPicture, LockTarget, TableLockMode, Token, XidFate,
};

use crate::{
    builtin::{Rows, SystemFunctions},
    catalog::{
        relation::{Oid, Relation},
        snapshot::Catalog,
        system::{
            self, ActivityRow, CommitsRow, DelayRow, FollowingRow, NodeRow, PreparedRow, Promotion, QuorumRow,
            ReadsRow, ReplayRow, SessionFacts, SettingRow, SlotRow, SnapshotRow, Standby, StoreFigures, Training,
            Trouble,
        },
    },
    error::{Result, SqlError, SqlState},
    exec::VirtualTables,
    session::{
        Connected, DATABASE, Database, limits, position,
        prepared::Names,
        search_path,
        settings::{Kind, SETTINGS, Settings},
        transaction::Transaction,
    },
    types::{Value, XidSnapshot},
};

/// A change of a setting by `set_config`.
pub(super) struct Change {
    pub(super) name: String,
    pub(super) value: String,
    /// Whether it ends with the transaction.
    pub(super) local: bool,
}

/// The view of the session during one step.
pub(super) struct Facts<'a> {
    pub(super) database: &'a Arc<Database>,
    pub(super) catalog: &'a Catalog,
    /// Resolved at its first use: few statements need it.
    pub(super) search_path: OnceCell<Vec<Oid>>,
    pub(super) settings: &'a Settings,
    pub(super) transaction: &'a Transaction,
    pub(super) identity: &'a Connected,
    pub(super) pid: u32,
    pub(super) xid: Option<Xid>,
    /// The statement's snapshot.
    pub(super) snapshot: Option<Lsn>,
    /// The end of the record of the session's last commit.
    pub(super) last_commit: Option<Lsn>,
    pub(super) names: &'a Names,
    pub(super) cancel: &'a CancelHandle,
    pub(super) advisory: &'a Advisory,
    /// Settings to change after the step.
    pub(super) changes: RefCell<Vec<Change>>,
    /// Warnings for the client after the step.
    pub(super) warnings: RefCell<Vec<SqlError>>,
}

impl Facts<'_> {
    /// Returns the settings including the changes that the running statement asked for: later calls of the same step
    /// see them.
    fn current_settings(&self) -> Cow<'_, Settings> {
        let changes = self.changes.borrow();
        if changes.is_empty() {
            return Cow::Borrowed(self.settings);
        }
        let mut settings = self.settings.clone();
        for change in changes.iter() {
            // Each change was tried when it was noted, so none fails here.
            let _ = settings.set(&change.name, Some(&change.value));
        }
        Cow::Owned(settings)
    }
}

impl SessionFacts for Facts<'_> {
    fn catalog(&self) -> &Catalog {
        self.catalog
    }

    fn search_path(&self) -> &[Oid] {
        self.search_path.get_or_init(|| search_path(self.settings, &self.identity.user, self.catalog))
    }

    fn user(&self) -> &str {
        &self.identity.user
    }

    fn database(&self) -> &str {
        DATABASE
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn setting(&self, name: &str) -> Result<String> {
        let lower = name.to_ascii_lowercase();
        if let Some(shown) = self.transaction.shown(&lower, self.settings, self.database.db.is_replica()) {
            return Ok(shown.to_owned());
        }
        match lower.as_str() {
            "synchronous_standby_names" => Ok(self.database.quorum_list()),
            _ => self.current_settings().show(name),
        }
    }

    fn settings(&self) -> Vec<SettingRow> {
        let row = |setting: &'static super::settings::Setting| SettingRow {
            name: setting.display(),
            value: self.setting(setting.name).unwrap_or_default(),
            kind: match setting.kind {
                Kind::Bool | Kind::AtConnect => "bool",
                Kind::Integer(..) | Kind::Time => "integer",
                Kind::Word(_) => "enum",
                Kind::Text | Kind::Fixed | Kind::Accepted => "string",
            },
            default: setting.default,
            description: setting.description,
            context: match setting.kind {
                Kind::Fixed => "internal",
                Kind::AtConnect => "backend",
                _ => "user",
            },
        };
        SETTINGS.iter().map(row).collect()
    }

    fn set_config(&self, name: &str, value: &str, local: bool) -> Result<String> {
        let mut settings = self.current_settings().into_owned();
        settings.set(name, Some(value))?;
        let shown = settings.show(name)?;
        self.changes.borrow_mut().push(Change { name: name.to_owned(), value: value.to_owned(), local });
        Ok(shown)
    }

    fn xid(&self) -> Option<Xid> {
        self.xid
    }

    fn xid_snapshot(&self) -> Result<XidSnapshot> {
        let db = &self.database.db;
        let told = db.xid_snapshot(self.snapshot.unwrap_or_else(|| db.boundary())).ok_or_else(|| {
            let text = "the transaction's snapshot is too old to be expressed in transaction ids";
            SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text).hint("Ask for it early in the transaction.")
        })?;
        let number = |xid: Xid| xid.get().cast_signed();
        let open = told.open.into_iter().map(number).collect();
        Ok(XidSnapshot { xmin: number(told.xmin), xmax: number(told.xmax), open })
    }

    fn xid_fate(&self, xid: Xid) -> XidFate {
        self.database.db.xid_fate(xid)
    }

    fn positions(&self) -> (Lsn, Lsn) {
        (self.database.db.boundary(), self.database.db.durable())
    }

    fn state_hash(&self) -> Result<(Lsn, u64)> {
        let mut hashed = None;
        self.database.block(&mut || hashed = Some(self.database.db.state_hash(&[])));
        Ok(hashed.expect("what is to block has run")?)
    }

    fn is_replica(&self) -> bool {
        self.database.db.is_replica()
    }

    fn promote(&self, how: Promotion) -> Result<String> {
        self.database.promote(how)
    }

    fn last_commit(&self) -> Option<Token> {
        position::token(self.database, self.last_commit)
    }

    fn replay(&self) -> Option<ReplayRow> {
        let db = &self.database.db;
        let received = db.received()?;
        Some(ReplayRow { received, shown: db.shown(), time_us: db.replay_time_us() })
    }

    fn standbys(&self) -> Vec<Standby> {
        self.database.standbys()
    }

    fn slots(&self) -> Vec<SlotRow> {
        self.database.slots()
    }

    fn delays(&self) -> Vec<DelayRow> {
        self.database.delays()
    }

    fn node(&self) -> NodeRow {
        self.database.node()
    }

    fn quorum(&self) -> Option<QuorumRow> {
        self.database.quorum()
    }

    fn following(&self) -> Option<FollowingRow> {
        self.database.following()
    }

    fn commit_times(&self) -> CommitsRow {
        self.database.commit_times()
    }

    fn replayed_reads(&self) -> Vec<ReadsRow> {
        self.database.replayed_reads()
    }

    fn health(&self) -> Vec<Trouble> {
        self.database.health()
    }

    fn training(&self) -> Option<&dyn Training> {
        self.database.training()
    }

    fn drop_slot(&self, name: &str) -> Result<()> {
        self.database.drop_slot(name)
    }

    fn row_estimate(&self, cf: CfId) -> u64 {
        self.database.db.rows_in(cf)
    }

    fn activity(&self) -> Vec<ActivityRow> {
        let row = |(pid, session): (u32, Connected)| ActivityRow {
            pid,
            user: session.user,
            address: session.address,
            since: session.since,
            slot: session.cancel.slot(),
            doing: session.activity.doing(),
        };
        self.database.connected().into_iter().map(row).collect()
    }

    fn locks(&self) -> LockPicture {
        self.database.db.lock_picture()
    }

    fn blocking_pids(&self, pid: u32) -> Vec<u32> {
        self.database.blocking_pids(pid)
    }

    fn stop_backend(&self, pid: u32, end: bool) -> bool {
        if end { self.database.terminate_backend(pid) } else { self.database.cancel_backend(pid) }
    }

    fn snapshots(&self) -> Vec<SnapshotRow> {
        let connected = self.database.connected();
        let db = &self.database.db;
        let held = db.snapshots();
        let lowest = held.first().map(|held| held.snapshot);
        let row = |held: HeldSnapshot| {
            let HeldSnapshot { slot, snapshot, age, .. } = held;
            let (pid, session) = connected.iter().find(|(_, session)| session.cancel.slot() == slot)?;
            let since = session.activity.doing().transaction_start;
            let rows_kept = db.rows_kept_for(snapshot);
            let bytes_kept = (Some(snapshot) == lowest).then(|| db.old_version_bytes());
            Some(SnapshotRow { pid: *pid, snapshot, since, age, rows_kept, bytes_kept })
        };
        held.into_iter().filter_map(row).collect()
    }

    fn store_figures(&self) -> Option<StoreFigures> {
        Some(self.database.store_figures())
    }

    fn lock_advisory(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Result<()> {
        self.database.resources().check_advisory(self.advisory.count())?;
        while let Some(wait) = self.advisory.ask(target, mode, scope) {
            let limit_ms = self.settings.effective().limits.lock_ms;
            let limit = (limit_ms > 0).then(|| Duration::from_millis(limit_ms));
            let (mut wait, mut outcome) = (Some(wait), Ok(()));
            self.database.block(&mut || outcome = wait.take().map_or(Ok(()), |wait| wait.block(limit)));
            outcome.map_err(|error| limits::wait_failed(error, self.cancel))?;
        }
        Ok(())
    }

    fn try_advisory(&self, target: LockTarget, mode: TableLockMode, scope: AdvisoryScope) -> Result<bool> {
        self.database.resources().check_advisory(self.advisory.count())?;
        Ok(self.advisory.try_lock(target, mode, scope))
    }

    fn give_advisory_back(&self, target: LockTarget, mode: TableLockMode) -> bool {
        self.advisory.give_back(target, mode)
    }

    fn give_all_advisory_back(&self) {
        self.advisory.give_all_back();
    }

    fn warn(&self, warning: SqlError) {
        self.warnings.borrow_mut().push(warning);
    }

    fn sleep(&self, time: Duration) -> Result<()> {
        let mut outcome = Ok(());
        self.database.block(&mut || outcome = limits::sleep(self.database, self.cancel, time));
        outcome
    }

    fn prepared_statements(&self) -> Vec<PreparedRow> {
        let named = self.names.statements.iter().filter(|(name, _)| !name.is_empty());
        let mut all: Vec<_> = named
            .map(|(name, named)| PreparedRow {
                name: name.clone(),
                text: named.text.clone(),
                since: named.since,
                parameters: match &*named.prepared.planned.lock() {
                    Some(planned) => planned.analyzed.parameters.clone(),
                    None => named.prepared.declared.clone(),
                },
                from_sql: named.from_sql,
                runs: named.runs,
            })
            .collect();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }
}

impl SystemFunctions for Facts<'_> {
    fn call(&self, source: &str, args: &[Value]) -> Result<Value> {
        system::call(self, source, args)
    }

    fn call_set(&self, source: &str, args: &[Value]) -> Result<Rows> {
        system::call_set(self, source, args)
    }
}

impl VirtualTables for Facts<'_> {
    fn rows(&self, relation: &Relation, lookup: Option<(usize, &Value)>) -> Result<Vec<Vec<Value>>> {
        system::rows(self, relation, lookup)
    }
}
