//! EXPLAIN: prints a plan in PostgreSQL's shape, with expected rows and without costs.

use crate::{
    catalog::relation::{IndexColumn, KeyPart, Relation},
    plan::{
        code::Code,
        node::{Access, ConflictPlan, IndexAccess, Kind, Node, Plan, Prefix, Root, Scan, SubquerySource},
    },
};

/// Returns the lines that EXPLAIN shows.
pub fn explain(plan: &Plan) -> Vec<String> {
    explain_with(plan, true)
}

/// Returns the lines that EXPLAIN shows, with or without the expected rows.
pub fn explain_with(plan: &Plan, rows: bool) -> Vec<String> {
    let mut printer = Printer { lines: Vec::new(), rows };
    printer.root(&plan.root, 0);
    for (i, sub) in plan.subplans.iter().enumerate() {
        let name = if sub.correlated { "SubPlan" } else { "InitPlan" };
        printer.note(0, &format!("{name} {}", i + 1));
        printer.node(&sub.query.node, 1);
    }
    for (i, cte) in plan.ctes.iter().enumerate() {
        printer.note(0, &format!("CTE {}", i + 1));
        printer.root(cte, 1);
    }
    printer.lines
}

struct Printer {
    lines: Vec<String>,
    /// Whether expected rows are shown.
    rows: bool,
}

impl Printer {
    fn head(&mut self, depth: usize, text: &str, rows: f64) {
        let indent = match depth {
            0 => String::new(),
            depth => format!("{}->  ", " ".repeat(6 * depth - 4)),
        };
        let rows = if self.rows { format!("  (rows={:.0})", rows.max(1.0)) } else { String::new() };
        self.lines.push(format!("{indent}{text}{rows}"));
    }

    fn note(&mut self, depth: usize, text: &str) {
        self.lines.push(format!("{}{text}", " ".repeat(6 * depth + 2)));
    }

    fn root(&mut self, root: &Root, depth: usize) {
        match root {
            Root::Query(query) => self.node(&query.node, depth),
            Root::Insert(insert) => {
                self.head(depth, &format!("Insert on {}", insert.target.alias), insert.source.node.rows);
                if let Some(conflict) = &insert.conflict {
                    self.conflict(depth, &insert.target.relation, conflict);
                }
                self.node(&insert.source.node, depth + 1);
            }
            Root::Update(update) => {
                self.head(depth, &format!("Update on {}", update.target.alias), update.node.rows);
                self.node(&update.node, depth + 1);
            }
            Root::Delete(delete) => {
                self.head(depth, &format!("Delete on {}", delete.target.alias), delete.node.rows);
                self.node(&delete.node, depth + 1);
            }
        }
    }

    fn filter(&mut self, depth: usize, filter: Option<&Code>) {
        if let Some(code) = filter {
            self.note(depth, &format!("Filter: {} condition(s)", conditions(code)));
        }
    }

    fn conflict(&mut self, depth: usize, relation: &Relation, conflict: &ConflictPlan) {
        let resolution = if conflict.update.is_some() { "UPDATE" } else { "NOTHING" };
        self.note(depth, &format!("Conflict Resolution: {resolution}"));
        if conflict.named {
            let names: Vec<&str> = conflict.arbiters.iter().map(|&place| &*relation.indexes[place].name).collect();
            self.note(depth, &format!("Conflict Arbiter Indexes: {}", names.join(", ")));
        }
        if let Some(filter) = conflict.update.as_ref().and_then(|update| update.filter.as_ref()) {
            self.note(depth, &format!("Conflict Filter: {} condition(s)", conditions(filter)));
        }
    }

    fn scan(&mut self, depth: usize, scan: &Scan, rows: f64) {
        let target = &scan.target;
        let on = if *target.alias == *target.relation.name {
            target.relation.name.to_string()
        } else {
            format!("{} {}", target.relation.name, target.alias)
        };
        match &scan.access {
            Access::Full { reverse } => {
                let direction = if *reverse { " Backward" } else { "" };
                self.head(depth, &format!("Seq Scan{direction} on {on}"), rows);
            }
            Access::Index(access) => {
                let index = &target.relation.indexes[access.index];
                let direction = if access.reverse { " Backward" } else { "" };
                self.head(depth, &format!("Index Scan{direction} using {} on {on}", index.name), rows);
                let columns: Vec<&str> = index.columns.iter().map(|column| shown(column, &target.relation)).collect();
                if let Some(text) = index_condition(access, &columns) {
                    self.note(depth, &text);
                }
            }
        }
        self.filter(depth, scan.filter.as_ref());
    }

