//! Operating units and sources of samples by the names of switches: those of `collie_obs`, with the numbers of
//! `collie_train`.

use collie_obs::{Source, UNITS};
use collie_train::{LabelId, SourceId, UnitId};

/// Sampled reads of the primary: the source of elastic work.
pub(super) const REPLAYED_READ: SourceId = SourceId::new(Source::ReplayedRead.number());

/// Returns every unit with its name, by number.
pub(super) fn units() -> impl Iterator<Item = (UnitId, &'static str)> {
    UNITS.iter().map(|unit| (UnitId::new(unit.id), unit.name))
}

/// Returns every source with its name, by number.
pub(super) fn sources() -> impl Iterator<Item = (SourceId, &'static str)> {
    Source::ALL.into_iter().map(|source| (SourceId::new(source.number()), source.name()))
}

/// Returns the name of a unit; `None` for an unknown number.
pub(super) fn name_of(unit: UnitId) -> Option<&'static str> {
    units().find(|(known, _)| *known == unit).map(|(_, name)| name)
}

/// Returns the name of a unit's label; `None` for an unknown number.
pub(super) fn label_name(unit: UnitId, label: LabelId) -> Option<&'static str> {
    let unit = UNITS.iter().find(|known| known.id == unit.get())?;
    unit.labels.get(usize::from(label.get())).map(|field| field.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers and names match. Method: the first, one in the middle, the last, and none; labels.
    #[test]
    fn units_have_numbers_from_one_on() {
        let name = |number| name_of(UnitId::new(number));
        let expected = [None, Some("LOG_APPEND"), Some("SCAN"), Some("LEVEL_OPEN"), None];
        assert_eq!([0, 1, 13, 30, 31].map(name), expected);
        let label = |unit, number| label_name(UnitId::new(unit), LabelId::new(number));
        let expected = [Some("elapsed_ns"), Some("sync_ns"), None, None];
        assert_eq!([label(1, 0), label(2, 2), label(2, 4), label(31, 0)], expected);
        assert_eq!(sources().last(), Some((SourceId::new(3), "calibration")));
        assert!(sources().any(|source| source == (REPLAYED_READ, "replayed_read")));
    }
}
