//! Calls: functions, casts written as calls, and aggregates.
//!
//! `resolve` decides which function a name means.
//!
//! # Invariants
//! - F1. An aggregate belongs to the nearest level that its arguments name, or to its own level if they name none. Its
//!   arguments are stored as seen from that level.
//! - F2. Equal aggregates of a level share one entry.

use super::{
    Analyzer, Typed,
    bound::{Aggregate, Expr, Range, RangeSource},
    equal, error,
    expr::exprs,
    resolve::{self, Called},
    scope::Clause,
    unsupported, visit,
};
use crate::{
    builtin::{self, Proc, ProcKind},
    error::{Result, SqlState},
    parse::ast::{self, ObjectName, Pos, SortDirection},
    types::{SqlType, oid},
};

/// A resolved function in FROM.
pub(super) struct TableFunction {
    pub(super) proc: &'static Proc,
    pub(super) args: Vec<Expr>,
    pub(super) ty: SqlType,
}

impl Analyzer<'_> {
    /// Analyzes a call in an expression.
    pub(super) fn call(&mut self, call: &ast::Call, pos: Pos) -> Result<Typed> {
        let seen = self.levels.last().map_or(0, |level| level.references.len());
        // While the arguments are analyzed, this is the position of an aggregate in them, for errors about nesting.
        let seen_aggregate = std::mem::replace(&mut self.aggregate_pos, Pos::NONE);
        let nodes = self.transform_all(&call.args)?;
        let inputs: Vec<u32> = nodes.iter().map(|node| node.ty().oid).collect();
        self.schema_exists(&call.name, pos)?;
        let called = resolve::function(&call.name, &inputs, call.variadic, pos)?;
        let (proc, arguments, expanded) = match called {
            Called::Cast(to) => {
                refuse_aggregate_parts(call, pos)?;
                self.aggregate_pos = seen_aggregate.or(self.aggregate_pos);
                let node = nodes.into_iter().next().expect("a cast written as a call has one argument");
                return self.cast(node, to, pos);
            }
            Called::Proc { proc, arguments, expanded } => (proc, arguments, expanded),
        };
        self.note_call(proc);
        let (nodes, result) = self.fit_arguments(&arguments, proc.result, nodes)?;
        let ty = SqlType::new(result);
        if proc.kind == ProcKind::Aggregate {
            if !call.star && nodes.is_empty() {
                return Err(error(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("{}(*) must be used to call a parameterless aggregate function", call.name),
                    pos,
                ));
            }
            return self.aggregate(call, proc, nodes, ty, seen, pos);
        }
        self.aggregate_pos = seen_aggregate.or(self.aggregate_pos);
        refuse_aggregate_parts(call, pos)?;
        let args = packed(proc, &arguments, expanded, nodes);
        if proc.returns_set {
            return self.set_target(proc, args, ty, pos);
        }
        Ok(Expr::Call { proc, args, ty, pos, operator: None }.at(pos))
    }

    /// Records what a function requires before the statement runs.
    pub(super) fn note_call(&mut self, proc: &Proc) {
        self.assigns_xid |= proc.source == "pg_current_xact_id";
        self.may_block |= proc.source == "pg_sleep" || proc.source.starts_with("pg_advisory");
    }

    /// Turns a set-returning function of the output list into a range that is joined laterally: each row of the set
    /// gives one row.
    fn set_target(&mut self, proc: &'static Proc, args: Vec<Expr>, ty: SqlType, pos: Pos) -> Result<Typed> {
        let level = self.level();
        match level.clause {
            Clause::Target if level.set_range.is_none() => {}
            Clause::Target | Clause::OrderBy | Clause::GroupBy | Clause::DistinctOn => {
                return Err(unsupported("a second set-returning function, or one outside the select list", pos)
                    .hint("Move the call into FROM."));
            }
            clause => {
                return Err(error(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("set-returning functions are not allowed in {}", clause.described()),
                    pos,
                ));
            }
        }
        let range = level.ranges.len();
        let name = proc.name.to_owned();
        level.set_range = Some(range);
        level.ranges.push(Range {
            name: name.clone(),
            source: RangeSource::Function { proc, args, ordinality: false },
            columns: vec![(name, ty)],
        });
        Ok(Expr::Column { up: 0, range, column: 0, ty }.at(pos))
    }

    /// Calls a function without arguments; the caller knows that the name exists.
    pub(super) fn plain_call(&mut self, name: &str, pos: Pos) -> Result<Typed> {
        let name = ObjectName { parts: vec!["pg_catalog".to_owned(), name.to_owned()], pos };
        match resolve::function(&name, &[], false, pos)? {
            Called::Proc { proc, .. } => {
                let ty = SqlType::new(proc.result);
                Ok(Expr::Call { proc, args: Vec::new(), ty, pos, operator: None }.at(pos))
            }
            Called::Cast(_) => unreachable!("a call without arguments is no cast"),
        }
    }

    /// Analyzes a call in FROM.
    pub(super) fn table_function(&mut self, function: &ast::Expr) -> Result<TableFunction> {
        let pos = function.pos;
        let call = match &function.kind {
            ast::ExprKind::Call(call) => call,
            ast::ExprKind::SqlValue(_) => {
                let node = self.transform(function)?;
                return match node.expr {
                    Expr::Call { proc, args, ty, .. } => Ok(TableFunction { proc, args, ty }),
                    _ => Err(unsupported("this value as a FROM item", pos)),
                };
            }
            _ => return Err(unsupported("this expression as a FROM item", function.start())),
        };
        refuse_aggregate_parts_in_from(call, pos)?;
        let nodes = self.transform_all(&call.args)?;
        let inputs: Vec<u32> = nodes.iter().map(|node| node.ty().oid).collect();
        let Called::Proc { proc, arguments, expanded } = resolve::function(&call.name, &inputs, call.variadic, pos)?
        else {
            return Err(unsupported("a cast as a FROM item", pos));
        };
        self.note_call(proc);
        if proc.kind == ProcKind::Aggregate {
            return Err(aggregate_refused(Clause::FromFunction, pos));
        }
        let (nodes, result) = self.fit_arguments(&arguments, proc.result, nodes)?;
        let args = packed(proc, &arguments, expanded, nodes);
        Ok(TableFunction { proc, args, ty: SqlType::new(result) })
    }

    /// Makes an aggregate call of a level (F1). `seen` is the number of references that the level had before the
    /// arguments.
    fn aggregate(
        &mut self,
        call: &ast::Call,
        proc: &'static Proc,
        nodes: Vec<Typed>,
        ty: SqlType,
        seen: usize,
        pos: Pos,
    ) -> Result<Typed> {
        let filter = match &call.filter {
            None => None,
            Some(filter) => {
                let outside = std::mem::replace(&mut self.level().clause, Clause::Filter);
                let node = self.transform(filter)?;
                let node = self.coerce_to_bool(node, "FILTER")?;
                self.level().clause = outside;
                Some(node.expr)
            }
        };
        let mut aggregate =
            Aggregate { proc, args: exprs(nodes), distinct: call.distinct, order_by: Vec::new(), filter, ty };
        for item in &call.order_by {
            let node = self.transform(&item.expr)?;
            let node = self.resolve_unknown(node)?;
            // With DISTINCT, an ORDER BY expression that repeats an argument is the argument as converted.
            let node =
                match aggregate.args.iter().find(
                    |arg| matches!(arg, Expr::Cast { arg, explicit: false, .. } if equal::same(arg, &node.expr, 0)),
                ) {
                    Some(arg) if aggregate.distinct => Typed::new(arg.clone(), node.pos),
                    _ => node,
                };
            self.ordering_exists(node.ty(), node.pos)?;
            if aggregate.distinct && !aggregate.args.iter().any(|arg| equal::same(arg, &node.expr, 0)) {
                return Err(error(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                    node.pos,
                ));
            }
            let (descending, nulls_first) = direction(item)?;
            aggregate.order_by.push((node.expr, descending, nulls_first));
        }
        if aggregate.distinct {
            for arg in &aggregate.args {
                self.equality_exists(arg.ty(), pos)?;
            }
        }
        let up = nearest(&mut aggregate).unwrap_or(0);
        if names_aggregate_of(&mut aggregate, up) {
            return Err(error(
                SqlState::GROUPING_ERROR,
                "aggregate function calls cannot be nested",
                self.aggregate_pos,
            ));
        }
        self.aggregate_pos = pos;
        let at = self.levels.len() - 1 - up;
        for level in &mut self.levels[at + 1..] {
            level.outer = true;
        }
        let level = &mut self.levels[at];
        if !level.clause.allows_aggregates() {
            return Err(aggregate_refused(level.clause, pos));
        }
        // References from inside the aggregate are not above grouping.
        if up == 0 {
            level.references.truncate(seen);
        } else {
            let by = -isize::try_from(up).expect("levels are few");
            visit::walk_aggregate(&mut aggregate, 0, &mut |node, depth| {
                if let Some(to) = visit::reference(node)
                    && *to >= depth + up
                {
                    *to = to.checked_add_signed(by).expect("the nearest level named is `up` levels out");
                }
                Ok(true)
            })?;
            // References that were recorded for that level while the arguments were analyzed are inside the aggregate.
            level.references.retain(|(.., at)| !call.args.iter().any(|arg| arg.start() == *at));
        }
        let index = match level.aggregates.iter().position(|old| equal::same_aggregate(old, &aggregate)) {
            Some(index) => index, // F2
            None => {
                level.aggregates.push(aggregate);
                level.aggregates.len() - 1
            }
        };
        Ok(Expr::Aggregate { up, index, ty }.at(pos))
    }

    /// Refuses a type without a btree order.
    pub(super) fn ordering_exists(&self, ty: SqlType, pos: Pos) -> Result<()> {
        if ty.oid == oid::RECORD || builtin::op_class_for(ty.oid).is_some() {
            return Ok(());
        }
        let name = SqlType::new(ty.oid).name();
        Err(error(
            SqlState::UNDEFINED_FUNCTION,
            format!("could not identify an ordering operator for type {name}"),
            pos,
        )
        .hint("Use an explicit ordering operator or modify the query."))
    }

    /// Refuses a type without equality.
    pub(super) fn equality_exists(&self, ty: SqlType, pos: Pos) -> Result<()> {
        if ty.oid == oid::RECORD || builtin::op_class_for(ty.oid).is_some() {
            return Ok(());
        }
        let name = SqlType::new(ty.oid).name();
        Err(error(
            SqlState::UNDEFINED_FUNCTION,
            format!("could not identify an equality operator for type {name}"),
            pos,
        ))
    }
}

