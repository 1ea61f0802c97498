//! [`ShownWait`]: the wait of a session on a replica until its next snapshot shows a position.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use collie_base::Lsn;
use collie_sync::{Ticket, block_on};
use collie_txn::Txns;

use crate::EngineError;
use crate::follow::shown::Shown;
use crate::log::EngineLog;

/// Resolves when commits below a position are visible on a replica: the next snapshot shows them.
///
/// # Errors
/// [`EngineError::ReplayStopped`]: they never will be, unless the replica is opened again.
///
/// # Cancel safety
/// Dropping it ends the wait.
#[must_use = "a wait that is dropped waits no more"]
#[derive(Debug)]
pub struct ShownWait {
    shown: Arc<Shown>,
    lsn: Lsn,
    ticket: Option<Ticket>,
    /// The transactions whose snapshots are to begin there.
    txns: Option<Arc<Txns<EngineLog>>>,
}

impl ShownWait {
    /// Returns a wait for `lsn`.
    pub(crate) fn new(shown: &Arc<Shown>, lsn: Lsn) -> Self {
        Self { shown: Arc::clone(shown), lsn, ticket: None, txns: None }
    }

    /// Makes snapshots of `txns` begin at `lsn` or above once the wait is over (S4 of `Shown`).
    pub(crate) fn acknowledging(mut self, txns: &Arc<Txns<EngineLog>>) -> Self {
        self.txns = Some(Arc::clone(txns));
        self
    }

    /// Waits on this thread.
    ///
    /// # Errors
    /// Those of the future.
    pub fn block(self) -> Result<(), EngineError> {
        block_on(self)
    }
}

impl Future for ShownWait {
    type Output = Result<(), EngineError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let polled = this.shown.poll(this.lsn, &mut this.ticket, cx.waker());
        if let (Poll::Ready(Ok(())), Some(txns)) = (&polled, &this.txns) {
            txns.acknowledge(this.lsn);
        }
        polled
    }
}

impl Drop for ShownWait {
    fn drop(&mut self) {
        self.ticket.take().into_iter().for_each(|ticket| self.shown.forget(ticket));
    }
}
