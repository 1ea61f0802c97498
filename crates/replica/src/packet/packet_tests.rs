//! Tests of the packets: round trips of every type, every cut, flipped bits, limits, and stored captures of
//! protocol 1.

use proptest::{collection::vec, option, prelude::*};

use super::*;
use crate::packet::{TAG_BYTES, Tags};

/// Owns the data that a packet borrows, so that it can be generated at random.
#[derive(Clone, Debug)]
struct Parts {
    words: [u64; 8],
    small: [u32; 4],
    short: u16,
    choice: u8,
    text: String,
    bytes: Vec<u8>,
    list: Vec<(u64, u32)>,
    cluster: u128,
}

fn parts() -> impl Strategy<Value = Parts> {
    let list = vec((0..1_u64 << 60, any::<u32>()), 0..MARKS_MAX);
    let bytes = vec(any::<u8>(), 1..300);
    (any::<[u64; 8]>(), any::<[u32; 4]>(), any::<u16>(), any::<u8>(), "[a-z0-9_.-]{1,40}", bytes, list, any::<u128>())
        .prop_map(|(words, small, short, choice, text, bytes, list, cluster)| Parts {
            words,
            small,
            short,
            choice,
            text,
            bytes,
            list,
            cluster,
        })
}

impl Parts {
    fn lsn(&self, word: usize) -> Lsn {
        Lsn::new(self.words[word] >> 8)
    }

    fn term(&self) -> Term {
        Term::new(self.words[0])
    }

    /// Returns consecutive histories.
    fn histories(&self) -> Vec<History> {
        let mut at = 4096;
        let mut histories = Vec::new();
        for (id, skip) in &self.list {
            let (prev_end, start) = (Lsn::new(at + 7), Lsn::new(at + 7 + u64::from(*skip)));
            histories.push(History { term: self.term(), id: HistoryId::new(*id), start, prev_end });
            at = start.get();
        }
        histories
    }

    fn pick<T: Copy>(&self, all: &[T]) -> T {
        all[usize::from(self.choice) % all.len()]
    }

    fn delay(&self) -> Option<DelayWindow> {
        let mut ns = [self.words[5], self.words[6], self.words[7]];
        ns.sort_unstable();
        let [mean_ns, p99_ns, max_ns] = ns;
        let delay = DelayWindow { commits: self.words[4].max(1), mean_ns, p50_ns: mean_ns, p99_ns, max_ns };
        (self.choice & 8 == 0).then_some(delay)
    }

