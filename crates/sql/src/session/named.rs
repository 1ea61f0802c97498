//! `NamedSink`: rows on their way out as text, where OIDs of the `reg*` types become the names they stand for.
//!
//! Only the session knows the names (they depend on the catalog and the search path), so that the text functions of the
//! types cannot do it. Rows that go out in binary, or stay inside, keep their OIDs.

use std::sync::Arc;

use crate::{
    builtin::{self, SystemFunctions},
    error::Result,
    exec::RowSink,
    types::{Array, Value, oid},
};

/// A column whose values are named: its place, and the source of the function that names them.
pub(super) type NamedColumn = (usize, &'static str);

/// Returns the columns whose values go out as names. `is_text` says whether a column goes out as text.
pub(super) fn named_columns(types: impl Iterator<Item = u32>, is_text: impl Fn(usize) -> bool) -> Vec<NamedColumn> {
    let output = |ty| builtin::catalog_output(ty).or_else(|| builtin::catalog_output(oid::element_of(ty)?));
    let named = types.enumerate().filter_map(|(place, ty)| Some((place, output(ty)?)));
    named.filter(|(place, _)| is_text(*place)).collect()
}

/// Passes rows on with the values of some columns named.
pub(super) struct NamedSink<'a> {
    /// Where the rows go.
    pub(super) inner: &'a mut dyn RowSink,
    /// Columns to name.
    pub(super) columns: &'a [NamedColumn],
    /// Who knows the names.
    pub(super) system: &'a dyn SystemFunctions,
}

impl NamedSink<'_> {
    /// Returns what a value, or each element of an array, is called.
    fn named(&self, function: &str, value: &Value) -> Result<Value> {
        let call = |value: &Value| match value {
            Value::Null => Ok(Value::Null),
            value => self.system.call(function, std::slice::from_ref(value)),
        };
        match value {
            Value::Array(array) => {
                let values = array.values.iter().map(call).collect::<Result<_>>()?;
                Ok(Value::Array(Arc::new(Array { element_oid: oid::TEXT, dims: array.dims.clone(), values })))
            }
            value => call(value),
        }
    }
}

impl RowSink for NamedSink<'_> {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        let mut values = values.to_vec();
        for (place, function) in self.columns {
            if let Some(value) = values.get_mut(*place) {
                *value = self.named(function, value)?;
            }
        }
        self.inner.row(&values)
    }

    fn is_full(&self) -> bool {
        self.inner.is_full()
    }
}
