//! Decisions: how a predicted gain becomes a changed setting, or does not.
//!
//! ```text
//! proposed --trial--> canary --10 min--> kept
//!     |         |         |
//!  refused   rejected   rolled back (worse, a guard, a crash)
//! ```
//!
//! [`Decisions`] is a state machine over plain values. It is told what was measured and what time it is; what it wants done comes back
//! as [`Action`]s in the order in which they have to be done. What it knew is in its journal, from which a new process goes on.
//!
//! Not here: reading or writing settings, measuring, the journal's file. What its bytes are is here (`journal_bytes.rs`).
//!
//! # Invariants
//! - RT8. Only a [`Setting`] can change, so nothing that concerns durability, quorum or security; and none that somebody set by hand.
//! - RT9. One change is in flight; the row with its old value comes before the action that uses the new one.
//! - RT10. After a crash or a failover the old value is in force: a canary's value is only ever in memory.
//! - D1. Every change in flight ends kept, rejected or rolled back, and says why.
//! - D2. A setting that was rolled back three times within a day is left alone for a day.
//! - D3. A clock that is set back makes nothing last longer than it says: deadlines, cool-downs and D2 count anew from the new time at the
//!   latest. One that is set forward ends what is in flight.
//!
//! Checked by the tests beside each part and by `tests/decisions.rs`, in which models with the wrong sign propose.

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
