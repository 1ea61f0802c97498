//! `Search`: finds a match in one text and divides it among the parts.
//!
//! # Invariants
//! - S1. Every piece that a part gets matches its automaton; only back-references can refuse such a piece.

use std::cell::Cell;

use collie_base::Map;

use super::ast::{Preference, Times};
use super::automaton::{Automaton, Shared, StateId, Step};
use super::colors::Class;
use super::error::RegexError;
use super::parts::{Kind, Part};
use super::{Groups, Regex};

/// Steps that a search may take, fixed and per byte of its text: about a second.
const STEPS: usize = 128_000_000;
const STEPS_PER_BYTE: usize = 64;

/// A search in one text.
pub(super) struct Search<'r, 't> {
    regex: &'r Regex,
    text: &'t str,
    /// Steps left.
    budget: Cell<usize>,
    groups: Groups,
    /// Progress of the look-behinds: position, state, and the number that shows whether the state is valid (`life`).
    behind: Map<usize, (usize, StateId, u64)>,
}

impl Drop for Search<'_, '_> {
    fn drop(&mut self) {
        self.regex.forget_if_full();
    }
}

impl<'r, 't> Search<'r, 't> {
    pub(super) fn new(regex: &'r Regex, text: &'t str) -> Self {
        let budget = Cell::new(STEPS.saturating_add(text.len().saturating_mul(STEPS_PER_BYTE)));
        Self { regex, text, budget, groups: Vec::new(), behind: Map::default() }
    }

