//! The system relations: their names, OIDs and columns, parsed once from the file that `generate.py` writes. Those that
//! PostgreSQL does not have are in `collie_columns.tsv`, which has the same format.
//!
//! Rows are made elsewhere. A relation that is listed here and has no code that makes rows is empty.
//!
//! # Invariants
//! - T1. Lines of one relation are adjacent and in column order.
//! - T2. Every OID is below the first user OID and used once.
//!
//! Checked by `system_tests`.

use std::sync::{Arc, LazyLock};

use crate::{
    catalog::{
        record::layout_of,
        relation::{Column, Oid, Relation, Storage, TableKey},
        snapshot::{COLLIE_TRAINING, Catalog, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, Schema},
    },
    types::{SqlType, Value},
};

/// A system relation and its kind in PostgreSQL.
pub(super) struct SystemRelation {
    /// Its definition.
    pub(super) relation: Arc<Relation>,
    /// `pg_class.relkind`: `r` for a table, `v` for a view.
    pub(super) kind: u8,
}

static RELATIONS: LazyLock<Vec<SystemRelation>> = LazyLock::new(load);

/// Returns every system relation, by OID.
pub(super) fn relations() -> &'static [SystemRelation] {
    &RELATIONS
}

/// Returns `pg_class.relkind` of a relation.
pub(super) fn kind(oid: Oid) -> u8 {
    let place = RELATIONS.binary_search_by_key(&oid, |system| system.relation.oid);
    place.map_or(b'r', |place| RELATIONS[place].kind)
}

/// The system schemas. The names of the first two are reserved; a user schema may have taken the third before it
/// existed.
const SCHEMAS: [(Oid, &str); 3] =
    [(PG_CATALOG, "pg_catalog"), (INFORMATION_SCHEMA, "information_schema"), (COLLIE_TRAINING, "collie_training")];

/// Adds the system schemas and relations. It skips a schema whose name a user schema has taken, so that the user schema
/// stays readable.
pub(super) fn install(catalog: &mut Catalog) {
    let is_taken = |oid: Oid, name: &str| catalog.schema_named(name).is_some_and(|schema| schema.oid != oid);
    let free: Vec<_> = SCHEMAS.into_iter().filter(|(oid, name)| !is_taken(*oid, name)).collect();
    for (oid, name) in &free {
        catalog.schemas.insert(*oid, Arc::new(Schema { oid: *oid, name: (*name).into() }));
    }
    catalog.schemas.entry(PUBLIC).or_insert_with(|| Arc::new(Schema { oid: PUBLIC, name: "public".into() }));
    for system in relations() {
        if free.iter().any(|(oid, _)| *oid == system.relation.schema) {
            catalog.put_relation(system.relation.clone());
        }
    }
}

fn load() -> Vec<SystemRelation> {
    let mut relations: Vec<(Relation, u8)> = Vec::new();
    let theirs = include_str!("../../../builtin/system_columns.tsv").lines().skip(1);
    // Collie's own relations, whose OIDs are above all of PostgreSQL's (T2).
    let own = include_str!("../../../builtin/collie_columns.tsv").lines().skip(1);
    for line in theirs.chain(own) {
        let mut fields = line.split('\t');
        let mut field = || fields.next().expect("a line of the system columns has all its fields");
        let (oid, schema, name, kind) = (number(field()), field(), field(), field());
        if relations.last().is_none_or(|(relation, _)| relation.oid != oid) {
            relations.push((empty(oid, schema, name), kind.bytes().next().unwrap_or(b'r')));
        }
        let (relation, _) = relations.last_mut().expect("one was pushed if there was none");
        relation.columns.push(Column {
            attnum: i16::try_from(relation.columns.len() + 1).expect("system relations have few columns"),
            name: field().into(),
            ty: SqlType { oid: number(field()), typmod: number(field()) },
            not_null: field() == "t",
            default: None,
            missing: Value::Null,
            dropped: false,
        });
    }
    let finish = |(mut relation, kind): (Relation, u8)| {
        relation.layout = layout_of(&relation.columns);
        SystemRelation { relation: Arc::new(relation), kind }
    };
    relations.into_iter().map(finish).collect()
}

fn empty(oid: Oid, schema: &str, name: &str) -> Relation {
    Relation {
        oid,
        schema: SCHEMAS.iter().find(|(_, known)| *known == schema).expect("a schema of the system columns is known").0,
        name: name.into(),
        version: 0,
        storage: Storage::Virtual,
        columns: Vec::new(),
        key: TableKey::RowId,
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        options: Vec::new(),
        layout: layout_of(&[]),
    }
}

fn number<T: std::str::FromStr>(text: &str) -> T {
    text.parse().ok().expect("a number of the system columns is one")
}
