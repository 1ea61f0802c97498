//! [`Redundancy`]: the quorum of a server: who is asked for commits, which may change while it runs, and whether commits do without. Each
//! change is said in the log of the server and in that of the database.
//!
//! | the newest note in the database's log | who is asked when this node begins to lead |
//! |---|---|
//! | there is none | `replication.quorum` |
//! | this node's, made with `replication.quorum` as it is | who is noted |
//! | this node's, made with another `replication.quorum` | a change from who is noted to `replication.quorum`: it is the newer one; while a change between two lists goes on, who is noted |
//! | another node's | who is noted: what that node's configuration says is nobody else's business |
//! | any, and this node was promoted by force where too few of those noted can be reached | no other node (C5 of `candidate.rs`) |
//!
//! # Invariants
//! - U1. Nothing is answered by a node that leads before those are asked whom its log names, in its own history: a note of its own says so.
//!   As long as that cannot be written they are asked all the same, and nobody else can be.
//! - U2. Replicas are made do without only by a node that has learned that it leads still (L1 and L2 of `lead_check.rs`), and the time for
//!   which this process stood still does not count against them.
//! - U3. A record of who is asked that cannot be written, because the log is held while the node hands over, or is full, is written later:
//!   what it says is not in force before (Y4 of `synchronous.rs`).

use crate::log_lines;
use std::sync::{Arc, atomic::Ordering};

use collie_base::Lsn;
use collie_engine::{EngineError, QuorumNote};
use collie_env::Env;
use collie_replica::{
    database::EngineSource,
    primary::{Asked, Change, QuorumError, QuorumList, QuorumStat, Synchronous, list_text},
};
use collie_sql::error::{Result, SqlError, SqlState};
use parking_lot::Mutex;

use super::lead_check::LeadCheck;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Redundancy {
    source: Arc<EngineSource>,
    synchronous: Arc<Synchronous>,
    /// `replication.quorum`.
    configured: Option<QuorumList>,
    /// What `majority` stands for, or why it stands for nothing.
    majority: std::result::Result<QuorumList, String>,
    lead: Arc<LeadCheck>,
    env: Env,
    life: Mutex<Life>,
}

/// What has been done and said since the database was opened. Held while it is being done.
#[derive(Debug, Default)]
struct Life {
    /// Whether this node leads and has noted who is asked.
    leads: bool,
    /// Whether it was said that the log cannot be written.
    failed: bool,
}

/// Returns what a database's log says of who is asked, if it says so.
///
/// # Errors
/// It is no list that this program knows.
pub(super) fn noted(note: &QuorumNote) -> std::result::Result<Asked, QuorumError> {
    Asked::parse(&note.list, note.before.as_deref())
}

impl Redundancy {
    /// Of a server that serves replicas of `source`, whose quorum is `synchronous`.
    pub(super) fn new(
        source: Arc<EngineSource>,
        (synchronous, configured, majority): (
            Arc<Synchronous>,
            Option<QuorumList>,
            std::result::Result<QuorumList, String>,
        ),
        lead: Arc<LeadCheck>,
        env: Env,
    ) -> Self {
        let this = Self { source, synchronous, configured, majority, lead, env, life: Mutex::default() };
        this.keep();
        this
    }

    /// Has commits wait for those who are asked from the first call on that finds a primary, then looks whether they are there, and
    /// whether a change is over. Called with each heartbeat.
    pub(super) fn keep(&self) {
        self.lead.beat();
        if !self.begin() || self.source.database().is_log_held() {
            return; // a replica counts once it is promoted; U3
        }
        if !self.lead.is_fresh() {
            self.synchronous.begin_time(); // U2
            return;
        }
        let note = |asked: &Asked, without: bool| self.note(asked, without);
        let may_degrade = |since_ns| self.lead.has_asked_since(since_ns);
        let ticked = self.synchronous.tick(&*self.source, self.env.clock.now_ns(), may_degrade, note);
        let Some((change, noted)) = ticked else { return };
        let is_noted = self.say_if_failed(noted.as_ref().err());
        let QuorumStat { asked, connected, .. } = self.synchronous.stat();
        match change {
            Change::Degraded => log_lines::warn(&format_args!(
                "replication is degraded: {connected} of {asked} are connected, commits do without them and say so in a warning each"
            )),
            Change::Restored => log_lines::note(&format_args!("replication is whole again: commits wait for {asked}")),
            Change::Changed if is_noted => {
                log_lines::note(&format_args!("replication.quorum has changed: commits wait for {asked}"))
            }
            Change::Changed => {}
        }
    }

    /// Returns how it stands; on a replica nobody is asked.
    pub(super) fn stat(&self) -> QuorumStat {
        self.synchronous.stat()
    }

    /// Returns the list that is asked, or will be alone; on a replica, that it knows of.
    pub(super) fn list(&self) -> String {
        let db = self.source.database();
        match db.quorum_note().filter(|_| db.is_replica()) {
            Some(note) => note.list,
            None if db.is_replica() => list_text(self.configured.as_ref()),
            None => list_text(self.stat().asked.list()),
        }
    }

