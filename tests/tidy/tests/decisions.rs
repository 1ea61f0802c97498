//! Decision records: each has its parts, every citation names one that exists, and the index lists every number once.
#![expect(clippy::unwrap_used, reason = "a check that cannot run has failed")]

use std::collections::{BTreeMap, BTreeSet};

use collie_tidy::{has_extension, texts};

/// The folder of the records.
const FOLDER: &str = "docs/decisions/";

/// The parts of a record, in order. Figures may follow the decision in a part `Evidence`.
const PARTS: [&str; 4] = ["\n## Context\n", "\n## Decision\n", "\n## Alternatives\n", "\n## Consequences\n"];

/// The words before a number that make it a citation, without a first letter that may be a capital.
const NOUNS: [&str; 4] = ["ecision", "ecisions", "ecord", "ecords"];

/// The words of the index before the numbers that no record ever had.
const UNUSED: &str = "No record ever had these numbers:";

/// Returns the number that a text begins with, if it is written as those of records are: four digits, the first a 0,
/// and nothing behind them that belongs to a longer word.
fn number(text: &str) -> Option<&str> {
    let digits = text.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let next = text[4..].chars().next().unwrap_or(' ');
    (digits.starts_with('0') && !next.is_ascii_alphanumeric() && next != '_').then_some(digits)
}

/// Returns the records that a text cites: their numbers, each with the name of the file if the citation has one.
///
/// A citation is `decision NNNN`, a path or link to a file `NNNN-title.md`, the text of such a link, or a number of at
/// most `highest` after one of the characters `before` (modes of files such as 0600 are higher): in documents an
/// opening parenthesis, in records also a space.
fn citations(text: &str, before: &[char], highest: &str) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for noun in NOUNS {
        for rest in text.match_indices(noun).map(|(at, _)| &text[at + noun.len()..]) {
            let behind = rest.trim_start_matches([' ', '\n', '/', '!', '#']);
            let number = number(behind).filter(|_| rest.starts_with([' ', '\n']));
            found.extend(number.map(|number| (number.to_owned(), None)));
        }
    }
    for (at, end) in text.match_indices(".md").map(|(at, end)| (at, at + end.len())) {
        let start = text[..at].rfind(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).map_or(0, |before| before + 1);
        let name = &text[start..end];
        if let Some(number) = number(name).filter(|_| name.as_bytes()[4] == b'-') {
            found.push((number.to_owned(), Some(name.to_owned())));
            if let Some((label, _)) =
                text[..start].rsplit_once("](").filter(|(_, path)| !path.contains([')', ' ', '\n']))
            {
                let label = label.rsplit('[').next().unwrap_or_default();
                if label.len() == 4 && label != number {
                    found.push((format!("{label} as {number}"), None));
                }
            }
        }
    }
    for (at, _) in text.match_indices(before) {
        let is_over = |number: &&str| text[at + 1 + number.len()..].starts_with([')', ',', '.', ';', ' ', '\n']);
        let number = number(&text[at + 1..]).filter(is_over).filter(|number| *number <= highest);
        found.extend(number.map(|number| (number.to_owned(), None)));
    }
    found
}

/// Returns the faults of the index over the records with these file names: numbers that it lists twice or not at all,
/// and rows that name no file. Every number up to the highest is a record, a former number with the record that has its
/// content, or one that was never used.
fn index_faults(index: &str, files: &BTreeSet<String>) -> Vec<String> {
    let (mut faults, mut listed) = (Vec::new(), BTreeMap::<String, usize>::new());
    for row in index.lines().filter_map(|line| line.strip_prefix("| ")) {
        let former = number(row).map(|number| (number, row.split_once("| [").map_or("", |(_, link)| link)));
        let record = row.strip_prefix('[').and_then(|link| Some((number(link)?, link)));
        let Some((number, link)) = former.or(record) else { continue };
        *listed.entry(number.to_owned()).or_default() += 1;
        let file = link.split(['(', ')']).nth(1).unwrap_or_default();
        if !files.contains(file) || !file.starts_with(&link[..4]) {
            faults.push(format!("{number}: there is no file {file}"));
        }
    }
    for file in files.iter().filter(|file| !index.contains(&format!("| [{}]({file}) |", &file[..4]))) {
        faults.push(format!("{file}: no row of the index names it"));
    }
    let unused = index.split_once(UNUSED).map_or("", |(_, unused)| unused);
    for number in unused.split(|c: char| !c.is_ascii_digit()).filter_map(number) {
        *listed.entry(number.to_owned()).or_default() += 1;
    }
    let highest: usize = listed.keys().next_back().map_or(0, |number| number.parse().unwrap());
    for number in (1..=highest).map(|number| format!("{number:04}")) {
        let times = listed.get(&number).copied().unwrap_or_default();
        if times != 1 {
            faults.push(format!("{number}: listed {times} times"));
        }
    }
    faults
}

/// Returns what a record lacks.
fn record_faults(name: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    if !text.starts_with(&format!("# {}: ", &name[..4])) {
        faults.push(format!("{name}: the title does not begin with its number"));
    }
    let places: Vec<Option<usize>> = PARTS.iter().map(|part| text.find(part)).collect();
    for (part, _) in PARTS.iter().zip(&places).filter(|(_, place)| place.is_none()) {
        faults.push(format!("{name}: no part {}", part.trim()));
    }
    if !places.iter().flatten().is_sorted() {
        faults.push(format!("{name}: the parts are out of order"));
    }
    faults
}

