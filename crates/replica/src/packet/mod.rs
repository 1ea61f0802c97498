//! Packets: the messages between a primary and a replica, as values and as bytes; without I/O.
//!
//! A packet is a type byte, a length with a check byte, the payload and a checksum; integers are little-endian.
//! docs/replication-protocol.md has every offset. An unknown upper-case type ends the connection; an unknown
//! lower-case type is skipped, so that a later version can add optional packets.
//!
//! # Invariants
//! - P1. Type, direction and length are checked before the payload is awaited; an input buffers only bytes that
//!   have arrived, allocates nothing for an announced length, and keeps no byte of a skipped packet.
//! - P2. Every read inside a packet is bounded by the packet, and the packet must end where its last field ends. A
//!   count is checked against its bound and against the present bytes before anything is allocated for it.
//! - P3. Bytes from a peer never cause a panic. A packet is delivered only if its checksum matches, and a length
//!   is used only if its check byte matches (`seal`). Between nodes each packet is followed by a seal that only
//!   they can make (`key`); it is verified here, before the payload is decoded.
//! - P4. An encoded packet decodes to the same value, and stays within the limits that the other side checks.
//!
//! Checked by `packet_tests` (round trips, every cut, flipped bits, stored captures) and the fuzz target
//! `replica_packets`.

mod body;
mod decode;
mod encode;
mod error;
mod input;
mod kind;
#[cfg(test)]
mod packet_tests;
mod seal;
mod tags;

use collie_base::{HistoryId, Lsn, Term};

pub use self::{
    encode::encode,
    error::{PacketError, PacketFault},
    input::Input,
    kind::{From, PACKET_BYTES_MAX},
    seal::seal,
    tags::{TAG_BYTES, Tags},
};

/// The newest version of the protocol that this program speaks.
pub const PROTOCOL: u16 = 1;
/// The oldest version of the protocol that this program speaks.
pub const PROTOCOL_MIN: u16 = 1;
/// The first bytes of a [`Hello`]: `CLRP`.
pub const MAGIC: u32 = u32::from_le_bytes(*b"CLRP");
/// The most histories in a [`Hello`]: the newest ones.
pub const HELLO_HISTORIES_MAX: usize = 64;
/// The most histories in an [`Identify`]: the newest ones.
pub const IDENTIFY_HISTORIES_MAX: usize = 500;
/// The most bytes of log under the checksum of a [`Hello`].
pub const TAIL_BYTES_MAX: u32 = 64 << 10;
/// The most bytes of records in a [`Data`].
pub const DATA_BYTES_MAX: usize = 4 << 20;
/// The most bytes of a file in a [`Backup::Chunk`].
pub const CHUNK_BYTES_MAX: usize = (1 << 20) - 64;
/// The most marks in an [`Ack`].
pub const MARKS_MAX: usize = 16;
/// The most bytes of text in an [`Error`].
pub const TEXT_BYTES_MAX: usize = 512;

/// A history in the form that nodes exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct History {
    /// Its term.
    pub term: Term,
    /// Its id.
    pub id: HistoryId,
    /// The position of its first record.
    pub start: Lsn,
    /// The end of the last record before it; the history has no bytes between here and `start`.
    pub prev_end: Lsn,
}

/// `H`, the first packet: the replica's identity and positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello<'a> {
    /// The oldest version of the protocol that it speaks.
    pub proto_min: u16,
    /// The newest version of the protocol that it speaks.
    pub proto_max: u16,
    /// Features that it offers; a feature is used if both sides set it.
    pub flags: u32,
    /// The id of the database; 0 if it has none yet and asks for a base backup.
    pub cluster: u128,
    /// The id of its directory.
    pub node: u64,
    /// The highest term that it has promised.
    pub promised: Term,
    /// Its log has everything below; 0 without a database.
    pub received: Lsn,
    /// Its disk has everything below.
    pub durable: Lsn,
    /// Its readers see everything below.
    pub applied: Lsn,
    /// The number of bytes below `received` that the checksum covers; 0 if it has none to show.
    pub tail_bytes: u32,
    /// CRC-32C of these bytes.
    pub tail_crc: u32,
    /// Its newest histories, oldest first.
    pub histories: Vec<History>,
    /// The name of the slot that it requests.
    pub slot: &'a str,
}

