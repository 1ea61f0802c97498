//! `Deciding`: a single server that may decide about its own settings, and its reports about them.
//!
//! # What always holds
//! - D1. If models are fitted to samples, or are as good as such models, every call of every unit is sampled: by
//!   default a primary samples a thousandth, and would need minutes until it could propose anything. Wrong models use
//!   the default: they would be detected so early that they proposed nothing, since a thousand samples judge them.
//! - D2. A server's knowledge of models is in its directory: a server started in the directory of another one has what
//!   that one has learned.

use std::sync::Arc;
use std::time::Duration;

use collie_server::log_lines;
use collie_train::decision::Setting;

use super::change::{Change, Values, values_after, values_of_metrics};
use crate::http::get;
use crate::replication::PairSettings;
use crate::replication::pair::{Launch, Pair, launch_in};
use crate::servers::SAMPLE_EVERYTHING;
use crate::training::cores::two_cores;
use crate::training::live::{Node, set};
use crate::training::recording::{NOT_YET, arguments};
use crate::{Plan, Scratch};

/// The time that a server may take to follow a request: far beyond what it needs.
const PATIENCE: Duration = Duration::from_secs(60);
const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];
const SAID: &str = "listening for HTTP on ";

/// What is done with the proposals of models: `training.apply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Apply {
    /// Nothing; and no samples are kept until they are requested.
    Off,
    Canary,
}

/// The calls that the server samples (D1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled {
    All,
    /// A thousandth, the default.
    ByDefault,
}

/// A running server. See the module's documentation.
pub(super) struct Deciding {
    pair: Pair,
    http: String,
}

impl Deciding {
    /// Starts a server in `scratch`.
    ///
    /// # Errors
    /// The server does not start.
    pub(super) fn start(
        settings: &PairSettings,
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
        let pair = launch_in(settings, scratch, launch)?;
        let said = || {
            pair.primary_words().lines().find_map(|line| log_lines::text_of(line).strip_prefix(SAID).map(str::to_owned))
        };
        let http = settings.plan.until(PATIENCE, "it does not answer HTTP", || Ok(said()))?;
        Ok(Self { pair, http })
    }

    /// Starts a server in a new directory that decides nothing, and samples every call once it is asked to.
    ///
    /// # Errors
    /// The server does not start.
    pub(super) fn start_new(settings: &PairSettings, name: &str) -> anyhow::Result<Self> {
        let scratch = Arc::new(Scratch::new(&settings.plan.env, &settings.plan.dir)?);
        Self::start(settings, name, scratch, (Apply::Off, Sampled::All))
    }

    pub(super) fn pair(&self) -> &Pair {
        &self.pair
    }

    /// Stops it, and returns its directory.
    pub(super) fn stop(self) -> Arc<Scratch> {
        self.pair.stop().0
    }

    /// Returns the values in force of the settings that decisions may be about here.
    ///
    /// # Errors
    /// The server does not answer, or reports no settings.
    pub(super) fn in_force(&self) -> anyhow::Result<Values> {
        let values = values_of_metrics(&get(&self.http, "/metrics")?);
        anyhow::ensure!(!values.is_empty(), "{}: /metrics has no settings", self.pair.name());
        Ok(values)
    }

    /// Returns the decisions so far.
    ///
    /// # Errors
    /// Those of the driver.
    pub(super) fn changes(&self) -> anyhow::Result<Vec<Change>> {
        Change::all(&mut self.pair.connect()?)
    }

    /// Sets values by hand.
    ///
    /// # Errors
    /// The server refuses a value.
    pub(super) fn put(&self, values: &[(Setting, f64)]) -> anyhow::Result<()> {
        values
            .iter()
            .try_for_each(|(setting, value)| set(&self.pair, Node::Primary, setting.key(), &setting.text(*value)))
    }

    /// Stops decisions and waits until an open change has ended with the old value, one of `before`; kept changes stay.
    ///
    /// # Errors
    /// That takes more than a minute; the errors of the driver.
    pub(super) fn decide_no_more(&self, plan: &Plan, before: &[(Setting, f64)]) -> anyhow::Result<()> {
        set(&self.pair, Node::Primary, "training.apply", "off")?;
        plan.until(PATIENCE, "a change in flight does not end with the old value", || {
            let changes = self.changes()?;
            let is_over = !changes.iter().any(Change::is_open) && self.in_force()? == values_after(before, &changes);
            Ok(is_over.then_some(()))
        })
    }
}
