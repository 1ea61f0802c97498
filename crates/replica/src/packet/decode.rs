//! Decodes the payload of a packet whose type and length `input` has checked.
#![deny(clippy::as_conversions, clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use std::str;

use collie_base::{
    HistoryId, Lsn, Term,
    codec::{DecodeError, Reader},
};

use super::{
    Ack, Backup, Committed, Data, DataFlags, DelayWindow, End, EndReason, Error, ErrorCode, From, HELLO_HISTORIES_MAX,
    Handover, HandoverKind, Heartbeat, Hello, History, IDENTIFY_HISTORIES_MAX, Identify, MAGIC, MARKS_MAX, Mark,
    Packet, PacketFault, Sample, SampledRead, Synced, TAIL_BYTES_MAX, TEXT_BYTES_MAX, TermKind, TermPacket, Verdict,
    Verify, VerifyKind,
    encode::{NEW_HISTORY, WANT_APPLY, WANT_FLUSH},
};

type Result<T> = std::result::Result<T, PacketFault>;

/// The longest name of a slot.
const SLOT_BYTES_MAX: usize = 63;

/// The longest name of a file.
const NAME_BYTES_MAX: usize = 4096;

/// Reads the payload of a packet of type `letter`.
pub(super) fn decode<'a>(letter: u8, from: From, payload: &'a [u8]) -> Result<Packet<'a>> {
    let mut reader = Reader::new(payload);
    let packet = match letter {
        b'H' => Packet::Hello(hello(&mut reader)?),
        b'I' => Packet::Identify(identify(&mut reader)?),
        b'D' => Packet::Data(data(&mut reader)?),
        b'B' => Packet::Heartbeat(Heartbeat {
            term: term(&mut reader)?,
            durable: lsn(&mut reader)?,
            show: lsn(&mut reader)?,
            mono_ns: reader.u64()?,
            delay: delay(&mut reader)?,
            owed_ns: reader.u64()?,
            rtt_min_ns: reader.u64()?,
            commits: reader.u64()?,
        }),
        b'A' => Packet::Ack(ack(&mut reader)?),
        b'c' => Packet::Committed(committed(&mut reader)?),
        b's' => Packet::Synced(Synced { term: term(&mut reader)?, applied: lsn(&mut reader)? }),
        b'E' => Packet::End(End {
            term: term(&mut reader)?,
            reason: match reader.u8()? {
                0 => EndReason::Shutdown,
                1 => EndReason::Switchover,
                2 => EndReason::SlotDropped,
                _ => return bad("reason"),
            },
            last: lsn(&mut reader)?,
        }),
        b'q' => Packet::Sample(sample(&mut reader)?),
        b'K' => Packet::Backup(backup(&mut reader, from)?),
        b'V' => Packet::Verify(Verify {
            kind: match reader.u8()? {
                0 => VerifyKind::LogCrc,
                1 => VerifyKind::StateHash,
                _ => return bad("kind"),
            },
            from: lsn(&mut reader)?,
            to: lsn(&mut reader)?,
            cf: reader.u32()?,
            result: reader.u64()?,
        }),
        b'T' => Packet::Term(TermPacket {
            kind: match reader.u8()? {
                0 => TermKind::Propose,
                1 => TermKind::Promise,
                2 => TermKind::Refuse,
                3 => TermKind::Announce,
                4 => TermKind::Succeed,
                5 => TermKind::Degrade,
                6 => TermKind::Restore,
                7 => TermKind::Degraded,
                _ => return bad("kind"),
            },
            term: term(&mut reader)?,
            history: HistoryId::new(reader.u64()?),
            node: reader.u64()?,
            last_term: term(&mut reader)?,
            durable: lsn(&mut reader)?,
        }),
        b'h' => Packet::Handover(Handover {
            // Each side sends its own kind.
            kind: match (reader.u8()?, from) {
                (0, From::Replica) => HandoverKind::Ask,
                (1, From::Primary) => HandoverKind::Refuse,
                _ => return bad("kind"),
            },
            term: term(&mut reader)?,
            wait_ms: reader.u32()?,
            text: text(rest(&mut reader)?, TEXT_BYTES_MAX, "text")?,
        }),
        b'X' => Packet::Error(error(&mut reader)?),
        _ => return Err(PacketFault::Type),
    };
    reader.finish()?;
    Ok(packet)
}