/// Returns the nearest level that any part of the aggregate names.
fn nearest(aggregate: &mut Aggregate) -> Option<usize> {
    let mut nearest: Option<usize> = None;
    visit::walk_aggregate(aggregate, 0, &mut |node, depth| {
        if let Some(level) = visit::reference(node).and_then(|up| up.checked_sub(depth)) {
            nearest = Some(nearest.map_or(level, |old| old.min(level)));
        }
        Ok(true)
    })
    .expect("looking never fails");
    nearest
}

/// Returns whether a part of the aggregate is itself an aggregate of the same level.
fn names_aggregate_of(aggregate: &mut Aggregate, up: usize) -> bool {
    let mut found = false;
    visit::walk_aggregate(aggregate, 0, &mut |node, depth| {
        found |= matches!(node, Expr::Aggregate { up: to, .. } if *to == depth + up);
        Ok(true)
    })
    .expect("looking never fails");
    found
}

/// Packs the arguments that belong to a variadic parameter into one array.
fn packed(proc: &'static Proc, arguments: &[u32], expanded: usize, nodes: Vec<Typed>) -> Vec<Expr> {
    let mut args = exprs(nodes);
    if expanded == 0 || proc.variadic == oid::ANY {
        return args;
    }
    let items = args.split_off(arguments.len() - expanded);
    let element = items.first().map_or(proc.variadic, |item| item.ty().oid);
    let array = oid::array_of(element).unwrap_or(oid::TEXT_ARRAY);
    args.push(Expr::Array { items, ty: SqlType::new(array) });
    args
}