    /// Returns one packet of each type.
    fn packets(&self) -> Vec<(From, Packet<'_>)> {
        let (term, lsn) = (self.term(), |word| self.lsn(word));
        let received = lsn(1).max(lsn(2)).max(lsn(3));
        let jump = if self.choice & 4 == 0 { 0 } else { u64::from(self.small[0]) };
        let bytes = self.bytes.len() as u64;
        let marks = self.list.iter().map(|(lsn, age_us)| Mark { lsn: Lsn::new(*lsn), age_us: *age_us }).collect();
        let read = |(hash, rows): &(u64, u32)| SampledRead {
            hash: *hash,
            snapshot: lsn(2),
            arrival_us: self.words[3],
            latency_ns: self.small[1],
            rows: *rows,
            parameters: &self.bytes,
        };
        let mut csns: Vec<Lsn> = self.list.iter().map(|(lsn, _)| Lsn::new(*lsn)).collect();
        csns.sort_unstable();
        csns.dedup();
        let (proto_min, proto_max) = (self.short.min(9), self.short.max(9));
        vec![
            (
                From::Replica,
                Packet::Hello(Hello {
                    proto_min,
                    proto_max,
                    flags: self.small[0],
                    cluster: self.cluster,
                    node: self.words[1],
                    promised: term,
                    received,
                    durable: lsn(2),
                    applied: lsn(3),
                    tail_bytes: self.small[1] % (TAIL_BYTES_MAX + 1),
                    tail_crc: self.small[2],
                    histories: self.histories(),
                    slot: &self.text,
                }),
            ),
            (
                From::Primary,
                Packet::Identify(Identify {
                    proto: self.short,
                    flags: self.small[0],
                    cluster: self.cluster,
                    node: self.words[1],
                    term,
                    history: HistoryId::new(self.words[2]),
                    verdict: self.pick(&[
                        Verdict::Stream,
                        Verdict::Truncate,
                        Verdict::Backup,
                        Verdict::Ahead,
                        Verdict::Refuse,
                    ]),
                    start: lsn(3),
                    durable: lsn(4),
                    show: lsn(5),
                    mono_ns: self.words[6],
                    heartbeat_ms: self.small[1],
                    timeout_ms: self.small[2],
                    histories: self.histories(),
                }),
            ),
            (
                From::Primary,
                Packet::Data(Data {
                    term,
                    start: lsn(1).plus(jump),
                    prev_end: lsn(1),
                    durable: lsn(1).plus(jump + bytes + u64::from(self.small[1])),
                    show: lsn(2),
                    mono_ns: self.words[3],
                    flags: DataFlags {
                        want_flush: self.choice & 1 != 0,
                        want_apply: self.choice & 2 != 0,
                        new_history: self.choice & 4 != 0,
                    },
                    records: &self.bytes,
                }),
            ),
            (
                From::Primary,
                Packet::Heartbeat(Heartbeat {
                    term,
                    durable: lsn(1),
                    show: lsn(2),
                    mono_ns: self.words[3],
                    delay: self.delay(),
                    owed_ns: self.words[2],
                    rtt_min_ns: self.words[5],
                    commits: self.words[6],
                }),
            ),
            (
                From::Replica,
                Packet::Ack(Ack {
                    term,
                    received,
                    durable: lsn(1),
                    applied: lsn(2),
                    echo_mono_ns: self.words[4],
                    hold_ns: self.words[5],
                    replica_mono_ns: self.words[6],
                    queue_bytes: self.small[3],
                    marks,
                }),
            ),
            (From::Replica, Packet::Committed(Committed { term, csns })),
            (From::Replica, Packet::Synced(Synced { term, applied: lsn(1) })),
            (
                From::Primary,
                Packet::End(End {
                    term,
                    reason: self.pick(&[EndReason::Shutdown, EndReason::Switchover, EndReason::SlotDropped]),
                    last: lsn(1),
                }),
            ),
            (From::Primary, Packet::Sample(Sample::Template { hash: self.words[1], text: &self.text })),
            (From::Primary, Packet::Sample(Sample::Reads(self.list.iter().map(read).collect()))),
            (
                From::Primary,
                Packet::Backup(Backup::Begin {
                    id: self.words[1],
                    log_start: lsn(2),
                    consistent: lsn(3),
                    files: self.small[0],
                    bytes: self.words[4],
                }),
            ),
            (
                From::Primary,
                Packet::Backup(Backup::File { number: self.small[0], bytes: self.words[1], name: "levels/tree-1/t" }),
            ),
            (
                From::Primary,
                Packet::Backup(Backup::Chunk {
                    seq: self.words[1],
                    number: self.small[0],
                    offset: self.words[2],
                    bytes: &self.bytes,
                }),
            ),
            (From::Primary, Packet::Backup(Backup::End { chunks: self.words[1], bytes: self.words[2] })),
            (From::Replica, Packet::Backup(Backup::Ack { seq: self.words[1] })),
            (
                From::Primary,
                Packet::Verify(Verify {
                    kind: self.pick(&[VerifyKind::LogCrc, VerifyKind::StateHash]),
                    from: lsn(1),
                    to: lsn(2),
                    cf: self.small[0],
                    result: self.words[3],
                }),
            ),
            (
                From::Replica,
                Packet::Term(TermPacket {
                    kind: match self.choice & 64 {
                        0 => self.pick(&[TermKind::Propose, TermKind::Promise, TermKind::Refuse, TermKind::Announce]),
                        1 => self.pick(&[TermKind::Degrade, TermKind::Restore, TermKind::Degraded, TermKind::Succeed]),
                        _ => TermKind::Succeed,
                    },
                    term,
                    history: HistoryId::new(self.words[1]),
                    node: self.words[2],
                    last_term: Term::new(self.words[3]),
                    durable: lsn(4),
                }),
            ),
            (
                From::Primary,
                Packet::Error(Error {
                    code: self.pick(&[ErrorCode::Protocol, ErrorCode::Gap, ErrorCode::Ahead, ErrorCode::StateDiffers]),
                    fatal: self.choice & 1 == 0,
                    sqlstate: *b"08P01",
                    lsn: lsn(1),
                    text: &self.text,
                }),
            ),
            (
                From::Replica,
                Packet::Handover(Handover { kind: HandoverKind::Ask, term, wait_ms: self.small[0], text: "" }),
            ),
            (
                From::Primary,
                Packet::Handover(Handover { kind: HandoverKind::Refuse, term, wait_ms: 0, text: &self.text }),
            ),
        ]
    }
}

