//! PostgreSQL counts times from 2000-01-01, the system from 1970-01-01.

/// From 1970 to 2000, in microseconds.
pub(crate) const EPOCH_DIFFERENCE: i64 = 946_684_800_000_000;
