//! `Part`: an expression, split where a piece of the match has to be found separately: at groups, back-references and
//! changes of preference. Everything between those is one part, however long it is.
//!
//! # Invariants
//! - P1. A part's automaton matches its children one after another, or any one of them, as its kind says.
//! - P2. A part has the preference of its first quantified atom that has one; with alternatives it prefers the longest
//!   match.

use std::cell::OnceCell;
use std::rc::Rc;

use super::ast::{Ast, Preference, Times};
use super::automaton::{Automaton, Shared};
use super::error::RegexError;
use super::parse::DEPTH_MAX;

/// The preference of a part, and properties of its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Traits {
    pub(super) preference: Option<Preference>,
    /// Whether parts of it have different preferences.
    mixed: bool,
    captures: bool,
    refers_back: bool,
}

impl Traits {
    fn preferring(preference: Option<Preference>) -> Self {
        Self { preference, ..Self::default() }
    }

    /// Returns whether its pieces have to be found one by one.
    fn is_composed(self) -> bool {
        self.mixed || self.captures || self.refers_back
    }

    /// Returns the traits of two parts one after the other; the preference of the first one counts first.
    fn then(self, next: Self) -> Self {
        let differs = matches!((self.preference, next.preference), (Some(a), Some(b)) if a != b);
        Self {
            preference: self.preference.or(next.preference),
            mixed: self.mixed || next.mixed || differs,
            captures: self.captures || next.captures,
            refers_back: self.refers_back || next.refers_back,
        }
    }
}

/// The division of a part.
#[derive(Debug)]
pub(super) enum Kind {
    /// Not divided.
    Plain,
    /// The text that a group matched, repeated.
    Back(usize, Times),
    /// Two parts, one after the other.
    Sequence(Rc<Part>, Rc<Part>),
    /// The first of these parts that fits.
    Either(Vec<Rc<Part>>),
    /// Repetitions of a part.
    Repeat(Rc<Part>, Times),
}

/// A part of an expression.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) ast: Rc<Ast>,
    pub(super) kind: Kind,
    pub(super) traits: Traits,
    /// The groups that match this part's piece.
    pub(super) groups: Vec<usize>,
    /// Made on first use.
    automaton: OnceCell<Automaton>,
}

impl Part {
    fn new(ast: Rc<Ast>, kind: Kind, traits: Traits) -> Self {
        Self { ast, kind, traits, groups: Vec::new(), automaton: OnceCell::new() }
    }

    /// Returns its automaton.
    pub(super) fn automaton(&self, shared: &Shared) -> Result<&Automaton, RegexError> {
        if let Some(made) = self.automaton.get() {
            return Ok(made);
        }
        let made = Automaton::new(&self.ast, shared, false)?;
        Ok(self.automaton.get_or_init(|| made))
    }

    /// Forgets the steps that the automata of this part and of all parts below it have learned.
    pub(super) fn forget(&self, shared: &Shared) {
        if let Some(automaton) = self.automaton.get() {
            automaton.forget(shared);
        }
        match &self.kind {
            Kind::Plain | Kind::Back(..) => {}
            Kind::Sequence(left, right) => [left, right].into_iter().for_each(|part| part.forget(shared)),
            Kind::Either(parts) => parts.iter().for_each(|part| part.forget(shared)),
            Kind::Repeat(part, _) => part.forget(shared),
        }
    }
}

/// Splits an expression into parts.
pub(super) fn parts(ast: &Rc<Ast>, depth: usize) -> Result<Part, RegexError> {
    match &**ast {
        Ast::Either(branches) => {
            let parts = branches.iter().map(|branch| parts(branch, depth + 1).map(Rc::new));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            let greedy = Traits::preferring(Some(Preference::Longest));
            let traits = parts.iter().fold(greedy, |traits, part| traits.then(part.traits));
            let kind = if traits.is_composed() { Kind::Either(parts) } else { Kind::Plain };
            Ok(Part::new(Rc::clone(ast), kind, traits))
        }
        Ast::Branch(items) => branch(items, ast, depth),
        _ => Ok(Part::new(Rc::clone(ast), Kind::Plain, Traits::default())),
    }
}

/// Splits an atom, without its quantifier, into parts.
fn atom(ast: &Rc<Ast>, depth: usize) -> Result<Part, RegexError> {
    match &**ast {
        Ast::Group(number, inner) => {
            let mut part = parts(inner, depth)?;
            part.traits.captures = true;
            part.groups.push(*number);
            Ok(part)
        }
        Ast::Back(number, _) => {
            let traits = Traits { refers_back: true, ..Traits::default() };
            Ok(Part::new(Rc::clone(ast), Kind::Back(*number, Times::ONCE), traits))
        }
        _ => parts(ast, depth),
    }
}

