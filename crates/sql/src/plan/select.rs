//! Plans query levels: SELECT, VALUES, set operations, and the grouping, DISTINCT, ORDER BY, LIMIT and row locks above
//! them.
//!
//! # Invariants
//! - S1. Row locks are above the sort and below LIMIT.
//! - S2. A sort is omitted only where the path below gives the order.

use std::collections::BTreeSet;

use crate::{
    analyze::bound::{self, Expr, FromItem, Query, Range, RangeSource, Select, SetKind, SetOperation, ValuesQuery},
    builtin::Implementation,
    error::{Result, SqlError, SqlState},
    plan::{
        access::Wanted,
        code::Code,
        compile::{Level, Planner},
        conjunct::{Conjunct, column_of, split, strip},
        indexed::KeyPlaces,
        join::Inputs,
        node::{
            AggregateCall, Aggregation, Distinct, Filter, Kind, Limit, LockRows, LockTarget, Node, Order, Project,
            QueryPlan, SetOperationNode, Sort, SubqueryScan, SubquerySource, Target, ValuesScan,
        },
        walk::{MAX_RANGES, ranges_of, walk_select},
    },
    types::SqlType,
};

/// The assumed share of rows that are distinct groups.
const GROUP_SHARE: f64 = 0.1;

/// Returns the columns, per range of the level, that a walk finds to be read.
pub(crate) fn needed_columns(
    ranges: &[Range],
    walk: impl FnOnce(&mut dyn FnMut(&Expr, usize)),
) -> Vec<BTreeSet<usize>> {
    let mut needed = vec![BTreeSet::new(); ranges.len()];
    walk(&mut |expr, depth| {
        if let Expr::Column { up, range, column, .. } = expr
            && *up == depth
            && let Some(columns) = needed.get_mut(*range)
        {
            columns.insert(*column);
        }
    });
    needed
}

/// Checks the number of ranges and assigns their slots.
pub(crate) fn level_of(ranges: &[Range]) -> Result<Level> {
    if ranges.len() > MAX_RANGES {
        return Err(SqlError::new(
            SqlState::STATEMENT_TOO_COMPLEX,
            format!("a query level of {} tables is beyond the limit of {MAX_RANGES}", ranges.len()),
        ));
    }
    let mut level = Level::default();
    for range in ranges {
        let base = level.take(range.columns.len());
        level.bases.push(base);
    }
    Ok(level)
}

fn order(key: &bound::SortKey, ty: SqlType) -> Order {
    Order { oid: ty.oid, descending: key.descending, nulls_first: key.nulls_first }
}

/// Returns the conditions of a level that are checked again for a changed row: WHERE, and ON of joins that do not keep
/// unmatched rows.
pub(crate) fn recheck_conditions<'e>(from: Option<&'e FromItem>, filter: Option<&'e Expr>) -> Vec<Conjunct<'e>> {
    fn collect<'e>(item: &'e FromItem, out: &mut Vec<Conjunct<'e>>) {
        match item {
            FromItem::Range(_) => {}
            FromItem::Join { kind: bound::JoinKind::Inner, left, right, on } => {
                collect(left, out);
                collect(right, out);
                split(on.as_ref(), out);
            }
            FromItem::Join { kind: bound::JoinKind::Left, left, .. } => collect(left, out),
            FromItem::Join { kind: bound::JoinKind::Full, .. } => {}
        }
    }
    let mut out = Vec::new();
    if let Some(from) = from {
        collect(from, &mut out);
    }
    split(filter, &mut out);
    out
}

