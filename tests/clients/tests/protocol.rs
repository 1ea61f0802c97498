//! Bytes on the wire: the extended protocol message by message, and everything that a client must not send.
//!
//! After each attack the server must still serve another session. Known mistakes of other servers have their own tests
//! in `wire_regress.rs`.

use collie_clients_tests::{
    Server, Stopwatch, Wire,
    program::collie,
    session::PATIENCE,
    wire::{
        Message, bind, bind_body, close_statement, closed_with, describe_portal, describe_statement, ended_with,
        execute, kinds, message, message_of_length, packet, parse, query, startup, states, sync,
    },
};

const TEXT: u16 = 0;
const BINARY: u16 = 1;

/// Returns the settings that the server reports, as `name=value`.
fn reported(messages: &[Message]) -> Vec<String> {
    let reports = messages.iter().filter(|message| message.kind == b'S');
    let text = |message: &Message| String::from_utf8(message.body.clone()).expect("text in UTF-8");
    reports.map(|message| text(message).trim_end_matches('\0').replace('\0', "=")).collect()
}

/// Goal: settings that drivers send at connect are accepted as in PostgreSQL, and RESET returns to them. Method:
/// start-up packets with a quoted encoding as asyncpg sends it, and with styles and zones as parameters and as options;
/// then packets that are refused.
#[test]
fn settings_of_the_startup_packet_are_in_force() {
    let server = Server::fresh();
    let mut wire = Wire::open(server.address());
    wire.send(&startup(&[
        ("user", "collie"),
        ("database", "collie"),
        ("client_encoding", "'utf-8'"),
        ("DateStyle", "German"),
        ("IntervalStyle", "ISO_8601"),
        ("options", "-c timezone=-12.5 --extra-float-digits=0 -c my.own=x"),
    ]));
    let settings = reported(&wire.until_ready());
    for expected in
        ["client_encoding=UTF8", "DateStyle=German, DMY", "IntervalStyle=iso_8601", "TimeZone=<-12:30>+12:30"]
    {
        assert!(settings.iter().any(|setting| setting == expected), "{expected} is not among {settings:?}");
    }
    for (sql, shown) in [
        ("SELECT date '2020-03-04', interval '1 day', 0.1::float8 + 0.2", "04.03.2020|P1D|0.3"),
        ("SELECT timestamptz '2020-01-01 00:00+00'", "31.12.2019 11:30:00 -12:30"),
        ("SET datestyle = 'ISO'; RESET datestyle; SHOW datestyle", "German, DMY"),
        ("SHOW my.own", "x"),
    ] {
        let messages = wire.query(sql);
        let row = messages.iter().find(|message| message.kind == b'D').unwrap_or_else(|| panic!("{sql}: {messages:?}"));
        let values: Vec<_> =
            row.columns().into_iter().flatten().map(|value| String::from_utf8(value).unwrap()).collect();
        assert_eq!(values.join("|"), shown, "{sql}");
    }
    for (name, value, code) in [
        ("client_encoding", "latin1", "22023"),
        ("DateStyle", "Klingon", "22023"),
        ("TimeZone", "Mars/Olympus", "22023"),
        ("nosuch", "1", "42704"),
        ("options", "-c datestyle", "42601"),
        ("options", "nonsense", "42601"),
    ] {
        let mut wire = Wire::open(server.address());
        wire.send(&startup(&[("user", "collie"), ("database", "collie"), (name, value)]));
        assert_eq!(states(&wire.until_closed()), [code], "{name}: {value}");
    }
}

