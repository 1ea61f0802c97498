//! Statements that define objects: conversion from the grammar's nodes to `ast`.

use pg_query::NodeEnum;
use pg_query::protobuf as pb;

use super::{Convert, inner, missing, object_name, optional, pos, required, strings};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::ast::*;

impl Convert<'_> {
    /// Converts CREATE TABLE.
    pub(super) fn create_table(&mut self, node: pb::CreateStmt) -> Result<Stmt> {
        let pb::CreateStmt {
            relation,
            table_elts,
            inh_relations,
            partbound,
            partspec,
            of_typename,
            constraints: resolved,
            nnconstraints,
            options,
            oncommit,
            tablespacename,
            access_method,
            if_not_exists,
        } = node;
        let name = self.relation(relation)?;
        self.absent(!inh_relations.is_empty() && partbound.is_none(), "INHERITS", name.pos)?;
        self.absent(partbound.is_some(), "PARTITION OF", name.pos)?;
        self.absent(partspec.is_some(), "PARTITION BY", name.pos)?;
        self.absent(of_typename.is_some(), "CREATE TABLE ... OF", name.pos)?;
        self.absent(!resolved.is_empty() || !nnconstraints.is_empty(), "a resolved constraint", name.pos)?;
        let kept = matches!(pb::OnCommitAction::try_from(oncommit), Ok(pb::OnCommitAction::OncommitNoop));
        self.absent(!kept, "ON COMMIT", name.pos)?;
        self.absent(!tablespacename.is_empty(), "TABLESPACE", name.pos)?;
        self.absent(!access_method.is_empty(), "USING of an access method", name.pos)?;
        let (mut columns, mut constraints) = (Vec::new(), Vec::new());
        for element in table_elts {
            match inner(element)? {
                NodeEnum::ColumnDef(column) => columns.push(self.column_def(*column)?),
                NodeEnum::Constraint(constraint) => self.add_constraint(&mut constraints, &mut false, *constraint)?,
                NodeEnum::TableLikeClause(like) => {
                    let at = like.relation.map_or(Pos::NONE, |relation| pos(relation.location));
                    return Err(self.unsupported("LIKE in CREATE TABLE", at));
                }
                _ => return Err(missing()),
            }
        }
        let options = self.options(options)?;
        Ok(Stmt::CreateTable(Box::new(CreateTable { name, if_not_exists, columns, constraints, options })))
    }

    fn column_def(&mut self, node: pb::ColumnDef) -> Result<ColumnDef> {
        // Fields that only PostgreSQL's analysis and dump tools fill are checked to be empty together.
        let pb::ColumnDef {
            colname,
            type_name,
            compression,
            inhcount,
            is_local: _,
            is_not_null,
            is_from_type,
            storage: _,
            storage_name,
            raw_default,
            cooked_default,
            identity,
            identity_sequence,
            generated,
            coll_clause,
            coll_oid,
            constraints: written,
            fdwoptions,
            location,
        } = node;
        let at = pos(location);
        self.absent(!compression.is_empty(), "COMPRESSION", at)?;
        self.absent(!storage_name.is_empty(), "STORAGE", at)?;
        self.absent(!fdwoptions.is_empty(), "OPTIONS of a column", at)?;
        let resolved =
            inhcount != 0 || is_not_null || is_from_type || raw_default.is_some() || cooked_default.is_some();
        let more = identity_sequence.is_some() || coll_oid != 0 || set_char(&identity) || set_char(&generated);
        self.absent(resolved || more, "this form of a column", at)?;
        let ty = self.type_name(type_name)?;
        let collation = self.collation(coll_clause)?;
        let mut constraints = Vec::with_capacity(written.len());
        let mut fixed = false;
        for constraint in written {
            let NodeEnum::Constraint(constraint) = inner(constraint)? else { return Err(missing()) };
            self.add_constraint(&mut constraints, &mut fixed, *constraint)?;
        }
        Ok(ColumnDef { name: colname, ty, collation, constraints, pos: at })
    }

    fn collation(&self, clause: Option<Box<pb::CollateClause>>) -> Result<Option<ObjectName>> {
        let Some(clause) = clause else { return Ok(None) };
        let pb::CollateClause { arg, collname, location } = *clause;
        let at = pos(location);
        self.absent(arg.is_some(), "this form of COLLATE", at)?;
        object_name(collname, at).map(Some)
    }

    /// Converts a constraint, or applies a DEFERRABLE clause to the previous one. `fixed` tells whether that one was
    /// declared
    /// NOT DEFERRABLE.
    fn add_constraint(&mut self, list: &mut Vec<Constraint>, fixed: &mut bool, node: pb::Constraint) -> Result<()> {
        use pb::ConstrType as T;
        let kind = T::try_from(node.contype).map_err(|_| missing())?;
        let word = match kind {
            T::ConstrAttrDeferrable => "DEFERRABLE",
            T::ConstrAttrNotDeferrable => "NOT DEFERRABLE",
            T::ConstrAttrDeferred => "INITIALLY DEFERRED",
            T::ConstrAttrImmediate => "INITIALLY IMMEDIATE",
            T::ConstrAttrEnforced | T::ConstrAttrNotEnforced => {
                return Err(self.unsupported("[NOT] ENFORCED", pos(node.location)));
            }
            _ => {
                list.push(self.constraint(node)?);
                *fixed = false;
                return Ok(());
            }
        };
        let at = pos(node.location);
        let able = |kind: &ConstraintKind| {
            matches!(kind, ConstraintKind::PrimaryKey(_) | ConstraintKind::Unique(_) | ConstraintKind::ForeignKey(_))
        };
        let Some(before) = list.last_mut().filter(|before| able(&before.kind)) else {
            let message = format!("misplaced {word} clause");
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at_opt(at.get()));
        };
        match kind {
            T::ConstrAttrDeferrable => before.deferrable = true,
            T::ConstrAttrDeferred => (before.deferrable, before.initially_deferred) = (true, true),
            T::ConstrAttrNotDeferrable => *fixed = true,
            _ => {}
        }
        if *fixed && before.initially_deferred {
            let message = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at_opt(at.get()));
        }
        Ok(())
    }

    /// Converts a constraint of a column or table.
    pub(super) fn constraint(&mut self, node: pb::Constraint) -> Result<Constraint> {
        use pb::ConstrType as T;
        let pb::Constraint {
            contype,
            conname,
            deferrable,
            initdeferred,
            is_enforced,
            skip_validation,
            initially_valid: _,
            is_no_inherit,
            raw_expr,
            cooked_expr,
            generated_when,
            generated_kind,
            nulls_not_distinct,
            keys,
            without_overlaps,
            including,
            exclusions,
            options,
            indexname,
            indexspace,
            reset_default_tblspc: _,
            access_method,
            where_clause,
            pktable,
            fk_attrs,
            pk_attrs,
            fk_with_period,
            pk_with_period,
            fk_matchtype,
            fk_upd_action,
            fk_del_action,
            fk_del_set_cols,
            old_conpfeqop,
            old_pktable_oid,
            location,
        } = node;
        let at = pos(location);
        let kind = T::try_from(contype).map_err(|_| missing())?;
        let exclusion = kind == T::ConstrExclusion || !exclusions.is_empty() || where_clause.is_some();
        self.absent(exclusion || !access_method.is_empty(), "EXCLUDE", at)?;
        self.absent(is_no_inherit, "NO INHERIT", at)?;
        self.absent(without_overlaps, "WITHOUT OVERLAPS", at)?;
        self.absent(fk_with_period || pk_with_period, "PERIOD", at)?;
        self.absent(!indexspace.is_empty(), "USING INDEX TABLESPACE", at)?;
        let resolved = !cooked_expr.is_empty() || !old_conpfeqop.is_empty() || old_pktable_oid != 0;
        self.absent(resolved, "a resolved constraint", at)?;
        let enforceable = matches!(kind, T::ConstrCheck | T::ConstrForeign);
        self.absent(enforceable && !is_enforced, "NOT ENFORCED", at)?;
        let key = |options| -> Result<KeyConstraint> {
            Ok(KeyConstraint {
                columns: strings(keys.clone())?,
                include: strings(including)?,
                nulls_not_distinct,
                options,
                using_index: optional(indexname),
            })
        };
        let kind = match kind {
            T::ConstrNull => ConstraintKind::Null,
            T::ConstrNotnull => {
                self.absent(!keys.is_empty(), "NOT NULL as a constraint of the table", at)?;
                ConstraintKind::NotNull
            }
            T::ConstrDefault => ConstraintKind::Default(self.expr(required(raw_expr)?)?),
            T::ConstrCheck => ConstraintKind::Check(self.expr(required(raw_expr)?)?),
            T::ConstrPrimary => ConstraintKind::PrimaryKey(key(self.options(options)?)?),
            T::ConstrUnique => ConstraintKind::Unique(key(self.options(options)?)?),
            T::ConstrIdentity => {
                ConstraintKind::Identity { always: generated_when == "a", options: self.sequence_options(options, at)? }
            }
            T::ConstrGenerated => {
                self.absent(generated_kind == "v", "a virtual generated column", at)?;
                ConstraintKind::Generated(self.expr(required(raw_expr)?)?)
            }
            T::ConstrForeign => ConstraintKind::ForeignKey(Box::new(ForeignKey {
                columns: strings(fk_attrs)?,
                table: self.relation(pktable)?,
                referenced: strings(pk_attrs)?,
                match_full: fk_matchtype == "f",
                on_update: action(&fk_upd_action),
                on_delete: action(&fk_del_action),
                on_delete_columns: strings(fk_del_set_cols)?,
            })),
            _ => return Err(self.unsupported("this constraint", at)),
        };
        Ok(Constraint {
            name: optional(conname),
            kind,
            deferrable: deferrable || initdeferred,
            initially_deferred: initdeferred,
            not_valid: skip_validation,
            pos: at,
        })
    }

    fn sequence_options(&self, options: Vec<pb::Node>, at: Pos) -> Result<Vec<NamedOption>> {
        let options = self.options(options)?;
        let owned = options.iter().any(|option| matches!(option.name.as_str(), "as" | "owned_by" | "sequence_name"));
        self.absent(owned, "AS, OWNED BY or SEQUENCE NAME of an identity column", at)?;
        Ok(options)
    }

    /// Converts CREATE INDEX.
    pub(super) fn create_index(&mut self, node: pb::IndexStmt) -> Result<Stmt> {
        let pb::IndexStmt {
            idxname,
            relation,
            access_method,
            table_space,
            index_params,
            index_including_params,
            options,
            where_clause,
            exclude_op_names,
            idxcomment,
            index_oid,
            old_number,
            old_create_subid,
            old_first_relfilelocator_subid,
            unique,
            nulls_not_distinct,
            primary,
            isconstraint,
            iswithoutoverlaps,
            deferrable,
            initdeferred,
            transformed,
            concurrent,
            if_not_exists,
            reset_default_tblspc: _,
        } = node;
        let table = self.plain_table(relation)?;
        self.absent(!table_space.is_empty(), "TABLESPACE", table.name.pos)?;
        let ids = index_oid != 0 || old_number != 0 || old_create_subid != 0 || old_first_relfilelocator_subid != 0;
        let lists = !exclude_op_names.is_empty() || !idxcomment.is_empty();
        let flags = primary || isconstraint || iswithoutoverlaps || deferrable || initdeferred || transformed;
        self.absent(ids || lists || flags, "this form of CREATE INDEX", table.name.pos)?;
        Ok(Stmt::CreateIndex(Box::new(CreateIndex {
            name: optional(idxname),
            table,
            unique,
            if_not_exists,
            concurrently: concurrent,
            method: optional(access_method).unwrap_or_else(|| "btree".into()),
            elements: self.index_elements(index_params)?,
            include: self.index_elements(index_including_params)?,
            nulls_not_distinct,
            options: self.options(options)?,
            filter: self.optional_expr(where_clause)?,
        })))
    }

    /// Returns the kind of object if the tree can name it.
    fn object_kind(&self, kind: i32) -> Option<ObjectKind> {
        match pb::ObjectType::try_from(kind) {
            Ok(pb::ObjectType::ObjectTable) => Some(ObjectKind::Table),
            Ok(pb::ObjectType::ObjectIndex) => Some(ObjectKind::Index),
            Ok(pb::ObjectType::ObjectSchema) => Some(ObjectKind::Schema),
            Ok(pb::ObjectType::ObjectView) => Some(ObjectKind::View),
            Ok(pb::ObjectType::ObjectSequence) => Some(ObjectKind::Sequence),
            _ => None,
        }
    }

    /// Converts DROP.
    pub(super) fn drop_objects(&mut self, node: pb::DropStmt) -> Result<Stmt> {
        let pb::DropStmt { objects, remove_type, behavior, missing_ok, concurrent } = node;
        let Some(kind) = self.object_kind(remove_type) else {
            return Err(self.unsupported(self.statement_name(), self.start));
        };
        let names = objects.into_iter().map(|object| match inner(object)? {
            NodeEnum::List(pb::List { items }) => object_name(items, Pos::NONE),
            NodeEnum::String(pb::String { sval }) => Ok(ObjectName { parts: vec![sval], pos: Pos::NONE }),
            _ => Err(missing()),
        });
        let names = names.collect::<Result<_>>()?;
        let behavior = self.behavior(behavior);
        Ok(Stmt::Drop(DropObjects { kind, names, if_exists: missing_ok, behavior, concurrently: concurrent }))
    }

    /// Converts ALTER TABLE.
    pub(super) fn alter_table(&mut self, node: pb::AlterTableStmt) -> Result<Stmt> {
        let pb::AlterTableStmt { relation, cmds, objtype, missing_ok } = node;
        let kind = self.object_kind(objtype).filter(|kind| matches!(kind, ObjectKind::Table | ObjectKind::Index));
        let Some(kind) = kind else { return Err(self.unsupported(self.statement_name(), self.start)) };
        let table = self.plain_table(relation)?;
        let commands = cmds.into_iter().map(|node| self.alter_command(node)).collect::<Result<_>>()?;
        Ok(Stmt::AlterTable(Box::new(AlterTable { kind, table, if_exists: missing_ok, commands })))
    }

    fn alter_command(&mut self, node: pb::Node) -> Result<AlterCommand> {
        use pb::AlterTableType as T;
        let NodeEnum::AlterTableCmd(command) = inner(node)? else { return Err(missing()) };
        let pb::AlterTableCmd { subtype, name, num, newowner, def, behavior, missing_ok, recurse } = *command;
        self.absent(num != 0, "a column by number", Pos::NONE)?;
        self.absent(newowner.is_some(), "OWNER TO", Pos::NONE)?;
        self.absent(recurse, "this form of ALTER TABLE", Pos::NONE)?;
        let behavior = self.behavior(behavior);
        let kind = T::try_from(subtype).map_err(|_| missing())?;
        Ok(match (kind, def) {
            (T::AtAddColumn, Some(def)) => {
                let NodeEnum::ColumnDef(column) = inner(*def)? else { return Err(missing()) };
                AlterCommand::AddColumn { column: self.column_def(*column)?, if_not_exists: missing_ok }
            }
            (T::AtDropColumn, None) => AlterCommand::DropColumn { column: name, if_exists: missing_ok, behavior },
            (T::AtColumnDefault, Some(value)) => AlterCommand::SetDefault { column: name, value: self.expr(*value)? },
            (T::AtColumnDefault, None) => AlterCommand::DropDefault { column: name },
            (T::AtSetNotNull, None) => AlterCommand::SetNotNull { column: name },
            (T::AtDropNotNull, None) => AlterCommand::DropNotNull { column: name },
            (T::AtAlterColumnType, Some(def)) => self.set_type(name, *def)?,
            (T::AtAddConstraint, Some(def)) => {
                let NodeEnum::Constraint(constraint) = inner(*def)? else { return Err(missing()) };
                AlterCommand::AddConstraint(self.constraint(*constraint)?)
            }
            (T::AtDropConstraint, None) => AlterCommand::DropConstraint { name, if_exists: missing_ok, behavior },
            (T::AtValidateConstraint, None) => AlterCommand::ValidateConstraint { name },
            (T::AtSetRelOptions, Some(def)) => AlterCommand::SetOptions(self.option_list(*def)?),
            (T::AtResetRelOptions, Some(def)) => AlterCommand::ResetOptions(self.option_list(*def)?),
            (other, _) => {
                // The grammar names a command like `AT_ClusterOn`.
                let mut words = String::from("ALTER TABLE command");
                for letter in other.as_str_name().trim_start_matches("AT_").chars() {
                    if letter.is_ascii_uppercase() {
                        words.push(' ');
                    }
                    words.push(letter.to_ascii_uppercase());
                }
                return Err(self.unsupported(words, Pos::NONE));
            }
        })
    }

    fn option_list(&mut self, node: pb::Node) -> Result<Vec<NamedOption>> {
        let NodeEnum::List(pb::List { items }) = inner(node)? else { return Err(missing()) };
        self.options(items)
    }

    fn set_type(&mut self, column: String, def: pb::Node) -> Result<AlterCommand> {
        let NodeEnum::ColumnDef(def) = inner(def)? else { return Err(missing()) };
        let pb::ColumnDef {
            colname: _,
            type_name,
            compression: _,
            inhcount: _,
            is_local: _,
            is_not_null: _,
            is_from_type: _,
            storage: _,
            storage_name: _,
            raw_default,
            cooked_default: _,
            identity: _,
            identity_sequence: _,
            generated: _,
            coll_clause,
            coll_oid: _,
            constraints,
            fdwoptions,
            location,
        } = *def;
        let at = pos(location);
        self.absent(!constraints.is_empty() || !fdwoptions.is_empty(), "this form of ALTER COLUMN TYPE", at)?;
        let ty = self.type_name(type_name)?;
        let collation = self.collation(coll_clause)?;
        Ok(AlterCommand::SetType { column, ty, collation, using: self.optional_expr(raw_default)?, pos: at })
    }

    /// Converts ALTER ... RENAME.
    pub(super) fn rename(&mut self, node: pb::RenameStmt) -> Result<Stmt> {
        use pb::ObjectType as T;
        let pb::RenameStmt { rename_type, relation_type, relation, object, subname, newname, behavior, missing_ok } =
            node;
        let cascade = self.behavior(behavior) == Behavior::Cascade;
        self.absent(object.is_some() || cascade, &self.statement_name(), self.start)?;
        let what = match T::try_from(rename_type).map_err(|_| missing())? {
            T::ObjectColumn => {
                let known = self.object_kind(relation_type);
                self.absent(known.is_none(), &self.statement_name(), self.start)?;
                RenameTarget::Column { table: self.plain_table(relation)?.name, column: subname }
            }
            T::ObjectTabconstraint => {
                RenameTarget::Constraint { table: self.plain_table(relation)?.name, constraint: subname }
            }
            T::ObjectSchema => RenameTarget::Schema(subname),
            T::ObjectTable | T::ObjectIndex | T::ObjectView | T::ObjectSequence => {
                let kind = self.object_kind(rename_type).ok_or_else(missing)?;
                RenameTarget::Relation { kind, name: self.plain_table(relation)?.name }
            }
            _ => return Err(self.unsupported(self.statement_name(), self.start)),
        };
        Ok(Stmt::Rename(Rename { what, to: newname, if_exists: missing_ok }))
    }

    /// Converts ALTER ... SET SCHEMA.
    pub(super) fn set_schema(&mut self, node: pb::AlterObjectSchemaStmt) -> Result<Stmt> {
        let pb::AlterObjectSchemaStmt { object_type, relation, object, newschema, missing_ok } = node;
        self.absent(object.is_some(), &self.statement_name(), self.start)?;
        let Some(kind) = self.object_kind(object_type) else {
            return Err(self.unsupported(self.statement_name(), self.start));
        };
        let name = self.plain_table(relation)?.name;
        Ok(Stmt::SetSchema(SetSchema { kind, name, schema: newschema, if_exists: missing_ok }))
    }

    /// Converts CREATE SCHEMA.
    pub(super) fn create_schema(&mut self, node: pb::CreateSchemaStmt) -> Result<Stmt> {
        let pb::CreateSchemaStmt { schemaname, authrole, schema_elts, if_not_exists } = node;
        self.absent(!schema_elts.is_empty(), "an object inside CREATE SCHEMA", self.start)?;
        let owner = authrole.map(|role| self.role(role)).transpose()?;
        Ok(Stmt::CreateSchema(CreateSchema { name: optional(schemaname), owner, if_not_exists }))
    }

    fn role(&self, role: pb::RoleSpec) -> Result<String> {
        let pb::RoleSpec { roletype, rolename, location } = role;
        let named = matches!(pb::RoleSpecType::try_from(roletype), Ok(pb::RoleSpecType::RolespecCstring));
        self.absent(!named, "a role that is not given by name", pos(location))?;
        Ok(rolename)
    }

    /// Converts TRUNCATE.
    pub(super) fn truncate(&mut self, node: pb::TruncateStmt) -> Result<Stmt> {
        let pb::TruncateStmt { relations, restart_seqs, behavior } = node;
        let tables = self.plain_tables(relations)?;
        Ok(Stmt::Truncate(Truncate { tables, restart_identity: restart_seqs, behavior: self.behavior(behavior) }))
    }

    /// Converts a list of tables without aliases.
    pub(super) fn plain_tables(&self, nodes: Vec<pb::Node>) -> Result<Vec<TableName>> {
        nodes
            .into_iter()
            .map(|node| match inner(node)? {
                NodeEnum::RangeVar(relation) => self.plain_table(Some(relation)),
                _ => Err(missing()),
            })
            .collect()
    }
}

/// Returns whether a one-character field of the grammar is set.
fn set_char(field: &str) -> bool {
    !matches!(field, "" | "\0")
}

/// Returns the action of the grammar's letter.
fn action(letter: &str) -> ReferentialAction {
    match letter {
        "r" => ReferentialAction::Restrict,
        "c" => ReferentialAction::Cascade,
        "n" => ReferentialAction::SetNull,
        "d" => ReferentialAction::SetDefault,
        _ => ReferentialAction::NoAction,
    }
}
