//! `replication_targets`: the findings of `collie-bench replication` in a short table, for a page without room for
//! more.

use super::sync::ALONE;
use crate::page::markdown_table;
use crate::report::{Figure, Row, digits};
use crate::{Report, Section};

/// One line: figures of one case, with their targets.
struct Line {
    section: &'static str,
    /// The beginning of the case's name.
    case: &'static str,
    what: &'static str,
    asked: &'static str,
    figures: &'static [Found],
}

/// The source of a figure in a row.
#[derive(Clone, Copy)]
enum Found {
    /// Under a key, multiplied by a number, followed by a unit.
    Key(&'static str, f64, &'static str),
    /// The ratio to a durable commit without a replica, in percent.
    Beside,
}

const fn line(
    section: &'static str,
    case: &'static str,
    (what, asked): (&'static str, &'static str),
    figures: &'static [Found],
) -> Line {
    Line { section, case, what, asked, figures }
}

const P99_RATIO: &[Found] = &[Found::Key("p99_ratio", 1.0, "x")];

const LINES: [Line; 10] = [
    line(
        "time",
        "80 %",
        ("delay at 80 % of the peak of TPC-C, as a client sees it: mean, p99", "1 ms, 5 ms"),
        &[Found::Key("seen_mean_us", 1e-3, " ms"), Found::Key("seen_p99_us", 1e-3, " ms")],
    ),
    line(
        "sync",
        "local, a replica, not waited for, 32",
        ("durable commits with a replica that nobody waits for, 32 clients", "90 % of none"),
        &[Found::Beside],
    ),
    line(
        "sync",
        "remote_apply, a replica, waited for, 32",
        ("commits at `remote_apply`, 32 clients", "80 % of no replica"),
        &[Found::Beside],
    ),
    line(
        "capacity",
        "TPC-C",
        ("replay of TPC-C's log, by the peak that wrote it", "1.2x"),
        &[Found::Key("peak_ratio", 1.0, "x")],
    ),
    line(
        "capacity",
        "one hot row",
        ("replay of one hot row's log, by the peak that wrote it", "1.0x"),
        &[Found::Key("peak_ratio", 1.0, "x")],
    ),
    line("catchup", "comes back", ("a replica 1 GiB behind is even", "30 s"), &[Found::Key("even_s", 1.0, " s")]),
    line("catchup", "comes back", ("New-Order's p99 meanwhile", "1.2x"), P99_RATIO),
    line("catchup", "filled anew", ("New-Order's p99 beside a base backup", "1.2x"), P99_RATIO),
    line("failover", "", ("from a kill to the first write on the other", "3 s"), &[Found::Key("written_s", 1.0, " s")]),
    line("failover", "", ("answered commits that are lost then", "0"), &[Found::Key("lost_commits", 1.0, "")]),
];

impl Found {
    fn text(self, row: &Row) -> Option<String> {
        match self {
            Self::Beside => {
                let beside = row.beside.iter().find(|beside| beside.what == ALONE)?;
                Some(format!("{:.0} %", beside.ratio * 100.0))
            }
            Self::Key(key, scale, unit) => match &row.figures.iter().find(|(name, _)| *name == key)?.1 {
                Figure::Runs(spread) if spread.low == spread.high => {
                    Some(format!("{}{unit}", digits(spread.median * scale)))
                }
                Figure::Runs(spread) => {
                    let [median, low, high] = [spread.median, spread.low, spread.high].map(|of| digits(of * scale));
                    Some(format!("{median}{unit} ({low} to {high})"))
                }
                Figure::Count(count) => Some(format!("{count}{unit}")),
                Figure::Absent(_) => None,
            },
        }
    }
}

impl Line {
    /// Returns the figures of a product; `None` if they were not measured.
    fn found(&self, section: &Section, is_peer: bool) -> Option<String> {
        let is_subject = |row: &&Row| {
            if is_peer { row.subject == crate::servers::PEER } else { row.subject.starts_with("collie") }
        };
        let fits = |row: &&Row| {
            let has = |found: &Found| found.text(row).is_some();
            row.subject != "floor" && row.case.starts_with(self.case) && self.figures.iter().all(has)
        };
        let rows = || section.rows.iter().filter(is_subject).filter(fits);
        // Of several rows, the one with targets: that of the pair that users get.
        let row = rows().find(|row| !row.targets.is_empty()).or_else(|| rows().next())?;
        let texts: Vec<String> = self.figures.iter().filter_map(|found| found.text(row)).collect();
        Some(texts.join(", "))
    }
}

/// Returns a table of the targets and figures that the report contains, with the machine.
pub fn replication_targets(report: &Report) -> String {
    let heads = ["replication", "target", "Collie", crate::servers::PEER];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for line in &LINES {
        let Some(section) = report.sections.iter().find(|section| section.name == line.section) else { continue };
        let Some(ours) = line.found(section, false) else { continue };
        let theirs = line.found(section, true).unwrap_or_else(|| "-".to_owned());
        lines.push(vec![line.what.to_owned(), line.asked.to_owned(), ours, theirs]);
    }
    let intro = format!("From `collie-bench replication`, medians of {} runs on {}:\n\n", report.runs, report.machine);
    intro + &markdown_table(&lines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    /// Goal: a line has the figure of the row that users get, and PostgreSQL's next to it; figures that were not
    /// measured are left out. Method: a report with two of the questions, one without PostgreSQL, several rows of
    /// Collie.
    #[test]
    fn the_table_has_what_the_report_has() {
        let mut sync = Section::new("sync", "?");
        for (subject, ratio) in [("collie", 0.91), ("PostgreSQL", 0.7)] {
            let case = "remote_apply, a replica, waited for, 32 clients";
            sync.rows
                .push(Row::new(subject, case, "remote_apply", "-").beside("p50: a flush", 3.0).beside(ALONE, ratio));
        }
        let mut capacity = Section::new("capacity", "?");
        for (workers, ratio) in [(1.0, [0.7, 0.8, 0.9]), (2.0, [1.1, 1.2, 1.3])] {
            let mut row = Row::new("collie, TPC-C", "TPC-C: replay", "memory", "-").at(workers);
            row = row.runs("peak_ratio", &ratio);
            capacity.rows.push(if workers > 1.0 { row.target(">= 1.2x", true) } else { row });
        }
        let machine = Machine::of_tests();
        let text = replication_targets(&Report { machine, runs: 3, sections: vec![sync, capacity] });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 2 + 2, "{text}");
        assert!(lines[0].contains("medians of 3 runs on 2 cores, p"), "{text}");
        assert_eq!(lines[4], "| commits at `remote_apply`, 32 clients | 80 % of no replica | 91 % | 70 % |");
        assert!(lines[5].ends_with("| 1.2x | 1.20x (1.10 to 1.30) | - |"), "{text}");
    }
}
