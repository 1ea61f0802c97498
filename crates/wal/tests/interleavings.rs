//! Every interleaving of the commit protocol's statements, for a few workers with a few records each, one statement at
//! a time (sequentially consistent): the rules that hold in each state, and that from each state every record can still
//! be acknowledged.
//!
//! This is a drawing of the protocol, not the product's types: those run under loom and shuttle (`src/reserve`). Of the
//! three only this one sees every state, and can show of a state that no way leads on.
//!
//! # Steps and where they are in the product
//! | step | statement |
//! |---|---|
//! | `Black` | W1, `slots.blacken(slot)` in `base::append` and `help::append` (`help` stages before, invisibly) |
//! | `Take` | W2, `slots.reserve(slot, ..)` in both |
//! | `Raise` | `slots.raise(slot, start)` in `base::Window::wait_for_room` |
//! | `CopyIn` | W4, `ring.write_record(start, record)` in `base::append` and in `help::Window::finish` |
//! | `Publish` | W3, `publish(start)` in both |
//! | `Stage` | W3b, `slots.leave_black(slot, Flag::staged(end))` in `help::Window::finish` |
//! | `White` | W5, `slots.leave_black(slot, Flag::white(end))` in `base::append`, `slots.whiten_staged(slot)` in `help` |
//! | `Limit`, `Flag(i)`, `Move` | `Slots::scan`: limit, each flag, `raise_boundary`; then the check of the own record |
//!
//! A worker takes the steps of its protocol, then scans until its record is below the boundary, then continues with the
//! next record. Positions are counted in records. Sleeping is left out: a worker that would sleep scans again.
//!
//! # What holds in every state
//! - V1, V2. A record below the boundary is published, at its own position.
//! - V3. An acknowledged record is below the boundary.
//! - H. A record below the boundary is in the ring or staged.
//! - E. Some way leads to the state in which every record is acknowledged.
//! - The boundary is never above the next free position.
#![expect(clippy::cast_possible_truncation, reason = "positions and workers are below ten")]

use collie_base::Map;

const WORKERS_MAX: usize = 3;
const RECORDS_MAX: usize = 6;
/// A record without a position, or one that is not published.
const NONE: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Black,
    Take,
    Raise,
    CopyIn,
    Publish,
    Stage,
    White,
    Limit,
    Flag(u8),
    Move,
}

use Step::{Black, CopyIn, Limit, Move, Publish, Raise, Stage, Take, White};

const BASE: &[Step] = &[Black, Take, CopyIn, Publish, White];
const RAISED: &[Step] = &[Black, Take, Raise, CopyIn, Publish, White];
const HELP: &[Step] = &[Black, Take, Publish, Stage, CopyIn, White];

/// The promise of a black flag: nothing is reserved below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bound {
    /// The end of the worker's own last record, as in the product.
    OwnEnd,
    /// The higher of that and the boundary: the form for which reference counts exist.
    Boundary,
}

/// The position with which a scan compares the flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compare {
    /// The next free position, read before the flags.
    Next,
    /// The end of the scanning worker's own record.
    OwnEnd,
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    /// The boundary is stored, not raised.
    BoundaryStored,
    /// The limit is read after the flags.
    LimitAfterFlags,
    /// A record is acknowledged after one scan, wherever the boundary is.
    AcknowledgedUnseen,
}

/// The configuration that is explored.
#[derive(Clone, Copy, Debug)]
struct Form {
    steps: &'static [Step],
    workers: usize,
    records: usize,
    bound: Bound,
    compare: Compare,
    /// Worker 0 stops forever before this step.
    frozen: Option<Step>,
    mistake: Option<Mistake>,
}

impl Form {
    fn new(steps: &'static [Step], workers: usize, records: usize) -> Self {
        Self { steps, workers, records, bound: Bound::OwnEnd, compare: Compare::Next, frozen: None, mistake: None }
    }

