//! Tables, indexes and constraints: from the statement to the definition, and the builds that changes of it need.
//!
//! | file | subject |
//! |---|---|
//! | `create.rs` | CREATE TABLE |
//! | `alter.rs` | ALTER TABLE |
//! | `index.rs` | CREATE INDEX |
//! | `constraint.rs` | CHECK, PRIMARY KEY and UNIQUE, of a new table or an existing one |
//! | `chosen_name.rs` | names for constraints and indexes without a given name |

mod alter;
mod chosen_name;
mod constraint;
mod create;
mod index;

pub(super) use self::{
    chosen_name::{column_names, unused_name},
    constraint::refuse_duplicate_constraint,
};

use crate::{
    error::{Result, SqlError, SqlState},
    parse::ast,
};

/// Reads storage parameters, which are kept and shown but change nothing.
fn storage_options(options: &[ast::NamedOption]) -> Result<Vec<(String, String)>> {
    let read = |option: &ast::NamedOption| {
        let value = match &option.value {
            None => "true".to_owned(),
            Some(ast::OptionValue::Text(text) | ast::OptionValue::Number(text)) => text.clone(),
            Some(ast::OptionValue::Integer(number)) => number.to_string(),
            Some(ast::OptionValue::Bool(on)) => on.to_string(),
            Some(ast::OptionValue::Star | ast::OptionValue::List(_)) => {
                let text = format!("invalid value for parameter \"{}\"", option.name);
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
            }
        };
        let known = option.name == "fillfactor"
            || option.name == "parallel_workers"
            || option.name == "deduplicate_items"
            || option.name.starts_with("autovacuum_")
            || option.name.starts_with("toast_")
            || option.namespace.as_deref() == Some("toast");
        if !known {
            let text = format!("unrecognized parameter \"{}\"", option.name);
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, text));
        }
        Ok((option.name.clone(), value))
    };
    options.iter().map(read).collect()
}