fn bytes_of(packet: &Packet<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(packet, &mut bytes);
    bytes
}

fn read_one(from: From, bytes: &[u8]) -> std::result::Result<Option<String>, PacketError> {
    let mut input = Input::stream(from);
    input.feed(bytes);
    input.next().map(|packet| packet.map(|packet| format!("{packet:?}")))
}

proptest! {
    /// Goal: decoding inverts encoding for every type. Method: one random packet of each type, through both.
    #[test]
    fn packets_round_trip(parts in parts()) {
        for (from, packet) in parts.packets() {
            let mut input = Input::stream(from);
            input.feed(&bytes_of(&packet));
            prop_assert_eq!(input.next(), Ok(Some(packet)));
            prop_assert_eq!(input.next(), Ok(None));
            prop_assert_eq!(input.held_bytes(), 0);
        }
    }

    /// Goal: packets are the same however the network cuts them, and skipped packets leave no trace. Method: all
    /// packets of a side in one stream, with unknown ones in between, fed in pieces of a random size.
    #[test]
    fn packets_decode_the_same_at_every_cut(parts in parts(), piece in 1..40_usize, unknown in option::of(0..300_usize)) {
        for side in [From::Primary, From::Replica] {
            let packets: Vec<_> = parts.packets().into_iter().filter(|(from, _)| *from == side).collect();
            let mut stream = Vec::new();
            for (_, packet) in &packets {
                stream.extend(bytes_of(packet));
                if let Some(bytes) = unknown {
                    let mut unknown = vec![b'z'; bytes + 9];
                    seal(&mut unknown);
                    stream.extend(unknown);
                }
            }
            let mut input = Input::stream(side);
            let mut seen = Vec::new();
            for piece in stream.chunks(piece) {
                input.feed(piece);
                while let Some(packet) = input.next().unwrap() {
                    seen.push(format!("{packet:?}"));
                }
            }
            prop_assert_eq!(seen, packets.iter().map(|(_, packet)| format!("{packet:?}")).collect::<Vec<_>>());
            prop_assert_eq!(input.held_bytes(), 0);
        }
    }

    /// Goal: a packet is delivered as it was sent or not at all (P3). Method: every bit of a packet of each type
    /// flipped. The check byte refuses a type that turns into an unknown lower-case one, so it is not skipped.
    #[test]
    fn flipped_bits_of_every_packet_are_refused(parts in parts()) {
        for (from, packet) in parts.packets() {
            let bytes = bytes_of(&packet);
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                prop_assert!(read_one(from, &bad).is_err(), "bit {bit} of {packet:?}");
            }
        }
    }

    /// Goal: no bytes cause a panic, and a decoded packet is encoded as the bytes that it came from (P3, P4).
    /// Method: random bytes, and packets with random changes, through the fuzz target.
    #[test]
    fn bytes_of_a_peer_never_panic(parts in parts(), noise: Vec<u8>, at: proptest::sample::Index, with: u8) {
        fuzz_packets(&noise);
        for (from, packet) in parts.packets() {
            let mut bytes = vec![if from == From::Primary { 0x80 } else { 0x81 }];
            encode(&packet, &mut bytes);
            fuzz_packets(&bytes);
            let at = at.index(bytes.len() - 1) + 1;
            bytes[at] = with;
            fuzz_packets(&bytes);
        }
    }
}