/// Goal: a client receives the new value of a reported setting once, before ReadyForQuery, whatever changed it, and
/// none that a rollback has taken back (T306). Method: each way to change one, and the reports behind it.
#[test]
fn each_change_of_a_reported_setting_is_sent_once() {
    let server = Server::fresh();
    let mut wire = Wire::open(server.address());
    wire.send(&startup(&[("user", "collie"), ("database", "collie")]));
    wire.until_ready();
    let steps: [(&str, &[&str]); 12] = [
        ("SET application_name = 'a'", &["application_name=a"]),
        ("SET application_name = 'a'", &[]),
        ("SELECT set_config('application_name', 'b', false)", &["application_name=b"]),
        ("BEGIN; SET LOCAL application_name = 'c'", &["application_name=c"]),
        ("COMMIT", &["application_name=b"]),
        (
            "BEGIN; SELECT set_config('timezone', 'UTC', true), set_config('application_name', 'd', false)",
            &["application_name=d"],
        ),
        ("SAVEPOINT s; SET datestyle = 'German'", &["DateStyle=German, DMY"]),
        ("ROLLBACK TO s", &["DateStyle=ISO, MDY"]),
        ("ROLLBACK", &["application_name=b"]),
        ("BEGIN; SET application_name = 'e'; ROLLBACK", &[]),
        ("SET application_name = 'f'; SELECT 1/0", &[]),
        ("DISCARD ALL", &["application_name"]),
    ];
    for (sql, expected) in steps {
        let messages = wire.query(sql);
        assert_eq!(reported(&messages), expected, "{sql}: {messages:?}");
        let kinds: Vec<u8> = messages.iter().map(|message| message.kind).collect();
        assert!(
            kinds.ends_with(b"Z") && !kinds[..kinds.len() - 1 - expected.len()].contains(&b'S'),
            "{sql}: {kinds:?}"
        );
    }
}

/// Goal: the answer to a start-up packet is as drivers expect. Method: message kinds and reported settings.
#[test]
fn startup_answers_with_settings_key_and_readiness() {
    let server = Server::fresh();
    let mut wire = Wire::open(server.address());
    wire.send(&startup(&[
        ("user", "collie"),
        ("database", "collie"),
        ("application_name", "test"),
        ("client_encoding", "UTF8"),
    ]));
    let messages = wire.until_ready();
    let order = kinds(&messages);
    assert!(order.starts_with("RS") && order.ends_with("SKZ"), "{order}");
    assert_eq!(messages[0].body, [0, 0, 0, 0], "no authentication");
    assert_eq!(messages.last().unwrap().body, b"I");
    let settings = reported(&messages);
    for expected in [
        "server_encoding=UTF8",
        "client_encoding=UTF8",
        "DateStyle=ISO, MDY",
        "TimeZone=UTC",
        "integer_datetimes=on",
        "standard_conforming_strings=on",
        "application_name=test",
        "IntervalStyle=postgres",
        "is_superuser=on",
        "session_authorization=collie",
        "default_transaction_read_only=off",
        "in_hot_standby=off",
    ] {
        assert!(settings.iter().any(|setting| setting == expected), "{expected} is not among {settings:?}");
    }
    // A change is reported before ReadyForQuery of its statement.
    let messages = wire.query("SET application_name = 'other'");
    assert!(["CSZ", "SCZ"].contains(&kinds(&messages).as_str()), "{messages:?}");
    // A newer minor version is negotiated down, and options are applied.
    let mut wire = Wire::open(server.address());
    let mut newer = startup(&[("user", "collie"), ("database", "collie"), ("options", "-c synchronous_commit=off")]);
    newer[7] = 2;
    wire.send(&newer);
    let order = kinds(&wire.until_ready());
    assert!(order.contains('v'), "{order}");
    let shown = wire.query("SHOW synchronous_commit");
    assert_eq!(shown[1].columns(), [Some(b"off".to_vec())]);
}

/// Goal: simple queries are answered as the protocol says. Method: message kinds for rows, several statements, an empty
/// query, errors.
#[test]
fn simple_queries_answer_message_by_message() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    let mut check = |sql: &str, expected: &str| {
        let messages = wire.query(sql);
        assert_eq!(kinds(&messages), expected, "{sql}: {messages:?}");
    };
    check("SELECT 1", "TDCZ");
    check("", "IZ");
    check(";", "IZ");
    check(" -- only a comment", "IZ");
    check("SELECT 1; SELECT 2 WHERE false;", "TDCTCZ");
    check("CREATE TABLE t (n int)", "CZ");
    check("INSERT INTO t VALUES (1); SELECT nothing; INSERT INTO t VALUES (2)", "CEZ");
    check("SELECT * FROM t", "TCZ");
    check("BEGIN; INSERT INTO t VALUES (1); COMMIT; SELECT nothing", "CCCEZ");
    check("SELECT * FROM t", "TDCZ");
    check("DROP TABLE IF EXISTS nothing", "NCZ");
    check("COMMIT", "NCZ");
    let status = |messages: Vec<collie_clients_tests::Message>| messages.last().unwrap().body.clone();
    assert_eq!(status(wire.query("BEGIN")), b"T");
    assert_eq!(status(wire.query("SELECT 1/0")), b"E");
    let failed = wire.query("SELECT 1");
    assert_eq!(states(&failed), ["25P02"]);
    assert_eq!(status(failed), b"E");
    let commit = wire.query("COMMIT");
    assert_eq!(commit[0].body, b"ROLLBACK\0");
    assert_eq!(status(commit), b"I");
}

