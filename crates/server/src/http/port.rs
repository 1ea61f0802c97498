//! [`HttpPort`]: HTTP/1.1 for monitoring a server; `hyper` parses the requests.
//!
//! # Invariants
//! - W1. A connection has one request and [`CONNECTION_TIME`], whatever it sends or does not read; a head is at most
//!   [`HEAD_BYTES_MAX`], and a body is not read.
//! - W2. There are at most [`CONNECTIONS_MAX`]: one more ends the oldest, which has had the most time, so that slow or
//!   silent connections keep no other out.
//! - W3. The port listens on loopback only: there is no authentication.

use std::{collections::VecDeque, convert::Infallible, net::SocketAddr, sync::Arc, time::Duration};

use collie_env::Clock;
use hyper::{Request, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    select,
    task::{AbortHandle, JoinHandle, JoinSet},
    time::{sleep, timeout},
};

use super::{
    Readiness,
    answers::{Answers, Limits},
};
use crate::ServeError;

/// The time from accept to the last byte of the answer.
const CONNECTION_TIME: Duration = Duration::from_secs(10);

/// The maximum number of connections.
const CONNECTIONS_MAX: usize = 64;

/// The longest head of a request, in bytes: the minimum that `hyper` accepts.
const HEAD_BYTES_MAX: usize = 8192;

/// A port that listens until it is dropped.
#[derive(Debug)]
pub(crate) struct HttpPort {
    address: SocketAddr,
    task: JoinHandle<()>,
}

impl Drop for HttpPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HttpPort {
    /// Starts to listen; answers come from `stage`.
    ///
    /// # Errors
    /// The address is not on loopback (W3), or not free.
    pub(crate) fn bind(
        runtime: &Runtime,
        address: SocketAddr,
        stage: Arc<Readiness>,
        limits: Limits,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address, flag: "--http" });
        }
        let failed = |source| ServeError::listening(address, "--http", source);
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let task = runtime.spawn(accept(listener, Arc::new(Answers::new(stage, limits, clock))));
        Ok(Self { address, task })
    }

    /// Returns the address on which the port listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, answers: Arc<Answers>) {
    let mut oldest_first: VecDeque<AbortHandle> = VecDeque::new();
    let mut connections = JoinSet::new();
    loop {
        select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, _)) => {
                    oldest_first.retain(|connection| !connection.is_finished());
                    if oldest_first.len() >= CONNECTIONS_MAX
                        && let Some(oldest) = oldest_first.pop_front()
                    {
                        oldest.abort(); // W2
                    }
                    oldest_first.push_back(connections.spawn(connection(socket, answers.clone())));
                }
                // No descriptor is free, or the peer has left already: the loop retries in a moment.
                Err(_) => sleep(Duration::from_millis(50)).await,
            },
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
        }
    }
}

async fn connection(socket: TcpStream, answers: Arc<Answers>) {
    let service = service_fn(|request: Request<Incoming>| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(answers.answer(request.method(), request.uri(), request.headers()).await) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).max_buf_size(HEAD_BYTES_MAX);
    // W1. A connection that takes longer, or sends no HTTP, is closed without a message.
    let _gone = timeout(CONNECTION_TIME, http.serve_connection(TokioIo::new(socket), service)).await;
}
