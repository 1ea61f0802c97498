//! What SERIALIZABLE transactions read and wrote, so that each is validated before its commit.
//!
//! | file | holds |
//! |---|---|
//! | `read_set` | the keys whose state a transaction has learned |
//! | `serial_writes` | the keys that transactions of this level have committed recently |

pub(crate) mod read_set;
pub(crate) mod serial_writes;
