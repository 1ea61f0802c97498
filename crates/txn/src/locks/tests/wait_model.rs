//! Random schedules of waits in one thread: after every step the invariants of the queues hold; at the end nothing is
//! left, and no waiter waits for a transaction that has ended.

use crate::{
    Blocker, Isolation, LockTarget, Mark, Options, RowKey, RowLockRequest, Session, TableLock, TableLockMode,
    Transaction, TxnError, Txns, Wait, locks::deadlock::is_in_cycle, locks::waits::Waits, test_log::TestLog,
};
use collie_base::{CfId, LockStrength, Xid};
use proptest::prelude::*;
use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

const CLIENTS: usize = 5;
const CF: CfId = CfId::new(1);

#[derive(Clone, Copy, Debug)]
enum Step {
    Row(u8, LockStrength),
    Table(u32, usize),
    Savepoint,
    RollbackTo,
    EndStatement,
    Cancel,
    DropWait,
    Go,
    End,
}

/// The request that a client repeats once it is woken.
#[derive(Clone, Copy, Debug)]
enum Want {
    Row(u8, LockStrength),
    Table(u32, TableLockMode),
}

struct Client {
    session: Session<TestLog>,
    t: Option<Transaction>,
    xid: Xid,
    wait: Option<(Wait, Want)>,
    /// Row locks in the order of taking, each stronger than earlier ones of its row.
    rows: Vec<(u8, LockStrength)>,
    mark: Option<(Mark, usize)>,
}

impl Client {
    fn held(&self, row: u8) -> Option<LockStrength> {
        self.rows.iter().filter(|(held, _)| *held == row).map(|(_, strength)| *strength).max()
    }
}

struct World {
    txns: Arc<Txns<TestLog>>,
    clients: Vec<Client>,
    deadlocks: u32,
}

impl World {
    fn new() -> Self {
        let options = Options { xid_slots: 4, sessions_max: CLIENTS, first_xid: Xid::new(1) };
        let txns = Txns::new(TestLog::new(), options);
        let clients = (0..CLIENTS).map(|_| {
            let mut session = txns.session().unwrap();
            let t = session.begin(Isolation::ReadCommitted, false);
            Client { session, t: Some(t), xid: Xid::new(0), wait: None, rows: Vec::new(), mark: None }
        });
        let clients = clients.collect();
        let mut world = Self { txns, clients, deadlocks: 0 };
        (0..CLIENTS).for_each(|who| world.begin(who));
        world
    }

    fn begin(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let mut t = client.session.begin(Isolation::ReadCommitted, false);
        client.xid = client.session.assign_xid(&mut t).unwrap();
        client.t = Some(t);
        client.mark = None;
    }

    fn end(&mut self, who: usize) {
        let client = &mut self.clients[who];
        client.wait = None;
        self.release_rows(who, 0);
        let client = &mut self.clients[who];
        client.session.abort(client.t.take().unwrap(), &mut ());
        self.begin(who);
    }

    /// Releases row locks until `left` are left; those of shared strength are removed from the table too.
    fn release_rows(&mut self, who: usize, left: usize) {
        let client = &mut self.clients[who];
        while client.rows.len() > left {
            let (row, _) = client.rows.pop().unwrap();
            self.txns.with_row_shares(CF, &[row], |shares| shares.set(client.xid, shared_part(client, row)));
        }
    }

    fn in_the_way(&self, who: usize, row: u8, wanted: LockStrength) -> Option<Xid> {
        let others = self.clients.iter().enumerate().filter(|(other, _)| *other != who).map(|(_, client)| client);
        others.into_iter().find(|other| other.held(row).is_some_and(|held| held.conflicts_with(wanted))).map(|c| c.xid)
    }

    fn want(&mut self, who: usize, want: Want) {
        let found = match want {
            Want::Row(row, strength) => self.in_the_way(who, row, strength),
            Want::Table(..) => None,
        };
        let client = &mut self.clients[who];
        let blocker = match want {
            Want::Row(row, strength) => match found {
                None => {
                    if client.held(row) < Some(strength) {
                        client.rows.push((row, strength));
                        self.txns.with_row_shares(CF, &[row], |all| all.set(client.xid, shared_part(client, row)));
                    }
                    client.session.took_row(client.t.as_ref().unwrap(), CF, &[row], strength);
                    return;
                }
                Some(holder) => Blocker::Row(RowLockRequest { row: RowKey::new(CF, &[row]), holder, strength }),
            },
            Want::Table(id, mode) => {
                match client.session.lock_table(client.t.as_mut().unwrap(), LockTarget::Table(id), mode) {
                    TableLock::Granted => return,
                    TableLock::Wait(blocker) => blocker,
                }
            }
        };
        client.wait = Some((client.session.wait(&blocker), want));
    }

