//! Sources of rows other than tables: system tables, functions, subqueries in FROM, VALUES.

use crate::{
    builtin::Rows,
    error::{Result, SqlError},
    exec::{
        context::{Env, Run},
        cte,
        eval::{call, eval, holds},
        op::{Op, Pull},
    },
    plan::{
        code::{Callee, Function},
        node::{FunctionScan, QueryPlan, RowsFunction, SubqueryScan, SubquerySource, ValuesScan, VirtualScan},
    },
    types::Value,
};

/// The state of a scan of a system table.
#[derive(Default)]
pub(crate) struct VirtualState {
    rows: Option<std::vec::IntoIter<Vec<Value>>>,
}

impl VirtualState {
    pub(crate) fn rewind(&mut self) {
        self.rows = None;
    }

    pub(crate) fn pull(
        &mut self,
        scan: &VirtualScan,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        if self.rows.is_none() {
            let rows = match &scan.lookup {
                None => run.virtual_tables.rows(&scan.relation, None)?,
                Some((column, code)) => {
                    let value = eval(code, run, &Env::new(frame, outer))?;
                    if value.is_null() {
                        Vec::new()
                    } else {
                        run.virtual_tables.rows(&scan.relation, Some((*column, &value)))?
                    }
                }
            };
            self.rows = Some(rows.into_iter());
        }
        while let Some(mut row) = self.rows.as_mut().and_then(Iterator::next) {
            run.tick()?;
            for &column in &scan.columns {
                frame[scan.base + column] =
                    row.get_mut(column).map_or(Value::Null, |value| std::mem::replace(value, Value::Null));
            }
            if holds(scan.filter.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
        Ok(Pull::End)
    }
}

/// The state of a scan of a function's rows.
#[derive(Default)]
pub(crate) struct FunctionState {
    rows: Option<Rows>,
    number: i64,
}

impl FunctionState {
    pub(crate) fn rewind(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn pull(
        &mut self,
        scan: &FunctionScan,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        if self.rows.is_none() {
            self.rows = Some(Self::start(scan, frame, outer, run)?);
        }
        while let Some(row) = self.rows.as_mut().and_then(Iterator::next) {
            run.tick()?;
            match row? {
                Value::Record(fields) if scan.width > 1 => {
                    for (i, field) in fields.iter().take(scan.width).enumerate() {
                        frame[scan.base + i] = field.clone();
                    }
                }
                value => frame[scan.base] = value,
            }
            self.number += 1;
            if scan.ordinality {
                frame[scan.base + scan.width] = Value::Int8(self.number);
            }
            if holds(scan.filter.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
        Ok(Pull::End)
    }

    fn start(scan: &FunctionScan, frame: &[Value], outer: Option<&Env<'_>>, run: &mut Run<'_>) -> Result<Rows> {
        let mut args = Vec::with_capacity(scan.args.len());
        for arg in &scan.args {
            args.push(eval(arg, run, &Env::new(frame, outer))?);
        }
        let skipped = scan.strict && args.iter().any(Value::is_null);
        match &scan.function {
            RowsFunction::Set(_) | RowsFunction::SystemSet(_) if skipped => {
                Ok::<Rows, SqlError>(Box::new(std::iter::empty()))
            }
            RowsFunction::Set(function) => function(&args, &run.eval),
            RowsFunction::SystemSet(source) => run.eval.system.call_set(source, &args),
            RowsFunction::One(function) => {
                let callee =
                    Callee { function: Function::clone(function), strict: scan.strict, types: scan.types.clone() };
                let value = call(&callee, &args, run)?;
                Ok::<Rows, SqlError>(Box::new(std::iter::once(Ok(value))))
            }
        }
    }
}

/// A running query level: its operators and its frame.
pub(crate) struct QueryState {
    pub(crate) op: Op,
    pub(crate) frame: Vec<Value>,
}

impl QueryState {
    pub(crate) fn new(query: &QueryPlan) -> Self {
        Self { op: Op::new(&query.node), frame: vec![Value::Null; query.slots] }
    }

    /// Returns the next row, in the query's result slots of the frame.
    pub(crate) fn pull(&mut self, query: &QueryPlan, outer: Option<&Env<'_>>, run: &mut Run<'_>) -> Result<Pull> {
        self.op.pull(&query.node, &mut self.frame, outer, run)
    }

    /// Returns the row that was just pulled.
    pub(crate) fn row(&self, query: &QueryPlan) -> &[Value] {
        &self.frame[query.first..query.first + query.width]
    }
}

/// The state of a scan of a subquery.
pub(crate) struct SubqueryState {
    query: Option<QueryState>,
    /// The number of the next row of a common table expression.
    next: usize,
}

impl SubqueryState {
    pub(crate) fn new(scan: &SubqueryScan) -> Self {
        let query = match &scan.source {
            SubquerySource::Query(query) => Some(QueryState::new(query)),
            SubquerySource::Cte(_) => None,
        };
        Self { query, next: 0 }
    }

    pub(crate) fn rewind(&mut self) {
        if let Some(query) = &mut self.query {
            query.op.rewind();
        }
        self.next = 0;
    }

    pub(crate) fn pull(
        &mut self,
        scan: &SubqueryScan,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        loop {
            match (&scan.source, &mut self.query) {
                (SubquerySource::Query(plan), Some(query)) => {
                    let env = Env::new(frame, outer);
                    let around = if scan.nested { Some(&env) } else { outer };
                    match query.pull(plan, around, run)? {
                        Pull::Row => {}
                        other => return Ok(other),
                    }
                    frame[scan.base..scan.base + plan.width].clone_from_slice(query.row(plan));
                }
                (SubquerySource::Cte(id), _) => {
                    if run.is_spent() {
                        return Ok(Pull::Yield);
                    }
                    run.tick()?;
                    let width = run.plan.ctes[*id].width();
                    match cte::read(*id, self.next, &mut frame[scan.base..scan.base + width], run)? {
                        Pull::Row => self.next += 1,
                        other => return Ok(other),
                    }
                }
                (SubquerySource::Query(_), None) => unreachable!("a subquery scan of a query has its state"),
            }
            if holds(scan.filter.as_ref(), run, &Env::new(frame, outer))? {
                return Ok(Pull::Row);
            }
        }
    }
}

/// The state of VALUES.
#[derive(Default)]
pub(crate) struct ValuesState {
    next: usize,
}

impl ValuesState {
    pub(crate) fn rewind(&mut self) {
        self.next = 0;
    }

    pub(crate) fn pull(
        &mut self,
        scan: &ValuesScan,
        frame: &mut [Value],
        outer: Option<&Env<'_>>,
        run: &mut Run<'_>,
    ) -> Result<Pull> {
        let Some(row) = scan.rows.get(self.next) else { return Ok(Pull::End) };
        self.next += 1;
        run.tick()?;
        for (i, code) in row.iter().enumerate() {
            frame[scan.base + i] = eval(code, run, &Env::new(frame, outer))?;
        }
        Ok(Pull::Row)
    }
}