/// Returns the records by the names of their files, and the index.
fn records() -> (BTreeMap<String, String>, String) {
    let folder = texts(&["md"]).unwrap().into_iter();
    let mut records: BTreeMap<String, String> =
        folder.filter_map(|(path, text)| Some((path.to_str()?.strip_prefix(FOLDER)?.to_owned(), text))).collect();
    let index = records.remove("README.md").expect("the folder has an index");
    assert!(records.len() > 30, "only {} records were found", records.len());
    (records, index)
}

/// Goal: a record can be read by its parts. Method: the title and the headings of every record.
#[test]
fn decision_records_have_their_parts() {
    let wrong: Vec<String> = records().0.iter().flat_map(|(name, text)| record_faults(name, text)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Goal: a citation leads to a record. Method: all citations in sources and documents; the number exists, and so does
/// the file, if one is named. This file has examples.
#[test]
fn every_cited_decision_exists() {
    let files: BTreeSet<String> = records().0.into_keys().collect();
    let highest = &files.last().unwrap()[..4];
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (path, text) in texts(&["rs", "md", "toml", "py", "js", "sh", "yml"]).unwrap() {
        if path.ends_with("tests/decisions.rs") || path.ends_with("decisions/README.md") {
            continue;
        }
        let before: &[char] = if path.starts_with(FOLDER) {
            &['(', ' ']
        } else if has_extension(&path, &["md"]) {
            &['(']
        } else {
            &[]
        };
        for (number, file) in citations(&text, before, highest) {
            seen += 1;
            let exists = file.as_ref().map_or_else(
                || files.iter().any(|file| file.starts_with(&format!("{number}-"))),
                |file| files.contains(file),
            );
            if !exists {
                wrong.push(format!("{}: {number} {}", path.display(), file.unwrap_or_default()));
            }
        }
    }
    assert!(wrong.is_empty(), "these cite no record of {FOLDER}:\n{}", wrong.join("\n"));
    assert!(seen > 100, "only {seen} citations were found");
}

/// Goal: every number that was ever given to a record leads to its content. Method: the index lists each number up to
/// the highest exactly once, and each row names a file.
#[test]
fn the_index_of_decisions_lists_every_number_once() {
    let (records, index) = records();
    let wrong = index_faults(&index, &records.into_keys().collect());
    assert!(wrong.is_empty(), "{FOLDER}README.md:\n{}", wrong.join("\n"));
}

/// Goal: the checks above can fail. Method: a citation of each form, an index with each fault, and records without a
/// part, out of order and with another number.
#[test]
fn planted_faults_of_decisions_are_found() {
    let cited = |text: &str, before: &[char]| {
        let found = citations(text, before, "0178").into_iter();
        found.map(|(number, file)| file.unwrap_or(number)).collect::<Vec<_>>()
    };
    for (text, expected) in [
        ("/// See decision 0020.", "0020"),
        ("/// as of the decision\n    /// 0020, which", "0020"),
        ("# docs/decisions/0003-grammar.md.", "0003-grammar.md"),
        ("Records 0020 say so", "0020"),
    ] {
        assert_eq!(cited(text, &[]), [expected], "{text}");
    }
    assert_eq!(cited("([0021](../decisions/0020-log.md))", &['(']), ["0020-log.md", "0021 as 0020"]);
    assert_eq!(cited("kept (0020) as 0021, with mode 0700 (0600)", &['(']), ["0020"]);
    assert_eq!(cited("kept (0020) as 0021, with mode 0700 (0600)", &['(', ' ']), ["0020", "0021"]);
    for text in
        ["decision 00201", "decisions 2 of 10", "records 4096 bytes", "at 0001-11-22", "x-0020-log.md", "(0020)"]
    {
        assert_eq!(cited(text, &[]), [""; 0], "{text}");
    }

    let files = BTreeSet::from(["0001-log.md".to_owned(), "0003-sql.md".to_owned()]);
    let good = "| [0001](0001-log.md) | the log |\n| [0003](0003-sql.md) | SQL |\n| 0002 | [0001](0001-log.md) |\n\
                No record ever had these numbers: 0004, 0005.\n";
    assert_eq!(index_faults(good, &files), [""; 0]);
    for (from, to, expected) in [
        ("| 0002 | [0001](0001-log.md) |\n", "", "0002: listed 0 times"),
        ("0004, 0005", "0003, 0005", "0003: listed 2 times"),
        ("| 0002 | [0001](0001-log.md) |", "| 0002 | [0001](0001-old.md) |", "0002: there is no file 0001-old.md"),
        (
            "| [0003](0003-sql.md) | SQL |",
            "| 0003 | [0001](0001-log.md) |",
            "0003-sql.md: no row of the index names it",
        ),
    ] {
        let wrong = index_faults(&good.replace(from, to), &files);
        assert!(wrong.iter().any(|fault| fault == expected), "{to}: {wrong:?}");
    }

    let record = format!("# 0001: the log\n{}", PARTS.map(|part| format!("{part}\nText.\n")).concat());
    assert_eq!(record_faults("0001-log.md", &record), [""; 0]);
    assert_eq!(record_faults("0002-log.md", &record).len(), 1);
    assert_eq!(record_faults("0001-log.md", &record.replace("## Alternatives", "## Others")).len(), 1);
    assert_eq!(record_faults("0001-log.md", &record.replace("Context", "X").replace("Decision", "Context")).len(), 1);
    let swapped = record.replace("Context", "X").replace("Decision", "Context").replace("## X", "## Decision");
    assert_eq!(record_faults("0001-log.md", &swapped).len(), 1);
}
