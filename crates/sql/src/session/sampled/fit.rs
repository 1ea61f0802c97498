//! The statements that may be sampled and run again elsewhere: they read rows of tables, and have no other effect.
//!
//! Not fit are: a statement that writes or locks rows, also in WITH; a call of a volatile function, which may have an
//! effect or return another value each time; a function that the session or the node answers (settings, locks,
//! positions of the log); a system relation, which shows the node; and a statement that reads no table at all.
//!
//! Checked by `sampled_tests`.

use crate::{
    analyze::bound::{Analyzed, Bound, Expr, Query, RangeSource, Select},
    builtin::{Implementation, Proc, Volatility},
    catalog::snapshot::FIRST_USER_OID,
    plan::walk::walk_query,
};

/// Limit of the queries that are checked in one statement: common table expressions that each name another one twice
/// repeat one query many times.
const QUERIES_MAX: u32 = 256;

/// Returns whether a statement is fit.
pub(super) fn is_fit(analyzed: &Analyzed) -> bool {
    let Bound::Query(query) = &analyzed.bound else { return false };
    let of_tables = !analyzed.relations.is_empty() && analyzed.relations.iter().all(|(oid, _)| *oid >= FIRST_USER_OID);
    let only_reads = !analyzed.writes && !analyzed.assigns_xid && analyzed.modifying.is_empty();
    of_tables && only_reads && analyzed.lock_strength.is_none() && Look { left: QUERIES_MAX }.query(query)
}

fn is_harmless(proc: &Proc) -> bool {
    proc.volatility != Volatility::Volatile
        && !matches!(proc.implementation, Implementation::System(_) | Implementation::SystemSet(_))
}

/// Checks queries, up to a limit.
struct Look {
    left: u32,
}

impl Look {
    /// Checks a query, including its expressions.
    fn query(&mut self, query: &Query) -> bool {
        let mut fit = true;
        walk_query(query, 0, &mut |expr, _| {
            fit &= match expr {
                Expr::Call { proc, .. } => is_harmless(proc),
                Expr::Subquery { query, .. } => self.sources(query),
                _ => true,
            }
        });
        fit && self.sources(query)
    }

    /// Checks what a query reads from, and its aggregates, but not its expressions.
    fn sources(&mut self, query: &Query) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        match query {
            Query::Select(select) => self.select(select),
            Query::SetOperation(both) => self.sources(&both.left) && self.sources(&both.right),
            Query::Values(_) => true,
        }
    }

    fn select(&mut self, select: &Select) -> bool {
        select.locking.is_empty()
            && select.aggregates.iter().all(|aggregate| is_harmless(aggregate.proc))
            && select.ranges.iter().all(|range| match &range.source {
                RangeSource::Table(relation) => relation.oid >= FIRST_USER_OID,
                RangeSource::Subquery { query, .. } => self.sources(query),
                RangeSource::Function { proc, .. } => is_harmless(proc),
                RangeSource::Cte(bound) => match &**bound {
                    Bound::Query(query) => self.query(query),
                    Bound::Insert(_) | Bound::Update(_) | Bound::Delete(_) => false,
                },
            })
    }
}
