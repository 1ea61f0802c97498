//! Mistakes in replay and in loading the levels, planted in a whole process, one at a time: a test of this crate must
//! notice each, as `crates/engine/tests/planted.rs` does with its own tests.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]
#![allow(clippy::duplicate_mod, reason = "each test binary brings what they share")]

#[path = "../../engine/tests/common/mod.rs"]
mod common;
#[path = "model.rs"]
mod model;
#[path = "unlogged.rs"]
mod unlogged;

use common::planted::{NO_STATE, noticed, run};

const MODEL: &str = "model::key_value_face_equals_the_model";
const UNLOGGED: &str = "unlogged::power_cut_anywhere_leaves_unlogged_writes_back_to_the_last_flush";

/// Goal: the tests that notice mistakes pass without one, on the same draws. Method: run them.
#[test]
fn planted_nothing_is_noticed() {
    for test in [MODEL, UNLOGGED] {
        let (passed, said) = run(test, 1, None);
        assert!(passed, "{said}");
    }
}

/// Goal: S6: a commit at f is not in the flush at f. Method: the filter of replay treats it as flushed.
#[test]
fn planted_filter_that_takes_the_flushes_position_is_noticed() {
    noticed("a commit at the flush counts as flushed", MODEL, NO_STATE);
}

/// Goal: a flush whose tables are written but whose record is missing is recorded by the next load; otherwise a logged
/// put would come back over its unlogged deletion, and half of the flushed rows would be gone. Method: the load forgets
/// it.
#[test]
fn planted_loss_of_an_interrupted_flush_is_noticed() {
    noticed("INTERRUPTED_FLUSH_FORGOTTEN", UNLOGGED, &["writes"]);
    let test = "unlogged::flush_whose_record_is_lost_counts_when_its_tables_are_there";
    noticed("INTERRUPTED_FLUSH_FORGOTTEN", test, &["a half of what was flushed"]);
}
