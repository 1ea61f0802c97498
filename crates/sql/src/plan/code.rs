//! `Code`: an expression compiled for evaluation. Names are slots of frames, procedures are function pointers.
//!
//! Not the bound tree (`analyze::bound`): nothing here is printed back as SQL, and a relabelling is gone.
//!
//! # Invariants
//! - K1. `Slot(n)` is below the size of the frame it is evaluated over; `Outer { up, slot }` has `up >= 1`.
//! - K2. `Subquery(id)` names an entry of `Plan::subplans`, and every entry is named by one expression.
//!
//! Checked by the tests of `exec`.

use crate::{
    analyze::bound::RowComparison,
    builtin::{Conversion, Implementation, ScalarFn, TypedFn},
    types::{SqlType, Value},
};

/// A compiled expression.
#[derive(Clone, Debug)]
pub enum Code {
    /// A constant.
    Const(Value),
    /// A parameter, from 0.
    Param(usize),
    /// A slot of the frame of the level it stands in.
    Slot(usize),
    /// A slot of an enclosing level's frame (K1).
    Outer {
        /// Levels out, at least 1.
        up: usize,
        /// Which slot there.
        slot: usize,
    },
    /// A function call.
    Call(Box<Call>),
    /// A conversion of a value.
    Cast(Box<CastCode>),
    /// AND of all.
    And(Box<[Code]>),
    /// OR of all.
    Or(Box<[Code]>),
    /// NOT.
    Not(Box<Code>),
    /// IS [NOT] NULL.
    IsNull {
        /// What is tested.
        arg: Box<Code>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE, UNKNOWN.
    BooleanTest {
        /// What is tested.
        arg: Box<Code>,
        /// The value it is compared with; `None` is UNKNOWN.
        value: Option<bool>,
        /// IS NOT.
        negated: bool,
    },
    /// IS [NOT] DISTINCT FROM.
    Distinct(Box<Pair>, bool),
    /// CASE.
    Case(Box<Case>),
    /// The operand of the innermost simple CASE around.
    CaseOperand,
    /// First argument that is not NULL.
    Coalesce(Box<[Code]>),
    /// NULL when both are equal, else the left one.
    NullIf(Box<Pair>),
    /// GREATEST or LEAST over values of one type.
    Extreme {
        /// GREATEST.
        greatest: bool,
        /// Candidates.
        args: Box<[Code]>,
        /// OID of their type.
        oid: u32,
    },
    /// `arg = ANY (list)`, or `arg <> ALL (list)` when negated.
    InList(Box<InList>),
    /// `arg op ANY (array)`, `arg op ALL (array)`.
    ArrayCompare {
        /// The value, the array and the operator's procedure.
        pair: Box<Pair>,
        /// ALL instead of ANY.
        all: bool,
    },
    /// A comparison of row values.
    RowCompare(Box<RowCompare>),
    /// A row value.
    Row(Box<[Code]>),
    /// An array of elements of the type with this OID.
    Array(Box<[Code]>, u32),
    /// `array[index]`.
    Subscript(Box<[Code; 2]>),
    /// A subquery (K2).
    Subquery(usize),
}

/// How a procedure is called.
#[derive(Clone, Debug)]
pub enum Function {
    /// From its arguments.
    Scalar(ScalarFn),
    /// From its arguments and their types.
    Typed(TypedFn),
    /// By the session or the catalog.
    System(&'static str),
    /// Not at all: it gives rows or aggregates, which analysis keeps out of plain expressions.
    Misplaced(&'static str),
}

impl Function {
    /// Returns how a procedure is called.
    pub fn of(implementation: &Implementation, name: &'static str) -> Self {
        match *implementation {
            Implementation::Scalar(function) => Self::Scalar(function),
            Implementation::Typed(function) => Self::Typed(function),
            Implementation::System(source) => Self::System(source),
            Implementation::Set(_) | Implementation::SystemSet(_) | Implementation::Aggregate(_) => {
                Self::Misplaced(name)
            }
        }
    }
}

/// A procedure with what a call of it needs besides the arguments.
#[derive(Clone, Debug)]
pub struct Callee {
    /// How it is called.
    pub function: Function,
    /// Whether a NULL argument makes the result NULL.
    pub strict: bool,
    /// Types of the arguments.
    pub types: Box<[u32]>,
}

/// A call of a procedure.
#[derive(Clone, Debug)]
pub struct Call {
    /// What is called.
    pub callee: Callee,
    /// Its arguments.
    pub args: Box<[Code]>,
}

/// Two arguments of a procedure that returns bool.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The procedure.
    pub callee: Callee,
    /// Left argument.
    pub left: Code,
    /// Right argument.
    pub right: Code,
}

/// A conversion between types.
#[derive(Clone, Debug)]
pub struct CastCode {
    /// What is converted.
    pub arg: Code,
    /// How.
    pub how: Conversion,
    /// From which type.
    pub source: u32,
    /// To which type.
    pub to: SqlType,
    /// Whether the user wrote it.
    pub explicit: bool,
}

/// CASE.
#[derive(Clone, Debug)]
pub struct Case {
    /// Operand of the simple form.
    pub operand: Option<Code>,
    /// Condition and result, in order.
    pub arms: Box<[(Code, Code)]>,
    /// ELSE.
    pub otherwise: Code,
}

/// IN over a list.
#[derive(Clone, Debug)]
pub struct InList {
    /// Compared value.
    pub arg: Code,
    /// Candidates.
    pub list: Box<[Code]>,
    /// Equality.
    pub equal: Callee,
    /// NOT IN.
    pub negated: bool,
}

/// A comparison of row values.
#[derive(Clone, Debug)]
pub struct RowCompare {
    /// Which.
    pub kind: RowComparison,
    /// Left fields.
    pub left: Box<[Code]>,
    /// Right fields.
    pub right: Box<[Code]>,
    /// Per field: equality.
    pub equal: Box<[Callee]>,
    /// Per field: less-than.
    pub less: Box<[Callee]>,
}
