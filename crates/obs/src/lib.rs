//! Operating units and samples of them.
#![forbid(unsafe_code)]

mod sample;
mod schema;
mod source;
mod units;

pub use sample::{CALLS_MAX, FLAG_AFTER_DROPS, FLAG_INJECTED_CLOCK, Sample};
pub use schema::{FEATURES_MAX, Features, FieldSchema, LABELS_MAX, UNIT_SLOTS, UnitSchema, word};
pub use source::{SOURCES, Source};
pub use units::*;
