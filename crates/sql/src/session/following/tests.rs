//! SQL on a replica: its sessions see the definitions and rows that sessions of the primary make.

use std::sync::Arc;

use collie_base::Lsn;
use collie_engine::{Options, Replica, ReplicaOptions, Seed};
use collie_env::Env;
use collie_sync::block_on;
use collie_wal::{ShipOptions, Shipper};

use crate::{
    analyze::bound::ResultColumn,
    catalog::{
        snapshot::{Catalog, FIRST_USER_OID, PUBLIC},
        store,
    },
    error::{Report, Result, SqlError},
    session::{
        Database, Session,
        client::{Client, CopyInput, Formats, NoticeLevel},
        settings::Settings,
    },
    types::{Value, io::TextContext},
};

/// Keeps the first column of each row, and errors by their SQLSTATE.
#[derive(Default)]
pub(in crate::session) struct Answers(pub(in crate::session) Vec<String>);

impl Client for Answers {
    fn columns(&mut self, _: &[ResultColumn], _: &Formats) {}
    fn row(&mut self, values: &[Value], columns: &[ResultColumn], _: &Formats, text: &TextContext) -> Result<()> {
        let shown = match &values[0] {
            Value::Null => "NULL".to_owned(),
            value => crate::types::io::to_text(value, columns[0].ty.oid, text),
        };
        self.0.push(shown);
        Ok(())
    }
    fn complete(&mut self, _: &str) {}
    fn empty(&mut self) {}
    fn suspended(&mut self) {}
    fn notice(&mut self, _: NoticeLevel, _: &Report) {}
    fn error(&mut self, error: &SqlError, _: &str) {
        self.0.push(String::from_utf8_lossy(&error.state().0).into_owned());
    }
    fn copy_in(&mut self, _: usize) {}
    fn copy_out(&mut self, _: usize) {}
    fn copy_data(&mut self, _: &[u8]) {}
    fn copy_done(&mut self) {}
    fn is_full(&self) -> bool {
        false
    }
    async fn drain(&mut self) -> Result<()> {
        Ok(())
    }
    async fn next_copy(&mut self) -> Result<CopyInput> {
        Ok(CopyInput::Done)
    }
}

/// Runs a statement on this thread.
pub(in crate::session) fn ask(session: &mut Session, text: &str) -> Vec<String> {
    let mut answers = Answers::default();
    block_on(session.simple_query(text, &mut answers));
    answers.0
}

/// The answer of a statement without rows.
const NOTHING: [&str; 0] = [];

/// A primary, and a replica to which the test sends the log.
pub(in crate::session) struct Pair {
    pub(in crate::session) primary: Arc<Database>,
    shipper: Shipper,
    pub(in crate::session) replica: Replica,
    directory: tempfile::TempDir,
}

fn open_replica(dir: &std::path::Path) -> Replica {
    Replica::open(dir, Options::small(), ReplicaOptions::default(), &Env::real(), &mut |_| ()).unwrap().0
}

impl Pair {
    pub(in crate::session) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (here, there) = (directory.path().join("primary"), directory.path().join("replica"));
        let env = Env::real();
        let (primary, _) =
            Database::open(&here, Options::small(), env.clone(), Settings::default(), &mut |_| ()).unwrap();
        let (term, histories) = primary.engine().histories();
        let cluster_id = primary.engine().cluster_id();
        let seed = Seed { cluster_id, node_id: 5, term, histories, consistent_at: Lsn::ZERO };
        seed.plant(&env, &there).unwrap();
        let replica = open_replica(&there);
        let log = primary.engine().log().unwrap();
        let shipper = log.ship("replica", ShipOptions::from(replica.end())).unwrap();
        Self { primary, shipper, replica, directory }
    }

    /// Closes the replica, and opens it again.
    fn reopen(&mut self) {
        self.replica.close().unwrap();
        self.replica = open_replica(&self.directory.path().join("replica"));
    }

    /// Ships the log, and waits until it is shown.
    pub(in crate::session) fn ship(&mut self) {
        let durable = self.ship_unshown();
        self.replica.set_show(durable);
        self.replica.wait_shown(self.replica.end()).unwrap().block().unwrap();
    }

    /// Ships the log, and waits until it is replayed; returns the position that may be shown.
    fn ship_unshown(&mut self) -> Lsn {
        self.primary.engine().log().unwrap().flush_wal(true).unwrap();
        let (mut bytes, mut durable) = (Vec::new(), Lsn::ZERO);
        while let Some(shipment) = self.shipper.try_next(1 << 20, &mut bytes).unwrap() {
            self.replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
            durable = shipment.durable;
            bytes.clear();
        }
        while self.replica.applied() < self.replica.end() {
            std::thread::yield_now();
        }
        durable
    }
}

