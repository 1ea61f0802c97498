//! `collie train evaluate`.

use std::process::ExitCode;

use collie_env::Env;
use collie_samples::Evaluation;
use serde_json::json;

use super::{Place, per_cent};
use crate::render::Table;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,
}

/// The columns of the table; all but the first three are numbers.
const NAMES: [&str; 10] =
    ["unit", "label", "model", "samples", "error", "stated", "inside", "factor", "clamped", "state"];

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let place = &args.place;
    let models = place.models();
    let judged = collie_samples::evaluate(&Env::real(), &place.data, &models, place.node.as_deref(), place.rows)?;
    if place.json {
        judged.iter().for_each(|judged| println!("{}", as_json(judged)));
        return Ok(ExitCode::SUCCESS);
    }
    let table = Table {
        names: NAMES.map(str::to_owned).to_vec(),
        right: (0..NAMES.len()).map(|at| (3..9).contains(&at)).collect(),
        rows: judged.iter().map(|judged| row(judged).into_iter().map(Some).collect()).collect(),
    };
    table.print();
    println!(
        "error: mean absolute percentage error here; stated: by the package; inside: part of the samples in their interval, to be 90 %;"
    );
    println!(
        "factor: how far an interval reaches; clamped: outside of what the model had seen; stale: decisions must not use it"
    );
    Ok(ExitCode::SUCCESS)
}

fn label_name(judged: &Evaluation) -> &'static str {
    judged.unit.labels.get(usize::from(judged.label)).map_or("?", |field| field.name)
}

fn row(judged: &Evaluation) -> Vec<String> {
    let state = match (judged.rows, judged.is_stale) {
        (0, _) => "no samples",
        (_, true) => "stale",
        _ => "fresh",
    };
    vec![
        judged.unit.name.to_owned(),
        label_name(judged).to_owned(),
        judged.kind.to_owned(),
        judged.rows.to_string(),
        per_cent(judged.error),
        per_cent(judged.stated_error),
        per_cent(judged.coverage),
        format!("{:.2}", judged.factor),
        per_cent(judged.clamped),
        state.to_owned(),
    ]
}

fn as_json(judged: &Evaluation) -> serde_json::Value {
    // A value that is not a number, for lack of samples, becomes null.
    json!({
        "unit": judged.unit.name,
        "label": label_name(judged),
        "kind": judged.kind,
        "hash": format!("{:016x}", judged.hash),
        "rows": judged.rows,
        "error": judged.error,
        "stated_error": judged.stated_error,
        "coverage": judged.coverage,
        "interval_factor": judged.factor,
        "clamped": judged.clamped,
        "stale": judged.is_stale,
    })
}
