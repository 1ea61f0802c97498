//! `CharSet`: a set of characters as sorted ranges.

use super::error::RegexError;

/// The largest character.
const LAST: u32 = 0x0010_FFFF;

/// Ranges of characters, both ends included. Once normalized, they are sorted and neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CharSet(Vec<(u32, u32)>);

/// Returns whether an ASCII character belongs to a class.
type Holds = fn(u8) -> bool;

/// The named classes of characters.
const CLASSES: [(&str, Holds); 14] = [
    ("alnum", |byte| byte.is_ascii_alphanumeric()),
    ("alpha", |byte| byte.is_ascii_alphabetic()),
    ("ascii", |_| true),
    ("blank", |byte| matches!(byte, b' ' | b'\t')),
    ("cntrl", |byte| byte.is_ascii_control()),
    ("digit", |byte| byte.is_ascii_digit()),
    ("graph", |byte| byte.is_ascii_graphic()),
    ("lower", |byte| byte.is_ascii_lowercase()),
    ("print", |byte| byte.is_ascii_graphic() || byte == b' '),
    ("punct", |byte| byte.is_ascii_punctuation()),
    ("space", |byte| matches!(byte, b' ' | b'\t'..=b'\r')),
    ("upper", |byte| byte.is_ascii_uppercase()),
    ("word", |byte| byte.is_ascii_alphanumeric() || byte == b'_'),
    ("xdigit", |byte| byte.is_ascii_hexdigit()),
];

impl CharSet {
    pub(super) fn one(c: u32) -> Self {
        Self(vec![(c, c)])
    }

    /// Adds a range.
    pub(super) fn add(&mut self, first: u32, last: u32) {
        self.0.push((first, last));
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    /// Adds a class by its name. If case is folded, the classes of one case mean all letters.
    pub(super) fn add_class(&mut self, name: &str, fold: bool) -> Result<(), RegexError> {
        let name = if fold && matches!(name, "lower" | "upper") { "alpha" } else { name };
        let (_, holds) = CLASSES.iter().find(|(class, _)| *class == name).ok_or(RegexError::CharacterClass)?;
        self.0.extend((0..128_u8).filter(|byte| holds(*byte)).map(|byte| (u32::from(byte), u32::from(byte))));
        Ok(())
    }

    /// Adds the other case of each letter.
    pub(super) fn fold(&mut self) {
        let ranges = self.0.len();
        for at in 0..ranges {
            let (first, last) = self.0[at];
            for (letters, other) in [('a', 'A'), ('A', 'a')] {
                let (low, other) = (u32::from(letters), u32::from(other));
                let (from, to) = (first.max(low), last.min(low + 25));
                if from <= to {
                    self.0.push((from - low + other, to - low + other));
                }
            }
        }
    }

    /// Sorts the ranges and merges those that touch or overlap.
    pub(super) fn normalize(&mut self) {
        self.0.sort_unstable();
        let mut joined: Vec<(u32, u32)> = Vec::with_capacity(self.0.len());
        for &(first, last) in &self.0 {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => before.1 = before.1.max(last),
                _ => joined.push((first, last)),
            }
        }
        self.0 = joined;
    }

    /// Returns all other characters. The set must be normalized.
    pub(super) fn complement(&self) -> Self {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        let mut next = 0;
        for &(first, last) in &self.0 {
            if first > next {
                out.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            out.push((next, LAST));
        }
        Self(out)
    }

    /// Removes a character. The set must be normalized.
    pub(super) fn remove(&mut self, c: u32) {
        let mut out = Vec::with_capacity(self.0.len() + 1);
        for &(first, last) in &self.0 {
            if (first..=last).contains(&c) {
                out.extend((first < c).then(|| (first, c - 1)));
                out.extend((c < last).then(|| (c + 1, last)));
            } else {
                out.push((first, last));
            }
        }
        self.0 = out;
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }
}

/// Returns the set of characters that words consist of.
pub(super) fn word_set() -> CharSet {
    let mut set = CharSet::default();
    set.add_class("word", false).expect("a class of the table");
    set.normalize();
    set
}
