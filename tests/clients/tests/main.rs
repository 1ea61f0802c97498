//! Every test of the server by its clients, as one program: shared code is linked once, and the tests of different
//! files run in parallel where there are cores. `cargo test -p collie-clients-tests isolation::` runs the tests of one
//! file.

mod advisory_locks;
mod bad_start;
mod concurrency;
mod console;
mod decisions;
mod definitions;
mod deposed;
mod differential;
mod driver;
mod foreign_keys;
mod hermitage;
mod high_availability;
mod http;
mod isolation;
mod memory_limit;
mod metrics;
mod pgbench;
mod promotion;
mod protocol;
mod psql;
mod psycopg;
mod query_memory;
mod quorum_changes;
mod read_your_writes;
mod replayed_reads;
mod replication;
mod replication_damage;
mod replication_faults;
mod replication_slots;
mod responsive;
mod restart;
mod row_locks;
mod serializable;
mod sql_errors;
mod status;
mod strangers;
mod switchover;
mod synchronous;
mod time_limits;
mod training;
mod training_samples;
mod transaction_ids;
mod views;
mod wire_regress;
mod witness;

/// Goal: no test file is left out. Method: every file in this folder is a module here.
#[test]
fn every_file_of_tests_is_here() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of this file")
        .map(|entry| entry.expect("an entry of it").file_name().into_string().expect("a name in UTF-8"))
        .filter_map(|name| name.strip_suffix(".rs").filter(|name| *name != "main").map(str::to_owned))
        .collect();
    files.sort();
    let modules: Vec<&str> =
        include_str!("main.rs").lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert_eq!(modules, files);
}
