//! The bound tree: a statement after analysis, with every name, type, operator and cast decided.
//!
//! Planning and execution read no other form of a statement. The tree says what the statement computes, not how.
//!
//! # Invariants
//! - B1. Every expression has a type, and the arguments of a call already have the types that its procedure takes:
//!   casts are explicit nodes.
//! - B2. `Expr::Column { up, range, column }` names column `column` of `ranges[range]` of the select `up` levels out.
//! - B3. Above grouping (targets, HAVING, ORDER BY of a grouped select), columns of the select's own level appear only
//!   through `GroupKey` and `Aggregate` references.
//! - B4. Analysis drops nothing: every clause is either represented here or refused with its position.

use std::sync::Arc;

use crate::{
    builtin::Proc,
    catalog::relation::{Oid, Relation},
    parse::ast,
    types::{SqlType, Value},
};

/// A statement that reads or writes rows, or a common table expression.
#[derive(Clone, Debug)]
pub enum Bound {
    /// SELECT, VALUES and set operations.
    Query(Query),
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
}

/// The result of analysis: the statement, its parameters and its result columns.
#[derive(Clone, Debug)]
pub struct Analyzed {
    /// The statement.
    pub bound: Bound,
    /// Type OID of each parameter `$1..`; all are known.
    pub parameters: Vec<u32>,
    /// Result columns; empty for a statement that returns no rows.
    pub columns: Vec<ResultColumn>,
    /// Its data-modifying common table expressions, in the order of WITH. Each runs once, whether it is read or not.
    pub modifying: Vec<Arc<Bound>>,
    /// Its common table expressions that say MATERIALIZED. They are computed with all of their columns.
    pub whole: Vec<Arc<Bound>>,
    /// Every table that it uses, with the kind of use. Table locks and the epoch check need it.
    pub relations: Vec<(Oid, Access)>,
    /// Whether it writes or locks rows.
    pub writes: bool,
    /// The strength of its first locking clause, if it has one; the outermost level comes first.
    pub lock_strength: Option<ast::LockStrength>,
    /// Whether it asks for the transaction's id, which must then be assigned before it runs.
    pub assigns_xid: bool,
    /// Whether it calls a function that waits during its evaluation: `pg_sleep`, advisory locks.
    pub may_block: bool,
}

impl Analyzed {
    /// Returns the name of a query's locking clause, such as FOR UPDATE, if it has one; of several, that of the first.
    pub(crate) fn lock_clause(&self) -> Option<&'static str> {
        match self.bound {
            Bound::Query(_) => self.lock_strength.map(super::locking::clause_name),
            Bound::Insert(_) | Bound::Update(_) | Bound::Delete(_) => None,
        }
    }
}

/// How a statement uses a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reads it: ACCESS SHARE.
    Read,
    /// Locks rows of it: ROW SHARE.
    Lock,
    /// Writes it: ROW EXCLUSIVE.
    Write,
}

/// A column of a result, as it is described to a client.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// The table and column number that it is read from unchanged, if there is one.
    pub origin: Option<(Oid, i16)>,
}

/// A source of rows.
#[derive(Clone, Debug)]
pub enum Query {
    /// One SELECT.
    Select(Box<Select>),
    /// UNION, INTERSECT, EXCEPT.
    SetOperation(Box<SetOperation>),
    /// VALUES (...), (...).
    Values(Box<ValuesQuery>),
}

