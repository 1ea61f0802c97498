//! The expressions and predicates of indexes: their place numbers for plans that read the indexes, and their code for
//! plans
//! that write entries.
//!
//! The index that a query uses is chosen in `access`, and expressions are evaluated in `exec`.
//!
//! # Invariants
//! - K1. Equal places mean equal values: columns have their own, and expressions of one text and type share one after
//!   them.
//! - K2. Expressions of the catalog are bound only where entries are written; readers compare texts.
//!
//! Checked by `exec::tests::computed`.

use std::{collections::BTreeSet, sync::Arc};

use crate::{
    analyze::{self, AnalyzeContext, bound::Expr},
    builtin::{CastContext, Conversion, conversion},
    catalog::{
        relation::{Index, KeyExpression, KeyPart, Relation},
        snapshot::Catalog,
    },
    error::Result,
    plan::{
        PlanContext,
        compile::{Level, Planner},
        conjunct::column_of,
        node::{IndexCode, IndexCodes},
        walk::walk_expr,
    },
    types::{SqlType, TextContext},
};

/// Numbers of the columns and expressions of the indexes of one range: columns by their place, expressions after them
/// (K1).
pub(crate) struct KeyPlaces<'r> {
    relation: &'r Relation,
    range: usize,
    expressions: Vec<&'r KeyExpression>,
}

impl<'r> KeyPlaces<'r> {
    pub(crate) fn new(relation: &'r Relation, range: usize) -> Self {
        let mut expressions: Vec<&KeyExpression> = Vec::new();
        for column in relation.indexes.iter().flat_map(|index| &index.columns) {
            if let Some(new) = column.expression()
                && !expressions.iter().any(|old| same(old, new))
            {
                expressions.push(new);
            }
        }
        Self { relation, range, expressions }
    }

    /// Returns the number of an expression of a query, if it has one.
    pub(crate) fn place_of(&self, expr: &Expr) -> Option<usize> {
        column_of(expr, self.range).or_else(|| self.expression(expr))
    }

    /// Returns the numbers of the columns of an index.
    pub(crate) fn of(&self, index: &Index) -> Vec<usize> {
        let number = |part: &KeyPart| match part {
            KeyPart::Column(place) => *place,
            KeyPart::Expression(new) => {
                let at = self.expressions.iter().position(|old| same(old, new));
                self.relation.columns.len() + at.expect("every expression of the relation was collected")
            }
        };
        index.columns.iter().map(|column| number(&column.part)).collect()
    }

    fn expression(&self, mut expr: &Expr) -> Option<usize> {
        if self.expressions.is_empty() {
            return None;
        }
        loop {
            let text = analyze::text_over(expr, self.relation, self.range)?;
            let is_it = |known: &&KeyExpression| *known.text == *text && known.ty.oid == expr.ty().oid;
            if let Some(at) = self.expressions.iter().position(is_it) {
                return Some(self.relation.columns.len() + at);
            }
            // Under a conversion that changes nothing there may be an expression of the index.
            match expr {
                Expr::Cast { arg, to, .. }
                    if to.typmod < 0
                        && matches!(
                            conversion(arg.ty().oid, to.oid, CastContext::Explicit),
                            Some(Conversion::Same)
                        ) =>
                {
                    expr = arg;
                }
                _ => return None,
            }
        }
    }
}

fn same(old: &KeyExpression, new: &KeyExpression) -> bool {
    old.text == new.text && old.ty.oid == new.ty.oid
}

/// The expressions that one index computes, bound over its table as range 0.
struct BoundIndex {
    /// One per column of its key.
    columns: Vec<Expr>,
    predicate: Option<Expr>,
}

/// The expressions that the indexes of a table compute, bound.
pub(crate) struct BoundIndexes {
    relation: Arc<Relation>,
    /// By place in `Relation::indexes`; `None` for an index that computes nothing.
    indexes: Vec<Option<BoundIndex>>,
}

