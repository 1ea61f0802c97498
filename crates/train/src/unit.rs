//! Which operating unit, label and source a number is of, and the schema that gives features their meaning.
//!
//! Not the list of units: that is declared where samples are made.

use std::fmt;

use crate::numbers::fnv64;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(u8);

        impl $name {
            /// The id with this number.
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
    /// Where samples come from: apply, local clients, replayed reads, calibration.
    SourceId
}

/// What the features of a unit mean, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema<'a> {
    /// The unit.
    pub unit: UnitId,
    /// The version of its meaning.
    pub version: u8,
    /// Names of the features.
    pub features: &'a [&'a str],
}

impl Schema<'_> {
    /// Returns the hash by which two nodes see that they mean the same.
    pub fn hash(&self) -> SchemaHash {
        let mut bytes = vec![self.unit.get(), self.version];
        for name in self.features {
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
        }
        SchemaHash::new(fnv64(&bytes))
    }
}

/// Names a [`Schema`] by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SchemaHash(u64);

impl SchemaHash {
    /// The hash with this value.
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

    /// Goal: a changed meaning is noticed. Method: unit, version, a name, the order and where one name ends, each changed alone.
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