    /// Returns the steps of a worker, in order.
    fn program(&self) -> Vec<Step> {
        let flags = (0..self.workers).map(|worker| Step::Flag(worker as u8));
        let scan: Vec<Step> = if self.mistake == Some(Mistake::LimitAfterFlags) {
            flags.chain([Limit, Move]).collect()
        } else {
            std::iter::once(Limit).chain(flags).chain([Move]).collect()
        };
        self.steps.iter().copied().chain(scan).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Colour {
    #[default]
    White,
    Black,
    Staged,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Flag {
    colour: Colour,
    position: u8,
}

/// The own memory of one worker, and its flag.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
struct Worker {
    next_step: u8,
    record: u8,
    flag: Flag,
    start: u8,
    own_end: u8,
    limit: u8,
    /// The flags that it has read since its scan began, and how many.
    seen: [Flag; WORKERS_MAX],
    seen_count: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct State {
    workers: [Worker; WORKERS_MAX],
    /// By record: the position that a reader finds.
    published: [u8; RECORDS_MAX],
    /// By record: its position.
    starts: [u8; RECORDS_MAX],
    /// By record, a bit.
    acknowledged: u8,
    /// By record, a bit: in the ring or staged.
    held: u8,
    next: u8,
    boundary: u8,
}

impl State {
    fn new() -> Self {
        Self {
            workers: Default::default(),
            published: [NONE; RECORDS_MAX],
            starts: [NONE; RECORDS_MAX],
            acknowledged: 0,
            held: 0,
            next: 0,
            boundary: 0,
        }
    }

    fn is_goal(&self, form: &Form) -> bool {
        let counted = usize::from(form.frozen.is_some())..form.workers;
        self.workers[counted].iter().all(|worker| usize::from(worker.record) == form.records)
    }

    /// Returns the state after one step of worker `index`; `None` if it takes none.
    fn after(&self, form: &Form, program: &[Step], index: usize) -> Option<(Step, Self)> {
        let worker = &self.workers[index];
        if usize::from(worker.record) >= form.records {
            return None;
        }
        let step = program[usize::from(worker.next_step)];
        if index == 0 && form.frozen == Some(step) {
            return None;
        }
        let record = index * form.records + usize::from(worker.record);
        let mut state = *self;
        let me = &mut state.workers[index];
        me.next_step += 1;
        match step {
            Black => {
                let bound = match (program[0], form.bound) {
                    // Black after the position was taken: the mistake of the PostgreSQL port.
                    (Take, _) => me.start,
                    (_, Bound::OwnEnd) => me.own_end,
                    (_, Bound::Boundary) => me.own_end.max(self.boundary),
                };
                me.flag = Flag { colour: Colour::Black, position: bound };
            }
            Take => {
                me.start = self.next;
                state.starts[record] = self.next;
                state.next += 1;
            }
            Raise => me.flag = Flag { colour: Colour::Black, position: me.start },
            Publish => state.published[record] = me.start,
            Stage => {
                me.flag = Flag { colour: Colour::Staged, position: me.start + 1 };
                state.held |= 1 << record;
            }
            CopyIn => state.held |= 1 << record,
            White => {
                me.flag = Flag { colour: Colour::White, position: me.start + 1 };
                me.own_end = me.start + 1;
            }
            Limit => me.limit = if form.compare == Compare::Next { self.next } else { me.start + 1 },
            Step::Flag(other) => {
                me.seen[usize::from(me.seen_count)] = self.workers[usize::from(other)].flag;
                me.seen_count += 1;
            }
            Move => {
                let limit = me.limit;
                let bound = |flag: &Flag| {
                    if flag.colour == Colour::Black { flag.position } else { flag.position.max(limit) }
                };
                let bound = me.seen[..form.workers].iter().map(bound).min().expect("at least one worker");
                me.seen = Default::default();
                me.seen_count = 0;
                let stored = form.mistake == Some(Mistake::BoundaryStored);
                state.boundary = if stored { bound } else { self.boundary.max(bound) };
                if state.boundary > me.start || form.mistake == Some(Mistake::AcknowledgedUnseen) {
                    state.acknowledged |= 1 << record;
                    me.next_step = 0;
                    me.record += 1;
                } else {
                    me.next_step = form.steps.len() as u8;
                }
            }
        }
        Some((step, state))
    }

    /// Returns the rule that this state breaks, if it breaks one.
    fn broken(&self) -> Option<&'static str> {
        for (record, start) in self.starts.iter().enumerate().filter(|(_, start)| **start != NONE) {
            let is_below = *start < self.boundary;
            if is_below && self.published[record] != *start {
                return Some("V1");
            }
            if is_below && self.held & 1 << record == 0 {
                return Some("H");
            }
            if !is_below && self.acknowledged & 1 << record != 0 {
                return Some("V3");
            }
        }
        (self.boundary > self.next).then_some("boundary above the next free position")
    }
}

/// The result of an exploration.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    /// Every rule holds in this many states.
    Good { states: usize },
    /// From `stuck` of them not every record can be acknowledged any more.
    Blocked { states: usize, stuck: usize },
    /// A rule is broken after these steps, each with the number of its worker.
    Broken { rule: &'static str, path: Vec<(usize, Step)> },
}

/// How a state was first reached: from which state, and by which worker's step.
type Origin = Option<(u32, u8)>;

fn explore(form: &Form) -> Found {
    assert!(form.workers <= WORKERS_MAX && form.workers * form.records <= RECORDS_MAX);
    let program = form.program();
    let mut numbers = Map::<State, u32>::default();
    let (mut states, mut origins, mut edges) = (vec![State::new()], vec![Origin::None], Vec::<(u32, u32)>::new());
    numbers.insert(states[0], 0);
    let mut at = 0;
    while at < states.len() {
        let (state, from) = (states[at], at as u32);
        at += 1;
        for index in 0..form.workers {
            let Some((_, next)) = state.after(form, &program, index) else { continue };
            let new = states.len() as u32;
            let to = *numbers.entry(next).or_insert(new);
            edges.push((to, from));
            if to == new {
                states.push(next);
                origins.push(Some((from, index as u8)));
                if let Some(rule) = next.broken() {
                    return Found::Broken { rule, path: path(form, &program, &states, &origins) };
                }
            }
        }
    }
    let stuck = count_stuck(form, &states, edges);
    if stuck == 0 { Found::Good { states: states.len() } } else { Found::Blocked { states: states.len(), stuck } }
}

/// Returns the steps that lead to the last state.
fn path(form: &Form, program: &[Step], states: &[State], origins: &[Origin]) -> Vec<(usize, Step)> {
    let mut path = Vec::new();
    let mut at = states.len() - 1;
    while let Some((from, worker)) = origins[at] {
        at = from as usize;
        let (step, _) = states[at].after(form, program, usize::from(worker)).expect("it was taken");
        path.push((usize::from(worker), step));
    }
    path.reverse();
    path
}

/// Counts the states from which no way leads to the goal; `edges` are pairs of a state and one before it.
fn count_stuck(form: &Form, states: &[State], mut edges: Vec<(u32, u32)>) -> usize {
    edges.sort_unstable();
    let before = |state: u32| {
        let first = edges.partition_point(|(to, _)| *to < state);
        edges[first..].iter().take_while(move |(to, _)| *to == state).map(|(_, from)| *from)
    };
    let mut can_finish: Vec<bool> = states.iter().map(|state| state.is_goal(form)).collect();
    let mut open: Vec<u32> = (0..states.len() as u32).filter(|state| can_finish[*state as usize]).collect();
    while let Some(state) = open.pop() {
        for from in before(state) {
            if !std::mem::replace(&mut can_finish[from as usize], true) {
                open.push(from);
            }
        }
    }
    can_finish.iter().filter(|can| !**can).count()
}

/// Returns whether the long form is enabled.
fn is_long() -> bool {
    std::env::var_os("LOOM_LONG").is_some()
}

fn check(form: &Form, states: usize) {
    assert_eq!(explore(form), Found::Good { states }, "{form:?}");
}

/// Goal: the rules hold in every state, and every record can be acknowledged from each. Method: the forms whose number
/// of states an independent program of the same protocol counted: the same number shows that both walk the same
/// protocol.
#[test]
fn every_interleaving_keeps_the_rules_in_the_forms_counted_before() {
    let reference = |steps, workers, records| Form { bound: Bound::Boundary, ..Form::new(steps, workers, records) };
    check(&reference(BASE, 2, 3), 23_764);
    check(&reference(HELP, 2, 3), 33_627);
    if is_long() {
        check(&Form { compare: Compare::OwnEnd, ..reference(BASE, 3, 2) }, 1_964_200);
    }
}

/// Goal: the same for the product's form, whose black flag has the worker's own end: plain, with the bound raised while
/// it waits for room, and with help, whatever a scan compares with. Method: two workers with three records, three with
/// one.
#[test]
fn every_interleaving_keeps_the_rules_in_the_products_form() {
    for steps in [BASE, RAISED, HELP] {
        for (workers, records, compare) in [(2, 3, Compare::Next), (2, 3, Compare::OwnEnd), (3, 1, Compare::OwnEnd)] {
            let form = Form { compare, ..Form::new(steps, workers, records) };
            let found = explore(&form);
            let Found::Good { states } = found else { panic!("{form:?}: {found:?}") };
            eprintln!("{workers} workers, {records} records, {compare:?}, {steps:?}: {states} states");
        }
    }
}

/// Goal: each rule can be broken, and the search finds it. Method: one change of the protocol at a time, and the rule
/// meant.
#[test]
fn mistakes_break_the_rule_that_was_meant() {
    let plain = Form::new(BASE, 2, 1);
    let steps = |steps| Form { steps, ..plain };
    let mistake = |mistake| Form { mistake: Some(mistake), ..plain };
    for (name, form, meant) in [
        ("published after white", steps(&[Black, Take, CopyIn, White, Publish]), "V1"),
        ("staged before published", steps(&[Black, Take, Stage, Publish, CopyIn, White]), "V1"),
        ("black after the position", steps(&[Take, Black, CopyIn, Publish, White]), "V1"),
        ("no black", steps(&[Take, CopyIn, Publish, White]), "V1"),
        ("copied after white", steps(&[Black, Take, Publish, White, CopyIn]), "H"),
        ("limit after the flags", mistake(Mistake::LimitAfterFlags), "V1"),
        ("acknowledged unseen", mistake(Mistake::AcknowledgedUnseen), "V3"),
        ("boundary stored", mistake(Mistake::BoundaryStored), "V3"),
    ] {
        match explore(&form) {
            Found::Broken { rule, path } => {
                assert_eq!(rule, meant, "{name}: {path:?}");
                eprintln!("{name}: {rule} after {path:?}");
            }
            found => panic!("{name} goes unnoticed: {found:?}"),
        }
    }
}

/// Goal: a worker that stops forever holds up acknowledgements where the page says so, and nowhere else. Method: worker
/// 0 stops before each of its steps; check whether the other can be acknowledged from every state
/// (`docs/design/commit-protocol.md` section 7).
#[test]
fn frozen_worker_holds_others_only_between_its_positions_and_the_end_of_black() {
    for (steps, blocking) in [(BASE, &[Take, CopyIn, Publish, White][..]), (HELP, &[Take, Publish, Stage])] {
        for step in steps.iter().copied().chain([Limit]) {
            let found = explore(&Form { frozen: Some(step), ..Form::new(steps, 2, 1) });
            let is_blocked = match found {
                Found::Good { .. } => false,
                Found::Blocked { .. } => true,
                Found::Broken { .. } => panic!("{step:?}: {found:?}"),
            };
            assert_eq!(is_blocked, blocking.contains(&step), "{steps:?}, frozen before {step:?}");
        }
    }
}
