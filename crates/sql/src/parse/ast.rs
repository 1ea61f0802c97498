//! The tree of a parsed statement: what the text says, before any name in it is looked up.
//!
//! Not the grammar's own tree (that stays inside `parse`), and nothing is resolved: a name may mean nothing, a type may
//! not exist, a `*` is not expanded. Identifiers are already folded and cut as PostgreSQL does it.
//!
//! # Invariants
//! - A1. Every node that an error can blame has a `pos`, a byte offset into the whole text given to `statements`.
//! - A2. A tree is at most 1,000 levels deep and an AND or OR list has at most 65,536 terms, so that walking it by
//!   recursion has a bound before it starts.
//! - A3. Nothing of the text is missing from the tree: a clause without a place here was refused.
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

/// Where a node stands: a byte offset into the text of the whole query string, or unknown.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pos(u32);

impl Pos {
    /// The unknown position.
    pub const NONE: Self = Self(u32::MAX);

    /// Makes the position of byte `offset`.
    pub const fn new(offset: u32) -> Self {
        Self(offset)
    }

    /// Returns the byte offset when it is known. Fits `SqlError::at_opt`.
    pub const fn get(self) -> Option<u32> {
        if self.0 == u32::MAX { None } else { Some(self.0) }
    }

    /// Returns the one further left; an unknown one loses.
    #[must_use]
    pub fn leftmost(self, other: Self) -> Self {
        // Unknown is the largest value, so the smaller one is the answer in each case.
        Self(self.0.min(other.0))
    }

    /// Returns this position, or `other` when this one is unknown.
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
    /// BEGIN, COMMIT, SAVEPOINT and kin.
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

/// A dotted name without its meaning: of a type, function, operator, collation or relation.
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

/// Name of a table, index or other relation.
#[derive(Clone, Debug, PartialEq)]
pub struct RelationName {
    /// The database, when the text names it; it can only be the one connected to.
    pub catalog: Option<String>,
    /// The schema, when the text names it.
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

/// A relation used as a table, with or without its children.
#[derive(Clone, Debug, PartialEq)]
pub struct TableName {
    /// The name.
    pub name: RelationName,
    /// ONLY. There is no inheritance, so it changes nothing.
    pub only: bool,
}

/// Name of a type as written, with its modifiers: `numeric(10, 2)`, `pg_catalog.int4[]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeName {
    /// The name; the grammar's own type words arrive as `pg_catalog.x` (`int` is `pg_catalog.int4`).
    pub name: ObjectName,
    /// Modifiers, as expressions; mostly integer constants. For interval: field mask, then precision.
    pub modifiers: Vec<Expr>,
    /// One entry per `[]`, with the bound when one is written (it has no effect).
    pub array_bounds: Vec<Option<i32>>,
    /// Where it starts.
    pub pos: Pos,
}

/// A named option with an optional value, as EXPLAIN, COPY, VACUUM and WITH take them.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedOption {
    /// The name before the dot, as in `toast.autovacuum_enabled`.
    pub namespace: Option<String>,
    /// The option's name.
    pub name: String,
    /// Its value; an absent value means true for options that are switches.
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
    /// TRUE or FALSE where the grammar reads them as such.
    Bool(bool),
    /// `*`.
    Star,
    /// A list of names.
    List(Vec<String>),
}

/// What DROP, TRUNCATE and kin do about objects that depend on the one named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behavior {
    /// Refuse; the default.
    Restrict,
    /// Include them.
    Cascade,
}
