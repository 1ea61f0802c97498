//! Catalog rows: the encoding of definitions as keys and values of family 0.
//!
//! The meaning of a definition is in `relation.rs` and the I/O in `store.rs`. Each kind of object has its own key
//! space, and every value begins with a format version. All integers in keys are big-endian, so that the parts of a
//! table lie together and in order. Numbers in values are varints; text is length-prefixed.
//!
//! By kind byte: the key behind it; the value behind the version byte.
//! - 1 schema: key oid u32; value name.
//! - 2 relation: key oid u32; value schema, version, family, key kind (0 primary key, 1 row id), name, option count,
//!   (name, value) each.
//! - 3 column: key relation u32, attnum u16; value type oid, typmod + 1, flags (1 not null, 2 dropped, 4 has default),
//!   name, default if flagged.
//! - 4 index: key relation u32, oid u32; value family, flags (1 unique, 2 primary, 4 has constraint, 8 includes, 16
//!   partial), constraint oid if flagged, name, column count, (attnum, or 0 for an expression; flags 1 descending, 2
//!   nulls first; of an expression: type oid, typmod + 1, name, text) each, included count if flagged, attnum each,
//!   term count of the predicate if flagged, text each.
//! - 5 check: key relation u32, oid u32; value name, condition.
//! - 6 counter: key which u8 (1: next oid); value next value.
//! - 7 foreign key: key relation u32, oid u32; value target oid, index oid, on update, on delete (0 no action, 1
//!   restrict, 2 cascade, 3 set null, 4 set default), timing (0 immediate, 1 deferrable, 2 deferred), flags (1 match
//!   full, 2 validated), name, column count, (attnum, target attnum) each, count of the columns that ON DELETE sets,
//!   attnum each.
//!
//! Checked by the round trip property below and the fuzz target `catalog_record`.

use std::sync::Arc;

use collie_base::{
    CfId,
    codec::{DecodeError, Reader, put_length_prefixed, put_varint},
};

use crate::{
    catalog::{
        relation::{
            Check, Column, ConstraintTiming, ForeignKey, Index, IndexColumn, KeyExpression, KeyPart, Oid,
            ReferentialAction, Relation, Storage, TableKey,
        },
        snapshot::Schema,
    },
    codec::{key::KeyColumn, row::RowLayout},
    types::{SqlType, Value},
};

/// Version of every value written.
const FORMAT: u8 = 1;

const SCHEMA: u8 = 1;
const RELATION: u8 = 2;
const COLUMN: u8 = 3;
const INDEX: u8 = 4;
const CHECK: u8 = 5;
const COUNTER: u8 = 6;
const FOREIGN_KEY: u8 = 7;
const NEXT_OID: u8 = 1;

/// One decoded catalog row.
#[derive(Clone, Debug)]
pub enum Record {
    /// A schema.
    Schema(Schema),
    /// A table without its parts.
    Relation(Box<Relation>),
    /// A column of the table.
    Column(Oid, Column),
    /// An index of the table. Column places are still attnum - 1, and [`assemble`] completes the key encodings.
    Index(Oid, Index),
    /// A CHECK of the table.
    Check(Oid, Check),
    /// A foreign key of the table. Column places are attnum - 1.
    ForeignKey(Oid, ForeignKey),
    /// The first OID that was never given to an object.
    NextOid(u32),
}

/// A key and a value of family 0.
pub type Row = (Vec<u8>, Vec<u8>);

fn key(kind: u8, ids: &[u32]) -> Vec<u8> {
    let mut key = vec![kind];
    for id in ids {
        key.extend_from_slice(&id.to_be_bytes());
    }
    key
}

/// The object to which a catalog row belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The table with this OID.
    Table(Oid),
    /// The schema with this OID.
    Schema(Oid),
}

/// Returns the object to which the row with this key belongs; `None` for a counter and for a key that no row has.
pub fn part_of(key: &[u8]) -> Option<Part> {
    let (kind, rest) = key.split_first()?;
    let oid = rest.get(..4).and_then(|oid| oid.try_into().ok()).map(u32::from_be_bytes)?;
    match *kind {
        SCHEMA => Some(Part::Schema(oid)),
        RELATION | COLUMN | INDEX | CHECK | FOREIGN_KEY => Some(Part::Table(oid)),
        _ => None,
    }
}

