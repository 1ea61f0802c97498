//! SELECT, INSERT, UPDATE, DELETE: conversion from the grammar's nodes to `ast`.

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use super::{Convert, alias_of, inner, missing, object_name, optional, pos, required, string, strings};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::*;

impl Convert<'_> {
    /// Converts a query expression.
    pub(super) fn select(&mut self, node: pb::SelectStmt) -> Result<Select> {
        self.enter(|c| c.select_here(node))
    }

    fn select_here(&mut self, node: pb::SelectStmt) -> Result<Select> {
        let pb::SelectStmt {
            distinct_clause,
            into_clause,
            target_list,
            from_clause,
            where_clause,
            group_clause,
            group_distinct,
            having_clause,
            window_clause,
            values_lists,
            sort_clause,
            limit_offset,
            limit_count,
            limit_option,
            locking_clause,
            with_clause,
            op,
            all,
            larg,
            rarg,
        } = node;
        if let Some(into) = into_clause {
            let at = into.rel.map_or(Pos::NONE, |relation| pos(relation.location));
            return Err(self.unsupported("SELECT INTO", at));
        }
        self.absent(group_distinct, "GROUP BY DISTINCT", Pos::NONE)?;
        if let Some(window) = window_clause.into_iter().next() {
            let at = if let Some(NodeEnum::WindowDef(window)) = window.node { pos(window.location) } else { Pos::NONE };
            return Err(self.unsupported("WINDOW", at));
        }
        let with = self.with(with_clause)?;
        let set = match pb::SetOperation::try_from(op) {
            Ok(pb::SetOperation::SetopUnion) => Some(SetOperator::Union),
            Ok(pb::SetOperation::SetopIntersect) => Some(SetOperator::Intersect),
            Ok(pb::SetOperation::SetopExcept) => Some(SetOperator::Except),
            _ => None,
        };
        let body = if let Some(op) = set {
            let left = Box::new(self.select(required(larg)?)?);
            SelectBody::SetOperation { op, all, left, right: Box::new(self.select(required(rarg)?)?) }
        } else if values_lists.is_empty() {
            SelectBody::Core(Box::new(SelectCore {
                distinct: self.distinct(distinct_clause)?,
                targets: self.targets(target_list)?,
                from: self.sources(from_clause)?,
                filter: self.optional_expr(where_clause)?,
                group_by: self.exprs(group_clause)?,
                having: self.optional_expr(having_clause)?,
            }))
        } else {
            SelectBody::Values(self.values(values_lists)?)
        };
        Ok(Select {
            with,
            body,
            order_by: self.sort_items(sort_clause)?,
            limit: self.optional_expr(limit_count)?,
            with_ties: matches!(pb::LimitOption::try_from(limit_option), Ok(pb::LimitOption::WithTies)),
            offset: self.optional_expr(limit_offset)?,
            locking: locking_clause.into_iter().map(|node| self.locking(node)).collect::<Result<_>>()?,
        })
    }

    fn distinct(&mut self, clause: Vec<pb::Node>) -> Result<Option<Distinct>> {
        // Plain DISTINCT is a list of one absent node.
        match clause.first() {
            None => Ok(None),
            Some(pb::Node { node: None }) => Ok(Some(Distinct::Rows)),
            Some(_) => Ok(Some(Distinct::On(self.exprs(clause)?))),
        }
    }

    fn values(&mut self, rows: Vec<pb::Node>) -> Result<Vec<Vec<Expr>>> {
        let mut lists = Vec::with_capacity(rows.len());
        for row in rows {
            let NodeEnum::List(pb::List { items }) = inner(row)? else { return Err(missing()) };
            lists.push(self.exprs(items)?);
        }
        Ok(lists)
    }

    fn targets(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<Target>> {
        nodes.into_iter().map(|node| self.target(node)).collect()
    }

    fn target(&mut self, node: pb::Node) -> Result<Target> {
        let NodeEnum::ResTarget(target) = inner(node)? else { return Err(missing()) };
        let pb::ResTarget { name, indirection, val, location } = *target;
        let pos = pos(location);
        self.absent(!indirection.is_empty(), "a subscript in an output name", pos)?;
        Ok(Target { expr: self.expr(required(val)?)?, alias: optional(name), pos })
    }

    /// Converts ORDER BY.
    pub(super) fn sort_items(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<SortItem>> {
        nodes.into_iter().map(|node| self.sort_item(node)).collect()
    }

    fn sort_item(&mut self, node: pb::Node) -> Result<SortItem> {
        let NodeEnum::SortBy(item) = inner(node)? else { return Err(missing()) };
        let pb::SortBy { node, sortby_dir, sortby_nulls, use_op, location } = *item;
        let at = pos(location);
        let direction = match pb::SortByDir::try_from(sortby_dir) {
            Ok(pb::SortByDir::SortbyDesc) => SortDirection::Desc,
            Ok(pb::SortByDir::SortbyUsing) => SortDirection::Using(object_name(use_op, at)?),
            _ => SortDirection::Asc,
        };
        let nulls_first = nulls_first(sortby_nulls);
        Ok(SortItem { expr: self.expr(required(node)?)?, direction, nulls_first, pos: at })
    }

    fn locking(&mut self, node: pb::Node) -> Result<Locking> {
        let NodeEnum::LockingClause(clause) = inner(node)? else { return Err(missing()) };
        let pb::LockingClause { locked_rels, strength, wait_policy } = clause;
        let strength = match pb::LockClauseStrength::try_from(strength) {
            Ok(pb::LockClauseStrength::LcsForkeyshare) => LockStrength::KeyShare,
            Ok(pb::LockClauseStrength::LcsForshare) => LockStrength::Share,
            Ok(pb::LockClauseStrength::LcsFornokeyupdate) => LockStrength::NoKeyUpdate,
            Ok(pb::LockClauseStrength::LcsForupdate) => LockStrength::Update,
            _ => return Err(missing()),
        };
        let wait = match pb::LockWaitPolicy::try_from(wait_policy) {
            Ok(pb::LockWaitPolicy::LockWaitSkip) => LockWait::Skip,
            Ok(pb::LockWaitPolicy::LockWaitError) => LockWait::Error,
            _ => LockWait::Block,
        };
        let of = locked_rels.into_iter().map(|node| match inner(node)? {
            NodeEnum::RangeVar(relation) => self.relation(Some(relation)),
            _ => Err(missing()),
        });
        Ok(Locking { strength, of: of.collect::<Result<_>>()?, wait })
    }

    fn with(&mut self, clause: Option<pb::WithClause>) -> Result<Option<With>> {
        let Some(pb::WithClause { ctes, recursive, location }) = clause else { return Ok(None) };
        let ctes = ctes.into_iter().map(|node| self.cte(node)).collect::<Result<_>>()?;
        Ok(Some(With { recursive, ctes, pos: pos(location) }))
    }

    fn cte(&mut self, node: pb::Node) -> Result<Cte> {
        let NodeEnum::CommonTableExpr(cte) = inner(node)? else { return Err(missing()) };
        // The fields from `cterecursive` on are results of PostgreSQL's analysis.
        let pb::CommonTableExpr {
            ctename,
            aliascolnames,
            ctematerialized,
            ctequery,
            search_clause,
            cycle_clause,
            location,
            cterecursive: _,
            cterefcount: _,
            ctecolnames: _,
            ctecoltypes: _,
            ctecoltypmods: _,
            ctecolcollations: _,
        } = *cte;
        let at = pos(location);
        if let Some(search) = search_clause {
            return Err(self.unsupported("SEARCH", pos(search.location)));
        }
        if let Some(cycle) = cycle_clause {
            return Err(self.unsupported("CYCLE", pos(cycle.location)));
        }
        let materialized = match pb::CteMaterialize::try_from(ctematerialized) {
            Ok(pb::CteMaterialize::Always) => Some(true),
            Ok(pb::CteMaterialize::Never) => Some(false),
            _ => None,
        };
        let query = required(ctequery)?;
        if let Some(NodeEnum::MergeStmt(_)) = query.node {
            return Err(self.unsupported("MERGE", at));
        }
        let stmt = Box::new(self.stmt(query)?);
        Ok(Cte { name: ctename, columns: strings(aliascolnames)?, materialized, stmt, pos: at })
    }

    fn sources(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<FromItem>> {
        nodes.into_iter().map(|node| self.source(node)).collect()
    }

    fn source(&mut self, node: pb::Node) -> Result<FromItem> {
        self.enter(|c| match inner(node)? {
            NodeEnum::RangeVar(relation) => {
                let (table, alias) = c.table(Some(relation))?;
                Ok(FromItem::Table { table, alias })
            }
            NodeEnum::RangeSubselect(subselect) => c.subquery(*subselect),
            NodeEnum::RangeFunction(function) => c.range_function(function),
            NodeEnum::JoinExpr(join) => c.join(*join),
            NodeEnum::RangeTableSample(sample) => Err(c.unsupported("TABLESAMPLE", pos(sample.location))),
            NodeEnum::RangeTableFunc(function) => Err(c.unsupported("XMLTABLE", pos(function.location))),
            NodeEnum::JsonTable(table) => Err(c.unsupported("JSON_TABLE", pos(table.location))),
            _ => Err(c.unsupported("this entry of FROM", Pos::NONE)),
        })
    }

    fn subquery(&mut self, node: pb::RangeSubselect) -> Result<FromItem> {
        let pb::RangeSubselect { lateral, subquery, alias } = node;
        let NodeEnum::SelectStmt(query) = inner(required(subquery)?)? else { return Err(missing()) };
        let query = Box::new(self.select(*query)?);
        let pos = first_pos(&query);
        let alias = alias.map(alias_of).transpose()?;
        if alias.is_none() {
            // PostgreSQL 16 made the alias optional; PostgreSQL 15, the reference, requires it.
            let what = if matches!(query.body, SelectBody::Values(_)) { "VALUES" } else { "subquery" };
            let form = if what == "VALUES" { "(VALUES ...)" } else { "(SELECT ...)" };
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} in FROM must have an alias"))
                .at_opt(self.bracket_before(pos).get())
                .hint(format!("For example, FROM {form} [AS] foo.")));
        }
        Ok(FromItem::Subquery { query, lateral, alias, pos })
    }

    /// Returns the position of the nearest opening parenthesis before `at`, where a simple subquery starts.
    fn bracket_before(&self, at: Pos) -> Pos {
        let end = at.get().and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
        let found = self.text.get(..end).and_then(|before| before.rfind('('));
        found.and_then(|offset| u32::try_from(offset).ok()).map_or(at, Pos::new)
    }

    fn range_function(&mut self, node: pb::RangeFunction) -> Result<FromItem> {
        let pb::RangeFunction { lateral, ordinality, is_rowsfrom, mut functions, alias, coldeflist } = node;
        self.absent(is_rowsfrom, "ROWS FROM", Pos::NONE)?;
        let (Some(function), true) = (functions.pop(), functions.is_empty()) else { return Err(missing()) };
        // Each entry is a pair: the call, and a column definition list or nothing.
        let NodeEnum::List(pb::List { items }) = inner(function)? else { return Err(missing()) };
        let mut items = items.into_iter();
        let function = Box::new(self.expr(items.next().ok_or_else(missing)?)?);
        let definitions = !coldeflist.is_empty() || items.any(|item| item.node.is_some());
        self.absent(definitions, "a column definition list", function.pos)?;
        Ok(FromItem::Function { function, lateral, ordinality, alias: alias.map(alias_of).transpose()? })
    }

    fn join(&mut self, node: pb::JoinExpr) -> Result<FromItem> {
        let pb::JoinExpr { jointype, is_natural, larg, rarg, using_clause, join_using_alias, quals, alias, rtindex: _ } =
            node;
        let kind = match pb::JoinType::try_from(jointype) {
            Ok(pb::JoinType::JoinInner) => JoinKind::Inner,
            Ok(pb::JoinType::JoinLeft) => JoinKind::Left,
            Ok(pb::JoinType::JoinRight) => JoinKind::Right,
            Ok(pb::JoinType::JoinFull) => JoinKind::Full,
            _ => return Err(missing()),
        };
        let left = self.source(required(larg)?)?;
        let right = self.source(required(rarg)?)?;
        let condition = match (is_natural, using_clause.is_empty(), quals) {
            (true, true, None) => JoinCondition::Natural,
            (false, false, None) => {
                JoinCondition::Using(strings(using_clause)?, join_using_alias.map(|alias| alias.aliasname))
            }
            (false, true, Some(quals)) => JoinCondition::On(self.expr(*quals)?),
            (false, true, None) => JoinCondition::None,
            _ => return Err(missing()),
        };
        let alias = alias.map(alias_of).transpose()?;
        Ok(FromItem::Join(Box::new(Join { kind, left, right, condition, alias })))
    }

    /// Converts INSERT.
    pub(super) fn insert(&mut self, node: pb::InsertStmt) -> Result<Stmt> {
        let pb::InsertStmt {
            relation,
            cols,
            select_stmt,
            on_conflict_clause,
            returning_clause,
            with_clause,
            r#override: overriding,
        } = node;
        let with = self.with(with_clause)?;
        let (table, alias) = self.aliased(relation)?;
        let columns = cols.into_iter().map(|node| Ok(self.assigned(node)?.0)).collect::<Result<_>>()?;
        let source = match select_stmt {
            None => InsertSource::DefaultValues,
            Some(query) => {
                let NodeEnum::SelectStmt(query) = inner(*query)? else { return Err(missing()) };
                InsertSource::Query(Box::new(self.select(*query)?))
            }
        };
        let overriding = match pb::OverridingKind::try_from(overriding) {
            Ok(pb::OverridingKind::OverridingSystemValue) => Some(true),
            Ok(pb::OverridingKind::OverridingUserValue) => Some(false),
            _ => None,
        };
        let on_conflict = on_conflict_clause.map(|clause| self.on_conflict(*clause)).transpose()?;
        let returning = self.returning(returning_clause)?;
        let table = table.name;
        Ok(Stmt::Insert(Box::new(Insert { with, table, alias, columns, source, overriding, on_conflict, returning })))
    }

    /// Converts a target table, whose alias has no column names.
    fn aliased(&self, relation: Option<pb::RangeVar>) -> Result<(TableName, Option<String>)> {
        let (table, alias) = self.table(relation)?;
        let columns = alias.as_ref().is_some_and(|alias| !alias.columns.is_empty());
        self.absent(columns, "column names in a target's alias", table.name.pos)?;
        Ok((table, alias.map(|alias| alias.name)))
    }

    /// Converts the target column of an assignment; returns the assigned value with it.
    fn assigned(&mut self, node: pb::Node) -> Result<(AssignTarget, Option<Box<pb::Node>>)> {
        let NodeEnum::ResTarget(target) = inner(node)? else { return Err(missing()) };
        let pb::ResTarget { name, indirection, val, location } = *target;
        let pos = pos(location);
        Ok((AssignTarget { column: name, steps: self.steps(indirection)?, pos }, val))
    }

    /// Converts SET of UPDATE and of ON CONFLICT.
    fn set_clauses(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<SetClause>> {
        let mut clauses = Vec::with_capacity(nodes.len());
        for node in nodes {
            let (target, value) = self.assigned(node)?;
            let value = required(value)?;
            let Some(NodeEnum::MultiAssignRef(many)) = value.node else {
                clauses.push(SetClause::One { target, value: self.expr(value)? });
                continue;
            };
            // The grammar repeats the source for each of its columns; only the first copy is used.
            let pb::MultiAssignRef { source, colno, ncolumns: _ } = *many;
            if colno == 1 {
                let source = self.expr(required(source)?)?;
                clauses.push(SetClause::Many { targets: vec![target], source });
            } else if let Some(SetClause::Many { targets, source: _ }) = clauses.last_mut() {
                targets.push(target);
            } else {
                return Err(missing());
            }
        }
        Ok(clauses)
    }

    fn on_conflict(&mut self, node: pb::OnConflictClause) -> Result<OnConflict> {
        let pb::OnConflictClause { action, infer, target_list, where_clause, location } = node;
        let target = infer.map(|infer| self.conflict_target(*infer)).transpose()?;
        let set = self.set_clauses(target_list)?;
        let filter = self.optional_expr(where_clause)?;
        let action = match pb::OnConflictAction::try_from(action) {
            Ok(pb::OnConflictAction::OnconflictNothing) => ConflictAction::Nothing,
            Ok(pb::OnConflictAction::OnconflictUpdate) => ConflictAction::Update { set, filter },
            _ => return Err(missing()),
        };
        Ok(OnConflict { target, action, pos: pos(location) })
    }

    fn conflict_target(&mut self, node: pb::InferClause) -> Result<ConflictTarget> {
        let pb::InferClause { index_elems, where_clause, conname, location } = node;
        let pos = pos(location);
        if let Some(name) = optional(conname) {
            return Ok(ConflictTarget::Constraint(name, pos));
        }
        let elements = self.index_elements(index_elems)?;
        Ok(ConflictTarget::Index { elements, filter: self.optional_expr(where_clause)?, pos })
    }

    fn returning(&mut self, clause: Option<pb::ReturningClause>) -> Result<Vec<Target>> {
        let Some(pb::ReturningClause { options, exprs }) = clause else { return Ok(Vec::new()) };
        self.absent(!options.is_empty(), "RETURNING WITH", Pos::NONE)?;
        self.targets(exprs)
    }

    /// Converts UPDATE.
    pub(super) fn update(&mut self, node: pb::UpdateStmt) -> Result<Stmt> {
        let pb::UpdateStmt { relation, target_list, where_clause, from_clause, returning_clause, with_clause } = node;
        let with = self.with(with_clause)?;
        let (table, alias) = self.aliased(relation)?;
        let set = self.set_clauses(target_list)?;
        let from = self.sources(from_clause)?;
        let filter = self.optional_expr(where_clause)?;
        let returning = self.returning(returning_clause)?;
        Ok(Stmt::Update(Box::new(Update { with, table, alias, set, from, filter, returning })))
    }

    /// Converts DELETE.
    pub(super) fn delete(&mut self, node: pb::DeleteStmt) -> Result<Stmt> {
        let pb::DeleteStmt { relation, using_clause, where_clause, returning_clause, with_clause } = node;
        let with = self.with(with_clause)?;
        let (table, alias) = self.aliased(relation)?;
        let using = self.sources(using_clause)?;
        let filter = self.optional_expr(where_clause)?;
        let returning = self.returning(returning_clause)?;
        Ok(Stmt::Delete(Box::new(Delete { with, table, alias, using, filter, returning })))
    }

    /// Converts the elements of an index.
    pub(super) fn index_elements(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<IndexElement>> {
        nodes.into_iter().map(|node| self.index_element(node)).collect()
    }

    fn index_element(&mut self, node: pb::Node) -> Result<IndexElement> {
        let NodeEnum::IndexElem(element) = inner(node)? else { return Err(missing()) };
        let pb::IndexElem { name, expr, indexcolname, collation, opclass, opclassopts, ordering, nulls_ordering } =
            *element;
        self.absent(!indexcolname.is_empty(), "a name for an index column", Pos::NONE)?;
        self.absent(!opclassopts.is_empty(), "an option of an operator class", Pos::NONE)?;
        let key = match expr {
            Some(expr) => IndexKey::Expression(self.expr(*expr)?),
            None => IndexKey::Column(name),
        };
        let at = if let IndexKey::Expression(expr) = &key { expr.pos } else { Pos::NONE };
        let named = |nodes: Vec<pb::Node>| if nodes.is_empty() { Ok(None) } else { object_name(nodes, at).map(Some) };
        let descending = match pb::SortByDir::try_from(ordering) {
            Ok(pb::SortByDir::SortbyAsc) => Some(false),
            Ok(pb::SortByDir::SortbyDesc) => Some(true),
            _ => None,
        };
        let (collation, operator_class) = (named(collation)?, named(opclass)?);
        Ok(IndexElement { key, collation, operator_class, descending, nulls_first: nulls_first(nulls_ordering) })
    }

    /// Converts a list of column names, as in COPY.
    pub(super) fn names(&self, nodes: Vec<pb::Node>) -> Result<Vec<String>> {
        nodes.into_iter().map(string).collect()
    }
}

fn nulls_first(nulls: i32) -> Option<bool> {
    match pb::SortByNulls::try_from(nulls) {
        Ok(pb::SortByNulls::SortbyNullsFirst) => Some(true),
        Ok(pb::SortByNulls::SortbyNullsLast) => Some(false),
        _ => None,
    }
}

/// Returns the first known position inside a query.
fn first_pos(mut query: &Select) -> Pos {
    loop {
        if let Some(with) = &query.with {
            return with.pos;
        }
        match &query.body {
            SelectBody::Core(core) => return core.targets.first().map_or(Pos::NONE, |target| target.pos),
            SelectBody::Values(rows) => {
                return rows.first().and_then(|row| row.first()).map_or(Pos::NONE, Expr::start);
            }
            SelectBody::SetOperation { left, .. } => query = left,
        }
    }
}
