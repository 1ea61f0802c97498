//! `Cf`: a column family in the caller's hand, and how one is made.

use std::fmt;
use std::sync::Arc;

use collie_base::CfId;

use crate::names::SQL_PREFIX;
use crate::{EngineError, Family};

/// Longest name of a family, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A column family: a space of keys of its own. Clones are cheap and name the same family.
///
/// A family that is dropped stays dropped: calls with its handles fail with [`EngineError::NoSuchFamily`], also when another
/// one was made under its name.
#[derive(Clone)]
pub struct Cf(Arc<Inner>);

struct Inner {
    name: String,
    group: String,
    family: Arc<Family>,
}

impl Cf {
    pub(crate) fn new(name: &str, family: Arc<Family>) -> Self {
        Self::in_group(name, "", family)
    }

    pub(crate) fn in_group(name: &str, group: &str, family: Arc<Family>) -> Self {
        Self(Arc::new(Inner { name: name.to_owned(), group: group.to_owned(), family }))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the name of the atomic group that it belongs to; empty: none.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// Returns the id, which no other family of this database ever has.
    pub fn id(&self) -> CfId {
        self.0.family.id()
    }

    /// Returns whether the family is a table or an index of SQL: it can be read here, not written.
    pub fn is_sql(&self) -> bool {
        self.name().starts_with(SQL_PREFIX)
    }

    pub(crate) fn family(&self) -> &Arc<Family> {
        &self.0.family
    }

    /// Fails when the family is not there any more. After a read, and before its answer is used.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.0.family.is_cleared() {
            return Err(EngineError::NoSuchFamily { name: self.name().to_owned() });
        }
        Ok(())
    }

    /// Fails when the family is not there any more, or not to be written here.
    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        if self.is_sql() {
            return Err(EngineError::InvalidArgument { what: "a table of SQL is read-only here: write it with SQL" });
        }
        self.check()
    }
}

impl fmt::Debug for Cf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cf").field("name", &self.name()).field("id", &self.id()).finish()
    }
}

/// How a column family is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CfOptions {
    /// The atomic group that the family belongs to, for as long as it is there: 1 to 255 bytes; empty, as by default: none.
    ///
    /// The families of a group are flushed together, to tables that they share. So after a crash they show the same of what was
    /// committed to several of them without the log (`disable_wal`), which is refused for families that are not of one group.
    /// One that is written little is flushed as often as the others, and the space of one that is dropped is free when the
    /// others' tables were rewritten. Nothing else depends on it.
    pub group: String,
}

impl CfOptions {
    /// Puts the family into the atomic group of this name: with the first, the group is there, with the last it is gone.
    pub fn group(name: &str) -> Self {
        Self { group: name.to_owned() }
    }

    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.group.len() > NAME_BYTES_MAX {
            return Err(EngineError::InvalidArgument { what: "the name of an atomic group is at most 255 bytes long" });
        }
        Ok(())
    }
}

/// Fails when a family cannot be made or dropped under this name.
pub(crate) fn check_name(name: &str) -> Result<(), EngineError> {
    let what = if name.is_empty() || name.len() > NAME_BYTES_MAX {
        "the name of a column family is 1 to 255 bytes long"
    } else if name.starts_with(SQL_PREFIX) {
        "names that begin with sql: are those of SQL's tables: make and drop them with SQL"
    } else {
        return Ok(());
    };
    Err(EngineError::InvalidArgument { what })
}
