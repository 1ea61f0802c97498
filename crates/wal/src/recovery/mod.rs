//! Opening: turns what a [`Scan`] found into a log that takes appends.
//!
//! # Invariants
//! - O1. The records that an opening accepted are durable under a new incarnation before anything is appended (LOG-10).
//!   Nothing counts merely because it is in the page cache: after a clean end the closing frame is written again, after
//!   an unclean end everything above the largest durable LSN that the frames name is.
//! - O2. After an unclean end the next position lies above every position that the last incarnation can have handed out
//!   (LOG-14).
//! - O3. Every step may be repeated after another crash: until the new incarnation's frame is durable, the next scan
//!   finds what this one found.
//! - O4. A log that follows another continues where its last record ends, however it ended: O2 is about positions
//!   handed out, and it hands out none. Jumps of positions behind that record are void.
//!
//! Checked by the crash lab (`lab`), which crashes openings too.
//!
//! | file | holds |
//! |---|---|
//! | `last_incarnation` | how the last incarnation ended, and what it left |
//! | `dead_ring`, `dead_rings` | shared rings of dead processes: the one that counts, and those that no log needs |
//! | `view` | the log that an opening would find, read without one |
//! | `salvage` | everything readable of a damaged log |
//! | `truncate` | the end of a closed log, cut off for an operator |

pub(crate) mod dead_ring;
pub(crate) mod dead_rings;
pub(crate) mod last_incarnation;
pub(crate) mod salvage;
pub(crate) mod truncate;
pub(crate) mod view;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use collie_base::Lsn;
use collie_env::{Access, Env, is_full};
use collie_obs::{RecoverScan, word};

use crate::options::OPEN_LSN_LIMIT;
use crate::{
    CopiesRequired, Options, RecoveryMode, RingKind, WalError, copies::Copies, copies::CopyDir, copies::Gathered,
    copies::Mirror, flush::frame_writer::Beginning, flush::frame_writer::FrameWriter, flush::frame_writer::sync_file,
    format::BLOCK_BYTES, format::CopyCounts, format::Link, format::REASON_FOLLOW, format::REASON_OPEN,
    format::REASON_REWRITE, format::SegmentHeader, format::decode::whole_records, read::source::FrameSource,
    read::window::Window, recovery::last_incarnation::Ending, recovery::last_incarnation::scan_with_ring,
    recovery::last_incarnation::take_from_ring, scan::Leftover, scan::Note, scan::Scan, scan::scan_watched,
    segment::EMERGENCY_SPARES, segment::Span, segment::Start, segment::spare::Spare, segment::spare::give_back_tail,
    segment::spare::prepare, segment::spare::prepare_again, segment::spare::prepare_what_fits,
};

/// What opening found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Recovered {
    /// Where the log starts: it has every record from here on. Positions may jump between here and the oldest record.
    pub start: Lsn,
    /// End of the last record found.
    pub end: Lsn,
    /// The first position of this incarnation; above `end` after an unclean end, because lost positions are not used
    /// again.
    pub next: Lsn,
    /// The number of this incarnation; grows with each open.
    pub incarnation: u64,
    /// How the last incarnation ended.
    pub ending: Ending,
    /// Bytes of an unfinished flush that were dropped.
    pub torn_bytes: u64,
    /// Frames, headers and files of a copy that were restored from another copy.
    pub repaired: u64,
    /// Bytes of records that were in no file and came from the shared ring of the last incarnation.
    pub recovered_from_ring: u64,
    /// Where the ring of this incarnation is: `Private` or `Shared`.
    pub ring: RingKind,
    /// Lines for an operator: a trimmed tail, an accepted loss, a repaired copy.
    pub notes: Vec<String>,
}

/// The parts from which the running log starts.
pub(crate) struct Opened {
    /// The environment to continue with: its files write every copy.
    pub(crate) env: Env,
    pub(crate) writer: FrameWriter,
    pub(crate) start: Start,
    pub(crate) recovered: Recovered,
    /// Where the damage began, if there was any: the log continues without the records that lay there.
    pub(crate) lost_above: Option<Lsn>,
}