/// Returns whether an ORDER BY item is descending, and whether its NULLs come first.
pub(super) fn direction(item: &ast::SortItem) -> Result<(bool, bool)> {
    let descending = match &item.direction {
        SortDirection::Asc => false,
        SortDirection::Desc => true,
        SortDirection::Using(op) => match op.last() {
            "<" => false,
            ">" => true,
            _ => {
                return Err(error(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("operator {op} is not a valid ordering operator"),
                    item.pos,
                )
                .hint("Ordering operators must be \"<\" or \">\" members of btree operator families."));
            }
        },
    };
    Ok((descending, item.nulls_first.unwrap_or(descending)))
}

fn aggregate_refused(clause: Clause, pos: Pos) -> crate::error::SqlError {
    let text = match clause {
        Clause::From => "aggregate functions are not allowed in FROM clause of their own query level".to_owned(),
        clause => format!("aggregate functions are not allowed in {}", clause.described()),
    };
    error(SqlState::GROUPING_ERROR, text, pos)
}

/// Refuses the parts of a call that only aggregates may have.
fn refuse_aggregate_parts(call: &ast::Call, pos: Pos) -> Result<()> {
    let name = &call.name;
    let what = if call.star {
        format!("{name}(*) specified, but {name} is not an aggregate function")
    } else if call.distinct {
        format!("DISTINCT specified, but {name} is not an aggregate function")
    } else if !call.order_by.is_empty() {
        format!("ORDER BY specified, but {name} is not an aggregate function")
    } else if call.filter.is_some() {
        format!("FILTER specified, but {name} is not an aggregate function")
    } else {
        return Ok(());
    };
    Err(error(SqlState::WRONG_OBJECT_TYPE, what, pos))
}

fn refuse_aggregate_parts_in_from(call: &ast::Call, pos: Pos) -> Result<()> {
    let is_aggregate = builtin::procs_named(call.name.last()).iter().any(|proc| proc.kind == ProcKind::Aggregate);
    if is_aggregate { Err(aggregate_refused(Clause::FromFunction, pos)) } else { refuse_aggregate_parts(call, pos) }
}
