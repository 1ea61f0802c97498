//! The schema `collie_training`: how much a replica may collect and why, which units may be sampled, the collected
//! samples,
//! the available models, and the outcomes of sampled reads.
//!
//! The server supplies the content ([`Training`]); without it the relations are empty.
//!
//! Checked by `system_tests`.

use super::{
    SessionFacts,
    collected::{self, HardwareRow, PredictionRow, SampleFileRow, UnitRow},
    output::Output,
    reads,
};
use crate::{catalog::snapshot::COLLIE_TRAINING, types::Value};

/// The state of a server's training.
pub trait Training: Send + Sync {
    /// Returns how much may be collected now, and why.
    fn policy(&self) -> PolicyRow;

    /// Returns the newest changes of how much may be collected, oldest first.
    fn changes(&self) -> Vec<PolicyChange>;

    /// Returns every unit from every source, and whether its switch is on.
    fn switches(&self) -> Vec<SwitchRow>;

    /// Returns the packages of models. Reads a few files.
    fn models(&self) -> Vec<ModelRow>;

    /// Returns the sampling of each unit, by number.
    fn units(&self) -> Vec<UnitRow>;

    /// Returns the newest files of samples, newest first. Reads a little of each.
    fn sample_files(&self) -> Vec<SampleFileRow>;

    /// Returns the models' predictions for the newest samples, oldest first.
    fn predictions(&self) -> Vec<PredictionRow>;

    /// Returns the hardware; `None` if it was not examined yet.
    fn hardware(&self) -> Option<HardwareRow>;

    /// Returns the changes of settings that models proposed, oldest first.
    fn decisions(&self) -> Vec<DecisionRow> {
        Vec::new()
    }

    /// Returns the changes of settings that were considered last.
    fn candidates(&self) -> Vec<CandidateRow> {
        Vec::new()
    }

    /// Returns the settings that decisions may change on this node, with their current values: us, bytes or a count.
    fn decided_settings(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Changes the setting `name`, which begins with `training.` or `replication.`, until the server stops.
    ///
    /// # Errors
    /// A message if the setting is unknown, is read only at start, or cannot have that value.
    fn set_option(&self, name: &str, value: &str) -> Result<(), String>;

    /// Calls `set`, which changes the engine's setting of that name, while no decision changes it. If `set` succeeds,
    /// no
    /// decision changes the setting afterwards, because it was set by hand.
    ///
    /// # Errors
    /// Those of `set`.
    fn set_by_hand(&self, _name: &str, set: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
        set()
    }
}

/// A change of a setting that a model proposed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecisionRow {
    /// Its number.
    pub id: u64,
    /// The time of its last verdict, in microseconds since 2000-01-01.
    pub at_us: i64,
    /// The setting's key.
    pub setting: &'static str,
    /// The value before, in us, bytes or a count.
    pub old: f64,
    /// The value that is being tried.
    pub new: f64,
    /// The package of the model.
    pub model_hash: u64,
    /// The predicted relative decrease of costs: lower end, expected, upper end.
    pub gain: (f64, f64, f64),
    /// The probability (p-value) of the trial, once it has passed.
    pub trial_p: Option<f64>,
    /// The observed gain, if the change was kept.
    pub observed_gain: Option<f64>,
    /// Its progress, in a word or two.
    pub verdict: &'static str,
    /// The reason.
    pub reason: String,
}

/// A change of a setting that was considered, whether it was proposed or not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CandidateRow {
    /// The time, in microseconds since 2000-01-01.
    pub at_us: i64,
    /// The setting's key.
    pub setting: &'static str,
    /// The value in force, in us, bytes or a count.
    pub old: f64,
    /// The value that was considered; `None` if no value of the setting was.
    pub new: Option<f64>,
    /// The predicted relative decrease of costs: lower end, expected, upper end; `None` if the models cannot predict
    /// it.
    pub gain: Option<(f64, f64, f64)>,
    /// Why it was not proposed, or a note that it was.
    pub reason: String,
}