/// Returns the prefixes of the keys of a table's rows.
pub fn table_prefixes(oid: Oid) -> [Vec<u8>; 5] {
    [RELATION, COLUMN, INDEX, CHECK, FOREIGN_KEY].map(|kind| key(kind, &[oid]))
}

/// Returns the key of a schema's row.
pub fn schema_key(oid: Oid) -> Vec<u8> {
    key(SCHEMA, &[oid])
}

/// Returns the key of the counter of OIDs.
pub fn next_oid_key() -> Vec<u8> {
    vec![COUNTER, NEXT_OID]
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_length_prefixed(out, text.as_bytes());
}

/// Encodes a schema.
pub fn schema_row(schema: &Schema) -> Row {
    let mut value = vec![FORMAT];
    put_text(&mut value, &schema.name);
    (schema_key(schema.oid), value)
}

/// Encodes the counter of OIDs.
pub fn next_oid_row(next: u32) -> Row {
    let mut value = vec![FORMAT];
    put_varint(&mut value, u64::from(next));
    (next_oid_key(), value)
}

/// Encodes a table with all its parts, in key order within each kind.
///
/// # Panics
/// On a virtual relation, which is never stored.
pub fn relation_rows(relation: &Relation) -> Vec<Row> {
    let mut rows = Vec::with_capacity(1 + relation.columns.len() + relation.indexes.len() + relation.checks.len());
    let mut value = vec![FORMAT];
    put_varint(&mut value, u64::from(relation.schema));
    put_varint(&mut value, relation.version);
    put_varint(&mut value, u64::from(relation.family().get()));
    value.push(match relation.key {
        TableKey::Primary => 0,
        TableKey::RowId => 1,
    });
    put_text(&mut value, &relation.name);
    put_varint(&mut value, relation.options.len() as u64);
    for (name, setting) in &relation.options {
        put_text(&mut value, name);
        put_text(&mut value, setting);
    }
    rows.push((key(RELATION, &[relation.oid]), value));
    rows.extend(relation.columns.iter().map(|column| column_row(relation.oid, column)));
    rows.extend(relation.indexes.iter().map(|index| index_row(relation.oid, index)));
    for check in &relation.checks {
        let mut value = vec![FORMAT];
        put_text(&mut value, &check.name);
        put_text(&mut value, &check.condition);
        rows.push((key(CHECK, &[relation.oid, check.oid]), value));
    }
    rows.extend(relation.foreign_keys.iter().map(|foreign| foreign_key_row(relation.oid, foreign)));
    rows
}

/// The actions, indexed by their encoding.
const ACTIONS: [ReferentialAction; 5] = [
    ReferentialAction::NoAction,
    ReferentialAction::Restrict,
    ReferentialAction::Cascade,
    ReferentialAction::SetNull,
    ReferentialAction::SetDefault,
];
/// The timings, indexed by their encoding.
const TIMINGS: [ConstraintTiming; 3] =
    [ConstraintTiming::Immediate, ConstraintTiming::Deferrable, ConstraintTiming::Deferred];

fn number_of<T: PartialEq>(all: &[T], one: &T) -> u8 {
    let place = all.iter().position(|other| other == one).expect("every value has its number");
    u8::try_from(place).expect("a handful")
}

fn numbered<T: Copy>(all: &[T], reader: &mut Reader<'_>) -> Result<T, DecodeError> {
    all.get(usize::from(reader.u8()?)).copied().ok_or(DecodeError { what: "foreign key" })
}

fn foreign_key_row(relation: Oid, foreign: &ForeignKey) -> Row {
    let mut value = vec![FORMAT];
    put_varint(&mut value, u64::from(foreign.target));
    put_varint(&mut value, u64::from(foreign.index));
    value.push(number_of(&ACTIONS, &foreign.on_update));
    value.push(number_of(&ACTIONS, &foreign.on_delete));
    value.push(number_of(&TIMINGS, &foreign.timing));
    value.push(u8::from(foreign.match_full) | u8::from(foreign.validated) << 1);
    put_text(&mut value, &foreign.name);
    put_varint(&mut value, foreign.columns.len() as u64);
    for (column, target) in foreign.columns.iter().zip(&foreign.target_columns) {
        put_varint(&mut value, *column as u64 + 1);
        put_varint(&mut value, *target as u64 + 1);
    }
    put_varint(&mut value, foreign.on_delete_columns.len() as u64);
    for column in &foreign.on_delete_columns {
        put_varint(&mut value, *column as u64 + 1);
    }
    (key(FOREIGN_KEY, &[relation, foreign.oid]), value)
}

