//! Packets: what primary and replica send each other, as values and as bytes; sans-IO.
//!
//! A packet is a type byte, a length with a check byte, the payload and a checksum; integers are little-endian.
//! docs/replication-protocol.md has every offset. An unknown upper-case type ends the connection, an unknown lower-case one
//! is passed over, so that a later version can add what may be ignored.
//!
//! # Invariants
//! - P1. Type, direction and length are checked before the payload is waited for; an input holds what has arrived, never what
//!   a length promises, and nothing of a packet that is passed over.
//! - P2. Every read inside a packet is bounded by the packet, and it must end where its last field ends. A count is checked
//!   against its bound and against the bytes that are there before anything is allocated for it.
//! - P3. Bytes from a peer never panic. Nothing of a packet is handed out but under a checksum that holds, and no length is believed
//!   whose check byte does not (`seal`).
//!   Between nodes each is followed by a seal that only they can make (`key`); it is looked at here, before the payload is.
//! - P4. What is encoded is decoded as the same value, and stays within the limits that the other side checks.
//!
//! Checked by `packet_tests` (round trips, every cut, flipped bits, stored captures) and the fuzz target `replica_packets`.

mod body;
mod decode;
mod encode;
mod error;
mod input;
mod kind;
#[cfg(test)]
mod packet_tests;
mod seal;

use collie_base::{HistoryId, Lsn, Term};

pub use self::{
    encode::encode,
    error::{PacketError, PacketFault},
    input::Input,
    kind::{From, PACKET_BYTES_MAX},
    seal::seal,
};

/// The newest version of the protocol that this program speaks, and the oldest.
pub const PROTOCOL: u16 = 1;
/// The oldest version of the protocol that this program speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// What a [`Hello`] begins with: `CLRP`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CLRP");
/// Most histories in a [`Hello`]: the newest ones.
pub const HELLO_HISTORIES_MAX: usize = 64;
/// Most histories in an [`Identify`]: the newest ones.
pub const IDENTIFY_HISTORIES_MAX: usize = 500;
/// Most bytes of log under the checksum of a [`Hello`].
pub const TAIL_BYTES_MAX: u32 = 64 << 10;
/// Most bytes of records in a [`Data`].
pub const DATA_BYTES_MAX: usize = 4 << 20;
/// Most bytes of a file in a [`Backup::Chunk`].
pub const CHUNK_BYTES_MAX: usize = (1 << 20) - 64;
/// Most marks in an [`Ack`].
pub const MARKS_MAX: usize = 16;
/// Longest text of an [`Error`].
pub const TEXT_BYTES_MAX: usize = 512;

/// A history as nodes tell it each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// Its term.
    pub term: Term,
    /// Its id.
    pub id: HistoryId,
    /// The position of its first record.
    pub start: Lsn,
    /// Where the last record before it ends: positions from here to `start` mean nothing in it.
    pub prev_end: Lsn,
}

/// `H`, the first packet: who the replica is and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The oldest version of the protocol that it speaks.
    pub proto_min: u16,
    /// The newest.
    pub proto_max: u16,
    /// Features that it would use; one counts if both sides set it.
    pub flags: u32,
    /// The database; 0 when it has none yet and asks for a base backup.
    pub cluster: u128,
    /// The directory.
    pub node: u64,
    /// The highest term that it has promised.
    pub promised: Term,
    /// Everything below is in its log; 0 without a database.
    pub received: Lsn,
    /// Everything below is on its disk.
    pub durable: Lsn,
    /// Everything below its readers see.
    pub applied: Lsn,
    /// How many bytes below `received` the checksum is of; 0: it has none to show.
    pub tail_bytes: u32,
    /// CRC-32C of them.
    pub tail_crc: u32,
    /// Its newest histories, oldest first.
    pub histories: Vec<History>,
    /// The slot that it wants.
    pub slot: &'a str,
}

