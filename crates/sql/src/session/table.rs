//! Tables, indexes and constraints: from the statement to the definition, and the builds that changes of it need.

use std::sync::Arc;

use collie_engine::TableLockMode;

use crate::{
    analyze::{
        self,
        bound::{Analyzed, Bound, Distinct, Expr, FromItem, Query, Range, RangeSource, ResultColumn, Select},
        deparse,
    },
    builtin,
    catalog::{
        record::{key_column, key_expression, layout_of},
        relation::{
            Check, Column, Index, IndexColumn, KeyExpression, KeyPart, Relation, Storage, TableKey, distinct_names,
        },
    },
    error::{Result, SqlError, SqlState},
    exec::{Execution, RowSink, Step, index_build},
    parse::ast,
    session::{
        Client, Session,
        definition::{no_schema, skipped},
        foreign_key::Declared,
        prepared::Verb,
    },
    types::{SqlType, Value, oid},
};

/// Bytes of a name that are kept.
const NAME_BYTES_MAX: usize = 63;
/// Most columns of a table.
const COLUMNS_MAX: usize = 1600;
/// Most columns of an index.
const INDEX_COLUMNS_MAX: usize = 32;

impl Session {
    pub(super) async fn create_table<C: Client>(&mut self, create: &ast::CreateTable, client: &mut C) -> Result<()> {
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
        // The primary key first: its columns lose NULL, which decides how every other index encodes them.
        constraints.sort_by_key(|(_, constraint)| !matches!(constraint.kind, ast::ConstraintKind::PrimaryKey(_)));
        let mut foreign = Vec::new();
        for (column, constraint) in constraints {
            match &constraint.kind {
                // They may refer to the table itself, so they come when it is there.
                ast::ConstraintKind::ForeignKey(key) => {
                    foreign.push(Declared { column, constraint, key, fresh: true });
                }
                _ => self.add_constraint(&mut relation, column, constraint)?,
            }
        }
        // Nobody can name it before the catalog is published, under this lock (D1).
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

    /// Returns a default as text that reads back as the same bound tree; `None` for NULL.
    fn default_text(&self, column: &str, ty: SqlType, expr: &ast::Expr) -> Result<Option<Arc<str>>> {
        let bound = self.analyzing(None, |cx| analyze::default(expr, column, ty, cx))?;
        if matches!(bound, Expr::Const(Value::Null, _)) {
            return Ok(None);
        }
        Ok(Some(deparse::expression(&bound, &|_, _| String::new()).into()))
    }

    /// Adds a constraint to a definition that is being put together. `column` is set for a column's own constraint.
    fn add_constraint(
        &mut self,
        relation: &mut Relation,
        column: Option<usize>,
        constraint: &ast::Constraint,
    ) -> Result<()> {
        let refuse = |what: &str| Err(SqlError::unsupported(what).at_opt(constraint.pos.get()));
        if constraint.deferrable && !matches!(constraint.kind, ast::ConstraintKind::ForeignKey(_)) {
            return refuse("a DEFERRABLE constraint");
        }
        match &constraint.kind {
            ast::ConstraintKind::Null | ast::ConstraintKind::NotNull | ast::ConstraintKind::Default(_) => Ok(()),
            ast::ConstraintKind::Check(condition) => self.add_check(relation, column, constraint, condition),
            ast::ConstraintKind::PrimaryKey(key) => self.add_key(relation, column, constraint, key, true),
            ast::ConstraintKind::Unique(key) => self.add_key(relation, column, constraint, key, false),
            ast::ConstraintKind::ForeignKey(_) => unreachable!("foreign keys are added to a table that is defined"),
            ast::ConstraintKind::Identity { .. } => refuse("an identity column"),
            ast::ConstraintKind::Generated(_) => refuse("a generated column"),
        }
    }

    fn add_check(
        &mut self,
        relation: &mut Relation,
        column: Option<usize>,
        constraint: &ast::Constraint,
        condition: &ast::Expr,
    ) -> Result<()> {
        let seen = Arc::new(relation.clone());
        let bool_type = SqlType::new(oid::BOOL);
        let bound = self.analyzing(None, |cx| analyze::expression(condition, Some(&seen), Some(bool_type), cx))?;
        // The deparser asks for the name of each column as it prints it, and so tells which columns are used.
        let used = std::cell::RefCell::new(Vec::new());
        let text = deparse::expression(&bound, &|_, place| {
            if !used.borrow().contains(&place) {
                used.borrow_mut().push(place);
            }
            relation.columns.get(place).map_or_else(String::new, |column| column.name.to_string())
        });
        let name = match &constraint.name {
            Some(name) => name.clone(),
            None => {
                let only = match used.borrow().as_slice() {
                    [place] => Some(*place),
                    _ => None,
                };
                let named = column.or(only).and_then(|place| relation.columns.get(place));
                let middle = named.map(|column| column.name.to_string());
                unused_name(&relation.name, middle.as_deref(), "check", |name| {
                    relation.checks.iter().any(|check| &*check.name == name)
                })
            }
        };
        refuse_duplicate_constraint(relation, &name)?;
        let check = Check { oid: self.database.new_oid(), name: name.into(), condition: text.into() };
        relation.checks.push(check);
        relation.checks.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    fn add_key(
        &mut self,
        relation: &mut Relation,
        column: Option<usize>,
        constraint: &ast::Constraint,
        key: &ast::KeyConstraint,
        primary: bool,
    ) -> Result<()> {
        let refuse = |what: &str| Err(SqlError::unsupported(what).at_opt(constraint.pos.get()));
        if key.nulls_not_distinct {
            return refuse("NULLS NOT DISTINCT");
        }
        if key.using_index.is_some() {
            return refuse("USING INDEX");
        }
        storage_options(&key.options)?;
        if primary && relation.primary_key().is_some() {
            let text = format!("multiple primary keys for table \"{}\" are not allowed", relation.name);
            return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, text).at_opt(constraint.pos.get()));
        }
        let mut places: Vec<usize> = column.into_iter().collect();
        for name in &key.columns {
            let (place, _) = relation.column(name).ok_or_else(|| {
                let text = format!("column \"{name}\" named in key does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, text).at_opt(constraint.pos.get())
            })?;
            if places.contains(&place) {
                let kind = if primary { "primary key" } else { "unique" };
                let text = format!("column \"{name}\" appears twice in {kind} constraint");
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, text).at_opt(constraint.pos.get()));
            }
            places.push(place);
        }
        let mut included = Vec::with_capacity(key.include.len());
        for name in &key.include {
            let (place, _) = relation.column(name).ok_or_else(|| {
                let text = format!("column \"{name}\" named in key does not exist");
                SqlError::new(SqlState::UNDEFINED_COLUMN, text).at_opt(constraint.pos.get())
            })?;
            included.push(place);
        }
        refuse_many(places.len() + included.len())?;
        let name = match &constraint.name {
            Some(name) => name.clone(),
            None if primary => self.unused_relation_name(relation, None, "pkey"),
            None => {
                let names = places.iter().chain(&included).map(|&place| &*relation.columns[place].name);
                let middle = distinct_names(names).join("_");
                self.unused_relation_name(relation, Some(&middle), "key")
            }
        };
        refuse_duplicate_constraint(relation, &name)?;
        self.refuse_name_in_use(relation, &name)?;
        if primary {
            for place in &places {
                relation.columns[*place].not_null = true;
            }
            // A column that lost NULL is encoded differently: indexes over it are put together anew.
            refresh_keys(relation);
            relation.key = TableKey::Primary;
        }
        let cf = if primary { relation.family() } else { self.new_family() };
        let columns = places.iter().map(|place| index_column(relation, *place, false, false)).collect::<Result<_>>()?;
        let index = Index {
            oid: self.database.new_oid(),
            name: name.into(),
            cf,
            unique: true,
            primary,
            constraint: Some(self.database.new_oid()),
            columns,
            predicate: Vec::new(),
            included,
        };
        let at = if primary { 0 } else { relation.indexes.len() };
        relation.indexes.insert(at, Arc::new(index));
        Ok(())
    }

    fn refuse_name_in_use(&self, relation: &Relation, name: &str) -> Result<()> {
        let taken = self.catalog().object_named(Some(relation.schema), &[], name).is_some()
            || *relation.name == *name
            || relation.indexes.iter().any(|index| &*index.name == name);
        if taken {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        Ok(())
    }

    fn unused_relation_name(&self, relation: &Relation, middle: Option<&str>, end: &str) -> String {
        unused_name(&relation.name, middle, end, |name| self.refuse_name_in_use(relation, name).is_err())
    }

    pub(super) async fn create_index<C: Client>(&mut self, create: &ast::CreateIndex, client: &mut C) -> Result<()> {
        let refuse = |what: &str| Err(SqlError::unsupported(what).at_opt(create.table.name.pos.get()));
        if create.concurrently {
            return refuse("CREATE INDEX CONCURRENTLY");
        }
        if create.method != "btree" {
            return refuse(&format!("index access method \"{}\"", create.method));
        }
        if create.nulls_not_distinct {
            return refuse("NULLS NOT DISTINCT");
        }
        refuse_many(create.elements.len() + create.include.len())?;
        storage_options(&create.options)?;
        let table = self.table_to_change(&create.table.name, TableLockMode::Share).await?;
        let ComputedParts { predicate, expressions } = self.computed_parts(&table, create)?;
        let mut columns = Vec::new();
        for (element, expression) in create.elements.iter().zip(expressions) {
            if let Some(collation) = &element.collation {
                check_collation(collation)?;
            }
            if let Some(class) = &element.operator_class
                && builtin::op_class_by_name(class.last()).next().is_none()
            {
                let text = format!("operator class \"{class}\" does not exist for access method \"btree\"");
                return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text));
            }
            let desc = element.descending == Some(true);
            let nulls_first = element.nulls_first.unwrap_or(desc);
            columns.push(match (&element.key, expression) {
                (_, Some(Expr::Column { column, .. })) => index_column(&table, column, desc, nulls_first)?,
                (ast::IndexKey::Expression(written), Some(bound)) => {
                    let name = analyze::index_column_name(written);
                    index_expression(&table, &name, &bound, desc, nulls_first)?
                }
                (ast::IndexKey::Column(name), _) => {
                    let (place, _) = table.column(name).ok_or_else(|| {
                        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                    })?;
                    index_column(&table, place, desc, nulls_first)?
                }
                (ast::IndexKey::Expression(_), None) => unreachable!("every expression was analyzed"),
            });
        }
        let included =
            create.include.iter().map(|element| included_column(&table, element)).collect::<Result<Vec<_>>>()?;
        let name = match &create.name {
            Some(name) => name.clone(),
            None => {
                let keys = columns.iter().map(|column| column.name(&table));
                let names = keys.chain(included.iter().map(|&place| &*table.columns[place].name));
                self.unused_relation_name(&table, Some(&distinct_names(names).join("_")), "idx")
            }
        };
        if let Err(error) = self.refuse_name_in_use(&table, &name) {
            if create.if_not_exists {
                skipped(client, error.state(), &format!("{error}, skipping"));
                return Ok(());
            }
            return Err(error);
        }
        let index = Arc::new(Index {
            oid: self.database.new_oid(),
            name: name.into(),
            cf: self.new_family(),
            unique: create.unique,
            primary: false,
            constraint: None,
            columns,
            predicate,
            included,
        });
        let mut changed = (*table).clone();
        changed.version += 1;
        changed.indexes.push(index.clone());
        self.build_index(&table, &index)?;
        self.redefine(Some(&table), Some(changed))
    }

    /// Analyzes what a new index computes.
    fn computed_parts(&self, table: &Arc<Relation>, create: &ast::CreateIndex) -> Result<ComputedParts> {
        let filter = match &create.filter {
            None => None,
            Some(filter) => Some(self.analyzing(None, |cx| analyze::index_predicate(filter, table, cx))?),
        };
        let expression = |element: &ast::IndexElement| match &element.key {
            ast::IndexKey::Column(_) => Ok(None),
            ast::IndexKey::Expression(expr) => {
                self.analyzing(None, |cx| analyze::index_expression(expr, table, cx)).map(Some)
            }
        };
        let expressions = create.elements.iter().map(expression).collect::<Result<Vec<_>>>()?;
        let refuse_mutable = |expr: &Expr, what: &str| {
            if !analyze::is_mutable(expr) {
                return Ok(());
            }
            let text = format!("functions in index {what} must be marked IMMUTABLE");
            Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, text))
        };
        filter.iter().try_for_each(|filter| refuse_mutable(filter, "predicate"))?;
        expressions.iter().flatten().try_for_each(|expr| refuse_mutable(expr, "expression"))?;
        let terms = filter.iter().flat_map(analyze::terms);
        let predicate = terms.map(|term| stored_text(term, table)).collect::<Result<_>>()?;
        Ok(ComputedParts { predicate, expressions })
    }

    /// Fills an index from the rows of its table.
    fn build_index(&mut self, table: &Arc<Relation>, index: &Arc<Index>) -> Result<()> {
        self.refuse_stale_snapshot()?;
        self.begin_statement(true)?;
        let text = self.text_context();
        let built = self.in_context(&text, |cx, _| index_build::build_index(cx, table, index));
        self.engine.end_statement();
        built.map_err(|error| self.about(table, error))
    }

    /// Names the table in an error about one of its constraints.
    pub(super) fn about(&self, table: &Relation, error: SqlError) -> SqlError {
        let catalog = self.catalog();
        match catalog.schemas.get(&table.schema) {
            Some(schema) if error.report().constraint.is_some() => error.table(&*schema.name, &*table.name),
            _ => error,
        }
    }

    pub(super) async fn alter_table<C: Client>(&mut self, alter: &ast::AlterTable, client: &mut C) -> Result<()> {
        if alter.kind != ast::ObjectKind::Table {
            return Err(SqlError::unsupported("ALTER INDEX").at_opt(alter.table.name.pos.get()));
        }
        if alter.if_exists && self.table_named(&alter.table.name).is_err() {
            let text = format!("relation \"{}\" does not exist, skipping", alter.table.name);
            skipped(client, SqlState(*b"00000"), &text);
            return Ok(());
        }
        let mode = alter.commands.iter().map(lock_mode).max().unwrap_or(TableLockMode::AccessExclusive);
        let table = self.table_to_change(&alter.table.name, mode).await;
        let table = table.map_err(SqlError::without_position)?;
        self.refuse_pending("ALTER TABLE", &table)?;
        for command in &alter.commands {
            let table = self.table_named(&alter.table.name)?;
            self.alter(&table, command, client).await?;
        }
        Ok(())
    }

    async fn alter<C: Client>(
        &mut self,
        table: &Arc<Relation>,
        command: &ast::AlterCommand,
        client: &mut C,
    ) -> Result<()> {
        let mut changed = (**table).clone();
        changed.version += 1;
        match command {
            ast::AlterCommand::AddConstraint(constraint) => {
                if let ast::ConstraintKind::ForeignKey(key) = &constraint.kind {
                    let declared = Declared { column: None, constraint, key, fresh: false };
                    return self.add_foreign_key(table, declared).await;
                }
                return self.add_constraint_to_table(table, constraint);
            }
            ast::AlterCommand::DropConstraint { name, if_exists, behavior } => {
                return self.drop_constraint(table, name, (*if_exists, *behavior), client).await;
            }
            ast::AlterCommand::SetDefault { column, value } => {
                let place = self.place(table, column)?;
                changed.columns[place].default = self.default_text(column, table.columns[place].ty, value)?;
            }
            ast::AlterCommand::DropDefault { column } => changed.columns[self.place(table, column)?].default = None,
            ast::AlterCommand::SetOptions(options) => {
                for (name, value) in storage_options(options)? {
                    changed.options.retain(|(other, _)| *other != name);
                    changed.options.push((name, value));
                }
            }
            ast::AlterCommand::ResetOptions(options) => {
                changed.options.retain(|(name, _)| !options.iter().any(|option| option.name == *name));
            }
            ast::AlterCommand::SetNotNull { .. } => return Err(SqlError::unsupported("ALTER COLUMN SET NOT NULL")),
            ast::AlterCommand::DropNotNull { .. } => return Err(SqlError::unsupported("ALTER COLUMN DROP NOT NULL")),
            ast::AlterCommand::AddColumn { .. } => return Err(SqlError::unsupported("ALTER TABLE ADD COLUMN")),
            ast::AlterCommand::DropColumn { .. } => return Err(SqlError::unsupported("ALTER TABLE DROP COLUMN")),
            ast::AlterCommand::SetType { pos, .. } => {
                return Err(SqlError::unsupported("ALTER COLUMN TYPE").at_opt(pos.get()));
            }
            ast::AlterCommand::ValidateConstraint { name } => return self.validate_constraint(table, name).await,
        }
        self.redefine(Some(table), Some(changed))
    }

    fn place(&self, table: &Relation, column: &str) -> Result<usize> {
        table.column(column).map(|(place, _)| place).ok_or_else(|| {
            let text = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            SqlError::new(SqlState::UNDEFINED_COLUMN, text)
        })
    }

    fn add_constraint_to_table(&mut self, table: &Arc<Relation>, constraint: &ast::Constraint) -> Result<()> {
        if constraint.not_valid {
            return Err(SqlError::unsupported("NOT VALID").at_opt(constraint.pos.get()));
        }
        let mut changed = (**table).clone();
        changed.version += 1;
        self.add_constraint(&mut changed, None, constraint).map_err(|error| match error.state() {
            SqlState::INVALID_TABLE_DEFINITION => error.without_position(),
            _ => error,
        })?;
        match &constraint.kind {
            ast::ConstraintKind::PrimaryKey(_) => self.rewrite_by_primary_key(table, changed),
            ast::ConstraintKind::Unique(_) => {
                let index = changed.indexes.last().expect("a key was added").clone();
                self.build_index(table, &index)?;
                self.redefine(Some(table), Some(changed))
            }
            ast::ConstraintKind::Check(_) => {
                let known: Vec<_> = table.checks.iter().map(|check| check.oid).collect();
                let added = changed.checks.iter().find(|check| !known.contains(&check.oid)).expect("a check was added");
                let (name, condition) = (added.name.clone(), added.condition.clone());
                self.verify_check(table, &name, &condition)?;
                self.redefine(Some(table), Some(changed))
            }
            _ => Ok(()),
        }
    }

    /// Writes every row again under its primary key, with all indexes, into families of their own.
    fn rewrite_by_primary_key(&mut self, table: &Arc<Relation>, mut changed: Relation) -> Result<()> {
        let cf = self.new_family();
        changed.storage = Storage::Family(cf);
        for index in &mut changed.indexes {
            let cf = if index.primary { cf } else { self.new_family() };
            Arc::make_mut(index).cf = cf;
        }
        let changed = Arc::new(changed);
        self.refuse_stale_snapshot()?;
        self.begin_statement(true)?;
        let text = self.text_context();
        let built = self.in_context(&text, |cx, _| index_build::rewrite_table(cx, table, &changed));
        self.engine.end_statement();
        built.map_err(|error| self.about(table, error))?;
        self.replace_family(table.family());
        for index in table.indexes.iter().filter(|index| !index.primary) {
            self.replace_family(index.cf);
        }
        self.redefine(Some(table), Some((*changed).clone()))
    }

    fn verify_check(&mut self, table: &Arc<Relation>, name: &str, condition: &str) -> Result<()> {
        let bool_type = SqlType::new(oid::BOOL);
        let bound =
            self.analyzing(None, |cx| analyze::stored_expression(condition, Some(table), Some(bool_type), cx))?;
        let violated = self.any_row_violates(table, bound)?;
        if violated {
            let text = format!("check constraint \"{name}\" of relation \"{}\" is violated by some row", table.name);
            let error = SqlError::new(SqlState::CHECK_VIOLATION, text).constraint(name);
            return Err(self.about(table, error));
        }
        Ok(())
    }

    /// Returns whether some row makes `condition` false.
    fn any_row_violates(&mut self, table: &Arc<Relation>, condition: Expr) -> Result<bool> {
        let columns = table.columns.iter().map(|column| (column.name.to_string(), column.ty)).collect();
        let one = Expr::Const(Value::Int4(1), SqlType::new(oid::INT4));
        let select = Select {
            ranges: vec![Range { name: table.name.to_string(), source: RangeSource::Table(table.clone()), columns }],
            from: Some(FromItem::Range(0)),
            filter: Some(Expr::Not(Box::new(condition))),
            group_by: Vec::new(),
            aggregates: Vec::new(),
            grouped: false,
            having: None,
            targets: vec![one],
            visible: 1,
            distinct: Distinct::No,
            order_by: Vec::new(),
            limit: Some(Expr::Const(Value::Int8(1), SqlType::new(oid::INT8))),
            offset: None,
            locking: Vec::new(),
            returns_set: false,
        };
        let analyzed = Analyzed {
            bound: Bound::Query(Query::Select(Box::new(select))),
            parameters: Vec::new(),
            columns: vec![ResultColumn { name: String::new(), ty: SqlType::new(oid::INT4), origin: None }],
            modifying: Vec::new(),
            relations: Vec::new(),
            writes: false,
            lock_strength: None,
            assigns_xid: false,
        };
        let planned = self.plan_analyzed(analyzed, Verb::Select, self.catalog().epoch)?;
        self.refuse_stale_snapshot()?;
        self.begin_statement(true)?;
        let mut execution = Execution::new(planned.plan.clone(), Vec::new());
        let mut counted = Counted(0);
        let text = self.text_context();
        let result = loop {
            match self.step(&mut execution, &text, &mut counted) {
                Ok(Step::Done { .. }) => break Ok(counted.0 > 0),
                // A plain read waits for nobody; it only pauses.
                Ok(_) => {}
                Err(error) => break Err(error),
            }
        };
        self.engine.end_statement();
        result
    }

    async fn drop_constraint<C: Client>(
        &mut self,
        table: &Arc<Relation>,
        name: &str,
        (if_exists, behavior): (bool, ast::Behavior),
        client: &mut C,
    ) -> Result<()> {
        if let Some(key) = table.foreign_keys.iter().find(|key| &*key.name == name) {
            return self.drop_foreign_keys(&[(table.clone(), key.clone())]).await;
        }
        if let Some(index) = table.indexes.iter().find(|index| index.constraint.is_some() && &*index.name == name) {
            if index.primary {
                return Err(SqlError::unsupported("dropping a primary key"));
            }
            let what = format!("constraint {name} on {}", self.table_text(table));
            self.drop_index_dependents(table, index.oid, what, behavior, client).await?;
            // A key of the table to itself may have gone with it.
            let table = self.catalog().relation(table.oid).cloned().unwrap_or_else(|| table.clone());
            return self.remove_index(&table, &index.clone());
        }
        if !table.checks.iter().any(|check| &*check.name == name) {
            let text = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            if if_exists {
                skipped(client, SqlState(*b"00000"), &format!("{text}, skipping"));
                return Ok(());
            }
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text));
        }
        let mut changed = (**table).clone();
        changed.version += 1;
        changed.checks.retain(|check| &*check.name != name);
        self.redefine(Some(table), Some(changed))
    }
}

