//! PostgreSQL's own isolation specs, run by PostgreSQL's own tester against Collie.
//!
//! `tests/clients/isolation/specs.txt` is the contract: it has a line for every spec of PostgreSQL 15, with the verdict
//! that it passes or what it lacks. A spec passes if the tester prints one of PostgreSQL's expected outputs, byte for
//! byte, including the waits, which the tester learns from `pg_isolation_test_session_is_blocked`.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    sync::{Mutex, PoisonError},
    thread,
};

use collie_clients_tests::{
    Server,
    isolation::{Limits, Specs},
    not_run,
    program::run,
};

/// The verdict on a spec that passes.
const PASS: &str = "pass";
/// The limits of a spec that passes.
const PASSING: Limits = Limits { step: 60, whole: 240 };
/// The limits of other specs; some wait for locks that never come.
const OTHER: Limits = Limits { step: 5, whole: 10 };

/// Reads the contract: the verdict for each spec.
fn contract() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("isolation/specs.txt");
    let text = fs::read_to_string(path).expect("a file of this tree");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("a name and a verdict: {line}")));
    pairs.map(|(name, verdict)| (name.to_owned(), verdict.trim().to_owned())).collect()
}

/// Compares the output of a spec with its verdict; returns the mismatch, if any.
fn judge(name: &str, verdict: &str, printed: &str, expected: &[String]) -> Option<String> {
    let passes = expected.iter().any(|expected| expected == printed);
    match (verdict == PASS, passes) {
        (true, true) | (false, false) => None,
        (false, true) => Some(format!("{name} passes now: say so in tests/clients/isolation/specs.txt\n")),
        (true, false) => {
            let folder = tempfile::tempdir().expect("a temporary directory");
            let file = |side: &str, text: &str| {
                let path = folder.path().join(side);
                fs::write(&path, text).expect("own directory");
                path.display().to_string()
            };
            let sides = [file("postgresql", &expected[0]), file("collie", printed)];
            let diff = run(Path::new("diff"), &["-U3", &sides[0], &sides[1]], &[], "");
            Some(format!("{name} fails: - is PostgreSQL, + is Collie\n{}\n", diff.out))
        }
    }
}

/// Goal: sessions see, block and refuse each other as in PostgreSQL, message for message, and the list of passing specs
/// is exact. Method: every spec on a fresh server, two at a time, compared with its verdict.
#[test]
fn isolation_specs_pass_or_are_listed_with_what_they_lack() {
    let specs = match Specs::fetch(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("isolation-specs")) {
        Ok(specs) => specs,
        Err(what) => return not_run(&what),
    };
    let contract = contract();
    // A later minor release of PostgreSQL may add a spec that has no verdict yet; none with a verdict may be missing.
    let (names, new): (Vec<String>, Vec<String>) =
        specs.names().into_iter().partition(|name| contract.contains_key(name));
    assert_eq!(names, contract.keys().cloned().collect::<Vec<_>>(), "a spec for each line");
    if !new.is_empty() {
        eprintln!("without a line in tests/clients/isolation/specs.txt, so not run: {}", new.join(", "));
    }
    let left = Mutex::new(names.into_iter());
    let wrong = Mutex::new(String::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(name) = next() {
                    let limits = if contract[&name] == PASS { PASSING } else { OTHER };
                    let printed = specs.run(&name, &Server::fresh(), limits);
                    if let Some(found) = judge(&name, &contract[&name], &printed, &specs.expected(&name)) {
                        let _ = wrong.lock().unwrap_or_else(PoisonError::into_inner).write_str(&found);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{wrong}");
}
