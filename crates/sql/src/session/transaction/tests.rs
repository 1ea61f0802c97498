//! The answers of a session once the log has failed, and while another session changes the catalog.

use std::path::Path;

use collie_engine::{Db, Options};
use collie_env::{Env, Fault, SimFiles};
use collie_sync::block_on;

use crate::{
    parse::{self, Stmt},
    session::{Database, following::tests::ask, settings::Settings},
};

/// Goal: a commit that waits while the log fails is answered with 08007, since its record may be on disk; the session
/// continues to read earlier commits, and writes are refused with the reason (T268). Method: a simulated disk that
/// fails each write and sync.
#[test]
fn commit_whose_log_fails_has_an_unknown_outcome_and_reads_go_on() {
    let disk = SimFiles::default();
    let env = Env::over(disk.clone(), 1);
    let mut options = Options { background: false, ..Options::small() };
    options.log.threads = false;
    let (db, _) = Db::open(Path::new("/db"), options, env.clone(), &mut |_| ()).unwrap();
    let (database, _) = Database::over(db, env, Settings::default()).unwrap();
    let [mut session, mut other] = [0; 2].map(|_| database.connect("collie", "test", None).unwrap());
    for text in ["CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"] {
        assert!(ask(&mut session, text).is_empty(), "{text}");
    }
    let next = disk.writes_and_syncs() + 1;
    (next..next + 1_000).for_each(|call| disk.fail_write_or_sync(call, Fault::Eio));
    assert_eq!(ask(&mut session, "INSERT INTO t VALUES (2)"), ["08007"]);
    for session in [&mut session, &mut other] {
        assert_eq!(ask(session, "SELECT id FROM t"), ["1"]);
        assert_eq!(ask(session, "BEGIN; SELECT id FROM t; COMMIT"), ["1"]);
        assert_eq!(ask(session, "INSERT INTO t VALUES (3)"), ["58030"]);
        assert_eq!(ask(session, "SELECT id FROM t"), ["1"]);
    }
}

/// Goal: a plan without relations, such as that of EXECUTE's arguments, holds although another session commits a
/// definition before it begins; one with a relation is planned again (T310). Method: both plans, a definition between
/// planning and beginning, and a statement for the second planning that is refused.
#[test]
fn plans_without_relations_hold_in_every_catalog() {
    let dir = tempfile::tempdir().unwrap();
    let (database, _) =
        Database::open(dir.path(), Options::small(), Env::real(), Settings::default(), &mut |_| ()).unwrap();
    let [mut session, mut other] = [0; 2].map(|_| database.connect("collie", "test", None).unwrap());
    assert!(ask(&mut other, "CREATE TABLE t (id int)").is_empty());
    for (text, holds) in [("SELECT 1 + 1", true), ("SELECT id FROM t", false)] {
        let stmt = parse::statements(text).unwrap().remove(0).stmt;
        let planned = session.plan(&stmt, &[]).unwrap();
        assert!(ask(&mut other, "CREATE TABLE other (id int); DROP TABLE other").is_empty());
        session.ensure_transaction().unwrap();
        let begun = block_on(session.begin_planned(&Stmt::Checkpoint, &[], planned));
        assert_eq!(begun.map(drop).map_err(|error| error.state()).is_ok(), holds, "{text}");
        block_on(session.roll_back());
    }
}
