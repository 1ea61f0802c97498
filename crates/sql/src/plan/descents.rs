//! The indexes that a plan descends to reach rows, as a sample of an execution records them (`collie_obs::ExecuteRow`).

use collie_base::CfId;

use crate::catalog::relation::Relation;
use crate::plan::node::{Access, Kind, Node, Plan, Root, Scan, SubquerySource};

/// Calls `visit` with the family of each index that `plan` reads by a key or a range, including the tables whose rows
/// are
/// read through other indexes, and of each index into which an INSERT writes. Subqueries and common table expressions
/// are
/// included, and an index that occurs twice is visited twice. A scan of a whole table descends no index.
pub(crate) fn indexes_of(plan: &Plan, visit: &mut dyn FnMut(CfId)) {
    of_root(&plan.root, visit);
    plan.ctes.iter().for_each(|cte| of_root(cte, visit));
    plan.subplans.iter().for_each(|subplan| of_node(&subplan.query.node, visit));
}

fn of_root(root: &Root, visit: &mut dyn FnMut(CfId)) {
    match root {
        Root::Query(query) => of_node(&query.node, visit),
        Root::Insert(insert) => {
            let relation = &insert.target.relation;
            visit(relation.family());
            others(relation).for_each(&mut *visit);
            of_node(&insert.source.node, visit);
        }
        Root::Update(update) => of_node(&update.node, visit),
        Root::Delete(delete) => of_node(&delete.node, visit),
    }
}

/// Returns the families of a table's indexes except that of the primary key, which is the table's own.
fn others(relation: &Relation) -> impl Iterator<Item = CfId> + '_ {
    relation.indexes.iter().filter(|index| !index.primary).map(|index| index.cf)
}

fn of_node(node: &Node, visit: &mut dyn FnMut(CfId)) {
    match &node.kind {
        Kind::Once | Kind::Virtual(_) | Kind::Function(_) | Kind::Values(_) => {}
        Kind::Scan(scan) => of_scan(scan, visit),
        Kind::Subquery(scan) => match &scan.source {
            SubquerySource::Query(query) => of_node(&query.node, visit),
            SubquerySource::Cte(_) => {}
        },
        Kind::Filter(filter) => of_node(&filter.child, visit),
        Kind::Project(project) => of_node(&project.child, visit),
        Kind::Aggregate(group) => of_node(&group.child, visit),
        Kind::Sort(sort) => of_node(&sort.child, visit),
        Kind::Distinct(distinct) => of_node(&distinct.child, visit),
        Kind::Limit(limit) => of_node(&limit.child, visit),
        Kind::Lock(lock) => of_node(&lock.child, visit),
        Kind::NestLoop(join) => [&join.left, &join.right].into_iter().for_each(|child| of_node(child, visit)),
        Kind::HashJoin(join) => [&join.left, &join.right].into_iter().for_each(|child| of_node(child, visit)),
        Kind::SetOperation(both) => [&both.left, &both.right].into_iter().for_each(|child| of_node(child, visit)),
        Kind::Append(children) => children.iter().for_each(|child| of_node(child, visit)),
    }
}

fn of_scan(scan: &Scan, visit: &mut dyn FnMut(CfId)) {
    let Access::Index(access) = &scan.access else { return };
    let relation = &scan.target.relation;
    let index = &relation.indexes[access.index];
    if !index.primary {
        visit(index.cf);
    }
    visit(relation.family());
}
