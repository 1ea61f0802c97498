//! The states of aggregates over one group of rows. `aggregate` maps aggregates to states.
//!
//! # Invariants
//! - G1. No sum wraps: integer sums are kept in 128 bits and checked when they are returned.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::cmp::Ordering;
use std::sync::Arc;

use super::args::{array, boolean, bytea, float, float4, int, interval, new_text, numeric, out_of_range, text};
use super::implementation::Accumulator;
use crate::error::{Result, SqlError, SqlState};
use crate::types::numeric::Numeric;
use crate::types::{Array, ArrayDim, Interval, Value};

/// `count(*)`; with an argument, the number of rows in which it is not NULL.
#[derive(Default)]
pub(super) struct Count(i64);

impl Accumulator for Count {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        self.0 += i64::from(args.iter().all(|arg| !arg.is_null()));
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(Value::Int8(self.0))
    }
}

/// The result of an [`IntegerSum`].
#[derive(Clone, Copy)]
pub(super) enum IntegerResult {
    /// The sum as int8.
    Int8,
    /// The sum as numeric.
    Numeric,
    /// The sum divided by the count, as numeric.
    Average,
}

/// `sum` and `avg` of integers.
pub(super) struct IntegerSum {
    pub(super) result: IntegerResult,
    sum: i128,
    count: i64,
}

impl IntegerSum {
    pub(super) fn new(result: IntegerResult) -> Self {
        Self { result, sum: 0, count: 0 }
    }
}

impl Accumulator for IntegerSum {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if !args[0].is_null() {
            // Even 2^64 rows of the largest int8 fit.
            self.sum += i128::from(int(&args[0]));
            self.count += 1;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        if self.count == 0 {
            return Ok(Value::Null);
        }
        let sum = || Numeric::from_i128(self.sum, 0);
        Ok(match self.result {
            IntegerResult::Int8 => Value::Int8(i64::try_from(self.sum).map_err(|_| out_of_range("bigint"))?),
            IntegerResult::Numeric => Value::Numeric(sum()),
            IntegerResult::Average => Value::Numeric(sum().div(&Numeric::from(self.count))?),
        })
    }
}

/// `sum` and `avg` of numeric.
pub(super) struct NumericSum {
    average: bool,
    sum: Option<Numeric>,
    count: i64,
}

impl NumericSum {
    pub(super) fn new(average: bool) -> Self {
        Self { average, sum: None, count: 0 }
    }
}

impl Accumulator for NumericSum {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if args[0].is_null() {
            return Ok(());
        }
        let added = numeric(&args[0]);
        self.sum = Some(match &self.sum {
            None => added.clone(),
            Some(sum) => sum.add(added)?,
        });
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        match self.sum.take() {
            None => Ok(Value::Null),
            Some(sum) if self.average => Ok(Value::Numeric(sum.div(&Numeric::from(self.count))?)),
            Some(sum) => Ok(Value::Numeric(sum)),
        }
    }
}

/// `sum` and `avg` of intervals.
pub(super) struct IntervalSum {
    average: bool,
    sum: Option<Interval>,
    count: i64,
}

impl IntervalSum {
    pub(super) fn new(average: bool) -> Self {
        Self { average, sum: None, count: 0 }
    }
}

impl Accumulator for IntervalSum {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if args[0].is_null() {
            return Ok(());
        }
        let added = interval(&args[0]);
        self.sum = Some(match self.sum {
            None => added,
            Some(sum) => sum.checked_add(added)?,
        });
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        match self.sum {
            None => Ok(Value::Null),
            Some(sum) if self.average => sum.checked_div(self.count as f64).map(Value::Interval),
            Some(sum) => Ok(Value::Interval(sum)),
        }
    }
}

/// The result of a [`FloatSum`].
#[derive(Clone, Copy, PartialEq)]
pub(super) enum FloatResult {
    /// The sum of float4, added in single precision.
    Float4,
    /// The sum of float8.
    Float8,
    /// The average of either, as float8.
    Average,
}

/// `sum` and `avg` of floats.
pub(super) struct FloatSum {
    result: FloatResult,
    sum: f64,
    infinite_input: bool,
    count: i64,
}

impl FloatSum {
    pub(super) fn new(result: FloatResult) -> Self {
        Self { result, sum: 0.0, infinite_input: false, count: 0 }
    }
}

impl Accumulator for FloatSum {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if args[0].is_null() {
            return Ok(());
        }
        let added = float(&args[0]);
        self.infinite_input |= added.is_infinite();
        self.sum = if self.result == FloatResult::Float4 {
            #[expect(clippy::cast_possible_truncation, reason = "the sum is kept in single precision")]
            let sum = self.sum as f32;
            f64::from(sum + float4(&args[0]))
        } else {
            self.sum + added
        };
        self.count += 1;
        if self.sum.is_infinite() && !self.infinite_input {
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        if self.count == 0 {
            return Ok(Value::Null);
        }
        Ok(match self.result {
            #[expect(clippy::cast_possible_truncation, reason = "the sum was kept in single precision")]
            FloatResult::Float4 => Value::Float4(self.sum as f32),
            FloatResult::Float8 => Value::Float8(self.sum),
            FloatResult::Average => Value::Float8(self.sum / self.count as f64),
        })
    }
}

