//! Which statements are sampled, with which data, and that they run elsewhere with the same result.

use std::sync::Arc;

use collie_engine::Options;
use collie_env::Env;
use collie_sync::block_on;
use parking_lot::Mutex;

use super::{Rerun, TakenRead};
use crate::{
    error::SqlState,
    session::{
        Database, Session,
        following::tests::{Answers, Pair, ask},
        settings::Settings,
    },
};

type Shipped = Arc<Mutex<Vec<TakenRead>>>;

/// Samples every read of a database into the returned list.
fn take_all(database: &Database) -> Shipped {
    let shipped = Shipped::default();
    let list = shipped.clone();
    database.ship_reads(Box::new(move |read| list.lock().push(read)));
    database.read_share().set(1.0);
    shipped
}

/// Runs a statement with text parameters by the extended protocol; ignores errors.
fn run(session: &mut Session, text: &str, params: &[&str]) {
    let mut answers = Answers::default();
    let bound = block_on(session.parse("", text, &[])).and_then(|()| {
        let values = params.iter().map(|param| Some(param.as_bytes())).collect::<Vec<_>>();
        session.bind("", "", values.into_iter(), |_| 0, Vec::new())
    });
    let ran = bound.and_then(|()| block_on(session.execute("", 0, &mut answers)));
    if ran.is_err() {
        block_on(session.failed());
    }
    _ = block_on(session.sync(&mut answers)); // an error was noted above
}

fn open() -> (Arc<Database>, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let opened = Database::open(directory.path(), Options::small(), Env::real(), Settings::default(), &mut |_| ());
    (opened.unwrap().0, directory)
}

fn unfit(database: &Database) -> u64 {
    database.sampling.row(crate::catalog::system::ReadsShipped::default()).unfit
}

