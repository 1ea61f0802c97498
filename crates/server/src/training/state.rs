//! [`Training`]: the training of a server, from its start to its stop: over all openings of its database.
//!
//! Lock order: `inner`, then those of the collection and of the sampler, each alone. Grants and sampling rates are
//! written under the first, so that no tick grants anything after the end of its following period (A1).

mod collecting;
mod predicting;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use collie_base::EPOCH_2000_US;
use collie_env::Env;
use collie_obs::{RateTable, Source};
use collie_sql::catalog::system::{PolicyChange, PolicyRow, SwitchRow};
use collie_train::{
    budget::Switches,
    decision::Setting,
    policy::{ElasticBudget, Halt, PolicyKind, Signals, Windows},
};
use parking_lot::Mutex;

use super::{
    collection::Collection,
    controller::{Controller, Decided},
    decisions::Deciding,
    granted::Granted,
    log::Log,
    sampler::{Process, Sampler},
    switch::Switch,
    units::{REPLAYED_READ, sources, units},
};
use crate::config::{self, Config, find};

/// The settings that can be changed while the server runs, besides `training.switch`.
const LIVE: [&str; 8] = [
    "training.collection_cpu",
    "training.collection_delay_bound",
    "training.collection_delay_floor",
    "training.collection_delay_max",
    "training.collection_policy",
    "training.fit_interval",
    "training.samples",
    "training.shadow_time",
];

/// A following period: a time in which the node follows a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life(u64);

#[derive(Debug)]
struct Run {
    life: Life,
    controller: Controller,
    /// The decisions of the last tick; `None`: there was none yet.
    decided: Option<Decided>,
}

#[derive(Debug)]
struct Inner {
    settings: config::Training,
    /// The version of the settings: when the server was started, or they were changed last, in ms since 1970.
    config_epoch: u64,
    /// `Some` while the node follows a primary.
    run: Option<Run>,
    lives: u64,
    switches: Switches,
    /// Those of earlier following periods.
    windows: Windows,
    /// How often collection was halted, in the order of [`Halt::ALL`].
    halts: [u64; Halt::ALL.len()],
    log: Log,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Training {
    granted: Granted,
    env: Env,
    cores: u32,
    sampler: Arc<dyn Sampler>,
    collection: Collection,
    deciding: Deciding,
    /// Whether a primary samples every call, for a benchmark.
    everything: AtomicBool,
    inner: Mutex<Inner>,
}

/// Returns the time in ms since 1970.
fn epoch(env: &Env) -> u64 {
    u64::try_from(env.clock.wall_us() / 1000).unwrap_or(0)
}

/// Returns why nothing is granted.
const fn reason(halt: Halt) -> &'static str {
    match halt {
        Halt::Silent => "the primary was not heard of for a second",
        Halt::Far => "the delay, or the oldest commit that is not applied, is above four times the bound",
        Halt::AboveMaximum => "the delay is above training.collection_delay_max",
        Halt::Calming => "the mean delay was above training.collection_delay_max, and is not below the half of it yet",
    }
}

impl Training {
    /// Makes the training of a server on a machine with `cores`, whose directory is `data`. Nothing is granted.
    pub(crate) fn new(settings: config::Training, cores: usize, data: &Path, env: Env) -> Self {
        Self::over(settings, cores, data, env, Arc::new(Process))
    }

