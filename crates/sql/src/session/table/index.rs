//! CREATE INDEX: the key, the included columns, the predicate, and the build.

use std::sync::Arc;

use collie_engine::TableLockMode;

use super::{create::check_collation, storage_options};
use crate::{
    analyze::{self, bound::Expr},
    builtin,
    catalog::{
        record::{key_column, key_expression},
        relation::{Index, IndexColumn, KeyExpression, KeyPart, Relation, distinct_names},
    },
    error::{Result, SqlError, SqlState},
    exec::{ExecContext, index_build::Pass},
    parse::ast,
    session::{Client, Session, definition::skipped},
    types::{SqlType, oid},
};

/// Limit of the columns of an index.
const INDEX_COLUMNS_MAX: usize = 32;

impl Session {
    pub(in crate::session) async fn create_index<C: Client>(
        &mut self,
        create: &ast::CreateIndex,
        client: &mut C,
    ) -> Result<()> {
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
        // SHARE keeps writers away until the index is filled and defined (C1 of `definition.rs`).
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
        self.build_index(&table, &index).await?;
        self.redefine(Some(&table), Some(changed))
    }

    /// Analyzes the expressions and the predicate of a new index.
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
    pub(super) async fn build_index(&mut self, table: &Arc<Relation>, index: &Arc<Index>) -> Result<()> {
        self.run_pass(table, |cx| Pass::over_index(cx, table, index)).await
    }

    /// Makes a pass over all rows of a table, in its own statement, and lets other sessions run meanwhile.
    pub(super) async fn run_pass(
        &mut self,
        table: &Relation,
        begin: impl FnOnce(&ExecContext<'_>) -> Result<Pass> + Send,
    ) -> Result<()> {
        self.refuse_stale_snapshot()?;
        self.begin_statement(true)?;
        let text = self.text_context();
        let passed = match self.in_context(&text, |cx, _| begin(cx)) {
            Err(error) => Err(error),
            Ok(mut pass) => loop {
                match self.in_context(&text, |cx, _| pass.step(cx)) {
                    Ok(true) => break Ok(()),
                    Ok(false) => self.database.give_way().await,
                    Err(error) => break Err(error),
                }
            },
        };
        self.engine.end_statement();
        passed.map_err(|error| self.about(table, error))
    }

    /// Adds the table's name to an error about one of its constraints.
    pub(in crate::session) fn about(&self, table: &Relation, error: SqlError) -> SqlError {
        let catalog = self.catalog();
        match catalog.schemas.get(&table.schema) {
            Some(schema) if error.report().constraint.is_some() => error.table(&*schema.name, &*table.name),
            _ => error,
        }
    }
}

/// The computed parts of a new index.
struct ComputedParts {
    /// The terms of the predicate.
    predicate: Vec<Arc<str>>,
    /// For each element of the key its expression, if it is one.
    expressions: Vec<Option<Expr>>,
}

/// Returns the definition of an index column; refuses types that have no order.
pub(super) fn index_column(relation: &Relation, place: usize, desc: bool, nulls_first: bool) -> Result<IndexColumn> {
    let column = &relation.columns[place];
    refuse_unordered(column.ty)?;
    Ok(IndexColumn { part: KeyPart::Column(place), key: key_column(column, desc, nulls_first) })
}

/// Returns the definition of an index expression; refuses types that have no order.
fn index_expression(
    relation: &Relation,
    name: &str,
    expr: &Expr,
    desc: bool,
    nulls_first: bool,
) -> Result<IndexColumn> {
    let ty = expr.ty();
    if ty.oid == oid::RECORD {
        let text = format!("column \"{name}\" has pseudo-type record");
        return Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, text));
    }
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

/// Returns an expression over a row of `relation` as the text that the catalog keeps.
fn stored_text(expr: &Expr, relation: &Relation) -> Result<Arc<str>> {
    let over_row = || SqlError::unsupported("an index expression over more than one row");
    analyze::text_over(expr, relation, 0).map(Into::into).ok_or_else(over_row)
}

/// Returns the place of an INCLUDE column, which is stored in no order.
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

/// Refuses an index with too many columns.
pub(super) fn refuse_many(columns: usize) -> Result<()> {
    if columns <= INDEX_COLUMNS_MAX {
        return Ok(());
    }
    let text = format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index");
    Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, text))
}
