//! [`EPOCH_2000_US`]: the moment from which PostgreSQL counts times.

/// 2000-01-01 00:00 UTC, the epoch of PostgreSQL's times, in microseconds since 1970-01-01 00:00 UTC, the epoch of the
/// system's.
pub const EPOCH_2000_US: i64 = 946_684_800_000_000;
