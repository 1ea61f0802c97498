//! `Automaton`: a part of an expression as a machine that reads characters. It is made deterministic lazily, as far as
//! the texts need.
//!
//! # Invariants
//! - A1. A state holds the instructions that may follow a character. Conditions are not evaluated yet: they depend on
//!   the next character too. So a step takes the color of the next character, tells whether a match ends before it, and
//!   gives the state after it.
//! - A2. Learned steps depend only on the state and the color. Steps of an automaton with look-around are not learned.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use collie_base::Map;

use super::ast::{Ast, Condition, Times};
use super::colors::{Class, Colors};
use super::error::RegexError;
use super::search::Search;

/// Maximum number of instructions in all automata of an expression.
pub(super) const INSTRUCTIONS_MAX: usize = 50_000;
/// Maximum number of words of memory for the steps that the automata of an expression have learned.
const LEARNED_MAX: usize = 1 << 18;

/// Cost of an instruction, from the budget, in a step that is not known yet; a known step costs 1.
const COMPUTED_COST: usize = 16;

/// The data that all automata of an expression share.
pub(super) struct Shared {
    pub(super) colors: Colors,
    /// Instructions made so far.
    instructions: Cell<usize>,
    /// Words of memory that learned steps take.
    learned: Cell<usize>,
    /// Look-arounds by number; each is compiled with the first part that contains it.
    looks: RefCell<Map<usize, Rc<LookAround>>>,
}

impl Shared {
    pub(super) fn new(colors: Colors) -> Self {
        Self { colors, instructions: Cell::new(0), learned: Cell::new(0), looks: RefCell::default() }
    }

    /// Returns whether the automata have learned more than may be kept.
    pub(super) fn is_full(&self) -> bool {
        self.learned.get() > LEARNED_MAX
    }

    pub(super) fn look(&self, number: usize) -> Rc<LookAround> {
        Rc::clone(self.looks.borrow().get(&number).expect("made with the automaton that asks"))
    }

    /// Forgets the steps that the automata of look-arounds have learned.
    pub(super) fn forget(&self) {
        for look in self.looks.borrow().values() {
            look.automaton.forget(self);
        }
    }
}

/// A look-around, compiled.
#[derive(Debug)]
pub(super) struct LookAround {
    pub(super) is_ahead: bool,
    pub(super) is_wanted: bool,
    pub(super) automaton: Automaton,
}

#[derive(Clone, Copy, Debug)]
enum Instruction {
    /// Reads a character of a set.
    Set(usize, usize),
    /// Continues at either.
    Fork(usize, usize),
    Condition(Condition, usize),
    Look(usize, usize),
    Match,
}

/// A state: the class of the last character, and the instructions that may be next.
type Key = (Class, Rc<[usize]>);

#[derive(Debug, Default)]
struct Learned {
    states: Vec<Key>,
    numbers: Map<Key, usize>,
    /// Indexed by state and color.
    steps: Vec<Step>,
    words: usize,
}

/// The effect of reading a character, in one word: whether it is known, whether a match ends before the character,
/// whether no match is in progress after it, and the next state plus 1, or 0 if no match can follow.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Step(u32);

impl Step {
    const KNOWN: u32 = 1;
    const MATCH: u32 = 2;
    const IDLE: u32 = 4;
    const STATE_SHIFT: u32 = 3;

    fn new(is_match: bool, next: Option<(StateId, bool)>) -> Self {
        let mut word = Self::KNOWN;
        if is_match {
            word |= Self::MATCH;
        }
        if let Some((state, is_idle)) = next {
            word |= (state.0 + 1) << Self::STATE_SHIFT;
            if is_idle {
                word |= Self::IDLE;
            }
        }
        Self(word)
    }

    fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Returns whether a match ends before the character.
    pub(super) fn is_match(self) -> bool {
        self.0 & Self::MATCH != 0
    }

    /// Returns whether no match is in progress after the character: a match could only begin there or later.
    pub(super) fn is_idle(self) -> bool {
        self.0 & Self::IDLE != 0
    }

    /// Returns the state after the character; `None` if no match can follow.
    pub(super) fn next(self) -> Option<StateId> {
        (self.0 >> Self::STATE_SHIFT).checked_sub(1).map(StateId)
    }
}

/// A state of one automaton. It is valid until the automaton forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StateId(u32);

/// A machine that reads characters.
#[derive(Debug)]
pub(super) struct Automaton {
    instructions: Vec<Instruction>,
    start: usize,
    /// Whether a match may begin at every position.
    begins_anywhere: bool,
    has_looks: bool,
    has_conditions: bool,
    learned: RefCell<Learned>,
    /// Number of times that it forgot.
    forgot: Cell<u64>,
}

