//! Checks that the benchmark runs and that its rows are complete. No test judges a figure, since that would make it
//! depend on the machine.

use crate::{Figure, Pace, Plan, Report, log_bench, subjects::ALL};

fn run(only: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let plan = Plan { only: vec![only.to_owned()], ..Plan::new(dir.path(), Pace::Touch) };
    let report = log_bench(&plan).unwrap();
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
    assert!(left.is_empty(), "files left behind: {left:?}");
    report
}

/// Checks the properties of every row (report T1, T2), and that each of `subjects` has a row.
fn check<'a>(report: &Report, subjects: impl IntoIterator<Item = &'a str>) {
    let section = &report.sections[0];
    for row in &section.rows {
        assert!(!row.level.is_empty() && !row.ring.is_empty() && !row.figures.is_empty(), "{row:?}");
        for (key, figure) in &row.figures {
            let units = [
                "_ns",
                "_us",
                "_ms",
                "_bytes",
                "_per_s",
                "_per_cpu_s",
                "_per_append",
                "_per_commit",
                "_per_record",
                "_per_frame",
            ];
            let counted = *key == "above_1ms_per_million";
            assert!(counted || units.iter().any(|unit| key.ends_with(unit)), "{key} carries no unit");
            if let Figure::Runs(spread) = figure {
                assert!(spread.median.is_finite() && spread.low >= 0.0, "{key} of {row:?}");
            }
        }
    }
    for subject in subjects {
        assert!(section.rows.iter().any(|row| row.subject == subject), "{subject} has no row");
    }
}

/// Goal: the in-memory sections have a row for every protocol, and no file is left. Method: a run of each at the pace
/// Touch.
#[test]
fn memory_sections_have_a_row_for_every_protocol() {
    check(&run("append"), ALL.map(|kind| kind.name()));
    check(&run("threads"), ALL.map(|kind| kind.name()));
    check(&run("frozen"), ALL[1..].iter().map(|kind| kind.name()));
}

/// Goal: the timed reads return every record that was written. Method: the section itself counts them.
#[test]
fn recovery_reads_back_what_was_written() {
    let subjects = [
        "read alone",
        "read and sum (floor)",
        "survey, every frame",
        "every record, visited",
        "every record, copied out",
        "every record, visited, mapped",
        "open after a crash, every record visited",
    ];
    check(&run("recovery"), subjects);
}

/// Goal: a misspelt section is an error that lists the right ones. Method: run with a misspelt name.
#[test]
fn unknown_section_is_refused() {
    let plan = Plan { only: vec!["apend".to_owned()], ..Plan::new(std::env::temp_dir().as_path(), Pace::Touch) };
    let error = log_bench(&plan).unwrap_err().to_string();
    assert!(error.starts_with("no section apend: use append, threads"), "{error}");
}