/// Returns how a command holds its table: against everybody, but for foreign keys, which change no row and no reader's
/// plan. Who writes checks a key that is not validated as any other, so its validation lets writers on.
const fn lock_mode(command: &ast::AlterCommand) -> TableLockMode {
    match command {
        ast::AlterCommand::ValidateConstraint { .. } => TableLockMode::ShareUpdateExclusive,
        ast::AlterCommand::AddConstraint(constraint)
            if matches!(constraint.kind, ast::ConstraintKind::ForeignKey(_)) =>
        {
            TableLockMode::ShareRowExclusive
        }
        _ => TableLockMode::AccessExclusive,
    }
}

/// What a new index computes.
struct ComputedParts {
    /// The terms of its predicate.
    predicate: Vec<Arc<str>>,
    /// For each element of its key the expression, if it is one.
    expressions: Vec<Option<Expr>>,
}

/// Counts rows.
struct Counted(u64);

impl RowSink for Counted {
    fn row(&mut self, _values: &[Value]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}

pub(super) fn column_names(relation: &Relation, places: &[usize]) -> String {
    let names = places.iter().filter_map(|place| relation.columns.get(*place));
    names.map(|column| column.name.to_string()).collect::<Vec<_>>().join("_")
}

/// Describes a column of an index key; refuses types that have no order.
fn index_column(relation: &Relation, place: usize, desc: bool, nulls_first: bool) -> Result<IndexColumn> {
    let column = &relation.columns[place];
    refuse_unordered(column.ty)?;
    Ok(IndexColumn { part: KeyPart::Column(place), key: key_column(column, desc, nulls_first) })
}

/// Describes an expression of an index key; refuses types that have no order.
fn index_expression(
    relation: &Relation,
    name: &str,
    expr: &Expr,
    desc: bool,
    nulls_first: bool,
) -> Result<IndexColumn> {
    let ty = expr.ty();
    refuse_unordered(ty)?;
    let part =
        KeyPart::Expression(Arc::new(KeyExpression { name: name.into(), text: stored_text(expr, relation)?, ty }));
    Ok(IndexColumn { part, key: key_expression(ty, desc, nulls_first) })
}

fn refuse_unordered(ty: SqlType) -> Result<()> {
    if builtin::op_class_for(ty.oid).is_some() {
        return Ok(());
    }
    let text = format!("data type {} has no default operator class for access method \"btree\"", ty.name());
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text)
        .hint("You must specify an operator class for the index or define a default operator class for the data type."))
}

