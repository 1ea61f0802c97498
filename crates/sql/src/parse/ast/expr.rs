//! Expressions of the parsed tree.
//!
//! They are neither typed nor folded. AND, OR and NOT, IN, BETWEEN, LIKE and others keep their own form, since their
//! rules
//! and output names differ from those of the operators that implement them.

use super::{ObjectName, Pos, Select, SortItem, TypeName};

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// The position that PostgreSQL gives this node; that of an operator call is the operator. See [`Expr::start`].
    pub pos: Pos,
}

/// The kinds of expression.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// `a`, `t.a`, `s.t.a`, `*`, `t.*`.
    Column {
        /// The names before any `*`.
        path: Vec<String>,
        /// Whether it ends in `*`; then `path` may be empty.
        star: bool,
    },
    /// `$n`, from 1.
    Param(u32),
    /// A constant.
    Literal(Literal),
    /// `CAST(x AS t)`, `x::t`, `t 'x'`.
    Cast {
        /// The operand.
        expr: Box<Expr>,
        /// The target type.
        ty: TypeName,
    },
    /// An operator with one or two operands.
    Operator {
        /// Its name, with a schema if written `OPERATOR(s.x)`.
        op: ObjectName,
        /// The left operand; absent before a prefix operator.
        left: Option<Box<Expr>>,
        /// The right operand.
        right: Box<Expr>,
    },
    /// AND over two or more terms.
    And(Vec<Expr>),
    /// OR over two or more terms.
    Or(Vec<Expr>),
    /// NOT.
    Not(Box<Expr>),
    /// IS [NOT] NULL.
    IsNull {
        /// The operand.
        expr: Box<Expr>,
        /// NOT.
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE or UNKNOWN.
    IsBool {
        /// The operand.
        expr: Box<Expr>,
        /// The tested value; `None` is UNKNOWN.
        value: Option<bool>,
        /// NOT.
        negated: bool,
    },
    /// IS [NOT] DISTINCT FROM.
    IsDistinct {
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
        /// NOT.
        negated: bool,
    },
    /// `[NOT] BETWEEN [SYMMETRIC]`.
    Between {
        /// The operand.
        expr: Box<Expr>,
        /// First bound.
        low: Box<Expr>,
        /// Second bound.
        high: Box<Expr>,
        /// SYMMETRIC: the bounds may be in either order.
        symmetric: bool,
        /// NOT.
        negated: bool,
    },
    /// `x [NOT] IN (list)`.
    InList {
        /// The operand.
        expr: Box<Expr>,
        /// The list of values; at least one.
        list: Vec<Expr>,
        /// NOT.
        negated: bool,
    },
    /// `x [NOT] IN (SELECT ...)`.
    InSubquery {
        /// The operand; a row for several columns.
        expr: Box<Expr>,
        /// The query.
        query: Box<Select>,
        /// NOT.
        negated: bool,
    },
    /// `x op ANY(array)`, `x op ALL(array)`.
    QuantifiedArray {
        /// Left operand.
        left: Box<Expr>,
        /// The operator.
        op: ObjectName,
        /// ALL; otherwise ANY.
        all: bool,
        /// The array.
        array: Box<Expr>,
    },
    /// `x op ANY(SELECT ...)`, `x op ALL(SELECT ...)`.
    QuantifiedSubquery {
        /// Left operand.
        left: Box<Expr>,
        /// The operator.
        op: ObjectName,
        /// ALL; otherwise ANY.
        all: bool,
        /// The rows.
        query: Box<Select>,
    },
    /// `[NOT] LIKE`, ILIKE, SIMILAR TO.
    Like {
        /// The kind of pattern.
        kind: LikeKind,
        /// The operator that implements it (`~~`, `!~~`, `~~*`, `!~~*`, `~`, `!~`), with `NOT` included.
        op: ObjectName,
        /// NOT.
        negated: bool,
        /// The operand.
        expr: Box<Expr>,
        /// The pattern; with ESCAPE, and always for SIMILAR TO, a call of `pg_catalog.like_escape` or
        /// `pg_catalog.similar_to_escape`.
        pattern: Box<Expr>,
    },
    /// `NULLIF(a, b)`.
    NullIf {
        /// First operand.
        left: Box<Expr>,
        /// Second operand.
        right: Box<Expr>,
    },
    /// CASE.
    Case {
        /// The operand with which each WHEN is compared, if there is one.
        operand: Option<Box<Expr>>,
        /// The arms; at least one.
        arms: Vec<CaseArm>,
        /// ELSE.
        default: Option<Box<Expr>>,
    },
    /// `COALESCE(...)`.
    Coalesce(Vec<Expr>),
    /// `GREATEST(...)`.
    Greatest(Vec<Expr>),
    /// `LEAST(...)`.
    Least(Vec<Expr>),
    /// A function call.
    Call(Box<Call>),
    /// `current_date` and similar keywords, which are not calls.
    SqlValue(SqlValue),
    /// `ARRAY[...]`; a nested bracket is an `Array` again.
    Array(Vec<Expr>),
    /// `ARRAY(SELECT ...)`.
    ArraySubquery(Box<Select>),
    /// `ROW(...)` or `(a, b)`.
    Row {
        /// The fields.
        fields: Vec<Expr>,
        /// Whether the keyword ROW is written.
        explicit: bool,
    },
    /// Subscripts and field selection: `x[1]`, `x[1:2]`, `(x).f`, `(x).*`.
    Indirection {
        /// The operand.
        base: Box<Expr>,
        /// The steps, left to right; at least one.
        steps: Vec<Step>,
    },
    /// `EXISTS (SELECT ...)`.
    Exists(Box<Select>),
    /// `(SELECT ...)` as a value.
    Scalar(Box<Select>),
    /// `x COLLATE c`.
    Collate {
        /// The operand.
        expr: Box<Expr>,
        /// The collation.
        collation: ObjectName,
    },
    /// DEFAULT, in VALUES of an INSERT or as an assigned value.
    Default,
    /// `CURRENT OF cursor`.
    CurrentOf(String),
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Bool(bool),
    /// An integer that fits 32 bits; a minus sign written before it is part of it.
    Integer(i32),
    /// Any other number, as written; it may be an integer beyond 32 bits.
    Number(String),
    /// A string, of type unknown.
    String(String),
}

