//! `Settled`: the quorum-durable position, below which no failover takes a commit back; the positions that replicas
//! have confirmed, and their waiters.
//!
//! How many replicas are enough is decided elsewhere: the code that serves them counts (`replica`), and calls
//! [`Settled::confirm`].
//!
//! While replicas are not counted (before the first count, without a quorum configuration, and while lost redundancy is
//! tolerated) the position follows `durable`, and no caller waits here. Counting may begin and end at any moment.
//!
//! # Invariants
//! - D1. `position` only grows, and is at or below `durable`: it is only raised by a maximum, with a `durable` that was
//!   loaded before. Every position that was ever returned as quorum-durable is at or below the word, even if it
//!   followed `durable`: the word is raised before it is returned, and before counting begins. So counting may begin
//!   and end at any time, and no horizon lies above a later snapshot.
//! - D2. `position` is raised before `flushed`: a session that finds its commit confirmed finds it in every later
//!   snapshot at the quorum-durable position.
//! - D3. A commit counts as confirmed by the reports of replicas, never by `position`, which may have followed
//!   `durable` while they were not counted.
//! - D4. A waiter registers, then looks; a thread that moves a word stores it, then wakes (W2 of
//!   `collie_sync::Waiters`).
//!
//! # Ordering
//! | store                        | pairs with           | carries                                                    |
//! |------------------------------|----------------------|------------------------------------------------------------|
//! | `position` AcqRel (maximum)  | its Acquire          | the `durable` loaded before: commits below are published   |
//! | `flushed`... AcqRel (maximum)| their Acquire        | `position`, raised before (D2)                             |
//! | `counted` Release            | its Acquire          | nothing: both answers are right at any time (D1)           |
//! | `asked` Release              | its Acquire          | nothing: without replicas G3 of `ack_condition.rs` holds           |
//!
//! # Progress
//! `position`, `is_met`: wait-free except for the maximum while replicas are not counted. `confirm`: O(woken waiters).
//!
//! Checked by the models of readers at the quorum-durable position and of the wake (`loom_tests.rs`), and by the tests
//! below.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use collie_base::Lsn;
use collie_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use collie_sync::{Padded, Ticket, Waiters, mutant, ord};

/// When the reply to a commit may leave: `SET synchronous_commit`. Each level includes the ones before it. Without a
/// quorum, and while lost redundancy is tolerated, the last three mean [`CommitLevel::Local`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CommitLevel {
    /// The commit has its position in the log, and is on its way to the disk.
    Async,
    /// The commit is on this node's disk.
    Local,
    /// A quorum of replicas has received it.
    RemoteWrite,
    /// A quorum of replicas has it on disk.
    RemoteFlush,
    /// A quorum of replicas shows it to its readers.
    RemoteApply,
}

/// The positions that a quorum of replicas has reached, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confirmed {
    /// They have received the log below this position.
    pub received: Lsn,
    /// They have the log below this position on disk.
    pub durable: Lsn,
    /// They show the commits below this position to their readers.
    pub applied: Lsn,
}

/// A kind of confirmation by replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirm {
    Received,
    Flushed,
    Applied,
}

impl CommitLevel {
    /// Returns whether it waits for this node's disk.
    pub const fn is_synchronous(self) -> bool {
        !matches!(self, Self::Async)
    }

    /// Returns the kind of confirmation that the level waits for.
    pub(crate) const fn confirm(self) -> Option<Confirm> {
        match self {
            Self::Async | Self::Local => None,
            Self::RemoteWrite => Some(Confirm::Received),
            Self::RemoteFlush => Some(Confirm::Flushed),
            Self::RemoteApply => Some(Confirm::Applied),
        }
    }
}

/// A position that replicas have confirmed, and its waiters.
#[derive(Debug)]
struct Word {
    position: Padded<AtomicU64>,
    waiters: Waiters,
}

impl Word {
    fn new() -> Self {
        Self { position: Padded::new(AtomicU64::new(0)), waiters: Waiters::new() }
    }

    fn load(&self) -> Lsn {
        Lsn::new(self.position.load(ord!("CONFIRMED_LOAD", Acquire)))
    }

