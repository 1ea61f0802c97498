//! `collie wal stat`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::Context as _;
use collie_env::Env;
use collie_wal::{ConsumerStat, Figures, Inspection, LagPolicy, WalError, inspect};
use indicatif::BinaryBytes;
use serde_json::{Value, json};

use super::{count, file_name, log_dir, output::Output, scan::Scan};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Data directory, or its log directory.
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// The place of a shared ring (wal.ring_dir).
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    ring_dir: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let dir = log_dir(&args.dir);
    let scan = Scan::start(&dir, "checking");
    let context = || format!("cannot read the log in {}", dir.display());
    let found = inspect(scan.env(), &dir).with_context(context)?;
    if found.segments().is_empty() && found.damage().is_none() {
        return Err(WalError::NoLog { path: dir }.into());
    }
    scan.phase("counting");
    let figures = found.figures().with_context(context)?;
    drop(scan);
    let consumers = found.consumers().with_context(context)?;
    let ring = found.ring(&Env::real(), &args.ring_dir);
    let mut out = Output::new();
    if args.json {
        let mut object = as_json(&found, &figures, &consumers);
        object["ring"] = if ring.is_some() { "shared" } else { "private" }.into();
        object["ring_file"] = ring.map(|path| path.display().to_string()).into();
        out.line(object)?;
    } else {
        print(&mut out, &found, &figures)?;
        match ring {
            Some(path) => out.line(format_args!("ring      shared, {}", path.display()))?,
            None => out.line(format_args!("ring      private: none of this log in {}", args.ring_dir.display()))?,
        }
        for consumer in &consumers {
            out.line(describe(consumer))?;
        }
        for segment in found.segments() {
            let file = file_name(&segment.path);
            let pinned_by = pinned_by(&consumers, &segment.path);
            let pinned_by =
                if pinned_by.is_empty() { String::new() } else { format!(", kept for {}", pinned_by.join(", ")) };
            out.line(format_args!(
                "segment   {file} from {}, {} of {} bytes used{pinned_by}",
                segment.first, segment.used_bytes, segment.segment_bytes
            ))?;
        }
    }
    out.finish()?;
    // Damage does not make this fail, since the figures of the readable part are valid: verify fails on damage.
    if let Some(damage) = found.damage() {
        eprintln!("warning: figures end at the damage: {damage}");
    }
    Ok(ExitCode::SUCCESS)
}

fn print(out: &mut Output, found: &Inspection, figures: &Figures) -> anyhow::Result<()> {
    let (spares, spare_bytes) = found.spares();
    let closed = if found.is_clean() { "closed" } else { "not closed, or open now" };
    out.line(format_args!(
        "log       {} to {}, incarnation {}, {closed}",
        found.start(),
        found.end(),
        found.incarnation()
    ))?;
    out.line(format_args!("durable   {} at least", found.durable()))?;
    out.line(format_args!("segments  {}, {}", figures.segments, BinaryBytes(figures.segment_file_bytes)))?;
    out.line(format_args!("spares    {spares}, {}", BinaryBytes(spare_bytes)))?;
    out.line(format_args!(
        "records   {}, {} of payload, {:.1} bytes written for each",
        figures.records,
        BinaryBytes(figures.payload_bytes),
        figures.written_bytes_per_record()
    ))?;
    if figures.pieces + figures.unlogged + figures.voids > 0 {
        out.line(format_args!(
            "          {} pieces of long records, {} marks of unlogged writes, {} empty reservations",
            figures.pieces, figures.unlogged, figures.voids
        ))?;
    }
    out.line(format_args!("frames    {}, of them {} without records", figures.frames, figures.empty_frames))?;
    out.line(format_args!(
        "padding   {:.1} % of {} written; {} record heads, {} frame heads",
        figures.padding_share() * 100.0,
        BinaryBytes(figures.written_bytes),
        BinaryBytes(figures.record_head_bytes),
        BinaryBytes(figures.frame_head_bytes)
    ))?;
    Ok(())
}

fn describe(consumer: &ConsumerStat) -> String {
    let ConsumerStat { name, lsn, restart, lag_bytes, kept_bytes, bound_segments, bound_bytes, .. } = consumer;
    let state = if consumer.lost { "lost its place" } else { policy(consumer) };
    let pins = count(consumer.pins.len() as u64, "segment");
    let (lag, kept) = (BinaryBytes(*lag_bytes), BinaryBytes(*kept_bytes));
    let most = match *bound_bytes {
        u64::MAX => String::new(),
        bytes => format!(" or {}", BinaryBytes(bytes)),
    };
    format!(
        "consumer  {name} at {lsn}, reads again from {restart}, {lag} behind, keeps {pins} ({kept}) of {bound_segments}{most}, {state}"
    )
}

fn policy(consumer: &ConsumerStat) -> &'static str {
    match consumer.policy {
        LagPolicy::Hold => "hold",
        LagPolicy::Invalidate => "invalidate",
        LagPolicy::Files => "files",
        _ => "other",
    }
}

/// Returns the names of the consumers that keep a file.
fn pinned_by<'a>(consumers: &'a [ConsumerStat], path: &Path) -> Vec<&'a str> {
    let keeps = |consumer: &&ConsumerStat| consumer.pins.iter().any(|pin| pin == path);
    consumers.iter().filter(keeps).map(|consumer| consumer.name.as_str()).collect()
}

fn as_json(found: &Inspection, figures: &Figures, consumers: &[ConsumerStat]) -> Value {
    let (spares, spare_bytes) = found.spares();
    let segments: Vec<Value> = found
        .segments()
        .iter()
        .map(|segment| {
            json!({
                "file": file_name(&segment.path),
                "first_lsn": segment.first.to_string(),
                "used_bytes": segment.used_bytes,
                "segment_bytes": segment.segment_bytes,
                "pinned_by": pinned_by(consumers, &segment.path),
            })
        })
        .collect();
    let consumers: Vec<Value> = consumers
        .iter()
        .map(|consumer| {
            json!({
                "name": consumer.name,
                "lsn": consumer.lsn.to_string(),
                "restart_lsn": consumer.restart.to_string(),
                "policy": policy(consumer),
                "lost": consumer.lost,
                "lag_bytes": consumer.lag_bytes,
                "kept_bytes": consumer.kept_bytes,
                "bound_segments": consumer.bound_segments,
                "bound_bytes": consumer.bound_bytes,
                "pinned_segments": consumer.pins.len(),
            })
        })
        .collect();
    json!({
        "start_lsn": found.start().to_string(),
        "end_lsn": found.end().to_string(),
        "durable_lsn": found.durable().to_string(),
        "incarnation": found.incarnation(),
        "closed": found.is_clean(),
        "damaged": found.damage().is_some(),
        "segments": segments,
        "consumers": consumers,
        "spares": spares,
        "spare_bytes": spare_bytes,
        "records": figures.records,
        "pieces": figures.pieces,
        "unlogged": figures.unlogged,
        "voids": figures.voids,
        "frames": figures.frames,
        "empty_frames": figures.empty_frames,
        "payload_bytes": figures.payload_bytes,
        "record_head_bytes": figures.record_head_bytes,
        "stream_bytes": figures.stream_bytes,
        "frame_head_bytes": figures.frame_head_bytes,
        "padding_bytes": figures.padding_bytes,
        "written_bytes": figures.written_bytes,
        "written_bytes_per_record": figures.written_bytes_per_record(),
        "padding_share": figures.padding_share(),
    })
}