/// Goal: L1 to L3: a replica's sessions see tables, indexes and rows once their commits are shown, prepared plans
/// follow, writes and definitions are refused (25006), and functions report the node's role; a transaction that keeps
/// an older snapshot does not read an index that was filled later. Method: definitions of each kind on the primary, the
/// same queries on the replica.
#[test]
fn replica_sees_definitions_and_rows_and_takes_no_writes() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut primary, "CREATE TABLE t (id int PRIMARY KEY, name text)"), NOTHING);
    assert_eq!(ask(&mut primary, "INSERT INTO t SELECT i, 'n' || i FROM generate_series(1, 100) i"), NOTHING);
    pair.ship();
    let (database, damaged) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    assert!(damaged.is_empty(), "{damaged:?}");
    let mut session = database.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["100"]);
    assert_eq!(ask(&mut session, "SELECT pg_is_in_recovery()"), ["t"]);
    assert_eq!(ask(&mut primary, "SELECT pg_is_in_recovery()"), ["f"]);
    assert_eq!(ask(&mut session, "SELECT pg_current_wal_lsn()"), ["55000"]);
    let replayed = ask(&mut session, "SELECT pg_last_wal_replay_lsn()");
    assert_eq!(replayed, [short_lsn(&pair.replica.shown().to_string())]);
    assert_eq!(ask(&mut primary, "SELECT pg_last_wal_replay_lsn()"), ["NULL"]);
    for refused in [
        "INSERT INTO t VALUES (1000, 'x')",
        "UPDATE t SET name = 'x'",
        "DELETE FROM t",
        "CREATE TABLE u (id int)",
        "DROP TABLE t",
        "TRUNCATE t",
        "SELECT * FROM t FOR UPDATE",
    ] {
        assert_eq!(ask(&mut session, refused), ["25006"], "{refused}");
    }

    // A kept snapshot, and definitions after it.
    let mut old = database.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut old, "BEGIN ISOLATION LEVEL REPEATABLE READ"), NOTHING);
    assert_eq!(ask(&mut old, "SELECT count(*) FROM t WHERE name = 'n7'"), ["1"]);
    for text in [
        "CREATE INDEX t_name ON t (name)",
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO u VALUES (1), (2)",
        "DELETE FROM t WHERE id > 50",
    ] {
        assert_eq!(ask(&mut primary, text), NOTHING, "{text}");
        pair.ship();
    }
    assert_eq!(ask(&mut session, "SELECT count(*) FROM u"), ["2"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["50"]);
    assert_eq!(ask(&mut session, "SELECT id FROM t WHERE name = 'n7'"), ["7"]);
    assert_eq!(ask(&mut old, "SELECT count(*) FROM t WHERE name = 'n7'"), ["1"], "not by the new index");
    assert_eq!(ask(&mut old, "SELECT count(*) FROM t"), ["100"]);
    assert_eq!(ask(&mut old, "COMMIT"), NOTHING);
    assert_eq!(ask(&mut old, "SELECT count(*) FROM t"), ["50"]);

    assert_eq!(ask(&mut primary, "DROP TABLE u"), NOTHING);
    assert_eq!(ask(&mut primary, "TRUNCATE t"), NOTHING);
    pair.ship();
    assert_eq!(ask(&mut session, "SELECT count(*) FROM u"), ["42P01"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["0"]);
    assert_eq!(
        pair.replica.state_hash().unwrap().1,
        pair.primary.engine().state_hash(&[]).unwrap().1,
        "every row, catalog and indexes included"
    );
    // Dropped tables that are not freed yet do not count in the hash (T299).
    let asked = |session: &mut Session| ask(session, "SELECT split_part(collie_state_hash(), ':', 2)");
    assert_eq!(asked(&mut primary), asked(&mut session));
}

/// Goal: L3: a replica misses no definition if its sessions begin while replay is ahead of the read horizon, as it is
/// while a quorum is waited for (T296). Method: definitions that are replayed before its catalog is read, and shown
/// after.
#[test]
fn definitions_that_were_replayed_and_not_shown_yet_are_not_missed() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut primary, "CREATE TABLE shown (id int PRIMARY KEY)"), NOTHING);
    pair.ship();
    assert_eq!(ask(&mut primary, "CREATE TABLE replayed (id int PRIMARY KEY)"), NOTHING);
    assert_eq!(ask(&mut primary, "INSERT INTO replayed VALUES (1), (2)"), NOTHING);
    let durable = pair.ship_unshown();
    assert!(pair.replica.shown() < pair.replica.applied());
    let (database, _) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    pair.replica.set_show(durable);
    let mut session = database.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut session, "SELECT count(*) FROM replayed"), ["2"]);
    assert_eq!(ask(&mut primary, "CREATE TABLE later (id int PRIMARY KEY)"), NOTHING);
    pair.ship();
    assert_eq!(ask(&mut session, "SELECT count(*) FROM later"), ["0"]);
    assert_eq!(described(&database.catalog()), described(&pair.primary.catalog()));
}

