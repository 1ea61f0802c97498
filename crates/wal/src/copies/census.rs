//! `Census`: which copies of the log are there, which of them hold all of it, and whether that is enough to open.
//!
//! Each LINK says since which opening, and which change of the live copies, it holds. A copy that has a LINK of the
//! newest such change holds all that was durable before it: a copy is synced before it turns to the next segment, is filled
//! in order when it comes back, and is brought up to the others before an opening writes. Copies without one are stale:
//! they were left out, or away. Nothing is read from them but for gaps that nobody else can fill.
//!
//! # Invariants
//! - S1. Enough copies: all that are configured, now or by the newest LINK; or as many up-to-date ones as the newest LINK
//!   counts; or, when that LINK counts a majority, a majority in any state. Otherwise somebody that is not there may
//!   hold more, and only `wal.open_with` opens.
//! - S2. A copy whose newest segment cannot be placed (its LINK is rotten everywhere) counts as holding the log, so that
//!   what it holds is damage to be seen and not a stale copy to be overwritten; but where the others are whole without it and begin behind
//!   all that it has, it is one.
//! - S3. A stale copy whose durable end is not in the up-to-date ones went another way: nothing is written over it.
//! - S4. Who holds a LINK without the mark [`INCOMPLETE`] was counted by it: a copy that is filled is marked before it gets
//!   anything, and until a LINK counts it that is durable in all that were live before.
//! - S5. A copy that was cut offline and one that was opened without it since went separate ways.
//!
//! Checked by `copies_tests` and `cut_tests`.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use collie_base::Lsn;
use collie_env::Files;

use super::merge::CopyDir;
use crate::{
    WalError,
    decode::HeaderBlock,
    format::{BLOCK_BYTES, CopyCounts, REASON_TRUNCATE, segment_name, segment_number},
    source::FrameSource,
    window::Window,
};

/// Name of the file that marks a copy while it is filled from another.
pub(super) const INCOMPLETE: &str = "INCOMPLETE";

/// A LINK, as far as copies are compared by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkSeen {
    incarnation: u64,
    frame: u64,
    salt: u64,
    /// The number of the segment that it lies in.
    segment: u64,
    /// Whether an offline cut wrote it.
    is_cut: bool,
    counts: CopyCounts,
}

impl LinkSeen {
    /// Which opening and which change of the live copies it belongs to: the same in all LINKs until the next change.
    fn age(&self) -> (u64, u32) {
        (self.incarnation, self.counts.change)
    }

    fn place(&self) -> (u64, u32, u64) {
        (self.incarnation, self.counts.change, self.frame)
    }
}

/// A frame of a copy that stands for all before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) salt: u64,
    pub(crate) crc: u32,
    number: u64,
    pub(super) end: Lsn,
    /// The newest opening that its copy knows of, if a LINK is left that tells.
    pub(super) life: Option<u64>,
}

impl Witness {
    fn rank(&self) -> (Lsn, std::cmp::Reverse<u64>) {
        (self.end, std::cmp::Reverse(self.number))
    }
}

/// The newest segments of one copy, down to one with a LINK and the last frame named durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Top {
    pub(super) log_id: Option<[u8; 16]>,
    segment_number_max: u64,
    link: Option<LinkSeen>,
    /// Salt and largest frame number of each segment looked at, newest first.
    segments: Vec<(u64, u64)>,
    /// The largest durable position that its frames name.
    durable: Lsn,
    /// The largest position that a frame of those segments ends at.
    end: Lsn,
    /// Whether it is marked as being filled.
    incomplete: bool,
    /// The first frame that ends there, or the nearest below: it was synced before another named its end as durable.
    pub(super) witness: Option<Witness>,
}

/// Copies and what their newest segments say.
type Tops = Vec<(CopyDir, Top)>;

/// What the directories of a log hold.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    /// Copies that hold the newest LINK; all that hold a log, when none has a LINK.
    pub(crate) holders: Vec<CopyDir>,
    /// Copies of this log that do not.
    pub(crate) stale: Vec<CopyDir>,
    /// Those of the holders that count as such only because they cannot be placed (S2), by index, and where all that they have ends.
    unplaced: BTreeMap<usize, Lsn>,
    /// The last frame that each copy knows to have been durable, by the copy's index.
    pub(super) witnesses: BTreeMap<usize, Witness>,
    /// Directories that can be used and hold no log.
    pub(crate) empty: Vec<CopyDir>,
    /// Directories that cannot be used.
    pub(crate) missing: Vec<PathBuf>,
    pub(crate) segment_number_max: u64,
    /// What the newest LINK says.
    counts: Option<CopyCounts>,
    /// How many holders, and how many stale copies, are not marked.
    counted: [usize; 2],
    /// Those, by index, that can be read and not written: nothing is done to them.
    left_out: BTreeMap<usize, String>,
    /// Whether all are incomplete: what they were filled from is not there.
    sourceless: bool,
    configured: usize,
}