    /// Begins to lead, if this node does (U1); returns whether it has.
    fn begin(&self) -> bool {
        let mut life = self.life.lock();
        if life.leads {
            return true;
        }
        let db = self.source.database();
        if db.is_replica() {
            return false;
        }
        let note = db.quorum_note();
        let asked = match self.lead.node().drops_list.load(Ordering::Acquire) {
            true => Asked::default(),
            false => self.asked_first(note.as_ref(), life.failed),
        };
        // Where nobody ever was there is nothing to say; opened for reading, nothing commits.
        let is_said = (note.is_none() && !asked.asks()) || db.is_read_only();
        let noting = |asked: &Asked| if is_said { Ok(Lsn::ZERO) } else { self.note(asked, false) };
        let begun = self.synchronous.begin(&*self.source, asked, noting);
        life.leads = begun.is_ok();
        if life.leads {
            self.say_if_alone();
        }
        Self::say_once(&mut life.failed, begun.as_ref().err());
        life.leads
    }

    /// Says that commits wait for no other node although a list names some, where that is so.
    fn say_if_alone(&self) {
        let asked = self.synchronous.stat().asked;
        if asked.lists().any(|list| list.members().len() > 1) && !self.synchronous.asks_others() {
            log_lines::warn(&format_args!(
                "commits wait for {asked}, which this node satisfies alone: no replica has to have them. Say majority, or a greater number, to change \
                 that"
            ));
        }
    }

    /// `again`: nothing is said of it.
    fn asked_first(&self, note: Option<&QuorumNote>, again: bool) -> Asked {
        let configured = || Asked::from(self.configured.clone());
        let Some(note) = note else { return configured() };
        let say = |text: String| {
            if !again {
                log_lines::note(&text)
            }
        };
        let asked = match noted(note) {
            Ok(asked) => asked,
            Err(error) => {
                say(format!("the log says who is asked for commits, which this program cannot read: {error}"));
                return configured();
            }
        };
        let words = list_text(self.configured.as_ref());
        if note.node == self.source.database().node_id() && note.configured != words {
            let changed = match asked.lists().count() > 1 {
                true => asked.clone(), // A5 of `asked.rs`
                false => asked.changed_to(self.configured.clone()),
            };
            if changed != asked {
                let before = &note.configured;
                say(format!("replication.quorum was \"{before}\" when it was last read: commits wait for {changed}"));
            }
            return changed;
        }
        if note.list != words {
            say(format!("replication.quorum is \"{words}\", and was changed since: commits wait for {asked}"));
        }
        asked
    }

    /// Has `list` asked from now on. What is answered until the list before and the new one have the record of it has both.
    ///
    /// # Durability
    /// The record of the change is on this node's disk when it returns; the change may not be over yet.
    ///
    /// # Errors
    /// 22023 and 0A000 for what is no list; 25006 on a replica; 55000 while the node hands over; the log's: nothing has changed then, unless
    /// the record was written and cannot be flushed.
    pub(super) fn change(&self, list: &str) -> Result<()> {
        let is_majority = list.trim().eq_ignore_ascii_case("majority");
        let parsed = match &self.majority {
            Ok(majority) if is_majority => Ok(Some(majority.clone())),
            Err(why) if is_majority => Err(QuorumError::Invalid(why.clone())),
            _ => QuorumList::parse(list),
        };
        let list = parsed.map_err(|error| {
            let state = match error {
                QuorumError::Invalid(_) => SqlState::INVALID_PARAMETER_VALUE,
                QuorumError::Unsupported(_) => SqlState::FEATURE_NOT_SUPPORTED,
            };
            SqlError::new(state, error.to_string())
        })?;
        let db = self.source.database();
        if db.is_replica() {
            let text = "cannot change replication.quorum on a replica";
            let error = SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, text);
            return Err(error.hint("Change it on the primary: its log tells every replica."));
        }
        if !self.begin() {
            return Err(SqlError::new(SqlState::IO_ERROR, "the log does not take the record of who is asked before"));
        }
        let is_same = self.stat().asked.list() == list.as_ref();
        if self.synchronous.found_change() && !is_same {
            let asked = self.stat().asked;
            let text =
                format!("a change of replication.quorum that another node began is not over: commits wait for {asked}");
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
            return Err(error.hint("Try again once collie_quorum shows one list."));
        }
        let failed = |error: EngineError| match db.is_log_held() {
            true => SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                "cannot change replication.quorum while this server hands over to a replica",
            )
            .hint("Try again: on this server if it goes on as the primary, else on the new one."),
            false => SqlError::from(error),
        };
        let choose = |asked: &Asked| Some(asked.changed_to(list)).filter(|changed| changed != asked);
        let noted = self.synchronous.ask(&*self.source, choose, |asked, without| self.note(asked, without));
        if let Some(end) = noted.map_err(failed)? {
            log_lines::note(&format_args!("replication.quorum was set: commits wait for {}", self.stat().asked));
            self.say_if_alone();
            db.wait_durable(end)?;
        }
        Ok(())
    }

    /// Notes in the database's log who is asked; returns where the record ends.
    fn note(&self, asked: &Asked, degraded: bool) -> std::result::Result<Lsn, EngineError> {
        let db = self.source.database();
        db.note_quorum(&QuorumNote {
            list: list_text(asked.list()),
            before: asked.before().map(list_text),
            degraded,
            node: db.node_id(),
            configured: list_text(self.configured.as_ref()),
        })
    }

    /// Says why a record was not written, the first time in a row; returns whether it was written.
    fn say_if_failed(&self, error: Option<&EngineError>) -> bool {
        Self::say_once(&mut self.life.lock().failed, error);
        error.is_none()
    }

    fn say_once(failed: &mut bool, error: Option<&EngineError>) {
        if let Some(error) = error.filter(|_| !*failed) {
            log_lines::warn(&format_args!("the state of replication.quorum is not in the log yet: {error}"));
        }
        *failed = error.is_some();
    }
}
