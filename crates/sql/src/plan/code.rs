//! `Code`: an expression compiled for evaluation. Names are slots of frames, procedures are function pointers.
//!
//! It is not the bound tree (`analyze::bound`): nothing here is printed back as SQL, and relabelings are gone.
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
    /// A slot of the frame of its own level.
    Slot(usize),
    /// A slot of an enclosing level's frame (K1).
    Outer {
        /// Levels out, at least 1.
        up: usize,
        /// The slot of that frame.
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
        /// The operand.
        arg: Box<Code>,
        /// IS NOT NULL.
        negated: bool,
    },
    /// IS [NOT] TRUE, FALSE, UNKNOWN.
    BooleanTest {
        /// The operand.
        arg: Box<Code>,
        /// The value that it is compared with; `None` is UNKNOWN.
        value: Option<bool>,
        /// IS NOT.
        negated: bool,
    },
    /// IS [NOT] DISTINCT FROM.
    Distinct(Box<Pair>, bool),
    /// CASE.
    Case(Box<Case>),
    /// The operand of the innermost enclosing simple CASE.
    CaseOperand,
    /// The first argument that is not NULL.
    Coalesce(Box<[Code]>),
    /// NULL if both are equal, otherwise the left one.
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
    /// `arg = ANY (list)`, or `arg <> ALL (list)` if negated.
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

/// The implementation of a procedure.
#[derive(Clone, Debug)]
pub enum Function {
    /// Called with its arguments.
    Scalar(ScalarFn),
    /// Called with its arguments and their types.
    Typed(TypedFn),
    /// Called through the session or the catalog.
    System(&'static str),
    /// Not callable: it returns rows or aggregates, which analysis keeps out of plain expressions.
    Misplaced(&'static str),
}

impl Function {
    /// Returns the implementation of a procedure.
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

/// A procedure, with what a call needs in addition to the arguments.
#[derive(Clone, Debug)]
pub struct Callee {
    /// Its implementation.
    pub function: Function,
    /// Whether a NULL argument makes the result NULL.
    pub strict: bool,
    /// Types of the arguments.
    pub types: Box<[u32]>,
}

/// A call of a procedure.
#[derive(Clone, Debug)]
pub struct Call {
    /// The procedure.
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
    /// The operand.
    pub arg: Code,
    /// The kind of conversion.
    pub how: Conversion,
    /// The source type.
    pub source: u32,
    /// The target type.
    pub to: SqlType,
    /// Whether it was written explicitly.
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
    /// The comparison.
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
