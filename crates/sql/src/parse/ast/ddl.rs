//! Statements that define objects, and TRUNCATE, which names whole tables.
//!
//! Temporary and unlogged tables, LIKE, inheritance, partitions and tablespaces have no place here: they are refused
//! with
//! 0A000.

use super::{Behavior, Expr, NamedOption, ObjectName, Pos, RelationName, TableName, TypeName};

/// CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub name: RelationName,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Columns, in order; there may be none.
    pub columns: Vec<ColumnDef>,
    /// Constraints of the table, in order.
    pub constraints: Vec<Constraint>,
    /// WITH (...).
    pub options: Vec<NamedOption>,
}

/// A column's definition.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: TypeName,
    /// COLLATE.
    pub collation: Option<ObjectName>,
    /// Constraints, in order, DEFAULT and NOT NULL among them.
    pub constraints: Vec<Constraint>,
    /// Where it starts.
    pub pos: Pos,
}

/// A constraint of a column or table.
#[derive(Clone, Debug, PartialEq)]
pub struct Constraint {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// The condition it imposes.
    pub kind: ConstraintKind,
    /// DEFERRABLE.
    pub deferrable: bool,
    /// INITIALLY DEFERRED.
    pub initially_deferred: bool,
    /// NOT VALID: existing rows are not checked.
    pub not_valid: bool,
    /// Where it starts.
    pub pos: Pos,
}

/// The condition of a constraint. The column lists of a column's own constraint are empty.
#[derive(Clone, Debug, PartialEq)]
pub enum ConstraintKind {
    /// NULL: only documents that NULL is allowed.
    Null,
    /// NOT NULL.
    NotNull,
    /// DEFAULT.
    Default(Expr),
    /// CHECK.
    Check(Expr),
    /// PRIMARY KEY.
    PrimaryKey(KeyConstraint),
    /// UNIQUE.
    Unique(KeyConstraint),
    /// REFERENCES, FOREIGN KEY.
    ForeignKey(Box<ForeignKey>),
    /// GENERATED ... AS IDENTITY; `always` or BY DEFAULT.
    Identity {
        /// ALWAYS.
        always: bool,
        /// The sequence's options.
        options: Vec<NamedOption>,
    },
    /// GENERATED ALWAYS AS (...) STORED.
    Generated(Expr),
}

/// The columns and storage of PRIMARY KEY and UNIQUE.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyConstraint {
    /// The columns.
    pub columns: Vec<String>,
    /// INCLUDE.
    pub include: Vec<String>,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
    /// WITH (...).
    pub options: Vec<NamedOption>,
    /// USING INDEX name: the constraint takes over the index.
    pub using_index: Option<String>,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq)]
pub struct ForeignKey {
    /// The referencing columns.
    pub columns: Vec<String>,
    /// The referenced table.
    pub table: RelationName,
    /// The referenced columns; empty means its primary key.
    pub referenced: Vec<String>,
    /// MATCH FULL; otherwise SIMPLE.
    pub match_full: bool,
    /// ON UPDATE.
    pub on_update: ReferentialAction,
    /// ON DELETE.
    pub on_delete: ReferentialAction,
    /// The columns that ON DELETE SET NULL or SET DEFAULT sets; empty means all.
    pub on_delete_columns: Vec<String>,
}

/// The action of a foreign key when its parent row changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReferentialAction {
    /// NO ACTION: refuse at the end of the statement; the default.
    NoAction,
    /// RESTRICT: refuse at once.
    Restrict,
    /// CASCADE.
    Cascade,
    /// SET NULL.
    SetNull,
    /// SET DEFAULT.
    SetDefault,
}

/// CREATE INDEX.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// Its name; generated if absent.
    pub name: Option<String>,
    /// The table.
    pub table: TableName,
    /// UNIQUE.
    pub unique: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// CONCURRENTLY.
    pub concurrently: bool,
    /// USING; `btree` if not written.
    pub method: String,
    /// Its key; at least one.
    pub elements: Vec<IndexElement>,
    /// INCLUDE.
    pub include: Vec<IndexElement>,
    /// NULLS NOT DISTINCT.
    pub nulls_not_distinct: bool,
    /// WITH (...).
    pub options: Vec<NamedOption>,
    /// WHERE.
    pub filter: Option<Expr>,
}

/// One element of an index's key.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexElement {
    /// The indexed column or expression.
    pub key: IndexKey,
    /// COLLATE.
    pub collation: Option<ObjectName>,
    /// The operator class.
    pub operator_class: Option<ObjectName>,
    /// DESC; `None` if neither ASC nor DESC is written.
    pub descending: Option<bool>,
    /// NULLS FIRST or LAST; `None` is the direction's default.
    pub nulls_first: Option<bool>,
}

