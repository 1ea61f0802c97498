//! [`WitnessServer`]: the port of a witness, which answers questions about terms and keeps no data.

use std::{net::SocketAddr, path::Path, sync::Arc};

use collie_env::{Env, FileLock};
use collie_replica::{
    key::{KEY_FILE, KeyFile},
    packet::{TermKind, TermPacket},
    standby::cluster_text,
    term::{Witness, answer},
};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    select,
    sync::{oneshot, watch},
    task::{JoinSet, block_in_place},
    time::{Duration, sleep},
};

use super::{
    guard::{Exchange, guard},
    key,
    peers::ANSWER_TIME,
    start_up::{Refusals, StartRequest, Strangers, What, admitted},
};
use crate::{ServeError, log_lines, stop_requests::StopRequests};

/// See the module's documentation.
pub struct WitnessServer {
    runtime: Runtime,
    listener: TcpListener,
    address: SocketAddr,
    stops: StopRequests,
    port: Arc<Port>,
    /// One process at a time has the directory.
    _lock: Option<Box<dyn FileLock>>,
}

/// The state that connections share.
struct Port {
    witness: Witness,
    key: KeyFile,
    env: Env,
    refusals: Refusals,
}

impl WitnessServer {
    /// Opens the witness in the directory `data`, which is made if it does not exist, and listens at `address`. All
    /// nodes must have the key of the file `key`, by default `replication.key` in `data`.
    ///
    /// # Errors
    /// The address is not on loopback or not free; another process has the directory, or it cannot be used; there is no
    /// key.
    pub fn start(address: SocketAddr, data: &Path, key: Option<&Path>) -> Result<Self, ServeError> {
        Self::begin(Env::real(), address, data, key, |runtime| runtime.block_on(async { StopRequests::catch() }))
    }

    /// Does the same with files, clock and random numbers of the caller, for a program that simulates them. No signal
    /// is caught: [`WitnessServer::run`] ends once `stop` becomes true.
    ///
    /// # Errors
    /// Those of [`WitnessServer::start`].
    pub fn start_in(
        env: Env,
        stop: watch::Receiver<bool>,
        address: SocketAddr,
        data: &Path,
        key: Option<&Path>,
    ) -> Result<Self, ServeError> {
        Self::begin(env, address, data, key, |_| Ok(StopRequests::Program(stop)))
    }

    fn begin(
        env: Env,
        address: SocketAddr,
        data: &Path,
        key: Option<&Path>,
        stops: impl FnOnce(&Runtime) -> Result<StopRequests, ServeError>,
    ) -> Result<Self, ServeError> {
        let flag = "--listen";
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address, flag });
        }
        let failed = |operation, source| ServeError::Io { operation, what: data.display().to_string(), source };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|source| failed("start worker threads for", source))?;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .map_err(|source| ServeError::listening(address, flag, source))?;
        let address = listener.local_addr().map_err(|source| failed("look up the address of", source))?;
        // The lock is next to the directory: nothing is written into that of a database.
        let lock = guard(data, Exchange::Possible, &env)?;
        let key = KeyFile::new(&env, key.map_or_else(|| data.join(KEY_FILE), Path::to_owned));
        key::demand(&key)?;
        let witness = Witness::open(&env, data).map_err(|error| ServeError::Open(error.into()))?;
        let stops = stops(&runtime)?;
        let port = Arc::new(Port { witness, key, env, refusals: Refusals::default() });
        Ok(Self { runtime, listener, address, stops, port, _lock: lock })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns a line about what it remembers.
    pub fn summary(&self) -> String {
        let state = self.port.witness.state();
        let promised = self.port.witness.promised();
        match (state.cluster_id, state.leader.node) {
            (0, _) => "a new witness: it belongs to the first database whose node asks".to_owned(),
            (cluster, 0) => format!("witness of database {cluster:032x}; promised term {promised}"),
            (cluster, node) => format!(
                "witness of database {cluster:032x}; promised term {promised}; node {node:016x} acknowledges commits alone"
            ),
        }
    }

    /// Answers questions until SIGTERM or SIGINT, or until the caller of [`WitnessServer::start_in`] ends it. Every
    /// promise is on disk before it is answered, so that nothing has to be done at the end.
    pub fn run(self) {
        let Self { runtime, listener, mut stops, port, .. } = self;
        runtime.block_on(async move {
            let (mut connections, mut strangers) = (JoinSet::new(), Strangers::default());
            loop {
                select! {
                    accepted = listener.accept() => match accepted {
                        Ok((socket, address)) => {
                            strangers.make_room();
                            let (stranger, known) = oneshot::channel();
                            let serving = port.clone().connection(socket, address, stranger);
                            strangers.add(known, connections.spawn(serving));
                        }
                        // No descriptor is free, or the peer has left already: the loop retries in a moment.
                        Err(_) => sleep(Duration::from_millis(50)).await,
                    },
                    Some(_) = connections.join_next(), if !connections.is_empty() => {}
                    () = stops.next() => break,
                }
            }
        });
    }
}

