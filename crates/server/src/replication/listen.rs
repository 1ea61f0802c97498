//! The port for replicas: it implements PostgreSQL's start-up for the stream and for questions about terms; crate
//! `replica` implements the stream.
//!
//! # Invariants
//! - N1. A peer has 10 s for one start-up message and the proof that it has the replication key (`key` of `replica`);
//!   nothing else is read before that, and no term, slot or data is revealed, queried or changed. There are at most
//!   [`STRANGERS_MAX`] such peers: one more ends the oldest of them, so that silent peers keep no other out.
//! - N2. A failing connection ends no other.

use std::{collections::VecDeque, net::SocketAddr, sync::Arc, time::Duration};

use collie_engine::EngineError;
use collie_env::Env;
use collie_replica::{
    LinkError,
    database::{EngineSource, SlotOptions},
    key::{KeyFile, Mistrusted, Purpose, SessionKeys, Trusted, admit},
    packet::{TermKind, TermPacket},
    primary::{Slots, Source as _, StreamOptions, Switchover, Synchronous, serve},
    reads::ReadFeed,
    standby::{CLUSTER, STREAM, TERMS, cluster_text},
    term::answer,
};
use collie_sql::{error::SqlState, session::Replication};
use collie_wire::{Frontend, Input, Notice, Output, STARTUP_BYTES_MAX, Severity, TransactionStatus};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    select,
    sync::{
        oneshot::{self, error::TryRecvError},
        watch,
    },
    task::{AbortHandle, JoinSet, block_in_place},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    candidate::Node,
    lead_check::LeadCheck,
    peers::ANSWER_TIME,
    quorum_watch::QuorumWatch,
    redundancy::Redundancy,
    role::name_of,
    shown::{Shown, SlotLimits},
};
use crate::{ServeError, config::Config, log_lines};

/// The time from accept to the end of the start-up.
const STARTUP_TIME: Duration = Duration::from_secs(10);

/// The maximum number of connections that have not proved that they have the key.
const STRANGERS_MAX: usize = 64;

/// The least time between two log lines about refused connections.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// The time between two checks of the slots against their limits.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The port of a node that serves replicas.
pub(crate) struct Replicas {
    listener: TcpListener,
    address: SocketAddr,
    source: Arc<EngineSource>,
    redundancy: Arc<Redundancy>,
    slots: Arc<Slots>,
    limits: SlotLimits,
    options: StreamOptions,
    env: Env,
    node: Node,
    key: KeyFile,
    quorum: Arc<QuorumWatch>,
    handing: Arc<Switchover>,
    refused: Mutex<Refused>,
}

/// Recently refused connections.
#[derive(Debug, Default)]
struct Refused {
    /// The time of the last log line.
    told_ns: Option<u64>,
    /// The number of refused connections since.
    untold: u64,
}

