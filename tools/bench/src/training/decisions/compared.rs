//! `Compared`: a server under one load with three sets of values: as configured, those of an expert, and the result of
//! the loop.
//!
//! # What always holds
//! - C1. All runs use one server with the same rows, in balanced order; only values differ, and they are set by hand
//!   before each run.

use super::change::{Change, Values, told, with_values};
use super::deciding::{Apply, Deciding, Sampled};
use super::load::{Load, Ran};
use super::models::{learn, record};
use super::times::Times;
use super::tuned::{Tuned, tune};
use crate::Section;
use crate::measures::median;
use crate::replication::PairSettings;
use crate::report::{Figure, Row};
use crate::training::bootstrap::{in_balanced_order, paired_ratios, with_interval};
use crate::training::live::{Node, set_samples};

/// The loss that counts: three percent of throughput, or of p99.
const LOSS: f64 = 0.03;
/// The arms, in the order of runs.
const ARMS: [&str; 3] = ["as configured", "expert", "loop"];
const LOOP: usize = 2;

/// The results of one load.
struct Compared {
    load: Load,
    ring: &'static str,
    before: Values,
    /// By arm.
    values: [Values; 3],
    tuned: Tuned,
    /// By arm and run.
    ran: Vec<Vec<Ran>>,
}

/// Measures one load; returns the throughput with the loop's values relative to that with the configured values.
///
/// # Errors
/// A server does not start or keeps no samples; the errors of the driver.
pub(super) fn measure(
    settings: &PairSettings,
    times: &Times,
    load: Load,
    section: &mut Section,
) -> anyhow::Result<f64> {
    let plan = &settings.plan;
    let learning = Deciding::start_new(settings, load.name())?;
    load.prepare(settings, learning.pair())?;
    record(settings, times, load, &learning)?;
    let scratch = learning.stop();
    plan.say(&format!("decisions: {}: fitting", load.name()));
    let known = learn(&plan.env, &scratch.path().join("data"), times.rows_max)?;
    let server = Deciding::start(settings, load.name(), scratch, (Apply::Canary, Sampled::All))?;
    let before = server.in_force()?;
    let tuned = tune(settings, times, load, &server, &before)?;
    set_samples(plan, server.pair(), Node::Primary, false)?;
    let values = [before.clone(), with_values(&before, load.expert().settings), tuned.values.clone()];
    let ran = in_balanced_order(ARMS.len(), settings.runs, |arm, run| {
        plan.say(&format!("decisions: {}, {}: run {} of {}", load.name(), ARMS[arm], run + 1, settings.runs));
        server.put(&values[arm])?;
        load.run(settings, server.pair(), run)
    })?;
    if load == Load::Tpcc {
        server.pair().check(settings, section)?;
    }
    let said = match &tuned.changes[..] {
        [] => "nothing was proposed".to_owned(),
        changes => changes.iter().map(Change::told).collect::<Vec<_>>().join("; "),
    };
    let (models, seconds) = (known.join(", "), tuned.time.as_secs_f64());
    section.notes.push(format!("{}: models of {models}; after {seconds:.0} s of the loop: {said}", load.name()));
    section.notes.push(format!("{}: the expert: {}", load.name(), load.expert().because));
    let compared = Compared { load, ring: server.pair().ring(), before, values, tuned, ran };
    Ok(compared.rows(settings.seed, section))
}

impl Compared {
    fn each(&self, arm: usize, figure: fn(&Ran) -> f64) -> Vec<f64> {
        self.ran[arm].iter().map(figure).collect()
    }

    /// Adds a row for each arm; returns the loop's gain in throughput, as a ratio.
    fn rows(&self, seed: u64, section: &mut Section) -> f64 {
        let mut gained = 0.0;
        for (arm, name) in ARMS.into_iter().enumerate() {
            let case = match arm {
                0 => name.to_owned(),
                _ => format!("{name}: {}", told(&self.values[arm], &self.before)),
            };
            let mut row = Row::new(self.load.name(), case, self.load.level(), self.ring)
                .runs("per_s", &self.each(arm, |ran| ran.per_s))
                .runs("p99_us", &self.each(arm, |ran| ran.p99_us));
            if arm > 0 {
                let of = |figure: fn(&Ran) -> f64| paired_ratios(&self.each(arm, figure), &self.each(0, figure));
                let (throughput, p99) = (of(|ran| ran.per_s), of(|ran| ran.p99_us));
                for (key, ratios) in [("throughput_ratio_ci95", &throughput), ("p99_ratio_ci95", &p99)] {
                    row = with_interval(row, key, ratios, seed);
                }
                if arm == LOOP {
                    let middle = |ratios: &[f64]| if ratios.is_empty() { 0.0 } else { median(ratios) };
                    let p99_ratio = middle(&p99);
                    gained = middle(&throughput);
                    row = row
                        .figure("changes", Figure::Count(u64::try_from(self.tuned.changes.len()).unwrap_or(u64::MAX)))
                        .target("throughput: no loss above 3 % in the median", gained >= 1.0 - LOSS)
                        .target("p99: no loss above 3 % in the median", p99_ratio > 0.0 && p99_ratio <= 1.0 + LOSS);
                }
            }
            section.rows.push(row);
        }
        gained
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use collie_train::decision::Setting;

    use super::super::change::{tests::change, values_after};
    use super::*;

    /// Goal: the loop is compared with the configured server run by run, and a loss is judged by the median. Method:
    /// three runs by hand in which the loop gains a tenth of throughput and loses a fifth of p99.
    #[test]
    fn the_loop_is_judged_by_the_median_of_pairs() {
        let before = vec![(Setting::GcInterval, 2000.0)];
        let changes = vec![change("canary")];
        let tuned = Tuned { values: values_after(&before, &changes), changes, time: Duration::from_secs(60) };
        let ran = |per_s: [f64; 3], p99_us| per_s.into_iter().map(|per_s| Ran { per_s, p99_us }).collect::<Vec<_>>();
        let compared = Compared {
            load: Load::SmallInMemory,
            ring: "auto 16 MiB",
            values: [before.clone(), vec![(Setting::GcInterval, 1000.0)], tuned.values.clone()],
            before,
            tuned,
            ran: vec![
                ran([100.0, 200.0, 300.0], 10.0),
                ran([50.0, 60.0, 300.0], 10.0),
                ran([110.0, 220.0, 270.0], 12.0),
            ],
        };
        let mut section = Section::new("decisions", "");
        assert!((compared.rows(1, &mut section) - 1.1).abs() < 1e-9);
        let cases: Vec<&str> = section.rows.iter().map(|row| row.case.as_str()).collect();
        assert_eq!(cases, ["as configured", "expert: store.gc_interval=1000us", "loop: store.gc_interval=4000us"]);
        assert_eq!(section.rows[1].median("throughput_ratio_ci95"), Some(0.5));
        let targets = section.rows.iter().map(|row| row.targets.iter().map(|target| target.met).collect::<Vec<_>>());
        assert_eq!(targets.collect::<Vec<_>>(), [vec![], vec![], vec![true, false]]);
    }
}
