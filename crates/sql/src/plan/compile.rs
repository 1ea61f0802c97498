//! Compiles bound expressions to `Code`: columns become slots, procedures become function pointers, constants are
//! folded.
//!
//! # Invariants
//! - M1. `levels` is the chain of levels around what is being compiled, innermost last; `up` counts from its end.

use std::sync::Arc;

use collie_base::Map;

use crate::{
    analyze::bound::{Bound, Expr, Query, SubqueryKind},
    builtin::{self, CastContext, Conversion, Proc, Strategy, Volatility},
    error::{Result, SqlError, SqlState},
    plan::{
        PlanContext, code,
        code::{Call, Callee, CastCode, Code, Function, Pair},
        fold,
        node::{Ahead, Kind, Node, Plan, QueryPlan, Root, SubPlan, SubPlanKind, SubqueryScan, SubquerySource},
        walk::{ctes_of, locks, walk_query},
    },
    types::{SqlType, oid},
};

/// The places of a level's parts in its frame.
#[derive(Default)]
pub(crate) struct Level {
    /// First slot of each range.
    pub(crate) bases: Vec<usize>,
    /// First slot of the group keys.
    pub(crate) key_base: usize,
    /// First slot of the aggregates.
    pub(crate) call_base: usize,
    /// The number of slots so far.
    pub(crate) slots: usize,
}

impl Level {
    /// Takes `count` slots and returns the first.
    pub(crate) fn take(&mut self, count: usize) -> usize {
        let first = self.slots;
        self.slots += count;
        first
    }
}

/// The planner of one statement.
pub(crate) struct Planner<'a> {
    pub(crate) cx: PlanContext<'a>,
    pub(crate) levels: Vec<Level>,
    subplans: Vec<SubPlan>,
    ctes: Vec<Root>,
    /// The entry of `ctes` for a query or common table expression, by its address in the bound tree.
    cte_ids: Map<usize, usize>,
    ahead: Vec<Ahead>,
    modifying: Vec<usize>,
    /// Whether a common table expression may wait, by its address in the bound tree.
    waits: Map<usize, bool>,
    /// The number of terms of WHERE conditions so far.
    pub(crate) predicates: usize,
}

impl<'a> Planner<'a> {
    pub(crate) fn new(cx: PlanContext<'a>) -> Self {
        Self {
            cx,
            levels: Vec::new(),
            subplans: Vec::new(),
            ctes: Vec::new(),
            cte_ids: Map::default(),
            ahead: Vec::new(),
            modifying: Vec::new(),
            waits: Map::default(),
            predicates: 0,
        }
    }

    pub(crate) fn finish(self, root: Root) -> Plan {
        let rows = root.rows();
        Plan { root, subplans: self.subplans, ctes: self.ctes, ahead: self.ahead, modifying: self.modifying, rows }
    }

    /// Returns the innermost level.
    pub(crate) fn level(&mut self) -> &mut Level {
        self.levels.last_mut().expect("planning happens inside a level")
    }

    /// Plans a statement or common table expression.
    pub(crate) fn root(&mut self, bound: &Bound) -> Result<Root> {
        Ok(match bound {
            Bound::Query(query) => Root::Query(self.query(query)?),
            Bound::Insert(insert) => Root::Insert(Box::new(self.insert(insert)?)),
            Bound::Update(update) => Root::Update(Box::new(self.update(update)?)),
            Bound::Delete(delete) => Root::Delete(Box::new(self.delete(delete)?)),
        })
    }

    /// Ensures that a data-modifying common table expression is run to its end.
    pub(crate) fn modifying(&mut self, cte: &Arc<Bound>) -> Result<()> {
        let id = self.cte(cte)?;
        self.modifying.push(id);
        Ok(())
    }

    /// Returns the id of a common table expression, which is planned at its first use.
    pub(crate) fn cte(&mut self, cte: &Arc<Bound>) -> Result<usize> {
        let address = Arc::as_ptr(cte).addr();
        if let Some(&id) = self.cte_ids.get(&address) {
            return Ok(id);
        }
        if let Bound::Query(query) = &**cte {
            refuse_correlated(query)?;
        }
        let root = self.root(cte)?;
        Ok(self.computed_once(address, root))
    }

    /// Returns the id of the query of an expression that is computed once; the query is planned at its first use.
    fn shared(&mut self, query: &Query) -> Result<usize> {
        let address = std::ptr::from_ref(query).addr();
        if let Some(&id) = self.cte_ids.get(&address) {
            return Ok(id);
        }
        let root = Root::Query(self.query(query)?);
        Ok(self.computed_once(address, root))
    }

    fn computed_once(&mut self, address: usize, root: Root) -> usize {
        let id = self.ctes.len();
        self.ctes.push(root);
        self.cte_ids.insert(address, id);
        id
    }

