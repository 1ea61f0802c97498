//! Planning: from the bound tree to a tree of operators with access paths, join order and compiled expressions.
//!
//! Planning decides nothing about meaning, which is analysis, and holds no state of a run, which is in `exec`. Plans
//! are
//! generic: they do not depend on parameter values, so one plan serves every execution until the catalog changes.
//!
//! # Invariants
//! - L1. A plan never changes a result: every condition of the statement is evaluated, whichever access path is chosen.
//! - L2. A condition moves below an outer join only on the side whose rows it can remove.
//!
//! Checked by `exec`'s tests, which compare plans with and without indexes.

mod access;
mod compile;
mod conjunct;
mod descents;
mod explain;
mod fold;
mod indexed;
mod join;
mod modify;
mod path;
mod select;
mod unread;
pub(crate) mod walk;

pub mod code;
pub mod node;

use collie_base::{CfId, Lsn};
use collie_obs::word;

pub(crate) use descents::indexes_of;
pub use explain::{explain, explain_with};
pub use indexed::index_code;
pub use node::Plan;
pub(crate) use unread::leave_out_unread;

use crate::{analyze::bound::Analyzed, catalog::snapshot::Catalog, error::Result, plan::compile::Planner};

/// The information that planning uses.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// The catalog with which the statement was analyzed.
    pub catalog: &'a Catalog,
    /// Estimates the rows of a family.
    pub row_estimate: &'a dyn Fn(CfId) -> u64,
    /// Families of indexes for which the snapshot is too old: nothing is read from them.
    pub unreadable: &'a [CfId],
}

/// Plans an analyzed statement.
///
/// # Errors
/// 0A000 for a shape that cannot be run yet; 54001 if one level has too many ranges.
pub fn plan(analyzed: &Analyzed, cx: &PlanContext<'_>) -> Result<Plan> {
    let span = collie_obs::start::<collie_obs::Plan>().map(collie_obs::Span::with_allocations);
    let mut planner = Planner::new(*cx);
    let root = planner.root(&analyzed.bound)?;
    for cte in &analyzed.modifying {
        planner.modifying(cte)?;
    }
    let predicates = planner.predicates;
    let plan = planner.finish(root);
    if let Some(span) = span {
        let (ended, alloc_bytes) = span.end();
        let (tables, predicates) = (word(analyzed.relations.len()), word(predicates));
        ended.tell(Lsn::ZERO, collie_obs::Plan { tables, predicates, path: path::path_code(&plan) }, [alloc_bytes]);
    }
    Ok(plan)
}
