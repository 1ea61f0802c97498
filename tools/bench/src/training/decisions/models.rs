//! `learn` and `put_wrong`: models that are right, as far as the samples of a load show, and models that are wrong on
//! purpose.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use collie_env::Env;
use collie_obs::{UNITS, UnitSchema};
use collie_samples::{FitRequest, FitVerdict, PackageDir, fit, wrong_package};

use super::change::Values;
use super::deciding::Deciding;
use super::load::Load;
use super::times::Times;
use crate::replication::PairSettings;
use crate::training::live::{Node, set_samples};

/// The units whose models the decisions of a single server use.
const ASKED: [&str; 6] = ["LOG_FLUSH", "ROW_READ", "SCAN", "GC_TICK", "FLUSH_LEVELS", "COMPACT"];
/// The factors of all settings while samples are taken: a model that has seen only one value knows nothing about
/// another one, and then nothing is proposed.
const FACTORS: [f64; 3] = [1.0, 2.0, 0.5];
fn asked() -> impl Iterator<Item = &'static UnitSchema> {
    UNITS.iter().filter(|unit| ASKED.contains(&unit.name))
}

/// Makes the server keep samples of `load`, for a time under each of three values of its settings; then restores the
/// settings.
///
/// # Errors
/// Those of the driver; the server keeps no samples, or refuses a value.
pub(super) fn record(settings: &PairSettings, times: &Times, load: Load, server: &Deciding) -> anyhow::Result<()> {
    let before = server.in_force()?;
    set_samples(&settings.plan, server.pair(), Node::Primary, true)?;
    let with = PairSettings { time: times.record, ..settings.clone() };
    for (run, factor) in (0..).zip(FACTORS) {
        settings.plan.say(&format!("decisions: {}: samples, settings times {factor}", load.name()));
        let values: Values = before.iter().map(|&(setting, value)| (setting, value * factor)).collect();
        server.put(&values)?;
        load.run(&with, server.pair(), run)?;
    }
    server.put(&before)
}

/// Fits models to the samples in the data directory `data`, and stores them in its `models`. Returns the names of the
/// units that have one.
///
/// # Errors
/// There are no samples, or a sample file cannot be read; a model cannot be written.
pub(super) fn learn(env: &Env, data: &Path, rows_max: usize) -> anyhow::Result<Vec<&'static str>> {
    let units: BTreeSet<u8> = asked().map(|unit| unit.id).collect();
    let models = data.join("models");
    let request = FitRequest { data, models: &models, units, node: None, rows_max, only_if_new: false };
    let (mut skipped, mut known) = (Vec::new(), Vec::new());
    fit(env, &request, &mut |error| skipped.push(error.to_string()), &mut |outcome| {
        // Decisions use the elapsed time of calls, which is each unit's first label.
        if outcome.label == 0 && outcome.verdict == FitVerdict::Written {
            known.push(outcome.unit.name);
        }
    })
    .context("models of the load's samples")?;
    anyhow::ensure!(skipped.is_empty(), "samples cannot be read: {}", skipped.join("; "));
    Ok(known)
}

/// Stores models with the wrong sign in the data directory `data`: they predict that a call takes less time the more
/// work it has.
///
/// # Errors
/// A model cannot be fitted or written.
pub(super) fn put_wrong(env: &Env, data: &Path, seed: u64) -> anyhow::Result<()> {
    let packages = PackageDir::new(Arc::clone(&env.files), &data.join("models"));
    for unit in asked() {
        packages.store(&wrong_package(unit, seed ^ u64::from(unit.id))?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use collie_samples::{Origin, SampleSink, SinkOptions, sample_of_unit};
    use collie_train::{LabelId, UnitId};

    use super::*;

    /// Goal: units are found by their names, and wrong models are wrong: for every unit in use, much work is predicted
    /// to take less time than little. Method: the stored package is loaded and predicts small and large calls.
    #[test]
    fn wrong_models_say_that_work_saves_time() {
        assert_eq!(asked().count(), ASKED.len());
        let (env, _disk) = Env::simulated(5);
        put_wrong(&env, "/data".as_ref(), 1).unwrap();
        let packages = PackageDir::new(Arc::clone(&env.files), "/data/models".as_ref());
        for unit in asked() {
            let package = packages.load(UnitId::new(unit.id), LabelId::new(0)).unwrap().expect("it was stored");
            let predicted = |size: f64| package.predict(&vec![size; unit.features.len()]).unwrap().value;
            assert!(predicted(10_000.0) < predicted(10.0) / 2.0, "{}", unit.name);
        }
    }

    /// Goal: models are fitted to the existing samples and stored where a server looks; without samples there is an
    /// error. Method: samples of one unit that decisions use and of one that they do not; none.
    #[test]
    fn models_are_learned_of_what_is_asked() {
        let (env, _disk) = Env::simulated(6);
        assert!(learn(&env, "/data".as_ref(), 400).is_err());
        let mut sink = SampleSink::open(&env, "/data".as_ref(), Origin::unknown("n1"), SinkOptions::default()).unwrap();
        for row in 1..=200 {
            sink.add(&[sample_of_unit(9, row), sample_of_unit(14, row)]);
        }
        sink.finish();
        assert_eq!(learn(&env, "/data".as_ref(), 400).unwrap(), ["ROW_READ"]);
        let packages = PackageDir::new(Arc::clone(&env.files), "/data/models".as_ref());
        assert_eq!(packages.list().unwrap().len(), 1);
    }
}
