//! OIDs, names and lengths of the built-in types that this crate can name, with PostgreSQL's numbers.
//!
//! `builtin` has categories, casts and operators. User-defined types have OIDs from [`FIRST_USER_OID`] on and are not
//! listed here. The facts about an array type are in its element's row.
//!
//! Checked by the tests below (each OID occurs once; element and array refer to each other).

/// No object.
pub const INVALID: u32 = 0;

/// The first OID of a user's object; all OIDs below belong to built-in objects.
pub const FIRST_USER_OID: u32 = 16_384;

/// Facts about one built-in scalar or pseudo type.
struct Row {
    oid: u32,
    /// `pg_type.typname`.
    name: &'static str,
    /// Its name in SQL.
    sql_name: &'static str,
    /// Its array type, or 0.
    array: u32,
    /// `pg_type.typlen`: bytes, -1 for variable length, -2 for a C string.
    len: i16,
}

macro_rules! types {
    ($($name:ident = $oid:literal $typname:literal $sql_name:literal $len:literal, $array_name:tt = $array:literal;)*) => {
        $(
            #[doc = concat!("`", $typname, "`.")]
            pub const $name: u32 = $oid;
            types!(@array $array_name $array $typname);
        )*
        static ROWS: &[Row] = &[$(Row { oid: $oid, name: $typname, sql_name: $sql_name, array: $array, len: $len }),*];
    };
    (@array none $array:literal $typname:literal) => {};
    (@array $array_name:ident $array:literal $typname:literal) => {
        #[doc = concat!("Array of `", $typname, "`.")]
        pub const $array_name: u32 = $array;
    };
}

types! {
    BOOL = 16 "bool" "boolean" 1, BOOL_ARRAY = 1000;
    BYTEA = 17 "bytea" "bytea" -1, BYTEA_ARRAY = 1001;
    CHAR = 18 "char" "\"char\"" 1, CHAR_ARRAY = 1002;
    NAME = 19 "name" "name" 64, NAME_ARRAY = 1003;
    INT8 = 20 "int8" "bigint" 8, INT8_ARRAY = 1016;
    INT2 = 21 "int2" "smallint" 2, INT2_ARRAY = 1005;
    INT2VECTOR = 22 "int2vector" "int2vector" -1, INT2VECTOR_ARRAY = 1006;
    INT4 = 23 "int4" "integer" 4, INT4_ARRAY = 1007;
    REGPROC = 24 "regproc" "regproc" 4, REGPROC_ARRAY = 1008;
    TEXT = 25 "text" "text" -1, TEXT_ARRAY = 1009;
    OID = 26 "oid" "oid" 4, OID_ARRAY = 1028;
    TID = 27 "tid" "tid" 6, TID_ARRAY = 1010;
    XID = 28 "xid" "xid" 4, XID_ARRAY = 1011;
    CID = 29 "cid" "cid" 4, CID_ARRAY = 1012;
    OIDVECTOR = 30 "oidvector" "oidvector" -1, OIDVECTOR_ARRAY = 1013;
    JSON = 114 "json" "json" -1, JSON_ARRAY = 199;
    PG_NODE_TREE = 194 "pg_node_tree" "pg_node_tree" -1, none = 0;
    FLOAT4 = 700 "float4" "real" 4, FLOAT4_ARRAY = 1021;
    FLOAT8 = 701 "float8" "double precision" 8, FLOAT8_ARRAY = 1022;
    UNKNOWN = 705 "unknown" "unknown" -2, none = 0;
    INET = 869 "inet" "inet" -1, INET_ARRAY = 1041;
    ACLITEM = 1033 "aclitem" "aclitem" 12, ACLITEM_ARRAY = 1034;
    BPCHAR = 1042 "bpchar" "character" -1, BPCHAR_ARRAY = 1014;
    VARCHAR = 1043 "varchar" "character varying" -1, VARCHAR_ARRAY = 1015;
    DATE = 1082 "date" "date" 4, DATE_ARRAY = 1182;
    TIME = 1083 "time" "time without time zone" 8, TIME_ARRAY = 1183;
    TIMESTAMP = 1114 "timestamp" "timestamp without time zone" 8, TIMESTAMP_ARRAY = 1115;
    TIMESTAMPTZ = 1184 "timestamptz" "timestamp with time zone" 8, TIMESTAMPTZ_ARRAY = 1185;
    INTERVAL = 1186 "interval" "interval" 16, INTERVAL_ARRAY = 1187;
    TIMETZ = 1266 "timetz" "time with time zone" 12, TIMETZ_ARRAY = 1270;
    BIT = 1560 "bit" "bit" -1, BIT_ARRAY = 1561;
    VARBIT = 1562 "varbit" "bit varying" -1, VARBIT_ARRAY = 1563;
    NUMERIC = 1700 "numeric" "numeric" -1, NUMERIC_ARRAY = 1231;
    REGPROCEDURE = 2202 "regprocedure" "regprocedure" 4, REGPROCEDURE_ARRAY = 2207;
    REGOPER = 2203 "regoper" "regoper" 4, REGOPER_ARRAY = 2208;
    REGOPERATOR = 2204 "regoperator" "regoperator" 4, REGOPERATOR_ARRAY = 2209;
    REGCLASS = 2205 "regclass" "regclass" 4, REGCLASS_ARRAY = 2210;
    REGTYPE = 2206 "regtype" "regtype" 4, REGTYPE_ARRAY = 2211;
    RECORD = 2249 "record" "record" -1, RECORD_ARRAY = 2287;
    CSTRING = 2275 "cstring" "cstring" -2, CSTRING_ARRAY = 1263;
    ANY = 2276 "any" "\"any\"" 4, none = 0;
    ANYARRAY = 2277 "anyarray" "anyarray" -1, none = 0;
    VOID = 2278 "void" "void" 4, none = 0;
    TRIGGER = 2279 "trigger" "trigger" 4, none = 0;
    INTERNAL = 2281 "internal" "internal" 8, none = 0;
    ANYELEMENT = 2283 "anyelement" "anyelement" 4, none = 0;
    ANYNONARRAY = 2776 "anynonarray" "anynonarray" 4, none = 0;
    UUID = 2950 "uuid" "uuid" 16, UUID_ARRAY = 2951;
    TXID_SNAPSHOT = 2970 "txid_snapshot" "txid_snapshot" -1, TXID_SNAPSHOT_ARRAY = 2949;
    PG_LSN = 3220 "pg_lsn" "pg_lsn" 8, PG_LSN_ARRAY = 3221;
    ANYENUM = 3500 "anyenum" "anyenum" 4, none = 0;
    REGCONFIG = 3734 "regconfig" "regconfig" 4, REGCONFIG_ARRAY = 3735;
    REGDICTIONARY = 3769 "regdictionary" "regdictionary" 4, REGDICTIONARY_ARRAY = 3770;
    JSONB = 3802 "jsonb" "jsonb" -1, JSONB_ARRAY = 3807;
    REGNAMESPACE = 4089 "regnamespace" "regnamespace" 4, REGNAMESPACE_ARRAY = 4090;
    REGROLE = 4096 "regrole" "regrole" 4, REGROLE_ARRAY = 4097;
    REGCOLLATION = 4191 "regcollation" "regcollation" 4, REGCOLLATION_ARRAY = 4192;
    PG_SNAPSHOT = 5038 "pg_snapshot" "pg_snapshot" -1, PG_SNAPSHOT_ARRAY = 5039;
    XID8 = 5069 "xid8" "xid8" 8, XID8_ARRAY = 271;
    ANYCOMPATIBLE = 5077 "anycompatible" "anycompatible" 4, none = 0;
    ANYCOMPATIBLEARRAY = 5078 "anycompatiblearray" "anycompatiblearray" -1, none = 0;
    ANYCOMPATIBLENONARRAY = 5079 "anycompatiblenonarray" "anycompatiblenonarray" 4, none = 0;
}

