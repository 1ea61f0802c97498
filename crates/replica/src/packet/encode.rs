//! Encodes packets as bytes; `decode` is the inverse. docs/replication-protocol.md has the offsets.

use super::{
    Ack, Backup, CHUNK_BYTES_MAX, Committed, DATA_BYTES_MAX, Data, DelayWindow, End, EndReason, Error,
    HELLO_HISTORIES_MAX, Handover, HandoverKind, Heartbeat, Hello, IDENTIFY_HISTORIES_MAX, Identify, MAGIC, MARKS_MAX,
    Packet, Sample, Synced, TEXT_BYTES_MAX, TermKind, TermPacket, Verdict, Verify, VerifyKind,
    body::Body,
    kind,
    seal::{CHECKSUM_BYTES, HEAD_BYTES, seal},
};

pub(super) const WANT_FLUSH: u8 = 1;
pub(super) const WANT_APPLY: u8 = 2;
pub(super) const NEW_HISTORY: u8 = 4;

/// Appends the bytes of `packet` to `out`.
///
/// # Panics
/// When a list, a text or a byte string is longer than its bound: a bug of the caller, which the peer would refuse
/// (P4).
pub fn encode(packet: &Packet<'_>, out: &mut Vec<u8>) {
    let (letter, start) = (letter_of(packet), out.len());
    out.push(letter);
    out.extend_from_slice(&[0; HEAD_BYTES - 1]);
    body(packet, &mut Body(out));
    out.extend_from_slice(&[0; CHECKSUM_BYTES]);
    let length = out.len() - start - 1;
    let bytes_max = kind::of(letter).map_or(0, |kind| kind.bytes_max);
    assert!(length <= bytes_max, "a packet {:?} of {length} bytes: at most {bytes_max}", char::from(letter));
    seal(&mut out[start..]);
}

fn letter_of(packet: &Packet<'_>) -> u8 {
    match packet {
        Packet::Hello(_) => b'H',
        Packet::Identify(_) => b'I',
        Packet::Data(_) => b'D',
        Packet::Heartbeat(_) => b'B',
        Packet::Ack(_) => b'A',
        Packet::Committed(_) => b'c',
        Packet::Synced(_) => b's',
        Packet::End(_) => b'E',
        Packet::Sample(_) => b'q',
        Packet::Backup(_) => b'K',
        Packet::Verify(_) => b'V',
        Packet::Term(_) => b'T',
        Packet::Handover(_) => b'h',
        Packet::Error(_) => b'X',
    }
}

fn body(packet: &Packet<'_>, out: &mut Body<'_>) {
    match packet {
        Packet::Hello(hello) => put_hello(hello, out),
        Packet::Identify(identify) => put_identify(identify, out),
        Packet::Data(data) => put_data(data, out),
        Packet::Heartbeat(heartbeat) => put_heartbeat(heartbeat, out),
        Packet::Ack(ack) => put_ack(ack, out),
        Packet::Committed(Committed { term, csns }) => {
            out.u64(term.get()).count32(csns.len());
            for csn in csns {
                out.u64(csn.get());
            }
        }
        Packet::Synced(Synced { term, applied }) => {
            out.u64(term.get()).u64(applied.get());
        }
        Packet::End(End { term, reason, last }) => {
            let reason = match reason {
                EndReason::Shutdown => 0,
                EndReason::Switchover => 1,
                EndReason::SlotDropped => 2,
            };
            out.u64(term.get()).u8(reason).u64(last.get());
        }
        Packet::Sample(sample) => put_sample(sample, out),
        Packet::Backup(backup) => put_backup(backup, out),
        Packet::Verify(Verify { kind, from, to, cf, result }) => {
            let kind = match kind {
                VerifyKind::LogCrc => 0,
                VerifyKind::StateHash => 1,
            };
            out.u8(kind).u64(from.get()).u64(to.get()).u32(*cf).u64(*result);
        }
        Packet::Term(TermPacket { kind, term, history, node, last_term, durable }) => {
            let kind = match kind {
                TermKind::Propose => 0,
                TermKind::Promise => 1,
                TermKind::Refuse => 2,
                TermKind::Announce => 3,
                TermKind::Succeed => 4,
                TermKind::Degrade => 5,
                TermKind::Restore => 6,
                TermKind::Degraded => 7,
            };
            out.u8(kind).u64(term.get()).u64(history.get()).u64(*node).u64(last_term.get()).u64(durable.get());
        }
        Packet::Handover(Handover { kind, term, wait_ms, text }) => {
            assert!(text.len() <= TEXT_BYTES_MAX, "a text of {} bytes", text.len());
            let kind = match kind {
                HandoverKind::Ask => 0,
                HandoverKind::Refuse => 1,
            };
            out.u8(kind).u64(term.get()).u32(*wait_ms).bytes(text.as_bytes());
        }
        Packet::Error(Error { code, fatal, sqlstate, lsn, text }) => {
            assert!(text.len() <= TEXT_BYTES_MAX, "a text of {} bytes", text.len());
            out.u16(code.number()).u8(u8::from(*fatal)).bytes(sqlstate).u64(lsn.get()).bytes(text.as_bytes());
        }
    }
}

