//! Tests of [`CancelHandle`] that need no lock: reasons, generations, wakers. `wait.rs` covers the end of waits.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake},
};

use collie_base::Xid;

use crate::{
    error::TxnError,
    locks::cancel::{CancelHandle, CancelReason, Owner},
    locks::wait::{Waiter, Wakes},
    locks::waits::Locks,
    xid_map::XidMap,
};

fn handle() -> CancelHandle {
    CancelHandle(Arc::new(Owner::new(Arc::new(Locks::new(Arc::new(XidMap::new(2, Xid::new(1))))), 0)))
}

/// Goal: the first reason stands until it is cleared (N1). Method: each reason first, then each reason on top of it.
#[test]
fn first_reason_stands() {
    use CancelReason::{StatementTimeout, TransactionTimeout, User};
    for first in [User, StatementTimeout, TransactionTimeout] {
        for second in [User, StatementTimeout, TransactionTimeout] {
            let handle = handle();
            assert!(handle.stop(None, first));
            assert!(!handle.stop(None, second));
            assert_eq!(handle.reason(), Some(first));
            handle.clear();
            assert_eq!(handle.reason(), None);
        }
    }
}

/// Goal: a late timer never affects the next statement (N2). Method: set one, then end its generation by `clear` and by
/// `settle`; it changes neither the state nor a wait of the later generation, whose own timer still works.
#[test]
fn late_timer_does_nothing() {
    for end in [CancelHandle::clear, CancelHandle::settle] {
        let handle = handle();
        let late = handle.generation();
        end(&handle);
        let (waiter, mut wakes) = (Arc::new(Waiter::default()), Wakes::default());
        handle.0.begin_wait(&waiter, &mut wakes);
        assert!(!handle.cancel_in(late, CancelReason::StatementTimeout));
        assert!(!handle.is_cancelled() && waiter.is_open());
        assert!(handle.cancel_in(handle.generation(), CancelReason::StatementTimeout));
        assert!(!waiter.is_open());
        wakes.run();
    }
}

/// Goal: the end of a statement drops its time limit and keeps a user's request. Method: settle after each reason.
#[test]
fn settling_keeps_only_a_users_request() {
    for (reason, kept) in [
        (CancelReason::User, Some(CancelReason::User)),
        (CancelReason::StatementTimeout, None),
        (CancelReason::TransactionTimeout, None),
    ] {
        let handle = handle();
        handle.stop(None, reason);
        handle.settle();
        assert_eq!(handle.reason(), kept);
    }
}

/// Goal: a cancel also wakes a task that is not in a lock wait. Method: poll, cancel, count wakes; a wait's limit ends
/// only that wait.
#[test]
fn cancel_wakes_who_polls_and_a_limit_ends_its_wait() {
    #[derive(Default)]
    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let (handle, count) = (handle(), Arc::new(Count::default()));
    let waker = Arc::clone(&count).into();
    let mut cx = Context::from_waker(&waker);
    assert_eq!(handle.poll_cancelled(&mut cx), Poll::Pending);
    handle.cancel();
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert_eq!(handle.poll_cancelled(&mut cx), Poll::Ready(CancelReason::User));
    let (waiter, mut wakes) = (Arc::new(Waiter::default()), Wakes::default());
    assert!(waiter.complete(Err(TxnError::LockTimeout), &mut wakes));
    assert!(!waiter.complete(Ok(()), &mut wakes));
    wakes.run();
}
