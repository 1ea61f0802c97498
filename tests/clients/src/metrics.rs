//! [`Metrics`]: a strict parser of Prometheus' text format. Input that a lenient parser would accept fails a test.

use std::collections::{BTreeMap, BTreeSet};

/// A sample's labels, by name.
pub type Labels = BTreeMap<String, String>;

/// A metric and its samples.
#[derive(Debug)]
pub struct Metric {
    /// `counter` or `gauge`.
    pub kind: String,
    /// Its values.
    pub samples: BTreeMap<Labels, f64>,
}

/// Metrics by name.
#[derive(Debug, Default)]
pub struct Metrics {
    /// All of them.
    pub all: BTreeMap<String, Metric>,
}

fn is_name(name: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.bytes().all(good) && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
}

/// Parses `name="value",...}`; returns the labels and the rest of the text.
fn labels(text: &str) -> Result<(Labels, &str), String> {
    let (mut labels, mut rest) = (Labels::new(), text);
    loop {
        let (name, tail) = rest.split_once("=\"").ok_or(format!("no label: {rest}"))?;
        if !is_name(name) {
            return Err(format!("no name of a label: {name}"));
        }
        let mut value = String::new();
        let mut letters = tail.char_indices();
        let end = loop {
            match letters.next() {
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, letter @ ('"' | '\\'))) => value.push(letter),
                    other => return Err(format!("no escape: {other:?}")),
                },
                Some((_, letter)) => value.push(letter),
                None => return Err(format!("a label without an end: {tail}")),
            }
        };
        if labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("label {name} comes twice"));
        }
        rest = &tail[end..];
        if let Some(tail) = rest.strip_prefix('}') {
            return Ok((labels, tail));
        }
        rest = rest.strip_prefix(',').ok_or(format!("no comma: {rest}"))?;
    }
}

impl Metrics {
    /// Parses a text.
    ///
    /// # Errors
    /// A description of the first violation. A metric has help, type and samples, in this order and without a gap; each
    /// sample occurs once and has a finite value that is not negative; the name of a counter, and of no other metric,
    /// ends with `_total`.
    pub fn read(text: &str) -> Result<Self, String> {
        if !text.ends_with('\n') {
            return Err("the last line has no end".to_owned());
        }
        let (mut all, mut done) = (Self::default(), BTreeSet::new());
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            let (name, _help) = line
                .strip_prefix("# HELP ")
                .and_then(|rest| rest.split_once(' '))
                .ok_or(format!("no help where a metric begins: {line}"))?;
            if !is_name(name) || !done.insert(name.to_owned()) {
                return Err(format!("{name} is no name, or comes twice"));
            }
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")[..]));
            let kind = kind.filter(|kind| ["counter", "gauge"].contains(kind)).ok_or(format!("{name} has no kind"))?;
            if (kind == "counter") != name.ends_with("_total") {
                return Err(format!("{name} is a {kind}"));
            }
            let mut samples = BTreeMap::new();
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let rest = line.strip_prefix(name).ok_or(format!("a sample of another metric: {line}"))?;
                let (labels, rest) = match rest.strip_prefix('{') {
                    Some(rest) => labels(rest)?,
                    None => (Labels::new(), rest),
                };
                let value = rest.strip_prefix(' ').and_then(|value| value.parse::<f64>().ok());
                let value = value.filter(|value| value.is_finite()).ok_or(format!("no value: {line}"))?;
                if value < 0.0 || samples.insert(labels, value).is_some() {
                    return Err(format!("below zero, or twice: {line}"));
                }
            }
            if samples.is_empty() {
                return Err(format!("{name} has no sample"));
            }
            all.all.insert(name.to_owned(), Metric { kind: kind.to_owned(), samples });
        }
        Ok(all)
    }

    /// Returns the value of a metric without labels.
    ///
    /// # Panics
    /// If there is none.
    pub fn value(&self, name: &str) -> f64 {
        self.labelled(name, &[]).unwrap_or_else(|| panic!("no {name}"))
    }

    /// Returns the value of the sample with exactly these labels.
    pub fn labelled(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        self.all.get(name)?.samples.get(&labels).copied()
    }
}
