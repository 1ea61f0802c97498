//! `Relation`: the definition of a table with its indexes, as analysis, planning and execution see it.
//!
//! The encoding of a definition in the catalog family is in `record.rs`; rows are not dealt with here.
//!
//! # Invariants
//! - R1. Column numbers (`attnum`, from 1) are never reused; a dropped column keeps its place in `columns`.
//! - R2. `columns[i].attnum == i + 1`; every index column that is not an expression, included ones too, names a column
//!   that is not dropped.
//! - R3. A table is keyed by its primary key or, without one, by a hidden 8-byte row id. `key` says which, and never
//!   changes for one `cf`.
//! - R4. Whatever an index computes from a row (expressions of its key, its predicate) is immutable, names only live
//!   columns of the table, and is stored as text that `deparse` printed. The index of a primary key or of another
//!   constraint computes nothing.

use std::sync::Arc;

use collie_base::CfId;

use crate::{
    codec::{key::KeyColumn, row::RowLayout},
    types::{SqlType, Value},
};

pub use crate::parse::ast::ReferentialAction;

/// OID of an object: a table, index, schema, constraint. User objects start at 16384 and are never reused.
pub type Oid = u32;

/// A table.
#[derive(Clone, Debug)]
pub struct Relation {
    /// Its OID.
    pub oid: Oid,
    /// OID of its schema.
    pub schema: Oid,
    /// Its name.
    pub name: Arc<str>,
    /// Incremented by every change of its definition.
    pub version: u64,
    /// The place of its rows; system tables have none.
    pub storage: Storage,
    /// All columns, dropped ones included (R1).
    pub columns: Vec<Column>,
    /// The key of its rows (R3).
    pub key: TableKey,
    /// Every index; the primary key comes first if there is one.
    pub indexes: Vec<Arc<Index>>,
    /// CHECK constraints in the order in which they are evaluated (by name).
    pub checks: Vec<Check>,
    /// The foreign keys that this table declares, by name.
    pub foreign_keys: Vec<ForeignKey>,
    /// Storage parameters. They are kept and shown, and have no effect.
    pub options: Vec<(String, String)>,
    /// The layout of its rows; one type per entry of `columns`.
    pub layout: Arc<RowLayout>,
}

/// The source of a relation's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// A column family of the engine.
    Family(CfId),
    /// Computed from the catalog and the session when read (`pg_catalog`, `information_schema`).
    Virtual,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its number, from 1 (R1).
    pub attnum: i16,
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// Whether NULL is refused.
    pub not_null: bool,
    /// Default as an SQL expression that `deparse` printed, so that it reads back as the same bound tree.
    pub default: Option<Arc<str>>,
    /// Its value in rows that were written before the column was added.
    pub missing: Value,
    /// Whether it was dropped.
    pub dropped: bool,
}

/// The key of a table's rows.
#[derive(Clone, Debug)]
pub enum TableKey {
    /// By the primary key, described by `indexes[0]`.
    Primary,
    /// A hidden row id: 8 bytes, big-endian, assigned at each insert.
    RowId,
}

/// An index of a table. The primary key is one too; it has no family except the table's.
#[derive(Clone, Debug)]
pub struct Index {
    /// Its OID.
    pub oid: Oid,
    /// Its name.
    pub name: Arc<str>,
    /// Family of its entries; the table's own for the primary key.
    pub cf: CfId,
    /// Whether two rows may not have equal keys (NULLs are distinct).
    pub unique: bool,
    /// Whether it is the primary key.
    pub primary: bool,
    /// OID of the constraint that it implements, if any.
    pub constraint: Option<Oid>,
    /// Key columns in order.
    pub columns: Vec<IndexColumn>,
    /// The condition that a row meets to be in the index: the terms of its WHERE, each as text (R4). Empty for an index
    /// over all rows.
    pub predicate: Vec<Arc<str>>,
    /// INCLUDE: further columns, as indexes into `Relation::columns`. They are not part of the key, and entries do not
    /// hold them: a query reads them from the row.
    pub included: Vec<usize>,
}

/// One column of an index key.
#[derive(Clone, Debug)]
pub struct IndexColumn {
    /// Its content.
    pub part: KeyPart,
    /// Its encoding.
    pub key: KeyColumn,
}

/// The content of a column of an index key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// A column of the table, as an index into `Relation::columns`.
    Column(usize),
    /// An expression that is computed from the row.
    Expression(Arc<KeyExpression>),
}

/// An expression in an index key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyExpression {
    /// The name of the index column.
    pub name: Arc<str>,
    /// The expression over a row of the table, as text (R4).
    pub text: Arc<str>,
    /// Its type.
    pub ty: SqlType,
}

impl IndexColumn {
    /// Returns the table column that it holds, as an index into `Relation::columns`; `None` for an expression.
    pub fn column(&self) -> Option<usize> {
        match self.part {
            KeyPart::Column(place) => Some(place),
            KeyPart::Expression(_) => None,
        }
    }

    /// Returns its expression, if it is one.
    pub fn expression(&self) -> Option<&KeyExpression> {
        match &self.part {
            KeyPart::Column(_) => None,
            KeyPart::Expression(expression) => Some(expression),
        }
    }

