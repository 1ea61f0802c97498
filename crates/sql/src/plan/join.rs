//! Joins: from the FROM tree and conjuncts to scans and join operators.
//!
//! Inner joins are ordered greedily: first the input with the fewest rows, then always the input that is cheapest to
//! join
//! to the previous ones, by index look-up, by hash, or by nested loop. Outer joins stay where they are written.
//!
//! # Invariants
//! - N1. The conjuncts passed to a call are conditions on the result of its item, and the call applies all of them.

use crate::{
    analyze::bound::{Expr, FromItem, JoinKind, Range, RangeSource},
    builtin::{Implementation, Strategy},
    catalog::relation::Storage,
    error::{Result, SqlError},
    plan::{
        access::Wanted,
        code::{Code, Function},
        compile::{Planner, comparison, hash_type},
        conjunct::{Condition, Conjunct, column_of, condition, split},
        node::{
            Filter, FunctionScan, HashJoin, Kind, NestLoop, Node, RowsFunction, Scan, SubqueryScan, SubquerySource,
            Target, VirtualScan,
        },
        walk::{Ranges, lateral_ranges},
    },
};

/// The assumed number of rows of a system table.
const VIRTUAL_ROWS: f64 = 300.0;
/// The assumed number of rows of a function in FROM.
const FUNCTION_ROWS: f64 = 100.0;
/// The assumed number of rows of a subquery in FROM before it is planned.
const FEW_ROWS: f64 = 100.0;
/// The share of rows that a filter leaves.
const FILTER_SHARE: f64 = 0.2;

/// The ranges of the level being planned.
pub(crate) struct Inputs<'e> {
    pub(crate) ranges: &'e [Range],
    /// The columns that are read, per range.
    pub(crate) needed: Vec<Vec<usize>>,
    /// The slot for the key of each range's row, where needed.
    pub(crate) key_slots: Vec<Option<usize>>,
}

/// A planned part of the FROM tree.
pub(crate) struct Joined {
    pub(crate) node: Node,
    pub(crate) ranges: Ranges,
    /// Whether its rows are in the wanted order.
    pub(crate) ordered: bool,
}

/// Returns the ranges of a FROM item.
pub(crate) fn item_ranges(item: &FromItem) -> Ranges {
    match item {
        FromItem::Range(range) => 1 << range,
        FromItem::Join { left, right, .. } => item_ranges(left) | item_ranges(right),
    }
}

/// Returns the ranges outside an item that its subqueries and functions read.
fn item_lateral(item: &FromItem, inputs: &Inputs<'_>) -> Ranges {
    let own = item_ranges(item);
    let all = inputs
        .ranges
        .iter()
        .enumerate()
        .filter(|(range, _)| own & (1 << range) != 0)
        .fold(0, |all, (_, range)| all | lateral_ranges(&range.source));
    all & !own
}

fn flatten<'e>(item: &'e FromItem, leaves: &mut Vec<&'e FromItem>, conjuncts: &mut Vec<Conjunct<'e>>) {
    match item {
        FromItem::Join { kind: JoinKind::Inner, left, right, on } => {
            flatten(left, leaves, conjuncts);
            flatten(right, leaves, conjuncts);
            split(on.as_ref(), conjuncts);
        }
        leaf => leaves.push(leaf),
    }
}

/// Removes and returns the conjuncts that read only `ranges`.
fn take_within<'e>(conjuncts: &mut Vec<Conjunct<'e>>, ranges: Ranges) -> Vec<Conjunct<'e>> {
    let mut taken = Vec::new();
    conjuncts.retain(|conjunct| {
        let inside = conjunct.ranges & !ranges == 0 && !conjunct.volatile;
        if inside {
            taken.push(*conjunct);
        }
        !inside
    });
    taken
}

/// One equality between the two sides of a join.
struct HashKey<'e> {
    left: &'e Expr,
    right: &'e Expr,
    oid: u32,
}

/// Removes and returns the conjuncts that are equalities between the two sides.
fn take_hash_keys<'e>(
    conjuncts: &mut Vec<Conjunct<'e>>,
    left: Ranges,
    right: Ranges,
    bound: Ranges,
) -> Vec<HashKey<'e>> {
    let mut keys = Vec::new();
    conjuncts.retain(|conjunct| match hash_key(conjunct, left, right, bound) {
        Some(key) => {
            keys.push(key);
            false
        }
        None => true,
    });
    keys
}

