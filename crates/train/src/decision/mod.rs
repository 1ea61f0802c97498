//! Decisions: how a predicted gain becomes a changed setting, or does not.
//!
//! ```text
//! proposed --trial--> canary --10 min--> kept
//!     |         |         |
//!  refused   rejected   rolled back (worse, a guard, a crash)
//! ```
//!
//! [`Decisions`] is a state machine over plain values. Its calls pass the measurements and the time, and return
//! [`Action`]s in the order in which the server must perform them. Its state can be rebuilt from the journal, with
//! which a new process continues.
//!
//! The module neither reads nor writes settings or the journal's file, and measures nothing. It defines the bytes of
//! the journal (`journal_bytes.rs`).
//!
//! # Invariants
//! - RT8. Only a [`Setting`] can change, so nothing that affects durability, quorum or security, and none that a person
//!   has set.
//! - RT9. At most one change is in flight; the row with its old value comes before the action that uses the new one.
//! - RT10. After a crash or a failover the old value is in force: the value of a canary is in memory only.
//! - D1. Every change in flight ends kept, rejected or rolled back, and its row gives the reason.
//! - D2. A setting that was rolled back three times within a day is left alone for a day.
//! - D3. A clock that is set back makes nothing last longer than documented: deadlines, cool-downs and D2 start at the
//!   new time at the latest. A clock that is set forward ends the change in flight.
//!
//! Checked by the tests of each part and by `tests/decisions.rs`, in which models with the wrong sign propose changes.

mod entry;
mod gain;
mod journal;
mod journal_bytes;
mod machine;
mod mixture;
mod permutation;
mod proposal;
mod quarantine;
mod setting;
mod trial;
mod watch;

pub use entry::{Entry, Moved, changes, kept_values};
pub use gain::{Gain, UnitForecast, predicted_gain};
pub use journal::{Row, Verdict};
pub use journal_bytes::{JOURNAL_NAME, Journal, fuzz_journal, journal_header, read_journal, sample_journal};
pub use machine::{Action, Decisions, Mode};
pub use mixture::Mixture;
pub use permutation::{Pair, permutation_p};
pub use proposal::{Proposal, Refusal};
pub use quarantine::Quarantine;
pub use setting::Setting;
pub use trial::{PAIRS_MIN, Trial, TrialVerdict};
pub use watch::{Guard, Watch, WatchVerdict, Window};
