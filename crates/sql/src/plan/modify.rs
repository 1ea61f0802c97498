//! Plans INSERT, UPDATE and DELETE.
//!
//! # Invariants
//! - M1. UPDATE decodes every live column of its table, since rows are rewritten whole. DELETE decodes the columns on
//!   which
//!   its index entries depend, including those in expressions and predicates; foreign keys can refer to no others.

use crate::{
    analyze::bound::{Arbiter, ArbiterKeys, Delete, Expr, FromItem, Insert, OnConflict, Range, Update},
    catalog::relation::{ForeignKey, Index, IndexColumn, KeyExpression, Relation, TableKey},
    error::{Result, SqlError, SqlState},
    plan::{
        code::Code,
        compile::{Level, Planner},
        indexed::BoundIndexes,
        join::Inputs,
        node::{
            CheckCode, ConflictPlan, ConflictUpdate, DeletePlan, ForeignKeys, InsertPlan, KeyColumns, RowChange,
            Target, UpdatePlan,
        },
        select::{level_of, needed_columns, recheck_conditions},
        walk::{walk_expr, walk_from, walk_source},
    },
};

/// Returns the inputs of a writing statement: its ranges, with the columns and keys that are needed of them.
fn inputs<'e>(
    ranges: &'e [Range],
    from: &FromItem,
    exprs: &[&Expr],
    more: impl Iterator<Item = usize>,
    key_slot: usize,
) -> Inputs<'e> {
    let mut needed = needed_columns(ranges, |visit| {
        for range in ranges {
            walk_source(&range.source, 0, visit);
        }
        walk_from(from, 0, visit);
        for expr in exprs {
            walk_expr(expr, 0, visit);
        }
    });
    needed[0].extend(more);
    let mut key_slots = vec![None; ranges.len()];
    key_slots[0] = Some(key_slot);
    Inputs { ranges, needed: needed.into_iter().map(|columns| columns.into_iter().collect()).collect(), key_slots }
}

fn target(relation: &std::sync::Arc<Relation>, inputs: &Inputs<'_>, base: usize) -> Target {
    Target {
        relation: relation.clone(),
        alias: inputs.ranges[0].name.as_str().into(),
        base,
        columns: inputs.needed[0].as_slice().into(),
        key_slot: inputs.key_slots[0],
        computed: None,
    }
}

/// Returns whether an index has exactly these keys and covers all rows that ON CONFLICT is about.
fn is_over(index: &Index, keys: &ArbiterKeys) -> bool {
    let mut columns: Vec<usize> = index.key_places().collect();
    columns.sort_unstable();
    columns.dedup();
    let is = |(text, ty): &(String, u32), own: &KeyExpression| *own.text == **text && own.ty.oid == *ty;
    let own = || index.columns.iter().filter_map(IndexColumn::expression);
    columns == keys.columns
        && keys.expressions.iter().all(|key| own().any(|own| is(key, own)))
        && own().all(|own| keys.expressions.iter().any(|key| is(key, own)))
        && index.predicate.iter().all(|term| keys.facts.iter().any(|fact| **fact == **term))
}

/// Finds the unique indexes that an arbiter denotes: places in `Relation::indexes`.
fn arbiters(relation: &Relation, arbiter: &Arbiter) -> Result<Box<[usize]>> {
    let is_meant = |index: &Index| match arbiter {
        Arbiter::Every => index.unique,
        Arbiter::Keys(keys) => index.unique && is_over(index, keys),
        Arbiter::Index(oid) => index.oid == *oid,
        Arbiter::Unmatched | Arbiter::Unindexed => false,
    };
    let indexes = relation.indexes.iter().enumerate();
    let found: Box<[usize]> = indexes.filter(|(_, index)| is_meant(index)).map(|(place, _)| place).collect();
    if !found.is_empty() || *arbiter == Arbiter::Every {
        return Ok(found);
    }
    Err(if *arbiter == Arbiter::Unindexed {
        SqlError::new(SqlState::WRONG_OBJECT_TYPE, "constraint in ON CONFLICT clause has no associated index")
    } else {
        SqlError::new(
            SqlState::INVALID_COLUMN_REFERENCE,
            "there is no unique or exclusion constraint matching the ON CONFLICT specification",
        )
    })
}

