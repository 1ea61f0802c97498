//! Runs the examples, twice over one directory.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

#[allow(dead_code, reason = "its main is for cargo run")]
#[path = "../examples/quickstart.rs"]
mod quickstart;
#[allow(dead_code, reason = "its main is for cargo run")]
#[path = "../examples/transfer.rs"]
mod transfer;

/// Goal: the first program that a newcomer runs works, also a second time. Method: run it; look at its output.
#[test]
fn quickstart_says_what_it_reads() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let said = quickstart::run(&dir.path().join("db")).unwrap();
        assert_eq!(said[..3], ["alice is on disk: true", "bob: 2 Side Street", "carol: 3 High Street"]);
        assert_eq!(said[3], "a key is at most 65,531 bytes long: FixCall");
    }
}

/// Goal: the sum never changes. Method: run the example; check the sum.
#[test]
fn transfer_keeps_the_sum() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        assert_eq!(transfer::run(&dir.path().join("db")).unwrap().1, 1_000);
    }
}
