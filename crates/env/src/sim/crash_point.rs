//! `CrashPoint`: a moment at which the power may fail, and every state that the disk may be in afterwards.
//!
//! # The model
//! A power cut keeps all synced data. It decides each of the following independently:
//! - M1. A 512-byte sector holds its durable content or the content after any write since then: writes reach the
//!   medium in any order, and a write of several sectors may arrive in part.
//! - M2. A sector may be torn: its first bytes come from a write and the others are durable, or the other way
//!   round.
//! - M3. A file has its durable length or any length that it had since; bytes within that length of which nothing
//!   was kept read as zeros.
//! - M4. A created or removed name exists or not, in any combination. A rename is undone, done, or has made the new
//!   name without removing the old one, but it never loses both. A directory is at its old name or at its new one,
//!   with its content.
//!
//! A decision is a *choice*, its outcomes are numbered from 0 (durable) up, and one outcome for each choice is a
//! [`Picks`]. Outcomes that give the same bytes are one outcome, so that no state is counted twice.
//!
//! # Which states are visited
//! Visits all states while there are at most [`Limits::exhaustive`]. Beyond that it visits these: nothing kept; all
//! kept; each choice alone kept and alone lost; cuts of the write order (the first k writes kept, or the last k);
//! each file alone; subsets of the sectors of one block with the others kept or lost; then [`Limits::sampled`]
//! states drawn by seed, torn sectors (M2) among them. No list contains a state twice.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    path::Path,
    sync::Arc,
};

use collie_base::Set;

use crate::{
    random::{Random, SimRandom},
    sim::blocks::{Block, Blocks, SECTOR, SECTORS, sector_of},
    sim::disk::{Disk, Inode, NameChange, Names, Version, moved, put_sector},
    sim::files::SimFiles,
};

/// How many states of one crash point are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// With at most this many possible states, all are visited.
    pub exhaustive: u64,
    /// Number of states drawn at random in addition to the structured ones when there are more than `exhaustive`.
    pub sampled: u32,
    /// Bounds the choices, cuts and files from which structured states are made; a larger set is sampled at random.
    pub structured: u32,
}

impl Default for Limits {
    /// Returns 4096 (twelve sectors), 64 and 64.
    fn default() -> Self {
        Self { exhaustive: 1 << 12, sampled: 64, structured: 64 }
    }
}

/// An outcome for each choice of a crash point: one state of the disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Picks(Vec<u8>);

/// One thing that a power cut decides.
#[derive(Clone, Debug)]
enum What {
    /// A change of names, by its index among the unsynced ones.
    Name(usize),
    /// A file's length: the durable one, or one of these.
    Length(u64, Vec<usize>),
    /// A sector: its durable content, or that of one of these blocks.
    Sector { inode: u64, block: usize, sector: usize, versions: Vec<Block> },
}

#[derive(Clone, Debug)]
struct Choice {
    what: What,
    /// Number of outcomes, 2 or more, without torn ones.
    outcomes: u8,
    /// Place in the order of all writes. A change of names counts as the last write to the disk, a length as the
    /// newest unsynced write to its file.
    order: u64,
}

impl Choice {
    /// Returns the file that the choice is about; `None` for a change of names.
    fn file(&self) -> Option<u64> {
        match self.what {
            What::Name(_) => None,
            What::Length(inode, _) | What::Sector { inode, .. } => Some(inode),
        }
    }

    fn block(&self) -> Option<(u64, usize)> {
        match self.what {
            What::Sector { inode, block, .. } => Some((inode, block)),
            _ => None,
        }
    }

    /// Returns the newest outcome.
    fn newest(&self) -> u8 {
        self.outcomes - 1
    }
}

/// A moment at which the power may fail; see the module documentation. Cheap to keep: it shares all content with
/// the disk.
#[derive(Clone, Debug)]
pub struct CrashPoint {
    disk: Disk,
    choices: Vec<Choice>,
    calls: u64,
}

impl CrashPoint {
    /// Freezes a disk after its `calls`-th call.
    pub(crate) fn new(disk: &Disk, calls: u64) -> Self {
        let mut disk = disk.clone();
        (disk.locks, disk.lock_readers) = (Set::default(), collie_base::Map::default());
        let mut choices = Vec::new();
        let named: BTreeSet<u64> =
            disk.durable_names.values().copied().chain(disk.changes.iter().filter_map(NameChange::inode)).collect();
        for (at, change) in disk.changes.iter().enumerate() {
            let outcomes = if matches!(change, NameChange::Rename(..)) { 3 } else { 2 };
            choices.push(Choice { what: What::Name(at), outcomes, order: disk.writes });
        }
        for number in named {
            if let Some(inode) = disk.inodes.get(&number).filter(|inode| inode.is_unsynced()) {
                choices_of(number, inode, &mut choices);
            }
        }
        Self { disk, choices, calls }
    }

