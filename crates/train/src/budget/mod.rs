//! What a grant is spent on: units that are switched on, sampling probabilities within them, and which samples are kept.
//!
//! | step | where | by |
//! |---|---|---|
//! | a person switches units and sources off | [`Switches`] | `training_switch` |
//! | what the grant cannot pay for is shed whole, least information per microsecond first | [`Shedding`] | information of a unit |
//! | the rest gets probabilities | [`allocate`] (P8) | Neyman's allocation |
//! | frequent kinds of calls are thinned | [`Thinner`] | counts of buckets |
//!
//! Not here: drawing whether a call is sampled, which is the sampler's; a policy's grant is [`crate::policy`]'s.
//!
//! # Invariants
//! - B1. The costs of an allocation never exceed the grant.
//! - B2. Every unit that is not shed has a probability of at least [`PROBABILITY_MIN`], so that every sample can be weighted.
//! - B3. Weights of kept samples add up to what was offered, but for weights that are cut, which are counted.

mod allocation;
mod bucket;
mod count_min;
mod information;
mod shedding;
mod switches;
mod thinner;

pub use allocation::{PROBABILITY_MIN, Share, UnitBudget, allocate};
pub use bucket::Bucket;
pub use count_min::CountMin;
pub use information::Information;
pub use shedding::{Shedding, Switched};
pub use switches::Switches;
pub use thinner::{Kept, Thinner, WEIGHT_MAX};
