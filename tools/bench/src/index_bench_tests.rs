//! Checks that the benchmark of indexes runs and that its rows are complete. No test judges a figure, since that would
//! make it depend on the machine. The section that needs a separate process is tested with the program, in
//! `crates/cli/tests/bench.rs`.

use crate::{Figure, Pace, Plan, Report, index_bench, index_memory};

fn run(only: &str) -> Report {
    let plan = Plan { only: vec![only.to_owned()], ..Plan::new(std::env::temp_dir().as_path(), Pace::Touch) };
    index_bench(&plan).unwrap()
}

/// Checks the properties of every row (report T1, T2), the number of rows, and that all but the floor are compared with
/// it.
fn check(report: &Report, rows: usize) {
    let section = &report.sections[0];
    assert_eq!(section.rows.len(), rows, "{section:?}");
    let beside = section.rows.iter().filter(|row| !row.beside.is_empty()).count();
    assert_eq!(beside, rows / 3 * 2, "all but the floor stand beside it");
    for (key, figure) in section.rows.iter().flat_map(|row| &row.figures) {
        assert!(key.ends_with("_per_s") || key.ends_with("_ns"), "{key} carries no unit");
        assert!(matches!(figure, Figure::Runs(spread) if spread.low >= 0.0), "{key}: {figure:?}");
    }
}

/// Goal: every candidate answers every case and loses no row. Method: a run of each section at the pace Touch.
#[test]
fn every_candidate_answers_every_case() {
    check(&run("fill"), 3 * 2 * 6);
    check(&run("look"), 3 * 2 * 12);
    check(&run("churn"), 3 * 2 * 6);
}

/// Goal: memory is reported per key, and the arguments are checked. Method: a small index; a name that no candidate
/// has.
#[test]
fn memory_is_told_by_key() {
    let plan = Plan::new(std::env::temp_dir().as_path(), Pace::Touch);
    let ask = |name: &str| index_memory(&plan, &[name, "16", "20000", "20"].map(str::to_owned));
    let figures: Vec<f64> = ask("one lock (floor)").unwrap().split(' ').map(|figure| figure.parse().unwrap()).collect();
    assert!(figures.len() == 3 && figures.iter().all(|bytes| *bytes < 10_000.0), "{figures:?}");
    assert_eq!(ask("two locks").unwrap_err().to_string(), "no candidate two locks");
    let report = run("memory");
    assert_eq!(report.sections[0].notes, ["nothing was measured: no program was named"]);
}

/// Goal: a misspelt section is an error that lists the right ones. Method: run with a misspelt name.
#[test]
fn unknown_section_is_refused() {
    let plan = Plan { only: vec!["fil".to_owned()], ..Plan::new(std::env::temp_dir().as_path(), Pace::Touch) };
    let error = index_bench(&plan).unwrap_err().to_string();
    assert_eq!(error, "no section fil: use fill, look, churn, memory");
}
