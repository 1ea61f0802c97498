//! [`Redundancy`]: the quorum configuration of a server, which may change while it runs, and whether commits are
//! answered without the quorum. Each change is logged by the server, and recorded in the database's log.
//!
//! | the newest note in the database's log | the configuration in force when this node begins to lead |
//! |---|---|
//! | there is none | `replication.quorum` |
//! | this node's, made with the present `replication.quorum` | the noted one |
//! | this node's, made with another `replication.quorum` | a change to it; the noted one if a change goes on |
//! | another node's | the noted one: the configuration of that node has no effect here |
//! | any, promoted by force with too few noted nodes reachable | no other node (C5 of `candidate.rs`) |
//!
//! # Invariants
//! - U1. A node that leads answers nothing before the configuration that its log names is in force in its own history:
//!   its own note records that. As long as that cannot be written, the configuration is in force all the same, and
//!   cannot be changed.
//! - U2. Only a node that has verified that it still leads degrades (L1 and L2 of `lead_check.rs`), with the leave of
//!   the witness if there is one (K2 of `witness_link.rs`), and time during which this process was stopped does not
//!   count against the replicas.
//! - U3. A record of the configuration that cannot be written, because the log is held during a switchover, or is full,
//!   is written later: it is not in force before (Y4 of `synchronous.rs`).

use crate::log_lines;
use std::sync::{Arc, atomic::Ordering};

use collie_base::Lsn;
use collie_engine::{EngineError, QuorumNote};
use collie_env::Env;
use collie_replica::{
    database::EngineSource,
    primary::{Change, QuorumConfig, QuorumError, QuorumList, QuorumStat, Source as _, Synchronous, list_text},
};
use collie_sql::{
    catalog::system::WitnessState,
    error::{Result, SqlError, SqlState},
};
use parking_lot::Mutex;

use super::{lead_check::LeadCheck, witness_link::WitnessLink};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Redundancy {
    source: Arc<EngineSource>,
    synchronous: Arc<Synchronous>,
    /// `replication.quorum`.
    configured: Option<QuorumList>,
    /// The list that `majority` means, or why it means none.
    majority: std::result::Result<QuorumList, String>,
    lead: Arc<LeadCheck>,
    witness: Arc<WitnessLink>,
    env: Env,
    life: Mutex<Life>,
}

/// What was done and logged since the database was opened. Held during such a step.
#[derive(Debug, Default)]
struct Life {
    /// Whether this node leads and has noted the configuration.
    leads: bool,
    /// Whether a failure to write the log was reported.
    failed: bool,
}

/// Returns the quorum configuration of a note in a database's log.
///
/// # Errors
/// It is no list that this program knows.
pub(super) fn noted(note: &QuorumNote) -> std::result::Result<QuorumConfig, QuorumError> {
    QuorumConfig::parse(&note.list, note.before.as_deref())
}

impl Redundancy {
    /// Makes the redundancy of a server that serves replicas of `source`, whose quorum is `synchronous`.
    pub(super) fn new(
        source: Arc<EngineSource>,
        (synchronous, configured, majority): (
            Arc<Synchronous>,
            Option<QuorumList>,
            std::result::Result<QuorumList, String>,
        ),
        (lead, witness): (Arc<LeadCheck>, Arc<WitnessLink>),
        env: Env,
    ) -> Self {
        let this = Self { source, synchronous, configured, majority, lead, witness, env, life: Mutex::default() };
        this.keep();
        this
    }

