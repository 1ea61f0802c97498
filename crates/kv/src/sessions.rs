//! `Sessions`: a cache of sessions for later calls, one per thread where possible.
//!
//! A session keeps its buffers and its snapshot slot from call to call; creating one costs several allocations. A
//! thread finds its own with one compare-exchange on cache lines that no other thread uses.
//!
//! # Invariants
//! - H1. A cached session has no open transaction, and `no_slowdown` and unlogged writing are off.
//! - H2. No call fails for lack of a session while one is cached.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use collie_engine::{Db, EngineError, Session};
use parking_lot::Mutex;

/// Maximum number of cached sessions.
const CELLS: usize = 64;
/// Number of cells that a thread examines, except when sessions are short.
const PROBES: usize = 4;

/// Returns the number of this thread, which no other thread of the process has.
fn thread_number() -> usize {
    std::thread_local! {
        static THREAD: usize = {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            NEXT.fetch_add(1, Relaxed)
        };
    }
    THREAD.with(|thread| *thread)
}

/// A cached session, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Cell(Mutex<Option<Session>>);

#[derive(Debug)]
pub(crate) struct Sessions {
    cells: Box<[Cell]>,
}

impl Default for Sessions {
    fn default() -> Self {
        Self { cells: (0..CELLS).map(|_| Cell::default()).collect() }
    }
}

impl Sessions {
    /// Takes a cached session, or creates one.
    ///
    /// # Errors
    /// [`EngineError::TooManySessions`], [`EngineError::Closed`].
    pub(crate) fn take(&self, engine: &Db) -> Result<Session, EngineError> {
        if engine.is_closed() {
            return Err(EngineError::Closed);
        }
        match self.take_kept(PROBES) {
            Some(session) => Ok(session),
            None => match engine.session() {
                Err(error @ EngineError::TooManySessions { .. }) => self.take_kept(CELLS).ok_or(error), // H2
                made => made,
            },
        }
    }

    fn take_kept(&self, probes: usize) -> Option<Session> {
        let first = thread_number();
        (first..first + probes).find_map(|number| self.cells[number % CELLS].0.try_lock()?.take())
    }

    /// Caches a session for later, or drops it.
    pub(crate) fn give_back(&self, mut session: Session) {
        session.rollback(); // H1
        session.set_no_slowdown(false);
        session.set_unlogged(false);
        let first = thread_number();
        for number in first..first + PROBES {
            if let Some(mut kept) = self.cells[number % CELLS].0.try_lock()
                && kept.is_none()
            {
                *kept = Some(session);
                return;
            }
        }
    }

    /// Drops all cached sessions.
    pub(crate) fn clear(&self) {
        for cell in &self.cells {
            drop(cell.0.lock().take());
        }
    }

    /// Takes a session for one call.
    pub(crate) fn lend(&self, engine: &Db) -> Result<Lent<'_>, EngineError> {
        Ok(Lent { session: Some(self.take(engine)?), sessions: self })
    }
}

/// A session for one call; dropping this rolls it back and caches it for the next call.
#[derive(Debug)]
pub(crate) struct Lent<'a> {
    /// Present until the drop.
    session: Option<Session>,
    sessions: &'a Sessions,
}

impl Deref for Lent<'_> {
    type Target = Session;
    fn deref(&self) -> &Session {
        self.session.as_ref().expect("it is given back by the drop only")
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Session {
        self.session.as_mut().expect("it is given back by the drop only")
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.give_back(session);
        }
    }
}
