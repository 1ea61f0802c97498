//! Starts that must fail: each ends with exit code 1 and exactly one line that names the problem and the remedy.

use std::{fs, net::TcpListener, path::PathBuf};

use collie_clients_tests::{Place, Server, program};

/// Goal: the message names the address that is in use. Method: bind the port first.
#[test]
fn port_in_use_is_refused_and_the_directory_is_not_touched() {
    let place = Place::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let refused =
        program::collie(&["serve", "--data", place.data().to_str().unwrap(), "--listen", &address.to_string()], "");
    assert_eq!(refused.code, Some(1));
    assert_eq!(
        refused.err,
        format!(
            "error: {address} is in use by another process: stop it, or choose another port with --listen 127.0.0.1:PORT\n"
        )
    );
    assert!(!place.data().exists(), "a server that cannot listen makes no directory");
}

/// Goal: two servers never share a directory. Method: start a second server in the directory of the first; the message
/// names the process.
#[test]
fn data_directory_locked_by_another_server_names_its_process() {
    let place = Place::new();
    let server = Server::start(&place);
    let refused = Server::refused(&place.data(), &[]);
    assert_eq!(
        refused.line(),
        format!("wal: the log is open in process {}; stop that process or use another directory", server.pid())
    );
    server.serves_after("a second server on its directory");
}

/// Goal: unknown and invalid settings are refused with help. Method: a table of settings and exact lines; then a file.
#[test]
fn unknown_and_ill_typed_settings_are_refused_with_help() {
    let place = Place::new();
    let check = |pair: &str, expected: &str| {
        assert_eq!(Server::refused(&place.data(), &["--set", pair]).line(), expected, "{pair}");
    };
    check(
        "wal.flush_dely=5ms",
        "unknown setting wal.flush_dely: did you mean wal.flush_delay? `collie config` lists every setting",
    );
    check(
        "max_conections=5",
        "unknown setting max_conections: did you mean server.max_connections? `collie config` lists every setting",
    );
    check("wal.flush_delay=soon", "wal.flush_delay = soon: expected a time, as in 500us, 10ms or 1s");
    check("server.max_connections=many", "server.max_connections = many: expected a whole number");
    check("wal.ring_size=big", "wal.ring_size = big: expected bytes, as in 65536, 64KiB or 16MiB");
    check("wal.manual_wal_flush=perhaps", "wal.manual_wal_flush = perhaps: expected true or false");
    check("sql.synchronous_commit=maybe", "sql.synchronous_commit = maybe: expected one of on, off");
    check("server.max_message_size=1", "server.max_message_size = 1: expected 1KiB to 1GiB");
    check("wal.flush_delay", "--set wal.flush_delay: write key=value, as in wal.flush_delay=5ms");
    let odd = Server::refused(&place.data(), &["--set", "wal.ring_size=1000000"]);
    assert!(odd.line().contains("ring"), "{odd:?}");
    let file = place.beside("collie.toml");
    fs::write(&file, "[server]\nmax_connections = 10\nprot = 5\n").unwrap();
    let name = file.display().to_string();
    let refused = Server::refused(&place.data(), &["--config", &name]);
    assert!(
        refused.line().starts_with(&format!("{name}: unknown setting server.prot: did you mean server.")),
        "{refused:?}"
    );
    fs::write(&file, "[server\n").unwrap();
    let refused = Server::refused(&place.data(), &["--config", &name]);
    assert!(refused.line().starts_with(&format!("{name}: line 1: ")), "{refused:?}");
    let refused = Server::refused(&place.data(), &["--config", "/nowhere/collie.toml"]);
    assert_eq!(
        refused.line(),
        "cannot read the configuration file /nowhere/collie.toml: No such file or directory (os error 2)"
    );
    let usage = program::collie(&["serve", "--no-such-flag"], "");
    assert_eq!(usage.code, Some(2), "{usage:?}");
}

/// Goal: settings from a file and from --set are in force, and --set takes precedence. Method: start with a file and an
/// option for the same setting, and SHOW both settings.
#[test]
fn settings_from_file_and_command_line_are_in_force() {
    let place = Place::new();
    let file = place.beside("collie.toml");
    fs::write(&file, "[sql]\nsynchronous_commit = \"off\"\ntimezone = \"+02:00\"\n").unwrap();
    let server = Server::start_with(&place, &["--config", file.to_str().unwrap(), "--set", "sql.timezone=UTC"]);
    let mut client = server.connect();
    let shown = |client: &mut postgres::Client, name: &str| -> String {
        client.query_one(&format!("SHOW {name}"), &[]).unwrap().get(0)
    };
    assert_eq!(shown(&mut client, "synchronous_commit"), "off");
    assert_eq!(shown(&mut client, "timezone"), "UTC");
}

