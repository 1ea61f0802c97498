//! Tests of planning and execution over a real engine in a temporary directory.
//!
//! `fixture` and `tree` are their tools; `computed` tests indexes on expressions and partial ones, `conflict` two
//! sessions
//! that meet on a row, `locks` sessions that hold row locks; `model` compares random statements with a map of rows,
//! `query`
//! runs joins, grouping and subqueries; `serializable` tests two sessions at that level, `shared` queries that are
//! computed
//! once, `steps` stopping and continuing, `upsert` INSERT ... ON CONFLICT among several sessions.

mod computed;
mod conflict;
mod fixture;
mod locks;
mod model;
mod query;
mod serializable;
mod shared;
mod steps;
mod tree;
mod upsert;
mod writes;