impl Planner<'_> {
    /// Plans a query.
    pub(crate) fn query(&mut self, query: &Query) -> Result<QueryPlan> {
        match query {
            Query::Select(select) => self.select(select),
            Query::SetOperation(both) => self.set_operation(both),
            Query::Values(values) => self.values(values),
        }
    }

    /// Splits the WHERE condition of a level into its terms, and counts them.
    pub(crate) fn terms<'e>(&mut self, filter: Option<&'e Expr>) -> Vec<Conjunct<'e>> {
        let mut terms = Vec::new();
        split(filter, &mut terms);
        self.predicates += terms.len();
        terms
    }

    fn select(&mut self, select: &Select) -> Result<QueryPlan> {
        let mut level = level_of(&select.ranges)?;
        let needed = needed_columns(&select.ranges, |visit| walk_select(select, 0, visit));
        let mut key_slots = vec![None; select.ranges.len()];
        for range in select.locking.iter().map(|locking| locking.range) {
            if matches!(&select.ranges[range].source, RangeSource::Table(_)) && key_slots[range].is_none() {
                key_slots[range] = Some(level.take(1));
            }
        }
        level.key_base = level.take(select.group_by.len());
        level.call_base = level.take(select.aggregates.len());
        let first = level.take(select.targets.len());
        self.levels.push(level);
        let inputs = Inputs {
            ranges: &select.ranges,
            needed: needed.into_iter().map(|columns| columns.into_iter().collect()).collect(),
            key_slots,
        };
        let node = self.select_node(select, &inputs, first);
        let level = self.levels.pop().expect("the level was pushed above");
        Ok(QueryPlan { node: node?, slots: level.slots, first, width: select.visible })
    }

    fn select_node(&mut self, select: &Select, inputs: &Inputs<'_>, first: usize) -> Result<Node> {
        let wanted_keys = wanted_keys(select);
        let wanted =
            wanted_keys.as_ref().map(|(range, keys)| Wanted { range: *range, keys, limited: select.limit.is_some() });
        let conjuncts = self.terms(select.filter.as_ref());
        let (mut node, ordered) = match &select.from {
            Some(from) => {
                let joined = self.join_tree(inputs, from, conjuncts, 0, wanted.as_ref())?;
                (joined.node, joined.ordered)
            }
            None => {
                let node = Node { kind: Kind::Once, rows: 1.0 };
                let node = match self.condition(&conjuncts)? {
                    Some(condition) => {
                        Node { kind: Kind::Filter(Box::new(Filter { child: node, condition })), rows: 1.0 }
                    }
                    None => node,
                };
                (node, false)
            }
        };
        if select.grouped {
            node = self.aggregation(select, node)?;
        } else if let Some(having) = self.compile_opt(select.having.as_ref())? {
            let rows = node.rows;
            node = Node { kind: Kind::Filter(Box::new(Filter { child: node, condition: having })), rows };
        }
        let rows = node.rows;
        let targets = self.compile_all(&select.targets)?;
        node = Node { kind: Kind::Project(Box::new(Project { child: node, first, targets })), rows };
        if let bound::Distinct::All = select.distinct {
            let keys = (0..select.visible).map(|i| (first + i, select.targets[i].ty().oid)).collect();
            node = Node { kind: Kind::Distinct(Box::new(Distinct { child: node, keys })), rows };
        }
        // Locks need the columns and keys of the rows after the sort, to lock and to check them again (S1).
        let locks = self.lock_targets(select, inputs);
        if !select.order_by.is_empty() && !ordered {
            let mut saved: Vec<usize> = (first..first + select.targets.len()).collect();
            if !locks.is_empty() {
                saved.extend(self.slots_of(inputs, u128::MAX));
            }
            let keys =
                select.order_by.iter().map(|key| (first + key.target, order(key, select.targets[key.target].ty())));
            let keys = keys.collect();
            let direct = locks.is_empty() && !matches!(select.distinct, bound::Distinct::On(_));
            let bound = self.sort_bound(direct, select.limit.as_ref(), select.offset.as_ref())?;
            node = Node { kind: Kind::Sort(Box::new(Sort { child: node, keys, saved: saved.into(), bound })), rows };
        }
        if let bound::Distinct::On(targets) = &select.distinct {
            let keys = targets.iter().map(|&i| (first + i, select.targets[i].ty().oid)).collect();
            node = Node { kind: Kind::Distinct(Box::new(Distinct { child: node, keys })), rows };
        }
        if !locks.is_empty() {
            let conditions = recheck_conditions(select.from.as_ref(), select.filter.as_ref());
            let recheck = self.condition(&conditions)?;
            let targets = self.compile_all(&select.targets)?;
            let lock = LockRows { child: node, locks: locks.into(), recheck, first, targets };
            node = Node { kind: Kind::Lock(Box::new(lock)), rows };
        }
        self.limit(node, select.limit.as_ref(), select.offset.as_ref())
    }

    fn aggregation(&mut self, select: &Select, child: Node) -> Result<Node> {
        let mut calls = Vec::with_capacity(select.aggregates.len());
        for aggregate in &select.aggregates {
            let Implementation::Aggregate(make) = aggregate.proc.implementation else {
                return Err(SqlError::unsupported(format_args!("aggregate {}", aggregate.proc.name)));
            };
            let mut order_by = Vec::with_capacity(aggregate.order_by.len());
            for (expr, descending, nulls_first) in &aggregate.order_by {
                let oid = expr.ty().oid;
                let order = Order { oid, descending: *descending, nulls_first: *nulls_first };
                order_by.push((self.compile(expr)?, order));
            }
            calls.push(AggregateCall {
                make,
                types: aggregate.args.iter().map(|arg| arg.ty().oid).collect(),
                args: self.compile_all(&aggregate.args)?,
                distinct: aggregate.distinct,
                order_by: order_by.into(),
                filter: self.compile_opt(aggregate.filter.as_ref())?,
            });
        }
        let rows = if select.group_by.is_empty() { 1.0 } else { (child.rows * GROUP_SHARE).max(1.0) };
        let keys = self.compile_all(&select.group_by)?;
        let having = self.compile_opt(select.having.as_ref())?;
        let level = self.level();
        let group = Aggregation {
            child,
            keys,
            types: select.group_by.iter().map(|expr| expr.ty().oid).collect(),
            key_base: level.key_base,
            calls: calls.into(),
            call_base: level.call_base,
            having,
        };
        Ok(Node { kind: Kind::Aggregate(Box::new(group)), rows })
    }

    fn lock_targets(&mut self, select: &Select, inputs: &Inputs<'_>) -> Vec<LockTarget> {
        let mut locks = Vec::new();
        for &bound::Locking { range, strength, wait } in &select.locking {
            let RangeSource::Table(relation) = &select.ranges[range].source else { continue };
            let target = Target {
                relation: relation.clone(),
                alias: select.ranges[range].name.as_str().into(),
                base: self.level().bases[range],
                columns: inputs.needed[range].as_slice().into(),
                key_slot: inputs.key_slots[range],
                computed: None,
            };
            locks.push(LockTarget { target, strength, wait });
        }
        locks
    }

    fn sort_bound(
        &mut self,
        direct: bool,
        limit: Option<&Expr>,
        offset: Option<&Expr>,
    ) -> Result<Option<(Option<Code>, Option<Code>)>> {
        if !direct || limit.is_none() {
            return Ok(None);
        }
        Ok(Some((self.compile_opt(limit)?, self.compile_opt(offset)?)))
    }

    fn limit(&mut self, child: Node, limit: Option<&Expr>, offset: Option<&Expr>) -> Result<Node> {
        if limit.is_none() && offset.is_none() {
            return Ok(child);
        }
        let limit = self.compile_opt(limit)?;
        let offset = self.compile_opt(offset)?;
        let rows = match &limit {
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            Some(Code::Const(value)) => value.as_i64().map_or(child.rows, |rows| child.rows.min(rows as f64)),
            Some(_) => child.rows.min(100.0),
            None => child.rows,
        };
        Ok(Node { kind: Kind::Limit(Box::new(Limit { child, limit, offset })), rows })
    }

    /// Adds ORDER BY and LIMIT over columns in the slots from 0.
    fn order_columns(
        &mut self,
        mut node: Node,
        types: &[SqlType],
        order_by: &[bound::SortKey],
        limit: Option<&Expr>,
        offset: Option<&Expr>,
    ) -> Result<Node> {
        if !order_by.is_empty() {
            let rows = node.rows;
            let keys = order_by.iter().map(|key| (key.target, order(key, types[key.target]))).collect();
            let bound = self.sort_bound(true, limit, offset)?;
            let saved = (0..types.len()).collect();
            node = Node { kind: Kind::Sort(Box::new(Sort { child: node, keys, saved, bound })), rows };
        }
        self.limit(node, limit, offset)
    }

    fn set_operation(&mut self, both: &SetOperation) -> Result<QueryPlan> {
        let width = both.types.len();
        let left = self.input(&both.left, "*SELECT* 1")?;
        let right = self.input(&both.right, "*SELECT* 2")?;
        let keys: Box<[(usize, u32)]> = both.types.iter().enumerate().map(|(slot, ty)| (slot, ty.oid)).collect();
        let rows = left.rows + right.rows;
        let node = match both.kind {
            SetKind::Union => {
                let node = Node { kind: Kind::Append(vec![left, right]), rows };
                if both.all {
                    node
                } else {
                    Node { kind: Kind::Distinct(Box::new(Distinct { child: node, keys })), rows }
                }
            }
            SetKind::Intersect | SetKind::Except => {
                let rows = left.rows;
                let except = both.kind == SetKind::Except;
                let node = SetOperationNode { left, right, except, all: both.all, keys };
                Node { kind: Kind::SetOperation(Box::new(node)), rows }
            }
        };
        // LIMIT counts levels as if it were in its own level.
        self.levels.push(Level { slots: width, ..Level::default() });
        let node = self.order_columns(node, &both.types, &both.order_by, both.limit.as_ref(), both.offset.as_ref());
        self.levels.pop();
        Ok(QueryPlan { node: node?, slots: width, first: 0, width })
    }

    fn input(&mut self, query: &Query, alias: &str) -> Result<Node> {
        let query = self.query(query)?;
        let rows = query.node.rows;
        let source = SubquerySource::Query(query);
        let scan = SubqueryScan { alias: alias.into(), source, nested: false, base: 0, filter: None };
        Ok(Node { kind: Kind::Subquery(Box::new(scan)), rows })
    }

    fn values(&mut self, values: &ValuesQuery) -> Result<QueryPlan> {
        let width = values.types.len();
        self.levels.push(Level { slots: width, ..Level::default() });
        let node = self.values_node(values);
        self.levels.pop();
        Ok(QueryPlan { node: node?, slots: width, first: 0, width })
    }

    fn values_node(&mut self, values: &ValuesQuery) -> Result<Node> {
        let rows = values.rows.iter().map(|row| self.compile_all(row)).collect::<Result<Box<[_]>>>()?;
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let count = rows.len() as f64;
        let node = Node { kind: Kind::Values(Box::new(ValuesScan { base: 0, rows })), rows: count };
        self.order_columns(node, &values.types, &values.order_by, values.limit.as_ref(), values.offset.as_ref())
    }
}

/// Columns of one range, or expressions that an index has (as [`KeyPlaces`] numbers them), and their directions.
type WantedKeys = (usize, Vec<(usize, bool, bool)>);

/// Returns the order that a path could give instead of a sort: ORDER BY over columns of one range.
fn wanted_keys(select: &Select) -> Option<WantedKeys> {
    if select.grouped || select.order_by.is_empty() || !matches!(select.distinct, bound::Distinct::No) {
        return None;
    }
    let mut range = None;
    let mut keys = Vec::with_capacity(select.order_by.len());
    for key in &select.order_by {
        let target = &select.targets[key.target];
        let at = match strip(target) {
            Expr::Column { up: 0, range, .. } => *range,
            // An expression of one range: the number of its lowest bit is the range.
            _ => usize::try_from(ranges_of(target).trailing_zeros()).ok().filter(|&at| at < select.ranges.len())?,
        };
        if *range.get_or_insert(at) != at {
            return None;
        }
        let place = column_of(target, at).or_else(|| match &select.ranges[at].source {
            RangeSource::Table(relation) => KeyPlaces::new(relation, at).place_of(target),
            _ => None,
        });
        keys.push((place?, key.descending, key.nulls_first));
    }
    Some((range?, keys))
}
