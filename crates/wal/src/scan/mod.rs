//! `Scan`: the recovery scan. It reads all files of a log directory and decides what the log is: its chain of frames,
//! its end, and whether the end is clean, an unfinished flush, or damage. It writes nothing.
//!
//! # Invariants
//! - Y1. The chain is a prefix in frame order: a frame joins only behind the frame whose number, end and checksum it
//!   names. A LINK frame may join further back; the frames behind that point are void then. A file's first frame may
//!   join at any distance (the log was cut there, `truncate`), a later frame only at or above what was durable.
//! - Y2. A segment that starts with a REWRITE link counts only if a link of another reason follows in it: its frames
//!   were written together and synced once, so half of them must not replace the frames that they copy.
//! - Y3. A valid frame that the chain did not take and whose durable LSN lies above the chain's end proves damage. LSNs
//!   only grow, so a stale frame never proves it.
//! - Y4. A chain starts where the records before its first frame ended, not at the position of that frame: an opening
//!   may continue from a file that held no record and of which perhaps nothing was durable. Positions jump in between,
//!   so a log without that file lacks nothing.
//!
//! Checked by the crash lab (`lab`): every crash point, every flipped bit.
//!
//! | file | holds |
//! |---|---|
//! | `misplaced` | the explanation of files that are missing or were exchanged |
//! | `inspect`, `figures` | a log read without being opened, and totals over it |

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

use collie_base::Lsn;
use collie_env::Files;

use crate::{
    Checked, WalError, format::BLOCK_BYTES, format::CopyCounts, format::REASON_REWRITE, format::REASON_TRUNCATE,
    format::SegmentHeader, format::decode::Bad, format::decode::HeaderBlock, format::segment_number,
    read::source::FrameSource, read::window::Window, scan::misplaced::Cause, scan::misplaced::Shortened,
    scan::misplaced::explain, scan::misplaced::refuse_wrong_name, segment::Span,
};

/// A frame of the chain, as far as a later frame may refer to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    pub(crate) span: usize,
    pub(crate) offset: u64,
    pub(crate) next_offset: u64,
    pub(crate) number: u64,
    pub(crate) start: Lsn,
    pub(crate) end: Lsn,
    pub(crate) crc: u32,
    pub(crate) end_mark: bool,
}

/// A file that holds nothing of the chain.
#[derive(Clone, Debug)]
pub(crate) struct Leftover {
    pub(crate) path: PathBuf,
    pub(crate) number: u64,
    pub(crate) file_bytes: u64,
    /// Whether it holds frames that were durable and that the chain lacks.
    pub(crate) lost_frames: bool,
    /// Whether it is a spare: its header is good, and no frame was begun in it under that header's salt.
    pub(crate) is_spare: bool,
    header: Result<u64, Bad>,
}

impl Leftover {
    /// Returns whether the file has a good header, which names the number that the file has.
    pub(crate) fn is_named_right(&self) -> bool {
        self.header.is_ok()
    }

    /// Makes a leftover of a segment whose frames are all void.
    pub(crate) fn void(path: PathBuf, file_bytes: u64, salt: u64) -> Self {
        Self { path, number: 0, file_bytes, lost_frames: false, is_spare: false, header: Ok(salt) }
    }
}

/// Bytes below what was durable that do not read back.
#[derive(Clone, Debug)]
pub(crate) struct Damage {
    /// Everything below was read and is good.
    pub(crate) lsn: Lsn,
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
    pub(crate) bad: Bad,
    pub(crate) durable: Lsn,
    pub(crate) cause: Cause,
}

/// The chain of frames while it is followed.
#[derive(Clone, Debug, Default)]
struct Chain {
    spans: Vec<Span>,
    /// The frames that a later LINK may refer to: those that end at or above the largest durable LSN seen.
    recent: VecDeque<Note>,
    /// End and checksum of the frames from which the first frames of files continue.
    named: BTreeSet<(Lsn, u32)>,
    /// Those of them that are no longer recent.
    kept: Vec<Note>,
    /// The last known frame with records: where a log ends in which only positions have jumped since.
    last_records: Option<Note>,
    durable: Lsn,
    incarnation: u64,
    skip: u64,
    copies: Option<CopyCounts>,
    stopped_by: Option<Bad>,
}

