//! `Report`: the rows of a benchmark, as an aligned table and as JSON.
//!
//! # What always holds
//! - T1. Every row names its level and ring, and says what it is compared with, or that it is the floor or peer itself.
//! - T2. A key carries its unit: `_ns`, `_us`, `_bytes`, `_per_s`, `_per_append` and so on.
//! - T3. A row with a target says whether it is met; one that is not is marked `LOST` in the table and `false` in JSON.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use crate::{Machine, Spread};

/// One figure of a row.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Figure {
    /// Measured in several runs.
    Runs(Spread),
    /// Known by construction, or measured once.
    Count(u64),
    /// The reason why it is missing.
    Absent(#[serde(serialize_with = "as_absent")] &'static str),
}

/// What a row is compared with.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// The floor or peer, as its own row names it.
    pub what: String,
    /// This row's figure divided by the other's.
    pub ratio: f64,
}

/// A target for a figure.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The target in words.
    pub text: String,
    /// Whether it was reached.
    pub met: bool,
}

/// One measured case of one subject.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The subject.
    pub subject: String,
    /// The load.
    pub case: String,
    /// The number by which the cases differ (bytes, threads, clients, milliseconds): the x of a plot.
    pub at: Option<f64>,
    /// How far a commit waits.
    pub level: &'static str,
    /// The memory that holds the records.
    pub ring: String,
    /// The figures by key.
    #[serde(serialize_with = "as_map")]
    pub figures: Vec<(&'static str, Figure)>,
    /// Its comparisons; empty for a floor or peer.
    pub beside: Vec<Beside>,
    /// Its targets.
    pub targets: Vec<Target>,
}

impl Row {
    /// Starts a row without figures.
    pub fn new(
        subject: impl Into<String>,
        case: impl Into<String>,
        level: &'static str,
        ring: impl Into<String>,
    ) -> Self {
        let (subject, case, ring) = (subject.into(), case.into(), ring.into());
        Self { subject, case, at: None, level, ring, figures: Vec::new(), beside: Vec::new(), targets: Vec::new() }
    }

    /// Sets the number by which this case differs from its neighbours.
    #[must_use]
    pub fn at(mut self, at: f64) -> Self {
        self.at = Some(at);
        self
    }

    /// Adds the figure of several runs.
    #[must_use]
    pub fn runs(mut self, key: &'static str, values: &[f64]) -> Self {
        self.figures.push((key, Figure::Runs(Spread::of(values))));
        self
    }

    /// Adds any figure.
    #[must_use]
    pub fn figure(mut self, key: &'static str, figure: Figure) -> Self {
        self.figures.push((key, figure));
        self
    }

    /// Says why a figure is missing.
    #[must_use]
    pub fn absent(self, key: &'static str, why: &'static str) -> Self {
        self.figure(key, Figure::Absent(why))
    }

    /// Adds a comparison.
    #[must_use]
    pub fn beside(mut self, what: impl Into<String>, ratio: f64) -> Self {
        self.beside.push(Beside { what: what.into(), ratio });
        self
    }

    /// Adds a comparison, if there is one.
    #[must_use]
    pub fn beside_if(self, what: impl Into<String>, ratio: Option<f64>) -> Self {
        match ratio {
            Some(ratio) => self.beside(what, ratio),
            None => self,
        }
    }

    /// Adds the figure of several runs, `figure` of each.
    #[must_use]
    pub fn each<T>(self, key: &'static str, runs: &[T], figure: impl Fn(&T) -> f64) -> Self {
        self.runs(key, &runs.iter().map(figure).collect::<Vec<_>>())
    }

    /// Adds a target, and whether it was met.
    #[must_use]
    pub fn target(mut self, text: impl Into<String>, met: bool) -> Self {
        self.targets.push(Target { text: text.into(), met });
        self
    }