fn place(reader: &mut Reader<'_>) -> Result<usize, DecodeError> {
    small::<usize>(reader)?.checked_sub(1).ok_or(DecodeError { what: "attnum" })
}

fn decode_foreign_key(oid: Oid, reader: &mut Reader<'_>) -> Result<ForeignKey, DecodeError> {
    let (target, index) = (small(reader)?, small(reader)?);
    let (on_update, on_delete) = (numbered(&ACTIONS, reader)?, numbered(&ACTIONS, reader)?);
    let timing = numbered(&TIMINGS, reader)?;
    let flags = reader.u8()?;
    let name = text(reader)?;
    let (mut columns, mut target_columns, mut on_delete_columns) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..reader.varint()? {
        columns.push(place(reader)?);
        target_columns.push(place(reader)?);
    }
    for _ in 0..reader.varint()? {
        on_delete_columns.push(place(reader)?);
    }
    Ok(ForeignKey {
        oid,
        name,
        columns,
        target,
        target_columns,
        index,
        match_full: flags & 1 != 0,
        on_update,
        on_delete,
        on_delete_columns,
        timing,
        validated: flags & 2 != 0,
    })
}

fn put_type(out: &mut Vec<u8>, ty: SqlType) {
    put_varint(out, u64::from(ty.oid));
    put_varint(out, u64::try_from(i64::from(ty.typmod) + 1).expect("a typmod is at least -1"));
}

fn sql_type(reader: &mut Reader<'_>) -> Result<SqlType, DecodeError> {
    let oid = small(reader)?;
    let typmod = i32::try_from(reader.varint()?).map_err(|_| DecodeError { what: "typmod" })? - 1;
    Ok(SqlType { oid, typmod })
}

fn column_row(relation: Oid, column: &Column) -> Row {
    let mut row_key = key(COLUMN, &[relation]);
    row_key.extend_from_slice(&column.attnum.to_be_bytes());
    let mut value = vec![FORMAT];
    put_type(&mut value, column.ty);
    value.push(u8::from(column.not_null) | u8::from(column.dropped) << 1 | u8::from(column.default.is_some()) << 2);
    put_text(&mut value, &column.name);
    if let Some(default) = &column.default {
        put_text(&mut value, default);
    }
    (row_key, value)
}

fn index_row(relation: Oid, index: &Index) -> Row {
    let mut value = vec![FORMAT];
    put_varint(&mut value, u64::from(index.cf.get()));
    let flags = u8::from(index.unique) | u8::from(index.primary) << 1 | u8::from(index.constraint.is_some()) << 2;
    value.push(flags | u8::from(!index.included.is_empty()) << 3 | u8::from(!index.predicate.is_empty()) << 4);
    if let Some(constraint) = index.constraint {
        put_varint(&mut value, u64::from(constraint));
    }
    put_text(&mut value, &index.name);
    put_varint(&mut value, index.columns.len() as u64);
    for column in &index.columns {
        put_varint(&mut value, column.column().map_or(0, |place| place as u64 + 1));
        value.push(u8::from(column.key.desc) | u8::from(column.key.nulls_first) << 1);
        if let Some(expression) = column.expression() {
            put_type(&mut value, expression.ty);
            put_text(&mut value, &expression.name);
            put_text(&mut value, &expression.text);
        }
    }
    if !index.included.is_empty() {
        put_varint(&mut value, index.included.len() as u64);
        for place in &index.included {
            put_varint(&mut value, *place as u64 + 1);
        }
    }
    if !index.predicate.is_empty() {
        put_varint(&mut value, index.predicate.len() as u64);
        for term in &index.predicate {
            put_text(&mut value, term);
        }
    }
    (key(INDEX, &[relation, index.oid]), value)
}

