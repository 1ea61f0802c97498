//! Rows of the relations that show held and awaited locks and held snapshots: `pg_locks`, `collie_snapshots`.
//!
//! `pg_locks` shows what PostgreSQL shows, from other structures. A row lock is an unfinished version of the row, as in
//! PostgreSQL, so it is visible only if a transaction waits for it. The first waiter for a row holds its `tuple` lock
//! and waits for the holder's `transactionid`; the others wait for the `tuple` lock. Rows here have no page and no
//! number in it, so both are NULL.
//!
//! Checked by `system_tests`, and by the clients' tests with real waits.

use collie_base::{Map, Xid};
use collie_engine::{Awaited, LockOwner, LockPicture, LockTarget, LockWait, TableLockMode};

use super::{
    SessionFacts,
    functions::PG_CLASS,
    output::Output,
    session_rows::{DATABASE, short_xid},
};
use crate::{
    catalog::{
        relation::{Oid, Storage},
        snapshot::{CATALOG_LOCK, PG_CATALOG},
    },
    types::Value,
};

/// Adds the rows if the relation is one of these.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != PG_CATALOG {
        return false;
    }
    match out.name() {
        "pg_locks" => locks(facts, out),
        "collie_snapshots" => snapshots(facts, out),
        _ => return false,
    }
    true
}

/// The columns that describe the locked object; absent ones are NULL.
#[derive(Clone, Copy, Default)]
struct Object {
    kind: &'static str,
    relation: Option<Oid>,
    xid: Option<Xid>,
    virtual_xid: Option<LockOwner>,
    /// `classid`, `objid` and `objsubid`.
    object: Option<(u32, u32, i16)>,
}

impl Object {
    fn of(target: LockTarget) -> Self {
        match target {
            // The lock of all definitions: an object of `pg_class` without a number.
            LockTarget::Table(CATALOG_LOCK) => {
                Self { kind: "object", object: Some((PG_CLASS, 0, 0)), ..Self::default() }
            }
            LockTarget::Table(oid) => Self { kind: "relation", relation: Some(oid), ..Self::default() },
            LockTarget::Advisory(number) => {
                let [high, low] = [number >> 32, number & u64::from(u32::MAX)]
                    .map(|half| u32::try_from(half).expect("half of 64 bits"));
                Self { kind: "advisory", object: Some((high, low, 1)), ..Self::default() }
            }
            LockTarget::AdvisoryPair(high, low) => {
                Self { kind: "advisory", object: Some((high, low, 2)), ..Self::default() }
            }
        }
    }
}

fn locks(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let LockPicture { held, xids, waits } = facts.locks();
    let pids: Map<usize, u32> = facts.activity().into_iter().map(|session| (session.slot, session.pid)).collect();
    let tables = tables_by_family(facts);
    let mut rows = LockRows { out, pids };
    let mut owners: Vec<LockOwner> = held.iter().map(|held| held.owner).chain(xids.iter().map(|(_, o)| *o)).collect();
    owners.extend(waits.iter().map(|wait| wait.owner));
    owners.sort_unstable();
    owners.dedup();
    for held in held {
        rows.push(Object::of(held.target), held.owner, mode_name(held.mode), true);
    }
    // Session-level locks belong to no transaction.
    for owner in owners.into_iter().filter(|owner| owner.transaction > 0) {
        let virtual_xid = Object { kind: "virtualxid", virtual_xid: Some(owner), ..Object::default() };
        rows.push(virtual_xid, owner, EXCLUSIVE, true);
    }
    for (xid, owner) in &xids {
        rows.push(Object { kind: "transactionid", xid: Some(*xid), ..Object::default() }, *owner, EXCLUSIVE, true);
    }
    for LockWait { owner, awaited, in_the_way } in waits {
        let row = match awaited {
            Awaited::Table(target, mode) => {
                rows.push(Object::of(target), owner, mode_name(mode), false);
                continue;
            }
            Awaited::Row(row) => row,
        };
        let tuple = Object { kind: "tuple", relation: tables.get(&row.family()).copied(), ..Object::default() };
        let first = in_the_way.iter().all(|one| !one.queued);
        rows.push(tuple, owner, EXCLUSIVE, first);
        if first {
            for holder in in_the_way {
                let held = xids.iter().filter(|(_, owner)| *owner == holder.owner);
                for (xid, _) in held {
                    let object = Object { kind: "transactionid", xid: Some(*xid), ..Object::default() };
                    rows.push(object, owner, SHARE, false);
                }
            }
        }
    }
}

