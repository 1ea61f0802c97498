//! The parts of the log's crash lab that every test run takes, through the program that `make crash` runs at length.

use std::process::Command;

use collie_env::Env;
use collie_wal::{Log, Options};

fn faultlab(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_faultlab")).args(arguments).output().expect("faultlab was built");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "faultlab {arguments:?}: {text}{errors}");
    text.into_owned()
}

/// Goal: a killed process loses no record that its log acknowledged, to the disk or to the kernel. Method: a dozen
/// kills of a real process on real files, three of them while it opens the log.
#[test]
fn killed_process_finds_every_acknowledged_record() {
    let text = faultlab(&["log-kill", "--cycles", "12", "--seed", "5"]);
    assert!(text.starts_with("log-kill: 12 kills, ") && text.contains("all promises hold"), "{text}");
}

/// Goal: a write that the operating system cuts short and then refuses for the file's size is an error that names the
/// file, and the directory opens once the limit is gone. Method: a limit on file sizes inside a segment.
#[test]
fn short_write_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    // The shell counts in blocks of 512 or 1024 bytes; a segment has 1 MiB.
    let script = "trap '' XFSZ; ulimit -f 700; exec \"$0\" log-child --seed 1 --writers 1 --dir \"$1\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_faultlab")]).arg(dir.path());
    let output = limited.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(errors.contains("00000000000000000001.wal: File too large"), "{errors}");
    let (log, found) = Log::open(&Env::real(), dir.path(), Options::small()).unwrap();
    assert_eq!(found.incarnation, 1);
    log.close().unwrap();
}

/// Goal: the command visits at least the requested number of states and reports it. Method: a short run, as text and as
/// JSON.
#[test]
fn states_are_visited_and_counted() {
    let text = faultlab(&["log-states", "--states", "3000", "--seed", "9"]);
    let count = text.split(' ').nth(1).and_then(|count| count.parse::<u64>().ok());
    assert!(count.is_some_and(|count| count >= 3_000) && text.contains("all promises hold"), "{text}");
    let json = faultlab(&["log-states", "--states", "1000", "--json"]);
    assert!(json.starts_with("{\"states_count\": 1"), "{json}");
}
