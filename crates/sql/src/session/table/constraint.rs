//! CHECK, PRIMARY KEY and UNIQUE constraints, as parts of a definition under construction.

use std::sync::Arc;

use super::{
    chosen_name::unused_name,
    index::{index_column, refuse_many},
    storage_options,
};
use crate::{
    analyze::{self, deparse},
    catalog::{
        record::key_column,
        relation::{Check, Index, Relation, TableKey, distinct_names},
    },
    error::{Result, SqlError, SqlState},
    parse::ast,
    session::Session,
    types::{SqlType, oid},
};

impl Session {
    /// Adds a constraint to a definition under construction. `column` is set for a column's own constraint.
    pub(super) fn add_constraint(
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
        // The deparser asks for the name of each column that it prints, which reveals the columns that are used.
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
            // A NOT NULL column is encoded differently, so the keys of indexes over it are described again.
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

    pub(super) fn refuse_name_in_use(&self, relation: &Relation, name: &str) -> Result<()> {
        let taken = self.catalog().object_named(Some(relation.schema), &[], name).is_some()
            || *relation.name == *name
            || relation.indexes.iter().any(|index| &*index.name == name);
        if taken {
            return Err(SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
        }
        Ok(())
    }

    pub(super) fn unused_relation_name(&self, relation: &Relation, middle: Option<&str>, end: &str) -> String {
        unused_name(&relation.name, middle, end, |name| self.refuse_name_in_use(relation, name).is_err())
    }
}

/// Describes the keys again after a column's nullability changed.
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

pub(in crate::session) fn refuse_duplicate_constraint(relation: &Relation, name: &str) -> Result<()> {
    let taken = relation.foreign_keys.iter().any(|key| &*key.name == name)
        || relation.checks.iter().any(|check| &*check.name == name)
        || relation.indexes.iter().any(|index| index.constraint.is_some() && &*index.name == name);
    if taken {
        let text = format!("constraint \"{name}\" for relation \"{}\" already exists", relation.name);
        return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, text));
    }
    Ok(())
}
