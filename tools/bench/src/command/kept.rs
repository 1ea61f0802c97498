//! [`Kept`]: the files that keep a benchmark's report: JSON, plots, a part of a document.
//!
//! Where questions take long and are asked one at a time ([`Part::questions`]), each has its own place, in the JSON as
//! well as in the document: asking one leaves the figures of the others as they are. Elsewhere a report replaces the
//! one before.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context;
use collie_bench::{
    Report, TRAINING_QUESTIONS, draw, protocols_table, replication_targets, sections_in_markdown, write_between,
};
use serde_json::{Value, json};

/// The places to which a report goes in addition to standard output.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) json: Option<PathBuf>,
    pub(super) plots: Option<PathBuf>,
    pub(super) readme: Option<PathBuf>,
}

/// A part of a document that a benchmark writes.
pub(super) struct Part {
    name: &'static str,
    heading: &'static str,
    /// The questions that have their own place each; empty: one place for all.
    questions: &'static [&'static str],
    text: fn(&Report) -> anyhow::Result<String>,
}

const fn part(name: &'static str) -> Part {
    Part { name, heading: "Figures", questions: &[], text: |report| Ok(sections_in_markdown(report)) }
}

pub(super) const LOG: Part =
    Part { heading: "Compared with other protocols", text: protocols_table, ..part("protocols") };
pub(super) const TXN: Part = part("txn");
pub(super) const KV: Part = part("kv");
pub(super) const TPCC: Part = part("tpcc");
pub(super) const REPLICATION: Part = part("replication");
pub(super) const REPLICATION_TARGETS: Part =
    Part { heading: "Replication", text: |report| Ok(replication_targets(report)), ..part("replication-targets") };
pub(super) const TRAINING: Part = Part { questions: &TRAINING_QUESTIONS, ..part("training") };
pub(super) const INDEX: Part = part("index");

impl Part {
    /// Returns the name and the heading of a place.
    fn place(&self, question: Option<&str>) -> (String, String) {
        match question {
            Some(question) => (format!("{} {question}", self.name), format!("{} of `{question}`", self.heading)),
            None => (self.name.to_owned(), self.heading.to_owned()),
        }
    }

    /// Checks that a report can be written into `document`.
    ///
    /// # Errors
    /// One of the two markers of a place is missing, or they are in the wrong order.
    fn check(&self, document: &str) -> anyhow::Result<()> {
        let places =
            if self.questions.is_empty() { vec![None] } else { self.questions.iter().copied().map(Some).collect() };
        for (name, heading) in places.into_iter().map(|question| self.place(question)) {
            write_between(document, &name, &heading, "")?;
        }
        Ok(())
    }

    /// Returns `document` with the text of `report` in its places.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); the report lacks data that the text needs.
    fn write(&self, document: &str, report: &Report) -> anyhow::Result<String> {
        if self.questions.is_empty() {
            let (name, heading) = self.place(None);
            return write_between(document, &name, &heading, &(self.text)(report)?);
        }
        report.by_section().iter().try_fold(document.to_owned(), |document, one| {
            let (name, heading) = self.place(one.sections.first().map(|section| section.name));
            write_between(&document, &name, &heading, &(self.text)(one)?)
        })
    }

    /// Returns a report as JSON, merged into `before`, the present text of the file, if it exists.
    ///
    /// # Errors
    /// `before` was not written by this function.
    fn json(&self, report: &Report, before: Option<&str>) -> anyhow::Result<Value> {
        let new = report.json();
        if self.questions.is_empty() {
            return Ok(new);
        }
        let mut all = before.map_or(Ok(Vec::new()), sections)?;
        for mut section in new["sections"].as_array().cloned().unwrap_or_default() {
            for key in ["machine", "runs_per_case"] {
                section[key] = new[key].clone();
            }
            match all.iter_mut().find(|other| other["name"] == section["name"]) {
                Some(place) => *place = section,
                None => all.push(section),
            }
        }
        Ok(json!({ "sections": all }))
    }
}

/// Returns the sections of a kept report.
fn sections(text: &str) -> anyhow::Result<Vec<Value>> {
    let kept: Value = serde_json::from_str(text)?;
    kept["sections"].as_array().cloned().context("it has no sections")
}

/// A document of which a part is rewritten, with its text as it was before.
pub(super) struct Document {
    part: &'static Part,
    path: PathBuf,
    text: String,
}

impl Document {
    /// Reads the document before the measurement, so that one that cannot be written does not cost half an hour.
    ///
    /// # Errors
    /// It cannot be read; those of [`Part::check`].
    pub(super) fn read(path: Option<PathBuf>, part: &'static Part) -> anyhow::Result<Option<Self>> {
        path.map(|path| {
            let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            part.check(&text).with_context(|| format!("in {}", path.display()))?;
            Ok(Self { part, path, text })
        })
        .transpose()
    }

    /// Writes the document with the text of `report`.
    ///
    /// # Errors
    /// Those of the file system; the report lacks data that the text needs.
    pub(super) fn write(&self, report: &Report) -> anyhow::Result<()> {
        let text = self.part.write(&self.text, report)?;
        std::fs::write(&self.path, text).with_context(|| format!("cannot write {}", self.path.display()))
    }
}

/// The places to which a report goes, checked before the measurement.
pub(super) struct Keeper {
    part: &'static Part,
    json: Option<PathBuf>,
    plots: Option<PathBuf>,
    document: Option<Document>,
}

