//! Expressions: from the parsed tree to typed nodes.
//!
//! `expr_compare` handles comparisons of lists, rows, arrays and subqueries; `expr_call` handles calls and aggregates.

use super::{
    Analyzer, Typed,
    bound::{Expr, SubqueryKind},
    coerce, error,
    resolve::named,
    scope::Clause,
    type_name, unsupported,
};
use crate::{
    builtin,
    error::{Result, SqlState},
    parse::ast::{self, ExprKind, Literal, Pos, SqlValue, Step},
    types::{SqlType, Value, io, oid},
};

impl Analyzer<'_> {
    /// Analyzes an expression.
    pub(super) fn transform(&mut self, node: &ast::Expr) -> Result<Typed> {
        match &node.kind {
            ExprKind::Literal(literal) => self.constant(literal, node.pos),
            ExprKind::Column { path, star: false } => self.column(path, node.pos),
            ExprKind::Param(number) => self.param(*number, node.pos),
            _ => self.deeper(node.pos, |this| this.compound(node)),
        }
    }

    /// Analyzes a list of expressions.
    pub(super) fn transform_all(&mut self, nodes: &[ast::Expr]) -> Result<Vec<Typed>> {
        nodes.iter().map(|node| self.transform(node)).collect()
    }

    fn compound(&mut self, node: &ast::Expr) -> Result<Typed> {
        let pos = node.pos;
        let start = node.start();
        let typed = match &node.kind {
            ExprKind::Literal(_) | ExprKind::Param(_) | ExprKind::Column { star: false, .. } => self.transform(node)?,
            ExprKind::Column { star: true, .. } => {
                return Err(error(SqlState::SYNTAX_ERROR, "row expansion via \"*\" is not supported here", pos));
            }
            ExprKind::Cast { expr, ty } => self.explicit_cast(expr, ty, pos)?,
            ExprKind::Operator { op, left, right } => self.operator_expr(op, left.as_deref(), right, pos)?,
            ExprKind::And(terms) => Expr::And(self.booleans(terms, "AND")?).at(start),
            ExprKind::Or(terms) => Expr::Or(self.booleans(terms, "OR")?).at(start),
            ExprKind::Not(term) => {
                let term = self.transform(term)?;
                Expr::Not(Box::new(self.coerce_to_bool(term, "NOT")?.expr)).at(start)
            }
            ExprKind::IsNull { expr, negated } => {
                let arg = Box::new(self.transform(expr)?.expr);
                Expr::IsNull { arg, negated: *negated }.at(start)
            }
            ExprKind::IsBool { expr, value, negated } => self.is_bool(expr, *value, *negated, start)?,
            ExprKind::IsDistinct { left, right, negated } => self.is_distinct(left, right, *negated, pos)?,
            ExprKind::Between { expr, low, high, symmetric, negated } => {
                self.between([expr, low, high], *symmetric, *negated, pos)?
            }
            ExprKind::InList { expr, list, negated } => self.in_list(expr, list, *negated, pos)?,
            ExprKind::InSubquery { expr, query, negated } => self.in_subquery(expr, query, *negated, pos)?,
            ExprKind::QuantifiedArray { left, op, all, array } => self.quantified_array(left, op, *all, array, pos)?,
            ExprKind::QuantifiedSubquery { left, op, all, query } => {
                self.quantified_subquery(left, op, *all, query, pos)?
            }
            ExprKind::Like { op, expr, pattern, .. } => self.operator_expr(op, Some(expr), pattern, pos)?,
            ExprKind::NullIf { left, right } => self.null_if(left, right, pos)?,
            ExprKind::Case { operand, arms, default } => {
                self.case(operand.as_deref(), arms, default.as_deref(), pos)?
            }
            ExprKind::Coalesce(args) => {
                let nodes = self.transform_all(args)?;
                let (nodes, ty) = self.unify(nodes, "COALESCE")?;
                Expr::Coalesce(exprs(nodes), ty).at(start)
            }
            ExprKind::Greatest(args) => self.extreme(args, true, "GREATEST", start)?,
            ExprKind::Least(args) => self.extreme(args, false, "LEAST", start)?,
            ExprKind::Call(call) => self.call(call, pos)?,
            ExprKind::SqlValue(value) => self.sql_value(*value, pos)?,
            ExprKind::Array(items) => self.array(items, None, pos)?,
            ExprKind::ArraySubquery(query) => self.array_subquery(query, pos)?,
            ExprKind::Row { fields, .. } => {
                let nodes = self.row_nodes(fields)?;
                let nodes: Result<Vec<Typed>> = nodes.into_iter().map(|node| self.resolve_unknown(node)).collect();
                Expr::Row(exprs(nodes?)).at(start)
            }
            ExprKind::Indirection { base, steps } => self.indirection(base, steps, pos)?,
            ExprKind::Exists(query) => {
                let (output, correlated) = self.subquery(query, pos)?;
                let (kind, query) = (SubqueryKind::Exists, Box::new(output.query));
                Expr::Subquery { kind, query, correlated, ty: SqlType::BOOL }.at(start)
            }
            ExprKind::Scalar(query) => self.scalar_subquery(query, pos)?,
            ExprKind::Collate { expr, collation } => {
                let node = self.transform(expr)?;
                self.collate(node, collation)?
            }
            ExprKind::Default => {
                return Err(error(SqlState::SYNTAX_ERROR, "DEFAULT is not allowed in this context", pos));
            }
            ExprKind::CurrentOf(_) => return Err(unsupported("WHERE CURRENT OF", pos)),
        };
        Ok(Typed::new(typed.expr, start))
    }

    /// Makes a constant: integers get a type by their size, other numbers are numeric, strings are of unknown type.
    fn constant(&mut self, literal: &Literal, pos: Pos) -> Result<Typed> {
        let (value, ty) = match literal {
            Literal::Null => (Value::Null, SqlType::UNKNOWN),
            Literal::Bool(value) => (Value::Bool(*value), SqlType::BOOL),
            Literal::Integer(value) => (Value::Int4(*value), SqlType::INT4),
            Literal::String(text) => (Value::text(text), SqlType::UNKNOWN),
            Literal::Number(text) => match text.parse::<i64>() {
                Ok(value) => match i32::try_from(value) {
                    Ok(value) => (Value::Int4(value), SqlType::INT4),
                    Err(_) => (Value::Int8(value), SqlType::INT8),
                },
                Err(_) => {
                    let value = io::text_in(oid::NUMERIC, -1, text, self.cx.text).map_err(|e| e.at_opt(pos.get()))?;
                    (value, SqlType::NUMERIC)
                }
            },
        };
        Ok(Typed::new(Expr::Const(value, ty), pos))
    }

    /// Returns whether the expression will be stored in the catalog.
    pub(super) fn is_stored(&self) -> bool {
        self.levels.last().is_some_and(|level| matches!(level.clause, Clause::Default | Clause::Check))
    }

    fn param(&mut self, number: u32, pos: Pos) -> Result<Typed> {
        if self.is_stored() || !self.cx.parameters_allowed {
            return Err(error(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter ${number}"), pos));
        }
        let (place, ty) = self.params.use_at(number, pos)?;
        Ok(Typed::new(Expr::Param(place, ty), pos))
    }

    fn explicit_cast(&mut self, expr: &ast::Expr, ty: &ast::TypeName, pos: Pos) -> Result<Typed> {
        let to = type_name::resolve(ty, self.cx)?;
        // Each element of a written array is converted on its own, so that literals in it get their type.
        if let (ExprKind::Array(items), true) = (&expr.kind, to.is_array()) {
            let array = self.array(items, Some(to), expr.pos)?;
            return self.cast(array, to, ty.pos.or(pos));
        }
        let node = self.transform(expr)?;
        let at = if pos == Pos::NONE { node.pos } else { pos };
        let start = node.pos.leftmost(at);
        Ok(Typed::new(self.cast(node, to, at)?.expr, start))
    }

    fn operator_expr(
        &mut self,
        op: &ast::ObjectName,
        left: Option<&ast::Expr>,
        right: &ast::Expr,
        pos: Pos,
    ) -> Result<Typed> {
        if let Some(left_node) = left {
            if let "=" | "<>" = op.last()
                && let Some(compared) = self.whole_rows(left_node, right, op.last() == "=", pos)?
            {
                return Ok(compared);
            }
            if let (Some(left), Some(right)) = (row_fields(left_node), row_fields(right)) {
                return self.row_comparison(op, left, right, pos);
            }
            if let (Some(fields), ExprKind::Scalar(_)) = (row_fields(left_node), &right.kind)
                && fields.len() > 1
            {
                return Err(unsupported("comparing a row with a subquery other than by IN", pos));
            }
        }
        let left = left.map(|left| self.transform(left)).transpose()?;
        let right = self.transform(right)?;
        self.operate(op, left, right, pos)
    }

    fn booleans(&mut self, terms: &[ast::Expr], construct: &str) -> Result<Vec<Expr>> {
        terms
            .iter()
            .map(|term| {
                let node = self.transform(term)?;
                Ok(self.coerce_to_bool(node, construct)?.expr)
            })
            .collect()
    }

    fn is_bool(&mut self, expr: &ast::Expr, value: Option<bool>, negated: bool, pos: Pos) -> Result<Typed> {
        let construct = match (value, negated) {
            (Some(true), false) => "IS TRUE",
            (Some(true), true) => "IS NOT TRUE",
            (Some(false), false) => "IS FALSE",
            (Some(false), true) => "IS NOT FALSE",
            (None, false) => "IS UNKNOWN",
            (None, true) => "IS NOT UNKNOWN",
        };
        let node = self.transform(expr)?;
        let arg = Box::new(self.coerce_to_bool(node, construct)?.expr);
        Ok(Expr::BooleanTest { arg, value, negated }.at(pos))
    }

    fn null_if(&mut self, left: &ast::Expr, right: &ast::Expr, pos: Pos) -> Result<Typed> {
        let left = self.transform(left)?;
        let right = self.transform(right)?;
        let (equal, left, right) = self.comparison(&named("=", pos), left, right, pos)?;
        let ty = left.ty();
        Ok(Expr::NullIf { equal, left: Box::new(left.expr), right: Box::new(right.expr), ty }.at(pos))
    }

    fn case(
        &mut self,
        operand: Option<&ast::Expr>,
        arms: &[ast::CaseArm],
        default: Option<&ast::Expr>,
        pos: Pos,
    ) -> Result<Typed> {
        let operand = match operand {
            None => None,
            Some(operand) => {
                let node = self.transform(operand)?;
                Some(self.resolve_unknown(node)?)
            }
        };
        let mut conditions = Vec::with_capacity(arms.len());
        let mut results = Vec::with_capacity(arms.len() + 1);
        for arm in arms {
            let condition = self.transform(&arm.condition)?;
            let condition = match &operand {
                None => condition,
                Some(operand) => {
                    let tested = Typed::new(Expr::CaseOperand(operand.ty()), operand.pos);
                    self.operate(&named("=", arm.pos), Some(tested), condition, arm.pos)?
                }
            };
            conditions.push(self.coerce_to_bool(condition, "CASE/WHEN")?.expr);
            results.push(self.transform(&arm.result)?);
        }
        let otherwise = match default {
            Some(default) => self.transform(default)?,
            None => Typed::new(Expr::Const(Value::Null, SqlType::UNKNOWN), pos),
        };
        // PostgreSQL lets the type of ELSE count first.
        results.insert(0, otherwise);
        let (mut results, ty) = self.unify(results, "CASE")?;
        let otherwise = Box::new(results.remove(0).expr);
        let arms = conditions.into_iter().zip(exprs(results)).collect();
        let operand = operand.map(|operand| Box::new(operand.expr));
        Ok(Expr::Case { operand, arms, otherwise, ty }.at(pos))
    }

    fn extreme(&mut self, args: &[ast::Expr], greatest: bool, what: &str, pos: Pos) -> Result<Typed> {
        let nodes = self.transform_all(args)?;
        let (nodes, ty) = self.unify(nodes, what)?;
        if builtin::op_class_for(ty.oid).is_none() {
            return Err(error(
                SqlState::UNDEFINED_FUNCTION,
                format!("could not identify a comparison function for type {}", SqlType::new(ty.oid).name()),
                pos,
            ));
        }
        Ok(Expr::Extreme { greatest, args: exprs(nodes), ty }.at(pos))
    }

    /// Analyzes `ARRAY[...]`; `target` is the array type of the cast around it, if there is one.
    fn array(&mut self, items: &[ast::Expr], target: Option<SqlType>, pos: Pos) -> Result<Typed> {
        if items.iter().any(|item| matches!(item.kind, ExprKind::Array(_))) {
            return Err(unsupported("an array of more than one dimension", pos));
        }
        let nodes = self.transform_all(items)?;
        if let Some(target) = target {
            let element = target.element().expect("the target of an array cast is an array type");
            let items = nodes
                .into_iter()
                .map(|node| {
                    let at = node.pos;
                    Ok(self.cast(node, element, at)?.expr)
                })
                .collect::<Result<_>>()?;
            return Ok(Expr::Array { items, ty: target }.at(pos));
        }
        if nodes.is_empty() {
            return Err(error(SqlState::INDETERMINATE_DATATYPE, "cannot determine type of empty array", pos)
                .hint("Explicitly cast to the desired type, for example ARRAY[]::integer[]."));
        }
        let (nodes, ty) = self.unify(nodes, "ARRAY")?;
        let Some(array) = SqlType::new(ty.oid).array() else {
            return Err(error(
                SqlState::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", SqlType::new(ty.oid).name()),
                pos,
            ));
        };
        Ok(Expr::Array { items: exprs(nodes), ty: array }.at(pos))
    }

    fn indirection(&mut self, base: &ast::Expr, steps: &[Step], pos: Pos) -> Result<Typed> {
        // `(t).a` is `t.a` if `t` is a FROM item.
        if let (ExprKind::Column { path, star: false }, [Step::Field(field)]) = (&base.kind, steps)
            && let ([table], true) = (path.as_slice(), self.is_item(path))
        {
            return self.column(&[table.clone(), field.clone()], pos.or(base.pos));
        }
        let mut node = self.transform(base)?;
        for step in steps {
            let index = match step {
                Step::Index(index) => index,
                Step::Slice(..) => return Err(unsupported("an array slice", pos.or(node.pos))),
                Step::Field(_) | Step::Star => {
                    return Err(unsupported("field selection from a row value", pos.or(node.pos)));
                }
            };
            let ty = node.ty();
            let Some(element) = ty.element() else {
                return Err(error(
                    SqlState::DATATYPE_MISMATCH,
                    format!("cannot subscript type {} because it does not support subscripting", ty.name()),
                    node.pos,
                ));
            };
            let at = index.start();
            let index = self.transform(index)?;
            let index = self
                .try_coerce(index, SqlType::INT4, builtin::CastContext::Assignment)?
                .ok_or_else(|| error(SqlState::DATATYPE_MISMATCH, "array subscript must have type integer", at))?;
            let start = node.pos;
            node = Expr::Subscript { array: Box::new(node.expr), index: Box::new(index.expr), ty: element }.at(start);
        }
        Ok(node)
    }

    /// Accepts the collations that mean byte order, by which all text is compared.
    fn collate(&mut self, node: Typed, collation: &ast::ObjectName) -> Result<Typed> {
        known_collation(collation, collation.pos)?;
        let node = self.resolve_unknown(node)?;
        let (ty, pos) = (node.ty(), node.pos);
        if !is_collated(ty) {
            return Err(error(
                SqlState::DATATYPE_MISMATCH,
                format!("collations are not supported by type {}", SqlType::new(ty.oid).name()),
                collation.pos.or(pos),
            ));
        }
        Ok(node)
    }

    fn sql_value(&mut self, value: SqlValue, pos: Pos) -> Result<Typed> {
        let (function, ty) = match value {
            SqlValue::CurrentDate => ("now", Some(SqlType::DATE)),
            SqlValue::CurrentTime(_) => return Err(unsupported("type time with time zone", pos)),
            SqlValue::CurrentTimestamp(None) => ("now", None),
            SqlValue::CurrentTimestamp(Some(p)) => ("now", Some(SqlType::with_typmod(oid::TIMESTAMPTZ, p.clamp(0, 6)))),
            SqlValue::LocalTime(p) => ("now", Some(SqlType::with_typmod(oid::TIME, p.map_or(-1, |p| p.clamp(0, 6))))),
            SqlValue::LocalTimestamp(p) => {
                ("now", Some(SqlType::with_typmod(oid::TIMESTAMP, p.map_or(-1, |p| p.clamp(0, 6)))))
            }
            SqlValue::CurrentRole | SqlValue::CurrentUser | SqlValue::User => ("current_user", None),
            SqlValue::SessionUser => ("session_user", None),
            SqlValue::CurrentCatalog => ("current_database", None),
            SqlValue::CurrentSchema => ("current_schema", None),
        };
        let node = self.plain_call(function, pos)?;
        let Some(to) = ty else { return Ok(node) };
        Ok(Expr::Cast { arg: Box::new(node.expr), to, explicit: false, pos }.at(pos))
    }
}

impl Expr {
    /// Attaches a position to the expression.
    pub(super) fn at(self, pos: Pos) -> Typed {
        Typed::new(self, pos)
    }
}

/// Returns the fields of a row constructor.
pub(super) fn row_fields(node: &ast::Expr) -> Option<&[ast::Expr]> {
    match &node.kind {
        ExprKind::Row { fields, .. } => Some(fields),
        _ => None,
    }
}

/// Fails unless the collation is one of those that mean byte order.
pub(super) fn known_collation(collation: &ast::ObjectName, pos: Pos) -> Result<()> {
    let known_schema = collation.schema().is_none_or(|schema| schema == "pg_catalog");
    if known_schema && matches!(collation.last(), "C" | "POSIX" | "default" | "ucs_basic") {
        return Ok(());
    }
    let text = format!("collation \"{collation}\" for encoding \"UTF8\" does not exist");
    Err(error(SqlState::UNDEFINED_OBJECT, text, pos))
}

/// Returns whether values of the type, or their elements, are compared under a collation.
pub(super) fn is_collated(ty: SqlType) -> bool {
    let element = ty.element().map_or(ty.oid, |element| element.oid);
    coerce::category(element).0 == b'S'
}

/// Returns the expressions without their positions.
pub(super) fn exprs(nodes: Vec<Typed>) -> Vec<Expr> {
    nodes.into_iter().map(|node| node.expr).collect()
}
