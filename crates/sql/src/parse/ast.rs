//! The tree of a parsed statement: the content of the text, before any name in it is looked up.
//!
//! It is not the grammar's own tree, which stays inside `parse`, and nothing is resolved: a name may denote nothing, a
//! type
//! may not exist, a `*` is not expanded. Identifiers are already folded and truncated as in PostgreSQL.
//!
//! # Invariants
//! - A1. Every node to which an error can point has a `pos`, a byte offset into the whole text given to `statements`.
//! - A2. A tree is at most 1,000 levels deep, and an AND or OR list has at most 65,536 terms, so that a recursion over
//!   it
//!   has a bound before it starts.
//! - A3. Nothing of the text is missing from the tree: a clause without a place here is refused.
//!
//! Checked by `parse/tests`.

mod ddl;
mod expr;
mod query;
mod utility;

pub use ddl::*;
pub use expr::*;
pub use query::*;
pub use utility::*;

/// The position of a node: a byte offset into the text of the whole query string, or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pos(u32);

impl Pos {
    /// The unknown position.
    pub const NONE: Self = Self(u32::MAX);

    /// Returns the position of byte `offset`.
    pub const fn new(offset: u32) -> Self {
        Self(offset)
    }

    /// Returns the byte offset if it is known. Fits `SqlError::at_opt`.
    pub const fn get(self) -> Option<u32> {
        if self.0 == u32::MAX { None } else { Some(self.0) }
    }

    /// Returns the position further left; a known position wins over an unknown one.
    #[must_use]
    pub fn leftmost(self, other: Self) -> Self {
        // Unknown is the largest value, so the minimum is right in each case.
        Self(self.0.min(other.0))
    }

    /// Returns this position, or `other` if this one is unknown.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        if self == Self::NONE { other } else { self }
    }
}

impl std::fmt::Debug for Pos {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.get() {
            Some(offset) => write!(f, "@{offset}"),
            None => f.write_str("@-"),
        }
    }
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// SELECT, VALUES, TABLE and their set operations.
    Select(Box<Select>),
    /// INSERT.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// CREATE INDEX.
    CreateIndex(Box<CreateIndex>),
    /// CREATE SCHEMA.
    CreateSchema(CreateSchema),
    /// DROP TABLE, INDEX, SCHEMA, VIEW or SEQUENCE.
    Drop(DropObjects),
    /// ALTER TABLE or INDEX, other than renaming and moving.
    AlterTable(Box<AlterTable>),
    /// ALTER ... RENAME.
    Rename(Rename),
    /// ALTER ... SET SCHEMA.
    SetSchema(SetSchema),
    /// TRUNCATE.
    Truncate(Truncate),
    /// COPY.
    Copy(Box<Copy>),
    /// BEGIN, COMMIT, SAVEPOINT and similar commands.
    Transaction(Transaction),
    /// SET and SET ... TO DEFAULT.
    Set(Set),
    /// SET TRANSACTION and SET SESSION CHARACTERISTICS.
    SetTransaction(SetTransaction),
    /// SET CONSTRAINTS.
    SetConstraints(SetConstraints),
    /// RESET name; `None` is RESET ALL.
    Reset(Option<String>),
    /// SHOW name; the name of SHOW ALL is `all`.
    Show(String),
    /// VACUUM and ANALYZE.
    Vacuum(Vacuum),
    /// EXPLAIN.
    Explain(Explain),
    /// PREPARE.
    Prepare(Prepare),
    /// EXECUTE.
    Execute(Execute),
    /// DEALLOCATE name; `None` is DEALLOCATE ALL.
    Deallocate(Option<String>),
    /// DECLARE CURSOR.
    DeclareCursor(Box<DeclareCursor>),
    /// FETCH and MOVE.
    Fetch(Fetch),
    /// CLOSE cursor; `None` is CLOSE ALL.
    Close(Option<String>),
    /// DISCARD.
    Discard(Discard),
    /// CHECKPOINT.
    Checkpoint,
    /// CALL collie_checkpoint(...).
    CopyDatabase(CopyDatabase),
    /// CALL collie_set_option(...).
    SetOption(SetOption),
    /// LOCK TABLE.
    Lock(Lock),
}

/// A dotted name, unresolved: of a type, function, operator, collation or relation.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectName {
    /// The parts, outermost first; at least one.
    pub parts: Vec<String>,
    /// Where it starts.
    pub pos: Pos,
}

impl ObjectName {
    /// Returns the last part, the object's own name.
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    /// Returns the part before the last, the schema, if the text names one.
    pub fn schema(&self) -> Option<&str> {
        self.parts.len().checked_sub(2).and_then(|at| self.parts.get(at)).map(String::as_str)
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.parts.join("."))
    }
}

/// The name of a table, index or other relation.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationName {
    /// The database, if the text names it; it can only be the connected one.
    pub catalog: Option<String>,
    /// The schema, if the text names it.
    pub schema: Option<String>,
    /// The relation's own name.
    pub name: String,
    /// Where the name starts.
    pub pos: Pos,
}

impl std::fmt::Display for RelationName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for part in [&self.catalog, &self.schema].into_iter().flatten() {
            write!(f, "{part}.")?;
        }
        f.write_str(&self.name)
    }
}

/// A relation that is used as a table, with or without its children.
#[derive(Clone, Debug, PartialEq)]
pub struct TableName {
    /// The name.
    pub name: RelationName,
    /// ONLY. It changes nothing, because there is no inheritance.
    pub only: bool,
}

/// The name of a type as written, with its modifiers: `numeric(10, 2)`, `pg_catalog.int4[]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// The name; the grammar's own type keywords arrive as `pg_catalog.x` (`int` is `pg_catalog.int4`).
    pub name: ObjectName,
    /// Modifiers, as expressions; mostly integer constants. For an interval: the field mask, then the precision.
    pub modifiers: Vec<Expr>,
    /// One entry per `[]`, with the bound if one is written (it has no effect).
    pub array_bounds: Vec<Option<i32>>,
    /// Where it starts.
    pub pos: Pos,
}

/// A named option with an optional value, as in EXPLAIN, COPY, VACUUM and WITH.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedOption {
    /// The name before the dot, as in `toast.autovacuum_enabled`.
    pub namespace: Option<String>,
    /// The option's name.
    pub name: String,
    /// Its value; an absent value means true for boolean options.
    pub value: Option<OptionValue>,
    /// Where it starts.
    pub pos: Pos,
}

/// The value of a named option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// A word or a string.
    Text(String),
    /// An integer that fits 32 bits.
    Integer(i32),
    /// Any other number, as written.
    Number(String),
    /// TRUE or FALSE where the grammar reads them as boolean values.
    Bool(bool),
    /// `*`.
    Star,
    /// A list of names.
    List(Vec<String>),
}

/// The treatment of dependent objects by DROP, TRUNCATE and similar statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// Refuse; the default.
    Restrict,
    /// Include them.
    Cascade,
}