/// Goal: S2: only statements that read rows of tables and have no other effect are shipped: none that writes, locks,
/// calls a volatile function or one that the node answers, or reads system relations, wherever that is in the
/// statement. Method: each at a share of 1, by the protocol that plans every text; the count of unfit reads shows that
/// each was checked and refused, not just skipped.
#[test]
fn statements_with_side_effects_are_never_shipped() {
    let (database, _directory) = open();
    let mut session = database.connect("collie", "test", None).unwrap();
    ask(&mut session, "CREATE TABLE t (id int PRIMARY KEY, name text)");
    ask(&mut session, "INSERT INTO t SELECT i, 'n' || i FROM generate_series(1, 10) i");
    let shipped = take_all(&database);
    for fit in [
        "SELECT * FROM t",
        "SELECT count(*), max(name) FROM t WHERE id > 3 GROUP BY id % 2 HAVING count(*) > 1",
        "WITH a AS (SELECT id FROM t), b AS (SELECT x.id FROM a x, a y) SELECT * FROM b ORDER BY id LIMIT 3",
        "SELECT name FROM t WHERE EXISTS (SELECT 1 FROM t u WHERE u.id = t.id + 1) AND now() > '2000-01-01'",
        "SELECT t.id, g FROM t, generate_series(1, t.id) g UNION ALL SELECT 0, 0",
    ] {
        let before = unfit(&database);
        run(&mut session, fit, &[]);
        let taken = std::mem::take(&mut *shipped.lock());
        assert_eq!((taken.len(), unfit(&database)), (1, before), "{fit}");
        assert_eq!(&*taken[0].text, fit);
    }
    for refused in [
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t FOR KEY SHARE",
        "SELECT * FROM (SELECT * FROM t FOR SHARE) u",
        "WITH a AS (SELECT * FROM t FOR UPDATE) SELECT * FROM a",
        "WITH a AS (INSERT INTO t VALUES (100, 'x') RETURNING id) SELECT * FROM a",
        "WITH a AS (DELETE FROM t WHERE id = 100 RETURNING id) SELECT t.id FROM t, a",
        "SELECT random() FROM t",
        "SELECT id FROM t WHERE random() < 2",
        "SELECT id FROM t ORDER BY random()",
        "SELECT count(*) FILTER (WHERE random() < 2) FROM t",
        "SELECT sum(id * random()) FROM t",
        "SELECT id FROM t LIMIT (1 + random())::int",
        "SELECT (SELECT max(u.id) FROM t u WHERE random() < 2) FROM t",
        "WITH a AS (SELECT random() r FROM t) SELECT * FROM a",
        "SELECT t.id FROM t JOIN t u ON random() < 2",
        "SELECT t.id FROM t, generate_series(1, (random() * 2)::int) g",
        "SELECT id, (WITH a AS (SELECT random() r) SELECT r FROM a) FROM t",
        "SELECT pg_sleep(0) FROM t",
        "SELECT pg_advisory_xact_lock(1) FROM t",
        "SELECT pg_try_advisory_lock(id) FROM t",
        "SELECT set_config('application_name', 'x', false) FROM t",
        "SELECT current_setting('search_path') FROM t",
        "SELECT pg_backend_pid() FROM t",
        "SELECT pg_current_xact_id() FROM t",
        "SELECT pg_current_wal_lsn() FROM t",
        "SELECT clock_timestamp() FROM t",
        "SELECT relname FROM pg_class",
        "SELECT count(*) FROM t, pg_class",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM collie_node)",
        "SELECT table_name FROM information_schema.tables",
        "SELECT 1",
        "VALUES (1), (2)",
    ] {
        let before = unfit(&database);
        run(&mut session, refused, &[]);
        assert_eq!((shipped.lock().len(), unfit(&database)), (0, before + 1), "{refused}");
    }
    for other in [
        "INSERT INTO t VALUES (200, 'x') RETURNING id",
        "UPDATE t SET name = 'y' WHERE id = 200 RETURNING name",
        "DELETE FROM t WHERE id = 200 RETURNING id",
        "SELECT nextval('s')",
        "CREATE TABLE made (id int)",
        "SHOW search_path",
        "EXPLAIN SELECT * FROM t",
    ] {
        run(&mut session, other, &[]);
        assert_eq!(shipped.lock().len(), 0, "{other}");
    }
    let mut left = String::from("WITH a0 AS (SELECT id FROM t)");
    for n in 1..12 {
        left.push_str(&format!(", a{n} AS (SELECT x.id FROM a{0} x WHERE EXISTS (SELECT 1 FROM a{0}))", n - 1));
    }
    run(&mut session, &format!("{left} SELECT 1 FROM t WHERE false AND id IN (SELECT id FROM a11)"), &[]);
    assert_eq!(shipped.lock().len(), 0, "too much to look at");
}

