//! Statements about transactions, settings, prepared statements, cursors, COPY and upkeep.
//!
//! Nothing is checked against what exists: a setting's name and value, an option of COPY or EXPLAIN are as written.

use super::{Expr, NamedOption, RelationName, Select, Stmt, TableName, TypeName};

/// A transaction command.
#[derive(Clone, Debug, PartialEq)]
pub enum Transaction {
    /// BEGIN or START TRANSACTION.
    Begin {
        /// Its modes, in the order written.
        modes: Vec<TransactionMode>,
        /// START TRANSACTION, which answers with another command tag.
        start: bool,
    },
    /// COMMIT or END.
    Commit {
        /// AND CHAIN.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN.
        chain: bool,
    },
    /// SAVEPOINT.
    Savepoint(String),
    /// RELEASE.
    Release(String),
    /// ROLLBACK TO.
    RollbackTo(String),
    /// PREPARE TRANSACTION.
    Prepare(String),
    /// COMMIT PREPARED.
    CommitPrepared(String),
    /// ROLLBACK PREPARED.
    RollbackPrepared(String),
}

/// A mode of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionMode {
    /// ISOLATION LEVEL.
    Isolation(IsolationLevel),
    /// READ ONLY (`true`) or READ WRITE.
    ReadOnly(bool),
    /// DEFERRABLE (`true`) or NOT DEFERRABLE.
    Deferrable(bool),
}

/// An isolation level as written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IsolationLevel {
    /// READ UNCOMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

/// SET name TO value.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// The setting, with its dots.
    pub name: String,
    /// Its values; empty is DEFAULT. Several are a list, such as of schemas.
    pub values: Vec<SetValue>,
    /// LOCAL.
    pub local: bool,
}

/// One value given to a setting.
#[derive(Clone, Debug, PartialEq)]
pub enum SetValue {
    /// A word or string.
    Text(String),
    /// An integer that fits 32 bits.
    Integer(i32),
    /// Any other number, as written.
    Number(String),
}

/// SET TRANSACTION or SET SESSION CHARACTERISTICS AS TRANSACTION.
#[derive(Clone, Debug, PartialEq)]
pub struct SetTransaction {
    /// The modes.
    pub modes: Vec<TransactionMode>,
    /// SESSION CHARACTERISTICS: for later transactions; else for the running one.
    pub session: bool,
}

/// SET CONSTRAINTS.
#[derive(Clone, Debug, PartialEq)]
pub struct SetConstraints {
    /// Their names; empty means all.
    pub names: Vec<RelationName>,
    /// DEFERRED; else IMMEDIATE.
    pub deferred: bool,
}

/// VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub struct Vacuum {
    /// VACUUM; else ANALYZE. Its options may name `analyze` too.
    pub vacuum: bool,
    /// Options.
    pub options: Vec<NamedOption>,
    /// Tables with their columns; empty means all tables.
    pub targets: Vec<(TableName, Vec<String>)>,
}

/// EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// Options, `analyze` and `verbose` among them.
    pub options: Vec<NamedOption>,
    /// What is explained.
    pub stmt: Box<Stmt>,
}

/// PREPARE.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    /// Its name.
    pub name: String,
    /// Types of the first parameters.
    pub types: Vec<TypeName>,
    /// What is prepared: SELECT, INSERT, UPDATE or DELETE.
    pub stmt: Box<Stmt>,
    /// The query string it came in, for `pg_prepared_statements`.
    pub text: String,
}

/// EXECUTE.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// Which prepared statement.
    pub name: String,
    /// Its parameters.
    pub args: Vec<Expr>,
}

/// DECLARE CURSOR.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclareCursor {
    /// Its name.
    pub name: String,
    /// The query.
    pub query: Select,
    /// BINARY.
    pub binary: bool,
    /// SCROLL (`true`), NO SCROLL (`false`) or neither.
    pub scroll: Option<bool>,
    /// INSENSITIVE (`true`), ASENSITIVE (`false`) or neither.
    pub insensitive: Option<bool>,
    /// WITH HOLD.
    pub hold: bool,
}

/// FETCH or MOVE.
#[derive(Clone, Debug, PartialEq)]
pub struct Fetch {
    /// Which cursor.
    pub cursor: String,
    /// Which way.
    pub direction: FetchDirection,
    /// How many rows, or which row; `i64::MAX` is ALL.
    pub count: i64,
    /// MOVE: rows are passed over and not returned.
    pub is_move: bool,
}

/// Which way a cursor moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchDirection {
    /// Forward by a count.
    Forward,
    /// Backward by a count.
    Backward,
    /// To a row's number.
    Absolute,
    /// By a distance.
    Relative,
}

/// DISCARD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discard {
    /// ALL.
    All,
    /// PLANS.
    Plans,
    /// SEQUENCES.
    Sequences,
    /// TEMP.
    Temp,
}

/// CALL collie_checkpoint(directory, copy): copies the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyDatabase {
    /// The directory to make, on the server.
    pub dir: String,
    /// Whether the copy is to share no file with the database.
    pub copy: bool,
}

/// CALL collie_set_option(name, value): changes an option of the running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOption {
    /// As `collie config` names it.
    pub name: String,
    /// As it is written there.
    pub value: String,
}

/// LOCK TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// Which tables.
    pub tables: Vec<TableName>,
    /// In which mode.
    pub mode: LockMode,
    /// NOWAIT.
    pub nowait: bool,
}

/// A table lock's mode, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// ACCESS SHARE.
    AccessShare,
    /// ROW SHARE.
    RowShare,
    /// ROW EXCLUSIVE.
    RowExclusive,
    /// SHARE UPDATE EXCLUSIVE.
    ShareUpdateExclusive,
    /// SHARE.
    Share,
    /// SHARE ROW EXCLUSIVE.
    ShareRowExclusive,
    /// EXCLUSIVE.
    Exclusive,
    /// ACCESS EXCLUSIVE; the default.
    AccessExclusive,
}

/// COPY.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    /// What is copied.
    pub source: CopySource,
    /// FROM: rows come in; else TO.
    pub from: bool,
    /// Where the other end is.
    pub target: CopyTarget,
    /// Options; older forms of the statement arrive as the same options.
    pub options: Vec<NamedOption>,
    /// WHERE, of COPY FROM.
    pub filter: Option<Expr>,
}

/// What is copied.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// A table.
    Table {
        /// Which.
        table: RelationName,
        /// Its columns; empty means all.
        columns: Vec<String>,
    },
    /// The rows of a query, or of a statement with RETURNING.
    Query(Box<Stmt>),
}

/// The other end of a COPY.
#[derive(Clone, Debug, PartialEq)]
pub enum CopyTarget {
    /// STDIN or STDOUT: the connection.
    Client,
    /// A file of the server.
    File(String),
    /// A program of the server.
    Program(String),
}
