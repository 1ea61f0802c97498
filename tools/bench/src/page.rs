//! Writes tables of a report into a document between two markers, so that figures in prose come from a run.
//!
//! The markers are comments on their own lines: `<!-- bench NAME begin -->` and `<!-- bench NAME end -->`.

use anyhow::Context;

use crate::{
    Figure, Report,
    report::{Row, digits},
    subjects::ALL,
};

/// Returns a table in Markdown; the first line has the headings.
pub fn markdown_table(lines: &[Vec<String>]) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        text.push_str(&format!("| {} |\n", line.join(" | ")));
        if at == 0 {
            text.push_str(&format!("|{}\n", "---|".repeat(line.len())));
        }
    }
    text
}

/// Returns `document` with `content` between the markers of `name`. If it has no markers yet, adds a section under
/// `heading` at its end.
///
/// # Errors
/// One of the two markers is missing, or they are in the wrong order.
pub fn write_between(document: &str, name: &str, heading: &str, content: &str) -> anyhow::Result<String> {
    let (begin, end) = (format!("<!-- bench {name} begin -->\n"), format!("<!-- bench {name} end -->\n"));
    if !document.contains(&begin) && !document.contains(&end) {
        return Ok(format!("{}\n\n## {heading}\n\n{begin}{content}{end}", document.trim_end()));
    }
    let from = document.find(&begin).with_context(|| format!("no line {}", begin.trim_end()))? + begin.len();
    let to = document[from..].find(&end).with_context(|| format!("no line {} behind it", end.trim_end()))? + from;
    Ok(format!("{}{content}{}", &document[..from], &document[to..]))
}

fn cell(row: Option<&Row>, key: &str, scale: f64) -> String {
    let Some((_, figure)) = row.and_then(|row| row.figures.iter().find(|(name, _)| *name == key)) else {
        return "-".to_owned();
    };
    match figure {
        Figure::Runs(spread) => digits(spread.median * scale),
        Figure::Count(count) => count.to_string(),
        Figure::Absent(why) => (*why).to_owned(),
    }
}

/// Returns the comparison of the protocols: cost alone, rate together, and the effect of one stopped appender on
/// others.
///
/// # Errors
/// The report lacks a section that the table needs.
pub fn protocols_table(report: &Report) -> anyhow::Result<String> {
    let rows =
        |name: &str| report.rows(name).with_context(|| format!("the table needs the section {name}: run it too"));
    let (append, threads, frozen) = (rows("append")?, rows("threads")?, rows("frozen")?);
    let find = |rows: &'static str, subject: &str, at: f64| {
        let rows = match rows {
            "append" => append,
            "threads" => threads,
            _ => frozen,
        };
        rows.iter().find(|row| row.subject == subject && row.at.is_none_or(|found| (found - at).abs() < 0.5))
    };
    let heads = [
        "protocol",
        "append 64 B, ns",
        "shared RMWs",
        "M appends/s, 1 thread",
        "2 threads",
        "32 threads",
        "128 threads",
        "longest append of others while one is stopped for 10 ms, ms",
    ];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    let name = |kind: crate::subjects::Kind| kind.name();
    for subject in ["copy alone (floor)"].into_iter().chain(ALL.map(name)) {
        // The floor for many threads takes its positions from one counter.
        let together = if subject == "copy alone (floor)" { "fetch-add and copy (floor)" } else { subject };
        let alone = find("append", subject, 64.0);
        let mut line =
            vec![subject.to_owned(), cell(alone, "append_ns", 1.0), cell(alone, "shared_rmws_per_append", 1.0)];
        for count in [1.0, 2.0, 32.0, 128.0] {
            line.push(cell(find("threads", together, count), "appends_per_s", 1e-6));
        }
        line.push(cell(find("frozen", subject, 10.0), "append_max_us", 1e-3));
        lines.push(line);
    }
    let machine = &report.machine;
    let intro = format!("Medians of {} runs on {machine}; ring of 16 MiB, null sink, level memory.\n\n", report.runs);
    let protocols = markdown_table(&lines);
    Ok(format!("{intro}{protocols}"))
}

