//! The ids of operating units, labels and sources, and the schema that gives features their meaning.
//!
//! The units themselves are declared where samples are made.

use std::fmt;

use crate::numbers::fnv64;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u8);

        impl $name {
            /// Returns the id with this number.
            pub const fn new(number: u8) -> Self {
                Self(number)
            }

            /// Returns the number.
            pub const fn get(self) -> u8 {
                self.0
            }
        }
    };
}

id! {
    /// An operating unit: one kind of work with an end. Numbers are never reused.
    UnitId
}
id! {
    /// A label of a unit: 0 is elapsed time.
    LabelId
}
id! {
    /// A source of samples: apply, local clients, replayed reads, calibration.
    SourceId
}

/// The meaning of a unit's features, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema<'a> {
    /// The unit.
    pub unit: UnitId,
    /// The version of its meaning.
    pub version: u8,
    /// The names of the features.
    pub features: &'a [&'a str],
}

impl Schema<'_> {
    /// Returns the hash by which two nodes check that they mean the same features.
    pub fn hash(&self) -> SchemaHash {
        let mut bytes = vec![self.unit.get(), self.version];
        for name in self.features {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        SchemaHash::new(fnv64(&bytes))
    }
}

/// The identity of a [`Schema`], by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaHash(u64);

impl SchemaHash {
    /// Returns the hash with this value.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// Returns the value.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for SchemaHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a changed meaning is noticed. Method: the unit, the version, a name, the order, and the end of a name,
    /// each changed alone.
    #[test]
    fn schema_hash_changes_with_each_of_its_parts() {
        let hash = |unit, version, features: &[&str]| Schema { unit: UnitId::new(unit), version, features }.hash();
        let base = hash(13, 1, &["rows", "bytes"]);
        assert_eq!(base, hash(13, 1, &["rows", "bytes"]));
        for other in [
            hash(14, 1, &["rows", "bytes"]),
            hash(13, 2, &["rows", "bytes"]),
            hash(13, 1, &["rows", "byte"]),
            hash(13, 1, &["bytes", "rows"]),
            hash(13, 1, &["rowsb", "ytes"]),
        ] {
            assert_ne!(base, other);
        }
    }
}