    /// Returns the common table expressions in the FROM of a query whose rows may require a wait.
    fn awaited<'q>(&mut self, query: &'q Query) -> Vec<&'q Arc<Bound>> {
        let mut all = Vec::new();
        ctes_of(query, &mut all);
        all.retain(|cte| self.may_wait(cte));
        all
    }

    /// Returns whether a common table expression may wait: it writes, locks rows, or reads one that does.
    fn may_wait(&mut self, cte: &Arc<Bound>) -> bool {
        let address = Arc::as_ptr(cte).addr();
        if let Some(&known) = self.waits.get(&address) {
            return known;
        }
        let waits = match &**cte {
            Bound::Query(query) => locks(query) || !self.awaited(query).is_empty(),
            Bound::Insert(_) | Bound::Update(_) | Bound::Delete(_) => true,
        };
        self.waits.insert(address, waits);
        waits
    }

    /// Returns the expected number of rows and the width of a common table expression.
    pub(crate) fn cte_rows(&self, id: usize) -> (f64, usize) {
        self.ctes.get(id).map_or((1.0, 0), |root| (root.rows(), root.width()))
    }

    pub(crate) fn compile_all<'e>(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Result<Box<[Code]>> {
        exprs.into_iter().map(|expr| self.compile(expr)).collect()
    }

    pub(crate) fn compile_opt(&mut self, expr: Option<&Expr>) -> Result<Option<Code>> {
        expr.map(|expr| self.compile(expr)).transpose()
    }

    /// Compiles the AND of expressions; returns `None` if there are none.
    pub(crate) fn compile_and(&mut self, exprs: &[&Expr]) -> Result<Option<Code>> {
        Ok(match exprs {
            [] => None,
            [one] => Some(self.compile(one)?),
            many => Some(Code::And(self.compile_all(many.iter().copied())?)),
        })
    }

    fn slot(&self, up: usize, place: impl FnOnce(&Level) -> Option<usize>) -> Result<Code> {
        let missing = || SqlError::new(SqlState::INTERNAL_ERROR, "an expression names a level that is not around it");
        let index = self.levels.len().checked_sub(up + 1).ok_or_else(missing)?;
        let slot = place(&self.levels[index]).ok_or_else(missing)?;
        Ok(if up == 0 { Code::Slot(slot) } else { Code::Outer { up, slot } })
    }

    /// Compiles an expression of the innermost level.
    pub(crate) fn compile(&mut self, expr: &Expr) -> Result<Code> {
        Ok(match expr {
            Expr::Const(value, _) => Code::Const(value.clone()),
            Expr::Param(index, _) => Code::Param(*index),
            Expr::Column { up, range, column, .. } => {
                self.slot(*up, |level| level.bases.get(*range).map(|base| base + column))?
            }
            Expr::GroupKey { up, index, .. } => self.slot(*up, |level| Some(level.key_base + index))?,
            Expr::Aggregate { up, index, .. } => self.slot(*up, |level| Some(level.call_base + index))?,
            Expr::Call { proc, args, .. } => {
                let callee = callee(proc, args.iter().map(|arg| arg.ty().oid));
                let args = self.compile_all(args)?;
                if proc.volatility == Volatility::Immutable
                    && let Some(value) = fold::call(&callee.function, callee.strict, &callee.types, &args)
                {
                    return Ok(Code::Const(value));
                }
                Code::Call(Box::new(Call { callee, args }))
            }
            Expr::Cast { arg, to, explicit, .. } => self.compile_cast(arg, *to, *explicit)?,
            Expr::And(args) => Code::And(self.compile_all(args)?),
            Expr::Or(args) => Code::Or(self.compile_all(args)?),
            Expr::Not(arg) => Code::Not(Box::new(self.compile(arg)?)),
            Expr::IsNull { arg, negated } => Code::IsNull { arg: Box::new(self.compile(arg)?), negated: *negated },
            Expr::BooleanTest { arg, value, negated } => {
                Code::BooleanTest { arg: Box::new(self.compile(arg)?), value: *value, negated: *negated }
            }
            Expr::DistinctFrom { equal, left, right, negated } => {
                Code::Distinct(Box::new(self.pair(equal, left, right, right.ty().oid)?), *negated)
            }
            Expr::Case { operand, arms, otherwise, .. } => {
                let operand = self.compile_opt(operand.as_deref())?;
                let mut compiled = Vec::with_capacity(arms.len());
                for (condition, result) in arms {
                    compiled.push((self.compile(condition)?, self.compile(result)?));
                }
                let otherwise = self.compile(otherwise)?;
                Code::Case(Box::new(code::Case { operand, arms: compiled.into(), otherwise }))
            }
            Expr::CaseOperand(_) => Code::CaseOperand,
            Expr::Coalesce(args, _) => Code::Coalesce(self.compile_all(args)?),
            Expr::NullIf { equal, left, right, .. } => {
                Code::NullIf(Box::new(self.pair(equal, left, right, right.ty().oid)?))
            }
            Expr::Extreme { greatest, args, ty } => {
                Code::Extreme { greatest: *greatest, args: self.compile_all(args)?, oid: ty.oid }
            }
            Expr::InList { arg, list, equal, negated } => {
                let item = list.first().map_or(oid::UNKNOWN, |item| item.ty().oid);
                Code::InList(Box::new(code::InList {
                    equal: callee(equal, [arg.ty().oid, item]),
                    arg: self.compile(arg)?,
                    list: self.compile_all(list)?,
                    negated: *negated,
                }))
            }
            Expr::ArrayCompare { arg, array, proc, all } => {
                let element = array.ty().element().map_or(oid::UNKNOWN, |element| element.oid);
                Code::ArrayCompare { pair: Box::new(self.pair(proc, arg, array, element)?), all: *all }
            }
            Expr::RowCompare { kind, left, right, equal, less } => {
                let types: Vec<[u32; 2]> = left.iter().zip(right).map(|(l, r)| [l.ty().oid, r.ty().oid]).collect();
                let callees = |procs: &[&'static Proc]| -> Box<[Callee]> {
                    procs.iter().zip(&types).map(|(proc, types)| callee(proc, *types)).collect()
                };
                Code::RowCompare(Box::new(code::RowCompare {
                    kind: *kind,
                    equal: callees(equal),
                    less: callees(less),
                    left: self.compile_all(left)?,
                    right: self.compile_all(right)?,
                }))
            }
            Expr::Row(fields) => Code::Row(self.compile_all(fields)?),
            Expr::Array { items, ty } => {
                let element = ty.element().map_or(oid::UNKNOWN, |element| element.oid);
                Code::Array(self.compile_all(items)?, element)
            }
            Expr::Subscript { array, index, .. } => {
                Code::Subscript(Box::new([self.compile(array)?, self.compile(index)?]))
            }
            Expr::Subquery { kind, query, correlated, ty } => self.compile_subquery(kind, query, *correlated, *ty)?,
        })
    }

    fn pair(&mut self, proc: &'static Proc, left: &Expr, right: &Expr, right_oid: u32) -> Result<Pair> {
        Ok(Pair {
            callee: callee(proc, [left.ty().oid, right_oid]),
            left: self.compile(left)?,
            right: self.compile(right)?,
        })
    }

    fn compile_cast(&mut self, arg: &Expr, to: SqlType, explicit: bool) -> Result<Code> {
        let source = arg.ty().oid;
        let how = builtin::conversion(source, to.oid, CastContext::Explicit).unwrap_or(Conversion::ViaText);
        let arg = self.compile(arg)?;
        if matches!(how, Conversion::Same) && to.typmod < 0 {
            return Ok(arg);
        }
        let cast = CastCode { arg, how, source, to, explicit };
        Ok(match fold::cast(&cast) {
            Some(value) => Code::Const(value),
            None => Code::Cast(Box::new(cast)),
        })
    }

    /// Compiles an uncorrelated query of one column to the array of its rows.
    pub(crate) fn compile_rows(&mut self, query: &Query) -> Result<Code> {
        let element = column_types(query).first().map_or(oid::UNKNOWN, |ty| ty.oid);
        let query = self.expression_query(query, false, usize::MAX)?;
        self.subplans.push(SubPlan { query, kind: SubPlanKind::Array(element), correlated: false });
        Ok(Code::Subquery(self.subplans.len() - 1))
    }

    fn compile_subquery(&mut self, kind: &SubqueryKind, query: &Query, correlated: bool, ty: SqlType) -> Result<Code> {
        let kind = match kind {
            SubqueryKind::Scalar => SubPlanKind::Scalar,
            SubqueryKind::Exists => SubPlanKind::Exists,
            SubqueryKind::Array => SubPlanKind::Array(ty.element().map_or(oid::UNKNOWN, |element| element.oid)),
            SubqueryKind::Compare { left, procs, all } => {
                let right = column_types(query);
                let types: Vec<[u32; 2]> = left.iter().zip(&right).map(|(l, r)| [l.ty().oid, r.oid]).collect();
                let hashed: Option<Box<[u32]>> = procs
                    .iter()
                    .zip(&types)
                    .map(|(proc, [left, right])| {
                        let equal = if *all { negator(proc)? } else { proc };
                        (comparison(equal)? == Strategy::Equal).then(|| hash_type(*left, *right)).flatten()
                    })
                    .collect();
                // With several columns, ALL over <> is the negation of a look-up only if every column differs.
                let hashed = if *all && procs.len() > 1 { None } else { hashed };
                SubPlanKind::Compare {
                    callees: procs.iter().zip(&types).map(|(proc, types)| callee(proc, *types)).collect(),
                    left: self.compile_all(left)?,
                    all: *all,
                    hashed,
                }
            }
        };
        let rows_max = match &kind {
            SubPlanKind::Exists => 1,
            // A second row is an error.
            SubPlanKind::Scalar => 2,
            SubPlanKind::Array(_) | SubPlanKind::Compare { .. } => usize::MAX,
        };
        let query = self.expression_query(query, correlated, rows_max)?;
        self.subplans.push(SubPlan { query, kind, correlated });
        Ok(Code::Subquery(self.subplans.len() - 1))
    }

    /// Plans the query of an expression, of which at most `rows_max` rows are read. Parts of it that may wait are
    /// computed ahead
    /// of the statement, once, however often the expression is compiled.
    fn expression_query(&mut self, query: &Query, correlated: bool, rows_max: usize) -> Result<QueryPlan> {
        let (locks, awaited) = (locks(query), self.awaited(query));
        if !locks && awaited.is_empty() {
            return self.query(query);
        }
        if correlated {
            if locks {
                return Err(SqlError::unsupported(
                    "FOR UPDATE in a subquery of an expression that names columns from outside it",
                ));
            }
            for cte in awaited {
                let cte = self.cte(cte)?;
                self.compute_ahead(Ahead { cte, rows_max: usize::MAX });
            }
            return self.query(query);
        }
        let cte = self.shared(query)?;
        self.compute_ahead(Ahead { cte, rows_max });
        let (rows, width) = self.cte_rows(cte);
        let source = SubquerySource::Cte(cte);
        let scan = SubqueryScan { alias: "*SELECT*".into(), source, nested: false, base: 0, filter: None };
        let node = Node { kind: Kind::Subquery(Box::new(scan)), rows };
        Ok(QueryPlan { node, slots: width, first: 0, width })
    }

    fn compute_ahead(&mut self, ahead: Ahead) {
        match self.ahead.iter_mut().find(|old| old.cte == ahead.cte) {
            Some(old) => old.rows_max = old.rows_max.max(ahead.rows_max),
            None => self.ahead.push(ahead),
        }
    }
}