    /// Returns the number of changing calls before this point.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the number of states without torn sectors, or `None` above 2^63.
    pub fn state_count(&self) -> Option<u64> {
        let product = self.choices.iter().try_fold(1_u64, |all, choice| all.checked_mul(u64::from(choice.outcomes)));
        product.filter(|count| *count <= 1 << 63)
    }

    /// Lists the states to visit, each once; `seed` selects them when there are too many to visit all.
    pub fn states(&self, limits: Limits, seed: u64) -> Vec<Picks> {
        if let Some(count) = self.state_count().filter(|count| *count <= limits.exhaustive) {
            return (0..count).map(|number| self.numbered(number)).collect();
        }
        let mut visit = Visit { point: self, seen: Set::default(), list: Vec::new(), random: SimRandom::new(seed) };
        visit.structured(usize::try_from(limits.structured).unwrap_or(usize::MAX));
        let wanted = visit.list.len() + usize::try_from(limits.sampled).unwrap_or(usize::MAX);
        // Draws may repeat a listed state; the bound on tries ends the list early instead of never.
        for _ in 0..4 * u64::from(limits.sampled) {
            if visit.list.len() >= wanted {
                break;
            }
            let picks = self.drawn(&visit.random);
            visit.add(picks.0);
        }
        visit.list
    }

    /// Returns the state that keeps everything written, as after a kill of the process alone.
    pub fn all_kept(&self) -> Picks {
        Picks(self.choices.iter().map(Choice::newest).collect())
    }

    /// Returns the state that keeps nothing unsynced.
    pub fn none_kept(&self) -> Picks {
        Picks(vec![0; self.choices.len()])
    }

    /// Draws one state. It keeps a random share of the sectors and lengths and another of the names, often all or
    /// none; one state in eight may have torn sectors.
    pub fn drawn(&self, random: &SimRandom) -> Picks {
        let sectors_of_100 = [0, 10, 50, 90, 100][index(random, 5)];
        let names_of_100 = [0, 50, 100][index(random, 3)];
        let torn = random.below(8) == 0;
        let pick = |choice: &Choice| {
            let of_100 = if matches!(choice.what, What::Name(_)) { names_of_100 } else { sectors_of_100 };
            if random.below(100) >= of_100 {
                return 0;
            }
            if torn && matches!(choice.what, What::Sector { .. }) && random.below(4) == 0 {
                return choice.outcomes + u8::from(random.below(2) == 0);
            }
            // The newest version is the most likely one.
            if random.below(4) > 0 {
                choice.newest()
            } else {
                1 + u8::try_from(random.below(u64::from(choice.newest()))).expect("below a u8")
            }
        };
        Picks(self.choices.iter().map(pick).collect())
    }

    /// Returns the disk after the restart in the state that `picks` names.
    ///
    /// # Panics
    /// When `picks` belongs to another crash point.
    #[must_use]
    pub fn state(&self, picks: &Picks) -> SimFiles {
        assert_eq!(picks.0.len(), self.choices.len(), "picks belong to one crash point");
        let mut names: Names = self.disk.durable_names.clone();
        let dirs = self.place_names(picks, &mut names);
        let mut contents: BTreeMap<u64, Blocks> = BTreeMap::new();
        let durable = |inode: &u64| self.disk.inodes.get(inode).map(|inode| inode.durable.clone()).unwrap_or_default();
        for (choice, pick) in self.choices.iter().zip(&picks.0).filter(|(_, pick)| **pick > 0) {
            match &choice.what {
                What::Name(_) => {}
                What::Length(inode, lens) => {
                    let content = contents.entry(*inode).or_insert_with(|| durable(inode));
                    content.set_len(lens[usize::from(*pick) - 1]);
                }
                What::Sector { inode, block, sector, versions } => {
                    let content = contents.entry(*inode).or_insert_with(|| durable(inode));
                    let newest = versions.last().expect("a sector is a choice when it has a version");
                    match usize::from(*pick).checked_sub(versions.len() + 1) {
                        None => {
                            let version = sector_of(&versions[usize::from(*pick) - 1], *sector);
                            put_sector(content, *block, *sector, version);
                        }
                        Some(half) => tear(content, *block, *sector, sector_of(newest, *sector), half == 0),
                    }
                }
            }
        }
        let mut disk = Disk { durable_names: names.clone(), dirs, next_inode: self.disk.next_inode, ..Disk::default() };
        for inode in names.values() {
            // Cloned and not removed from the map: a file may have two names.
            let mut content = contents.get(inode).cloned().unwrap_or_else(|| durable(inode));
            // Sectors behind the kept end are lost.
            content.set_len(content.len());
            disk.inodes.insert(*inode, Inode::durable(content));
        }
        disk.names = names;
        SimFiles::over(disk)
    }

