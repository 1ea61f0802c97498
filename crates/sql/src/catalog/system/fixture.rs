//! A handmade catalog and a fake session, for the tests of the system relations.

use std::{sync::Arc, time::Duration};

use collie_base::{CfId, HistoryId, Lsn, Xid};
use collie_engine::{
    AdvisoryScope, Awaited, InTheWay, Isolation, LockHeld, LockOwner, LockPicture, LockTarget, LockWait, RowKey,
    StatementKind, TableLockMode, Token, Upsert, XidFate,
};

use super::{
    ActivityRow, Doing, PreparedRow, Promotion, SessionFacts, SettingRow, Severity, SnapshotRow, StoreFigures, Trouble,
    call, install, rows,
};
use crate::{
    catalog::{
        record::{key_column, layout_of},
        relation::{
            Check, Column, ConstraintTiming, ForeignKey, Index, IndexColumn, KeyPart, Oid, ReferentialAction, Relation,
            Storage, TableKey,
        },
        snapshot::{COLLIE_TRAINING, Catalog, INFORMATION_SCHEMA, PG_CATALOG, PUBLIC, Schema},
    },
    error::{Result, SqlError, SqlState},
    types::{SqlType, TextContext, Value, XidSnapshot, io, oid},
};

/// A table that the search path does not find.
pub(super) const HIDDEN: Oid = 16_400;
/// A table with every kind of index and constraint.
pub(super) const ITEMS: Oid = 16_401;
/// A table whose name needs quotes, with a foreign key to [`ITEMS`].
pub(super) const NOTES: Oid = 16_410;

/// A fake session: constant answers over a handmade catalog.
pub(super) struct FakeSession {
    pub(super) catalog: Catalog,
    path: Vec<Oid>,
}

