//! [`Decider`]: the change in flight on one node, one second at a time: it measures, steps the state machine, and
//! performs its actions in order.
//!
//! | action | if done | if it fails |
//! |---|---|---|
//! | journal a row that begins something | written, synced | the change ends with the old value; its end row is owed |
//! | journal a row that ends a change | the same | owed (C4); instead of keeping a value, the old one is put back |
//! | put a value | in memory, unless set by hand | an old one is retried each second, a new one ends the change |

use std::sync::Arc;

use collie_train::decision::{
    Action, Decisions, Entry, Guard, Mode, Moved, Proposal, Row, Setting, Verdict, kept_values,
};

use super::{
    baseline::Baseline,
    candidate::{Candidate, Candidates, Outcome, Weighed},
    effect::Change,
    gauge::{Gauge, Second},
    hands::Hands,
    journal_file::JournalFile,
    knobs::Knobs,
    predictor::Predictor,
    switchback::Switchback,
};

/// The time between two searches for a proposal, in seconds.
const LOOK_EVERY_S: u64 = 10;

/// The interfaces and objects of a decider.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) knobs: Arc<dyn Knobs>,
    pub(super) gauge: Box<dyn Gauge>,
    pub(super) predictor: Arc<dyn Predictor>,
    pub(super) hands: Arc<Hands>,
    pub(super) journal: JournalFile,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Decider {
    parts: Parts,
    machine: Decisions,
    /// The comparison of the change on trial.
    switchback: Option<Switchback>,
    /// The baseline of the canary.
    baseline: Option<Baseline>,
    /// Rows that could not be written.
    owed: Vec<Row>,
    /// An old value that could not be put back.
    unrestored: Option<(Setting, f64)>,
    /// The changes in calls that explain the prediction of the proposed change.
    moved: Vec<Moved>,
    next_look_s: u64,
    /// The time of the last search for a proposal, and the weighed changes.
    looked: Option<(u64, Vec<Candidate>)>,
}

impl Decider {
    /// Continues from the journal: a change that was in flight has ended, and kept values are put.
    pub(super) fn new(parts: Parts, mode: Mode, now_s: u64) -> Self {
        let rows: Vec<Row> = parts.journal.entries().iter().map(|entry| entry.row).collect();
        let (machine, actions) = Decisions::recover(mode, &rows, now_s);
        let mut decider = Self {
            parts,
            machine,
            switchback: None,
            baseline: None,
            owed: Vec::new(),
            unrestored: None,
            moved: Vec::new(),
            next_look_s: now_s + LOOK_EVERY_S,
            looked: None,
        };
        decider.perform(actions, now_s);
        if mode != Mode::Off {
            for (setting, value) in kept_values(decider.parts.journal.entries()) {
                decider.put_kept(setting, value);
            }
        }
        decider
    }

    fn put_kept(&self, setting: Setting, value: f64) {
        let (low, high) = self.parts.knobs.range(setting);
        if (low..=high).contains(&value) && self.parts.knobs.value(setting) != Some(value) {
            // If the value cannot be put, or not in this role, the configured one stays.
            let _as_configured = self.put(setting, value);
        }
    }

    /// Returns every row, oldest first.
    pub(super) fn entries(&self) -> &[Entry] {
        self.parts.journal.entries()
    }

    /// Returns the time of the last search for a proposal, in seconds since 1970, and the changes that were weighed.
    pub(super) fn looked(&self) -> Option<(u64, &[Candidate])> {
        self.looked.as_ref().map(|(at_s, candidates)| (*at_s, &candidates[..]))
    }

    /// Returns the settings that this node has, with their values.
    pub(super) fn values(&self) -> Vec<(Setting, f64)> {
        Setting::ALL.into_iter().filter_map(|setting| Some((setting, self.parts.knobs.value(setting)?))).collect()
    }

    /// Returns whether the database still exists.
    pub(super) fn is_open(&self) -> bool {
        self.parts.knobs.is_open()
    }

