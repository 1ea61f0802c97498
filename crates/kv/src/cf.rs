//! `Cf`: a handle of a column family, and the options to create one.

use std::fmt;
use std::sync::Arc;

use collie_base::CfId;
use collie_engine::{EngineError, Family, NamedFamily, is_sql_name};

use crate::Error;

/// A column family: a separate key space. Clones are cheap and refer to the same family.
///
/// A dropped family stays dropped: calls with its handles fail with `NotFound`, even if another family was created
/// under its name.
#[derive(Clone)]
pub struct Cf(Arc<NamedFamily>);

impl Cf {
    pub(crate) fn new(named: NamedFamily) -> Self {
        Self(Arc::new(named))
    }

    pub(crate) fn named(&self) -> &NamedFamily {
        &self.0
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
        is_sql_name(self.name())
    }

    pub(crate) fn family(&self) -> &Family {
        &self.0.family
    }

    /// Fails if the family was dropped. Callers check this after a read, before they use its result.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.0.family.is_cleared() {
            return Err(EngineError::NoSuchFamily { name: self.name().to_owned() }.into());
        }
        Ok(())
    }

    /// Fails if the family was dropped, or is read-only in this API.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.is_sql() {
            return Err(Error::invalid("a table of SQL is read-only here: write it with SQL"));
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
    pub(crate) group: String,
}

impl CfOptions {
    /// Returns the default options: no atomic group.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts the family into the atomic group `name`, for ever: 1 to 255 bytes; empty for none. A group exists from its
    /// first family to its last. Default: none.
    ///
    /// The families of a group are flushed together, to tables that they share. So after a crash they all show the same
    /// prefix of the commits with [`Durability::Unlogged`](crate::Durability::Unlogged) to several of them; such
    /// commits are refused for families that are not of one group. A family with few writes is flushed as often as the
    /// others, and the space of a dropped one is free only once the shared tables were rewritten. The group has no
    /// other effect.
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = name.into();
        self
    }
}