impl SessionFacts for FakeSession {
    fn catalog(&self) -> &Catalog {
        &self.catalog
    }
    fn search_path(&self) -> &[Oid] {
        &self.path
    }
    fn user(&self) -> &str {
        "ann"
    }
    fn database(&self) -> &str {
        "shop"
    }
    fn pid(&self) -> u32 {
        7
    }
    fn setting(&self, name: &str) -> Result<String> {
        match name {
            "client_encoding" => Ok("UTF8".to_owned()),
            "work_mem" => Ok("4MB".to_owned()),
            _ => {
                let text = format!("unrecognized configuration parameter \"{name}\"");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, text))
            }
        }
    }
    fn settings(&self) -> Vec<SettingRow> {
        let row = |name, kind, context| SettingRow {
            name,
            value: "4MB".to_owned(),
            kind,
            default: "4MB",
            description: "Says something.",
            context,
        };
        vec![row("work_mem", "integer", "user"), row("server_version", "string", "internal")]
    }
    fn set_config(&self, _: &str, value: &str, _: bool) -> Result<String> {
        Ok(value.to_owned())
    }
    fn xid(&self) -> Option<Xid> {
        None
    }
    fn xid_snapshot(&self) -> Result<XidSnapshot> {
        XidSnapshot::parse("5:9:5,7", "pg_snapshot")
    }
    fn xid_fate(&self, xid: Xid) -> XidFate {
        match xid.get() {
            5 => XidFate::InProgress,
            6 => XidFate::Committed,
            8 => XidFate::Aborted,
            0..9 => XidFate::Forgotten,
            _ => XidFate::Future,
        }
    }
    fn positions(&self) -> (Lsn, Lsn) {
        (Lsn::new(0x1_0000_00A0), Lsn::new(0x20))
    }
    fn state_hash(&self) -> Result<(Lsn, u64)> {
        Ok((Lsn::new(0x1_0000_00A0), 0x2A))
    }
    fn is_replica(&self) -> bool {
        false
    }
    fn promote(&self, _: Promotion) -> Result<String> {
        Ok(String::new())
    }
    fn last_commit(&self) -> Option<Token> {
        Some(Token { history: HistoryId::new(0xA0), lsn: Lsn::new(0x2000) })
    }
    fn replay(&self) -> Option<super::ReplayRow> {
        None
    }
    /// One that keeps up, and one that is away.
    fn standbys(&self) -> Vec<super::Standby> {
        let delay = super::DelayFigures { commits: 9, mean_us: 12, p50_us: 10, p99_us: 20, max_us: 30 };
        let north = super::Standby {
            slot: "north".to_owned(),
            node: 0xAB,
            address: "127.0.0.1:9".to_owned(),
            state: "streaming",
            is_connected: true,
            sent: Lsn::new(0x30),
            received: Lsn::new(0x30),
            durable: Lsn::new(0x30),
            applied: Lsn::new(0x30),
            delay: Some(delay),
            delay_recent: Some(delay),
            measured_commits: 90,
            measured_us: 1000,
            oldest_us: 0,
            drain_us: Some(0),
            write_lag_us: Some(5),
            flush_lag_us: Some(6),
            replay_lag_us: Some(7),
            rtt_us: Some(40),
            queue_bytes: 0,
            sync_state: "async",
            verified: None,
            log_verified: None,
        };
        let south = super::Standby {
            slot: "south".to_owned(),
            state: "away",
            is_connected: false,
            applied: Lsn::new(0x20),
            delay: None,
            delay_recent: None,
            measured_commits: 0,
            measured_us: 0,
            oldest_us: 700,
            drain_us: None,
            write_lag_us: None,
            flush_lag_us: None,
            replay_lag_us: None,
            ..north.clone()
        };
        vec![north, south]
    }
    /// One that is followed, and one that was away for too long.
    fn slots(&self) -> Vec<super::SlotRow> {
        let north = super::SlotRow {
            slot: "north".to_owned(),
            node: Some(0xAB),
            state: "streaming",
            is_connected: true,
            restart: Some(Lsn::new(0x20)),
            durable: Lsn::new(0x30),
            kept_bytes: 100,
            bytes_max: 1000,
            unheard_ms: 5,
            age_max_ms: Some(3000),
            last_seen_us: Some(0),
            expired_by: None,
            problem: Some("it is failing".to_owned()),
        };
        let south = super::SlotRow {
            slot: "south".to_owned(),
            node: None,
            state: "expired",
            is_connected: false,
            restart: None,
            kept_bytes: 0,
            last_seen_us: None,
            expired_by: Some("age"),
            problem: None,
            ..north.clone()
        };
        vec![north, south]
    }
    fn delays(&self) -> Vec<super::DelayRow> {
        let (durable, applied) = (Lsn::new(0x30), Lsn::new(0x20));
        let (slot, at_us) = ("north".to_owned(), 0);
        let delay = super::DelayFigures { commits: 9, mean_us: 12, p50_us: 10, p99_us: 20, max_us: 30 };
        let idle = super::DelayRow {
            slot: slot.clone(),
            at_us,
            state: "catchup",
            delay: None,
            oldest_us: 7,
            durable,
            applied,
        };
        vec![
            idle,
            super::DelayRow { slot, at_us, state: "streaming", delay: Some(delay), oldest_us: 0, durable, applied },
        ]
    }
    fn node(&self) -> super::NodeRow {
        super::NodeRow {
            is_replica: true,
            cluster: 0xC,
            node: 0xAB,
            term: 3,
            history: Some((7, Lsn::new(0x10))),
            commits: 5,
            problem: Some("replay has stopped".to_owned()),
            aborts: 2,
            promised: Some(4),
            term_start: Some(Lsn::new(0x8)),
        }
    }
    fn quorum(&self) -> Option<super::QuorumRow> {
        let (list, missing) = ("ANY 1 (north, south)".to_owned(), vec!["south".to_owned()]);
        let state = super::QuorumState::Degraded;
        Some(super::QuorumRow {
            list,
            before: Some(String::new()),
            until: Some(Lsn::new(0x30)),
            state,
            state_ms: 700,
            needed: 1,
            connected: 1,
            missing,
            witness: Some(super::WitnessState::Degraded),
        })
    }
    fn commit_times(&self) -> super::CommitsRow {
        super::CommitsRow { noted: 40, p50_us: 900, p99_us: 4000, max_us: 4100 }
    }
    fn replayed_reads(&self) -> Vec<super::ReadsRow> {
        let primary = super::ReadsRow {
            side: "primary",
            taken: 1,
            shipped: Some(2),
            run: None,
            rows: 3,
            primary_rows: None,
            spent_us: None,
            late: 4,
            full: 5,
            unfit: 6,
            unknown: None,
            failed: None,
        };
        let (run, primary_rows, spent_us) = (Some(7), Some(8), Some(9));
        let (unknown, failed) = (Some(10), Some(11));
        let here = super::ReadsRow { run, primary_rows, spent_us, unknown, failed, shipped: None, ..primary.clone() };
        vec![primary, super::ReadsRow { side: "replica", ..here }]
    }
    fn health(&self) -> Vec<Trouble> {
        vec![Trouble { severity: Severity::Warning, subject: "slot", reason: "south is expired".to_owned() }]
    }
    fn training(&self) -> Option<&dyn super::Training> {
        Some(&super::training::tests::FakeTraining)
    }
    fn following(&self) -> Option<super::FollowingRow> {
        Some(super::FollowingRow {
            address: "127.0.0.1:5434".to_owned(),
            slot: "east".to_owned(),
            state: super::FollowingState::Looking,
            state_ms: 900,
            unheard_ms: Some(1000),
            primary_durable: Some(Lsn::new(0x50)),
            received: Lsn::new(0x40),
            applied: Lsn::new(0x30),
            delay_us: Some(12),
            oldest_us: None,
            error: Some("the connection was closed".to_owned()),
        })
    }
    fn drop_slot(&self, name: &str) -> Result<()> {
        if name == "south" { Ok(()) } else { Err(crate::session::no_slot(name)) }
    }
    fn row_estimate(&self, _: CfId) -> u64 {
        1000
    }
    fn activity(&self) -> Vec<ActivityRow> {
        let doing = Doing { query: "SELECT 1".into(), application: "psql".into(), ..Doing::default() };
        let address = Some(([127, 0, 0, 1], 4711).into());
        let asks = ActivityRow { pid: 7, user: "ann".into(), address, since: 0, slot: 1, doing };
        let waits = ActivityRow { pid: 9, address: None, slot: 2, ..asks.clone() };
        vec![asks, waits]
    }
    fn locks(&self) -> LockPicture {
        let [holder, waiter] = [1, 2].map(|slot| LockOwner { slot, transaction: 5 });
        let held = |target, mode| LockHeld { target, owner: holder, mode };
        let wait =
            |awaited| LockWait { owner: waiter, awaited, in_the_way: vec![InTheWay { queued: false, owner: holder }] };
        LockPicture {
            held: vec![
                held(LockTarget::Table(ITEMS), TableLockMode::RowExclusive),
                held(LockTarget::Advisory(1 << 32 | 2), TableLockMode::Exclusive),
            ],
            xids: vec![(Xid::new(1 << 32 | 77), holder)],
            waits: vec![
                wait(Awaited::Row(RowKey::new(CfId::new(8), b"k"))),
                wait(Awaited::Table(LockTarget::Table(ITEMS), TableLockMode::AccessExclusive)),
            ],
        }
    }
    fn blocking_pids(&self, pid: u32) -> Vec<u32> {
        if pid == 9 { vec![7] } else { Vec::new() }
    }
    fn stop_backend(&self, pid: u32, _: bool) -> bool {
        pid == 7 || pid == 9
    }
    fn snapshots(&self) -> Vec<SnapshotRow> {
        let (snapshot, age) = (Lsn::new(0x1_0000_0000), Duration::from_secs(2));
        vec![SnapshotRow { pid: 7, snapshot, since: Some(0), age, rows_kept: 3, bytes_kept: Some(400) }]
    }
    /// Figures of a database with two families of one group, which were flushed, and without write stalls.
    fn store_figures(&self) -> Option<StoreFigures> {
        let mut options = collie_engine::Options { background: false, ..collie_engine::Options::small() };
        options.log.threads = false;
        let (env, _disk) = collie_engine::Env::simulated(1);
        let (db, _) = collie_engine::Db::open("/db".as_ref(), options, env, &mut |_| ()).unwrap();
        let mut session = db.session().unwrap();
        let [one, _two] = ["one", "two"].map(|name| session.create_named_family(name, "g").unwrap().family);
        let mut put = |key: &str, sync: bool| {
            session.begin(Isolation::ReadCommitted, false).unwrap();
            session.begin_statement(StatementKind::Write).unwrap();
            Upsert::new(&one, key.as_bytes(), Some(b"value")).block(&mut session, None).unwrap();
            session.commit(sync).unwrap().block().unwrap();
        };
        ["a", "b", "a"].into_iter().for_each(|key| put(key, false));
        db.flush_cf(&[one.id()]).unwrap();
        put("c", true);
        db.flush_all().unwrap();
        let positions = (Lsn::new(0x2000), Lsn::new(0x3000));
        Some(StoreFigures { stats: db.stats(), names: db.named_families().unwrap(), positions, log_bytes_max: 1000 })
    }
    fn lock_advisory(&self, target: LockTarget, _: TableLockMode, _: AdvisoryScope) -> Result<()> {
        match target {
            LockTarget::Advisory(1) => Err(SqlError::new(SqlState::DEADLOCK_DETECTED, "deadlock detected")),
            _ => Ok(()),
        }
    }
    fn try_advisory(&self, target: LockTarget, mode: TableLockMode, _: AdvisoryScope) -> Result<bool> {
        Ok(target != LockTarget::Advisory(1) || mode == TableLockMode::Share)
    }
    fn give_advisory_back(&self, target: LockTarget, mode: TableLockMode) -> bool {
        (target, mode) == (LockTarget::AdvisoryPair(1, u32::MAX), TableLockMode::Exclusive)
    }
    fn give_all_advisory_back(&self) {}
    fn warn(&self, _: SqlError) {}
    fn sleep(&self, _: Duration) -> Result<()> {
        Ok(())
    }

    fn prepared_statements(&self) -> Vec<PreparedRow> {
        vec![PreparedRow {
            name: "p".to_owned(),
            text: "SELECT 1".into(),
            since: 0,
            parameters: vec![oid::INT4],
            from_sql: false,
            runs: 2,
        }]
    }
}

