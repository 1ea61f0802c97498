//! `Census`: which copies of the log exist, which of them hold all of it, and whether they suffice to open.
//!
//! Each LINK names the opening and the change of the live copies since which it holds. A copy that has a LINK of the
//! newest such change holds everything that was durable before it: a copy is synced before it turns to the next
//! segment, is filled in order when it comes back, and is made equal to the others before an opening writes. Copies
//! without such a LINK are stale: they were left out or away. The log reads from them only to fill gaps that no
//! up-to-date copy can fill.
//!
//! # Invariants
//! - S1. Copies suffice if as many are present as are configured, now or by the newest LINK; or as many up-to-date ones
//!   as the newest LINK counts; or, if that LINK counts a majority, a majority in any state. Otherwise a copy that is
//!   not there may hold more, and only `wal.open_with` allows the open.
//! - S2. A copy whose newest segment cannot be placed (its LINK is rotten in every copy) counts as holding the log, so
//!   that its content shows as damage and is not overwritten as a stale copy. But if the others are whole without it
//!   and begin behind everything that it has, it is stale.
//! - S3. A stale copy whose durable end is not in the up-to-date ones has diverged: nothing is written over it.
//! - S4. A copy that holds a LINK and not the mark [`INCOMPLETE`] was counted by that LINK: a copy to be filled is
//!   marked before it gets anything, and stays marked until a LINK that counts it is durable in all copies that were
//!   live before.
//! - S5. A copy that was cut offline and one that was opened without it since have diverged.
//!
//! Checked by `copies/tests.rs` and `cut_tests`.

use std::{collections::BTreeMap, io, path::PathBuf, sync::Arc};

use collie_base::Lsn;
use collie_env::Files;

use super::merge::CopyDir;
use crate::{
    WalError,
    format::decode::HeaderBlock,
    format::{BLOCK_BYTES, CopyCounts, REASON_TRUNCATE, segment_name, segment_number},
    read::source::FrameSource,
    read::window::Window,
};

/// Name of the file that marks a copy while it is filled from another.
pub(super) const INCOMPLETE: &str = "INCOMPLETE";

/// The fields of a LINK by which copies are compared.
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
    /// Returns the opening and the change of the live copies to which it belongs; the same in all LINKs until the next
    /// change.
    fn age(&self) -> (u64, u32) {
        (self.incarnation, self.counts.change)
    }

    fn place(&self) -> (u64, u32, u64) {
        (self.incarnation, self.counts.change, self.frame)
    }
}

/// A frame of a copy that vouches for everything before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Witness {
    pub(crate) name: String,
    pub(crate) offset: u64,
    pub(crate) salt: u64,
    pub(crate) crc: u32,
    number: u64,
    pub(super) end: Lsn,
    /// The newest opening that its copy knows, if a LINK is left that names it.
    pub(super) life: Option<u64>,
}

impl Witness {
    fn rank(&self) -> (Lsn, std::cmp::Reverse<u64>) {
        (self.end, std::cmp::Reverse(self.number))
    }
}

/// The newest segments of one copy, down to one with a LINK and to the last frame known to be durable.
#[derive(Clone, Debug, Default)]
pub(super) struct Top {
    pub(super) log_id: Option<[u8; 16]>,
    segment_number_max: u64,
    link: Option<LinkSeen>,
    /// Salt and largest frame number of each segment that was read, newest first.
    segments: Vec<(u64, u64)>,
    /// The largest durable position that its frames name.
    durable: Lsn,
    /// The largest end of a frame in those segments.
    end: Lsn,
    /// Whether it has the mark of a copy that is being filled.
    incomplete: bool,
    /// The first frame that ends at the durable position, or the nearest below: it was synced before another frame
    /// named its end as durable.
    pub(super) witness: Option<Witness>,
}

/// Copies, and the state of their newest segments.
type Tops = Vec<(CopyDir, Top)>;

/// The content of a log's directories.
#[derive(Clone, Debug)]
pub(crate) struct Census {
    /// Copies that hold the newest LINK; all that hold a log if none has a LINK.
    pub(crate) holders: Vec<CopyDir>,
    /// The other copies of this log.
    pub(crate) stale: Vec<CopyDir>,
    /// Holders that count as such only because they cannot be placed (S2), by index, with the end of everything that
    /// they have.
    unplaced: BTreeMap<usize, Lsn>,
    /// The last frame that each copy knows to be durable, by the copy's index.
    pub(super) witnesses: BTreeMap<usize, Witness>,
    /// Usable directories without a log.
    pub(crate) empty: Vec<CopyDir>,
    /// Directories that cannot be used.
    pub(crate) missing: Vec<PathBuf>,
    pub(crate) segment_number_max: u64,
    /// The counts in the newest LINK.
    counts: Option<CopyCounts>,
    /// The numbers of holders and of stale copies without the mark.
    counted: [usize; 2],
    /// Copies that can be read but not written, by index, with the reason: nothing is done to them.
    left_out: BTreeMap<usize, String>,
    /// Whether all copies are incomplete: the one that they were filled from is not there.
    sourceless: bool,
    configured: usize,
}

