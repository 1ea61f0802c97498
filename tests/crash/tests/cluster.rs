//! Tests of the simulated cluster: equal seeds give equal runs, and the oracles find planted mistakes. The run without
//! mistakes is in `make lab`; the long form in `make crash`.
#![cfg(feature = "planted-bugs")]

use std::process::{Command, Output};

fn cluster(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_faultlab"));
    command.arg("cluster").args(arguments).output().expect("faultlab was built")
}

/// Goal: a seed determines a run to the last thread switch. Method: run one seed twice and compare the trace at the end
/// of each run.
#[test]
fn same_seed_is_the_same_run() {
    let run = || {
        let output = cluster(&["--runs", "1", "--seed", "7", "--minutes", "1"]);
        let complained = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{complained}");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let run = said.lines().find(|line| line.contains("trace")).expect("a run says what it came to").to_owned();
        (run, complained)
    };
    let (first, complained) = run();
    if complained.contains("a seed may not bring a run back") {
        assert!(std::env::var_os("COLLIE_REQUIRE_LAB").is_none(), "{complained}");
        eprintln!("skipped: {complained}");
        return;
    }
    assert_eq!(first, run().0);
}

/// Returns whether one of these seeds finds a mistake with one of these messages; another message fails the test.
fn is_found(seeds: std::ops::Range<u32>, options: &[&str], mistake: &str, words: &[&str]) -> bool {
    let finds = |seed: u32| {
        let seed = seed.to_string();
        let output =
            cluster(&[&["--runs", "1", "--minutes", "1", "--seed", &seed, "--plant", mistake], options].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        let names_it = words.iter().any(|name| errors.contains(name));
        assert!(output.status.success() || names_it, "it is noticed for another reason: {errors}");
        names_it
    };
    seeds.into_iter().any(finds)
}

/// Goal: the oracles find a leader that lacks acknowledged commits. Method: votes that count whatever the candidate's
/// log has, under kills, cut links and promotions, up to six seeds.
#[test]
fn leader_without_what_was_acknowledged_is_found() {
    let words = ["is lost", "R4", "R10", "differ", "there half", "lost append", "took back", "under way"];
    assert!(is_found(500..506, &["--kinds", "kill,part,promote"], "VOTE_REACH_IGNORED", &words), "it goes unnoticed");
}

/// The kinds of faults by which mistakes of a witness show. Each mistake is planted in the model of the witness, too
/// (`crates/replica/src/term/witness_model_tests.rs`), which finds it each time.
const OF_WITNESS: [&str; 3] = ["--witness", "--kinds", "kill,part,promote"];

/// Words of the oracles about a commit that is gone, or that another one stands for.
const LOST: [&str; 9] = ["is lost", "R4", "R8", "R10", "differ", "there half", "lost append", "took back", "under way"];

/// Goal: the oracles find a witness that forgets. Method: one whose promises, and the leader that spoke last, are gone
/// at each restart, under kills, cut links and promotions: commits are lost, or no node can be promoted for good.
#[test]
#[ignore = "minutes: `make test-long`"]
fn witness_that_forgets_is_found() {
    let words = [&LOST[..], &["were not enough"]].concat();
    assert!(is_found(700..724, &OF_WITNESS, "WITNESS_FORGETS", &words), "it goes unnoticed");
}

/// Goal: the oracles find a leader that acknowledges alone without leave. Method: one that does not await that the
/// witness has noted it.
#[test]
#[ignore = "minutes: `make test-long`"]
fn leader_alone_without_leave_is_found() {
    assert!(is_found(700..724, &OF_WITNESS, "LEAVE_NOT_AWAITED", &LOST), "it goes unnoticed");
}

/// Goal: the oracles find a witness that promises a term while a leader acknowledges alone. Method: one that does.
#[test]
#[ignore = "minutes: `make test-long`"]
fn witness_that_ignores_a_leader_alone_is_found() {
    assert!(is_found(700..724, &OF_WITNESS, "DEGRADED_LEADER_IGNORED", &LOST), "it goes unnoticed");
}

/// Goal: the history of transactions on lists is checked over promotions. Method: SERIALIZABLE transactions whose reads
/// are not validated, which one of two seeds shows.
#[test]
fn transactions_that_no_level_allows_are_found() {
    let words = ["write skew", "anti-dependency cycle"];
    assert!(is_found(603..619, &["--kinds", "promote", "--lists"], "READS_NOT_VALIDATED", &words), "it goes unnoticed");
}