/// One SELECT level.
#[derive(Clone, Debug)]
pub struct Select {
    /// Range table: every FROM item of this level, left to right (B2).
    pub ranges: Vec<Range>,
    /// Join tree of the ranges; `None` without FROM. Items separated by commas are cross joins, in order.
    pub from: Option<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY expressions. If there are none but `aggregates`, all rows form one group.
    pub group_by: Vec<Expr>,
    /// Aggregate calls; `Expr::Aggregate` refers to them by index.
    pub aggregates: Vec<Aggregate>,
    /// Whether this select groups at all (by GROUP BY, an aggregate, or HAVING).
    pub grouped: bool,
    /// HAVING.
    pub having: Option<Expr>,
    /// Output expressions: the first `visible` are the result, the rest serve ORDER BY and DISTINCT ON.
    pub targets: Vec<Expr>,
    /// Number of targets that are results.
    pub visible: usize,
    /// DISTINCT.
    pub distinct: Distinct,
    /// ORDER BY, over targets.
    pub order_by: Vec<SortKey>,
    /// LIMIT: int8, without columns of this level.
    pub limit: Option<Expr>,
    /// OFFSET, int8.
    pub offset: Option<Expr>,
    /// FOR UPDATE and the other locking clauses, of tables only.
    pub locking: Vec<Locking>,
    /// Whether the last range is a set-returning function from the output list.
    pub returns_set: bool,
}

/// A FROM item.
#[derive(Clone, Debug)]
pub struct Range {
    /// Alias or table name, for messages and EXPLAIN.
    pub name: String,
    /// Its source.
    pub source: RangeSource,
    /// Names and types of its columns. Those of a table match `Relation::columns` index by index, dropped columns
    /// included.
    pub columns: Vec<(String, SqlType)>,
}

/// The source of a FROM item.
#[derive(Clone, Debug)]
pub enum RangeSource {
    /// A table.
    Table(Arc<Relation>),
    /// A subquery; when `lateral`, it may name ranges to its left with `up: 1`.
    Subquery {
        /// The subquery.
        query: Query,
        /// Whether it may name ranges to its left.
        lateral: bool,
    },
    /// A set-returning or scalar function; its arguments may name ranges to its left (`up: 0`).
    Function {
        /// The function.
        proc: &'static Proc,
        /// Its arguments.
        args: Vec<Expr>,
        /// Whether a last column numbers the rows from 1.
        ordinality: bool,
    },
    /// Rows of a common table expression of this statement, which is computed once.
    Cte(Arc<Bound>),
}

/// The join tree.
#[derive(Clone, Debug)]
pub enum FromItem {
    /// One range.
    Range(usize),
    /// A join. Analysis turns RIGHT joins into LEFT joins; `targets` keeps the order of the columns.
    Join {
        /// Inner, left or full.
        kind: JoinKind,
        /// Left input.
        left: Box<FromItem>,
        /// Right input.
        right: Box<FromItem>,
        /// ON, or the condition that USING or NATURAL stands for; `None` for a cross join.
        on: Option<Expr>,
    },
}

/// Kind of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// INNER and CROSS.
    Inner,
    /// LEFT OUTER.
    Left,
    /// FULL OUTER.
    Full,
}

/// DISTINCT.
#[derive(Clone, Debug)]
pub enum Distinct {
    /// No DISTINCT.
    No,
    /// Over all visible targets.
    All,
    /// DISTINCT ON over these targets.
    On(Vec<usize>),
}

/// One ORDER BY item.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// Index of the target, or of the column of a set operation's result.
    pub target: usize,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// An aggregate call.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// The aggregate function.
    pub proc: &'static Proc,
    /// Arguments; empty for `count(*)`.
    pub args: Vec<Expr>,
    /// DISTINCT inside the call.
    pub distinct: bool,
    /// ORDER BY inside the call: expression, descending, nulls first.
    pub order_by: Vec<(Expr, bool, bool)>,
    /// FILTER (WHERE ...).
    pub filter: Option<Expr>,
    /// Result type.
    pub ty: SqlType,
}

/// The locking clauses' effect on one table.
#[derive(Clone, Debug)]
pub struct Locking {
    /// Its range.
    pub range: usize,
    /// Strength of the lock.
    pub strength: ast::LockStrength,
    /// Reaction to a row that another transaction has locked.
    pub wait: ast::LockWait,
}

/// UNION, INTERSECT, EXCEPT.
#[derive(Clone, Debug)]
pub struct SetOperation {
    /// Its kind.
    pub kind: SetKind,
    /// ALL.
    pub all: bool,
    /// Left input, already cast to the common types.
    pub left: Query,
    /// Right input, already cast.
    pub right: Query,
    /// Common types.
    pub types: Vec<SqlType>,
    /// ORDER BY over result columns.
    pub order_by: Vec<SortKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
}