/// Returns the foreign keys that a table declares over a column for which `wanted` is true.
fn declared(relation: &Relation, wanted: impl Fn(usize) -> bool) -> Box<[KeyColumns]> {
    let keys = relation.foreign_keys.iter().filter(|key| key.columns.iter().any(|&place| wanted(place)));
    let mut columns: Vec<KeyColumns> = keys.map(|key| key_columns(relation, key, &key.columns)).collect();
    columns.sort_unstable_by_key(|columns| columns.key);
    columns.into()
}

fn key_columns(declares: &Relation, key: &ForeignKey, columns: &[usize]) -> KeyColumns {
    KeyColumns { table: declares.oid, key: key.oid, columns: columns.into(), match_full: key.match_full }
}

impl Planner<'_> {
    /// Returns the foreign keys that refer to a column of the table for which `wanted` is true.
    fn referring(&self, relation: &Relation, wanted: impl Fn(usize) -> bool) -> Box<[KeyColumns]> {
        let keys = self.cx.catalog.foreign_keys_to(relation.oid);
        let keys = keys.filter(|(_, key)| key.target_columns.iter().any(|&place| wanted(place)));
        let mut columns: Vec<KeyColumns> =
            keys.map(|(table, key)| key_columns(table, key, &key.target_columns)).collect();
        columns.sort_unstable_by_key(|columns| columns.key);
        columns.into()
    }

    fn checks(&mut self, checks: &[(String, Expr)]) -> Result<Box<[CheckCode]>> {
        checks.iter().map(|(name, expr)| Ok((name.as_str().into(), self.compile(expr)?))).collect()
    }

    /// Compiles the rewriting of a row; the old row is range 0.
    fn row_change(
        &mut self,
        relation: &Relation,
        bound: &BoundIndexes,
        assignments: &[(usize, Expr)],
        checks: &[(String, Expr)],
    ) -> Result<RowChange> {
        let is_assigned = |place: usize| assignments.iter().any(|(assigned, _)| *assigned == place);
        let assigned = |at: usize| bound.places(at).into_iter().any(is_assigned);
        let moves = matches!(relation.key, TableKey::Primary) && relation.primary_key().is_some() && assigned(0);
        let indexes =
            relation.indexes.iter().enumerate().filter(|(at, index)| !index.primary && (moves || assigned(*at)));
        Ok(RowChange {
            assignments: assignments
                .iter()
                .map(|(column, expr)| Ok((*column, self.compile(expr)?)))
                .collect::<Result<_>>()?,
            checks: self.checks(checks)?,
            moves,
            keys: relation.indexes.iter().enumerate().any(|(at, index)| index.is_referable() && assigned(at)),
            indexes: indexes.map(|(place, _)| place).collect(),
            foreign: ForeignKeys {
                referring: self.referring(relation, is_assigned),
                declared: declared(relation, is_assigned),
            },
        })
    }

    fn conflict(&mut self, insert: &Insert, bound: &BoundIndexes, conflict: &OnConflict) -> Result<ConflictPlan> {
        let update = match &conflict.update {
            None => None,
            Some(update) => Some(ConflictUpdate {
                filter: self.compile_opt(update.filter.as_ref())?,
                change: self.row_change(&insert.table, bound, &update.assignments, &insert.checks)?,
            }),
        };
        let named = conflict.arbiter != Arbiter::Every;
        Ok(ConflictPlan { arbiters: arbiters(&insert.table, &conflict.arbiter)?, named, update })
    }

    pub(crate) fn insert(&mut self, insert: &Insert) -> Result<InsertPlan> {
        let source = self.query(&insert.source)?;
        let bound = BoundIndexes::of(&insert.table, self.cx.catalog)?;
        let slots = insert.table.columns.len();
        let update = insert.on_conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
        let (bases, slots) = if update.is_some() { (vec![0, slots], 2 * slots) } else { (vec![0], slots) };
        self.levels.push(Level { bases, slots, ..Level::default() });
        let mut defaults = Vec::new();
        for (column, expr) in insert.defaults.iter().enumerate() {
            if let Some(expr) = expr {
                match self.compile(expr)? {
                    // The slot already holds NULL.
                    Code::Const(crate::types::Value::Null) => {}
                    code => defaults.push((column, code)),
                }
            }
        }
        let plan = InsertPlan {
            target: Target {
                relation: insert.table.clone(),
                alias: insert.table.name.as_ref().into(),
                base: 0,
                // M1.
                columns: match update {
                    Some(_) => insert.table.live_columns().map(|(place, _)| place).collect(),
                    None => Box::new([]),
                },
                key_slot: None,
                computed: self.index_codes(&bound)?,
            },
            source,
            columns: insert.columns.as_slice().into(),
            defaults: defaults.into(),
            checks: self.checks(&insert.checks)?,
            foreign: ForeignKeys { referring: Box::default(), declared: declared(&insert.table, |_| true) },
            conflict: insert.on_conflict.as_ref().map(|it| self.conflict(insert, &bound, it)).transpose()?,
            returning: self.compile_all(&insert.returning)?,
            slots: self.level().slots,
        };
        self.levels.pop();
        Ok(plan)
    }

    pub(crate) fn update(&mut self, update: &Update) -> Result<UpdatePlan> {
        let mut level = level_of(&update.ranges)?;
        let key_slot = level.take(1);
        self.levels.push(level);
        let mut exprs: Vec<&Expr> = update.assignments.iter().map(|(_, expr)| expr).collect();
        exprs.extend(update.filter.iter().chain(&update.returning));
        exprs.extend(update.checks.iter().map(|(_, expr)| expr));
        let live = update.table.live_columns().map(|(place, _)| place);
        let inputs = inputs(&update.ranges, &update.from, &exprs, live, key_slot);
        let conjuncts = self.terms(update.filter.as_ref());
        let joined = self.join_tree(&inputs, &update.from, conjuncts, 0, None)?;
        let conditions = recheck_conditions(Some(&update.from), update.filter.as_ref());
        let base = self.level().bases[0];
        let bound = BoundIndexes::of(&update.table, self.cx.catalog)?;
        let plan = UpdatePlan {
            target: Target { computed: self.index_codes(&bound)?, ..target(&update.table, &inputs, base) },
            node: joined.node,
            recheck: self.condition(&conditions)?,
            change: self.row_change(&update.table, &bound, &update.assignments, &update.checks)?,
            returning: self.compile_all(&update.returning)?,
            slots: self.level().slots,
        };
        self.levels.pop();
        Ok(plan)
    }

    pub(crate) fn delete(&mut self, delete: &Delete) -> Result<DeletePlan> {
        let mut level = level_of(&delete.ranges)?;
        let key_slot = level.take(1);
        self.levels.push(level);
        let exprs: Vec<&Expr> = delete.filter.iter().chain(&delete.returning).collect();
        let bound = BoundIndexes::of(&delete.table, self.cx.catalog)?;
        let inputs = inputs(&delete.ranges, &delete.from, &exprs, bound.all_places().into_iter(), key_slot);
        let conjuncts = self.terms(delete.filter.as_ref());
        let joined = self.join_tree(&inputs, &delete.from, conjuncts, 0, None)?;
        let conditions = recheck_conditions(Some(&delete.from), delete.filter.as_ref());
        let base = self.level().bases[0];
        let plan = DeletePlan {
            target: Target { computed: self.index_codes(&bound)?, ..target(&delete.table, &inputs, base) },
            node: joined.node,
            recheck: self.condition(&conditions)?,
            foreign: ForeignKeys { referring: self.referring(&delete.table, |_| true), declared: Box::default() },
            returning: self.compile_all(&delete.returning)?,
            slots: self.level().slots,
        };
        self.levels.pop();
        Ok(plan)
    }
}
