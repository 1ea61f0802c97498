//! Code shared by INSERT, UPDATE, DELETE and row locks: constraint checks, their errors, and re-checks of changed rows.
//!
//! # Invariants
//! - D1. A changed row is checked by the whole condition of its level, with the rows of the other ranges as first
//!   fetched.

use collie_engine::{Basis, Blocker, Family, Outcome, Session, Write};

use crate::{
    catalog::{
        relation::{Index, KeyPart, Relation},
        system::key_expression_text,
    },
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        entry::{self, Keyed},
        error::from_engine,
        eval::{holds, not_false},
    },
    plan::{code::Code, node::Target},
    types::{Value, io},
};

/// The progress of a write.
#[must_use]
pub(crate) enum Advance {
    /// One row was written; its RETURNING values are in the output.
    Row,
    /// No more rows.
    End,
    /// A lock is not free.
    Wait(Blocker),
    /// The step has done enough work; advance again to continue.
    Yield,
}

/// Loads a newer version of a row into the frame and evaluates the condition of its level on it (D1).
pub(crate) fn look_again(
    target: &Target,
    bytes: &[u8],
    recheck: Option<&Code>,
    frame: &mut [Value],
    outer: Option<&Env<'_>>,
    run: &mut Run<'_>,
) -> Result<bool> {
    entry::load_row(target, bytes, frame)?;
    holds(recheck, run, &Env::new(frame, outer))
}

/// Fails if a NOT NULL column of the row is NULL.
pub(crate) fn check_not_null(relation: &Relation, row: &[Value], run: &Run<'_>) -> Result<()> {
    for (column, value) in relation.columns.iter().zip(row) {
        if value.is_null() && column.not_null && !column.dropped {
            let message = format!(
                "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                column.name, relation.name
            );
            return Err(SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
                .detail(failing_row(relation, row, run))
                .table(schema_name(relation, run), &*relation.name)
                .column(&*column.name));
        }
    }
    Ok(())
}

/// Fails if a CHECK is false for the row in the frame's slots.
pub(crate) fn check_conditions(
    target: &Target,
    checks: &[(Box<str>, Code)],
    frame: &[Value],
    run: &mut Run<'_>,
) -> Result<()> {
    for (name, condition) in checks {
        if !not_false(condition, run, &Env::new(frame, None))? {
            let relation = &target.relation;
            let row = &frame[target.base..target.base + relation.columns.len()];
            let message = format!("new row for relation \"{}\" violates check constraint \"{name}\"", relation.name);
            return Err(SqlError::new(SqlState::CHECK_VIOLATION, message)
                .detail(failing_row(relation, row, run))
                .table(schema_name(relation, run), &*relation.name)
                .constraint(&**name));
        }
    }
    Ok(())
}

/// Returns the error for a key that already exists.
pub(crate) fn duplicate_key(relation: &Relation, index: &Index, row: Keyed<'_>, run: &Run<'_>) -> SqlError {
    let message = format!("duplicate key value violates unique constraint \"{}\"", index.name);
    SqlError::new(SqlState::UNIQUE_VIOLATION, message)
        .detail(format!("{} already exists.", key_text(relation, index, row, run.eval.text)))
        .table(schema_name(relation, run), &*relation.name)
        .constraint(&*index.name)
}

/// Formats a key as PostgreSQL's error details do: `Key (a, lower(b))=(1, x)`.
pub(crate) fn key_text(relation: &Relation, index: &Index, row: Keyed<'_>, text: &io::TextContext) -> String {
    let mut names = String::new();
    let mut values = Vec::new();
    for (i, (column, value)) in row.columns(index).enumerate() {
        if i > 0 {
            names.push_str(", ");
            values.extend_from_slice(b", ");
        }
        match &column.part {
            KeyPart::Column(place) => names.push_str(&relation.columns[*place].name),
            KeyPart::Expression(expression) => names.push_str(&key_expression_text(&expression.text, true)),
        }
        if value.is_null() {
            values.extend_from_slice(b"null");
        } else {
            io::text_out(value, column.ty(relation).oid, text, &mut values);
        }
    }
    format!("Key ({names})=({})", String::from_utf8_lossy(&values))
}

/// Maximal bytes of a field that a detail shows.
const FIELD_BYTES: usize = 64;

fn failing_row(relation: &Relation, row: &[Value], run: &Run<'_>) -> String {
    let mut text = String::from("Failing row contains (");
    for (i, (place, column)) in relation.live_columns().enumerate() {
        if i > 0 {
            text.push_str(", ");
        }
        let mut field = Vec::new();
        if row[place].is_null() {
            field.extend_from_slice(b"null");
        } else {
            io::text_out(&row[place], column.ty.oid, run.eval.text, &mut field);
        }
        let field = String::from_utf8_lossy(&field);
        if field.len() > FIELD_BYTES {
            text.push_str(&field[..field.floor_char_boundary(FIELD_BYTES)]);
            text.push_str("...");
        } else {
            text.push_str(&field);
        }
    }
    text.push_str(").");
    text
}

fn schema_name(relation: &Relation, run: &Run<'_>) -> String {
    run.catalog.schemas.get(&relation.schema).map_or_else(String::new, |schema| schema.name.to_string())
}

/// The outcome of removing an index entry.
#[must_use]
pub(crate) enum Removal {
    Done,
    Wait(Blocker),
}

/// Writes an index entry of a row that this transaction has already written.
///
/// No other transaction changes the entries of a row that this one holds, so a newer version of the entry only means
/// that
/// the row was checked again after it: the write is based on that version.
pub(crate) fn write_entry(session: &mut Session, family: &Family, key: &[u8], what: Write<'_>) -> Result<Removal> {
    let mut basis = Basis::Snapshot;
    loop {
        match session.write(family, key, basis, what).map_err(from_engine)? {
            Outcome::Done => return Ok(Removal::Done),
            Outcome::Wait(blocker) => return Ok(Removal::Wait(blocker)),
            Outcome::Changed { csn, .. } if basis != Basis::After(csn) => basis = Basis::After(csn),
            Outcome::Changed { .. } | Outcome::Gone | Outcome::Moved(_) | Outcome::SelfModified => {
                return Err(disagree());
            }
        }
    }
}

/// Returns the error for an index entry that does not fit its row, or a row that does not fit its entry.
pub(crate) fn disagree() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a row and its index entries do not agree")
        .hint("Rebuild the index, and report this as a bug.")
}
