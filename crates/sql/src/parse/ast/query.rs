//! SELECT, INSERT, UPDATE, DELETE and their parts.
//!
//! Window clauses, grouping sets, SELECT INTO, TABLESAMPLE and MERGE have no place here: they are refused with 0A000.

use super::{Expr, ObjectName, Pos, RelationName, Step, Stmt, TableName};

/// A query expression: WITH, a body, and the clauses that apply to the body's whole result.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// WITH.
    pub with: Option<With>,
    /// The source of the rows.
    pub body: SelectBody,
    /// ORDER BY.
    pub order_by: Vec<SortItem>,
    /// LIMIT or FETCH; LIMIT ALL is the literal NULL.
    pub limit: Option<Expr>,
    /// FETCH ... WITH TIES.
    pub with_ties: bool,
    /// OFFSET.
    pub offset: Option<Expr>,
    /// FOR UPDATE and similar clauses, in the order written.
    pub locking: Vec<Locking>,
}

/// The source of a query's rows.
#[derive(Clone, Debug, PartialEq)]
pub enum SelectBody {
    /// SELECT ... FROM ...
    Core(Box<SelectCore>),
    /// VALUES, with at least one row; equal lengths are not checked here.
    Values(Vec<Vec<Expr>>),
    /// UNION, INTERSECT, EXCEPT.
    SetOperation {
        /// The operator.
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
    /// The direction.
    pub direction: SortDirection,
    /// The place of NULLs; `None` is the direction's default.
    pub nulls_first: Option<bool>,
    /// The position of the entry's operator, for USING only.
    pub pos: Pos,
}

/// The direction of a sort.
#[derive(Clone, Debug, PartialEq)]
pub enum SortDirection {
    /// ASC, written or by default.
    Asc,
    /// DESC.
    Desc,
    /// USING operator.
    Using(ObjectName),
}

/// FOR UPDATE and similar clauses.
#[derive(Clone, Debug, PartialEq)]
pub struct Locking {
    /// The strength of the lock.
    pub strength: LockStrength,
    /// OF tables, by alias; empty means all.
    pub of: Vec<RelationName>,
    /// The treatment of a row that another transaction holds.
    pub wait: LockWait,
}

/// The strength of a row lock, weakest first.
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

/// The treatment of a lock that is not free. Of two clauses for one table, the later of these values applies.
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
    /// The position of WITH.
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
    /// Column names; there may be fewer than columns.
    pub columns: Vec<String>,
}

/// One entry of FROM.
#[derive(Clone, Debug, PartialEq)]
pub enum FromItem {
    /// A table, view or WITH query by name.
    Table {
        /// The name.
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
        /// Alias; PostgreSQL 15 requires one.
        alias: Option<Alias>,
        /// The start position, if it is known.
        pos: Pos,
    },
    /// A function as a table.
    Function {
        /// The call; it can also be a keyword such as `current_date`.
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
    /// The kind.
    pub kind: JoinKind,
    /// Left side.
    pub left: FromItem,
    /// Right side.
    pub right: FromItem,
    /// The join condition.
    pub condition: JoinCondition,
    /// Alias of the parenthesized join.
    pub alias: Option<Alias>,
}

/// The kinds of join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// INNER, and CROSS if there is no condition.
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
    /// The target table.
    pub table: RelationName,
    /// AS.
    pub alias: Option<String>,
    /// The column list; empty when none is written.
    pub columns: Vec<AssignTarget>,
    /// The source of the rows.
    pub source: InsertSource,
    /// OVERRIDING SYSTEM VALUE (`true`) or USER VALUE (`false`).
    pub overriding: Option<bool>,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// RETURNING.
    pub returning: Vec<Target>,
}

/// The source of the rows of an INSERT.
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
    /// The conflicts that it handles; `None` means all.
    pub target: Option<ConflictTarget>,
    /// The action.
    pub action: ConflictAction,
    /// Its position.
    pub pos: Pos,
}

/// The conflicts that ON CONFLICT names.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictTarget {
    /// Those of a unique index over these.
    Index {
        /// Its columns or expressions.
        elements: Vec<super::IndexElement>,
        /// Its condition.
        filter: Option<Expr>,
        /// The position of the list.
        pos: Pos,
    },
    /// Those of the constraint of this name.
    Constraint(String, Pos),
}

/// The action of ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub enum ConflictAction {
    /// DO NOTHING.
    Nothing,
    /// DO UPDATE SET ... WHERE ...
    Update {
        /// The assignments.
        set: Vec<SetClause>,
        /// The condition.
        filter: Option<Expr>,
    },
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// WITH.
    pub with: Option<With>,
    /// The target table.
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
        /// The column.
        target: AssignTarget,
        /// The value.
        value: Expr,
    },
    /// `(a, b) = (x, y)` or `= (SELECT ...)` or `= ROW(...)`.
    Many {
        /// The columns.
        targets: Vec<AssignTarget>,
        /// A row expression, whose fields may be DEFAULT, or another expression of that many columns.
        source: Expr,
    },
}

/// A column that is assigned.
#[derive(Clone, Debug, PartialEq)]
pub struct AssignTarget {
    /// The column.
    pub column: String,
    /// The assigned part of it: a subscript or a field; mostly empty.
    pub steps: Vec<Step>,
    /// Its position.
    pub pos: Pos,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub struct Delete {
    /// WITH.
    pub with: Option<With>,
    /// The target table.
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