/// What becomes of a replica that said hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It follows from `start` on.
    Stream,
    /// It cuts its log at `start`, keeps what it cut aside, and comes again.
    Truncate,
    /// It is filled anew: a base backup follows.
    Backup,
    /// It has more of this history than the primary: the primary lost what it had confirmed. Nothing is sent.
    Ahead,
    /// It does not belong here; an `X` follows that says why.
    Refuse,
}

/// `I`, the answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identify {
    /// The version of the protocol that is spoken from here on.
    pub proto: u16,
    /// The features that are used.
    pub flags: u32,
    /// The database.
    pub cluster: u128,
    /// The primary's directory.
    pub node: u64,
    /// Its term.
    pub term: Term,
    /// Its history.
    pub history: HistoryId,
    /// What becomes of the replica.
    pub verdict: Verdict,
    /// From where on it follows, or where it cuts.
    pub start: Lsn,
    /// Everything below is on the primary's disk.
    pub durable: Lsn,
    /// Readers of replicas may see everything below.
    pub show: Lsn,
    /// The primary's monotonic clock.
    pub mono_ns: u64,
    /// How often it sends a heartbeat.
    pub heartbeat_ms: u32,
    /// After how long a silence either side gives the connection up.
    pub timeout_ms: u32,
    /// The primary's newest histories, oldest first.
    pub histories: Vec<History>,
}

/// What a [`Data`] asks for, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFlags {
    /// Somebody waits until this is on the replica's disk: the ack goes out as soon as it is.
    pub want_flush: bool,
    /// Somebody waits until the replica's readers see this.
    pub want_apply: bool,
    /// The first record starts a history; only in front of it positions may jump.
    pub new_history: bool,
}

/// `D`: records of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The primary's term.
    pub term: Term,
    /// The position of the first byte of `records`.
    pub start: Lsn,
    /// Where the record before ends: what the replica must have received.
    pub prev_end: Lsn,
    /// Everything below is on the primary's disk.
    pub durable: Lsn,
    /// Readers of replicas may see everything below.
    pub show: Lsn,
    /// The primary's monotonic clock.
    pub mono_ns: u64,
    /// What it asks for and holds.
    pub flags: DataFlags,
    /// Whole records, as they lie in a frame.
    pub records: &'a [u8],
}

/// What was measured of a replica's delay in some time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayWindow {
    /// How many commits these figures stand for, at least 1.
    pub commits: u64,
    /// The mean of their delays.
    pub mean_ns: u64,
    /// Half of them were not longer.
    pub p50_ns: u64,
    /// All but one in a hundred were not longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// `B`: the primary is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The primary's term.
    pub term: Term,
    /// Everything below is on the primary's disk.
    pub durable: Lsn,
    /// Readers of replicas may see everything below.
    pub show: Lsn,
    /// The primary's monotonic clock.
    pub mono_ns: u64,
    /// How much later this replica's readers saw commits, by the primary's clock, as far as that was measured since the last heartbeat that
    /// could say; `None`: no commit was.
    pub delay: Option<DelayWindow>,
    /// For how long it has owed the oldest of what its readers do not see; 0: nothing.
    pub owed_ns: u64,
    /// The shortest round trip to this replica lately; `u64::MAX` before the first.
    pub rtt_min_ns: u64,
    /// How many transactions the primary has committed.
    pub commits: u64,
}

/// Since when a replica's readers see a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The position.
    pub lsn: Lsn,
    /// How long before the ack was sent, in microseconds.
    pub age_us: u32,
}

/// `A`: how far the replica has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The term that it follows.
    pub term: Term,
    /// Everything below is in its log.
    pub received: Lsn,
    /// Everything below is on its disk.
    pub durable: Lsn,
    /// Everything below its readers see.
    pub applied: Lsn,
    /// The clock of the newest packet of the primary.
    pub echo_mono_ns: u64,
    /// How long ago that packet came.
    pub hold_ns: u64,
    /// The replica's own monotonic clock.
    pub replica_mono_ns: u64,
    /// Bytes received that wait to be applied.
    pub queue_bytes: u32,
    /// Since when its readers see positions that they did not at its last ack, ascending.
    pub marks: Vec<Mark>,
}