fn column(attnum: i16, name: &str, ty: SqlType, not_null: bool) -> Column {
    Column { attnum, name: name.into(), ty, not_null, default: None, missing: Value::Null, dropped: false }
}

fn index(oid: Oid, name: &str, columns: &[Column], parts: &[(usize, bool, bool)]) -> Index {
    let part = |&(column, desc, nulls_first): &(usize, bool, bool)| IndexColumn {
        part: KeyPart::Column(column),
        key: key_column(&columns[column], desc, nulls_first),
    };
    Index {
        oid,
        name: name.into(),
        cf: CfId::new(9),
        unique: false,
        primary: false,
        constraint: None,
        columns: parts.iter().map(part).collect(),
        predicate: Vec::new(),
        included: Vec::new(),
    }
}

/// Builds a table `items` with every kind of index and constraint, a table with a name that needs quotes and a foreign
/// key, and a table in a schema that the search path does not name.
pub(super) fn shop() -> FakeSession {
    let mut catalog = Catalog::default();
    install(&mut catalog);
    catalog.schemas.insert(16_399, Arc::new(Schema { oid: 16_399, name: "Back Room".into() }));
    let mut columns = vec![
        column(1, "id", SqlType::INT4, true),
        column(2, "price", SqlType::with_typmod(oid::NUMERIC, (10 << 16 | 2) + 4), false),
        column(3, "gone", SqlType::TEXT, false),
        column(4, "Name", SqlType::with_typmod(oid::VARCHAR, 14), true),
    ];
    columns[1].default = Some("0".into());
    columns[2].dropped = true;
    let primary = Index {
        unique: true,
        primary: true,
        constraint: Some(16_403),
        ..index(16_402, "items_pkey", &columns, &[(0, false, false)])
    };
    let unique = Index {
        unique: true,
        constraint: Some(16_405),
        ..index(16_404, "items_name_key", &columns, &[(3, false, false)])
    };
    let plain = index(16_406, "items_price_idx", &columns, &[(1, true, true), (3, false, true), (0, true, false)]);
    let items = Relation {
        oid: ITEMS,
        schema: PUBLIC,
        name: "items".into(),
        version: 1,
        storage: Storage::Family(CfId::new(8)),
        layout: layout_of(&columns),
        columns,
        key: TableKey::Primary,
        indexes: vec![Arc::new(primary), Arc::new(unique), Arc::new(plain)],
        checks: vec![Check {
            oid: 16_407,
            name: "items_price_check".into(),
            condition: "(price > (0)::numeric)".into(),
        }],
        foreign_keys: Vec::new(),
        options: vec![("fillfactor".to_owned(), "100".to_owned())],
    };
    let columns = vec![column(1, "item", SqlType::INT4, false)];
    let notes = Relation {
        oid: NOTES,
        storage: Storage::Family(CfId::new(10)),
        name: "My Notes".into(),
        layout: layout_of(&columns),
        columns,
        key: TableKey::RowId,
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: vec![ForeignKey {
            oid: 16_411,
            name: "notes_item_fkey".into(),
            columns: vec![0],
            target: ITEMS,
            target_columns: vec![0],
            index: 16_402,
            match_full: false,
            on_update: ReferentialAction::NoAction,
            on_delete: ReferentialAction::NoAction,
            on_delete_columns: Vec::new(),
            timing: ConstraintTiming::Immediate,
            validated: true,
        }],
        options: Vec::new(),
        ..items.clone()
    };
    let hidden = Relation {
        oid: HIDDEN,
        storage: Storage::Family(CfId::new(11)),
        schema: 16_399,
        name: "safe".into(),
        foreign_keys: Vec::new(),
        ..notes.clone()
    };
    for relation in [items, notes, hidden] {
        catalog.put_relation(Arc::new(relation));
    }
    FakeSession { catalog, path: vec![PUBLIC] }
}

