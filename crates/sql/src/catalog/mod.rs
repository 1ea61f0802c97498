//! Definitions: tables, indexes and schemas, as rows of family 0, as an immutable snapshot per epoch, and as
//! PostgreSQL's system tables.
//!
//! `catalog` never parses SQL: defaults and CHECKs are plain text here, and `analyze` reads them.

pub(crate) mod damaged;
pub mod record;
pub mod relation;
pub mod snapshot;
pub mod store;
pub mod system;
