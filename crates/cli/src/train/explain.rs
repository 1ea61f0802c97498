//! `collie train explain`.

use std::{path::PathBuf, process::ExitCode};

use collie_env::Env;
use collie_samples::Explanation;
use serde_json::json;

use super::{decision, per_cent, text};
use crate::render::Table;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model's package, such as DIR/models/ou=13-label=0.package, or the number of a decision in
    /// collie_training.decisions.
    #[arg(value_name = "PACKAGE or ID")]
    package: PathBuf,
    /// Data directory with the decision.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let asked = text(&args.package);
    if let Some(id) = asked.parse().ok().filter(|_| !args.package.exists()) {
        return decision::run(id, args.data.as_deref(), args.json);
    }
    let explained = collie_samples::explain(&Env::real(), &args.package)?;
    if args.json {
        println!("{}", as_json(&explained));
    } else {
        print(&explained);
    }
    Ok(ExitCode::SUCCESS)
}

fn label_name(explained: &Explanation) -> &'static str {
    explained.unit.labels.get(usize::from(explained.package.label.get())).map_or("?", |field| field.name)
}

fn print(explained: &Explanation) {
    let Explanation { unit, package, divided_by, features } = explained;
    let fitted = &package.fitted;
    println!("unit       {} (version {}), {}", unit.name, package.schema_version, label_name(explained));
    println!("model      {}, learned as ln(label / {divided_by})", fitted.model.kind());
    println!("samples    {}, worth {:.0} of equal weight", fitted.rows, fitted.effective_rows);
    let folds: Vec<String> = fitted.fold_errors.iter().map(|error| per_cent(*error)).collect();
    println!("error      {} on the newest fifth; by time: {}", per_cent(fitted.error()), folds.join(", "));
    println!("interval   nine tenths lie within a factor of {:.3}", fitted.quantile_ln.exp());
    let tags: Vec<String> = package.hardware.iter().map(|tag| format!("{tag:016x}")).collect();
    println!("hardware   {}", if tags.is_empty() { "unknown".to_owned() } else { tags.join(", ") });
    println!("hash       {:016x}, schema {}\n", package.hash(), package.schema);
    let table = Table {
        names: ["feature", "unit", "lowest", "highest", "factor"].map(str::to_owned).to_vec(),
        right: vec![false, false, true, true, true],
        rows: features
            .iter()
            .map(|feature| {
                let (low, high) = feature.range;
                let numbers = [format!("{low:.0}"), format!("{high:.0}"), format!("{:.2}", feature.factor)];
                [feature.name.to_owned(), feature.unit.to_owned()].into_iter().chain(numbers).map(Some).collect()
            })
            .collect(),
    };
    table.print();
    println!(
        "factor: highest prediction over the feature's range divided by the lowest, the others in the middle of theirs"
    );
}

fn as_json(explained: &Explanation) -> serde_json::Value {
    let Explanation { unit, package, divided_by, features } = explained;
    let fitted = &package.fitted;
    let features: Vec<serde_json::Value> = features
        .iter()
        .map(|feature| {
            let (low, high) = feature.range;
            json!({ "name": feature.name, "unit": feature.unit, "low": low, "high": high, "factor": feature.factor })
        })
        .collect();
    json!({
        "unit": unit.name,
        "version": package.schema_version,
        "label": label_name(explained),
        "kind": fitted.model.kind(),
        "divided_by": divided_by,
        "rows": fitted.rows,
        "effective_rows": fitted.effective_rows,
        "error": fitted.error(),
        "fold_errors": fitted.fold_errors,
        "interval_factor": fitted.quantile_ln.exp(),
        "window_us": [fitted.window_us.0, fitted.window_us.1],
        "hardware": package.hardware.iter().map(|tag| format!("{tag:016x}")).collect::<Vec<_>>(),
        "hash": format!("{:016x}", package.hash()),
        "schema": package.schema.to_string(),
        "features": features,
    })
}
