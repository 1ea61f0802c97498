//! Builders of bound trees.

use std::sync::Arc;

use crate::{
    analyze::bound::{
        Analyzed, Bound, Delete, Distinct, Expr, FromItem, Insert, JoinKind, Query, Range, RangeSource, Select, Update,
        ValuesQuery,
    },
    builtin,
    catalog::relation::Relation,
    parse::ast::Pos,
    types::{SqlType, Value},
};

pub(super) fn int(value: i32) -> Expr {
    Expr::Const(Value::Int4(value), SqlType::INT4)
}

pub(super) fn text(value: &str) -> Expr {
    Expr::Const(Value::text(value), SqlType::TEXT)
}

pub(super) fn null(ty: SqlType) -> Expr {
    Expr::Const(Value::Null, ty)
}

pub(super) fn param(index: usize, ty: SqlType) -> Expr {
    Expr::Param(index, ty)
}

/// Refers to column `column` of range `range` of this level.
pub(super) fn col(range: usize, column: usize, ty: SqlType) -> Expr {
    outer(0, range, column, ty)
}

pub(super) fn outer(up: usize, range: usize, column: usize, ty: SqlType) -> Expr {
    Expr::Column { up, range, column, ty }
}

/// Builds an operator call by name and argument types.
pub(super) fn op(name: &str, left: Expr, right: Expr) -> Expr {
    let operator = builtin::operators_named(name)
        .iter()
        .find(|operator| operator.left == left.ty().oid && operator.right == right.ty().oid)
        .unwrap_or_else(|| panic!("no operator {} {name} {}", left.ty().name(), right.ty().name()));
    Expr::Call {
        proc: builtin::proc_by_oid(operator.code).unwrap(),
        args: vec![left, right],
        ty: SqlType::new(operator.result),
        pos: Pos::NONE,
        operator: Some(name.into()),
    }
}

pub(super) fn range(relation: &Arc<Relation>) -> Range {
    Range {
        name: relation.name.to_string(),
        columns: relation.columns.iter().map(|column| (column.name.to_string(), column.ty)).collect(),
        source: RangeSource::Table(relation.clone()),
    }
}

pub(super) fn join(kind: JoinKind, left: FromItem, right: FromItem, on: Option<Expr>) -> FromItem {
    FromItem::Join { kind, left: Box::new(left), right: Box::new(right), on }
}

/// Builds a SELECT of targets from ranges that are cross joined.
pub(super) fn select(ranges: Vec<Range>, filter: Option<Expr>, targets: Vec<Expr>) -> Select {
    let from = (0..ranges.len()).map(FromItem::Range).reduce(|left, right| join(JoinKind::Inner, left, right, None));
    Select {
        ranges,
        from,
        filter,
        group_by: Vec::new(),
        aggregates: Vec::new(),
        grouped: false,
        having: None,
        visible: targets.len(),
        targets,
        distinct: Distinct::No,
        order_by: Vec::new(),
        limit: None,
        offset: None,
        locking: Vec::new(),
        returns_set: false,
    }
}

pub(super) fn analyzed(bound: Bound) -> Analyzed {
    Analyzed {
        bound,
        parameters: Vec::new(),
        columns: Vec::new(),
        modifying: Vec::new(),
        whole: Vec::new(),
        relations: Vec::new(),
        writes: true,
        lock_strength: None,
        assigns_xid: false,
        may_block: false,
    }
}

pub(super) fn query(select: Select) -> Analyzed {
    analyzed(Bound::Query(Query::Select(Box::new(select))))
}

/// Builds an INSERT of whole rows.
pub(super) fn insert(table: &Arc<Relation>, rows: Vec<Vec<Expr>>) -> Analyzed {
    let types = table.columns.iter().map(|column| column.ty).collect();
    let values = ValuesQuery { rows, types, order_by: Vec::new(), limit: None, offset: None };
    analyzed(Bound::Insert(Box::new(Insert {
        table: table.clone(),
        source: Query::Values(Box::new(values)),
        columns: (0..table.columns.len()).collect(),
        defaults: vec![None; table.columns.len()],
        checks: Vec::new(),
        on_conflict: None,
        returning: Vec::new(),
    })))
}

pub(super) fn update(table: &Arc<Relation>, assignments: Vec<(usize, Expr)>, filter: Option<Expr>) -> Analyzed {
    analyzed(Bound::Update(Box::new(Update {
        table: table.clone(),
        ranges: vec![range(table)],
        from: FromItem::Range(0),
        filter,
        assignments,
        checks: Vec::new(),
        returning: Vec::new(),
    })))
}

pub(super) fn delete(table: &Arc<Relation>, filter: Option<Expr>) -> Analyzed {
    analyzed(Bound::Delete(Box::new(Delete {
        table: table.clone(),
        ranges: vec![range(table)],
        from: FromItem::Range(0),
        filter,
        returning: Vec::new(),
    })))
}
