//! The kind of access path of a plan, as a sample of planning records it (`collie_obs::Plan`).

use crate::plan::node::{Access, Kind, Node, Plan, Root};

/// Returns 0 for a plan that reads one row by its key, 1 for one that reads a range of an index, and 2 for any other:
/// one
/// that reads all rows, several tables, or none.
pub(super) fn path_code(plan: &Plan) -> u32 {
    let mut node: &Node = match &plan.root {
        Root::Query(query) => &query.node,
        Root::Insert(insert) => &insert.source.node,
        Root::Update(update) => &update.node,
        Root::Delete(delete) => &delete.node,
    };
    loop {
        node = match &node.kind {
            Kind::Filter(filter) => &filter.child,
            Kind::Project(project) => &project.child,
            Kind::Aggregate(group) => &group.child,
            Kind::Sort(sort) => &sort.child,
            Kind::Distinct(distinct) => &distinct.child,
            Kind::Limit(limit) => &limit.child,
            Kind::Lock(lock) => &lock.child,
            Kind::Scan(scan) => {
                return match &scan.access {
                    Access::Index(access) if access.point && access.is_single() => 0,
                    Access::Index(_) => 1,
                    Access::Full { .. } => 2,
                };
            }
            _ => return 2,
        };
    }
}