/// Refuses a common table expression that refers to a level outside itself, because it could not be computed once.
fn refuse_correlated(query: &Query) -> Result<()> {
    let mut correlated = false;
    walk_query(query, 0, &mut |expr, depth| {
        if let Expr::Column { up, .. } | Expr::GroupKey { up, .. } | Expr::Aggregate { up, .. } = expr {
            correlated |= *up >= depth;
        }
    });
    if correlated {
        return Err(SqlError::unsupported("WITH in a subquery that names columns from outside it"));
    }
    Ok(())
}

/// Builds the callee of a procedure.
pub(crate) fn callee(proc: &'static Proc, types: impl IntoIterator<Item = u32>) -> Callee {
    Callee {
        function: Function::of(&proc.implementation, proc.name),
        strict: proc.strict,
        types: types.into_iter().collect(),
    }
}

/// Returns the comparison of a btree order that a procedure implements, if it is one.
pub(crate) fn comparison(proc: &Proc) -> Option<Strategy> {
    comparisons().get(&proc.oid).copied()
}

/// Returns the comparison procedures, by OID.
fn comparisons() -> &'static Map<u32, Strategy> {
    static TABLE: std::sync::LazyLock<Map<u32, Strategy>> = std::sync::LazyLock::new(|| {
        builtin::operators()
            .iter()
            .filter_map(|operator| Some((operator.code, builtin::btree_strategy(operator.oid)?)))
            .collect()
    });
    &TABLE
}

/// Returns the procedure that is true where this one is false.
fn negator(proc: &Proc) -> Option<&'static Proc> {
    let operator = builtin::operators().iter().find(|operator| operator.code == proc.oid)?;
    builtin::proc_by_oid(builtin::operator_by_oid(operator.negator)?.code)
}

/// Returns the type under which equal values of two types have equal keys, if there is one.
pub(crate) fn hash_type(left: u32, right: u32) -> Option<u32> {
    let integer = |oid: u32| matches!(oid, oid::INT2 | oid::INT4 | oid::INT8);
    let text = |oid: u32| matches!(oid, oid::TEXT | oid::VARCHAR | oid::NAME | oid::UNKNOWN);
    let object = oid::is_oid_like;
    if left == right || (integer(left) && integer(right)) || (text(left) && text(right)) {
        return Some(left);
    }
    (object(left) && object(right)).then_some(left)
}

/// Returns the types of a query's result columns.
pub(crate) fn column_types(query: &Query) -> Vec<SqlType> {
    match query {
        Query::Select(select) => select.targets[..select.visible].iter().map(Expr::ty).collect(),
        Query::SetOperation(both) => both.types.clone(),
        Query::Values(values) => values.types.clone(),
    }
}
