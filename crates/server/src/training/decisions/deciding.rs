//! [`Deciding`]: the decisions of a server, from its start to its stop: over all openings of its database.
//!
//! Lock order: `running`, then the locks of its callees: that of `Hands`, and that of `Training`'s state for a
//! replica's bound. No caller holds one of these.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use collie_env::Env;
use collie_sql::catalog::system::{CandidateRow, DecisionRow};
use collie_train::decision::{Mode, Setting};
use parking_lot::Mutex;
use tokio::{
    task::block_in_place,
    time::{MissedTickBehavior, interval},
};

use super::{
    super::granted::whole,
    decider::{Decider, Parts},
    gauge::Gauge,
    hands::Hands,
    journal_file::JournalFile,
    knobs::Knobs,
    predictor::Predictor,
    shown::{candidate_row, row},
};
use crate::training::Training;

/// Decisions are based on seconds.
const SECOND: Duration = Duration::from_secs(1);

/// A period in which a database is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenLife(u64);

#[derive(Debug)]
struct Running {
    life: u64,
    mode: Mode,
    /// `Some` while a database is open whose journal can be read.
    decider: Option<Decider>,
    /// `Some` while a database is open.
    knobs: Option<Arc<dyn Knobs>>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Deciding {
    env: Env,
    dir: PathBuf,
    hands: Arc<Hands>,
    running: Mutex<Running>,
}

impl Deciding {
    /// Makes the decisions of a server whose directory is `dir`. Nothing is decided before [`Deciding::begin`].
    pub(crate) fn new(env: Env, dir: &Path, mode: Mode) -> Self {
        let running = Running { life: 0, mode, decider: None, knobs: None };
        Self { env, dir: dir.to_owned(), hands: Arc::default(), running: Mutex::new(running) }
    }

    /// Records the keys that were given when the server was started: decisions leave them alone.
    pub(crate) fn note_given<'a>(&self, keys: impl IntoIterator<Item = &'a str>) {
        self.hands.note_given(keys);
    }

    fn now_s(&self) -> u64 {
        u64::try_from(self.env.clock.wall_us() / 1_000_000).unwrap_or(0)
    }

    /// Begins to decide about an opened database. Changes in flight in its journal have ended, and rows record that;
    /// kept values are put. Returns a line for the log if the journal cannot be read, and then nothing is decided, or
    /// if a part of it is damaged.
    pub(crate) fn begin(
        &self,
        knobs: Arc<dyn Knobs>,
        gauge: Box<dyn Gauge>,
        predictor: Arc<dyn Predictor>,
    ) -> (OpenLife, Option<String>) {
        let mut running = self.running.lock();
        running.life += 1;
        let (decider, told) = match JournalFile::open(self.env.clone(), &self.dir) {
            Ok((journal, told)) => {
                let parts = Parts { knobs: knobs.clone(), gauge, predictor, hands: self.hands.clone(), journal };
                (Some(Decider::new(parts, running.mode, self.now_s())), told)
            }
            Err(error) => (None, Some(format!("no decisions are made: the journal decisions cannot be read: {error}"))),
        };
        (running.decider, running.knobs) = (decider, Some(knobs));
        (OpenLife(running.life), told)
    }

    /// Processes the second that has passed; returns whether `life` continues.
    fn tick(&self, life: OpenLife) -> bool {
        let now_s = self.now_s();
        let mut running = self.running.lock();
        if running.life != life.0 {
            return false;
        }
        match running.decider.as_mut().filter(|decider| decider.is_open()) {
            Some(decider) => {
                decider.tick(now_s);
                true
            }
            None => {
                (running.decider, running.knobs) = (None, None);
                false
            }
        }
    }

    /// Puts the old value of a change in flight back, since the role of the node is about to change (C3).
    pub(crate) fn interrupt(&self) {
        let now_s = self.now_s();
        self.running.lock().decider.iter_mut().for_each(|decider| decider.interrupt(now_s));
    }

    /// Ends the decisions of `life`, since no task watches it any more: a value on trial is put back.
    fn end(&self, life: OpenLife) {
        let now_s = self.now_s();
        let mut running = self.running.lock();
        if running.life == life.0 {
            running.decider.take().iter_mut().for_each(|decider| decider.interrupt(now_s));
        }
    }

    /// Changes `training.apply`; off ends a change in flight.
    pub(crate) fn set_mode(&self, mode: Mode) {
        let now_s = self.now_s();
        let mut running = self.running.lock();
        running.mode = mode;
        running.decider.iter_mut().for_each(|decider| decider.set_mode(mode, now_s));
    }

    /// Changes a replication setting by hand; 0 workers mean as many as were started.
    ///
    /// # Errors
    /// The problem, in words.
    pub(crate) fn set_replication(&self, setting: Setting, value: f64) -> Result<(), String> {
        let knobs = self.running.lock().knobs.clone().ok_or("no database is open")?;
        let is_all = setting == Setting::ApplyWorkers && value == 0.0;
        let value = if is_all { knobs.range(setting).1 } else { value };
        self.hands.set(setting, || knobs.put(setting, value))
    }

    /// Calls `set`, which changes the setting `name`, while no decision can change it (C2).
    ///
    /// # Errors
    /// Those of `set`.
    pub(crate) fn set_by_hand(&self, name: &str, set: &mut dyn FnMut() -> Result<(), String>) -> Result<(), String> {
        match Setting::of_key(name) {
            Some(setting) => self.hands.set(setting, set),
            None => set(),
        }
    }

    /// Returns the changes, oldest first.
    pub(crate) fn rows(&self) -> Vec<DecisionRow> {
        let running = self.running.lock();
        let entries = running.decider.as_ref().map(Decider::entries).unwrap_or_default();
        collie_train::decision::changes(entries).iter().map(|entry| row(&entry.row)).collect()
    }

    /// Returns the changes that were weighed last, the largest gain first.
    pub(crate) fn candidates(&self) -> Vec<CandidateRow> {
        let running = self.running.lock();
        let looked = running.decider.as_ref().and_then(Decider::looked);
        looked
            .map_or_else(Vec::new, |(at_s, candidates)| candidates.iter().map(|one| candidate_row(at_s, one)).collect())
    }

    /// Returns the settings that decisions may change on this node, with their current values.
    pub(crate) fn values(&self) -> Vec<(&'static str, u64)> {
        let running = self.running.lock();
        let values = running.decider.as_ref().map(Decider::values).unwrap_or_default();
        values.into_iter().map(|(setting, value)| (setting.key(), whole(value))).collect()
    }
}

/// Ends a change in flight when the task that watches it ends, also by a panic or an abort.
struct Watching(Arc<Training>, OpenLife);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.deciding().end(self.1);
    }
}

/// Decides once a second until `life` is over.
pub(crate) async fn decide(training: Arc<Training>, life: OpenLife) {
    let watching = Watching(training, life);
    let mut ticks = interval(SECOND);
    // A late tick counts as one tick, with correct rates.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    loop {
        ticks.tick().await;
        // Rows are written and synced.
        if !block_in_place(|| watching.0.deciding().tick(life)) {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
