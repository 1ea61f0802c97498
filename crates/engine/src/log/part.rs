//! `Part`: a part of a thread's work in the log, whose time a benchmark can ask for (feature `bench-hooks`).

use collie_wal::Mark;

/// Parts of a thread's work in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Append,
    Wait(Mark),
}

/// Runs a part of the log's work.
#[cfg(not(feature = "bench-hooks"))]
#[inline]
pub(crate) fn counted<R>(_part: Part, work: impl FnOnce() -> R) -> R {
    work()
}

#[cfg(feature = "bench-hooks")]
pub(crate) use crate::log::times::counted;