/// Returns an expression over a row of `relation` as the text under which the catalog keeps it.
fn stored_text(expr: &Expr, relation: &Relation) -> Result<Arc<str>> {
    let over_row = || SqlError::unsupported("an index expression over more than one row");
    analyze::text_over(expr, relation, 0).map(Into::into).ok_or_else(over_row)
}

/// Finds a column of INCLUDE, which is stored in no order.
fn included_column(relation: &Relation, element: &ast::IndexElement) -> Result<usize> {
    let ast::IndexKey::Column(name) = &element.key else {
        return Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            "expressions are not supported in included columns",
        ));
    };
    let (place, _) = relation
        .column(name)
        .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")))?;
    let unordered = if element.collation.is_some() {
        "a collation"
    } else if element.operator_class.is_some() {
        "an operator class"
    } else if element.descending.is_some() {
        "ASC/DESC options"
    } else if element.nulls_first.is_some() {
        "NULLS FIRST/LAST options"
    } else {
        return Ok(place);
    };
    let text = format!("including column does not support {unordered}");
    Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, text))
}

/// Refuses an index of more columns than there may be.
fn refuse_many(columns: usize) -> Result<()> {
    if columns <= INDEX_COLUMNS_MAX {
        return Ok(());
    }
    let text = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, text))
}

