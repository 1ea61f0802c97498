//! Fuzz targets: one function of bytes per decoder, the seeds to start from, and the mutations.
//!
//! This is not a fuzzer itself: coverage feedback is left to an external one, which calls a function of [`TARGETS`]
//! and takes [`seeds::of`] as its corpus. `tests/brief.rs`, which only mutates seeds, runs with the other tests.
//!
//! # Invariants
//! - Z1. A target returns for every input: it neither panics nor loops forever.
//! - Z2. A target depends only on its input, so an input that fails once always fails.
//! - Z3. Every target has seeds that its decoder accepts: mutations of garbage test only the first check.
//!
//! Checked by `tests/brief.rs`.
#![forbid(unsafe_code)]

pub mod mutate;
pub mod seeds;
mod targets;

/// A target: takes any bytes and returns.
pub type Target = fn(&[u8]);

/// Every target with its name, sorted.
pub const TARGETS: &[(&str, Target)] = &[
    ("backup_manifest", targets::backup_manifest),
    ("catalog_record", targets::catalog_record),
    ("config", targets::config),
    ("copy_input", targets::copy_input),
    ("decision_journal", targets::decision_journal),
    ("interval_text", targets::interval_text),
    ("key_codec", targets::key_codec),
    ("log_cursors", targets::log_cursors),
    ("log_reader", targets::log_reader),
    ("manifest", targets::manifest),
    ("model_package", targets::model_package),
    ("redo_record", targets::redo_record),
    ("replica_packets", targets::replica_packets),
    ("row_codec", targets::row_codec),
    ("sampled_parameters", targets::sampled_parameters),
    ("sql_parse", targets::sql_parse),
    ("wire_frontend", targets::wire_frontend),
];
