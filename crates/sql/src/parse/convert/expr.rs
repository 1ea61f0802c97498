//! Expressions: conversion from the grammar's nodes to `ast::Expr`.
//!
//! There is one function per node, and none is inlined: a node is large, and the stack holds one frame per level of the
//! text.

#![expect(clippy::boxed_local, reason = "a node is taken apart where it lies, so that its frame stays small")]

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use super::{Convert, inner, missing, object_name, pos, required, string, strings};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::*;
use crate::parse::{TERMS_MAX, too_complex};

impl Convert<'_> {
    /// Converts a list of expressions.
    pub(super) fn exprs(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<Expr>> {
        let mut exprs = Vec::with_capacity(nodes.len());
        for node in nodes {
            exprs.push(self.expr(node)?);
        }
        Ok(exprs)
    }

    /// Converts an expression that may be absent.
    pub(super) fn optional_expr(&mut self, node: Option<Box<pb::Node>>) -> Result<Option<Expr>> {
        node.map(|node| self.expr(*node)).transpose()
    }

    fn boxed(&mut self, node: Option<Box<pb::Node>>) -> Result<Box<Expr>> {
        Ok(Box::new(self.expr(required(node)?)?))
    }

    /// Converts an expression.
    pub(super) fn expr(&mut self, node: pb::Node) -> Result<Expr> {
        self.down()?;
        let expr = self.expr_here(node.node.ok_or_else(missing)?)?;
        self.up();
        Ok(expr)
    }

    fn expr_here(&mut self, node: NodeEnum) -> Result<Expr> {
        match node {
            NodeEnum::ColumnRef(n) => self.column(n),
            NodeEnum::ParamRef(n) => self.param(n),
            NodeEnum::AConst(n) => self.constant(n),
            NodeEnum::TypeCast(n) => self.cast(n),
            NodeEnum::AExpr(n) => self.operator(n),
            NodeEnum::BoolExpr(n) => self.boolean(n),
            NodeEnum::NullTest(n) => self.null_test(n),
            NodeEnum::BooleanTest(n) => self.boolean_test(n),
            NodeEnum::CaseExpr(n) => self.case(n),
            NodeEnum::CoalesceExpr(n) => self.coalesce(n),
            NodeEnum::MinMaxExpr(n) => self.min_max(n),
            NodeEnum::SqlvalueFunction(n) => self.sql_value(n),
            NodeEnum::FuncCall(n) => self.call(n),
            NodeEnum::AArrayExpr(n) => self.array(n),
            NodeEnum::SubLink(n) => self.sublink(n),
            NodeEnum::RowExpr(n) => self.row(n),
            NodeEnum::AIndirection(n) => self.indirection(n),
            NodeEnum::CollateClause(n) => self.collate(n),
            NodeEnum::SetToDefault(n) => self.default(*n),
            NodeEnum::CurrentOfExpr(n) => self.current_of(*n),
            other => Err(self.refused(other)),
        }
    }

    fn default(&mut self, node: pb::SetToDefault) -> Result<Expr> {
        let pb::SetToDefault { xpr: _, type_id: _, type_mod: _, collation: _, location } = node;
        Ok(Expr::new(ExprKind::Default, pos(location)))
    }

    #[inline(never)]
    fn current_of(&mut self, node: pb::CurrentOfExpr) -> Result<Expr> {
        let pb::CurrentOfExpr { xpr: _, cvarno: _, cursor_name, cursor_param } = node;
        self.absent(cursor_param != 0, "CURRENT OF a parameter", Pos::NONE)?;
        Ok(Expr::new(ExprKind::CurrentOf(cursor_name), Pos::NONE))
    }

    /// Returns the error for an expression that has no place in the tree.
    #[inline(never)]
    fn refused(&self, node: NodeEnum) -> SqlError {
        let (what, at) = match node {
            NodeEnum::GroupingFunc(n) => ("GROUPING", n.location),
            NodeEnum::GroupingSet(n) => ("a grouping set", n.location),
            NodeEnum::NamedArgExpr(n) => ("an argument given by name", n.location),
            NodeEnum::XmlExpr(n) => ("an XML expression", n.location),
            NodeEnum::XmlSerialize(n) => ("XMLSERIALIZE", n.location),
            NodeEnum::MergeSupportFunc(n) => ("MERGE_ACTION", n.location),
            NodeEnum::JsonIsPredicate(n) => ("IS JSON", n.location),
            NodeEnum::JsonFuncExpr(n) => ("an SQL/JSON query function", n.location),
            NodeEnum::JsonParseExpr(n) => ("JSON()", n.location),
            NodeEnum::JsonScalarExpr(n) => ("JSON_SCALAR", n.location),
            NodeEnum::JsonSerializeExpr(n) => ("JSON_SERIALIZE", n.location),
            NodeEnum::JsonObjectConstructor(n) => ("JSON_OBJECT", n.location),
            NodeEnum::JsonArrayConstructor(n) => ("JSON_ARRAY", n.location),
            NodeEnum::JsonArrayQueryConstructor(n) => ("JSON_ARRAY", n.location),
            NodeEnum::JsonObjectAgg(_) => ("JSON_OBJECTAGG", -1),
            NodeEnum::JsonArrayAgg(_) => ("JSON_ARRAYAGG", -1),
            _ => ("this expression", -1),
        };
        self.unsupported(what, pos(at))
    }

    #[inline(never)]
    fn column(&mut self, node: pb::ColumnRef) -> Result<Expr> {
        let pb::ColumnRef { mut fields, location } = node;
        let star = matches!(fields.last(), Some(pb::Node { node: Some(NodeEnum::AStar(_)) }));
        if star {
            fields.pop();
        }
        let pos = pos(location);
        if fields.iter().any(|field| matches!(field.node, Some(NodeEnum::AStar(_)))) {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "improper use of \"*\"").at_opt(pos.get()));
        }
        Ok(Expr::new(ExprKind::Column { path: strings(fields)?, star }, pos))
    }

    #[inline(never)]
    fn param(&mut self, node: pb::ParamRef) -> Result<Expr> {
        let pb::ParamRef { number, location } = node;
        let number = u32::try_from(number).map_err(|_| missing())?;
        Ok(Expr::new(ExprKind::Param(number), pos(location)))
    }

    #[inline(never)]
    pub(super) fn constant(&mut self, node: pb::AConst) -> Result<Expr> {
        use pb::a_const::Val;
        let pb::AConst { isnull, location, val } = node;
        let at = pos(location);
        let literal = match val {
            None | Some(_) if isnull => Literal::Null,
            Some(Val::Ival(pb::Integer { ival })) => {
                self.plain_number(at)?;
                Literal::Integer(ival)
            }
            Some(Val::Fval(pb::Float { fval })) => {
                self.plain_number(at)?;
                Literal::Number(fval)
            }
            Some(Val::Boolval(pb::Boolean { boolval })) => Literal::Bool(boolval),
            Some(Val::Sval(pb::String { sval })) => Literal::String(sval),
            Some(Val::Bsval(pb::BitString { bsval: _ })) => return Err(self.unsupported("a bit string", at)),
            None => return Err(missing()),
        };
        Ok(Expr::new(ExprKind::Literal(literal), at))
    }

    /// Refuses numbers that PostgreSQL 15 reads differently: `0x1F`, `0o7`, `0b1`, `1_000`.
    fn plain_number(&self, at: Pos) -> Result<()> {
        let start = at.get().and_then(|at| usize::try_from(at).ok()).unwrap_or(usize::MAX);
        let Some(rest) = self.text.get(start..) else { return Ok(()) };
        let digits = rest.trim_start_matches(['-', '+', ' ', '\t', '\n', '\r']).as_bytes();
        let based = matches!(digits, [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', ..]);
        let number = digits.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        let grouped = digits.first().is_some_and(u8::is_ascii_digit) && number.into_iter().any(|&byte| byte == b'_');
        self.absent(based, "a number in another base than ten", at)?;
        self.absent(grouped, "an underscore in a number", at)
    }

    #[inline(never)]
    fn cast(&mut self, node: Box<pb::TypeCast>) -> Result<Expr> {
        let pb::TypeCast { arg, type_name, location } = *node;
        let expr = self.boxed(arg)?;
        Ok(Expr::new(ExprKind::Cast { expr, ty: self.type_name(type_name)? }, pos(location)))
    }

    #[inline(never)]
    fn operator(&mut self, node: Box<pb::AExpr>) -> Result<Expr> {
        use pb::AExprKind as K;
        // The ends of the list serve tools that rewrite text.
        let pb::AExpr { kind, name, lexpr, rexpr, rexpr_list_start: _, rexpr_list_end: _, location } = *node;
        let at = pos(location);
        let op = object_name(name, at)?;
        let left = lexpr.map(|left| self.expr(*left)).transpose()?.map(Box::new);
        let kind = K::try_from(kind).map_err(|_| missing())?;
        let negated = op.last().starts_with(['!', '<']);
        let kind = match kind {
            K::AexprOp => ExprKind::Operator { op, left, right: self.boxed(rexpr)? },
            K::AexprOpAny | K::AexprOpAll => {
                let all = kind == K::AexprOpAll;
                ExprKind::QuantifiedArray { left: left.ok_or_else(missing)?, op, all, array: self.boxed(rexpr)? }
            }
            K::AexprDistinct | K::AexprNotDistinct => ExprKind::IsDistinct {
                left: left.ok_or_else(missing)?,
                right: self.boxed(rexpr)?,
                negated: kind == K::AexprNotDistinct,
            },
            K::AexprNullif => ExprKind::NullIf { left: left.ok_or_else(missing)?, right: self.boxed(rexpr)? },
            K::AexprIn => {
                let NodeEnum::List(pb::List { items }) = inner(required(rexpr)?)? else { return Err(missing()) };
                ExprKind::InList { expr: left.ok_or_else(missing)?, list: self.exprs(items)?, negated }
            }
            K::AexprLike | K::AexprIlike | K::AexprSimilar => {
                let kind = match kind {
                    K::AexprLike => LikeKind::Like,
                    K::AexprIlike => LikeKind::ILike,
                    _ => LikeKind::Similar,
                };
                ExprKind::Like { kind, op, negated, expr: left.ok_or_else(missing)?, pattern: self.boxed(rexpr)? }
            }
            K::AexprBetween | K::AexprNotBetween | K::AexprBetweenSym | K::AexprNotBetweenSym => {
                let NodeEnum::List(pb::List { items }) = inner(required(rexpr)?)? else { return Err(missing()) };
                let Ok([low, high]) = <[Expr; 2]>::try_from(self.exprs(items)?) else { return Err(missing()) };
                ExprKind::Between {
                    expr: left.ok_or_else(missing)?,
                    low: Box::new(low),
                    high: Box::new(high),
                    symmetric: matches!(kind, K::AexprBetweenSym | K::AexprNotBetweenSym),
                    negated: matches!(kind, K::AexprNotBetween | K::AexprNotBetweenSym),
                }
            }
            K::Undefined => return Err(missing()),
        };
        Ok(Expr::new(kind, at))
    }

    #[inline(never)]
    fn boolean(&mut self, node: Box<pb::BoolExpr>) -> Result<Expr> {
        let pb::BoolExpr { xpr: _, boolop, args, location } = *node;
        let at = pos(location);
        if args.len() > TERMS_MAX {
            let what = format_args!("an AND or OR list has more than {TERMS_MAX} terms");
            return Err(too_complex(what, at));
        }
        let mut terms = self.exprs(args)?;
        let kind = match pb::BoolExprType::try_from(boolop) {
            Ok(pb::BoolExprType::AndExpr) => ExprKind::And(terms),
            Ok(pb::BoolExprType::OrExpr) => ExprKind::Or(terms),
            Ok(pb::BoolExprType::NotExpr) => match terms.pop() {
                // `x NOT IN (SELECT ...)` arrives as NOT of IN, both with the position of NOT.
                Some(Expr { kind: ExprKind::InSubquery { expr, query, negated: false }, pos }) if pos == at => {
                    ExprKind::InSubquery { expr, query, negated: true }
                }
                Some(term) => ExprKind::Not(Box::new(term)),
                None => return Err(missing()),
            },
            _ => return Err(missing()),
        };
        Ok(Expr::new(kind, at))
    }

    #[inline(never)]
    fn null_test(&mut self, node: Box<pb::NullTest>) -> Result<Expr> {
        let pb::NullTest { xpr: _, arg, nulltesttype, argisrow: _, location } = *node;
        let negated = matches!(pb::NullTestType::try_from(nulltesttype), Ok(pb::NullTestType::IsNotNull));
        Ok(Expr::new(ExprKind::IsNull { expr: self.boxed(arg)?, negated }, pos(location)))
    }

    #[inline(never)]
    fn boolean_test(&mut self, node: Box<pb::BooleanTest>) -> Result<Expr> {
        use pb::BoolTestType as T;
        let pb::BooleanTest { xpr: _, arg, booltesttype, location } = *node;
        let (value, negated) = match T::try_from(booltesttype).map_err(|_| missing())? {
            T::IsTrue => (Some(true), false),
            T::IsNotTrue => (Some(true), true),
            T::IsFalse => (Some(false), false),
            T::IsNotFalse => (Some(false), true),
            T::IsUnknown => (None, false),
            T::IsNotUnknown => (None, true),
            T::Undefined => return Err(missing()),
        };
        Ok(Expr::new(ExprKind::IsBool { expr: self.boxed(arg)?, value, negated }, pos(location)))
    }

    #[inline(never)]
    fn case(&mut self, node: Box<pb::CaseExpr>) -> Result<Expr> {
        let pb::CaseExpr { xpr: _, casetype: _, casecollid: _, arg, args, defresult, location } = *node;
        let operand = self.optional_expr(arg)?.map(Box::new);
        let mut arms = Vec::with_capacity(args.len());
        for arm in args {
            let NodeEnum::CaseWhen(arm) = inner(arm)? else { return Err(missing()) };
            let pb::CaseWhen { xpr: _, expr, result, location } = *arm;
            let condition = self.expr(required(expr)?)?;
            arms.push(CaseArm { condition, result: self.expr(required(result)?)?, pos: pos(location) });
        }
        let default = self.optional_expr(defresult)?.map(Box::new);
        Ok(Expr::new(ExprKind::Case { operand, arms, default }, pos(location)))
    }

    #[inline(never)]
    fn coalesce(&mut self, node: Box<pb::CoalesceExpr>) -> Result<Expr> {
        let pb::CoalesceExpr { xpr: _, coalescetype: _, coalescecollid: _, args, location } = *node;
        Ok(Expr::new(ExprKind::Coalesce(self.exprs(args)?), pos(location)))
    }

    #[inline(never)]
    fn min_max(&mut self, node: Box<pb::MinMaxExpr>) -> Result<Expr> {
        let pb::MinMaxExpr { xpr: _, minmaxtype: _, minmaxcollid: _, inputcollid: _, op, args, location } = *node;
        let args = self.exprs(args)?;
        let kind = match pb::MinMaxOp::try_from(op) {
            Ok(pb::MinMaxOp::IsGreatest) => ExprKind::Greatest(args),
            Ok(pb::MinMaxOp::IsLeast) => ExprKind::Least(args),
            _ => return Err(missing()),
        };
        Ok(Expr::new(kind, pos(location)))
    }

    #[inline(never)]
    fn sql_value(&mut self, node: Box<pb::SqlValueFunction>) -> Result<Expr> {
        use pb::SqlValueFunctionOp as O;
        let pb::SqlValueFunction { xpr: _, op, r#type: _, typmod, location } = *node;
        let value = match O::try_from(op).map_err(|_| missing())? {
            O::SvfopCurrentDate => SqlValue::CurrentDate,
            O::SvfopCurrentTime => SqlValue::CurrentTime(None),
            O::SvfopCurrentTimeN => SqlValue::CurrentTime(Some(typmod)),
            O::SvfopCurrentTimestamp => SqlValue::CurrentTimestamp(None),
            O::SvfopCurrentTimestampN => SqlValue::CurrentTimestamp(Some(typmod)),
            O::SvfopLocaltime => SqlValue::LocalTime(None),
            O::SvfopLocaltimeN => SqlValue::LocalTime(Some(typmod)),
            O::SvfopLocaltimestamp => SqlValue::LocalTimestamp(None),
            O::SvfopLocaltimestampN => SqlValue::LocalTimestamp(Some(typmod)),
            O::SvfopCurrentRole => SqlValue::CurrentRole,
            O::SvfopCurrentUser => SqlValue::CurrentUser,
            O::SvfopUser => SqlValue::User,
            O::SvfopSessionUser => SqlValue::SessionUser,
            O::SvfopCurrentCatalog => SqlValue::CurrentCatalog,
            O::SvfopCurrentSchema => SqlValue::CurrentSchema,
            O::SqlvalueFunctionOpUndefined => return Err(missing()),
        };
        Ok(Expr::new(ExprKind::SqlValue(value), pos(location)))
    }

    #[inline(never)]
    pub(super) fn call(&mut self, node: Box<pb::FuncCall>) -> Result<Expr> {
        let pb::FuncCall {
            funcname,
            args,
            agg_order,
            agg_filter,
            over,
            agg_within_group,
            agg_star,
            agg_distinct,
            func_variadic,
            funcformat,
            location,
        } = *node;
        let at = pos(location);
        let name = object_name(funcname, at)?;
        if let Some(window) = over {
            return Err(self.unsupported("a window function (OVER)", pos(window.location).or(at)));
        }
        self.absent(agg_within_group, "WITHIN GROUP", at)?;
        let call = Call {
            name,
            args: self.exprs(args)?,
            star: agg_star,
            distinct: agg_distinct,
            variadic: func_variadic,
            order_by: self.sort_items(agg_order)?,
            filter: self.optional_expr(agg_filter)?,
            special_form: matches!(pb::CoercionForm::try_from(funcformat), Ok(pb::CoercionForm::CoerceSqlSyntax)),
        };
        Ok(Expr::new(ExprKind::Call(Box::new(call)), at))
    }

    #[inline(never)]
    fn array(&mut self, node: pb::AArrayExpr) -> Result<Expr> {
        let pb::AArrayExpr { elements, list_start: _, list_end: _, location } = node;
        Ok(Expr::new(ExprKind::Array(self.exprs(elements)?), pos(location)))
    }

    #[inline(never)]
    fn sublink(&mut self, node: Box<pb::SubLink>) -> Result<Expr> {
        use pb::SubLinkType as T;
        let pb::SubLink { xpr: _, sub_link_type, sub_link_id: _, testexpr, oper_name, subselect, location } = *node;
        let at = pos(location);
        let left = self.optional_expr(testexpr)?.map(Box::new);
        let NodeEnum::SelectStmt(query) = inner(required(subselect)?)? else { return Err(missing()) };
        let query = Box::new(self.select(*query)?);
        let kind = T::try_from(sub_link_type).map_err(|_| missing())?;
        let kind = match (kind, left) {
            (T::ExistsSublink, None) => ExprKind::Exists(query),
            (T::ExprSublink, None) => ExprKind::Scalar(query),
            (T::ArraySublink, None) => ExprKind::ArraySubquery(query),
            (T::AnySublink, Some(expr)) if oper_name.is_empty() => ExprKind::InSubquery { expr, query, negated: false },
            (T::AnySublink | T::AllSublink, Some(left)) => {
                let op = object_name(oper_name, at)?;
                ExprKind::QuantifiedSubquery { left, op, all: kind == T::AllSublink, query }
            }
            _ => return Err(missing()),
        };
        Ok(Expr::new(kind, at))
    }

    #[inline(never)]
    fn row(&mut self, node: Box<pb::RowExpr>) -> Result<Expr> {
        let pb::RowExpr { xpr: _, args, row_typeid: _, row_format, colnames: _, location } = *node;
        let explicit = matches!(pb::CoercionForm::try_from(row_format), Ok(pb::CoercionForm::CoerceExplicitCall));
        Ok(Expr::new(ExprKind::Row { fields: self.exprs(args)?, explicit }, pos(location)))
    }

    #[inline(never)]
    fn indirection(&mut self, node: Box<pb::AIndirection>) -> Result<Expr> {
        let pb::AIndirection { arg, indirection } = *node;
        let base = self.boxed(arg)?;
        let steps = self.steps(indirection)?;
        let pos = base.start();
        Ok(Expr::new(ExprKind::Indirection { base, steps }, pos))
    }

    /// Converts subscripts and field selections.
    pub(super) fn steps(&mut self, nodes: Vec<pb::Node>) -> Result<Vec<Step>> {
        nodes.into_iter().map(|node| self.step(node)).collect()
    }

    fn step(&mut self, node: pb::Node) -> Result<Step> {
        match node.node {
            Some(NodeEnum::AStar(pb::AStar {})) => Ok(Step::Star),
            Some(NodeEnum::AIndices(indices)) => {
                let pb::AIndices { is_slice, lidx, uidx } = *indices;
                let (low, high) = (self.optional_expr(lidx)?, self.optional_expr(uidx)?);
                match (is_slice, low, high) {
                    (true, low, high) => Ok(Step::Slice(low, high)),
                    (false, None, Some(index)) => Ok(Step::Index(index)),
                    _ => Err(missing()),
                }
            }
            _ => Ok(Step::Field(string(node)?)),
        }
    }

    #[inline(never)]
    fn collate(&mut self, node: Box<pb::CollateClause>) -> Result<Expr> {
        let pb::CollateClause { arg, collname, location } = *node;
        let at = pos(location);
        Ok(Expr::new(ExprKind::Collate { expr: self.boxed(arg)?, collation: object_name(collname, at)? }, at))
    }
}
