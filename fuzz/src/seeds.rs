//! Seeds: inputs that the decoders accept, made with the product's encoders where there is one.
//!
//! They are not files: a seed in code changes together with its format.

use std::{path::Path, sync::Arc};

use collie_base::{
    CfId, HistoryId, Lsn, Term,
    codec::{put_length_prefixed, put_varint},
};
use collie_env::{Env, read_all};
use collie_replica::packet::{
    Ack, Backup, Committed, Data, DataFlags, ErrorCode, Hello, History, Identify, Mark, Packet, Sample, SampledRead,
    Verdict, encode,
};
use collie_sql::{
    catalog::{
        record,
        relation::{
            Check, Column, ConstraintTiming, ForeignKey, Index, IndexColumn, KeyExpression, KeyPart, ReferentialAction,
            Relation, Storage, TableKey,
        },
        snapshot::Schema,
    },
    codec::{KeyColumn, RowLayout, key::encode_key},
    types::{Interval, Numeric, SqlType, Value, oid},
};
use collie_train::model::sample_package;
use collie_wal::{LagPolicy, Log, Options, TailOptions};

/// Types of the columns of the rows that `row_codec` reads.
pub(crate) const ROW_TYPES: &[u32] = &[
    oid::INT4,
    oid::TEXT,
    oid::NUMERIC,
    oid::INT4_ARRAY,
    oid::BOOL,
    oid::BYTEA,
    oid::FLOAT8,
    oid::TIMESTAMPTZ,
    oid::DATE,
    oid::TEXT_ARRAY,
    oid::INT8,
    oid::BPCHAR,
    oid::INT2,
    oid::FLOAT4,
    oid::TIME,
    oid::INTERVAL,
];

/// Texts of intervals in each accepted form.
const INTERVALS: &[&str] = &[
    "1 year 2 mons -3 days +04:05:06.789",
    "@ 1 century 2 weeks ago",
    "@ 3 days -4 hours 5.5 secs ago",
    "+1-2 -3 +4:05:06",
    "P1Y2M3W4DT5H6M7.8S",
    "P0001-02-03T04:05:06",
    "P00010203T040506",
    "-178956970 years -8 mons -2147483648 days -2562047788:00:54.775807",
    "1d2h3m4s",
];

/// Returns the seeds of a target.
///
/// # Panics
/// There is no such target.
pub fn of(target: &str) -> Vec<Vec<u8>> {
    match target {
        "catalog_record" => catalog_record(),
        "config" => config(),
        "copy_input" => copy_input(),
        "interval_text" => texts(INTERVALS),
        "key_codec" => key_codec(),
        "log_cursors" => log_cursors(),
        "log_reader" => log_reader(),
        "backup_manifest" => {
            let sample = collie_engine::sample_backup_manifest();
            vec![sample[..100].to_vec(), sample]
        }
        "decision_journal" => vec![collie_train::decision::sample_journal(), collie_train::decision::journal_header()],
        "manifest" => vec![collie_store::sample_manifest(), collie_store::sample_manifest()[..200].to_vec()],
        "model_package" => [false, true].map(|of_trees| sample_package(of_trees).encode()).into(),
        "redo_record" => redo_record(),
        "replica_packets" => replica_packets(),
        "row_codec" => row_codec(),
        "sampled_parameters" => sampled_parameters(),
        "sql_parse" => texts(SQL),
        "wire_frontend" => wire_frontend(),
        _ => panic!("no target {target}"),
    }
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn u32_of(len: usize) -> u32 {
    u32::try_from(len).expect("seeds are short")
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(u32_of(body.len()) + 4).to_be_bytes(), body].concat()
}

fn startup(body: &[u8]) -> Vec<u8> {
    [&(u32_of(body.len()) + 4).to_be_bytes(), body].concat()
}