/// Records a measured scan of the files.
#[cold]
fn tell_scan(span: collie_obs::Span<RecoverScan>, found: &Scan) {
    let ended = span.end();
    let bytes: u64 = found.spans.iter().map(|span| span.until.unwrap_or(span.segment_bytes)).sum();
    let beside: u64 = found.leftovers.iter().map(|leftover| leftover.file_bytes).sum();
    let disk_bytes = found.spans.iter().map(|span| span.segment_bytes).sum::<u64>() + beside;
    let scan = RecoverScan { bytes: word(bytes), segments: word(found.spans.len()), threads: 1 };
    ended.tell(found.start(), scan, [disk_bytes]);
}

/// Opens the log in the directories `copies`, which are locked: scans it, refuses or trims, repairs copies, and writes
/// the new incarnation. `follows`: its records come from another log. A copy that has no room is left out if enough
/// others are left: all that it holds was read, so no record is in it alone.
pub(crate) fn open(env: &Env, copies: &Copies, options: &Options, follows: bool) -> Result<Opened, WalError> {
    let mut left_out = BTreeMap::new();
    loop {
        let mut failed = None;
        let opened = open_without(env, copies, options, follows, &left_out, &mut failed);
        let Err(error) = opened else { return opened };
        let (index, why) = match failed.or_else(|| copies.blamed(&error)) {
            Some((index, why)) if is_without_room(&why) && !left_out.contains_key(&index) => (index, why),
            _ => return Err(error),
        };
        left_out.insert(index, why.to_string());
        if copies.usable.len().saturating_sub(left_out.len()) < needed_copies(options, copies.dirs.len()) {
            return Err(error);
        }
    }
}

/// Returns how many of the `configured` copies must be written.
fn needed_copies(options: &Options, configured: usize) -> usize {
    let majority = if options.copies_required == CopiesRequired::Quorum { configured / 2 + 1 } else { 1 };
    majority.max(options.copies_min as usize)
}

/// Returns whether the error means that nothing can be written there, but everything can be read.
fn is_without_room(error: &io::Error) -> bool {
    is_full(error) || error.kind() == io::ErrorKind::ReadOnlyFilesystem
}

/// Tries [`open`] once without the copies `left_out`, by index. Stores a copy that makes it fail in `failed`.
fn open_without(
    env: &Env,
    copies: &Copies,
    options: &Options,
    follows: bool,
    left_out: &BTreeMap<usize, String>,
    failed: &mut Option<(usize, io::Error)>,
) -> Result<Opened, WalError> {
    let mut mirror = None;
    let opened = open_mirrored(env, copies, options, follows, left_out, &mut mirror);
    if opened.is_err() {
        *failed = mirror.as_ref().and_then(Mirror::failed);
        mirror.iter().for_each(Mirror::stop);
    }
    opened
}