/// Goal: L1: no session waits for definitions that are replayed and not shown, which stay so if their primary is gone:
/// statements use the definitions that snapshots show, at every level, until newer ones are shown (T300). Method: one
/// table created, one dropped, and one created again under its name, replayed and not shown; then shown.
#[test]
fn definitions_that_are_not_shown_keep_nobody_waiting() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    for text in
        ["CREATE TABLE kept (id int PRIMARY KEY)", "CREATE TABLE gone (id int)", "INSERT INTO gone VALUES (1), (2)"]
    {
        assert_eq!(ask(&mut primary, text), NOTHING, "{text}");
    }
    pair.ship();
    let (database, _) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    let mut sessions = ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"].map(|begin| {
        let mut session = database.connect("collie", "test", None).unwrap();
        assert_eq!(ask(&mut session, begin), NOTHING);
        assert_eq!(ask(&mut session, "SELECT count(*) FROM gone"), ["2"]);
        session
    });
    for text in ["CREATE TABLE made (id int PRIMARY KEY)", "DROP TABLE gone", "CREATE TABLE gone (id int, more text)"] {
        assert_eq!(ask(&mut primary, text), NOTHING, "{text}");
    }
    let durable = pair.ship_unshown();
    sessions.iter_mut().for_each(|session| assert_eq!(ask(session, "SELECT count(*) FROM gone"), ["2"]));
    let mut session = database.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut session, "SELECT pg_is_in_recovery()"), ["t"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM gone"), ["2"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM made"), ["42P01"]);
    pair.replica.set_show(durable);
    pair.replica.wait_shown(durable).unwrap().block().unwrap();
    assert_eq!(ask(&mut session, "SELECT count(more) FROM gone"), ["0"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM made"), ["0"]);
    let [read_committed, repeatable] = &mut sessions;
    assert_eq!(ask(read_committed, "SELECT count(*) FROM gone"), ["0"]);
    assert_eq!(ask(repeatable, "SELECT count(*) FROM gone"), ["2"], "its snapshot keeps its definitions");
    assert_eq!(described(&database.catalog()), described(&pair.primary.catalog()));
}

/// Returns the users' definitions in a catalog as sorted text.
fn described(catalog: &Catalog) -> Vec<String> {
    let mut all: Vec<String> =
        catalog.relations.values().filter(|one| one.oid >= FIRST_USER_OID).map(|one| format!("{one:?}")).collect();
    let names = catalog.names.iter().filter(|(_, oid)| **oid >= FIRST_USER_OID);
    all.extend(names.map(|((schema, name), oid)| format!("name {schema}.{name} {oid}")));
    all.extend(
        catalog
            .index_owner
            .iter()
            .filter(|(oid, _)| **oid >= FIRST_USER_OID)
            .map(|(oid, table)| format!("index {oid} of {table}")),
    );
    all.extend(catalog.referencing.iter().map(|(oid, tables)| format!("{oid} is referred to by {tables:?}")));
    let schemas = catalog.schemas.values().filter(|one| one.oid >= FIRST_USER_OID || one.oid == PUBLIC);
    all.extend(schemas.map(|one| format!("schema {} {}", one.oid, one.name)));
    all.sort();
    all
}

/// Goal: a replica's catalog, which is updated with the rows of each commit, equals the one that reading all rows gives
/// (T203). Method: definitions of every kind, names that change places, several in one transaction, and some that are
/// rolled back; compares both after each.
#[test]
fn followed_definitions_are_those_that_are_read() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut primary, "CREATE TABLE before (id int PRIMARY KEY, name text)"), NOTHING);
    pair.ship();
    let db = pair.replica.db().unwrap();
    let (database, _) = Database::over(db.clone(), Env::real(), Settings::default()).unwrap();
    let mut kinds = std::collections::BTreeSet::new();
    for text in [
        "CREATE TABLE a (id int PRIMARY KEY, v int CHECK (v > 0), w text DEFAULT 'x')",
        "CREATE TABLE b (id int PRIMARY KEY, a int REFERENCES a)",
        "CREATE INDEX a_v ON a (v)",
        "CREATE SCHEMA s",
        "CREATE TABLE s.a (id int PRIMARY KEY)",
        "ALTER TABLE a ALTER COLUMN w SET DEFAULT 'y'",
        "ALTER TABLE a ADD CONSTRAINT a_w UNIQUE (w)",
        "ALTER TABLE a ALTER COLUMN v SET DEFAULT 5",
        "BEGIN; CREATE INDEX b_a ON b (a); CREATE TABLE c (id int PRIMARY KEY); DROP INDEX b_a; COMMIT",
        "BEGIN; CREATE TABLE made (n int); INSERT INTO made VALUES (1); DROP TABLE made; CREATE TABLE made (m int); COMMIT",
        "BEGIN; SAVEPOINT one; CREATE TABLE gone (n int); ROLLBACK TO one; CREATE TABLE stays (n int); COMMIT",
        "TRUNCATE before",
        "DROP INDEX a_v",
        "DROP TABLE c",
        "DROP TABLE s.a; DROP SCHEMA s",
        "INSERT INTO before VALUES (1, 'no definition')",
    ] {
        assert_eq!(ask(&mut primary, text), NOTHING, "{text}");
        pair.ship();
        let mut session = db.session().unwrap();
        session.begin(collie_engine::Isolation::ReadCommitted, true).unwrap();
        session.begin_statement(collie_engine::StatementKind::ReadOnly).unwrap();
        let read = described(&store::load(&db, &session).unwrap().catalog);
        session.rollback();
        assert_eq!(described(&database.catalog()), read, "{text}");
        kinds.insert(read);
    }
    assert!(kinds.len() >= 14, "each defined something: {}", kinds.len());
    let hashes = |pair: &Pair| (pair.replica.state_hash().unwrap(), pair.primary.engine().state_hash(&[]).unwrap());
    let (replica, primary) = hashes(&pair);
    assert_eq!(replica, primary, "what was made and dropped by one transaction counts on neither");

    // The replica's log still has the rows of dropped tables.
    drop((database, db));
    pair.reopen();
    let (reopened, primary) = hashes(&pair);
    assert_eq!(reopened, primary, "what was dropped stays dropped");
}

