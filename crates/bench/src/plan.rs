//! `Plan`: how long to measure, where, and what.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_env::Env;

use crate::trace::{Tracer, TracerProgram};

/// How much time a benchmark takes for its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Five runs a case.
    Full,
    /// Three runs a case, each a tenth as long: shows that it works, and roughly where things stand.
    Quick,
    /// One run a case, as short as it can be: for tests of the benchmark itself.
    Touch,
}

/// Settings of one run of a benchmark.
#[derive(Clone)]
pub struct Plan {
    /// Clock and files.
    pub env: Env,
    /// Where files are made; they go when the benchmark ends.
    pub dir: PathBuf,
    /// How long each case runs.
    pub pace: Pace,
    /// Names of the sections to run; empty for all.
    pub only: Vec<String>,
    /// How long the oldest snapshot lives that others write beside.
    pub old_snapshot: Duration,
    /// How many rows an index holds; a million at full pace unless it says.
    pub rows: Option<u64>,
    /// How long keys come and go in an index while its memory is watched.
    pub churn: Duration,
    /// The program that serves SQL when it is started with `serve`; without it, nothing is measured over the wire or in a
    /// process of its own.
    pub server: Option<PathBuf>,
    /// What looks at threads from outside; without it, nothing is counted or stopped that way.
    pub tracer: Option<TracerProgram>,
    /// Told what is being measured, before it is.
    pub on_progress: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Plan {
    /// Plans to measure in `dir`.
    pub fn new(dir: &Path, pace: Pace) -> Self {
        Self {
            env: Env::real(),
            dir: dir.to_owned(),
            pace,
            only: Vec::new(),
            old_snapshot: match pace {
                Pace::Full => Duration::from_secs(600),
                Pace::Quick => Duration::from_secs(5),
                Pace::Touch => Duration::from_millis(100),
            },
            rows: None,
            churn: match pace {
                Pace::Full => Duration::from_secs(600),
                Pace::Quick => Duration::from_secs(5),
                Pace::Touch => Duration::from_millis(100),
            },
            server: None,
            tracer: None,
            on_progress: Arc::new(|_| ()),
        }
    }

    /// Returns how often a case is run.
    pub fn runs(&self) -> usize {
        match self.pace {
            Pace::Full => 5,
            Pace::Quick => 3,
            Pace::Touch => 1,
        }
    }

    /// Returns how long a case runs that takes `full` at full pace.
    pub fn time(&self, full: Duration) -> Duration {
        full / self.divisor()
    }

    /// Returns how much of a case there is that counts `full` at full pace.
    pub fn amount(&self, full: u64) -> u64 {
        full / u64::from(self.divisor())
    }

    /// Returns how many rows an index holds.
    pub fn index_rows(&self) -> u64 {
        self.rows.unwrap_or_else(|| self.amount(1_000_000))
    }

    fn divisor(&self) -> u32 {
        match self.pace {
            Pace::Full => 1,
            Pace::Quick => 10,
            Pace::Touch => 100,
        }
    }

    /// Returns whether section `name` is to run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Tells what is being measured.
    pub fn say(&self, what: &str) {
        (self.on_progress)(what);
    }

    /// Starts the tracer; returns why there is none, else.
    pub(crate) fn tracer(&self) -> Result<Tracer, String> {
        let program = self.tracer.as_ref().ok_or("no tracer was named")?;
        Tracer::start(program).map_err(|error| error.to_string())
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.env.clock.now_ns()
    }
}