fn row(oid: u32) -> Option<&'static Row> {
    ROWS.binary_search_by_key(&oid, |row| row.oid).ok().map(|at| &ROWS[at])
}

/// Returns the element type of an array type, `int2vector` and `oidvector` included.
pub fn element_of(array: u32) -> Option<u32> {
    match array {
        INT4_ARRAY => Some(INT4),
        TEXT_ARRAY => Some(TEXT),
        INT2VECTOR => Some(INT2),
        OIDVECTOR => Some(OID),
        0 => None,
        _ => ROWS.iter().find(|row| row.array == array).map(|row| row.oid),
    }
}

/// Returns the array type whose elements are `element`.
pub fn array_of(element: u32) -> Option<u32> {
    row(element).map(|row| row.array).filter(|&array| array != 0)
}

/// Returns whether `oid` is a true array type (not `int2vector` or `oidvector`).
pub fn is_array(oid: u32) -> bool {
    oid != INT2VECTOR && oid != OIDVECTOR && element_of(oid).is_some()
}

/// Returns whether values of the type are stored as an OID: `oid`, the `reg*` types, `xid` and `cid`.
pub const fn is_oid_like(oid: u32) -> bool {
    matches!(
        oid,
        OID | REGPROC
            | REGPROCEDURE
            | REGOPER
            | REGOPERATOR
            | REGCLASS
            | REGTYPE
            | REGNAMESPACE
            | REGROLE
            | REGCOLLATION
            | REGCONFIG
            | REGDICTIONARY
            | XID
            | CID
    )
}

/// Returns `pg_type.typname` of a built-in scalar or pseudo type; an array type has its element's name with `_` before
/// it.
pub fn typname(oid: u32) -> Option<&'static str> {
    row(oid).map(|row| row.name)
}

/// Returns the name in SQL of a built-in scalar or pseudo type, such as `double precision`.
pub fn sql_name(oid: u32) -> Option<&'static str> {
    row(oid).map(|row| row.sql_name)
}

/// Returns `pg_type.typlen`: bytes, -1 for variable length, -2 for a C string.
pub fn typlen(oid: u32) -> i16 {
    row(oid).map_or(-1, |row| row.len)
}

/// Returns the OID of the built-in type whose `pg_type.typname` is `name`; array types are `_name`.
pub fn by_typname(name: &str) -> Option<u32> {
    if let Some(row) = ROWS.iter().find(|row| row.name == name) {
        return Some(row.oid);
    }
    name.strip_prefix('_').and_then(by_typname).and_then(array_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: look-ups by OID can use binary search, and look-ups lead back. Method: walk the table.
    #[test]
    fn rows_ascend_and_arrays_lead_back_to_their_elements() {
        assert!(ROWS.is_sorted_by(|a, b| a.oid < b.oid));
        for row in ROWS {
            assert_eq!(by_typname(row.name), Some(row.oid));
            if row.array != 0 {
                assert_eq!(element_of(row.array), Some(row.oid));
                assert_eq!(array_of(row.oid), Some(row.array));
            }
        }
        assert_eq!(by_typname("_text"), Some(TEXT_ARRAY));
        assert_eq!(element_of(INT2VECTOR), Some(INT2));
        assert!(!is_array(OIDVECTOR) && is_array(INT4_ARRAY));
    }
}
