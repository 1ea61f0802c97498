//! Mistakes of other servers with this protocol, one test each: `wire_regress_<nn>_<name>`, numbered as in the table of
//! the security design. Missing numbers concern features that do not exist: TLS, passwords, roles and the console.

use std::time::Duration;

use collie_clients_tests::{
    Server, Stopwatch, Wire,
    session::{PATIENCE, value},
    wire::{
        bind, cancel, closed_with, ended_with, execute, kinds, message, message_of_length, packet, parse, query,
        ssl_request, startup, states, sync,
    },
};

const TEXT: u16 = 0;

/// Goal: bytes sent along with an SSLRequest are not treated as encrypted. Method: SSLRequest and startup in one write:
/// encryption is refused, and then the connection is closed or a session in clear text starts; it never hangs.
#[test]
fn wire_regress_01_startup_pipelined_behind_ssl_request() {
    let server = Server::fresh();
    let mut wire = Wire::open(server.address());
    wire.send(&[ssl_request(), startup(&[("user", "collie"), ("database", "collie")])].concat());
    assert_eq!(wire.bytes(1).as_deref(), Some(&b"N"[..]));
    // Encryption is never accepted, so nothing can be injected into it; a session in clear text may start.
    if let Some(message) = wire.message() {
        assert!(message.kind == b'R' || message.kind == b'E', "{message:?}");
    }
    // The usual order works, also after both kinds of encryption were refused.
    let mut wire = Wire::open(server.address());
    wire.send(&ssl_request());
    assert_eq!(wire.bytes(1).as_deref(), Some(&b"N"[..]));
    wire.send(&packet(&80_877_104_u32.to_be_bytes()));
    assert_eq!(wire.bytes(1).as_deref(), Some(&b"N"[..]));
    wire.send(&startup(&[("user", "collie"), ("database", "collie")]));
    assert!(kinds(&wire.until_ready()).ends_with('Z'));
}

/// Goal: the server closes the connection of a client that asks for TLS and is then silent, after ten seconds. Method:
/// wait for the end of the connection; other clients are served meanwhile.
#[test]
fn wire_regress_02_silence_after_ssl_request() {
    let server = Server::fresh();
    let watch = Stopwatch::start();
    let mut asked = Wire::open(server.address());
    asked.send(&ssl_request());
    assert_eq!(asked.bytes(1).as_deref(), Some(&b"N"[..]));
    let mut silent = Wire::open(server.address());
    server.serves_after("silence");
    asked.until_closed();
    silent.until_closed();
    let elapsed = watch.elapsed();
    assert!(elapsed > Duration::from_secs(8) && elapsed < PATIENCE, "closed after {elapsed:?}");
}

/// Goal: memory grows with the bytes that arrive, not with a length field. Method: fifty sessions announce 60 MiB
/// (allowed) and 2 GiB (not), and send ten bytes.
#[test]
fn wire_regress_03_memory_follows_bytes_not_lengths() {
    // With samples, the server measures the machine with 32 MiB a second after its start.
    let server = Server::fresh_with(&["--set", "training.samples=off"]);
    server.serves_after("nothing");
    let mut sessions: Vec<_> = (0..50).map(|_| Wire::session(server.address())).collect();
    let before = server.resident_bytes();
    for wire in &mut sessions {
        wire.send(&message_of_length(b'Q', 60 << 20, b"SELECT 1, "));
    }
    for _ in 0..50 {
        assert_eq!(
            ended_with(server.address(), &message_of_length(b'Q', 0x7fff_ffff, b"SELECT 1, ")).as_deref(),
            Some("08P01")
        );
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 50 << 20, "{grown} bytes for 50 announcements");
    drop(sessions);
    server.serves_after("announcements");
}

/// Goal: a wrapped length smuggles no query. Method: a message of 2^32 bytes or more cannot be sent here, so the test
/// checks that the server reads the length as unsigned and validates it: a length that is negative as i32, or below 4,
/// ends the session before the query after it runs.
#[test]
fn wire_regress_04_wrapped_lengths_smuggle_nothing() {
    let server = Server::fresh();
    server.connect().batch_execute("CREATE TABLE t (n int)").unwrap();
    for length in [0x8000_0000_u32, 0xffff_fffc, 0xffff_ffff, 0, 1, 2, 3] {
        let bytes = [message_of_length(b'Q', length, b""), query("INSERT INTO t VALUES (1)")].concat();
        assert_eq!(ended_with(server.address(), &bytes).as_deref(), Some("08P01"), "{length:#x}");
    }
    let count: i64 = server.connect().query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
    assert_eq!(count, 0);
}

/// Goal: lengths of fields inside Bind are checked. Method: each at -2, the largest, and one past the end; 0 and -1 are
/// valid.
#[test]
fn wire_regress_05_field_lengths_are_checked() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.send(&[parse("s", "SELECT $1::text", &[]), sync()].concat());
    wire.until_ready();
    let with_length = |length: i32| {
        let mut body = b"\0s\0".to_vec();
        body.extend([0, 0, 0, 1]);
        body.extend(length.to_be_bytes());
        body.extend(b"abc");
        body.extend([0, 0]);
        message(b'B', &body)
    };
    for length in [-2, i32::MIN, i32::MAX, 4, 6, 2] {
        wire.send(&[with_length(length), execute("", 0), sync()].concat());
        assert_eq!(states(&wire.until_ready()), ["08P01"], "{length}");
    }
    for (value, expected) in [(Some(&b""[..]), Some(Vec::new())), (None, None)] {
        wire.send(&[bind("", "s", TEXT, &[value], TEXT), execute("", 0), sync()].concat());
        assert_eq!(wire.until_ready()[1].columns(), [expected]);
    }
    // Counts that are larger than the number of items.
    for (formats, values) in [(0xffff_u16, 0_u16), (0, 0xffff), (1, 1)] {
        let mut body = b"\0s\0".to_vec();
        body.extend(formats.to_be_bytes());
        body.extend(values.to_be_bytes());
        wire.send(&[message(b'B', &body), sync()].concat());
        assert_eq!(states(&wire.until_ready()), ["08P01"], "{formats} {values}");
    }
    server.serves_after("bad field lengths");
}

