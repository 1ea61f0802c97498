//! [`block_on`]: a future on the calling thread. [`thread_waker`]: a waker that unparks that thread.
//!
//! Threads are those of the standard library, in a model too: no model waits here.

use std::{
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

std::thread_local! {
    static WAKER: Waker = Waker::from(Arc::new(Unpark(std::thread::current())));
}

/// Returns a waker that unparks the calling thread.
///
/// If it is woken before the thread parks, the next `std::thread::park` returns at once. All waits of a thread share
/// its one waker, so a thread that was unparked checks its condition again.
pub fn thread_waker() -> Waker {
    WAKER.with(Waker::clone)
}

/// Polls a future to its end on the calling thread and returns its output.
///
/// # Progress
/// Blocks: parks the thread until the future wakes it.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = thread_waker();
    let (mut context, mut future) = (Context::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // Returns at once if a wake came since the poll.
            Poll::Pending => std::thread::park(),
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::Waiters;
    use std::{
        future::poll_fn,
        sync::atomic::{AtomicU64, Ordering},
    };

    /// Goal: no wake is lost, neither one that comes before the thread parks nor one that comes after. Method: a future
    /// that wakes itself while it is polled, and 1,000 that another thread wakes, each as soon as it waits.
    #[test]
    fn future_ends_however_early_it_is_woken() {
        let mut polls = 0;
        let itself = poll_fn(|context| {
            polls += 1;
            context.waker().wake_by_ref();
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        });
        assert_eq!(block_on(itself), 3);

        let (waiters, number) = (Waiters::new(), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=1_000 {
                    number.store(n, Ordering::Release);
                    while waiters.wake_through(n) == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            for n in 1..=1_000 {
                let mut is_registered = false;
                block_on(poll_fn(|context| {
                    if !is_registered {
                        waiters.register(n, context.waker().clone());
                        is_registered = true;
                        return Poll::Pending;
                    }
                    if number.load(Ordering::Acquire) < n { Poll::Pending } else { Poll::Ready(()) }
                }));
            }
        });
    }
}
