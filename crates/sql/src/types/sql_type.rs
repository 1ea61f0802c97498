//! `SqlType`: a type's OID with the modifier of a column or expression.
//!
//! Names of user-defined types need the catalog and are not found here.

use super::{oid, typmod};

/// A type and its modifier, such as `numeric(10,2)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SqlType {
    /// `pg_type.oid`.
    pub oid: u32,
    /// The modifier in PostgreSQL's encoding; -1 means none.
    pub typmod: i32,
}

macro_rules! common {
    ($($name:ident = $oid:ident;)*) => {
        $(
            #[doc = concat!("The type with OID [`oid::", stringify!($oid), "`] and no modifier.")]
            pub const $name: Self = Self::new(oid::$oid);
        )*
    };
}

impl SqlType {
    common! {
        BOOL = BOOL; BYTEA = BYTEA; CHAR = CHAR; NAME = NAME; INT2 = INT2; INT4 = INT4; INT8 = INT8; TEXT = TEXT;
        OID = OID; FLOAT4 = FLOAT4; FLOAT8 = FLOAT8; UNKNOWN = UNKNOWN; BPCHAR = BPCHAR; VARCHAR = VARCHAR;
        DATE = DATE; TIME = TIME; TIMESTAMP = TIMESTAMP; TIMESTAMPTZ = TIMESTAMPTZ; INTERVAL = INTERVAL;
        NUMERIC = NUMERIC;
        RECORD = RECORD; VOID = VOID; INT2VECTOR = INT2VECTOR; OIDVECTOR = OIDVECTOR; REGCLASS = REGCLASS;
        REGTYPE = REGTYPE; REGPROC = REGPROC; TEXT_ARRAY = TEXT_ARRAY; NAME_ARRAY = NAME_ARRAY; OID_ARRAY = OID_ARRAY;
        INT4_ARRAY = INT4_ARRAY;
    }

    /// Makes the type without a modifier.
    pub const fn new(oid: u32) -> Self {
        Self { oid, typmod: -1 }
    }

    /// Makes the type with a modifier as PostgreSQL encodes it (see [`typmod`]).
    pub const fn with_typmod(oid: u32, typmod: i32) -> Self {
        Self { oid, typmod }
    }

    /// Returns the name that PostgreSQL shows: `character varying(10)`, `numeric(10,2)`, `integer[]`.
    ///
    /// A type that is not built in is shown as its OID; the catalog knows its name.
    pub fn name(self) -> String {
        if oid::is_array(self.oid) {
            let element = oid::element_of(self.oid).expect("an array type has an element type");
            return Self::with_typmod(element, self.typmod).name() + "[]";
        }
        let Some(name) = oid::sql_name(self.oid) else { return self.oid.to_string() };
        let modifier = typmod::display(self.oid, self.typmod);
        // The modifier of a time type follows the first word: timestamp(3) without time zone.
        match name.split_once(' ') {
            _ if modifier.is_empty() => name.to_owned(),
            Some((first, rest)) if self.is_datetime() => format!("{first}{modifier} {rest}"),
            _ => format!("{name}{modifier}"),
        }
    }

    /// Returns `pg_type.typlen`: bytes, -1 for variable length, -2 for a C string.
    #[expect(clippy::len_without_is_empty, reason = "the length of the type's values, not of a collection")]
    pub fn len(self) -> i16 {
        oid::typlen(self.oid)
    }

    /// Returns the element type of an array type.
    pub fn element(self) -> Option<Self> {
        oid::element_of(self.oid).map(|element| Self::with_typmod(element, self.typmod))
    }

    /// Returns the array type of this element type.
    pub fn array(self) -> Option<Self> {
        oid::array_of(self.oid).map(|array| Self::with_typmod(array, self.typmod))
    }

    /// Returns whether its values are [`Value::Text`](super::Value::Text).
    pub const fn is_string_like(self) -> bool {
        matches!(
            self.oid,
            oid::TEXT
                | oid::VARCHAR
                | oid::BPCHAR
                | oid::NAME
                | oid::UNKNOWN
                | oid::CSTRING
                | oid::VOID
                | oid::PG_NODE_TREE
        )
    }

    /// Returns whether it is int2, int4 or int8.
    pub const fn is_integer(self) -> bool {
        matches!(self.oid, oid::INT2 | oid::INT4 | oid::INT8)
    }

    /// Returns whether it is an integer, float or numeric type.
    pub const fn is_number(self) -> bool {
        self.is_integer() || matches!(self.oid, oid::FLOAT4 | oid::FLOAT8 | oid::NUMERIC)
    }

    /// Returns whether it is a date or time type.
    pub const fn is_datetime(self) -> bool {
        matches!(self.oid, oid::DATE | oid::TIME | oid::TIMETZ | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL)
    }

    /// Returns whether it is an array type (not `int2vector` or `oidvector`).
    pub fn is_array(self) -> bool {
        oid::is_array(self.oid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names are those of `format_type`. Method: a table of PostgreSQL 15's answers.
    #[test]
    fn name_is_what_format_type_prints() {
        for (oid, typmod, name) in [
            (oid::INT4, -1, "integer"),
            (oid::VARCHAR, 14, "character varying(10)"),
            (oid::BPCHAR, 8, "character(4)"),
            (oid::NUMERIC, (10 << 16 | 2) + 4, "numeric(10,2)"),
            (oid::NUMERIC, (3 << 16 | (-2_i32 & 0x7FF)) + 4, "numeric(3,-2)"),
            (oid::TIMESTAMP, 3, "timestamp(3) without time zone"),
            (oid::TIMESTAMPTZ, -1, "timestamp with time zone"),
            (oid::TIME, 0, "time(0) without time zone"),
            (oid::INTERVAL, -1, "interval"),
            (oid::INTERVAL, 0x7FFF << 16 | 3, "interval(3)"),
            (oid::INTERVAL, 6 << 16 | 0xFFFF, "interval year to month"),
            (oid::INTERVAL_ARRAY, 1 << 28 | 2, "interval second(2)[]"),
            (oid::CHAR, -1, "\"char\""),
            (oid::FLOAT8, -1, "double precision"),
            (oid::VARCHAR_ARRAY, 14, "character varying(10)[]"),
            (oid::OIDVECTOR, -1, "oidvector"),
        ] {
            assert_eq!(SqlType::with_typmod(oid, typmod).name(), name);
        }
    }
}