impl Replicas {
    /// Listens for replicas of `node`, whose database is open in `data` and passes sampled reads to `reads`, and for
    /// questions about terms; all peers must have the key of the file `key`. While the node itself follows, it accepts
    /// no replicas.
    ///
    /// # Errors
    /// The address is not on loopback, or not free; [`ServeError::NewerSlots`].
    pub(crate) fn bind(
        runtime: &Runtime,
        address: SocketAddr,
        config: &Config,
        (node, lead, key): (Node, Arc<LeadCheck>, KeyFile),
        (data, reads): (&std::path::Path, Option<Arc<ReadFeed>>),
        env: Env,
    ) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address, flag: "--replica-listen" });
        }
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AddrInUse => ServeError::AddressInUse { address, flag: "--replica-listen" },
            _ => ServeError::Io { operation: "listen on", what: address.to_string(), source },
        };
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let replication = &config.replication;
        let slot = SlotOptions { slot_bytes: replication.slot_bytes, flush_delay: replication.flush_delay };
        let can_follow = replication.primary.is_some() || !replication.peers.0.is_empty();
        let cannot = "it could not follow: name the other nodes in its replication.peers".to_owned();
        let handing = Arc::new(Switchover::new((!can_follow).then_some(cannot)));
        // The quorum configuration is set once the node leads.
        let synchronous = Synchronous::led_by(&name_of(config, node.db.node_id()), replication.degrade);
        let mut source = EngineSource::new(node.db.clone(), data, env.clone(), slot)
            .going_by(node.terms.clone())
            .with_quorum(synchronous.clone(), replication.show_applied)
            .handing_over(handing.clone());
        if let Some(reads) = reads {
            source = source.sampling(reads);
        }
        let source = Arc::new(source);
        let asked = (synchronous, replication.quorum.clone(), replication.majority_list());
        let redundancy = Redundancy::new(source.clone(), asked, lead, env.clone());
        let options = StreamOptions {
            heartbeat: replication.heartbeat,
            timeout: replication.timeout,
            window_bytes: replication.window_bytes,
            slots_max: replication.slots_max,
            verify: replication.verify,
            backup_bytes_per_s: replication.backup_bytes_per_s,
        };
        let (slots, notice) = Slots::open(env.clone(), data, source.held())?;
        notice.iter().for_each(|notice| log_lines::note(&notice));
        let limits = SlotLimits { bytes: replication.slot_bytes, age: replication.slot_age };
        let (redundancy, slots, quorum) = (Arc::new(redundancy), Arc::new(slots), Arc::default());
        Ok(Self {
            listener,
            address,
            source,
            redundancy,
            slots,
            limits,
            options,
            env,
            node,
            key,
            quorum,
            handing,
            refused: Mutex::default(),
        })
    }

    /// Returns the address on which the port listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the object that decides whether the node hands over.
    pub(crate) fn handing(&self) -> Arc<Switchover> {
        self.handing.clone()
    }

    /// Returns the answer to another node's message about terms.
    fn decide(&self, asked: &TermPacket) -> Result<TermPacket, EngineError> {
        let terms = &self.node.terms;
        if terms.is_absurd(asked.term) {
            let (node, term, promised) = (asked.node, asked.term, terms.promised());
            log_lines::warn(&format_args!(
                "node {node:016x} speaks of term {term}, which is not to be believed behind term {promised}: refused"
            ));
        }
        if asked.kind == TermKind::Succeed
            && !self.handing.succeed(asked.node, self.env.clock.now_ns())
            && !terms.is_promised_to(asked.term, asked.node)
        {
            return Ok(terms.packet(TermKind::Refuse, terms.promised(), &self.node.standing()?));
        }
        terms.answer(asked, || self.node.standing())
    }

    /// Logs why a connection was refused, at most once per [`TELL_EVERY`], so that a peer that retries forever does not
    /// fill a disk.
    fn tell(&self, address: SocketAddr, why: &str) {
        let now_ns = self.env.clock.now_ns();
        let mut refused = self.refused.lock();
        let is_due =
            refused.told_ns.is_none_or(|told| u128::from(now_ns.saturating_sub(told)) >= TELL_EVERY.as_nanos());
        if !is_due {
            refused.untold += 1;
            return;
        }
        let more = match std::mem::take(&mut refused.untold) {
            0 => String::new(),
            count => format!("; {count} more before were not let in either"),
        };
        refused.told_ns = Some(now_ns);
        log_lines::warn(&format_args!("connection from {address}: {why}{more}"));
    }

    /// Returns the data for views and functions about replication.
    pub(crate) fn shown(&self) -> Box<dyn Replication> {
        Box::new(self.standing())
    }

    fn standing(&self) -> Shown {
        let (slots, source, env) = (self.slots.clone(), self.source.clone(), self.env.clone());
        let (redundancy, quorum) = (self.redundancy.clone(), self.quorum.clone());
        Shown { slots, source, redundancy, limits: self.limits, env, quorum }
    }

    /// Serves connections until `stopping` turns true.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut strangers: VecDeque<(oneshot::Receiver<()>, AbortHandle)> = VecDeque::new();
        let mut heartbeats = interval(this.options.heartbeat);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let standing = this.standing();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            select! {
                _ = looks.tick() => {
                    let keep = || this.slots.keep(&*this.source, this.limits.age, this.env.clock.now_ns());
                    block_in_place(keep).iter().for_each(|news| log_lines::note(&news));
                }
                _ = heartbeats.tick() => {
                    let now_ns = this.env.clock.now_ns(); // read before the position (`Slots::beat`)
                    this.slots.beat(&*this.source, now_ns);
                    block_in_place(|| this.redundancy.keep());
                    let _since_when = standing.quorum();
                }
                accepted = this.listener.accept() => match accepted {
                    Ok((socket, address)) => {
                        // A connection that has been admitted, or has ended, has dropped its sender.
                        strangers.retain_mut(|(known, _)| known.try_recv() == Err(TryRecvError::Empty));
                        if strangers.len() >= STRANGERS_MAX
                            && let Some((_, oldest)) = strangers.pop_front()
                        {
                            oldest.abort(); // N1
                        }
                        let (stranger, known) = oneshot::channel();
                        let serving = this.clone().connection(socket, address, stranger, stopping.clone());
                        strangers.push_back((known, connections.spawn(serving)));
                    }
                    // No descriptor is free, or the peer has left already: the loop retries in a moment.
                    Err(_) => sleep(Duration::from_millis(50)).await,
                },
                Some(_) = connections.join_next(), if !connections.is_empty() => {}
                changed = stopping.changed() => {
                    if changed.is_err() || *stopping.borrow() {
                        break;
                    }
                }
            }
        }
        while connections.join_next().await.is_some() {}
        if let Err(error) = block_in_place(|| this.slots.save()) {
            log_lines::warn(&format_args!("the list of replication slots cannot be written: {error}"));
        }
    }

    /// Serves one connection; `stranger` is dropped once the peer has proved that it has the key.
    async fn connection(
        self: Arc<Self>,
        mut socket: TcpStream,
        address: SocketAddr,
        stranger: oneshot::Sender<()>,
        stopping: watch::Receiver<bool>,
    ) {
        let _ = socket.set_nodelay(true);
        let started = timeout(STARTUP_TIME, start(&mut socket, &self.node, &self.key)).await;
        drop(stranger);
        let (what, keys) = match started {
            Ok(Ok(started)) => started,
            Ok(Err(NotStarted::Refused(why))) => return self.tell(address, &why),
            Ok(Err(NotStarted::Told)) | Err(_) => return,
        };
        let socket = Trusted::new(socket, keys);
        if what == What::Terms {
            let decide = |asked: &_| self.decide(asked).map_err(|error| error.to_string());
            // The peer retries if it receives no answer.
            let _gone = answer(socket, ANSWER_TIME, decide).await;
            return;
        }
        let served = (self.source.clone(), self.slots.clone());
        let address = address.to_string();
        match serve(socket, &address, served, self.options, self.env.clone(), stopping).await {
            Ok(()) | Err(LinkError::Closed | LinkError::Stopping) => {}
            Err(error) => log_lines::warn(&format_args!("replica at {address}: {error}")),
        }
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The stream.
    Stream,
    /// One question about terms.
    Terms,
}