/// Goal: no field extends beyond its packet, and no byte follows the last field (P2). Method: each packet one byte
/// shorter and one longer, with the length field adapted.
#[test]
fn a_packet_ends_where_its_last_field_ends() {
    let parts = sample();
    for (from, packet) in parts.packets() {
        let mut bytes = bytes_of(&packet);
        let ends_open = matches!(
            packet,
            Packet::Error(_)
                | Packet::Handover(_)
                | Packet::Sample(Sample::Template { .. })
                | Packet::Data(_)
                | Packet::Backup(Backup::Chunk { .. })
        );
        if ends_open {
            continue; // text or bytes up to the end
        }
        let length = bytes.len();
        bytes.push(0);
        for wrong in [length - 1, length + 1] {
            let mut bytes = bytes[..wrong].to_vec();
            seal(&mut bytes);
            let fault = read_one(from, &bytes).map_err(|error| error.fault);
            let is_refused = matches!(fault, Err(PacketFault::Field { .. } | PacketFault::Length { .. }));
            assert!(is_refused, "{packet:?} of {wrong} bytes: {fault:?}");
        }
    }
}

/// Goal: a peer is refused before its bytes are awaited (P1), and an unidentified peer may send greetings only.
/// Method: heads of packets alone.
#[test]
fn type_and_length_are_checked_before_the_payload_comes() {
    let head = |kind: u8, length: u32| {
        let mut packet = vec![0; length as usize + 1];
        packet[0] = kind;
        seal(&mut packet);
        packet.truncate(5);
        packet
    };
    let refused = |mut input: Input, bytes: &[u8]| {
        input.feed(bytes);
        input.next().map(|packet| packet.is_some())
    };
    let replica = || Input::stream(From::Replica);
    for (kind, length) in
        [(b'A', 513), (b'H', 16385), (b'c', 65537), (b'z', 65537), (b'K', (1 << 20) + 1), (b'D', (1 << 24) - 1)]
    {
        let from = if matches!(kind, b'D' | b'K') { From::Primary } else { From::Replica };
        let error = refused(Input::stream(from), &head(kind, length)).unwrap_err();
        assert!(matches!(error.fault, PacketFault::Length { bytes, .. } if bytes == length), "{error}");
        assert_eq!(error.code(), ErrorCode::Protocol);
    }
    // A length below the minimum, with a matching check byte.
    for (length, check) in [(0_u8, 0x9D_u8), (7, 0x8B)] {
        let error = refused(replica(), &[b'X', length, 0, 0, check]).unwrap_err();
        assert!(matches!(error.fault, PacketFault::Length { bytes, .. } if bytes == u32::from(length)), "{error}");
    }
    // One byte is enough.
    for kind in [b'D', b'I', b'Z', b'B', 0, b'1', 0xFF] {
        assert_eq!(refused(replica(), &[kind]), Err(PacketError { kind, fault: PacketFault::Type }));
    }
    for kind in *b"ADBEKVqcsh" {
        let from = if matches!(kind, b'A' | b'c' | b's') { From::Replica } else { From::Primary };
        assert!(refused(Input::hello(from), &[kind]).is_err(), "{} from a stranger", char::from(kind));
        assert_eq!(refused(Input::stream(from), &[kind]), Ok(false));
    }
    // An unknown packet is skipped, whatever its length: no byte of it is kept.
    let mut input = replica();
    input.feed(&head(b'z', 65536));
    for _ in 0..64 {
        assert_eq!(input.next(), Ok(None));
        assert!(input.held_bytes() <= 1, "{} bytes kept", input.held_bytes());
        input.feed(&[1; 1000]);
    }
}

/// Goal: packets that a party between the nodes changes, repeats, keeps back or moves are refused although their
/// checksums match; packets in order are accepted, however they are cut, with skipped packets in between. Method:
/// three packets sealed in order, fed in every wrong order, and then in the right one.
#[test]
fn packets_of_others_are_refused_by_their_seals() {
    let key = [5; 32];
    let mut tags = Tags::new(&key);
    let synced = |applied: u64| Packet::Synced(Synced { term: Term::new(1), applied: Lsn::new(applied) });
    let mut sealed = |bytes: Vec<u8>| {
        let seal = tags.seal(&bytes);
        [&bytes[..], &seal].concat()
    };
    let one = sealed(bytes_of(&synced(1)));
    let mut unknown = vec![b'z'; 30];
    seal(&mut unknown);
    let passed_over = sealed(unknown);
    let two = sealed(bytes_of(&synced(2)));
    let read = |from: &[u8], piece: usize| {
        let mut input = Input::stream(From::Replica).sealed_by(Tags::new(&key));
        let mut seen = 0;
        for bytes in from.chunks(piece) {
            input.feed(bytes);
            while input.next()?.is_some() {
                seen += 1;
            }
        }
        Ok::<_, PacketError>(seen)
    };
    let right = [&one[..], &passed_over, &two].concat();
    for piece in [1, 7, right.len()] {
        assert_eq!(read(&right, piece), Ok(2), "in pieces of {piece}");
    }
    let forged = [bytes_of(&synced(3)), one[one.len() - TAG_BYTES..].to_vec()].concat();
    let bare = [bytes_of(&synced(1)), bytes_of(&synced(2))].concat();
    let mut other_seal = one.clone();
    *other_seal.last_mut().unwrap() ^= 1;
    for wrong in [
        two.clone(),
        [&one[..], &one].concat(),
        [&one[..], &two].concat(),
        [&one[..], &passed_over, &passed_over, &two].concat(),
        [&two[..], &one].concat(),
        forged,
        bare,
        other_seal,
    ] {
        let refused = read(&wrong, wrong.len()).unwrap_err();
        assert_eq!(refused.fault, PacketFault::Seal, "{wrong:?}");
    }
    assert_eq!(read(&one[..one.len() - 1], 5), Ok(0), "the rest is waited for");
}