/// How much may be collected. Times are in microseconds. A figure that is unknown, or that the policy does not have, is
/// `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PolicyRow {
    /// The policy in force; on a primary `none`.
    pub policy: &'static str,
    /// A word: `primary`, `starting`, `off`, `control`, `collecting`, or why the grant is 0.
    pub state: &'static str,
    /// D: mean delay of the last tick, on the primary's clock.
    pub delay_us: Option<f64>,
    /// D0: the delay without collection.
    pub without_us: Option<f64>,
    /// B: the bound of the mean delay of a window.
    pub bound_us: Option<f64>,
    /// x: the larger of the delay and the age of the oldest commit that is not applied; infinite if the primary was not
    /// heard of.
    pub behind_us: Option<f64>,
    /// C: collection work per second.
    pub grant_us_per_s: u64,
    /// The part of C for elastic work.
    pub elastic_us_per_s: u64,
    /// The time that elastic work has taken since the server was started.
    pub elastic_spent_us: u64,
    /// I: the integral part of the controller.
    pub integral: Option<f64>,
    /// S: work per commit without collection.
    pub commit_us: Option<f64>,
    /// rho: the utilization of the workers without collection.
    pub utilisation: Option<f64>,
    /// Commits per second in the last tick.
    pub commits_per_s: Option<f64>,
    /// One-second windows that were compared with the bound.
    pub windows: u64,
    /// Windows that exceeded it.
    pub out_windows: u64,
    /// Windows that could not be compared.
    pub unknown_windows: u64,
    /// The number of halts of collection, by reason.
    pub halts: Vec<(&'static str, u64)>,
    /// The state of the collection of samples: `starting`, `collecting`, `off` or `stopped`.
    pub samples: &'static str,
    /// The reason why samples are not collected.
    pub samples_reason: Option<String>,
    /// The cost of taking and storing samples since the server was started, in microseconds.
    pub samples_spent_us: u64,
    /// Rows of samples and of their context that this process has written to files.
    pub samples_written: u64,
    /// Rows that were dropped because they could not be written.
    pub samples_lost: u64,
    /// Bytes of all files of samples.
    pub samples_bytes: u64,
    /// Fits that were started, by outcome: `done`, `failed`, `killed`.
    pub fits: Vec<(&'static str, u64)>,
}

/// A change of how much may be collected.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyChange {
    /// The time, in microseconds since 2000-01-01.
    pub at_us: i64,
    /// The subject: `role`, `grant`, `setting`, `switch`, `unit`, `samples`, `fit`, `model`.
    pub subject: &'static str,
    /// The change.
    pub change: String,
    /// The reason.
    pub reason: String,
    /// C after the change.
    pub grant_us_per_s: u64,
}

/// The switch of a unit's samples from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchRow {
    /// The unit's number.
    pub unit_id: u8,
    /// Its name.
    pub unit: &'static str,
    /// The source of its samples.
    pub source: &'static str,
    /// Whether it may be sampled.
    pub is_on: bool,
}

/// A package of a model, or a file that is not a package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ModelRow {
    /// The name of the file in the directory of models.
    pub file: String,
    /// Its content, unless it was refused.
    pub model: Option<Model>,
    /// Its use: `active`, `shadow` (it is evaluated before it is used), `refused`, `unused`.
    pub state: &'static str,
    /// The reason for which it was refused.
    pub refused: Option<String>,
    /// The share of the newest samples inside their predicted interval, 0.9 by design; `None` before there were any.
    pub coverage: Option<f64>,
    /// Mean absolute percentage error on the newest samples, 0.1 for 10 %.
    pub error_seen: Option<f64>,
    /// Whether decisions ignore it: fewer than 85 % of the last 1,000 samples were inside.
    pub is_stale: bool,
}

/// The description of a model in its package.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Model {
    /// The unit that it predicts.
    pub unit_id: u8,
    /// The unit's name, if it is known here.
    pub unit: Option<&'static str>,
    /// The name of the predicted label in the unit's schema, if it is known here.
    pub label: Option<&'static str>,
    /// Version of the unit's schema.
    pub schema_version: u8,
    /// `ridge` or `trees`.
    pub kind: &'static str,
    /// The number of rows for fitting and validation.
    pub rows: u64,
    /// The effective number of rows, considering their weights.
    pub effective_rows: f64,
    /// Mean absolute percentage error at validation, 0.1 for 10 %.
    pub error: f64,
    /// Times of the first and last row, in microseconds since 2000-01-01.
    pub trained: (i64, i64),
    /// Hash of the package's content, by which decisions name it.
    pub hash: u64,
}

pub(super) fn int(number: u64) -> Value {
    Value::Int8(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn float(number: Option<f64>) -> Value {
    number.map_or(Value::Null, Value::Float8)
}

pub(super) fn byte(number: u8) -> Value {
    Value::Int4(i32::from(number))
}

/// Adds the rows if the relation is one of these.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != COLLIE_TRAINING {
        return false;
    }
    if out.name() == "reads" {
        reads::fill(facts, out);
        return true;
    }
    let Some(training) = facts.training() else { return true };
    match out.name() {
        "policy" => policy(&training.policy(), out),
        "policy_log" => training.changes().into_iter().for_each(|change| push_change(change, out)),
        "switches" => training.switches().into_iter().for_each(|row| {
            out.push([
                ("unit_id", byte(row.unit_id)),
                ("unit", Value::text(row.unit)),
                ("source", Value::text(row.source)),
                ("is_on", Value::Bool(row.is_on)),
            ]);
        }),
        "decisions" => training.decisions().into_iter().for_each(|row| push_decision(row, out)),
        "candidates" => training.candidates().into_iter().for_each(|row| push_candidate(row, out)),
        "models" => training.models().into_iter().for_each(|row| push_model(row, out)),
        "units" => training.units().into_iter().for_each(|row| collected::push_unit(row, out)),
        "samples" => training.sample_files().into_iter().for_each(|row| collected::push_file(row, out)),
        "predictions" => training.predictions().iter().for_each(|row| collected::push_prediction(row, out)),
        "hardware" => training.hardware().into_iter().for_each(|row| collected::push_hardware(row, out)),
        _ => {}
    }
    true
}