fn text(reader: &mut Reader<'_>) -> Result<Arc<str>, DecodeError> {
    let bytes = reader.length_prefixed()?;
    std::str::from_utf8(bytes).map(Arc::from).map_err(|_| DecodeError { what: "text" })
}

fn small<T: TryFrom<u64>>(reader: &mut Reader<'_>) -> Result<T, DecodeError> {
    T::try_from(reader.varint()?).map_err(|_| DecodeError { what: "number" })
}

fn be32(bytes: &[u8]) -> Result<(u32, &[u8]), DecodeError> {
    let (head, rest) = bytes.split_first_chunk().ok_or(DecodeError { what: "key" })?;
    Ok((u32::from_be_bytes(*head), rest))
}

/// Decodes one row.
///
/// # Errors
/// [`DecodeError`] for bytes that are not a row of a known format.
pub fn decode(row_key: &[u8], value: &[u8]) -> Result<Record, DecodeError> {
    let bad_key = DecodeError { what: "catalog key" };
    let (kind, ids) = row_key.split_first().ok_or(bad_key)?;
    let mut reader = Reader::new(value);
    if reader.u8()? != FORMAT {
        return Err(DecodeError { what: "catalog row of another format version" });
    }
    let record = match *kind {
        SCHEMA => Record::Schema(Schema { oid: be32(ids)?.0, name: text(&mut reader)? }),
        RELATION => Record::Relation(Box::new(decode_relation(be32(ids)?.0, &mut reader)?)),
        COLUMN => {
            let (relation, attnum) = be32(ids)?;
            let attnum = i16::from_be_bytes(attnum.try_into().map_err(|_| bad_key)?);
            Record::Column(relation, decode_column(attnum, &mut reader)?)
        }
        INDEX => {
            let (relation, oid) = be32(ids)?;
            Record::Index(relation, decode_index(be32(oid)?.0, &mut reader)?)
        }
        CHECK => {
            let (relation, oid) = be32(ids)?;
            let check = Check { oid: be32(oid)?.0, name: text(&mut reader)?, condition: text(&mut reader)? };
            Record::Check(relation, check)
        }
        FOREIGN_KEY => {
            let (relation, oid) = be32(ids)?;
            Record::ForeignKey(relation, decode_foreign_key(be32(oid)?.0, &mut reader)?)
        }
        COUNTER if ids == [NEXT_OID] => Record::NextOid(small(&mut reader)?),
        _ => return Err(bad_key),
    };
    reader.finish()?;
    Ok(record)
}

fn decode_relation(oid: Oid, reader: &mut Reader<'_>) -> Result<Relation, DecodeError> {
    let schema = small(reader)?;
    let version = reader.varint()?;
    let storage = Storage::Family(CfId::new(small(reader)?));
    let key = match reader.u8()? {
        0 => TableKey::Primary,
        1 => TableKey::RowId,
        _ => return Err(DecodeError { what: "key kind" }),
    };
    let name = text(reader)?;
    let count = reader.varint()?;
    let mut options = Vec::new();
    for _ in 0..count {
        options.push((text(reader)?.to_string(), text(reader)?.to_string()));
    }
    Ok(Relation {
        oid,
        schema,
        name,
        version,
        storage,
        columns: Vec::new(),
        key,
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        options,
        layout: Arc::new(RowLayout::new(&[])),
    })
}

fn decode_column(attnum: i16, reader: &mut Reader<'_>) -> Result<Column, DecodeError> {
    let ty = sql_type(reader)?;
    let flags = reader.u8()?;
    let name = text(reader)?;
    let default = if flags & 4 != 0 { Some(text(reader)?) } else { None };
    Ok(Column { attnum, name, ty, not_null: flags & 1 != 0, default, missing: Value::Null, dropped: flags & 2 != 0 })
}

