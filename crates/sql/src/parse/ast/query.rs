//! SELECT, INSERT, UPDATE, DELETE and what they are made of.
//!
//! Window clauses, grouping sets, SELECT INTO, TABLESAMPLE and MERGE have no place here: they are refused with 0A000.

use super::{Expr, ObjectName, Pos, RelationName, Step, Stmt, TableName};

/// A query expression: WITH, a body, and what applies to the body's whole result.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// WITH.
    pub with: Option<With>,
    /// What yields the rows.
    pub body: SelectBody,
    /// ORDER BY.
    pub order_by: Vec<SortItem>,
    /// LIMIT or FETCH; LIMIT ALL is the literal NULL.
    pub limit: Option<Expr>,
    /// FETCH ... WITH TIES.
    pub with_ties: bool,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// FOR UPDATE and kin, in the order written.
    pub locking: Vec<Locking>,
}

/// What yields the rows of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectBody {
    /// SELECT ... FROM ...
    Core(Box<SelectCore>),
    /// VALUES; at least one row, all of one length is not checked here.
    Values(Vec<Vec<Expr>>),
    /// UNION, INTERSECT, EXCEPT.
    SetOperation {
        /// Which.
        op: SetOperator,
        /// ALL.
        all: bool,
        /// Left side.
        left: Box<Select>,
        /// Right side.
        right: Box<Select>,
    },
}

/// A set operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    /// UNION.
    Union,
    /// INTERSECT.
    Intersect,
    /// EXCEPT.
    Except,
}

/// SELECT with its FROM, WHERE, GROUP BY and HAVING.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCore {
    /// DISTINCT.
    pub distinct: Option<Distinct>,
    /// The output list; it may be empty.
    pub targets: Vec<Target>,
    /// FROM.
    pub from: Vec<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY.
    pub group_by: Vec<Expr>,
    /// HAVING.
    pub having: Option<Expr>,
}

/// The kinds of DISTINCT.
#[derive(Clone, Debug, PartialEq)]
pub enum Distinct {
    /// DISTINCT: whole rows.
    Rows,
    /// DISTINCT ON (...); at least one expression.
    On(Vec<Expr>),
}

/// One entry of an output list.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The value; `*` and `t.*` are columns with `star` set.
    pub expr: Expr,
    /// AS.
    pub alias: Option<String>,
    /// Where it starts.
    pub pos: Pos,
}

/// One entry of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub struct SortItem {
    /// What to sort by; an integer literal is an output column's number.
    pub expr: Expr,
    /// Which way.
    pub direction: SortDirection,
    /// Where NULLs go; `None` is the direction's default.
    pub nulls_first: Option<bool>,
    /// Where the entry's operator stands, for USING only.
    pub pos: Pos,
}

/// Which way to sort.
#[derive(Clone, Debug, PartialEq)]
pub enum SortDirection {
    /// ASC, written or by default.
    Asc,
    /// DESC.
    Desc,
    /// USING operator.
    Using(ObjectName),
}

/// FOR UPDATE and kin.
#[derive(Clone, Debug, PartialEq)]
pub struct Locking {
    /// How strong.
    pub strength: LockStrength,
    /// OF tables, by alias; empty means all.
    pub of: Vec<RelationName>,
    /// What to do about a row that another transaction holds.
    pub wait: LockWait,
}

/// Strength of a row lock, weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockStrength {
    /// FOR KEY SHARE.
    KeyShare,
    /// FOR SHARE.
    Share,
    /// FOR NO KEY UPDATE.
    NoKeyUpdate,
    /// FOR UPDATE.
    Update,
}

/// What to do about a lock that is not free. Of two clauses for one table the later of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockWait {
    /// Wait.
    Block,
    /// SKIP LOCKED.
    Skip,
    /// NOWAIT.
    Error,
}

/// WITH.
#[derive(Clone, Debug, PartialEq)]
pub struct With {
    /// RECURSIVE.
    pub recursive: bool,
    /// The queries, in the order written.
    pub ctes: Vec<Cte>,
    /// Where WITH stands.
    pub pos: Pos,
}

/// One query of a WITH.
#[derive(Clone, Debug, PartialEq)]
pub struct Cte {
    /// Its name.
    pub name: String,
    /// Column names given to it.
    pub columns: Vec<String>,
    /// MATERIALIZED (`true`), NOT MATERIALIZED (`false`) or neither.
    pub materialized: Option<bool>,
    /// SELECT, INSERT, UPDATE or DELETE.
    pub stmt: Box<Stmt>,
    /// Where it starts.
    pub pos: Pos,
}