    /// Returns the median of a figure, if it has one.
    pub fn median(&self, key: &str) -> Option<f64> {
        self.figures.iter().find(|(name, _)| *name == key).and_then(|(_, figure)| match figure {
            Figure::Runs(spread) => Some(spread.median),
            #[expect(clippy::cast_precision_loss, reason = "counts are small")]
            Figure::Count(count) => Some(*count as f64),
            Figure::Absent(_) => None,
        })
    }
}

/// Rows that answer one question.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// Its name on the command line and in JSON.
    pub name: &'static str,
    /// Its question, in one line.
    pub question: String,
    /// The answers.
    pub rows: Vec<Row>,
    /// Parts that were left out, and why.
    pub notes: Vec<String>,
    /// Why it has no rows: it was started and could not be completed.
    pub failure: Option<String>,
}

impl Section {
    /// Starts a section without rows.
    pub fn new(name: &'static str, question: impl Into<String>) -> Self {
        Self { name, question: question.into(), rows: Vec::new(), notes: Vec::new(), failure: None }
    }
}

/// All results of one run of a benchmark.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The machine.
    pub machine: Machine,
    /// The number of runs of each case.
    #[serde(rename = "runs_per_case")]
    pub runs: usize,
    /// The sections.
    pub sections: Vec<Section>,
}

/// Formats a number with about three digits, in thousands, millions or billions if it is large.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    let (value, unit) = match size {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 0.1 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}{unit}")
}

impl Report {
    /// Returns the rows of the section `name`, if it was run.
    pub fn rows(&self, name: &str) -> Option<&[Row]> {
        self.sections.iter().find(|section| section.name == name).map(|section| section.rows.as_slice())
    }
}

impl std::fmt::Display for Figure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Runs(Spread { median, low, high }) if low == high => write!(f, "{}", digits(*median)),
            Self::Runs(Spread { median, low, high }) => {
                write!(f, "{} ({}..{})", digits(*median), digits(*low), digits(*high))
            }
            Self::Count(count) => write!(f, "{count}"),
            Self::Absent(why) => f.write_str(why),
        }
    }
}

fn joined<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    if items.is_empty() { "-".to_owned() } else { items.iter().map(text).collect::<Vec<_>>().join("; ") }
}

impl Section {
    /// Returns the cells of the table, headings first.
    pub(crate) fn cells(&self) -> Vec<Vec<String>> {
        let mut keys = Vec::new();
        for (key, _) in self.rows.iter().flat_map(|row| &row.figures) {
            if !keys.contains(key) {
                keys.push(*key);
            }
        }
        let fixed = ["subject", "case", "level", "ring"].map(str::to_owned);
        let mut cells = vec![fixed.to_vec()];
        cells[0].extend(keys.iter().map(|key| (*key).to_owned()));
        cells[0].extend(["beside", "target"].map(str::to_owned));
        for row in &self.rows {
            let mut line = vec![row.subject.clone(), row.case.clone(), row.level.to_owned(), row.ring.clone()];
            for key in &keys {
                let figure = row.figures.iter().find(|(name, _)| name == key);
                line.push(figure.map_or_else(|| "-".to_owned(), |(_, figure)| figure.to_string()));
            }
            line.push(joined(&row.beside, |beside| format!("{}x {}", digits(beside.ratio), beside.what)));
            line.push(joined(&row.targets, |target| {
                format!("{} {}", if target.met { "ok" } else { "LOST" }, target.text)
            }));
            cells.push(line);
        }
        cells
    }