/// Goal: L4: a transaction that keeps its snapshot reads the table that it read before, although its primary has
/// dropped it, created another one of that name, changed its columns or truncated it; the next transaction, and one at
/// READ COMMITTED, read the new one. Method: one of each during each change, by plain and by prepared statements.
#[test]
fn kept_snapshot_reads_the_table_that_its_name_meant() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    for text in ["CREATE TABLE t (id int PRIMARY KEY, v int)", "INSERT INTO t SELECT i, i FROM generate_series(1, 5) i"]
    {
        assert_eq!(ask(&mut primary, text), NOTHING);
    }
    pair.ship();
    let (database, _) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    let count = "SELECT count(*) FROM t";
    for (level, change, after) in [
        ("REPEATABLE READ", "DROP TABLE t; CREATE TABLE t (id int PRIMARY KEY, v int)", "0"),
        (
            "SERIALIZABLE",
            "INSERT INTO t SELECT i, i FROM generate_series(1, 7) i; ALTER TABLE t ADD CONSTRAINT t_v UNIQUE (v)",
            "7",
        ),
        ("REPEATABLE READ", "TRUNCATE t", "0"),
        ("SERIALIZABLE", "DROP TABLE t", "42P01"),
    ] {
        let connect = || database.connect("collie", "test", None).unwrap();
        let (mut kept, mut moves) = (connect(), connect());
        assert_eq!(ask(&mut moves, "BEGIN"), NOTHING);
        assert_eq!(ask(&mut kept, &format!("BEGIN ISOLATION LEVEL {level}")), NOTHING);
        assert_eq!(ask(&mut kept, "PREPARE counts AS SELECT count(*) FROM t"), NOTHING);
        let before = ask(&mut kept, "EXECUTE counts");
        assert_eq!(ask(&mut moves, count), before);
        for text in change.split("; ") {
            assert_eq!(ask(&mut primary, text), NOTHING, "{text}");
            pair.ship();
            assert_eq!(ask(&mut kept, count), before, "{level}, {text}");
            assert_eq!(ask(&mut kept, "EXECUTE counts"), before, "{level}, {text}");
            assert_eq!(ask(&mut kept, "SELECT count(*) FROM pg_class WHERE relname = 't'"), ["1"], "{level}, {text}");
        }
        assert_eq!(ask(&mut moves, count), [after], "{change}");
        assert_eq!(ask(&mut kept, "COMMIT"), NOTHING);
        assert_eq!(ask(&mut kept, count), [after], "{change}");
    }
}

