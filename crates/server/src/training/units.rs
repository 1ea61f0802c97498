//! Names of operating units and of the sources of their samples, by number. Ids are never given to anything else.
//!
//! Not what a sample of them holds.

use collie_train::{SourceId, UnitId};

/// Units from 1 on.
const UNITS: [&str; 30] = [
    "LOG_APPEND",
    "LOG_FLUSH",
    "COMMIT_WAIT",
    "BOUNDARY_SCAN",
    "TXN_BEGIN",
    "TXN_COMMIT",
    "TXN_ABORT",
    "LOCK_WAIT",
    "ROW_READ",
    "ROW_INSERT",
    "ROW_UPDATE",
    "ROW_DELETE",
    "SCAN",
    "PARSE",
    "BIND",
    "PLAN",
    "EXECUTE_ROW",
    "EXECUTE_BATCH",
    "RESULT_SEND",
    "GC_TICK",
    "FLUSH_LEVELS",
    "COMPACT",
    "REPL_SEND",
    "REPL_RECEIVE",
    "APPLY_TXN",
    "APPLY_ROW",
    "BACKUP_CHUNK",
    "RECOVER_SCAN",
    "RECOVER_APPLY",
    "LEVEL_OPEN",
];

/// Sources from 0 on.
const SOURCES: [&str; 4] = ["apply", "local", "replayed_read", "calibration"];

/// Reads of the primary that are run again: the source that is work which can wait.
pub(super) const REPLAYED_READ: SourceId = SourceId::new(2);

/// Returns every unit with its name, by number.
pub(super) fn units() -> impl Iterator<Item = (UnitId, &'static str)> {
    (1..).map(UnitId::new).zip(UNITS)
}

/// Returns every source with its name, by number.
pub(super) fn sources() -> impl Iterator<Item = (SourceId, &'static str)> {
    (0..).map(SourceId::new).zip(SOURCES)
}

/// Returns the name of a unit; `None` for a number that none has.
pub(super) fn name_of(unit: UnitId) -> Option<&'static str> {
    units().find(|(known, _)| *known == unit).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: numbers and names belong together. Method: the first, one amid, the last, and none.
    #[test]
    fn units_have_numbers_from_one_on() {
        let name = |number| name_of(UnitId::new(number));
        let expected = [None, Some("LOG_APPEND"), Some("SCAN"), Some("LEVEL_OPEN"), None];
        assert_eq!([0, 1, 13, 30, 31].map(name), expected);
        assert_eq!(sources().last(), Some((SourceId::new(3), "calibration")));
        assert!(sources().any(|source| source == (REPLAYED_READ, "replayed_read")));
    }
}
