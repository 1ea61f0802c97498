//! Tests of [`Timer`] and [`Alarm`] with a real engine session and a clock that stands still; the clients' tests cover
//! the end of waits.

use std::sync::Arc;

use collie_engine::{CancelReason, Db, Options};
use collie_env::{Env, SimClock};

use super::{Alarm, Due, NEVER, Timer, ring};

struct Fixture {
    timer: Timer,
    alarm: Arc<Alarm>,
    // Kept open: the handle's locks live in the database.
    _db: Db,
    _session: collie_engine::Session,
    _directory: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (db, _) = Db::open(directory.path(), Options::small(), Env::real(), &mut |_| {}).unwrap();
        let session = db.session().unwrap();
        let env = Env { clock: Arc::new(SimClock::new()), ..Env::real() };
        let alarm = Alarm::new(session.cancel_handle());
        Self { timer: Timer::new(&env), alarm, _db: db, _session: session, _directory: directory }
    }

    fn limit(&self, at_ns: u64) -> u64 {
        let generation = self.alarm.cancel.generation();
        self.timer.limit_statement(&self.alarm, at_ns, generation, CancelReason::StatementTimeout);
        generation
    }

    fn entries(&self) -> usize {
        self.timer.0.heap.lock().entries.len()
    }
}

/// Later than any check in these tests, so that the thread does nothing.
const LATER_NS: u64 = 3_600_000_000_000;

/// Goal: a late timer never ends the next statement (M2). Method: the statement for which the limit was set ends,
/// another one begins, and only then the check happens; the same check in time does end its statement.
#[test]
fn late_timer_does_not_hit_the_next_statement() {
    let fixture = Fixture::new();
    let cancel = &fixture.alarm.cancel;
    fixture.limit(LATER_NS);
    cancel.clear();
    assert_eq!(ring(&Arc::downgrade(&fixture.alarm), LATER_NS, LATER_NS).map(|(at, _)| at), None);
    assert_eq!(cancel.reason(), None);
    fixture.limit(LATER_NS);
    let _ = ring(&Arc::downgrade(&fixture.alarm), LATER_NS, LATER_NS);
    assert_eq!(cancel.reason(), Some(CancelReason::StatementTimeout));
}

/// Goal: a limit costs one entry and not one per statement (M1). Method: a thousand statements with rising times; the
/// check at the first time finds the last one's time and asks for a check then.
#[test]
fn many_statements_share_one_entry() {
    let fixture = Fixture::new();
    for number in 0..1_000 {
        fixture.alarm.cancel.clear();
        fixture.limit(LATER_NS + number);
    }
    assert_eq!(fixture.entries(), 1);
    assert_eq!(ring(&Arc::downgrade(&fixture.alarm), LATER_NS, LATER_NS).map(|(at, _)| at), Some(LATER_NS + 999));
    assert!(!fixture.alarm.cancel.is_cancelled());
}

/// Goal: a shorter limit is checked in time, and the entry that it replaces does nothing (M1). Method: a long limit,
/// then a shorter one; both checks.
#[test]
fn shorter_limit_gets_an_earlier_look() {
    let fixture = Fixture::new();
    fixture.limit(2 * LATER_NS);
    fixture.limit(LATER_NS);
    assert_eq!(fixture.entries(), 2);
    assert!(ring(&Arc::downgrade(&fixture.alarm), 2 * LATER_NS, 2 * LATER_NS).is_none());
    assert!(!fixture.alarm.cancel.is_cancelled());
    let (due, again) = fixture.alarm.take_due(LATER_NS);
    assert!(matches!(due[..], [Due::Statement(_, CancelReason::StatementTimeout)]) && again == NEVER);
}

/// Goal: the timer's own thread ends a statement, and does nothing for a session that was dropped. Method: a time that
/// is reached, by the real clock; and an alarm that is dropped before its time.
#[test]
fn thread_ends_what_is_due() {
    let fixture = Fixture::new();
    let timer = Timer::new(&Env::real());
    let gone = Alarm::new(fixture.alarm.cancel.clone());
    timer.limit_statement(&gone, timer.now_ns() + 1_000_000, 77, CancelReason::TransactionTimeout);
    drop(gone);
    let generation = fixture.alarm.cancel.generation();
    let at = timer.now_ns() + 20_000_000;
    timer.limit_statement(&fixture.alarm, at, generation, CancelReason::StatementTimeout);
    while !fixture.alarm.cancel.is_cancelled() {
        std::thread::yield_now();
    }
    assert!(timer.now_ns() >= at);
    assert_eq!(fixture.alarm.cancel.reason(), Some(CancelReason::StatementTimeout));
}