    /// Returns whether a change is in flight.
    pub(super) fn is_busy(&self) -> bool {
        self.machine.in_flight().is_some()
    }

    /// Changes the treatment of proposals; off ends a change in flight.
    pub(super) fn set_mode(&mut self, mode: Mode, now_s: u64) {
        self.machine.set_mode(mode);
        if mode == Mode::Off {
            self.looked = None;
            let actions = self.machine.interrupt(now_s);
            self.perform(actions, now_s);
        }
    }

    /// Puts the old value back at once, since the role of the node is about to change (C3). The next tick writes the
    /// row, so that the disk need not be waited for.
    pub(super) fn interrupt(&mut self, now_s: u64) {
        for action in self.machine.interrupt(now_s) {
            match action {
                Action::Journal(row) => self.owed.push(row),
                Action::EndTrial { setting, old } | Action::Set { setting, value: old } => self.restore(setting, old),
                Action::StartTrial(_) | Action::WriteConfiguration { .. } => {}
            }
        }
        (self.switchback, self.baseline) = (None, None);
    }

    /// Processes the second that has passed.
    pub(super) fn tick(&mut self, now_s: u64) {
        let second = self.parts.gauge.read();
        self.settle();
        // As in D3 of the state machine: the clock may have been set back.
        self.next_look_s = self.next_look_s.min(now_s + LOOK_EVERY_S);
        if let Some(row) = self.machine.in_flight().copied() {
            self.go_on(&row, &second, now_s);
        } else if now_s >= self.next_look_s && self.owed.is_empty() && self.unrestored.is_none() {
            self.next_look_s = now_s + LOOK_EVERY_S;
            self.look(now_s);
        }
        if let (Some(switchback), Some(row)) = (&self.switchback, self.machine.in_flight().copied()) {
            let value = switchback.value();
            if self.put(row.setting, value).is_err() {
                let actions = self.machine.guard(Guard::Refused, now_s);
                self.perform(actions, now_s);
            }
        }
    }

    /// Retries failed actions.
    fn settle(&mut self) {
        if let Some((setting, old)) = self.unrestored.take() {
            self.restore(setting, old);
        }
        while let Some(row) = self.owed.first().copied() {
            if self.parts.journal.add(row.into()).is_err() {
                return;
            }
            self.owed.remove(0);
        }
    }

    fn go_on(&mut self, row: &Row, second: &Second, now_s: u64) {
        let actions = if self.parts.hands.hold(row.setting) {
            self.machine.guard(Guard::SetByHand, now_s)
        } else if let Some(guard) = second.guard {
            self.machine.guard(guard, now_s)
        } else if let Some(switchback) = &mut self.switchback {
            match switchback.add(*second) {
                Some((pair, is_delay_held)) => {
                    let baseline = switchback.baseline();
                    self.baseline = Some(baseline);
                    self.machine.trial_pair(pair, is_delay_held, &baseline.watch(), now_s)
                }
                None => self.machine.tick(now_s),
            }
        } else if let Some(baseline) = &self.baseline {
            if baseline.is_failing(second) {
                self.machine.guard(Guard::Errors, now_s)
            } else if !second.is_delay_held {
                self.machine.guard(Guard::ReplicaDelay, now_s)
            } else {
                self.machine.canary_window(baseline.window(second), now_s)
            }
        } else {
            self.machine.guard(Guard::Blind, now_s)
        };
        self.perform(actions, now_s);
    }

