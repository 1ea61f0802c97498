//! Checks while the boundary is behind: a stalled append holds it back.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;
use crate::planted::with_planted;
use crate::{Db, Env, Options};

fn begin(session: &mut Session, isolation: Isolation) {
    session.begin(isolation, false).unwrap();
    session.begin_statement(StatementKind::Write).unwrap();
}

const LEVELS: [Isolation; 2] = [Isolation::ReadCommitted, Isolation::RepeatableRead];

/// An append stalls after it has reserved its position. One transaction locks the parent, writes a child and
/// commits; another one removes the parent and checks. Returns whether the check saw the child before the append
/// continued (`None`: it was still waiting), and whether it saw the child in the end.
fn check_behind_a_stalled_append(isolation: Isolation, mistake: Option<&'static str>) -> (Option<bool>, bool) {
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).unwrap();
    let f = db.family(db.create_family());
    let mut child = db.session().unwrap();
    begin(&mut child, Isolation::ReadCommitted);
    assert_eq!(child.insert(&f, b"parent", b"").unwrap(), Insert::Done);
    child.commit(true).unwrap().block().unwrap();

    let mut parent = db.session().unwrap();
    begin(&mut parent, isolation);
    begin(&mut child, Isolation::ReadCommitted);
    let (release, released) = mpsc::channel::<()>();
    let (stalled, stalls) = mpsc::channel::<()>();
    let log = child.shared.clone();
    let append = thread::spawn(move || {
        let record = encode_integers(&[1]);
        log.txns.log().with_writer(|writer| {
            writer.append_with(tag::ABORT, &record, |_| {
                stalled.send(()).unwrap();
                released.recv().unwrap();
            })
        })
    });
    stalls.recv().unwrap();
    let lock = Write::Lock(LockStrength::KeyShare);
    assert_eq!(child.write(&f, b"parent", Basis::Snapshot, lock).unwrap(), Outcome::Done);
    assert_eq!(child.insert(&f, b"child", b"").unwrap(), Insert::Done);
    drop(child.commit(false).unwrap());

    assert_eq!(parent.write(&f, b"parent", Basis::Snapshot, Write::Delete).unwrap(), Outcome::Done);
    parent.end_statement();
    let (done, checked) = mpsc::channel();
    let rows = Arc::clone(&f);
    let check = thread::spawn(move || {
        let begin = |session: &mut Session| session.begin_check(Sees::Newest).unwrap();
        match mistake {
            None => begin(&mut parent),
            Some(mistake) => with_planted(mistake, || begin(&mut parent)),
        }
        done.send(parent.get(&rows, b"child").unwrap().is_some()).unwrap();
    });
    // A check that does not wait must finish first, however slow the machine is.
    let time = if mistake.is_some() { Duration::from_secs(30) } else { Duration::from_millis(50) };
    let early = checked.recv_timeout(time).ok();
    release.send(()).unwrap();
    let sees = early.unwrap_or_else(|| checked.recv().unwrap());
    check.join().unwrap();
    append.join().unwrap().unwrap();
    (early, sees)
}

/// Goal: a removal sees the rows of every transaction that held the removed row before it, even while the boundary
/// has not passed their commits, since a lock ends when its holder is published. Method: the above at each level,
/// where the check must wait for the append and then see the child; and without the wait, which must be noticed.
#[test]
fn removal_waits_for_the_boundary_and_sees_the_holders_row() {
    for isolation in LEVELS {
        assert_eq!(check_behind_a_stalled_append(isolation, None), (None, true), "{isolation:?}");
        let (_, sees) = check_behind_a_stalled_append(isolation, Some("checks do not wait"));
        assert!(!sees, "{isolation:?}: the mistake goes unnoticed");
    }
}