/// Goal: deep nesting is refused and never crashes the server. Method: 100,000 parentheses, ANDs, nested SELECTs, NOTs,
/// CASEs, casts, UNIONs and array brackets, by simple query and Parse; afterwards other sessions work, and moderate
/// nesting is accepted.
#[test]
fn wire_regress_13_deep_nesting_is_54001() {
    let server = Server::fresh();
    const N: usize = 100_000;
    let deep = [
        ("parentheses", format!("SELECT {}1{}", "(".repeat(N), ")".repeat(N))),
        ("ANDs", format!("SELECT true{}", " AND true".repeat(N))),
        ("SELECTs", format!("{}1{}", "SELECT (".repeat(N), ")".repeat(N))),
        ("additions", format!("SELECT 1{}", " + 1".repeat(N))),
        ("minuses", format!("SELECT {}1", "- ".repeat(N))),
        ("NOTs", format!("SELECT {}true", "NOT ".repeat(N))),
        ("casts", format!("SELECT 1{}", "::int".repeat(N))),
        ("UNIONs", format!("SELECT 1{}", " UNION SELECT 1".repeat(N))),
        ("CASEs", format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(N), " END".repeat(N))),
        ("functions", format!("SELECT {}1{}", "abs(".repeat(N), ")".repeat(N))),
        ("arrays", format!("SELECT {}1{}", "ARRAY[".repeat(N), "]".repeat(N))),
        ("subqueries", format!("{}SELECT 1{}", "SELECT * FROM (".repeat(N), ") s".repeat(N))),
    ];
    let mut wire = Wire::session(server.address());
    for (name, sql) in &deep {
        let states_of = states(&wire.query(sql));
        assert_eq!(states_of.len(), 1, "{name}");
        // Each is refused for its depth, and none as a syntax error.
        assert_eq!(states_of[0], "54001", "{name}");
        server.serves_after(name);
    }
    wire.send(&[parse("", &deep[0].1, &[]), sync()].concat());
    assert_eq!(states(&wire.until_ready()), ["54001"]);
    for sql in [
        format!("SELECT {}1{}", "(".repeat(500), ")".repeat(500)),
        format!("SELECT true{}", " AND true".repeat(10_000)),
        format!("SELECT 1{}", " + 1".repeat(300)),
    ] {
        assert_eq!(kinds(&wire.query(&sql)), "TDCZ", "{}", &sql[..40]);
    }
}

/// Goal: after an error nothing runs before Sync. Method: Parse, failing Bind, Execute and a Query that would write; in
/// no server does a Query end the skipping, so it must not run either.
#[test]
fn wire_regress_14_messages_after_an_error_are_skipped() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    wire.query("CREATE TABLE t (n int)");
    wire.send(
        &[
            parse("", "INSERT INTO t VALUES ($1)", &[]),
            bind("", "", TEXT, &[Some(b"x")], TEXT),
            execute("", 0),
            parse("", "INSERT INTO t VALUES (2)", &[]),
            bind("", "", TEXT, &[], TEXT),
            execute("", 0),
            query("INSERT INTO t VALUES (3)"),
            sync(),
        ]
        .concat(),
    );
    let messages = wire.until_ready();
    assert_eq!(kinds(&messages), "1EZ", "{messages:?}");
    assert_eq!(states(&messages), ["22P02"]);
    assert_eq!(wire.query("SELECT count(*) FROM t")[1].columns(), [Some(b"0".to_vec())]);
}

/// Goal: only the right key cancels a statement, and no cancel request gets a reply. Method: a wrong key, the key of an
/// ended session, the key with another process id; the statement goes on; the right key ends it.
#[test]
fn wire_regress_15_cancel_needs_the_right_key() {
    let server = Server::fresh();
    let mut wire = Wire::session(server.address());
    let ended = Wire::session(server.address()).key;
    let (pid, key) = wire.key;
    wire.send(&query("SELECT count(*) FROM generate_series(1, 100000) a, generate_series(1, 100000) b"));
    // A cancel that arrives before the statement has begun would end nothing.
    let (mut look, begins) = (server.connect(), Stopwatch::start());
    let runs = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'");
    while value::<i64>(&mut look, &runs) == 0 {
        assert!(begins.elapsed() < PATIENCE, "the statement does not begin");
    }
    for (pid, key) in [(pid, key ^ 1), (pid, 0), (pid.wrapping_add(1), key), ended, (0, 0)] {
        assert_eq!(closed_with(server.address(), &cancel(pid, key)), None, "no reply");
        server.serves_after("a wrong cancel key");
    }
    let watch = Stopwatch::start();
    assert_eq!(closed_with(server.address(), &cancel(pid, key)), None, "no reply");
    assert_eq!(states(&wire.until_ready()), ["57014"]);
    assert!(watch.elapsed() < PATIENCE);
    assert_eq!(kinds(&wire.query("SELECT 1")), "TDCZ");
    // Requests that are too short or too long are closed without effect.
    closed_with(server.address(), &packet(&80_877_102_u32.to_be_bytes()));
    closed_with(server.address(), &packet(&[&80_877_102_u32.to_be_bytes()[..], &[0; 300]].concat()));
    server.serves_after("odd cancel requests");
}