/// The content of an element of an index.
#[derive(Clone, Debug, PartialEq)]
pub enum IndexKey {
    /// A column.
    Column(String),
    /// An expression.
    Expression(Expr),
}

/// DROP.
#[derive(Clone, Debug, PartialEq)]
pub struct DropObjects {
    /// The kind of object.
    pub kind: ObjectKind,
    /// The names; at least one.
    pub names: Vec<ObjectName>,
    /// IF EXISTS.
    pub if_exists: bool,
    /// CASCADE or RESTRICT.
    pub behavior: Behavior,
    /// DROP INDEX CONCURRENTLY.
    pub concurrently: bool,
}

/// Kinds of objects that statements name by a keyword.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// TABLE.
    Table,
    /// INDEX.
    Index,
    /// SCHEMA.
    Schema,
    /// VIEW.
    View,
    /// SEQUENCE.
    Sequence,
}

/// ALTER TABLE or ALTER INDEX with a list of commands.
#[derive(Clone, Debug, PartialEq)]
pub struct AlterTable {
    /// Table or index.
    pub kind: ObjectKind,
    /// Its name.
    pub table: TableName,
    /// IF EXISTS.
    pub if_exists: bool,
    /// The commands, in order; at least one.
    pub commands: Vec<AlterCommand>,
}

/// One command of ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum AlterCommand {
    /// ADD COLUMN.
    AddColumn {
        /// The column.
        column: ColumnDef,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP COLUMN.
    DropColumn {
        /// The name of the column.
        column: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE or RESTRICT.
        behavior: Behavior,
    },
    /// ALTER COLUMN ... SET DEFAULT.
    SetDefault {
        /// The name of the column.
        column: String,
        /// The value.
        value: Expr,
    },
    /// ALTER COLUMN ... DROP DEFAULT.
    DropDefault {
        /// The name of the column.
        column: String,
    },
    /// ALTER COLUMN ... SET NOT NULL.
    SetNotNull {
        /// The name of the column.
        column: String,
    },
    /// ALTER COLUMN ... DROP NOT NULL.
    DropNotNull {
        /// The name of the column.
        column: String,
    },
    /// ALTER COLUMN ... TYPE.
    SetType {
        /// The name of the column.
        column: String,
        /// The new type.
        ty: TypeName,
        /// COLLATE.
        collation: Option<ObjectName>,
        /// USING.
        using: Option<Expr>,
        /// The position of the clause.
        pos: Pos,
    },
    /// ADD CONSTRAINT.
    AddConstraint(Constraint),
    /// DROP CONSTRAINT.
    DropConstraint {
        /// The name of the constraint.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
        /// CASCADE or RESTRICT.
        behavior: Behavior,
    },
    /// VALIDATE CONSTRAINT.
    ValidateConstraint {
        /// The name of the constraint.
        name: String,
    },
    /// SET (...).
    SetOptions(Vec<NamedOption>),
    /// RESET (...).
    ResetOptions(Vec<NamedOption>),
}

/// ALTER ... RENAME.
#[derive(Clone, Debug, PartialEq)]
pub struct Rename {
    /// The renamed object.
    pub what: RenameTarget,
    /// Its new name.
    pub to: String,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// The object that is renamed.
#[derive(Clone, Debug, PartialEq)]
pub enum RenameTarget {
    /// A relation.
    Relation {
        /// The kind that the statement names.
        kind: ObjectKind,
        /// The name of the relation.
        name: RelationName,
    },
    /// A column of a table or view.
    Column {
        /// The table.
        table: RelationName,
        /// The column.
        column: String,
    },
    /// A constraint of a table.
    Constraint {
        /// The table.
        table: RelationName,
        /// The constraint.
        constraint: String,
    },
    /// A schema.
    Schema(String),
}

/// ALTER ... SET SCHEMA.
#[derive(Clone, Debug, PartialEq)]
pub struct SetSchema {
    /// The kind that the statement names.
    pub kind: ObjectKind,
    /// The relation.
    pub name: RelationName,
    /// The new schema.
    pub schema: String,
    /// IF EXISTS.
    pub if_exists: bool,
}

/// CREATE SCHEMA.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateSchema {
    /// Its name; if absent, the name of the role.
    pub name: Option<String>,
    /// AUTHORIZATION role.
    pub owner: Option<String>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
}

/// TRUNCATE.
#[derive(Clone, Debug, PartialEq)]
pub struct Truncate {
    /// The tables; at least one.
    pub tables: Vec<TableName>,
    /// RESTART IDENTITY.
    pub restart_identity: bool,
    /// CASCADE or RESTRICT.
    pub behavior: Behavior,
}
