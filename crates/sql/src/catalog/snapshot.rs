//! `Catalog`: all definitions at one epoch. It is immutable; a committed DDL statement publishes the next one.
//!
//! The rows it is read from are described in `record.rs`, and the system tables that show it in `system/`.
//!
//! # Invariants
//! - C1. A name is in `names` iff its relation or index is in `relations` or `index_owner`; tables, indexes and system
//!   tables share one name space per schema.
//! - C2. `epoch` grows with every published change; a plan runs only under the epoch for which it was made (SQL-5).
//! - C3. `referencing` has an entry for exactly those tables that foreign keys refer to: the tables that declare the
//!   keys, in order.

use std::sync::Arc;

use collie_base::{CfId, Lsn, Map};

use crate::catalog::relation::{ForeignKey, Index, Oid, Relation};

/// Id of the lock that serializes transactions that change definitions. No table has this id.
pub const CATALOG_LOCK: Oid = 1;
/// OID of the schema `pg_catalog`.
pub const PG_CATALOG: Oid = 11;
/// OID of the schema `public`.
pub const PUBLIC: Oid = 2200;
/// OID of the schema `information_schema`.
pub const INFORMATION_SCHEMA: Oid = 13000;
/// OID of the schema `collie_training`.
pub const COLLIE_TRAINING: Oid = 13990;
/// First OID of user objects.
pub const FIRST_USER_OID: Oid = 16384;

/// A schema.
#[derive(Clone, Debug)]
pub struct Schema {
    /// Its OID.
    pub oid: Oid,
    /// Its name.
    pub name: Arc<str>,
}

/// All definitions at one epoch.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Grows with every published change (C2).
    pub epoch: u64,
    /// Schemas by OID, system ones included.
    pub schemas: Map<Oid, Arc<Schema>>,
    /// Tables by OID, system ones included.
    pub relations: Map<Oid, Arc<Relation>>,
    /// OID of the table to which an index belongs, by the index's OID.
    pub index_owner: Map<Oid, Oid>,
    /// The tables whose foreign keys refer to a table, by that table's OID (C3).
    pub referencing: Map<Oid, Vec<Oid>>,
    /// OID of a table or index by schema and name (C1).
    pub names: Map<(Oid, Arc<str>), Oid>,
    /// Positions at which families of existing tables were filled at once, as TRUNCATE, a new primary key and CREATE
    /// INDEX
    /// do: a snapshot at or below such a position shows none of the rows. Kept in memory only, and only while such a
    /// snapshot may be held.
    pub filled_at: Map<CfId, Lsn>,
    /// On a replica, the position from which on snapshots show these definitions. Zero elsewhere, where every snapshot
    /// does.
    pub shown_from: Lsn,
}

impl Catalog {
    /// Finds a schema by name.
    pub fn schema_named(&self, name: &str) -> Option<&Arc<Schema>> {
        self.schemas.values().find(|schema| &*schema.name == name)
    }

    /// Finds the OID of a table or index: in `schema` if it is given, otherwise along `search_path` (schema OIDs, in
    /// order), with `pg_catalog` first unless the path names it.
    pub fn object_named(&self, schema: Option<Oid>, search_path: &[Oid], name: &str) -> Option<Oid> {
        let key: Arc<str> = name.into();
        let find = |schema: Oid| self.names.get(&(schema, key.clone())).copied();
        match schema {
            Some(schema) => find(schema),
            None => {
                let implicit = (!search_path.contains(&PG_CATALOG)).then_some(PG_CATALOG);
                implicit.into_iter().chain(search_path.iter().copied()).find_map(find)
            }
        }
    }

    /// Finds a table by OID.
    pub fn relation(&self, oid: Oid) -> Option<&Arc<Relation>> {
        self.relations.get(&oid)
    }

    /// Finds an index and its table by the index's OID.
    pub fn index(&self, oid: Oid) -> Option<(&Arc<Relation>, &Arc<Index>)> {
        let table = self.relations.get(self.index_owner.get(&oid)?)?;
        Some((table, table.indexes.iter().find(|index| index.oid == oid)?))
    }

    /// Returns the foreign keys that refer to a table, each with the table that declares it, ordered by the OID of that
    /// table and then by name.
    pub fn foreign_keys_to(&self, target: Oid) -> impl Iterator<Item = (&Arc<Relation>, &ForeignKey)> {
        let tables = self.referencing.get(&target).into_iter().flatten().filter_map(|oid| self.relations.get(oid));
        tables.flat_map(move |table| {
            table.foreign_keys.iter().filter(move |key| key.target == target).map(move |key| (table, key))
        })
    }

    /// Finds a foreign key by its OID and the OID of the table that declares it.
    pub fn foreign_key(&self, table: Oid, key: Oid) -> Option<(&Arc<Relation>, &ForeignKey)> {
        let table = self.relations.get(&table)?;
        Some((table, table.foreign_keys.iter().find(|other| other.oid == key)?))
    }

    /// Adds or replaces a table with its indexes and their names.
    pub fn put_relation(&mut self, relation: Arc<Relation>) {
        self.remove_relation(relation.oid);
        self.names.insert((relation.schema, relation.name.clone()), relation.oid);
        for index in &relation.indexes {
            self.names.insert((relation.schema, index.name.clone()), index.oid);
            self.index_owner.insert(index.oid, relation.oid);
        }
        for key in &relation.foreign_keys {
            let tables = self.referencing.entry(key.target).or_default();
            if let Err(place) = tables.binary_search(&relation.oid) {
                tables.insert(place, relation.oid);
            }
        }
        self.relations.insert(relation.oid, relation);
    }

    /// Removes a table with its indexes and their names; does nothing if it does not exist.
    pub fn remove_relation(&mut self, oid: Oid) {
        let Some(old) = self.relations.remove(&oid) else { return };
        self.names.remove(&(old.schema, old.name.clone()));
        for index in &old.indexes {
            self.names.remove(&(old.schema, index.name.clone()));
            self.index_owner.remove(&index.oid);
        }
        for key in &old.foreign_keys {
            if let Some(tables) = self.referencing.get_mut(&key.target) {
                tables.retain(|table| *table != oid);
                if tables.is_empty() {
                    self.referencing.remove(&key.target);
                }
            }
        }
    }
}