impl Census {
    /// Reads the `usable` directories; `missing` ones are only counted.
    ///
    /// # Errors
    /// `ForeignLog` if the copies are of different logs; `CopiesDiffer` if one was cut and another continued;
    /// `NewerFormat`.
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

    /// Returns an error unless the copies suffice (S1).
    pub(crate) fn admit(&self, open_with: Option<u32>) -> Result<(), WalError> {
        let present = self.holders.len() + self.stale.len();
        let [up_to_date, stale] = self.counted;
        let Some(counts) = self.counts else {
            // No LINK says how many copies there are. A new log needs all its directories, so that it never runs
            // unnoticed with fewer copies than configured; and a copy that was cut short before its first frame is no
            // log.
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

    /// Returns whether a log exists already.
    pub(super) fn has_log(&self) -> bool {
        self.counts.is_some()
    }

    /// Returns whether a copy may hold unsynced bytes in a segment: it has no proof of a durable frame behind that
    /// segment.
    pub(super) fn is_doubtful(&self, copy: &CopyDir, name: &str) -> bool {
        let doubtful = self.witnesses.get(&copy.index).is_none_or(|witness| witness.name.as_str() <= name);
        doubtful && !mistake!("COPY_CACHE_TRUSTED")
    }

    /// Excludes these copies, by index and with the reason, from all changes from here on: they cannot be written. They
    /// are read all the same.
    pub(crate) fn leave_out(&mut self, copies: &BTreeMap<usize, String>) {
        self.left_out.clone_from(copies);
    }

    /// Returns the reason why a copy is left alone, if it is.
    pub(crate) fn why_left_out(&self, copy: &CopyDir) -> Option<&str> {
        self.why_left_out_by(copy.index)
    }

    /// As [`Census::why_left_out`], by the index of the copy.
    pub(crate) fn why_left_out_by(&self, index: usize) -> Option<&str> {
        self.left_out.get(&index).map(String::as_str)
    }

    /// Returns this census with the copies that cannot be placed counted as stale, and the end of everything that they
    /// have; `None` if there are no such copies, or no others.
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

    /// Returns every directory that can be used and is not left alone.
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

/// Returns the newest LINK of each copy that has one of the newest age.
fn newest_age(tops: &[(CopyDir, Top)]) -> Vec<LinkSeen> {
    let age = newest_of(tops).map(|link| link.age());
    tops.iter().filter_map(|(_, top)| top.link).filter(|link| Some(link.age()) == age).collect()
}

/// Refuses copies of which one was cut offline and another was opened without it since: both incarnations have the same
/// number (S5).
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

/// Splits the copies into those that were counted by the newest LINKs and the others.
fn split(tops: Vec<(CopyDir, Top)>) -> (Tops, Tops) {
    let newest = newest_age(&tops);
    tops.into_iter().partition(|(_, top)| newest.is_empty() || top.holds(&newest))
}

/// Returns the copies that can hold the newest LINK only if rot hides it (S2), by index, with the end of everything
/// that they have.
fn unplaced_of(tops: &[(CopyDir, Top)]) -> BTreeMap<usize, Lsn> {
    let newest = newest_age(tops);
    let unplaced = tops.iter().filter(|(_, top)| !newest.is_empty() && top.holds(&newest) && !top.is_placed(&newest));
    unplaced.map(|(copy, top)| (copy.index, top.end)).collect()
}

impl Top {
    /// Reads the newest segments of a copy until it has a LINK and a witness of the durable position.
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

    /// Adds the frames of a segment.
    fn read_segment(&mut self, window: &mut Window, salt: Option<u64>, name: &str) {
        let segment_number = segment_number(name).unwrap_or(0);
        let link_is_newer = self.link.is_some();
        let (mut offset, mut ends) = (BLOCK_BYTES, Vec::new());
        while offset < window.file_bytes() {
            // Bytes that cannot be read count as rotten.
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
            // An empty frame ends where the frame before it does, so it proves nothing itself.
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

    /// Returns whether this copy has a LINK of the newest age, or a frame behind such a LINK.
    fn is_placed(&self, newest: &[LinkSeen]) -> bool {
        let behind = |(salt, last): &(u64, u64)| newest.iter().any(|link| link.salt == *salt && link.frame <= *last);
        self.link.is_some_and(|link| link.age() == newest[0].age()) || self.segments.iter().any(behind)
    }

    /// Returns whether this copy is placed, or cannot be placed at all (S2).
    fn holds(&self, newest: &[LinkSeen]) -> bool {
        let known = |salt| newest.iter().chain(&self.link).any(|link| link.salt == salt);
        self.is_placed(newest) || self.segments.first().is_some_and(|(salt, _)| !known(*salt))
    }
}
