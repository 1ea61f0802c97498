//! Row locks of all four strengths between sessions: the matrix, upgrades, several holders, savepoints, threads.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use collie_engine::{Basis, Blocker, Db, EngineError, Env, Family, LockStrength, Options, Outcome, Session, Write};
use common::{begin, get_one, next_statement, open_still, put_one};
use proptest::prelude::*;

const ROWS: [&[u8]; 2] = [b"a", b"b"];

fn world() -> (Db, Arc<Family>) {
    let (env, _disk) = Env::simulated(1);
    let (db, _) = open_still(env).unwrap();
    let f = db.family(db.create_family());
    for row in ROWS {
        put_one(&db, &f, row, &[0]);
    }
    (db, f)
}

fn sessions<const N: usize>(db: &Db) -> [Session; N] {
    std::array::from_fn(|_| {
        let mut session = db.session().unwrap();
        begin(&mut session);
        session
    })
}

fn lock(session: &mut Session, f: &Family, row: &[u8], strength: LockStrength) -> Option<Blocker> {
    write(session, f, row, Write::Lock(strength))
}

/// Writes in a new statement; returns the blocker, if any.
fn write(session: &mut Session, f: &Family, row: &[u8], what: Write<'_>) -> Option<Blocker> {
    next_statement(session);
    match session.write(f, row, Basis::Snapshot, what).unwrap() {
        Outcome::Done => None,
        Outcome::Wait(blocker) => Some(blocker),
        other => panic!("{other:?}"),
    }
}

fn poll(session: &Session, blocker: Blocker) -> Poll<Result<(), EngineError>> {
    pin!(session.wait(blocker)).as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Lock(usize, LockStrength),
    Put(usize),
    PutKeys(usize),
    Savepoint,
    RollbackTo(usize),
    Commit,
    Rollback,
}

/// The locks and writes of one transaction, in order.
#[derive(Default)]
struct Model {
    held: Vec<(usize, LockStrength)>,
    written: Vec<(usize, u8)>,
    marks: Vec<(collie_engine::Mark, usize, usize)>,
}

impl Model {
    fn conflicts(&self, row: usize, wanted: LockStrength) -> bool {
        self.held.iter().any(|(held, strength)| *held == row && strength.conflicts_with(wanted))
    }

    fn value(&self, row: usize) -> Option<u8> {
        self.written.iter().rev().find(|(written, _)| *written == row).map(|(_, value)| *value)
    }
}

fn run(steps: &[(usize, Step)]) {
    let (db, f) = world();
    let mut sessions: [Session; 3] = sessions(&db);
    let mut models: [Model; 3] = Default::default();
    let mut committed = [0_u8; 2];
    for (number, (who, step)) in steps.iter().enumerate() {
        let fresh = u8::try_from(number + 1).unwrap();
        let (session, value) = (&mut sessions[*who], [fresh]);
        let (row, strength, what) = match *step {
            Step::Lock(row, strength) => (row, strength, Write::Lock(strength)),
            Step::Put(row) => (row, LockStrength::NoKeyUpdate, Write::Put(&value)),
            Step::PutKeys(row) => (row, LockStrength::Update, Write::PutKeys(&value)),
            Step::Savepoint => {
                let model = &mut models[*who];
                model.marks.push((session.savepoint(), model.held.len(), model.written.len()));
                continue;
            }
            Step::RollbackTo(nth) => {
                let model = &mut models[*who];
                if let Some((mark, held, written)) = model.marks.get(nth).copied() {
                    session.rollback_to(mark);
                    model.marks.truncate(nth + 1);
                    model.held.truncate(held);
                    model.written.truncate(written);
                }
                continue;
            }
            Step::Commit | Step::Rollback => {
                let model = std::mem::take(&mut models[*who]);
                if matches!(step, Step::Commit) {
                    session.commit(false).unwrap().block().unwrap();
                    (0..ROWS.len()).for_each(|row| committed[row] = model.value(row).unwrap_or(committed[row]));
                } else {
                    session.rollback();
                }
                begin(session);
                continue;
            }
        };
        let blocked = write(session, &f, ROWS[row], what);
        let in_the_way = (0..3).any(|other| other != *who && models[other].conflicts(row, strength));
        assert_eq!(blocked.is_some(), in_the_way, "{number}: {who} {step:?}");
        match blocked {
            Some(blocker) => assert!(poll(&sessions[*who], blocker).is_pending(), "{number}: {who} {step:?}"),
            None => {
                models[*who].held.push((row, strength));
                if !matches!(step, Step::Lock(..)) {
                    models[*who].written.push((row, fresh));
                }
            }
        }
        for (who, model) in models.iter().enumerate() {
            next_statement(&mut sessions[who]);
            let seen = sessions[who].get(&f, ROWS[row]).unwrap().unwrap()[0];
            assert_eq!(seen, model.value(row).unwrap_or(committed[row]), "{number}: {who} reads");
        }
    }
    drop(sessions);
    let mut last = db.session().unwrap();
    begin(&mut last);
    for (row, value) in ROWS.iter().zip(committed) {
        assert_eq!(lock(&mut last, &f, row, LockStrength::Update), None, "a lock outlived its transaction");
        assert_eq!(get_one(&db, &f, row), Some(vec![value]));
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..2_usize, 0..4_usize).prop_map(|(row, strength)| Step::Lock(row, LockStrength::ALL[strength])),
        2 => (0..2_usize).prop_map(Step::Put),
        1 => (0..2_usize).prop_map(Step::PutKeys),
        2 => Just(Step::Savepoint),
        2 => (0..3_usize).prop_map(Step::RollbackTo),
        1 => Just(Step::Commit),
        1 => Just(Step::Rollback),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: locks of a row are compatible exactly as the matrix says, through upgrades, writes, savepoints and ends.
    /// Method: random steps of three transactions on two rows against lists of their locks and writes; each blocker is
    /// really waited for, readers see the values, and no lock outlives its transaction.
    #[test]
    fn held_locks_are_those_of_the_model(steps in proptest::collection::vec((0..3_usize, step()), 0..60)) {
        run(&steps);
    }
}