    fn write_table(&self, text: &mut String) {
        let cells = self.cells();
        let columns = cells[0].len();
        let width = |column: usize| cells.iter().map(|line| line[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for line in &cells {
            let mut out = String::new();
            for (at, (cell, width)) in line.iter().zip(&widths).enumerate() {
                // Words are aligned to the left, figures to the right.
                if at < 4 || at + 2 >= columns {
                    let _infallible = write!(out, "{cell:width$}  ");
                } else {
                    let _infallible = write!(out, "{cell:>width$}  ");
                }
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
    }
}

impl Report {
    /// Returns the aligned tables.
    pub fn table(&self) -> String {
        let mut text = format!("machine: {}\n{} runs a case: median (lowest..highest)\n", self.machine, self.runs);
        for section in &self.sections {
            let _infallible = write!(text, "\n{}: {}\n", section.name, section.question);
            section.write_table(&mut text);
            for note in &section.notes {
                let _infallible = writeln!(text, "note: {note}");
            }
            if let Some(failure) = &section.failure {
                let _infallible = writeln!(text, "FAILED: {failure}");
            }
        }
        let (met, all) = self.verdicts();
        let _infallible = writeln!(text, "\ntargets met: {met} of {all}");
        text
    }

    /// Returns how many targets were met, out of how many.
    pub fn verdicts(&self) -> (usize, usize) {
        let targets = || self.sections.iter().flat_map(|section| &section.rows).flat_map(|row| &row.targets);
        (targets().filter(|target| target.met).count(), targets().count())
    }

    /// Returns a separate report for each section.
    pub fn by_section(&self) -> Vec<Self> {
        let one = |section: &Section| Self { sections: vec![section.clone()], ..self.clone() };
        self.sections.iter().map(one).collect()
    }

    /// Returns the sections that could not be completed.
    pub fn failed(&self) -> Vec<&'static str> {
        self.sections.iter().filter(|section| section.failure.is_some()).map(|section| section.name).collect()
    }

    /// Returns everything as JSON; keys carry units (T2).
    ///
    /// # Errors
    /// None that is known.
    pub fn json(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

fn as_absent<S: Serializer>(why: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map([("absent", why)])
}

fn as_map<S: Serializer>(figures: &[(&'static str, Figure)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(key, figure)| (key, figure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut section = Section::new("append", "what does one record cost?");
        section.rows.push(Row::new("floor", "64 B", "memory", "-").runs("append_ns", &[5.0, 4.0, 6.0]));
        let lost = Row::new("log", "64 B", "memory", "16 MiB").runs("append_ns", &[21.0]);
        section.rows.push(lost.beside("floor", 4.2).target("<= 20 ns", false).target("1 RMW", true));
        section.notes.push("instructions are not available".to_owned());
        let machine = Machine::of_tests();
        Report { machine, runs: 3, sections: vec![section] }
    }

    /// Goal: the table is aligned, names the machine, shows the spread, and marks a lost row. Method: a small report.
    #[test]
    fn table_is_aligned_and_marks_what_was_lost() {
        let table = report().table();
        assert!(table.starts_with("machine: 2 cores, p; kernel k; f\n3 runs"), "{table}");
        assert!(table.contains("5.00 (4.00..6.00)") && table.contains("4.20x floor"), "{table}");
        assert!(table.contains("LOST <= 20 ns; ok 1 RMW") && table.contains("targets met: 1 of 2"), "{table}");
        let column = |line: &str| line.find("memory").or(line.find("level"));
        let columns: Vec<_> = table.lines().filter_map(column).collect();
        assert_eq!(columns.len(), 3);
        assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{table}");
    }

    /// Goal: JSON holds the same figures under keys with units. Method: the same report, read back.
    #[test]
    fn json_has_figures_and_verdicts() {
        let json: serde_json::Value = serde_json::from_str(&report().json().unwrap()).unwrap();
        let row = &json["sections"][0]["rows"][1];
        assert_eq!(row["figures"]["append_ns"]["median"], 21.0);
        assert_eq!((row["targets"][0]["met"].as_bool(), json["machine"]["cores"].as_u64()), (Some(false), Some(2)));
    }

    /// Goal: numbers are readable at a glance. Method: one of each size.
    #[test]
    fn digits_are_few() {
        let shown: Vec<_> =
            [0.0, 0.04, 1.234, 12.34, 123.4, 1234.0, 12_345.0, 1_234_567.8, 2e9, -5.0].map(digits).into();
        assert_eq!(shown, ["0.00", "0.040", "1.23", "12.3", "123", "1234", "12.3k", "1.23M", "2.00G", "-5.00"]);
    }
}