/// The result of the recovery scan of a directory.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) log_id: Option<[u8; 16]>,
    /// Segments of the chain, oldest first; `until` is set in all.
    pub(crate) spans: Vec<Span>,
    pub(crate) recent: VecDeque<Note>,
    /// The last frame with records, if there is one.
    pub(crate) last_records: Option<Note>,
    /// The largest durable LSN that the chain's frames name.
    pub(crate) durable: Lsn,
    /// End of the chain.
    pub(crate) end: Lsn,
    pub(crate) clean: bool,
    /// Largest incarnation seen anywhere; the `_max` fields are the largest frame number, segment number and record
    /// end.
    pub(crate) incarnation: u64,
    /// Incarnation of the last frame of the chain.
    pub(crate) chain_incarnation: u64,
    pub(crate) frame_number_max: u64,
    pub(crate) segment_number_max: u64,
    pub(crate) end_max: Lsn,
    /// How many positions beyond the durable ones the last incarnation may have handed out.
    pub(crate) skip: u64,
    /// The counts of copies in the chain's last LINK.
    pub(crate) copies: CopyCounts,
    pub(crate) leftovers: Vec<Leftover>,
    pub(crate) damage: Option<Damage>,
    /// Bytes of flushes that began behind the end of the chain.
    pub(crate) torn_bytes: u64,
}

impl Scan {
    /// Returns where the chain starts (Y4).
    pub(crate) fn start(&self) -> Lsn {
        self.spans.first().map_or(Lsn::FIRST, |span| span.first)
    }

    /// Returns where the last record ends; positions may have jumped since.
    pub(crate) fn records_end(&self) -> Lsn {
        self.last_records.map_or(self.end, |last| last.end)
    }

    /// Returns the file and the offset where the chain ends.
    pub(crate) fn tail(&self) -> Option<(&Path, u64)> {
        self.spans.last().map(|span| (span.path.as_path(), span.until.unwrap_or(BLOCK_BYTES)))
    }
}

/// Scans `dir`. `known_durable`: a position that the caller knows to have been durable.
pub(crate) fn scan(files: &dyn Files, dir: &Path, known_durable: Option<Lsn>) -> Result<Scan, WalError> {
    scan_watched(files, dir, known_durable, &Checked::default())
}

/// Does the same as [`scan`], and reports its progress to `checked`.
pub(crate) fn scan_watched(
    files: &dyn Files,
    dir: &Path,
    known_durable: Option<Lsn>,
    checked: &Checked,
) -> Result<Scan, WalError> {
    checked.begin();
    let names = files.list(dir).map_err(|source| WalError::io("list", dir, source))?;
    let mut numbers: Vec<(u64, PathBuf)> =
        names.iter().filter_map(|name| Some((segment_number(name)?, dir.join(name)))).collect();
    numbers.sort_unstable();
    let segment_number_max = numbers.last().map_or(0, |(number, _)| *number);
    // Read first: the chain must remember the frames that later files continue from.
    let mut chain = Chain { named: named_by_first_frames(files, &numbers, checked)?, ..Chain::default() };
    let (mut log_id, mut leftovers) = (None, Vec::new());
    let (mut seen, mut shortened) = (Seen { checked: checked.clone(), ..Seen::default() }, Vec::new());
    for (number, path) in numbers {
        let mut window = Window::open(files, path.clone())?;
        let file_bytes = window.file_bytes();
        let header = match window.segment_header()? {
            HeaderBlock::Newer(version) => return Err(WalError::NewerFormat { path, version }),
            HeaderBlock::Segment(header) if header.number == number => Ok(header),
            HeaderBlock::Segment(header) => {
                refuse_wrong_name(&mut window, &path, &header)?;
                Err(Bad { stored: 0, computed: 0 })
            }
            HeaderBlock::Bad(bad) => Err(bad),
        };
        if let Ok(SegmentHeader { segment_bytes, .. }) = header
            && file_bytes < segment_bytes
        {
            shortened.push(Shortened { path: path.clone(), bytes: file_bytes, segment_bytes });
        }
        let joined = match header {
            Ok(header) if *log_id.get_or_insert(header.log_id) != header.log_id => {
                return Err(WalError::ForeignLog { path });
            }
            Ok(header) => chain.follow_segment(&mut window, &path, header, &mut seen)?,
            Err(_) => false,
        };
        seen.end_file(file_bytes);
        if !joined {
            let header = header.map(|header| header.salt);
            leftovers.push(Leftover { path, number, file_bytes, lost_frames: false, is_spare: false, header });
        }
    }
    let last = chain.recent.back().copied();
    let mut scan = Scan {
        log_id,
        end: last.map_or(Lsn::FIRST, |note| note.end),
        clean: last.is_some_and(|note| note.end_mark),
        spans: chain.spans,
        recent: chain.recent,
        last_records: chain.last_records,
        durable: chain.durable.max(Lsn::FIRST),
        incarnation: seen.incarnation,
        chain_incarnation: chain.incarnation,
        frame_number_max: seen.frame_number,
        segment_number_max,
        end_max: seen.end,
        skip: chain.skip,
        copies: chain.copies.unwrap_or(CopyCounts::ONE),
        leftovers,
        damage: None,
        torn_bytes: 0,
    };
    // The end of the chain is known only now: the bytes behind it are a torn tail or prove damage.
    look_ahead(files, &mut scan, chain.stopped_by, known_durable)?;
    explain(files, &mut scan, &shortened)?;
    Ok(scan)
}

