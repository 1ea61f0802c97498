//! `Decisions`: the one change that may be in flight, from proposal to verdict.
//!
//! | state | call | next state |
//! |---|---|---|
//! | idle | `propose` | trial, or idle |
//! | trial | `trial_pair` | trial, canary, idle (rejected) |
//! | canary | `canary_window` | canary, idle (kept or rolled back) |
//! | trial, canary | `guard`, `interrupt`, `tick` past a deadline | idle (rolled back) |

use super::{
    Guard, Pair, Proposal, Quarantine, Refusal, Row, Setting, Trial, TrialVerdict, Verdict, Watch, WatchVerdict, Window,
};

/// The time between the end of a change and the start of the next one: 10 min.
const COOL_DOWN_S: u64 = 600;

/// The deadline of a trial and of a canary: a canary takes 10 min if every second is measured.
const DEADLINE_S: u64 = 900;

/// `training.apply`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// No change is proposed.
    Off,
    /// Proposals are written to the journal, and no setting is changed.
    #[default]
    Propose,
    /// Proposals are tried, and kept if they are good.
    Canary,
}

/// An action for the server, to be performed in the order given. If one fails, the later ones must not be performed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Write the row to the journal, durably.
    Journal(Row),
    /// Alternate between the two values, second by second, and report pairs.
    StartTrial(Setting),
    /// Put the old value back, after a trial.
    EndTrial {
        /// The setting.
        setting: Setting,
        /// The value.
        old: f64,
    },
    /// Use the value in the node's memory.
    Set {
        /// The setting.
        setting: Setting,
        /// The value.
        value: f64,
    },
    /// Make the value permanent. The server does nothing here: its journal has the row of the kept value, which every
    /// open reads.
    WriteConfiguration {
        /// The setting.
        setting: Setting,
        /// The value.
        value: f64,
    },
}

#[derive(Debug)]
enum Stage {
    Trial(Trial),
    Canary(Watch),
}

#[derive(Debug)]
struct InFlight {
    row: Row,
    stage: Stage,
    until_s: u64,
}

/// The state machine of one node's decisions.
#[derive(Debug, Default)]
pub struct Decisions {
    mode: Mode,
    next_id: u64,
    in_flight: Option<InFlight>,
    quarantine: Quarantine,
    /// No change begins before this time.
    cool_until_s: u64,
}

impl Decisions {
    /// Continues from all rows of a journal, in their order. Changes that were in flight have ended with their old
    /// value (RT10); the actions that are returned write this into the journal.
    pub fn recover(mode: Mode, journal: &[Row], now_s: u64) -> (Self, Vec<Action>) {
        let mut decisions = Self { mode, ..Self::default() };
        let mut open: Vec<Row> = Vec::new();
        for row in journal {
            decisions.next_id = decisions.next_id.max(row.id.saturating_add(1));
            open.retain(|other| other.id != row.id);
            if row.verdict.is_open() {
                open.push(*row);
            } else if row.verdict != Verdict::Proposed {
                decisions.note_end(row);
            }
        }
        let mut actions = Vec::new();
        for row in open {
            let row = Row { at_s: now_s, verdict: Verdict::Interrupted, ..row };
            decisions.note_end(&row);
            actions.push(Action::Journal(row));
        }
        (decisions, actions)
    }

    fn note_end(&mut self, row: &Row) {
        // Only a canary, whose trial has passed, counts as a rollback; an ended trial does not.
        if row.trial_p.is_some() && row.verdict.is_rollback() {
            self.quarantine.note(row.setting, row.at_s);
        }
        self.cool_until_s = self.cool_until_s.max(row.at_s.saturating_add(COOL_DOWN_S));
    }

    /// Sets what is done with proposals from now on. A change in flight continues: [`Decisions::interrupt`] ends it.
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Returns what is done with proposals.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns whether the change in flight is in its trial, where its values alternate.
    pub fn is_on_trial(&self) -> bool {
        matches!(&self.in_flight, Some(InFlight { stage: Stage::Trial(_), .. }))
    }

    /// Ends the change in flight with its old value, because the caller can no longer watch it. Does nothing without
    /// one.
    pub fn interrupt(&mut self, now_s: u64) -> Vec<Action> {
        self.end(Verdict::Interrupted, now_s)
    }

    /// Returns the change in flight.
    pub fn in_flight(&self) -> Option<&Row> {
        self.in_flight.as_ref().map(|change| &change.row)
    }

