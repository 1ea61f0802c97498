//! `Plan`: how long, where and what to measure.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_env::Env;

/// The time that a benchmark takes for its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Five runs per case.
    Full,
    /// Three runs per case, each a tenth as long: shows that it works, and the rough size of the figures.
    Quick,
    /// One run per case, as short as possible: for tests of the benchmark itself.
    Touch,
}

impl Pace {
    /// Returns the pace of a quick run, or of a full one.
    pub fn quick_if(quick: bool) -> Self {
        if quick { Self::Quick } else { Self::Full }
    }
}

/// The interval of looks at something that is waited for.
const LOOK: Duration = Duration::from_millis(2);

/// Settings of one run of a benchmark.
#[derive(Clone)]
pub struct Plan {
    /// Clock and files.
    pub env: Env,
    /// The directory for files, which are removed when the benchmark ends.
    pub dir: PathBuf,
    /// How long each case runs.
    pub pace: Pace,
    /// Names of the sections to run; empty for all.
    pub only: Vec<String>,
    /// How long the oldest snapshot is held while other sessions write.
    pub old_snapshot: Duration,
    /// The number of rows in an index; by default a million at full pace.
    pub rows: Option<u64>,
    /// How long keys come and go in an index while its memory is measured.
    pub churn: Duration,
    /// The program `collie`. Without it, nothing is measured over the wire.
    pub server: Option<PathBuf>,
    /// The program `collie-bench`. Without it, nothing is measured in a separate process, or on a server with changes.
    pub program: Option<PathBuf>,
    /// Called with a description of each measurement before it starts.
    pub on_progress: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Plan {
    /// Creates a plan to measure in `dir`.
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
            program: None,
            on_progress: Arc::new(|_| ()),
        }
    }

    /// Returns the number of runs per case.
    pub fn runs(&self) -> usize {
        match self.pace {
            Pace::Full => 5,
            Pace::Quick => 3,
            Pace::Touch => 1,
        }
    }

    /// Returns the duration of a case that takes `full` at full pace.
    pub fn time(&self, full: Duration) -> Duration {
        full / self.divisor()
    }

    /// Returns the size of a case whose size is `full` at full pace.
    pub fn amount(&self, full: u64) -> u64 {
        full / u64::from(self.divisor())
    }

    /// Returns the number of rows in an index.
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

    /// Checks the names of the sections to run against those that exist.
    ///
    /// # Errors
    /// The first that does not exist; the message lists those that do.
    pub(crate) fn check(&self, known: &[&str]) -> anyhow::Result<()> {
        for only in &self.only {
            anyhow::ensure!(known.contains(&only.as_str()), "no section {only}: use {}", known.join(", "));
        }
        Ok(())
    }

    /// Returns whether section `name` must run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Reports what is being measured.
    pub fn say(&self, what: &str) {
        (self.on_progress)(what);
    }

    /// Calls `look` every few milliseconds until it finds something.
    ///
    /// # Errors
    /// Those of `look`; it finds nothing within `patience`, and the error begins with `what`.
    pub(crate) fn until<T>(
        &self,
        patience: Duration,
        what: &str,
        mut look: impl FnMut() -> anyhow::Result<Option<T>>,
    ) -> anyhow::Result<T> {
        let begun = self.now_ns();
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            anyhow::ensure!(u128::from(self.now_ns() - begun) < patience.as_nanos(), "{what}, in {patience:?}");
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.env.clock.now_ns()
    }
}
