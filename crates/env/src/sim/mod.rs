//! A simulated machine: a disk that forgets what was not synced at a power cut, and memory that outlives a process.
//!
//! | file | holds |
//! |---|---|
//! | `files` | [`SimFiles`](files::SimFiles): the file system, with faults at chosen calls |
//! | `disk` | names and inodes, as written and as synced |
//! | `blocks` | the content of a file, in sectors |
//! | `crash_point` | [`CrashPoint`](crash_point::CrashPoint): the states that a power cut may leave |
//! | `memory` | named memory, lost in a power cut |

mod blocks;
pub(crate) mod crash_point;
mod disk;
pub(crate) mod files;
pub(crate) mod memory;