/// Returns each section with its question, rows and notes.
pub fn sections_in_markdown(report: &Report) -> String {
    let (met, all) = report.verdicts();
    let mut text = format!(
        "Medians of {} runs (lowest..highest) on {}. Targets met: {met} of {all}.\n",
        report.runs, report.machine
    );
    for section in &report.sections {
        let question = &section.question;
        text.push_str(&format!("\n### {}\n\n{}{}\n\n", section.name, question[..1].to_uppercase(), &question[1..]));
        if !section.rows.is_empty() {
            text.push_str(&markdown_table(&section.cells()));
        }
        if !section.notes.is_empty() {
            text.push('\n');
        }
        for note in &section.notes {
            text.push_str(&format!("- {note}\n"));
        }
        if let Some(failure) = &section.failure {
            text.push_str(&format!("FAILED: {}\n", failure.replace('\n', " ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every section has its rows with their verdicts, and its notes. Method: three sections, one without rows,
    /// and one that failed.
    #[test]
    fn markdown_has_verdicts_and_sections() {
        let mut hot = crate::Section::new("hot-row", "how many?");
        let row = Row::new("collie", "64 clients", "disk", "ring").runs("commits_per_s", &[5.0, 4.0, 6.0]);
        hot.rows.push(row.beside("PostgreSQL", 12.0).target(">= 20x", false).target("none lost", true));
        let mut empty = crate::Section::new("mixes", "what?");
        empty.notes.push("no server".to_owned());
        let broken = crate::Section { failure: Some("no\nlog".to_owned()), ..crate::Section::new("commits", "many?") };
        let machine = crate::Machine::of_tests();
        let text = sections_in_markdown(&Report { machine, runs: 3, sections: vec![hot, empty, broken] });
        assert!(
            text.starts_with("Medians of 3 runs (lowest..highest) on 2 cores, p; kernel k; f. Targets met: 1 of 2.")
        );
        for line in [
            "### hot-row\n\nHow many?",
            "| collie | 64 clients | disk | ring | 5.00 (4.00..6.00) | 12.0x PostgreSQL | LOST >= 20x; ok none lost |",
            "### mixes\n\nWhat?\n\n\n- no server\n",
            "### commits\n\nMany?\n\nFAILED: no log\n",
        ] {
            assert!(text.contains(line), "no {line} in\n{text}");
        }
    }

    /// Goal: only the text between the markers of that name changes, and a second write changes nothing; without
    /// markers a section is added. Method: a document with two pairs; with none; with one marker only; swapped.
    #[test]
    fn writing_touches_only_its_own_place() {
        let document =
            "a\n<!-- bench x begin -->\nold\n<!-- bench x end -->\nb\n<!-- bench y begin -->\n<!-- bench y end -->\n";
        let once = write_between(document, "x", "X", "new\n").unwrap();
        assert_eq!(once, document.replace("old", "new"));
        assert_eq!(write_between(&once, "x", "X", "new\n").unwrap(), once);
        let added = write_between("a\n", "x", "X", "new\n").unwrap();
        assert_eq!(added, "a\n\n## X\n\n<!-- bench x begin -->\nnew\n<!-- bench x end -->\n");
        assert_eq!(write_between(&added, "x", "X", "new\n").unwrap(), added);
        let half = write_between("<!-- bench x begin -->\n", "x", "X", "").unwrap_err().to_string();
        assert!(half.contains("bench x end"), "{half}");
        assert!(write_between("<!-- bench x end -->\n<!-- bench x begin -->\n", "x", "X", "").is_err());
    }

    /// Goal: a table in Markdown has its rule below the headings. Method: two lines.
    #[test]
    fn table_has_a_rule_under_its_headings() {
        let lines = [["a", "b"], ["1", "2"]].map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(markdown_table(&lines), "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
