//! Foreign keys as definitions: ADD FOREIGN KEY and VALIDATE CONSTRAINT, and the dependents of a table or an index.
//!
//! `referential.rs` enforces them.
//!
//! # Invariants
//! - F1. Adding a key holds the table that declares it (C1 of `definition.rs`) and the referenced one against writers,
//!   from before the rows are checked to the end of the transaction; dropping one holds both against all other
//!   sessions.
//! - F2. The table and the unique index that a key refers to are dropped only with the key.
//!
//! Checked by `tests/sql/foreign_keys.sql`, which PostgreSQL answers alike.

use std::{fmt::Write as _, sync::Arc};

use collie_engine::TableLockMode;

use crate::{
    catalog::{
        relation::{ConstraintTiming, ForeignKey, Oid, Relation},
        snapshot::Catalog,
        system::object_name,
    },
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::{
        Client, NoticeLevel, Session,
        definition::refuse_system,
        referential::can_refer,
        table::{column_names, refuse_duplicate_constraint, unused_name},
    },
};

/// Limit of the columns of a foreign key.
const KEY_COLUMNS_MAX: usize = 32;
/// Limit of the lines of a detail that lists dependents.
const DEPENDENTS_SHOWN_MAX: usize = 100;

/// A foreign key as it is declared.
pub(super) struct Declared<'a> {
    /// The place of the column, for a column's own constraint.
    pub(super) column: Option<usize>,
    /// The name and timing.
    pub(super) constraint: &'a ast::Constraint,
    /// The columns, the referenced table, and the actions.
    pub(super) key: &'a ast::ForeignKey,
    /// Whether the table is new, and so has no rows to check.
    pub(super) fresh: bool,
}

/// A foreign key that depends on an object to be dropped, and the table that declares it.
pub(super) type Dependent = (Arc<Relation>, ForeignKey);