/// The first byte of each is odd for a session that has started; its value is also the size of the pieces.
fn wire_frontend() -> Vec<Vec<u8>> {
    let simple = message(b'Q', b"SELECT 1; SELECT 'two'\0");
    let extended = [
        message(b'P', b"s1\0SELECT $1::int4, $2\0\0\x02\0\0\0\x17\0\0\0\0"),
        message(b'B', b"p1\0s1\0\0\x01\0\x01\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff\0\x01\0\0"),
        message(b'D', b"Pp1\0"),
        message(b'E', b"p1\0\0\0\0\x05"),
        message(b'C', b"Ss1\0"),
        message(b'H', b""),
        message(b'S', b""),
    ]
    .concat();
    let copy = [message(b'd', b"1\tone\n2\t\\N\n"), message(b'c', b""), message(b'f', b"given up\0")].concat();
    let start = startup(b"\0\x03\0\0user\0collie\0database\0collie\0application_name\0fuzz\0\0");
    let with = |first: u8, parts: &[&[u8]]| [&[first][..], &parts.concat()].concat();
    vec![
        with(200, &[&startup(b"\x04\xd2\x16\x2f"), &start, &simple]),
        with(200, &[&startup(b"\x04\xd2\x16\x30"), &start]),
        with(6, &[&start, &extended, &message(b'X', b"")]),
        with(200, &[&startup(b"\x04\xd2\x16\x2e\0\0\0\x07\0\0\0\x09")]),
        with(201, &[&simple]),
        with(255, &[&extended, &copy, &message(b'p', b"password\0"), &message(b'X', b"")]),
        with(3, &[&copy]),
    ]
}

/// The first byte of each is even for a primary's packets; the bits above 2 are the size of the pieces.
fn replica_packets() -> Vec<Vec<u8>> {
    let (term, at, id) = (Term::new(3), Lsn::new(8192), HistoryId::new(7));
    let histories = vec![
        History { term: Term::new(0), id: HistoryId::new(6), start: Lsn::FIRST, prev_end: Lsn::FIRST },
        History { term, id, start: at, prev_end: Lsn::new(8000) },
    ];
    let hello = Packet::Hello(Hello {
        proto_min: 1,
        proto_max: 1,
        flags: 0,
        cluster: 1 << 100,
        node: 5,
        promised: term,
        received: at,
        durable: at,
        applied: at,
        tail_bytes: 4096,
        tail_crc: 77,
        histories: histories.clone(),
        slot: "north",
    });
    let identify = Packet::Identify(Identify {
        proto: 1,
        flags: 0,
        cluster: 1 << 100,
        node: 4,
        term,
        history: id,
        verdict: Verdict::Stream,
        start: at,
        durable: at,
        show: at,
        mono_ns: 1,
        heartbeat_ms: 100,
        timeout_ms: 5000,
        histories,
    });
    let data = Packet::Data(Data {
        term,
        start: at,
        prev_end: Lsn::new(8100),
        durable: Lsn::new(9000),
        show: Lsn::new(9000),
        mono_ns: 2,
        flags: DataFlags { new_history: true, ..DataFlags::default() },
        records: b"\x04\x41\x01\x05\0\0",
    });
    let marks = vec![Mark { lsn: at, age_us: 9 }];
    let ack = Packet::Ack(Ack {
        term,
        received: at,
        durable: at,
        applied: at,
        echo_mono_ns: 2,
        hold_ns: 3,
        replica_mono_ns: 4,
        queue_bytes: 5,
        marks,
    });
    let backup = [
        Backup::Begin { id: 1, log_start: at, consistent: at, files: 1, bytes: 3 },
        Backup::File { number: 0, bytes: 3, name: "levels/MANIFEST" },
        Backup::Chunk { seq: 0, number: 0, offset: 0, bytes: b"abc" },
        Backup::End { chunks: 1, bytes: 3 },
    ];
    let with = |first: u8, packets: &[Packet<'_>]| {
        let mut bytes = vec![first];
        packets.iter().for_each(|packet| encode(packet, &mut bytes));
        bytes
    };
    let error = Packet::Error(collie_replica::packet::Error {
        code: ErrorCode::Gap,
        fatal: false,
        sqlstate: *b"08P01",
        lsn: at,
        text: "records are missing",
    });
    let read =
        SampledRead { hash: 1, snapshot: at, arrival_us: 1_000_000, latency_ns: 50_000, rows: 3, parameters: b"\0\0" };
    let committed = Packet::Committed(Committed { term, csns: vec![Lsn::new(1), at] });
    vec![
        with(0xC3, &[hello]),
        with(0xC2, &[identify]),
        with(0x20, std::slice::from_ref(&data)),
        with(0xFC, &[data, Packet::Sample(Sample::Template { hash: 1, text: "SELECT 1" })]),
        with(0xFD, &[ack, committed, Packet::Backup(Backup::Ack { seq: 1 })]),
        with(0xFC, &[Packet::Sample(Sample::Reads(vec![read]))]),
        with(0x30, &backup.map(Packet::Backup)),
        with(0xF0, &[error]),
    ]
}

