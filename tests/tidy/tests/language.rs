//! The language of comments and documents: the standard terms of the field, in lines of at most 120 columns.
//!
//! `docs/glossary.md` has the terms. A name in backticks, a block of code, the target of a link and a part that a program
//! writes are no prose.

use std::process::Command;

use collie_tidy::{root, texts};

/// Words that the project's prose does without, each with the term to use.
const BANNED: [(&str, &str); 18] = [
    ("anew", "again, or the verb rewrite"),
    ("beside", "in parallel with, compared with, or as well as"),
    ("everybody", "every session, thread or reader"),
    ("flight", "in-flight flush"),
    ("flights", "in-flight flushes"),
    ("foretold", "predicted"),
    ("haste", "flush delay override"),
    ("keeper", "background flusher"),
    ("leg", "in-flight frame"),
    ("legs", "in-flight frames"),
    ("nobody", "no session, thread or reader"),
    ("sleeper", "boundary waiter"),
    ("sleepers", "boundary waiters"),
    ("somebody", "a session, thread or reader"),
    ("survey", "scan"),
    ("told", "notified, or the verb of the message"),
    ("unforetold", "without a prediction"),
    ("whoever", "each session, thread or reader that"),
];

/// Not in comments of code, whose subjects are sessions, threads and transactions. Documents also speak of people.
const BANNED_IN_CODE: [(&str, &str); 2] = [("who", "that, with its noun"), ("whom", "that, with its noun")];

/// The most columns of a line; a row of a table may be longer.
const COLUMNS_MAX: usize = 120;

/// The most columns of the subject of a commit.
const SUBJECT_MAX: usize = 72;

/// Text that programs write.
const EXEMPT: [&str; 1] = ["docs/bench/"];

/// Returns the comment of a line of Rust, if it has one: from `//` on, outside of a string.
fn comment(line: &str) -> Option<&str> {
    if line.contains("\\n") {
        return None; // a string with lines in it
    }
    let starts = line.match_indices("//").map(|(at, _)| at);
    let is_outside = |at: &usize| {
        let before = &line[..*at];
        before.trim().is_empty() || before.ends_with(' ') && before.matches('"').count().is_multiple_of(2)
    };
    starts.into_iter().find(is_outside).map(|at| &line[at..])
}

/// Removes what is no prose: names in backticks and the targets of links.
fn prose(line: &str) -> String {
    let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut parts = outside.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + " " + part.split_once(')').map_or("", |(_, rest)| rest))
}

/// Returns the faults of a text, one per line of it.
fn faults(path: &str, text: &str) -> Vec<String> {
    let is_code = path.ends_with(".rs");
    let banned = BANNED.iter().chain(BANNED_IN_CODE.iter().filter(|_| is_code));
    let (mut faults, mut is_block, mut is_generated) = (Vec::new(), false, false);
    for (number, line) in text.lines().enumerate() {
        let Some(said) = (if is_code { comment(line) } else { Some(line) }) else {
            is_block = false;
            continue;
        };
        is_generated = if is_generated { !said.ends_with("end -->") } else { said.ends_with("begin -->") };
        if is_generated {
            continue;
        }
        let start = said.trim_start_matches(['/', '!', ' ']);
        if start.starts_with("```") {
            is_block = !is_block;
        }
        let mut fault = |what: String| faults.push(format!("{path}:{}: {what}", number + 1));
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !start.starts_with('|') && !is_block {
            fault(format!("{columns} columns, where {COLUMNS_MAX} are allowed"));
        }
        if is_block {
            continue;
        }
        let lower = prose(said).to_ascii_lowercase().replace("in-flight", "").replace("in flight", "");
        let mut words = lower.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        if let Some((word, instead)) = words.find_map(|word| banned.clone().find(|(banned, _)| *banned == word)) {
            fault(format!("\"{word}\": write {instead}"));
        }
    }
    faults
}

/// Goal: comments and documents use the standard terms, in lines that fit. Method: all of them.
#[test]
fn prose_uses_the_standard_terms() {
    let mut found = Vec::new();
    for (path, text) in texts(&["rs", "md"]).unwrap() {
        let path = path.to_string_lossy().into_owned();
        // This file has the words.
        if !EXEMPT.iter().any(|exempt| path.starts_with(exempt)) && path != "tests/tidy/tests/language.rs" {
            found.extend(faults(&path, &text));
        }
    }
    assert!(found.is_empty(), "{} lines:\n{}", found.len(), found.join("\n"));
}

/// Goal: the check finds each kind of fault, and takes no name, code or link for prose. Method: planted lines.
#[test]
fn planted_faults_of_prose_are_found() {
    let long = format!("// {}", "word ".repeat(30));
    for (path, line) in [
        ("a.rs", "/// The keeper flushes."),
        ("a.rs", "let a = 1; // who waits"),
        ("a.rs", long.as_str()),
        ("a.md", "It runs Beside the server."),
    ] {
        assert_eq!(faults(path, line).len(), 1, "{line}");
    }
    for (path, text) in [
        ("a.rs", "let who = \"told // beside\";"),
        ("a.rs", "/// Calls `keeper` of [`Who`] while a flush is in flight."),
        ("a.rs", "//! ```\n//! nobody\n//! ```"),
        ("a.md", "<!-- x begin -->\nnobody\n<!-- x end -->\n"),
        ("a.md", "People who operate it; see [the page](keeper.md#told)."),
        ("a.md", &format!("| {} |", "cell ".repeat(40))),
    ] {
        assert_eq!(faults(path, text), [""; 0], "{text}");
    }
}

/// Goal: the subjects of commits name what they change and fit in a line. Method: the last commits, as far as they are
/// in this copy of the tree; a merge has no subject of its own.
#[test]
fn subjects_of_commits_name_a_crate_and_fit() {
    let log = Command::new("git").args(["log", "-20", "--no-merges", "--format=%s"]).current_dir(root()).output();
    let log = log.unwrap();
    assert!(log.status.success(), "git log failed");
    let is_fine = |subject: &str| {
        let Some((area, what)) = subject.split_once(": ") else { return false };
        let is_name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_/".contains(c));
        subject.len() <= SUBJECT_MAX && !what.is_empty() && area.split(", ").all(is_name)
    };
    assert!(
        is_fine("wal: append") && is_fine("docs, tidy: cite") && !is_fine("append") && !is_fine(&"a: b".repeat(20))
    );
    let wrong: Vec<String> =
        String::from_utf8_lossy(&log.stdout).lines().filter(|subject| !is_fine(subject)).map(str::to_owned).collect();
    assert!(wrong.is_empty(), "not `crate: imperative` in {SUBJECT_MAX} columns: {wrong:#?}");
}

/// The tree is where this file says.
#[test]
fn the_root_has_the_glossary() {
    assert!(root().join("docs/glossary.md").exists());
}