impl Census {
    /// Looks into `usable` directories; `missing` ones are only counted.
    ///
    /// # Errors
    /// `ForeignLog` when the copies are of different logs; `CopiesDiffer` when one was cut and another went on; `NewerFormat`.
    pub(crate) fn take(
        files: &Arc<dyn Files>,
        usable: &[CopyDir],
        mut missing: Vec<PathBuf>,
    ) -> Result<Self, WalError> {
        let configured = usable.len() + missing.len();
        let (mut tops, mut empty, mut log_id) = (Vec::new(), Vec::new(), None);
        for copy in usable {
            match Top::of(&**files, copy) {
                Ok(top) => match top.log_id {
                    Some(id) if *log_id.get_or_insert(id) != id => {
                        return Err(WalError::ForeignLog { path: copy.dir.clone() });
                    }
                    Some(_) => tops.push((copy.clone(), top)),
                    None => empty.push(copy.clone()),
                },
                Err(WalError::Io { .. }) => missing.push(copy.dir.clone()),
                Err(error) => return Err(error),
            }
        }
        let witness = |(copy, top): &(CopyDir, Top)| Some((copy.index, top.witness.clone()?));
        let witnesses = tops.iter().filter_map(witness).collect();
        let segment_number_max = tops.iter().map(|(_, top)| top.segment_number_max).max().unwrap_or(0);
        let (incomplete, whole): (Vec<_>, Vec<_>) = tops.into_iter().partition(|(_, top)| top.incomplete);
        let sourceless = whole.is_empty() && !incomplete.is_empty();
        refuse_cut_beside_life(&whole)?;
        let newest = newest_of(if sourceless { &incomplete } else { &whole });
        let unplaced = unplaced_of(&whole);
        let (mut holders, mut stale) = split(whole);
        let counted = [holders.len(), stale.len()];
        if sourceless { &mut holders } else { &mut stale }.extend(incomplete);
        let dirs = |tops: Vec<(CopyDir, Top)>| tops.into_iter().map(|(copy, _)| copy).collect();
        let (holders, stale) = (dirs(holders), dirs(stale));
        Ok(Self {
            holders,
            stale,
            unplaced,
            witnesses,
            empty,
            missing,
            segment_number_max,
            counts: newest.map(|link| link.counts),
            counted,
            left_out: BTreeMap::new(),
            sourceless,
            configured,
        })
    }

    /// Returns an error unless there are enough copies (S1).
    pub(crate) fn admit(&self, open_with: Option<u32>) -> Result<(), WalError> {
        let present = self.holders.len() + self.stale.len();
        let [up_to_date, stale] = self.counted;
        let Some(counts) = self.counts else {
            // Nobody knows how many copies there are to be. A new log wants all its directories, so that it never runs
            // with fewer copies than asked for, unnoticed; and a copy cut short before its first frame is no log.
            let (usable, enough) = (self.usable().count(), open_with.map_or(self.configured, |n| n as usize));
            return if usable >= enough { Ok(()) } else { Err(self.missing_error(0, enough)) };
        };
        let required = usize::from(counts.required);
        let all = self.configured.max(usize::from(counts.configured));
        let counted = if counts.quorum { up_to_date + stale } else { up_to_date };
        let asked = open_with.is_some_and(|n| n as usize <= present);
        if (present >= all && !self.sourceless) || counted >= required || asked {
            return Ok(());
        }
        Err(self.missing_error(counted, required))
    }

    /// Returns whether there is a log yet.
    pub(super) fn has_log(&self) -> bool {
        self.counts.is_some()
    }

    /// Returns whether a copy may hold what it never synced in a segment: it knows of nothing durable there.
    pub(super) fn is_doubtful(&self, copy: &CopyDir, name: &str) -> bool {
        let doubtful = self.witnesses.get(&copy.index).is_none_or(|witness| witness.name.as_str() <= name);
        doubtful && !mistake!("COPY_CACHE_TRUSTED")
    }

