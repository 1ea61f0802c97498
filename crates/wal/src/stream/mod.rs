//! The log as a stream: readers that follow it while it runs, and logs that follow another one.
//!
//! | file | holds |
//! |---|---|
//! | `frame_tail`, `tail` | the frames, and the records, of a running log in order, once they are durable |
//! | `ship`, `unpack` | runs of whole records as they lie in the log, for a sender, and records made of them again |
//! | `follow` | the log of a replica |
//! | `consumers`, `cursor_file` | named readers, whose cursors survive a crash |
//! | `tail_check` | a checksum by which two logs verify that they hold the same records |
//! | `duplicate` | a copy of a running log in another directory |

pub(crate) mod consumers;
pub(crate) mod cursor_file;
pub(crate) mod duplicate;
pub(crate) mod follow;
pub(crate) mod frame_tail;
pub(crate) mod ship;
pub(crate) mod tail;
pub(crate) mod tail_check;
pub(crate) mod unpack;
