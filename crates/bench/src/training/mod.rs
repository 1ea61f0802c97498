//! The questions of `collie bench training`: what measuring itself costs, and what comes of it, for models to be learned from it.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what is asked for |
//! | `bootstrap` | what paired runs say of a ratio, and how sure that is |
//! | `cores` | where a primary and its replica run |
//! | `sample` | one sample of an operating unit, and a call that none is taken of |
//! | `six_calls` | a sampler that makes six system calls for each sample, as others have it: what stands beside |
//!
//! The sampler is the process's: a section that uses it leaves it off and its right to drain free.

pub(crate) mod bootstrap;
pub(crate) mod cores;
pub(crate) mod sample;
pub(crate) mod settings;
mod six_calls;