    fn raise(&self, to: Lsn) {
        self.position.fetch_max(to.get(), ord!("CONFIRMED_MAX", AcqRel));
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Settled {
    position: Padded<AtomicU64>,
    counted: AtomicBool,
    asked: AtomicBool,
    received: Word,
    flushed: Word,
    applied: Word,
    closed: AtomicBool,
}

impl Settled {
    /// Returns a position that follows `durable` until replicas are counted.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            position: Padded::new(AtomicU64::new(0)),
            counted: AtomicBool::new(false),
            asked: AtomicBool::new(true),
            received: Word::new(),
            flushed: Word::new(),
            applied: Word::new(),
            closed: AtomicBool::new(false),
        })
    }

    /// Returns the quorum-durable position; `durable` loads the position that is on this node's disk.
    pub(crate) fn position(&self, durable: impl FnOnce() -> Lsn) -> Lsn {
        if self.is_counted() {
            return Lsn::new(self.position.load(ord!("SETTLED_LOAD", Acquire)));
        }
        let durable = durable();
        let before = self.position.load(Ordering::Acquire);
        if before >= durable.get() {
            return Lsn::new(before);
        }
        if mutant!("FOLLOWED_UNSTORED") {
            return durable;
        }
        Lsn::new(self.position.fetch_max(durable.get(), Ordering::AcqRel)).max(durable) // D1
    }

    /// Returns whether replicas are counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.counted.load(Ordering::Acquire)
    }

    /// Returns whether there is a quorum configuration, so that commits need replicas at all.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// Sets whether there is a quorum configuration. Without one, the levels that wait for replicas mean
    /// [`CommitLevel::Local`]. A caller that removes it then stops counting, which wakes the waiters.
    pub(crate) fn set_asked(&self, asked: bool) {
        self.asked.store(asked, Ordering::Release);
    }

    /// Begins to count replicas, or stops: then no reply waits for them any more. `durable` loads the position on this
    /// node's disk, which becomes quorum-durable when counting begins.
    pub(crate) fn set_counted(&self, counted: bool, durable: impl FnOnce() -> Lsn) {
        if mutant!("LET_GO_BEFORE_STORED") {
            self.wake(Lsn::MAX);
            return self.counted.store(counted, Ordering::Release);
        }
        // While replicas are already counted, `durable` may be above the quorum-durable position.
        if counted && !self.is_counted() && !mutant!("COUNTED_FROM_NOTHING") {
            self.position.fetch_max(durable().get(), Ordering::AcqRel); // D1
        }
        self.counted.store(counted, Ordering::Release);
        if !counted {
            self.wake(Lsn::MAX); // D4
        }
    }

    /// Records the positions that replicas have confirmed; `durable` loads the position on this node's disk.
    pub(crate) fn confirm(&self, confirmed: Confirmed, durable: impl FnOnce() -> Lsn) {
        if mutant!("WOKEN_BEFORE_CONFIRMED") {
            self.received.waiters.wake_through(confirmed.received.get());
            self.flushed.waiters.wake_through(confirmed.durable.get());
            self.applied.waiters.wake_through(confirmed.applied.get());
            self.note(confirmed, durable);
            return;
        }
        self.note(confirmed, durable);
        for word in [&self.received, &self.flushed, &self.applied] {
            word.waiters.wake_through(word.load().get()); // D4
        }
    }

    /// Stores the positions of [`Settled::confirm`], without waking waiters.
    pub(crate) fn note(&self, confirmed: Confirmed, durable: impl FnOnce() -> Lsn) {
        if mutant!("FLUSHED_BEFORE_SETTLED") {
            self.flushed.raise(confirmed.durable);
        }
        let flushed =
            if mutant!("SETTLED_BEYOND_DURABLE") { confirmed.durable } else { confirmed.durable.min(durable()) };
        self.position.fetch_max(flushed.get(), ord!("SETTLED_MAX", AcqRel)); // D1
        self.received.raise(confirmed.received.max(flushed));
        self.flushed.raise(flushed); // D2
        // A commit that is visible there before a quorum has it on disk counts once it is on disk, too.
        self.applied.raise(confirmed.applied.min(flushed));
    }

    fn word(&self, confirm: Confirm) -> &Word {
        match confirm {
            Confirm::Received => &self.received,
            Confirm::Flushed => &self.flushed,
            Confirm::Applied => &self.applied,
        }
    }

    /// Returns the positions that replicas have confirmed.
    pub(crate) fn confirmed(&self) -> Confirmed {
        let [received, durable, applied] = [&self.received, &self.flushed, &self.applied].map(Word::load);
        Confirmed { received, durable, applied }
    }

    /// Returns whether replicas have confirmed everything below `lsn` (D3).
    pub(crate) fn is_confirmed(&self, confirm: Confirm, lsn: Lsn) -> bool {
        self.word(confirm).load() >= lsn
    }

    /// Returns whether there is nothing to wait for: replicas have confirmed `lsn` or are not counted.
    pub(crate) fn is_met(&self, confirm: Confirm, lsn: Lsn) -> bool {
        self.is_confirmed(confirm, lsn) || !self.is_counted()
    }

    /// Wakes the waiters for positions up to `lsn`, so that they look again.
    pub(crate) fn wake(&self, lsn: Lsn) {
        for word in [&self.received, &self.flushed, &self.applied] {
            word.waiters.wake_through(lsn.get());
        }
    }

    /// Wakes all waiters: nothing is confirmed any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.wake(Lsn::MAX);
    }

    /// Returns whether [`Settled::close`] was called.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// Resolves when it is worthwhile to check again whether replicas have confirmed `lsn`.
///
/// # Cancel safety
/// Dropping it ends the wait.
#[derive(Debug)]
pub(crate) struct ConfirmWait {
    settled: Arc<Settled>,
    confirm: Confirm,
    lsn: Lsn,
    ticket: Option<Ticket>,
}

impl ConfirmWait {
    pub(crate) fn new(settled: &Arc<Settled>, confirm: Confirm, lsn: Lsn) -> Self {
        Self { settled: Arc::clone(settled), confirm, lsn, ticket: None }
    }

    /// Ready if `is_there` returns true after `waker` was registered.
    pub(crate) fn poll_until(&mut self, waker: &Waker, is_there: impl FnOnce() -> bool) -> Poll<()> {
        let waiters = &self.settled.word(self.confirm).waiters;
        if self.ticket.as_ref().is_none_or(|ticket| !waiters.replace(*ticket, waker)) {
            self.ticket = Some(waiters.register(self.lsn.get(), waker.clone()));
        }
        if is_there() { Poll::Ready(()) } else { Poll::Pending } // D4
    }
}

impl Future for ConfirmWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let (settled, confirm, lsn) = (Arc::clone(&this.settled), this.confirm, this.lsn);
        this.poll_until(cx.waker(), || settled.is_met(confirm, lsn) || settled.is_closed())
    }
}

impl Drop for ConfirmWait {
    fn drop(&mut self) {
        let waiters = &self.settled.word(self.confirm).waiters;
        self.ticket.take().into_iter().for_each(|ticket| waiters.forget(ticket));
    }
}
