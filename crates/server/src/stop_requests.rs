//! [`StopRequests`]: requests to stop a server in order: signals, or a request of the embedding program.

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

use crate::ServeError;

/// The source of requests.
pub(crate) enum StopRequests {
    /// SIGTERM and SIGINT.
    Signals { terminate: Signal, interrupt: Signal },
    /// The embedding program: each time that it sends `true`.
    Program(watch::Receiver<bool>),
}

impl StopRequests {
    /// Catches signals from now on; must be called in a runtime.
    ///
    /// # Errors
    /// They cannot be caught.
    pub(crate) fn catch() -> Result<Self, ServeError> {
        let catching = |kind| {
            signal(kind).map_err(|source| ServeError::Io { operation: "catch", what: "signals".to_owned(), source })
        };
        Ok(Self::Signals {
            terminate: catching(SignalKind::terminate())?,
            interrupt: catching(SignalKind::interrupt())?,
        })
    }

    /// Waits for a request.
    ///
    /// # Cancel safety
    /// Dropping the future loses no request.
    pub(crate) async fn next(&mut self) {
        match self {
            Self::Signals { terminate, interrupt } => tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            },
            Self::Program(asked) => {
                while asked.changed().await.is_ok() {
                    if *asked.borrow_and_update() {
                        return;
                    }
                }
                // Without the sender, no request can come.
                std::future::pending().await
            }
        }
    }
}
