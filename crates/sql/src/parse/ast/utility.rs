//! Statements about transactions, settings, prepared statements, cursors, COPY and maintenance.
//!
//! Nothing is checked against existing objects: the name and value of a setting or an option of COPY or EXPLAIN are as
//! written.

use super::{Expr, NamedOption, RelationName, Select, Stmt, TableName, TypeName};

/// A transaction command.
#[derive(Clone, Debug, PartialEq)]
pub enum Transaction {
    /// BEGIN or START TRANSACTION.
    Begin {
        /// Its modes, in the order written.
        modes: Vec<TransactionMode>,
        /// START TRANSACTION, which returns another command tag.
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
    /// Its values; empty means DEFAULT. Several values form a list, such as one of schemas.
    pub values: Vec<SetValue>,
    /// LOCAL.
    pub local: bool,
}

/// A value of a setting.
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
    /// SESSION CHARACTERISTICS: for later transactions; otherwise for the running one.
    pub session: bool,
}

/// SET CONSTRAINTS.
#[derive(Clone, Debug, PartialEq)]
pub struct SetConstraints {
    /// Their names; empty means all.
    pub names: Vec<RelationName>,
    /// DEFERRED; otherwise IMMEDIATE.
    pub deferred: bool,
}

/// VACUUM or ANALYZE.
#[derive(Clone, Debug, PartialEq)]
pub struct Vacuum {
    /// VACUUM; otherwise ANALYZE. Its options can contain `analyze` too.
    pub vacuum: bool,
    /// Options.
    pub options: Vec<NamedOption>,
    /// Tables with their columns; empty means all tables.
    pub targets: Vec<(TableName, Vec<String>)>,
}

/// EXPLAIN.
#[derive(Clone, Debug, PartialEq)]
pub struct Explain {
    /// Options, including `analyze` and `verbose`.
    pub options: Vec<NamedOption>,
    /// The explained statement.
    pub stmt: Box<Stmt>,
}

/// PREPARE.
#[derive(Clone, Debug, PartialEq)]
pub struct Prepare {
    /// Its name.
    pub name: String,
    /// Types of the first parameters.
    pub types: Vec<TypeName>,
    /// The statement: SELECT, INSERT, UPDATE or DELETE.
    pub stmt: Box<Stmt>,
    /// The query string that contained it, for `pg_prepared_statements`.
    pub text: String,
}

/// EXECUTE.
#[derive(Clone, Debug, PartialEq)]
pub struct Execute {
    /// The name of the prepared statement.
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
    /// The name of the cursor.
    pub cursor: String,
    /// The direction.
    pub direction: FetchDirection,
    /// The number of rows, or the number of a row; `i64::MAX` is ALL.
    pub count: i64,
    /// MOVE: rows are skipped and not returned.
    pub is_move: bool,
}

/// The direction in which a cursor moves.
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
    /// The directory to be created, on the server.
    pub dir: String,
    /// Whether the copy shares no file with the database.
    pub copy: bool,
}

/// CALL collie_set_option(name, value): changes an option of the running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetOption {
    /// The option, as `collie config` names it.
    pub name: String,
    /// The value, in the syntax of the configuration.
    pub value: String,
}

/// LOCK TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct Lock {
    /// The tables.
    pub tables: Vec<TableName>,
    /// The mode.
    pub mode: LockMode,
    /// NOWAIT.
    pub nowait: bool,
}

/// The mode of a table lock, weakest first.
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
    /// The source or target of the rows in the database.
    pub source: CopySource,
    /// FROM: rows are read from the other end; otherwise TO.
    pub from: bool,
    /// The other end.
    pub target: CopyTarget,
    /// Options; older forms of the statement give the same options.
    pub options: Vec<NamedOption>,
    /// WHERE, of COPY FROM.
    pub filter: Option<Expr>,
}

/// The source or target in the database.
#[derive(Clone, Debug, PartialEq)]
pub enum CopySource {
    /// A table.
    Table {
        /// The table.
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
