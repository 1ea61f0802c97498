//! [`Collector`]: the thread that drains samples ten times a second, keeps them, and decides the sampling
//! probabilities.
//!
//! It is no worker of sessions, and no thread waits for it during normal work: it yields to others
//! (`collie_env::give_way`). It still gets a tenth of a core, and not only otherwise idle time (`SCHED_IDLE`), because
//! it holds locks that a promotion takes.
//!
//! # Invariants
//! - C1. It ends before its database: a caller that closes that, or moves its directory, ends the collector first
//!   ([`Collector::end`]).
//! - C2. However the thread ends, nothing is sampled afterwards, and no fit runs.

use crate::log_lines;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    thread::JoinHandle,
    time::Duration,
};

use collie_env::Env;
use collie_obs::{Batch, Drain, Situation, Source};
use collie_samples::{Origin, SinkOptions, SinkState};
use collie_sql::session::Database;
use parking_lot::{Condvar, Mutex};

use super::{
    collection::Samples,
    fitter::{Event, Fitter},
    fitting::Ended,
    incoming::Incoming,
    keeper::{self, Keeper},
    rates::Rates,
    state::Training,
};

/// The time between two drains: a lane holds some thousand samples.
const EVERY: Duration = Duration::from_millis(100);

/// The delay before it begins: a starting server has more urgent work, and the machine is measured first.
const START_DELAY: Duration = Duration::from_secs(1);

/// The number of periods between two checks of incoming packages.
const LOOK_PERIODS: u32 = 10;

/// The least samples in a period from which the cost per sample is measured.
const COST_SAMPLES_MIN: usize = 16;

/// The upper limit of the cost of one sample, in us: the thread may not have run for a while.
const COST_US_MAX: f64 = 100.0;

/// The origin of the samples, and the place for them.
#[derive(Clone, Debug)]
pub(crate) struct Whose {
    /// Name of the cluster.
    pub(crate) cluster: String,
    /// Name of the node.
    pub(crate) node: String,
    /// The data directory.
    pub(crate) data: PathBuf,
    /// The program that fits models; `None`: no models are fitted.
    pub(crate) program: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Stop {
    is_ending: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Waits for `time`, or until the thread is to end; returns whether it is to end.
    fn wait(&self, time: Duration) -> bool {
        let mut is_ending = self.is_ending.lock();
        if !*is_ending {
            let _whichever = self.changed.wait_for(&mut is_ending, time);
        }
        *is_ending
    }
}

/// See the module's documentation. Dropping it ends the thread.
#[derive(Debug)]
pub(crate) struct Collector {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    /// Begins to collect for `training`, after a delay of a second. If the thread cannot be started, nothing is
    /// collected, which is logged.
    pub(crate) fn start(training: Arc<Training>, database: &Arc<Database>, whose: Whose, env: &Env) -> Self {
        let stop = Arc::<Stop>::default();
        let (stopping, database, env) = (stop.clone(), Arc::downgrade(database), env.clone());
        let thread = std::thread::Builder::new().name("collie-samples".to_owned()).spawn(move || {
            collie_env::give_way();
            let collecting = Collecting(training);
            if until_wanted(&collecting.0, &stopping)
                && let Some(mut work) = Work::begin(&collecting.0, database, &whose, &env, &stopping)
            {
                while !stopping.wait(EVERY) {
                    work.period();
                }
                work.end();
            }
        });
        let thread = thread.map_err(|error| log_lines::warn(&format_args!("no samples are collected: {error}"))).ok();
        Self { stop, thread }
    }

    /// Ends the thread: kept samples are on disk on return, unless the disk fails (C1).
    pub(crate) fn end(mut self) {
        self.finish();
    }

    fn finish(&mut self) {
        *self.stop.is_ending.lock() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported that, and its drop guard has cleaned up (C2).
            let _panicked = thread.join();
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.finish();
    }
}

/// The guard of a collecting thread (C2).
struct Collecting(Arc<Training>);

impl Drop for Collecting {
    fn drop(&mut self) {
        self.0.stop_sampling();
        self.0.collection().fitting.end();
        self.0.collection().rest();
    }
}

/// Waits until samples are wanted, and at least for the start delay; returns `false` if the thread is to end. Until
/// then not even the machine is measured.
fn until_wanted(training: &Training, stopping: &Stop) -> bool {
    if stopping.wait(START_DELAY) {
        return false;
    }
    training.load_models();
    while !training.settings().0.samples {
        training.collection().change(|figures| figures.samples = Samples::Off);
        if stopping.wait(START_DELAY) {
            return false;
        }
    }
    true
}

/// The state of the thread.
struct Work<'a> {
    training: &'a Training,
    database: Weak<Database>,
    env: Env,
    drain: Drain,
    batch: Batch,
    keeper: Keeper,
    rates: Rates,
    fitter: Option<Fitter>,
    incoming: Incoming,
    periods: u32,
    /// The time at which the last period ended.
    ended_ns: u64,
    commits: u64,
    /// The cost of a sample, in us: taking it, and keeping it.
    cost_us: f64,
    samples: Samples,
}

