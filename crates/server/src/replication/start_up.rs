//! The start-up of a connection at the port for other nodes: PostgreSQL's start-up message, and the proof that the peer
//! has the replication key.
//!
//! # Invariants
//! - N1. A peer has 10 s for one start-up message and the proof that it has the replication key (`key` of `replica`);
//!   nothing else is read before that, and no term, slot or data is revealed, queried or changed. There are at most
//!   [`STRANGERS_MAX`] such peers: one more ends the oldest of them, so that silent peers keep no other out.

use std::{collections::VecDeque, net::SocketAddr, time::Duration};

use collie_env::Env;
use collie_replica::{
    key::{KeyFile, Mistrusted, Purpose, SessionKeys, Trusted, admit},
    standby::{CLUSTER, STREAM, TERMS},
};
use collie_sql::error::SqlState;
use collie_wire::{Frontend, Input, Notice, Output, STARTUP_BYTES_MAX, Severity, TransactionStatus};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    sync::oneshot::{self, error::TryRecvError},
    task::AbortHandle,
    time::timeout,
};

use crate::log_lines;

/// The time from accept to the end of the start-up.
const STARTUP_TIME: Duration = Duration::from_secs(10);

/// The maximum number of connections that have not proved that they have the key.
const STRANGERS_MAX: usize = 64;

/// The least time between two log lines about refused connections.
const TELL_EVERY: Duration = Duration::from_secs(1);

/// Connections that have not proved that they have the key, oldest first (N1).
#[derive(Debug, Default)]
pub(super) struct Strangers(VecDeque<(oneshot::Receiver<()>, AbortHandle)>);

impl Strangers {
    /// Ends the oldest connection if there is no room for another one.
    pub(super) fn make_room(&mut self) {
        // A connection that has been admitted, or has ended, has dropped its sender.
        self.0.retain_mut(|(known, _)| known.try_recv() == Err(TryRecvError::Empty));
        if self.0.len() >= STRANGERS_MAX
            && let Some((_, oldest)) = self.0.pop_front()
        {
            oldest.abort();
        }
    }

    /// Adds the connection of `task`, which drops the sender of `known` once its peer has proved that it has the key.
    pub(super) fn add(&mut self, known: oneshot::Receiver<()>, task: AbortHandle) {
        self.0.push_back((known, task));
    }
}

/// Refused connections, for the log.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Recent>);

#[derive(Debug, Default)]
struct Recent {
    /// The time of the last log line.
    logged_ns: Option<u64>,
    /// The number of refused connections since.
    unlogged: u64,
}

impl Refusals {
    /// Logs why a connection was refused, at most once per [`TELL_EVERY`], so that a peer that retries forever does not
    /// fill a disk.
    pub(super) fn log(&self, env: &Env, address: SocketAddr, why: &str) {
        let now_ns = env.clock.now_ns();
        let mut recent = self.0.lock();
        let is_due =
            recent.logged_ns.is_none_or(|logged| u128::from(now_ns.saturating_sub(logged)) >= TELL_EVERY.as_nanos());
        if !is_due {
            recent.unlogged += 1;
            return;
        }
        let more = match std::mem::take(&mut recent.unlogged) {
            0 => String::new(),
            count => format!("; {count} more before were not let in either"),
        };
        recent.logged_ns = Some(now_ns);
        log_lines::warn(&format_args!("connection from {address}: {why}{more}"));
    }
}

/// The purpose of a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// The stream.
    Stream,
    /// One question about terms.
    Terms,
}

/// The request of a start-up message.
pub(super) struct StartRequest {
    pub(super) what: What,
    /// Parameter `application_name`.
    name: String,
    /// Parameter `collie_cluster`.
    pub(super) cluster: String,
}

/// The reason why a connection ends in its start-up.
enum NotStarted {
    /// The peer was notified, or has left.
    Told,
    /// The peer was notified, and the reason is to be logged.
    Refused(String),
}

/// Performs the start-up and the proofs (N1), and drops `stranger`; returns the purpose of the connection and its
/// sealed form, or `None` if the connection is over. A peer without the key learns nothing else; one whose request is
/// `unwanted` receives the reason.
pub(super) async fn admitted(
    mut socket: TcpStream,
    (address, stranger): (SocketAddr, oneshot::Sender<()>),
    key: &KeyFile,
    (refusals, env): (&Refusals, &Env),
    unwanted: impl Fn(&StartRequest) -> Option<&'static str>,
) -> Option<(What, Trusted<TcpStream>)> {
    let _ = socket.set_nodelay(true);
    let started = timeout(STARTUP_TIME, start(&mut socket, key, unwanted)).await;
    drop(stranger);
    match started {
        Ok(Ok((what, keys))) => Some((what, Trusted::new(socket, keys))),
        Ok(Err(NotStarted::Refused(why))) => {
            refusals.log(env, address, &why);
            None
        }
        Ok(Err(NotStarted::Told)) | Err(_) => None,
    }
}

async fn start(
    socket: &mut TcpStream,
    key: &KeyFile,
    unwanted: impl Fn(&StartRequest) -> Option<&'static str>,
) -> Result<(What, SessionKeys), NotStarted> {
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
    if let Some(message) = unwanted(&asked) {
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