    /// Makes commits wait for the quorum from the first call on that finds a primary; then checks whether the members
    /// are there, and whether a change is over. Called with each heartbeat.
    pub(super) fn keep(&self) {
        self.lead.beat();
        if !self.begin() || self.source.database().is_log_held() {
            return; // a replica counts once it is promoted; U3
        }
        if !self.lead.is_fresh() {
            self.synchronous.begin_time(); // U2
            return;
        }
        let note = |asked: &QuorumConfig, without: bool| self.note(asked, without);
        let may_degrade =
            |since_ns| self.lead.has_asked_since(since_ns) && self.witness.may_degrade(self.source.durable());
        let ticked = self.synchronous.tick(&*self.source, self.env.clock.now_ns(), may_degrade, note);
        if matches!(ticked, Some((Change::Restored, _))) {
            self.witness.counts_quorum_from(self.source.durable());
        }
        if self.synchronous.asks_others() && self.lead.node().leads() {
            let QuorumStat { degraded, confirmed, .. } = self.synchronous.stat();
            self.witness.keep(degraded, self.source.durable(), confirmed.durable);
        }
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

    /// Returns what the witness knows about the quorum; `None` without a witness.
    pub(super) fn witness(&self) -> Option<WitnessState> {
        self.witness.state()
    }

    /// Returns the state of the quorum; on a replica no list is in force.
    pub(super) fn stat(&self) -> QuorumStat {
        self.synchronous.stat()
    }

    /// Returns the list in force, or the newer one during a change; on a replica, the one that it knows.
    pub(super) fn list(&self) -> String {
        let db = self.source.database();
        match db.quorum_note().filter(|_| db.is_replica()) {
            Some(note) => note.list,
            None if db.is_replica() => list_text(self.configured.as_ref()),
            None => list_text(self.stat().asked.list()),
        }
    }

    /// Begins to lead, if this node leads (U1); returns whether it has begun.
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
            true => QuorumConfig::default(),
            false => self.asked_first(note.as_ref(), life.failed),
        };
        // Without any list, past or present, there is nothing to note; a read-only database commits nothing.
        let is_said = (note.is_none() && !asked.asks()) || db.is_read_only();
        let noting = |asked: &QuorumConfig| if is_said { Ok(Lsn::ZERO) } else { self.note(asked, false) };
        // An earlier process, or an earlier leader, may have acknowledged everything that is here without its quorum.
        self.witness.counts_quorum_from(self.source.durable());
        let begun = self.synchronous.begin(&*self.source, asked, noting);
        life.leads = begun.is_ok();
        if life.leads {
            self.say_if_alone();
        }
        Self::say_once(&mut life.failed, begun.as_ref().err());
        life.leads
    }

    /// Logs a warning if commits wait for no other node although a list names several.
    fn say_if_alone(&self) {
        let asked = self.synchronous.stat().asked;
        if asked.lists().any(|list| list.members().len() > 1) && !self.synchronous.asks_others() {
            log_lines::warn(&format_args!(
                "commits wait for {asked}, which this node satisfies alone: no replica has to have them. Say majority, or a greater number, to change \
                 that"
            ));
        }
    }

    /// Returns the configuration with which this node begins to lead; with `again`, nothing is logged about it.
    fn asked_first(&self, note: Option<&QuorumNote>, again: bool) -> QuorumConfig {
        let configured = || QuorumConfig::from(self.configured.clone());
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
                true => asked.clone(), // A5 of `quorum_config.rs`
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

    /// Puts `list` in force. Commits that are answered until the old list and the new one have the record of the change
    /// need both.
    ///
    /// # Durability
    /// The record of the change is on this node's disk on return; the change may not be over yet.
    ///
    /// # Errors
    /// 22023 and 0A000 if `list` is no list; 25006 on a replica; 55000 during a switchover, and while a change that
    /// another node began is not over; those of the log: then nothing has changed, unless the record was written and
    /// cannot be flushed.
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
        // U1: this node's note is in the log before the configuration can change.
        if !self.begin() {
            return Err(SqlError::new(SqlState::IO_ERROR, "the log does not take the record of who is asked before"));
        }
        let is_same = self.stat().asked.list() == list.as_ref();
        // A5 of `quorum_config.rs`: a change that this node found when it began to lead has to end first.
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
        let choose = |asked: &QuorumConfig| Some(asked.changed_to(list)).filter(|changed| changed != asked);
        // Both lists count before the record of the change is written (Y4 of `synchronous.rs`).
        let noted = self.synchronous.ask(&*self.source, choose, |asked, without| self.note(asked, without));
        if let Some(end) = noted.map_err(failed)? {
            log_lines::note(&format_args!("replication.quorum was set: commits wait for {}", self.stat().asked));
            self.say_if_alone();
            // The caller gets its answer once the record is on this node's disk.
            db.wait_durable(end)?;
        }
        Ok(())
    }

    /// Notes the configuration in the database's log; returns the end of the record.
    fn note(&self, asked: &QuorumConfig, degraded: bool) -> std::result::Result<Lsn, EngineError> {
        let db = self.source.database();
        db.note_quorum(&QuorumNote {
            list: list_text(asked.list()),
            before: asked.before().map(list_text),
            degraded,
            node: db.node_id(),
            configured: list_text(self.configured.as_ref()),
        })
    }

    /// Logs why a record was not written, the first time in a row; returns whether it was written.
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