    /// Applies the changes of names that `picks` keeps. Returns the directories that exist afterwards.
    fn place_names(&self, picks: &Picks, names: &mut Names) -> Arc<BTreeSet<Arc<Path>>> {
        let mut unmoved: Vec<(Arc<Path>, Arc<Path>, bool)> = Vec::new();
        for (choice, pick) in self.choices.iter().zip(&picks.0) {
            let What::Name(at) = choice.what else { continue };
            let change = &self.disk.changes[at];
            if *pick > 0 {
                // Changes inside a directory whose move was undone apply at its old place.
                let change = unmoved.iter().rev().fold(change.clone(), |change, (from, to, _)| change.within(to, from));
                let is_half = *pick == 1 && choice.outcomes == 3;
                if is_half { change.apply_target_only(names) } else { change.apply(names) }
            } else if let NameChange::MoveDir(from, to, was_there) = change {
                unmoved.push((from.clone(), to.clone(), *was_there));
            }
        }
        let mut dirs = self.disk.dirs.clone();
        for (from, to, was_there) in unmoved.iter().rev() {
            let mut back: BTreeSet<Arc<Path>> = dirs.iter().map(|dir| moved(dir, to, from)).collect();
            back.extend(was_there.then(|| to.clone()));
            dirs = Arc::new(back);
        }
        // Removed directories that still hold a name exist after all.
        for dir in names.keys().filter_map(|path| path.parent()) {
            if !dirs.contains(dir) {
                Arc::make_mut(&mut dirs).extend(dir.ancestors().map(Arc::from));
            }
        }
        dirs
    }

    /// Describes the unsynced changes that a state keeps, for the message about a failure.
    pub fn describe(&self, picks: &Picks) -> String {
        let name_of = |inode: u64| {
            let names = self.disk.names.iter().chain(&self.disk.durable_names);
            names.filter(|(_, of)| **of == inode).map(|(name, _)| name.display().to_string()).next()
        };
        let mut text = format!("after call {}: ", self.calls);
        if picks.0.iter().all(|pick| *pick == 0) {
            text.push_str("nothing unsynced kept");
        }
        let mut by_block: BTreeMap<(u64, usize), String> = BTreeMap::new();
        for (choice, pick) in self.choices.iter().zip(&picks.0) {
            // Writing to a string cannot fail.
            let _infallible = match &choice.what {
                What::Name(at) if *pick > 0 => write!(text, "{:?} kept ({pick}); ", self.disk.changes[*at]),
                What::Length(inode, lens) if *pick > 0 => {
                    write!(text, "{:?} has {} bytes; ", name_of(*inode), lens[usize::from(*pick) - 1])
                }
                What::Sector { inode, block, sector, .. } if *pick > 0 => {
                    let sectors = by_block.entry((*inode, *block)).or_default();
                    write!(sectors, " {sector}{}", if *pick >= choice.outcomes { "torn" } else { "" })
                }
                _ => Ok(()),
            };
        }
        for ((inode, block), sectors) in by_block {
            let _infallible = write!(text, "{:?} block {block} sectors{sectors}; ", name_of(inode));
        }
        text
    }

    /// Returns the state with a number below `state_count`: mixed radix, the first choice fastest.
    fn numbered(&self, number: u64) -> Picks {
        let mut rest = number;
        let digit = |choice: &Choice| {
            let pick = rest % u64::from(choice.outcomes);
            rest /= u64::from(choice.outcomes);
            u8::try_from(pick).expect("below the outcomes")
        };
        Picks(self.choices.iter().map(digit).collect())
    }
}

