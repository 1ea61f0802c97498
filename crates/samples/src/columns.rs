//! The columns of a unit's files: nine that every sample has, then the unit's features and labels by their names.

use collie_obs::UnitSchema;
use collie_train::{Schema, SchemaHash, UnitId};

use crate::table::{Column, Kind};

/// The columns that every sample has, before its features and labels.
pub(crate) const COMMON: [Column; 9] = [
    Column { name: "time_us", kind: Kind::U64 },
    Column { name: "source", kind: Kind::U8 },
    Column { name: "flags", kind: Kind::U8 },
    Column { name: "thread", kind: Kind::U16 },
    Column { name: "calls", kind: Kind::U16 },
    Column { name: "p", kind: Kind::F32 },
    Column { name: "ctx", kind: Kind::U32 },
    Column { name: "start", kind: Kind::U64 },
    Column { name: "lsn", kind: Kind::U64 },
];

/// Returns all columns of a unit's files, in order.
pub(crate) fn columns_of(unit: &UnitSchema) -> Vec<Column> {
    let feature = |field: &collie_obs::FieldSchema| Column { name: field.name, kind: Kind::U32 };
    let label = |field: &collie_obs::FieldSchema| Column { name: field.name, kind: Kind::U64 };
    COMMON.into_iter().chain(unit.features.iter().map(feature)).chain(unit.labels.iter().map(label)).collect()
}

/// Returns the hash by which files, packages and nodes check that they mean the same features.
pub fn schema_hash(unit: &UnitSchema) -> SchemaHash {
    let features: Vec<&str> = unit.features.iter().map(|field| field.name).collect();
    Schema { unit: UnitId::new(unit.id), version: unit.version, features: &features }.hash()
}

/// Finds a unit of this program by its number and version.
pub fn unit_of(id: u8, version: u8) -> Option<&'static UnitSchema> {
    collie_obs::UNITS.iter().find(|unit| unit.id == id && unit.version == version)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Goal: every unit can be written as a file. Method: for each unit, column names are distinct lower-case words,
    /// features and labels fit into a sample, and the first label is the elapsed time.
    #[test]
    fn every_unit_has_columns_of_its_own() {
        for unit in collie_obs::UNITS {
            let columns = columns_of(unit);
            let names: BTreeSet<&str> = columns.iter().map(|column| column.name).collect();
            assert_eq!(names.len(), columns.len(), "{}: two columns of one name", unit.name);
            let is_word = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
            assert!(names.iter().all(|name| is_word(name)), "{}: {names:?}", unit.name);
            assert!(unit.features.len() <= 8 && (1..=4).contains(&unit.labels.len()), "{}", unit.name);
            assert_eq!(unit.labels[0].name, "elapsed_ns");
        }
    }
}
