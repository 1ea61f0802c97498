//! The same scripts on Collie and on PostgreSQL 15, compared line by line.
//!
//! Rows, tags, notices, errors with SQLSTATE, position, DETAIL and HINT must be equal; only the LOCATION lines of
//! PostgreSQL's source are left out. What differs on purpose stands in `docs/compatibility.md` and is run too: both
//! columns of its table must be what the two really answer.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use collie_clients_tests::{
    Psql, Server, not_run,
    program::{Done, run},
    reference::{PACKAGE, Reference},
};

const OPTIONS: [&str; 6] = ["-A", "-v", "VERBOSITY=verbose", "-P", "null=(null)", "-e"];

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Both servers.
struct Both {
    server: Server,
    reference: Reference,
}

impl Both {
    /// Starts both; `None` without PostgreSQL.
    fn start() -> Option<Self> {
        let reference = Reference::start();
        if reference.is_none() {
            not_run(&format!("PostgreSQL's server is not installed: apt-get install {PACKAGE}"));
        }
        Some(Self { reference: reference?, server: Server::fresh() })
    }

    /// Plays a script on both and returns each one's lines.
    fn play(&self, script: &str) -> (Vec<String>, Vec<String>) {
        let ours = Psql::new(&self.server).merged(&OPTIONS, script);
        let theirs = self.reference.merged(&[&["-d", "collie"], &OPTIONS[..]].concat(), script);
        (comparable(&ours), comparable(&theirs))
    }
}

/// Returns what psql printed, errors among results, without what can never be equal.
fn comparable(done: &Done) -> Vec<String> {
    let lines = done.out.lines().filter(|line| !line.starts_with("LOCATION:  "));
    lines.map(str::to_owned).collect()
}

/// How simple text is planned: each by itself, or by a plan for all texts that differ in literals.
const PLAN_CACHE_MODES: [&str; 2] = ["force_custom_plan", "force_generic_plan"];

/// Goal: Collie answers as PostgreSQL 15 does, however its plans are shared. Method: every script of `tests/sql` on both
/// in every mode; all differences are shown.
#[test]
fn scripts_answer_as_in_postgresql() {
    let mut scripts: Vec<_> =
        fs::read_dir(tree().join("tests/sql")).unwrap().map(|file| file.unwrap().path()).collect();
    scripts.sort();
    assert!(scripts.len() >= 8, "{scripts:?}");
    let Some(both) = Both::start() else { return };
    let mut wrong = String::new();
    for (script, mode) in scripts.iter().flat_map(|script| PLAN_CACHE_MODES.map(|mode| (script, mode))) {
        let name = script.file_name().unwrap().to_string_lossy();
        let text = fs::read_to_string(script).unwrap();
        let (ours, theirs) = both.play(&format!("SET plan_cache_mode = {mode};\n{text}"));
        if ours == theirs {
            continue;
        }
        let folder = tempfile::tempdir().expect("a temporary directory");
        for (side, lines) in [("collie", &ours), ("postgresql", &theirs)] {
            fs::write(folder.path().join(side), lines.join("\n") + "\n").expect("own directory");
        }
        let file = |side: &str| folder.path().join(side).display().to_string();
        let diff = run(Path::new("diff"), &["-U3", &file("postgresql"), &file("collie")], &[], "");
        let _ = writeln!(wrong, "{name}, {mode}: - is PostgreSQL, + is Collie\n{}", diff.out);
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Goal: the list of known differences is true. Method: run its statements on both and compare with what it says.
#[test]
fn known_differences_are_as_documented() {
    let page = fs::read_to_string(tree().join("docs/compatibility.md")).expect("a page of this tree");
    let Some(both) = Both::start() else { return };
    let mut wrong = String::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        let [statement, ours, theirs, _] = cells.as_slice() else { panic!("four columns: {row}") };
        let text = |cell: &str| cell.trim_matches('`').to_owned();
        let (said, said_there) = both.play(&format!("{};\n", text(statement)));
        for (who, lines, expected) in [("Collie", said, text(ours)), ("PostgreSQL", said_there, text(theirs))] {
            // The first line is the statement itself; then a header and rows, a tag, or an error.
            let found = lines.get(1..).unwrap_or_default().join(" / ");
            if !found.contains(&expected) {
                let _ = writeln!(wrong, "{statement}: {who} answers {found}, the page says {expected}");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}