/// No parameters, and one parameter of each of a few types, with NULL among them.
fn sampled_parameters() -> Vec<Vec<u8>> {
    let parameter = |ty: u32, value: Option<&[u8]>| {
        let length = value.map_or(u32::MAX, |value| u32_of(value.len()));
        [&ty.to_le_bytes()[..], &length.to_le_bytes(), value.unwrap_or_default()].concat()
    };
    let numeric = [0, 1, 0, 0, 0, 0, 0, 0, 0, 7];
    let parameters = [
        parameter(oid::INT4, Some(&7_i32.to_be_bytes())),
        parameter(oid::TEXT, Some(b"text")),
        parameter(oid::NUMERIC, Some(&numeric)),
        parameter(oid::TIMESTAMPTZ, None),
        parameter(oid::BYTEA, Some(&[])),
    ];
    let all =
        |list: &[Vec<u8>]| [&u16::try_from(list.len()).expect("a few").to_le_bytes()[..], &list.concat()].concat();
    vec![all(&[]), all(&parameters), all(&parameters[..1])]
}

/// The cursors of one consumer, then of three with other policies.
fn log_cursors() -> Vec<Vec<u8>> {
    let (env, _disk) = Env::simulated(1);
    let dir = Path::new("/log");
    let (log, _) = Log::open(&env, dir, Options { threads: false, ..Options::small() }).expect("a fresh disk");
    let stored = || read_all(&*env.files, &dir.join("consumers"), 1 << 20).expect("the cursors are readable");
    let mut tails = Vec::new();
    let mut tail = |name: &str, policy| {
        let options = TailOptions::resume().policy(policy).bound_segments(9).bound_bytes(1 << 30);
        tails.push(log.tail(name, options).expect("a consumer"));
    };
    tail("feed", LagPolicy::Invalidate);
    let one = stored();
    tail("archive:1", LagPolicy::Hold);
    tail("replica.north_2-b", LagPolicy::Files);
    vec![one, stored()]
}

/// Segments of a log with short, long and cut records, after one open and after a second one.
fn log_reader() -> Vec<Vec<u8>> {
    let (env, _disk) = Env::simulated(1);
    let dir = Path::new("/log");
    let options = || Options {
        chunk_bytes: 4 << 10,
        segment_bytes: 64 << 10,
        ring_bytes: 16 << 10,
        frame_bytes: 4 << 10,
        flush_bytes: 4 << 10,
        slots: 1,
        threads: false,
        ..Options::small()
    };
    let mut found: Vec<Vec<u8>> = Vec::new();
    for round in 0..2_u8 {
        let (log, _) = Log::open(&env, dir, options()).expect("a log opens on a fresh disk");
        let mut writer = log.writer();
        for size in [0_usize, 1, 100, 700, 6000] {
            writer.append(round + 1, &[&vec![round; size]]).expect("there is room");
            log.flush_wal(true).expect("the disk works");
        }
        drop(writer);
        if round == 1 {
            log.close().expect("the disk works");
        }
        drop(log);
        for name in env.files.list(dir).expect("the directory is there") {
            let bytes = read_all(&*env.files, &dir.join(name), 1 << 20).expect("a segment is readable");
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            if used >= 4096 {
                found.push(bytes[..used.next_multiple_of(4096).min(bytes.len())].to_vec());
            }
        }
    }
    found
}

fn redo_record() -> Vec<Vec<u8>> {
    let integers = |tag: u8, numbers: &[u64]| {
        let mut out = vec![tag, 1];
        numbers.iter().for_each(|number| put_varint(&mut out, *number));
        out
    };
    let operations = |mut out: Vec<u8>| {
        for (family, key, value) in [(3_u64, &b"key"[..], Some(&b"value"[..])), (300, &b"k"[..], None)] {
            put_varint(&mut out, family);
            out.push(if value.is_some() { 1 } else { 2 });
            put_length_prefixed(&mut out, key);
            value.into_iter().for_each(|value| put_length_prefixed(&mut out, value));
        }
        out
    };
    let mut incarnation = vec![8, 1];
    incarnation.extend_from_slice(&[7; 32]);
    incarnation.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 64]);
    vec![
        operations(integers(1, &[7, 2, 900])),
        operations(operations(integers(2, &[1 << 40]))),
        integers(3, &[7]),
        integers(4, &[7, 1]),
        integers(7, &[u64::MAX]),
        incarnation,
    ]
}

