//! Compares the engine with a plain map: transactions, savepoints, snapshots, scans, flushes to LSM levels that allow
//! the log to be cut, reopening and power cuts at random.
#![allow(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod common;

use std::collections::BTreeMap;

use collie_base::CfId;
use collie_engine::{Basis, Db, Env, Isolation, Mark, Options, Outcome, Session, StatementKind, Write};
use collie_env::SimFiles;
use common::{DIR, all, next_statement, plant, put, put_one, tiny};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Put {
        cf: u32,
        key: u8,
        value: Vec<u8>,
    },
    Delete {
        cf: u32,
        key: u8,
    },
    NextStatement,
    Savepoint,
    RollbackTo(usize),
    Commit {
        sync: bool,
    },
    Rollback,
    HoldSnapshot,
    DropSnapshot,
    Tick,
    Flush(u32),
    FlushDue,
    /// A due flush of commits that are already durable.
    FlushLarge,
    Reopen,
    PowerCut(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (cf, key) = (1..3_u32, 0..8_u8);
    // Some values take several pieces of the log, so that transactions have chunks.
    let value = prop_oneof![
        9 => proptest::collection::vec(any::<u8>(), 0..20),
        1 => any::<u8>().prop_map(|byte| vec![byte; 20_000]),
    ];
    prop_oneof![
        8 => (cf.clone(), key.clone(), value).prop_map(|(cf, key, value)| Step::Put { cf, key, value }),
        4 => (cf, key).prop_map(|(cf, key)| Step::Delete { cf, key }),
        4 => Just(Step::NextStatement),
        2 => Just(Step::Savepoint),
        2 => (0..4_usize).prop_map(Step::RollbackTo),
        5 => any::<bool>().prop_map(|sync| Step::Commit { sync }),
        1 => Just(Step::Rollback),
        1 => Just(Step::HoldSnapshot),
        1 => Just(Step::DropSnapshot),
        2 => Just(Step::Tick),
        3 => (1..4_u32).prop_map(Step::Flush),
        2 => Just(Step::FlushDue),
        2 => Just(Step::FlushLarge),
        1 => Just(Step::Reopen),
        1 => any::<u64>().prop_map(Step::PowerCut),
    ]
}

type Rows = BTreeMap<(u32, Vec<u8>), Vec<u8>>;

/// The expected state.
#[derive(Default)]
struct Model {
    /// The state after each commit; the first is empty.
    states: Vec<Rows>,
    /// Commits up to this one were acknowledged as durable.
    durable: usize,
    /// The state that the open transaction sees, and its savepoints.
    own: Option<Rows>,
    marks: Vec<(Mark, Rows)>,
}

impl Model {
    fn newest(&self) -> &Rows {
        self.states.last().expect("the empty state is there")
    }
}

struct Run {
    disk: SimFiles,
    opens: u64,
    db: Db,
    writer: Session,
    reader: Option<(Session, Rows)>,
}

impl Run {
    fn on(disk: SimFiles, opens: u64) -> Self {
        plant();
        let options = Options { write_buffer_size: 30 << 10, ..tiny() };
        let (db, _report) = Db::open(DIR.as_ref(), options, Env::over(disk.clone(), opens), &mut |_| ()).unwrap();
        db.set_max_total_wal_size(1); // so that a flusher round has work, mostly a re-log
        let writer = db.session().unwrap();
        Self { disk, opens, db, writer, reader: None }
    }

    fn seen(&self, session: &Session) -> Rows {
        let of =
            |cf| all(session, &self.db.family(CfId::new(cf))).into_iter().map(move |(key, value)| ((cf, key), value));
        of(1).chain(of(2)).collect()
    }

    fn ensure_begun(&mut self, model: &mut Model) {
        if !self.writer.in_transaction() {
            self.writer.begin(Isolation::ReadCommitted, false).unwrap();
            self.writer.begin_statement(StatementKind::Write).unwrap();
            model.own = Some(model.newest().clone());
        }
    }

    fn committed(&self) -> Rows {
        let mut session = self.db.session().unwrap();
        session.begin(Isolation::RepeatableRead, false).unwrap();
        session.begin_statement(StatementKind::Write).unwrap();
        self.seen(&session)
    }
}