/// An alias with optional column names.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    /// The alias.
    pub name: String,
    /// Column names; fewer than the columns is allowed.
    pub columns: Vec<String>,
}

/// One entry of FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum FromItem {
    /// A table, view or WITH query by name.
    Table {
        /// Which.
        table: TableName,
        /// Alias.
        alias: Option<Alias>,
    },
    /// A subquery.
    Subquery {
        /// The query.
        query: Box<Select>,
        /// LATERAL.
        lateral: bool,
        /// Alias; PostgreSQL 15 demands one.
        alias: Option<Alias>,
        /// Where it starts, as far as that is known.
        pos: Pos,
    },
    /// A function as a table.
    Function {
        /// The call; a word such as `current_date` is possible too.
        function: Box<Expr>,
        /// LATERAL; it changes nothing for a function.
        lateral: bool,
        /// WITH ORDINALITY.
        ordinality: bool,
        /// Alias.
        alias: Option<Alias>,
    },
    /// A join.
    Join(Box<Join>),
}

/// A join of two entries.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// Which kind.
    pub kind: JoinKind,
    /// Left side.
    pub left: FromItem,
    /// Right side.
    pub right: FromItem,
    /// What rows must meet.
    pub condition: JoinCondition,
    /// Alias of the parenthesised join.
    pub alias: Option<Alias>,
}

/// The kinds of join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// INNER, and CROSS when there is no condition.
    Inner,
    /// LEFT.
    Left,
    /// RIGHT.
    Right,
    /// FULL.
    Full,
}

/// The condition of a join.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinCondition {
    /// None: CROSS JOIN.
    None,
    /// ON.
    On(Expr),
    /// USING (columns), with the alias of the merged columns.
    Using(Vec<String>, Option<String>),
    /// NATURAL.
    Natural,
}

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub struct Insert {
    /// WITH.
    pub with: Option<With>,
    /// Into which table.
    pub table: RelationName,
    /// AS.
    pub alias: Option<String>,
    /// The column list; empty when none is written.
    pub columns: Vec<AssignTarget>,
    /// Where the rows come from.
    pub source: InsertSource,
    /// OVERRIDING SYSTEM VALUE (`true`) or USER VALUE (`false`).
    pub overriding: Option<bool>,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// Where the rows of an INSERT come from.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertSource {
    /// DEFAULT VALUES.
    DefaultValues,
    /// VALUES or a query.
    Query(Box<Select>),
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub struct OnConflict {
    /// Which conflicts; `None` is any.
    pub target: Option<ConflictTarget>,
    /// What to do.
    pub action: ConflictAction,
    /// Where it stands.
    pub pos: Pos,
}

/// Which conflicts are meant.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictTarget {
    /// Those of a unique index over these.
    Index {
        /// Its columns or expressions.
        elements: Vec<super::IndexElement>,
        /// Its condition.
        filter: Option<Expr>,
        /// Where the list starts.
        pos: Pos,
    },
    /// Those of the constraint of this name.
    Constraint(String, Pos),
}

/// What to do about a conflict.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    /// DO NOTHING.
    Nothing,
    /// DO UPDATE SET ... WHERE ...
    Update {
        /// What to assign.
        set: Vec<SetClause>,
        /// To which rows.
        filter: Option<Expr>,
    },
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// WITH.
    pub with: Option<With>,
    /// Which table.
    pub table: TableName,
    /// Alias.
    pub alias: Option<String>,
    /// SET.
    pub set: Vec<SetClause>,
    /// FROM.
    pub from: Vec<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// One clause of SET.
#[derive(Clone, Debug, PartialEq)]
pub enum SetClause {
    /// `a = x`; the value may be DEFAULT.
    One {
        /// To which column.
        target: AssignTarget,
        /// Which value.
        value: Expr,
    },
    /// `(a, b) = (x, y)` or `= (SELECT ...)` or `= ROW(...)`.
    Many {
        /// To which columns.
        targets: Vec<AssignTarget>,
        /// A row expression (its fields may be DEFAULT), or anything else of that many columns.
        source: Expr,
    },
}

/// A column to assign to.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignTarget {
    /// The column.
    pub column: String,
    /// A part of it: a subscript or a field; mostly empty.
    pub steps: Vec<Step>,
    /// Where it stands.
    pub pos: Pos,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// WITH.
    pub with: Option<With>,
    /// Which table.
    pub table: TableName,
    /// Alias.
    pub alias: Option<String>,
    /// USING.
    pub using: Vec<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING.
    pub returning: Vec<Target>,
}
