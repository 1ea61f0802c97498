//! `Oracle`: the rules that hold for the nodes after a failover, checked with the journals of clients and the files of
//! the nodes.
//!
//! # Oracles (the numbers R are those of the design of replication)
//! - R9. A commit that was answered at `remote_write`, `on` or `remote_apply` is there, on every node, as long as none
//!   of them loses power. One that was answered with the warning that replicas lack it may be lost, unless there is a
//!   witness: then no other node can lead before it has that commit.
//! - R10. No two commits have one token: a position has one meaning in its history. Equal positions of the three logs
//!   hold equal records.
//! - R8. In a term only one node acknowledges.
//! - R13. A commit that was answered at `local` and is gone lies in `diverged/` of the node that answered it. For one
//!   that was answered at `off` the only rule is that no later commit of its session is there.
//! - R4. A transaction that a reader saw on a replica is there, since it was shown with a quorum.
//! - The sums and tables of the bank: `bank::verify`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context, bail, ensure};
use collie_base::Lsn;
use collie_engine::{DirectoryIdentity, Token, is_commit_record, log_dir_of};
use collie_env::Env;
use collie_wal::{WalError, inspect};
use postgres::Client;

use super::load::{Level, Seen, Session};
use crate::{
    bank,
    journal::{Journal, Outcome},
    trio::{NAMES, Trio},
};

/// All answers that clients got in one database, and the leaders' terms.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    sessions: Vec<Session>,
    seen: BTreeSet<Seen>,
    /// The term of each history that a node knew.
    terms: BTreeMap<u64, u64>,
}

/// The numbers of commits by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Acknowledged commits, at each level.
    pub(crate) acknowledged: [u64; Level::ALL.len()],
    /// Acknowledged at `local` or `off`, and gone.
    pub(crate) lost: u64,
    /// Found in `diverged/`, whether they were acknowledged or not.
    pub(crate) set_aside: u64,
    /// Transactions seen on replicas.
    pub(crate) seen: u64,
    /// Acknowledged by a leader without its quorum, with the leave of a witness.
    pub(crate) alone: u64,
}

impl Oracle {
    /// Records the answers that clients got.
    pub(crate) fn heard(&mut self, sessions: Vec<Session>, seen: Vec<Seen>) {
        self.sessions.extend(sessions);
        self.seen.extend(seen);
    }

    /// Checks all rules on nodes that have settled, with `leader` leading.
    ///
    /// # Errors
    /// The first rule that is violated.
    pub(crate) fn check(&mut self, nodes: &impl Trio, leader: usize) -> anyhow::Result<Counts> {
        let mut client = nodes.connect(leader)?;
        self.rules(nodes)?;
        self.money(&mut client)?;
        self.shown(&mut client)?;
        let (lost, set_aside) = self.lost(&mut client, nodes)?;
        let alone = self.sessions.iter().map(|session| session.alone).sum();
        let mut counts = Counts { lost, set_aside, seen: self.seen.len() as u64, alone, ..Counts::default() };
        for session in &self.sessions {
            let is_told = |outcome: &&Outcome| **outcome == Outcome::Acknowledged;
            counts.acknowledged[session.level as usize] +=
                session.journal.outcomes.iter().filter(is_told).count() as u64;
        }
        Ok(counts)
    }

    /// Checks R8 and R10.
    fn rules(&mut self, nodes: &impl Trio) -> anyhow::Result<()> {
        for (node, name) in NAMES.iter().enumerate().take(nodes.count()) {
            let who = DirectoryIdentity::read(&nodes.data(node), &nodes.env(node)).context("whose a directory is")?;
            let who = who.with_context(|| format!("{name} has no database"))?;
            for history in who.histories {
                let (id, term) = (history.history.get(), history.term.get());
                let known = *self.terms.entry(id).or_insert(term);
                ensure!(known == term, "history {id:016X} is of term {term} on {name}, elsewhere of {known}");
            }
        }
        one_node_in_each_term(&self.sessions, &self.terms)?;
        one_meaning_of_each_token(&self.sessions)?;
        equal_records(nodes)
    }

    fn money(&self, client: &mut Client) -> anyhow::Result<()> {
        let journals: Vec<Journal> = self.sessions.iter().map(|session| session.journal.clone()).collect();
        bank::verify(client, &journals, false)
    }

    /// Checks R4.
    fn shown(&self, client: &mut Client) -> anyhow::Result<()> {
        let find = client.prepare("SELECT count(*) FROM receipts WHERE client = $1 AND seq = $2")?;
        for Seen { node, client: number, seq } in &self.seen {
            let (id, place) = (i32::try_from(*number)?, i32::try_from(*seq)?);
            let found: i64 = client.query_one(&find, &[&id, &place])?.get(0);
            ensure!(found == 1, "R4: transaction {seq} of session {number} was shown on {} and is lost", NAMES[*node]);
        }
        Ok(())
    }

