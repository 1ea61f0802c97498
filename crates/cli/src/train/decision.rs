//! `collie train explain ID`: one decision, from the journal in a data directory. The server may be running.

use std::{path::Path, process::ExitCode};

use anyhow::{Context as _, bail};
use collie_env::{Env, read_all};
use collie_obs::{UNITS, UnitSchema};
use collie_train::decision::{Entry, JOURNAL_NAME, Moved, Row, changes, read_journal};
use serde_json::json;

use super::{per_cent, text};
use crate::render::Table;

/// More than the largest journal has.
const JOURNAL_BYTES_MAX: u64 = 64 << 20;

pub(super) fn run(id: u64, data: Option<&Path>, as_json: bool) -> anyhow::Result<ExitCode> {
    let data = data.with_context(|| format!("decision {id}: say whose with --data DIR"))?;
    let path = data.join(JOURNAL_NAME);
    let bytes = read_all(&*Env::real().files, &path, JOURNAL_BYTES_MAX).with_context(|| text(&path))?;
    let journal = read_journal(&bytes).with_context(|| text(&path))?;
    let rows: Vec<Row> = journal.entries.iter().map(|entry| entry.row).filter(|row| row.id == id).collect();
    let Some(change) = changes(&journal.entries).into_iter().find(|entry| entry.row.id == id) else {
        bail!("{}: there is no decision {id} in it", text(&path));
    };
    if as_json {
        println!("{}", json_of(&change, &rows));
    } else {
        print(&change, &rows);
    }
    Ok(ExitCode::SUCCESS)
}

fn schema(moved: &Moved) -> Option<&'static UnitSchema> {
    UNITS.iter().find(|unit| unit.id == moved.unit.get())
}

fn unit_name(moved: &Moved) -> String {
    schema(moved).map_or_else(|| format!("unit {}", moved.unit.get()), |unit| unit.name.to_owned())
}

fn print(change: &Entry, rows: &[Row]) {
    let Row { id, setting, old, new, model_hash, gain, trial_p, .. } = change.row;
    println!("decision   {id}: {} {} -> {}", setting.key(), setting.text(old), setting.text(new));
    println!("model      {model_hash:016x}");
    let [low, expected, high] = [gain.low, gain.expected, gain.high].map(per_cent);
    println!("predicted  {expected} ({low} to {high}) more of the calls below in the same time");
    if let Some(p) = trial_p {
        println!("trial      p = {p:.4}");
    }
    for row in rows {
        println!("row        {} s since 1970: {}", row.at_s, row.verdict);
    }
    for moved in &change.moved {
        let ((calls, calls_after), (cost, cost_after)) = (moved.calls_per_s, moved.cost);
        println!(
            "\n{}: {calls:.1} -> {calls_after:.1} calls a second, {:.1} -> {:.1} us each",
            unit_name(moved),
            cost / 1e3,
            cost_after / 1e3
        );
        table(moved).print();
    }
}

/// Returns the mean features of a unit's calls, the changed ones first.
fn table(moved: &Moved) -> Table {
    let name = |at: usize| schema(moved).and_then(|unit| unit.features.get(at));
    let mut rows: Vec<(bool, Vec<Option<String>>)> = (0..moved.features.len())
        .map(|at| {
            let (before, after) = moved.features[at];
            let named = name(at)
                .map_or_else(|| (at.to_string(), String::new()), |field| (field.name.into(), field.unit.into()));
            let cells = [named.0, named.1, format!("{before:.1}"), format!("{after:.1}")];
            (before == after, cells.into_iter().map(Some).collect())
        })
        .collect();
    rows.sort_by_key(|(is_still, _)| *is_still);
    Table {
        names: ["feature", "unit", "before", "after"].map(str::to_owned).to_vec(),
        right: vec![false, false, true, true],
        rows: rows.into_iter().map(|(_, cells)| cells).collect(),
    }
}

fn json_of(change: &Entry, rows: &[Row]) -> serde_json::Value {
    let Row { id, setting, old, new, model_hash, gain, trial_p, verdict, .. } = change.row;
    let rows: Vec<serde_json::Value> = rows
        .iter()
        .map(|row| json!({ "at_s": row.at_s, "verdict": row.verdict.word(), "reason": row.verdict.to_string() }))
        .collect();
    let units: Vec<serde_json::Value> = change
        .moved
        .iter()
        .map(|moved| {
            let names = |at: usize| schema(moved).and_then(|unit| unit.features.get(at)).map(|field| field.name);
            let features: Vec<serde_json::Value> = (0..moved.features.len())
                .map(|at| json!({ "name": names(at), "before": moved.features[at].0, "after": moved.features[at].1 }))
                .collect();
            json!({
                "unit": unit_name(moved),
                "calls_per_s": [moved.calls_per_s.0, moved.calls_per_s.1],
                "cost_ns": [moved.cost.0, moved.cost.1],
                "features": features,
            })
        })
        .collect();
    json!({
        "id": id,
        "setting": setting.key(),
        "old": old,
        "new": new,
        "model": format!("{model_hash:016x}"),
        "gain": [gain.low, gain.expected, gain.high],
        "trial_p": trial_p,
        "verdict": verdict.word(),
        "rows": rows,
        "units": units,
    })
}