impl Automaton {
    /// Makes the automaton of a part.
    pub(super) fn new(ast: &Rc<Ast>, shared: &Shared, begins_anywhere: bool) -> Result<Self, RegexError> {
        let mut builder = Builder { instructions: Vec::new(), shared, has_looks: false, has_conditions: false };
        let end = builder.push(Instruction::Match)?;
        let first = builder.add(ast, end, false)?;
        // No instruction leads back here, so being only here means that no match is in progress.
        let start = builder.push(Instruction::Fork(first, first))?;
        let Builder { instructions, has_looks, has_conditions, .. } = builder;
        Ok(Self {
            instructions,
            start,
            begins_anywhere,
            has_looks,
            has_conditions,
            learned: RefCell::default(),
            forgot: Cell::new(0),
        })
    }

    /// Forgets the learned steps; its states become invalid.
    pub(super) fn forget(&self, shared: &Shared) {
        let mut learned = self.learned.borrow_mut();
        shared.learned.set(shared.learned.get() - learned.words);
        *learned = Learned::default();
        self.forgot.set(self.forgot.get() + 1);
    }

    /// Returns a number that changes whenever its states become invalid.
    pub(super) fn life(&self) -> u64 {
        self.forgot.get()
    }

    /// Returns the state before anything is read; `before` is the class of the preceding character.
    pub(super) fn initial(&self, shared: &Shared, before: Class) -> StateId {
        self.state(shared, before, vec![self.start])
    }

    fn state(&self, shared: &Shared, before: Class, instructions: Vec<usize>) -> StateId {
        let before = if self.has_conditions { before } else { Class::Other };
        let key = (before, Rc::from(instructions));
        let known = self.learned.borrow().numbers.get(&key).copied();
        let number = known.unwrap_or_else(|| self.add_state(shared, key));
        StateId(u32::try_from(number).expect("states are bounded"))
    }

    fn add_state(&self, shared: &Shared, key: Key) -> usize {
        if shared.is_full() {
            self.forget(shared);
        }
        let mut learned = self.learned.borrow_mut();
        let number = learned.states.len();
        let row = shared.colors.count() + 1;
        let words = 2 * row + 2 * key.1.len() + 16;
        learned.words += words;
        shared.learned.set(shared.learned.get() + words);
        learned.states.push(key.clone());
        learned.numbers.insert(key, number);
        learned.steps.resize((number + 1) * row, Step::default());
        number
    }

    /// Reads characters while their steps are known. `color` returns the color and the length of the character at a
    /// position. `read` gets each step with the position before the character and returns whether to continue. Returns
    /// the number of steps, with the state and position at which the step is not known; `None` if `read` stopped or no
    /// match can follow.
    pub(super) fn glide(
        &self,
        mut state: StateId,
        mut at: usize,
        row: usize,
        color: impl Fn(usize) -> (usize, usize),
        mut read: impl FnMut(Step, usize) -> bool,
    ) -> (usize, Option<(StateId, usize)>) {
        let learned = self.learned.borrow();
        let mut count = 0;
        loop {
            let (color, bytes) = color(at);
            let step = learned.steps[usize::try_from(state.0).expect("32 bits") * row + color];
            if !step.is_known() {
                return (count, Some((state, at)));
            }
            count += 1;
            if !read(step, at) {
                return (count, None);
            }
            let Some(next) = step.next() else { return (count, None) };
            (state, at) = (next, at + bytes);
        }
    }

    /// Reads a character of `color` at `at`, or the end of the text.
    pub(super) fn step(
        &self,
        state: StateId,
        color: usize,
        at: usize,
        search: &mut Search<'_, '_>,
    ) -> Result<Step, RegexError> {
        let shared = search.shared();
        let number = usize::try_from(state.0).expect("32 bits");
        let place = number * (shared.colors.count() + 1) + color;
        search.spend(1)?;
        let (before, kernel) = {
            let learned = self.learned.borrow();
            let step = learned.steps[place];
            if step.is_known() {
                return Ok(step);
            }
            learned.states[number].clone()
        };
        // The computation may forget all states, `state` included; then the step must not be stored.
        let life = self.life();
        let step = self.computed_step(&kernel, before, color, at, search)?;
        if !self.has_looks && life == self.life() {
            self.learned.borrow_mut().steps[place] = step;
        }
        Ok(step)
    }