    /// Checks R13. Returns the number of acknowledged commits that are gone, and of commits that were set aside.
    fn lost(&self, client: &mut Client, nodes: &impl Trio) -> anyhow::Result<(u64, u64)> {
        let mut aside: Vec<BTreeSet<Lsn>> = Vec::new();
        for node in 0..nodes.count() {
            aside.push(commits_aside(&nodes.env(node), &nodes.data(node))?);
        }
        let mut lost = 0;
        for session in self.sessions.iter().filter(|session| !session.journal.sync) {
            let Session { node, level, journal, tokens, .. } = session;
            let present = bank::present(client, "receipts", journal.client)?;
            let gone = |seq: u64| {
                let outcome = usize::try_from(seq - 1).ok().and_then(|at| journal.outcomes.get(at));
                outcome == Some(&Outcome::Acknowledged) && !present.contains_key(&seq)
            };
            lost += (1..=journal.outcomes.len() as u64).filter(|seq| gone(*seq)).count() as u64;
            let kept = |token: &Token| aside[*node].contains(&token.lsn);
            if *level == Level::Local
                && let Some((seq, token)) = tokens.iter().find(|(seq, token)| gone(*seq) && !kept(token))
            {
                bail!(
                    "R13: transaction {seq} of session {}, answered at local by {} at {}, is neither there nor in diverged/",
                    journal.client,
                    NAMES[*node],
                    token.lsn
                );
            }
        }
        Ok((lost, aside.iter().map(BTreeSet::len).sum::<usize>() as u64))
    }
}

/// Checks R8 for the sessions' tokens.
fn one_node_in_each_term(sessions: &[Session], terms: &BTreeMap<u64, u64>) -> anyhow::Result<()> {
    let mut leaders: BTreeMap<u64, usize> = BTreeMap::new();
    for session in sessions {
        for (_, token) in &session.tokens {
            // All nodes forgot a history that was cut; its acknowledged commits were set aside with it.
            let Some(term) = terms.get(&token.history.get()) else { continue };
            let leader = *leaders.entry(*term).or_insert(session.node);
            ensure!(
                leader == session.node,
                "R8: in term {term} {} and {} acknowledge",
                NAMES[leader],
                NAMES[session.node]
            );
        }
    }
    Ok(())
}

/// Checks R10 for the tokens that clients got.
fn one_meaning_of_each_token(sessions: &[Session]) -> anyhow::Result<()> {
    let mut met: BTreeMap<(u64, Lsn), (u64, u64)> = BTreeMap::new();
    for session in sessions {
        for (seq, token) in &session.tokens {
            let this = (session.journal.client, *seq);
            if let Some(other) = met.insert((token.history.get(), token.lsn), this) {
                bail!("R10: {token} stands for transaction {other:?} and for {this:?}");
            }
        }
    }
    Ok(())
}

/// Checks R2 and R10: records at equal positions are equal.
fn equal_records(nodes: &impl Trio) -> anyhow::Result<()> {
    let mut logs = Vec::new();
    for (node, name) in NAMES.iter().enumerate().take(nodes.count()) {
        let env = nodes.env(node);
        let dir = log_dir_of(&nodes.data(node), &env).context("where a log is")?;
        logs.push(log_of(&env, &dir).with_context(|| format!("the log of {name}"))?);
    }
    let from = logs.iter().map(|(start, ..)| *start).max().unwrap_or(Lsn::ZERO);
    let until = logs.iter().map(|(_, end, _)| *end).min().unwrap_or(Lsn::ZERO);
    let Some(((.., first), others)) = logs.split_first() else { return Ok(()) };
    if from >= until {
        return Ok(());
    }
    for (node, (.., records)) in (1..).zip(others) {
        let mut pairs = first.range(from..until).zip(records.range(from..until));
        if let Some((one, other)) = pairs.find(|(one, other)| one != other) {
            bail!("R10: {} has {one:?} where {} has {other:?}", NAMES[0], NAMES[node]);
        }
        let counts = (first.range(from..until).count(), records.range(from..until).count());
        ensure!(
            counts.0 == counts.1,
            "R2: of one piece of log {} has {} records, {} {}",
            NAMES[0],
            counts.0,
            NAMES[node],
            counts.1
        );
    }
    Ok(())
}

/// The begin and the end of a log, and its records by position, each with its end, its tag, and a checksum of its body.
type LogRecords = (Lsn, Lsn, BTreeMap<Lsn, (Lsn, u8, u32)>);

/// Reads the log of a running node; starts again if the node releases log meanwhile.
fn log_of(env: &Env, dir: &Path) -> anyhow::Result<LogRecords> {
    'again: loop {
        let found = inspect(env, dir)?;
        let mut records = BTreeMap::new();
        for record in found.records(found.start()) {
            let record = match record {
                Err(WalError::CursorLost { .. }) => continue 'again,
                record => record?,
            };
            records.insert(record.lsn, (record.end, record.tag, collie_base::checksum::crc32c(&record.body)));
        }
        // The log of a node that was filled by a base backup begins after the backup's position.
        let start = records.keys().next().copied().unwrap_or(found.end());
        return Ok((start, found.end(), records));
    }
}

/// Returns the ends of the commits that a node has set aside.
fn commits_aside(env: &Env, data: &Path) -> anyhow::Result<BTreeSet<Lsn>> {
    let mut commits = BTreeSet::new();
    let Ok(found) = env.files.list(&data.join("diverged")) else { return Ok(commits) };
    for name in found {
        let dir = data.join("diverged").join(&name);
        let from = name.strip_prefix("from-").and_then(|rest| rest.split_once("-to-")).map(|(from, _)| from);
        let Some(Ok(from)) = from.map(|from| u64::from_str_radix(from, 16)) else { continue };
        let from = Lsn::new(from);
        let log = inspect(env, &dir).with_context(|| format!("{}", dir.display()))?;
        let records = log.records(from.max(log.start())).filter_map(Result::ok);
        let commits_of = records.filter(|record| record.lsn >= from && is_commit_record(record.tag));
        commits.extend(commits_of.map(|record| record.end));
    }
    Ok(commits)
}

#[cfg(test)]
mod tests;
