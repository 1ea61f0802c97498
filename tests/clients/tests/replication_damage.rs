//! Damage on a replica, planted in real processes: the replica cannot apply what it is sent, or differs from its
//! primary, or is damaged on its own disk. The damage is found, reported, and repaired where that is allowed.

use std::{
    fs,
    net::SocketAddr,
    os::unix::fs::FileExt as _,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    thread,
    time::Duration,
};

use collie_clients_tests::{Place, Server, Starting, Stopwatch, program, session::value};
use collie_netlab::{Forger, Sealed};
use postgres::{Client, NoTls};

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bytes of a data packet before its records (docs/replication-protocol.md).
const DATA_HEAD_BYTES: usize = 52;

/// Marks the rows whose commit is changed on the way to the replica.
const MARK: &[u8] = b"a planted mistake";

/// A primary, a replica, and the forger that changes packets between them.
struct Pair {
    // Dropped before its directory, since a running server would leave files there.
    primary: Server,
    here: Place,
    there: Place,
    forger: Forger,
    /// The number of packets that are still to be changed; 255 means all.
    left: Arc<AtomicU8>,
}

impl Pair {
    /// Starts a primary, and a forger that applies `change` to data packets as long as `left` is above 0; `change`
    /// returns whether it changed the packet.
    fn new(more: &[&str], change: fn(&mut [u8]) -> bool, sealed: Sealed) -> Self {
        let (here, there) = (Place::new(), Place::new());
        let common = ["--replica-listen", "127.0.0.1:0", "--set", "replication.timeout=1s"];
        let primary = Server::start_with(&here, &[&common[..], more].concat());
        let address: SocketAddr = Server::replica_address(&here).parse().expect("an address");
        let left = Arc::new(AtomicU8::new(0));
        let counted = left.clone();
        let forge = move |letter: u8, payload: &mut [u8]| {
            let now = counted.load(Ordering::SeqCst);
            if letter != b'D' || now == 0 || !change(payload) {
                return Sealed::Again;
            }
            if now < u8::MAX {
                counted.store(now - 1, Ordering::SeqCst);
            }
            sealed
        };
        let forger = Forger::start(address, Arc::new(forge)).expect("a free port");
        primary.connect().batch_execute("CREATE TABLE notes (n int PRIMARY KEY, t text)").expect("it is SQL");
        Self { here, there, primary, forger, left }
    }

    fn replica(&self, more: &[&str]) -> Server {
        let address = self.forger.address().to_string();
        let common = ["--replica-of", &address, "--set", "replication.slot=north", "--set", "replication.timeout=1s"];
        Server::start_with(&self.there, &[&common[..], more].concat())
    }

    fn insert(&self, n: i32, t: &str) {
        self.primary.connect().execute("INSERT INTO notes VALUES ($1, $2)", &[&n, &t]).expect("the primary writes");
    }

    fn logs(&self) -> String {
        format!("--- primary:\n{}--- replica:\n{}---", self.here.log(), self.there.log())
    }