    /// Accepts a proposal or refuses it.
    ///
    /// # Errors
    /// The [`Refusal`]. Nothing was changed, and there is nothing to perform.
    pub fn propose(&mut self, proposal: &Proposal, now_s: u64) -> Result<Vec<Action>, Refusal> {
        if self.mode == Mode::Off {
            return Err(Refusal::Off);
        }
        if self.in_flight.is_some() {
            return Err(Refusal::Busy);
        }
        proposal.check()?;
        if self.quarantine.holds(proposal.setting, now_s) {
            return Err(Refusal::Quarantined);
        }
        // A clock that was set back does not make the cool-down longer (D3).
        self.cool_until_s = self.cool_until_s.min(now_s.saturating_add(COOL_DOWN_S));
        if now_s < self.cool_until_s {
            return Err(Refusal::CoolDown);
        }
        let Proposal { setting, old, new, gain, model_hash, .. } = *proposal;
        // A setting that changes at an open only cannot be tried in a running server.
        let is_tried = self.mode == Mode::Canary && setting.is_live();
        let verdict = if is_tried { Verdict::Trial } else { Verdict::Proposed };
        let row = Row { id: self.next_id, at_s: now_s, setting, old, new, model_hash, gain, trial_p: None, verdict };
        self.next_id += 1;
        let mut actions = vec![Action::Journal(row)];
        if is_tried {
            let stage = Stage::Trial(Trial::default());
            self.in_flight = Some(InFlight { row, stage, until_s: now_s.saturating_add(DEADLINE_S) });
            actions.push(Action::StartTrial(setting));
        } else {
            self.cool_until_s = now_s.saturating_add(COOL_DOWN_S);
        }
        Ok(actions)
    }

    /// Adds a pair of windows of the trial, and whether the delay stayed in its bound. `baseline`, which knows the
    /// windows under the old value, becomes the canary's watch if the trial passes. Ignored outside a trial.
    pub fn trial_pair(&mut self, pair: Pair, is_delay_held: bool, baseline: &Watch, now_s: u64) -> Vec<Action> {
        let Some(InFlight { row, stage: Stage::Trial(trial), .. }) = &mut self.in_flight else { return Vec::new() };
        // The number of the change is the seed, so that the trial can be computed again.
        match trial.add(pair, is_delay_held, row.id) {
            TrialVerdict::Open => Vec::new(),
            TrialVerdict::Passed(p) => self.start_canary(p, baseline, now_s),
            TrialVerdict::Failed(p) => self.end(Verdict::Rejected { p }, now_s),
            TrialVerdict::TooLate => self.end(Verdict::RejectedLate, now_s),
        }
    }

    fn start_canary(&mut self, p: f64, baseline: &Watch, now_s: u64) -> Vec<Action> {
        let Some(change) = &mut self.in_flight else { return Vec::new() };
        change.until_s = now_s.saturating_add(DEADLINE_S);
        change.stage = Stage::Canary(baseline.clone());
        change.row.trial_p = Some(p);
        change.row.at_s = now_s;
        change.row.verdict = Verdict::Canary { until_s: change.until_s };
        let Row { setting, old, new, .. } = change.row;
        // RT9: the old value is in the journal before the new one is used.
        vec![Action::EndTrial { setting, old }, Action::Journal(change.row), Action::Set { setting, value: new }]
    }

    /// Adds a second of the canary. Ignored outside a canary.
    pub fn canary_window(&mut self, window: Window, now_s: u64) -> Vec<Action> {
        let Some(InFlight { stage: Stage::Canary(watch), .. }) = &mut self.in_flight else { return Vec::new() };
        match watch.add(window) {
            WatchVerdict::Open => self.tick(now_s),
            WatchVerdict::Keep(gain) => self.end(Verdict::Kept { gain }, now_s),
            WatchVerdict::Worse => self.end(Verdict::Worse, now_s),
            WatchVerdict::Loss => self.end(Verdict::Loss, now_s),
            WatchVerdict::Blind => self.end(Verdict::Guarded(Guard::Blind), now_s),
        }
    }

    /// Ends the change in flight at once, for a reason that a guard gives. Ignored without a change.
    pub fn guard(&mut self, guard: Guard, now_s: u64) -> Vec<Action> {
        self.end(Verdict::Guarded(guard), now_s)
    }

    /// Takes the time once a second, also if nothing was measured: a change that is past its deadline is rolled back
    /// (D1).
    pub fn tick(&mut self, now_s: u64) -> Vec<Action> {
        let Some(change) = &mut self.in_flight else { return Vec::new() };
        change.until_s = change.until_s.min(now_s.saturating_add(DEADLINE_S)); // D3
        if now_s < change.until_s {
            return Vec::new();
        }
        self.end(Verdict::Guarded(Guard::Blind), now_s)
    }

    fn end(&mut self, verdict: Verdict, now_s: u64) -> Vec<Action> {
        let Some(change) = self.in_flight.take() else { return Vec::new() };
        let row = Row { at_s: now_s, verdict, ..change.row };
        let Row { setting, old, new, .. } = row;
        self.note_end(&row);
        match (change.stage, verdict) {
            (Stage::Trial(_), _) => vec![Action::EndTrial { setting, old }, Action::Journal(row)],
            // The row is what keeps the value: without it, the next open finds a canary and reports that it was
            // interrupted.
            (Stage::Canary(_), Verdict::Kept { .. }) => {
                vec![Action::Journal(row), Action::WriteConfiguration { setting, value: new }]
            }
            // The value that a person has set is in force already, and stays.
            (Stage::Canary(_), Verdict::Guarded(Guard::SetByHand)) => vec![Action::Journal(row)],
            // The old value is put back first, since writing the journal may hang.
            (Stage::Canary(_), _) => vec![Action::Set { setting, value: old }, Action::Journal(row)],
        }
    }
}

#[cfg(test)]
mod machine_tests;