fn open_mirrored(
    env: &Env,
    copies: &Copies,
    options: &Options,
    follows: bool,
    left_out: &BTreeMap<usize, String>,
    mirror: &mut Option<Mirror>,
) -> Result<Opened, WalError> {
    let dir = &copies.home;
    let mut written = copies.usable.iter().filter(|copy| !left_out.contains_key(&copy.index));
    written.try_for_each(|copy| remove_temporaries(env, &copy.dir))?;
    let look = |known_durable| -> Result<(Option<Gathered>, Scan), WalError> {
        Ok(match Gathered::leaving_out(env, copies, options, known_durable, left_out)? {
            Some((gathered, found)) => (Some(gathered), found),
            None => (None, scan_watched(&*env.files, dir, known_durable, &options.checked)?),
        })
    };
    let mut notes = Vec::new();
    let span = collie_obs::start::<RecoverScan>();
    let (gathered, mut found, ring) = scan_with_ring(env, dir, options, &mut notes, look)?;
    if let Some(span) = span.filter(|_| !found.spans.is_empty()) {
        tell_scan(span, &found);
    }
    // Damage is refused, or copied aside before this opening writes anything else.
    if let Some(error) = found.damage_error() {
        if options.recovery_mode != RecoveryMode::PointInTime {
            return Err(error);
        }
        notes.push(format!("{error}; opened without them as wal.recovery_mode = point_in_time asks"));
        let holders = gathered.as_ref().map_or(&copies.usable, |gathered| &gathered.census.holders);
        set_aside(env, holders, &mut found)?;
    }
    let ending = found.ending(options.recovery_mode)?;
    // O2: above everything that the files, the ring or lost records can have used.
    let next = match ending {
        Ending::New => found.end.max(options.first_lsn),
        Ending::Clean => found.end,
        Ending::Unclean if mistake!("POSITION_REUSED") => found.end,
        Ending::Unclean => {
            let used = found.end.max(found.end_max).max(ring.as_ref().map_or(Lsn::ZERO, |ring| ring.end));
            let skip = if mistake!("NEW_SKIP") { 0 } else { found.skip };
            used.plus(skip.max(options.skip_bytes()))
        }
    };
    if next.get() >= OPEN_LSN_LIMIT {
        return Err(WalError::options(format!("log positions are used up at {next}: dump and load into a new log")));
    }
    let lossy = options.recovery_mode == RecoveryMode::PointInTime;
    let (from_ring, end) = take_from_ring(ring.as_ref(), &found, ending, lossy, &mut notes)?;
    let (next, end) = match ending {
        // O4.
        Ending::New if follows => (next, next),
        Ending::New => (next, end),
        _ if mistake!("FOLLOWER_SKIPS") => (next, end),
        _ if follows && from_ring.is_empty() => (found.records_end(), found.records_end()),
        _ if follows => (end, end),
        _ => (next, end),
    };
    // The copies are made equal before the mirror writes the new incarnation to each of them.
    let (mut repaired, mut env, files) = (0, env.clone(), env.files.clone());
    if let Some(gathered) = &gathered {
        let repairs = gathered.repair(&files, &found)?;
        repaired = repairs.count;
        notes.extend(repairs.notes);
        let mirrored = Mirror::new(files.clone(), copies.dirs.clone(), &copies.locks, &gathered.census, options)
            .map_err(|source| WalError::io("start a thread for", dir, source))?;
        env.files = Arc::new(mirrored.clone());
        *mirror = Some(mirrored);
        notes.extend(left_out.iter().map(|(index, why)| {
            let (out, left) = (copies.dirs[*index].display(), copies.usable.len() - left_out.len());
            format!("wal: the copy in {out} is left out ({why}); {left} of {} copies go on", copies.dirs.len())
        }));
    }
    let env = &env;
    let log_id = found.log_id.unwrap_or_else(|| {
        let mut id = [0; 16];
        env.random.fill(&mut id);
        id
    });
    let recovered = Recovered {
        start: found.start(),
        end,
        next,
        incarnation: found.incarnation + 1,
        ending,
        torn_bytes: found.torn_bytes,
        repaired,
        recovered_from_ring: from_ring.len() as u64,
        ring: RingKind::Private,
        notes,
    };
    let next_number = found.segment_number_max + 1;
    let mut opening = Opening { env, dir, options, mirror: mirror.clone(), next_number, log_id, taken: None };
    let link = Link {
        incarnation: recovered.incarnation,
        previous_end: found.end,
        skip: options.skip_bytes(),
        reason: if follows && !mistake!("FOLLOWER_ENDS_RECORDS") { REASON_FOLLOW } else { REASON_OPEN },
        copies: mirror.as_ref().map_or(CopyCounts::ONE, Mirror::counts),
    };
    // O1: from here on the new incarnation is durable, behind the closing frame or in a new segment.
    let behind = if next == found.end { opening.behind_clean_end(&found, ending, link)? } else { None };
    let (writer, spans) = match behind {
        Some(both) => both,
        None => opening.start_new_segment(&found, &from_ring, next, link)?,
    };
    // A segment without a frame that counts must be removed before older ones are freed: at the front of the log its
    // frames would look like the start of the chain, and the frames behind would not join.
    let (void, spans): (Vec<Span>, Vec<Span>) = spans.into_iter().partition(|span| span.until == Some(BLOCK_BYTES));
    let mut leftovers = found.leftovers;
    leftovers.retain(|file| opening.taken.as_ref() != Some(&file.path));
    leftovers.extend(void.into_iter().map(|span| Leftover::void(span.path, span.segment_bytes, span.salt)));
    // Only now are files of the last incarnation changed (O3).
    let spares = match &gathered {
        Some(gathered) => {
            gathered.confirm(&*files)?;
            gathered.clear_leftovers(&*files, &spans)?;
            Vec::new()
        }
        None => opening.spares_from(leftovers)?,
    };
    let start = Start { spans, spares, next_number: opening.next_number, log_id };
    if let Some(mirror) = &writer.mirror {
        mirror.opened();
    }
    let lost_above = found.damage.map(|_| link.previous_end);
    Ok(Opened { env: env.clone(), writer, start, recovered, lost_above })
}

