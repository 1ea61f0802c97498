//! The questions of `collie bench training`: what measuring itself costs, for models to be learned from it.
//!
//! | file | holds |
//! |---|---|
//! | `sample` | one sample of an operating unit, and a call that none is taken of |
//! | `six_calls` | a sampler that makes six system calls for each sample, as others have it: what stands beside |
//!
//! The sampler is the process's: a section that uses it leaves it off and its right to drain free.

pub(crate) mod sample;
mod six_calls;
