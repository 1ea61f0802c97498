//! The bound tree: a statement after analysis, with every name, type, operator and cast decided.
//!
//! Planning and execution read nothing else of a statement. Not a plan: it says what, not how.
//!
//! # Invariants
//! - B1. Every expression has a type; arguments of a call already have the types its procedure takes (casts are explicit nodes).
//! - B2. `Expr::Column { up, range, column }` names column `column` of `ranges[range]` of the select `up` levels out.
//! - B3. Above grouping (targets, HAVING, ORDER BY of a grouped select) a column of the select's own level appears only
//!   inside `GroupKey` and `Aggregate` references.
//! - B4. Nothing was dropped on the way: a clause is represented here or was refused with its position.

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

/// What analysis gives: the statement, its parameters and its result columns.
#[derive(Clone, Debug)]
pub struct Analyzed {
    /// The statement.
    pub bound: Bound,
    /// Type OID of each parameter `$1..`, all decided.
    pub parameters: Vec<u32>,
    /// Result columns; empty for a statement that returns no rows.
    pub columns: Vec<ResultColumn>,
    /// Its data-modifying common table expressions, in the order of WITH. Each runs once, whether it is read or not.
    pub modifying: Vec<Arc<Bound>>,
    /// Common table expressions that say MATERIALIZED: they are computed with all of their columns.
    pub whole: Vec<Arc<Bound>>,
    /// Every table it touches and how, for table locks and for the epoch check.
    pub relations: Vec<(Oid, Access)>,
    /// Whether it writes or locks rows.
    pub writes: bool,
    /// How strong it locks rows by its first locking clause, if it has one; the outermost level comes first.
    pub lock_strength: Option<ast::LockStrength>,
    /// Whether it asks for the transaction's id, which it has to have before it runs.
    pub assigns_xid: bool,
    /// Whether it calls a function that waits where it is evaluated: `pg_sleep`, advisory locks.
    pub may_block: bool,
}

impl Analyzed {
    /// Returns the locking clause of a query that has one, as it is written; of several, of the first table.
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

/// A column of a result, as a client is told.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: SqlType,
    /// The table and column number it is read from unchanged, if it is.
    pub origin: Option<(Oid, i16)>,
}

/// Something that yields rows.
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
    /// How the ranges are joined; `None` without FROM. Comma items are cross joins, in order.
    pub from: Option<FromItem>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY expressions; empty with `aggregates` means one group of everything.
    pub group_by: Vec<Expr>,
    /// Aggregate calls, each named by position from `Expr::Aggregate`.
    pub aggregates: Vec<Aggregate>,
    /// Whether this select groups at all (GROUP BY, an aggregate, or HAVING).
    pub grouped: bool,
    /// HAVING.
    pub having: Option<Expr>,
    /// Output expressions: the first `visible` are the result, the rest serve ORDER BY and DISTINCT ON.
    pub targets: Vec<Expr>,
    /// How many targets are results.
    pub visible: usize,
    /// DISTINCT.
    pub distinct: Distinct,
    /// ORDER BY, over targets.
    pub order_by: Vec<SortKey>,
    /// LIMIT, int8, no columns of this level.
    pub limit: Option<Expr>,
    /// OFFSET, int8.
    pub offset: Option<Expr>,
    /// FOR UPDATE and kin, of tables only.
    pub locking: Vec<Locking>,
    /// Whether the last range is a set-returning function of the output list.
    pub returns_set: bool,
}

/// A FROM item.
#[derive(Clone, Debug)]
pub struct Range {
    /// Alias or table name, for messages and EXPLAIN.
    pub name: String,
    /// What it reads.
    pub source: RangeSource,
    /// Names and types of its columns (of `Relation::columns`, place by place, dropped ones included, for tables).
    pub columns: Vec<(String, SqlType)>,
}

/// What a FROM item reads.
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
    /// A set-returning or scalar function; its arguments may name ranges to the left (`up: 0`).
    Function {
        /// The function.
        proc: &'static Proc,
        /// Its arguments.
        args: Vec<Expr>,
        /// Whether a last column counts rows from 1.
        ordinality: bool,
    },
    /// Rows of a common table expression of this statement, computed once.
    Cte(Arc<Bound>),
}

/// The join tree.
#[derive(Clone, Debug)]
pub enum FromItem {
    /// One range.
    Range(usize),
    /// A join. RIGHT joins are turned into LEFT by analysis, columns keep their order through `targets`.
    Join {
        /// Inner, left or full.
        kind: JoinKind,
        /// Left input.
        left: Box<FromItem>,
        /// Right input.
        right: Box<FromItem>,
        /// ON, or what USING and NATURAL mean; `None` for a cross join.
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
    /// Not asked for.
    No,
    /// Over all visible targets.
    All,
    /// DISTINCT ON over these targets.
    On(Vec<usize>),
}

/// One ORDER BY item.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    /// Which target (or column of a set operation's result).
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

/// What the locking clauses say of one table.
#[derive(Clone, Debug)]
pub struct Locking {
    /// Its range.
    pub range: usize,
    /// How strong.
    pub strength: ast::LockStrength,
    /// What to do with a row somebody else has.
    pub wait: ast::LockWait,
}

/// UNION, INTERSECT, EXCEPT.
#[derive(Clone, Debug)]
pub struct SetOperation {
    /// Which.
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
    /// Rows to insert; column i of it goes to table column `columns[i]`, already cast to its type (typmod included).
    pub source: Query,
    /// Target columns, as places in `Relation::columns`.
    pub columns: Vec<usize>,
    /// Value of every column not in `columns`: its default, or NULL. Indexed by place in `Relation::columns`; `None` for given ones.
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
    /// Which conflicts are meant.
    pub arbiter: Arbiter,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// Which unique indexes decide whether a row conflicts. Looked up when the statement is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arbiter {
    /// All of them: no target was written.
    Every,
    /// Those over exactly these, on all the rows that are meant.
    Keys(ArbiterKeys),
    /// The one with this OID, of a named constraint.
    Index(Oid),
    /// None can be meant: an order that no index has.
    Unmatched,
    /// None: the named constraint has no index.
    Unindexed,
}

/// What a unique index must be over to be an arbiter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArbiterKeys {
    /// Columns: places in `Relation::columns`, ascending, each once.
    pub columns: Vec<usize>,
    /// Expressions: the text and the type OID of each.
    pub expressions: Vec<(String, u32)>,
    /// What is true of the rows that are meant, as texts: a partial index is meant when its predicate is among it.
    pub facts: Vec<String>,
}