/// Goal: a count that exceeds its packet allocates nothing, and lists and positions out of order are refused.
/// Method: valid packets in which such fields are overwritten.
#[test]
fn impossible_fields_are_refused() {
    let parts = sample();
    let packets = parts.packets();
    let find = |letter: u8| {
        let (from, packet) = packets.iter().find(|(_, packet)| bytes_of(packet)[0] == letter).unwrap();
        (*from, bytes_of(packet))
    };
    let with = |letter: u8, at: usize, field: &[u8]| {
        let (from, mut bytes) = find(letter);
        bytes[5 + at..5 + at + field.len()].copy_from_slice(field);
        seal(&mut bytes);
        match read_one(from, &bytes) {
            Err(PacketError { fault: PacketFault::Field { what }, .. }) => what,
            other => panic!("{letter}: {other:?}"),
        }
    };
    assert_eq!(with(b'H', 0, b"PRLC"), "magic");
    assert_eq!(with(b'H', 4, &[9, 0, 8, 0]), "versions");
    assert_eq!(with(b'H', 68, &65537_u32.to_le_bytes()), "bytes under the checksum");
    assert_eq!(with(b'H', 76, &[65, 0]), "number of histories");
    assert_eq!(with(b'H', 78 + 16, &u64::MAX.to_le_bytes()), "order of histories");
    assert_eq!(with(b'I', 46, &[5]), "verdict");
    assert_eq!(with(b'A', 60, &[17]), "marks");
    assert_eq!(with(b'A', 8, &[0; 8]), "positions");
    assert_eq!(with(b'B', 32, &[0; 8]), "delay", "figures of no commit");
    assert_eq!(with(b'B', 64, &[0; 8]), "delay", "a percentile above the longest");
    assert_eq!(with(b'c', 8, &u32::MAX.to_le_bytes()), "u64");
    assert_eq!(with(b'E', 8, &[3]), "reason");
    assert_eq!(with(b'h', 0, &[1]), "kind");
    assert_eq!(with(b'K', 0, &[4]), "part");
    assert_eq!(with(b'X', 3, b"08p01"), "SQLSTATE");
    for name in [&b"stand\nby"[..], b"stand by", b"\x1b[2Jaaa"] {
        assert_eq!(with(b'H', 78 + 64 + 1, name), "slot name", "{name:?}");
    }
    let file = |name: &str| {
        let packet = Packet::Backup(Backup::File { number: 0, bytes: 1, name });
        read_one(From::Primary, &bytes_of(&packet))
    };
    assert!(file("levels/MANIFEST").is_ok());
    for name in ["", "/etc/passwd", "../up", "a/../b", "a//b", "a/", ".", "a\0b"] {
        assert!(file(name).is_err(), "{name:?}");
    }
    let jump = Packet::Data(Data {
        term: Term::new(1),
        start: Lsn::new(5000),
        prev_end: Lsn::new(4999),
        durable: Lsn::new(6000),
        show: Lsn::new(6000),
        mono_ns: 1,
        flags: DataFlags::default(),
        records: b"r",
    });
    let error = read_one(From::Primary, &bytes_of(&jump)).unwrap_err();
    assert_eq!(error.to_string(), "packet 'D' with a bad field: positions");
}