fn apply(run: &mut Run, model: &mut Model, step: Step) {
    match step {
        Step::Put { cf, key, value } => {
            run.ensure_begun(model);
            next_statement(&mut run.writer); // a command does not see its own writes
            let family = run.db.family(CfId::new(cf));
            put(&mut run.writer, &family, &[key], &value);
            model.own.as_mut().unwrap().insert((cf, vec![key]), value);
        }
        Step::Delete { cf, key } => {
            run.ensure_begun(model);
            next_statement(&mut run.writer);
            let family = run.db.family(CfId::new(cf));
            let outcome = run.writer.write(&family, &[key], Basis::Snapshot, Write::Delete).unwrap();
            let there = model.own.as_mut().unwrap().remove(&(cf, vec![key])).is_some();
            assert_eq!(outcome, if there { Outcome::Done } else { Outcome::Gone });
        }
        Step::NextStatement if run.writer.in_transaction() => {
            next_statement(&mut run.writer);
            assert_eq!(Some(run.seen(&run.writer)), model.own);
        }
        Step::Savepoint if run.writer.in_transaction() => {
            model.marks.push((run.writer.savepoint(), model.own.clone().unwrap()));
        }
        Step::RollbackTo(depth) if run.writer.in_transaction() && depth < model.marks.len() => {
            model.marks.truncate(depth + 1);
            let (mark, rows) = model.marks[depth].clone();
            run.writer.rollback_to(mark);
            model.own = Some(rows);
        }
        Step::Commit { sync } if run.writer.in_transaction() => {
            let receipt = run.writer.commit(sync).unwrap().block().unwrap();
            let own = model.own.take().unwrap();
            model.marks.clear();
            if receipt.csn.is_some() {
                model.states.push(own);
            } else {
                assert_eq!(&own, model.newest());
            }
            if sync && receipt.csn.is_some() {
                model.durable = model.states.len() - 1;
            }
        }
        Step::Rollback => {
            run.writer.rollback();
            (model.own, model.marks) = (None, Vec::new());
        }
        Step::HoldSnapshot => {
            let mut session = run.db.session().unwrap();
            session.begin(Isolation::RepeatableRead, false).unwrap();
            session.begin_statement(StatementKind::Write).unwrap();
            run.reader = Some((session, model.newest().clone()));
        }
        Step::DropSnapshot => run.reader = None,
        Step::Tick => {
            run.db.tick();
        }
        Step::Flush(cf) => {
            // The two families one by one, and both together.
            let cfs = if cf == 3 { vec![1, 2] } else { vec![cf] };
            let cfs: Vec<CfId> = cfs.into_iter().map(CfId::new).collect();
            run.db.flush_cf(&cfs).unwrap();
            model.durable = model.states.len() - 1; // the log is durable up to the call
        }
        Step::FlushDue => {
            // Rows of a third family make the log too long: it is flushed; the others are re-logged if they are small.
            let padding = run.db.family(CfId::new(3));
            (0..6).for_each(|key| put_one(&run.db, &padding, &[key], &[key; 20_000]));
            model.durable = model.states.len() - 1;
            assert!(run.db.flush_due().unwrap());
        }
        Step::FlushLarge => _ = run.db.flush_due().unwrap(),
        Step::Reopen => {
            run.writer.rollback();
            run.reader = None;
            run.db.close().unwrap();
            *run = Run::on(run.disk.clone(), run.opens + 1);
            (model.own, model.marks) = (None, Vec::new());
            assert_eq!(&run.committed(), model.newest(), "a clean close loses nothing");
            model.durable = model.states.len() - 1;
        }
        Step::PowerCut(seed) => {
            let left = run.disk.power_cut(seed);
            *run = Run::on(left, run.opens + 1);
            (model.own, model.marks) = (None, Vec::new());
            let found = run.committed();
            let at = model.states.iter().rposition(|state| *state == found);
            let at = at.unwrap_or_else(|| panic!("{found:?} is no state between commits"));
            assert!(at >= model.durable, "state {at} of {} found, {} was durable", model.states.len(), model.durable);
            model.states.truncate(at + 1);
            model.durable = at;
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(common::drawn(150))]

    /// Goal: the engine equals the map, whatever is done to it. Method: random steps on a simulated disk, compared
    /// after each; after a power cut the rows are those of some commit at or after the last durable one.
    #[test]
    fn engine_equals_the_model_through_reopens_and_power_cuts(steps in proptest::collection::vec(step(), 1..60)) {
        let (_, disk) = Env::simulated(1);
        let mut run = Run::on(disk, 1);
        let mut model = Model { states: vec![Rows::new()], ..Model::default() };
        for step in steps {
            apply(&mut run, &mut model, step);
            if let Some((session, rows)) = &run.reader {
                prop_assert_eq!(&run.seen(session), rows, "a held snapshot does not move");
            }
            prop_assert_eq!(&run.committed(), model.newest());
        }
    }
}