    fn step(&mut self, who: usize, step: Step) {
        let client = &mut self.clients[who];
        if client.wait.is_some() {
            match step {
                Step::Cancel => {
                    client.session.cancel_handle().cancel();
                    client.session.cancel_handle().clear();
                }
                Step::DropWait => client.wait = None,
                Step::Go => {
                    self.go(who);
                }
                _ => {}
            }
            return;
        }
        match step {
            Step::Row(row, strength) => self.want(who, Want::Row(row, strength)),
            Step::Table(id, mode) => self.want(who, Want::Table(id, TableLockMode::ALL[mode])),
            Step::Savepoint => client.mark = Some((client.t.as_ref().unwrap().savepoint(&()), client.rows.len())),
            Step::RollbackTo => {
                if let Some((mark, rows)) = client.mark {
                    self.release_rows(who, rows);
                    let client = &mut self.clients[who];
                    client.session.rollback_to(client.t.as_mut().unwrap(), mark, &mut ());
                }
            }
            Step::EndStatement => client.session.end_statement(client.t.as_mut().unwrap()),
            Step::End => self.end(who),
            Step::Cancel | Step::DropWait | Step::Go => {}
        }
    }

    /// Lets a client continue if its wait has ended; newcomers may have come before it.
    fn go(&mut self, who: usize) -> bool {
        let Some((wait, want)) = &mut self.clients[who].wait else { return false };
        let want = *want;
        let Poll::Ready(outcome) = Pin::new(wait).poll(&mut Context::from_waker(Waker::noop())) else { return false };
        self.clients[who].wait = None;
        match outcome {
            Ok(()) => self.want(who, want),
            Err(error) => {
                self.deadlocks += u32::from(matches!(error, TxnError::Deadlock { .. }));
                self.end(who);
            }
        }
        true
    }

    /// Lets clients continue until none can.
    fn settle(&mut self) {
        while (0..CLIENTS).any(|who| self.go(who)) {}
    }

    fn check(&self) {
        let waits: &Waits = &self.txns.locks.waits.lock();
        for (row, queue) in &waits.rows {
            let first = queue.entries.front().expect("an empty queue is removed");
            assert!(first.holder.is_some() || first.waiter.is_none(), "nobody tries to take {row:?}");
            for entry in &queue.entries {
                assert_eq!(waits.places.get(&entry.owner), Some(row));
                if let Some(holder) = entry.holder {
                    let held = self.clients.iter().find(|client| client.xid == holder).map(|c| c.held(row.key()[0]));
                    let held = held.expect("nobody waits for a transaction that has ended");
                    let conflict = held.is_some_and(|held| held.conflicts_with(entry.strength));
                    assert!(conflict, "{entry:?} waits for {holder}, which holds {held:?}");
                    assert!(waits.rows_held[&holder].contains(row), "the end of {holder} will not reach {row:?}");
                }
                let open = entry.waiter.as_ref().is_some_and(|waiter| waiter.is_open());
                assert!(!open || waits.waiting.contains_key(&entry.owner));
            }
        }
        for owner in waits.waiting.keys() {
            assert!(!is_in_cycle(&self.txns.locks, waits, *owner), "{owner:?} waits for itself");
        }
        // No wait lasts forever: a client that does not wait can always continue.
        let open = waits.waiting.values().filter(|parked| parked.waiter.is_open()).count();
        assert!(open < CLIENTS, "all wait: a deadlock was missed");
    }
}

/// Returns a client's shared strength on a row, as the table of share locks records it.
fn shared_part(client: &Client, row: u8) -> Option<LockStrength> {
    let of_row = client.rows.iter().filter(|(held, strength)| *held == row && strength.is_shared());
    of_row.map(|(_, strength)| *strength).max()
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..3_u8, 0..4_usize).prop_map(|(row, strength)| Step::Row(row, LockStrength::ALL[strength])),
        4 => (0..2_u32, 0..8_usize).prop_map(|(id, mode)| Step::Table(id, mode)),
        1 => Just(Step::Savepoint),
        1 => Just(Step::RollbackTo),
        1 => Just(Step::EndStatement),
        1 => Just(Step::Cancel),
        1 => Just(Step::DropWait),
        6 => Just(Step::Go),
        3 => Just(Step::End),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    /// Goal: no schedule forgets a waiter, misses a cycle or leaves a place behind. Method: random steps of five
    /// clients on three rows, in all strengths, and two tables; check the queues' invariants after each; all end,
    /// nothing is left.
    #[test]
    fn no_schedule_forgets_a_waiter_or_misses_a_cycle(steps in proptest::collection::vec((0..CLIENTS, step()), 0..100)) {
        let mut world = World::new();
        for (who, step) in steps {
            world.step(who, step);
            world.check();
        }
        for who in 0..CLIENTS {
            world.end(who);
            world.settle();
        }
        (0..CLIENTS).for_each(|who| world.end(who));
        let waits = world.txns.locks.waits.lock();
        prop_assert!(waits.rows.is_empty() && waits.places.is_empty() && waits.waiting.is_empty());
        prop_assert!(waits.rows_held.is_empty());
        prop_assert_eq!(world.txns.row_shares(), 0);
    }
}