/// DO UPDATE. Range 0 is the row that is there, range 1 (`excluded`) the row proposed for insertion.
#[derive(Clone, Debug)]
pub struct ConflictUpdate {
    /// New values: place in `Relation::columns`, expression cast to the column's type (typmod included).
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
    /// New values: place in `Relation::columns`, expression over `ranges`, cast to the column's type (typmod included).
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
    /// Parameter, from 0.
    Param(usize, SqlType),
    /// A column (B2).
    Column {
        /// Levels out: 0 is the select it stands in.
        up: usize,
        /// Which range of that level.
        range: usize,
        /// Which column of the range.
        column: usize,
        /// Its type.
        ty: SqlType,
    },
    /// The i-th GROUP BY expression of the level `up` levels out (B3).
    GroupKey {
        /// Levels out.
        up: usize,
        /// Which.
        index: usize,
        /// Its type.
        ty: SqlType,
    },
    /// The i-th aggregate of the level `up` levels out (B3).
    Aggregate {
        /// Levels out.
        up: usize,
        /// Which.
        index: usize,
        /// Its type.
        ty: SqlType,
    },
    /// A function or operator call. A strict procedure gives NULL when an argument is NULL.
    Call {
        /// The procedure; operators are resolved to theirs.
        proc: &'static Proc,
        /// Arguments of the types it takes.
        args: Vec<Expr>,
        /// Result type.
        ty: SqlType,
        /// Where it stands in the text, for run-time errors.
        pos: ast::Pos,
        /// Operator name when it was written as one, for printing.
        operator: Option<Box<str>>,
    },
    /// A conversion through `builtin::cast_value`, or a relabelling when both are stored alike; applies `to.typmod`.
    Cast {
        /// What is converted.
        arg: Box<Expr>,
        /// To which type.
        to: SqlType,
        /// Whether the user wrote it (truncates) or it is an assignment or implicit one.
        explicit: bool,
        /// Where it stands in the text.
        pos: ast::Pos,
    },
    /// AND of all.
    And(Vec<Expr>),
    /// OR of all.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// IS NULL, IS NOT NULL. Of a row value: all fields are (not) null.
    IsNull {
        /// What is tested.
        arg: Box<Expr>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE, UNKNOWN.
    BooleanTest {
        /// What is tested.
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
        /// ELSE, NULL without.
        otherwise: Box<Expr>,
        /// Result type.
        ty: SqlType,
    },
    /// The operand of the innermost simple CASE around.
    CaseOperand(SqlType),
    /// First argument that is not NULL.
    Coalesce(Vec<Expr>, SqlType),
    /// NULL when both are equal, else the left one.
    NullIf {
        /// Equality of both.
        equal: &'static Proc,
        /// Result unless equal.
        left: Box<Expr>,
        /// Compared with.
        right: Box<Expr>,
        /// Result type (of the left side).
        ty: SqlType,
    },
    /// GREATEST or LEAST; NULLs are left out.
    Extreme {
        /// GREATEST.
        greatest: bool,
        /// Candidates of one type.
        args: Vec<Expr>,
        /// Their type.
        ty: SqlType,
    },
    /// `arg [NOT] IN (list)`, all of one comparable pair of types; NULL rules as `= ANY`, `<> ALL`.
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
        /// Operator's procedure, bool result.
        proc: &'static Proc,
        /// ALL instead of ANY.
        all: bool,
    },
    /// Row comparison `(a, b) op (c, d)`, lexicographic; for `=` and `<>` field by field.
    RowCompare {
        /// Which comparison.
        kind: RowComparison,
        /// Left fields.
        left: Vec<Expr>,
        /// Right fields.
        right: Vec<Expr>,
        /// Per field: equality.
        equal: Vec<&'static Proc>,
        /// Per field: less-than (for ordering comparisons).
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
    /// `array[index]`, from 1 or the array's lower bound.
    Subscript {
        /// The array.
        array: Box<Expr>,
        /// int4.
        index: Box<Expr>,
        /// Element type.
        ty: SqlType,
    },
    /// A subquery in an expression. Inside it, columns of this level have `up` one higher.
    Subquery {
        /// How its rows become a value.
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

/// How a subquery's rows become a value.
#[derive(Clone, Debug)]
pub enum SubqueryKind {
    /// One column, at most one row (21000 beyond); NULL without rows.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// `left op ANY/ALL (query)`: `IN` is `= ANY`, `NOT IN` is `<> ALL`. One procedure per column, bool result; fields are AND-ed for `=`.
    Compare {
        /// Left fields (one for a plain value).
        left: Vec<Expr>,
        /// Per column: the operator's procedure.
        procs: Vec<&'static Proc>,
        /// ALL instead of ANY.
        all: bool,
    },
    /// ARRAY(query): all rows of one column.
    Array,
}

impl Expr {
    /// Returns its type.
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
