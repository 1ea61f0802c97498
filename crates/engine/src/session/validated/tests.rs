//! Validation of large read sets in parts, in parallel with commits of others.

use std::ops::ControlFlow;
use std::path::Path;

use collie_env::SimFiles;

use crate::serial::serial_writes::KEYS_MAX;
use crate::{
    Basis, Db, EngineError, Env, Family, Insert, Isolation, KeyRange, Options, Outcome, ScanEnd, Session,
    StatementKind, Write,
};

/// Number of rows that are read: more than one part of a look examines.
const ROWS: u32 = 20_000;

fn still() -> Db {
    let mut options = Options { background: false, ..Options::small() };
    options.log.threads = false;
    Db::open(Path::new("/db"), options, Env::over(SimFiles::default(), 1), &mut |_| ()).unwrap().0
}

fn begin(db: &Db, isolation: Isolation) -> Session {
    let mut session = db.session().unwrap();
    session.begin(isolation, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    session
}

fn put(session: &mut Session, f: &Family, key: u32, value: &[u8]) {
    match session.insert(f, &key.to_be_bytes(), value).unwrap() {
        Insert::Done => {}
        Insert::Duplicate(_) => {
            let written = session.write(f, &key.to_be_bytes(), Basis::Snapshot, Write::Put(value)).unwrap();
            assert_eq!(written, Outcome::Done);
        }
        Insert::Wait(_) => panic!("nobody holds it"),
    }
}

/// Begins a transaction that reads all rows of one family and writes one in another; one part of its read set was
/// examined.
fn reader(db: &Db, read: &Family, written: &Family) -> Session {
    let mut session = begin(db, Isolation::Serializable);
    let mut after = None;
    while let ScanEnd::More(last) =
        session.scan(read, &KeyRange::ALL, after.as_deref(), false, 256, &mut |_, _| ControlFlow::Continue(())).unwrap()
    {
        after = Some(last);
    }
    put(&mut session, written, 1, b"read everything");
    session.end_statement();
    assert!(!session.validate_some().unwrap(), "so much is not looked at in one part");
    assert!(!session.validate_some().unwrap());
    session
}

fn validate(session: &mut Session) -> Result<(), EngineError> {
    while !session.validate_some()? {}
    Ok(())
}

/// Goal: commits of others while a large read set is examined in parts are noticed, whether before a part or after it,
/// and nothing else is. Method: a transaction that read 20,000 rows, and others that commit in the middle of its look,
/// or after it: to a row that was examined, to one that was not, to a new row, to another family, and to so many rows
/// that they are not kept.
#[test]
fn what_is_committed_during_the_look_is_noticed() {
    for (what, keys, changes, isolation) in [
        ("a row that was looked at", vec![0], true, Isolation::Serializable),
        ("a row that was not looked at", vec![ROWS - 1], true, Isolation::Serializable),
        ("a new row", vec![ROWS + 5], true, Isolation::Serializable),
        ("nothing that was read", vec![], false, Isolation::Serializable),
        ("more rows than are kept", (0..u32::try_from(KEYS_MAX).unwrap() + 1).collect(), true, Isolation::Serializable),
        ("a row that was not looked at, at another level", vec![ROWS - 1], true, Isolation::ReadCommitted),
    ] {
        for is_late in [false, true] {
            if is_late && isolation == Isolation::ReadCommitted {
                continue; // takes no part in the serial order
            }
            let db = still();
            let [read, other] = [(); 2].map(|()| db.family(db.create_family()));
            let mut first = begin(&db, Isolation::ReadCommitted);
            (0..ROWS).for_each(|key| put(&mut first, &read, key, b"0"));
            first.commit(true).unwrap().block().unwrap();
            let mut session = reader(&db, &read, &other);
            if is_late {
                validate(&mut session).unwrap();
            }
            let mut writer = begin(&db, isolation);
            put(&mut writer, &other, 2, b"beside");
            keys.iter().for_each(|key| put(&mut writer, &read, *key, b"1"));
            writer.commit(true).unwrap().block().unwrap();
            let validated = validate(&mut session);
            let committed = validated.and_then(|()| session.commit(true).map(drop));
            session.rollback();
            match changes {
                true => assert!(matches!(committed, Err(EngineError::ReadChanged)), "{what}, late: {is_late}"),
                false => committed.unwrap_or_else(|error| panic!("{what}, late: {is_late}: {error}")),
            }
            assert!(!db.shared.serial_writes.is_watched(), "{what}: the mark is given back");
        }
    }
}

/// Goal: rows read after the look are validated too. Method: examine everything, read one more family, change a row of
/// it, commit.
#[test]
fn what_is_read_after_the_look_is_validated_too() {
    let db = still();
    let [read, other, late] = [(); 3].map(|()| db.family(db.create_family()));
    let mut first = begin(&db, Isolation::ReadCommitted);
    (0..ROWS).for_each(|key| put(&mut first, &read, key, b"0"));
    put(&mut first, &late, 1, b"0");
    first.commit(true).unwrap().block().unwrap();
    let mut session = reader(&db, &read, &other);
    validate(&mut session).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
    assert!(session.get(&late, &1_u32.to_be_bytes()).unwrap().is_some());
    session.end_statement();
    let mut writer = begin(&db, Isolation::ReadCommitted);
    put(&mut writer, &late, 1, b"1");
    writer.commit(true).unwrap().block().unwrap();
    assert!(matches!(session.commit(true), Err(EngineError::ReadChanged)));
}