fn decode_index(oid: Oid, reader: &mut Reader<'_>) -> Result<Index, DecodeError> {
    let cf = CfId::new(small(reader)?);
    let flags = reader.u8()?;
    let constraint = if flags & 4 != 0 { Some(small(reader)?) } else { None };
    let name = text(reader)?;
    let count = reader.varint()?;
    let mut columns = Vec::new();
    for _ in 0..count {
        let attnum: usize = small(reader)?;
        let order = reader.u8()?;
        let part = match attnum.checked_sub(1) {
            Some(place) => KeyPart::Column(place),
            None => {
                let ty = sql_type(reader)?;
                KeyPart::Expression(Arc::new(KeyExpression { name: text(reader)?, text: text(reader)?, ty }))
            }
        };
        // Type and nullability are the part's; `assemble` fills them in.
        let key = KeyColumn { oid: 0, desc: order & 1 != 0, nulls_first: order & 2 != 0, nullable: true };
        columns.push(IndexColumn { part, key });
    }
    let mut included = Vec::new();
    if flags & 8 != 0 {
        for _ in 0..reader.varint()? {
            included.push(place(reader)?);
        }
    }
    let mut predicate = Vec::new();
    if flags & 16 != 0 {
        for _ in 0..reader.varint()? {
            predicate.push(text(reader)?);
        }
    }
    let (unique, primary) = (flags & 1 != 0, flags & 2 != 0);
    Ok(Index { oid, name, cf, unique, primary, constraint, columns, predicate, included })
}

/// Assembles a table from its rows and derives the layout and the key encodings from its columns.
///
/// # Errors
/// [`DecodeError`] if parts contradict each other (relation.rs R2, R3).
pub fn assemble(
    mut relation: Relation,
    mut columns: Vec<Column>,
    mut indexes: Vec<Index>,
    mut checks: Vec<Check>,
    mut foreign_keys: Vec<ForeignKey>,
) -> Result<Relation, DecodeError> {
    // Attnums without a gap make an attnum a place in the list; indexes and foreign keys rely on it.
    columns.sort_by_key(|column| column.attnum);
    for (place, column) in columns.iter().enumerate() {
        if usize::try_from(column.attnum) != Ok(place + 1) {
            return Err(DecodeError { what: "column numbers with a gap" });
        }
    }
    indexes.sort_by_key(|index| (!index.primary, index.oid));
    for index in &mut indexes {
        for part in &mut index.columns {
            part.key = match &part.part {
                KeyPart::Column(place) => {
                    let column = columns.get(*place).filter(|column| !column.dropped);
                    let column = column.ok_or(DecodeError { what: "index over a missing column" })?;
                    key_column(column, part.key.desc, part.key.nulls_first)
                }
                KeyPart::Expression(it) => key_expression(it.ty, part.key.desc, part.key.nulls_first),
            };
        }
        if (index.primary || index.constraint.is_some()) && index.is_computed() {
            return Err(DecodeError { what: "constraint by an index that computes" });
        }
        if index.included.iter().any(|&at| columns.get(at).is_none_or(|column| column.dropped)) {
            return Err(DecodeError { what: "index that includes a missing column" });
        }
    }
    if matches!(relation.key, TableKey::Primary) != indexes.first().is_some_and(|index| index.primary) {
        return Err(DecodeError { what: "table key without its index" });
    }
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    for foreign in &foreign_keys {
        let named = foreign.columns.iter().chain(&foreign.on_delete_columns);
        if foreign.columns.is_empty() || named.into_iter().any(|&at| columns.get(at).is_none_or(|it| it.dropped)) {
            return Err(DecodeError { what: "foreign key over a missing column" });
        }
    }
    foreign_keys.sort_by(|a, b| a.name.cmp(&b.name));
    relation.foreign_keys = foreign_keys;
    relation.layout = layout_of(&columns);
    relation.columns = columns;
    relation.indexes = indexes.into_iter().map(Arc::new).collect();
    relation.checks = checks;
    Ok(relation)
}

/// Returns the layout of rows of these columns.
pub fn layout_of(columns: &[Column]) -> Arc<RowLayout> {
    Arc::new(RowLayout::new(&columns.iter().map(|column| column.ty.oid).collect::<Vec<_>>()))
}

/// Returns the encoding of a column in an index key.
pub fn key_column(column: &Column, desc: bool, nulls_first: bool) -> KeyColumn {
    KeyColumn { oid: column.ty.oid, desc, nulls_first, nullable: !column.not_null }
}