    /// Has these copies, by index and with why, left alone from here on: they cannot be written. What they hold is read all the same.
    pub(crate) fn leave_out(&mut self, copies: &BTreeMap<usize, String>) {
        self.left_out.clone_from(copies);
    }

    /// Returns why a copy is left alone, if it is.
    pub(crate) fn why_left_out(&self, copy: &CopyDir) -> Option<&str> {
        self.why_left_out_by(copy.index)
    }

    /// [`Census::why_left_out`], by its index.
    pub(crate) fn why_left_out_by(&self, index: usize) -> Option<&str> {
        self.left_out.get(&index).map(String::as_str)
    }

    /// Returns this census with the copies that cannot be placed taken for stale ones, and where all that they have ends; `None`: there are none,
    /// or no others.
    pub(super) fn placed(&self) -> Option<(Self, Lsn)> {
        let end = *self.unplaced.values().max()?;
        let mut placed = self.clone();
        let (unplaced, holders): (Vec<_>, Vec<_>) =
            self.holders.iter().cloned().partition(|copy| self.unplaced.contains_key(&copy.index));
        let moved = unplaced.len();
        placed.stale.extend(unplaced);
        (placed.holders, placed.unplaced) = (holders, BTreeMap::new());
        placed.counted = [self.counted[0].saturating_sub(moved), self.counted[1] + moved];
        (!placed.holders.is_empty()).then_some((placed, end))
    }

    /// Returns every directory that can be used.
    pub(crate) fn usable(&self) -> impl Iterator<Item = &CopyDir> {
        let all = self.holders.iter().chain(&self.stale).chain(&self.empty);
        all.filter(|copy| !self.left_out.contains_key(&copy.index))
    }

    fn missing_error(&self, present: usize, needed: usize) -> WalError {
        let not_there = self.stale.iter().chain(&self.empty).map(|copy| copy.dir.clone());
        WalError::CopiesMissing { missing: self.missing.iter().cloned().chain(not_there).collect(), present, needed }
    }
}

/// Returns the newest LINK of all.
fn newest_of(tops: &[(CopyDir, Top)]) -> Option<LinkSeen> {
    tops.iter().filter_map(|(_, top)| top.link).max_by_key(LinkSeen::place)
}

/// Returns each copy's newest LINK, if it is of the age of the newest of all.
fn newest_age(tops: &[(CopyDir, Top)]) -> Vec<LinkSeen> {
    let age = newest_of(tops).map(|link| link.age());
    tops.iter().filter_map(|(_, top)| top.link).filter(|link| Some(link.age()) == age).collect()
}

/// Refuses copies of which one was cut offline and another was opened without it since: both lives have one number (S5).
fn refuse_cut_beside_life(tops: &[(CopyDir, Top)]) -> Result<(), WalError> {
    let Some(age) = newest_of(tops).map(|link| link.age()) else { return Ok(()) };
    let newest = || tops.iter().filter_map(|(copy, top)| Some((copy, top, top.link.filter(|link| link.age() == age)?)));
    let Some((cut, _, link)) = newest().find(|(_, _, link)| link.is_cut) else { return Ok(()) };
    let other = newest().find(|(_, top, _)| !top.segments.iter().any(|(salt, _)| *salt == link.salt));
    let path = |copy: &CopyDir, link: LinkSeen| copy.dir.join(segment_name(link.segment));
    other.map_or(Ok(()), |(copy, _, theirs)| {
        let (path, other) = (path(cut, link), path(copy, theirs));
        Err(WalError::CopiesDiffer { path, other, offset: BLOCK_BYTES })
    })
}

/// Parts the copies into those that were counted by the newest LINKs and the others.
fn split(tops: Vec<(CopyDir, Top)>) -> (Tops, Tops) {
    let newest = newest_age(&tops);
    tops.into_iter().partition(|(_, top)| newest.is_empty() || top.holds(&newest))
}

/// Returns which copies hold the newest LINK only if the rot hides it (S2), by index, and where all that they have ends.
fn unplaced_of(tops: &[(CopyDir, Top)]) -> BTreeMap<usize, Lsn> {
    let newest = newest_age(tops);
    let unplaced = tops.iter().filter(|(_, top)| !newest.is_empty() && top.holds(&newest) && !top.is_placed(&newest));
    unplaced.map(|(copy, top)| (copy.index, top.end)).collect()
}