    /// Does the same, with a sampler.
    pub(super) fn over(
        settings: config::Training,
        cores: usize,
        data: &Path,
        env: Env,
        sampler: Arc<dyn Sampler>,
    ) -> Self {
        let deciding = Deciding::new(env.clone(), data, settings.apply);
        Self {
            granted: Granted::default(),
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            sampler,
            collection: Collection::new(data, &env),
            deciding,
            everything: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                settings,
                config_epoch: epoch(&env),
                run: None,
                lives: 0,
                switches: Switches::default(),
                windows: Windows::default(),
                halts: [0; Halt::ALL.len()],
                log: Log::default(),
            }),
            env,
        }
    }

    /// Returns the decisions about settings.
    pub(crate) fn deciding(&self) -> &Deciding {
        &self.deciding
    }

    /// Makes a primary sample every call from its next tick on, permanently.
    pub(crate) fn sample_everything(&self) {
        self.everything.store(true, Relaxed);
    }

    /// Returns the budget of processor time for elastic work, such as sampled reads.
    pub(crate) fn elastic(&self) -> &Arc<ElasticBudget> {
        self.granted.elastic()
    }

    fn note(&self, inner: &mut Inner, subject: &'static str, change: impl Into<String>, reason: impl Into<String>) {
        inner.log.add(PolicyChange {
            at_us: self.env.clock.wall_us() - EPOCH_2000_US,
            subject,
            change: change.into(),
            reason: reason.into(),
            grant_us_per_s: self.granted.collect_us_per_s(),
        });
    }

    fn controller(&self, inner: &Inner) -> Controller {
        let windows = inner.run.as_ref().map_or(inner.windows, |run| run.controller.windows());
        Controller::new(inner.settings.policy, inner.settings.policy_settings(), self.cores, windows)
    }

    /// Begins a following period: ticks of the returned period can grant.
    pub(crate) fn begin(&self) -> Life {
        let mut inner = self.inner.lock();
        inner.lives += 1;
        let life = Life(inner.lives);
        let controller = self.controller(&inner);
        inner.run = Some(Run { life, controller, decided: None });
        self.take_back();
        self.sampler.work_for(Source::Local);
        self.collection.begin_role();
        self.collection.fitting.allow();
        self.note(&mut inner, "role", "replica", "it follows a primary");
        life
    }

    /// Grants nothing from now on, and stops sampling (A1, A3).
    fn take_back(&self) {
        self.granted.take_back();
        self.sample_nothing();
    }

    fn sample_nothing(&self) {
        self.sampler.publish(&RateTable::off());
        self.collection.change(|figures| figures.rates = Default::default());
    }

    /// Ends the following period, if there is one: no tick grants anything from now on (A1), and a value on trial is
    /// put back.
    pub(crate) fn stop(&self, reason: &str) {
        self.deciding.interrupt();
        let mut inner = self.inner.lock();
        self.end_run(&mut inner, reason);
    }

    /// Ends the following period if it is `life`; unlike [`Training::stop`], it leaves decisions alone.
    pub(super) fn end(&self, life: Life, reason: &str) {
        let mut inner = self.inner.lock();
        if inner.run.as_ref().is_some_and(|run| run.life == life) {
            self.end_run(&mut inner, reason);
        }
    }

    fn end_run(&self, inner: &mut Inner, reason: &str) {
        self.take_back();
        self.collection.fitting.forbid();
        if let Some(run) = inner.run.take() {
            self.sampler.work_for(Source::Calibration);
            self.collection.begin_role();
            inner.windows = run.controller.windows();
            self.note(inner, "role", "collects nothing", reason);
        }
    }

    /// Decides by the signals since the last tick of `life`; returns whether that period continues.
    pub(super) fn tick(&self, life: Life, signals: &Signals) -> bool {
        let mut guard = self.inner.lock();
        let inner = &mut *guard;
        let Some(run) = inner.run.as_mut().filter(|run| run.life == life) else { return false };
        let halted = run.decided.and_then(|decided| decided.halt);
        let decided = run.controller.tick(signals, self.collection.spent_us_per_s());
        run.decided = Some(decided);
        let is_wanted = units().any(|(unit, _)| inner.switches.is_on(unit, REPLAYED_READ));
        let elastic_us_per_s = if is_wanted { decided.elastic_us_per_s } else { 0.0 };
        self.granted.publish(decided.collect_us_per_s, elastic_us_per_s);
        if self.granted.collect_us_per_s() == 0 {
            // A3: a control window begins with the tick that decides it.
            self.sample_nothing();
        }
        if decided.halt != halted {
            match decided.halt {
                Some(halt) => {
                    let count = Halt::ALL.iter().position(|other| *other == halt).map(|place| &mut inner.halts[place]);
                    count.into_iter().for_each(|count| *count += 1);
                    self.note(inner, "grant", "halted", reason(halt));
                }
                None => self.note(inner, "grant", "resumed", "no reason to halt is left"),
            }
        }
        true
    }

    /// Returns how much may be collected now.
    pub(super) fn policy(&self) -> PolicyRow {
        self.collection.fill(self.policy_alone())
    }

    fn policy_alone(&self) -> PolicyRow {
        let inner = self.inner.lock();
        let windows = inner.run.as_ref().map_or(inner.windows, |run| run.controller.windows());
        let common = PolicyRow {
            policy: PolicyKind::Nothing.name(),
            state: "primary",
            grant_us_per_s: self.granted.collect_us_per_s(),
            elastic_us_per_s: self.elastic().rate_us_per_s(),
            elastic_spent_us: self.elastic().spent_us(),
            windows: windows.judged,
            out_windows: windows.out,
            unknown_windows: windows.unknown,
            halts: Halt::ALL.iter().map(|halt| halt.word()).zip(inner.halts).collect(),
            ..PolicyRow::default()
        };
        let Some(run) = &inner.run else { return common };
        let common = PolicyRow { policy: inner.settings.policy.name(), state: "starting", ..common };
        let Some(Decided { signals, collect_us_per_s, halt, state, delay_us, .. }) = run.decided else { return common };
        PolicyRow {
            state: match halt {
                _ if inner.settings.policy == PolicyKind::Nothing => "off",
                Some(halt) => halt.word(),
                None if state.is_control => "control",
                None if collect_us_per_s > 0.0 => "collecting",
                None => "held",
            },
            delay_us,
            behind_us: Some(signals.behind_us().max(delay_us.unwrap_or(0.0))),
            commits_per_s: Some(signals.commits_per_s),
            without_us: state.without_us,
            bound_us: state.bound_us,
            integral: state.integral,
            commit_us: state.commit_us,
            utilisation: state.utilisation,
            ..common
        }
    }

    /// Returns the newest changes.
    pub(super) fn changes(&self) -> Vec<PolicyChange> {
        self.inner.lock().log.all()
    }

    /// Returns every switch.
    pub(super) fn switches(&self) -> Vec<SwitchRow> {
        let switches = self.inner.lock().switches;
        let row = |(unit_id, unit): (collie_train::UnitId, _)| {
            sources().map(move |(source_id, source)| SwitchRow {
                unit_id: unit_id.get(),
                unit,
                source,
                is_on: switches.is_on(unit_id, source_id),
            })
        };
        units().flat_map(row).collect()
    }

    /// Changes the treatment of proposals, until the server stops.
    fn set_apply(&self, value: &str) -> Result<(), String> {
        let name = "training.apply";
        let mut given = Config::default();
        given.set(name, value).map_err(|error| error.to_string())?;
        let mut inner = self.inner.lock();
        let is_changed = inner.settings.apply != given.training.apply;
        inner.settings.apply = given.training.apply;
        if is_changed {
            self.note(&mut inner, "setting", format!("{name} = {value}"), "collie_set_option");
        }
        drop(inner);
        self.deciding.set_mode(given.training.apply);
        Ok(())
    }

    /// Changes a setting until the server stops.
    ///
    /// # Errors
    /// The problem and the remedy, in words.
    pub(super) fn set_option(&self, name: &str, value: &str) -> Result<(), String> {
        if name == "training.switch" {
            let switch = Switch::parse(value).map_err(|wanted| format!("{name} = {value}: {wanted}"))?;
            let mut inner = self.inner.lock();
            if switch.put(&mut inner.switches) > 0 {
                self.note(&mut inner, "switch", value, "collie_set_option");
            }
            return Ok(());
        }
        if let Some(setting @ (Setting::ApplyWorkers | Setting::ReplicationFlushDelay)) = Setting::of_key(name) {
            let mut given = Config::default();
            given.set(name, value).map_err(|error| error.to_string())?;
            let given = given.replication;
            let is_time = setting == Setting::ReplicationFlushDelay;
            let number = if is_time { given.flush_delay.as_micros() as f64 } else { given.apply_workers as f64 };
            return self.deciding.set_replication(setting, number);
        }
        if name == "training.apply" {
            return self.set_apply(value);
        }
        let key = find(name).map_err(|error| error.to_string())?;
        if !LIVE.contains(&key.name) {
            let live = LIVE.join(", ");
            return Err(format!(
                "{name} is read when the server starts: replication.apply_workers, replication.flush_delay, training.apply, \
                 training.switch, {live} change while it runs"
            ));
        }
        let mut inner = self.inner.lock();
        let mut settings = inner.settings.clone();
        settings.set(name, value).map_err(|wanted| format!("{name} = {value}: {wanted}"))?;
        if settings != inner.settings {
            let is_same_rule = (settings.policy, settings.policy_settings())
                == (inner.settings.policy, inner.settings.policy_settings());
            inner.settings = settings;
            inner.config_epoch = epoch(&self.env).max(inner.config_epoch + 1);
            if !is_same_rule {
                // The grant was based on other rules.
                self.take_back();
                let controller = self.controller(&inner);
                if let Some(run) = &mut inner.run {
                    (run.controller, run.decided) = (controller, None);
                }
            }
            self.note(&mut inner, "setting", format!("{name} = {value}"), "collie_set_option");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
