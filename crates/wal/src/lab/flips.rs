//! Bit flips: the effect of a rotting medium on a log, one bit at a time.
//!
//! # Oracles
//! - B1. A flip in bytes that carry the log below the durable position that its frames name is reported: opening is
//!   refused as damaged, and a reader yields only a prefix of the records.
//! - B2. A flip anywhere else changes nothing below that position: no damage is reported and every record is there.
//! - B3. If `point_in_time` opens the log all the same, it holds a prefix of the records and hands out no position
//!   again, also when that opening crashes.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use collie_env::{CrashPoint, Env, Limits, SimFiles, SimRandom};

use crate::{
    Inspection, Level, Log, Lsn, Mark, Options, RecoveryMode, WalError,
    format::BLOCK_BYTES,
    lab::{
        Stamp, Violation,
        model::Yield,
        workload::{DIR, lab_options},
    },
    read::source::FrameSource,
    read::window::Window,
    scan::inspect::inspect_resting,
};

/// Counts of a sweep so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlipReport {
    /// Bytes of the files, spares and padding included.
    pub bytes: u64,
    /// Bytes that carry the log below the durable position.
    pub protected_bytes: u64,
    /// Bits flipped.
    pub flips: u64,
    /// Flips that were reported as damage.
    pub reported: u64,
    /// Flips outside the protected bytes, which changed nothing.
    pub harmless: u64,
}

/// The bits of a byte that are flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    /// All eight.
    All,
    /// One, chosen by the seed.
    One,
}

/// A range of a file.
struct Region {
    path: PathBuf,
    from: u64,
    to: u64,
    protected: bool,
}

/// Flips `bits` of every byte that carries the log, and one bit of every 64th other byte, of a log made from `seed`.
/// Calls `progress` after every few thousand flips.
///
/// # Errors
/// The first flip that was not reported, or that changed protected records.
pub fn sweep_flips(seed: u64, bits: Bits, progress: &mut dyn FnMut(&FlipReport)) -> Result<FlipReport, Violation> {
    let violation = |message: String| Violation { seed, states: 0, message };
    let disk = make_log(seed).map_err(|error| violation(error.to_string()))?;
    let before = look(&disk).map_err(violation)?;
    let regions = regions_of(&disk, &before).map_err(|error| violation(error.to_string()))?;
    let intact = Yielded::of(&before, before.durable()).map_err(violation)?;
    let random = SimRandom::new(seed);
    let mut report = FlipReport::default();
    for region in &regions {
        for offset in region.from..region.to {
            report.bytes += 1;
            report.protected_bytes += u64::from(region.protected);
            if !region.protected && !offset.is_multiple_of(64) {
                continue;
            }
            let one = random.below(8);
            for bit in (0..8).filter(|bit| (bits == Bits::All && region.protected) || *bit == one) {
                report.flips += 1;
                flip(&disk, region, offset, 1 << bit, &intact, &mut report).map_err(|message| {
                    violation(format!("bit {bit} of {} offset {offset} flipped: {message}", region.path.display()))
                })?;
            }
            if report.flips % 4_096 == 0 {
                progress(&report);
            }
        }
    }
    Ok(report)
}

/// Flips bits, checks the log, and flips them back.
fn flip(
    disk: &SimFiles,
    region: &Region,
    offset: u64,
    mask: u8,
    intact: &Yielded,
    report: &mut FlipReport,
) -> Result<(), String> {
    let rot = || disk.flip(&region.path, offset, mask).map_err(|error| error.to_string());
    rot()?;
    let after = look(disk)?;
    let yielded = Yielded::of(&after, intact.durable);
    match (region.protected, after.damage()) {
        (true, None) => return Err("nothing is reported".to_owned()),
        (true, Some(WalError::Damaged { .. })) => {
            // An opening checks in the same way; every seventeenth flip verifies that.
            if report.flips.is_multiple_of(17) {
                let opened = Log::open(&Env::over(disk.clone(), 1), Path::new(DIR), lab_options());
                if !matches!(opened, Err(WalError::Damaged { .. })) {
                    return Err(format!("inspection reports damage, opening says {:?}", opened.map(|_| "open")));
                }
            }
            if report.flips.is_multiple_of(509) {
                opens_before_the_damage(disk, intact)?;
            }
            // A reader may end with an error; the records before it must be those that were there.
            if !intact.records.starts_with(&yielded.map_or(Vec::new(), |yielded| yielded.records)) {
                return Err("a reader yields what was not written".to_owned());
            }
            report.reported += 1;
        }
        (_, Some(error)) => return Err(format!("reported, but: {error}")),
        (false, None) => {
            if yielded?.records != intact.records {
                return Err("outside the log, and records changed".to_owned());
            }
            report.harmless += 1;
        }
    }
    rot()
}

