//! `Deciding`: a lone server that may decide about its own settings, and what it says of them.
//!
//! # What always holds
//! - D1. Where models are learned of samples or are as good as those, every call of every unit is sampled: by default a primary samples a thousandth,
//!   and it would be minutes until it had enough to propose by. Wrong ones would be found out so soon that they proposed nothing: they are judged by
//!   a thousand samples.
//! - D2. What a server knows of models is in its directory: who starts one in the directory of another has what that one has learned.

use std::sync::Arc;
use std::time::Duration;

use collie_server::log_lines;
use collie_train::decision::Setting;

use super::change::{Change, Values, values_after, values_of_metrics};
use crate::http::get;
use crate::replication::pair::{Launch, Pair, launch_in};
use crate::training::cores::two_cores;
use crate::training::live::{Node, set};
use crate::training::recording::{NOT_YET, SAMPLE_EVERYTHING, arguments};
use crate::training::settings::TrainingSettings;
use crate::{Plan, Scratch};

/// How long a server may take to do what it was told: far beyond what it takes.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];
const SAID: &str = "listening for HTTP on ";

/// What is done with what models propose: `training.apply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apply {
    /// Nothing; and no samples are kept before it is told to.
    Off,
    Canary,
}

/// Which calls it samples (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled {
    All,
    /// A thousandth, as users get it.
    ByDefault,
}

/// See the module's documentation.
pub(super) struct Deciding {
    pair: Pair,
    http: String,
}

impl Deciding {
    /// Starts one in `scratch`.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start(
        settings: &TrainingSettings,
        name: &str,
        scratch: Arc<Scratch>,
        (apply, sampled): (Apply, Sampled),
    ) -> anyhow::Result<Self> {
        let how: &[&str] = match apply {
            Apply::Off => &["--set", "training.apply=off", NOT_YET[0], NOT_YET[1]],
            Apply::Canary => &["--set", "training.apply=canary"],
        };
        let samples: &[&str] = match sampled {
            Sampled::All => &[SAMPLE_EVERYTHING],
            Sampled::ByDefault => &[],
        };
        let primary = arguments(&[samples, &HTTP, how]);
        let launch = Launch { name: name.to_owned(), primary, cores: two_cores(), alone: true, ..Launch::default() };
        let pair = launch_in(&settings.replication(), scratch, launch)?;
        let said = || {
            pair.primary_words().lines().find_map(|line| log_lines::text_of(line).strip_prefix(SAID).map(str::to_owned))
        };
        let http = until(&settings.plan, "it does not answer HTTP", || Ok(said()))?;
        Ok(Self { pair, http })
    }

    /// Starts one in a new directory that decides nothing, and samples every call once it is told to.
    ///
    /// # Errors
    /// It does not start.
    pub(super) fn start_new(settings: &TrainingSettings, name: &str) -> anyhow::Result<Self> {
        let scratch = Arc::new(Scratch::new(&settings.plan.env, &settings.plan.dir)?);
        Self::start(settings, name, scratch, (Apply::Off, Sampled::All))
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Stops it, and returns its directory.
    ///
    /// # Errors
    /// None of a lone server.
    pub(super) fn stop(self) -> anyhow::Result<Arc<Scratch>> {
        Ok(self.pair.stop()?.0)
    }

    /// Returns the values in force of the settings that decisions may be about here.
    ///
    /// # Errors
    /// It does not answer, or has none.
    pub(super) fn in_force(&self) -> anyhow::Result<Values> {
        let values = values_of_metrics(&get(&self.http, "/metrics")?);
        anyhow::ensure!(!values.is_empty(), "{}: /metrics has no settings", self.pair.name());
        Ok(values)
    }

    /// Returns what was decided so far.
    ///
    /// # Errors
    /// The driver's.
    pub(super) fn changes(&self) -> anyhow::Result<Vec<Change>> {
        Change::all(&mut self.pair.connect()?)
    }

    /// Puts values by hand.
    ///
    /// # Errors
    /// The server does not take one.
    pub(super) fn put(&self, values: &[(Setting, f64)]) -> anyhow::Result<()> {
        values
            .iter()
            .try_for_each(|(setting, value)| set(&self.pair, Node::Primary, setting.key(), &setting.text(*value)))
    }

    /// Has it decide no more, and waits until a change in flight has ended with the old value, one of `before`; what was kept stays.
    ///
    /// # Errors
    /// It has not in a minute; the driver's.
    pub(super) fn decide_no_more(&self, plan: &Plan, before: &[(Setting, f64)]) -> anyhow::Result<()> {
        set(&self.pair, Node::Primary, "training.apply", "off")?;
        until(plan, "a change in flight does not end with the old value", || {
            let changes = self.changes()?;
            let is_over = !changes.iter().any(Change::is_open) && self.in_force()? == values_after(before, &changes);
            Ok(is_over.then_some(()))
        })
    }
}

/// Asks `look` until it returns something.
fn until<T>(plan: &Plan, what: &str, look: impl Fn() -> anyhow::Result<Option<T>>) -> anyhow::Result<T> {
    let begun = plan.now_ns();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        anyhow::ensure!(u128::from(plan.now_ns() - begun) < PATIENCE.as_nanos(), "{what}");
        std::thread::sleep(LOOK);
    }
}