/// Goal: the requests of a pipeline, written at once, are all answered in order, as one implicit transaction. Method:
/// pipelines with and without an error in the middle.
#[test]
fn pipelines_are_answered_in_order_as_one_transaction() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.query("CREATE TABLE t (n int PRIMARY KEY)");
    let insert = |n: &str| [bind("", "i", TEXT, &[Some(n.as_bytes())], TEXT), execute("", 0)].concat();
    wire.send(&[parse("i", "INSERT INTO t VALUES ($1)", &[]), insert("1"), insert("2"), sync()].concat());
    assert_eq!(kinds(&wire.until_ready()), "12C2CZ");
    // An error undoes the whole pipeline, and the messages up to Sync are skipped.
    wire.send(&[insert("3"), insert("1"), insert("4"), sync(), insert("5"), sync()].concat());
    assert_eq!(kinds(&wire.until_ready()), "2C2EZ");
    assert_eq!(kinds(&wire.until_ready()), "2CZ");
    let all = wire.query("SELECT n FROM t ORDER BY n");
    let found: Vec<_> = all.iter().filter(|m| m.kind == b'D').map(|m| m.columns()[0].clone().unwrap()).collect();
    assert_eq!(found, [b"1", b"2", b"5"]);
    // Hundreds of requests are sent before the first answer is read.
    let many: Vec<u8> = (100..600).flat_map(|n: i32| [insert(&n.to_string()), sync()].concat()).collect();
    wire.send(&many);
    for _ in 0..500 {
        assert_eq!(kinds(&wire.until_ready()), "2CZ");
    }
    // The same requests work when they are sent byte by byte.
    for byte in [parse("", "SELECT $1::int + 1", &[]), bind("", "", TEXT, &[Some(b"41")], TEXT), execute("", 0), sync()]
        .concat()
    {
        wire.send(&[byte]);
    }
    let messages = wire.until_ready();
    assert_eq!(kinds(&messages), "12DCZ");
    assert_eq!(messages[2].columns(), [Some(b"42".to_vec())]);
}

