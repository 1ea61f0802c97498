//! What does the log add to a record: in the stream, in the file, and at a switch of files? Counted, not timed.

use collie_wal::{Level, Log, Options};

use super::{RING, disk_options, float};
use crate::{
    Plan, Section,
    report::{Figure, Row},
};

const SIZES: [usize; 3] = [64, 256, 1024];
const FRAME_HEADER_BYTES: f64 = 64.0;

/// Appends `count` records of `size` bytes and waits for `level` after each; returns the log's counts for that time.
fn append(plan: &Plan, options: Options, size: usize, count: u64, level: Level) -> anyhow::Result<Counted> {
    let scratch = crate::Scratch::new(&plan.env, &plan.dir)?;
    let (log, _found) = Log::open(&plan.env, scratch.path(), options)?;
    let before = log.stat();
    let (mut writer, body) = (log.writer(), vec![0xA5; size]);
    for _ in 0..count {
        writer.commit(1, &body, level)?;
    }
    log.flush_wal(true)?;
    let after = log.stat();
    log.close()?;
    Ok(Counted {
        frames: after.frames - before.frames,
        syncs: after.syncs - before.syncs,
        stream_bytes: after.stream_bytes - before.stream_bytes,
        file_bytes: after.file_bytes - before.file_bytes,
        turns: (after.segments - before.segments) as u64,
    })
}

struct Counted {
    frames: u64,
    syncs: u64,
    stream_bytes: u64,
    file_bytes: u64,
    turns: u64,
}

/// Counts bytes per record and syncs per file.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let mut section = Section::new("overhead", "what does the log add to a record, and a change of files to a commit?");
    let count = plan.amount(200_000);
    for size in SIZES {
        plan.say(&format!("overhead: {size} B records"));
        let manual = Options { manual_wal_flush: true, ..disk_options(plan) };
        let counted = append(plan, manual, size, count, Level::Memory)?;
        let records = float(count);
        let added = float(counted.stream_bytes) / records - float(size as u64);
        let per_frame = float(counted.file_bytes - counted.stream_bytes) / float(counted.frames.max(1));
        let row = Row::new("collie, large flushes", format!("{size} B, {count} records"), "memory", RING)
            .runs("added_bytes_per_record", &[added])
            .runs("added_bytes_per_frame", &[per_frame])
            .runs("file_bytes_per_record", &[float(counted.file_bytes) / records])
            .beside("body alone", float(counted.file_bytes) / (records * float(size as u64)))
            .target("<= 4 B per record", added <= 4.0)
            .target("64 B per frame and padding", per_frame <= FRAME_HEADER_BYTES + 64.0 + 4096.0);
        section.rows.push(row);
    }
    plan.say("overhead: change of files");
    let small = Options::small();
    // Enough commits for two switches of files even at the shortest pace.
    let commits = plan.amount(3_000).max(600);
    let counted = append(plan, small, 100, commits, Level::Disk)?;
    let row = Row::new(
        "collie, a flush per commit",
        format!("100 B, {commits} commits, files of 1 MiB"),
        "disk",
        "private 256 KiB",
    )
    .runs("file_bytes_per_record", &[float(counted.file_bytes) / float(commits)])
    .figure("files_turned", Figure::Count(counted.turns))
    .figure("syncs_beyond_one_per_commit", Figure::Count(counted.syncs.saturating_sub(commits)))
    .beside("commits (syncs)", float(counted.syncs) / float(commits))
    .target("0 extra syncs per change of files", counted.turns > 0 && counted.syncs <= commits);
    section.rows.push(row);
    Ok(section)
}