    fn computed_step(
        &self,
        kernel: &[usize],
        before: Class,
        color: usize,
        at: usize,
        search: &mut Search<'_, '_>,
    ) -> Result<Step, RegexError> {
        let shared = search.shared();
        let colors = &shared.colors;
        let after = colors.class(color);
        let is_end = color == colors.count();
        let mut seen = vec![false; self.instructions.len()];
        let mut pending: Vec<usize> = kernel.to_vec();
        let (mut is_match, mut next) = (false, Vec::new());
        search.spend(COMPUTED_COST + self.instructions.len())?;
        // Each instruction is followed once, so repetitions of the empty text end.
        while let Some(at_instruction) = pending.pop() {
            if std::mem::replace(&mut seen[at_instruction], true) {
                continue;
            }
            search.spend(COMPUTED_COST)?;
            match self.instructions[at_instruction] {
                Instruction::Match => is_match = true,
                Instruction::Fork(first, second) => pending.extend([first, second]),
                Instruction::Condition(condition, then) => {
                    if holds(condition, before, after) {
                        pending.push(then);
                    }
                }
                Instruction::Look(number, then) => {
                    if search.looks(number, at)? {
                        pending.push(then);
                    }
                }
                Instruction::Set(set, then) => {
                    if !is_end && colors.holds(set, color) {
                        next.push(then);
                    }
                }
            }
        }
        if self.begins_anywhere && !is_end {
            next.push(self.start);
        }
        next.sort_unstable();
        next.dedup();
        let is_idle = next == [self.start];
        let next = (!next.is_empty()).then(|| (self.state(shared, after, next), is_idle));
        Ok(Step::new(is_match, next))
    }
}

fn holds(condition: Condition, before: Class, after: Class) -> bool {
    let (word_before, word_after) = (before == Class::Word, after == Class::Word);
    match condition {
        Condition::Start(of_line) => before == Class::Edge || of_line && before == Class::Newline,
        Condition::End(of_line) => after == Class::Edge || of_line && after == Class::Newline,
        Condition::WordStart => !word_before && word_after,
        Condition::WordEnd => word_before && !word_after,
        Condition::WordEdge => word_before != word_after,
        Condition::NoWordEdge => word_before == word_after,
    }
}

struct Builder<'s> {
    instructions: Vec<Instruction>,
    shared: &'s Shared,
    has_looks: bool,
    has_conditions: bool,
}

impl Builder<'_> {
    fn push(&mut self, instruction: Instruction) -> Result<usize, RegexError> {
        let made = self.shared.instructions.get() + 1;
        self.shared.instructions.set(made);
        if made > INSTRUCTIONS_MAX {
            return Err(RegexError::TooComplex);
        }
        self.instructions.push(instruction);
        Ok(self.instructions.len() - 1)
    }

    /// Adds a part that continues at `next`, and returns its first instruction. The replacement of a back-reference
    /// (`is_free`) has no conditions.
    fn add(&mut self, ast: &Rc<Ast>, next: usize, is_free: bool) -> Result<usize, RegexError> {
        match &**ast {
            Ast::Set(set) => self.push(Instruction::Set(*set, next)),
            Ast::Condition(_) | Ast::Look(_) if is_free => Ok(next),
            Ast::Condition(condition) => {
                self.has_conditions = true;
                self.push(Instruction::Condition(*condition, next))
            }
            Ast::Look(look) => {
                let is_made = self.shared.looks.borrow().contains_key(&look.number);
                if !is_made {
                    let automaton = Automaton::new(&look.inner, self.shared, !look.is_ahead)?;
                    let made = LookAround { is_ahead: look.is_ahead, is_wanted: look.is_wanted, automaton };
                    self.shared.looks.borrow_mut().insert(look.number, Rc::new(made));
                }
                self.has_looks = true;
                self.push(Instruction::Look(look.number, next))
            }
            Ast::Branch(items) => items.iter().rev().try_fold(next, |next, item| self.add(item, next, is_free)),
            Ast::Either(branches) => {
                let mut branches = branches.iter().rev();
                let last = branches.next().expect("two or more");
                let mut start = self.add(last, next, is_free)?;
                for branch in branches {
                    let first = self.add(branch, next, is_free)?;
                    start = self.push(Instruction::Fork(first, start))?;
                }
                Ok(start)
            }
            Ast::Group(_, inner) => self.add(inner, next, is_free),
            Ast::Back(_, group) => self.add(group, next, true),
            Ast::Repeat(atom, times, _) => self.repeat(atom, *times, next, is_free),
        }
    }

    fn repeat(&mut self, atom: &Rc<Ast>, times: Times, next: usize, is_free: bool) -> Result<usize, RegexError> {
        let mut start = next;
        match times.most {
            None => {
                start = self.push(Instruction::Fork(next, next))?;
                let body = self.add(atom, start, is_free)?;
                self.instructions[start] = Instruction::Fork(body, next);
            }
            Some(most) => {
                for _ in times.least..most {
                    let body = self.add(atom, start, is_free)?;
                    start = self.push(Instruction::Fork(body, next))?;
                }
            }
        }
        for _ in 0..times.least {
            start = self.add(atom, start, is_free)?;
        }
        Ok(start)
    }
}
