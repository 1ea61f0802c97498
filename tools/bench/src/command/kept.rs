//! [`Kept`]: where a benchmark's report goes in addition to standard output: JSON and plots in a directory, a part of a
//! document.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use collie_bench::{Report, draw, sections_in_markdown, write_between};

/// See the module's documentation.
#[derive(clap::Args, Debug)]
pub(super) struct Kept {
    /// Write all figures as JSON, whose keys carry units, and plots as SVG files into DIR.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the tables into FILE, between lines such as `<!-- bench txn begin -->` and `<!-- bench txn end -->`
    /// (`training` has a place for each question, and leaves the others as they are); a FILE without them gets a
    /// section at its end.
    #[arg(long, value_name = "FILE")]
    readme: Option<PathBuf>,
}

/// A part of a document that a benchmark writes.
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) heading: &'static str,
    /// The questions that have their own place each; empty: one place for all.
    pub(super) questions: Vec<&'static str>,
    pub(super) text: fn(&Report) -> anyhow::Result<String>,
}

impl Part {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, heading: "Figures", questions: Vec::new(), text: |report| Ok(sections_in_markdown(report)) }
    }

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
}

/// A document of which a part is rewritten, with its text as it was before.
pub(super) struct Document<'a> {
    part: &'a Part,
    path: PathBuf,
    text: String,
}

impl<'a> Document<'a> {
    /// Reads the document before the measurement, so that one that cannot be written does not cost half an hour.
    ///
    /// # Errors
    /// It cannot be read; those of [`Part::check`].
    pub(super) fn read(path: Option<PathBuf>, part: &'a Part) -> anyhow::Result<Option<Self>> {
        let Some(path) = path else { return Ok(None) };
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        part.check(&text).with_context(|| format!("in {}", path.display()))?;
        Ok(Some(Self { part, path, text }))
    }

    /// Writes the document with the text of `report`.
    ///
    /// # Errors
    /// Those of the file system; the report lacks data that the text needs.
    pub(super) fn write(&self, report: &Report) -> anyhow::Result<()> {
        write(&self.path, &self.part.write(&self.text, report)?)
    }
}

/// The places to which a report goes, checked before the measurement.
pub(super) struct Keeper<'a> {
    name: &'static str,
    out: Option<PathBuf>,
    document: Option<Document<'a>>,
}

impl Kept {
    /// Checks the document, if it exists.
    ///
    /// # Errors
    /// Those of [`Document::read`].
    pub(super) fn read(self, part: &Part) -> anyhow::Result<Keeper<'_>> {
        Ok(Keeper { name: part.name, out: self.out, document: Document::read(self.readme, part)? })
    }
}

impl Keeper<'_> {
    /// Prints a report and writes the requested files.
    ///
    /// # Errors
    /// Those of the file system; a section failed.
    pub(super) fn keep(&self, report: &Report) -> anyhow::Result<ExitCode> {
        print(&report.table())?;
        if let Some(dir) = &self.out {
            let drawn = draw(report, dir)?;
            write(&dir.join(self.name).with_extension("json"), &report.json()?)?;
            print(&format!("{} plots in {}\n", drawn.len(), dir.display()))?;
        }
        self.document.iter().try_for_each(|document| document.write(report))?;
        // Only after the writing, so that the results of the other sections are kept.
        anyhow::ensure!(report.failed().is_empty(), "not measured to the end: {}", report.failed().join(", "));
        Ok(ExitCode::SUCCESS)
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
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

    fn training() -> Part {
        Part { questions: vec!["rate", "time"], ..Part::new("training") }
    }

    /// Goal: a question that is asked again has its figures replaced; those of the others stay. Method: two questions
    /// at once, then the first alone.
    #[test]
    fn questions_have_places_of_their_own() {
        let report = |runs: usize, sections: &[(&'static str, f64)]| {
            let section = |(name, value): &(&'static str, f64)| {
                let rows = vec![Row::new("collie", "all", "disk", "ring").runs("commits_per_s", &[*value])];
                Section { rows, ..Section::new(name, "how many?") }
            };
            Report { machine: Machine::of(Path::new(".")), runs, sections: sections.iter().map(section).collect() }
        };
        let text = training().write("# Training\n", &report(3, &[("rate", 7.0), ("time", 8.0)])).unwrap();
        training().check(&text).unwrap();
        let text = training().write(&text, &report(5, &[("rate", 9.0)])).unwrap();
        let place = |name: &str| {
            let (begin, end) =
                (format!("<!-- bench training {name} begin -->"), format!("<!-- bench training {name} end -->"));
            text[text.find(&begin).unwrap()..text.find(&end).unwrap()].to_owned()
        };
        assert!(text.contains("## Figures of `rate`\n") && place("rate").contains("Medians of 5 runs"), "{text}");
        assert!(place("rate").contains("| 9.00 |") && !text.contains("| 7.00 |"), "{text}");
        assert!(place("time").contains("| 8.00 |") && place("time").contains("Medians of 3 runs"), "{text}");
    }

    /// Goal: half a place is found before anything is measured. Method: a document with one marker.
    #[test]
    fn half_a_place_is_found_before() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("page.md");
        std::fs::write(&path, "<!-- bench training rate end -->\n").unwrap();
        let kept = Kept { out: None, readme: Some(path) };
        let said = format!("{:#}", kept.read(&training()).err().unwrap());
        assert!(said.contains("bench training rate begin"), "{said}");
    }
}
