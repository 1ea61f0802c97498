//! The log as a stream: readers that follow it while it runs.
//!
//! | file | holds |
//! |---|---|
//! | `frame_tail`, `tail` | the frames, and the records, of a running log in order, once they are durable |
//! | `ship` | runs of whole records as they lie in the log, for a sender |
//! | `tail_check` | a checksum by which two logs verify that they hold the same records |

pub(crate) mod frame_tail;
pub(crate) mod ship;
pub(crate) mod tail;
pub(crate) mod tail_check;
