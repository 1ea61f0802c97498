//! What does reading a log cost: the scan of its files at an opening, and reading its records back? From the page
//! cache, compared with reading the same bytes, and with reading and checksumming them.

use std::path::Path;

use collie_base::checksum::crc32c;
use collie_env::{Access, Env};
use collie_wal::{Log, Mark, ReadMode, Records, SegmentInfo, WalError, inspect};

use super::{disk_options, median, per_s};
use crate::{Plan, Section, report::Row, thread_time::ThreadTime};

const LOG_BYTES: u64 = 256 << 20;
const BLOCK_BYTES: u64 = 4096;
const LEVEL: &str = "none";
const READ: &str = "read alone";
const FLOOR: &str = "read and sum (floor)";

/// A log of records of one size.
struct Case {
    record_bytes: usize,
    /// Whether each record has its own flush, as the commits of a single client have.
    frame_each: bool,
}

const CASES: [Case; 4] = [
    Case { record_bytes: 100, frame_each: false },
    Case { record_bytes: 1024, frame_each: false },
    Case { record_bytes: 32 << 10, frame_each: false },
    Case { record_bytes: 100, frame_each: true },
];

impl Case {
    fn name(&self, bytes: u64) -> String {
        let each = if self.frame_each { ", a frame each" } else { "" };
        format!("{} B records{each}, {} MiB", self.record_bytes, bytes >> 20)
    }

    /// Writes a log with about `bytes` bytes in its files and leaves it as a crash would; returns the number of its
    /// records.
    fn write(&self, plan: &Plan, dir: &Path, bytes: u64) -> anyhow::Result<u64> {
        let (log, _found) = Log::open(&plan.env, dir, disk_options(plan))?;
        let (mut writer, body, mut count, mut end) = (log.writer(), vec![0xA5; self.record_bytes], 0, log.durable());
        let begin = end;
        let is_enough = |count, end: collie_base::Lsn| match self.frame_each {
            true => count * BLOCK_BYTES >= bytes,
            false => end.bytes_since(begin) >= bytes,
        };
        while !is_enough(count, end) {
            end = writer.append(1, &[&body])?.end;
            count += 1;
            if self.frame_each {
                log.wait(Mark::Durable, end)?;
            }
        }
        log.wait(Mark::Durable, end)?;
        drop(writer);
        log.abandon();
        Ok(count)
    }
}

/// Reads the used part of the log's files in steps of 1 MiB, and checksums it if `summed`; returns the number of bytes.
fn read_files(env: &Env, segments: &[SegmentInfo], summed: bool) -> anyhow::Result<u64> {
    let (mut buffer, mut all, mut sum) = (vec![0; 1 << 20], 0, 0);
    for segment in segments {
        let file = env.files.open(&segment.path, Access::Read)?;
        let mut at = 0;
        while at < segment.used_bytes {
            let step = usize::try_from(segment.used_bytes - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            let count = file.read_at(at, &mut buffer[..step])?;
            if count == 0 {
                break;
            }
            if summed {
                sum ^= crc32c(&buffer[..count]);
            }
            at += count as u64;
            all += count as u64;
        }
        std::hint::black_box(&mut buffer);
    }
    std::hint::black_box(sum);
    Ok(all)
}

/// Counts the records in place, as replay reads them.
fn visit(records: Records) -> anyhow::Result<u64> {
    let mut seen = 0;
    records.visit(|record| {
        std::hint::black_box(record);
        seen += 1;
        Ok::<(), WalError>(())
    })?;
    Ok(seen)
}

/// One way of reading a log, and the results of its runs.
#[derive(Default)]
struct Pass {
    subject: &'static str,
    bytes_per_s: Vec<f64>,
    records_per_s: Vec<f64>,
    elapsed_ms: Vec<f64>,
}

/// The passes over one log, in the order of their rows.
struct Passes<'a> {
    plan: &'a Plan,
    time: ThreadTime,
    file_bytes: u64,
    passes: Vec<Pass>,
}