/// Finds a system relation; one of the schemas `information_schema` and `collie_training` by its qualified name.
pub(super) fn relation<'f>(facts: &'f FakeSession, name: &str) -> &'f Arc<Relation> {
    let (schema, name) = match name.split_once('.') {
        Some(("information_schema", name)) => (INFORMATION_SCHEMA, name),
        Some(("collie_training", name)) => (COLLIE_TRAINING, name),
        _ => (PG_CATALOG, name),
    };
    let oid = facts.catalog.object_named(Some(schema), &[], name).unwrap_or_else(|| panic!("no {name}"));
    facts.catalog.relation(oid).unwrap()
}

/// Reads the named columns of the rows in which the column `keep.0` has the text `keep.1`; of all rows if no column is
/// named.
pub(super) fn read(facts: &FakeSession, name: &str, keep: (&str, &str), columns: &[&str]) -> Vec<String> {
    let relation = relation(facts, name);
    let place = |name: &str| relation.column(name).unwrap_or_else(|| panic!("{} has no {name}", relation.name)).0;
    let text = |row: &Vec<Value>, name: &str| match &row[place(name)] {
        Value::Null => "NULL".to_owned(),
        value => io::to_text(value, relation.columns[place(name)].ty.oid, &TextContext::default()),
    };
    let all = rows(facts, relation, None).unwrap();
    let kept = all.iter().filter(|row| keep.0.is_empty() || text(row, keep.0) == keep.1);
    kept.map(|row| columns.iter().map(|name| text(row, name)).collect::<Vec<_>>().join("|")).collect()
}

/// Calls a function and formats its answer, or the error with its code.
pub(super) fn ask(source: &str, args: &[Value]) -> String {
    match call(&shop(), source, args) {
        Ok(Value::Null) => "NULL".to_owned(),
        Ok(value) => io::to_text(&value, value.natural_oid(), &TextContext::default()),
        Err(error) => format!("{}: {error}", error.state().as_str()),
    }
}