const SQL: &[&str] = &[
    "SELECT a, b + 1 AS c FROM t WHERE a = $1 AND b IN (1, 2, 3) ORDER BY a DESC LIMIT 10 OFFSET 2 FOR UPDATE",
    "INSERT INTO s.t (a, b) VALUES (1, 'x'), (DEFAULT, E'a\\'b\\u0041') ON CONFLICT (a) DO UPDATE SET b = excluded.b RETURNING *",
    "UPDATE t SET a = a + 1, (b, c) = (2, NULL) FROM u WHERE t.id = u.id RETURNING t.*",
    "DELETE FROM t USING u WHERE t.a = u.a AND NOT EXISTS (SELECT 1 FROM v)",
    "CREATE TABLE t (id bigint PRIMARY KEY, n numeric(10,2) DEFAULT 0.5 NOT NULL CHECK (n > 0), s varchar(20)[], UNIQUE (s)) WITH (fillfactor = 70)",
    "CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS i ON t USING btree (a DESC NULLS LAST, b)",
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SAVEPOINT x; ROLLBACK TO x; RELEASE x; COMMIT",
    "SELECT count(*) FILTER (WHERE x), sum(DISTINCT y) FROM a LEFT JOIN b USING (id) GROUP BY 1 HAVING max(z) > 2",
    "WITH r AS (SELECT 1) SELECT CASE WHEN a THEN 1 ELSE 2 END, a::text || $$dollar$$, ARRAY[1,2][1], x'1F', -1e10 FROM r",
    "EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM pg_catalog.pg_class c WHERE c.relname ~ '^t' /* a /* b */ */ -- end",
    "COPY t (a, b) FROM STDIN WITH (FORMAT csv, HEADER true, NULL '')",
    "SET LOCAL timezone TO 'UTC'; SHOW ALL; RESET x.y; DISCARD ALL; LOCK TABLE t IN SHARE MODE",
    "PREPARE p (int) AS SELECT $1; EXECUTE p(1); DEALLOCATE p; DECLARE c CURSOR FOR SELECT 1; FETCH 5 FROM c",
    "ALTER TABLE t ADD COLUMN x int, DROP COLUMN y CASCADE; DROP TABLE IF EXISTS a, b; TRUNCATE t; VACUUM t",
    "SELECT ((((((((1))))))))) + - - + NOT NOT a IS NOT NULL BETWEEN 1 AND 2",
];

/// The first byte of each has CSV in its lowest bit; the other bits are the size of the pieces.
fn copy_input() -> Vec<Vec<u8>> {
    [
        &b"\xf01\ta\\tb\\\\\t\\N\n2\t\\x41\\101\t\r\n\\.\nrest"[..],
        b"\x04one\ttwo\n\n\\\n\t\\b\\f\\v\n",
        b"\xf11,\"a,\"\"b\"\"\n2\",\n3,x y,\"\"\n",
        b"\x03a,b\r\n\"c\",\"\r\"\r\n\\.\r\n",
    ]
    .map(<[u8]>::to_vec)
    .to_vec()
}

/// Every key with its default, and a few invalid settings.
fn config() -> Vec<Vec<u8>> {
    let keys = collie_server::config::KEYS;
    let mut found: Vec<Vec<u8>> = keys.iter().map(|key| format!("{}={}", key.name, key.default).into_bytes()).collect();
    let all = found.join(&b'\n');
    found.push(all);
    found.extend(texts(&[
        "wal.ring_size=18446744073709551615GiB",
        "wal.flush_delay=18446744073709551615s",
        "wal.flush_dely=1us\nsql.timezone=-15:59:59\n=\n==",
        "server.listen=[::1]:5433",
    ]));
    found
}