impl Passes<'_> {
    /// Notes a run of `subject` that took `ns` of processor time, and the number of records that it read.
    fn note(&mut self, subject: &'static str, ns: u64, records: Option<u64>) -> &mut Pass {
        let at = self.passes.iter().position(|pass| pass.subject == subject).unwrap_or_else(|| {
            self.passes.push(Pass { subject, ..Pass::default() });
            self.passes.len() - 1
        });
        let pass = &mut self.passes[at];
        pass.bytes_per_s.push(per_s(self.file_bytes, ns));
        pass.records_per_s.extend(records.map(|records| per_s(records, ns)));
        pass
    }

    /// Runs every pass once over the log in `dir`, which holds `count` records or a few more.
    fn run(&mut self, dir: &Path, count: u64) -> anyhow::Result<()> {
        let (plan, env) = (self.plan, &self.plan.env);
        let segments = inspect(env, dir)?.segments();
        for (subject, summed) in [(READ, false), (FLOOR, true)] {
            let (bytes, ns) = self.time.of(plan, || read_files(env, &segments, summed));
            self.file_bytes = bytes?;
            self.note(subject, ns, None);
        }
        let (found, ns) = self.time.of(plan, || inspect(env, dir));
        let found = found?;
        self.note("survey, every frame", ns, None);
        let seen_all = |seen: u64| {
            anyhow::ensure!((count..count + 64).contains(&seen), "{seen} records came back of {count}");
            Ok(Some(seen))
        };
        let (seen, ns) = self.time.of(plan, || visit(found.records(found.start())));
        self.note("every record, visited", ns, seen_all(seen?)?);
        let (seen, ns) = self
            .time
            .of(plan, || found.records(found.start()).try_fold(0, |seen, record| record.map(|_record| seen + 1)));
        self.note("every record, copied out", ns, seen_all(seen?)?);
        drop(found);
        let begun_ns = plan.now_ns();
        let (opened, open_ns) = self.time.of(plan, || Log::open(env, dir, disk_options(plan)));
        let (log, found) = opened?;
        let elapsed_ns = plan.now_ns() - begun_ns;
        let (seen, ns) = self.time.of(plan, || visit(log.read_with(found.start, ReadMode::Map)?));
        self.note("every record, visited, mapped", ns, seen_all(seen?)?);
        let (seen, ns) = self.time.of(plan, || visit(log.read_with(found.start, ReadMode::File)?));
        let seen = seen_all(seen?)?;
        let opening = self.note("open after a crash, every record visited", open_ns + ns, seen);
        opening.elapsed_ms.push(super::micros(elapsed_ns) / 1000.0);
        log.abandon();
        Ok(())
    }

    /// Returns the rows of `case`.
    fn rows(&self, case: &str) -> Vec<Row> {
        let of =
            |subject| self.passes.iter().find(|pass| pass.subject == subject).map(|pass| median(&pass.bytes_per_s));
        let row = |pass: &Pass| {
            let mut row = Row::new(pass.subject, case, LEVEL, "none, files").runs("bytes_per_cpu_s", &pass.bytes_per_s);
            if !pass.records_per_s.is_empty() {
                row = row.runs("records_per_cpu_s", &pass.records_per_s);
            }
            if !pass.elapsed_ms.is_empty() {
                row = row.runs("open_ms", &pass.elapsed_ms);
            }
            if pass.subject == READ || pass.subject == FLOOR {
                return row;
            }
            let rate = median(&pass.bytes_per_s);
            let floors = [READ, FLOOR].into_iter().filter_map(|floor| Some((floor, of(floor)?)));
            row = floors.fold(row, |row, (floor, at)| row.beside(floor, rate / at));
            row.target(">= 3 GB/s", rate >= 3e9)
        };
        self.passes.iter().map(row).collect()
    }
}

/// Measures a log of each kind.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question =
        "what does reading a log back cost a core, from the page cache? (floor: reading and summing its files)";
    let mut section = Section::new("recovery", question);
    let bytes = plan.amount(LOG_BYTES);
    for case in CASES {
        let name = case.name(bytes);
        plan.say(&format!("recovery: {name}, writing"));
        let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
        let count = case.write(plan, scratch.path(), bytes)?;
        let mut passes = Passes { plan, time: ThreadTime::new(), file_bytes: 0, passes: Vec::new() };
        // Reads the files once outside the figures, so that all passes read from the page cache.
        read_files(&plan.env, &inspect(&plan.env, scratch.path())?.segments(), false)?;
        for run in 0..plan.runs() {
            plan.say(&format!("recovery: {name}, run {}", run + 1));
            passes.run(scratch.path(), count)?;
        }
        let reach_10m = case.record_bytes == 100 && !case.frame_each;
        section.rows.extend(passes.rows(&name).into_iter().map(|row| match row.median("records_per_cpu_s") {
            Some(rate) if reach_10m => row.target(">= 10 M records/s", rate >= 10e6),
            _ => row,
        }));
        if passes.time.is_elapsed() && section.notes.is_empty() {
            section.notes.push("the system counts no processor time here: all rates are by elapsed time".to_owned());
        }
    }
    section.notes.push(
        "survey and open also look for frames in spare files and behind the end, which are not in their bytes: short logs look slow"
            .to_owned(),
    );
    section.notes.push(
        "open_ms is elapsed time: an open makes its new start durable (a file prepared, the end written again) and waits for the disk"
            .to_owned(),
    );
    Ok(section)
}
