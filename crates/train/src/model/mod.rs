//! Cost models: predict the cost of a unit of work, with an interval, from samples of it.
//!
//! There is one model per unit and label, of the logarithm of the label. It is of one of two kinds: [`Ridge`], a linear
//! model of logarithms for few samples, and [`Trees`], boosted trees over histograms. [`fit`] trains both on the older
//! samples, keeps the one with the smaller error on the newer ones, and takes the width of intervals from these too. A
//! [`Package`] is a fitted model as bytes.
//!
//! The module has no files and no process that fits, and does not know what a prediction is used for.
//!
//! # Invariants
//! - M1. The same samples and options give the same bytes on one kind of machine. Across machines logarithms may differ
//!   in the last place.
//! - M2. A prediction is finite and within the ranges of training; one that had to be clamped is marked.
//! - M3. Decoding any bytes ends, does not panic, and allocates no more than a small multiple of them.
//! - M4. In a tree both children come after their parent, so a prediction ends.

mod affine;
mod complexity;
mod cost_model;
mod coverage;
mod fit;
mod interval;
mod merge;
mod package;
mod package_bytes;
mod package_sample;
mod pooling;
mod ridge;
mod samples;
mod trees;

pub use affine::{Affine, CALIBRATION_MIN};
pub use complexity::Complexity;
pub use cost_model::{CostModel, Model, relative_error};
pub use coverage::Coverage;
pub use fit::{FitOptions, Fitted, Prediction, RIDGE_ROWS, fit};
pub use interval::{COVERAGE, conformal_quantile};
pub use merge::{BUCKET_SAMPLES_MAX, NodeSamples, merge};
pub use package::{Package, Wanted};
pub use package_bytes::{fuzz_package, seal_package};
pub use package_sample::sample_package;
pub use pooling::{NodeError, leave_one_node_out, pooling_helps};
pub use ridge::{Ridge, RidgeOptions};
pub use samples::{Sample, Samples};
pub use trees::{Node, TreeOptions, Trees};
