//! Tests of planning and execution over a real engine in a temporary directory.
//!
//! `fixture` and `tree` are their tools; `computed` has indexes on expressions and partial ones, `conflict` has two
//! sessions that meet on a row, `locks` those that hold one, `model` compares random statements with a map of rows, `query`
//! runs joins, grouping and subqueries, `serializable` has two sessions of that level, `shared` has queries that are computed
//! once, `steps` stops and goes on, `upsert` is INSERT ... ON CONFLICT among several sessions.

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