fn bad<T>(what: &'static str) -> Result<T> {
    Err(PacketFault::Field { what })
}

fn lsn(reader: &mut Reader<'_>) -> std::result::Result<Lsn, DecodeError> {
    reader.u64().map(Lsn::new)
}

fn term(reader: &mut Reader<'_>) -> std::result::Result<Term, DecodeError> {
    reader.u64().map(Term::new)
}

/// Takes the remaining bytes of the payload.
fn rest<'a>(reader: &mut Reader<'a>) -> std::result::Result<&'a [u8], DecodeError> {
    reader.bytes(reader.rest().len())
}

fn text<'a>(bytes: &'a [u8], bytes_max: usize, what: &'static str) -> Result<&'a str> {
    match str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= bytes_max && !text.contains('\0') => Ok(text),
        _ => bad(what),
    }
}

/// Reads `count` histories, which must be in order.
fn histories(reader: &mut Reader<'_>, count: usize, count_max: usize) -> Result<Vec<History>> {
    if count > count_max {
        return bad("number of histories");
    }
    let mut histories: Vec<History> = Vec::with_capacity(count.min(reader.rest().len().div_euclid(32)));
    for _ in 0..count {
        let history = History {
            term: term(reader)?,
            id: HistoryId::new(reader.u64()?),
            start: lsn(reader)?,
            prev_end: lsn(reader)?,
        };
        let follows = histories.last().is_none_or(|last| last.term <= history.term && last.start <= history.prev_end);
        if !follows || history.prev_end > history.start {
            return bad("order of histories");
        }
        histories.push(history);
    }
    Ok(histories)
}

fn hello<'a>(reader: &mut Reader<'a>) -> Result<Hello<'a>> {
    if reader.u32()? != MAGIC {
        return bad("magic");
    }
    let (proto_min, proto_max, flags) = (reader.u16()?, reader.u16()?, reader.u32()?);
    let (cluster, node, promised) = (reader.u128()?, reader.u64()?, term(reader)?);
    let (received, durable, applied) = (lsn(reader)?, lsn(reader)?, lsn(reader)?);
    let (tail_bytes, tail_crc) = (reader.u32()?, reader.u32()?);
    if tail_bytes > TAIL_BYTES_MAX {
        return bad("bytes under the checksum");
    }
    if proto_min > proto_max {
        return bad("versions");
    }
    let count = usize::from(reader.u16()?);
    let histories = histories(reader, count, HELLO_HISTORIES_MAX)?;
    let name = usize::from(reader.u8()?);
    let slot = text(reader.bytes(name)?, SLOT_BYTES_MAX, "slot name")?;
    // The same rule as in the settings: the name appears in the log, in views and in names of the log's consumers.
    if !slot.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        return bad("slot name");
    }
    Ok(Hello {
        proto_min,
        proto_max,
        flags,
        cluster,
        node,
        promised,
        received,
        durable,
        applied,
        tail_bytes,
        tail_crc,
        histories,
        slot,
    })
}

fn identify(reader: &mut Reader<'_>) -> Result<Identify> {
    let (proto, flags, cluster, node) = (reader.u16()?, reader.u32()?, reader.u128()?, reader.u64()?);
    let (term, history) = (term(reader)?, HistoryId::new(reader.u64()?));
    let verdict = match reader.u8()? {
        0 => Verdict::Stream,
        1 => Verdict::Truncate,
        2 => Verdict::Backup,
        3 => Verdict::Ahead,
        4 => Verdict::Refuse,
        _ => return bad("verdict"),
    };
    let (start, durable, show, mono_ns) = (lsn(reader)?, lsn(reader)?, lsn(reader)?, reader.u64()?);
    let (heartbeat_ms, timeout_ms) = (reader.u32()?, reader.u32()?);
    let count = usize::from(reader.u16()?);
    let histories = histories(reader, count, IDENTIFY_HISTORIES_MAX)?;
    Ok(Identify {
        proto,
        flags,
        cluster,
        node,
        term,
        history,
        verdict,
        start,
        durable,
        show,
        mono_ns,
        heartbeat_ms,
        timeout_ms,
        histories,
    })
}

