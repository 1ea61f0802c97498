//! `Reached`: the future of a mark. It registers its waker with the flusher and is woken when the mark reaches its
//! position.
//!
//! Checked by `tests/future.rs`, and by the threads and futures of `tests/log.rs`.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use collie_base::Lsn;

use crate::{Mark, WalError, core::Core, flush::MeasuredWait};

/// The future of [`Log::reached`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Reached {
    core: Arc<Core>,
    mark: Mark,
    lsn: Lsn,
    /// The number under which its waker is registered, if it is.
    id: Option<u64>,
    /// Measures from the first poll that has to wait, if the wait is measured.
    measured: Option<MeasuredWait>,
}

impl Reached {
    pub(crate) fn new(core: Arc<Core>, mark: Mark, lsn: Lsn) -> Self {
        Self { core, mark, lsn, id: None, measured: None }
    }
}

impl Future for Reached {
    type Output = Result<(), WalError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let flusher = &this.core.flusher;
        if flusher.mark(this.mark) >= this.lsn {
            if this.mark == Mark::Boundary {
                flusher.poke(false);
            }
            return this.reached();
        }
        assert!(flusher.reserve.has_reserved(this.lsn), "waits are for records that were appended");
        if this.id.is_none() {
            this.measured = flusher.measure_wait(this.mark, this.lsn);
        }
        match flusher.register(this.mark, this.lsn, &mut this.id, context.waker()) {
            Ok(true) => this.reached(),
            Ok(false) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

impl Reached {
    /// Ends the wait, and records it if it was measured.
    fn reached(&mut self) -> Poll<Result<(), WalError>> {
        if let Some((wait, about)) = self.measured.take() {
            wait.stop_with(self.lsn, about, []);
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Reached {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.core.flusher.forget(self.mark, self.lsn, id);
        }
    }
}
