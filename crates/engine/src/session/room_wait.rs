//! [`RoomWait`]: the wait of a session before it writes: for room in the log, and while a primary hands over.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use collie_sync::block_on;
use collie_txn::CancelHandle;

use crate::EngineError;
use crate::shared::Shared;

/// Resolves when the statement may write: there is room in the log, and no switchover stops transactions from
/// beginning to.
///
/// # Errors
/// [`EngineError::Cancelled`], [`EngineError::Closed`]; [`EngineError::Replica`] once another node leads.
///
/// # Cancel safety
/// Dropping it ends the wait; nothing is held.
#[must_use = "a wait that is dropped waits no more"]
#[derive(Debug)]
pub struct RoomWait {
    shared: Arc<Shared>,
    cancel: CancelHandle,
    /// Whether it waits while a primary hands over.
    begins: bool,
    /// Whether it waits for flushes.
    needs_room: bool,
}

impl RoomWait {
    /// Returns the wait for the session behind `cancel` before it writes; `None`: there is nothing to wait for.
    /// `begins`: its transaction has not written yet. With `no_slowdown` a wait is an error.
    pub(crate) fn before_writing(
        shared: &Arc<Shared>,
        begins: bool,
        no_slowdown: bool,
        cancel: impl FnOnce() -> CancelHandle,
    ) -> Result<Option<Self>, EngineError> {
        let has_room = shared.room.has_room(shared.durable());
        if has_room {
            return Self::before_first_write(shared, begins, no_slowdown, cancel);
        }
        if no_slowdown {
            return shared.room.refuse(shared.durable(), shared.now(), shared.oldest()).map(|()| None);
        }
        Ok(Some(Self { shared: Arc::clone(shared), cancel: cancel(), begins, needs_room: true }))
    }

    /// Does the same as [`RoomWait::before_writing`] without looking at the room.
    pub(crate) fn before_first_write(
        shared: &Arc<Shared>,
        begins: bool,
        no_slowdown: bool,
        cancel: impl FnOnce() -> CancelHandle,
    ) -> Result<Option<Self>, EngineError> {
        if !begins || shared.pause.is_open() {
            return Ok(None);
        }
        if no_slowdown {
            return Err(EngineError::Busy { why: "this primary hands over to one of its replicas".to_owned() });
        }
        Ok(Some(Self { shared: Arc::clone(shared), cancel: cancel(), begins, needs_room: false }))
    }

    /// Waits on this thread.
    ///
    /// # Errors
    /// Those of the future.
    pub fn block(self) -> Result<(), EngineError> {
        block_on(self)
    }
}

impl Future for RoomWait {
    type Output = Result<(), EngineError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let (slot, shared) = (self.cancel.slot(), &*self.shared);
        let is_closed = || shared.closed.load(std::sync::atomic::Ordering::Acquire);
        // A reason why no wait can succeed any more is reported before a reason of this session.
        if self.begins && shared.pause.is_over() {
            return Poll::Ready(Err(if is_closed() { EngineError::Closed } else { EngineError::Replica }));
        }
        if self.cancel.poll_cancelled(cx).is_ready() {
            return Poll::Ready(Err(EngineError::Cancelled));
        }
        if self.begins && shared.pause.poll(slot, cx.waker())?.is_pending() {
            return Poll::Pending;
        }
        if !self.needs_room {
            return Poll::Ready(Ok(()));
        }
        let polled = shared.room.poll(slot, shared.durable(), shared.now(), shared.oldest(), cx.waker());
        // `close` lets every waiter continue after it has set `closed`.
        if is_closed() {
            return Poll::Ready(Err(EngineError::Closed));
        }
        polled.map(Ok)
    }
}

impl Drop for RoomWait {
    fn drop(&mut self) {
        self.shared.room.leave(self.cancel.slot(), self.shared.now());
        self.shared.pause.leave(self.cancel.slot());
    }
}
