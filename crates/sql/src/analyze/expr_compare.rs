//! Comparisons that are more than one operator call: BETWEEN, IN, IS DISTINCT FROM, ANY and ALL, rows, and subqueries
//! as values.
//!
//! Like PostgreSQL, this module turns some of them into AND and OR of single comparisons, so that planning sees those.

use super::{
    Analyzer, Typed,
    bound::{Expr, RowComparison, SubqueryKind},
    coerce::common_type,
    error,
    expr::{exprs, row_fields},
    resolve::{self, named},
    scope::Clause,
    select::Output,
    set_operation::cast_columns,
    unsupported, visit,
};
use crate::{
    builtin::Proc,
    error::{Result, SqlError, SqlState},
    parse::ast::{self, ExprKind, ObjectName, Pos},
    types::{SqlType, Value, oid},
};

impl Analyzer<'_> {
    pub(super) fn is_distinct(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        if let Some(distinct) = self.whole_rows(left, right, negated, pos)? {
            return Ok(distinct);
        }
        if let (Some(left), Some(right)) = (row_fields(left), row_fields(right)) {
            let mut terms = Vec::with_capacity(left.len());
            if left.iter().chain(right).any(is_whole_row) {
                let (left, right) = (self.row_nodes(left)?, self.row_nodes(right)?);
                same_length(&left, &right, pos)?;
                for (left, right) in left.into_iter().zip(right) {
                    terms.push(self.distinct(left, right, false, pos)?.expr);
                }
            } else {
                same_length(left, right, pos)?;
                for (left, right) in left.iter().zip(right) {
                    terms.push(self.is_distinct(left, right, false, pos)?.expr);
                }
            }
            let any = Expr::Or(terms);
            return Ok(if negated { Expr::Not(Box::new(any)) } else { any }.at(pos));
        }
        let left = self.transform(left)?;
        let right = self.transform(right)?;
        self.distinct(left, right, negated, pos)
    }

    fn distinct(&mut self, left: Typed, right: Typed, negated: bool, pos: Pos) -> Result<Typed> {
        let is_null = |node: &Typed| matches!(&node.expr, Expr::Const(Value::Null, _));
        if is_null(&right) {
            return Ok(Expr::IsNull { arg: Box::new(left.expr), negated: !negated }.at(pos));
        }
        if is_null(&left) {
            return Ok(Expr::IsNull { arg: Box::new(right.expr), negated: !negated }.at(pos));
        }
        let (equal, left, right) = self.comparison(&named("=", pos), left, right, pos)?;
        Ok(Expr::DistinctFrom { equal, left: Box::new(left.expr), right: Box::new(right.expr), negated }.at(pos))
    }

    /// Compares two rows, at least one of which is written `table.*`, like records: column by column, with NULLs equal
    /// to each other. Returns whether they are equal if `equal` is set, otherwise whether they are distinct; `None` if
    /// neither side is written so.
    ///
    /// A whole row that an outer join filled with NULLs counts as a row of NULLs.
    pub(super) fn whole_rows(
        &mut self,
        left: &ast::Expr,
        right: &ast::Expr,
        equal: bool,
        pos: Pos,
    ) -> Result<Option<Typed>> {
        if !(is_whole_row(left) || is_whole_row(right)) {
            return Ok(None);
        }
        let (Some(left), Some(right)) = (self.row_parts(left)?, self.row_parts(right)?) else {
            return Err(unsupported("comparing a whole row with what is not written as a row", pos));
        };
        // No position: in PostgreSQL this error comes from the rows, when the statement runs.
        let dissimilar = |text: String| Err(SqlError::new(SqlState::DATATYPE_MISMATCH, text));
        if left.len() != right.len() {
            return dissimilar("cannot compare record types with different numbers of columns".to_owned());
        }
        let mut terms = Vec::with_capacity(left.len());
        for (place, (left, right)) in left.into_iter().zip(right).enumerate() {
            let (left, right) = (self.resolve_unknown(left)?, self.resolve_unknown(right)?);
            let types = [left.ty(), right.ty()].map(|ty| ty.oid);
            if types[0] != types[1] {
                let [left, right] = types.map(|ty| SqlType::new(ty).name());
                let place = place + 1;
                return dissimilar(format!(
                    "cannot compare dissimilar column types {left} and {right} at record column {place}"
                ));
            }
            terms.push(self.distinct(left, right, false, pos)?.expr);
        }
        let any = joined(terms, false);
        Ok(Some(if equal { Expr::Not(Box::new(any)) } else { any }.at(pos)))
    }

    /// Returns the columns of `table.*` or the fields of a row; `None` for any other expression.
    fn row_parts(&mut self, node: &ast::Expr) -> Result<Option<Vec<Typed>>> {
        match &node.kind {
            ExprKind::Column { path, star: true } => Ok(Some(self.star_columns(path, node.pos)?)),
            ExprKind::Row { fields, .. } => self.row_nodes(fields).map(Some),
            _ => Ok(None),
        }
    }

    /// Analyzes the fields of a row; `table.*` stands for all of its columns.
    pub(super) fn row_nodes(&mut self, fields: &[ast::Expr]) -> Result<Vec<Typed>> {
        let mut nodes = Vec::with_capacity(fields.len());
        for field in fields {
            match &field.kind {
                ExprKind::Column { path, star: true } => nodes.extend(self.star_columns(path, field.pos)?),
                _ => nodes.push(self.transform(field)?),
            }
        }
        Ok(nodes)
    }

    /// Analyzes `x BETWEEN low AND high`; `parts` holds the three expressions in this order.
    pub(super) fn between(
        &mut self,
        parts: [&ast::Expr; 3],
        symmetric: bool,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        let [expr, low, high] = parts;
        let inside = |this: &mut Self, low: &ast::Expr, high: &ast::Expr| -> Result<Expr> {
            let (first, second) = if negated { ("<", ">") } else { (">=", "<=") };
            let (x, bound) = (this.transform(expr)?, this.transform(low)?);
            let above = this.operate(&named(first, pos), Some(x), bound, pos)?.expr;
            let (x, bound) = (this.transform(expr)?, this.transform(high)?);
            let below = this.operate(&named(second, pos), Some(x), bound, pos)?.expr;
            Ok(if negated { Expr::Or(vec![above, below]) } else { Expr::And(vec![above, below]) })
        };
        let straight = inside(self, low, high)?;
        if !symmetric {
            return Ok(straight.at(pos));
        }
        let turned = inside(self, high, low)?;
        let both = vec![straight, turned];
        Ok(if negated { Expr::And(both) } else { Expr::Or(both) }.at(pos))
    }

    /// Analyzes `x [NOT] IN (list)`. Items that name no column become one list of a common type. Other items, and rows,
    /// become single comparisons.
    pub(super) fn in_list(&mut self, expr: &ast::Expr, list: &[ast::Expr], negated: bool, pos: Pos) -> Result<Typed> {
        let op = named(if negated { "<>" } else { "=" }, pos);
        let mut terms = Vec::new();
        if let Some(left) = row_fields(expr) {
            for item in list {
                let Some(right) = row_fields(item) else {
                    return Err(unsupported("comparing a row with what is not written as a row", item.start()));
                };
                terms.push(self.row_comparison(&op, left, right, pos)?.expr);
            }
            return Ok(joined(terms, negated).at(pos));
        }
        let tested = self.transform(expr)?;
        let nodes = self.transform_all(list)?;
        let own: Vec<bool> = nodes.iter().map(|node| visit::names_own_level(&node.expr)).collect();
        let listed = own.iter().filter(|own| !**own).count() > 1;
        let mut ty = None;
        if listed {
            let mut all: Vec<&Typed> = Vec::with_capacity(nodes.len() + 1);
            all.push(&tested);
            all.extend(nodes.iter().zip(&own).filter(|(_, own)| !**own).map(|(node, _)| node));
            ty = common_type(&all, None)?.filter(|&ty| oid::array_of(ty).is_some());
        }
        let mut single = Vec::new();
        let mut plain = Vec::with_capacity(nodes.len());
        for (node, own) in nodes.into_iter().zip(own) {
            if ty.is_some() && !own { plain.push(node) } else { single.push(node) }
        }
        if let Some(ty) = ty {
            terms.push(self.list_term(&tested, plain, ty, negated, pos)?);
        }
        for item in single {
            terms.push(self.operate(&op, Some(tested.clone()), item, pos)?.expr);
        }
        Ok(joined(terms, negated).at(pos))
    }

    fn list_term(&mut self, tested: &Typed, items: Vec<Typed>, ty: u32, negated: bool, pos: Pos) -> Result<Expr> {
        let mut list = Vec::with_capacity(items.len());
        for item in items {
            list.push(self.unified(item, ty, "IN")?);
        }
        let op = resolve::operator(&named("=", pos), tested.ty().oid, ty, pos)?;
        let (mut arg, _) = self.fit_arguments(&[op.left], op.result, vec![tested.clone()])?;
        let arg = arg.pop().expect("one argument went in, so one came out");
        let right = op.right;
        let list: Vec<Expr> = if right == ty || crate::analyze::coerce::is_polymorphic(right) {
            exprs(list)
        } else {
            list.into_iter().map(|item| Ok(self.coerce(item, right)?.expr)).collect::<Result<_>>()?
        };
        Ok(Expr::InList { arg: Box::new(arg.expr), list, equal: resolve::operator_proc(op), negated })
    }

    /// Analyzes `x op ANY (array)` and `x op ALL (array)`.
    pub(super) fn quantified_array(
        &mut self,
        left: &ast::Expr,
        op: &ObjectName,
        all: bool,
        array: &ast::Expr,
        pos: Pos,
    ) -> Result<Typed> {
        let left = self.transform(left)?;
        let array = self.transform(array)?;
        let given = array.ty();
        let element = if given.oid == oid::UNKNOWN {
            oid::UNKNOWN
        } else {
            oid::element_of(given.oid).ok_or_else(|| {
                error(SqlState::WRONG_OBJECT_TYPE, "op ANY/ALL (array) requires array on right side", pos)
            })?
        };
        let found = resolve::operator(op, left.ty().oid, element, pos)?;
        if found.result != oid::BOOL {
            return Err(error(
                SqlState::WRONG_OBJECT_TYPE,
                "op ANY/ALL (array) requires operator to yield boolean",
                pos,
            ));
        }
        let sample = Typed::new(Expr::Const(Value::Null, SqlType::new(element)), array.pos);
        let start = left.pos;
        let (mut sides, _) = self.fit_arguments(&[found.left, found.right], found.result, vec![left, sample])?;
        let wanted = sides.pop().map_or(oid::UNKNOWN, |side| side.ty().oid);
        let left = sides.pop().expect("two arguments went in, so two came out");
        let array = if wanted == element {
            array
        } else {
            let wanted = oid::array_of(wanted).ok_or_else(|| {
                let name = SqlType::new(wanted).name();
                error(SqlState::UNDEFINED_OBJECT, format!("could not find array type for data type {name}"), pos)
            })?;
            self.coerce(array, wanted)?
        };
        let proc = resolve::operator_proc(found);
        Ok(Expr::ArrayCompare { arg: Box::new(left.expr), array: Box::new(array.expr), proc, all }.at(start))
    }

    /// Compares rows: `=` and `<>` field by field, the others lexicographically.
    pub(super) fn row_comparison(
        &mut self,
        op: &ObjectName,
        left: &[ast::Expr],
        right: &[ast::Expr],
        pos: Pos,
    ) -> Result<Typed> {
        if !left.iter().chain(right).any(is_whole_row) {
            same_length(left, right, pos)?;
        }
        if left.is_empty() {
            return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "cannot compare rows of zero length", pos));
        }
        let kind = row_comparison_kind(op, pos)?;
        let left = self.row_nodes(left)?;
        let right = self.row_nodes(right)?;
        same_length(&left, &right, pos)?;
        let pairs = left.into_iter().zip(right);
        match kind {
            RowComparison::Equal | RowComparison::NotEqual => {
                let terms: Result<Vec<Expr>> = pairs
                    .map(|(left, right)| {
                        if row_type(&left) || row_type(&right) {
                            return Err(unsupported("a row inside a compared row", left.pos));
                        }
                        Ok(self.operate(op, Some(left), right, pos)?.expr)
                    })
                    .collect();
                Ok(joined(terms?, kind == RowComparison::Equal).at(pos))
            }
            _ => {
                let (mut lefts, mut rights, mut equal, mut less) = (vec![], vec![], vec![], vec![]);
                for (left, right) in pairs {
                    let (proc, left, right) = self.comparison(&named("<", pos), left, right, pos)?;
                    less.push(proc);
                    let op = resolve::operator(&named("=", pos), left.ty().oid, right.ty().oid, pos)?;
                    equal.push(resolve::operator_proc(op));
                    lefts.push(left.expr);
                    rights.push(right.expr);
                }
                Ok(Expr::RowCompare { kind, left: lefts, right: rights, equal, less }.at(pos))
            }
        }
    }

    pub(super) fn in_subquery(
        &mut self,
        expr: &ast::Expr,
        query: &ast::Select,
        negated: bool,
        pos: Pos,
    ) -> Result<Typed> {
        if negated && row_fields(expr).is_some_and(|fields| fields.len() > 1) {
            let any = self.compare_subquery(expr, &named("=", pos), false, query, pos)?;
            return Ok(Expr::Not(Box::new(any.expr)).at(pos));
        }
        let op = named(if negated { "<>" } else { "=" }, pos);
        self.compare_subquery(expr, &op, negated, query, pos)
    }

    pub(super) fn quantified_subquery(
        &mut self,
        left: &ast::Expr,
        op: &ObjectName,
        all: bool,
        query: &ast::Select,
        pos: Pos,
    ) -> Result<Typed> {
        self.compare_subquery(left, op, all, query, pos)
    }

    fn compare_subquery(
        &mut self,
        left: &ast::Expr,
        op: &ObjectName,
        all: bool,
        query: &ast::Select,
        pos: Pos,
    ) -> Result<Typed> {
        // PostgreSQL analyzes the subquery before the left side, and parameters take their types in that order.
        let (output, correlated) = self.subquery(query, pos)?;
        let left = match row_fields(left) {
            Some(fields) => self.transform_all(fields)?,
            None => vec![self.transform(left)?],
        };
        if left.len() != output.columns.len() {
            let what = if left.len() < output.columns.len() { "many" } else { "few" };
            return Err(error(SqlState::SYNTAX_ERROR, format!("subquery has too {what} columns"), pos));
        }
        if left.len() > 1 && op.last() != "=" {
            return Err(unsupported(format!("comparing rows by {op} with those of a subquery"), pos));
        }
        let mut procs: Vec<&'static Proc> = Vec::with_capacity(left.len());
        let mut fields = Vec::with_capacity(left.len());
        let mut types = Vec::with_capacity(left.len());
        for (node, column) in left.into_iter().zip(&output.columns) {
            let value = Typed::new(Expr::CaseOperand(column.ty), pos);
            let (proc, node, value) = self.comparison(op, node, value, pos)?;
            procs.push(proc);
            fields.push(node.expr);
            types.push(value.ty());
        }
        let query = cast_columns(output.query, &output.columns, &types);
        let kind = SubqueryKind::Compare { left: fields, procs, all };
        Ok(Expr::Subquery { kind, query: Box::new(query), correlated, ty: SqlType::BOOL }.at(pos))
    }

    pub(super) fn scalar_subquery(&mut self, query: &ast::Select, pos: Pos) -> Result<Typed> {
        let (output, correlated) = self.subquery(query, pos)?;
        let [column] = output.columns.as_slice() else {
            return Err(error(SqlState::SYNTAX_ERROR, "subquery must return only one column", pos));
        };
        let ty = column.ty;
        Ok(Expr::Subquery { kind: SubqueryKind::Scalar, query: Box::new(output.query), correlated, ty }.at(pos))
    }

    pub(super) fn array_subquery(&mut self, query: &ast::Select, pos: Pos) -> Result<Typed> {
        let (output, correlated) = self.subquery(query, pos)?;
        let [column] = output.columns.as_slice() else {
            return Err(error(SqlState::SYNTAX_ERROR, "subquery must return only one column", pos));
        };
        let Some(ty) = SqlType::new(column.ty.oid).array() else {
            return Err(error(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", SqlType::new(column.ty.oid).name()),
                pos,
            ));
        };
        Ok(Expr::Subquery { kind: SubqueryKind::Array, query: Box::new(output.query), correlated, ty }.at(pos))
    }

    /// Analyzes a subquery in an expression; also returns whether it names a level outside itself.
    pub(super) fn subquery(&mut self, query: &ast::Select, pos: Pos) -> Result<(Output, bool)> {
        match self.levels.last().map(|level| level.clause) {
            Some(Clause::Default) => {
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in DEFAULT expression", pos));
            }
            Some(Clause::Check) => {
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in check constraint", pos));
            }
            Some(Clause::IndexExpression) => {
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in index expression", pos));
            }
            Some(Clause::IndexPredicate) => {
                return Err(error(SqlState::FEATURE_NOT_SUPPORTED, "cannot use subquery in index predicate", pos));
            }
            _ => {}
        }
        let output = self.query(query, true)?;
        let outer = output.outer;
        Ok((output, outer))
    }
}

