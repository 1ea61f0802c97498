//! `collie train`: cost models from samples. Wiring and printing; `collie_samples` fits and evaluates.

mod decision;
mod evaluate;
mod explain;
mod fit;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Fit a model to each label of each operating unit that has samples.
    ///
    /// The older four fifths of a unit's samples train, the newest fifth evaluates and gives the interval. Each model
    /// is written to DIR/models/ou=NN-label=L.package and replaces the one before, unless its error on the same samples
    /// is larger by more than a tenth. The exit code is 1 if no model was written or found up to date.
    Fit(fit::Args),
    /// Print the error of each model on samples, and how many samples lay inside their interval.
    Evaluate(evaluate::Args),
    /// Show how a model was made and which features its predictions depend on; or the outcome of a decision, and why.
    Explain(explain::Args),
}

/// The places of samples and models.
#[derive(clap::Args)]
pub(crate) struct Place {
    /// Data directory with the samples.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory of the models [default: DIR/models].
    #[arg(long, value_name = "DIR")]
    models: Option<PathBuf>,
    /// Use the samples of this node only.
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Use at most this many of the newest samples of each unit.
    #[arg(long, value_name = "ROWS", default_value_t = 100_000)]
    rows: usize,
    /// Print one JSON object per line.
    #[arg(long)]
    json: bool,
}

impl Place {
    fn models(&self) -> PathBuf {
        self.models.clone().unwrap_or_else(|| self.data.join("models"))
    }
}

pub(crate) fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Fit(args) => fit::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Explain(args) => explain::run(&args),
    }
}

/// Finds units by name or number.
fn units(names: &[String]) -> anyhow::Result<std::collections::BTreeSet<u8>> {
    let find = |name: &String| {
        let unit =
            collie_obs::UNITS.iter().find(|unit| unit.name.eq_ignore_ascii_case(name) || unit.id.to_string() == *name);
        unit.map(|unit| unit.id).with_context(|| format!("there is no operating unit {name}, as in SCAN or 13"))
    };
    names.iter().map(find).collect()
}

/// Returns a fraction in percent; a dash if there were no samples.
fn per_cent(part: f64) -> String {
    if part.is_finite() { format!("{:.1} %", 100.0 * part) } else { "-".to_owned() }
}

/// Returns a path as text, for JSON.
fn text(path: &Path) -> String {
    path.display().to_string()
}
