//! [`Terms`]: the promises of a node, shared by everything that must obey them.
//!
//! # Invariants
//! - T1. A promise counts in this process before anything else is done about it, is on disk before it is answered,
//!   and never falls (REPL-8).
//! - T2. The position that is sent with a promise covers everything that was acknowledged before: an acknowledging
//!   thread reads [`Terms::promised`] after its positions, and the position that is sent is read after the promise
//!   counts.
//! - T3. A promise that could not be written is not answered, and counts all the same: the node then follows no
//!   lower term, which loses nothing.
//! - T4. Of two nodes that lead in one term, which takes force used twice, the one of the lower history yields
//!   when it learns of the other.
//! - T5. A leader calls [`Terms::leads`] after it has read its position: then the position that it sends with a
//!   later promise covers everything that it counts for itself, as in T2.
//! - T6. A term more than [`TERMS_AHEAD_MAX`] above the promised one is not believed, whichever node sends it:
//!   there cannot have been so many leaders in the meantime, and after the last possible term no node could lead
//!   any more. Only [`Terms::force`], for an operator, goes back.
//!
//! `promised` is an independent word: its Release pairs with the Acquire of an acknowledging thread, for which the
//! locks of the log order the reads of positions (T2).
//!
//! Checked by the tests here, by `identity_tests` for the consequences of a term, and by `stream_tests`.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use collie_base::{HistoryId, Term};
use collie_engine::{EngineError, Promise};
use collie_env::{Env, fault_point};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::Reach;
use crate::packet::{TermKind, TermPacket};

/// How far above the promised term another one may be: a promotion per second for twelve days (T6).
pub const TERMS_AHEAD_MAX: u64 = 1 << 20;

/// The state of a node, as reported to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// How far its log reaches.
    pub reach: Reach,
    /// The history of its newest record.
    pub history: HistoryId,
    /// Whether it leads, in the term of its newest record.
    pub leads: bool,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Terms {
    env: Env,
    dir: PathBuf,
    node: u64,
    /// Locked while a promise is made.
    promise: Mutex<Promise>,
    promised: AtomicU64,
    /// The term in which this node leads, or led; 0 if it yielded the lead (T4).
    led: AtomicU64,
    changed: watch::Sender<Term>,
}

impl Terms {
    /// Reads the promise of the directory `dir` of `node`; `lived` is the term of its control file.
    ///
    /// # Errors
    /// The file is damaged or cannot be read.
    pub fn open(env: &Env, dir: &Path, node: u64, lived: Term) -> Result<Arc<Self>, EngineError> {
        let mut promise = Promise::read(env, dir)?;
        if lived > promise.term {
            promise = Promise { term: lived, node: 0 };
        }
        let (changed, _) = watch::channel(promise.term);
        Ok(Arc::new(Self {
            env: env.clone(),
            dir: dir.to_owned(),
            node,
            promise: Mutex::new(promise),
            promised: AtomicU64::new(promise.term.get()),
            led: AtomicU64::new(lived.get()),
            changed,
        }))
    }

    /// Returns the highest promised term: nothing of a lower one is received or acknowledged.
    pub fn promised(&self) -> Term {
        Term::new(self.promised.load(Ordering::Acquire))
    }

    /// Records that this node leads in `term`.
    pub fn lead(&self, term: Term) {
        let mut promise = self.promise.lock();
        self.led.store(term.get(), Ordering::Release);
        if promise.term == term && promise.node == 0 {
            promise.node = self.node;
        }
    }

    /// Returns whether this node has promised no term above the one in which it leads, and has not yielded that
    /// (T5). Two loads; the result means nothing on a node that follows.
    pub fn leads(&self) -> bool {
        self.promised.load(Ordering::Acquire) <= self.led.load(Ordering::Acquire)
    }

    /// Returns whether the highest term is promised to another node.
    pub fn is_anothers(&self) -> bool {
        ![0, self.node].contains(&self.promise.lock().node)
    }

    /// Returns whether `term` is the highest promised one, and is promised to `node`.
    pub fn is_promised_to(&self, term: Term, node: u64) -> bool {
        let promise = self.promise.lock();
        (promise.term, promise.node) == (term, node)
    }

    /// Yields the term in which this node leads to `node`, which leads in it too (T4).
    fn yield_to(&self, node: u64) -> Result<(), EngineError> {
        let mut promise = self.promise.lock();
        promise.node = node;
        self.led.store(0, Ordering::Release);
        self.changed.send_replace(promise.term);
        promise.write(&self.env, &self.dir)
    }

    /// Returns this node's id.
    pub fn node(&self) -> u64 {
        self.node
    }

    /// Returns a receiver that is notified whenever a higher term is promised.
    pub fn watch(&self) -> watch::Receiver<Term> {
        self.changed.subscribe()
    }

    /// Returns whether `term` is not believed (T6).
    pub fn is_absurd(&self, term: Term) -> bool {
        is_absurd(term, self.promised())
    }