/// Kind of a set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetKind {
    /// UNION.
    Union,
    /// INTERSECT.
    Intersect,
    /// EXCEPT.
    Except,
}

/// VALUES.
#[derive(Clone, Debug)]
pub struct ValuesQuery {
    /// Rows, each of `types.len()` expressions cast to `types`.
    pub rows: Vec<Vec<Expr>>,
    /// Column types.
    pub types: Vec<SqlType>,
    /// ORDER BY over columns.
    pub order_by: Vec<SortKey>,
    /// LIMIT.
    pub limit: Option<Expr>,
    /// OFFSET.
    pub offset: Option<Expr>,
}

/// INSERT.
#[derive(Clone, Debug)]
pub struct Insert {
    /// The table.
    pub table: Arc<Relation>,
    /// Rows to insert. Column i goes to table column `columns[i]` and is already cast to that column's type, typmod
    /// included.
    pub source: Query,
    /// Target columns, as indexes into `Relation::columns`.
    pub columns: Vec<usize>,
    /// Values for the columns that are not in `columns`: the default, or NULL. Indexed like `Relation::columns`; `None`
    /// for a column in `columns`.
    pub defaults: Vec<Option<Expr>>,
    /// CHECK conditions over the new row (`Column { up: 0, range: 0 }`), with their names.
    pub checks: Vec<(String, Expr)>,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// RETURNING, over the new row as range 0.
    pub returning: Vec<Expr>,
}

/// ON CONFLICT.
#[derive(Clone, Debug)]
pub struct OnConflict {
    /// Unique indexes whose conflicts are meant.
    pub arbiter: Arbiter,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// The unique indexes that decide whether a row conflicts. They are looked up when the statement is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// All of them: the statement names no target.
    Every,
    /// Those over exactly these keys, and over all the rows that the clause is about.
    Keys(ArbiterKeys),
    /// The one with this OID, which belongs to the named constraint.
    Index(Oid),
    /// None can match: the clause asks for an order that no index has.
    Unmatched,
    /// None: the named constraint has no index.
    Unindexed,
}

/// The keys that a unique index must have to be an arbiter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArbiterKeys {
    /// Columns: indexes into `Relation::columns`, ascending, each once.
    pub columns: Vec<usize>,
    /// Expressions: the text and the type OID of each.
    pub expressions: Vec<(String, u32)>,
    /// Facts about the rows that the clause is about, as texts. A partial index matches if its predicate is one of
    /// them.
    pub facts: Vec<String>,
}

/// DO UPDATE. Range 0 is the existing row, range 1 (`excluded`) the row proposed for insertion.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// New values: an index into `Relation::columns`, and an expression cast to that column's type (typmod included).
    pub assignments: Vec<(usize, Expr)>,
    /// WHERE.
    pub filter: Option<Expr>,
}

/// UPDATE.
#[derive(Clone, Debug)]
pub struct Update {
    /// The table; range 0 of `from`'s select level.
    pub table: Arc<Relation>,
    /// Ranges: 0 is the target; more with UPDATE ... FROM.
    pub ranges: Vec<Range>,
    /// Join tree over `ranges`.
    pub from: FromItem,
    /// WHERE.
    pub filter: Option<Expr>,
    /// New values: an index into `Relation::columns`, and an expression over `ranges` cast to that column's type
    /// (typmod included).
    pub assignments: Vec<(usize, Expr)>,
    /// CHECK conditions over the new row as range 0.
    pub checks: Vec<(String, Expr)>,
    /// RETURNING: range 0 is the new row, others as in `ranges`.
    pub returning: Vec<Expr>,
}