/// Lists the choices that a power cut has about one file.
fn choices_of(number: u64, inode: &Inode, choices: &mut Vec<Choice>) {
    let newest = |versions: &BTreeMap<usize, Vec<Version>>| {
        versions.values().flatten().map(|version| version.write).max().unwrap_or(0)
    };
    let lens: BTreeSet<usize> = inode.lens.iter().copied().filter(|len| *len != inode.durable.len()).collect();
    if !lens.is_empty() {
        // The present length comes last: it is the newest outcome.
        let mut lens: Vec<usize> = lens.into_iter().filter(|len| *len != inode.current.len()).take(120).collect();
        if inode.current.len() != inode.durable.len() {
            lens.push(inode.current.len());
        }
        let outcomes = u8::try_from(lens.len() + 1).expect("at most 122");
        choices.push(Choice { what: What::Length(number, lens), outcomes, order: newest(&inode.dirty) });
    }
    let blocks: BTreeSet<usize> = inode.dirty.keys().chain(inode.orphaned.keys()).copied().collect();
    for block in blocks {
        let written: Vec<&Version> =
            [&inode.orphaned, &inode.dirty].iter().filter_map(|side| side.get(&block)).flatten().collect();
        for sector in 0..SECTORS {
            let durable = sector_of(inode.durable.block(block), sector);
            let (mut versions, mut order) = (Vec::<Block>::new(), 0);
            for version in written.iter().filter(|version| version.sectors & 1 << sector != 0) {
                let bytes = sector_of(&version.content, sector);
                // A later write of the same bytes moves them to the newest place.
                versions.retain(|held| sector_of(held, sector) != bytes);
                if bytes != durable && versions.len() < 120 {
                    versions.push(version.content.clone());
                    order = version.write;
                }
            }
            if !versions.is_empty() {
                let outcomes = u8::try_from(versions.len() + 1).expect("at most 121");
                let what = What::Sector { inode: number, block, sector, versions };
                choices.push(Choice { what, outcomes, order });
            }
        }
    }
}

/// Stores half of a sector (M2): its first bytes, or the others. The tear position differs from sector to sector.
fn tear(content: &mut Blocks, block: usize, sector: usize, new: &[u8], first_half: bool) {
    let at = 1 + (block * 131 + sector * 61) % (SECTOR - 1);
    let target = &mut content.change(block)[sector * SECTOR..(sector + 1) * SECTOR];
    let kept = if first_half { 0..at } else { at..SECTOR };
    target[kept.clone()].copy_from_slice(&new[kept]);
}

/// Returns an index below `count`.
fn index(random: &SimRandom, count: usize) -> usize {
    usize::try_from(random.below(count as u64)).expect("below a usize")
}

/// The list of states under construction.
struct Visit<'a> {
    point: &'a CrashPoint,
    seen: Set<Vec<u8>>,
    list: Vec<Picks>,
    random: SimRandom,
}

impl Visit<'_> {
    fn add(&mut self, picks: Vec<u8>) {
        if self.seen.insert(picks.clone()) {
            self.list.push(Picks(picks));
        }
    }

    /// Adds the state that keeps the newest outcome of each choice that `keep` selects and nothing else.
    fn add_kept(&mut self, keep: impl Fn(usize, &Choice) -> bool) {
        let pick = |(at, choice): (usize, &Choice)| if keep(at, choice) { choice.newest() } else { 0 };
        self.add(self.point.choices.iter().enumerate().map(pick).collect());
    }

    /// Returns up to `most` of `all`, drawn at random when there are more.
    fn some_of<T>(&self, mut all: Vec<T>, most: usize) -> Vec<T> {
        for at in 0..most.min(all.len()) {
            let other = at + index(&self.random, all.len() - at);
            all.swap(at, other);
        }
        all.truncate(most);
        all
    }

    fn structured(&mut self, most: usize) {
        let choices = &self.point.choices;
        self.add_kept(|_, _| false);
        self.add_kept(|_, _| true);
        for only in self.some_of((0..choices.len()).collect(), most) {
            self.add_kept(|at, _| at == only);
            self.add_kept(|at, _| at != only);
        }
        let orders: BTreeSet<u64> = choices.iter().map(|choice| choice.order).collect();
        for cut in self.some_of(orders.into_iter().collect(), most) {
            self.add_kept(|_, choice| choice.order <= cut);
            self.add_kept(|_, choice| choice.order > cut);
        }
        let files: BTreeSet<Option<u64>> = choices.iter().map(Choice::file).collect();
        for file in self.some_of(files.into_iter().collect(), most) {
            self.add_kept(|_, choice| choice.file() == file);
            self.add_kept(|_, choice| choice.file() != file);
        }
        let blocks: BTreeSet<(u64, usize)> = choices.iter().filter_map(Choice::block).collect();
        for block in self.some_of(blocks.into_iter().collect(), most / 8) {
            for _ in 0..8 {
                let bits = self.random.u64();
                for others in [false, true] {
                    let keep = |at: usize, choice: &Choice| match choice.block() {
                        Some(of) if of == block => bits >> (at % 64) & 1 == 1,
                        _ => others,
                    };
                    self.add_kept(keep);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