    /// Weighs every change by one step, and proposes the permitted one with the largest gain, if that is large enough.
    fn look(&mut self, now_s: u64) {
        if self.machine.mode() == Mode::Off {
            return;
        }
        let Parts { knobs, hands, predictor, .. } = &self.parts;
        let Candidates { weighed, others } = Candidates::weigh(&**knobs, hands, &**predictor);
        let (mut candidates, mut proposed) = (Vec::new(), None);
        for one in weighed {
            let proposal = self.proposal(&one);
            let outcome = match proposed {
                Some(_) => proposal.check().map_or_else(Outcome::Refused, |()| Outcome::WorthLess),
                // A quarantined setting, or a stale model, does not keep another change from being proposed.
                None => match self.machine.propose(&proposal, now_s) {
                    Ok(actions) => {
                        proposed = Some((actions, one.forecast.moved.clone()));
                        Outcome::Proposed
                    }
                    Err(refusal) => Outcome::Refused(refusal),
                },
            };
            candidates.push(one.candidate(outcome));
        }
        candidates.extend(others);
        self.looked = Some((now_s, candidates));
        if let Some((actions, moved)) = proposed {
            self.moved = moved;
            self.perform(actions, now_s);
        }
    }

    fn proposal(&self, weighed: &Weighed) -> Proposal {
        let Weighed { change: Change { setting, old, new }, forecast } = weighed;
        Proposal {
            setting: *setting,
            old: *old,
            new: *new,
            range: self.parts.knobs.range(*setting),
            is_set_by_hand: self.parts.hands.hold(*setting),
            gain: forecast.gain,
            model_hash: forecast.model_hash,
            is_model_stale: forecast.is_stale,
        }
    }

    /// Performs the actions of the state machine in order; actions after a failed one are not performed.
    fn perform(&mut self, actions: Vec<Action>, now_s: u64) {
        for action in actions {
            match action {
                Action::Journal(row) => {
                    let moved = std::mem::take(&mut self.moved);
                    if self.parts.journal.add(Entry { row, moved }).is_err() {
                        return self.unwritten(row, now_s);
                    }
                    if !row.verdict.is_open() {
                        (self.switchback, self.baseline) = (None, None);
                    }
                }
                Action::StartTrial(_) => {
                    self.switchback = self.machine.in_flight().map(|row| Switchback::new(row.old, row.new));
                }
                Action::EndTrial { setting, old } => {
                    self.switchback = None;
                    self.restore(setting, old);
                }
                Action::Set { setting, value } => {
                    let is_new = self.machine.in_flight().is_some_and(|row| row.new == value);
                    if !is_new {
                        self.restore(setting, value);
                    } else if self.put(setting, value).is_err() {
                        let actions = self.machine.guard(Guard::Refused, now_s);
                        return self.perform(actions, now_s);
                    }
                }
                // The row that keeps the value is enough: an open reads it.
                Action::WriteConfiguration { .. } => {}
            }
        }
    }

    /// Handles a row that could not be written: nothing continues as if it had been.
    fn unwritten(&mut self, row: Row, now_s: u64) {
        match row.verdict {
            Verdict::Trial | Verdict::Canary { .. } => {
                let actions = self.machine.guard(Guard::Disk, now_s);
                // Not by `perform`: the next tick retries the disk.
                for action in actions {
                    match action {
                        Action::Journal(end) => self.owed.push(end),
                        Action::EndTrial { setting, old } | Action::Set { setting, value: old } => {
                            self.restore(setting, old);
                        }
                        Action::StartTrial(_) | Action::WriteConfiguration { .. } => {}
                    }
                }
            }
            Verdict::Kept { .. } => {
                self.restore(row.setting, row.old);
                self.owed.push(Row { verdict: Verdict::Guarded(Guard::Disk), ..row });
            }
            _ => self.owed.push(row),
        }
        (self.switchback, self.baseline) = (None, None);
    }

    fn put(&self, setting: Setting, value: f64) -> Result<(), String> {
        let Parts { knobs, hands, .. } = &self.parts;
        hands.unless_set(setting, || knobs.put(setting, value))
    }

    fn restore(&mut self, setting: Setting, old: f64) {
        if self.put(setting, old).is_err() {
            self.unrestored = Some((setting, old));
        }
    }
}

#[cfg(test)]
mod tests;
