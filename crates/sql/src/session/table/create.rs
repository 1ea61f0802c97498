//! CREATE TABLE: the columns, and then their constraints and the table's.

use std::sync::Arc;

use collie_engine::TableLockMode;

use super::storage_options;
use crate::{
    analyze::{self, bound::Expr, deparse},
    catalog::{
        record::layout_of,
        relation::{Column, Relation, Storage, TableKey},
    },
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::{
        Client, Session,
        definition::{no_schema, skipped},
        foreign_key::Declared,
    },
    types::{SqlType, Value},
};

/// Limit of the columns of a table.
const COLUMNS_MAX: usize = 1600;

impl Session {
    pub(in crate::session) async fn create_table<C: Client>(
        &mut self,
        create: &ast::CreateTable,
        client: &mut C,
    ) -> Result<()> {
        let catalog = self.catalog();
        let schema = match self.schema_of(&create.name, &catalog)? {
            Some(schema) => schema,
            None => self.creation_schema(&catalog)?,
        };
        let schema_name = &catalog.schemas.get(&schema).ok_or_else(|| no_schema("?"))?.name;
        if schema < crate::catalog::snapshot::FIRST_USER_OID && schema != crate::catalog::snapshot::PUBLIC {
            return Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied to create \"{schema_name}.{}\"", create.name.name),
            )
            .detail("System catalog modifications are currently disallowed."));
        }
        if catalog.object_named(Some(schema), &[], &create.name.name).is_some() {
            let text = format!("relation \"{}\" already exists", create.name.name);
            if create.if_not_exists {
                skipped(client, SqlState::DUPLICATE_TABLE, &format!("{text}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, text));
        }
        if create.columns.len() > COLUMNS_MAX {
            let text = format!("tables can have at most {COLUMNS_MAX} columns");
            return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, text));
        }
        let oid = self.database.new_oid();
        let cf = self.new_family();
        let mut relation = Relation {
            oid,
            schema,
            name: create.name.name.as_str().into(),
            version: 1,
            storage: Storage::Family(cf),
            columns: Vec::new(),
            key: TableKey::RowId,
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            options: storage_options(&create.options)?,
            layout: layout_of(&[]),
        };
        let mut constraints: Vec<(Option<usize>, &ast::Constraint)> = Vec::new();
        for definition in &create.columns {
            let column = self.column(&relation, definition)?;
            let place = relation.columns.len();
            relation.columns.push(column);
            constraints.extend(definition.constraints.iter().map(|constraint| (Some(place), constraint)));
        }
        relation.layout = layout_of(&relation.columns);
        constraints.extend(create.constraints.iter().map(|constraint| (None, constraint)));
        // The primary key comes first: its columns become NOT NULL, which decides how every other index encodes them.
        constraints.sort_by_key(|(_, constraint)| !matches!(constraint.kind, ast::ConstraintKind::PrimaryKey(_)));
        let mut foreign = Vec::new();
        for (column, constraint) in constraints {
            match &constraint.kind {
                // A foreign key may refer to the table itself, so it is added once the table is defined.
                ast::ConstraintKind::ForeignKey(key) => {
                    foreign.push(Declared { column, constraint, key, fresh: true });
                }
                _ => self.add_constraint(&mut relation, column, constraint)?,
            }
        }
        // No other session can name the table before the catalog is published, which happens under this lock (D1).
        self.lock_table(oid, TableLockMode::AccessExclusive).await?;
        self.redefine(None, Some(relation))?;
        for declared in foreign {
            let table = self.catalog().relation(oid).cloned();
            self.add_foreign_key(&table.expect("it was just defined"), declared).await?;
        }
        Ok(())
    }

    fn column(&self, relation: &Relation, definition: &ast::ColumnDef) -> Result<Column> {
        let name = definition.name.as_str();
        if relation.column(name).is_some() {
            let text = format!("column \"{name}\" specified more than once");
            return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, text));
        }
        if let Some(collation) = &definition.collation {
            check_collation(collation)?;
        }
        let ty = self.analyzing(None, |cx| analyze::type_name(&definition.ty, cx))?;
        let mut not_null: Option<bool> = None;
        let mut default = None;
        for constraint in &definition.constraints {
            match &constraint.kind {
                ast::ConstraintKind::NotNull | ast::ConstraintKind::Null => {
                    let this = matches!(constraint.kind, ast::ConstraintKind::NotNull);
                    if not_null.is_some_and(|before| before != this) {
                        let text = format!(
                            "conflicting NULL/NOT NULL declarations for column \"{name}\" of table \"{}\"",
                            relation.name
                        );
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, text).at_opt(constraint.pos.get()));
                    }
                    not_null = Some(this);
                }
                ast::ConstraintKind::Default(expr) => {
                    if default.is_some() {
                        let text = format!(
                            "multiple default values specified for column \"{name}\" of table \"{}\"",
                            relation.name
                        );
                        return Err(SqlError::new(SqlState::SYNTAX_ERROR, text).at_opt(constraint.pos.get()));
                    }
                    default = Some(self.default_text(name, ty, expr)?);
                }
                _ => {}
            }
        }
        Ok(Column {
            attnum: i16::try_from(relation.columns.len() + 1).expect("at most 1600 columns"),
            name: name.into(),
            ty,
            not_null: not_null == Some(true),
            default: default.flatten(),
            missing: Value::Null,
            dropped: false,
        })
    }

    /// Returns a default as text that reads back as the same bound expression; `None` for NULL.
    pub(super) fn default_text(&self, column: &str, ty: SqlType, expr: &ast::Expr) -> Result<Option<Arc<str>>> {
        let bound = self.analyzing(None, |cx| analyze::default(expr, column, ty, cx))?;
        if matches!(bound, Expr::Const(Value::Null, _)) {
            return Ok(None);
        }
        Ok(Some(deparse::expression(&bound, &|_, _| String::new()).into()))
    }
}

pub(super) fn check_collation(collation: &ast::ObjectName) -> Result<()> {
    if matches!(collation.last(), "C" | "POSIX" | "default" | "ucs_basic") {
        return Ok(());
    }
    let text = format!("collation \"{}\" for encoding \"UTF8\" does not exist", collation.last());
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text).at_opt(collation.pos.get()))
}