/// Goal: reads are sampled outside transactions, and inside those that have written nothing, at READ COMMITTED and
/// REPEATABLE READ, under the default settings, and not otherwise; with the snapshot that they saw. Method: the same
/// read in each place.
#[test]
fn reads_are_taken_where_they_mean_the_same_elsewhere() {
    let (database, _directory) = open();
    let mut session = database.connect("collie", "test", None).unwrap();
    ask(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    ask(&mut session, "INSERT INTO t VALUES (1)");
    let shipped = take_all(&database);
    let mut takes = |before: &[&str], after: &str| {
        before.iter().for_each(|text| _ = ask(&mut session, text));
        shipped.lock().clear();
        run(&mut session, "SELECT id FROM t WHERE id = $1", &["1"]);
        let taken = std::mem::take(&mut *shipped.lock());
        ask(&mut session, after);
        taken.first().map(|read| read.snapshot)
    };
    let first = takes(&[], "COMMIT").unwrap();
    assert!(takes(&["INSERT INTO t VALUES (2)"], "COMMIT").unwrap() > first);
    assert!(takes(&["BEGIN"], "COMMIT").is_some());
    assert!(takes(&["BEGIN READ ONLY"], "COMMIT").is_some());
    assert!(takes(&["BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"], "COMMIT").is_some());
    assert!(takes(&["BEGIN", "INSERT INTO t VALUES (3)"], "ROLLBACK").is_none(), "it may see its own writes");
    assert!(takes(&["BEGIN", "CREATE TABLE u (id int)"], "ROLLBACK").is_none(), "and its own definitions");
    assert!(takes(&["BEGIN ISOLATION LEVEL SERIALIZABLE"], "COMMIT").is_none());
    for (set, reset) in [
        ("SET timezone = '+02'", "RESET timezone"),
        ("SET datestyle = 'ISO, DMY'", "RESET datestyle"),
        ("SET intervalstyle = 'iso_8601'", "RESET intervalstyle"),
        ("SET search_path = public", "RESET search_path"),
    ] {
        assert!(takes(&[set], reset).is_none(), "{set}");
    }
    assert!(takes(&[], "COMMIT").is_some());
    database.read_share().set(0.0);
    assert!(takes(&[], "COMMIT").is_none(), "switched off");
}

/// Goal: simple text is sampled by its normal form, so that texts that differ only in literals are one template; the
/// same statement of another session has the same hash, and another statement has another hash. Method: one form with
/// two values, by both protocols.
#[test]
fn texts_of_one_form_are_one_template() {
    let (database, _directory) = open();
    let mut session = database.connect("collie", "test", None).unwrap();
    ask(&mut session, "CREATE TABLE t (id int PRIMARY KEY)");
    let shipped = take_all(&database);
    ask(&mut session, "SELECT id FROM t WHERE id = 1");
    assert_eq!(shipped.lock().len(), 0, "seen for the first time, it has no template");
    ask(&mut session, "SELECT id FROM t WHERE id = 2");
    let mut other = database.connect("collie", "test", None).unwrap();
    ask(&mut other, "SELECT id FROM t WHERE id = 3");
    run(&mut session, "SELECT id FROM t WHERE id < $1", &["4"]);
    let taken = std::mem::take(&mut *shipped.lock());
    let hashes: Vec<u64> = taken.iter().map(|read| read.hash).collect();
    assert_eq!(hashes[0], hashes[1]);
    assert_ne!(hashes[0], hashes[2]);
    assert_eq!(&*taken[0].text, "SELECT id FROM t WHERE id = $1");
    assert_ne!(taken[0].parameters, taken[1].parameters);
    assert_eq!(taken.len(), 3);
}

/// Goal: a sampled read runs on a replica with the same number of rows, once its snapshot is shown there; an unfit
/// statement is refused there as well; one that keeps too much or takes too long fails; the session is in no view, and
/// can be used after each. Method: reads with parameters and NULL, statements that are never shipped, limits of 1 MiB
/// and of a second.
#[test]
fn reads_run_again_on_a_replica_with_the_same_rows() {
    let mut pair = Pair::new();
    let mut primary = pair.primary.connect("collie", "test", None).unwrap();
    ask(&mut primary, "CREATE TABLE t (id int PRIMARY KEY, name text, at timestamptz)");
    ask(&mut primary, "INSERT INTO t SELECT i, 'n' || (i % 7), '2020-01-01' FROM generate_series(1, 3000) i");
    let shipped = take_all(&pair.primary);
    for (text, params) in [
        ("SELECT * FROM t WHERE id = $1", &["7"][..]),
        ("SELECT * FROM t WHERE id = $1", &["700000"]),
        ("SELECT name, count(*) FROM t WHERE id BETWEEN $1 AND $2 GROUP BY name", &["10", "90"]),
        ("SELECT id FROM t WHERE name = $1 AND at < $2 ORDER BY id DESC LIMIT 20", &["n3", "2021-01-01"]),
        ("SELECT array_agg(id) FROM t WHERE name = ANY ($1::text[])", &["{n1,n2}"]),
    ] {
        run(&mut primary, text, params);
    }
    pair.primary.read_share().set(0.0);
    pair.ship();
    let (database, _) = Database::over(pair.replica.db().unwrap(), Env::real(), Settings::default()).unwrap();
    let mut reads = database.connect_for_reads(60_000, 64 << 20).unwrap();
    let taken = std::mem::take(&mut *shipped.lock());
    assert_eq!(taken.iter().map(|read| read.rows).collect::<Vec<_>>(), [1, 0, 7, 20, 1]);
    for read in &taken {
        assert!(read.snapshot <= pair.replica.shown());
        let ran = block_on(reads.run(&read.text, &read.parameters, &mut Answers::default()));
        assert_eq!(ran, Rerun::Ran { rows: read.rows.into() }, "{}", read.text);
    }

    let nothing = super::parameters::encode(&[], &[]);
    let mut again = |text: &str| block_on(reads.run(text, &nothing, &mut Answers::default()));
    for text in [
        "INSERT INTO t VALUES (0)",
        "SELECT * FROM t FOR UPDATE",
        "SELECT relname FROM pg_class",
        "SELECT 1",
        "CHECKPOINT",
    ] {
        assert_eq!(again(text), Rerun::Unfit, "{text}");
    }
    assert!(matches!(again("SELECT id FROM t; SELECT id FROM t"), Rerun::Failed(_)));
    assert_eq!(again("SELECT id FROM t WHERE id <= 3"), Rerun::Ran { rows: 3 });
    let broken = block_on(reads.run("SELECT id FROM t", b"?", &mut Answers::default()));
    assert_eq!(broken, Rerun::Unfit);
    let listed = ask(&mut database.connect("collie", "test", None).unwrap(), "SELECT count(*) FROM pg_stat_activity");
    assert_eq!(listed, ["1"]);

    let mut small = database.connect_for_reads(60_000, 1 << 20).unwrap();
    let mut short = database.connect_for_reads(1000, u64::MAX).unwrap();
    let all_pairs = "SELECT a.id FROM t a CROSS JOIN t b ORDER BY a.name, b.name";
    for (session, state) in [(&mut small, SqlState::OUT_OF_MEMORY), (&mut short, SqlState::QUERY_CANCELED)] {
        let failed = block_on(session.run(all_pairs, &nothing, &mut Answers::default()));
        assert_eq!(failed, Rerun::Failed(state));
        let ran = block_on(session.run("SELECT id FROM t WHERE id <= 3", &nothing, &mut Answers::default()));
        assert_eq!(ran, Rerun::Ran { rows: 3 }, "it goes on");
    }
    for keeping in [
        "SELECT name FROM t a GROUP BY id, name",
        "SELECT DISTINCT a.id, b.id FROM t a, t b WHERE b.id < 20",
        "WITH c AS (SELECT a.name || b.name n FROM t a, t b WHERE b.id < 20) SELECT x.n FROM c x, c y LIMIT 50000",
        "SELECT a.id FROM t a JOIN t b ON a.name = b.name JOIN (SELECT u.name n FROM t u, t v WHERE v.id < 20) c ON c.n = a.name LIMIT 1",
        "SELECT string_agg(a.name, ',') FROM t a, t b WHERE b.id < 20",
        "SELECT a.id FROM t a WHERE a.name = ANY (SELECT b.name || c.id FROM t b, t c WHERE c.id < 20)",
        "SELECT id, name FROM t EXCEPT SELECT b.id, b.name || c.id FROM t b, t c WHERE c.id < 20",
        "SELECT array(SELECT b.name || c.id FROM t b, t c WHERE c.id < 20) FROM t LIMIT 1",
        "SELECT a.id FROM t a, t b ORDER BY a.name, b.name LIMIT 100000",
    ] {
        let mut small = database.connect_for_reads(60_000, 64 << 10).unwrap();
        let failed = block_on(small.run(keeping, &nothing, &mut Answers::default()));
        assert_eq!(failed, Rerun::Failed(SqlState::OUT_OF_MEMORY), "{keeping}");
    }
}