/// The decision about a replica that has sent a hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It follows from `start` on.
    Stream,
    /// It cuts its log at `start`, sets the removed part aside, and connects again.
    Truncate,
    /// It is rebuilt: a base backup follows.
    Backup,
    /// It has more of this history than the primary, which has lost bytes that it had confirmed. Nothing is sent.
    Ahead,
    /// It may not follow this primary; an `X` follows with the reason.
    Refuse,
}

/// `I`, the answer to a hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identify {
    /// The version of the protocol that is used from here on.
    pub proto: u16,
    /// The features that are used.
    pub flags: u32,
    /// The id of the database.
    pub cluster: u128,
    /// The id of the primary's directory.
    pub node: u64,
    /// The primary's term.
    pub term: Term,
    /// The primary's newest history.
    pub history: HistoryId,
    /// The decision about the replica.
    pub verdict: Verdict,
    /// The position from which it follows, or at which it cuts.
    pub start: Lsn,
    /// The primary's disk has everything below.
    pub durable: Lsn,
    /// Readers of replicas may see everything below.
    pub show: Lsn,
    /// The primary's monotonic clock.
    pub mono_ns: u64,
    /// The time between two heartbeats.
    pub heartbeat_ms: u32,
    /// The silence after which either side gives up the connection.
    pub timeout_ms: u32,
    /// The primary's newest histories, oldest first.
    pub histories: Vec<History>,
}

/// The requests of a [`Data`], and a property of its records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataFlags {
    /// A session waits until the replica has these records on its disk: the replica sends an ack as soon as it
    /// has.
    pub want_flush: bool,
    /// A session waits until the replica's readers see these records.
    pub want_apply: bool,
    /// The first record starts a history; positions may jump only in front of it.
    pub new_history: bool,
}

/// `D`: records of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The primary's term.
    pub term: Term,
    /// The position of the first byte of `records`.
    pub start: Lsn,
    /// The end of the record before: the replica must have received everything below.
    pub prev_end: Lsn,
    /// The primary's disk has everything below.
    pub durable: Lsn,
    /// Readers of replicas may see everything below.
    pub show: Lsn,
    /// The primary's monotonic clock.
    pub mono_ns: u64,
    /// The requests, and a property of the records.
    pub flags: DataFlags,
    /// Whole records, as in a frame.
    pub records: &'a [u8],
}

/// A measurement of a replica's delay during some time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DelayWindow {
    /// The number of commits that these figures represent, at least 1.
    pub commits: u64,
    /// The mean of their delays.
    pub mean_ns: u64,
    /// The delay that half of them did not exceed.
    pub p50_ns: u64,
    /// The delay that all but one in a hundred did not exceed.
    pub p99_ns: u64,
    /// The longest delay.
    pub max_ns: u64,
}

/// `B`: the primary is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The primary's term.
    pub term: Term,
    /// The primary's disk has everything below.
    pub durable: Lsn,
    /// Readers of replicas may see everything below.
    pub show: Lsn,
    /// The primary's monotonic clock.
    pub mono_ns: u64,
    /// How much later this replica's readers saw commits, on the primary's clock, measured since the last
    /// heartbeat that carried a delay; `None` if no commit was measured.
    pub delay: Option<DelayWindow>,
    /// For how long it has owed the oldest commit that its readers do not see; 0 if it owes none.
    pub owed_ns: u64,
    /// The shortest recent round trip to this replica; `u64::MAX` before the first.
    pub rtt_min_ns: u64,
    /// The number of transactions that the primary has committed.
    pub commits: u64,
}

