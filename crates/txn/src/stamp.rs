//! `Stamp`: the word in a row version that names its writer or the outcome; `Word`: the state word of a transaction.
//!
//! Both are encodings in 64 bits with different types: a stamp is in a version, a word in the dense map and in a
//! descriptor.
//!
//! | bits of a stamp          | meaning                                        |
//! |--------------------------|------------------------------------------------|
//! | bit 63 set               | written by the xid in the low 63 bits          |
//! | 1                        | aborted                                        |
//! | 4096 and above, < 2^61   | committed with this CSN                        |
//!
//! | low 2 bits of a word     | high 62 bits                                   |
//! |--------------------------|------------------------------------------------|
//! | 0 in progress            | the xid itself (0: slot never used)            |
//! | 1 aborted                | 0                                              |
//! | 2 committed              | the CSN                                        |
//! | 3 moved to the sparse map| 0                                              |
//!
//! A word in progress names its xid, so that the compare-and-swap that ends a transaction can never hit the next owner
//! of a reused slot, whose word would otherwise look the same. A CSN needs no tag.

use collie_base::{Lsn, Xid};

const UNFINISHED: u64 = 1 << 63;

/// The outcome of a version's writer, as the version records it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(u64);

/// The outcome of a transaction, or that it is open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// It is still open.
    InProgress(Xid),
    /// It rolled back: its versions are invisible.
    Aborted,
    /// It committed at this position; visible to snapshots above.
    Committed(Lsn),
}

impl Stamp {
    /// The writer aborted.
    pub const ABORTED: Self = Self(1);

    /// Returns the stamp of a version written by `xid`, whose outcome is not stamped yet.
    #[must_use]
    pub const fn unfinished(xid: Xid) -> Self {
        Self(UNFINISHED | xid.get())
    }

    /// Returns the stamp of a version committed at `csn`.
    #[must_use]
    pub const fn committed(csn: Lsn) -> Self {
        assert!(csn.get() >= Lsn::FIRST.get() && csn.get() < 1 << 61, "a CSN is the position of a record");
        Self(csn.get())
    }

    /// Returns the stamp in the word of a version.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    /// Returns the word to store in a version.
    #[must_use]
    pub const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the outcome of the writer if the stamp records it.
    ///
    /// # Errors
    /// The xid, if the stamp still names it: its outcome is in the map.
    pub const fn settled(self) -> Result<Resolution, Xid> {
        if self.0 & UNFINISHED != 0 {
            Err(Xid::new(self.0 & !UNFINISHED))
        } else if self.0 == Self::ABORTED.0 {
            Ok(Resolution::Aborted)
        } else {
            Ok(Resolution::Committed(Lsn::new(self.0)))
        }
    }
}

/// The state word of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(u64);

impl Word {
    pub(crate) const ABORTED: Self = Self(1);
    pub(crate) const MOVED: Self = Self(3);

    pub(crate) fn in_progress(xid: Xid) -> Self {
        if collie_sync::mutant!("IN_PROGRESS_WITHOUT_XID") { Self(0) } else { Self(xid.get() << 2) }
    }

    pub(crate) const fn committed(csn: Lsn) -> Self {
        Self(csn.get() << 2 | 2)
    }

    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    /// Returns the position of the transaction's commit, if it committed.
    pub(crate) fn committed_at(self) -> Option<Lsn> {
        (self.0 & 3 == 2).then(|| Lsn::new(self.0 >> 2))
    }

    pub(crate) const fn is_open(self) -> bool {
        self.0 & 3 == 0
    }

    /// Returns the state of `xid` that the word, which must be its own, records.
    pub(crate) fn resolution(self, xid: Xid) -> Resolution {
        match self.0 & 3 {
            0 => {
                debug_assert!(self == Self::in_progress(xid), "slot of xid {xid} holds {:#x}", self.0);
                Resolution::InProgress(xid)
            }
            1 => Resolution::Aborted,
            2 => Resolution::Committed(Lsn::new(self.0 >> 2)),
            _ => panic!("xid {xid} is resolved from a word that says it was moved"),
        }
    }
}