/// Completes the key encodings again after a column's nullability changed.
fn refresh_keys(relation: &mut Relation) {
    let columns = relation.columns.clone();
    for index in &mut relation.indexes {
        for part in &mut Arc::make_mut(index).columns {
            if let Some(place) = part.column() {
                part.key = key_column(&columns[place], part.key.desc, part.key.nulls_first);
            }
        }
    }
}

pub(super) fn refuse_duplicate_constraint(relation: &Relation, name: &str) -> Result<()> {
    let taken = relation.foreign_keys.iter().any(|key| &*key.name == name)
        || relation.checks.iter().any(|check| &*check.name == name)
        || relation.indexes.iter().any(|index| index.constraint.is_some() && &*index.name == name);
    if taken {
        let text = format!("constraint \"{name}\" for relation \"{}\" already exists", relation.name);
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, text));
    }
    Ok(())
}

fn check_collation(collation: &ast::ObjectName) -> Result<()> {
    if matches!(collation.last(), "C" | "POSIX" | "default" | "ucs_basic") {
        return Ok(());
    }
    let text = format!("collation \"{}\" for encoding \"UTF8\" does not exist", collation.last());
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text).at_opt(collation.pos.get()))
}

/// Reads storage parameters, which are kept and shown and change nothing.
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

/// Makes a name from its parts that `taken` does not refuse: cut to length, then counted up.
pub(super) fn unused_name(start: &str, middle: Option<&str>, end: &str, taken: impl Fn(&str) -> bool) -> String {
    for count in 0_u64.. {
        let end = if count == 0 { end.to_owned() } else { format!("{end}{count}") };
        let name = joined_name(start, middle, &end);
        if !taken(&name) {
            return name;
        }
    }
    unreachable!("there are more numbers than names")
}

