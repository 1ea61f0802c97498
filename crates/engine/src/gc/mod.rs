//! Garbage collection: rows with old versions, the memory that rows may occupy, and dropped families.
//!
//! | file | holds |
//! |---|---|
//! | `garbage` | the rows that have old versions, and when each is worth another visit |
//! | `old_versions` | how much memory old versions may occupy, and how old snapshots may get |
//! | `memory` | how much memory rows may occupy, and the measures near that limit |
//! | `dropped` | families whose drop is committed and whose rows still occupy memory |

pub(crate) mod dropped;
pub(crate) mod garbage;
pub(crate) mod memory;
pub(crate) mod old_versions;
