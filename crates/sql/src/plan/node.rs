//! The plan tree: the operators, their inputs and their slots. It is immutable; the state of a run is in `exec`.
//!
//! A frame is the array of values of one query level. Each range of the level owns a run of slots, one per column of
//! the
//! range; operators fill slots in place, so that a join copies nothing.
//!
//! # Invariants
//! - P1. An operator writes only slots listed in it or in its children; slots that it must keep while a child continues
//!   are in its `saved` list.
//! - P2. Every condition of the statement is evaluated somewhere: as a key of an access path, as a hash key, or in a
//!   `filter`.
//! - P3. A plan holds no value of a parameter and no state, so sessions may share it.
//!
//! Checked by the tests of `exec` (same rows whichever operators are chosen).

use std::sync::Arc;

use crate::{
    builtin::{AggregateFn, SetFn},
    catalog::relation::{Oid, Relation},
    codec::key::KeyColumn,
    parse::ast::{LockStrength, LockWait},
    plan::code::{Callee, Code, Function},
};

/// A planned statement.
#[derive(Debug)]
pub struct Plan {
    /// The statement itself.
    pub root: Root,
    /// Subqueries in expressions, by id.
    pub subplans: Vec<SubPlan>,
    /// Common table expressions, and subqueries of expressions that lock rows; computed once, by id.
    pub ctes: Vec<Root>,
    /// The parts of `ctes` that are computed before anything else runs, in this order: expressions read them, and
    /// cannot wait.
    pub ahead: Vec<Ahead>,
    /// The entries of `ctes` that write, in the order of WITH: they are run to their end after everything else.
    pub modifying: Vec<usize>,
    /// The expected number of rows, for the choice between inline and background execution.
    pub rows: f64,
}

impl Plan {
    /// Returns a plan of nothing, for the evaluation of expressions outside a statement.
    pub(crate) fn nothing() -> Self {
        let node = Node { kind: Kind::Once, rows: 1.0 };
        Self {
            root: Root::Query(QueryPlan { node, slots: 0, first: 0, width: 0 }),
            subplans: Vec::new(),
            ctes: Vec::new(),
            ahead: Vec::new(),
            modifying: Vec::new(),
            rows: 1.0,
        }
    }
}

/// The part of a common table expression that is computed before anything else runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Its id.
    pub cte: usize,
    /// The maximal number of rows that are read.
    pub rows_max: usize,
}

/// The root of a statement or of a common table expression.
#[derive(Debug)]
pub enum Root {
    /// Reads.
    Query(QueryPlan),
    /// Inserts.
    Insert(Box<InsertPlan>),
    /// Updates.
    Update(Box<UpdatePlan>),
    /// Deletes.
    Delete(Box<DeletePlan>),
}

impl Root {
    /// Returns the number of columns of its rows.
    pub(crate) fn width(&self) -> usize {
        match self {
            Self::Query(query) => query.width,
            Self::Insert(insert) => insert.returning.len(),
            Self::Update(update) => update.returning.len(),
            Self::Delete(delete) => delete.returning.len(),
        }
    }

    /// Returns the expected number of rows.
    pub(crate) fn rows(&self) -> f64 {
        match self {
            Self::Query(query) => query.node.rows,
            Self::Insert(insert) => insert.source.node.rows,
            Self::Update(update) => update.node.rows,
            Self::Delete(delete) => delete.node.rows,
        }
    }
}

/// A query level: its operators, its frame, and the place of the result in it.
#[derive(Debug)]
pub struct QueryPlan {
    /// Top operator.
    pub node: Node,
    /// Slots of the frame.
    pub slots: usize,
    /// First slot of the result.
    pub first: usize,
    /// Columns of the result.
    pub width: usize,
}

/// A subquery in an expression.
#[derive(Debug)]
pub struct SubPlan {
    /// The subquery.
    pub query: QueryPlan,
    /// The way in which its rows become a value.
    pub kind: SubPlanKind,
    /// Whether it must run again for each outer row.
    pub correlated: bool,
}