    fn node(&mut self, node: &Node, depth: usize) {
        let rows = node.rows;
        match &node.kind {
            Kind::Once => self.head(depth, "Result", rows),
            Kind::Scan(scan) => self.scan(depth, scan, rows),
            Kind::Virtual(scan) => {
                self.head(depth, &format!("Seq Scan on {} {}", scan.relation.name, scan.alias), rows);
                self.filter(depth, scan.filter.as_ref());
            }
            Kind::Function(scan) => {
                self.head(depth, &format!("Function Scan on {}", scan.name), rows);
                self.filter(depth, scan.filter.as_ref());
            }
            Kind::Subquery(scan) => {
                match &scan.source {
                    SubquerySource::Query(query) => {
                        self.head(depth, &format!("Subquery Scan on {}", scan.alias), rows);
                        self.node(&query.node, depth + 1);
                    }
                    SubquerySource::Cte(_) => self.head(depth, &format!("CTE Scan on {}", scan.alias), rows),
                }
                self.filter(depth, scan.filter.as_ref());
            }
            Kind::Values(values) if values.rows.len() == 1 => self.head(depth, "Result", rows),
            Kind::Values(_) => self.head(depth, "Values Scan on \"*VALUES*\"", rows),
            Kind::Filter(filter) => {
                self.node(&filter.child, depth);
                self.filter(depth, Some(&filter.condition));
            }
            Kind::Project(project) => self.node(&project.child, depth),
            Kind::NestLoop(join) => {
                self.head(depth, if join.outer { "Nested Loop Left Join" } else { "Nested Loop" }, rows);
                self.filter(depth, join.on.as_ref().or(join.filter.as_ref()));
                self.node(&join.left, depth + 1);
                self.node(&join.right, depth + 1);
            }
            Kind::HashJoin(join) => {
                let name = match (join.left_outer, join.right_outer) {
                    (false, false) => "Hash Join",
                    (true, false) => "Hash Left Join",
                    (false, true) => "Hash Right Join",
                    (true, true) => "Hash Full Join",
                };
                self.head(depth, name, rows);
                self.filter(depth, join.filter.as_ref());
                self.node(&join.left, depth + 1);
                self.head(depth + 1, "Hash", join.right.rows);
                self.node(&join.right, depth + 2);
            }
            Kind::Aggregate(group) => {
                self.head(depth, if group.keys.is_empty() { "Aggregate" } else { "HashAggregate" }, rows);
                self.filter(depth, group.having.as_ref());
                self.node(&group.child, depth + 1);
            }
            Kind::Sort(sort) => {
                self.head(depth, "Sort", rows);
                self.node(&sort.child, depth + 1);
            }
            Kind::Distinct(distinct) => {
                self.head(depth, "Unique", rows);
                self.node(&distinct.child, depth + 1);
            }
            Kind::Limit(limit) => {
                self.head(depth, "Limit", rows);
                self.node(&limit.child, depth + 1);
            }
            Kind::Append(children) => {
                self.head(depth, "Append", rows);
                children.iter().for_each(|child| self.node(child, depth + 1));
            }
            Kind::SetOperation(both) => {
                let name = match (both.except, both.all) {
                    (false, false) => "HashSetOp Intersect",
                    (false, true) => "HashSetOp Intersect All",
                    (true, false) => "HashSetOp Except",
                    (true, true) => "HashSetOp Except All",
                };
                self.head(depth, name, rows);
                self.node(&both.left, depth + 1);
                self.node(&both.right, depth + 1);
            }
            Kind::Lock(lock) => {
                self.head(depth, "LockRows", rows);
                self.node(&lock.child, depth + 1);
            }
        }
    }
}

/// Returns the text that shows a column of an index: its name, or its expression.
fn shown<'a>(column: &'a IndexColumn, relation: &'a Relation) -> &'a str {
    match &column.part {
        KeyPart::Column(place) => &relation.columns[*place].name,
        KeyPart::Expression(expression) => &expression.text,
    }
}

fn conditions(code: &Code) -> usize {
    match code {
        Code::And(terms) => terms.len(),
        _ => 1,
    }
}

/// Formats the bounds on the columns of an index.
fn index_condition(access: &IndexAccess, columns: &[&str]) -> Option<String> {
    let mut parts: Vec<String> = match &access.prefix {
        Prefix::Product(terms) => terms
            .iter()
            .zip(columns)
            .map(|(term, column)| match term {
                crate::plan::node::Term::One(code) => format!("({column} = {})", value(code)),
                _ => format!("({column} = ANY (...))"),
            })
            .collect(),
        Prefix::Rows(rows) => {
            vec![format!("(ROW({}) = ANY of {} rows)", columns[..access.fixed].join(", "), rows.len())]
        }
    };
    if let Some(column) = columns.get(access.fixed) {
        for (limiter, sign) in [(&access.lower, '>'), (&access.upper, '<')] {
            if let Some(limiter) = limiter {
                let equal = if limiter.inclusive { "=" } else { "" };
                parts.push(format!("({column} {sign}{equal} {})", value(&limiter.value)));
            }
        }
    }
    match parts.as_slice() {
        [] => None,
        [one] => Some(format!("Index Cond: {one}")),
        many => Some(format!("Index Cond: ({})", many.join(" AND "))),
    }
}

fn value(code: &Code) -> String {
    match code {
        Code::Param(index) => format!("${}", index + 1),
        Code::Const(value) => value.as_i64().map_or_else(|| "'...'".to_owned(), |number| number.to_string()),
        _ => "...".to_owned(),
    }
}