impl Session {
    /// Adds a foreign key to a table.
    pub(super) async fn add_foreign_key(&mut self, table: &Arc<Relation>, declared: Declared<'_>) -> Result<()> {
        let Declared { column, constraint, key, fresh } = declared;
        let target = self.table_named(&key.table).map_err(SqlError::without_position)?;
        refuse_system(&target)?;
        if target.oid != table.oid {
            self.lock_table(target.oid, TableLockMode::ShareRowExclusive).await?; // F1
        }
        let columns = match column {
            Some(place) => vec![place],
            None => places(table, &key.columns)?,
        };
        let on_delete_columns = places(table, &key.on_delete_columns)?;
        if let Some(&place) = on_delete_columns.iter().find(|place| !columns.contains(place)) {
            let text = format!(
                "column \"{}\" referenced in ON DELETE SET action must be part of foreign key",
                table.columns[place].name
            );
            return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, text));
        }
        // The definition names the unique index, which keeps the index from being dropped alone (F2).
        let (index, target_columns) = referenced(&target, &key.referenced)?;
        if columns.len() != target_columns.len() {
            let text = "number of referencing and referenced columns for foreign key disagree";
            return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, text));
        }
        let name = match &constraint.name {
            Some(name) => name.clone(),
            None => {
                let catalog = self.catalog();
                unused_name(&table.name, Some(&column_names(table, &columns)), "fkey", |name| {
                    is_constraint(&catalog, table.schema, name)
                })
            }
        };
        refuse_duplicate_constraint(table, &name)?;
        for (&from, &to) in columns.iter().zip(&target_columns) {
            let (from, to) = (&table.columns[from], &target.columns[to]);
            if !can_refer(from.ty.oid, to.ty.oid) {
                let text = format!("foreign key constraint \"{name}\" cannot be implemented");
                return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, text).detail(format!(
                    "Key columns \"{}\" and \"{}\" are of incompatible types: {} and {}.",
                    from.name,
                    to.name,
                    from.ty.name(),
                    to.ty.name()
                )));
            }
        }
        let oid = self.database.new_oid();
        let timing = match (constraint.deferrable, constraint.initially_deferred) {
            (_, true) => ConstraintTiming::Deferred,
            (true, false) => ConstraintTiming::Deferrable,
            (false, false) => ConstraintTiming::Immediate,
        };
        let mut changed = (**table).clone();
        changed.version += 1;
        changed.foreign_keys.push(ForeignKey {
            oid,
            name: name.into(),
            columns,
            target: target.oid,
            target_columns,
            index,
            match_full: key.match_full,
            on_update: key.on_update,
            on_delete: key.on_delete,
            on_delete_columns,
            timing,
            validated: fresh || !constraint.not_valid,
        });
        changed.foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
        self.redefine(Some(table), Some(changed))?;
        // The definition is in the private catalog, and the locks keep writers away (F1): check the rows.
        if fresh || constraint.not_valid {
            return Ok(());
        }
        self.verify_foreign_key(table.oid, oid).await
    }

    /// Runs VALIDATE CONSTRAINT.
    pub(super) async fn validate_constraint(&mut self, table: &Arc<Relation>, name: &str) -> Result<()> {
        let Some(place) = table.foreign_keys.iter().position(|key| &*key.name == name) else {
            if table.checks.iter().any(|check| &*check.name == name) {
                return Ok(()); // A CHECK is always valid.
            }
            let relation = &table.name;
            return Err(match table.indexes.iter().any(|index| index.constraint.is_some() && &*index.name == name) {
                true => SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!(
                        "constraint \"{name}\" of relation \"{relation}\" is not a foreign key or check constraint"
                    ),
                ),
                false => SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("constraint \"{name}\" of relation \"{relation}\" does not exist"),
                ),
            });
        };
        let mut changed = (**table).clone();
        if std::mem::replace(&mut changed.foreign_keys[place].validated, true) {
            return Ok(());
        }
        changed.version += 1;
        let (oid, target) = (changed.foreign_keys[place].oid, changed.foreign_keys[place].target);
        self.lock_table(target, TableLockMode::RowShare).await?;
        self.verify_foreign_key(table.oid, oid).await?;
        self.redefine(Some(table), Some(changed))
    }

    /// Drops foreign keys (F1).
    pub(super) async fn drop_foreign_keys(&mut self, dropped: &[Dependent]) -> Result<()> {
        for (table, key) in dropped {
            self.refuse_pending("ALTER TABLE", table)?;
            for oid in [table.oid, key.target] {
                self.lock_table(oid, TableLockMode::AccessExclusive).await?;
            }
            // The loop may have dropped another key of the table before.
            let Some(table) = self.catalog().relation(table.oid).cloned() else { continue };
            let mut changed = (*table).clone();
            changed.version += 1;
            changed.foreign_keys.retain(|other| other.oid != key.oid);
            self.redefine(Some(&table), Some(changed))?;
        }
        Ok(())
    }

    /// Drops the foreign keys that depend on a dropped object if CASCADE was given; otherwise fails (F2).
    pub(super) async fn drop_dependents<C: Client>(
        &mut self,
        dependents: Vec<Dependent>,
        dropped: Dropped<'_>,
        client: &mut C,
    ) -> Result<()> {
        if dependents.is_empty() {
            return Ok(());
        }
        let lines =
            dependents.iter().map(|(table, key)| format!("constraint {} on {}", key.name, self.table_text(table)));
        let lines: Vec<String> = lines.collect();
        if dropped.behavior == ast::Behavior::Restrict {
            let text = match dropped.alone {
                true => format!("cannot drop {} because other objects depend on it", dropped.what),
                false => "cannot drop desired object(s) because other objects depend on them".to_owned(),
            };
            let on = dropped.on;
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
                .detail(list(lines.iter().zip(on).map(|(line, on)| format!("{line} depends on {on}"))))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let notice = match lines.as_slice() {
            [only] => SqlError::new(SqlState(*b"00000"), format!("drop cascades to {only}")),
            many => SqlError::new(SqlState(*b"00000"), format!("drop cascades to {} other objects", many.len()))
                .detail(list(many.iter().map(|line| format!("drop cascades to {line}")))),
        };
        client.notice(NoticeLevel::Notice, notice.report());
        self.drop_foreign_keys(&dependents).await
    }

    /// Drops the foreign keys that depend on an index, as [`Session::drop_dependents`] does.
    pub(super) async fn drop_index_dependents<C: Client>(
        &mut self,
        table: &Relation,
        index: Oid,
        what: String,
        behavior: ast::Behavior,
        client: &mut C,
    ) -> Result<()> {
        let catalog = self.catalog();
        let keys = catalog.foreign_keys_to(table.oid).filter(|(_, key)| key.index == index);
        let mut dependents: Vec<Dependent> = keys.map(|(child, key)| (child.clone(), key.clone())).collect();
        dependents.sort_unstable_by_key(|(_, key)| key.oid);
        let on = vec![self.index_text(table, index); dependents.len()];
        let dropped = Dropped { what, on: &on, alone: true, behavior };
        self.drop_dependents(dependents, dropped, client).await
    }

    /// Returns a table's name for a message about dependents.
    pub(super) fn table_text(&self, table: &Relation) -> String {
        let catalog = self.catalog();
        let path = self.search_path(&catalog);
        format!("table {}", object_name(&catalog, &path, table.schema, &table.name, table.oid))
    }

    /// Returns an index's name for such a message.
    pub(super) fn index_text(&self, table: &Relation, index: Oid) -> String {
        let catalog = self.catalog();
        let path = self.search_path(&catalog);
        let name = table.indexes.iter().find(|other| other.oid == index).map_or("", |index| &index.name);
        format!("index {}", object_name(&catalog, &path, table.schema, name, index))
    }

    /// Fails if a deferred event asks about a foreign key of the table or to it.
    pub(super) fn refuse_pending(&self, what: &str, table: &Relation) -> Result<()> {
        let catalog = self.catalog();
        let mut keys: Vec<Oid> = table.foreign_keys.iter().map(|key| key.oid).collect();
        keys.extend(catalog.foreign_keys_to(table.oid).map(|(_, key)| key.oid));
        if self.is_pending(|key| keys.contains(&key)) {
            let text = format!("cannot {what} \"{}\" because it has pending trigger events", table.name);
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, text));
        }
        Ok(())
    }
}

