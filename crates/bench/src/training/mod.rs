//! The questions of `collie bench training`: what measuring itself costs, and what comes of it, for models to be learned from it.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what is asked for |
//! | `bootstrap` | what paired runs say of a ratio, and how sure that is |
//! | `cores`, `neighbour` | where a primary and its replica run; a process that wants a core besides |
//! | `live` | settings that are changed while a server runs, and what it has collected |
//! | `usage` | what a process has used of the machine |
//! | `arms` | the policies that a pair is measured under |
//! | `sample` | one sample of an operating unit, and a call that none is taken of |
//! | `policies_model` | policies in a model of a replica's queue, under eight disturbances |
//! | `policies` | policies on a pair that is disturbed |
//! | `safety` | what faults in the midst of a decision leave |
//! | `active` | how many samples models need, by who decides what is sampled |
//! | `accuracy` | whether models of a replica's samples are as good as its primary's |
//! | `hardware` | how well models of two machines predict a third |
//! | `decisions` | what decisions of models gain on real servers, and whether wrong ones harm |
//! | `recording`, `recorded` | a load on servers whose samples are kept; what they left |
//! | `kept` | how many samples a server kept of a time, and what they weigh |
//! | `six_calls` | a sampler that makes six system calls for each sample, as others have it: what stands beside |
//! | `beside` | the same, or Collie's own again, beside each sample of a server |
//! | `overhead` | what collecting costs a primary |
//! | `knee`, `delay` | which rate a replica follows that collects, and how far it is behind over time: questions `rate` and `time` |
//! | `cost` | what collecting costs both machines |
//! | `naive` | the sampler of six system calls in this process |
//! | `diverging`, `exported` | figures 1.1 and 5.3 of the thesis: questions `fig-1-1` and `fig-5-3` |
//!
//! The sampler is the process's: a section that uses it leaves it off and its right to drain free.

pub(crate) mod accuracy;
pub(crate) mod active;
mod arms;
pub(crate) mod beside;
pub(crate) mod bootstrap;
pub(crate) mod cores;
pub(crate) mod cost;
pub(crate) mod decisions;
pub(crate) mod delay;
pub(crate) mod diverging;
pub(crate) mod exported;
pub(crate) mod hardware;
mod kept;
pub(crate) mod knee;
mod live;
mod naive;
mod neighbour;
pub(crate) mod overhead;
pub(crate) mod policies;
pub(crate) mod policies_model;
mod recorded;
mod recording;
pub(crate) mod safety;
pub(crate) mod sample;
pub(crate) mod settings;
mod six_calls;
mod usage;
