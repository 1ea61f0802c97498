//! SQL over a replica: definitions and rows that a primary's sessions make are seen by the replica's.

use std::{
    sync::Arc,
    task::{Context, Wake, Waker},
};

use collie_base::Lsn;
use collie_engine::{Options, Replica, ReplicaOptions, Seed};
use collie_env::Env;
use collie_wal::{ShipOptions, Shipper};

use crate::{
    analyze::bound::ResultColumn,
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
struct Answers(Vec<String>);

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
    fn parameter(&mut self, _: &str, _: &str) {}
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
fn ask(session: &mut Session, text: &str) -> Vec<String> {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut answers = Answers::default();
    let mut query = Box::pin(session.simple_query(text, &mut answers));
    while query.as_mut().poll(&mut Context::from_waker(&waker)).is_pending() {
        std::thread::park();
    }
    drop(query);
    answers.0
}

/// What a statement without rows answers.
const NOTHING: [&str; 0] = [];

struct Pair {
    primary: Arc<Database>,
    shipper: Shipper,
    replica: Replica,
    _directory: tempfile::TempDir,
}

impl Pair {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (here, there) = (directory.path().join("primary"), directory.path().join("replica"));
        let env = Env::real();
        let (primary, _) =
            Database::open(&here, Options::small(), env.clone(), Settings::default(), &mut |_| ()).unwrap();
        let (term, histories) = primary.engine().histories();
        let cluster_id = primary.engine().cluster_id();
        let seed = Seed { cluster_id, node_id: 5, term, histories, consistent_at: Lsn::ZERO };
        seed.plant(&env, &there).unwrap();
        let replica = Replica::open(&there, Options::small(), ReplicaOptions::default(), &env, &mut |_| ()).unwrap().0;
        let log = primary.engine().log().unwrap();
        let shipper = log.ship("replica", ShipOptions::from(replica.end())).unwrap();
        Self { primary, shipper, replica, _directory: directory }
    }

    /// Ships what is there, and waits until it is shown.
    fn ship(&mut self) {
        self.primary.engine().log().unwrap().flush_wal(true).unwrap();
        let mut bytes = Vec::new();
        while let Some(shipment) = self.shipper.try_next(1 << 20, &mut bytes).unwrap() {
            self.replica.receive(shipment.start, shipment.prev_end, &bytes).unwrap();
            self.replica.set_show(shipment.durable);
            bytes.clear();
        }
        self.replica.wait_shown(self.replica.end()).unwrap().block().unwrap();
    }
}

/// Goal: L1 to L3: a replica's sessions see tables, indexes and rows once their commits are shown, prepared plans notice, writes and
/// definitions are refused (25006), and functions say what the node is; a transaction that keeps an older snapshot does not read what
/// was filled since. Method: definitions of each kind on the primary, the same questions on the replica.
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

    // A snapshot that is kept, and definitions after it.
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
}

/// As `pg_lsn` is written: without leading zeros.
fn short_lsn(lsn: &str) -> String {
    let (high, low) = lsn.split_once('/').unwrap();
    format!("{high}/{}", low.trim_start_matches('0'))
}
