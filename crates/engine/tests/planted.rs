//! Mistakes in flushing, re-logging, cutting the log and replay, planted in a whole process, one at a time: a test of
//! this crate must notice each. The models catch mistakes that only threads can make (`docs/models.md`), and
//! `relog/tests.rs` those that need a commit within a re-log.
//!
//! This binary contains the tests of this crate too. For each mistake it runs one of them in a separate process, with
//! the same random draws each time.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
#![allow(clippy::duplicate_mod, reason = "each test binary brings what they share")]

mod common;
#[path = "flush.rs"]
mod flush;
#[path = "model.rs"]
mod model;

use common::planted::{NO_STATE, noticed, run};

const MODEL: &str = "model::engine_equals_the_model_through_reopens_and_power_cuts";
const POWER_CUTS: &str = "flush::power_cut_between_any_two_calls_leaves_what_was_promised";

/// Goal: the tests that notice mistakes pass without one, on the same draws. Method: run them.
#[test]
fn planted_nothing_is_noticed() {
    for test in [MODEL, POWER_CUTS] {
        let (passed, said) = run(test, 1, None);
        assert!(passed, "{said}");
    }
}

/// Goal: S6: a commit at f is not in the flush at f. Method: the filter of replay treats it as flushed.
#[test]
fn planted_filter_that_takes_the_flushes_position_is_noticed() {
    noticed("a commit at the flush counts as flushed", MODEL, NO_STATE);
}

/// Goal: S6: a transaction with chunks below a flush and its commit above is not flushed. Method: chunks are filtered
/// by their own positions.
#[test]
fn planted_filter_by_a_chunks_position_is_noticed() {
    noticed("chunks are filtered by their own position", MODEL, NO_STATE);
}

/// Goal: S2: the log of a transaction with chunks is kept until its families are flushed above its commit. Method:
/// nothing holds it.
#[test]
fn planted_cut_below_a_large_transaction_is_noticed() {
    noticed("large transactions hold no log", MODEL, NO_STATE);
}

/// Goal: S2: log is released only for a re-log that is durable. Method: the wait for that is left out.
#[test]
fn planted_relog_that_is_not_waited_for_is_noticed() {
    noticed("re-log is not waited for", MODEL, NO_STATE);
}

/// Goal: S1: the LSM levels hold nothing that the log could lose. Method: a flush at the boundary.
#[test]
fn planted_flush_at_the_boundary_is_noticed() {
    noticed(
        "flush at the boundary",
        "flush::flush_takes_what_is_durable_and_no_more",
        &["the levels hold what the log lost"],
    );
}

/// Goal: S9: a deleted row stays until its deletion is flushed. Method: it is removed at once; the flush leaves its
/// deletion out.
#[test]
fn planted_loss_of_a_deletion_is_noticed() {
    noticed("ON_DISK_IGNORED", MODEL, NO_STATE);
    noticed(
        "ON_DISK_IGNORED_BY_FLUSH",
        MODEL,
        &["LiveKeysDiffer", "no state between commits", "a clean close loses nothing"],
    );
}

/// Goal: S4: a flush is recorded after its tables. Method: before them.
#[test]
fn planted_record_of_a_flush_before_its_tables_is_noticed() {
    noticed("FLUSH_DONE_FIRST", POWER_CUTS, &["LiveKeysDiffer", "no state between commits"]);
}

/// Goal: F6: MANIFEST records where the log starts before log is released. Method: the other order.
#[test]
fn planted_cut_before_its_record_is_noticed() {
    noticed("log goes before MANIFEST says so", POWER_CUTS, &["MissingStart"]);
}

/// Goal: a tree stays until its drop is durable. Method: it is removed at once.
#[test]
fn planted_drop_of_a_tree_before_its_time_is_noticed() {
    let test = "flush::dropped_family_keeps_its_levels_until_the_drop_is_durable";
    noticed("tree goes before its drop is durable", test, &["and its tree"]);
}

/// Goal: F4: after a failed flush the LSM levels may hold its rows. Method: that is forgotten.
#[test]
fn planted_loss_of_a_failed_flush_is_noticed() {
    noticed(
        "failed flush forgotten",
        "flush::flush_that_failed_is_made_good_by_the_next",
        &["LiveKeysDiffer", "left == right"],
    );
}

/// Goal: the rows of a failed flush need the log as before. Method: they are listed again without that need.
#[test]
fn planted_cut_after_a_failed_flush_is_noticed() {
    noticed(
        "FAILED_FLUSH_NEEDS_NO_LOG",
        "flush::log_is_kept_for_the_rows_of_a_failed_flush",
        &["the log of it is gone"],
    );
}
