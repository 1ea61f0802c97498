//! Spending a grant: which units are sampled, with what probabilities, and which of their samples are kept.
//!
//! | step | module | based on |
//! |---|---|---|
//! | a person switches units and sources off | [`Switches`] | `training_switch` |
//! | units that the grant cannot pay for are shed, least information per us first | [`Shedding`] | information |
//! | the others get probabilities | [`allocate`] (P8) | Neyman's allocation |
//! | frequent kinds of calls are thinned | [`Thinner`] | counts of buckets |
//!
//! The sampler draws whether a call is sampled, and [`crate::policy`] determines the grant.
//!
//! # Invariants
//! - B1. The costs of an allocation never exceed the grant.
//! - B2. Every unit that is not shed has a probability of at least [`PROBABILITY_MIN`], so that every sample can be
//!   weighted.
//! - B3. On average the weights of kept samples add up to the number of calls, except for the weights that are cut,
//!   which are counted.

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
