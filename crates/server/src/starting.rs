//! `Starting`: while there is no open database, it refuses clients with 57P03, as PostgreSQL does; drivers treat that
//! as "try again".
//!
//! # Invariants
//! - G1. Nothing that a client sends is kept except its start-up message, for [`STARTUP_TIME`] at most, and for at most
//!   [`CLIENTS_MAX`] clients at a time; further ones wait in the listener's queue.

use std::{sync::Arc, time::Duration};

use collie_sql::error::SqlState;
use collie_wire::{Frontend, Input, Notice, Output, STARTUP_BYTES_MAX, Severity};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};

/// The time from accept to the end of the start-up.
const STARTUP_TIME: Duration = Duration::from_secs(10);

/// The number of clients that are answered at the same time.
const CLIENTS_MAX: usize = 100;

/// Refuses every client until it is dropped.
#[derive(Debug)]
pub(crate) struct Starting(JoinHandle<()>);

impl Drop for Starting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Starting {
    /// Refuses every client that connects to `listener`; `detail` is the current activity.
    pub(crate) fn on(runtime: &Runtime, listener: Arc<TcpListener>, detail: &'static str) -> Self {
        Self(runtime.spawn(async move {
            let room = Arc::new(Semaphore::new(CLIENTS_MAX));
            loop {
                let Ok(place) = room.clone().acquire_owned().await else { return };
                match listener.accept().await {
                    // An accepted client gets its answer even after `Starting` is dropped.
                    Ok((socket, _)) => drop(tokio::spawn(async move {
                        let _place = place;
                        let _gone_meanwhile = timeout(STARTUP_TIME, refuse(socket, detail)).await;
                    })),
                    Err(_) => sleep(Duration::from_millis(50)).await,
                }
            }
        }))
    }
}

/// Reads the start-up message, and answers it.
async fn refuse(mut socket: TcpStream, detail: &str) -> std::io::Result<()> {
    let (mut input, mut output) = (Input::new(STARTUP_BYTES_MAX), Output::new());
    loop {
        match input.next() {
            Ok(None) => {
                if socket.read_buf(input.buffer()).await? == 0 {
                    return Ok(());
                }
            }
            Ok(Some(Frontend::SslRequest | Frontend::GssEncRequest)) => {
                output.encryption_refused();
                socket.write_all(output.bytes()).await?;
                output.clear();
            }
            Ok(Some(Frontend::Startup(_))) => break,
            // There is nothing to cancel; any other message is no start-up.
            Ok(Some(_)) | Err(_) => return Ok(()),
        }
    }
    output.notice(&Notice {
        severity: Severity::Fatal,
        sqlstate: SqlState::CANNOT_CONNECT_NOW.as_str(),
        message: "the database system is starting up",
        detail: Some(detail),
        hint: None,
        position: None,
        context: None,
        object: [None; 4],
    });
    socket.write_all(output.bytes()).await?;
    socket.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::TcpStream,
    };

    use super::*;

    /// Goal: a client that connects while there is no database gets 57P03 with a detail, with and without a TLS request
    /// first; afterwards the listener belongs to its owner again. Method: a listener, two clients byte by byte, and one
    /// after the drop.
    #[test]
    fn clients_are_told_to_come_again() {
        let runtime = Runtime::new().unwrap();
        let listener = Arc::new(runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap());
        let address = listener.local_addr().unwrap();
        let starting = Starting::on(&runtime, listener.clone(), "It is being tested.");
        let startup = b"\x00\x00\x00\x15\x00\x03\x00\x00user\0collie\0\0";
        for asks_for_tls in [false, true] {
            let mut client = TcpStream::connect(address).unwrap();
            if asks_for_tls {
                client.write_all(b"\x00\x00\x00\x08\x04\xd2\x16\x2f").unwrap();
                let mut answer = [0];
                client.read_exact(&mut answer).unwrap();
                assert_eq!(&answer, b"N");
            }
            client.write_all(&startup[..9]).unwrap();
            client.write_all(&startup[9..]).unwrap();
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).unwrap();
            let text = String::from_utf8_lossy(&answer);
            assert!(answer.first() == Some(&b'E'), "{text}");
            assert!(
                text.contains("SFATAL\0") && text.contains("C57P03\0") && text.contains("It is being tested."),
                "{text}"
            );
        }
        drop(starting);
        let _waits = TcpStream::connect(address).unwrap();
        runtime.block_on(async { timeout(Duration::from_secs(30), listener.accept()).await }).unwrap().unwrap();
    }
}