fn data<'a>(reader: &mut Reader<'a>) -> Result<Data<'a>> {
    let (term, start, prev_end) = (term(reader)?, lsn(reader)?, lsn(reader)?);
    let (durable, show, mono_ns) = (lsn(reader)?, lsn(reader)?, reader.u64()?);
    let (byte, zeros) = (reader.u8()?, reader.bytes(3)?);
    if byte & !(WANT_FLUSH | WANT_APPLY | NEW_HISTORY) != 0 || zeros != [0; 3] {
        return bad("flags");
    }
    let flags = DataFlags {
        want_flush: byte & WANT_FLUSH != 0,
        want_apply: byte & WANT_APPLY != 0,
        new_history: byte & NEW_HISTORY != 0,
    };
    let records = rest(reader)?;
    let bytes = u64::try_from(records.len()).unwrap_or(u64::MAX);
    let end = start.get().checked_add(bytes);
    if prev_end > start || (prev_end < start && !flags.new_history) || end.is_none_or(|end| end > durable.get()) {
        return bad("positions");
    }
    if records.is_empty() {
        return bad("records");
    }
    Ok(Data { term, start, prev_end, durable, show, mono_ns, flags, records })
}

/// Reads the measured delay; without commits all fields are 0.
fn delay(reader: &mut Reader<'_>) -> Result<Option<DelayWindow>> {
    let commits = reader.u64()?;
    let (mean_ns, p50_ns, p99_ns, max_ns) = (reader.u64()?, reader.u64()?, reader.u64()?, reader.u64()?);
    let delay = DelayWindow { commits, mean_ns, p50_ns, p99_ns, max_ns };
    if commits == 0 {
        return if delay == DelayWindow::default() { Ok(None) } else { bad("delay") };
    }
    if p50_ns > p99_ns || p99_ns.max(mean_ns) > max_ns {
        return bad("delay");
    }
    Ok(Some(delay))
}

fn ack(reader: &mut Reader<'_>) -> Result<Ack> {
    let term = term(reader)?;
    let (received, durable, applied) = (lsn(reader)?, lsn(reader)?, lsn(reader)?);
    let (echo_mono_ns, hold_ns, replica_mono_ns) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let (queue_bytes, count) = (reader.u32()?, usize::from(reader.u8()?));
    if reader.bytes(3)? != [0; 3] || count > MARKS_MAX {
        return bad("marks");
    }
    if applied > received || durable > received {
        return bad("positions");
    }
    let mut marks = Vec::with_capacity(count);
    for _ in 0..count {
        marks.push(Mark { lsn: lsn(reader)?, age_us: reader.u32()? });
    }
    Ok(Ack { term, received, durable, applied, echo_mono_ns, hold_ns, replica_mono_ns, queue_bytes, marks })
}

fn committed(reader: &mut Reader<'_>) -> Result<Committed> {
    let term = term(reader)?;
    let count = usize::try_from(reader.u32()?).map_err(|_| PacketFault::Field { what: "number of commits" })?;
    // A count that exceeds the packet's bytes allocates nothing for the excess (P2).
    let mut csns: Vec<Lsn> = Vec::with_capacity(count.min(reader.rest().len().div_euclid(8)));
    for _ in 0..count {
        let csn = lsn(reader)?;
        if csns.last().is_some_and(|last| *last >= csn) {
            return bad("order of commits");
        }
        csns.push(csn);
    }
    Ok(Committed { term, csns })
}