/// Removes half-prepared files of an earlier incarnation.
fn remove_temporaries(env: &Env, dir: &Path) -> Result<(), WalError> {
    let names = env.files.list(dir).map_err(|source| WalError::io("list", dir, source))?;
    for name in names.iter().filter(|name| name.ends_with(".wal.tmp")) {
        let path = dir.join(name);
        env.files.remove(&path).map_err(|source| WalError::io("remove", &path, source))?;
    }
    Ok(())
}

/// Keeps copies of the damaged tail and of the files beyond it under the name `.bad`, in each of `copies`. The files
/// themselves stay as they are until the new incarnation is durable: they prove the damage and show which positions
/// were used, in case this opening is cut short (O2, O3). Damage before the first frame that is left leaves no prefix:
/// then every segment is set aside.
fn set_aside(env: &Env, copies: &[CopyDir], found: &mut Scan) -> Result<(), WalError> {
    let lost = found.leftovers.iter().filter(|file| file.lost_frames).map(|file| file.path.clone());
    let mut aside: Vec<PathBuf> = lost.chain(found.tail().map(|(path, _)| path.to_owned())).collect();
    if found.damage.as_ref().is_some_and(|damage| damage.lsn < found.start()) {
        // They are removed newest first, and before the file that is the proof: the files left never look like a whole
        // log.
        for (at, span) in std::mem::take(&mut found.spans).into_iter().rev().enumerate() {
            aside.push(span.path.clone());
            found.leftovers.insert(at, Leftover::void(span.path, span.segment_bytes, span.salt));
        }
        found.recent.clear();
        found.last_records = None;
        (found.end, found.durable) = (Lsn::FIRST, Lsn::FIRST);
    }
    for dir in copies.iter().map(|copy| &copy.dir) {
        for path in aside.iter().filter_map(|path| Some(dir.join(path.file_name()?))) {
            match env.files.open(&path, Access::Read) {
                // Another copy has it.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound && copies.len() > 1 => {}
                _ => copy_aside(env, &path)?,
            }
        }
        env.files.sync_dir(dir).map_err(|source| WalError::io("sync", dir, source))?;
    }
    Ok(())
}

/// Copies a segment to its `.bad` name; the content is durable on return, the name is not.
fn copy_aside(env: &Env, path: &Path) -> Result<(), WalError> {
    let copy = || {
        let target = path.with_extension("wal.bad");
        // A half-made copy of an earlier try; usually there is none.
        let _absent = env.files.remove(&target);
        let (from, to) = (env.files.open(path, Access::Read)?, env.files.create(&target)?);
        let (mut at, mut piece) = (0, vec![0; 1 << 20]);
        loop {
            let count = from.read_at(at, &mut piece)?;
            if count == 0 {
                return to.sync_data();
            }
            to.write_at(at, &piece[..count])?;
            at += count as u64;
        }
    };
    copy().map_err(|source| WalError::io("copy aside", path, source))
}

struct Opening<'a> {
    env: &'a Env,
    dir: &'a Path,
    options: &'a Options,
    mirror: Option<Mirror>,
    next_number: u64,
    log_id: [u8; 16],
    /// The spare that became the new segment, under its old name.
    taken: Option<PathBuf>,
}

