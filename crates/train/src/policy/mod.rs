//! Control policies: how much work a replica may spend on collecting samples before its delay suffers.
//!
//! Ten times a second a policy takes the measurements of the last tick ([`Signals`]) and returns a [`Grant`]. It reads
//! no clock and draws no random number (RT7). The code around it does not trust it: a [`Governor`] clamps its grants
//! and stops collection by rules of its own (RT5).
//!
//! | id | type | rule | use |
//! |---|---|---|---|
//! | P0 | [`Nothing`] | no collection | primaries |
//! | P1 | [`Always`] | all offered work | comparison |
//! | P2 | [`HardLimit`] | off above a limit, on again below half of it | the last guard around every other policy |
//! | P3 | [`Sigma`] | off above mean + 3 standard deviations | comparison |
//! | P4 | [`Switchback`] | every fifth tick is a control; the ratio scales the others | a percentage without a floor |
//! | P5 | [`Aimd`] | up by a hundredth, down by half | without a model of cost |
//! | P6 | [`Headroom`] | the workers' free time, corrected by the delay | default on replicas |
//! | P7 | [`Tokens`] | cores for work that can wait, by the run queue | replayed reads and fits, inside P6's grant |
//!
//! P7's rate fills an [`ElasticBudget`], from which the working threads take their slices. P8, which divides a grant
//! among units, keeps no state between ticks: [`crate::budget::allocate`].
//!
//! Checked by the tests of each policy, by `tests/bound.rs` (a queue under eight disturbances) and by `tests/replay.rs`
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
    /// Takes the signals of the last tick and grants collection for the next one.
    ///
    /// `signals` are sanitized (see [`Signals::sanitized`]) and not stale.
    fn tick(&mut self, signals: &Signals) -> Grant;

    /// Notes a tick about which nothing is known, since the primary was silent. The tick grants nothing.
    fn silence(&mut self) {}

    /// Returns the highest delay that the policy allows in a window, in us, once it has measured one without
    /// collection.
    fn bound_us(&self) -> Option<f64> {
        None
    }

    /// Returns the visible state.
    fn state(&self) -> PolicyState {
        PolicyState { bound_us: self.bound_us(), ..PolicyState::default() }
    }
}