/// Goal: A1 of the seal. Method: every pair of bits of heads.
#[test]
fn two_flipped_bits_of_a_head_are_refused_before_the_payload_comes() {
    let parts = sample();
    for (from, packet) in parts.packets() {
        let head = &bytes_of(&packet)[..5];
        for (one, other) in (0..40).flat_map(|one| (0..one).map(move |other| (one, other))) {
            let mut bad = head.to_vec();
            bad[one / 8] ^= 1 << (one % 8);
            bad[other / 8] ^= 1 << (other % 8);
            assert!(read_one(from, &bad).is_err(), "bits {one} and {other} of {packet:?}");
        }
    }
}

/// Goal: the bounds that the sender keeps are those that the receiver checks (P4). Method: the largest packet of
/// each bounded type.
#[test]
fn the_largest_packets_pass() {
    let records = vec![7; DATA_BYTES_MAX];
    let (term, at) = (Term::new(1), Lsn::new(4096));
    let history = |n: u64| History {
        term,
        id: HistoryId::new(n),
        start: Lsn::new(4096 + n * 100),
        prev_end: Lsn::new(4096 + n * 100),
    };
    let data = Data {
        term,
        start: at,
        prev_end: at,
        durable: Lsn::MAX,
        show: Lsn::MAX,
        mono_ns: u64::MAX,
        flags: DataFlags::default(),
        records: &records,
    };
    let whole = bytes_of(&Packet::Data(data));
    assert!(whole.len() <= PACKET_BYTES_MAX && read_one(From::Primary, &whole).unwrap().is_some());
    let chunk = Backup::Chunk { seq: 0, number: 0, offset: 0, bytes: &records[..CHUNK_BYTES_MAX] };
    assert!(read_one(From::Primary, &bytes_of(&Packet::Backup(chunk))).unwrap().is_some());
    let text = "x".repeat(TEXT_BYTES_MAX);
    let error = Error { code: ErrorCode::Gap, fatal: true, sqlstate: *b"XX000", lsn: at, text: &text };
    assert!(read_one(From::Replica, &bytes_of(&Packet::Error(error))).unwrap().is_some());
    let parts = sample();
    for (from, packet) in parts.packets() {
        let packet = match packet {
            Packet::Hello(hello) => {
                let histories = (0..HELLO_HISTORIES_MAX as u64).map(history).collect();
                Packet::Hello(Hello { histories, slot: &text[..63], ..hello })
            }
            Packet::Identify(identify) => {
                let histories = (0..IDENTIFY_HISTORIES_MAX as u64).map(history).collect();
                Packet::Identify(Identify { histories, ..identify })
            }
            Packet::Ack(ack) => Packet::Ack(Ack { marks: vec![Mark { lsn: at, age_us: 1 }; MARKS_MAX], ..ack }),
            _ => continue,
        };
        assert!(read_one(from, &bytes_of(&packet)).unwrap().is_some());
    }
}

fn sample() -> Parts {
    Parts {
        words: [1, 0x0102_0304_0500, 0x0102_0304_0600, 0x0102_0304_0700, 5, 6, 7, 8],
        small: [1, 2, 3, 4],
        short: 1,
        choice: 7,
        text: "standby".to_owned(),
        bytes: b"records".to_vec(),
        list: vec![(9, 1), (10, 2)],
        cluster: 0x00FF_EEDD_CCBB_AA99_8877_6655_4433_2211,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Goal: protocol 1 does not change: another release reads the packets of this one. Method: a packet of each type
/// compared with its stored capture, byte by byte. A change of these bytes needs another protocol number.
#[test]
fn packets_of_protocol_1_have_their_stored_bytes() {
    let captures = include_str!("captures_1.txt");
    let parts = sample();
    let mut lines = captures.lines().filter(|line| !line.starts_with('#'));
    for (from, packet) in parts.packets() {
        let bytes = bytes_of(&packet);
        let stored = lines.next().unwrap_or_else(|| panic!("no capture of {}", hex(&bytes)));
        assert_eq!(hex(&bytes), stored, "{packet:?}");
        assert_eq!(read_one(from, &bytes).unwrap(), Some(format!("{packet:?}")));
    }
    assert_eq!(lines.next(), None);
}