/// The request of a start-up message.
struct StartRequest {
    what: What,
    /// Parameters `application_name` and `collie_cluster`.
    name: String,
    cluster: String,
}

/// The reason why a connection ends in its start-up.
enum NotStarted {
    /// The peer was notified, or has left.
    Told,
    /// The peer was notified, and the reason is to be logged.
    Refused(String),
}

/// Performs the start-up and the proofs (N1); returns the purpose of the connection, and the keys that seal its
/// packets. A peer without the key learns nothing else; a peer of another database, or a replica that connects to a
/// node that does not lead, receives the reason.
async fn start(socket: &mut TcpStream, node: &Node, key: &KeyFile) -> Result<(What, SessionKeys), NotStarted> {
    let asked = match startup(socket).await {
        Some(Ok(asked)) => asked,
        Some(Err((state, message))) => return refuse(socket, state, message, NotStarted::Told).await,
        None => return Err(NotStarted::Told),
    };
    let what = if asked.what == What::Terms { TERMS } else { STREAM };
    let purpose = Purpose { what, name: &asked.name, cluster: &asked.cluster };
    let keys = match admit(socket, key, &purpose).await {
        Ok(keys) => keys,
        Err(Mistrusted::Gone) => return Err(NotStarted::Told),
        Err(why) => {
            let line = if let Mistrusted::NoKey(error) = &why { error.to_string() } else { why.to_string() };
            return refuse(
                socket,
                SqlState::INVALID_AUTHORIZATION_SPECIFICATION,
                &why.to_string(),
                NotStarted::Refused(line),
            )
            .await;
        }
    };
    let unwanted = match asked.what {
        What::Terms if asked.cluster != cluster_text(node.db.cluster_id()) => Some("this node is of another database"),
        What::Stream if !node.leads() => Some("this node follows another one, and takes no replicas"),
        What::Terms | What::Stream => None,
    };
    if let Some(message) = unwanted {
        return refuse(socket, SqlState::CANNOT_CONNECT_NOW, message, NotStarted::Told).await;
    }
    let mut output = Output::new();
    output.authentication_ok();
    output.ready_for_query(TransactionStatus::Idle);
    socket.write_all(output.bytes()).await.map_err(|_| NotStarted::Told)?;
    Ok((asked.what, keys))
}

