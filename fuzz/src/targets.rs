//! The targets. If a decoder has an inverse, its target also checks that accepted input survives a round trip.
//!
//! A target is not a second decoder: it knows only the places of checksums, which would otherwise reject every
//! mutation.

use collie_base::checksum::{Crc32c, crc32c};
use collie_sql::{
    catalog::record::{self, Record},
    codec::{
        RowLayout,
        key::{decode_key, encode_key},
    },
    types::{
        IntervalStyle, Value,
        interval::{parse_interval, write_interval},
    },
};
use collie_wal::format::{BLOCK_BYTES, FRAME_MAGIC, SEGMENT_MAGIC};

use crate::seeds;

/// Takes the first byte off, as a choice of the input.
fn choice(bytes: &[u8]) -> (u8, &[u8]) {
    bytes.split_first().map_or((0, bytes), |(first, rest)| (*first, rest))
}

/// Messages of a client: the first byte says how they are divided and whether the session has started.
pub(crate) fn wire_frontend(bytes: &[u8]) {
    collie_wire::fuzz_frontend(bytes);
}

/// Packets of a primary or a replica: the first byte says which side, whether it is known, and how they are divided.
/// Then the same as one packet with a valid seal.
pub(crate) fn replica_packets(bytes: &[u8]) {
    collie_replica::packet::fuzz_packets(bytes);
    let mut sealed = bytes.to_vec();
    if let Some(packet) = sealed.get_mut(1..).filter(|packet| (9..1 << 24).contains(&packet.len())) {
        collie_replica::packet::seal(packet);
        collie_replica::packet::fuzz_packets(&sealed);
    }
}

/// The parameters of a sampled read, as a replica takes them.
pub(crate) fn sampled_parameters(bytes: &[u8]) {
    collie_sql::session::fuzz_parameters(bytes);
}

/// The file of a log's consumers, as it is and with a valid checksum.
pub(crate) fn log_cursors(bytes: &[u8]) {
    collie_wal::fuzz_cursors(bytes);
    if let Some((head, body)) = bytes.split_at_checked(12) {
        let sealed = [&head[..8], &crc32c(body).to_le_bytes(), body].concat();
        collie_wal::fuzz_cursors(&sealed);
    }
}

/// A segment of the log, as it is and with valid checksums of its headers.
pub(crate) fn log_reader(bytes: &[u8]) {
    collie_wal::fuzz_reader(bytes);
    let mut sealed = bytes.to_vec();
    seal(&mut sealed);
    collie_wal::fuzz_reader(&sealed);
}

/// Writes valid checksums into the header block and every frame of a segment (offsets: the table in `wal::format`).
fn seal(segment: &mut [u8]) {
    let block = usize::try_from(BLOCK_BYTES).expect("a block fits memory");
    if segment.len() >= block && segment.starts_with(SEGMENT_MAGIC) {
        let crc = crc32c(&segment[12..block]);
        segment[8..12].copy_from_slice(&crc.to_le_bytes());
    }
    for at in (0..segment.len()).step_by(block) {
        let frame = &mut segment[at..];
        if frame.len() < 64 || !frame.starts_with(FRAME_MAGIC) {
            continue;
        }
        let word = |from: usize| u32::from_le_bytes(frame[from..from + 4].try_into().expect("4 bytes"));
        let (salt, payload) = (word(8), usize::try_from(word(40)).unwrap_or(usize::MAX));
        let header = usize::from(u16::from_le_bytes([frame[52], frame[53]]));
        if let Some(covered) = frame.get(8..header.saturating_add(payload)) {
            let mut crc = Crc32c::with_seed(salt);
            crc.update(covered);
            frame[4..8].copy_from_slice(&crc.finish().to_le_bytes());
        }
    }
}

/// A MANIFEST of the LSM levels, as it is and with valid checksums of header and frames.
pub(crate) fn manifest(bytes: &[u8]) {
    collie_store::check_manifest(bytes);
    let mut sealed = bytes.to_vec();
    if sealed.len() < 32 {
        return;
    }
    let crc = crc32c(&sealed[12..32]);
    sealed[8..12].copy_from_slice(&crc.to_le_bytes());
    let word = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
    let (salt, mut at) = (word(&sealed, 16), 32);
    while at + 16 <= sealed.len() {
        let end = at.saturating_add(16).saturating_add(usize::try_from(word(&sealed, at + 4)).unwrap_or(usize::MAX));
        let Some(covered) = sealed.get(at + 4..end) else { break };
        let mut crc = Crc32c::with_seed(salt);
        crc.update(covered);
        sealed[at..at + 4].copy_from_slice(&crc.finish().to_le_bytes());
        at = end;
    }
    collie_store::check_manifest(&sealed);
}

/// The list of a backup's files, as it is and with a valid checksum.
pub(crate) fn backup_manifest(bytes: &[u8]) {
    collie_engine::check_backup_manifest(bytes);
    if let Some((head, body)) = bytes.split_at_checked(12) {
        let sealed = [&head[..8], &crc32c(body).to_le_bytes(), body].concat();
        collie_engine::check_backup_manifest(&sealed);
    }
}