/// The dropped object, as messages about its dependents need it.
pub(super) struct Dropped<'a> {
    /// `table t`, `constraint c on table t` or `index i`.
    pub(super) what: String,
    /// The object that each dependent depends on.
    pub(super) on: &'a [String],
    /// Whether it is the only object that the statement names.
    pub(super) alone: bool,
    /// RESTRICT or CASCADE.
    pub(super) behavior: ast::Behavior,
}

fn list(lines: impl ExactSizeIterator<Item = String>) -> String {
    let more = lines.len().saturating_sub(DEPENDENTS_SHOWN_MAX);
    let mut text = lines.take(DEPENDENTS_SHOWN_MAX).collect::<Vec<_>>().join("\n");
    if more > 0 {
        let _ = write!(text, "\nand {more} other objects (see server log for list)");
    }
    text
}

/// Returns the foreign keys of other tables that refer to one of `tables`, in the order in which PostgreSQL reports
/// them: those of the last table first, and by OID.
pub(super) fn dependents(catalog: &Catalog, tables: &[Oid]) -> Vec<(Dependent, Oid)> {
    let mut found = Vec::new();
    for &oid in tables.iter().rev() {
        let outside = catalog.foreign_keys_to(oid).filter(|(child, _)| !tables.contains(&child.oid));
        let start = found.len();
        found.extend(outside.map(|(child, key)| ((child.clone(), key.clone()), oid)));
        found[start..].sort_unstable_by_key(|((_, key), _): &(Dependent, Oid)| key.oid);
    }
    found
}

/// Returns the places of the named columns.
fn places(table: &Relation, names: &[String]) -> Result<Vec<usize>> {
    if names.len() > KEY_COLUMNS_MAX {
        let text = format!("cannot have more than {KEY_COLUMNS_MAX} keys in a foreign key");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, text));
    }
    let place = |name: &String| match table.column(name) {
        Some((place, _)) => Ok(place),
        None => {
            let text = format!("column \"{name}\" referenced in foreign key constraint does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, text))
        }
    };
    names.iter().map(place).collect()
}

/// Returns the unique index that a foreign key refers to, and the columns.
fn referenced(target: &Relation, names: &[String]) -> Result<(Oid, Vec<usize>)> {
    if names.is_empty() {
        let Some(index) = target.primary_key() else {
            let text = format!("there is no primary key for referenced table \"{}\"", target.name);
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text));
        };
        return Ok((index.oid, index.key_places().collect()));
    }
    let columns = places(target, names)?;
    let twice = columns.iter().enumerate().any(|(at, place)| columns[..at].contains(place));
    if twice {
        let text = "foreign key referenced-columns list must not contain duplicates";
        return Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, text));
    }
    let index = target.indexes.iter().find(|index| {
        index.is_referable()
            && index.columns.len() == columns.len()
            && index.key_places().all(|place| columns.contains(&place))
    });
    match index {
        Some(index) => Ok((index.oid, columns)),
        None => {
            let text =
                format!("there is no unique constraint matching given keys for referenced table \"{}\"", target.name);
            Err(SqlError::new(SqlState::INVALID_FOREIGN_KEY, text))
        }
    }
}

/// Returns whether a constraint of the schema has this name.
fn is_constraint(catalog: &Catalog, schema: Oid, name: &str) -> bool {
    let tables = catalog.relations.values().filter(|table| table.schema == schema);
    tables.into_iter().any(|table| refuse_duplicate_constraint(table, name).is_err())
}
