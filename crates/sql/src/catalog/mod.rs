//! What is defined: tables, indexes, schemas; as rows of family 0, as an immutable snapshot per epoch, and as PostgreSQL's
//! system tables.
//!
//! `catalog` never parses SQL: defaults and CHECKs are texts to it, read by `analyze`.

pub(crate) mod damaged;
pub mod record;
pub mod relation;
pub mod snapshot;
pub mod store;
pub mod system;