impl Kept {
    /// Checks the files that exist.
    ///
    /// # Errors
    /// Those of [`Document::read`]; the JSON was not written by this benchmark.
    pub(super) fn read(self, part: &'static Part) -> anyhow::Result<Keeper> {
        if let Some(path) = self.json.as_deref().filter(|_| !part.questions.is_empty()) {
            let other =
                || format!("{} was not written by `collie-bench {}`: name another file", path.display(), part.name);
            read_json(path)?.map_or(Ok(Vec::new()), |text| sections(&text)).with_context(other)?;
        }
        Ok(Keeper { part, json: self.json, plots: self.plots, document: Document::read(self.readme, part)? })
    }
}

impl Keeper {
    /// Prints a report and writes the requested files.
    ///
    /// # Errors
    /// Those of the file system; a section failed.
    pub(super) fn keep(&self, report: &Report) -> anyhow::Result<ExitCode> {
        print(&report.table())?;
        if let Some(path) = &self.json {
            write_json(report, self.part, path)?;
        }
        if let Some(dir) = &self.plots {
            for path in draw(report, dir)? {
                print(&format!("drawn: {}\n", path.display()))?;
            }
        }
        self.document.iter().try_for_each(|document| document.write(report))?;
        // Only after the writing, so that the results of the other sections are kept.
        anyhow::ensure!(report.failed().is_empty(), "not measured to the end: {}", report.failed().join(", "));
        Ok(ExitCode::SUCCESS)
    }
}

/// Reports that one more question is answered, and keeps the figures so far, whatever happens to the remaining
/// questions.
///
/// # Errors
/// Those of the file system.
pub(super) fn keep_so_far(so_far: &Report, part: &Part, json: Option<&Path>) -> anyhow::Result<()> {
    let name = so_far.sections.last().map_or("nothing", |section| section.name);
    eprintln!("{name}: answered");
    json.map_or(Ok(()), |path| write_json(so_far, part, path))
}

fn read_json(path: &Path) -> anyhow::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write_json(report: &Report, part: &Part, path: &Path) -> anyhow::Result<()> {
    let before = if part.questions.is_empty() { None } else { read_json(path)? };
    let text = format!("{:#}\n", part.json(report, before.as_deref())?);
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Prints to standard output; a reader that closes its end early, such as head, is no error.
///
/// # Errors
/// Any other error of standard output.
pub(super) fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

#[cfg(test)]
mod tests {
    use collie_bench::{Machine, Row, Section};

    use super::*;

    fn report(runs: usize, sections: &[(&'static str, &[f64])]) -> Report {
        let machine = Machine::of(Path::new("."));
        let section = |(name, values): &(&'static str, &[f64])| {
            let rows = vec![Row::new("collie", "all", "disk", "ring").runs("commits_per_s", values)];
            Section { rows, ..Section::new(name, "how many?") }
        };
        Report { machine, runs, sections: sections.iter().map(section).collect() }
    }

    /// Goal: a question that is asked again has its figures replaced; those of the others stay, in JSON and in the
    /// document. Method: two questions at once, then the first alone.
    #[test]
    fn questions_have_places_of_their_own() {
        let (both, again) = (report(3, &[("rate", &[7.0]), ("time", &[8.0])]), report(5, &[("rate", &[9.0])]));
        let text = TRAINING.write("# Training\n", &both).unwrap();
        TRAINING.check(&text).unwrap();
        let text = TRAINING.write(&text, &again).unwrap();
        let place = |name: &str| {
            let (begin, end) =
                (format!("<!-- bench training {name} begin -->"), format!("<!-- bench training {name} end -->"));
            text[text.find(&begin).unwrap()..text.find(&end).unwrap()].to_owned()
        };
        assert!(text.contains("## Figures of `rate`\n") && place("rate").contains("Medians of 5 runs"), "{text}");
        assert!(place("rate").contains("| 9.00 |") && !text.contains("| 7.00 |"), "{text}");
        assert!(place("time").contains("| 8.00 |") && place("time").contains("Medians of 3 runs"), "{text}");

        let json = TRAINING.json(&both, None).unwrap();
        let json = TRAINING.json(&again, Some(&json.to_string())).unwrap();
        let of = |at: usize| {
            let section = &json["sections"][at];
            let median = section["rows"][0]["figures"]["commits_per_s"]["median"].as_f64();
            (section["name"].as_str(), section["runs_per_case"].as_u64(), median)
        };
        assert_eq!(of(0), (Some("rate"), Some(5), Some(9.0)));
        assert_eq!(of(1), (Some("time"), Some(3), Some(8.0)));
        assert_eq!(json["sections"].as_array().unwrap().len(), 2);
    }

    /// Goal: with one place for all, a report replaces the one before. A file that is no report, and half a place, are
    /// found before anything is measured. Method: each case.
    #[test]
    fn what_is_there_is_looked_at_before() {
        let json = KV.json(&report(2, &[("fill", &[1.0])]), Some("no JSON at all")).unwrap();
        assert_eq!(json["sections"][0]["name"], "fill");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("figures");
        let kept = |json: bool| {
            let named = |is_named: bool| is_named.then(|| path.clone());
            Kept { json: named(json), plots: None, readme: named(!json) }
        };
        assert!(kept(true).read(&TRAINING).is_ok(), "none is there");
        std::fs::write(&path, "{}").unwrap();
        let said = format!("{:#}", kept(true).read(&TRAINING).err().unwrap());
        assert!(said.contains("was not written by `collie-bench training`: name another file"), "{said}");
        std::fs::write(&path, "<!-- bench training rate end -->\n").unwrap();
        let said = format!("{:#}", kept(false).read(&TRAINING).err().unwrap());
        assert!(said.contains("bench training rate begin"), "{said}");
        assert!(kept(false).read(&KV).is_ok());
    }
}