    /// Returns its type. `relation` is the index's table.
    pub fn ty(&self, relation: &Relation) -> SqlType {
        match &self.part {
            KeyPart::Column(place) => relation.columns[*place].ty,
            KeyPart::Expression(expression) => expression.ty,
        }
    }

    /// Returns its name before names are made distinct: that of the column, or of the expression.
    pub fn name<'a>(&'a self, relation: &'a Relation) -> &'a str {
        match &self.part {
            KeyPart::Column(place) => &relation.columns[*place].name,
            KeyPart::Expression(expression) => &expression.name,
        }
    }
}

impl Index {
    /// Returns whether its entries depend on something computed from the row: a key expression or a predicate.
    pub fn is_computed(&self) -> bool {
        !self.predicate.is_empty() || self.columns.iter().any(|column| column.expression().is_some())
    }

    /// Returns whether a foreign key can refer to its columns: it is unique, covers all rows, and has no expressions.
    pub fn is_referable(&self) -> bool {
        self.unique && !self.is_computed()
    }

    /// Returns whether an expression or the predicate contains a literal. Then only a query with the same literal can
    /// use
    /// the index.
    pub fn has_literal(&self) -> bool {
        let expressions = self.columns.iter().filter_map(|column| Some(&*column.expression()?.text));
        self.predicate.iter().map(|term| &**term).chain(expressions).any(holds_literal)
    }

    /// Returns the columns of the table in its key, as indexes into `Relation::columns`.
    pub fn key_places(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().filter_map(IndexColumn::column)
    }

    /// Returns distinct names for its columns, included ones too: a name that occurs again gets a number appended.
    /// `relation` is its table.
    pub fn column_names(&self, relation: &Relation) -> Vec<String> {
        let keys = self.columns.iter().map(|column| column.name(relation));
        distinct_names(keys.chain(self.included.iter().map(|&place| &*relation.columns[place].name)))
    }
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its OID.
    pub oid: Oid,
    /// Its name.
    pub name: Arc<str>,
    /// The condition, as text that `deparse` printed.
    pub condition: Arc<str>,
}

/// A foreign key: for every row whose columns are not NULL there is a row in the referenced table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// Its OID.
    pub oid: Oid,
    /// Its name.
    pub name: Arc<str>,
    /// Referencing columns, as indexes into `Relation::columns`.
    pub columns: Vec<usize>,
    /// The referenced table.
    pub target: Oid,
    /// Referenced columns, in the order of `columns`.
    pub target_columns: Vec<usize>,
    /// The unique index over the referenced columns.
    pub index: Oid,
    /// MATCH FULL: all columns are NULL or none is. Otherwise one NULL column suffices to refer to no row.
    pub match_full: bool,
    /// The action of an update of the referenced columns.
    pub on_update: ReferentialAction,
    /// The action of a removal of the referenced row.
    pub on_delete: ReferentialAction,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets, as indexes into `Relation::columns`; empty means all.
    pub on_delete_columns: Vec<usize>,
    /// The time at which it is checked.
    pub timing: ConstraintTiming,
    /// Whether every row was checked. If the key was declared NOT VALID, only rows written since then were checked.
    pub validated: bool,
}

/// The time at which a constraint is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConstraintTiming {
    /// At the end of each statement.
    Immediate,
    /// DEFERRABLE: at the end of each statement, unless SET CONSTRAINTS defers it.
    Deferrable,
    /// INITIALLY DEFERRED: at the commit, unless SET CONSTRAINTS makes it immediate.
    Deferred,
}

impl Relation {
    /// Returns the columns that are not dropped, with their places in `columns`.
    pub fn live_columns(&self) -> impl Iterator<Item = (usize, &Column)> {
        self.columns.iter().enumerate().filter(|(_, column)| !column.dropped)
    }

    /// Finds a live column by name.
    pub fn column(&self, name: &str) -> Option<(usize, &Column)> {
        self.live_columns().find(|(_, column)| &*column.name == name)
    }

    /// Returns the primary key's index, if the table has one.
    pub fn primary_key(&self) -> Option<&Arc<Index>> {
        self.indexes.first().filter(|index| index.primary)
    }

    /// Returns the family of its rows.
    ///
    /// # Panics
    /// On a virtual relation; the caller checks `storage` first.
    pub fn family(&self) -> CfId {
        match self.storage {
            Storage::Family(cf) => cf,
            Storage::Virtual => panic!("{} has no rows of its own", self.name),
        }
    }
}

/// Returns whether an expression contains a string or a number.
fn holds_literal(text: &str) -> bool {
    let mut before = ' ';
    text.chars().any(|c| {
        let inside = before.is_alphanumeric() || matches!(before, '_' | '$');
        before = c;
        c == '\'' || (c.is_ascii_digit() && !inside)
    })
}

/// Returns the names, made distinct: a name that occurs again gets a number appended.
pub fn distinct_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for own in names {
        let mut name = own.to_owned();
        for number in 1.. {
            if !out.contains(&name) {
                break;
            }
            name = format!("{own}{number}");
        }
        out.push(name);
    }
    out
}
