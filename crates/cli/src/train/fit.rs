//! `collie train fit`.

use std::process::ExitCode;

use anyhow::{Context as _, bail};
use collie_env::Env;
use collie_samples::{FitOutcome, FitRequest, FitVerdict};
use serde_json::json;

use super::{Place, per_cent, text, units};

/// Memory of a fit that runs next to a server, in bytes: 512 MiB.
const CHILD_MEMORY_BYTES: u64 = 512 << 20;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
    /// Fit this unit only, given by name or number; may be repeated.
    #[arg(long, value_name = "UNIT")]
    unit: Vec<String>,
    /// Use only otherwise idle processor time and 512 MiB of memory, keep models for which less than a tenth of the
    /// samples are new, and end with the process that started this one: a server runs fits this way.
    #[arg(long)]
    child: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.child {
        collie_env::end_with_parent().context("cannot follow the process that started it")?;
        collie_env::become_background(CHILD_MEMORY_BYTES).context("cannot become a background process")?;
    }
    let models = args.place.models();
    let request = FitRequest {
        data: &args.place.data,
        models: &models,
        units: units(&args.unit)?,
        node: args.place.node.clone(),
        rows_max: args.place.rows,
        only_if_new: args.child,
    };
    let (mut done, mut left) = (0, 0);
    let mut report = |outcome: &FitOutcome| {
        match outcome.verdict {
            FitVerdict::Written | FitVerdict::Unchanged => done += 1,
            _ => left += 1,
        }
        if args.place.json { println!("{}", as_json(outcome)) } else { println!("{}", as_line(outcome)) }
    };
    let mut skipped = |error: &collie_samples::SamplesError| eprintln!("warning: passed over: {error}");
    collie_samples::fit(&Env::real(), &request, &mut skipped, &mut report)?;
    if done + left == 0 {
        bail!("no samples of these units in {}: collie train evaluate shows what there is", text(&args.place.data));
    }
    Ok(if done > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn label_name(outcome: &FitOutcome) -> &'static str {
    outcome.unit.labels.get(usize::from(outcome.label)).map_or("?", |field| field.name)
}

fn as_line(outcome: &FitOutcome) -> String {
    let head = format!("{} {}: ", outcome.unit.name, label_name(outcome));
    let rows = outcome.rows;
    let fitted = outcome.package.as_ref().map(|package| &package.fitted);
    let model = fitted.map_or_else(String::new, |fitted| {
        format!("{} of {rows} samples, error {}", fitted.model.kind(), per_cent(fitted.error()))
    });
    let before = outcome.incumbent_error.map_or_else(String::new, |error| format!(", before {}", per_cent(error)));
    head + &match &outcome.verdict {
        FitVerdict::Written => format!("{model}{before}; written"),
        FitVerdict::Unchanged => format!("little is new among {rows} samples; left as it is"),
        FitVerdict::TooFew { needed } => format!("{rows} samples, at least {needed} are needed"),
        FitVerdict::Refused(why) => format!("{model}{before}; not written: {why}"),
        _ => "not written".to_owned(),
    }
}

fn as_json(outcome: &FitOutcome) -> serde_json::Value {
    let fitted = outcome.package.as_ref().map(|package| &package.fitted);
    let (verdict, why) = match &outcome.verdict {
        FitVerdict::Written => ("written", None),
        FitVerdict::Unchanged => ("unchanged", None),
        FitVerdict::TooFew { needed } => ("too_few", Some(format!("at least {needed} samples are needed"))),
        FitVerdict::Refused(why) => ("refused", Some(why.to_string())),
        _ => ("other", None),
    };
    json!({
        "unit": outcome.unit.name,
        "label": label_name(outcome),
        "verdict": verdict,
        "why": why,
        "rows": outcome.rows,
        "cut_weights": outcome.cut_weights,
        "skipped_files": outcome.skipped_files,
        "kind": fitted.map(|fitted| fitted.model.kind()),
        "error": fitted.map(collie_train::model::Fitted::error),
        "incumbent_error": outcome.incumbent_error,
        "hash": outcome.package.as_ref().map(|package| format!("{:016x}", package.hash())),
    })
}
