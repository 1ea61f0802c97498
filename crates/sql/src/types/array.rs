//! `Array`: an array value with its dimensions and lower bounds.
//!
//! [`super::io`] has its text and binary forms.
//!
//! # Invariants
//! - A1. `values.len()` is the product of the dimensions' lengths; no dimensions means no values.
//! - A2. Every subscript of a value that a client or a function makes, and the one behind the last, fits in an `i32`.
//!   Whatever makes an array with given bounds calls [`Array::check_bounds`].

use std::cmp::Ordering;
use std::hash::Hasher;

use super::{Value, oid};
use crate::error::{Result, SqlError, SqlState};

/// Maximum number of dimensions of an array, as in PostgreSQL.
pub const MAX_DIMS: usize = 6;

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayDim {
    /// Number of elements, never 0.
    pub len: u32,
    /// Subscript of the first element; 1 unless declared otherwise.
    pub lower: i32,
}

/// An array value; elements are in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Type of the elements.
    pub element_oid: u32,
    /// The dimensions, outermost first; empty for the empty array.
    pub dims: Vec<ArrayDim>,
    /// The elements.
    pub values: Vec<Value>,
}

impl Array {
    /// Makes an array of one dimension with lower bound 1.
    pub fn new(element_oid: u32, values: Vec<Value>) -> Self {
        Self::with_lower(element_oid, 1, values)
    }

    /// Makes an array of one dimension with lower bound `lower`.
    pub fn with_lower(element_oid: u32, lower: i32, values: Vec<Value>) -> Self {
        let len = u32::try_from(values.len()).expect("an array has fewer than 2^32 elements");
        let dims = if len == 0 { Vec::new() } else { vec![ArrayDim { len, lower }] };
        Self { element_oid, dims, values }
    }

    /// Checks the bounds (A2).
    ///
    /// # Errors
    /// 54000 for a dimension whose subscripts do not fit.
    pub fn check_bounds(&self) -> Result<()> {
        let too_far = |dim: &&ArrayDim| i64::from(dim.lower) + i64::from(dim.len) > i64::from(i32::MAX);
        let Some(dim) = self.dims.iter().find(too_far) else { return Ok(()) };
        let text = format!("array lower bound is too large: {}", dim.lower);
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, text))
    }

    /// Returns the element at a subscript of a one-dimensional array; `None` outside its bounds.
    pub fn get(&self, subscript: i32) -> Option<&Value> {
        let [dim] = self.dims.as_slice() else { return None };
        let at = i64::from(subscript) - i64::from(dim.lower);
        self.values.get(usize::try_from(at).ok()?)
    }

    /// Orders two arrays as PostgreSQL does: elements first (NULL last), then count, dimensions, bounds.
    pub fn compare(&self, other: &Self) -> Ordering {
        for (left, right) in self.values.iter().zip(&other.values) {
            match left.compare(right, self.element_oid) {
                Ordering::Equal => {}
                unequal => return unequal,
            }
        }
        self.values
            .len()
            .cmp(&other.values.len())
            .then_with(|| self.dims.len().cmp(&other.dims.len()))
            .then_with(|| self.dims.iter().map(|d| d.len).cmp(other.dims.iter().map(|d| d.len)))
            .then_with(|| self.dims.iter().map(|d| d.lower).cmp(other.dims.iter().map(|d| d.lower)))
    }

    /// Feeds the elements to `state`, consistent with [`compare`](Self::compare).
    pub fn hash_into<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.values.len());
        for value in &self.values {
            value.hash_into(self.element_oid, state);
        }
    }

    /// Returns the array type's OID.
    pub fn array_oid(&self) -> u32 {
        oid::array_of(self.element_oid).unwrap_or(oid::ANYARRAY)
    }
}
