//! Who follows this database: whoever serves replicas says it, views show it, and `pg_drop_replication_slot` has it forgotten.

use std::{future::Future, pin::Pin, time::Duration};

use crate::{
    catalog::system::{
        DelayRow, FollowingRow, NodeRow, QuorumRow, ReadsRow, ReadsShipped, SlotRow, Standby, StoreFigures, Training,
    },
    error::{Result, SqlError, SqlState},
    session::Database,
};

/// What serves the replicas of a database.
pub trait Replication: Send + Sync {
    /// The replicas that follow, or did.
    fn standbys(&self) -> Vec<Standby>;

    /// The slots, with the log that is kept for them.
    fn slots(&self) -> Vec<SlotRow>;

    /// Returns the list of replicas that commits wait for, or while it changes will wait for, as `replication.quorum` names them; of a
    /// replica the one that it knows of.
    fn quorum_list(&self) -> String;

    /// Has those of `list` asked for commits from now on, as `replication.quorum` names them; nobody, if it is empty. Blocks on a flush of
    /// the log.
    ///
    /// # Errors
    /// 22023 and 0A000 when it is no list; 25006 on a replica; 55000 while it hands over; the log's.
    fn set_quorum(&self, list: &str) -> Result<()>;

    /// How far each was behind in each of the last seconds, oldest first.
    fn delays(&self) -> Vec<DelayRow>;

    /// How the replicas stand that commits wait for; `None`: they wait for none.
    fn quorum(&self) -> Option<QuorumRow>;

    /// What became of the reads that were taken for them; `None`: none are taken.
    fn reads(&self) -> Option<ReadsShipped> {
        None
    }

    /// Forgets the slot `name`. Blocks on writing two small files.
    ///
    /// # Errors
    /// 42704 when there is none; 55006 while its replica is connected; 58030 when the disk refuses.
    fn drop_slot(&self, name: &str) -> Result<()>;
}

/// What a node knows of itself beside its database.
pub trait NodeState: Send + Sync {
    /// The highest term that it has promised to follow, or leads in.
    fn promised(&self) -> u64;

    /// Whom it follows; `None`: nobody.
    fn following(&self) -> Option<FollowingRow>;

    /// How far readers of a replica may be behind before it is not ready (`replication.ready_delay`); `None`: however far.
    fn delay_max(&self) -> Option<Duration>;

    /// Whether it leads still, as far as it can learn: a node that stood still for a while, as a process that was stopped does, asks the
    /// others first.
    fn still_leads(&self) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(std::future::ready(true))
    }

    /// What became of the reads of its primary; `None`: it follows nobody.
    fn reads(&self) -> Option<ReadsRow> {
        None
    }
}

impl Database {
    /// Has views about the node ask `state`. Only the first call counts.
    pub fn show_node(&self, state: Box<dyn NodeState>) {
        let _already_there = self.node_state.set(state);
    }

    /// Has views and functions about replication ask `replication`. Only the first call counts.
    pub fn show_replication(&self, replication: Box<dyn Replication>) {
        let _already_there = self.replication.set(replication);
    }

    /// Has `collie_training` and its settings ask `training`. Only the first call counts.
    pub fn show_training(&self, training: Box<dyn Training>) {
        let _already_there = self.training.set(training);
    }

    /// Returns what knows of the training of this server, if anything does.
    pub fn training(&self) -> Option<&dyn Training> {
        self.training.get().map(|training| &**training)
    }

    /// Has `collie_node` show what is wrong with this copy of another's rows, and what to do. Only the first call counts.
    pub fn show_problem(&self, problem: String) {
        let _already_there = self.problem.set(problem);
    }

    /// Returns what is wrong with this copy: what was said, else which families have holes.
    fn problem(&self) -> Option<String> {
        if let Some(problem) = self.problem.get() {
            return Some(problem.clone());
        }
        let holes: Vec<String> =
            self.db.holes().into_iter().map(|(cf, since)| format!("family {cf} since {since}")).collect();
        let what = "rows are missing here that were written on the primary without its log (disable_wal): of";
        (!holes.is_empty()).then(|| format!("{what} {}", holes.join(", ")))
    }

    /// Returns who this database is.
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

    /// Returns how the replicas stand that commits wait for, if they do.
    pub fn quorum(&self) -> Option<QuorumRow> {
        self.replication.get()?.quorum()
    }

    /// Returns what became of sampled reads, of whichever sides this node has been.
    pub fn replayed_reads(&self) -> Vec<ReadsRow> {
        let taken = self.replication.get().and_then(|replication| replication.reads());
        let run = self.node_state.get().and_then(|state| state.reads());
        taken.map(|shipped| self.sampling.row(shipped)).into_iter().chain(run).collect()
    }

    /// Returns whether this node leads still, as far as it can learn ([`NodeState::still_leads`]).
    pub(super) async fn still_leads(&self) -> bool {
        match self.node_state.get() {
            Some(state) => state.still_leads().await,
            None => true,
        }
    }

    /// Returns whom the database follows, if it does.
    pub fn following(&self) -> Option<FollowingRow> {
        self.node_state.get()?.following()
    }

    /// Returns what the engine says of its store. Takes short locks, and waits as long as a flush puts its frame together.
    pub fn store_figures(&self) -> StoreFigures {
        let db = &self.db;
        // Without a session left for it they are shown without names.
        let names = collie_engine::kv::Db::over(db).list_cfs().unwrap_or_default();
        let (stats, log_bytes_max) = (db.stats_now(), db.log_bytes_max());
        StoreFigures { stats, names, positions: (db.durable(), db.boundary()), log_bytes_max }
    }

    /// Returns the list of replicas that commits wait for, nobody where none are served; of a replica that its log names.
    pub(super) fn quorum_list(&self) -> String {
        match self.replication.get() {
            Some(replication) => replication.quorum_list(),
            None if self.db.is_replica() => self.db.quorum_note().map_or_else(String::new, |note| note.list),
            None => String::new(),
        }
    }

    /// Has others asked for commits.
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

    /// Returns the seconds to show.
    pub(super) fn delays(&self) -> Vec<DelayRow> {
        self.replication.get().map_or_else(Vec::new, |replication| replication.delays())
    }

    /// Forgets a slot.
    pub(super) fn drop_slot(&self, name: &str) -> Result<()> {
        let Some(replication) = self.replication.get() else { return Err(no_slot(name)) };
        let mut dropped = Ok(());
        self.block(&mut || dropped = replication.drop_slot(name));
        dropped
    }
}

/// There is no slot of that name.
pub fn no_slot(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("replication slot \"{name}\" does not exist"))
}
