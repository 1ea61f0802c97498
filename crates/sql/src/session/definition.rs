//! Statements that change definitions: the catalog lock, the private catalog, and the work of each DROP, TRUNCATE and
//! schema statement. `table/` builds tables, indexes and constraints.
//!
//! # Invariants
//! - C1. Every change is made under the catalog lock, held to the end of the transaction, and under ACCESS EXCLUSIVE
//!   (or SHARE, for CREATE INDEX; SHARE ROW EXCLUSIVE, for both tables of a new foreign key; SHARE UPDATE EXCLUSIVE, to
//!   validate one) on each table it touches, a new one included.
//! - C2. The private catalog and the rows of family 0 change together, in one statement.

use std::sync::Arc;

use collie_base::CfId;
use collie_engine::TableLockMode;

use crate::{
    catalog::{
        relation::{Index, Oid, Relation, Storage},
        snapshot::{CATALOG_LOCK, Catalog, FIRST_USER_OID, PUBLIC, Schema},
        store,
    },
    error::{Result, SqlError, SqlState},
    parse::{Stmt, ast},
    session::{
        Client, NoticeLevel, Session,
        foreign_key::{self, Dropped},
        turn::Turn,
    },
};

impl Session {
    /// Runs a statement that changes definitions.
    pub(super) async fn define<C: Client>(&mut self, stmt: &Arc<Stmt>, client: &mut C) -> Result<()> {
        self.ensure_transaction()?;
        let gives_back = matches!(&**stmt, Stmt::Drop(_) | Stmt::Truncate(_));
        self.engine.note_purpose(gives_back);
        match &**stmt {
            _ if gives_back => self.wait_to_begin().await?, // their end may be what frees log
            _ => self.wait_for_room().await?,
        }
        // C1: before any table lock.
        self.lock_table(CATALOG_LOCK, TableLockMode::AccessExclusive).await?;
        let oids = self.database.next_oid();
        match &**stmt {
            Stmt::CreateTable(create) => self.create_table(create, client).await?,
            Stmt::CreateIndex(create) => self.create_index(create, client).await?,
            Stmt::AlterTable(alter) => self.alter_table(alter, client).await?,
            Stmt::CreateSchema(create) => self.create_schema(create, client)?,
            Stmt::Drop(drop) => self.drop_objects(drop, client).await?,
            Stmt::Truncate(truncate) => self.truncate(truncate, client).await?,
            Stmt::Rename(_) => return Err(SqlError::unsupported("ALTER ... RENAME")),
            Stmt::SetSchema(_) => return Err(SqlError::unsupported("ALTER ... SET SCHEMA")),
            _ => return Err(SqlError::new(SqlState::INTERNAL_ERROR, "not a definition")),
        }
        // D3 of `database.rs`: the rows and the next OID commit together.
        let next = self.database.next_oid();
        if next != oids {
            self.begin_statement(true)?;
            let written = store::put_next_oid(&self.database.db, &mut self.engine, next);
            self.engine.end_statement();
            written?;
        }
        Ok(())
    }

    /// Replaces a definition (or nothing) by another (or nothing), in family 0 and in the private catalog (C2).
    pub(super) fn redefine(&mut self, old: Option<&Relation>, new: Option<Relation>) -> Result<()> {
        self.begin_statement(true)?;
        let written = store::replace_relation(&self.database.db, &mut self.engine, old, new.as_ref());
        self.engine.end_statement();
        written?;
        self.change_catalog(|catalog| match (old, new) {
            (_, Some(new)) => catalog.put_relation(Arc::new(new)),
            (Some(old), None) => catalog.remove_relation(old.oid),
            (None, None) => {}
        });
        Ok(())
    }

    fn change_catalog(&mut self, change: impl FnOnce(&mut Catalog)) {
        let mut catalog = (*self.catalog()).clone();
        change(&mut catalog);
        catalog.epoch = self.database.new_epoch();
        self.transaction.overlay = Some(Arc::new(catalog));
    }

    /// Creates a family that stays only if this transaction commits.
    pub(super) fn new_family(&mut self) -> CfId {
        let cf = self.database.db.create_family();
        self.transaction.made.push(cf);
        cf
    }

    /// Notes that no definition names a family once this transaction commits.
    pub(super) fn replace_family(&mut self, cf: CfId) {
        self.transaction.replaced.push(cf);
    }

    /// Finds the schema that a name is in; `None` if the name has none.
    pub(super) fn schema_of(&self, name: &ast::RelationName, catalog: &Catalog) -> Result<Option<Oid>> {
        if let Some(database) = name.catalog.as_deref().filter(|database| *database != super::DATABASE) {
            return Err(
                SqlError::unsupported(format!("cross-database references (\"{database}\")")).at_opt(name.pos.get())
            );
        }
        let Some(schema) = &name.schema else { return Ok(None) };
        match catalog.schema_named(schema) {
            Some(schema) => Ok(Some(schema.oid)),
            None => Err(no_schema(schema).at_opt(name.pos.get())),
        }
    }

