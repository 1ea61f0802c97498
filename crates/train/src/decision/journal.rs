//! `Row`: what the journal of decisions says of a change.

use std::fmt;

use super::{Gain, Guard, Setting};

/// How far a change has come. Later verdicts replace earlier ones of the same id.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// Proposed, and nothing else is to happen (`training.apply = propose`).
    Proposed,
    /// On trial on a replica.
    Trial,
    /// The new value is in the primary's memory, at the latest until then, in seconds.
    Canary {
        /// Deadline; past it the old value is in force.
        until_s: u64,
    },
    /// In the configuration.
    Kept {
        /// The gain that was seen.
        gain: f64,
    },
    /// The trial was not better than chance.
    Rejected {
        /// Its probability.
        p: f64,
    },
    /// The replica's delay left its bound on trial.
    RejectedLate,
    /// The canary was worse by the sequential test.
    Worse,
    /// The canary lost more than 3 % over five windows.
    Loss,
    /// A guard rolled the change back.
    Guarded(Guard),
    /// The process ended, or another node took over, while the change was in flight.
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

    /// Every word of [`Verdict::word`].
    pub const WORDS: [&str; 7] = ["proposed", "trial", "canary", "kept", "rejected", "rolled back", "interrupted"];

    /// Returns the verdict in a word or two, for views.
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

    /// Returns whether a canary ended with the old value.
    pub const fn is_rollback(self) -> bool {
        matches!(self, Self::Worse | Self::Loss | Self::Guarded(_) | Self::Interrupted)
    }
}

/// A row of the journal. One change has several rows, the last of which counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Number of the change, ascending.
    pub id: u64,
    /// When the row was written, in seconds since 1970.
    pub at_s: u64,
    /// Which setting.
    pub setting: Setting,
    /// Its value before.
    pub old: f64,
    /// The value that is tried.
    pub new: f64,
    /// The model's package.
    pub model_hash: u64,
    /// What was predicted.
    pub gain: Gain,
    /// Probability of the trial, once it passed.
    pub trial_p: Option<f64>,
    /// How far it has come.
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
