//! Prints bound expressions as SQL text: for the DEFAULTs and CHECKs that the catalog stores, and for `pg_get_expr`.
//!
//! Only expressions over one row are printed. They never contain subqueries, aggregates or parameters, which print as
//! marks that do not read back.
//!
//! # Invariants
//! - P1. If the text is analyzed again under the same names, the result has the same meaning and type. A conversion
//!   that was implicit inside an expression is then an explicit one.
//! - P2. The text does not depend on the session. Operators and functions print without a schema, which built-in names
//!   never need.

use super::bound::{Expr, RowComparison};
use crate::types::{SqlType, TextContext, Value, io, oid};

/// Prints `expr`. `names` returns the name of a column by range and index.
pub fn expression(expr: &Expr, names: &dyn Fn(usize, usize) -> String) -> String {
    let mut out = String::new();
    Printer { out: &mut out, names }.top(expr);
    out
}

/// Prints a name, in quotes if it needs them.
pub fn identifier(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == '$')
        && !is_keyword(name);
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Returns whether the word has a special meaning in the grammar where a name could stand.
fn is_keyword(name: &str) -> bool {
    const WORDS: &[&str] = &[
        "all",
        "analyse",
        "analyze",
        "and",
        "any",
        "array",
        "as",
        "asc",
        "asymmetric",
        "authorization",
        "between",
        "bigint",
        "binary",
        "bit",
        "boolean",
        "both",
        "case",
        "cast",
        "char",
        "character",
        "check",
        "coalesce",
        "collate",
        "collation",
        "column",
        "concurrently",
        "constraint",
        "create",
        "cross",
        "current_catalog",
        "current_date",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "dec",
        "decimal",
        "default",
        "deferrable",
        "desc",
        "distinct",
        "do",
        "else",
        "end",
        "except",
        "exists",
        "extract",
        "false",
        "fetch",
        "float",
        "for",
        "foreign",
        "freeze",
        "from",
        "full",
        "grant",
        "greatest",
        "group",
        "grouping",
        "having",
        "ilike",
        "in",
        "initially",
        "inner",
        "inout",
        "int",
        "integer",
        "intersect",
        "interval",
        "into",
        "is",
        "isnull",
        "join",
        "lateral",
        "leading",
        "least",
        "left",
        "like",
        "limit",
        "localtime",
        "localtimestamp",
        "national",
        "natural",
        "nchar",
        "none",
        "normalize",
        "not",
        "notnull",
        "null",
        "nullif",
        "numeric",
        "offset",
        "on",
        "only",
        "or",
        "order",
        "out",
        "outer",
        "overlaps",
        "overlay",
        "placing",
        "position",
        "precision",
        "primary",
        "real",
        "references",
        "returning",
        "right",
        "row",
        "select",
        "session_user",
        "setof",
        "similar",
        "smallint",
        "some",
        "substring",
        "symmetric",
        "table",
        "tablesample",
        "then",
        "time",
        "timestamp",
        "to",
        "trailing",
        "treat",
        "trim",
        "true",
        "union",
        "unique",
        "user",
        "using",
        "values",
        "varchar",
        "variadic",
        "verbose",
        "when",
        "where",
        "window",
        "with",
        "xmlattributes",
        "xmlconcat",
        "xmlelement",
        "xmlexists",
        "xmlforest",
        "xmlnamespaces",
        "xmlparse",
        "xmlpi",
        "xmlroot",
        "xmlserialize",
        "xmltable",
    ];
    WORDS.binary_search(&name).is_ok()
}

struct Printer<'a> {
    out: &'a mut String,
    names: &'a dyn Fn(usize, usize) -> String,
}

