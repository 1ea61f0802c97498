//! Attacks by a peer that is no node, or by a user that is no owner or operator, have no effect: on the port for
//! replicas, the key, terms and files.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    time::Duration,
};

use collie_clients_tests::{Place, Server, Stopwatch, message, program, session::value, state};
use collie_netlab::Port;

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has the server keep its key in the default place, the data directory.
const OWN_KEY: [&str; 2] = ["--set", "replication.key_file="];

fn until(what: &str, places: &[&Place], mut done: impl FnMut() -> bool) {
    let start = Stopwatch::start();
    while !done() {
        let logs = || places.iter().map(|place| format!("---\n{}", place.log())).collect::<String>();
        assert!(start.elapsed() < PATIENCE, "{what}: {}", logs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until `replica` shows exactly `expected` rows of `notes`.
fn until_rows(replica: &Server, expected: i64, places: &[&Place]) {
    until("the rows", places, || {
        let rows = replica
            .config()
            .connect(postgres::NoTls)
            .and_then(|mut client| client.query_one("SELECT count(*) FROM notes", &[]).map(|row| row.get::<_, i64>(0)));
        rows.is_ok_and(|rows| rows == expected)
    });
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

/// Copies a key with its mode, as an operator does.
fn copy_key(from: &Place, to: &Place) {
    let name = "replication.key";
    fs::create_dir_all(to.data()).expect("a directory");
    fs::set_permissions(to.data(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    fs::copy(from.data().join(name), to.data().join(name)).expect("the primary has made its key");
}

/// Goal: a pair is set up by copying one file, as the README says. The primary makes the key; a replica without it says
/// what to copy where; a replica whose directory has only the key is filled and keeps the key, also in a rebuild. The
/// key can be changed while nodes run, and a revoked key admits no node. Method: two servers and the program's own
/// commands.
#[test]
fn a_pair_is_made_by_copying_the_key() {
    let (here, there) = (Place::new(), Place::new());
    let port = Port::keep().expect("a free port");
    let address = port.address().to_string();
    let primary = Server::start_with(&here, &[&["--replica-listen", &address], &OWN_KEY[..]].concat());
    here.until_said("made a replication key in ");
    assert_eq!(mode(&here.data().join("replication.key")), 0o600);
    primary
        .connect()
        .batch_execute("CREATE TABLE notes (n int PRIMARY KEY); INSERT INTO notes VALUES (1)")
        .expect("SQL");

    let follow = [&["--replica-of", &address], &OWN_KEY[..]].concat();
    let refused = Server::refused(&there.data(), &follow);
    assert!(refused.line().contains("there is no replication key at "), "{refused:?}");
    assert!(refused.line().contains("copy the file replication.key of the primary's data directory"), "{refused:?}");
    copy_key(&here, &there);
    let replica = Server::start_with(&there, &follow);
    until_rows(&replica, 1, &[&here, &there]);
    assert_eq!((mode(&there.data()), mode(&there.data().join("replication.key"))), (0o700, 0o600));

    // During a key change, a node with both keys and a node with one of them accept each other.
    let key = |arguments: &[&str], place: &Place| {
        let data = place.data();
        let data = data.to_str().expect("UTF-8");
        program::collie(&[&["replica-key"], arguments, &["--data", data]].concat(), "").ok()
    };
    let first = key(&["show"], &here);
    assert!(key(&["rotate"], &here).contains("copy it to every other node"));
    let both = key(&["show"], &here);
    assert_eq!(both.lines().count(), first.lines().count() + 1);
    assert_eq!(both.lines().last(), first.lines().last(), "the old one stays behind the new one");
    assert!(replica.stop().success());
    let replica = Server::start_with(&there, &follow);
    primary.connect().batch_execute("INSERT INTO notes VALUES (2)").expect("SQL");
    until_rows(&replica, 2, &[&here, &there]);
    let old = fs::read(there.data().join("replication.key")).expect("a key");
    copy_key_over(&here, &there);
    for place in [&here, &there] {
        key(&["rotate", "--end"], place);
        assert_eq!(key(&["show"], place).lines().count(), first.lines().count());
    }
    assert!(replica.stop().success());
    let replica = Server::start_with(&there, &follow);
    primary.connect().batch_execute("INSERT INTO notes VALUES (3)").expect("SQL");
    until_rows(&replica, 3, &[&here, &there]);

    // The old key admits no node any more.
    fs::write(there.data().join("replication.key"), &old).expect("it is ours");
    assert!(replica.stop().success());
    let replica = Server::start_with(&there, &follow);
    there.until_said("the replication keys of the two nodes are not the same");
    here.until_said("the replication keys of the two nodes are not the same");
    fs::copy(here.data().join("replication.key"), there.data().join("replication.key")).expect("a key");
    primary.connect().batch_execute("INSERT INTO notes VALUES (4)").expect("SQL");
    until_rows(&replica, 4, &[&here, &there]);
    assert!(replica.stop().success());
    fs::set_permissions(there.data().join("replication.key"), fs::Permissions::from_mode(0o640)).expect("it is ours");
    let refused = Server::refused(&there.data(), &follow);
    assert!(refused.line().contains("chmod 0600 "), "{refused:?}");
}

/// Replaces a key with a copy.
fn copy_key_over(from: &Place, to: &Place) {
    fs::copy(from.data().join("replication.key"), to.data().join("replication.key")).expect("both have one");
}

/// Returns a start-up message for the port for replicas.
fn startup(parameters: &[(&str, &str)]) -> Vec<u8> {
    let mut body = (3_u32 << 16).to_be_bytes().to_vec();
    for (key, value) in parameters {
        body.extend_from_slice(format!("{key}\0{value}\0").as_bytes());
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).expect("it is short");
    [&length.to_be_bytes()[..], &body].concat()
}

/// Goal: a peer without the key can neither change the term of a primary, nor make a slot, nor take a base backup, nor
/// keep replicas out, and learns nothing about the database (G of issue 19: one packet ended a primary for good).
/// Method: the packets of that attack, after the start-up message and in place of a proof, and a proof by another key;
/// more silent connections than are kept; then a replica.
#[test]
fn strangers_reach_no_term_no_slot_and_no_data() {
    let (here, there) = (Place::new(), Place::new());
    let primary = Server::start_with(&here, &["--replica-listen", "127.0.0.1:0"]);
    let address = Server::replica_address(&here);
    let mut client = primary.connect();
    client.batch_execute("CREATE TABLE notes (n int PRIMARY KEY); INSERT INTO notes VALUES (1)").expect("SQL");
    let before: String = value(&mut client, "SELECT promised_term::text FROM collie_node");
    // The packets are those of a node from before keys existed: `T` proposes term 2^64-1 of node 9; `H` is the hello of
    // an empty directory.
    let mut propose = b"T\x36\x00\x00\x00\x00".to_vec();
    propose.extend_from_slice(&u64::MAX.to_le_bytes());
    propose.extend_from_slice(&[9; 36]);
    let greeting = [&[1][..], &[7; 32], &[1], &[3; 8]].concat();
    let named = [&b"COLLIE-HMAC-SHA-256\0"[..], &42_u32.to_be_bytes(), &greeting].concat();
    let proof = [&b"p"[..], &u32::try_from(named.len() + 4).expect("short").to_be_bytes(), &named].concat();
    for what in ["collie", "collie-terms"] {
        for said in [&propose[..], b"H\x80\x00\x00\x00CLRP", &proof, b"p\x00\x00\x00\x08\x00\x00\x00\x00", b""] {
            for at_once in [false, true] {
                let mut stream = TcpStream::connect(&address).expect("it listens");
                stream.set_read_timeout(Some(PATIENCE)).expect("a time");
                let begin = startup(&[("user", "collie"), ("replication", what), ("collie_cluster", "0")]);
                let begin = if at_once { [&begin[..], said].concat() } else { begin };
                stream.write_all(&begin).expect("it is sent");
                if !at_once || said.is_empty() {
                    let mut asked = [0; 30];
                    stream.read_exact(&mut asked).expect("it asks for a proof");
                    assert_eq!(asked[..9], *b"R\x00\x00\x00\x1d\x00\x00\x00\x0a", "{asked:?}");
                    // The server may have closed the connection already.
                    let _sent = stream.write_all(said).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
                }
                let mut rest = Vec::new();
                // A connection that is closed with unread bytes is reset.
                let _ended = stream.read_to_end(&mut rest);
                let rest =
                    rest.strip_prefix(b"R\x00\x00\x00\x1d\x00\x00\x00\x0aCOLLIE-HMAC-SHA-256\x00\x00").unwrap_or(&rest);
                let text = String::from_utf8_lossy(rest);
                assert!(rest.is_empty() || (rest[0] == b'E' && text.contains("C28000\0")), "{what}, {said:?}: {text}");
                assert!(!text.contains("follows another") && !text.contains("another database"), "{text}");
            }
        }
    }
    let _silent: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(&address).expect("it listens")).collect();
    assert_eq!(value::<String>(&mut client, "SELECT promised_term::text FROM collie_node"), before);
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM collie_slots"), 0);
    client.batch_execute("INSERT INTO notes VALUES (2)").expect("it still leads");
    let replica = Server::start_with(&there, &["--replica-of", &address]);
    until_rows(&replica, 2, &[&here, &there]);
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM collie_slots"), 1);
}

/// Goal: a node that has promised a term too high to lead in is refused with the remedy and does not affect its
/// primary; `collie promote --force-term` brings it back, as a replica and as a primary. Method: that command also
/// plants the term.
#[test]
fn absurd_terms_are_refused_and_forced_back() {
    let (here, there) = (Place::new(), Place::new());
    let primary = Server::start_with(&here, &["--replica-listen", "127.0.0.1:0"]);
    let address = Server::replica_address(&here);
    primary
        .connect()
        .batch_execute("CREATE TABLE notes (n int PRIMARY KEY); INSERT INTO notes VALUES (1)")
        .expect("SQL");
    let start = || Server::start_with(&there, &["--replica-of", &address, "--replica-listen", "127.0.0.1:0"]);
    let replica = start();
    until_rows(&replica, 1, &[&here, &there]);
    let (data, led) = (there.data(), here.data());
    let (data, led) = (data.to_str().expect("UTF-8"), led.to_str().expect("UTF-8"));
    let force = |term: &str, data: &str| program::collie(&["promote", "--force-term", term, "--data", data], "");
    let running = force("3", data);
    assert!(running.code == Some(1) && running.err.contains("stop its server first"), "{running:?}");
    assert!(replica.stop().success());
    let planted = force("18446744073709551615", data);
    assert!(planted.code == Some(0) && planted.err.contains("warning: "), "{planted:?}");
    let replica = start();
    there.until_said("which is not to be believed");
    let mut client = primary.connect();
    client.batch_execute("INSERT INTO notes VALUES (2)").expect("the primary leads on");
    let promoted = program::collie(&["promote", &replica.url()], "");
    assert!(promoted.code == Some(1) && promoted.err.contains("--force-term"), "{promoted:?}");
    assert!(replica.stop().success());
    let term: String = value(&mut client, "SELECT term::text FROM collie_node");
    force(&term, data).ok();
    let replica = start();
    until_rows(&replica, 2, &[&here, &there]);
    // The directory of a primary can lead only in its own term.
    assert!(primary.stop().success());
    assert!(force("7", led).err.contains("leads in"), "{:?}", force("7", led));
    force(&term, led).ok();
    // The same works without a primary, while the node runs.
    let low = program::collie(&["promote", &replica.url(), "--force-term", "0"], "");
    assert!(low.code == Some(1) && low.err.contains("force a term above that"), "{low:?}");
    let told = program::collie(&["promote", &replica.url(), "--force-term", "7"], "").ok();
    assert!(told.contains("leads in term 7"), "{told}");
    replica.connect().batch_execute("INSERT INTO notes VALUES (3)").expect("it leads");
}

/// Returns the files and directories below `dir` to which other users than the owner have rights.
fn open_to_others(dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![dir.to_owned()];
    while let Some(path) = todo.pop() {
        if mode(&path) & 0o077 != 0 {
            found.push(format!("{} {:04o}", path.display(), mode(&path)));
        }
        if path.is_dir() {
            todo.extend(fs::read_dir(&path).expect("a directory").map(|entry| entry.expect("an entry").path()));
        }
    }
    found
}

/// Goal: everything that servers and commands write is accessible to its owner only, whatever the shell's umask is:
/// databases with tables, copies of the log, replicas, checkpoints, backups, restored directories, samples. A data
/// directory that others can change is refused with the remedy. Method: make each of them under umask 000 and check
/// every mode.
#[test]
fn files_are_their_owners_alone() {
    let (here, there) = (Place::new(), Place::new());
    let copies = format!("wal.copies={}", here.beside("copied-log").display());
    let open = ["sh", "-c", "umask 000; exec \"$0\" \"$@\""];
    let arguments = ["--replica-listen", "127.0.0.1:0", "--set", &copies];
    let primary = Server::start_under(&here, &open, &arguments);
    let mut client = primary.connect();
    client
        .batch_execute(
            "CREATE TABLE notes (n int PRIMARY KEY); INSERT INTO notes SELECT generate_series(1, 1000); CHECKPOINT",
        )
        .expect("SQL");
    let address = Server::replica_address(&here);
    let replica = Server::start_under(&there, &open, &["--replica-of", &address]);
    until_rows(&replica, 1000, &[&here, &there]);
    for command in ["checkpoint", "backup"] {
        let made = program::collie(&[command, &format!("a {command}"), "--url", &primary.url()], "").ok();
        assert!(made.contains(&format!("data/copies/a {command}")), "{made}");
    }
    let (backup, restored) = (here.data().join("copies/a backup"), here.beside("restored"));
    let [backup, to] = [&backup, &restored].map(|path| path.to_str().expect("UTF-8"));
    program::collie(&["restore", backup, to], "").ok();
    drop((primary, replica));
    for dir in [here.data(), there.data(), here.beside("copied-log"), restored] {
        assert_eq!(open_to_others(&dir), [""; 0], "{}", dir.display());
    }
    fs::set_permissions(there.data(), fs::Permissions::from_mode(0o777)).expect("it is ours");
    let refused = Server::refused(&there.data(), &["--replica-of", "127.0.0.1:1"]);
    assert!(refused.line().contains("has mode 0777") && refused.line().contains("chmod 0700 "), "{refused:?}");
}

/// Goal: a client can make a server write copies below one directory only. Method: paths to other places, and a path
/// through a link.
#[test]
fn clients_name_copies_and_no_places() {
    let place = Place::new();
    let server = Server::start(&place);
    let mut client = server.connect();
    let outside = place.beside("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::create_dir(place.data().join("copies")).expect("a directory");
    std::os::unix::fs::symlink(&outside, place.data().join("copies/link")).expect("a link");
    let asked =
        [outside.join("x").display().to_string(), "../x".into(), "/etc/collie".into(), "link".into(), "link/x".into()];
    for asked in asked {
        let refused = client.batch_execute(&format!("CALL collie_checkpoint('{asked}')")).expect_err("it is refused");
        assert_eq!(state(&refused), "22023", "{asked}: {}", message(&refused));
    }
    assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 0);
    let made = client.simple_query("CALL collie_checkpoint('monday')").expect("it is made");
    assert!(!made.is_empty() && place.data().join("copies/monday/control").is_file());
}