/// `c`: transactions that the replica's readers see, one by one; only if the primary set [`FLAG_COMMITTED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The term that it follows.
    pub term: Term,
    /// Their commit numbers, ascending.
    pub csns: Vec<Lsn>,
}

/// Feature: the replica sends [`Committed`]. For comparison with replication that acknowledges each transaction.
pub const FLAG_COMMITTED: u32 = 1;

/// Feature: the primary sends [`Sample`]s. Without it none comes.
pub const FLAG_READS: u32 = 2;

/// `s`: the replica has caught up with `durable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The term that it follows.
    pub term: Term,
    /// Everything below its readers see.
    pub applied: Lsn,
}

/// Why a primary ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It shuts down.
    Shutdown,
    /// Another node takes over.
    Switchover,
    /// The replica's slot was dropped.
    SlotDropped,
}

/// `E`: nothing comes behind `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The primary's term.
    pub term: Term,
    /// Why.
    pub reason: EndReason,
    /// Where its log ends: the replica applies up to here, says so with `s`, and closes.
    pub last: Lsn,
}

/// A statement that a replica may run once more, with what it found and how long it took on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledRead<'a> {
    /// The template's hash.
    pub hash: u64,
    /// The snapshot that it ran at.
    pub snapshot: Lsn,
    /// When it came, on the primary's clock, in microseconds.
    pub arrival_us: u64,
    /// How long it took.
    pub latency_ns: u32,
    /// How many rows it returned.
    pub rows: u32,
    /// Its parameters: how many, and of each its type and its value.
    pub parameters: &'a [u8],
}

/// `q`: sampled reads. The first to be left out when there is much to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// A statement's text; once per connection.
    Template {
        /// What reads name it by.
        hash: u64,
        /// The statement.
        text: &'a str,
    },
    /// Reads.
    Reads(Vec<SampledRead<'a>>),
}

/// `K`: a base backup, file by file (decision 0085).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backup<'a> {
    /// What comes.
    Begin {
        /// Drawn for each backup.
        id: u64,
        /// The log that the replica needs begins here: where its stream starts.
        log_start: Lsn,
        /// Everything in the files lies below: the replica answers no reads before it has applied up to here.
        consistent: Lsn,
        /// How many files come.
        files: u32,
        /// About how many bytes they have.
        bytes: u64,
    },
    /// A file.
    File {
        /// Its number, from 0, ascending.
        number: u32,
        /// How long it is.
        bytes: u64,
        /// Its path, parts between `/`.
        name: &'a str,
    },
    /// A piece of the newest file.
    Chunk {
        /// Numbered from 0 over the whole backup.
        seq: u64,
        /// The file.
        number: u32,
        /// Where the piece lies in it.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// Nothing more comes.
    End {
        /// How many chunks there were.
        chunks: u64,
        /// How many bytes they had.
        bytes: u64,
    },
    /// From the replica: everything up to this chunk is in its files.
    Ack {
        /// The chunk.
        seq: u64,
    },
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyKind {
    /// CRC-32C of the log's bytes.
    LogCrc,
    /// The hash of a family's rows as of `to`.
    StateHash,
}

/// `V`: the same question answered by both sides must give one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// What is compared.
    pub kind: VerifyKind,
    /// From here.
    pub from: Lsn,
    /// To here.
    pub to: Lsn,
    /// Of which family, its id plus one; 0 in a question and behind the last answer, and for the log.
    pub cf: u32,
    /// The answer; 0 in a question about rows.
    pub result: u64,
}

/// What is said of a handover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverKind {
    /// From a replica: it wants to lead after the primary that it follows. The answer is an [`End`] of [`EndReason::Switchover`], or a
    /// refusal.
    Ask,
    /// From a primary: it goes on as one.
    Refuse,
}

/// `h`: whether the primary hands over to this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover<'a> {
    /// What is said.
    pub kind: HandoverKind,
    /// The term of the connection.
    pub term: Term,
    /// How long open transactions are given to end, and then the replica to take over, in milliseconds; 0 in a refusal.
    pub wait_ms: u32,
    /// Why not, in words; empty in a question.
    pub text: &'a str,
}

