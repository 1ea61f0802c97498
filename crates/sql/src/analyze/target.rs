//! Output lists: `*` expansion and the names of columns.

use super::{Analyzer, Typed, error, select::is_unknown};
use crate::{
    error::{Result, SqlState},
    parse::ast::{self, ExprKind, Pos, SqlValue, Step},
};

/// An output column, or a hidden column that ORDER BY or DISTINCT ON needs.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) node: Typed,
    pub(super) name: String,
    pub(super) junk: bool,
}

impl Target {
    /// Makes a hidden column.
    pub(super) fn junk(node: Typed) -> Self {
        Self { node, name: "?column?".to_owned(), junk: true }
    }
}

impl Analyzer<'_> {
    /// Analyzes an output list.
    pub(super) fn targets(&mut self, targets: &[ast::Target]) -> Result<Vec<Target>> {
        let mut out = Vec::with_capacity(targets.len());
        for target in targets {
            match &target.expr.kind {
                ExprKind::Column { path, star: true } => self.expand(path, target.expr.pos, &mut out)?,
                _ => {
                    let node = self.transform(&target.expr)?;
                    let name = target.alias.clone().unwrap_or_else(|| column_name(&target.expr));
                    out.push(Target { node, name, junk: false });
                }
            }
        }
        if out.len() > 1664 {
            return Err(error(SqlState::TOO_MANY_COLUMNS, "target lists can have at most 1664 entries", Pos::NONE));
        }
        Ok(out)
    }

    /// Gives an output column of unknown type the type text.
    pub(super) fn resolve_target(&mut self, target: &mut Target) -> Result<()> {
        if is_unknown(target.node.ty()) {
            target.node = self.resolve_unknown(target.node.clone())?;
        }
        Ok(())
    }

    /// Returns the columns of `table.*`.
    pub(super) fn star_columns(&mut self, path: &[String], pos: Pos) -> Result<Vec<Typed>> {
        let mut out = Vec::new();
        self.expand(path, pos, &mut out)?;
        Ok(out.into_iter().map(|target| target.node).collect())
    }

    /// Expands `*` (empty path) or `table.*`.
    fn expand(&mut self, path: &[String], pos: Pos, out: &mut Vec<Target>) -> Result<()> {
        let (up, items): (usize, Vec<usize>) = match path {
            [] => {
                let level = self.level();
                let open = (0..level.items.len()).filter(|&at| level.items[at].open).collect::<Vec<_>>();
                if open.is_empty() {
                    return Err(error(SqlState::SYNTAX_ERROR, "SELECT * with no tables specified is not valid", pos));
                }
                (0, open)
            }
            [.., table] => {
                let schema = path.len().checked_sub(2).map(|at| path[at].as_str());
                match self.named_item(schema, table, pos)? {
                    Some((up, item)) => (up, vec![item]),
                    None => return Err(self.missing_table(schema, table, pos)),
                }
            }
        };
        let at = self.levels.len() - 1 - up;
        let columns: Vec<(String, super::Expr)> =
            items.into_iter().flat_map(|item| self.levels[at].items[item].columns.clone()).collect();
        for (name, expr) in columns {
            let node = self.found(expr, up, pos);
            out.push(Target { node, name, junk: false });
        }
        Ok(())
    }
}

/// Returns the name that PostgreSQL gives an output column without AS.
pub(super) fn column_name(expr: &ast::Expr) -> String {
    figure(expr).map_or_else(|| "?column?".to_owned(), |(name, _)| name)
}

/// Returns a name and whether it is a strong name, which a cast around the expression does not replace.
pub(super) fn figure(expr: &ast::Expr) -> Option<(String, bool)> {
    let strong = |name: &str| Some((name.to_owned(), true));
    match &expr.kind {
        ExprKind::Column { path, star: false } => path.last().map(|name| (name.clone(), true)),
        ExprKind::Indirection { base, steps } => {
            let field = steps.iter().rev().find_map(|step| match step {
                Step::Field(name) => Some(name.clone()),
                _ => None,
            });
            field.map_or_else(|| figure(base), |name| Some((name, true)))
        }
        ExprKind::Call(call) => strong(call.name.last()),
        ExprKind::NullIf { .. } => strong("nullif"),
        ExprKind::Cast { expr, ty } => match figure(expr) {
            Some((name, true)) => Some((name, true)),
            _ => Some((ty.name.last().to_owned(), false)),
        },
        ExprKind::Collate { expr, .. } => figure(expr),
        ExprKind::Exists(_) => strong("exists"),
        ExprKind::ArraySubquery(_) | ExprKind::Array(_) => strong("array"),
        ExprKind::Scalar(query) => Some((subquery_name(query), true)),
        ExprKind::Case { default, .. } => match default.as_deref().and_then(figure) {
            Some((name, true)) => Some((name, true)),
            _ => Some(("case".to_owned(), false)),
        },
        ExprKind::Row { .. } => strong("row"),
        ExprKind::Coalesce(_) => strong("coalesce"),
        ExprKind::Greatest(_) => strong("greatest"),
        ExprKind::Least(_) => strong("least"),
        ExprKind::SqlValue(value) => strong(match value {
            SqlValue::CurrentDate => "current_date",
            SqlValue::CurrentTime(_) => "current_time",
            SqlValue::CurrentTimestamp(_) => "current_timestamp",
            SqlValue::LocalTime(_) => "localtime",
            SqlValue::LocalTimestamp(_) => "localtimestamp",
            SqlValue::CurrentRole => "current_role",
            SqlValue::CurrentUser => "current_user",
            SqlValue::User => "user",
            SqlValue::SessionUser => "session_user",
            SqlValue::CurrentCatalog => "current_catalog",
            SqlValue::CurrentSchema => "current_schema",
        }),
        _ => None,
    }
}

/// Returns the name of a subquery's first column.
fn subquery_name(query: &ast::Select) -> String {
    match &query.body {
        ast::SelectBody::Core(core) => core.targets.first().map_or_else(
            || "?column?".to_owned(),
            |target| target.alias.clone().unwrap_or_else(|| column_name(&target.expr)),
        ),
        ast::SelectBody::Values(_) => "column1".to_owned(),
        ast::SelectBody::SetOperation { left, .. } => subquery_name(left),
    }
}
