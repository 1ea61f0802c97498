//! `Prepared` and `Portal`: a parsed statement with its plan, and one run of it.

use std::sync::{Arc, OnceLock};

use collie_base::Map;
use parking_lot::Mutex;

use crate::{
    analyze::bound::Analyzed,
    parse::{Stmt, ast},
    plan::Plan,
    session::resource_limits::RestRows,
    types::Value,
};

/// A parsed statement, which sessions share. If the catalog has changed, its plan is replaced by one with the same
/// parameter types and result columns.
pub struct Prepared {
    /// Text of the statement, for error positions and views.
    pub(super) text: Arc<str>,
    /// The tree; `None` for an empty statement.
    pub(super) stmt: Option<Arc<Stmt>>,
    /// Parameter types as declared; 0 lets the analyzer decide.
    pub(super) declared: Vec<u32>,
    /// The newest plan; `None` for statements that are not planned (utility).
    pub(super) planned: Mutex<Option<Arc<Planned>>>,
}

/// A statement that was analyzed and planned under one epoch.
pub struct Planned {
    /// The epoch of the catalog that it was planned for.
    pub(super) epoch: u64,
    /// The result of the analysis.
    pub(super) analyzed: Analyzed,
    /// The plan that runs.
    pub(super) plan: Arc<Plan>,
    /// The first words of the command tag.
    pub(super) verb: Verb,
    /// Whether the statement may be run again on another node; computed at first use.
    pub(super) fit: OnceLock<bool>,
}

/// The name of a planned statement in its command tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Select,
    Insert,
    Update,
    Delete,
}

impl Verb {
    pub(super) fn of(stmt: &Stmt) -> Option<Self> {
        match stmt {
            Stmt::Select(_) => Some(Self::Select),
            Stmt::Insert(_) => Some(Self::Insert),
            Stmt::Update(_) => Some(Self::Update),
            Stmt::Delete(_) => Some(Self::Delete),
            _ => None,
        }
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the command tag for this number of rows.
    pub(super) fn tag(self, rows: u64) -> String {
        match self {
            Self::Insert => format!("INSERT 0 {rows}"),
            other => format!("{} {rows}", other.word()),
        }
    }
}

/// One run of a prepared statement.
pub(super) struct Portal {
    pub(super) prepared: Arc<Prepared>,
    /// The plan to which it was bound, for planned statements.
    pub(super) planned: Option<Arc<Planned>>,
    pub(super) params: Vec<Value>,
    pub(super) formats: Vec<u16>,
    /// Rows beyond the limit of the last Execute. The statement itself has run to its end: no snapshot is held between
    /// messages.
    pub(super) rest: Option<RestRows>,
    /// Whether the statement was started.
    pub(super) started: bool,
}

/// A statement under the name that a session gave to it.
pub(super) struct NamedStatement {
    pub(super) prepared: Arc<Prepared>,
    /// The text as it was sent; for PREPARE the whole query string.
    pub(super) text: Arc<str>,
    /// The time when it was prepared.
    pub(super) since: i64,
    /// Whether the statement PREPARE made it, and not a Parse message.
    pub(super) from_sql: bool,
    /// The number of Bind messages and EXECUTE statements that used it. Plans are generic: none is made for the values
    /// of one run.
    pub(super) runs: u64,
}

/// Statements and portals of one session, by name.
#[derive(Default)]
pub(super) struct Names {
    pub(super) statements: Map<String, NamedStatement>,
    pub(super) portals: Map<String, Portal>,
}

/// Returns the command tag of a statement that is not planned and has no rows to count.
pub(super) fn utility_tag(stmt: &Stmt) -> &'static str {
    use ast::{Discard, ObjectKind, Transaction};
    match stmt {
        Stmt::CreateTable(_) => "CREATE TABLE",
        Stmt::CreateIndex(_) => "CREATE INDEX",
        Stmt::CreateSchema(_) => "CREATE SCHEMA",
        Stmt::Drop(drop) => match drop.kind {
            ObjectKind::Table => "DROP TABLE",
            ObjectKind::Index => "DROP INDEX",
            ObjectKind::Schema => "DROP SCHEMA",
            ObjectKind::View => "DROP VIEW",
            ObjectKind::Sequence => "DROP SEQUENCE",
        },
        Stmt::AlterTable(_) | Stmt::Rename(_) | Stmt::SetSchema(_) => "ALTER TABLE",
        Stmt::Truncate(_) => "TRUNCATE TABLE",
        Stmt::Copy(_) => "COPY",
        Stmt::Transaction(transaction) => match transaction {
            Transaction::Begin { start: false, .. } => "BEGIN",
            Transaction::Begin { start: true, .. } => "START TRANSACTION",
            Transaction::Commit { .. } => "COMMIT",
            Transaction::Rollback { .. } | Transaction::RollbackTo(_) => "ROLLBACK",
            Transaction::Savepoint(_) => "SAVEPOINT",
            Transaction::Release(_) => "RELEASE",
            Transaction::Prepare(_) => "PREPARE TRANSACTION",
            Transaction::CommitPrepared(_) => "COMMIT PREPARED",
            Transaction::RollbackPrepared(_) => "ROLLBACK PREPARED",
        },
        Stmt::Set(_) | Stmt::SetTransaction(_) => "SET",
        Stmt::SetConstraints(_) => "SET CONSTRAINTS",
        Stmt::Reset(_) => "RESET",
        Stmt::Show(_) => "SHOW",
        Stmt::Vacuum(vacuum) => {
            if vacuum.vacuum {
                "VACUUM"
            } else {
                "ANALYZE"
            }
        }
        Stmt::Explain(_) => "EXPLAIN",
        Stmt::Prepare(_) => "PREPARE",
        Stmt::Execute(_) => "EXECUTE",
        Stmt::Deallocate(Some(_)) => "DEALLOCATE",
        Stmt::Deallocate(None) => "DEALLOCATE ALL",
        Stmt::DeclareCursor(_) => "DECLARE CURSOR",
        Stmt::Fetch(_) => "FETCH",
        Stmt::Close(_) => "CLOSE CURSOR",
        Stmt::Discard(Discard::All) => "DISCARD ALL",
        Stmt::Discard(Discard::Plans) => "DISCARD PLANS",
        Stmt::Discard(Discard::Sequences) => "DISCARD SEQUENCES",
        Stmt::Discard(Discard::Temp) => "DISCARD TEMP",
        Stmt::Checkpoint => "CHECKPOINT",
        Stmt::CopyDatabase(_) | Stmt::SetOption(_) => "CALL",
        Stmt::Lock(_) => "LOCK TABLE",
        Stmt::Select(_) | Stmt::Insert(_) | Stmt::Update(_) | Stmt::Delete(_) => "",
    }
}