/// Goal: a writer waits for every holder of a share lock, one after the other, and then continues. Method: three
/// holders, one of them the writer itself; they end in an order that differs from that of their locks.
#[test]
fn writer_waits_for_one_share_holder_after_the_other() {
    let (db, f) = world();
    let [mut one, mut two, mut writer] = sessions(&db);
    for session in [&mut one, &mut two, &mut writer] {
        assert_eq!(lock(session, &f, b"a", LockStrength::Share), None);
    }
    let blocker = write(&mut writer, &f, b"a", Write::Delete).expect("two others hold it");
    let mut wait = pin!(writer.wait(blocker));
    let mut context = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    two.rollback();
    assert!(wait.as_mut().poll(&mut context).is_pending(), "the first is waited for");
    one.commit(true).unwrap().block().unwrap();
    assert!(wait.as_mut().poll(&mut context).is_ready());
    assert_eq!(write(&mut writer, &f, b"a", Write::Delete), None, "its own lock is not in its way");
    writer.commit(true).unwrap().block().unwrap();
    assert_eq!(get_one(&db, &f, b"a"), None);
}

/// Goal: two holders of SHARE that both want to write get a deadlock at once. Method: the first waits, the second is
/// refused and rolls back, and the first continues.
#[test]
fn upgrade_of_two_share_locks_is_a_deadlock_at_once() {
    let (db, f) = world();
    let [mut one, mut two] = sessions(&db);
    for session in [&mut one, &mut two] {
        assert_eq!(lock(session, &f, b"a", LockStrength::Share), None);
    }
    let blocker = write(&mut one, &f, b"a", Write::Put(b"1")).expect("the other holds it");
    let mut wait = pin!(one.wait(blocker));
    let mut context = Context::from_waker(Waker::noop());
    assert!(wait.as_mut().poll(&mut context).is_pending());
    let blocker = write(&mut two, &f, b"a", Write::Put(b"2")).expect("the other holds it");
    assert!(matches!(poll(&two, blocker), Poll::Ready(Err(EngineError::Deadlock))));
    two.rollback();
    assert!(matches!(wait.as_mut().poll(&mut context), Poll::Ready(Ok(()))));
    assert_eq!(write(&mut one, &f, b"a", Write::Put(b"1")), None);
}