impl Port {
    async fn connection(self: Arc<Self>, socket: TcpStream, address: SocketAddr, stranger: oneshot::Sender<()>) {
        let unwanted = |asked: &StartRequest| match asked.what {
            What::Terms => self.unwanted(&asked.cluster),
            What::Stream => Some("this node is a witness: it has no data, and takes no replicas"),
        };
        let refusals = (&self.refusals, &self.env);
        if let Some((_, socket)) = admitted(socket, (address, stranger), &self.key, refusals, unwanted).await {
            let decide = |asked: &_| self.decide(asked).map_err(|error| error.to_string());
            // The peer retries if it receives no answer.
            let _gone = answer(socket, ANSWER_TIME, decide).await;
        }
    }

    /// Returns why a node of this database is not wanted; the node has proved that it has the key.
    fn unwanted(&self, cluster: &str) -> Option<&'static str> {
        let before = self.witness.state().cluster_id;
        let Ok(id) = u128::from_str_radix(cluster, 16) else { return Some("expected the id of a database") };
        match block_in_place(|| self.witness.belongs_to(id)) {
            Ok(true) if before == 0 => {
                log_lines::note(&format_args!("witness of database {} from here on", cluster_text(id)));
                None
            }
            Ok(true) => None,
            Ok(false) => Some("this witness is of another database: use one for each"),
            Err(error) => {
                log_lines::warn(&error);
                Some("the witness cannot write its state")
            }
        }
    }

    fn decide(&self, asked: &TermPacket) -> Result<TermPacket, collie_engine::EngineError> {
        let before = self.witness.state().leader;
        let answer = self.witness.answer(asked)?;
        let leader = self.witness.state().leader;
        let (node, term) = (asked.node, asked.term);
        match (asked.kind, answer.kind) {
            (TermKind::Propose, TermKind::Promise) => {
                log_lines::note(&format_args!("promised term {term} to node {node:016x}"));
            }
            (TermKind::Propose, _) => {
                log_lines::warn(&format_args!("did not promise term {term} to node {node:016x}: {}", self.reason()));
            }
            _ if before.node == 0 && leader.node != 0 => log_lines::warn(&format_args!(
                "node {node:016x} acknowledges commits alone in term {term}, from {}: no other node can lead without it",
                leader.at
            )),
            _ if leader.node == 0 && (before.node != 0 || before.term != leader.term || !before.has_spoken()) => {
                log_lines::note(&format_args!(
                    "the quorum of node {node:016x}, which leads in term {term}, has every commit"
                ));
            }
            _ => {}
        }
        Ok(answer)
    }

    fn reason(&self) -> String {
        let leader = self.witness.state().leader;
        match leader.node {
            0 if !leader.has_spoken() => "no primary has spoken to this witness yet".to_owned(),
            0 => format!("term {} is promised", self.witness.promised()),
            node => format!("node {node:016x} acknowledges commits alone"),
        }
    }
}