/// The way in which the rows of a subquery become a value.
#[derive(Debug)]
pub enum SubPlanKind {
    /// One row at most.
    Scalar,
    /// Whether there is a row.
    Exists,
    /// ARRAY of the one column, whose elements have this type.
    Array(u32),
    /// `left op ANY/ALL`.
    Compare {
        /// Left fields.
        left: Box<[Code]>,
        /// Per column: the operator.
        callees: Box<[Callee]>,
        /// ALL instead of ANY.
        all: bool,
        /// Types by which rows can be looked up instead of compared: `Some` if the operators are equality (ANY) or its
        /// negation (ALL) of equal types.
        hashed: Option<Box<[u32]>>,
    },
}

/// An operator with an estimate.
#[derive(Debug)]
pub struct Node {
    /// The operator.
    pub kind: Kind,
    /// The expected number of rows.
    pub rows: f64,
}

/// The operators.
#[derive(Debug)]
pub enum Kind {
    /// One row without columns.
    Once,
    /// Rows of a table.
    Scan(Box<Scan>),
    /// Rows of a system table.
    Virtual(Box<VirtualScan>),
    /// Rows of a function.
    Function(Box<FunctionScan>),
    /// Rows of a query with its own frame.
    Subquery(Box<SubqueryScan>),
    /// Rows of expressions.
    Values(Box<ValuesScan>),
    /// Rows for which a condition is true.
    Filter(Box<Filter>),
    /// Computes slots.
    Project(Box<Project>),
    /// For each left row, the right rows.
    NestLoop(Box<NestLoop>),
    /// Right rows hashed, left rows looked up.
    HashJoin(Box<HashJoin>),
    /// Groups.
    Aggregate(Box<Aggregation>),
    /// Sorts, possibly keeping the first rows only.
    Sort(Box<Sort>),
    /// Drops rows whose key was seen before.
    Distinct(Box<Distinct>),
    /// LIMIT and OFFSET.
    Limit(Box<Limit>),
    /// All rows of each input, in order.
    Append(Vec<Node>),
    /// INTERSECT and EXCEPT.
    SetOperation(Box<SetOperationNode>),
    /// Locks the rows that it passes on.
    Lock(Box<LockRows>),
}

/// The mapping of a table to slots.
#[derive(Debug, Clone)]
pub struct Target {
    /// The table.
    pub relation: Arc<Relation>,
    /// Its alias.
    pub alias: Box<str>,
    /// Slot of its first column.
    pub base: usize,
    /// Columns to decode, ascending.
    pub columns: Box<[usize]>,
    /// The slot for the row's key, if it is needed.
    pub key_slot: Option<usize>,
    /// The code that the table's indexes compute from the row in the slots; `None` if they compute nothing or none is
    /// written.
    pub computed: Option<IndexCodes>,
}

/// The code of the indexes of a table, by place in `Relation::indexes`; `None` for an index that computes nothing.
pub type IndexCodes = Arc<[Option<IndexCode>]>;

/// The code of the values that an index computes from a row.
#[derive(Debug)]
pub struct IndexCode {
    /// The values of its key's columns.
    pub columns: Box<[Code]>,
    /// The condition for a row to be in the index; `None` if every row is.
    pub predicate: Option<Code>,
}

/// A scan of a table.
#[derive(Debug)]
pub struct Scan {
    /// The table, and the slots that are filled.
    pub target: Target,
    /// The access path.
    pub access: Access,
    /// The condition on its rows.
    pub filter: Option<Code>,
}

/// The ways to read a table.
#[derive(Debug)]
pub enum Access {
    /// All of it, in the order of its key.
    Full {
        /// Backward.
        reverse: bool,
    },
    /// By an index.
    Index(Box<IndexAccess>),
}

/// Reading by an index: a set of key prefixes, each with an optional range on the next column.
#[derive(Debug)]
pub struct IndexAccess {
    /// Its place in `Relation::indexes`.
    pub index: usize,
    /// Its columns.
    pub keys: Box<[KeyColumn]>,
    /// Values of its first columns.
    pub prefix: Prefix,
    /// The number of columns that `prefix` fixes.
    pub fixed: usize,
    /// Lower bound of the column after the prefix.
    pub lower: Option<Limiter>,
    /// Upper bound of it.
    pub upper: Option<Limiter>,
    /// Backward.
    pub reverse: bool,
    /// Whether each prefix matches at most one row: it covers all columns of a unique index.
    pub point: bool,
}

