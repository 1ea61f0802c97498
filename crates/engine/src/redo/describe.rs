//! `describe_record`: one line about a log record, for people inspecting a log.
//!
//! It reads the records that `records` writes and decides nothing.

use std::fmt::Write as _;

use collie_base::Lsn;
use collie_base::codec::{DecodeError, Reader};

use crate::redo::quorum_record::QuorumRedo;
use crate::redo::{Op, Redo, Relogged};
use crate::utc::Utc;

/// The most operations that one line names; it gives the number of the others.
const OPS_SHOWN: usize = 8;
/// The most bytes of a key that are shown.
const KEY_BYTES_SHOWN: usize = 24;

/// Returns a line about the record with this tag and payload, for example
/// `COMMIT xid 7: put 3/6b6579 5 B, delete 3/6b`. For a payload that makes no sense the line has the error.
pub fn describe_record(tag: u8, payload: &[u8]) -> String {
    match Redo::decode(tag, payload) {
        Ok(Redo::Commit { xid, chunks: 0, ops, .. }) => format!("COMMIT xid {xid}:{}", describe_ops(ops)),
        Ok(Redo::Commit { xid, chunks, first_chunk, ops }) => {
            format!("COMMIT xid {xid} with {chunks} chunks from {first_chunk}:{}", describe_ops(ops))
        }
        Ok(Redo::Chunk { xid, ops }) => format!("CHUNK xid {xid}:{}", describe_ops(ops)),
        Ok(Redo::Abort { xid }) => format!("ABORT xid {xid}"),
        Ok(Redo::RollbackTo { xid, first_void }) => format!("ROLLBACK_TO xid {xid}, void from operation {first_void}"),
        Ok(Redo::Relog { begin: Lsn::ZERO, .. }) => "RELOG begins".to_owned(),
        Ok(Redo::Relog { begin, last, entries }) => {
            format!("RELOG of {begin}{}:{}", if last { ", its end" } else { "" }, describe_relogged(entries))
        }
        Ok(Redo::XidLimit { limit }) => format!("XID_LIMIT {limit}"),
        Ok(Redo::Incarnation(i)) => format!(
            "INCARNATION term {} history {:016x} after term {} history {:016x}, reason {}, at {} us",
            i.term,
            i.history.get(),
            i.previous_term,
            i.previous_history.get(),
            i.reason,
            i.wall_us
        ),
        Ok(Redo::Time { wall_us, below }) => format!("TIME {}: everything below {below} is older", Utc(wall_us)),
        Ok(Redo::Quorum(quorum)) => describe_quorum(&quorum),
        Ok(Redo::Unlogged { cf }) => format!("UNLOGGED in family {cf}: rows that are not in the log"),
        Err(error) => format!("tag {tag}, {} bytes: {error}", payload.len()),
    }
}

/// Describes the replicas that commits ask for.
fn describe_quorum(quorum: &QuorumRedo<'_>) -> String {
    let asked = |list: &str| if list.is_empty() { "nobody".to_owned() } else { list.to_owned() };
    let without = if quorum.degraded { "done without, of " } else { "" };
    let before = quorum.in_force.and_then(|in_force| in_force.before);
    let changes = before.map_or_else(String::new, |before| format!(", and until they have this {}", asked(before)));
    format!("QUORUM {}: {without}{}{changes}", Utc(quorum.wall_us), asked(quorum.list))
}

/// Returns whether a record with this tag commits a transaction.
pub fn is_commit_record(tag: u8) -> bool {
    matches!(tag, crate::redo::tag::COMMIT | crate::redo::tag::UNLOGGED)
}

fn describe_ops(ops: &[u8]) -> String {
    describe_each(ops, |reader| Op::decode(reader).map(|op| (None, op)))
}

fn describe_relogged(entries: &[u8]) -> String {
    describe_each(entries, |reader| Relogged::decode(reader).map(|entry| (Some(entry.csn), entry.op)))
}