/// Sends the reason why the start-up ends to the peer.
async fn refuse<T>(socket: &mut TcpStream, state: SqlState, message: &str, why: NotStarted) -> Result<T, NotStarted> {
    let mut output = Output::new();
    output.notice(&Notice {
        severity: Severity::Fatal,
        sqlstate: state.as_str(),
        message,
        detail: None,
        hint: None,
        position: None,
        context: None,
        object: [None; 4],
    });
    let _gone = socket.write_all(output.bytes()).await;
    Err(why)
}

/// Reads a start-up message; returns an error if it is not that of a node, and `None` if the peer has left.
async fn startup(socket: &mut TcpStream) -> Option<Result<StartRequest, (SqlState, &'static str)>> {
    let (mut input, mut output) = (Input::new(STARTUP_BYTES_MAX), Output::new());
    let asked = loop {
        match input.next() {
            Ok(None) => {
                if socket.read_buf(input.buffer()).await.ok()? == 0 {
                    return None;
                }
                continue;
            }
            Ok(Some(Frontend::SslRequest | Frontend::GssEncRequest)) => output.encryption_refused(),
            Ok(Some(Frontend::Startup(startup))) => {
                let of = |name: &str| {
                    startup.parameters.iter().find(|(key, _)| *key == name).map_or("", |(_, value)| *value)
                };
                let what = match (of("replication"), of("user")) {
                    (TERMS, "collie") => What::Terms,
                    (STREAM, "collie") => What::Stream,
                    _ => {
                        let message = "this port takes replicas of Collie only: use --listen's";
                        break Err((SqlState::FEATURE_NOT_SUPPORTED, message));
                    }
                };
                let (name, cluster) = (of("application_name").to_owned(), of(CLUSTER).to_owned());
                break Ok(StartRequest { what, name, cluster });
            }
            Ok(Some(_)) | Err(_) => break Err((SqlState::PROTOCOL_VIOLATION, "expected a startup message")),
        }
        socket.write_all(output.bytes()).await.ok()?;
        output.clear();
    };
    // The peer must send nothing before it is asked for more.
    if asked.is_ok() && !input.buffer().is_empty() {
        return None;
    }
    Some(asked)
}