impl Printer<'_> {
    /// Prints a whole expression, without the outermost conversion if storing implies it.
    fn top(&mut self, expr: &Expr) {
        match expr {
            Expr::Cast { arg, explicit: false, .. } if !is_current_date(expr) => self.top(arg),
            _ => self.expr(expr),
        }
    }

    fn push(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn list(&mut self, exprs: &[Expr], separator: &str) {
        for (at, expr) in exprs.iter().enumerate() {
            if at > 0 {
                self.push(separator);
            }
            self.expr(expr);
        }
    }

    fn call(&mut self, name: &str, args: &[Expr]) {
        self.push(name);
        self.push("(");
        self.list(args, ", ");
        self.push(")");
    }

    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Const(value, ty) => self.constant(value, *ty),
            Expr::Param(place, _) => self.push(&format!("${}", place + 1)),
            Expr::Column { range, column, .. } => {
                let name = (self.names)(*range, *column);
                self.push(&identifier(&name));
            }
            Expr::GroupKey { index, .. } => self.push(&format!("<group {index}>")),
            Expr::Aggregate { index, .. } => self.push(&format!("<aggregate {index}>")),
            Expr::Subquery { .. } => self.push("(SubPlan)"),
            Expr::CaseOperand(_) => self.push("CASE_TEST_EXPR"),
            Expr::Call { proc, args, operator, .. } => match (operator, args.as_slice()) {
                (Some(operator), [left, right]) => self.infix(left, operator, right),
                (Some(operator), [right]) => {
                    self.push(&format!("({operator} "));
                    self.expr(right);
                    self.push(")");
                }
                _ => self.call(&function_name(proc.name), args),
            },
            Expr::Cast { arg, to, .. } => {
                if is_current_date(expr) {
                    return self.push("CURRENT_DATE");
                }
                // A constant that already has the type only gains its modifier.
                let alone = matches!(&**arg, Expr::Const(_, ty) if ty.oid == to.oid);
                match &**arg {
                    Expr::Const(value, ty) if alone && !value.is_null() => self.constant_as(value, *ty, *to),
                    arg => {
                        self.push("(");
                        self.expr(arg);
                        self.push(&format!(")::{}", to.name()));
                    }
                }
            }
            Expr::And(terms) => self.joined(terms, " AND "),
            Expr::Or(terms) => self.joined(terms, " OR "),
            Expr::Not(arg) => {
                self.push("(NOT ");
                self.expr(arg);
                self.push(")");
            }
            Expr::IsNull { arg, negated } => self.suffix(arg, if *negated { " IS NOT NULL" } else { " IS NULL" }),
            Expr::BooleanTest { arg, value, negated } => {
                let word = match value {
                    Some(true) => "TRUE",
                    Some(false) => "FALSE",
                    None => "UNKNOWN",
                };
                self.suffix(arg, &format!(" IS {}{word}", if *negated { "NOT " } else { "" }));
            }
            Expr::DistinctFrom { left, right, negated, .. } => {
                self.infix(left, if *negated { "IS NOT DISTINCT FROM" } else { "IS DISTINCT FROM" }, right);
            }
            Expr::Case { operand, arms, otherwise, .. } => self.case(operand.as_deref(), arms, otherwise),
            Expr::Coalesce(args, _) => self.call("COALESCE", args),
            Expr::NullIf { left, right, .. } => {
                self.push("NULLIF(");
                self.expr(left);
                self.push(", ");
                self.expr(right);
                self.push(")");
            }
            Expr::Extreme { greatest, args, .. } => self.call(if *greatest { "GREATEST" } else { "LEAST" }, args),
            Expr::InList { arg, list, negated, .. } => {
                self.push("(");
                self.expr(arg);
                self.push(if *negated { " <> ALL (ARRAY[" } else { " = ANY (ARRAY[" });
                self.list(list, ", ");
                self.push("]))");
            }
            Expr::ArrayCompare { arg, array, proc, all } => {
                self.push("(");
                self.expr(arg);
                let operator = operator_of(proc.oid);
                self.push(&format!(" {operator} {} (", if *all { "ALL" } else { "ANY" }));
                self.expr(array);
                self.push("))");
            }
            Expr::RowCompare { kind, left, right, .. } => {
                self.push("(ROW(");
                self.list(left, ", ");
                self.push(&format!(") {} ROW(", row_operator(*kind)));
                self.list(right, ", ");
                self.push("))");
            }
            Expr::Row(fields) => self.call("ROW", fields),
            Expr::Array { items, ty } => {
                self.push("ARRAY[");
                self.list(items, ", ");
                self.push("]");
                if items.is_empty() {
                    self.push(&format!("::{}", ty.name()));
                }
            }
            Expr::Subscript { array, index, .. } => {
                self.push("(");
                self.expr(array);
                self.push(")[");
                self.expr(index);
                self.push("]");
            }
        }
    }

    fn infix(&mut self, left: &Expr, operator: &str, right: &Expr) {
        self.push("(");
        self.expr(left);
        self.push(&format!(" {operator} "));
        self.expr(right);
        self.push(")");
    }

    fn suffix(&mut self, arg: &Expr, text: &str) {
        self.push("(");
        self.expr(arg);
        self.push(text);
        self.push(")");
    }

    fn joined(&mut self, terms: &[Expr], separator: &str) {
        self.push("(");
        self.list(terms, separator);
        self.push(")");
    }

    fn case(&mut self, operand: Option<&Expr>, arms: &[(Expr, Expr)], otherwise: &Expr) {
        self.push("CASE");
        if let Some(operand) = operand {
            self.push(" ");
            self.expr(operand);
        }
        for (condition, result) in arms {
            self.push(" WHEN ");
            match (operand, condition) {
                (Some(_), Expr::Call { args, .. }) if args.len() == 2 => self.expr(&args[1]),
                _ => self.expr(condition),
            }
            self.push(" THEN ");
            self.expr(result);
        }
        self.push(" ELSE ");
        self.expr(otherwise);
        self.push(" END");
    }

    fn constant(&mut self, value: &Value, ty: SqlType) {
        match value {
            Value::Bool(value) => self.push(if *value { "true" } else { "false" }),
            Value::Int4(value) if *value >= 0 => self.push(&value.to_string()),
            Value::Numeric(_) => {
                let text = text_of(value, ty.oid);
                if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') && text.contains('.') {
                    self.push(&text);
                } else {
                    self.push(&format!("'{text}'::numeric"));
                }
            }
            value => self.constant_as(value, ty, ty),
        }
    }

    /// Prints a constant as a string with a cast to `to`.
    fn constant_as(&mut self, value: &Value, ty: SqlType, to: SqlType) {
        if value.is_null() {
            return self.push(&format!("NULL::{}", to.name()));
        }
        let text = text_of(value, ty.oid).replace('\'', "''");
        let escape = if text.contains('\\') { "E" } else { "" };
        let text = if escape.is_empty() { text } else { text.replace('\\', "\\\\") };
        self.push(&format!("{escape}'{text}'::{}", to.name()));
    }
}

fn text_of(value: &Value, ty: u32) -> String {
    let mut out = Vec::new();
    io::text_out(value, ty, &TextContext::default(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns whether `expr` is the bound form of CURRENT_DATE.
fn is_current_date(expr: &Expr) -> bool {
    matches!(expr, Expr::Cast { arg, to, explicit: false, .. }
        if to.oid == oid::DATE && matches!(&**arg, Expr::Call { proc, .. } if proc.name == "now"))
}

/// Returns the printed form of a function's name; names that are words of the grammar are quoted.
fn function_name(name: &str) -> String {
    match name {
        "current_user" | "session_user" | "current_schema" => format!("\"{name}\""),
        name => identifier(name),
    }
}

fn operator_of(proc: u32) -> &'static str {
    crate::builtin::operators().iter().find(|op| op.code == proc).map_or("=", |op| op.name)
}

fn row_operator(kind: RowComparison) -> &'static str {
    match kind {
        RowComparison::Equal => "=",
        RowComparison::NotEqual => "<>",
        RowComparison::Less => "<",
        RowComparison::LessOrEqual => "<=",
        RowComparison::Greater => ">",
        RowComparison::GreaterOrEqual => ">=",
    }
}
