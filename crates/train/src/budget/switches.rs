//! `Switches`: the units and sources whose sampling a person allows.

use crate::{SourceId, UnitId};

/// The number of possible sources.
const SOURCES: usize = 8;

/// A bitmap of units and sources that takes precedence over every policy. Initially all are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switches {
    /// One set of 256 units per source; a set bit means off.
    off: [[u64; 4]; SOURCES],
}

impl Default for Switches {
    fn default() -> Self {
        Self { off: [[0; 4]; SOURCES] }
    }
}

impl Switches {
    fn place(unit: UnitId) -> (usize, u64) {
        (usize::from(unit.get() / 64), 1 << (unit.get() % 64))
    }

    /// Switches a unit of a source on or off; returns whether that changed it. A source out of range is ignored.
    pub fn set(&mut self, unit: UnitId, source: SourceId, on: bool) -> bool {
        let (word, bit) = Self::place(unit);
        let Some(words) = self.off.get_mut(usize::from(source.get())) else { return false };
        let before = words[word];
        words[word] = if on { before & !bit } else { before | bit };
        words[word] != before
    }

    /// Returns whether a unit may be sampled from a source; false for a source out of range.
    pub fn is_on(&self, unit: UnitId, source: SourceId) -> bool {
        let (word, bit) = Self::place(unit);
        self.off.get(usize::from(source.get())).is_some_and(|words| words[word] & bit == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a switch affects its unit and source only. Method: a unit of each word is switched off and all others are
    /// checked.
    #[test]
    fn a_switch_concerns_one_unit_of_one_source() {
        for unit in [0, 63, 64, 200, 255] {
            let mut switches = Switches::default();
            assert!(switches.set(UnitId::new(unit), SourceId::new(3), false));
            assert!(!switches.set(UnitId::new(unit), SourceId::new(3), false), "it is off already");
            for other in 0..=255 {
                for source in 0..8 {
                    let is_on = switches.is_on(UnitId::new(other), SourceId::new(source));
                    assert_eq!(is_on, (other, source) != (unit, 3));
                }
            }
            assert!(switches.set(UnitId::new(unit), SourceId::new(3), true));
            assert_eq!(switches, Switches::default());
        }
        assert!(!Switches::default().is_on(UnitId::new(1), SourceId::new(8)));
    }
}