fn put_hello(hello: &Hello<'_>, out: &mut Body<'_>) {
    assert!(hello.histories.len() <= HELLO_HISTORIES_MAX, "{} histories in a hello", hello.histories.len());
    out.u32(MAGIC).u16(hello.proto_min).u16(hello.proto_max).u32(hello.flags).u128(hello.cluster).u64(hello.node);
    out.u64(hello.promised.get()).u64(hello.received.get()).u64(hello.durable.get()).u64(hello.applied.get());
    out.u32(hello.tail_bytes).u32(hello.tail_crc).count16(hello.histories.len());
    for history in &hello.histories {
        out.history(history);
    }
    let name = u8::try_from(hello.slot.len()).expect("a slot's name is at most 63 bytes");
    out.u8(name).bytes(hello.slot.as_bytes());
}

fn put_identify(identify: &Identify, out: &mut Body<'_>) {
    assert!(identify.histories.len() <= IDENTIFY_HISTORIES_MAX, "{} histories", identify.histories.len());
    let verdict = match identify.verdict {
        Verdict::Stream => 0,
        Verdict::Truncate => 1,
        Verdict::Backup => 2,
        Verdict::Ahead => 3,
        Verdict::Refuse => 4,
    };
    out.u16(identify.proto).u32(identify.flags).u128(identify.cluster).u64(identify.node);
    out.u64(identify.term.get()).u64(identify.history.get()).u8(verdict).u64(identify.start.get());
    out.u64(identify.durable.get()).u64(identify.show.get()).u64(identify.mono_ns);
    out.u32(identify.heartbeat_ms).u32(identify.timeout_ms).count16(identify.histories.len());
    for history in &identify.histories {
        out.history(history);
    }
}

fn put_data(data: &Data<'_>, out: &mut Body<'_>) {
    assert!(data.records.len() <= DATA_BYTES_MAX, "{} bytes of records in a packet", data.records.len());
    out.u64(data.term.get()).u64(data.start.get()).u64(data.prev_end.get());
    out.u64(data.durable.get()).u64(data.show.get()).u64(data.mono_ns);
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let flags = data.flags;
    let byte =
        flag(flags.want_flush, WANT_FLUSH) | flag(flags.want_apply, WANT_APPLY) | flag(flags.new_history, NEW_HISTORY);
    out.u8(byte).bytes(&[0; 3]).bytes(data.records);
}

fn put_heartbeat(heartbeat: &Heartbeat, out: &mut Body<'_>) {
    let Heartbeat { term, durable, show, mono_ns, delay, owed_ns, rtt_min_ns, commits } = heartbeat;
    out.u64(term.get()).u64(durable.get()).u64(show.get()).u64(*mono_ns);
    let delay = delay.unwrap_or_default();
    assert!(delay.commits > 0 || delay == DelayWindow::default(), "a delay of no commit");
    out.u64(delay.commits).u64(delay.mean_ns).u64(delay.p50_ns).u64(delay.p99_ns).u64(delay.max_ns);
    out.u64(*owed_ns).u64(*rtt_min_ns).u64(*commits);
}

fn put_ack(ack: &Ack, out: &mut Body<'_>) {
    assert!(ack.marks.len() <= MARKS_MAX, "{} marks in an ack", ack.marks.len());
    out.u64(ack.term.get()).u64(ack.received.get()).u64(ack.durable.get()).u64(ack.applied.get());
    out.u64(ack.echo_mono_ns).u64(ack.hold_ns).u64(ack.replica_mono_ns).u32(ack.queue_bytes);
    out.u8(u8::try_from(ack.marks.len()).expect("at most 16")).bytes(&[0; 3]);
    for mark in &ack.marks {
        out.u64(mark.lsn.get()).u32(mark.age_us);
    }
}

fn put_sample(sample: &Sample<'_>, out: &mut Body<'_>) {
    match sample {
        Sample::Template { hash, text } => {
            out.u8(0).u64(*hash).bytes(text.as_bytes());
        }
        Sample::Reads(reads) => {
            out.u8(1).count16(reads.len());
            for read in reads {
                out.u64(read.hash).u64(read.snapshot.get()).u64(read.arrival_us).u32(read.latency_ns).u32(read.rows);
                out.count32(read.parameters.len()).bytes(read.parameters);
            }
        }
    }
}

fn put_backup(backup: &Backup<'_>, out: &mut Body<'_>) {
    match backup {
        Backup::Begin { id, log_start, consistent, files, bytes } => {
            out.u8(0).u64(*id).u64(log_start.get()).u64(consistent.get()).u32(*files).u64(*bytes);
        }
        Backup::File { number, bytes, name } => {
            out.u8(1).u32(*number).u64(*bytes).count16(name.len()).bytes(name.as_bytes());
        }
        Backup::Chunk { seq, number, offset, bytes } => {
            assert!(bytes.len() <= CHUNK_BYTES_MAX, "{} bytes in a chunk", bytes.len());
            out.u8(2).u64(*seq).u32(*number).u64(*offset).bytes(bytes);
        }
        Backup::End { chunks, bytes } => {
            out.u8(3).u64(*chunks).u64(*bytes);
        }
        Backup::Ack { seq } => {
            out.u8(4).u64(*seq);
        }
    }
}
