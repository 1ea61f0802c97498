//! The port that replicas connect to: one implementation of the start-up for both ports, the stream is `replica`'s.
//!
//! # Invariants
//! - N1. A peer has 10 s and one start-up message to say that it is a replica; more is not read before.
//! - N2. Whatever a connection does, it ends alone.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use collie_engine::Db;
use collie_env::Env;
use collie_replica::{
    LinkError,
    database::{EngineSource, SlotOptions},
    primary::{SlotStat, SlotState, Slots, Source as _, StreamOptions, serve},
};
use collie_sql::{catalog::system::Standby, error::SqlState, session::Standbys};
use collie_wire::{Frontend, Input, Notice, Output, STARTUP_BYTES_MAX, Severity, TransactionStatus};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    select,
    sync::watch,
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use crate::{ServeError, config::Config};

/// From accept to the end of the start-up.
const STARTUP_TIME: Duration = Duration::from_secs(10);

/// What serves replicas.
pub(crate) struct Replicas {
    listener: TcpListener,
    address: SocketAddr,
    source: Arc<EngineSource>,
    slots: Arc<Slots>,
    options: StreamOptions,
    env: Env,
}

impl Replicas {
    /// Listens for replicas of `db`, which is open in `data`.
    ///
    /// # Errors
    /// The address is not on loopback, or not free.
    pub(crate) fn bind(
        runtime: &Runtime,
        address: SocketAddr,
        config: &Config,
        db: Db,
        data: &std::path::Path,
        env: Env,
    ) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address });
        }
        let failed = |source: std::io::Error| match source.kind() {
            std::io::ErrorKind::AddrInUse => ServeError::AddressInUse { address },
            _ => ServeError::Io { operation: "listen on", what: address.to_string(), source },
        };
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let replication = &config.replication;
        let slot = SlotOptions { slot_bytes: replication.slot_bytes, flush_delay: replication.flush_delay };
        let source = Arc::new(EngineSource::new(db, data, env.clone(), slot));
        let options = StreamOptions {
            heartbeat: replication.heartbeat,
            timeout: replication.timeout,
            window_bytes: replication.window_bytes,
            ..StreamOptions::default()
        };
        Ok(Self { listener, address, source, slots: Arc::default(), options, env })
    }

    /// Returns the address it listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns what tells who follows.
    pub(crate) fn standbys(&self) -> Standbys {
        let (slots, source, env) = (self.slots.clone(), self.source.clone(), self.env.clone());
        let us = |ns: u64| i64::try_from(ns / 1000).unwrap_or(i64::MAX);
        Box::new(move || {
            let stat = slots.stat(source.durable(), env.clock.now_ns());
            let standby = |stat: SlotStat| Standby {
                slot: stat.name,
                node: stat.node,
                address: stat.address,
                state: stat.state.word(),
                is_connected: stat.state != SlotState::Away,
                sent: stat.positions.sent,
                received: stat.positions.received,
                durable: stat.positions.durable,
                applied: stat.positions.applied,
                delay_us: us(stat.delay_ns),
                rtt_us: (stat.rtt_min_ns < u64::MAX).then(|| us(stat.rtt_min_ns)),
                queue_bytes: i64::from(stat.queue_bytes),
            };
            stat.into_iter().map(standby).collect()
        })
    }

    /// Serves whoever comes until `stopping` turns true.
    pub(crate) async fn run(self, mut stopping: watch::Receiver<bool>) {
        let this = Arc::new(self);
        let mut connections = JoinSet::new();
        let mut heartbeats = interval(this.options.heartbeat);
        heartbeats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            select! {
                _ = heartbeats.tick() => this.slots.pass(this.source.durable(), this.env.clock.now_ns()),
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
    }

    async fn connection(self: Arc<Self>, mut socket: TcpStream, address: SocketAddr, stopping: watch::Receiver<bool>) {
        let _ = socket.set_nodelay(true);
        let Ok(Some(early)) = timeout(STARTUP_TIME, start(&mut socket)).await else { return };
        let served = (self.source.clone(), self.slots.clone());
        let address = address.to_string();
        match serve(socket, &early, &address, served, self.options, self.env.clone(), stopping).await {
            Ok(()) | Err(LinkError::Closed | LinkError::Stopping) => {}
            Err(error) => eprintln!("replica at {address}: {error}"),
        }
    }
}

/// Goes through the start-up; returns what came behind it, or `None` for somebody who is no replica, and was told so.
async fn start(socket: &mut TcpStream) -> Option<Vec<u8>> {
    let (mut input, mut output) = (Input::new(STARTUP_BYTES_MAX), Output::new());
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
                if has("replication", "collie") && has("user", "collie") {
                    break None;
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
    refused.is_none().then(|| std::mem::take(input.buffer()))
}
