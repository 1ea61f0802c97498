//! The comparison for a document: a line per log, a column per level and number of threads.

use collie_bench::{Figure, Report, Row, markdown_table};

const COLUMNS: [(&str, f64, &str); 7] = [
    ("disk", 1.0, "disk, 1 thread"),
    ("disk", 8.0, "8"),
    ("disk", 32.0, "32"),
    ("process", 1.0, "process, 1"),
    ("process", 32.0, "32"),
    ("memory", 1.0, "memory, 1"),
    ("memory", 32.0, "32"),
];

fn cell(row: Option<&Row>) -> String {
    match row.and_then(|row| row.figures.first()) {
        Some((_, Figure::Runs(spread))) if spread.median < 99_500.0 => format!("{:.1}", spread.median / 1000.0),
        Some((_, Figure::Runs(spread))) => format!("{:.0}", spread.median / 1000.0),
        Some((_, Figure::Absent(why))) => (*why).to_owned(),
        Some((_, Figure::Count(count))) => count.to_string(),
        None => "-".to_owned(),
    }
}

/// Returns the comparison as Markdown.
pub(crate) fn peers(report: &Report) -> String {
    let rows = report.rows("peers").unwrap_or(&[]);
    let mut subjects: Vec<&str> = Vec::new();
    for row in rows {
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
    }
    let mut lines = vec![["log"].into_iter().chain(COLUMNS.map(|column| column.2)).map(str::to_owned).collect()];
    for subject in subjects {
        let find = |level: &str, at: f64| {
            let mine = || rows.iter().filter(|row| row.subject == subject);
            mine().find(|row| row.level == level && row.at == Some(at)).or_else(|| mine().find(|row| row.at.is_none()))
        };
        let mut line = vec![subject.to_owned()];
        line.extend(COLUMNS.map(|(level, at, _)| cell(find(level, at))));
        lines.push(line);
    }
    let intro = format!(
        "Thousand records of 100 B per second, by level and threads; medians of {} runs on {}. `-`: no such level.\n\n",
        report.runs, report.machine
    );
    intro + &markdown_table(&lines)
}