    /// Finds a table by name.
    pub(super) fn table_named(&self, name: &ast::RelationName) -> Result<Arc<Relation>> {
        let catalog = self.catalog();
        let schema = self.schema_of(name, &catalog)?;
        let oid = catalog.object_named(schema, &self.search_path(&catalog), &name.name);
        let missing = || {
            SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
                .at_opt(name.pos.get())
        };
        let oid = oid.ok_or_else(missing)?;
        match catalog.relation(oid) {
            Some(relation) => Ok(relation.clone()),
            None => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", name.name))),
        }
    }

    /// Finds a user's table by name and locks it. The lock may wait, so the name is looked up again under the lock.
    pub(super) async fn table_to_change(
        &mut self,
        name: &ast::RelationName,
        mode: TableLockMode,
    ) -> Result<Arc<Relation>> {
        let found = self.table_named(name)?;
        refuse_system(&found)?;
        self.lock_table(found.oid, mode).await?;
        // The catalog lock is held, so no other session has changed the definition meanwhile.
        self.table_named(name)
    }

    fn create_schema<C: Client>(&mut self, create: &ast::CreateSchema, client: &mut C) -> Result<()> {
        let name = create.name.as_deref().or(create.owner.as_deref()).unwrap_or(&self.identity.user).to_owned();
        if name.starts_with("pg_") {
            return Err(SqlError::new(SqlState(*b"42939"), format!("unacceptable schema name \"{name}\""))
                .detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        if self.catalog().schema_named(&name).is_some() {
            let error = SqlError::new(SqlState::DUPLICATE_SCHEMA, format!("schema \"{name}\" already exists"));
            if create.if_not_exists {
                skipped(client, SqlState::DUPLICATE_SCHEMA, &format!("schema \"{name}\" already exists, skipping"));
                return Ok(());
            }
            return Err(error);
        }
        let schema = Schema { oid: self.database.new_oid(), name: name.into() };
        self.begin_statement(true)?;
        let written = store::put_schema(&self.database.db, &mut self.engine, &schema);
        self.engine.end_statement();
        written?;
        self.change_catalog(|catalog| {
            catalog.schemas.insert(schema.oid, Arc::new(schema));
        });
        Ok(())
    }

    async fn drop_objects<C: Client>(&mut self, drop: &ast::DropObjects, client: &mut C) -> Result<()> {
        if drop.kind == ast::ObjectKind::Table {
            self.drop_keys_to_tables(drop, client).await?;
        }
        let mut turn = Turn::begin(&self.database);
        for name in &drop.names {
            turn.pass_when_over(&self.database).await;
            match drop.kind {
                ast::ObjectKind::Table => self.drop_table(name, drop, client).await?,
                ast::ObjectKind::Index => self.drop_index(name, drop, client).await?,
                ast::ObjectKind::Schema => self.drop_schema(name, drop, client).await?,
                ast::ObjectKind::View | ast::ObjectKind::Sequence => {
                    let kind = if drop.kind == ast::ObjectKind::View { "view" } else { "sequence" };
                    // There are no views and sequences, so each name is missing.
                    let text = format!("{kind} \"{}\" does not exist", name.last());
                    missing(drop, client, SqlState::UNDEFINED_TABLE, &text)?;
                }
            }
        }
        Ok(())
    }

    /// Drops the foreign keys from tables that stay to tables that DROP TABLE names.
    async fn drop_keys_to_tables<C: Client>(&mut self, drop: &ast::DropObjects, client: &mut C) -> Result<()> {
        let catalog = self.catalog();
        // Names without a table are reported later, one by one.
        let named = drop.names.iter().filter_map(|name| self.table_named(&relation_name(name)).ok());
        let tables: Vec<Oid> = named.map(|table| table.oid).collect();
        let (dependents, on): (Vec<_>, Vec<_>) = foreign_key::dependents(&catalog, &tables).into_iter().unzip();
        let table_text = |oid: &Oid| catalog.relation(*oid).map_or_else(String::new, |table| self.table_text(table));
        let on: Vec<String> = on.iter().map(table_text).collect();
        let what = on.first().cloned().unwrap_or_default();
        let dropped = Dropped { what, on: &on, alone: drop.names.len() == 1, behavior: drop.behavior };
        self.drop_dependents(dependents, dropped, client).await
    }

    async fn drop_table<C: Client>(
        &mut self,
        name: &ast::ObjectName,
        drop: &ast::DropObjects,
        client: &mut C,
    ) -> Result<()> {
        let relation_name = relation_name(name);
        let catalog = self.catalog();
        let schema = match self.schema_of(&relation_name, &catalog) {
            Ok(schema) => schema,
            Err(error) if drop.if_exists => {
                skipped(client, error.state(), &format!("{error}, skipping"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let Some(oid) = catalog.object_named(schema, &self.search_path(&catalog), name.last()) else {
            return missing(
                drop,
                client,
                SqlState::UNDEFINED_TABLE,
                &format!("table \"{}\" does not exist", name.last()),
            );
        };
        if catalog.relation(oid).is_none() {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", name.last()))
                .hint("Use DROP INDEX to remove an index."));
        }
        let relation = self.table_to_change(&relation_name, TableLockMode::AccessExclusive).await?;
        self.drop_relation(&relation).await
    }

    async fn drop_relation(&mut self, relation: &Relation) -> Result<()> {
        self.refuse_pending("DROP TABLE", relation)?;
        // The table's foreign keys go with it, so writers of the tables that they refer to are locked out (C1).
        for key in relation.foreign_keys.iter().filter(|key| key.target != relation.oid) {
            self.lock_table(key.target, TableLockMode::AccessExclusive).await?;
        }
        for cf in families_of(relation) {
            self.replace_family(cf);
        }
        self.redefine(Some(relation), None)
    }

    async fn drop_index<C: Client>(
        &mut self,
        name: &ast::ObjectName,
        drop: &ast::DropObjects,
        client: &mut C,
    ) -> Result<()> {
        if drop.concurrently {
            return Err(SqlError::unsupported("DROP INDEX CONCURRENTLY").hint("Use DROP INDEX."));
        }
        let catalog = self.catalog();
        let schema = self.schema_of(&relation_name(name), &catalog)?;
        let found = catalog.object_named(schema, &self.search_path(&catalog), name.last());
        let Some(oid) = found else {
            return missing(
                drop,
                client,
                SqlState::UNDEFINED_OBJECT,
                &format!("index \"{}\" does not exist", name.last()),
            );
        };
        let Some((table, index)) = catalog.index(oid) else {
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{}\" is not an index", name.last())));
        };
        refuse_system(table)?;
        if index.constraint.is_some() {
            let text = format!(
                "cannot drop index {0} because constraint {0} on table {1} requires it",
                index.name, table.name
            );
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
                .hint(format!("You can drop constraint {} on table {} instead.", index.name, table.name)));
        }
        self.lock_table(table.oid, TableLockMode::AccessExclusive).await?;
        self.refuse_pending("DROP INDEX", table)?;
        let what = self.index_text(table, index.oid);
        self.drop_index_dependents(table, index.oid, what, drop.behavior, client).await?;
        let table = self.catalog().relation(table.oid).cloned().unwrap_or_else(|| table.clone());
        self.remove_index(&table, index)
    }

    /// Removes an index from its table's definition.
    pub(super) fn remove_index(&mut self, table: &Relation, index: &Index) -> Result<()> {
        let mut changed = table.clone();
        changed.version += 1;
        changed.indexes.retain(|other| other.oid != index.oid);
        self.replace_family(index.cf);
        self.redefine(Some(table), Some(changed))
    }

    async fn drop_schema<C: Client>(
        &mut self,
        name: &ast::ObjectName,
        drop: &ast::DropObjects,
        client: &mut C,
    ) -> Result<()> {
        let catalog = self.catalog();
        let Some(schema) = catalog.schema_named(name.last()).cloned() else {
            return missing(
                drop,
                client,
                SqlState::INVALID_SCHEMA_NAME,
                &format!("schema \"{}\" does not exist", name.last()),
            );
        };
        if schema.oid < FIRST_USER_OID && schema.oid != PUBLIC {
            let text = format!("cannot drop schema {} because it is required by the database system", schema.name);
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text));
        }
        let mut inside: Vec<_> =
            catalog.relations.values().filter(|table| table.schema == schema.oid).cloned().collect();
        inside.sort_by_key(|table| table.oid);
        if let (Some(first), ast::Behavior::Restrict) = (inside.first(), drop.behavior) {
            let text = format!("cannot drop schema {} because other objects depend on it", schema.name);
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, text)
                .detail(format!("table {}.{} depends on schema {}", schema.name, first.name, schema.name))
                .hint("Use DROP ... CASCADE to drop the dependent objects too."));
        }
        let tables: Vec<Oid> = inside.iter().map(|table| table.oid).collect();
        // A foreign key of a table outside the schema must not outlive the table that it refers to (F2 of
        // `foreign_key.rs`).
        let outside = foreign_key::dependents(&catalog, &tables).into_iter().map(|(dependent, _)| dependent);
        self.drop_foreign_keys(&outside.collect::<Vec<_>>()).await?;
        let mut turn = Turn::begin(&self.database);
        for table in inside {
            turn.pass_when_over(&self.database).await;
            self.lock_table(table.oid, TableLockMode::AccessExclusive).await?;
            self.drop_relation(&table).await?;
        }
        self.begin_statement(true)?;
        let written = store::remove_schema(&self.database.db, &mut self.engine, &schema);
        self.engine.end_statement();
        written?;
        self.change_catalog(|catalog| {
            catalog.schemas.remove(&schema.oid);
        });
        Ok(())
    }

    async fn truncate<C: Client>(&mut self, truncate: &ast::Truncate, client: &mut C) -> Result<()> {
        let mut tables: Vec<Oid> = Vec::with_capacity(truncate.tables.len());
        for table in &truncate.tables {
            let oid = self.table_to_change(&table.name, TableLockMode::AccessExclusive).await?.oid;
            if !tables.contains(&oid) {
                tables.push(oid);
            }
        }
        self.truncate_with(&mut tables, truncate.behavior, client).await?;
        let mut turn = Turn::begin(&self.database);
        for oid in tables {
            turn.pass_when_over(&self.database).await;
            let catalog = self.catalog();
            let Some(relation) = catalog.relation(oid) else { continue };
            self.refuse_pending("TRUNCATE", relation)?;
            for cf in families_of(relation) {
                self.replace_family(cf);
            }
            // The new definition names new, empty families; a rollback keeps the old ones.
            let mut empty = (**relation).clone();
            empty.version += 1;
            let cf = self.new_family();
            empty.storage = Storage::Family(cf);
            for index in &mut empty.indexes {
                let cf = if index.primary { cf } else { self.new_family() };
                Arc::make_mut(index).cf = cf;
            }
            self.redefine(Some(relation), Some(empty))?;
        }
        Ok(())
    }

    /// With CASCADE, adds the tables that refer to the truncated ones; otherwise refuses if there are any.
    async fn truncate_with<C: Client>(
        &mut self,
        tables: &mut Vec<Oid>,
        behavior: ast::Behavior,
        client: &mut C,
    ) -> Result<()> {
        let catalog = self.catalog();
        let mut at = 0;
        while let Some(&oid) = tables.get(at) {
            at += 1;
            for (child, _) in catalog.foreign_keys_to(oid) {
                if tables.contains(&child.oid) {
                    continue;
                }
                if behavior == ast::Behavior::Restrict {
                    let target = catalog.relation(oid).map_or("", |table| &table.name);
                    let text = "cannot truncate a table referenced in a foreign key constraint";
                    return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, text)
                        .detail(format!("Table \"{}\" references \"{target}\".", child.name))
                        .hint(format!(
                            "Truncate table \"{}\" at the same time, or use TRUNCATE ... CASCADE.",
                            child.name
                        )));
                }
                let text = format!("truncate cascades to table \"{}\"", child.name);
                skipped(client, SqlState(*b"00000"), &text);
                self.lock_table(child.oid, TableLockMode::AccessExclusive).await?;
                tables.push(child.oid);
            }
        }
        Ok(())
    }
}