/// Goal: the server listens on loopback addresses only. Method: the wildcard addresses and an address of another
/// network.
#[test]
fn addresses_beyond_loopback_are_refused() {
    let place = Place::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:5433"] {
        let done = program::collie(&["serve", "--data", place.data().to_str().unwrap(), "--listen", address], "");
        assert_eq!(done.code, Some(1), "{address}");
        let port = address.rsplit(':').next().unwrap();
        assert_eq!(
            done.err,
            format!(
                "error: refusing to listen on {address}: there is no authentication yet, so only loopback addresses are \
                 served; use --listen 127.0.0.1:{port}\n"
            )
        );
        assert!(!place.data().exists());
    }
}

/// Goal: a path that is not a directory is refused. Method: a file in place of the directory, and a path below a file.
#[test]
fn file_in_place_of_the_data_directory_is_refused() {
    let place = Place::new();
    fs::write(place.data(), "not a directory").unwrap();
    for path in [place.data(), place.data().join("below")] {
        let refused = Server::refused(&path, &[]);
        let line = refused.line();
        assert!(line.contains(&place.data().display().to_string()), "{line}");
        assert!(line.contains("ot a directory") || line.contains("xists"), "{line}");
    }
    assert_eq!(fs::read_to_string(place.data()).unwrap(), "not a directory");
}

/// Goal: another program's directory is refused and left unchanged. Method: a folder with files, and one that looks
/// like PostgreSQL's.
#[test]
fn foreign_directory_is_refused_and_left_alone() {
    for files in [&["notes.txt"][..], &["PG_VERSION", "postgresql.conf"]] {
        let place = Place::new();
        fs::create_dir(place.data()).unwrap();
        for file in files {
            fs::write(place.data().join(file), "mine").unwrap();
        }
        let refused = Server::refused(&place.data(), &[]);
        let line = refused.line();
        assert!(
            line.contains(&place.data().display().to_string()) && line.contains("use an empty directory"),
            "{line}"
        );
        assert!(files.iter().any(|file| line.contains(file)) || line.contains("PostgreSQL"), "{line}");
        let mut left: Vec<_> = fs::read_dir(place.data()).unwrap().map(|file| file.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, files, "nothing was added");
    }
}

/// Goal: a single flipped bit below the durable end is never ignored. Method: commit rows, stop the server in order,
/// flip a bit in an early frame's payload; the server refuses to start and names LSN, file and offset, `collie wal
/// dump` reports the damage too, and point_in_time opens.
#[test]
fn one_flipped_bit_below_the_durable_end_is_refused() {
    let place = Place::new();
    // Without this, the LSM levels would have the rows of the log that is cut off below.
    let server = Server::start_with(&place, &["--set", "store.flush_at_stop=false"]);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY, t text)").unwrap();
    for n in 0..50 {
        client.execute("INSERT INTO t VALUES ($1, 'some text to make it longer')", &[&n]).unwrap();
    }
    drop(client);
    assert!(server.stop().success());
    let mut segments: Vec<_> = fs::read_dir(place.data().join("wal"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| {
            fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"COLLIEWL") && bytes[4096..].starts_with(b"CLF1"))
        })
        .collect();
    segments.sort();
    let segment = segments.first().expect("a segment with frames").clone();
    let whole = fs::read(&segment).unwrap();
    // The tenth frame of the file; frames begin at multiples of 4096.
    let frame = (1..).map(|block| block * 4096).filter(|at| whole[*at..].starts_with(b"CLF1")).nth(9).unwrap();
    let mut damaged = whole.clone();
    damaged[frame + 70] ^= 0x10;
    fs::write(&segment, &damaged).unwrap();
    let refused = Server::refused(&place.data(), &[]);
    let line = refused.line().to_owned();
    assert!(line.starts_with("wal: damaged at LSN "), "{line}");
    assert!(line.contains(&format!("({} offset {frame})", segment.display())), "{line}");
    assert!(line.contains("--set wal.recovery_mode=point_in_time"), "{line}");
    assert_eq!(fs::read(&segment).unwrap(), damaged, "a refusal changes nothing");
    let dump = program::collie(&["wal", "dump", place.data().to_str().unwrap()], "");
    assert_eq!(dump.code, Some(1));
    assert!(dump.err.contains("damaged at LSN"), "{}", dump.err);
    // The remedy that the message names works, and a line says what is lost.
    let server = Server::start_with(&place, &["--set", "wal.recovery_mode=point_in_time"]);
    let left: i64 = server.connect().query_one("SELECT count(*) FROM t", &[]).unwrap().get(0);
    assert!(left < 50, "{left} rows");
    drop(server);
    assert!(place.log().lines().count() > 1, "{}", place.log());
}