    /// Waits until `found` returns true.
    fn until(&self, what: &str, mut found: impl FnMut() -> bool) {
        let start = Stopwatch::start();
        while !found() {
            assert!(start.elapsed() < PATIENCE, "waited in vain: {what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the replica has every row of the primary; during a rebuild it accepts no session.
    fn until_equal(&self, copy: &Server) {
        let expected: String = value(&mut self.primary.connect(), SUM);
        self.until("equal rows", || {
            let asked = copy.config().connect(NoTls).and_then(|mut client| client.query_one(SUM, &[]));
            asked.is_ok_and(|row| row.get::<_, Option<String>>(0).as_ref() == Some(&expected))
        });
    }

    fn slot(&self, column: &str) -> String {
        let sql = format!("SELECT coalesce({column}::text, '') FROM collie_slots WHERE slot = 'north'");
        value(&mut self.primary.connect(), &sql)
    }
}

const SUM: &str = "SELECT count(*) || ' ' || coalesce(sum(n), 0) || ' ' || coalesce(string_agg(t, ','), '') FROM notes";

/// Returns the range of the payload of a packet's first record that contains [`MARK`], if there is one.
fn marked(payload: &[u8]) -> Option<(usize, usize)> {
    let mut at = DATA_HEAD_BYTES;
    while at < payload.len() {
        let (mut bytes, mut shift) = (0_usize, 0);
        loop {
            let byte = *payload.get(at)?;
            at += 1;
            bytes |= usize::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                break;
            }
        }
        let (begin, end) = (at + 1, at + 1 + bytes); // after kind and tag
        if payload.get(begin..end)?.windows(MARK.len()).any(|window| window == MARK) {
            return Some((begin, end));
        }
        at = end;
    }
    None
}

/// Changes a marked COMMIT so that it names two chunks, which do not exist.
fn takes_chunks_away(payload: &mut [u8]) -> bool {
    let Some((begin, _)) = marked(payload) else { return false };
    // The fields are version, id of the transaction, number of chunks.
    let mut at = begin + 1;
    while payload[at] >= 0x80 {
        at += 1;
    }
    assert_eq!(payload[at + 1], 0, "a small commit has no chunks");
    payload[at + 1] = 2;
    true
}

/// Changes a letter of a marked row.
fn changes_a_row(payload: &mut [u8]) -> bool {
    let Some((begin, end)) = marked(payload) else { return false };
    let at = payload[begin..end].windows(MARK.len()).position(|window| window == MARK).expect("it is marked");
    payload[begin + at] = b'A';
    true
}

/// Changes the positions of the records by one.
fn moves_records(payload: &mut [u8]) -> bool {
    payload[8] ^= 1;
    payload[16] ^= 1;
    true
}

/// Flips a bit.
fn flips_a_bit(payload: &mut [u8]) -> bool {
    payload[DATA_HEAD_BYTES] ^= 4;
    true
}

/// Goal: a replica that cannot apply a record rebuilds itself, says where and why, and is whole. If that happens again
/// soon, it stops, goes on serving what was applied before, and both nodes report it; a restart makes it whole. Method:
/// a commit that lacks its chunks, once; then one that lacks them each time it is sent.
#[test]
fn a_replica_that_cannot_apply_what_came_heals_itself_once() {
    let pair = Pair::new(&[], takes_chunks_away, Sealed::Again);
    let copy = pair.replica(&[]);
    pair.insert(1, "well");
    pair.until_equal(&copy);
    pair.left.store(1, Ordering::SeqCst);
    pair.insert(2, "a planted mistake, once");
    pair.until("the replica to be rebuilt", || pair.there.log().contains("rebuilding it"));
    pair.until_equal(&copy);
    let log = pair.there.log();
    assert!(log.contains("replay has stopped at 0/") && log.contains("a part is missing"), "{log}");
    pair.until("the mark to go", || pair.slot("state") == "streaming" && pair.slot("problem").is_empty());

    pair.left.store(u8::MAX, Ordering::SeqCst);
    pair.insert(3, "a planted mistake, always");
    pair.until("the replica to stop", || pair.there.log().contains("it was rebuilt"));
    let mut client = copy.connect();
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM notes"), 2, "what was applied before is read on");
    let problem: String = value(&mut client, "SELECT problem FROM collie_node");
    assert!(problem.contains("replay has stopped at 0/") && problem.contains("look at the memory"), "{problem}");
    pair.until("the slot to be marked", || pair.slot("state") == "stopped");
    assert!(pair.slot("problem").contains("a part is missing"), "{}", pair.slot("problem"));
    pair.insert(4, "the primary goes on");
    for url in [copy.url(), pair.primary.url()] {
        let status = program::collie(&["status", &url], "");
        assert!(status.code != Some(0) && status.out.contains("a part is missing"), "{status:?}");
    }
    pair.left.store(0, Ordering::SeqCst);
    assert_eq!(copy.stop().code(), Some(0), "{}", pair.there.log());
    let copy = pair.replica(&[]);
    pair.until_equal(&copy);
    pair.there.until_said("this directory does not open, and is rebuilt");
}

/// Goal: without permission to rebuild, a replica that cannot apply a record stops and goes on serving reads; when it
/// is started again, it is refused with the remedy; with permission it is made whole. Method: the same damage under
/// `replication.auto_rebuild=false`.
#[test]
fn a_replica_that_may_not_heal_itself_stands_and_says_what_to_do() {
    let pair = Pair::new(&[], takes_chunks_away, Sealed::Again);
    let by_hand = ["--set", "replication.auto_rebuild=false"];
    let copy = pair.replica(&by_hand);
    pair.insert(1, "well");
    pair.until_equal(&copy);
    pair.left.store(1, Ordering::SeqCst);
    pair.insert(2, "a planted mistake, once");
    pair.until("the replica to stop", || pair.there.log().contains("replay has stopped at 0/"));
    let mut client = copy.connect();
    assert_eq!(value::<i64>(&mut client, "SELECT count(*) FROM notes"), 1);
    assert_eq!(pair.there.log().matches("replay has stopped").count(), 1, "once: {}", pair.there.log());
    assert_eq!(copy.stop().code(), Some(0), "{}", pair.there.log());
    let address = pair.forger.address().to_string();
    let arguments = [&["--replica-of", &address][..], &by_hand].concat();
    let refused = Server::refused(&pair.there.data(), &arguments);
    assert!(refused.line().contains("replication.auto_rebuild=true"), "{refused:?}");
    let copy = pair.replica(&[]);
    pair.until_equal(&copy);
}

/// Goal: damage in a replica's own files is found at its start, and the replica is rebuilt, as the same node. Method:
/// bytes of its log are changed while it is down, with more log after them.
#[test]
fn a_replica_whose_own_log_is_damaged_heals_itself() {
    let pair = Pair::new(&[], |_| false, Sealed::Again);
    let copy = pair.replica(&[]);
    for n in 0..20 {
        pair.insert(n, "well");
        pair.until_equal(&copy);
    }
    let node = pair.slot("node");
    assert_eq!(copy.stop().code(), Some(0), "{}", pair.there.log());
    let mut segments: Vec<_> =
        fs::read_dir(pair.there.data().join("wal")).unwrap().flatten().map(|file| file.path()).collect();
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    segments.sort();
    let file = fs::File::options().read(true).write(true).open(&segments[0]).unwrap();
    // After the header block and the first frame: a byte after the head of each of several frames.
    for at in (2..8).map(|block| block * 4096 + 68) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
    let copy = pair.replica(&[]);
    pair.there.until_said("this directory does not open, and is rebuilt");
    pair.until_equal(&copy);
    pair.until("the same node", || pair.slot("node") == node && pair.slot("state") == "streaming");
}

/// Goal: rows or log bytes that differ from the primary's are found while the replica runs: it stops, keeps the
/// difference, is not opened again, and its slot reports it; before, both comparisons found the nodes equal. Method: a
/// letter of a row is changed on its way, under comparisons every 100 ms.
#[test]
fn a_replica_that_differs_stops_and_is_not_opened_again() {
    let pair = Pair::new(&["--set", "replication.verify=100ms"], changes_a_row, Sealed::Again);
    let copy = pair.replica(&[]);
    pair.insert(1, "well");
    pair.until_equal(&copy);
    let mut client = pair.primary.connect();
    let verified = "SELECT coalesce(bool_and(verified_lsn IS NOT NULL AND log_verified_lsn IS NOT NULL), false) FROM collie_replication";
    pair.until("both comparisons", || value::<bool>(&mut client, verified));
    pair.left.store(1, Ordering::SeqCst);
    pair.insert(2, "a planted mistake, once");
    pair.until("the replica to stop", || pair.there.log().contains("this directory must not be read"));
    pair.until("the slot to be marked", || pair.slot("state") == "stopped");
    assert!(pair.slot("problem").contains("slot north") && pair.slot("problem").contains("from the primary's"));
    assert!(pair.there.data().join("state-differs").exists());
    drop(copy);
    let refused = Server::refused(&pair.there.data(), &["--replica-of", &pair.forger.address().to_string()]);
    assert!(refused.line().contains("state-differs says"), "{refused:?}");
    pair.insert(3, "the primary goes on");
}

/// Goal: records that do not continue the previous ones, and damaged packets, write nothing. After the third at one
/// position the slot is marked, which is logged once and shown by `collie status`; when records pass again, the mark
/// goes and nothing is lost. Method: the positions of every data packet are changed; then a bit is flipped in every
/// one.
#[test]
fn faults_at_one_position_are_an_alarm_until_it_is_passed() {
    let ways = [(moves_records as fn(&mut [u8]) -> bool, Sealed::Again), (flips_a_bit, Sealed::AsItWas)];
    for (change, sealed) in ways {
        let pair = Pair::new(&[], change, sealed);
        let copy = pair.replica(&[]);
        pair.insert(1, "well");
        pair.until_equal(&copy);
        pair.left.store(u8::MAX, Ordering::SeqCst);
        pair.insert(2, "does not arrive");
        pair.until("the mark", || pair.slot("state") == "failing");
        assert!(pair.slot("problem").contains("streams end at 0/"), "{}", pair.slot("problem"));
        let status = program::collie(&["status", &pair.primary.url()], "");
        assert!(status.code != Some(0) && status.out.contains("the replica of north is failing"), "{status:?}");
        assert_eq!(value::<i64>(&mut copy.connect(), "SELECT count(*) FROM notes"), 1);
        pair.until("the alarm", || pair.here.log().contains("replication slot north is failing"));
        pair.left.store(0, Ordering::SeqCst);
        pair.until_equal(&copy);
        pair.until("the mark to go", || pair.slot("state") == "streaming");
        assert_eq!(pair.here.log().matches("replication slot north is failing").count(), 1, "{}", pair.logs());
        assert!(!pair.there.log().contains("rebuilding it"), "{}", pair.logs());
    }
}

/// Goal: of two servers on one replica's directory the second is refused, also while the first has no open database in
/// it. Method: a server that waits for a primary that does not exist to fill an empty directory; a second one; the end
/// of the first.
#[test]
fn two_servers_do_not_fill_one_directory() {
    let place = Place::new();
    // No primary listens at this address.
    let arguments = ["--replica-of", "127.0.0.1:1"];
    let first = Starting::begin(&place, &[], &arguments);
    let start = Stopwatch::start();
    while !place.log().contains("no base backup") {
        assert!(start.elapsed() < PATIENCE, "{}", place.log());
        thread::sleep(Duration::from_millis(20));
    }
    for second in [&arguments[..], &[]] {
        let refused = Server::refused(&place.data(), second);
        assert!(refused.line().contains("one server at a time has a directory"), "{refused:?}");
    }
    first.kill();
    let server = Server::start(&place);
    let mut client: Client = server.connect();
    assert_eq!(value::<i32>(&mut client, "SELECT 1"), 1);
}
