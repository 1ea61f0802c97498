//! Replication under faults: a primary and a replica as real processes, a bad network between them (`collie-netlab`),
//! freezes and kills of either, and a full disk of the replica.
//!
//! After every fault three things are checked: the replica equals the primary (one hash over every row, key and commit
//! of every table, index and catalog); every acknowledged row is there; and during a fault that is not the primary's
//! own, the primary went on committing.

use std::{
    fs::{self, File},
    io::{ErrorKind, Write as _},
    net::SocketAddr,
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use collie_clients_tests::{Place, Server, Starting, Stopwatch, not_run, session::value};
use collie_netlab::{Direction, Proxy, Weather};
use postgres::Client;

/// How long a replica is waited for, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The `replication.timeout` of these servers, the shortest that is allowed.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The timeout of tests in which a pause of a busy machine must not count as silence of the network.
const LONG_TIMEOUT: Duration = Duration::from_secs(4);

/// The pause between two checks of a condition.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Pseudo-random numbers from a seed, for places and bits.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// A client that commits one row after the other on the primary, and counts the acknowledged ones.
struct Writer {
    told: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Writer {
    /// Starts a writer that goes on after row `last`; it ends when it is stopped or its connection breaks.
    fn start(server: &Server, last: u64) -> Self {
        let mut client = server.connect();
        let (told, stop) = (Arc::new(AtomicU64::new(last)), Arc::new(AtomicBool::new(false)));
        let (telling, stopping) = (told.clone(), stop.clone());
        let thread = thread::spawn(move || {
            let insert =
                client.prepare("INSERT INTO ledger VALUES ($1::bigint, repeat('x', $2::int))").expect("it is SQL");
            let mut n = last;
            while !stopping.load(Ordering::SeqCst) {
                n += 1;
                let bytes = i32::try_from(n * 37 % 700).expect("below 700");
                match client.execute(&insert, &[&n.cast_signed(), &bytes]) {
                    Ok(_) => telling.store(n, Ordering::SeqCst),
                    Err(error) if error.code().is_none() => return, // the server was killed
                    Err(error) => panic!("row {n}: {error:?}"),
                }
            }
        });
        Self { told, stop, thread }
    }

    fn told(&self) -> u64 {
        self.told.load(Ordering::SeqCst)
    }

    /// Waits until `commits` more commits were acknowledged.
    fn until_more(&self, commits: u64, what: &str) {
        let (before, start) = (self.told(), Stopwatch::start());
        while self.told() < before + commits {
            assert!(start.elapsed() < PATIENCE, "{what}: the primary does not commit");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops the writer; returns the last acknowledged row.
    fn end(self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.join().expect("the writer meets no error");
        self.told.load(Ordering::SeqCst)
    }
}

/// A primary, a replica, and the network between them.
struct Pair {
    // Servers are dropped before their directories, since they would leave files there.
    primary: Option<Server>,
    replica: Option<Server>,
    here: Place,
    there: Place,
    proxy: Proxy,
    /// The last acknowledged row.
    last: u64,
    timeout: Duration,
}

fn settings(timeout: Duration) -> [String; 2] {
    ["--set".to_owned(), format!("replication.timeout={} s", timeout.as_secs())]
}

fn start_primary(place: &Place, timeout: Duration) -> (Server, SocketAddr) {
    let [set, timeout] = settings(timeout);
    let server = Server::start_with(place, &["--replica-listen", "127.0.0.1:0", &set, &timeout]);
    (server, Server::replica_address(place).parse().expect("an address"))
}

impl Pair {
    /// Starts both servers, with the writer's table, and waits until the replica has it.
    fn new(seed: u64) -> Self {
        Self::with_timeout(seed, TIMEOUT)
    }

    fn with_timeout(seed: u64, timeout: Duration) -> Self {
        let mut pair = Self::alone(seed, timeout);
        pair.start_replica();
        pair.until_equal("at the beginning");
        pair
    }

    /// Starts the primary alone.
    fn alone(seed: u64, timeout: Duration) -> Self {
        let (here, there) = (Place::new(), Place::new());
        let (primary, address) = start_primary(&here, timeout);
        primary.connect().batch_execute("CREATE TABLE ledger (n bigint PRIMARY KEY, t text)").expect("it is SQL");
        let proxy = Proxy::start(address, seed).expect("a free port");
        Self { here, there, primary: Some(primary), replica: None, proxy, last: 0, timeout }
    }

    fn start_replica(&mut self) {
        let (address, [set, timeout]) = (self.proxy.address().to_string(), settings(self.timeout));
        self.replica = Some(Server::start_with(&self.there, &["--replica-of", &address, &set, &timeout]));
    }

    fn primary(&self) -> &Server {
        self.primary.as_ref().expect("it runs")
    }

    fn replica(&self) -> &Server {
        self.replica.as_ref().expect("it runs")
    }

    fn kill_replica(&mut self) {
        self.replica.take().expect("it runs").kill();
    }

    /// Kills the primary and starts it again on another port; the proxy keeps the address that the replica knows.
    fn kill_primary(&mut self) {
        self.primary.take().expect("it runs").kill();
        let (primary, address) = start_primary(&self.here, self.timeout);
        self.proxy.set_target(address);
        self.primary = Some(primary);
    }

    fn write(&self) -> Writer {
        Writer::start(self.primary(), self.last)
    }

    fn logs(&self) -> String {
        format!("--- primary:\n{}--- replica:\n{}---", self.here.log(), self.there.log())
    }

    /// Stops a writer, then waits until the replica equals the primary and has every acknowledged row.
    fn settle(&mut self, writer: Writer, what: &str) {
        self.last = writer.end().max(self.last);
        let last: Option<i64> = value(&mut self.primary().connect(), "SELECT max(n) FROM ledger");
        let last = last.unwrap_or(0).cast_unsigned();
        assert!(last >= self.last, "{what}: row {} was acknowledged, the last there is {last}", self.last);
        self.last = last;
        self.until_equal(what);
    }

    /// Waits until the replica equals the primary; nothing is written meanwhile.
    fn until_equal(&self, what: &str) {
        let (mut one, mut other) = (self.primary().connect(), self.replica().connect());
        let expected = state(&mut one).unwrap_or_else(|error| panic!("{what}: {error:?}"));
        let start = Stopwatch::start();
        loop {
            // A table that has not arrived yet is an error that goes away.
            let found = state(&mut other);
            if found.as_ref().is_ok_and(|found| *found == expected) {
                break;
            }
            let logs = self.logs();
            assert!(start.elapsed() < PATIENCE, "{what}: the replica has {found:?}, the primary {expected:?}\n{logs}");
            thread::sleep(LOOK_EVERY);
        }
        let rows: i64 = value(&mut other, "SELECT count(*) FROM ledger WHERE n <= 1000000000");
        assert_eq!(rows.cast_unsigned(), self.last, "{what}: rows are missing\n{}", self.logs());
    }

    /// Waits until the primary shows `state` for its replica.
    fn until_shown(&self, state: &str, what: &str) {
        let (mut client, start) = (self.primary().connect(), Stopwatch::start());
        loop {
            let states = client.query("SELECT state FROM collie_replication", &[]).expect("the primary answers");
            if states.iter().any(|row| row.get::<_, &str>(0) == state) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{what}: not {state}\n{}", self.logs());
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Returns a hash over everything that a server has.
fn state(client: &mut Client) -> Result<String, postgres::Error> {
    let row = client.query_one("SELECT collie_state_hash()", &[])?;
    let state: &str = row.get(0);
    Ok(state.rsplit(':').next().expect("position:hash").to_owned())
}

/// Goal: whatever the network does, the primary goes on and the replica is equal afterwards. Method: under load,
/// resets; cuts of both directions and of each one, longer and shorter than the timeout; a slow link with delay and
/// jitter; single bytes; refused connections.
#[test]
fn replica_is_equal_after_each_fault_of_the_network() {
    let mut pair = Pair::new(1);
    let ms = Duration::from_millis;
    let writer = pair.write();
    for number in 0..5 {
        writer.until_more(20, "between resets");
        pair.proxy.reset();
        writer.until_more(5, &format!("reset {number}"));
    }
    pair.settle(writer, "after resets");

    let cuts: [(&str, &[Direction]); 3] = [
        ("half-open", &[Direction::Out, Direction::Back]),
        ("cut towards the primary", &[Direction::Out]),
        ("cut towards the replica", &[Direction::Back]),
    ];
    for (what, directions) in cuts {
        let writer = pair.write();
        for lasts in [TIMEOUT / 4, 2 * TIMEOUT] {
            pair.until_shown("streaming", what);
            directions.iter().for_each(|direction| pair.proxy.cut(*direction));
            writer.until_more(20, what);
            if lasts > TIMEOUT {
                pair.until_shown("away", what);
            } else {
                thread::sleep(lasts);
            }
            writer.until_more(5, what);
            pair.proxy.heal();
        }
        pair.settle(writer, what);
    }

    let weather = [
        ("slow", Weather { bytes_per_second: Some(60_000), delay: ms(30), jitter: ms(20), ..Weather::default() }),
        ("one by one", Weather { piece_bytes: 1, ..Weather::default() }),
    ];
    for (what, weather) in weather {
        pair.proxy.set_both(weather);
        let writer = pair.write();
        writer.until_more(50, what);
        thread::sleep(TIMEOUT);
        pair.last = writer.end();
        pair.until_shown("streaming", what);
        // On a slow link the gathered log would take long.
        pair.proxy.heal();
        pair.until_equal(what);
    }

    let writer = pair.write();
    pair.proxy.refuse();
    pair.proxy.reset();
    pair.until_shown("away", "refused");
    writer.until_more(20, "refused");
    pair.proxy.heal();
    pair.settle(writer, "refused");
}

/// Goal: a replica that is far behind catches up over a link on which one packet takes longer than the timeout. Method:
/// 3 MiB of log while it is disconnected, then 200 KB a second, and so 5 s for a packet of 1 MiB; it does not connect a
/// second time.
#[test]
fn replica_catches_up_over_a_link_slower_than_its_packets() {
    let mut pair = Pair::with_timeout(2, LONG_TIMEOUT);
    pair.proxy.refuse();
    pair.proxy.reset();
    pair.until_shown("away", "before");
    let mut client = pair.primary().connect();
    client
        .batch_execute(
            "CREATE TABLE bulk (n int, t text); INSERT INTO bulk SELECT n, repeat(n::text || ' and more ', 70) FROM generate_series(1, 3000) AS n",
        )
        .unwrap();
    let slow = Weather { bytes_per_second: Some(200_000), ..Weather::default() };
    pair.proxy.heal();
    pair.proxy.set_both(slow);
    let before = pair.proxy.passed(Direction::Back);
    pair.until_equal("over the slow link");
    // If a connection was given up, the bytes that are sent again come on top.
    let passed = pair.proxy.passed(Direction::Back) - before;
    assert!(passed < 5_000_000, "{passed} bytes were needed\n{}", pair.logs());
    let writer = pair.write();
    writer.until_more(10, "over the slow link");
    pair.proxy.heal();
    pair.settle(writer, "after the slow link");
}

/// Goal: a flipped bit does no harm anywhere: it is noticed, and the data is sent again. Method: bits at random places
/// in both directions, one after the other, under load; the states are equal at the end.
#[test]
fn flipped_bits_in_both_directions_do_no_harm() {
    const SEED: u64 = 3;
    const FLIPS: u64 = 24;
    let mut pair = Pair::new(SEED);
    let mut random = Random(SEED);
    let writer = pair.write();
    for number in 0..FLIPS {
        let what = format!("flip {number} of seed {SEED}");
        pair.until_shown("streaming", &what);
        let direction = if random.below(2) == 0 { Direction::Out } else { Direction::Back };
        // Acks are small, data packets larger.
        let bytes = random.below(if direction == Direction::Out { 300 } else { 2000 });
        let flipped = pair.proxy.flipped();
        pair.proxy.flip(direction, bytes, u8::try_from(random.below(8)).unwrap());
        let start = Stopwatch::start();
        while pair.proxy.flipped() == flipped {
            assert!(start.elapsed() < PATIENCE, "{what}: nothing passes\n{}", pair.logs());
            thread::sleep(Duration::from_millis(1));
        }
        writer.until_more(3, &what);
    }
    pair.settle(writer, "after flipped bits");
    let refused = pair.here.log() + &pair.there.log();
    assert!(refused.contains("bad checksum"), "nothing was noticed: {refused}");
}

/// Goal: freezes and kills of either node lose nothing, at any moment. Method: under load, SIGSTOP of the replica and
/// of the primary for longer and for shorter than the timeout, then SIGKILL of either and of both at random moments.
#[test]
fn replica_is_equal_after_freezes_and_kills_of_either() {
    const SEED: u64 = 4;
    let (mut pair, mut random) = (Pair::new(SEED), Random(SEED));
    let writer = pair.write();
    for lasts in [TIMEOUT / 3, 2 * TIMEOUT] {
        pair.until_shown("streaming", "before a freeze");
        pair.replica().pause();
        writer.until_more(20, "a frozen replica");
        if lasts > TIMEOUT {
            pair.until_shown("away", "a frozen replica");
        } else {
            thread::sleep(lasts);
        }
        pair.replica().go_on();
        writer.until_more(5, "a replica that goes on");
    }
    pair.settle(writer, "after freezes of the replica");
    let writer = pair.write();
    for lasts in [TIMEOUT / 3, 2 * TIMEOUT] {
        writer.until_more(20, "before a freeze of the primary");
        pair.primary().pause();
        thread::sleep(lasts);
        pair.primary().go_on();
        writer.until_more(20, "after a freeze of the primary");
    }
    pair.settle(writer, "after freezes of the primary");
    for kill in 0..6 {
        let what = format!("kill {kill} of seed {SEED}");
        let writer = pair.write();
        writer.until_more(5, &what);
        thread::sleep(Duration::from_millis(random.below(150)));
        if kill % 3 != 1 {
            pair.kill_replica();
            writer.until_more(20, &what);
        }
        if kill % 3 != 0 {
            pair.kill_primary();
        }
        if pair.replica.is_none() {
            pair.start_replica();
        }
        pair.settle(writer, &what);
    }
}

/// Goal: a base backup that the network or a kill of either node breaks off leaves nothing that opens, and is made
/// again. Method: the connection is cut, a bit flipped and the replica killed at places that move through the copy, and
/// the primary is killed once; the primary has 4 MiB in LSM levels and goes on committing.
#[test]
fn base_backup_that_breaks_off_is_made_again() {
    const SEED: u64 = 5;
    let (mut pair, mut random) = (Pair::alone(SEED, TIMEOUT), Random(SEED));
    let bulk = "CREATE TABLE bulk (n int, t text);
        INSERT INTO bulk SELECT n, (SELECT string_agg((n::bigint * 7919 * k % 1000003)::text, '-') FROM generate_series(1, 150) AS k)
            FROM generate_series(1, 4000) AS n";
    // The statements are sent separately: as one message they would be one transaction, and CHECKPOINT would not flush
    // the rows.
    for sql in [bulk, "CHECKPOINT"] {
        pair.primary().connect().batch_execute(sql).unwrap();
    }
    let writer = pair.write();
    // The copy is slow, so that a fault comes in the middle of it even if the test is late by seconds.
    pair.proxy.set(Direction::Back, Weather { bytes_per_second: Some(1_000_000), ..Weather::default() });
    let begin = |pair: &Pair| {
        let (address, [set, timeout]) = (pair.proxy.address().to_string(), settings(pair.timeout));
        Starting::begin(&pair.there, &[], &["--replica-of", &address, &set, &timeout])
    };
    let mut starting = begin(&pair);
    for number in 0..6 {
        let what = format!("break {number} of seed {SEED}");
        let goal = pair.proxy.passed(Direction::Back) + 5_000 + random.below(500_000);
        let start = Stopwatch::start();
        while pair.proxy.passed(Direction::Back) < goal {
            assert!(start.elapsed() < PATIENCE, "{what}: nothing passes\n{}", pair.logs());
            thread::sleep(Duration::from_millis(1));
        }
        match number {
            0 | 3 => pair.proxy.reset(),
            1 | 4 => pair.proxy.flip(Direction::Back, random.below(50_000), 3),
            2 => {
                starting.kill();
                let control = pair.there.data().join("control");
                assert!(!control.exists(), "half a backup opens\n{}", pair.logs());
                starting = begin(&pair);
            }
            _ => {
                pair.last = writer.told();
                pair.kill_primary();
            }
        }
        if number < 5 {
            writer.until_more(5, &what);
        }
    }
    pair.proxy.heal();
    pair.replica = Some(starting.wait(&pair.there));
    pair.settle(writer, "after base backups that broke off");
}

/// Goal: a replica whose disk is full does not delay the primary, goes on answering reads, and catches up once there is
/// room, without a restart. Method: its directory is on a tmpfs of its own (in a namespace, which needs no rights),
/// filled by a file; 24 MiB of log on the primary; then the file is removed.
#[test]
fn full_replica_answers_reads_and_catches_up_when_there_is_room() {
    let mut pair = Pair::alone(6, TIMEOUT);
    let dir = pair.there.data().parent().expect("a place").to_owned();
    // A user namespace works without rights; where it is not allowed, root can do without one.
    let ways: [&[&str]; 2] = [&["unshare", "--user", "--map-root-user", "--mount"], &["unshare", "--mount"]];
    let can = |way: &&[&str]| {
        let probe = Command::new(way[0]).args(&way[1..]).args(["mount", "-t", "tmpfs", "none"]).arg(&dir).output();
        probe.is_ok_and(|output| output.status.success())
    };
    let Some(alone) = ways.into_iter().find(can) else {
        not_run("no tmpfs can be mounted in a namespace");
        return;
    };
    // The key lies in the directory that the mount hides, so the script copies it over.
    let script = "cp -p \"$0/key of tests\" /tmp/collie-key.$$ && mount -t tmpfs -o size=80m none \"$0\" && \
                  mv /tmp/collie-key.$$ \"$0/key of tests\" && exec \"$@\"";
    let wrapper: Vec<&str> = alone.iter().copied().chain(["sh", "-c", script, dir.to_str().unwrap()]).collect();
    let (address, [set, timeout]) = (pair.proxy.address().to_string(), settings(pair.timeout));
    let small = ["--set", "wal.segment_size=12MiB", "--set", "wal.ring_size=1MiB", "--set", "wal.flush_bytes=64KiB"];
    let arguments = [&["--replica-of", &address, &set, &timeout][..], &small].concat();
    pair.replica = Some(Server::start_under(&pair.there, &wrapper, &arguments));
    pair.until_equal("before");

    // The path of the directory as the namespace sees it.
    let inside = PathBuf::from(format!("/proc/{}/root", pair.replica().pid())).join(dir.strip_prefix("/").unwrap());
    let filler = inside.join("filler");
    let mut file = File::create(&filler).unwrap();
    let full = loop {
        if let Err(error) = file.write_all(&[0; 1 << 16]) {
            break error;
        }
    };
    assert_eq!(full.kind(), ErrorKind::StorageFull);
    drop(file);
    let writer = pair.write();
    let mut client = pair.primary().connect();
    client.batch_execute("CREATE TABLE bulk (n int PRIMARY KEY, t text)").unwrap();
    for part in 0..12 {
        let bulk = format!(
            "INSERT INTO bulk SELECT n, repeat(n::text || ' and more ', 140) FROM generate_series({}, {}) AS n",
            part * 1000,
            part * 1000 + 999
        );
        client.batch_execute(&bulk).unwrap();
    }
    let start = Stopwatch::start();
    while !pair.there.log().contains("not following") {
        assert!(start.elapsed() < PATIENCE, "the disk is not full\n{}", pair.logs());
        thread::sleep(LOOK_EVERY);
    }
    writer.until_more(20, "a full replica");
    let rows: i64 = value(&mut pair.replica().connect(), "SELECT count(*) FROM ledger");
    assert!(rows > 0, "the full replica answers with what it has");
    fs::remove_file(&filler).unwrap();
    pair.settle(writer, "once there is room");
}