/// Goal: the readable part of a damaged database can be queried with SQL, and no file changes. Method: a flipped bit in
/// the middle of a stopped server's log; start in salvage mode: rows from before and after the damage, a clear error
/// for each kind of write, unchanged files.
#[test]
fn salvaged_server_reads_what_is_left_and_refuses_writes() {
    let place = Place::new();
    let server = Server::start(&place);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY, s text); CREATE INDEX ON t (s)").unwrap();
    for n in 0..50 {
        client.execute("INSERT INTO t VALUES ($1, 'row')", &[&n]).unwrap();
    }
    drop(client);
    assert!(server.stop().success());
    let wal = place.data().join("wal");
    let read = || -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<_> = fs::read_dir(&wal)
            .unwrap()
            .map(|file| file.unwrap().path())
            .filter(|path| !path.ends_with("LOCK"))
            .map(|path| (path.clone(), fs::read(path).unwrap()))
            .collect();
        files.sort();
        files
    };
    let (segment, mut bytes) = read().into_iter().find(|(_, bytes)| bytes[4096..].starts_with(b"CLF1")).unwrap();
    let frames: Vec<usize> =
        (1..bytes.len() / 4096).map(|block| block * 4096).filter(|at| bytes[*at..].starts_with(b"CLF1")).collect();
    bytes[frames[frames.len() / 2] + 70] ^= 0x10;
    fs::write(&segment, &bytes).unwrap();
    let before = read();

    let server = Server::start_with(&place, &["--set", "wal.recovery_mode=skip_any_corrupted_records"]);
    let mut client = server.connect();
    let left: Vec<i32> =
        client.query("SELECT n FROM t ORDER BY n", &[]).unwrap().iter().map(|row| row.get(0)).collect();
    assert!(left.len() < 50 && left.contains(&0) && left.contains(&49), "{left:?}");
    let by_index: i64 = client.query_one("SELECT count(*) FROM t WHERE s = 'row'", &[]).unwrap().get(0);
    assert_eq!(by_index, i64::try_from(left.len()).unwrap());
    for write in [
        "INSERT INTO t VALUES (1000, 'new')",
        "UPDATE t SET s = 'other' WHERE n = 0",
        "DELETE FROM t WHERE n = 0",
        "SELECT n FROM t WHERE n = 0 FOR UPDATE",
        "CREATE TABLE u (n int)",
        "DROP TABLE t",
        "BEGIN; INSERT INTO t VALUES (1000, 'new'); COMMIT",
    ] {
        let error = client.batch_execute(write).unwrap_err();
        let error = error.as_db_error().unwrap_or_else(|| panic!("{write}: {error}"));
        assert_eq!(error.code().code(), "25006", "{write}: {}", error.message());
        assert!(
            error.message().starts_with("the database is open read-only, with what is left"),
            "{}",
            error.message()
        );
        client.batch_execute("ROLLBACK").unwrap();
    }
    assert_eq!(client.query("SELECT n FROM t", &[]).unwrap().len(), left.len());
    drop(client);
    assert!(server.stop().success());
    let log = place.log();
    assert!(log.contains("wal: lost ") && log.contains(&segment.display().to_string()), "{log}");
    assert!(log.contains("; stretches of the log that are lost: 1, bytes in them: "), "{log}");
    assert!(log.contains("stopped: nothing was written"), "{log}");
    assert!(read() == before);
}