impl IndexAccess {
    /// Returns whether each column of the prefix has one value.
    pub(crate) fn is_single(&self) -> bool {
        matches!(&self.prefix, Prefix::Product(terms) if terms.iter().all(|term| matches!(term, Term::One(_))))
    }
}

/// Values of the first columns of an index.
#[derive(Debug)]
pub enum Prefix {
    /// Separate values for each column, in all combinations.
    Product(Box<[Term]>),
    /// Whole rows of values.
    Rows(Box<[Box<[Code]>]>),
}

/// Values of one column.
#[derive(Debug)]
pub enum Term {
    /// One value.
    One(Code),
    /// Several.
    List(Box<[Code]>),
    /// The elements of an array.
    Elements(Code),
}

/// A bound of a range.
#[derive(Debug)]
pub struct Limiter {
    /// Its value.
    pub value: Code,
    /// Whether the bound itself is inside the range.
    pub inclusive: bool,
}

/// A scan of a system table.
#[derive(Debug)]
pub struct VirtualScan {
    /// The table.
    pub relation: Arc<Relation>,
    /// Its alias.
    pub alias: Box<str>,
    /// Slot of its first column.
    pub base: usize,
    /// The columns that are read.
    pub columns: Box<[usize]>,
    /// A column whose value is known, for a look-up.
    pub lookup: Option<(usize, Code)>,
    /// The condition on its rows.
    pub filter: Option<Code>,
}

/// A scan of a function's rows.
#[derive(Debug)]
pub struct FunctionScan {
    /// Its name.
    pub name: &'static str,
    /// Its implementation.
    pub function: RowsFunction,
    /// Its arguments.
    pub args: Box<[Code]>,
    /// Types of its arguments.
    pub types: Box<[u32]>,
    /// Whether a NULL argument gives no rows (or NULL, if the function returns one row).
    pub strict: bool,
    /// Slot of its result.
    pub base: usize,
    /// Columns of its result without the ordinality.
    pub width: usize,
    /// Whether the last column counts rows.
    pub ordinality: bool,
    /// The condition on its rows.
    pub filter: Option<Code>,
}

