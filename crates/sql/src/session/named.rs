//! `NamedSink`: passes rows on as text, in which OIDs of the `reg*` types are replaced by the names that they stand
//! for.
//!
//! Only the session knows the names, which depend on the catalog and the search path, so the text functions of the
//! types cannot do it. Rows in binary format, and rows that are not sent, keep their OIDs.

use std::sync::Arc;

use crate::{
    builtin::{self, SystemFunctions},
    error::Result,
    exec::RowSink,
    types::{Array, Value, oid},
};

/// A column whose values are named: its place, and the source of the naming function.
pub(super) type NamedColumn = (usize, &'static str);

/// Returns the columns whose values are sent as names. `is_text` tells whether a column is sent as text.
pub(super) fn named_columns(types: impl Iterator<Item = u32>, is_text: impl Fn(usize) -> bool) -> Vec<NamedColumn> {
    let output = |ty| builtin::catalog_output(ty).or_else(|| builtin::catalog_output(oid::element_of(ty)?));
    let named = types.enumerate().filter_map(|(place, ty)| Some((place, output(ty)?)));
    named.filter(|(place, _)| is_text(*place)).collect()
}

/// A sink that passes rows on with the values of some columns named.
pub(super) struct NamedSink<'a> {
    /// The receiver of the rows.
    pub(super) inner: &'a mut dyn RowSink,
    /// The columns to name.
    pub(super) columns: &'a [NamedColumn],
    /// The functions that return the names.
    pub(super) system: &'a dyn SystemFunctions,
}

impl NamedSink<'_> {
    /// Returns the name of a value, or of each element of an array.
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