/// Returns end and checksum of the frames that the files' first frames continue from. A chain must remember these
/// however far it has come; there is at most one per file.
fn named_by_first_frames(
    files: &dyn Files,
    numbers: &[(u64, PathBuf)],
    checked: &Checked,
) -> Result<BTreeSet<(Lsn, u32)>, WalError> {
    let mut named = BTreeSet::new();
    for (number, path) in numbers {
        let mut window = Window::open(files, path.clone())?;
        checked.expect(window.file_bytes());
        let HeaderBlock::Segment(header) = window.segment_header()? else { continue };
        if header.number == *number
            && let Ok(frame) = window.frame_at(BLOCK_BYTES, Some(header.salt))?
            && let Some(link) = frame.header.link
        {
            named.insert((link.previous_end, frame.header.previous_crc));
        }
    }
    Ok(named)
}

/// Returns where the records before a frame end. Positions may jump from there to the frame's, which has all that
/// follow.
fn continues_from(header: &crate::format::FrameHeader) -> Lsn {
    let own = |link: crate::format::Link| link.previous_end.min(header.start);
    header.link.filter(|_| !mistake!("STARTS_AT_A_JUMP")).map_or(header.start, own)
}

/// Maxima over every frame that joined the chain, also those that became void, and how much was read.
#[derive(Debug, Default)]
struct Seen {
    incarnation: u64,
    frame_number: u64,
    end: Lsn,
    checked: Checked,
    /// Bytes of files that were checked, and of the current one.
    files_bytes: u64,
    file_bytes: u64,
}

impl Seen {
    fn take(&mut self, header: &crate::format::FrameHeader) {
        self.incarnation = self.incarnation.max(header.link.map_or(0, |link| link.incarnation));
        self.frame_number = self.frame_number.max(header.number);
        self.end = self.end.max(header.end());
        self.file_bytes += header.padded_bytes();
        self.checked.reach(self.files_bytes + self.file_bytes);
    }

    fn end_file(&mut self, bytes: u64) {
        (self.files_bytes, self.file_bytes) = (self.files_bytes + bytes, 0);
        self.checked.reach(self.files_bytes);
    }
}

impl Chain {
    /// Takes the frames of one segment; returns whether it belongs to the chain.
    fn follow_segment(
        &mut self,
        window: &mut Window,
        path: &Path,
        header: SegmentHeader,
        seen: &mut Seen,
    ) -> Result<bool, WalError> {
        let (mut offset, mut rewriting) = (BLOCK_BYTES, false);
        let (mut before, mut stopped_by) = (None, None);
        while offset < header.segment_bytes.min(window.file_bytes()) {
            #[cfg_attr(not(test), expect(unused_mut, reason = "a test's mistake changes it"))]
            let mut frame = match window.frame_at(offset, Some(header.salt))? {
                Ok(frame) => frame,
                Err(bad) => {
                    stopped_by = Some(bad);
                    break;
                }
            };
            #[cfg(test)]
            self.mistake_for_next(&mut frame.header);
            let first = offset == BLOCK_BYTES;
            if !self.joins(&frame.header, first) {
                break;
            }
            seen.take(&frame.header);
            if let Some(link) = frame.header.link {
                // Y2: kept for the case that the rewrite is incomplete.
                if link.reason == REASON_REWRITE && before.is_none() {
                    before = Some(self.clone());
                }
                self.cut_to(&frame.header);
                rewriting = link.reason == REASON_REWRITE;
                (self.incarnation, self.skip) = (link.incarnation, link.skip);
                // A cut is made in one directory and says nothing about the others.
                self.copies = if link.reason == REASON_TRUNCATE { self.copies } else { Some(link.copies) };
            }
            if first {
                let (salt, segment_bytes) = (header.salt, header.segment_bytes);
                let first = continues_from(&frame.header);
                let path = path.to_owned();
                self.spans.push(Span { path, salt, segment_bytes, first, until: None, broken: false });
            }
            self.push(offset, frame.next_offset, &frame.header, frame.crc);
            offset = frame.next_offset;
        }
        if rewriting && !mistake!("HALF_REWRITE_COUNTS") {
            *self = before.expect("a REWRITE link was met");
            return Ok(false);
        }
        if offset == BLOCK_BYTES {
            return Ok(false);
        }
        self.stopped_by = stopped_by;
        Ok(true)
    }

