//! Control policies: how much work a replica may spend on collecting samples before its delay suffers.
//!
//! A policy is ticked ten times a second with what was measured since ([`Signals`]) and answers with a [`Grant`]. It reads no
//! clock and draws no chance (RT7). It is not trusted: a [`Governor`] stands around it, clamps what it grants, and stops
//! collection by rules of its own (RT5).
//!
//! | id | type | in one line | use |
//! |---|---|---|---|
//! | P0 | [`Nothing`] | never | primaries |
//! | P1 | [`Always`] | all that is offered | the arm to compare with |
//! | P2 | [`HardLimit`] | off above a limit, on again below half of it | the last guard around every other |
//! | P3 | [`Sigma`] | off above mean + 3 standard deviations | to compare with |
//! | P4 | [`Switchback`] | every fifth tick without collection, by which the others are scaled | a percentage without a floor |
//! | P5 | [`Aimd`] | up by a hundredth, down by half | no cost model at hand |
//! | P6 | [`Headroom`] | what is left of the workers, corrected by the delay | default on replicas |
//! | P7 | [`Tokens`] | cores for work that can wait, by the run queue | replayed reads and fitting, inside P6's grant |
//!
//! P7's rate fills an [`ElasticBudget`], from which those who work take their slices. P8, which divides a grant among units, has no state over ticks: [`crate::budget::allocate`].
//!
//! Checked by the tests beside each, by `tests/bound.rs` (a queue under eight disturbances) and `tests/replay.rs`
//! (recorded signals give recorded grants).

mod aimd;
mod bound;
mod constant;
mod elastic;
mod governor;
mod grant;
mod hard_limit;
mod headroom;
mod kind;
mod settings;
mod sigma;
mod signals;
mod state;
mod switchback;
mod tokens;
mod windows;

use std::fmt::Debug;

pub use aimd::Aimd;
pub use bound::Bound;
pub use constant::{Always, Nothing};
pub use elastic::ElasticBudget;
pub use governor::{Governor, Halt};
pub use grant::Grant;
pub use hard_limit::HardLimit;
pub use headroom::Headroom;
pub use kind::PolicyKind;
pub use settings::Settings;
pub use sigma::Sigma;
pub use signals::{HEARTBEAT_US_MAX, Signals, TICK_US};
pub use state::PolicyState;
pub use switchback::Switchback;
pub use tokens::Tokens;
pub use windows::{TickDelay, Windows};

/// A rule with its state. The same signals in the same order give the same grants.
pub trait Policy: Debug + Send {
    /// Takes what the last tick showed and grants collection for the next one.
    ///
    /// `signals` are sanitized (see [`Signals::sanitized`]) and not stale.
    fn tick(&mut self, signals: &Signals) -> Grant;

    /// Notes a tick of which nothing is known, since the primary was not heard of. Nothing is granted in it.
    fn silence(&mut self) {}

    /// Returns the highest delay that the policy allows in a window, in us, once it has measured one without collection.
    fn bound_us(&self) -> Option<f64> {
        None
    }

    /// Returns what can be seen of it.
    fn state(&self) -> PolicyState {
        PolicyState { bound_us: self.bound_us(), ..PolicyState::default() }
    }
}
