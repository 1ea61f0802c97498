//! Terms: who may lead, and how a node hears that it may not any more.
//!
//! Each term has at most one node that leads without force. Who wants to lead asks the others to promise the next term;
//! who leads says so until everybody has heard. Promises are kept in a file before they are told,
//! and from then on nothing of a lower term is received or acknowledged (replication.md R8).
//!
//! | file | noun |
//! |---|---|
//! | `terms.rs` | [`Terms`]: what a node has promised; shared by whoever must go by it |
//! | `ballot.rs` | [`Ballot`]: whether the answers are enough; no I/O |
//! | `handover.rs` | [`Handover`]: a primary that gives the lead away, or keeps it; no I/O |
//! | `ask.rs` | a question over a connection, and its answer |

mod ask;
mod ballot;
mod handover;
mod terms;

pub use self::{
    ask::{answer, ask},
    ballot::{Ballot, Outcome, Reach, Vote, needed},
    handover::{Handover, Phase},
    terms::{Standing, TERMS_AHEAD_MAX, Terms, is_absurd},
};