/// Goal: P1, P2 and P4 of `position.rs`: with the token of a commit a replica's session sees that commit, including a
/// table that it created, and fails when the commit does not arrive; a statement under a kept snapshot does not wait,
/// and settings never do. Method: commits that are shipped late, asked for in time and too early; tokens of an unknown
/// history.
#[test]
fn session_of_a_replica_waits_for_a_commit() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut primary, "SELECT collie_last_commit()"), ["NULL"]);
    assert_eq!(ask(&mut primary, "CREATE TABLE t (id int PRIMARY KEY)"), NOTHING);
    pair.ship();
    let (database, _) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    let mut session = database.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut session, "SELECT collie_last_commit()"), ["NULL"]);
    assert_eq!(ask(&mut session, "SHOW in_hot_standby"), ["on"]);
    assert_eq!(ask(&mut session, "SHOW transaction_read_only"), ["on"]);
    assert_eq!(ask(&mut primary, "SHOW transaction_read_only"), ["off"]);
    assert_eq!(ask(&mut session, "BEGIN READ WRITE"), ["0A000"]);
    let wait_for = |session: &mut Session, token: &str| {
        assert_eq!(ask(session, &format!("SET collie.wait_for_lsn = '{token}'")), NOTHING);
    };

    // A commit that is shown already.
    let made = ask(&mut primary, "SELECT collie_last_commit()").remove(0);
    wait_for(&mut session, &made);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["0"]);
    assert_eq!(ask(&mut primary, &format!("SET collie.wait_for_lsn = '{made}'")), NOTHING);
    assert_eq!(ask(&mut primary, "INSERT INTO t VALUES (1)"), NOTHING, "the primary has it too");

    // A commit that is not.
    let mut kept = database.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut kept, "BEGIN ISOLATION LEVEL REPEATABLE READ"), NOTHING);
    assert_eq!(ask(&mut kept, "SELECT count(*) FROM t"), ["0"]);
    assert_eq!(ask(&mut primary, "CREATE TABLE u (id int PRIMARY KEY)"), NOTHING);
    assert_eq!(ask(&mut primary, "INSERT INTO u VALUES (7)"), NOTHING);
    let token = ask(&mut primary, "SELECT collie_last_commit()").remove(0);
    assert_ne!(token, made);
    for session in [&mut session, &mut kept] {
        wait_for(session, &token);
        assert_eq!(ask(session, "SET collie.wait_timeout = '20ms'"), NOTHING);
        assert_eq!(ask(session, "SHOW collie.wait_timeout"), ["20ms"]);
    }
    assert_eq!(ask(&mut session, "SELECT id FROM u"), ["57014"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["57014"]);
    assert_eq!(ask(&mut kept, "SELECT count(*) FROM t"), ["0"]);
    assert_eq!(ask(&mut kept, "COMMIT"), NOTHING);
    assert_eq!(ask(&mut kept, "SELECT count(*) FROM t"), ["57014"]);
    assert_eq!(ask(&mut session, "SET collie.wait_timeout = 0"), NOTHING);
    let waiting = std::thread::spawn(move || {
        let found = ask(&mut session, "SELECT id FROM u");
        (session, found)
    });
    pair.ship();
    let (mut session, found) = waiting.join().unwrap();
    assert_eq!(found, ["7"]);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["1"]);

    // Positions without a history, and an unknown history.
    assert_eq!(ask(&mut session, "SET collie.wait_timeout = '20ms'"), NOTHING);
    let shown = pair.replica.shown();
    wait_for(&mut session, &shown.to_string());
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["1"]);
    wait_for(&mut session, &shown.plus(1).to_string());
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["57014"]);
    wait_for(&mut session, "1:0/1");
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["57014"]);
    assert_eq!(ask(&mut session, "SET collie.wait_for_lsn = 'soon'"), ["22023"]);
    assert_eq!(ask(&mut session, "RESET collie.wait_for_lsn"), NOTHING);
    assert_eq!(ask(&mut session, "SELECT count(*) FROM t"), ["1"]);

    // A commit is reported once, to a client that wants it, unless it wrote nothing.
    assert_eq!(primary.commit_to_report(), None);
    assert_eq!(ask(&mut primary, "SET collie.report_commit = on"), NOTHING);
    assert_eq!(primary.commit_to_report(), Some(token));
    assert_eq!(ask(&mut primary, "SELECT count(*) FROM t"), ["1"]);
    assert_eq!(primary.commit_to_report(), None);
    assert_eq!(ask(&mut primary, "BEGIN; DELETE FROM t; COMMIT"), NOTHING);
    let deleted = primary.commit_to_report();
    assert_eq!(deleted, Some(ask(&mut primary, "SELECT collie_last_commit()").remove(0)));
    assert_eq!(primary.commit_to_report(), None);
}

