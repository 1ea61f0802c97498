//! SQL for Collie, as PostgreSQL 15 speaks it: types, catalog, parser, analyzer, planner, executor, sessions.
//!
//! The crate knows the engine, but nothing of sockets, tokio or protocol bytes: a server or a shell drives a
//! [`session::Session`] and gets its answers through [`session::Client`].
//!
//! Modules depend one way: `types` -> `builtin` -> `catalog` -> `parse` -> `analyze` -> `plan` -> `exec` -> `session`;
//! `codec` is at the level of `types`, and `error` is below all of them.
//!
//! | module | knows | does not know |
//! |---|---|---|
//! | `types`, `codec` | values, their texts and bytes | names, tables |
//! | `builtin` | PostgreSQL's functions, operators and casts, and our implementations | user objects |
//! | `catalog` | the definitions, as rows and as system tables | SQL text |
//! | `parse` | the grammar | the meaning of a name |
//! | `analyze` | names, types, operators of a statement | how it will run |
//! | `plan` | access paths and join order | rows |
//! | `exec` | rows, one step at a time | sockets, futures |
//! | `session` | transactions, caches, settings, definitions | bytes of any protocol |
#![deny(unsafe_code)]

pub mod analyze;
pub mod builtin;
pub mod catalog;
pub mod codec;
pub mod error;
pub mod exec;
pub mod parse;
pub mod plan;
pub mod session;
pub mod types;