/// Goal: a start with a damaged table file names the file, its families and the remedy, in one line. Salvage mode opens
/// with the undamaged tables, reads without a damaged index, names what is missing, and changes nothing. Method: flush
/// two tables to the LSM levels until the log is cut, then flip a bit in a table file of each tree in turn.
#[test]
fn server_with_a_rotten_table_names_it_and_shows_the_others() {
    let place = Place::new();
    let small = ["wal.segment_size=1MiB", "wal.chunk_size=4KiB", "wal.ring_size=256KiB", "wal.max_total_wal_size=1"]
        .map(|set| ["--set", set])
        .concat();
    let server = Server::start_with(&place, &[&small[..], &["--set", "wal.flush_bytes=64KiB"]].concat());
    let mut client = server.connect();
    client
        .batch_execute("CREATE TABLE t (n int PRIMARY KEY, s text); CREATE INDEX t_s ON t (s); CREATE TABLE u (n int)")
        .unwrap();
    client
        .batch_execute("INSERT INTO t SELECT n, 'row' FROM generate_series(1, 500) n; INSERT INTO u VALUES (7)")
        .unwrap();
    // The log gets so long that the next flush releases files of it.
    for _ in 0..3 {
        client.batch_execute("UPDATE u SET n = n; INSERT INTO u SELECT n FROM generate_series(1, 40000) n; DELETE FROM u WHERE n <> 7; CHECKPOINT").unwrap();
    }
    drop(client);
    assert!(server.stop().success());
    let levels = place.data().join("levels");
    let trees: Vec<PathBuf> =
        fs::read_dir(&levels).unwrap().map(|entry| entry.unwrap().path().join("tables")).collect();
    let (mut tables, mut indexes, mut definitions) = (0, 0, 0);
    for tree in trees.iter().filter(|tree| tree.is_dir()) {
        let table = fs::read_dir(tree).unwrap().next().unwrap().unwrap().path();
        let whole = fs::read(&table).unwrap();
        let mut bad = whole.clone();
        bad[60] ^= 1;
        fs::write(&table, &bad).unwrap();
        let line = Server::refused(&place.data(), &[]).line().to_owned();
        assert!(line.starts_with(&format!("{}: ", table.display())) && line.contains("famil"), "{line}");
        assert!(line.contains("collie restore") && line.contains("skip_any_corrupted_records"), "{line}");
        let server = Server::start_with(&place, &["--set", "wal.recovery_mode=skip_any_corrupted_records"]);
        let mut client = server.connect();
        let log = place.log();
        let since = log.rfind(&*table.to_string_lossy()).unwrap_or_else(|| panic!("{log}"));
        let said = &log[since..];
        let count =
            |client: &mut postgres::Client, sql: &str| client.query_one(sql, &[]).map(|row| row.get::<_, i64>(0));
        let by_index = count(&mut client, "SELECT count(*) FROM t WHERE s = 'row'");
        if said.contains("table public.t ") {
            tables += 1;
            assert!(by_index.unwrap() < 500);
        } else if said.contains("index public.t_s ") {
            indexes += 1;
            assert_eq!(by_index.unwrap(), 500);
        } else if said.contains("the definitions of tables are not whole") {
            definitions += 1;
        } else {
            assert!(said.contains("table public.u "), "{said}");
            tables += 1;
            assert_eq!(by_index.unwrap(), 500);
        }
        drop(client);
        assert!(server.stop().success());
        assert_eq!(fs::read(&table).unwrap(), bad, "nothing is changed");
        fs::write(&table, &whole).unwrap();
    }
    assert_eq!((tables, indexes, definitions), (2, 1, 1));
    let server = Server::start(&place);
    let mut client = server.connect();
    assert_eq!(client.query("SELECT n FROM t", &[]).unwrap().len(), 500);
}

/// Goal: a torn tail is trimmed, not refused. Method: garbage after the last frame of a killed server's log.
#[test]
fn torn_tail_of_a_killed_server_is_trimmed() {
    let place = Place::new();
    let server = Server::start(&place);
    let mut client = server.connect();
    client.batch_execute("CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1), (2)").unwrap();
    server.kill();
    let segment = fs::read_dir(place.data().join("wal"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .find(|path| fs::read(path).is_ok_and(|bytes| bytes.len() > 4100 && bytes[4096..].starts_with(b"CLF1")))
        .unwrap();
    let mut bytes = fs::read(&segment).unwrap();
    let last = (1..bytes.len() / 4096).map(|block| block * 4096).rfind(|at| bytes[*at..].starts_with(b"CLF1")).unwrap();
    let torn = last + 4096;
    if torn + 40 <= bytes.len() {
        bytes[torn..torn + 40].copy_from_slice(b"CLF1 half a frame, the rest never landed");
        fs::write(&segment, &bytes).unwrap();
    }
    let server = Server::start(&place);
    assert_eq!(server.connect().query_one("SELECT count(*) FROM t", &[]).unwrap().get::<_, i64>(0), 2);
}