/// Goal: Describe, Close, row limits, NULL and formats are answered as the protocol says. Method: kinds and bodies.
#[test]
fn describe_close_limits_and_formats_follow_the_protocol() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.send(&[parse("s", "SELECT $1::int8 AS n, NULL::text AS t", &[]), describe_statement("s"), sync()].concat());
    let messages = wire.until_ready();
    assert_eq!(kinds(&messages), "1tTZ");
    assert_eq!(messages[1].body, [0, 1, 0, 0, 0, 20]);
    wire.send(
        &[bind("", "s", BINARY, &[Some(&7_i64.to_be_bytes())], BINARY), describe_portal(""), execute("", 0), sync()]
            .concat(),
    );
    let messages = wire.until_ready();
    assert_eq!(kinds(&messages), "2TDCZ");
    assert_eq!(messages[2].columns(), [Some(7_i64.to_be_bytes().to_vec()), None]);
    // Formats are given column by column; a wrong number of them is a protocol violation.
    let mixed = bind_body("", "s", &[0], &[Some(b"7")], &[1, 0]);
    wire.send(&[message(b'B', &mixed), execute("", 0), sync()].concat());
    assert_eq!(wire.until_ready()[1].columns()[0], Some(7_i64.to_be_bytes().to_vec()));
    wire.send(&[message(b'B', &bind_body("", "s", &[], &[Some(b"7")], &[1, 0, 1])), execute("", 0), sync()].concat());
    assert_eq!(states(&wire.until_ready()), ["08P01"]);
    wire.send(&[message(b'B', &bind_body("", "s", &[], &[], &[])), sync()].concat());
    assert_eq!(states(&wire.until_ready()), ["08P01"]);
    wire.send(&[message(b'B', &bind_body("", "s", &[7], &[Some(b"7")], &[])), sync()].concat());
    assert!(!states(&wire.until_ready()).is_empty());
    // A row limit suspends the portal, which ends with its transaction.
    wire.send(
        &[
            parse("", "SELECT n FROM generate_series(1, 5) AS n", &[]),
            bind("p", "", TEXT, &[], TEXT),
            execute("p", 2),
            execute("p", 2),
            execute("p", 2),
            sync(),
            execute("p", 2),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(kinds(&wire.until_ready()), "12DDsDDsDCZ");
    assert_eq!(states(&wire.until_ready()), ["34000"]);
    wire.send(&[describe_statement("none"), sync()].concat());
    assert_eq!(states(&wire.until_ready()), ["26000"]);
    wire.send(&[parse("s", "SELECT 1", &[]), sync()].concat());
    assert_eq!(states(&wire.until_ready()), ["42P05"]);
    wire.send(&[close_statement("s"), close_statement("s"), parse("s", "SELECT 1", &[]), sync()].concat());
    assert_eq!(kinds(&wire.until_ready()), "331Z");
    wire.send(
        &[parse("", "", &[]), bind("", "", TEXT, &[], TEXT), describe_portal(""), execute("", 0), sync()].concat(),
    );
    assert_eq!(kinds(&wire.until_ready()), "12nIZ");
    wire.send(&[parse("", "SELECT 1; SELECT 2", &[]), sync()].concat());
    assert_eq!(states(&wire.until_ready()), ["42601"]);
    wire.send(
        &[
            parse("", "CREATE TABLE x (n int)", &[]),
            bind("", "", TEXT, &[], TEXT),
            describe_portal(""),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(kinds(&wire.until_ready()), "12nCZ");
}

/// Goal: values that do not fit their type are refused with the right code. Method: wrong lengths, bad text, bad UTF-8,
/// NUL.
#[test]
fn bad_parameter_values_are_refused_and_the_session_goes_on() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    let mut check = |ty: &str, format: u16, value: &[u8], expected: &str| {
        let sql = format!("SELECT $1::{ty}");
        wire.send(&[parse("", &sql, &[]), bind("", "", format, &[Some(value)], TEXT), execute("", 0), sync()].concat());
        let messages = wire.until_ready();
        assert_eq!(states(&messages), [expected], "{ty} {value:?}");
        assert_eq!(messages.last().unwrap().body, b"I");
    };
    check("int4", BINARY, &[0, 0, 1], "22P03");
    check("int4", BINARY, &[0, 0, 0, 0, 1], "22P03");
    check("int8", BINARY, &[], "22P03");
    check("bool", BINARY, &[1, 1], "22P03");
    check("float8", BINARY, &[0; 4], "22P03");
    check("timestamp", BINARY, &[0; 7], "22P03");
    check("numeric", BINARY, &[0, 2, 0, 0, 0, 0, 0, 0, 0, 1], "22P03");
    check("numeric", BINARY, &[0, 1, 0, 0, 0x12, 0x34, 0, 0, 0, 1], "22P03");
    check("int4", TEXT, b"seven", "22P02");
    check("int4", TEXT, b"99999999999", "22003");
    check("date", TEXT, b"2001-02-30", "22008");
    check("date", TEXT, b"never", "22007");
    check("bool", TEXT, b"maybe", "22P02");
    check("text", TEXT, b"a\xff", "22021");
    check("text", TEXT, b"a\0b", "22021");
    check("text", BINARY, b"a\0b", "22021");
    check("bytea", TEXT, b"\\xzz", "22023");
    assert_eq!(states(&wire.query("SELECT '\u{1f415}'")), [""; 0]);
    wire.send(&message(b'Q', b"SELECT 'a\xffb'\0"));
    assert_eq!(states(&wire.until_ready()), ["22021"]);
    wire.send(&message(b'Q', b"SELECT 1\0 garbage behind\0"));
    assert_eq!(states(&wire.until_ready()), ["08P01"]);
    wire.send(&message(b'Q', b"SELECT 1 without an end"));
    assert_eq!(states(&wire.until_ready()), ["08P01"]);
    server.serves_after("bad values");
}

/// Goal: a client of another protocol gets an error before a session starts. Method: HTTP, random bytes, TLS hello,
/// short and long packets, unknown versions.
#[test]
fn strangers_are_turned_away_before_a_session() {
    let server = Server::fresh();
    let mut garbage = Vec::new();
    let mut state = 0x9e37_79b9_u32;
    for _ in 0..4096 {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        garbage.push(state.to_be_bytes()[0]);
    }
    closed_with(server.address(), b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    server.serves_after("an HTTP request");
    closed_with(server.address(), &garbage);
    server.serves_after("random bytes");
    closed_with(server.address(), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03");
    server.serves_after("a TLS greeting");
    closed_with(server.address(), b"");
    closed_with(server.address(), &[0, 0]);
    for length in [0_u32, 4, 7, 10_001, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        assert_eq!(closed_with(server.address(), &length.to_be_bytes()).as_deref(), Some("08P01"), "{length}");
    }
    let long = "x".repeat(11_000);
    assert_eq!(closed_with(server.address(), &startup(&[("user", &long)])).as_deref(), Some("08P01"));
    assert_eq!(closed_with(server.address(), &packet(&[0, 2, 0, 0, 0])).as_deref(), Some("0A000"));
    assert_eq!(closed_with(server.address(), &packet(&[0, 4, 0, 0, 0])).as_deref(), Some("0A000"));
    assert_eq!(closed_with(server.address(), &packet(b"\0\x03\0\0user\0collie")).as_deref(), Some("08P01"));
    assert_eq!(closed_with(server.address(), &packet(b"\0\x03\0\0user\0col\xfflie\0\0")).as_deref(), Some("22021"));
    assert_eq!(closed_with(server.address(), &startup(&[("database", "collie")])).as_deref(), Some("28000"));
    assert_eq!(
        closed_with(server.address(), &startup(&[("user", "nobody"), ("database", "collie")])).as_deref(),
        Some("28000")
    );
    assert_eq!(
        closed_with(server.address(), &startup(&[("user", "collie"), ("database", "nothing")])).as_deref(),
        Some("3D000")
    );
    let refused = closed_with(
        server.address(),
        &startup(&[("user", "collie"), ("database", "collie"), ("client_encoding", "LATIN1")]),
    );
    assert!(["0A000", "22023"].contains(&refused.as_deref().unwrap_or("none")), "{refused:?}");
    assert_eq!(closed_with(server.address(), &query("SELECT 1")).as_deref(), Some("08P01"));
    server.serves_after("strangers");
}

/// Goal: a wrong database or role is refused with the message that tools look for. Method: the driver's errors.
#[test]
fn wrong_database_and_role_are_named() {
    let server = Server::fresh();
    let refused = |config: &mut postgres::Config| {
        let error = config.connect(postgres::NoTls).err().expect("refused");
        (collie_clients_tests::state(&error), collie_clients_tests::message(&error))
    };
    assert_eq!(
        refused(server.config().dbname("shop")),
        ("3D000".to_owned(), "database \"shop\" does not exist".to_owned())
    );
    assert_eq!(refused(server.config().user("bob")), ("28000".to_owned(), "role \"bob\" does not exist".to_owned()));
}

/// Goal: a broken message ends only its own session, with 08P01. Method: unknown types, lengths below four and above
/// the limit, messages out of place.
#[test]
fn broken_messages_end_their_session_only() {
    let server = Server::fresh_with(&["--set", "server.max_message_size=1MiB"]);
    for kind in [b'?', 0, 0xff, b'R', b'Z'] {
        assert_eq!(ended_with(server.address(), &message(kind, b"abc")).as_deref(), Some("08P01"), "type {kind}");
    }
    for length in [0_u32, 3, (1 << 20) + 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        let bytes = message_of_length(b'Q', length, b"SELECT 1\0");
        assert_eq!(ended_with(server.address(), &bytes).as_deref(), Some("08P01"), "{length}");
    }
    assert_eq!(ended_with(server.address(), &message(b'p', b"secret\0")).as_deref(), Some("08P01"));
    // A message just below the limit is served.
    let mut wire = Wire::session(server.address());
    let text = format!("SELECT length('{}')", "x".repeat(1_000_000));
    assert_eq!(wire.query(&text)[1].columns(), [Some(b"1000000".to_vec())]);
    // A session whose client disconnects in the middle of a message does no harm.
    let mut wire = Wire::session(server.address());
    wire.send(&message_of_length(b'Q', 1000, b"SELECT"));
    drop(wire);
    server.serves_after("broken messages");
}

/// Goal: broken fields inside a message are refused, and the session goes on after Sync. Method: every proper prefix of
/// a Bind and of a Parse, as a whole message.
#[test]
fn every_truncated_bind_and_parse_is_refused() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.send(&[parse("s", "SELECT $1::int, $2::text", &[]), sync()].concat());
    wire.until_ready();
    let whole = bind_body("portal", "s", &[0, 0], &[Some(b"12"), None], &[0, 0]);
    for end in 0..whole.len() {
        wire.send(&[message(b'B', &whole[..end]), execute("portal", 0), sync()].concat());
        let messages = wire.until_ready();
        assert_eq!(kinds(&messages), "EZ", "the first {end} bytes of a Bind");
        assert_eq!(states(&messages), ["08P01"], "the first {end} bytes of a Bind");
    }
    let parse = parse("t", "SELECT $1", &[23])[5..].to_vec();
    for end in 0..parse.len() {
        wire.send(&[message(b'P', &parse[..end]), sync()].concat());
        assert_eq!(states(&wire.until_ready()), ["08P01"], "the first {end} bytes of a Parse");
    }
    for (kind, body) in
        [(b'D', &b"X\0"[..]), (b'D', b""), (b'C', b"S"), (b'E', b"p\0\0\0"), (b'B', &[&whole[..], b"more"].concat())]
    {
        wire.send(&[message(kind, body), sync()].concat());
        assert_eq!(states(&wire.until_ready()), ["08P01"], "{}", char::from(kind));
    }
    wire.send(&[message(b'F', &[0; 12]), sync()].concat());
    let messages = wire.until_ready();
    assert_eq!(states(&messages).len(), 1, "{messages:?}");
    server.serves_after("truncated messages");
}

/// Goal: a COPY that its client aborts or abandons leaves nothing. Method: CopyFail, another message, a closed socket.
#[test]
fn copy_that_is_given_up_leaves_nothing() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.query("CREATE TABLE t (n int)");
    let begin = |wire: &mut Wire| {
        wire.send(&query("COPY t FROM STDIN"));
        assert_eq!(wire.message().unwrap().kind, b'G');
        wire.send(&message(b'd', b"1\n2\n"));
    };
    begin(&mut wire);
    wire.send(&message(b'f', b"changed my mind\0"));
    let messages = wire.until_ready();
    assert_eq!(states(&messages), ["57014"]);
    assert_eq!(messages[0].field(b'M').unwrap(), "COPY from stdin failed: changed my mind");
    begin(&mut wire);
    wire.send(&[message(b'd', b"3\n"), message(b'c', b"")].concat());
    assert_eq!(kinds(&wire.until_ready()), "CZ");
    let mut dies = Wire::session(server.address());
    begin(&mut dies);
    drop(dies);
    server.serves_after("a client that died in COPY");
    assert_eq!(wire.query("SELECT count(*) FROM t")[1].columns(), [Some(b"3".to_vec())]);
}

/// Goal: connections above the limit are refused, and a slot is free again when a client leaves. Method: a limit of
/// three.
#[test]
fn connections_above_the_limit_are_refused() {
    let server = Server::fresh_with(&["--set", "server.max_connections=3"]);
    let mut held: Vec<_> = (0..3).map(|_| Wire::session(server.address())).collect();
    let hello = startup(&[("user", "collie"), ("database", "collie")]);
    assert_eq!(closed_with(server.address(), &hello).as_deref(), Some("53300"));
    let mut leaver = held.pop().unwrap();
    leaver.send(&message(b'X', b""));
    leaver.until_closed();
    let watch = Stopwatch::start();
    loop {
        let mut wire = Wire::open(server.address());
        wire.send(&hello);
        if wire.message().is_some_and(|message| message.kind == b'R') {
            break;
        }
        assert!(watch.elapsed() < PATIENCE, "the place is not free again");
    }
}

/// Goal: when clients hold every connection, an operator gets a reserved one, with the option that requests it, given
/// in either way, and with the program's own commands. Other clients do not, and no more than the reserved ones are
/// given. SHOW says which kind a session is, which cannot be changed later, and pg_settings has the limit. Method: a
/// limit of two, and two reserved.
#[test]
fn reserved_connections_let_an_operator_in() {
    let server = Server::fresh_with(&["--set", "server.max_connections=2", "--set", "server.reserved_connections=2"]);
    let hello = |more: &[(&str, &str)]| startup(&[&[("user", "collie"), ("database", "collie")], more].concat());
    let refused = |more: &[(&str, &str)]| closed_with(server.address(), &hello(more));
    let opened = |more: &[(&str, &str)]| {
        let mut wire = Wire::open(server.address());
        wire.send(&hello(more));
        assert!(kinds(&wire.until_ready()).starts_with('R'));
        wire
    };
    let shown = |wire: &mut Wire| wire.query("SHOW collie.use_reserved_connection")[1].columns();
    let (on, off) = ([Some(b"on".to_vec())], [Some(b"off".to_vec())]);
    // An operator's session takes an ordinary connection while one is free.
    let mut first = opened(&[("options", "-c collie.use_reserved_connection=on")]);
    let mut second = Wire::session(server.address());
    assert_eq!((shown(&mut first), shown(&mut second)), (on.to_vec(), off.to_vec()));
    let described = "SELECT setting || ' ' || context FROM pg_settings WHERE name LIKE '%connection%' ORDER BY name";
    let described = second.query(described).into_iter().filter(|message| message.kind == b'D');
    let described: Vec<_> = described.map(|row| row.columns()[0].clone()).collect();
    assert_eq!(described, [Some(b"off backend".to_vec()), Some(b"2 internal".to_vec())]);
    let nothing = [("options", "-c collie.use_reserved_connection=off")];
    for more in [&[][..], &[("application_name", "psql")], &nothing] {
        assert_eq!(refused(more).as_deref(), Some("53300"), "{more:?}");
    }
    assert_eq!(refused(&[("options", "-c collie.use_reserved_connection=perhaps")]).as_deref(), Some("53300"));

    let asks = [("options", "-c collie.use_reserved_connection=on")];
    let mut reserved = opened(&asks);
    assert_eq!(shown(&mut reserved), on);
    let changed = reserved.query("SET collie.use_reserved_connection = off");
    assert_eq!(states(&changed), ["55P02"]);
    let last = opened(&[("collie.use_reserved_connection", "true")]);
    assert_eq!(refused(&asks).as_deref(), Some("53300"), "those that are reserved are taken too");
    drop(last);
    let watch = Stopwatch::start();
    // The connection is free again soon.
    while collie(&["sql", &server.url(), "-c", "SELECT 1"], "").code != Some(0) {
        assert!(watch.elapsed() < PATIENCE, "a command of the program gets no reserved connection");
    }
}

/// Goal: connections that send nothing keep no client out, and do not pile up. Method: a limit of three sessions and
/// 400 silent connections; then three clients; the server has closed the oldest silent connections.
#[test]
fn silent_connections_take_no_place_of_a_client() {
    let server = Server::fresh_with(&["--set", "server.max_connections=3"]);
    let mut silent: Vec<_> = (0..400).map(|_| Wire::open(server.address())).collect();
    let held: Vec<_> = (0..3).map(|_| Wire::session(server.address())).collect();
    silent.drain(..100).for_each(|mut oldest| assert!(oldest.until_closed().is_empty(), "nothing is said"));
    drop(held);
}
