//! The port that replicas connect to: one implementation of the start-up for both ports, the stream is `replica`'s.
//!
//! # Invariants
//! - N1. A peer has 10 s and one start-up message to say that it is a replica; more is not read before.
//! - N2. Whatever a connection does, it ends alone.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use collie_engine::EngineError;
use collie_env::Env;
use collie_replica::{
    LinkError,
    database::{EngineSource, SlotOptions},
    packet::{TermKind, TermPacket},
    primary::{Handing, Slots, Source as _, StreamOptions, Synchronous, serve},
    reads::ReadFeed,
    standby::{CLUSTER, STREAM, TERMS, cluster_text},
    term::answer,
};
use collie_sql::{error::SqlState, session::Replication};
use collie_wire::{Frontend, Input, Notice, Output, STARTUP_BYTES_MAX, Severity, TransactionStatus};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    select,
    sync::watch,
    task::{JoinSet, block_in_place},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    candidate::Node,
    peers::ANSWER_TIME,
    quorum_watch::QuorumWatch,
    redundancy::Redundancy,
    role::name_of,
    shown::{Shown, SlotLimits},
};
use crate::{ServeError, config::Config};

/// From accept to the end of the start-up.
const STARTUP_TIME: Duration = Duration::from_secs(10);

/// How often it is looked whether slots are at their limits.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What serves replicas.
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
    quorum: Arc<QuorumWatch>,
    handing: Arc<Handing>,
}