/// The implementation of a function in FROM.
#[derive(Debug)]
pub enum RowsFunction {
    /// Many rows.
    Set(SetFn),
    /// Many rows, by the session.
    SystemSet(&'static str),
    /// One row.
    One(Function),
}

/// A scan of a query with its own frame.
#[derive(Debug)]
pub struct SubqueryScan {
    /// Its alias.
    pub alias: Box<str>,
    /// The query.
    pub source: SubquerySource,
    /// Whether the query sees this level as its outer level. Inputs of set operations do not.
    pub nested: bool,
    /// Slot of its first column.
    pub base: usize,
    /// The condition on its rows.
    pub filter: Option<Code>,
}

/// The source of a subquery's rows.
#[derive(Debug)]
pub enum SubquerySource {
    /// Computed here.
    Query(QueryPlan),
    /// Computed once for the statement, by id.
    Cte(usize),
}

/// Rows of expressions.
#[derive(Debug)]
pub struct ValuesScan {
    /// Slot of the first column.
    pub base: usize,
    /// The rows.
    pub rows: Box<[Box<[Code]>]>,
}

/// A condition on rows.
#[derive(Debug)]
pub struct Filter {
    /// Input.
    pub child: Node,
    /// The condition.
    pub condition: Code,
}

/// Computed slots.
#[derive(Debug)]
pub struct Project {
    /// Input.
    pub child: Node,
    /// First slot written.
    pub first: usize,
    /// Values of the slots from there.
    pub targets: Box<[Code]>,
}

/// A nested loop.
#[derive(Debug)]
pub struct NestLoop {
    /// Outer input.
    pub left: Node,
    /// Inner input; it may read slots of the left one.
    pub right: Node,
    /// Whether left rows without a match are kept.
    pub outer: bool,
    /// Whether the right rows do not depend on the left ones and are therefore kept.
    pub keep: bool,
    /// Condition of the join itself (ON).
    pub on: Option<Code>,
    /// Condition on the result.
    pub filter: Option<Code>,
    /// Slots of the right input.
    pub saved: Box<[usize]>,
}

/// A hash join. The right input is hashed.
#[derive(Debug)]
pub struct HashJoin {
    /// The input whose rows are looked up in the hash table.
    pub left: Node,
    /// The input that is hashed.
    pub right: Node,
    /// Keys over the left slots.
    pub left_keys: Box<[Code]>,
    /// Keys over the right slots.
    pub right_keys: Box<[Code]>,
    /// Types of the keys.
    pub types: Box<[u32]>,
    /// Whether left rows without a match are kept.
    pub left_outer: bool,
    /// Whether right rows without a match are kept.
    pub right_outer: bool,
    /// The rest of the join condition.
    pub on: Option<Code>,
    /// Condition on the result.
    pub filter: Option<Code>,
    /// Slots of the left input.
    pub left_slots: Box<[usize]>,
    /// Slots of the right input.
    pub saved: Box<[usize]>,
}

/// Grouping.
#[derive(Debug)]
pub struct Aggregation {
    /// Input.
    pub child: Node,
    /// Group keys.
    pub keys: Box<[Code]>,
    /// Types of the group keys.
    pub types: Box<[u32]>,
    /// First slot of the group keys in the output.
    pub key_base: usize,
    /// The aggregates.
    pub calls: Box<[AggregateCall]>,
    /// First slot of the aggregates in the output.
    pub call_base: usize,
    /// HAVING.
    pub having: Option<Code>,
}

/// One aggregate call.
#[derive(Debug)]
pub struct AggregateCall {
    /// Creates its state.
    pub make: AggregateFn,
    /// Arguments.
    pub args: Box<[Code]>,
    /// Types of the arguments.
    pub types: Box<[u32]>,
    /// DISTINCT.
    pub distinct: bool,
    /// ORDER BY inside the call.
    pub order_by: Box<[(Code, Order)]>,
    /// FILTER.
    pub filter: Option<Code>,
}

/// The order of a sort column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its type.
    pub oid: u32,
    /// DESC.
    pub descending: bool,
    /// NULLS FIRST.
    pub nulls_first: bool,
}

/// A sort.
#[derive(Debug)]
pub struct Sort {
    /// Input.
    pub child: Node,
    /// The slots to sort by.
    pub keys: Box<[(usize, Order)]>,
    /// The slots that are carried along.
    pub saved: Box<[usize]>,
    /// The number of rows that are needed: LIMIT and OFFSET of the limit directly above.
    pub bound: Option<(Option<Code>, Option<Code>)>,
}

/// DISTINCT and DISTINCT ON.
#[derive(Debug)]
pub struct Distinct {
    /// Input.
    pub child: Node,
    /// The slots and types that form the key.
    pub keys: Box<[(usize, u32)]>,
}

/// LIMIT and OFFSET.
#[derive(Debug)]
pub struct Limit {
    /// Input.
    pub child: Node,
    /// LIMIT.
    pub limit: Option<Code>,
    /// OFFSET.
    pub offset: Option<Code>,
}

/// INTERSECT and EXCEPT. Both inputs write the same slots.
#[derive(Debug)]
pub struct SetOperationNode {
    /// Left input, whose rows are returned.
    pub left: Node,
    /// Right input.
    pub right: Node,
    /// EXCEPT instead of INTERSECT.
    pub except: bool,
    /// ALL.
    pub all: bool,
    /// Slots and types of the columns.
    pub keys: Box<[(usize, u32)]>,
}

/// Row locks.
#[derive(Debug)]
pub struct LockRows {
    /// Input.
    pub child: Node,
    /// The tables whose rows are locked.
    pub locks: Box<[LockTarget]>,
    /// The whole condition of the level, evaluated again on a newer version.
    pub recheck: Option<Code>,
    /// The targets that are computed again in that case: the first slot, and the expressions.
    pub first: usize,
    /// See `first`.
    pub targets: Box<[Code]>,
}