/// What a node says about a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermKind {
    /// It wants to lead in it.
    Propose,
    /// It takes nothing of lower terms any more.
    Promise,
    /// It has promised as much already.
    Refuse,
    /// It leads in it.
    Announce,
    /// It wants to lead in it after the node that is asked, which hands over to it: else that refuses.
    Succeed,
}

/// `T`: who may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermPacket {
    /// What is said.
    pub kind: TermKind,
    /// About which term.
    pub term: Term,
    /// The history that the term began; 0 before it did.
    pub history: HistoryId,
    /// Who says it.
    pub node: u64,
    /// The term of the newest record that it has.
    pub last_term: Term,
    /// Everything below is on its disk.
    pub durable: Lsn,
}

/// Why a peer gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ErrorCode {
    /// Bytes that are no packet, or a packet that does not belong here.
    Protocol = 1,
    /// A checksum does not hold.
    Checksum = 2,
    /// Records that do not begin where those before ended.
    Gap = 3,
    /// No common version.
    Version = 4,
    /// Another database.
    Cluster = 5,
    /// A directory of this id follows already.
    NodeInUse = 6,
    /// A lower term than was promised.
    Term = 7,
    /// The replica has what the primary has lost.
    Ahead = 8,
    /// The slot cannot be had: too many, or in use.
    Slot = 9,
    /// What the replica needs next was freed.
    LogGone = 10,
    /// The peer cannot read or write what it should.
    Storage = 11,
    /// The peer is shutting down.
    Shutdown = 12,
    /// The peer is not a primary.
    NotPrimary = 13,
    /// The same state has another hash, or the same stretch of log another checksum.
    StateDiffers = 14,
    /// The replica's copy of the log holds what cannot be applied.
    Damaged = 15,
}

/// `X`: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// Why; a code of a later version comes as [`ErrorCode::Protocol`].
    pub code: ErrorCode,
    /// Whether trying again soon is pointless.
    pub fatal: bool,
    /// The SQLSTATE of it.
    pub sqlstate: [u8; 5],
    /// Where in the log, or 0.
    pub lsn: Lsn,
    /// One line for people: what happened and what to do.
    pub text: &'a str,
}

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// `H`
    Hello(Hello<'a>),
    /// `I`
    Identify(Identify),
    /// `D`
    Data(Data<'a>),
    /// `B`
    Heartbeat(Heartbeat),
    /// `A`
    Ack(Ack),
    /// `c`
    Committed(Committed),
    /// `s`
    Synced(Synced),
    /// `E`
    End(End),
    /// `q`
    Sample(Sample<'a>),
    /// `K`
    Backup(Backup<'a>),
    /// `V`
    Verify(Verify),
    /// `T`
    Term(TermPacket),
    /// `h`
    Handover(Handover<'a>),
    /// `X`
    Error(Error<'a>),
}

/// Entry point of the fuzz target: whatever `bytes` hold, decoding ends, does not panic, keeps no more than has arrived, and
/// what is decoded is encoded as the bytes that it came from.
pub fn fuzz_packets(bytes: &[u8]) {
    let (first, rest) = bytes.split_first().unwrap_or((&0, &[]));
    let from = if first & 1 == 0 { From::Primary } else { From::Replica };
    let mut input = if first & 2 == 0 { Input::stream(from) } else { Input::hello(from) };
    let mut fed = 0;
    for piece in rest.chunks(usize::from(*first >> 2).max(1)) {
        input.feed(piece);
        fed += piece.len();
        assert!(input.held_bytes() <= fed, "an input holds what has arrived (P1)");
        loop {
            match input.next() {
                Ok(Some(packet)) => {
                    let mut again = Vec::new();
                    encode(&packet, &mut again);
                    let mut second = Input::stream(from);
                    second.feed(&again);
                    assert_eq!(second.next(), Ok(Some(packet)), "what is written reads back (P4)");
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}