fn sample<'a>(reader: &mut Reader<'a>) -> Result<Sample<'a>> {
    match reader.u8()? {
        0 => {
            let hash = reader.u64()?;
            Ok(Sample::Template { hash, text: text(rest(reader)?, usize::MAX, "text")? })
        }
        1 => {
            let mut reads = Vec::new();
            for _ in 0..reader.u16()? {
                let (hash, snapshot, arrival_us) = (reader.u64()?, lsn(reader)?, reader.u64()?);
                let (latency_ns, rows) = (reader.u32()?, reader.u32()?);
                let count =
                    usize::try_from(reader.u32()?).map_err(|_| PacketFault::Field { what: "length of parameters" })?;
                let parameters = reader.bytes(count)?;
                reads.push(SampledRead { hash, snapshot, arrival_us, latency_ns, rows, parameters });
            }
            Ok(Sample::Reads(reads))
        }
        _ => bad("kind"),
    }
}

fn backup<'a>(reader: &mut Reader<'a>, from: From) -> Result<Backup<'a>> {
    let sub = reader.u8()?;
    // A replica sends only this part.
    if (sub == 4) != (from == From::Replica) {
        return bad("part");
    }
    Ok(match sub {
        0 => Backup::Begin {
            id: reader.u64()?,
            log_start: lsn(reader)?,
            consistent: lsn(reader)?,
            files: reader.u32()?,
            bytes: reader.u64()?,
        },
        1 => {
            let (number, bytes, len) = (reader.u32()?, reader.u64()?, usize::from(reader.u16()?));
            let name = text(reader.bytes(len)?, NAME_BYTES_MAX, "file name")?;
            // Whatever the peer sends, no name leads out of the directory that is being filled.
            if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
                return bad("file name");
            }
            Backup::File { number, bytes, name }
        }
        2 => {
            let (seq, number, offset) = (reader.u64()?, reader.u32()?, reader.u64()?);
            let bytes = rest(reader)?;
            if bytes.is_empty() {
                return bad("bytes of a chunk");
            }
            Backup::Chunk { seq, number, offset, bytes }
        }
        3 => Backup::End { chunks: reader.u64()?, bytes: reader.u64()? },
        4 => Backup::Ack { seq: reader.u64()? },
        _ => return bad("part"),
    })
}

fn error<'a>(reader: &mut Reader<'a>) -> Result<Error<'a>> {
    let code = ErrorCode::of(reader.u16()?);
    let fatal = match reader.u8()? {
        0 => false,
        1 => true,
        _ => return bad("fatal"),
    };
    let sqlstate = reader.bytes(5)?;
    let Ok(sqlstate) = <[u8; 5]>::try_from(sqlstate) else { return bad("SQLSTATE") };
    if !sqlstate.iter().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) {
        return bad("SQLSTATE");
    }
    let lsn = lsn(reader)?;
    Ok(Error { code, fatal, sqlstate, lsn, text: text(rest(reader)?, TEXT_BYTES_MAX, "text")? })
}

const CODES: &[ErrorCode] = &[
    ErrorCode::Protocol,
    ErrorCode::Checksum,
    ErrorCode::Gap,
    ErrorCode::Version,
    ErrorCode::Cluster,
    ErrorCode::NodeInUse,
    ErrorCode::Term,
    ErrorCode::Ahead,
    ErrorCode::Slot,
    ErrorCode::LogGone,
    ErrorCode::Storage,
    ErrorCode::Shutdown,
    ErrorCode::NotPrimary,
    ErrorCode::StateDiffers,
    ErrorCode::Damaged,
];

impl ErrorCode {
    /// Returns the number of the code in packets.
    #[expect(clippy::as_conversions, reason = "the discriminants are the numbers")]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Returns the SQLSTATE of the code.
    pub const fn sqlstate(self) -> [u8; 5] {
        *match self {
            Self::Protocol | Self::Checksum | Self::Gap | Self::Version => b"08P01",
            Self::Cluster | Self::NodeInUse | Self::Slot => b"55000",
            Self::Term | Self::NotPrimary => b"25006",
            Self::Ahead | Self::StateDiffers | Self::Damaged => b"XX001",
            Self::LogGone => b"58P01",
            Self::Storage => b"58030",
            Self::Shutdown => b"57P01",
        }
    }

    fn of(number: u16) -> Self {
        CODES.iter().copied().find(|code| code.number() == number).unwrap_or(Self::Protocol)
    }
}
