//! A port for monitoring a server: whether it lives, whether it is ready, and its figures. It changes nothing, and
//! shows nothing of the stored data except names.
//!
//! | file | what |
//! |---|---|
//! | `port.rs` | [`HttpPort`]: the listener, and the limits of a connection |
//! | `stage.rs` | [`Readiness`]: the open database, or why none is open |
//! | `answers.rs` | the requests, and their answers |
//! | `console` | a page that shows the state of the server, and its figures as JSON |
//! | `exposition.rs` | Prometheus' text format |
//! | `metrics` | the figures, by subject, from existing views and counters |

mod answers;
mod console;
mod exposition;
mod metrics;
mod port;
mod readiness;

pub(crate) use self::{answers::Limits, port::HttpPort, readiness::Readiness};