/// The time from which a replica's readers see a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The position.
    pub lsn: Lsn,
    /// The time between then and the sending of the ack, in microseconds.
    pub age_us: u32,
}

/// `A`: the replica's progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// The term that it follows.
    pub term: Term,
    /// The replica's log has everything below.
    pub received: Lsn,
    /// The replica's disk has everything below.
    pub durable: Lsn,
    /// The replica's readers see everything below.
    pub applied: Lsn,
    /// The clock value in the newest packet from the primary.
    pub echo_mono_ns: u64,
    /// The time since that packet arrived.
    pub hold_ns: u64,
    /// The replica's own monotonic clock.
    pub replica_mono_ns: u64,
    /// Received bytes that wait to be applied.
    pub queue_bytes: u32,
    /// Marks of the positions that became visible to its readers since its last ack, ascending.
    pub marks: Vec<Mark>,
}

/// `c`: transactions that the replica's readers see, one by one; only if the primary set [`FLAG_COMMITTED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The term that it follows.
    pub term: Term,
    /// Their CSNs, ascending.
    pub csns: Vec<Lsn>,
}

/// Feature: the replica sends [`Committed`]. For comparison with replication that acknowledges each transaction.
pub const FLAG_COMMITTED: u32 = 1;

/// Feature: the primary sends [`Sample`]s. Without it none is sent.
pub const FLAG_READS: u32 = 2;

/// `s`: the replica has caught up with `durable`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synced {
    /// The term that it follows.
    pub term: Term,
    /// The replica's readers see everything below.
    pub applied: Lsn,
}

/// Why a primary ends the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// It is shutting down.
    Shutdown,
    /// Another node takes over.
    Switchover,
    /// The replica's slot was dropped.
    SlotDropped,
}

/// `E`: no record follows `last`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// The primary's term.
    pub term: Term,
    /// The reason.
    pub reason: EndReason,
    /// The end of its log: the replica applies everything below, confirms that with `s`, and closes.
    pub last: Lsn,
}

/// A statement that a replica may run again, with its number of rows and its latency on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampledRead<'a> {
    /// The hash of the template.
    pub hash: u64,
    /// The snapshot at which it ran.
    pub snapshot: Lsn,
    /// The time of its arrival, on the primary's clock, in microseconds.
    pub arrival_us: u64,
    /// Its latency.
    pub latency_ns: u32,
    /// The number of rows that it returned.
    pub rows: u32,
    /// Its parameters: their number, and the type and value of each.
    pub parameters: &'a [u8],
}

/// `q`: sampled reads. These are dropped first when there is much to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sample<'a> {
    /// The text of a statement; once per connection.
    Template {
        /// The hash by which reads refer to it.
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
    /// The start of a backup.
    Begin {
        /// A random number for each backup.
        id: u64,
        /// The start of the log that the replica needs, where its stream begins.
        log_start: Lsn,
        /// Everything in the files is below this position: the replica answers no reads before it has applied up
        /// to here.
        consistent: Lsn,
        /// The number of files.
        files: u32,
        /// Their size in bytes, approximately.
        bytes: u64,
    },
    /// A file.
    File {
        /// Its number, from 0, ascending.
        number: u32,
        /// Its length.
        bytes: u64,
        /// Its path, with `/` between the parts.
        name: &'a str,
    },
    /// A piece of the current file.
    Chunk {
        /// The number of the chunk, from 0 over the whole backup.
        seq: u64,
        /// The file.
        number: u32,
        /// The offset of the piece in the file.
        offset: u64,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// The end of the backup.
    End {
        /// The number of chunks sent.
        chunks: u64,
        /// The number of bytes in them.
        bytes: u64,
    },
    /// From the replica: its files have everything up to this chunk.
    Ack {
        /// The chunk.
        seq: u64,
    },
}

/// The compared data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerifyKind {
    /// CRC-32C of the log's bytes.
    LogCrc,
    /// The hash of a family's rows at `to`.
    StateHash,
}

