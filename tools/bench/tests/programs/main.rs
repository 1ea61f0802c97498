//! The program `collie-bench`: each command in its shortest form, with the servers that it starts.
#![expect(clippy::unwrap_used, reason = "a test that cannot run has failed")]

mod collecting;
mod common;
mod kv_and_txn;
mod replication;
mod tpcc;
mod training;
mod training_models;
