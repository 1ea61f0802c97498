//! Names as text: quoting names, and splitting the names that `reg*` types read.
//!
//! The objects that names denote are resolved elsewhere.
//!
//! Checked by the tests below.

use std::sync::LazyLock;

use crate::{
    builtin::{self, EvalContext, Implementation, Rows, ScalarFn, SystemFunctions},
    catalog::relation::{Oid, Relation},
    catalog::snapshot::Catalog,
    error::{Result, SqlError, SqlState},
    types::{TextContext, Value},
};

/// System functions that refuse every call: quoting needs no session.
struct NoSession;

impl SystemFunctions for NoSession {
    fn call(&self, source: &str, _: &[Value]) -> Result<Value> {
        Err(SqlError::unsupported(source))
    }

    fn call_set(&self, source: &str, _: &[Value]) -> Result<Rows> {
        Err(SqlError::unsupported(source))
    }
}

static QUOTE_IDENT: LazyLock<ScalarFn> = LazyLock::new(|| {
    let [proc] = builtin::procs_named("quote_ident") else { panic!("quote_ident has one form") };
    let Implementation::Scalar(function) = proc.implementation else { panic!("quote_ident needs its argument only") };
    function
});

/// Formats a name as SQL reads it back, in quotes if it needs them. It calls the function `quote_ident`, so that there
/// is one list of keywords.
pub(super) fn quoted(name: &str) -> String {
    let text = TextContext::default();
    let context = EvalContext {
        text: &text,
        transaction_time: 0,
        statement_time: 0,
        clock_time: &|| 0,
        system: &NoSession,
        value_bytes_max: usize::MAX,
    };
    match QUOTE_IDENT(&[Value::text(name)], &context) {
        Ok(Value::Text(quoted)) => quoted.to_string(),
        other => panic!("quote_ident gave {other:?}"),
    }
}

/// Formats `schema.name`.
pub(super) fn qualified(catalog: &Catalog, schema: Oid, name: &str) -> String {
    format!("{}.{}", quoted(schema_name(catalog, schema)), quoted(name))
}

/// Returns a schema's name.
pub(super) fn schema_name(catalog: &Catalog, oid: Oid) -> &str {
    catalog.schemas.get(&oid).map_or("", |schema| &*schema.name)
}

/// Formats the name of a relation, with its schema unless the search path finds it.
pub(super) fn visible(catalog: &Catalog, search_path: &[Oid], relation: &Relation) -> String {
    object(catalog, search_path, relation.schema, &relation.name, relation.oid)
}

/// Formats the name of a table or index, with its schema unless the search path finds it.
pub(crate) fn object(catalog: &Catalog, search_path: &[Oid], schema: Oid, name: &str, oid: Oid) -> String {
    if catalog.object_named(None, search_path, name) == Some(oid) {
        quoted(name)
    } else {
        qualified(catalog, schema, name)
    }
}

/// Splits `a.b."C d"` into its parts; unquoted parts fold to lower case.
///
/// # Errors
/// 42602 for text that is not such a list.
pub(super) fn parts(text: &str) -> Result<Vec<String>> {
    let bad = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = Vec::new();
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(inner) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut at = inner;
            loop {
                let (before, after) = at.split_once('"').ok_or_else(bad)?;
                name.push_str(before);
                match after.strip_prefix('"') {
                    Some(again) => {
                        name.push('"');
                        at = again;
                    }
                    None => {
                        rest = after;
                        break;
                    }
                }
            }
            part = name;
        } else {
            let end = rest.find(|c: char| c == '.' || c == '"' || c.is_whitespace()).unwrap_or(rest.len());
            part = rest[..end].to_ascii_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(bad());
        }
        parts.push(part);
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(more) => rest = more.trim_start(),
            None if rest.is_empty() => return Ok(parts),
            None => return Err(bad()),
        }
    }
}

/// Splits a name with at most a schema and a database into the schema, if any, and the name.
///
/// # Errors
/// 42602 as [`parts`]; 0A000 for another database; 42601 for more parts.
pub(super) fn schema_and_name(text: &str, database: &str) -> Result<(Option<String>, String)> {
    let mut parts = parts(text)?;
    let name = parts.pop().expect("parts gives at least one");
    let schema = parts.pop();
    match parts.pop() {
        None => {}
        Some(_) if !parts.is_empty() => {
            let text = format!("improper qualified name (too many dotted names): {text}");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, text));
        }
        Some(other) if other != database => {
            let text = format!("cross-database references are not implemented: {text}");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text));
        }
        Some(_) => {}
    }
    Ok((schema, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names are read as SQL reads them. Method: a table of valid and invalid texts.
    #[test]
    fn names_fold_outside_quotes_and_keep_what_quotes_hold() {
        assert_eq!(parts("Public . T").unwrap(), ["public", "t"]);
        assert_eq!(parts("\"A.\"\"b\".c").unwrap(), ["A.\"b", "c"]);
        for bad in ["", "a.", ".a", "a b", "\"a", "\"\"", "a\"b\""] {
            assert_eq!(parts(bad).unwrap_err().state(), SqlState::INVALID_NAME, "{bad}");
        }
        assert_eq!(schema_and_name("db.s.t", "db").unwrap(), (Some("s".to_owned()), "t".to_owned()));
        assert_eq!(schema_and_name("x.s.t", "db").unwrap_err().state(), SqlState::FEATURE_NOT_SUPPORTED);
        assert_eq!(schema_and_name("a.b.c.d", "db").unwrap_err().state(), SqlState::SYNTAX_ERROR);
    }

    /// Goal: a quoted name reads back as itself. Method: quotes and reads names of every kind.
    #[test]
    fn a_quoted_name_reads_back_as_itself() {
        for name in ["t", "Table", "select", "a b", "q\"q", "1a", "\u{e9}"] {
            assert_eq!(parts(&quoted(name)).unwrap(), [name]);
        }
        assert_eq!((quoted("t_1"), quoted("select")), ("t_1".to_owned(), "\"select\"".to_owned()));
    }
}
