//! `Source`: the purpose for which a thread works while it is sampled.

/// The purpose of sampled work. A thread without a scope works for the process's default: [`Source::Calibration`]
/// on a primary, [`Source::Local`] on a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Source {
    /// A replica's own work: receiving, applying, flushing, collecting garbage.
    Apply = 0,
    /// Clients that read on the replica.
    Local = 1,
    /// Sampled reads of the primary.
    ReplayedRead = 2,
    /// The primary's own work, sampled rarely.
    Calibration = 3,
}

/// Number of sources.
pub const SOURCES: usize = 4;

impl Source {
    /// Every source, by ascending number.
    pub const ALL: [Self; SOURCES] = [Self::Apply, Self::Local, Self::ReplayedRead, Self::Calibration];

    /// Returns its number.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the source with this number.
    pub fn of(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns its name, as in files and settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Local => "local",
            Self::ReplayedRead => "replayed_read",
            Self::Calibration => "calibration",
        }
    }
}