    pub(super) fn shared(&self) -> &'r Shared {
        &self.regex.shared
    }

    /// Takes steps from the budget.
    pub(super) fn spend(&self, steps: usize) -> Result<(), RegexError> {
        self.budget.set(self.budget.get().checked_sub(steps).ok_or(RegexError::TooManySteps)?);
        Ok(())
    }

    /// Returns the color and the length of the character at `at`; at the end of the text, the color of the end and 0.
    fn color(&self, at: usize) -> (usize, usize) {
        let colors = &self.shared().colors;
        match self.text.as_bytes().get(at) {
            None => (colors.count(), 0),
            Some(byte) if byte.is_ascii() => (usize::from(colors.of(char::from(*byte))), 1),
            Some(_) => {
                let c = self.text[at..].chars().next().expect("not at the end");
                (usize::from(colors.of(c)), c.len_utf8())
            }
        }
    }

    fn class_before(&self, at: usize) -> Class {
        match self.text[..at].chars().next_back() {
            None => Class::Edge,
            Some(c) => self.shared().colors.class(usize::from(self.shared().colors.of(c))),
        }
    }

    fn after(&self, at: usize) -> usize {
        at + self.color(at).1
    }

    fn before(&self, at: usize) -> usize {
        self.text.floor_char_boundary(at - 1)
    }

    fn chars(&self, from: usize, to: usize) -> usize {
        self.text[from..to].chars().count()
    }

    /// Reads from `start` on and passes each step to `read`, with the position before it, until `read` returns false or
    /// no match can follow.
    fn read(
        &mut self,
        automaton: &Automaton,
        start: usize,
        mut read: impl FnMut(Step, usize) -> bool,
    ) -> Result<(), RegexError> {
        let mut state = automaton.initial(self.shared(), self.class_before(start));
        let mut at = start;
        let row = self.shared().colors.count() + 1;
        loop {
            let (count, stopped) = automaton.glide(state, at, row, |at| self.color(at), &mut read);
            self.spend(count)?;
            let Some((before, place)) = stopped else { return Ok(()) };
            let (color, bytes) = self.color(place);
            let step = automaton.step(before, color, place, self)?;
            if !read(step, place) {
                return Ok(());
            }
            let Some(next) = step.next() else { return Ok(()) };
            (state, at) = (next, place + bytes);
        }
    }

    /// Returns the end of the longest match that begins at `start` and ends at or before `stop`.
    fn longest(&mut self, automaton: &Automaton, start: usize, stop: usize) -> Result<Option<usize>, RegexError> {
        let mut found = None;
        self.read(automaton, start, |step, at| {
            if step.is_match() {
                found = Some(at);
            }
            at < stop
        })?;
        Ok(found)
    }

    /// Returns the end of the shortest match that begins at `start` and ends between `least` and `stop`.
    fn shortest(
        &mut self,
        automaton: &Automaton,
        start: usize,
        least: usize,
        stop: usize,
    ) -> Result<Option<usize>, RegexError> {
        let mut found = None;
        self.read(automaton, start, |step, at| {
            if step.is_match() && at >= least {
                found = Some(at);
            }
            found.is_none() && at < stop
        })?;
        Ok(found)
    }

    /// Returns whether a look-around allows the text at `at`.
    pub(super) fn looks(&mut self, number: usize, at: usize) -> Result<bool, RegexError> {
        let look = self.shared().look(number);
        let automaton = &look.automaton;
        let found = if look.is_ahead {
            self.shortest(automaton, at, at, self.text.len())?.is_some()
        } else {
            self.ends_behind(number, automaton, at)?
        };
        Ok(found == look.is_wanted)
    }

    /// Returns whether a match that begins anywhere ends at `at`. Continues from the position of the last call, unless
    /// that is further right.
    fn ends_behind(&mut self, number: usize, automaton: &Automaton, at: usize) -> Result<bool, RegexError> {
        let known = self.behind.get(&number).filter(|(read, _, life)| *read <= at && *life == automaton.life());
        let (mut read, mut state) = match known {
            Some((read, state, _)) => (*read, *state),
            None => (0, automaton.initial(self.shared(), Class::Edge)),
        };
        loop {
            if read == at {
                self.behind.insert(number, (read, state, automaton.life()));
            }
            let (color, bytes) = self.color(read);
            let step = automaton.step(state, color, read, self)?;
            match step.next() {
                _ if read == at => return Ok(step.is_match()),
                Some(next) => (state, read) = (next, read + bytes),
                None => return Ok(false),
            }
        }
    }

    /// Finds the first end of any match that begins at or after `from`. Returns a position before which no match
    /// begins, and that end.
    pub(super) fn scan(&mut self, from: usize) -> Result<Option<(usize, usize)>, RegexError> {
        let regex = self.regex;
        let (mut idle, mut was_idle) = (from, true);
        let (mut found, end) = (None, self.text.len());
        self.read(&regex.scan, from, |step, at| {
            if was_idle {
                idle = at;
            }
            was_idle = step.is_idle();
            if step.is_match() {
                found = Some((idle, at));
            }
            found.is_none() && at < end
        })?;
        Ok(found)
    }

    /// Finds the first match that begins at or after `from`.
    pub(super) fn find(&mut self, from: usize, with_groups: bool) -> Result<Option<Groups>, RegexError> {
        let mut from = from;
        while let Some((first, last)) = self.scan(from)? {
            let mut begin = first;
            loop {
                if let Some(end) = self.match_from(begin, with_groups)? {
                    self.groups[0] = Some((begin, end));
                    return Ok(Some(std::mem::take(&mut self.groups)));
                }
                if begin >= last {
                    break;
                }
                begin = self.after(begin);
            }
            // Only back-references can have refused all of them.
            if last == self.text.len() {
                break;
            }
            from = self.after(last);
        }
        Ok(None)
    }

    /// Returns the end of the match that begins at `begin`, and records its groups.
    fn match_from(&mut self, begin: usize, with_groups: bool) -> Result<Option<usize>, RegexError> {
        let regex = self.regex;
        let top = &regex.top;
        let automaton = top.automaton(self.shared())?;
        let prefers_shortest = top.traits.preference == Some(Preference::Shortest);
        let (mut least, mut most) = (begin, self.text.len());
        loop {
            let end = match prefers_shortest {
                true => self.shortest(automaton, begin, least, most)?,
                false => self.longest(automaton, begin, most)?,
            };
            let Some(end) = end else { return Ok(None) };
            self.groups = vec![None; regex.groups + 1];
            let is_divided = with_groups && regex.groups > 0 || regex.has_back_references;
            if !is_divided || self.divide(top, begin, end)? {
                return Ok(Some(end));
            }
            match prefers_shortest {
                true if end < self.text.len() => least = self.after(end),
                false if end > begin => most = self.before(end),
                _ => return Ok(None),
            }
        }
    }

    fn fits(&mut self, part: &Part, from: usize, to: usize) -> Result<bool, RegexError> {
        let automaton = part.automaton(self.shared())?;
        Ok(self.longest(automaton, from, to)? == Some(to))
    }

    /// Divides a piece that matches a part's automaton among the parts below; `false` if a back-reference refuses it.
    fn divide(&mut self, part: &Part, from: usize, to: usize) -> Result<bool, RegexError> {
        self.spend(1)?;
        let is_divided = match &part.kind {
            Kind::Plain => true,
            Kind::Back(number, times) => self.repeats_group(*number, *times, from, to)?,
            Kind::Sequence(left, right) => self.divide_in_two(left, right, from, to)?,
            Kind::Either(parts) => {
                let mut is_divided = false;
                for part in parts {
                    if self.fits(part, from, to)? && self.divide(part, from, to)? {
                        is_divided = true;
                        break;
                    }
                }
                is_divided
            }
            Kind::Repeat(part, times) => {
                // An empty piece counts as one repetition, not as none, if the part prefers the longest match.
                let may_be_none = times.least == 0 && from == to;
                let prefers_shortest = part.traits.preference == Some(Preference::Shortest);
                let is_divided = may_be_none && prefers_shortest || self.divide_repeats(part, *times, from, to)?;
                if !is_divided {
                    self.clear(part);
                }
                is_divided || may_be_none
            }
        };
        if is_divided {
            for group in &part.groups {
                self.groups[*group] = Some((from, to));
            }
        }
        Ok(is_divided)
    }

    /// Clears the groups of a part.
    fn clear(&mut self, part: &Part) {
        for group in &part.groups {
            self.groups[*group] = None;
        }
        match &part.kind {
            Kind::Plain | Kind::Back(..) => {}
            Kind::Sequence(left, right) => [left, right].into_iter().for_each(|part| self.clear(part)),
            Kind::Either(parts) => parts.iter().for_each(|part| self.clear(part)),
            Kind::Repeat(part, _) => self.clear(part),
        }
    }

    fn divide_in_two(&mut self, left: &Part, right: &Part, from: usize, to: usize) -> Result<bool, RegexError> {
        let automaton = left.automaton(self.shared())?;
        let prefers_shortest = left.traits.preference == Some(Preference::Shortest);
        let mut middle = match prefers_shortest {
            true => self.shortest(automaton, from, from, to)?,
            false => self.longest(automaton, from, to)?,
        };
        while let Some(at) = middle {
            if self.fits(right, at, to)? && self.divide(left, from, at)? && self.divide(right, at, to)? {
                return Ok(true);
            }
            self.clear(left);
            self.clear(right);
            middle = match prefers_shortest {
                true if at < to => self.shortest(automaton, from, self.after(at), to)?,
                false if at > from => self.longest(automaton, from, self.before(at))?,
                _ => None,
            };
        }
        Ok(false)
    }

    /// Returns whether a piece is the text of a group, repeated as `times` says.
    fn repeats_group(&mut self, number: usize, times: Times, from: usize, to: usize) -> Result<bool, RegexError> {
        let Some((group_from, group_to)) = self.groups[number] else { return Ok(false) };
        let (group, piece) = (&self.text[group_from..group_to], &self.text[from..to]);
        if group.is_empty() {
            return Ok(piece.is_empty());
        }
        if piece.is_empty() {
            return Ok(times.least == 0);
        }
        // Both cases of a letter have the same number of bytes.
        let count = piece.len() / group.len();
        if piece.len() % group.len() != 0
            || count < usize::from(times.least)
            || times.most.is_some_and(|most| count > usize::from(most))
        {
            return Ok(false);
        }
        self.spend(piece.len() / 8)?;
        let same = |a: &[u8], b: &[u8]| if self.regex.folds { a.eq_ignore_ascii_case(b) } else { a == b };
        Ok(piece.as_bytes().chunks(group.len()).all(|chunk| same(chunk, group.as_bytes())))
    }

    /// Divides a piece among the repetitions of a part, each as long or as short as the part prefers.
    ///
    /// `ends` holds the ends of the repetitions so far; they are changed from the last one backwards until all fit.
    fn divide_repeats(&mut self, part: &Part, times: Times, from: usize, to: usize) -> Result<bool, RegexError> {
        let prefers_shortest = part.traits.preference == Some(Preference::Shortest);
        let automaton = part.automaton(self.shared())?;
        let length = self.chars(from, to);
        let least = usize::from(times.least).max(1);
        let most = times.most.map_or(length, |most| length.min(usize::from(most))).max(least);
        // A repetition may be empty only if at least as many of them are still required as characters are left.
        let may_be_empty =
            |search: &Self, count: usize, end: usize| count < least && least - count >= search.chars(end, to);
        let mut ends = vec![from];
        let mut verified = 0;
        // The latest end of the next repetition, or its earliest if the part prefers the shortest match.
        let mut limit = if prefers_shortest { from } else { to };
        loop {
            let start = *ends.last().expect("the start is never taken away");
            let count = ends.len();
            let found = if prefers_shortest {
                if limit == start && limit != to && !may_be_empty(self, count, limit) {
                    limit = self.after(limit);
                }
                if count >= most {
                    limit = to;
                }
                self.shortest(automaton, start, limit, to)?
            } else {
                self.longest(automaton, start, limit)?
            };
            if let Some(end) = found {
                verified = verified.min(count - 1);
                ends.push(end);
                let is_idle = !prefers_shortest && end == start && !may_be_empty(self, count, end);
                if end != to && count < most && !is_idle {
                    limit = if prefers_shortest { end } else { to };
                    continue;
                }
                if end != to && count >= most {
                    // The last allowed repetition ends too early: an earlier one has to change.
                    ends.pop();
                } else if end == to && count >= least {
                    let mut refused = None;
                    for at in verified + 1..=count {
                        self.clear(part);
                        if !self.divide(part, ends[at - 1], ends[at])? {
                            refused = Some(at);
                            break;
                        }
                        verified = at;
                    }
                    match refused {
                        None => return Ok(true),
                        Some(at) => ends.truncate(at + 1),
                    }
                }
            }
            // Changes the last repetition that can be changed.
            loop {
                let Some(count) = ends.len().checked_sub(1).filter(|count| *count > 0) else { return Ok(false) };
                let (start, end) = (ends[count - 1], ends[count]);
                ends.pop();
                self.spend(1)?;
                if prefers_shortest {
                    if end < to {
                        limit = self.after(end);
                        break;
                    }
                } else if end > start {
                    limit = self.before(end);
                    if limit > start || may_be_empty(self, count, start) {
                        break;
                    }
                }
            }
        }
    }
}