    /// Returns whether the frame continues the chain (Y1).
    fn joins(&self, header: &crate::format::FrameHeader, first_in_segment: bool) -> bool {
        match (header.link, self.recent.back()) {
            (None, None) => false,
            (None, Some(last)) => {
                !first_in_segment
                    && header.number == last.number + 1
                    && header.start == last.end
                    && header.previous_crc == last.crc
            }
            (Some(_), None) => first_in_segment,
            (Some(link), Some(last)) => {
                let named = |note: &Note| note.end == link.previous_end && note.crc == header.previous_crc;
                header.number > last.number
                    && header.start >= link.previous_end
                    && (self.recent.iter().any(named) || first_in_segment && self.kept.iter().any(named))
            }
        }
    }

    /// Makes the mistake of a format without epochs and positions: any frame behind the last one is taken as the next.
    #[cfg(test)]
    fn mistake_for_next(&self, header: &mut crate::format::FrameHeader) {
        if let (true, None, Some(last)) = (mistake!("NO_EPOCH"), header.link, self.recent.back()) {
            (header.number, header.start, header.previous_crc) = (last.number + 1, last.end, last.crc);
        }
    }

    /// Makes the frames behind the one that a LINK continues from void.
    fn cut_to(&mut self, header: &crate::format::FrameHeader) {
        let Some(link) = header.link else { return };
        let named = |note: &Note| note.end == link.previous_end && note.crc == header.previous_crc;
        let note = if let Some(at) = self.recent.iter().rposition(named) {
            self.recent.truncate(at + 1);
            self.recent[at]
        } else if let Some(at) = self.kept.iter().rposition(named) {
            let note = self.kept[at];
            self.kept.truncate(at);
            self.recent = VecDeque::from([note]);
            note
        } else {
            return;
        };
        if self.last_records.is_some_and(|last| last.number > note.number) {
            self.last_records = Some(note);
        }
        // A durable position that void frames name is void too: at most the records up to the named frame count as
        // durable.
        self.durable = self.durable.min(note.end);
        self.spans[note.span].until = Some(note.next_offset);
        for void in &mut self.spans[note.span + 1..] {
            void.until = Some(BLOCK_BYTES);
        }
    }

    fn push(&mut self, offset: u64, next_offset: u64, header: &crate::format::FrameHeader, crc: u32) {
        let span = self.spans.len() - 1;
        self.spans[span].until = Some(next_offset);
        let (number, start, end, end_mark) = (header.number, header.start, header.end(), header.end_mark);
        let note = Note { span, offset, next_offset, number, start, end, crc, end_mark };
        self.recent.push_back(note);
        if start < end {
            self.last_records = Some(note);
        }
        self.durable = self.durable.max(header.durable);
        while self.recent.len() > 1 && self.recent[0].end < self.durable {
            let left = self.recent.pop_front().filter(|note| self.named.contains(&(note.end, note.crc)));
            self.kept.extend(left);
        }
    }
}