impl Opening<'_> {
    /// Returns the file of the new segment: a spare of the last incarnation if one has the right size, since a new file
    /// is filled with zeros and synced first. No frame was begun in a spare, so after a crash here the next scan misses
    /// nothing (O3).
    ///
    /// A new file is made if there is damage, since the old files stay as they are; with copies, which are
    /// distinguished by their content; and if a file has the name of another, since it may be the spare itself, under
    /// two names.
    ///
    /// On a full disk the file may be smaller, but has at least `least` bytes.
    fn file_for(&mut self, header: SegmentHeader, least: u64, found: &Scan) -> Result<Spare, WalError> {
        let plain = self.mirror.is_none() && found.damage.is_none();
        let usable = plain && found.leftovers.iter().all(Leftover::is_named_right);
        let fits = |file: &&Leftover| usable && file.is_spare && file.file_bytes == header.segment_bytes;
        if let Some(spare) = found.leftovers.iter().find(fits) {
            return self.take(spare, header);
        }
        let made = prepare(self.env, self.dir, header, &|| false);
        if !plain || !matches!(&made, Err(WalError::Io { source, .. }) if is_full(source)) {
            return made;
        }
        let small = found.leftovers.iter().filter(|file| usable && file.is_spare && file.file_bytes >= least);
        if let Some(spare) = small.max_by_key(|file| file.file_bytes) {
            let taken = self.take(spare, SegmentHeader { segment_bytes: spare.file_bytes, ..header });
            if !matches!(&taken, Err(WalError::Io { source, .. }) if is_full(source)) {
                return taken;
            }
            self.taken = None; // it has a hole that there is no room to fill
        }
        if !self.give_back_tails(found) {
            return made;
        }
        prepare_what_fits(self.env, self.dir, header, least, &|| false)
    }

    /// Turns a spare of the last incarnation into the new segment.
    fn take(&mut self, spare: &Leftover, header: SegmentHeader) -> Result<Spare, WalError> {
        self.taken = Some(spare.path.clone());
        prepare_again(self.env, self.dir, &spare.path, header)
    }

    /// Gives back the room behind the last frame of each segment, and returns whether there was any. Each opening
    /// leaves a segment that is nearly empty; without this a server that is killed again and again on a full disk would
    /// run out of room.
    fn give_back_tails(&self, found: &Scan) -> bool {
        let ended = found.spans.len().saturating_sub(usize::from(found.torn_bytes > 0)); // keeps a torn tail to look at
        let tails = found.spans[..ended]
            .iter()
            .filter_map(|span| give_back_tail(self.env, &span.path, span.until?, span.segment_bytes).ok());
        tails.sum::<u64>() > 0
    }

    fn frame_writer(&self, spare: Spare, found: &Scan, previous: Option<&Note>, link: Link) -> FrameWriter {
        FrameWriter::new(Beginning {
            spare,
            frame_number: found.frame_number_max,
            previous_crc: previous.map_or(0, |note| note.crc),
            end: found.end,
            incarnation: link.incarnation,
            skip: link.skip,
            copies: link.copies,
            mirror: self.mirror.clone(),
            frame_bytes: usize::try_from(self.options.frame_bytes_max()).expect("at most 2 MiB"),
        })
    }

    /// Continues in the last segment behind its closing frame, if there is one and room behind it.
    fn behind_clean_end(
        &self,
        found: &Scan,
        ending: Ending,
        link: Link,
    ) -> Result<Option<(FrameWriter, Vec<Span>)>, WalError> {
        let (Ending::Clean, Some(closing), Some(span)) = (ending, found.recent.back(), found.spans.last()) else {
            return Ok(None);
        };
        let file_bytes = span.segment_bytes;
        let header = SegmentHeader { log_id: self.log_id, number: 0, salt: span.salt, segment_bytes: file_bytes };
        if closing.next_offset + BLOCK_BYTES > file_bytes || closing.end != found.end || found.torn_bytes > 0 {
            return Ok(None);
        }
        let io = |source| WalError::io("open", &span.path, source);
        let file = self.env.files.open(&span.path, Access::ReadWrite).map_err(io)?;
        let mut block = vec![0; usize::try_from(BLOCK_BYTES).expect("4096")];
        file.read_at(closing.offset, &mut block).map_err(io)?;
        // O1: the same bytes again, so that this sync covers them whatever the sync at closing did.
        file.write_at(closing.offset, &block).map_err(|source| WalError::io("write", &span.path, source))?;
        let spare = Spare { file, path: span.path.clone(), header };
        let mut writer = self.frame_writer(spare, found, Some(closing), link);
        writer.continue_at(closing.next_offset);
        writer.write_payload(&[], found.end, found.end, Some(link), false)?;
        writer.sync()?;
        let mut spans = found.spans.clone();
        if let Some(last) = spans.last_mut() {
            last.until = None;
        }
        Ok(Some((writer, spans)))
    }

    /// Starts a new segment: writes what the frames do not prove durable, then the records that only the ring had, then
    /// the new incarnation.
    fn start_new_segment(
        &mut self,
        found: &Scan,
        from_ring: &[u8],
        next: Lsn,
        link: Link,
    ) -> Result<(FrameWriter, Vec<Span>), WalError> {
        // The first frame that ends there was synced before any other named that position as durable.
        let known = found.recent.iter().position(|note| note.end >= found.durable);
        // O4: the jumps behind it become void.
        let back = found.last_records.filter(|last| next < found.end && last.end <= found.durable);
        let anchor = back.or(known.map(|at| found.recent[at]));
        let from = anchor.map_or(Lsn::FIRST, |note| note.end);
        let (first, payload) = if back.is_some() { (from, Vec::new()) } else { self.read_again(found, known)? };
        let rewritten_to = first.plus(payload.len() as u64);
        let needed = (payload.len() + from_ring.len()) as u64 * 2 + 16 * BLOCK_BYTES;
        let segment_bytes = self.options.segment_bytes.max(needed.next_multiple_of(BLOCK_BYTES));
        let (number, salt) = (self.next_number, self.env.random.u64());
        self.next_number += 1;
        let header = SegmentHeader { log_id: self.log_id, number, salt, segment_bytes };
        let least = self.options.segment_bytes_min().max(needed.next_multiple_of(BLOCK_BYTES));
        let spare = self.file_for(header, least, found)?;
        let (path, segment_bytes) = (spare.path.clone(), spare.header.segment_bytes);
        let mut writer = self.frame_writer(spare, found, anchor.as_ref(), link);
        let rewrite = |previous_end| Link { previous_end, reason: REASON_REWRITE, ..link };
        let mut first_link = Some(rewrite(from));
        if first > from {
            // An incarnation of the followed log begins there, in one frame as before (`follow` F3).
            let jump = Link { previous_end: from, reason: REASON_OPEN, ..link };
            writer.write_payload(&payload, first, from, Some(jump), false)?;
            first_link = None;
        } else {
            self.write_records(&mut writer, found, &payload, [from, from], &mut first_link)?;
        }
        let mut end = rewritten_to;
        if !from_ring.is_empty() {
            let mut durable = from;
            if rewritten_to < found.end {
                // Positions jumped when the last incarnation began. Here too they jump only behind what is durable, so
                // that the records behind the jump can be distinguished from those before it if this incarnation ends
                // at once.
                writer.write_payload(&[], found.end, from, Some(rewrite(rewritten_to)), false)?;
                writer.sync_by(sync_file)?;
                (first_link, durable) = (None, found.end);
            }
            end = self.write_records(&mut writer, found, from_ring, [found.end, durable], &mut first_link)?;
        }
        // O1: this LINK makes the rewrite above count, and its sync makes all of it durable.
        let open = Link { previous_end: end, ..link };
        writer.write_payload(&[], next, from, Some(open), false)?;
        writer.sync_by(|file| if mistake!("OPEN_UNSYNCED") { Ok(()) } else { sync_file(file) })?;
        let mut spans = found.spans.clone();
        if let Some(anchor) = anchor {
            spans[anchor.span].until = Some(anchor.next_offset);
            for void in &mut spans[anchor.span + 1..] {
                void.until = Some(BLOCK_BYTES);
            }
        }
        spans.push(Span { path, salt, segment_bytes, first: from, until: None, broken: false });
        Ok((writer, spans))
    }

    /// Writes records from the position `at` on, in frames that name `durable`, and returns where they end; the first
    /// frame carries `link`.
    fn write_records(
        &self,
        writer: &mut FrameWriter,
        found: &Scan,
        records: &[u8],
        [mut at, durable]: [Lsn; 2],
        link: &mut Option<Link>,
    ) -> Result<Lsn, WalError> {
        let mut rest = records;
        while !rest.is_empty() {
            let piece = &rest[..rest.len().min(writer.frame_bytes)];
            let whole = whole_records(piece).filter(|whole| *whole > 0);
            let Some(whole) = whole else {
                return Err(WalError::Damaged {
                    lsn: at,
                    path: found.tail().map_or_else(|| self.dir.to_owned(), |(path, _)| path.to_owned()),
                    offset: 0,
                    stored: 0,
                    computed: 0,
                    durable: found.durable,
                });
            };
            at = writer.write_payload(&rest[..whole], at, durable, link.take(), false)?;
            rest = &rest[whole..];
        }
        Ok(at)
    }

    /// Reads the records of the frames behind the `known` one, and returns where they begin: at its end, or behind a
    /// jump of positions if that was the last event of a log that follows another.
    fn read_again(&self, found: &Scan, known: Option<usize>) -> Result<(Lsn, Vec<u8>), WalError> {
        let first = known.map_or(0, |at| at + 1);
        let mut end = known.map_or(Lsn::FIRST, |at| found.recent[at].end);
        let (mut start, mut payload) = (end, Vec::new());
        let mut window: Option<(usize, Window)> = None;
        for note in found.recent.iter().skip(first).filter(|note| note.start < note.end) {
            let span = &found.spans[note.span];
            let held = window.take().filter(|(of, _)| *of == note.span);
            let (_, file) = window.insert(match held {
                Some(held) => held,
                None => (note.span, Window::open(&*self.env.files, span.path.clone())?),
            });
            if payload.is_empty() {
                start = note.start;
            }
            assert!(
                payload.is_empty() || note.start == end,
                "positions jump only once all before is durable, and what follows says so"
            );
            match file.frame_at(note.offset, Some(span.salt))? {
                Ok(frame) => payload.extend_from_slice(frame.payload),
                Err(bad) => {
                    let (path, offset, lsn) = (span.path.clone(), note.offset, note.start);
                    let (stored, computed, durable) = (bad.stored, bad.computed, found.durable);
                    return Err(WalError::Damaged { lsn, path, offset, stored, computed, durable });
                }
            }
            end = note.end;
        }
        Ok((start, payload))
    }

    /// Makes spares of files that hold nothing of the log, and removes the others.
    fn spares_from(&mut self, leftovers: Vec<Leftover>) -> Result<Vec<Spare>, WalError> {
        let mut spares = Vec::new();
        for file in leftovers {
            // A header that names another file: a rename that a crash cut short may have left the same file under both
            // names, and as two spares it would be written twice.
            let named = file.is_named_right() || mistake!("ONE_FILE_TWO_SPARES");
            let reusable = named && file.file_bytes == self.options.segment_bytes;
            if reusable && spares.len() < self.options.spares as usize + EMERGENCY_SPARES {
                let (number, salt) = (self.next_number, self.env.random.u64());
                self.next_number += 1;
                let segment_bytes = file.file_bytes;
                let header = SegmentHeader { log_id: self.log_id, number, salt, segment_bytes };
                match prepare_again(self.env, self.dir, &file.path, header) {
                    // It has a hole that there is no room to fill.
                    Err(WalError::Io { source, .. }) if is_full(&source) => {}
                    again => {
                        spares.push(again?);
                        continue;
                    }
                }
            }
            let io = |source| WalError::io("remove", &file.path, source);
            self.env.files.remove(&file.path).map_err(io)?;
            self.env.files.sync_dir(self.dir).map_err(io)?;
        }
        Ok(spares)
    }
}
