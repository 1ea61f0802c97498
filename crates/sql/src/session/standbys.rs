//! The replicas of this database: the component that serves them implements [`Replication`], views show them, and
//! `pg_drop_replication_slot` drops their slots.

use std::{future::Future, pin::Pin, time::Duration};

use crate::{
    catalog::system::{
        DelayRow, FollowingRow, NodeRow, QuorumRow, ReadsRow, ReadsShipped, SlotRow, Standby, StoreFigures, Training,
    },
    error::{Result, SqlError, SqlState},
    session::Database,
};

/// The component that serves the replicas of a database.
pub trait Replication: Send + Sync {
    /// Returns the replicas that follow, or did.
    fn standbys(&self) -> Vec<Standby>;

    /// Returns the slots, with the log that is kept for them.
    fn slots(&self) -> Vec<SlotRow>;

    /// Returns the list of replicas that commits wait for, or will wait for while it changes, as in
    /// `replication.quorum`; on a replica, the list that it knows of.
    fn quorum_list(&self) -> String;

    /// Sets `list` as the quorum that commits wait for from now on, as in `replication.quorum`; none if it is empty.
    /// Blocks on a flush of the log.
    ///
    /// # Errors
    /// 22023 and 0A000 if it is not a list; 25006 on a replica; 55000 during a switchover; the log's.
    fn set_quorum(&self, list: &str) -> Result<()>;

    /// Returns how far each replica was behind in each of the last seconds, oldest first.
    fn delays(&self) -> Vec<DelayRow>;

    /// Returns the state of the replicas that commits wait for; `None` if they wait for none.
    fn quorum(&self) -> Option<QuorumRow>;

    /// Returns what became of the reads that were sampled for them; `None` if none are sampled.
    fn reads(&self) -> Option<ReadsShipped> {
        None
    }

    /// Drops the slot `name`. Blocks on writing two small files.
    ///
    /// # Errors
    /// 42704 if there is none; 55006 while its replica is connected; 58030 when the disk refuses.
    fn drop_slot(&self, name: &str) -> Result<()>;
}

/// The node's own state apart from its database.
pub trait NodeState: Send + Sync {
    /// Returns the highest term that the node has promised to follow, or leads in.
    fn promised(&self) -> u64;

    /// Returns the state of following a primary; `None` if the node follows none.
    fn following(&self) -> Option<FollowingRow>;

    /// Returns how far readers of a replica may be behind before it is not ready (`replication.ready_delay`); `None` is
    /// without limit.
    fn delay_max(&self) -> Option<Duration>;

    /// Returns whether the node is still the primary, as far as it can learn. A node that was paused for a while, as a
    /// stopped process is, asks the others first.
    fn still_leads(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(true))
    }

    /// Returns what became of the reads of its primary; `None` if it follows none.
    fn reads(&self) -> Option<ReadsRow> {
        None
    }
}

impl Database {
    /// Sets the source for views about the node. Only the first call counts.
    pub fn show_node(&self, state: Box<dyn NodeState>) {
        let _already_there = self.node_state.set(state);
    }

    /// Sets the source for views and functions about replication. Only the first call counts.
    pub fn show_replication(&self, replication: Box<dyn Replication>) {
        let _already_there = self.replication.set(replication);
    }

    /// Sets the source for `collie_training` and its settings. Only the first call counts.
    pub fn show_training(&self, training: Box<dyn Training>) {
        let _already_there = self.training.set(training);
    }

    /// Returns the source for training of this server, if it is set.
    pub fn training(&self) -> Option<&dyn Training> {
        self.training.get().map(|training| &**training)
    }

    /// Sets the problem of this replica's copy that `collie_node` shows, with what to do. Only the first call counts.
    pub fn show_problem(&self, problem: String) {
        let _already_there = self.problem.set(problem);
    }