/// Returns an item's atom, its number of repetitions and its preference.
fn unquantified(item: &Rc<Ast>) -> (&Rc<Ast>, Times, Option<Preference>) {
    match &**item {
        Ast::Repeat(atom, times, preference) => (atom, *times, *preference),
        _ => (item, Times::ONCE, None),
    }
}

fn branch(items: &[Rc<Ast>], ast: &Rc<Ast>, depth: usize) -> Result<Part, RegexError> {
    if depth > 2 * DEPTH_MAX {
        return Err(RegexError::TooComplex);
    }
    // Traits of the items passed so far, which are one part.
    let mut traits = Traits::default();
    for (at, item) in items.iter().enumerate() {
        let (inner, times, preference) = unquantified(item);
        if matches!(**inner, Ast::Condition(_) | Ast::Look(_)) || times.most == Some(0) {
            continue;
        }
        let part = atom(inner, depth + 1)?;
        let atom_traits = Traits::preferring(preference).then(part.traits);
        let is_told = matches!(**inner, Ast::Group(..) | Ast::Back(..));
        if !is_told && !traits.then(atom_traits).is_composed() {
            traits = traits.then(atom_traits);
            continue;
        }
        let quantified = quantified(item, part, atom_traits);
        return sequence(items, ast, at, traits, quantified, atom_traits, depth);
    }
    Ok(Part::new(Rc::clone(ast), Kind::Plain, traits))
}

/// Joins the items before item `at` (whose traits are `before`), that item, and the items after it.
fn sequence(
    items: &[Rc<Ast>],
    ast: &Rc<Ast>,
    at: usize,
    before: Traits,
    quantified: Part,
    atom_traits: Traits,
    depth: usize,
) -> Result<Part, RegexError> {
    let of_items = |items: &[Rc<Ast>]| Rc::new(Ast::Branch(items.to_vec()));
    let (prefix, rest) = (&items[..at], &items[at + 1..]);
    let prefix_part = || Rc::new(Part::new(of_items(prefix), Kind::Plain, before));
    if rest.is_empty() {
        if prefix.is_empty() {
            return Ok(quantified);
        }
        let traits = before.then(quantified.traits);
        return Ok(Part::new(Rc::clone(ast), Kind::Sequence(prefix_part(), Rc::new(quantified)), traits));
    }
    let rest = branch(rest, &of_items(rest), depth + 1)?;
    let tail_traits = atom_traits.then(rest.traits);
    let traits = before.then(tail_traits);
    if prefix.is_empty() {
        return Ok(Part::new(Rc::clone(ast), Kind::Sequence(Rc::new(quantified), Rc::new(rest)), traits));
    }
    let is_plain = |part: &Part| matches!(part.kind, Kind::Plain) && part.groups.is_empty();
    let joined = quantified.traits.then(rest.traits);
    let tail = if is_plain(&quantified) && is_plain(&rest) && !joined.is_composed() {
        // Only its preference separated it from the items before it.
        Part::new(of_items(&items[at..]), Kind::Plain, joined)
    } else {
        Part::new(of_items(&items[at..]), Kind::Sequence(Rc::new(quantified), Rc::new(rest)), tail_traits)
    };
    Ok(Part::new(Rc::clone(ast), Kind::Sequence(prefix_part(), Rc::new(tail)), traits))
}

/// Adds the quantifier to an atom's part; `traits` are those of both.
fn quantified(item: &Rc<Ast>, part: Part, traits: Traits) -> Part {
    let (inner, times, preference) = unquantified(item);
    if let (Ast::Back(..), Kind::Back(number, _)) = (&**inner, &part.kind) {
        return Part::new(Rc::clone(item), Kind::Back(*number, times), traits);
    }
    let of_atom = part.traits;
    let is_vacuous = times == Times::ONCE
        && (preference.is_none()
            || (of_atom.preference.is_none() && !of_atom.mixed)
            || (preference == of_atom.preference && !of_atom.mixed));
    if is_vacuous {
        return part;
    }
    if !of_atom.captures && !of_atom.refers_back {
        // The positions of its repetitions are not needed.
        return Part::new(Rc::clone(item), Kind::Plain, traits);
    }
    if times.least > 0 && !of_atom.refers_back {
        // Only the last repetition counts for groups, so those before it are one part.
        let before = Times { least: times.least - 1, most: times.most.map(|most| most - 1) };
        let before = Rc::new(Ast::Repeat(Rc::clone(inner), before, preference));
        let before = Part::new(before, Kind::Plain, Traits::preferring(traits.preference));
        return Part::new(Rc::clone(item), Kind::Sequence(Rc::new(before), Rc::new(part)), traits);
    }
    Part::new(Rc::clone(item), Kind::Repeat(Rc::new(part), times), traits)
}
