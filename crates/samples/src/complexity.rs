//! The complexity by which the elapsed time of long units is divided before it is learned.

use collie_obs::UnitSchema;
use collie_train::model::Complexity;

/// The units whose elapsed time grows with one feature: unit, feature, and whether it grows as n log n of the feature.
const LONG_UNITS: [(&str, &str, bool); 10] = [
    ("SCAN", "rows_examined", false),
    ("EXECUTE_BATCH", "rows_in", false),
    ("GC_TICK", "rows_visited", false),
    ("FLUSH_LEVELS", "rows", false),
    ("COMPACT", "bytes_in", true),
    ("APPLY_TXN", "rows", false),
    ("BACKUP_CHUNK", "bytes", false),
    ("RECOVER_SCAN", "bytes", false),
    ("RECOVER_APPLY", "rows", false),
    ("LEVEL_OPEN", "rows", false),
];

/// Returns the complexity by which a unit's label is divided: constant except for the elapsed time (label 0) of a long
/// unit.
pub fn complexity_of(unit: &UnitSchema, label: u8) -> Complexity {
    let long = LONG_UNITS.iter().find(|(name, _, _)| *name == unit.name).filter(|_| label == 0);
    let Some((_, feature, is_linearithmic)) = long else { return Complexity::Constant };
    let at = unit.features.iter().position(|field| field.name == *feature);
    match at.and_then(|at| u16::try_from(at).ok()) {
        Some(at) if *is_linearithmic => Complexity::Linearithmic(at),
        Some(at) => Complexity::Linear(at),
        None => Complexity::Constant,
    }
}

/// Returns the complexity as a file's footer names it for programs in other languages: `constant`, `linear:rows`,
/// `linearithmic:bytes_in`.
pub(crate) fn told(unit: &UnitSchema) -> String {
    let name = |at: u16| unit.features.get(usize::from(at)).map_or("", |field| field.name);
    match complexity_of(unit, 0) {
        Complexity::Constant => "constant".to_owned(),
        Complexity::Linear(at) => format!("linear:{}", name(at)),
        Complexity::Linearithmic(at) => format!("linearithmic:{}", name(at)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a renamed unit or feature does not silently turn a long unit into a constant one. Method: each row of the
    /// table is found among the units.
    #[test]
    fn every_long_unit_has_its_feature() {
        for (name, feature, is_linearithmic) in LONG_UNITS {
            let unit =
                collie_obs::UNITS.iter().find(|unit| unit.name == name).unwrap_or_else(|| panic!("no unit {name}"));
            let kind = if is_linearithmic { "linearithmic" } else { "linear" };
            assert_eq!(told(unit), format!("{kind}:{feature}"));
            assert_eq!(complexity_of(unit, 1), Complexity::Constant, "{name}: other labels are learned as they are");
        }
        let short = collie_obs::UNITS.iter().find(|unit| unit.name == "ROW_READ").unwrap();
        assert_eq!(told(short), "constant");
    }
}