/// Opens a copy of `disk` with `point_in_time`, and crashes that opening: a prefix is left, the same in every state,
/// and no position is used twice.
fn opens_before_the_damage(disk: &SimFiles, intact: &Yielded) -> Result<(), String> {
    let point = disk.crash_point();
    let copy = point.state(&point.all_kept());
    let moments: Arc<Mutex<Vec<CrashPoint>>> = Arc::default();
    let sink = moments.clone();
    copy.watch(move |point| sink.lock().unwrap_or_else(PoisonError::into_inner).push(point));
    let highest = intact.records.last().map_or(Lsn::ZERO, |(_, end, _)| *end);
    let open = |disk: &SimFiles| {
        let options = Options { recovery_mode: RecoveryMode::PointInTime, ..lab_options() };
        let opened = Log::open(&Env::over(disk.clone(), 1), Path::new(DIR), options);
        let (log, found) = opened.map_err(|error| format!("point_in_time refuses: {error}"))?;
        let yielded = Yield::of(&log, &found)?;
        log.abandon();
        if !intact.records.starts_with(&yielded.records) {
            return Err(format!("point_in_time yields {} records that are no prefix", yielded.records.len()));
        }
        if yielded.next < highest {
            return Err(format!("point_in_time hands out {} again, {highest} was used", yielded.next));
        }
        Ok(yielded.records.len())
    };
    let left = open(&copy)?;
    let moments = std::mem::take(&mut *moments.lock().unwrap_or_else(PoisonError::into_inner));
    for point in moments {
        for picks in point.states(Limits { exhaustive: 2, sampled: 2, structured: 1 }, 1) {
            let again =
                open(&point.state(&picks)).map_err(|error| format!("after a crash of that opening: {error}"))?;
            if again != left {
                return Err(format!("point_in_time leaves {left} records, {again} after a crash of that opening"));
            }
        }
    }
    Ok(())
}

fn look(disk: &SimFiles) -> Result<Inspection, String> {
    inspect_resting(&Env::over(disk.clone(), 1), Path::new(DIR)).map_err(|error| error.to_string())
}

/// The records below a position.
struct Yielded {
    durable: Lsn,
    records: Vec<(Lsn, Lsn, Vec<u8>)>,
}

impl Yielded {
    fn of(inspection: &Inspection, durable: Lsn) -> Result<Self, String> {
        let mut records = Vec::new();
        for record in inspection.records(Lsn::ZERO) {
            let record = record.map_err(|error| error.to_string())?;
            if record.end <= durable {
                records.push((record.lsn, record.end, record.body));
            }
        }
        Ok(Self { durable, records })
    }
}

/// Makes a log of several segments and incarnations: a clean close, a kill, long records, an empty frame, an unsynced
/// end.
fn make_log(seed: u64) -> Result<SimFiles, WalError> {
    let random = SimRandom::new(seed);
    let mut disk = SimFiles::new();
    let mut stamp = Stamp::default();
    for life in 0..3_u64 {
        let (log, found) = Log::open(&Env::over(disk.clone(), seed ^ life << 32), Path::new(DIR), lab_options())?;
        let mut writer = log.writer();
        for _ in 0..8 {
            let len = usize::try_from(40 + random.below(900)).expect("small");
            stamp = stamp.next(found.incarnation, log.boundary().get(), len);
            writer.commit(1, &stamp.body(len), Level::Disk)?;
        }
        stamp = stamp.next(found.incarnation, log.boundary().get(), 6_000);
        let long = writer.append(2, &[&stamp.body(6_000)])?;
        log.wait(Mark::Durable, long.end)?;
        if life == 0 {
            log.close()?;
        } else {
            log.heartbeat()?;
            writer.append(1, &[b"unsynced"])?;
            log.flush_wal(false)?;
            log.abandon();
            disk = disk.process_kill();
        }
    }
    Ok(disk)
}

/// Returns the ranges of the files; those that carry the log below the durable position (headers of segments and
/// frames, and payloads) are protected.
fn regions_of(disk: &SimFiles, before: &Inspection) -> Result<Vec<Region>, WalError> {
    let mut regions = Vec::new();
    let mut add = |path: &Path, from: u64, to: u64, protected: bool| {
        if from < to {
            regions.push(Region { path: path.to_owned(), from, to, protected });
        }
    };
    for segment in before.segments() {
        let path = &segment.path;
        let carries = segment.first < before.durable() && segment.used_bytes > BLOCK_BYTES;
        add(path, 0, BLOCK_BYTES, carries);
        let mut window = Window::open(disk, path.clone())?;
        let mut offset = BLOCK_BYTES;
        while offset < segment.used_bytes {
            let Ok(frame) = window.frame_at(offset, None)? else { break };
            let (bytes, next_offset) = (frame.header.bytes() as u64, frame.next_offset);
            add(path, offset, offset + bytes, frame.header.start < before.durable());
            add(path, offset + bytes, next_offset, false);
            offset = next_offset;
        }
        add(path, offset, window.file_bytes(), false);
    }
    Ok(regions)
}