/// DELETE.
#[derive(Clone, Debug)]
pub struct Delete {
    /// The table; range 0.
    pub table: Arc<Relation>,
    /// Ranges: 0 is the target; more with USING.
    pub ranges: Vec<Range>,
    /// Join tree over `ranges`.
    pub from: FromItem,
    /// WHERE.
    pub filter: Option<Expr>,
    /// RETURNING over `ranges`, range 0 the deleted row.
    pub returning: Vec<Expr>,
}

/// An expression. Its type is `ty()`.
#[derive(Clone, Debug)]
pub enum Expr {
    /// A constant.
    Const(Value, SqlType),
    /// A parameter; the first is 0.
    Param(usize, SqlType),
    /// A column (B2).
    Column {
        /// Levels out; 0 is the select in which the expression stands.
        up: usize,
        /// Index of the range at that level.
        range: usize,
        /// Index of the column in the range.
        column: usize,
        /// Its type.
        ty: SqlType,
    },
    /// The i-th GROUP BY expression of the level `up` levels out (B3).
    GroupKey {
        /// Levels out.
        up: usize,
        /// Index of the GROUP BY expression.
        index: usize,
        /// Its type.
        ty: SqlType,
    },
    /// The i-th aggregate of the level `up` levels out (B3).
    Aggregate {
        /// Levels out.
        up: usize,
        /// Index of the aggregate.
        index: usize,
        /// Its type.
        ty: SqlType,
    },
    /// A function or operator call. A strict procedure gives NULL when an argument is NULL.
    Call {
        /// The procedure; an operator is resolved to its procedure.
        proc: &'static Proc,
        /// Arguments, of the types that it takes.
        args: Vec<Expr>,
        /// Result type.
        ty: SqlType,
        /// Its position in the text, for run-time errors.
        pos: ast::Pos,
        /// Operator name, for printing, if the call was written as an operator.
        operator: Option<Box<str>>,
    },
    /// A conversion through `builtin::cast_value`, or a relabelling if both types are stored alike; applies
    /// `to.typmod`.
    Cast {
        /// The value to convert.
        arg: Box<Expr>,
        /// The target type.
        to: SqlType,
        /// Whether the user wrote the cast, which then truncates; otherwise it is an assignment cast or an implicit
        /// one.
        explicit: bool,
        /// Its position in the text.
        pos: ast::Pos,
    },
    /// AND of all.
    And(Vec<Expr>),
    /// OR of all.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// IS NULL, IS NOT NULL. On a row value: all fields are (not) null.
    IsNull {
        /// The tested value.
        arg: Box<Expr>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE, UNKNOWN.
    BooleanTest {
        /// The tested value.
        arg: Box<Expr>,
        /// `Some(true)`: TRUE, `Some(false)`: FALSE, `None`: UNKNOWN.
        value: Option<bool>,
        /// IS NOT.
        negated: bool,
    },
    /// IS [NOT] DISTINCT FROM.
    DistinctFrom {
        /// The type's equality.
        equal: &'static Proc,
        /// Left side.
        left: Box<Expr>,
        /// Right side.
        right: Box<Expr>,
        /// IS NOT DISTINCT FROM.
        negated: bool,
    },
    /// CASE. With an operand, the conditions compare `CaseOperand` with each value.
    Case {
        /// Operand of the simple form, evaluated once.
        operand: Option<Box<Expr>>,
        /// Condition and result, in order.
        arms: Vec<(Expr, Expr)>,
        /// ELSE; NULL if there is none.
        otherwise: Box<Expr>,
        /// Result type.
        ty: SqlType,
    },
    /// The operand of the innermost enclosing simple CASE.
    CaseOperand(SqlType),
    /// The first argument that is not NULL.
    Coalesce(Vec<Expr>, SqlType),
    /// NULL if both sides are equal, otherwise the left one.
    NullIf {
        /// Equality of the two sides.
        equal: &'static Proc,
        /// Result unless the sides are equal.
        left: Box<Expr>,
        /// The value to compare with.
        right: Box<Expr>,
        /// Result type (of the left side).
        ty: SqlType,
    },
    /// GREATEST or LEAST; NULLs are ignored.
    Extreme {
        /// Whether it is GREATEST.
        greatest: bool,
        /// Candidates of one type.
        args: Vec<Expr>,
        /// Their type.
        ty: SqlType,
    },
    /// `arg [NOT] IN (list)`, where one equality fits all candidates. NULLs are treated as in `= ANY` and `<> ALL`.
    InList {
        /// Compared value.
        arg: Box<Expr>,
        /// Candidates.
        list: Vec<Expr>,
        /// Equality.
        equal: &'static Proc,
        /// NOT IN.
        negated: bool,
    },
    /// `arg op ANY (array)`, `arg op ALL (array)`.
    ArrayCompare {
        /// Compared value.
        arg: Box<Expr>,
        /// The array.
        array: Box<Expr>,
        /// The operator's procedure, which returns bool.
        proc: &'static Proc,
        /// ALL instead of ANY.
        all: bool,
    },
    /// Row comparison `(a, b) op (c, d)`: lexicographic; `=` and `<>` compare field by field.
    RowCompare {
        /// Its kind.
        kind: RowComparison,
        /// Left fields.
        left: Vec<Expr>,
        /// Right fields.
        right: Vec<Expr>,
        /// Equality of each field.
        equal: Vec<&'static Proc>,
        /// Less-than of each field, for ordering comparisons.
        less: Vec<&'static Proc>,
    },
    /// A row value.
    Row(Vec<Expr>),
    /// ARRAY[...].
    Array {
        /// Elements of one type.
        items: Vec<Expr>,
        /// The array type.
        ty: SqlType,
    },
    /// `array[index]`; the first element has index 1 or the array's lower bound.
    Subscript {
        /// The array.
        array: Box<Expr>,
        /// The index, an int4.
        index: Box<Expr>,
        /// Element type.
        ty: SqlType,
    },
    /// A subquery in an expression. In the subquery, `up` of this level's columns is one higher.
    Subquery {
        /// The way its rows become a value.
        kind: SubqueryKind,
        /// The subquery.
        query: Box<Query>,
        /// Whether it names columns of an outer level.
        correlated: bool,
        /// Result type.
        ty: SqlType,
    },
}

/// A comparison of row values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowComparison {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// The way in which a subquery's rows become a value.
#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// One column and at most one row; more rows are 21000, none is NULL.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// `left op ANY/ALL (query)`: `IN` is `= ANY`, `NOT IN` is `<> ALL`. There is one procedure per column, which
    /// returns bool; for `=` the fields are combined by AND.
    Compare {
        /// Left fields; a plain value is one field.
        left: Vec<Expr>,
        /// The operator's procedure for each column.
        procs: Vec<&'static Proc>,
        /// ALL instead of ANY.
        all: bool,
    },
    /// ARRAY(query): all rows of the only column.
    Array,
}

impl Expr {
    /// Returns the type of the expression.
    pub fn ty(&self) -> SqlType {
        match self {
            Self::Const(_, ty)
            | Self::Param(_, ty)
            | Self::Column { ty, .. }
            | Self::GroupKey { ty, .. }
            | Self::Aggregate { ty, .. }
            | Self::Call { ty, .. }
            | Self::Cast { to: ty, .. }
            | Self::Case { ty, .. }
            | Self::CaseOperand(ty)
            | Self::Coalesce(_, ty)
            | Self::NullIf { ty, .. }
            | Self::Extreme { ty, .. }
            | Self::Array { ty, .. }
            | Self::Subscript { ty, .. }
            | Self::Subquery { ty, .. } => *ty,
            Self::Row(_) => SqlType::new(crate::types::oid::RECORD),
            Self::And(_)
            | Self::Or(_)
            | Self::Not(_)
            | Self::IsNull { .. }
            | Self::BooleanTest { .. }
            | Self::DistinctFrom { .. }
            | Self::InList { .. }
            | Self::ArrayCompare { .. }
            | Self::RowCompare { .. } => SqlType::new(crate::types::oid::BOOL),
        }
    }
}