/// Looks at everything behind the end of the chain, and decides whether it is an unfinished flush or proof that durable
/// bytes are gone.
fn look_ahead(
    files: &dyn Files,
    scan: &mut Scan,
    stopped_by: Option<Bad>,
    known_durable: Option<Lsn>,
) -> Result<(), WalError> {
    let mut proof = known_durable.filter(|durable| *durable > scan.end);
    let tail = scan.tail().map(|(path, offset)| (path.to_owned(), offset));
    if let Some((path, offset)) = &tail {
        let salt = scan.spans.last().map(|span| span.salt);
        let found = proofs_in(files, path, *offset, salt, scan)?;
        scan.torn_bytes = found.written_to.saturating_sub(*offset);
        proof = proof.max(found.durable);
    }
    let here = |(path, offset): (PathBuf, u64)| (path, offset, stopped_by.unwrap_or(Bad { stored: 0, computed: 0 }));
    let mut place = proof.and(tail.clone()).map(here);
    let mut lost_start = false;
    let chain_from = scan.spans.first().and_then(|span| segment_number(&span.path.file_name()?.to_string_lossy()));
    for at in 0..scan.leftovers.len() {
        let Leftover { path, number, header, .. } = scan.leftovers[at].clone();
        let lost = proofs_in(files, &path, BLOCK_BYTES, header.ok(), scan)?;
        scan.leftovers[at].is_spare = header.is_ok() && lost.written_to == BLOCK_BYTES;
        let (mut found, older) = (lost.durable, chain_from.is_some_and(|from| number < from));
        if older && lost.frames > 0 {
            // Files are freed whole and in order: a file below the chain that holds frames was part of it.
            found = found.max(Some(scan.durable));
            lost_start = true;
        }
        if found.is_some() {
            scan.leftovers[at].lost_frames = true;
            proof = proof.max(found);
            let first_frame = Bad { stored: 0, computed: 0 };
            let beyond_tail = stopped_by.is_none() || tail.is_none() || older;
            let blame = || match header {
                Err(bad) => (path.clone(), 0, bad),
                Ok(_) => (path.clone(), BLOCK_BYTES, first_frame),
            };
            let found_here = if beyond_tail { Some(blame()) } else { tail.clone().map(here) };
            place = place.or(found_here);
        }
    }
    if mistake!("DAMAGE_TRIMMED") {
        proof = None;
    }
    if mistake!("TAIL_REFUSED") && scan.torn_bytes > 0 {
        proof = proof.max(Some(scan.end));
    }
    let Some(durable) = proof else { return Ok(()) };
    let (path, offset, bad) = place.unwrap_or_else(|| (PathBuf::from("(no file)"), 0, Bad { stored: 0, computed: 0 }));
    let lsn = if lost_start { Lsn::FIRST } else { scan.end };
    scan.damage = Some(Damage { lsn, path, offset, bad, durable, cause: Cause::Bytes });
    Ok(())
}

/// The contents of a file behind an offset.
#[derive(Debug, Default)]
struct Behind {
    /// The largest durable LSN above the chain's end that a valid frame names.
    durable: Option<Lsn>,
    /// The number of valid frames.
    frames: u64,
    /// Where the last flush that began under the segment's salt would end. Other bytes that are not zero are from an
    /// earlier use.
    written_to: u64,
}

/// Looks for valid frames under `salt` (or any salt, if the header that names it is gone) at or after `offset`.
fn proofs_in(
    files: &dyn Files,
    path: &Path,
    offset: u64,
    salt: Option<u64>,
    scan: &mut Scan,
) -> Result<Behind, WalError> {
    let mut window = Window::open(files, path.to_owned())?;
    let mut behind = Behind { written_to: offset, ..Behind::default() };
    let mut at = offset;
    while let Some(block) = window.next_begun_block(at)? {
        at = block + BLOCK_BYTES;
        let Ok(frame) = window.frame_at(block, salt)? else {
            if let Some(end) = window.claimed_end(block, salt)? {
                behind.written_to = behind.written_to.max(end);
            }
            continue;
        };
        scan.end_max = scan.end_max.max(frame.header.end());
        scan.frame_number_max = scan.frame_number_max.max(frame.header.number);
        scan.incarnation = scan.incarnation.max(frame.header.link.map_or(0, |link| link.incarnation));
        behind.frames += 1;
        if frame.header.durable > scan.end {
            behind.durable = behind.durable.max(Some(frame.header.durable));
        }
        behind.written_to = behind.written_to.max(frame.next_offset);
    }
    Ok(behind)
}
pub(crate) mod figures;
pub(crate) mod inspect;
pub(crate) mod misplaced;
