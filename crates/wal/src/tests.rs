//! Tests of the log through its public interface. Models (loom, shuttle) are built without them: a test of a model
//! stands next to the code that it checks.

#[path = "bad_input_tests.rs"]
mod bad_input_tests;
#[path = "consumers_tests.rs"]
mod consumers_tests;
#[path = "dead_rings_tests.rs"]
mod dead_rings_tests;
#[path = "duplicate_tests.rs"]
mod duplicate_tests;
#[path = "fault_tests.rs"]
mod fault_tests;
#[path = "flush_tests.rs"]
mod flush_tests;
#[path = "follow_tests.rs"]
mod follow_tests;
#[path = "future_tests.rs"]
mod future_tests;
#[path = "lab_tests.rs"]
mod lab_tests;
#[path = "level_tests.rs"]
mod level_tests;
#[path = "log_tests.rs"]
mod log_tests;
#[path = "misplaced_tests.rs"]
mod misplaced_tests;
#[path = "read_tests.rs"]
mod read_tests;
#[path = "recycle_tests.rs"]
mod recycle_tests;
#[path = "rewrite_tests.rs"]
mod rewrite_tests;
#[path = "ring_file_tests.rs"]
mod ring_file_tests;
#[path = "salvage_tests.rs"]
mod salvage_tests;
#[path = "ship_tests.rs"]
mod ship_tests;
#[path = "tail_tests.rs"]
mod tail_tests;
#[path = "truncate_tests.rs"]
mod truncate_tests;
#[path = "view_tests.rs"]
mod view_tests;
#[path = "warning_tests.rs"]
mod warning_tests;
