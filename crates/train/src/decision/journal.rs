//! `Row`: a row of the journal of decisions.

use std::fmt;

use super::{Gain, Guard, Setting};

/// The state of a change. A later verdict replaces an earlier one of the same id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Proposed, and nothing else follows (`training.apply = propose`, or a setting that only an open changes).
    Proposed,
    /// In its trial: the two values alternate.
    Trial,
    /// The new value is in the node's memory, at most until the deadline.
    Canary {
        /// The deadline, in seconds since 1970; after it the old value is in force.
        until_s: u64,
    },
    /// Kept: every later open uses the value.
    Kept {
        /// The measured gain.
        gain: f64,
    },
    /// The trial was not better than chance.
    Rejected {
        /// The probability of such a result by chance.
        p: f64,
    },
    /// The delay left its bound during the trial.
    RejectedLate,
    /// The sequential test found the canary worse.
    Worse,
    /// The canary lost more than 3 % over five windows.
    Loss,
    /// A guard rolled the change back.
    Guarded(Guard),
    /// The process ended, or the node stopped watching, while the change was in flight.
    Interrupted,
}

impl Verdict {
    /// Returns whether the change is still in flight.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Trial | Self::Canary { .. })
    }

    /// Returns whether the new value was kept.
    pub const fn is_kept(self) -> bool {
        matches!(self, Self::Kept { .. })
    }

    /// All results of [`Verdict::word`].
    pub const WORDS: [&str; 7] = ["proposed", "trial", "canary", "kept", "rejected", "rolled back", "interrupted"];

    /// Returns the verdict in one or two words, for views.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Trial => "trial",
            Self::Canary { .. } => "canary",
            Self::Kept { .. } => "kept",
            Self::Rejected { .. } | Self::RejectedLate => "rejected",
            Self::Worse | Self::Loss | Self::Guarded(_) => "rolled back",
            Self::Interrupted => "interrupted",
        }
    }

    /// Returns whether the verdict, given to a canary, ends it without keeping the new value.
    pub const fn is_rollback(self) -> bool {
        matches!(self, Self::Worse | Self::Loss | Self::Guarded(_) | Self::Interrupted)
    }
}

/// A row of the journal. A change has several rows, of which the last counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// The number of the change, ascending.
    pub id: u64,
    /// The time at which the row was written, in seconds since 1970.
    pub at_s: u64,
    /// The setting.
    pub setting: Setting,
    /// Its value before the change.
    pub old: f64,
    /// The value that is tried.
    pub new: f64,
    /// The hash of the model's package.
    pub model_hash: u64,
    /// The predicted gain.
    pub gain: Gain,
    /// The probability of the trial's result by chance, once the trial has passed.
    pub trial_p: Option<f64>,
    /// The state of the change.
    pub verdict: Verdict,
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Gain { low, expected, high } = self.gain;
        let per_cent = |gain: f64| format!("{:+.1} %", 100.0 * gain);
        write!(
            f,
            "{}: {} {} -> {}, model {:016x} predicts ",
            self.id,
            self.setting.key(),
            self.old,
            self.new,
            self.model_hash
        )?;
        write!(f, "{} ({} to {})", per_cent(expected), per_cent(low), per_cent(high))?;
        if let Some(p) = self.trial_p {
            write!(f, ", trial p = {p:.4}")?;
        }
        write!(f, "; {}", self.verdict)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proposed => write!(f, "proposed, not applied"),
            Self::Trial => write!(f, "on trial"),
            Self::Canary { until_s } => write!(f, "canary until {until_s}"),
            Self::Kept { gain } => write!(f, "kept, {:+.1} % seen", 100.0 * gain),
            Self::Rejected { p } => write!(f, "rejected: the trial is not better than chance, p = {p:.4}"),
            Self::RejectedLate => write!(f, "rejected: the replica fell behind on trial"),
            Self::Worse => write!(f, "rolled back: worse than the baseline"),
            Self::Loss => write!(f, "rolled back: a loss above 3 %"),
            Self::Guarded(guard) => write!(f, "rolled back: {guard}"),
            Self::Interrupted => write!(f, "rolled back: the process ended or another node took over"),
        }
    }
}