/// The pattern languages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LikeKind {
    /// LIKE.
    Like,
    /// ILIKE.
    ILike,
    /// SIMILAR TO.
    Similar,
}

/// One WHEN of a CASE.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseArm {
    /// The condition, or the value that is compared with the operand.
    pub condition: Expr,
    /// The result.
    pub result: Expr,
    /// The position of WHEN.
    pub pos: Pos,
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The function's name.
    pub name: ObjectName,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// `f(*)`; then `args` is empty.
    pub star: bool,
    /// `f(DISTINCT ...)`.
    pub distinct: bool,
    /// Whether the last argument is marked VARIADIC.
    pub variadic: bool,
    /// `f(... ORDER BY ...)`.
    pub order_by: Vec<SortItem>,
    /// `FILTER (WHERE ...)`.
    pub filter: Option<Expr>,
    /// Whether it implements a special form such as `EXTRACT(x FROM y)` or `AT TIME ZONE`, and was not written as a
    /// call.
    pub special_form: bool,
}

/// One step of an indirection.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// `.name`.
    Field(String),
    /// `.*`.
    Star,
    /// `[x]`.
    Index(Expr),
    /// `[a:b]`, either side may be absent.
    Slice(Option<Expr>, Option<Expr>),
}

/// A value that is written as a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlValue {
    /// CURRENT_DATE.
    CurrentDate,
    /// CURRENT_TIME, with its precision if given.
    CurrentTime(Option<i32>),
    /// CURRENT_TIMESTAMP, with its precision if given.
    CurrentTimestamp(Option<i32>),
    /// LOCALTIME, with its precision if given.
    LocalTime(Option<i32>),
    /// LOCALTIMESTAMP, with its precision if given.
    LocalTimestamp(Option<i32>),
    /// CURRENT_ROLE.
    CurrentRole,
    /// CURRENT_USER.
    CurrentUser,
    /// USER.
    User,
    /// SESSION_USER.
    SessionUser,
    /// CURRENT_CATALOG.
    CurrentCatalog,
    /// CURRENT_SCHEMA.
    CurrentSchema,
}

impl Expr {
    /// Creates an expression.
    pub fn new(kind: ExprKind, pos: Pos) -> Self {
        Self { kind, pos }
    }

    /// Returns the start of the expression's text, to which most errors about its value point: the leftmost position of
    /// the
    /// node and its left operands.
    pub fn start(&self) -> Pos {
        use ExprKind as K;
        let (mut node, mut at) = (self, Pos::NONE);
        // Iterative, since a chain of operators nests to the left.
        loop {
            at = at.leftmost(node.pos);
            node = match &node.kind {
                K::Operator { left: Some(left), .. }
                | K::IsDistinct { left, .. }
                | K::QuantifiedArray { left, .. }
                | K::QuantifiedSubquery { left, .. }
                | K::NullIf { left, .. } => left,
                K::Cast { expr, ty } => {
                    at = at.leftmost(ty.pos);
                    expr
                }
                K::IsNull { expr, .. }
                | K::IsBool { expr, .. }
                | K::Between { expr, .. }
                | K::InList { expr, .. }
                | K::InSubquery { expr, .. }
                | K::Like { expr, .. }
                | K::Collate { expr, .. } => expr,
                K::Indirection { base, .. } => base,
                K::And(terms) | K::Or(terms) => match terms.first() {
                    Some(first) => first,
                    None => return at,
                },
                K::Call(call) => match call.args.first() {
                    Some(first) => first,
                    None => return at,
                },
                _ => return at,
            };
        }
    }
}

impl Literal {
    /// Returns whether it is NULL.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }
}
