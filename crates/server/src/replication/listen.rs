//! The port for replicas: the stream, which crate `replica` implements, and questions about terms.
//!
//! # Invariants
//! - N1 of `start_up.rs` holds for each connection.
//! - N2. A failing connection ends no other.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use collie_engine::EngineError;
use collie_env::Env;
use collie_replica::{
    LinkError,
    database::{EngineSource, SlotOptions},
    key::KeyFile,
    packet::{TermKind, TermPacket},
    primary::{Slots, Source as _, StreamOptions, Switchover, Synchronous, serve},
    reads::ReadFeed,
    standby::cluster_text,
    term::answer,
};
use collie_sql::session::Replication;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    select,
    sync::{oneshot, watch},
    task::{JoinSet, block_in_place},
    time::{MissedTickBehavior, interval, sleep},
};

use super::{
    candidate::Node,
    lead_check::LeadCheck,
    peers::ANSWER_TIME,
    quorum_watch::QuorumWatch,
    redundancy::Redundancy,
    role::name_of,
    shown::{Shown, SlotLimits},
    start_up::{Refusals, StartRequest, Strangers, What, admitted},
    witness_link::WitnessLink,
};
use crate::{ServeError, config::Config, log_lines};

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
    refusals: Refusals,
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
        let failed = |source| ServeError::listening(address, "--replica-listen", source);
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
        let named = (node.clone(), name_of(config, node.db.node_id()), key.clone());
        let witness = WitnessLink::new(replication.witness.as_deref(), named, env.clone(), runtime.handle().clone());
        let redundancy = Redundancy::new(source.clone(), asked, (lead, witness), env.clone());
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
            refusals: Refusals::default(),
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
        let mut strangers = Strangers::default();
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
                        strangers.make_room();
                        let (stranger, known) = oneshot::channel();
                        let serving = this.clone().connection(socket, address, stranger, stopping.clone());
                        strangers.add(known, connections.spawn(serving));
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
        socket: TcpStream,
        address: SocketAddr,
        stranger: oneshot::Sender<()>,
        stopping: watch::Receiver<bool>,
    ) {
        let unwanted = |asked: &StartRequest| match asked.what {
            What::Terms if asked.cluster != cluster_text(self.node.db.cluster_id()) => {
                Some("this node is of another database")
            }
            What::Stream if !self.node.leads() => Some("this node follows another one, and takes no replicas"),
            What::Terms | What::Stream => None,
        };
        let refusals = (&self.refusals, &self.env);
        let Some((what, socket)) = admitted(socket, (address, stranger), &self.key, refusals, unwanted).await else {
            return;
        };
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
