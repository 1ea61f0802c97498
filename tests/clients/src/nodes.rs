//! Nodes that know each other: any of them can be the leader, with the others as replicas.

use std::{thread, time::Duration};

use collie_netlab::Port;
use postgres::Client;

use crate::{Place, Server, Stopwatch, program};

/// The limit of every wait, far above the time that is needed on a slow, shared machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The names of the nodes.
const NAMES: [&str; 3] = ["a", "b", "c"];

/// Nodes that know each other.
pub struct Nodes {
    /// Their directories.
    pub places: Vec<Place>,
    /// The addresses where they listen for replicas.
    pub addresses: Vec<String>,
    /// Reserves the ports while no node listens on them.
    _ports: Vec<Port>,
}

impl Nodes {
    /// Creates `count` nodes, at most three, and starts none.
    ///
    /// # Panics
    /// When there is no free port.
    pub fn new(count: usize) -> Self {
        let ports: Vec<Port> = (0..count).map(|_| Port::keep().expect("a free port")).collect();
        let addresses = ports.iter().map(|port| port.address().to_string()).collect();
        Self { places: (0..count).map(|_| Place::new()).collect(), addresses, _ports: ports }
    }

    /// Starts a node with the arguments that every start of it has, and with `more`.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(&self, node: usize, more: &[&str]) -> Server {
        let others = (0..self.addresses.len()).filter(|other| *other != node);
        let peers: Vec<String> = others.map(|other| format!("{}={}", NAMES[other], self.addresses[other])).collect();
        let slot = format!("replication.slot={}", NAMES[node]);
        let peers = format!("replication.peers={}", peers.join(","));
        let all = [&["--replica-listen", &self.addresses[node], "--set", &slot, "--set", &peers], more].concat();
        Server::start_with(&self.places[node], &all)
    }

    /// Promotes the first of two replicas or, if that is refused because the other one has more of the log, the other
    /// one: which of them has more when their primary is killed depends on the machine. Returns the new leader and the
    /// other node.
    ///
    /// # Panics
    /// If neither is promoted.
    pub fn promote_either<'s>(&self, servers: [&'s Server; 2], names: [&str; 2]) -> (&'s Server, &'s Server) {
        let [one, other] = servers;
        let tried = program::collie(&["promote", &one.url()], "");
        if tried.code == Some(0) {
            return (one, other);
        }
        let further = format!("{} has come further", names[1]);
        assert!(tried.err.contains(&further), "{}{}\n{}", tried.out, tried.err, self.logs());
        program::collie(&["promote", &other.url()], "").ok();
        (other, one)
    }

    /// Returns what all nodes wrote to standard error.
    pub fn logs(&self) -> String {
        self.places.iter().zip(NAMES).map(|(place, name)| format!("--- {name}:\n{}", place.log())).collect()
    }

    /// Waits until `done` returns true.
    ///
    /// # Panics
    /// After [`PATIENCE`], with `what` and the logs.
    pub fn until(&self, what: &str, mut done: impl FnMut() -> bool) {
        let start = Stopwatch::start();
        while !done() {
            assert!(start.elapsed() < PATIENCE, "{what}\n{}", self.logs());
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until `server` shows exactly these numbers in the table `notes`.
    ///
    /// # Panics
    /// As [`Nodes::until`].
    pub fn until_shown(&self, what: &str, server: &Server, expected: &[i32]) {
        self.until(what, || {
            let found = server.config().connect(postgres::NoTls).and_then(|mut client| numbers(&mut client));
            found.is_ok_and(|found| found == expected)
        });
    }
}

/// Returns the numbers in the table `notes`.
///
/// # Errors
/// The server's.
pub fn numbers(client: &mut Client) -> Result<Vec<i32>, postgres::Error> {
    Ok(client.query("SELECT n FROM notes ORDER BY n", &[])?.iter().map(|row| row.get(0)).collect())
}

/// Inserts numbers into the table `notes`, each in its own transaction.
///
/// # Panics
/// If an insert fails.
pub fn put(client: &mut Client, numbers: std::ops::Range<i32>) {
    for n in numbers {
        client.execute("INSERT INTO notes VALUES ($1)", &[&n]).expect("it is written");
    }
}