fn hash_key<'e>(conjunct: &Conjunct<'e>, left: Ranges, right: Ranges, bound: Ranges) -> Option<HashKey<'e>> {
    let Expr::Call { proc, args, .. } = conjunct.expr else { return None };
    let [a, b] = args.as_slice() else { return None };
    if conjunct.volatile || comparison(proc)? != Strategy::Equal {
        return None;
    }
    let oid = hash_type(a.ty().oid, b.ty().oid)?;
    let (of_a, of_b) = (crate::plan::walk::ranges_of(a), crate::plan::walk::ranges_of(b));
    let is_of = |ranges: Ranges, side: Ranges| ranges & side != 0 && ranges & !(side | bound) == 0;
    if is_of(of_a, left) && is_of(of_b, right) {
        Some(HashKey { left: a, right: b, oid })
    } else if is_of(of_b, left) && is_of(of_a, right) {
        Some(HashKey { left: b, right: a, oid })
    } else {
        None
    }
}

impl Planner<'_> {
    /// Plans a FROM item under conjuncts (N1). The values of the `bound` ranges are already known.
    pub(crate) fn join_tree<'e>(
        &mut self,
        inputs: &Inputs<'e>,
        item: &'e FromItem,
        mut conjuncts: Vec<Conjunct<'e>>,
        bound: Ranges,
        wanted: Option<&Wanted<'_>>,
    ) -> Result<Joined> {
        match item {
            FromItem::Range(range) => self.range(inputs, *range, &conjuncts, bound, wanted),
            FromItem::Join { kind: JoinKind::Inner, .. } => {
                let mut leaves = Vec::new();
                flatten(item, &mut leaves, &mut conjuncts);
                self.inner(inputs, leaves, conjuncts, bound, wanted)
            }
            FromItem::Join { kind: JoinKind::Left, left, right, on } => {
                self.left(inputs, left, right, on.as_ref(), conjuncts, bound, wanted)
            }
            FromItem::Join { kind: JoinKind::Full, left, right, on } => {
                let mut rest = Vec::new();
                split(on.as_ref(), &mut rest);
                let left = self.join_tree(inputs, left, Vec::new(), bound, None)?;
                let right = self.join_tree(inputs, right, Vec::new(), bound, None)?;
                let keys = take_hash_keys(&mut rest, left.ranges, right.ranges, bound);
                if keys.is_empty() {
                    return Err(SqlError::unsupported("FULL JOIN without an equality between its sides"));
                }
                self.hash_join(inputs, left, right, &keys, (true, true), &rest, &conjuncts)
            }
        }
    }

    fn inner<'e>(
        &mut self,
        inputs: &Inputs<'e>,
        mut leaves: Vec<&'e FromItem>,
        mut conjuncts: Vec<Conjunct<'e>>,
        bound: Ranges,
        wanted: Option<&Wanted<'_>>,
    ) -> Result<Joined> {
        let mut done = bound;
        let mut current: Option<Joined> = None;
        while !leaves.is_empty() {
            let at = self.cheapest(inputs, &leaves, &conjuncts, done, bound, current.as_ref());
            let leaf = leaves.remove(at);
            let mask = item_ranges(leaf);
            let joined = match current.take() {
                None => {
                    let mine = take_within(&mut conjuncts, mask | bound);
                    self.join_tree(inputs, leaf, mine, bound, wanted)?
                }
                Some(left) => self.join_inner(inputs, left, leaf, &mut conjuncts, done, bound)?,
            };
            done |= mask;
            current = Some(joined);
        }
        let joined = current.expect("FROM has at least one item");
        self.filtered(joined, &conjuncts)
    }

    /// Chooses the leaf to join next.
    fn cheapest(
        &self,
        inputs: &Inputs<'_>,
        leaves: &[&FromItem],
        conjuncts: &[Conjunct<'_>],
        done: Ranges,
        bound: Ranges,
        current: Option<&Joined>,
    ) -> usize {
        let mut best = (f64::INFINITY, 0);
        for (at, leaf) in leaves.iter().enumerate() {
            if item_lateral(leaf, inputs) & !done != 0 {
                continue;
            }
            let (alone_rows, alone_cost) = self.estimate(inputs, leaf, conjuncts, bound);
            let cost = match current {
                None => alone_rows + alone_cost * 0.01,
                Some(current) => {
                    let mask = item_ranges(leaf);
                    let connected = conjuncts.iter().any(|conjunct| {
                        conjunct.ranges & mask != 0
                            && conjunct.ranges & current.ranges != 0
                            && conjunct.ranges & !(mask | done) == 0
                    });
                    let (rows, cost) = self.estimate(inputs, leaf, conjuncts, done);
                    let looked_up = current.node.rows * (cost + rows);
                    let hashed = alone_cost + alone_rows + current.node.rows;
                    if connected { looked_up.min(hashed) } else { 1e12 + current.node.rows * alone_rows }
                }
            };
            if cost < best.0 {
                best = (cost, at);
            }
        }
        best.1
    }

    /// Estimates the rows and the cost of an item if the values of the `bound` ranges are known.
    fn estimate(&self, inputs: &Inputs<'_>, item: &FromItem, conjuncts: &[Conjunct<'_>], bound: Ranges) -> (f64, f64) {
        match item {
            FromItem::Range(range) => {
                let within = bound | 1 << range;
                let mine: Vec<Conjunct<'_>> = conjuncts
                    .iter()
                    .filter(|conjunct| conjunct.ranges & (1 << range) != 0 && conjunct.ranges & !within == 0)
                    .copied()
                    .collect();
                match &inputs.ranges[*range].source {
                    RangeSource::Table(relation) if relation.storage != Storage::Virtual => {
                        let path = self.best_path(relation, *range, &mine, bound, None);
                        let filters = mine.len().saturating_sub(path.used.len());
                        let share = FILTER_SHARE.powi(i32::try_from(filters.min(3)).unwrap_or(3));
                        ((path.rows * share).max(1.0), path.cost)
                    }
                    RangeSource::Table(_) => {
                        let share = FILTER_SHARE.powi(i32::try_from(mine.len().min(3)).unwrap_or(3));
                        (VIRTUAL_ROWS * share, VIRTUAL_ROWS)
                    }
                    RangeSource::Subquery { .. } | RangeSource::Cte(_) => (FEW_ROWS, FEW_ROWS * 10.0),
                    RangeSource::Function { proc, .. } => {
                        let rows = if proc.returns_set { FUNCTION_ROWS } else { 1.0 };
                        (rows, rows)
                    }
                }
            }
            FromItem::Join { left, right, .. } => {
                let (left, left_cost) = self.estimate(inputs, left, conjuncts, bound);
                let (right, right_cost) = self.estimate(inputs, right, conjuncts, bound);
                (left.max(right), left_cost + right_cost)
            }
        }
    }

    /// Joins one more leaf to the previous ones.
    fn join_inner<'e>(
        &mut self,
        inputs: &Inputs<'e>,
        left: Joined,
        leaf: &'e FromItem,
        conjuncts: &mut Vec<Conjunct<'e>>,
        done: Ranges,
        bound: Ranges,
    ) -> Result<Joined> {
        let mask = item_ranges(leaf);
        let mut mine = take_within(conjuncts, mask | done);
        let lateral = item_lateral(leaf, inputs) & left.ranges != 0;
        if lateral || self.prefers_lookup(inputs, leaf, &mine, left.ranges, bound, left.node.rows) {
            let right = self.join_tree(inputs, leaf, mine, done, None)?;
            return Ok(self.nest_loop(inputs, left, right, false, false, (None, None)));
        }
        let own = take_within(&mut mine, mask | bound);
        let right = self.join_tree(inputs, leaf, own, bound, None)?;
        let keys = take_hash_keys(&mut mine, left.ranges, right.ranges, bound);
        if keys.is_empty() {
            let filter = self.condition(&mine)?;
            return Ok(self.nest_loop(inputs, left, right, false, true, (None, filter)));
        }
        if right.node.rows > left.node.rows * 2.0 && !left.ordered {
            let keys: Vec<HashKey<'_>> =
                keys.iter().map(|key| HashKey { left: key.right, right: key.left, oid: key.oid }).collect();
            return self.hash_join(inputs, right, left, &keys, (false, false), &[], &mine);
        }
        self.hash_join(inputs, left, right, &keys, (false, false), &[], &mine)
    }

    /// Decides whether to look an item up for each left row instead of reading it once.
    fn prefers_lookup(
        &self,
        inputs: &Inputs<'_>,
        item: &FromItem,
        conjuncts: &[Conjunct<'_>],
        left: Ranges,
        bound: Ranges,
        left_rows: f64,
    ) -> bool {
        let FromItem::Range(range) = item else { return false };
        let RangeSource::Table(relation) = &inputs.ranges[*range].source else { return false };
        if relation.storage == Storage::Virtual {
            return false;
        }
        let path = self.best_path(relation, *range, conjuncts, bound | left, None);
        if path.reads & left == 0 {
            return false;
        }
        let own: Vec<Conjunct<'_>> = conjuncts.iter().filter(|conjunct| conjunct.ranges & left == 0).copied().collect();
        let alone = self.best_path(relation, *range, &own, bound, None);
        left_rows * (path.cost + 3.0) < alone.cost + alone.rows + left_rows
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one join")]
    fn left<'e>(
        &mut self,
        inputs: &Inputs<'e>,
        left: &'e FromItem,
        right: &'e FromItem,
        on: Option<&'e Expr>,
        mut above: Vec<Conjunct<'e>>,
        bound: Ranges,
        wanted: Option<&Wanted<'_>>,
    ) -> Result<Joined> {
        let (left_mask, right_mask) = (item_ranges(left), item_ranges(right));
        let below = take_within(&mut above, left_mask | bound);
        let left = self.join_tree(inputs, left, below, bound, wanted)?;
        let mut on_conjuncts = Vec::new();
        split(on, &mut on_conjuncts);
        let lateral = item_lateral(right, inputs) & left_mask != 0;
        if lateral || self.prefers_lookup(inputs, right, &on_conjuncts, left_mask, bound, left.node.rows) {
            let right = self.join_tree(inputs, right, on_conjuncts, bound | left_mask, None)?;
            let filter = self.condition(&above)?;
            return Ok(self.nest_loop(inputs, left, right, true, false, (None, filter)));
        }
        let own = take_within(&mut on_conjuncts, right_mask | bound);
        let right = self.join_tree(inputs, right, own, bound, None)?;
        let keys = take_hash_keys(&mut on_conjuncts, left.ranges, right.ranges, bound);
        if keys.is_empty() {
            let on = self.condition(&on_conjuncts)?;
            let filter = self.condition(&above)?;
            return Ok(self.nest_loop(inputs, left, right, true, true, (on, filter)));
        }
        self.hash_join(inputs, left, right, &keys, (true, false), &on_conjuncts, &above)
    }

    fn nest_loop(
        &mut self,
        inputs: &Inputs<'_>,
        left: Joined,
        right: Joined,
        outer: bool,
        keep: bool,
        (on, filter): (Option<Code>, Option<Code>),
    ) -> Joined {
        let rows = (left.node.rows * right.node.rows).max(if outer { left.node.rows } else { 1.0 });
        let saved = self.slots_of(inputs, right.ranges);
        let ranges = left.ranges | right.ranges;
        let ordered = left.ordered;
        let join = NestLoop { left: left.node, right: right.node, outer, keep, on, filter, saved };
        Joined { node: Node { kind: Kind::NestLoop(Box::new(join)), rows }, ranges, ordered }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one join")]
    fn hash_join(
        &mut self,
        inputs: &Inputs<'_>,
        left: Joined,
        right: Joined,
        keys: &[HashKey<'_>],
        (left_outer, right_outer): (bool, bool),
        on: &[Conjunct<'_>],
        filter: &[Conjunct<'_>],
    ) -> Result<Joined> {
        let join = HashJoin {
            left_keys: self.compile_all(keys.iter().map(|key| key.left))?,
            right_keys: self.compile_all(keys.iter().map(|key| key.right))?,
            types: keys.iter().map(|key| key.oid).collect(),
            left_outer,
            right_outer,
            on: self.condition(on)?,
            filter: self.condition(filter)?,
            left_slots: self.slots_of(inputs, left.ranges),
            saved: self.slots_of(inputs, right.ranges),
            left: left.node,
            right: right.node,
        };
        let rows = join.left.rows.max(join.right.rows);
        let ordered = left.ordered && !right_outer;
        let ranges = left.ranges | right.ranges;
        Ok(Joined { node: Node { kind: Kind::HashJoin(Box::new(join)), rows }, ranges, ordered })
    }

    /// Adds a filter above an item if there are conjuncts left.
    fn filtered(&mut self, joined: Joined, conjuncts: &[Conjunct<'_>]) -> Result<Joined> {
        let Some(condition) = self.condition(conjuncts)? else { return Ok(joined) };
        let rows = (joined.node.rows * FILTER_SHARE).max(1.0);
        let kind = Kind::Filter(Box::new(Filter { child: joined.node, condition }));
        Ok(Joined { node: Node { kind, rows }, ..joined })
    }

    /// Compiles conjuncts into one condition, subqueries last.
    pub(crate) fn condition(&mut self, conjuncts: &[Conjunct<'_>]) -> Result<Option<Code>> {
        let plain = conjuncts.iter().filter(|conjunct| !conjunct.subquery);
        let costly = conjuncts.iter().filter(|conjunct| conjunct.subquery);
        let exprs: Vec<&Expr> = plain.chain(costly).map(|conjunct| conjunct.expr).collect();
        self.compile_and(&exprs)
    }

    /// Returns the slots that the ranges fill.
    pub(crate) fn slots_of(&mut self, inputs: &Inputs<'_>, ranges: Ranges) -> Box<[usize]> {
        let bases = self.level().bases.clone();
        let mut slots = Vec::new();
        for (range, base) in bases.iter().enumerate().filter(|(range, _)| ranges & (1 << range) != 0) {
            slots.extend(inputs.needed[range].iter().map(|column| base + column));
            slots.extend(inputs.key_slots[range]);
        }
        slots.into()
    }

    /// Plans one range under conjuncts.
    fn range<'e>(
        &mut self,
        inputs: &Inputs<'e>,
        range: usize,
        conjuncts: &[Conjunct<'e>],
        bound: Ranges,
        wanted: Option<&Wanted<'_>>,
    ) -> Result<Joined> {
        let base = self.level().bases[range];
        let input = &inputs.ranges[range];
        let alias: Box<str> = input.name.as_str().into();
        let mut ordered = false;
        let share = |conjuncts: usize| FILTER_SHARE.powi(i32::try_from(conjuncts.min(3)).unwrap_or(3));
        let (kind, rows) = match &input.source {
            RangeSource::Table(relation) if relation.storage == Storage::Virtual => {
                let column = |expr: &Expr| column_of(expr, range);
                let lookup = conjuncts.iter().find_map(|conjunct| match condition(conjunct, &column, bound) {
                    Some((column, Condition::Equal(value))) => Some((column, value)),
                    _ => None,
                });
                let scan = VirtualScan {
                    relation: relation.clone(),
                    alias,
                    base,
                    columns: inputs.needed[range].as_slice().into(),
                    lookup: match lookup {
                        Some((column, value)) => Some((column, self.compile(value)?)),
                        None => None,
                    },
                    filter: self.condition(conjuncts)?,
                };
                (Kind::Virtual(Box::new(scan)), VIRTUAL_ROWS * share(conjuncts.len()))
            }
            RangeSource::Table(relation) => {
                let path = self.best_path(relation, range, conjuncts, bound, wanted);
                ordered = path.ordered;
                let access = self.access(relation, &path.kind)?;
                let rest: Vec<Conjunct<'_>> = conjuncts
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| !path.used.contains(place))
                    .map(|(_, conjunct)| *conjunct)
                    .collect();
                let scan = Scan {
                    target: Target {
                        relation: relation.clone(),
                        alias,
                        base,
                        columns: inputs.needed[range].as_slice().into(),
                        key_slot: inputs.key_slots[range],
                        computed: None,
                    },
                    access,
                    filter: self.condition(&rest)?,
                };
                (Kind::Scan(Box::new(scan)), path.rows * share(rest.len()))
            }
            RangeSource::Subquery { query, .. } => {
                let query = self.query(query)?;
                let rows = query.node.rows * share(conjuncts.len());
                let filter = self.condition(conjuncts)?;
                let source = SubquerySource::Query(query);
                (Kind::Subquery(Box::new(SubqueryScan { alias, source, nested: true, base, filter })), rows)
            }
            RangeSource::Cte(query) => {
                let id = self.cte(query)?;
                let (rows, _) = self.cte_rows(id);
                let filter = self.condition(conjuncts)?;
                let source = SubquerySource::Cte(id);
                let rows = rows * share(conjuncts.len());
                (Kind::Subquery(Box::new(SubqueryScan { alias, source, nested: true, base, filter })), rows)
            }
            RangeSource::Function { proc, args, ordinality } => {
                let width = input.columns.len() - usize::from(*ordinality);
                let function = match proc.implementation {
                    Implementation::Set(function) => RowsFunction::Set(function),
                    Implementation::SystemSet(source) => RowsFunction::SystemSet(source),
                    ref other => RowsFunction::One(Function::of(other, proc.name)),
                };
                let scan = FunctionScan {
                    name: proc.name,
                    function,
                    types: args.iter().map(|arg| arg.ty().oid).collect(),
                    args: self.compile_all(args)?,
                    strict: proc.strict,
                    base,
                    width,
                    ordinality: *ordinality,
                    filter: self.condition(conjuncts)?,
                };
                let rows = if proc.returns_set { FUNCTION_ROWS } else { 1.0 };
                (Kind::Function(Box::new(scan)), rows * share(conjuncts.len()))
            }
        };
        Ok(Joined { node: Node { kind, rows: rows.max(1.0) }, ranges: 1 << range, ordered })
    }
}
