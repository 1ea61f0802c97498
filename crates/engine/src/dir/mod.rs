//! The data directory: its identity, its small files, and the permissions on it.
//!
//! | file | holds |
//! |---|---|
//! | `frame` | the frame of small files that are written as a whole |
//! | `control`, `history_list` | the control file, and the histories in it |
//! | `directory_identity` | the identity of a directory, read without opening it |
//! | `histories` | the state of a history as a node knows it |
//! | `log_place` | where the log is, and that it belongs to this directory |
//! | `promise`, `witness_state` | the promise of a term; the memory of a witness |
//! | `owner` | only the owner of a directory can change it |
//! | `descriptors` | the budget of open files |

pub(crate) mod control;
pub(crate) mod descriptors;
pub(crate) mod directory_identity;
pub(crate) mod frame;
pub(crate) mod histories;
pub(crate) mod history_list;
pub(crate) mod log_place;
pub(crate) mod owner;
pub(crate) mod promise;
pub(crate) mod witness_state;
