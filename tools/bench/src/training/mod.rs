//! The questions of `collie-bench training`: the cost of self-measurement, and its benefit for models that are learned
//! from it.
//!
//! | file | holds |
//! |---|---|
//! | `bootstrap` | medians of paired ratios with their intervals |
//! | `cores`, `neighbour` | the cores of a primary and its replica; a process that competes for a core |
//! | `live` | settings that are changed while a server runs, and the counters of its collection |
//! | `usage` | the resources that a process has used |
//! | `arms` | the policies that a pair is measured under |
//! | `sample` | one sample of an operating unit, and a call that is not sampled |
//! | `policies_model` | policies in a model of a replica's queue, under eight disturbances |
//! | `policies` | policies on a pair that is disturbed |
//! | `safety` | the state after faults during a decision |
//! | `active` | how many samples models need, by the method that decides what is sampled |
//! | `accuracy` | whether models of a replica's samples are as good as its primary's |
//! | `decisions` | how much decisions of models gain on real servers, and whether wrong ones harm |
//! | `recording`, `recorded` | a load on servers whose samples are kept; those samples |
//! | `kept` | the number of samples that a server kept of a time window, and their weight |
//! | `six_calls` | a sampler that makes six system calls for each sample, as other systems do, for comparison |
//! | `beside` | the same in addition to each sample of a server |
//! | `overhead` | the cost of collection for a primary |
//! | `knee`, `delay` | the rate that a collecting replica sustains, and its delay: questions `rate` and `time` |
//! | `cost` | the cost of collection for both machines |
//!
//! The sampler belongs to the process: a section that uses it leaves it off, and the right to drain it released.

pub(crate) mod accuracy;
pub(crate) mod active;
mod arms;
pub(crate) mod beside;
pub(crate) mod bootstrap;
pub(crate) mod cores;
pub(crate) mod cost;
pub(crate) mod decisions;
pub(crate) mod delay;
mod kept;
pub(crate) mod knee;
mod live;
mod neighbour;
pub(crate) mod overhead;
pub(crate) mod policies;
pub(crate) mod policies_model;
mod recorded;
mod recording;
pub(crate) mod safety;
pub(crate) mod sample;
mod six_calls;
mod usage;
