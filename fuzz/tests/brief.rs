//! Runs every target on mutated seeds, for a second or two each. `COLLIE_FUZZ_ITERATIONS` raises the number of inputs
//! and `COLLIE_FUZZ_SEED` selects others. A failing input is printed as hexadecimal digits.
//!
//! This is not a search: it finds errors of decoders near valid input, and keeps the targets working for a fuzzer that
//! is guided by coverage.

use std::{
    env, iter,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use collie_fuzz::{TARGETS, Target, mutate::Mutator, seeds};

/// The time limit of one input: far more than any takes on a slow, shared machine.
const HANG: Duration = Duration::from_secs(60);

fn number(variable: &str, default: u64) -> u64 {
    env::var(variable).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is not a number")))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs `target` on its seeds and then on mutations of them until `iterations`; returns an error that names an input
/// that panics or hangs.
fn drive(name: &str, target: Target, corpus: Vec<Vec<u8>>, iterations: u64) -> Result<(), String> {
    let seed = number("COLLIE_FUZZ_SEED", 1);
    let current = Arc::new(Mutex::new(Vec::new()));
    let (progress, watch) = mpsc::sync_channel::<Result<(), String>>(1);
    let shown = current.clone();
    let worker = thread::spawn(move || {
        let mut mutator = Mutator::new(seed);
        let mutations = iter::repeat_with(|| mutator.input(&corpus));
        let inputs = corpus.iter().cloned().chain(mutations);
        for (nth, input) in (0..iterations.max(corpus.len() as u64)).zip(inputs) {
            shown.lock().expect("nothing panics while it is held").clone_from(&input);
            let outcome = catch_unwind(AssertUnwindSafe(|| target(&input)));
            let outcome = outcome.map_err(|_| format!("input {nth} of seed {seed} panics: {}", hex(&input)));
            let failed = outcome.is_err();
            if progress.send(outcome).is_err() || failed {
                return;
            }
        }
    });
    loop {
        match watch.recv_timeout(HANG) {
            Ok(outcome) => outcome.map_err(|error| format!("{name}: {error}"))?,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return Err(format!(
                    "{name}: hangs on {}",
                    hex(&current.lock().expect("nothing panics while it is held"))
                ));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    worker.join().map_err(|_| format!("{name}: the driver itself panics"))
}

fn brief(name: &str, iterations: u64) {
    let (_, target) = TARGETS.iter().find(|(other, _)| *other == name).expect("a target of this name");
    let iterations = number("COLLIE_FUZZ_ITERATIONS", 0).max(iterations);
    drive(name, *target, seeds::of(name), iterations).unwrap_or_else(|error| panic!("{error}"));
}

macro_rules! brief {
    ($($target:ident: $iterations:literal, $goal:literal;)*) => {
        $(
            #[doc = concat!("Goal: ", $goal, " Method: seeds and mutations of them, none panics or hangs.")]
            #[test]
            fn $target() {
                brief(stringify!($target), $iterations);
            }
        )*

        /// Goal: every target is tested, and seeds are worth mutating (Z3). Method: the list of tests compared with
        /// the list of targets; each has two seeds or more, all different.
        #[test]
        fn every_target_has_a_test_and_seeds() {
            let names: Vec<_> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(names, [$(stringify!($target)),*]);
            for name in names {
                let mut corpus = seeds::of(name);
                let count = corpus.len();
                corpus.sort();
                corpus.dedup();
                assert!(count >= 2 && corpus.len() == count, "{name}: {count} seeds, {} different", corpus.len());
            }
        }
    };
}

brief! {
    backup_manifest: 60_000, "a damaged list of a backup is an error, and one that is read survives a round trip, even where checksums hold.";
    catalog_record: 100_000, "a damaged catalog row is an error.";
    config: 50_000, "any settings are taken or refused.";
    copy_input: 150_000, "any COPY data ends in rows or an error.";
    decision_journal: 60_000, "a damaged journal of decisions is read up to the damage or refused, and what is read survives a round trip.";
    interval_text: 60_000, "any text is an interval, which prints and reads back, or an error.";
    key_codec: 100_000, "a damaged key is an error, and one that is read survives a round trip.";
    log_cursors: 100_000, "a damaged file of cursors is an error, and one that is read survives a round trip.";
    log_reader: 40_000, "a damaged segment is read up to the damage, even where checksums hold.";
    manifest: 60_000, "a damaged MANIFEST is an error, and one that is read survives a round trip, even where checksums hold.";
    model_package: 40_000, "a damaged package is an error, even where hash and checksum hold, and one that is read has one form and predicts.";
    redo_record: 150_000, "a damaged log record is shown as such.";
    replica_packets: 100_000, "any bytes of a peer are packets or an error, and a packet that is read survives a round trip.";
    row_codec: 100_000, "a damaged row is an error, and one that is read survives a round trip.";
    sampled_parameters: 100_000, "any bytes of a peer are parameters or an error, and those that are read go on as the same types.";
    sql_parse: 40_000, "any text is a statement or an error.";
    wire_frontend: 40_000, "any bytes of a client are messages or an error.";
}

/// Goal: the driver reports failures. Method: a target that panics on a byte that no seed has.
#[test]
fn a_panicking_target_is_reported_with_its_input() {
    fn fragile(bytes: &[u8]) {
        assert!(!bytes.contains(&0xFF), "found it");
    }
    let error = drive("fragile", fragile, vec![vec![0; 8], vec![1; 8]], 100_000).expect_err("a panic");
    assert!(error.starts_with("fragile: input ") && error.contains("ff"), "{error}");
}