impl Replicas {
    /// Listens for replicas of `node`, whose database is open in `data` and gives sampled reads to `reads`, and for questions about terms. As long as it follows
    /// itself, it takes no replicas.
    ///
    /// # Errors
    /// The address is not on loopback, or not free.
    pub(crate) fn bind(
        runtime: &Runtime,
        address: SocketAddr,
        config: &Config,
        node: Node,
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
        let handing = Arc::new(Handing::new((!can_follow).then_some(cannot)));
        // Who is asked is said once it leads.
        let synchronous = Synchronous::led_by(&name_of(config, node.db.node_id()), replication.degrade);
        let mut source = EngineSource::new(node.db.clone(), data, env.clone(), slot)
            .going_by(node.terms.clone())
            .with_quorum(synchronous.clone(), replication.show_applied)
            .handing_over(handing.clone());
        if let Some(reads) = reads {
            source = source.sampling(reads);
        }
        let source = Arc::new(source);
        let redundancy = Redundancy::new(source.clone(), synchronous, replication.quorum.clone(), env.clone());
        let options = StreamOptions {
            heartbeat: replication.heartbeat,
            timeout: replication.timeout,
            window_bytes: replication.window_bytes,
            slots_max: replication.slots_max,
            verify: replication.verify,
            backup_bytes_per_s: replication.backup_bytes_per_s,
        };
        let (slots, notice) = Slots::open(env.clone(), data, source.held());
        notice.iter().for_each(|notice| eprintln!("{notice}"));
        let limits = SlotLimits { bytes: replication.slot_bytes, age: replication.slot_age };
        let (redundancy, slots, quorum) = (Arc::new(redundancy), Arc::new(slots), Arc::default());
        Ok(Self { listener, address, source, redundancy, slots, limits, options, env, node, quorum, handing })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what decides whether the node hands over.
    pub(crate) fn handing(&self) -> Arc<Handing> {
        self.handing.clone()
    }

    /// Answers what another node says of terms.
    fn decide(&self, asked: &TermPacket) -> Result<TermPacket, EngineError> {
        let terms = &self.node.terms;
        if asked.kind == TermKind::Succeed
            && !self.handing.succeed(asked.node, self.env.clock.now_ns())
            && !terms.is_promised_to(asked.term, asked.node)
        {
            return Ok(terms.packet(TermKind::Refuse, terms.promised(), &self.node.standing()?));
        }
        terms.answer(asked, || self.node.standing())
    }

    /// Returns what views and functions about replication ask.
    pub(crate) fn shown(&self) -> Box<dyn Replication> {
        Box::new(self.standing())
    }

    fn standing(&self) -> Shown {
        let (slots, source, env) = (self.slots.clone(), self.source.clone(), self.env.clone());
        let (redundancy, quorum) = (self.redundancy.clone(), self.quorum.clone());
        Shown { slots, source, redundancy, limits: self.limits, env, quorum }
    }

    /// Serves whoever comes until `stopping` turns true.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut heartbeats = interval(this.options.heartbeat);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let standing = this.standing();
        let mut looks = interval(LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            select! {
                _ = looks.tick() => {
                    let keep = || this.slots.keep(&*this.source, this.limits.age, this.env.clock.now_ns());
                    block_in_place(keep).iter().for_each(|news| eprintln!("{news}"));
                }
                _ = heartbeats.tick() => {
                    let now_ns = this.env.clock.now_ns(); // before the position (`Marks::pass`)
                    this.slots.beat(this.source.durable(), now_ns);
                    block_in_place(|| this.redundancy.keep());
                    let _since_when = standing.quorum();
                }
                accepted = this.listener.accept() => match accepted {
                    Ok((socket, address)) => {
                        connections.spawn(this.clone().connection(socket, address, stopping.clone()));
                    }
                    // Out of descriptors, or the peer is gone again: try again in a moment.
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
            eprintln!("the list of replication slots cannot be written: {error}");
        }
    }

    async fn connection(self: Arc<Self>, mut socket: TcpStream, address: SocketAddr, stopping: watch::Receiver<bool>) {
        let _ = socket.set_nodelay(true);
        let Ok(Some((what, early))) = timeout(STARTUP_TIME, start(&mut socket, &self.node)).await else { return };
        if what == What::Terms {
            let decide = |asked: &_| self.decide(asked).map_err(|error| error.to_string());
            // Who asked asks again.
            let _gone = answer(socket, &early, ANSWER_TIME, decide).await;
            return;
        }
        let served = (self.source.clone(), self.slots.clone());
        let address = address.to_string();
        match serve(socket, &early, &address, served, self.options, self.env.clone(), stopping).await {
            Ok(()) | Err(LinkError::Closed | LinkError::Stopping) => {}
            Err(error) => eprintln!("replica at {address}: {error}"),
        }
    }
}

/// What a connection is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// The stream.
    Stream,
    /// One question about terms.
    Terms,
}

/// Goes through the start-up; returns what it is for and what came behind it, or `None` for somebody who is no replica, or comes to a
/// node that does not lead, and was told so.
async fn start(socket: &mut TcpStream, node: &Node) -> Option<(What, Vec<u8>)> {
    let (mut input, mut output) = (Input::new(STARTUP_BYTES_MAX), Output::new());
    let mut what = What::Stream;
    let refused = loop {
        match input.next() {
            Ok(None) => {
                if socket.read_buf(input.buffer()).await.ok()? == 0 {
                    return None;
                }
                continue;
            }
            Ok(Some(Frontend::SslRequest | Frontend::GssEncRequest)) => output.encryption_refused(),
            Ok(Some(Frontend::Startup(startup))) => {
                let has = |name: &str, value: &str| startup.parameters.contains(&(name, value));
                if has("replication", TERMS) && has("user", "collie") {
                    if has(CLUSTER, &cluster_text(node.db.cluster_id())) {
                        what = What::Terms;
                        break None;
                    }
                    break Some((SqlState::CANNOT_CONNECT_NOW, "this node is of another database"));
                }
                if has("replication", STREAM) && has("user", "collie") {
                    if node.leads() {
                        break None;
                    }
                    let message = "this node follows another one, and takes no replicas";
                    break Some((SqlState::CANNOT_CONNECT_NOW, message));
                }
                break Some((
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "this port takes replicas of Collie only: use --listen's",
                ));
            }
            Ok(Some(_)) | Err(_) => break Some((SqlState::PROTOCOL_VIOLATION, "expected a startup message")),
        }
        socket.write_all(output.bytes()).await.ok()?;
        output.clear();
    };
    if let Some((state, message)) = refused {
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
    } else {
        output.authentication_ok();
        output.ready_for_query(TransactionStatus::Idle);
    }
    socket.write_all(output.bytes()).await.ok()?;
    refused.is_none().then(|| (what, std::mem::take(input.buffer())))
}