/// One table whose rows are locked.
#[derive(Debug)]
pub struct LockTarget {
    /// The table and its slots.
    pub target: Target,
    /// The strength of the lock.
    pub strength: LockStrength,
    /// The treatment of a row that another transaction holds.
    pub wait: LockWait,
}

/// The foreign keys that concern the rows of a statement.
#[derive(Debug, Default)]
pub struct ForeignKeys {
    /// Those that refer to the table, by OID.
    pub referring: Box<[KeyColumns]>,
    /// Those that the table declares, by OID.
    pub declared: Box<[KeyColumns]>,
}

/// The columns of the written table that belong to a foreign key.
#[derive(Debug)]
pub struct KeyColumns {
    /// OID of the table that declares the key.
    pub table: Oid,
    /// OID of the key.
    pub key: Oid,
    /// The columns, referencing or referenced, in the key's order.
    pub columns: Box<[usize]>,
    /// MATCH FULL.
    pub match_full: bool,
}

/// A CHECK condition with its name.
pub type CheckCode = (Box<str>, Code);

/// ON CONFLICT.
#[derive(Debug)]
pub struct ConflictPlan {
    /// The entries of `Relation::indexes` that decide whether a row conflicts, ascending.
    pub arbiters: Box<[usize]>,
    /// Whether they were named and EXPLAIN therefore shows them.
    pub named: bool,
    /// DO UPDATE; `None` for DO NOTHING.
    pub update: Option<ConflictUpdate>,
}

/// DO UPDATE. The existing row is in the table's slots, the proposed one (`excluded`) in the slots after them.
#[derive(Debug)]
pub struct ConflictUpdate {
    /// WHERE.
    pub filter: Option<Code>,
    /// The change of the row.
    pub change: RowChange,
}

/// INSERT.
#[derive(Debug)]
pub struct InsertPlan {
    /// The table; the new row is in its slots. Its columns are those that DO UPDATE reads of an existing row.
    pub target: Target,
    /// Rows to insert.
    pub source: QueryPlan,
    /// The table column of each source column.
    pub columns: Box<[usize]>,
    /// Values of the other columns, by place.
    pub defaults: Box<[(usize, Code)]>,
    /// CHECK conditions with their names.
    pub checks: Box<[CheckCode]>,
    /// ON CONFLICT.
    pub conflict: Option<ConflictPlan>,
    /// Foreign keys that the table declares.
    pub foreign: ForeignKeys,
    /// RETURNING.
    pub returning: Box<[Code]>,
    /// Slots of the frame of the new row.
    pub slots: usize,
}

/// The rewriting of one row.
#[derive(Debug)]
pub struct RowChange {
    /// New values by place.
    pub assignments: Box<[(usize, Code)]>,
    /// CHECK conditions with their names.
    pub checks: Box<[CheckCode]>,
    /// Whether the primary key may change.
    pub moves: bool,
    /// Whether a column of a unique index to which a foreign key can refer is assigned.
    pub keys: bool,
    /// The entries of `Relation::indexes` (not the primary key) that depend on an assigned column, also through an
    /// expression
    /// or their predicate; all of them if the primary key may change.
    pub indexes: Box<[usize]>,
    /// Foreign keys with an assigned column.
    pub foreign: ForeignKeys,
}

/// UPDATE.
#[derive(Debug)]
pub struct UpdatePlan {
    /// The table and the slots of the old row.
    pub target: Target,
    /// Finds the rows to update.
    pub node: Node,
    /// Slots of the frame.
    pub slots: usize,
    /// The whole condition, evaluated again on a newer version.
    pub recheck: Option<Code>,
    /// The change of a row.
    pub change: RowChange,
    /// RETURNING.
    pub returning: Box<[Code]>,
}

/// DELETE.
#[derive(Debug)]
pub struct DeletePlan {
    /// The table and the slots of the row.
    pub target: Target,
    /// Finds the rows to delete.
    pub node: Node,
    /// Slots of the frame.
    pub slots: usize,
    /// The whole condition, evaluated again on a newer version.
    pub recheck: Option<Code>,
    /// Foreign keys that refer to the table.
    pub foreign: ForeignKeys,
    /// RETURNING.
    pub returning: Box<[Code]>,
}
