//! Grouping: expressions above it may name only groups and aggregates (bound B3).
//!
//! # Invariants
//! - G1. After `regroup`, no column of the level stands above grouping outside `GroupKey` and `Aggregate`.
//! - G2. A column that is determined by its table's grouped primary key becomes an additional group key, which splits
//!   no group.

use super::{
    Analyzer,
    bound::{Expr, RangeSource},
    equal, error,
    scope::Level,
    target::Target,
    visit,
};
use crate::{
    error::{Result, SqlError, SqlState},
    parse::ast::Pos,
};

impl Analyzer<'_> {
    /// Rewrites the targets and HAVING of the current level, which is grouped (G1).
    pub(super) fn regroup(
        &mut self,
        group_by: &mut Vec<Expr>,
        targets: &mut [Target],
        having: Option<&mut Expr>,
    ) -> Result<()> {
        let level = self.level();
        let written = group_by.clone();
        for target in targets {
            replace(level, &written, group_by, &mut target.node.expr)?;
        }
        if let Some(having) = having {
            replace(level, &written, group_by, having)?;
        }
        Ok(())
    }
}

/// Replaces expressions that equal a group key, and columns that the keys determine, by group keys.
fn replace(level: &Level, written: &[Expr], group_by: &mut Vec<Expr>, expr: &mut Expr) -> Result<()> {
    visit::walk(expr, 0, &mut |node, depth| {
        if matches!(node, Expr::Const(..)) {
            return Ok(false);
        }
        if let Some(index) = group_by.iter().position(|key| equal::same(node, key, depth)) {
            *node = Expr::GroupKey { up: depth, index, ty: node.ty() };
            return Ok(false);
        }
        let Expr::Column { up, range, column, ty } = node else { return Ok(true) };
        if *up != depth {
            return Ok(false);
        }
        if !determined(level, written, *range) {
            return Err(ungrouped(level, *range, *column, depth > 0));
        }
        group_by.push(Expr::Column { up: 0, range: *range, column: *column, ty: *ty }); // G2
        *node = Expr::GroupKey { up: depth, index: group_by.len() - 1, ty: *ty };
        Ok(false)
    })
}

/// Returns whether the written keys contain the whole primary key of a range.
fn determined(level: &Level, written: &[Expr], range: usize) -> bool {
    let RangeSource::Table(relation) = &level.ranges[range].source else { return false };
    relation.primary_key().is_some_and(|key| {
        key.columns.iter().all(|part| {
            written.iter().any(|expr| {
                matches!(expr, Expr::Column { up: 0, range: r, column, .. } if *r == range && Some(*column) == part.column())
            })
        })
    })
}

fn ungrouped(level: &Level, range: usize, column: usize, inside_subquery: bool) -> SqlError {
    let source = &level.ranges[range];
    let name = format!("{}.{}", source.name, source.columns[column].0);
    let pos = level.references.iter().find(|(r, c, _)| *r == range && *c == column).map_or(Pos::NONE, |(.., pos)| *pos);
    let text = if inside_subquery {
        format!("subquery uses ungrouped column \"{name}\" from outer query")
    } else {
        format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function")
    };
    error(SqlState::GROUPING_ERROR, text, pos)
}
