//! How fast is a log read back: surveyed by an open, and record by record? From the page cache, beside reading and summing
//! the same bytes.

use std::path::Path;

use collie_base::checksum::crc32c;
use collie_env::{Access, Env};
use collie_wal::{Log, Mark, SegmentInfo, inspect};

use super::{disk_options, median, per_s};
use crate::{Plan, Section, report::Row};

const SIZES: [usize; 3] = [64, 256, 1024];
const LOG_BYTES: u64 = 256 << 20;
const LEVEL: &str = "none";

/// Writes a log of about `bytes` and leaves it as a crash would; returns how many records it holds.
fn write(plan: &Plan, dir: &Path, size: usize, bytes: u64) -> anyhow::Result<u64> {
    let (log, _found) = Log::open(&plan.env, dir, disk_options(plan))?;
    let (mut writer, body, mut count, mut end) = (log.writer(), vec![0xA5; size], 0, log.durable());
    let begin = end;
    while end.bytes_since(begin) < bytes {
        end = writer.append(1, &[&body])?.end;
        count += 1;
    }
    log.wait(Mark::Durable, end)?;
    drop(writer);
    log.abandon();
    Ok(count)
}

/// Reads and sums the log's files, as far as they are used, in steps of 1 MiB; returns the bytes.
fn read_files(env: &Env, segments: &[SegmentInfo]) -> anyhow::Result<u64> {
    let (mut buffer, mut all, mut summed) = (vec![0; 1 << 20], 0, 0);
    for segment in segments {
        let file = env.files.open(&segment.path, Access::Read)?;
        let mut at = 0;
        while at < segment.used_bytes {
            let count = file.read_at(at, &mut buffer)?;
            if count == 0 {
                break;
            }
            summed ^= crc32c(&buffer[..count]);
            at += count as u64;
            all += count as u64;
        }
    }
    std::hint::black_box(summed);
    Ok(all)
}

/// Measures logs of each record size.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let question = "how fast is a log read back, from the page cache? (floor: reading and summing the same files)";
    let mut section = Section::new("recovery", question);
    let bytes = plan.amount(LOG_BYTES);
    for size in SIZES {
        let (mut floor, mut survey, mut records, mut records_bytes, mut opening) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for run in 0..plan.runs() {
            plan.say(&format!("recovery: {size} B records, run {}", run + 1));
            let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
            let count = write(plan, scratch.path(), size, bytes)?;
            // Once outside the figures, so that all read from the page cache.
            let segments = inspect(&plan.env, scratch.path())?.segments();
            read_files(&plan.env, &segments)?;
            let begun = plan.now_ns();
            let file_bytes = read_files(&plan.env, &segments)?;
            let floor_ns = plan.now_ns() - begun;
            let begun = plan.now_ns();
            let found = inspect(&plan.env, scratch.path())?;
            let survey_ns = plan.now_ns() - begun;
            let begun = plan.now_ns();
            let mut seen = 0;
            for record in found.records(found.start()) {
                std::hint::black_box(record?);
                seen += 1;
            }
            let records_ns = plan.now_ns() - begun;
            anyhow::ensure!(seen >= count, "{seen} records came back of {count}");
            drop(found);
            let begun = plan.now_ns();
            let (log, _found) = Log::open(&plan.env, scratch.path(), disk_options(plan))?;
            let open_ns = plan.now_ns() - begun;
            log.abandon();
            floor.push(per_s(file_bytes, floor_ns));
            survey.push(per_s(file_bytes, survey_ns));
            records_bytes.push(per_s(file_bytes, records_ns));
            records.push(per_s(seen, records_ns));
            opening.push(super::micros(open_ns) / 1000.0);
        }
        let case = format!("{size} B records, {} MiB", bytes >> 20);
        let row = |subject: &str| Row::new(subject, &case, LEVEL, "none, files");
        section.rows.push(row("read and sum (floor)").runs("bytes_per_s", &floor));
        let ratio = |values: &[f64]| median(values) / median(&floor);
        let surveyed = row("survey, every frame").runs("bytes_per_s", &survey).beside("floor", ratio(&survey));
        section.rows.push(surveyed.target(">= 3 GB/s", median(&survey) >= 3e9));
        let read = row("every record").runs("bytes_per_s", &records_bytes).runs("records_per_s", &records);
        let mut read = read.beside("floor", ratio(&records_bytes));
        if size == SIZES[0] {
            read = read.target(">= 10 M records/s", median(&records) >= 10e6);
        }
        section.rows.push(read);
        let open_ms = median(&opening);
        section.rows.push(
            row("open after a crash")
                .runs("open_ms", &opening)
                .beside("floor", open_ms / 1000.0 * median(&floor) / super::float(bytes)),
        );
    }
    section.notes.push(
        "survey also looks for frames in what is not used of the last file, which is not in its bytes: short logs look slow"
            .to_owned(),
    );
    section.notes.push(
        "open after a crash also makes the new start durable (files prepared, end written again): it waits for the disk"
            .to_owned(),
    );
    Ok(section)
}