/// Joins the parts with underscores, shortening the longer of the first two until the whole fits.
fn joined_name(start: &str, middle: Option<&str>, end: &str) -> String {
    let (mut start, mut middle) = (start.to_owned(), middle.map(str::to_owned));
    let length =
        |start: &str, middle: &Option<String>| start.len() + middle.as_ref().map_or(0, |m| m.len() + 1) + end.len() + 1;
    while length(&start, &middle) > NAME_BYTES_MAX {
        match &mut middle {
            Some(middle) if middle.len() > start.len() => middle.pop(),
            _ => start.pop(),
        };
    }
    match middle {
        Some(middle) => format!("{start}_{middle}_{end}"),
        None => format!("{start}_{end}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: chosen names are PostgreSQL's: cut to 63 bytes at the longer part, counted up when taken. Method: table.
    #[test]
    fn names_are_cut_and_counted() {
        assert_eq!(unused_name("t", None, "pkey", |_| false), "t_pkey");
        assert_eq!(unused_name("t", Some("a_b"), "key", |name| name == "t_a_b_key"), "t_a_b_key1");
        let long = "x".repeat(80);
        let name = unused_name(&long, Some("col"), "idx", |_| false);
        assert_eq!(name.len(), 63);
        assert!(name.ends_with("x_col_idx"));
    }
}