/// `V`: a question that must have the same result on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verify {
    /// The compared data.
    pub kind: VerifyKind,
    /// The start of the compared range.
    pub from: Lsn,
    /// The end of the compared range.
    pub to: Lsn,
    /// The family, as its id plus one; 0 in a question, after the last answer, and for the log.
    pub cf: u32,
    /// The answer; 0 in a question about rows.
    pub result: u64,
}

/// The kind of a message about a switchover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoverKind {
    /// From a replica: it wants to lead after the primary that it follows. The answer is an [`End`] of
    /// [`EndReason::Switchover`], or a refusal.
    Ask,
    /// From a primary: it keeps the lead.
    Refuse,
}

/// `h`: request for, or refusal of, a switchover to this replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handover<'a> {
    /// The kind of message.
    pub kind: HandoverKind,
    /// The term of the connection.
    pub term: Term,
    /// The time for open transactions to end, and then for the replica to take over, in milliseconds; 0 in a
    /// refusal.
    pub wait_ms: u32,
    /// The reason of a refusal in words; empty in a request.
    pub text: &'a str,
}

/// The kind of a message about a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TermKind {
    /// The node wants to lead in the term.
    Propose,
    /// The node accepts nothing of lower terms any more.
    Promise,
    /// The node has already promised the term, or a higher one.
    Refuse,
    /// The node leads in the term.
    Announce,
    /// The node wants to lead in the term as the successor of the asked node, in a switchover; without one the
    /// asked node refuses.
    Succeed,
    /// To a witness: the node leads in the term and needs leave to acknowledge commits without its quorum, which has
    /// confirmed nothing at or above `durable`.
    Degrade,
    /// To a witness: the node leads in the term, acknowledges nothing without its quorum, and that has everything
    /// below `durable`.
    Restore,
    /// Of a witness that has not promised the term: `node`, which leads in `last_term`, acknowledges commits without
    /// its quorum.
    Degraded,
}

/// `T`: which node may lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TermPacket {
    /// The kind of message.
    pub kind: TermKind,
    /// The term in question.
    pub term: Term,
    /// The history that began with the term; 0 before it has begun.
    pub history: HistoryId,
    /// The sending node.
    pub node: u64,
    /// The term of the newest record in its log.
    pub last_term: Term,
    /// Its disk has everything below.
    pub durable: Lsn,
}

/// Why a peer gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ErrorCode {
    /// Bytes that are not a packet, or a packet that is not allowed here.
    Protocol = 1,
    /// A checksum does not match.
    Checksum = 2,
    /// Records that do not begin at the end of the ones before.
    Gap = 3,
    /// The two nodes have no protocol version in common.
    Version = 4,
    /// The other node belongs to another database.
    Cluster = 5,
    /// A node with this id exists already.
    NodeInUse = 6,
    /// A term lower than a promised one.
    Term = 7,
    /// The replica has log that the primary has lost.
    Ahead = 8,
    /// The slot is not available: there are too many, or it is in use.
    Slot = 9,
    /// The log that the replica needs next was freed.
    LogGone = 10,
    /// The peer cannot read or write its files.
    Storage = 11,
    /// The peer is shutting down.
    Shutdown = 12,
    /// The peer is not a primary.
    NotPrimary = 13,
    /// Rows at one position have different hashes, or one stretch of log different checksums.
    StateDiffers = 14,
    /// The replica's copy of the log has a record that cannot be applied.
    Damaged = 15,
}

/// `X`: the connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// The code; an unknown code of a later version decodes as [`ErrorCode::Protocol`].
    pub code: ErrorCode,
    /// Whether trying again soon is pointless.
    pub fatal: bool,
    /// The SQLSTATE of the error.
    pub sqlstate: [u8; 5],
    /// The position in the log, or 0.
    pub lsn: Lsn,
    /// One line for people: the problem and the action to take.
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

/// Checks for the fuzz target that, for any `bytes`, decoding ends, does not panic and keeps only bytes that have
/// arrived, and that an encoded packet decodes to the same packet.
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
