//! A base backup: the files of a copy of the database, in chunks under checksums; then the replica comes again and is streamed to.
//!
//! # Invariants
//! - B1. The log that the files need is kept under the replica's slot from before they are made, whatever the bounds; a copy whose log was
//!   lost all the same (`wal.max_segments`) ends, and says so.
//! - B2. At most [`IN_FLIGHT`] chunks are under way: a replica with a slow disk costs no memory here. Each is small, so that acks come
//!   often on a slow link too: nothing else says that somebody is there.
//! - B3. Not faster than [`StreamOptions::backup_bytes_per_s`](super::StreamOptions): the primary's own disk has other work.

use std::time::Duration;

use collie_env::Access;
use tokio::{
    select,
    sync::watch,
    task::{block_in_place, spawn_blocking},
    time::{Instant, interval, sleep, sleep_until},
};

use super::{
    BackupFiles, Source,
    serve::{Served, refuse_source},
    slots::Attached,
};
use crate::{
    Connection, Life, LinkError,
    identity::Identity,
    link::{self, Reading, Writing},
    packet::{Backup, ErrorCode, Heartbeat, Packet},
};

/// Most chunks that are not acknowledged.
const IN_FLIGHT: u64 = 64;

/// Bytes of a file in one chunk.
const PIECE_BYTES: usize = 64 << 10;

/// Sends a base backup, then ends the conversation.
pub(super) async fn send<S: Source, C: Connection>(
    served: &Served<S>,
    (slot, attached): (&str, &Attached),
    own: &Identity,
    reading: &mut Reading<C>,
    writing: &mut Writing<C>,
    stop: &mut watch::Receiver<bool>,
) -> Result<(), LinkError> {
    let files = make(served, slot, own, writing, stop).await?;
    let bytes = files.files.iter().map(|file| file.bytes).sum();
    let count = u32::try_from(files.files.len()).unwrap_or(u32::MAX);
    writing
        .send(&Packet::Backup(Backup::Begin {
            id: served.env.random.u64(),
            log_start: files.log_start,
            consistent: files.consistent,
            files: count,
            bytes,
        }))
        .await?;
    let (began, per_s) = (Instant::now(), served.options.backup_bytes_per_s.max(1));
    let (mut seq, mut acked, mut sent, mut piece) = (0_u64, 0_u64, 0_u64, vec![0; PIECE_BYTES]);
    for (number, file) in files.files.iter().enumerate() {
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        writing.send(&Packet::Backup(Backup::File { number, bytes: file.bytes, name: &file.name })).await?;
        let path = files.root.join(&file.name);
        let failed = |error: std::io::Error| {
            let text = format!("cannot read {} of a base backup: {error}", file.name);
            LinkError::refused(ErrorCode::Storage, files.log_start, text)
        };
        let source = block_in_place(|| served.env.files.open(&path, Access::Read)).map_err(failed)?;
        let mut offset = 0;
        while offset < file.bytes {
            if attached.life() == Life::Lost {
                let text = "the log that the copy needs was given up, because the log has come to wal.max_segments files on the primary: \
                            raise it or replication.backup_rate there, or write less while a replica is filled";
                return Err(LinkError::refused(ErrorCode::LogGone, files.log_start, text)); // B1
            }
            let count = block_in_place(|| source.read_at(offset, &mut piece)).map_err(failed)?;
            if count == 0 {
                return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
            }
            let bytes = piece.get(..count).unwrap_or_default();
            {
                let chunk = Packet::Backup(Backup::Chunk { seq, number, offset, bytes });
                let sending = writing.send_patiently(&chunk);
                tokio::pin!(sending);
                loop {
                    select! {
                        sent = &mut sending => break sent?,
                        chunks = ack(reading, seq, served.options.timeout), if acked < seq => acked = chunks?,
                        // Nothing is under way that could be acknowledged.
                        () = sleep(served.options.timeout), if acked == seq => return Err(link::silent(served.options.timeout)),
                    }
                }
            }
            (seq, offset, sent) = (seq + 1, offset + count as u64, sent + count as u64);
            while seq - acked >= IN_FLIGHT {
                acked = ack(reading, seq, served.options.timeout).await?; // B2
            }
            let due = began + Duration::from_millis(sent.saturating_mul(1000) / per_s); // B3
            select! {
                () = sleep_until(due) => {}
                () = link::stopping(stop) => return Err(LinkError::Stopping),
            }
        }
    }
    writing.send(&Packet::Backup(Backup::End { chunks: seq, bytes: sent })).await?;
    while acked < seq {
        acked = ack(reading, seq, served.options.timeout).await?;
    }
    Ok(())
}

/// Has the files made, on a thread of its own, while the replica hears that somebody is there.
async fn make<S: Source, C: Connection>(
    served: &Served<S>,
    slot: &str,
    own: &Identity,
    writing: &mut Writing<C>,
    stop: &mut watch::Receiver<bool>,
) -> Result<BackupFiles, LinkError> {
    let (source, name) = (served.source.clone(), slot.to_owned());
    let mut making = spawn_blocking(move || source.backup(&name));
    let mut heartbeats = interval(served.options.heartbeat);
    loop {
        select! {
            made = &mut making => {
                let made = made.map_err(|_| LinkError::refused(ErrorCode::Storage, own.end, "the backup was not made"))?;
                return made.map_err(|error| refuse_source(error, own.end));
            }
            // What is being made is removed when it is done.
            () = link::stopping(stop) => return Err(LinkError::Stopping),
            _ = heartbeats.tick() => writing.send(&Packet::Heartbeat(Heartbeat {
                term: own.term,
                durable: served.source.durable(),
                show: served.source.show(),
                mono_ns: served.env.clock.now_ns(),
                delay: None,
                owed_ns: 0,
                rtt_min_ns: u64::MAX,
                commits: served.source.commits(),
            })).await?,
        }
    }
}

/// Waits for the next ack of a chunk; returns how many chunks are acknowledged.
async fn ack<C: Connection>(reading: &mut Reading<C>, sent: u64, timeout: Duration) -> Result<u64, LinkError> {
    match reading.heard(timeout).await? {
        Packet::Backup(Backup::Ack { seq }) if seq < sent => Ok(seq + 1),
        _ => Err(LinkError::Unexpected { what: "packet instead of the ack of a chunk" }),
    }
}