impl<'a> Work<'a> {
    /// Measures the machine and opens the files; returns `None` if the thread is to end before another drain has.
    fn begin(
        training: &'a Training,
        database: Weak<Database>,
        whose: &Whose,
        env: &Env,
        stopping: &Stop,
    ) -> Option<Self> {
        let collection = training.collection();
        let hardware = collection.measured();
        let clock = env.clock.clone();
        // Only one thread of a process can drain; an earlier one may have to end first.
        let drain = loop {
            if let Some(drain) = Drain::open(&|| clock.now_ns()) {
                break drain;
            }
            if stopping.wait(START_DELAY) {
                return None;
            }
        };
        let (settings, _) = training.settings();
        let build = concat!("collie ", env!("CARGO_PKG_VERSION")).to_owned();
        let Whose { cluster, node, data, program } = whose;
        let origin =
            Origin { cluster: cluster.clone(), node: node.clone(), build, hardware: hardware.as_ref().clone() };
        let options = SinkOptions { bytes_max: settings.samples_bytes, ..SinkOptions::default() };
        let now_ns = env.clock.now_ns();
        let fitter = |program: PathBuf| Fitter::new(program, data, collie_samples::safe_node(node), now_ns);
        let mut work = Self {
            training,
            database,
            drain,
            batch: Batch::new(),
            keeper: Keeper::new(env, data, origin, options),
            rates: Rates::default(),
            fitter: program.clone().map(fitter),
            incoming: Incoming::new(env.files.clone(), &collection.models),
            periods: 0,
            ended_ns: now_ns,
            commits: 0,
            cost_us: 1.0,
            samples: Samples::Starting,
            env: env.clone(),
        };
        work.commits = work.commits_now();
        Some(work)
    }

    fn commits_now(&self) -> u64 {
        self.database.upgrade().map_or(self.commits, |database| database.engine().commits())
    }

    /// Returns the context of the period that ends.
    fn situation(&mut self, seconds: f64, config_epoch: u64) -> Situation {
        let commits = self.commits_now();
        let new = commits.saturating_sub(self.commits);
        self.commits = commits;
        let running = self.database.upgrade().map_or(0, |database| database.running_sessions());
        let running_sessions = u32::try_from(running).unwrap_or(u32::MAX);
        match self.training.situation() {
            Some(situation) => Situation { running_sessions, ..situation },
            None => {
                #[expect(clippy::cast_possible_truncation, reason = "a rate: a few digits do")]
                let commits_per_s = (new as f64 / seconds.max(1e-3)) as f32;
                Situation { commits_per_s, running_sessions, config_epoch, ..Situation::default() }
            }
        }
    }

    /// Performs the work of a period, a tenth of a second.
    fn period(&mut self) {
        let now_ns = self.env.clock.now_ns();
        let seconds = now_ns.saturating_sub(self.ended_ns) as f64 / 1e9;
        self.ended_ns = now_ns;
        let (settings, config_epoch) = self.training.settings();
        let situation = self.situation(seconds, config_epoch);
        self.drain.drain(now_ns, situation, &mut self.batch);
        self.keep(settings.samples, config_epoch);
        self.count(now_ns, seconds);
        let is_kept = self.look_at_samples(settings.samples);
        let (rates, collection) = (&mut self.rates, self.training.collection());
        self.training.decide_rates(is_kept, |may, switches| {
            let decided = rates.decide(may, switches, &|unit| collection.judge.worth(unit));
            collection.change(|figures| figures.rates = rates.all());
            decided
        });
        self.show(seconds);
        self.fit(now_ns, settings.fit_interval);
        self.periods = self.periods.wrapping_add(1);
        if self.periods.is_multiple_of(LOOK_PERIODS) {
            self.look_at_packages(now_ns, settings.shadow_time);
        }
    }

    /// Passes on the drained samples.
    fn keep(&mut self, is_wanted: bool, config_epoch: u64) {
        self.keeper.tick(config_epoch);
        if !is_wanted {
            return;
        }
        let collection = self.training.collection();
        let rows = self.keeper.take(&self.batch.samples, &self.batch.contexts);
        let loaded = collection.models.loaded();
        keeper::show(rows, &loaded, &collection.judge, &collection.recent);
        self.incoming.take(&loaded, rows);
    }

    /// Updates the cost of a sample and the call rates of units.
    fn count(&mut self, now_ns: u64, seconds: f64) {
        let count = self.batch.samples.len();
        if count >= COST_SAMPLES_MIN {
            let kept_us = self.env.clock.now_ns().saturating_sub(now_ns) as f64 / 1e3 / count as f64;
            let now_us = (self.drain.sample_ns() / 1e3 + kept_us).min(COST_US_MAX);
            self.cost_us = 0.9 * self.cost_us + 0.1 * now_us;
        }
        self.rates.saw(&self.batch.taken, &self.batch.dropped, seconds, self.cost_us);
    }

