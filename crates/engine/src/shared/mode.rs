//! `Mode`: how a database was opened, and the parts that only one mode has.
//!
//! ```text
//! Primary                     writes, to its own log
//! Replica  -- promotion -->   writes, to the log that it followed
//! NoLog                       writes, without a log (`log/no_log.rs`)
//! ReadOnly                    refuses every write, and has no LSM levels
//! ```

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use collie_base::Lsn;

use crate::EngineError;
use crate::dir::control::Control;
use crate::dir::log_place::LogPlace;
use crate::flush::Base;
use crate::log::EngineLog;
use crate::log::no_log::Numbers;
use crate::log::time_marks::TimeMarks;

/// The parts of a database that writes.
#[derive(Debug)]
pub(crate) struct Leading {
    pub(crate) control: Control,
    pub(crate) place: LogPlace,
    pub(crate) time_marks: TimeMarks,
}

impl Leading {
    /// Returns the parts for a database that begins to write at the end of `log`, at the time `now`; no time mark is
    /// below `wall_us`.
    pub(crate) fn new(control: Control, place: LogPlace, wall_us: i64, log: &EngineLog, now: Duration) -> Self {
        let end = log.next().unwrap_or(Lsn::ZERO);
        Self { control, place, time_marks: TimeMarks::new(wall_us, end, now) }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) enum Mode {
    Primary {
        base: Base,
        leading: Leading,
    },
    Replica {
        base: Base,
        control: Control,
        /// Set once, by the promotion.
        promoted: OnceLock<Leading>,
    },
    NoLog {
        base: Base,
        leading: Leading,
        numbers: Arc<Numbers>,
    },
    ReadOnly {
        control: Control,
        /// The error of every write.
        refusal: EngineError,
    },
}

impl Mode {
    /// Returns the LSM levels; `None` in a database opened read-only.
    #[inline]
    pub(crate) const fn base(&self) -> Option<&Base> {
        match self {
            Self::Primary { base, .. } | Self::Replica { base, .. } | Self::NoLog { base, .. } => Some(base),
            Self::ReadOnly { .. } => None,
        }
    }

    /// Returns the parts of a database that writes; `None` in one opened read-only, and in a replica.
    pub(crate) fn leading(&self) -> Option<&Leading> {
        match self {
            Self::Primary { leading, .. } | Self::NoLog { leading, .. } => Some(leading),
            Self::Replica { promoted, .. } => promoted.get(),
            Self::ReadOnly { .. } => None,
        }
    }

    /// Returns the identity of the directory.
    pub(crate) fn control(&self) -> &Control {
        match self {
            Self::Primary { leading, .. } | Self::NoLog { leading, .. } => &leading.control,
            Self::Replica { control, promoted, .. } => promoted.get().map_or(control, |leading| &leading.control),
            Self::ReadOnly { control, .. } => control,
        }
    }

    /// Returns the numbers of a database without a log.
    #[inline]
    pub(crate) const fn numbers(&self) -> Option<&Arc<Numbers>> {
        if let Self::NoLog { numbers, .. } = self { Some(numbers) } else { None }
    }

    /// Fails if every write is refused.
    #[inline]
    pub(crate) fn check_writable(&self) -> Result<(), EngineError> {
        match self {
            Self::Primary { .. } | Self::NoLog { .. } => Ok(()),
            Self::Replica { promoted, .. } if promoted.get().is_some() => Ok(()),
            Self::Replica { .. } => Err(EngineError::Replica),
            Self::ReadOnly { refusal, .. } => Err(refusal.clone()),
        }
    }

    /// Returns whether the database is a replica that was not promoted. During a promotion the log may become its own a
    /// moment earlier; its identity changes in one step, with this answer.
    pub(crate) fn is_replica(&self) -> bool {
        matches!(self, Self::Replica { promoted, .. } if promoted.get().is_none())
    }

    /// Ends being a replica: the followed log is now this database's own.
    pub(crate) fn promote(&self, leading: Leading) {
        let Self::Replica { promoted, .. } = self else { unreachable!("only a replica is promoted") };
        assert!(promoted.set(leading).is_ok(), "a replica is promoted once");
    }
}