    /// Replaces every promise by one of `term` to this node, higher or lower: this brings back a node that has
    /// promised a term in which no node can lead.
    ///
    /// # Durability
    /// Durable when this returns.
    ///
    /// # Errors
    /// The file could not be written: nothing has changed.
    pub fn force(&self, term: Term) -> Result<(), EngineError> {
        let mut promise = self.promise.lock();
        let next = Promise { term, node: self.node };
        next.write(&self.env, &self.dir)?;
        *promise = next;
        self.promised.store(term.get(), Ordering::Release);
        self.changed.send_replace(term);
        Ok(())
    }

    /// Promises `term` to `node`; `node` is 0 if the term is only known to exist. Returns whether it is promised
    /// now: not if it is promised to another node, or over, or absurd (T6).
    ///
    /// # Durability
    /// Durable when this returns `true`.
    ///
    /// # Errors
    /// The file could not be written (T3).
    pub fn promise(&self, term: Term, node: u64) -> Result<bool, EngineError> {
        let mut promise = self.promise.lock();
        if is_absurd(term, promise.term) {
            return Ok(false);
        }
        let Some(next) = promise.after(term, node) else { return Ok(false) };
        if next.term > promise.term {
            self.promised.store(next.term.get(), Ordering::Release); // T1
            self.changed.send_replace(next.term);
        }
        if next != *promise {
            let before = std::mem::replace(&mut *promise, next);
            fault_point!("promise.write");
            if let Err(error) = next.write(&self.env, &self.dir) {
                // The term stays (T3), but may be promised to any node again.
                *promise = Promise { node: if before.term == next.term { before.node } else { 0 }, ..next };
                return Err(error);
            }
            fault_point!("promise.written");
        }
        Ok(true)
    }

    /// Answers another node's packet about terms; the caller knows whether this node transfers the lead to it.
    /// `standing` is called once the promise counts, and flushes everything received (T2).
    ///
    /// # Errors
    /// The disk failed: there is no answer.
    pub fn answer(
        &self,
        packet: &TermPacket,
        standing: impl FnOnce() -> Result<Standing, EngineError>,
    ) -> Result<TermPacket, EngineError> {
        let TermPacket { kind, term, node, .. } = *packet;
        let is_asked = matches!(kind, TermKind::Propose | TermKind::Announce | TermKind::Succeed);
        let mut granted = is_asked && self.promise(term, node)?;
        let standing = standing()?;
        let Standing { reach, history, leads } = standing;
        let both_lead = kind == TermKind::Announce && leads && term == reach.last_term && term == self.promised();
        if !granted && both_lead && packet.history > history {
            self.yield_to(node)?; // T4
            granted = true;
        }
        let kind = if granted { TermKind::Promise } else { TermKind::Refuse };
        Ok(self.packet(kind, self.promised(), &standing))
    }

    /// Makes a packet from this node.
    pub fn packet(&self, kind: TermKind, term: Term, standing: &Standing) -> TermPacket {
        let Standing { reach: Reach { last_term, durable }, history, .. } = *standing;
        TermPacket { kind, term, history, node: self.node, last_term, durable }
    }
}

/// Returns whether `term` is too far above `promised` (T6).
pub fn is_absurd(term: Term, promised: Term) -> bool {
    term.get().saturating_sub(promised.get()) > TERMS_AHEAD_MAX
}

#[cfg(test)]
mod tests {
    use collie_base::Lsn;

    use super::*;

    const DIR: &str = "/db";

    fn open(env: &Env, lived: u64) -> Arc<Terms> {
        env.files.create_dir_all(DIR.as_ref()).unwrap();
        Terms::open(env, DIR.as_ref(), 7, Term::new(lived)).unwrap()
    }

    fn ask(terms: &Terms, kind: TermKind, term: u64, node: u64) -> TermPacket {
        let standing = Standing {
            reach: Reach { last_term: Term::new(2), durable: Lsn::new(5000) },
            history: HistoryId::new(3),
            leads: false,
        };
        let asked = TermPacket {
            kind,
            term: Term::new(term),
            history: HistoryId::new(0),
            node,
            ..terms.packet(kind, Term::new(term), &Standing::default())
        };
        terms.answer(&asked, || Ok(standing)).unwrap()
    }