/// Returns the encoding of an expression of type `ty`, which may be NULL, in an index key.
pub fn key_expression(ty: SqlType, desc: bool, nulls_first: bool) -> KeyColumn {
    KeyColumn { oid: ty.oid, desc, nulls_first, nullable: true }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::types::oid;

    fn table(names: &[String], not_null: &[bool], default: &str, keyed: bool, desc: bool) -> Relation {
        let types = [oid::INT4, oid::TEXT, oid::NUMERIC];
        let columns: Vec<Column> = (1..)
            .zip(names)
            .map(|(attnum, name)| Column {
                attnum,
                name: name.as_str().into(),
                ty: SqlType { oid: types[attnum as usize % 3], typmod: if attnum % 2 == 0 { -1 } else { 14 } },
                not_null: keyed && attnum == 1 || not_null[attnum as usize % not_null.len()],
                default: (attnum % 2 == 0).then(|| default.into()),
                missing: Value::Null,
                dropped: false,
            })
            .collect();
        let columns_len = columns.len();
        let index = |number: u32, primary: bool| {
            let key = key_column(&columns[0], desc, desc);
            let constraint = primary.then_some(number + 1);
            let mut columns = vec![IndexColumn { part: KeyPart::Column(0), key }];
            if !primary && !default.is_empty() {
                let ty = SqlType { oid: oid::NUMERIC, typmod: 14 };
                let expression = KeyExpression { name: "expr".into(), text: default.into(), ty };
                let key = key_expression(ty, !desc, desc);
                columns.push(IndexColumn { part: KeyPart::Expression(Arc::new(expression)), key });
            }
            let predicate = if primary { Vec::new() } else { vec![default.into(); default.len() % 3] };
            Arc::new(Index {
                oid: number,
                name: format!("i{number}").into(),
                cf: CfId::new(number),
                unique: primary,
                primary,
                constraint,
                columns,
                predicate,
                included: if desc { vec![columns_len - 1] } else { Vec::new() },
            })
        };
        let mut indexes = vec![index(20_000, false)];
        if keyed {
            indexes.insert(0, index(30_000, true));
        }
        Relation {
            oid: 16_400,
            schema: 2200,
            name: "t".into(),
            version: 7,
            storage: Storage::Family(CfId::new(9)),
            layout: layout_of(&columns),
            columns,
            key: if keyed { TableKey::Primary } else { TableKey::RowId },
            indexes,
            checks: vec![Check { oid: 5, name: "c".into(), condition: default.into() }],
            foreign_keys: vec![ForeignKey {
                oid: 6,
                name: default.into(),
                columns: vec![0, columns_len - 1],
                target: 16_400,
                target_columns: vec![columns_len - 1, 0],
                index: 30_000,
                match_full: keyed,
                on_update: ACTIONS[names.len() % 5],
                on_delete: ACTIONS[default.len() % 5],
                on_delete_columns: if desc { vec![0] } else { Vec::new() },
                timing: TIMINGS[names.len() % 3],
                validated: desc,
            }],
            options: vec![("fillfactor".to_owned(), "90".to_owned())],
        }
    }

    proptest! {
        /// Goal: decoding gives what was encoded. Method: encodes random tables to rows and assembles them again from
        /// the
        /// rows in either order; the result prints the same.
        #[test]
        fn tables_round_trip_through_their_rows(
            names in proptest::collection::vec("[a-z ]{1,9}", 1..6),
            not_null in proptest::collection::vec(any::<bool>(), 1..4),
            default in "[ -~]{0,20}",
            keyed: bool,
            desc: bool,
            backward: bool,
        ) {
            let relation = table(&names, &not_null, &default, keyed, desc);
            let mut rows = relation_rows(&relation);
            if backward {
                rows.reverse();
            }
            let (mut bare, mut columns, mut indexes, mut checks) = (None, Vec::new(), Vec::new(), Vec::new());
            let mut foreign_keys = Vec::new();
            for (key, value) in &rows {
                match decode(key, value).unwrap() {
                    Record::Relation(found) => bare = Some(*found),
                    Record::Column(_, column) => columns.push(column),
                    Record::Index(_, index) => indexes.push(index),
                    Record::Check(_, check) => checks.push(check),
                    Record::ForeignKey(_, foreign) => foreign_keys.push(foreign),
                    other => prop_assert!(false, "{other:?}"),
                }
            }
            let again = assemble(bare.unwrap(), columns, indexes, checks, foreign_keys).unwrap();
            prop_assert_eq!(format!("{again:?}"), format!("{relation:?}"));
        }
    }
}