/// Returns the families that hold a table and its indexes.
fn families_of(relation: &Relation) -> Vec<CfId> {
    let secondary = relation.indexes.iter().filter(|index| !index.primary).map(|index| index.cf);
    std::iter::once(relation.family()).chain(secondary).collect()
}

fn relation_name(name: &ast::ObjectName) -> ast::RelationName {
    let catalog = name.parts.len().checked_sub(3).and_then(|at| name.parts.get(at)).cloned();
    let schema = name.schema().map(str::to_owned);
    ast::RelationName { catalog, schema, name: name.last().to_owned(), pos: name.pos }
}

/// Returns the error for a schema that does not exist.
pub(super) fn no_schema(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"))
}

/// Refuses to change a system table.
pub(super) fn refuse_system(relation: &Relation) -> Result<()> {
    if relation.storage == Storage::Virtual {
        let text = format!("permission denied: \"{}\" is a system catalog", relation.name);
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, text));
    }
    Ok(())
}

/// Informs the client that an object was skipped because of IF EXISTS or IF NOT EXISTS.
pub(super) fn skipped<C: Client>(client: &mut C, state: SqlState, text: &str) {
    client.notice(NoticeLevel::Notice, SqlError::new(state, text).report());
}

fn missing<C: Client>(drop: &ast::DropObjects, client: &mut C, state: SqlState, text: &str) -> Result<()> {
    if drop.if_exists {
        skipped(client, SqlState(*b"00000"), &format!("{text}, skipping"));
        return Ok(());
    }
    Err(SqlError::new(state, text))
}