/// Goal: an option of a running server changes for all sessions at once, on a primary and on a replica, by its name in
/// the configuration; an unknown option, an invalid value, or an option that is read only at a start is refused
/// (22023), and changes nothing. Method: the limit of the log as a relation shows it to another session.
#[test]
fn limit_of_the_log_is_changed_by_a_call_while_the_server_runs() {
    const SHOWN: &str = "SELECT bytes_limit FROM collie_stat_log";
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    assert_eq!(ask(&mut primary, "CREATE TABLE t (id int PRIMARY KEY)"), NOTHING);
    pair.ship();
    let (database, _) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    for node in [&pair.primary, &database] {
        let connect = || node.connect("collie", "test", None).unwrap();
        let (mut session, mut other) = (connect(), connect());
        let chosen = ask(&mut other, SHOWN);
        for refused in ["'wal.max_total_wal_sise', '1GiB'", "'wal.max_total_wal_size', 'much'", "'wal.slots', '3'"] {
            assert_eq!(ask(&mut session, &format!("CALL collie_set_option({refused})")), ["22023"], "{refused}");
        }
        assert_eq!(ask(&mut other, SHOWN), chosen);
        assert_eq!(ask(&mut session, "CALL collie_set_option('wal.max_total_wal_size', '24MiB')"), NOTHING);
        assert_eq!(ask(&mut other, SHOWN), [(24_u64 << 20).to_string()]);
        assert_eq!(ask(&mut session, "CALL collie_set_option('wal.max_total_wal_size', '0')"), NOTHING);
        assert_eq!(ask(&mut other, SHOWN), chosen);
    }
}

/// Returns an LSN as `pg_lsn` is written: without leading zeros.
fn short_lsn(lsn: &str) -> String {
    let (high, low) = lsn.split_once('/').unwrap();
    format!("{high}/{}", low.trim_start_matches('0'))
}
