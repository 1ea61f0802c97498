//! `Colors`: characters that are in the same sets of an expression share a color, so that automata step by colors.
//!
//! # Invariants
//! - C1. All characters of a color are in the same sets; either all are newlines, or all are word characters, or none
//!   is either.

use collie_base::Map;

use super::charset::{CharSet, word_set};
use super::error::RegexError;

/// Maximum number of colors of an expression.
const COLORS_MAX: usize = 8_192;
/// Maximum number of pairs of a set and an interval of characters that are visited to find the colors.
const MEMBERS_MAX: usize = 4 << 20;

/// The class of a character next to a position, for `^`, `$` and the conditions on words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Class {
    /// No character: the start or the end of the text.
    Edge,
    Newline,
    Word,
    Other,
}

/// The color of each character, and the sets of each color.
pub(super) struct Colors {
    /// Colors of the characters 0 to 127.
    ascii: [u16; 128],
    /// First characters of intervals with their colors, sorted.
    intervals: Vec<(u32, u16)>,
    /// Class of each color.
    classes: Vec<Class>,
    /// The colors that are in each set, one bit per color.
    members: Vec<Vec<u64>>,
}

impl Colors {
    /// Computes the colors of an expression with these sets.
    pub(super) fn new(sets: &[CharSet]) -> Result<Self, RegexError> {
        let newline = CharSet::one(u32::from('\n'));
        let all = || sets.iter().chain([&newline]);
        let word = word_set();
        let mut firsts = vec![0];
        for (first, last) in all().chain([&word]).flat_map(|set| set.ranges()) {
            firsts.extend([*first, last + 1]);
        }
        firsts.sort_unstable();
        firsts.dedup();
        // The numbers of the sets that contain each interval; the last two are newline and word.
        let mut held: Vec<Vec<u32>> = vec![Vec::new(); firsts.len()];
        let mut members = 0;
        for (number, set) in all().chain([&word]).enumerate() {
            let number = u32::try_from(number).map_err(|_| RegexError::TooComplex)?;
            for (first, last) in set.ranges() {
                let from = firsts.partition_point(|at| at < first);
                let to = firsts.partition_point(|at| at <= last);
                members += to - from;
                if members > MEMBERS_MAX {
                    return Err(RegexError::TooComplex);
                }
                held[from..to].iter_mut().for_each(|sets| sets.push(number));
            }
        }
        let mut colors: Map<Vec<u32>, u16> = Map::default();
        let mut intervals: Vec<(u32, u16)> = Vec::with_capacity(firsts.len());
        for (first, sets) in firsts.iter().zip(held) {
            let next = u16::try_from(colors.len()).ok().filter(|next| usize::from(*next) < COLORS_MAX);
            let color = match colors.get(&sets) {
                Some(color) => *color,
                None => {
                    let next = next.ok_or(RegexError::TooComplex)?;
                    colors.insert(sets, next);
                    next
                }
            };
            intervals.push((*first, color));
        }
        let mut classes = vec![Class::Other; colors.len()];
        let mut bits = vec![vec![0_u64; colors.len().div_ceil(64)]; sets.len()];
        for (holders, color) in &colors {
            let color = usize::from(*color);
            for holder in holders {
                let holder = usize::try_from(*holder).expect("below the number of sets");
                match holder.checked_sub(sets.len()) {
                    None => bits[holder][color / 64] |= 1 << (color % 64),
                    Some(0) => classes[color] = Class::Newline,
                    Some(_) => classes[color] = Class::Word,
                }
            }
        }
        let mut found = Self { ascii: [0; 128], intervals, classes, members: bits };
        for c in 0..128_u8 {
            found.ascii[usize::from(c)] = found.of_any(u32::from(c));
        }
        Ok(found)
    }

    fn of_any(&self, c: u32) -> u16 {
        let after = self.intervals.partition_point(|(first, _)| *first <= c);
        self.intervals[after - 1].1
    }

    /// Returns the color of a character.
    pub(super) fn of(&self, c: char) -> u16 {
        match self.ascii.get(usize::try_from(u32::from(c)).expect("21 bits")) {
            Some(color) => *color,
            None => self.of_any(u32::from(c)),
        }
    }

    /// Returns the number of colors, which as a color stands for the end of the text.
    pub(super) fn count(&self) -> usize {
        self.classes.len()
    }

    /// Returns the class of a color, or of the end of the text.
    pub(super) fn class(&self, color: usize) -> Class {
        self.classes.get(color).copied().unwrap_or(Class::Edge)
    }

    /// Returns whether the characters of a color are in a set.
    pub(super) fn holds(&self, set: usize, color: usize) -> bool {
        self.members[set][color / 64] & (1 << (color % 64)) != 0
    }
}