/// A journal of decisions; also with records whose checksums are valid, so that the checks after them are reached.
pub(crate) fn decision_journal(bytes: &[u8]) {
    collie_train::decision::fuzz_journal(bytes);
    let mut sealed = collie_train::decision::journal_header();
    for body in bytes.chunks(150) {
        let length = u32::try_from(body.len()).expect("a short piece");
        sealed.extend_from_slice(&length.to_le_bytes());
        sealed.extend_from_slice(&crc32c(body).to_le_bytes());
        sealed.extend_from_slice(body);
    }
    collie_train::decision::fuzz_journal(&sealed);
}

/// A model package, as it is and with a valid hash and checksum.
pub(crate) fn model_package(bytes: &[u8]) {
    collie_train::model::fuzz_package(bytes);
    let mut sealed = bytes.to_vec();
    if sealed.len() >= 24 {
        collie_train::model::seal_package(&mut sealed);
        collie_train::model::fuzz_package(&sealed);
    }
}

/// A log record as it is described to people: a tag, then the payload.
pub(crate) fn redo_record(bytes: &[u8]) {
    let (tag, payload) = choice(bytes);
    let line = collie_engine::describe_record(tag, payload);
    assert!(!line.contains('\n'), "one record is one line: {line:?}");
}

/// The text of a query.
pub(crate) fn sql_parse(bytes: &[u8]) {
    collie_sql::parse::fuzz_parse(bytes);
}

/// Data of COPY FROM: the first byte says the format and how the data is divided.
pub(crate) fn copy_input(bytes: &[u8]) {
    collie_sql::session::copy_format::fuzz_copy(bytes);
}

/// Settings, one `key=value` per line.
pub(crate) fn config(bytes: &[u8]) {
    collie_server::config::fuzz_config(&String::from_utf8_lossy(bytes));
}

/// A row of the catalog: the length of its key, the key, the value. A decoded row is also assembled into a table.
pub(crate) fn catalog_record(bytes: &[u8]) {
    let (key_bytes, rest) = choice(bytes);
    let (key, value) = rest.split_at(usize::from(key_bytes).min(rest.len()));
    let Ok(read) = record::decode(key, value) else { return };
    let table = seeds::relation();
    let (mut columns, mut indexes) = (table.columns.clone(), Vec::new());
    let mut checks = table.checks.clone();
    let mut foreign_keys = table.foreign_keys.clone();
    let whole = match read {
        Record::Relation(relation) => *relation,
        other => {
            match other {
                Record::Column(_, column) => columns.push(column),
                Record::Index(_, index) => indexes.push(index),
                Record::Check(_, check) => checks.push(check),
                Record::ForeignKey(_, foreign) => foreign_keys.push(foreign),
                _ => {}
            }
            table
        }
    };
    drop(record::assemble(whole, columns, indexes, checks, foreign_keys));
}

/// A stored row of a table with a column of each type. A decoded row is written and read again.
pub(crate) fn row_codec(bytes: &[u8]) {
    let oids = seeds::ROW_TYPES;
    let layout = RowLayout::new(oids);
    let all: Vec<usize> = (0..oids.len()).collect();
    let read = |bytes: &[u8]| {
        let mut values = vec![Value::Null; oids.len()];
        layout.decode_into(bytes, &all, &mut values).map(|()| values)
    };
    for column in &all {
        drop(layout.column_bytes(bytes, *column));
        drop(layout.decode_column(bytes, *column));
    }
    let Ok(values) = read(bytes) else { return };
    let mut again = Vec::new();
    layout.encode(&values, &mut again).expect("values that were read have their columns' types");
    let reread = read(&again).expect("what was just written can be read");
    for (column, oid) in oids.iter().enumerate() {
        assert!(values[column].compare(&reread[column], *oid).is_eq(), "column {column} does not survive");
    }
}

/// The text of an interval. A parsed interval is printed and parsed again in each style, except for the smallest value
/// of a field, which no text with `ago` can express.
pub(crate) fn interval_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let styles =
        [IntervalStyle::Postgres, IntervalStyle::PostgresVerbose, IntervalStyle::SqlStandard, IntervalStyle::Iso8601];
    for style in styles {
        let Ok(interval) = parse_interval(text, -1, style) else { continue };
        let mut printed = Vec::new();
        write_interval(interval, style, &mut printed);
        let printed = String::from_utf8(printed).expect("ASCII");
        let smallest = interval.months == i32::MIN || interval.days == i32::MIN || interval.micros == i64::MIN;
        match parse_interval(&printed, -1, style) {
            Ok(again) => assert_eq!(format!("{again:?}"), format!("{interval:?}"), "{printed}"),
            Err(error) => assert!(smallest, "{printed}: {error:?}"),
        }
    }
}

/// A key over one of several lists of columns, chosen by the first byte. A decoded key is written and read again.
pub(crate) fn key_codec(bytes: &[u8]) {
    let (which, bytes) = choice(bytes);
    let shapes = seeds::key_shapes();
    let columns = &shapes[usize::from(which) % shapes.len()];
    let Ok(values) = decode_key(bytes, columns) else { return };
    let mut again = Vec::new();
    if encode_key(&mut again, columns, &values).is_err() {
        return;
    }
    let reread = decode_key(&again, columns).expect("what was just written can be read");
    for (column, (value, other)) in columns.iter().zip(values.iter().zip(&reread)) {
        assert!(column.compare(value, other).is_eq(), "a value of type {} does not survive", column.oid);
    }
}