    /// Goal: a node promises a term once, to one node, reports how far its log reaches, and remembers the promise
    /// over a power cut (T1). Method: each order of asking, on a disk that keeps only synced bytes.
    #[test]
    fn promises_are_kept_over_a_power_cut() {
        let (env, disk) = Env::simulated(11);
        let terms = open(&env, 2);
        let watch = terms.watch();
        assert_eq!(terms.promised(), Term::new(2));
        let refused = ask(&terms, TermKind::Propose, 1, 8);
        assert_eq!((refused.kind, refused.term, refused.node), (TermKind::Refuse, Term::new(2), 7));
        let promise = ask(&terms, TermKind::Propose, 5, 8);
        assert_eq!((promise.kind, promise.term), (TermKind::Promise, Term::new(5)));
        assert_eq!((promise.last_term, promise.durable), (Term::new(2), Lsn::new(5000)));
        assert!(watch.has_changed().unwrap());
        assert_eq!(ask(&terms, TermKind::Propose, 5, 9).kind, TermKind::Refuse, "it is another's");
        let env = Env::over(disk.power_cut(4), 12);
        let terms = open(&env, 2);
        assert_eq!(terms.promised(), Term::new(5));
        assert_eq!(ask(&terms, TermKind::Propose, 5, 9).kind, TermKind::Refuse);
        assert_eq!(ask(&terms, TermKind::Propose, 5, 8).kind, TermKind::Promise, "asked again");
        assert_eq!(ask(&terms, TermKind::Announce, 6, 9).kind, TermKind::Promise);
        assert_eq!(ask(&terms, TermKind::Announce, 5, 8).kind, TermKind::Refuse, "it is over");
        assert_eq!(ask(&terms, TermKind::Promise, 9, 8).term, Term::new(6), "an answer is no question");
        assert!(!terms.is_promised_to(Term::new(7), 3) && !terms.leads());
        terms.lead(Term::new(6));
        assert!(terms.leads());
        assert_eq!(ask(&terms, TermKind::Succeed, 7, 3).kind, TermKind::Promise);
        assert!(terms.is_promised_to(Term::new(7), 3) && !terms.is_promised_to(Term::new(7), 4));
        assert!(!terms.leads(), "a higher one is promised");
    }

    /// Goal: T6: no packet brings a node to a term after which no node can lead, and force brings back a node that
    /// has promised such a term, over a power cut too. Method: the highest possible term, proposed and announced;
    /// steps of the largest size; a file with that term.
    #[test]
    fn absurd_terms_are_not_believed_and_forced_back() {
        let (env, disk) = Env::simulated(41);
        let terms = open(&env, 3);
        for term in [u64::MAX, u64::MAX - 1, 3 + TERMS_AHEAD_MAX + 1] {
            for kind in [TermKind::Propose, TermKind::Announce, TermKind::Succeed] {
                let answer = ask(&terms, kind, term, 8);
                assert_eq!((answer.kind, answer.term), (TermKind::Refuse, Term::new(3)), "{term}");
            }
            assert!(!terms.promise(Term::new(term), 0).unwrap() && terms.is_absurd(Term::new(term)));
        }
        assert_eq!(ask(&terms, TermKind::Propose, 3 + TERMS_AHEAD_MAX, 8).kind, TermKind::Promise, "a step");
        Promise { term: Term::new(u64::MAX), node: 8 }.write(&env, DIR.as_ref()).unwrap();
        let lost = open(&env, 3);
        assert!(!lost.promise(Term::new(4), 7).unwrap());
        lost.force(Term::new(4)).unwrap();
        let env = Env::over(disk.power_cut(2), 42);
        let back = open(&env, 3);
        assert_eq!((lost.promised(), back.promised()), (Term::new(4), Term::new(4)));
        assert!(back.is_promised_to(Term::new(4), 7));
        assert_eq!(ask(&back, TermKind::Propose, 5, 8).kind, TermKind::Promise, "as any other");
    }

    /// Goal: of two nodes that lead in one term the one of the lower history yields, and the other does not (T4).
    /// Method: each receives the announcement of the other.
    #[test]
    fn the_lower_history_yields_to_the_higher() {
        let (env, _disk) = Env::simulated(31);
        let terms = open(&env, 3);
        terms.lead(Term::new(3));
        let reach = Reach { last_term: Term::new(3), durable: Lsn::new(5000) };
        let standing = Standing { reach, history: HistoryId::new(40), leads: true };
        let announce = |history| TermPacket {
            kind: TermKind::Announce,
            term: Term::new(3),
            history: HistoryId::new(history),
            node: 8,
            last_term: Term::new(3),
            durable: Lsn::new(1),
        };
        assert_eq!(terms.answer(&announce(39), || Ok(standing)).unwrap().kind, TermKind::Refuse);
        assert!(!terms.is_anothers() && terms.leads());
        assert_eq!(terms.answer(&announce(41), || Ok(standing)).unwrap().kind, TermKind::Promise);
        assert!(terms.is_anothers() && !terms.leads());
        assert_eq!(Promise::read(&env, DIR.as_ref()).unwrap(), Promise { term: Term::new(3), node: 8 });
    }

    /// Goal: a promise that cannot be written is not answered, and still nothing of a lower term is taken (T3).
    /// Method: a disk that refuses.
    #[test]
    fn a_promise_that_cannot_be_written_is_not_told_and_counts() {
        let (env, disk) = Env::simulated(21);
        let terms = open(&env, 1);
        for call in disk.writes_and_syncs()..disk.writes_and_syncs() + 4 {
            disk.fail_write_or_sync(call, collie_env::Fault::Eio);
        }
        assert!(terms.promise(Term::new(4), 8).is_err());
        assert_eq!(terms.promised(), Term::new(4));
        disk.clear_faults();
        assert!(terms.promise(Term::new(4), 9).unwrap(), "nobody was told of the first");
        assert!(!terms.promise(Term::new(4), 8).unwrap());
    }
}