/// `min` and `max` in the order of a type.
pub(super) struct Extreme {
    type_oid: u32,
    replaces: Ordering,
    best: Value,
}

impl Extreme {
    /// Makes a state that keeps the value to which no other value compares as `replaces`; of equal values it keeps the
    /// last, as PostgreSQL does.
    pub(super) fn new(type_oid: u32, replaces: Ordering) -> Self {
        Self { type_oid, replaces, best: Value::Null }
    }
}

impl Accumulator for Extreme {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        let value = &args[0];
        let stays = || value.compare(&self.best, self.type_oid) == self.replaces.reverse();
        if !value.is_null() && (self.best.is_null() || !stays()) {
            self.best = value.clone();
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(std::mem::replace(&mut self.best, Value::Null))
    }
}

/// `bool_and` (starts with true) and `bool_or` (starts with false): the first value that differs from the start
/// decides.
pub(super) struct Every {
    start: bool,
    state: Option<bool>,
}

impl Every {
    pub(super) fn new(start: bool) -> Self {
        Self { start, state: None }
    }
}

impl Accumulator for Every {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if !args[0].is_null() {
            let value = boolean(&args[0]);
            self.state = Some(if self.state == Some(!self.start) { !self.start } else { value });
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.state.map_or(Value::Null, Value::Bool))
    }
}

/// `bit_and`, `bit_or` and `bit_xor`.
pub(super) struct Bits {
    operation: fn(i64, i64) -> i64,
    state: Value,
}

impl Bits {
    pub(super) fn new(operation: fn(i64, i64) -> i64) -> Self {
        Self { operation, state: Value::Null }
    }
}

impl Accumulator for Bits {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        const WIDTH: &str = "a bit operation on two integers of one width fits in it";
        if args[0].is_null() {
            return Ok(());
        }
        if self.state.is_null() {
            self.state = args[0].clone();
            return Ok(());
        }
        let bits = (self.operation)(int(&self.state), int(&args[0]));
        self.state = match self.state {
            Value::Int2(_) => Value::Int2(i16::try_from(bits).expect(WIDTH)),
            Value::Int4(_) => Value::Int4(i32::try_from(bits).expect(WIDTH)),
            _ => Value::Int8(bits),
        };
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(std::mem::replace(&mut self.state, Value::Null))
    }
}

/// `string_agg` of text: each value after the first is preceded by its row's separator.
#[derive(Default)]
pub(super) struct JoinedText(Option<String>);

impl Accumulator for JoinedText {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if args[0].is_null() {
            return Ok(());
        }
        match &mut self.0 {
            None => self.0 = Some(text(&args[0]).to_owned()),
            Some(joined) => {
                if !args[1].is_null() {
                    joined.push_str(text(&args[1]));
                }
                joined.push_str(text(&args[0]));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.0.take().map_or(Value::Null, new_text))
    }

    fn keeps_rows(&self) -> bool {
        true
    }
}

/// `string_agg` of bytea.
#[derive(Default)]
pub(super) struct JoinedBytes(Option<Vec<u8>>);

impl Accumulator for JoinedBytes {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        if args[0].is_null() {
            return Ok(());
        }
        match &mut self.0 {
            None => self.0 = Some(bytea(&args[0]).to_vec()),
            Some(joined) => {
                if !args[1].is_null() {
                    joined.extend_from_slice(bytea(&args[1]));
                }
                joined.extend_from_slice(bytea(&args[0]));
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.0.take().map_or(Value::Null, |joined| Value::Bytea(joined.into())))
    }

    fn keeps_rows(&self) -> bool {
        true
    }
}

/// `array_agg` of anything but arrays.
pub(super) struct Collected {
    element: u32,
    values: Option<Vec<Value>>,
}

impl Collected {
    pub(super) fn new(element: u32) -> Self {
        Self { element, values: None }
    }
}

impl Accumulator for Collected {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        self.values.get_or_insert_default().push(args[0].clone());
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        Ok(self.values.take().map_or(Value::Null, |values| Value::array(self.element, values)))
    }

    fn keeps_rows(&self) -> bool {
        true
    }
}

/// `array_agg` of arrays: they become the slices of one array with one more dimension.
#[derive(Default)]
pub(super) struct Stacked {
    first: Option<Arc<Array>>,
    values: Vec<Value>,
    count: u32,
}

impl Accumulator for Stacked {
    fn add(&mut self, args: &[Value]) -> Result<()> {
        let Value::Array(added) = &args[0] else {
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, "cannot accumulate null arrays"));
        };
        let bad_shape = |message: &str| Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        if added.dims.is_empty() {
            return bad_shape("cannot accumulate empty arrays");
        }
        if self.first.get_or_insert_with(|| Arc::clone(added)).dims != added.dims {
            return bad_shape("cannot accumulate arrays of different dimensionality");
        }
        self.values.extend_from_slice(&array(&args[0]).values);
        self.count += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<Value> {
        let Some(first) = self.first.take() else { return Ok(Value::Null) };
        let mut dims = vec![ArrayDim { len: self.count, lower: 1 }];
        dims.extend(&first.dims);
        let values = std::mem::take(&mut self.values);
        Ok(Value::Array(Arc::new(Array { element_oid: first.element_oid, dims, values })))
    }

    fn keeps_rows(&self) -> bool {
        true
    }
}
