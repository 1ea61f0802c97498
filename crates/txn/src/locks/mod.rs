//! Locks of rows and tables, locks on numbers, and the waits of sessions for each other.
//!
//! | file | holds |
//! |---|---|
//! | `waits` | [`Locks`](waits::Locks): all waits, under one mutex |
//! | `wait` | [`Wait`](wait::Wait): the wait of one session |
//! | `cancel` | [`CancelHandle`](cancel::CancelHandle): ends the wait of a session from another thread |
//! | `row_queue` | the waiters for one row |
//! | `share_table` | rows that several transactions hold in shared strength |
//! | `table_lock` | table locks, in shards by target |
//! | `advisory` | locks on numbers |
//! | `deadlock` | finds a cycle of waits before it closes |
//! | `picture` | the locks and waits, for people and for views |

pub(crate) mod advisory;
pub(crate) mod cancel;
mod deadlock;
pub(crate) mod picture;
mod row_queue;
pub(crate) mod share_table;
pub(crate) mod table_lock;
pub(crate) mod wait;
pub(crate) mod waits;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