impl BoundIndexes {
    /// Binds the expressions of the indexes of `relation`.
    ///
    /// # Errors
    /// XX001 if the catalog contains an expression that does not read back.
    pub(crate) fn of(relation: &Arc<Relation>, catalog: &Catalog) -> Result<Self> {
        let bound = |index: &Arc<Index>| index.is_computed().then(|| bind(relation, index, catalog)).transpose();
        Ok(Self { relation: relation.clone(), indexes: relation.indexes.iter().map(bound).collect::<Result<_>>()? })
    }

    /// Returns the table columns on which the entries of the index at `at` depend.
    pub(crate) fn places(&self, at: usize) -> BTreeSet<usize> {
        let mut places: BTreeSet<usize> = self.relation.indexes[at].key_places().collect();
        if let Some(index) = &self.indexes[at] {
            for expr in index.columns.iter().chain(&index.predicate) {
                walk_expr(expr, 0, &mut |node, _| {
                    if let Expr::Column { column, .. } = node {
                        places.insert(*column);
                    }
                });
            }
        }
        places
    }

    /// Returns the table columns on which the entries of any index depend.
    pub(crate) fn all_places(&self) -> BTreeSet<usize> {
        (0..self.indexes.len()).flat_map(|at| self.places(at)).collect()
    }
}

fn bind(relation: &Arc<Relation>, index: &Index, catalog: &Catalog) -> Result<BoundIndex> {
    // Stored text depends on no setting (`deparse` P2).
    let cx = AnalyzeContext {
        catalog,
        search_path: &[],
        parameter_types: &[],
        parameters_allowed: false,
        text: &TextContext::default(),
        database: "",
    };
    let stored = |text: &str, ty: Option<SqlType>| analyze::stored_expression(text, Some(relation), ty, &cx);
    let column = |part: &KeyPart| match part {
        KeyPart::Column(place) => Ok(Expr::Column { up: 0, range: 0, column: *place, ty: relation.columns[*place].ty }),
        KeyPart::Expression(expression) => stored(&expression.text, None),
    };
    let columns = index.columns.iter().map(|it| column(&it.part)).collect::<Result<_>>()?;
    let mut terms = Vec::with_capacity(index.predicate.len());
    for term in &index.predicate {
        terms.push(stored(term, Some(SqlType::BOOL))?);
    }
    let predicate = if terms.len() > 1 { Some(Expr::And(terms)) } else { terms.pop() };
    Ok(BoundIndex { columns, predicate })
}

impl Planner<'_> {
    /// Compiles the expressions of the indexes of a table for the row in range 0 of the level; returns `None` if the
    /// indexes
    /// compute nothing.
    pub(crate) fn index_codes(&mut self, bound: &BoundIndexes) -> Result<Option<IndexCodes>> {
        if bound.indexes.iter().all(Option::is_none) {
            return Ok(None);
        }
        let mut codes = Vec::with_capacity(bound.indexes.len());
        for index in &bound.indexes {
            codes.push(match index {
                None => None,
                Some(index) => Some(self.index_code(index)?),
            });
        }
        Ok(Some(codes.into()))
    }

    fn index_code(&mut self, index: &BoundIndex) -> Result<IndexCode> {
        Ok(IndexCode {
            columns: self.compile_all(&index.columns)?,
            predicate: self.compile_opt(index.predicate.as_ref())?,
        })
    }
}

/// Compiles the expressions of an index of `relation` for a frame that holds the columns of a row, for code that fills
/// indexes; returns `None` if the index computes nothing.
///
/// # Errors
/// XX001 if the catalog contains an expression that does not read back.
pub fn index_code(relation: &Arc<Relation>, index: &Index, catalog: &Catalog) -> Result<Option<IndexCode>> {
    if !index.is_computed() {
        return Ok(None);
    }
    let mut planner = Planner::new(PlanContext { catalog, row_estimate: &|_| 0, unreadable: &[] });
    planner.levels.push(Level { bases: vec![0], slots: relation.columns.len(), ..Level::default() });
    planner.index_code(&bind(relation, index, catalog)?).map(Some)
}
