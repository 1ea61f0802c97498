//! `Output`: the rows of one system relation while they are assembled, cell by named cell.
//!
//! It does not filter; the caller checks every row again. A cell that is not given is NULL if the column allows NULL,
//! otherwise the zero of its type (false, 0, the empty text), which PostgreSQL shows for features not in use.
//!
//! Checked by `system_tests`.

use collie_base::Lsn;

use crate::{
    catalog::relation::{Oid, Relation},
    types::{Interval, SqlType, Value, oid},
};

/// A cell: a column's name and the value.
pub(super) type Cell = (&'static str, Value);

/// Rows of one relation.
pub(super) struct Output<'a> {
    relation: &'a Relation,
    lookup: Option<(usize, &'a Value)>,
    template: Vec<Value>,
    rows: Vec<Vec<Value>>,
}

impl<'a> Output<'a> {
    /// Creates an output without rows.
    pub(super) fn new(relation: &'a Relation, lookup: Option<(usize, &'a Value)>) -> Self {
        let template = relation.columns.iter().map(|c| if c.not_null { zero(c.ty) } else { Value::Null }).collect();
        Self { relation, lookup, template, rows: Vec::new() }
    }

    /// Returns the relation's name.
    pub(super) fn name(&self) -> &'a str {
        &self.relation.name
    }

    /// Returns the relation's schema.
    pub(super) fn schema(&self) -> Oid {
        self.relation.schema
    }

    /// Adds a row. Cells in the order of the columns are the fastest.
    ///
    /// # Panics
    /// For a name that is not a column.
    pub(super) fn push<const N: usize>(&mut self, cells: [Cell; N]) {
        let columns = &self.relation.columns;
        let mut row = self.template.clone();
        let mut from = 0;
        for (name, value) in cells {
            let (before, after) = columns.split_at(from);
            let find = |column: &crate::catalog::relation::Column| &*column.name == name;
            let place = match after.iter().position(find) {
                Some(place) => from + place,
                None => before.iter().position(find).unwrap_or_else(|| panic!("{} has no column {name}", self.name())),
            };
            row[place] = value;
            from = place;
        }
        self.rows.push(row);
    }

    /// Returns the rows.
    pub(super) fn finish(self) -> Vec<Vec<Value>> {
        self.rows
    }

    /// Returns whether a row with this OID in `column` is wanted.
    pub(super) fn wants(&self, column: &str, oid: Oid) -> bool {
        match self.lookup_in(column) {
            None => true,
            Some(value) => value.as_i64() == Some(i64::from(oid)),
        }
    }

    /// Returns the only OID wanted in `column` if the look-up is by that column. For a value that is not an OID it
    /// returns
    /// 0, which no object has.
    pub(super) fn wanted_oid(&self, column: &str) -> Option<Oid> {
        let value = self.lookup_in(column)?;
        Some(value.as_i64().and_then(|oid| Oid::try_from(oid).ok()).unwrap_or(0))
    }

    /// Returns the only text wanted in `column` if the look-up is by that column.
    pub(super) fn wanted_text(&self, column: &str) -> Option<&'a str> {
        self.lookup_in(column)?.as_str()
    }

    fn lookup_in(&self, column: &str) -> Option<&'a Value> {
        let (place, value) = self.lookup?;
        (&*self.relation.columns.get(place)?.name == column).then_some(value)
    }
}

/// Returns the value for "nothing" in a column that is never NULL.
fn zero(ty: SqlType) -> Value {
    match ty.oid {
        oid::BOOL => Value::Bool(false),
        oid::CHAR => Value::Char(0),
        oid::INT2 => Value::Int2(0),
        oid::INT4 => Value::Int4(0),
        oid::INT8 => Value::Int8(0),
        oid::FLOAT4 => Value::Float4(0.0),
        oid::FLOAT8 => Value::Float8(0.0),
        oid::BYTEA => Value::bytea(&[]),
        oid::TIMESTAMPTZ => Value::TimestampTz(0),
        oid::PG_LSN => Value::PgLsn(Lsn::ZERO),
        oid::INTERVAL => Value::Interval(Interval::ZERO),
        oid::INT2VECTOR => vector(oid::INT2, Vec::new()),
        oid::OIDVECTOR => vector(oid::OID, Vec::new()),
        _ if oid::is_oid_like(ty.oid) => Value::Oid(0),
        _ => match oid::element_of(ty.oid) {
            Some(element) => Value::array(element, Vec::new()),
            None => Value::text(""),
        },
    }
}

/// Builds an `int2vector` or `oidvector`; their subscripts begin at 0.
pub(super) fn vector(element: u32, values: Vec<Value>) -> Value {
    Value::Array(std::sync::Arc::new(crate::types::Array::with_lower(element, 0, values)))
}

/// Builds a `text[]`.
pub(super) fn texts(values: impl IntoIterator<Item = String>) -> Value {
    Value::array(oid::TEXT, values.into_iter().map(Value::from).collect())
}

/// Converts a count to an `int2`.
pub(super) fn small(count: usize) -> Value {
    Value::Int2(i16::try_from(count).expect("a relation has at most 1600 columns"))
}

/// Builds a value of `information_schema`'s yes-or-no type.
pub(super) fn yes_no(yes: bool) -> Value {
    Value::text(if yes { "YES" } else { "NO" })
}