impl Top {
    /// Reads the newest segments of a copy until one tells its LINK.
    pub(super) fn of(files: &dyn Files, copy: &CopyDir) -> Result<Self, WalError> {
        let names = files.list(&copy.dir).map_err(|source| WalError::io("list", &copy.dir, source))?;
        let incomplete = names.iter().any(|name| name == INCOMPLETE);
        let mut numbers: Vec<(u64, &String)> =
            names.iter().filter_map(|name| Some((segment_number(name)?, name))).collect();
        numbers.sort_unstable();
        let segment_number_max = numbers.last().map_or(0, |(number, _)| *number);
        let mut top = Self { segment_number_max, incomplete, ..Self::default() };
        for (number, name) in numbers.into_iter().rev() {
            let path = copy.dir.join(name);
            let mut window = match Window::open(files, path.clone()) {
                Err(WalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => continue,
                opened => opened?,
            };
            let salt = match window.segment_header() {
                Ok(HeaderBlock::Newer(version)) => return Err(WalError::NewerFormat { path, version }),
                Ok(HeaderBlock::Segment(header)) if header.number == number => {
                    if *top.log_id.get_or_insert(header.log_id) != header.log_id {
                        return Err(WalError::ForeignLog { path });
                    }
                    Some(header.salt)
                }
                _ => None,
            };
            if top.link.is_none() || top.witness.as_ref().is_none_or(|witness| witness.end < top.durable) {
                top.read_segment(&mut window, salt, name);
            }
        }
        if let Some(witness) = &mut top.witness {
            witness.life = top.link.map(|link| link.incarnation);
        }
        Ok(top)
    }

    /// Notes the frames of a segment.
    fn read_segment(&mut self, window: &mut Window, salt: Option<u64>, name: &str) {
        let segment_number = segment_number(name).unwrap_or(0);
        let link_is_newer = self.link.is_some();
        let (mut offset, mut ends) = (BLOCK_BYTES, Vec::new());
        while offset < window.file_bytes() {
            // What cannot be read counts as rotten.
            let Ok(Ok(frame)) = window.frame_at(offset, salt) else {
                offset += BLOCK_BYTES;
                continue;
            };
            let (salt, number) = (frame.header.salt, frame.header.number);
            match self.segments.last_mut().filter(|(of, _)| *of == salt) {
                Some((_, last)) => *last = number.max(*last),
                None => self.segments.push((salt, number)),
            }
            (self.durable, self.end) = (self.durable.max(frame.header.durable), self.end.max(frame.header.end()));
            let (name, end, crc) = (name.to_owned(), frame.header.end(), frame.crc);
            // An empty frame ends where the one before does: it proves nothing of its own.
            let before = frame.header.link.map_or(frame.header.start, |link| link.previous_end);
            if before < end {
                ends.push(Witness { name, offset, salt, crc, number, end, life: None });
            }
            if let Some(link) = frame.header.link.filter(|_| !link_is_newer) {
                let (incarnation, is_cut) = (link.incarnation, link.reason == REASON_TRUNCATE);
                let seen =
                    LinkSeen { incarnation, frame: number, salt, segment: segment_number, is_cut, counts: link.copies };
                self.link = self.link.into_iter().chain([seen]).max_by_key(LinkSeen::place);
            }
            offset = frame.next_offset;
        }
        let known = ends.into_iter().chain(self.witness.take()).filter(|witness| witness.end <= self.durable);
        self.witness = known.max_by_key(Witness::rank);
    }

    /// Returns whether this copy has a LINK of the newest age, or a frame behind one of them.
    fn is_placed(&self, newest: &[LinkSeen]) -> bool {
        let behind = |(salt, last): &(u64, u64)| newest.iter().any(|link| link.salt == *salt && link.frame <= *last);
        self.link.is_some_and(|link| link.age() == newest[0].age()) || self.segments.iter().any(behind)
    }

    /// Returns whether this copy is placed so, or cannot be placed at all (S2).
    fn holds(&self, newest: &[LinkSeen]) -> bool {
        let known = |salt| newest.iter().chain(&self.link).any(|link| link.salt == salt);
        self.is_placed(newest) || self.segments.first().is_some_and(|(salt, _)| !known(*salt))
    }
}