fn policy(row: &PolicyRow, out: &mut Output<'_>) {
    out.push([
        ("policy", Value::text(row.policy)),
        ("state", Value::text(row.state)),
        ("delay_us", float(row.delay_us)),
        ("delay_without_us", float(row.without_us)),
        ("bound_us", float(row.bound_us)),
        ("behind_us", float(row.behind_us)),
        ("grant_us_per_s", int(row.grant_us_per_s)),
        ("elastic_us_per_s", int(row.elastic_us_per_s)),
        ("elastic_spent_us", int(row.elastic_spent_us)),
        ("integral", float(row.integral)),
        ("commit_us", float(row.commit_us)),
        ("utilisation", float(row.utilisation)),
        ("commits_per_s", float(row.commits_per_s)),
        ("windows", int(row.windows)),
        ("out_windows", int(row.out_windows)),
        ("unknown_windows", int(row.unknown_windows)),
        ("samples", Value::text(row.samples)),
        ("samples_reason", row.samples_reason.clone().map_or(Value::Null, Into::into)),
        ("samples_spent_us", int(row.samples_spent_us)),
        ("samples_written", int(row.samples_written)),
        ("samples_lost", int(row.samples_lost)),
        ("samples_bytes", int(row.samples_bytes)),
    ]);
}

fn push_change(change: PolicyChange, out: &mut Output<'_>) {
    out.push([
        ("at", Value::TimestampTz(change.at_us)),
        ("subject", Value::text(change.subject)),
        ("change", change.change.into()),
        ("reason", change.reason.into()),
        ("grant_us_per_s", int(change.grant_us_per_s)),
    ]);
}

fn push_decision(row: DecisionRow, out: &mut Output<'_>) {
    let (low, expected, high) = row.gain;
    out.push([
        ("id", int(row.id)),
        ("at", Value::TimestampTz(row.at_us)),
        ("setting", Value::text(row.setting)),
        ("old_value", Value::Float8(row.old)),
        ("new_value", Value::Float8(row.new)),
        ("model_hash", format!("{:016x}", row.model_hash).into()),
        ("gain_low", Value::Float8(low)),
        ("gain", Value::Float8(expected)),
        ("gain_high", Value::Float8(high)),
        ("trial_p", float(row.trial_p)),
        ("observed_gain", float(row.observed_gain)),
        ("verdict", Value::text(row.verdict)),
        ("reason", row.reason.into()),
    ]);
}

fn push_candidate(row: CandidateRow, out: &mut Output<'_>) {
    let CandidateRow { at_us, setting, old, new, gain, reason } = row;
    out.push([
        ("at", Value::TimestampTz(at_us)),
        ("setting", Value::text(setting)),
        ("old_value", Value::Float8(old)),
        ("new_value", float(new)),
        ("gain_low", float(gain.map(|(low, _, _)| low))),
        ("gain", float(gain.map(|(_, expected, _)| expected))),
        ("gain_high", float(gain.map(|(_, _, high)| high))),
        ("reason", reason.into()),
    ]);
}

fn push_model(row: ModelRow, out: &mut Output<'_>) {
    let ModelRow { file, model, state, refused, coverage, error_seen, is_stale } = row;
    let of = |value: fn(&Model) -> Value| model.as_ref().map_or(Value::Null, value);
    out.push([
        ("file", file.into()),
        ("unit_id", of(|model| byte(model.unit_id))),
        ("unit", of(|model| model.unit.map_or(Value::Null, Value::text))),
        ("label", of(|model| model.label.map_or(Value::Null, Value::text))),
        ("schema_version", of(|model| byte(model.schema_version))),
        ("kind", of(|model| Value::text(model.kind))),
        ("rows", of(|model| int(model.rows))),
        ("effective_rows", of(|model| Value::Float8(model.effective_rows))),
        ("error", of(|model| Value::Float8(model.error))),
        ("trained_from", of(|model| Value::TimestampTz(model.trained.0))),
        ("trained_to", of(|model| Value::TimestampTz(model.trained.1))),
        ("hash", of(|model| format!("{:016x}", model.hash).into())),
        ("refused", refused.map_or(Value::Null, Into::into)),
        ("state", Value::text(state)),
        ("coverage", float(coverage)),
        ("error_seen", float(error_seen)),
        ("is_stale", Value::Bool(is_stale)),
    ]);
}

#[cfg(test)]
pub(super) mod tests;
