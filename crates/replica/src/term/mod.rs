//! Terms: which node may lead, and how a node learns that it no longer may.
//!
//! Each term has at most one node that leads without force. A node that wants to lead asks the others to promise
//! the next term; a leader announces itself until every node has acknowledged that. Promises are in a file before
//! they are answered, and from then on nothing of a lower term is received or acknowledged (REPL-8).
//!
//! | file | noun |
//! |---|---|
//! | `terms.rs` | [`Terms`]: the promises of a node; shared by everything that must obey them |
//! | `witness.rs` | [`Witness`]: a node that promises and keeps no data |
//! | `ballot.rs` | [`Ballot`]: whether the answers are enough; no I/O |
//! | `ask.rs` | a question over a connection, and its answer |

mod ask;
mod ballot;
mod terms;
mod witness;
#[cfg(test)]
mod witness_model_tests;

pub use self::{
    ask::{answer, ask},
    ballot::{Ballot, Outcome, Reach, Vote, needed, needed_with_witness},
    terms::{Standing, TERMS_AHEAD_MAX, Terms, is_absurd},
    witness::Witness,
};
