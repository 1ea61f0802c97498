//! A port for those who watch a server: whether it lives, whether it is ready, and its figures. Nothing can be changed by it, and nothing
//! of what is stored is shown but names.
//!
//! | file | what |
//! |---|---|
//! | `port.rs` | [`HttpPort`]: the listener, and what a connection may take |
//! | `stage.rs` | [`Stage`]: the database that is open, or why none is |
//! | `answers.rs` | what is asked for, and what is answered |
//! | `console` | a page that shows how the server does, and its figures as JSON |
//! | `exposition.rs` | Prometheus' text format |
//! | `metrics` | the figures, by subject: from views and counters that are there anyway |

mod answers;
mod console;
mod exposition;
mod metrics;
mod port;
mod stage;

pub(crate) use self::{answers::Limits, port::HttpPort, stage::Stage};