/// Joins comparisons by AND or OR; a single comparison stays as it is.
fn joined(mut terms: Vec<Expr>, and: bool) -> Expr {
    match (terms.len(), and) {
        (1, _) => terms.pop().expect("there is one"),
        (_, true) => Expr::And(terms),
        (_, false) => Expr::Or(terms),
    }
}

fn row_type(node: &Typed) -> bool {
    node.ty().oid == oid::RECORD
}

fn is_whole_row(node: &ast::Expr) -> bool {
    matches!(&node.kind, ExprKind::Column { star: true, path } if !path.is_empty())
}

fn same_length<T>(left: &[T], right: &[T], pos: Pos) -> Result<()> {
    if left.len() == right.len() {
        return Ok(());
    }
    Err(error(SqlState::SYNTAX_ERROR, "unequal number of entries in row expressions", pos))
}

fn row_comparison_kind(op: &ObjectName, pos: Pos) -> Result<RowComparison> {
    Ok(match op.last() {
        "=" => RowComparison::Equal,
        "<>" => RowComparison::NotEqual,
        "<" => RowComparison::Less,
        "<=" => RowComparison::LessOrEqual,
        ">" => RowComparison::Greater,
        ">=" => RowComparison::GreaterOrEqual,
        _ => {
            return Err(error(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("could not determine interpretation of row comparison operator {op}"),
                pos,
            )
            .hint("Row comparison operators must be associated with btree operator families."));
        }
    })
}