    /// Returns whether samples are kept, and reports changes of that.
    fn look_at_samples(&mut self, is_wanted: bool) -> bool {
        let samples = match self.keeper.state() {
            _ if !is_wanted => Samples::Off,
            SinkState::Collecting => Samples::Collecting,
            SinkState::Stopped { reason } => Samples::Stopped(reason.clone()),
        };
        if samples != self.samples {
            if let Samples::Stopped(reason) = &samples {
                log_lines::warn(&format_args!("no samples are collected: {reason}"));
            }
            self.training.tell("samples", samples.word(), samples.reason().unwrap_or_default());
            self.samples = samples;
        }
        self.samples == Samples::Collecting
    }

    /// Publishes the figures of this period to views.
    fn show(&self, seconds: f64) {
        let Batch { taken, dropped, .. } = &self.batch;
        let spent_us = self.cost_us * self.batch.samples.len() as f64;
        let apply = usize::from(Source::Apply.number());
        let by_apply: u64 = taken.iter().map(|by_source| by_source[apply]).sum();
        let collection = self.training.collection();
        let apply_ns = by_apply as f64 * self.drain.sample_ns();
        collection.costs(apply_ns, spent_us / seconds.max(1e-3), self.rates.wanted_us_per_s());
        collection.change(|figures| {
            let counts = figures.taken.iter_mut().flatten().zip(taken.iter().flatten());
            counts.for_each(|(count, new)| *count += new);
            figures.dropped.iter_mut().zip(dropped).for_each(|(count, new)| *count += new);
            figures.keep(&self.keeper.kept());
            figures.samples = self.samples.clone();
            figures.spent_us += spent_us;
        });
    }

    /// Begins a fit when it is due, and checks the running one.
    fn fit(&mut self, now_ns: u64, interval: Option<Duration>) {
        let Some(fitter) = &mut self.fitter else { return };
        let collection = self.training.collection();
        let (is_replica, has_time) = self.training.may_fit();
        let mut event = fitter.look(&collection.fitting, now_ns, is_replica && has_time);
        let kept_rows: u64 = self.keeper.kept().by_unit.iter().sum();
        if event.is_none()
            && is_replica
            && has_time
            && fitter.is_due(now_ns, interval, kept_rows, collection.models.loaded().rows())
        {
            self.keeper.finish();
            event = fitter.begin(&collection.fitting, now_ns, kept_rows);
        }
        match event {
            None => {}
            Some(Event::Begun) => self.training.tell("fit", "begins", "enough samples are new"),
            Some(Event::Refused(why)) => self.failed(&why),
            Some(Event::Ended(Ended::Killed)) => self.training.tell("fit", "is killed", "it may not run any more"),
            Some(Event::Ended(Ended::Failed(why))) => self.failed(&why),
            Some(Event::Ended(Ended::Done(end))) => {
                // The lines of the fit about labels for which it wrote no model (TRAIN-11).
                for line in end.output.lines().filter(|line| line.contains("; not written: ")) {
                    self.training.tell("model", "is not exchanged", line.trim());
                }
                let models = self.training.load_models();
                self.training.tell("fit", "is done", format!("{models} models are in use"));
            }
        }
    }

    fn failed(&self, why: &str) {
        log_lines::warn(&format_args!("no models were fitted: {why}"));
        self.training.tell("fit", "has failed", why);
    }

    fn look_at_packages(&mut self, now_ns: u64, shadow: Duration) {
        let collection = self.training.collection();
        let changes = self.incoming.look(now_ns, shadow, &collection.models);
        if !changes.is_empty() {
            self.training.load_models();
        }
        for change in changes {
            log_lines::note(&format_args!("model package incoming/{} {}: {}", change.file, change.what, change.why));
            self.training.tell("model", format!("incoming/{} {}", change.file, change.what), change.why);
        }
        let shadows = self.incoming.rows();
        collection.change(|figures| figures.shadows = shadows);
    }

    /// Takes the remaining samples, and writes everything.
    fn end(&mut self) {
        self.training.stop_sampling();
        let (settings, config_epoch) = self.training.settings();
        let now_ns = self.env.clock.now_ns();
        let seconds = now_ns.saturating_sub(self.ended_ns) as f64 / 1e9;
        let situation = self.situation(seconds, config_epoch);
        self.drain.drain(now_ns, situation, &mut self.batch);
        self.keep(settings.samples, config_epoch);
        self.keeper.finish();
        self.show(seconds);
    }
}

impl Whose {
    /// Returns the origin of the samples of the data directory `data`.
    pub(crate) fn of(data: &Path, cluster: u128, node: String, program: Option<PathBuf>) -> Self {
        Self { cluster: format!("{cluster:032x}"), node, data: data.to_owned(), program }
    }
}
