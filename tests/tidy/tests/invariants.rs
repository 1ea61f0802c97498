//! Invariants of `docs/design`: each has a unique id and names the test or assertion that checks it, and every cited id
//! exists.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::collections::{BTreeMap, BTreeSet};

use collie_tidy::texts;

/// The prefixes of ids, one for each page.
const PREFIXES: [&str; 10] = ["COMMIT", "FAULT", "LOG", "REPL", "RULE", "SEC", "SQL", "STORE", "TRAIN", "TXN"];

/// The number of invariants that no test or assertion checks. Lower it whenever one gets a check.
const UNCHECKED_MAX: usize = 18;

/// Returns the ids in a text, in order; an id is a prefix, a hyphen and a number.
fn ids(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'));
    let is_id = |word: &&str| {
        word.split_once('-').is_some_and(|(prefix, number)| {
            PREFIXES.contains(&prefix) && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    words.filter(is_id).map(str::to_owned).collect()
}

/// Returns the invariants of a page, each with the text of its last column. A row without an id continues the row above
/// it.
fn invariants(page: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    let mut is_inside = false;
    for line in page.lines() {
        let cells: Vec<&str> =
            line.trim().trim_matches('|').split(" |").map(|cell| cell.trim_matches(['|', ' '])).collect();
        is_inside &= line.starts_with('|');
        let (first, last) = (cells[0], cells[cells.len() - 1]);
        if line.starts_with('|') && ids(first).len() == 1 && !first.contains(' ') {
            found.push((first.to_owned(), last.to_owned()));
            is_inside = true;
        } else if let Some((_, text)) = found.last_mut().filter(|_| is_inside && first.is_empty()) {
            text.push(' ');
            text.push_str(last);
        }
    }
    found
}

/// Returns the faults of the invariants of `pages`: duplicate ids, and checks that are in neither `tests` nor `paths`.
/// Also returns the number of invariants without a check.
fn faults(pages: &[String], tests: &BTreeSet<String>, paths: &BTreeSet<String>) -> (Vec<String>, usize) {
    let (mut wrong, mut seen, mut unchecked) = (Vec::new(), BTreeSet::new(), 0);
    for (id, checks) in pages.iter().flat_map(|page| invariants(page)) {
        if !seen.insert(id.clone()) {
            wrong.push(format!("{id}: two invariants have this id"));
        }
        let names: Vec<&str> = checks.split('`').skip(1).step_by(2).collect();
        let is_there = |name: &str| tests.contains(name) || paths.contains(name);
        if checks.contains("reading only") {
            unchecked += 1;
        } else if !names.iter().any(|name| is_there(name)) {
            wrong.push(format!("{id}: no test and no file that checks it is named: {checks}"));
        }
        let gone = names.iter().filter(|name| is_name_of_test(name) && !is_there(name));
        wrong.extend(gone.map(|name| format!("{id}: there is no test {name}")));
    }
    (wrong, unchecked)
}

/// Returns whether a name is that of a test. Tests are sentences, so it has several words, and it is not a path, a
/// macro or an expression.
fn is_name_of_test(name: &str) -> bool {
    name.matches('_').count() >= 3
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

fn pages() -> Vec<String> {
    let pages: Vec<String> = texts(&["md"])
        .unwrap()
        .into_iter()
        .filter(|(path, _)| path.starts_with("docs/design"))
        .map(|(_, text)| text)
        .collect();
    assert!(pages.len() >= 8, "only {} pages of the design", pages.len());
    pages
}

/// Goal: every invariant of the design has a unique id and names an existing check. Method: the tables of `docs/design`
/// are compared with the functions and files of the tree; the number without a check only falls.
#[test]
fn invariants_have_ids_of_their_own_and_name_their_checks() {
    let sources = texts(&["rs", "py"]).unwrap();
    let paths: BTreeSet<String> = sources.iter().map(|(path, _)| path.display().to_string()).collect();
    let functions = sources.iter().flat_map(|(_, text)| text.split("fn ").skip(1).chain(text.split("def ").skip(1)));
    let name = |rest: &str| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next().unwrap_or("").to_owned();
    let tests: BTreeSet<String> = functions.map(name).collect();
    let (wrong, unchecked) = faults(&pages(), &tests, &paths);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(unchecked <= UNCHECKED_MAX, "{unchecked} invariants are checked by reading only, {UNCHECKED_MAX} were");
}

/// Goal: a cited invariant can be looked up. Method: every id in sources and documents is compared with the tables of
/// `docs/design`.
#[test]
fn cited_invariants_exist() {
    let defined: BTreeSet<String> = pages().iter().flat_map(|page| invariants(page)).map(|(id, _)| id).collect();
    assert!(defined.len() > 150, "only {} invariants are found", defined.len());
    let mut cited = BTreeMap::new();
    for (path, text) in texts(&["rs", "md"]).unwrap().into_iter().filter(|(path, _)| !path.ends_with("invariants.rs")) {
        for id in ids(&text) {
            cited.entry(id).or_insert(path.clone());
        }
    }
    let missing: Vec<_> = cited.iter().filter(|(id, _)| !defined.contains(*id)).collect();
    assert!(missing.is_empty(), "no page of docs/design has these: {missing:?}");
}

/// Goal: the check above can fail. Method: pages with a duplicate id, without a check, with a missing test, and a good
/// one over two rows.
#[test]
fn bad_tables_of_invariants_are_noticed() {
    let tests = BTreeSet::from(["a_commit_is_seen_whole".to_owned()]);
    let check =
        |page: &str| faults(&[page.to_owned()], &tests, &BTreeSet::from(["crates/wal/src/log/mod.rs".to_owned()]));
    let good = "| LOG-1 | it holds | `Log` | |\n| | and more | | `a_commit_is_seen_whole` |\n| LOG-2 | so | x | `assert!` in `crates/wal/src/log/mod.rs` |\n";
    assert_eq!(check(good), (Vec::new(), 0));
    assert_eq!(check("| LOG-1 | it holds | `Log` | reading only |\n").1, 1);
    for (page, expected) in [
        ("| LOG-1 | it holds | `Log` | |\n", "no test and no file"),
        (
            "| LOG-1 | it | | `a_commit_is_seen_whole` |\n| LOG-1 | it | | `a_commit_is_seen_whole` |\n",
            "two invariants",
        ),
        ("| LOG-1 | it | | `a_commit_is_seen_whole`, `it_was_renamed_last_week` |\n", "there is no test it_was"),
    ] {
        let (wrong, _) = check(page);
        assert!(wrong.iter().any(|line| line.contains(expected)), "{page}: {wrong:?}");
    }
    assert_eq!(ids("(LOG-12, REPL-3) xLOG-1 LOG-x SQL-92b"), ["LOG-12", "REPL-3"]);
}
