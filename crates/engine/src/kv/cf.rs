//! `Cf`: a handle of a column family, and the options to create one.

use std::fmt;
use std::sync::Arc;

use collie_base::CfId;

use crate::families::names::SQL_PREFIX;
use crate::{EngineError, Family};

/// Maximum length of a family's name in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A column family: a separate key space. Clones are cheap and refer to the same family.
///
/// A dropped family stays dropped: calls with its handles fail with [`EngineError::NoSuchFamily`], even if another
/// family was created under its name.
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

    /// Returns the name of the family's atomic group; empty if it has none.
    pub fn group(&self) -> &str {
        &self.0.group
    }

    /// Returns the id, which no other family of this database ever has.
    pub fn id(&self) -> CfId {
        self.0.family.id()
    }

    /// Returns whether the family is a table or an index of SQL, which is read-only in this API.
    pub fn is_sql(&self) -> bool {
        self.name().starts_with(SQL_PREFIX)
    }

    pub(crate) fn family(&self) -> &Arc<Family> {
        &self.0.family
    }

    /// Fails if the family was dropped. Callers check this after a read, before they use its result.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        if self.0.family.is_cleared() {
            return Err(EngineError::NoSuchFamily { name: self.name().to_owned() });
        }
        Ok(())
    }

    /// Fails if the family was dropped, or is read-only in this API.
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

/// How a column family is created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CfOptions {
    /// The name of the family's atomic group, which never changes: 1 to 255 bytes; empty for none. Default empty.
    ///
    /// The families of a group are flushed together, to tables that they share. So after a crash they all show the same
    /// prefix of the unlogged commits (`disable_wal`) to several of them; such commits are refused for families that
    /// are not of one group. A family with few writes is flushed as often as the others, and the space of a dropped one
    /// is free only once the shared tables were rewritten. The group has no other effect.
    pub group: String,
}

impl CfOptions {
    /// Returns options with the atomic group `name`. A group exists from its first family to its last.
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

/// Fails if no family can be created or dropped under this name.
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
