//! `Word` and `Flag`: the shared words of the commit protocol, each alone on 128 bytes.
//!
//! | bits of a flag | mean                                                          |
//! |----------------|---------------------------------------------------------------|
//! | 62..=63        | colour: white 0, black 1, staged 2                            |
//! | 61             | NOTIFY: a waiter sleeps until this slot leaves black          |
//! | 0..=60         | position: black a bound, white and staged the end of a record |
//!
//! # Invariants
//! - F1. Zeroed memory is white at position 0: a slot that was never used holds nothing back.
//! - F2. NOTIFY is set on black only, and always by compare-exchange against a black flag.
//!
//! Checked by the const asserts and the tests below.

use collie_base::Lsn;
use collie_sync::{
    Padded,
    atomic::{AtomicU64, Ordering},
};

/// A position that several threads read.
#[derive(Debug)]
#[repr(transparent)]
pub(crate) struct Word(Padded<AtomicU64>);

impl Word {
    pub(crate) fn new(lsn: Lsn) -> Self {
        Self(Padded::new(AtomicU64::new(lsn.get())))
    }

    pub(crate) fn load(&self) -> Lsn {
        Lsn::new(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn store(&self, lsn: Lsn) {
        self.0.store(lsn.get(), Ordering::Release);
    }
}

/// The activity of a slot's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Nothing is in progress: everything that it reserved is complete.
    White,
    /// A reservation may be in progress, at or above the position.
    Black,
    /// The record is published and its bytes are in the staging buffer; the ring may not have them yet.
    Staged,
}

const COLOUR_SHIFT: u32 = 62;
const NOTIFY: u64 = 1 << 61;
const POSITION: u64 = NOTIFY - 1;

/// The value of a slot's word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flag(u64);

impl Flag {
    pub(super) const fn white(end: Lsn) -> Self {
        Self(end.get())
    }

    pub(super) const fn black(bound: Lsn) -> Self {
        Self(1 << COLOUR_SHIFT | bound.get())
    }

    pub(super) const fn staged(end: Lsn) -> Self {
        Self(2 << COLOUR_SHIFT | end.get())
    }

    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }

    pub(super) const fn raw(self) -> u64 {
        self.0
    }

    pub(super) fn colour(self) -> Colour {
        self.checked_colour().expect("no slot stores another colour")
    }

    /// Returns the colour; `None` for bits that no slot stores.
    pub(crate) const fn checked_colour(self) -> Option<Colour> {
        match self.0 >> COLOUR_SHIFT {
            0 => Some(Colour::White),
            1 => Some(Colour::Black),
            2 => Some(Colour::Staged),
            _ => None,
        }
    }

    pub(crate) const fn lsn(self) -> Lsn {
        Lsn::new(self.0 & POSITION)
    }

    pub(super) const fn has_notify(self) -> bool {
        self.0 & NOTIFY != 0
    }

    #[must_use]
    pub(super) const fn with_notify(self) -> Self {
        Self(self.0 | NOTIFY)
    }
}

const _: () = assert!(Flag::white(Lsn::ZERO).0 == 0, "F1");

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Goal: colour, position and NOTIFY do not affect each other. Method: every colour at the edges of the number
    /// line.
    #[test]
    fn flag_keeps_its_three_parts_apart() {
        for lsn in [Lsn::ZERO, Lsn::FIRST, Lsn::new(1 << 60), Lsn::new(POSITION)] {
            for (flag, colour) in [
                (Flag::white(lsn), Colour::White),
                (Flag::black(lsn), Colour::Black),
                (Flag::staged(lsn), Colour::Staged),
            ] {
                assert_eq!((flag.colour(), flag.lsn(), flag.has_notify()), (colour, lsn, false));
                let notified = flag.with_notify();
                assert_eq!((notified.colour(), notified.lsn(), notified.has_notify()), (colour, lsn, true));
                assert_eq!(Flag::from_raw(notified.raw()), notified);
            }
        }
    }
}