fn numeric(text: &str) -> Value {
    Value::Numeric(Numeric::parse(text).expect("a number"))
}

fn row_values() -> Vec<Value> {
    vec![
        Value::Int4(-7),
        Value::text("text"),
        numeric("-1234567890123456789.0123456789012345678901234567890"),
        Value::array(oid::INT4, vec![Value::Int4(1), Value::Null, Value::Int4(3)]),
        Value::Bool(true),
        Value::bytea(b"\0\x01\xff"),
        Value::Float8(-0.5),
        Value::TimestampTz(1_000_000),
        Value::Date(i32::MAX),
        Value::array(oid::TEXT, vec![Value::text("a"), Value::text("")]),
        Value::Int8(i64::MIN),
        Value::text("padded  "),
        Value::Int2(3),
        Value::Float4(f32::NAN),
        Value::Time(86_400_000_000),
        Value::Interval(Interval { months: 14, days: -3, micros: i64::MIN }),
    ]
}

fn row_codec() -> Vec<Vec<u8>> {
    let mut some_null = row_values();
    some_null.iter_mut().step_by(2).for_each(|value| *value = Value::Null);
    let mut wide = row_values();
    wide[1] = Value::text(&"wide".repeat(17_000));
    let mut special = row_values();
    special[2] = numeric("NaN");
    special[3] = Value::array(oid::INT4, Vec::new());
    let encode = |values: &[Value]| {
        let mut out = Vec::new();
        RowLayout::new(&ROW_TYPES[..values.len()]).encode(values, &mut out).expect("values of their types");
        out
    };
    vec![encode(&row_values()), encode(&some_null), encode(&special), encode(&row_values()[..4]), encode(&wide)]
}

/// Columns of the keys that `key_codec` reads.
pub(crate) fn key_shapes() -> Vec<Vec<KeyColumn>> {
    let desc = |oid| KeyColumn { oid, desc: true, nulls_first: true, nullable: true };
    vec![
        vec![KeyColumn::not_null(oid::INT8)],
        vec![KeyColumn::nullable(oid::TEXT), desc(oid::TEXT), KeyColumn::nullable(oid::BPCHAR)],
        vec![KeyColumn::not_null(oid::NUMERIC), desc(oid::NUMERIC), KeyColumn::nullable(oid::NUMERIC)],
        vec![desc(oid::BYTEA), KeyColumn::nullable(oid::BYTEA), desc(oid::BOOL)],
        vec![desc(oid::FLOAT8), KeyColumn::nullable(oid::FLOAT4), desc(oid::INT2), KeyColumn::not_null(oid::INT4)],
        vec![desc(oid::TIMESTAMPTZ), KeyColumn::nullable(oid::DATE), KeyColumn::not_null(oid::TIME), desc(oid::CHAR)],
        vec![KeyColumn::not_null(oid::INTERVAL), desc(oid::INTERVAL), KeyColumn::nullable(oid::INTERVAL)],
    ]
}

fn key_value(type_oid: u32) -> Value {
    if type_oid == oid::CHAR {
        return Value::Char(b'c');
    }
    let at = ROW_TYPES.iter().position(|oid| *oid == type_oid).expect("rows have a column of each type of a key");
    row_values().swap_remove(at)
}

fn key_codec() -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    for (which, columns) in key_shapes().iter().enumerate() {
        for nulls in [false, true] {
            let value = |column: &KeyColumn| if nulls && column.nullable { Value::Null } else { key_value(column.oid) };
            let mut key = vec![u8::try_from(which).expect("few shapes")];
            encode_key(&mut key, columns, &columns.iter().map(value).collect::<Vec<_>>())
                .expect("values of their types");
            if !found.contains(&key) {
                found.push(key);
            }
        }
    }
    found
}