    /// Returns the problem of this replica's copy: the one that was set, otherwise the families with holes.
    fn problem(&self) -> Option<String> {
        if let Some(problem) = self.problem.get() {
            return Some(problem.clone());
        }
        let holes: Vec<String> =
            self.db.holes().into_iter().map(|(cf, since)| format!("family {cf} since {since}")).collect();
        let what = "rows are missing here that were written on the primary without its log (disable_wal): of";
        (!holes.is_empty()).then(|| format!("{what} {}", holes.join(", ")))
    }

    /// Returns the identity and state of this node.
    pub fn node(&self) -> NodeRow {
        let db = &self.db;
        let (term, histories) = db.histories();
        let of_term = histories.iter().find(|history| history.term == term);
        let newest = histories.last();
        NodeRow {
            is_replica: db.is_replica(),
            cluster: db.cluster_id(),
            node: db.node_id(),
            term: term.get(),
            history: newest.map(|history| (history.history.get(), history.start)),
            commits: db.commits(),
            problem: self.problem(),
            aborts: db.aborts(),
            promised: self.node_state.get().map(|state| state.promised()),
            term_start: of_term.map(|history| history.start),
        }
    }

    /// Returns the replicas to show.
    pub fn standbys(&self) -> Vec<Standby> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.standbys())
    }

    /// Returns the slots to show.
    pub fn slots(&self) -> Vec<SlotRow> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.slots())
    }

    /// Returns the state of the replicas that commits wait for, if they wait for any.
    pub fn quorum(&self) -> Option<QuorumRow> {
        self.replication.get()?.quorum()
    }

    /// Returns what became of sampled reads, for each side that this node has been on.
    pub fn replayed_reads(&self) -> Vec<ReadsRow> {
        let taken = self.replication.get().and_then(|replication| replication.reads());
        let run = self.node_state.get().and_then(|state| state.reads());
        taken.map(|shipped| self.sampling.row(shipped)).into_iter().chain(run).collect()
    }

    /// Returns whether this node is still the primary, as far as it can learn ([`NodeState::still_leads`]).
    pub(super) async fn still_leads(&self) -> bool {
        match self.node_state.get() {
            Some(state) => state.still_leads().await,
            None => true,
        }
    }

    /// Returns the state of following a primary, if the database follows one.
    pub fn following(&self) -> Option<FollowingRow> {
        self.node_state.get()?.following()
    }

    /// Returns the engine's figures of its store. Takes short locks, and may wait while a flush builds its frame.
    pub fn store_figures(&self) -> StoreFigures {
        let db = &self.db;
        // If the engine has no free session for it, the families are shown without names.
        let names = db.named_families().unwrap_or_default();
        let (stats, log_bytes_max) = (db.stats_now(), db.log_bytes_max());
        StoreFigures { stats, names, positions: (db.durable(), db.boundary()), log_bytes_max }
    }

    /// Returns the list of replicas that commits wait for; empty if no replicas are served. On a replica, the list in
    /// its log.
    pub(super) fn quorum_list(&self) -> String {
        match self.replication.get() {
            Some(replication) => replication.quorum_list(),
            None if self.db.is_replica() => self.db.quorum_note().map_or_else(String::new, |note| note.list),
            None => String::new(),
        }
    }

    /// Changes the quorum that commits wait for.
    pub(super) fn set_quorum(&self, list: &str) -> Result<()> {
        let Some(replication) = self.replication.get() else {
            let text = "no replicas are served, so that no commit can wait for one";
            let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, text);
            return Err(error.hint("Start the server with --replica-listen."));
        };
        let mut set = Ok(());
        self.block(&mut || set = replication.set_quorum(list));
        set
    }

    /// Returns the delays to show, second by second.
    pub(super) fn delays(&self) -> Vec<DelayRow> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.delays())
    }

    /// Drops a slot.
    pub(super) fn drop_slot(&self, name: &str) -> Result<()> {
        let Some(replication) = self.replication.get() else { return Err(no_slot(name)) };
        let mut dropped = Ok(());
        self.block(&mut || dropped = replication.drop_slot(name));
        dropped
    }
}

/// Returns the error for a slot that does not exist.
pub fn no_slot(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("replication slot \"{name}\" does not exist"))
}