/// Returns the table of each family; a family of an index belongs to the index's table.
fn tables_by_family(facts: &dyn SessionFacts) -> Map<collie_base::CfId, Oid> {
    let relations = facts.catalog().relations.values().filter(|relation| relation.storage != Storage::Virtual);
    let mut tables = Map::default();
    for relation in relations {
        tables.insert(relation.family(), relation.oid);
        tables.extend(relation.indexes.iter().map(|index| (index.cf, relation.oid)));
    }
    tables
}

const EXCLUSIVE: &str = "ExclusiveLock";
const SHARE: &str = "ShareLock";

/// Returns the name of a mode as `pg_locks` prints it.
fn mode_name(mode: TableLockMode) -> &'static str {
    match mode {
        TableLockMode::AccessShare => "AccessShareLock",
        TableLockMode::RowShare => "RowShareLock",
        TableLockMode::RowExclusive => "RowExclusiveLock",
        TableLockMode::ShareUpdateExclusive => "ShareUpdateExclusiveLock",
        TableLockMode::Share => SHARE,
        TableLockMode::ShareRowExclusive => "ShareRowExclusiveLock",
        TableLockMode::Exclusive => EXCLUSIVE,
        TableLockMode::AccessExclusive => "AccessExclusiveLock",
    }
}

/// Assembles the rows of `pg_locks`.
struct LockRows<'o, 'r> {
    out: &'o mut Output<'r>,
    pids: Map<usize, u32>,
}

impl LockRows<'_, '_> {
    /// Adds a lock if its owner is a session: the engine itself has no process id to show.
    fn push(&mut self, object: Object, owner: LockOwner, mode: &'static str, granted: bool) {
        let Some(pid) = self.pids.get(&owner.slot) else { return };
        let oid = |oid: Option<u32>| oid.map_or(Value::Null, Value::Oid);
        let in_database = object.relation.is_some() || object.object.is_some();
        self.out.push([
            ("locktype", Value::text(object.kind)),
            ("database", oid(in_database.then_some(DATABASE))),
            ("relation", oid(object.relation)),
            ("virtualxid", object.virtual_xid.map_or(Value::Null, |owner| owner.to_string().into())),
            ("transactionid", object.xid.map_or(Value::Null, short_xid)),
            ("classid", oid(object.object.map(|(class, ..)| class))),
            ("objid", oid(object.object.map(|(_, number, _)| number))),
            ("objsubid", object.object.map_or(Value::Null, |(.., part)| Value::Int2(part))),
            ("virtualtransaction", owner.to_string().into()),
            ("pid", Value::Int4(pid.cast_signed())),
            ("mode", Value::text(mode)),
            ("granted", Value::Bool(granted)),
            ("fastpath", Value::Bool(false)),
        ]);
    }
}

fn snapshots(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let (boundary, _) = facts.positions();
    let count = |count: u64| Value::Int8(i64::try_from(count).unwrap_or(i64::MAX));
    for row in facts.snapshots() {
        out.push([
            ("pid", Value::Int4(row.pid.cast_signed())),
            ("snapshot", super::functions::lsn(row.snapshot)),
            ("xact_start", row.since.map_or(Value::Null, Value::TimestampTz)),
            ("log_bytes_since", count(boundary.get().saturating_sub(row.snapshot.get()))),
            ("rows_kept", count(row.rows_kept)),
            ("age_ms", Value::Int8(i64::try_from(row.age.as_millis()).unwrap_or(i64::MAX))),
            ("bytes_kept", row.bytes_kept.map_or(Value::Null, count)),
        ]);
    }
}
