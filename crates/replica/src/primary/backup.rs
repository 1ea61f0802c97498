//! A base backup: sends the files of a copy of the database in chunks under checksums; then the replica connects
//! again and is streamed to.
//!
//! # Invariants
//! - B1. The replica's slot keeps the log that the files need from before they are made, whatever the bounds; a
//!   copy whose log was lost all the same (`wal.max_segments`) ends, with the reason.
//! - B2. At most [`IN_FLIGHT`] chunks are unacknowledged: a replica with a slow disk costs no memory here. Each
//!   chunk is small, so that acks are frequent on a slow link too: they are the only sign that the replica is
//!   alive.
//! - B3. The rate is at most [`StreamOptions::backup_bytes_per_s`](super::StreamOptions): the primary's own disk
//!   has other work.

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

/// The most chunks that are not acknowledged.
const IN_FLIGHT: u64 = 64;

/// Bytes of a file in one chunk.
const PIECE_BYTES: usize = 64 << 10;

/// Sends a base backup, and returns once the replica has acknowledged every chunk.
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
                        // Every chunk is acknowledged, so no ack can arrive.
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

/// Makes the files on a separate thread, and sends heartbeats to the replica until they are made.
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
            // The thread completes the copy, which is then removed.
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

/// Waits for the next ack of a chunk; returns the number of acknowledged chunks.
async fn ack<C: Connection>(reading: &mut Reading<C>, sent: u64, timeout: Duration) -> Result<u64, LinkError> {
    match reading.heard(timeout).await? {
        Packet::Backup(Backup::Ack { seq }) if seq < sent => Ok(seq + 1),
        _ => Err(LinkError::Unexpected { what: "packet instead of the ack of a chunk" }),
    }
}