fn describe_each<'a>(
    bytes: &'a [u8],
    decode: impl Fn(&mut Reader<'a>) -> Result<(Option<Lsn>, Op<'a>), DecodeError>,
) -> String {
    let mut line = String::new();
    let mut reader = Reader::new(bytes);
    let mut count = 0_usize;
    while !reader.is_empty() {
        let (csn, op) = match decode(&mut reader) {
            Ok(decoded) => decoded,
            Err(error) => {
                let _ = write!(line, " {error}");
                return line;
            }
        };
        count += 1;
        if count > OPS_SHOWN {
            continue;
        }
        let separator = if count > 1 { "," } else { "" };
        let what = if op.value.is_some() { "put" } else { "delete" };
        let _ = write!(line, "{separator} {what} {}/", op.cf); // writing to a string cannot fail
        for byte in op.key.iter().take(KEY_BYTES_SHOWN) {
            let _ = write!(line, "{byte:02x}");
        }
        if op.key.len() > KEY_BYTES_SHOWN {
            line.push_str("..");
        }
        if let Some(value) = op.value {
            let _ = write!(line, " {} B", value.len());
        }
        if let Some(csn) = csn {
            let _ = write!(line, " of {csn}");
        }
    }
    if count > OPS_SHOWN {
        let _ = write!(line, " and {} more", count - OPS_SHOWN);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::QuorumNote;
    use crate::redo::{encode_integers, encode_relog, encode_time, tag};
    use collie_base::CfId;
    use proptest::prelude::*;

    /// Goal: a line states the effect of a record. Method: one commit, letter by letter.
    #[test]
    fn commit_is_described_in_one_line() {
        let mut record = encode_integers(&[7, 0, 0]);
        Op { cf: CfId::new(3), key: b"key", value: Some(b"value") }.encode(&mut record);
        Op { cf: CfId::new(3), key: b"k", value: None }.encode(&mut record);
        assert_eq!(describe_record(tag::COMMIT, &record), "COMMIT xid 7: put 3/6b6579 5 B, delete 3/6b");
        let marker = describe_record(tag::UNLOGGED, &encode_integers(&[3]));
        assert_eq!(marker, "UNLOGGED in family 3: rows that are not in the log");
    }

    /// Goal: records about the state of the log are described. Method: a time mark, and each form of a QUORUM record.
    #[test]
    fn marks_of_time_and_quorums_are_described() {
        let mark = describe_record(tag::TIME, &encode_time(1_767_323_045_000_006, Lsn::new(0x2000)));
        assert_eq!(mark, "TIME 2026-01-02 03:04:05.000006+00: everything below 0/2000 is older");
        let quorum = |degraded, list: &str, before: Option<&str>| {
            let (list, before) = (list.to_owned(), before.map(str::to_owned));
            let note = QuorumNote { list, before, degraded, ..QuorumNote::default() };
            describe_record(tag::QUORUM, &note.encode(1_767_323_045_000_006))
        };
        assert_eq!(quorum(false, "ANY 1 (a)", None), "QUORUM 2026-01-02 03:04:05.000006+00: ANY 1 (a)");
        let without = quorum(true, "ANY 1 (a)", None);
        assert_eq!(without, "QUORUM 2026-01-02 03:04:05.000006+00: done without, of ANY 1 (a)");
        let changes = quorum(false, "ANY 1 (a)", Some(""));
        assert_eq!(changes, "QUORUM 2026-01-02 03:04:05.000006+00: ANY 1 (a), and until they have this nobody");
    }

    /// Goal: as above, for a re-log. Method: its first and its last record.
    #[test]
    fn relog_is_described_with_the_commits_it_stands_for() {
        assert_eq!(describe_record(tag::RELOG, &encode_relog(Lsn::ZERO, false)), "RELOG begins");
        let begin = Lsn::new(0x2000);
        let mut record = encode_relog(begin, true);
        let op = Op { cf: CfId::new(3), key: b"k", value: Some(b"value") };
        Relogged { csn: Lsn::FIRST, op }.encode(&mut record);
        let expected = format!("RELOG of {begin}, its end: put 3/6b 5 B of {}", Lsn::FIRST);
        assert_eq!(describe_record(tag::RELOG, &record), expected);
    }

    proptest! {
        /// Goal: garbage never panics. Method: random tags and bytes.
        #[test]
        fn describe_record_takes_any_bytes(tag: u8, bytes: Vec<u8>) {
            prop_assert!(!describe_record(tag, &bytes).contains('\n'));
        }
    }
}