/// Returns a table with its primary key, an index on an expression, a check, a default and a foreign key. Its catalog
/// rows are the seeds of `catalog_record`.
pub(crate) fn relation() -> Relation {
    let column = |attnum: i16, name: &str, type_oid: u32, default: Option<&str>| Column {
        attnum,
        name: Arc::from(name),
        ty: SqlType { oid: type_oid, typmod: -1 },
        not_null: attnum == 1,
        default: default.map(Arc::from),
        missing: Value::Null,
        dropped: false,
    };
    let columns = vec![column(1, "id", oid::INT8, None), column(2, "name", oid::TEXT, Some("'none'::text"))];
    let key = |column: usize| IndexColumn { part: KeyPart::Column(column), key: KeyColumn::not_null(oid::INT8) };
    let index = Index {
        oid: 16_386,
        name: Arc::from("t_pkey"),
        cf: CfId::new(3),
        unique: true,
        primary: true,
        constraint: Some(16_387),
        columns: vec![key(0)],
        predicate: Vec::new(),
        included: Vec::new(),
    };
    let (name, text) = (Arc::from("lower"), Arc::from("lower(name)"));
    let lower = KeyExpression { name, text, ty: SqlType { oid: oid::TEXT, typmod: -1 } };
    let lower = IndexColumn {
        part: KeyPart::Expression(Arc::new(lower)),
        key: record::key_expression(SqlType { oid: oid::TEXT, typmod: -1 }, false, false),
    };
    let computed = Index {
        oid: 16_390,
        name: Arc::from("t_lower_idx"),
        cf: CfId::new(4),
        unique: false,
        primary: false,
        constraint: None,
        columns: vec![lower, key(0)],
        predicate: vec![Arc::from("(name IS NOT NULL)"), Arc::from("(id > 7)")],
        included: vec![1],
    };
    Relation {
        oid: 16_385,
        schema: 2200,
        name: Arc::from("t"),
        version: 1,
        storage: Storage::Family(CfId::new(3)),
        layout: record::layout_of(&columns),
        columns,
        key: TableKey::Primary,
        indexes: vec![Arc::new(index), Arc::new(computed)],
        checks: vec![Check { oid: 16_388, name: Arc::from("t_check"), condition: Arc::from("id > 0") }],
        foreign_keys: vec![ForeignKey {
            oid: 16_389,
            name: Arc::from("t_id_fkey"),
            columns: vec![0],
            target: 16_385,
            target_columns: vec![0],
            index: 16_386,
            match_full: true,
            on_update: ReferentialAction::Cascade,
            on_delete: ReferentialAction::SetNull,
            on_delete_columns: vec![0],
            timing: ConstraintTiming::Deferred,
            validated: true,
        }],
        options: vec![("fillfactor".to_owned(), "70".to_owned())],
    }
}

fn catalog_record() -> Vec<Vec<u8>> {
    let mut rows = record::relation_rows(&relation());
    rows.push(record::schema_row(&Schema { oid: 2200, name: Arc::from("public") }));
    rows.push(record::next_oid_row(16_400));
    let seed = |(key, value): (Vec<u8>, Vec<u8>)| {
        let key_bytes = u8::try_from(key.len()).expect("a catalog key is short");
        [vec![key_bytes], key, value].concat()
    };
    rows.into_iter().map(seed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use collie_sql::{
        codec::key::decode_key,
        parse,
        session::copy_format::fuzz_copy,
        types::{IntervalStyle, interval::parse_interval},
    };

    /// Goal: Z3. Method: each decoder with a visible result accepts each seed.
    #[test]
    fn decoders_accept_the_seeds() {
        for seed in catalog_record() {
            let (key, value) = seed[1..].split_at(usize::from(seed[0]));
            record::decode(key, value).unwrap();
        }
        for seed in key_codec() {
            decode_key(&seed[1..], &key_shapes()[usize::from(seed[0])]).unwrap();
        }
        for seed in row_codec() {
            let all: Vec<usize> = (0..ROW_TYPES.len()).collect();
            RowLayout::new(ROW_TYPES).decode_into(&seed, &all, &mut vec![Value::Null; all.len()]).unwrap();
        }
        assert!(log_reader().iter().any(|seed| collie_wal::fuzz_reader(seed) >= 5), "no segment with five records");
        for seed in redo_record() {
            let line = collie_engine::describe_record(seed[0], &seed[1..]);
            assert!(!line.contains("malformed"), "{line}");
        }
        let parsed = SQL.iter().filter(|text| parse::statements(text).is_ok()).count();
        assert!(parsed * 2 > SQL.len(), "only {parsed} texts are statements");
        for text in INTERVALS {
            parse_interval(text, -1, IntervalStyle::Postgres).unwrap();
        }
        copy_input().iter().for_each(|seed| fuzz_copy(seed));
    }
}