/// Goal: rolling back to a savepoint releases the locks taken since and no more, and wakes their waiters. Method: KEY
/// SHARE before the mark, SHARE or a deletion after it; a writer that keeps the keys waits until then, and one that
/// does not keeps waiting.
#[test]
fn rollback_to_a_savepoint_weakens_locks_and_wakes_waiters() {
    for stronger in [Write::Lock(LockStrength::Share), Write::Delete, Write::PutKeys(b"x")] {
        let (db, f) = world();
        let [mut one, mut two] = sessions(&db);
        assert_eq!(lock(&mut one, &f, b"a", LockStrength::KeyShare), None);
        let mark = one.savepoint();
        assert_eq!(write(&mut one, &f, b"a", stronger), None);
        let blocker = write(&mut two, &f, b"a", Write::Put(b"2")).expect("the other holds it");
        let mut wait = pin!(two.wait(blocker));
        let mut context = Context::from_waker(Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        one.rollback_to(mark);
        assert!(wait.as_mut().poll(&mut context).is_ready(), "{stronger:?}");
        assert_eq!(write(&mut two, &f, b"a", Write::Put(b"2")), None, "{stronger:?}");
        assert!(write(&mut two, &f, b"a", Write::PutKeys(b"2")).is_some(), "{stronger:?}: KEY SHARE is left");
        one.rollback();
        assert_eq!(write(&mut two, &f, b"a", Write::PutKeys(b"2")), None);
    }
}

/// Goal: a row that was released between the look and the wait is not waited for. Method: the holder rolls back to a
/// savepoint after the other session got the blocker and before it waits.
#[test]
fn wait_for_what_was_rolled_back_meanwhile_is_over_at_once() {
    for strength in LockStrength::ALL {
        let (db, f) = world();
        let [mut one, mut two] = sessions(&db);
        let mark = one.savepoint();
        assert_eq!(lock(&mut one, &f, b"a", strength), None);
        let blocker = write(&mut two, &f, b"a", Write::Delete).expect("the other holds it");
        one.rollback_to(mark);
        assert!(matches!(poll(&two, blocker), Poll::Ready(Ok(()))), "{strength:?}");
        assert_eq!(write(&mut two, &f, b"a", Write::Delete), None);
    }
}

/// Goal: among threads no writer gets past a share lock, no update is lost, and no session waits for ever. Method: six
/// threads lock two rows in random strengths and orders, some add one, some read a value twice and find it unchanged.
#[test]
fn share_locks_hold_writers_off_among_threads() {
    const ROUNDS: u64 = 150;
    let dir = tempfile::tempdir().unwrap();
    let (db, _) = Db::open(dir.path(), Options::small(), Env::real(), &mut |_| ()).unwrap();
    let f = db.family(db.create_family());
    ROWS.iter().for_each(|row| put_one(&db, &f, row, &0_u64.to_le_bytes()));
    let (shared_db, shared_f) = (&db, &*f);
    let added: u64 = std::thread::scope(|scope| {
        let spawn = |seed| scope.spawn(move || adder(shared_db, shared_f, seed, ROUNDS));
        let threads: Vec<_> = (0..6_u64).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let left: u64 = ROWS.iter().map(|row| number(&get_one(&db, &f, row).unwrap())).sum();
    assert_eq!(left, added);
    let mut last = db.session().unwrap();
    begin(&mut last);
    ROWS.iter().for_each(|row| assert_eq!(lock(&mut last, &f, row, LockStrength::Update), None));
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// Runs transactions until `rounds` of them were committed; returns the amount that they added.
fn adder(db: &Db, f: &Family, seed: u64, rounds: u64) -> u64 {
    let mut session = db.session().unwrap();
    let mut dice = seed;
    let mut roll = |sides: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((dice >> 33) % sides).unwrap()
    };
    let (mut added, mut done) = (0, 0);
    while done < rounds {
        begin(&mut session);
        let (first, strength, adds) = (roll(2), LockStrength::ALL[roll(4)], roll(3) == 0);
        let mut sum = 0;
        let outcome = [first, 1 - first].into_iter().try_for_each(|row| {
            take(&mut session, f, ROWS[row], |_| Write::Lock(strength))?;
            next_statement(&mut session);
            let before = number(&session.get(f, ROWS[row])?.unwrap());
            if adds {
                take(&mut session, f, ROWS[row], |value| Write::Put(value))?;
                sum += 1;
            } else if strength > LockStrength::KeyShare {
                std::thread::yield_now();
                next_statement(&mut session);
                assert_eq!(number(&session.get(f, ROWS[row])?.unwrap()), before, "changed under {strength:?}");
            }
            Ok(())
        });
        match outcome {
            Ok(()) => {
                session.commit(false).unwrap().block().unwrap();
                (added, done) = (added + sum, done + 1);
            }
            Err(EngineError::Deadlock) => session.rollback(),
            Err(error) => panic!("{error}"),
        }
    }
    added
}

/// Writes one more than the row's newest value, or only locks it, waiting as often as needed.
fn take(
    session: &mut Session,
    f: &Family,
    row: &[u8],
    what: impl for<'a> Fn(&'a [u8]) -> Write<'a>,
) -> Result<(), EngineError> {
    next_statement(session);
    let mut value = (number(&session.get(f, row)?.unwrap()) + 1).to_le_bytes();
    let mut basis = Basis::Snapshot;
    loop {
        match session.write(f, row, basis, what(&value))? {
            Outcome::Done => return Ok(()),
            Outcome::Wait(blocker) => session.wait(blocker).block(None)?,
            Outcome::Changed { csn, row } => (basis, value) = (Basis::After(csn), (number(&row) + 1).to_le_bytes()),
            other => panic!("{other:?}"),
        }
    }
}
