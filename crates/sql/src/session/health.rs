//! `health`: the troubles of a running database that an operator should know: what keeps it from serving its clients,
//! and what it has lost without their noticing. Only this module decides on them: `collie_health`, `/readyz` and
//! `collie status` show the same.
//!
//! # Invariants
//! - E1. Lost redundancy is always among the troubles (FAULT-11): a replica that is away, a slot that is expired, a
//!   quorum without which commits are answered, a primary that is not heard.
//! - E2. A trouble is a failure only if clients are not served. Redundancy that is lost while they are served is a
//!   warning: taking the server out of service would turn it into an outage.
//!
//! Checked by the tests here, and by the clients' tests of `collie status`.

use std::time::Duration;

use collie_engine::{EngineStat, Rot, StallStat, Stats};

use crate::{
    catalog::system::{FollowingRow, FollowingState, QuorumRow, QuorumState, Severity, SlotRow, Trouble, WitnessState},
    session::Database,
};

/// Age from which an in-flight flush of the log is a failure. The server's log names a stalled device after one second.
const FLUSH_MAX: Duration = Duration::from_secs(10);

/// The facts about the log.
#[derive(Clone, Debug, Default)]
struct LogFacts {
    poisoned: bool,
    full: Option<String>,
    alarm: Option<String>,
    oldest_flush: Option<Duration>,
    /// Directories of copies that have a problem, with the problem.
    bad_copies: Vec<(String, String)>,
}

/// The facts by which health is judged.
#[derive(Debug, Default)]
struct Facts {
    is_replica: bool,
    is_read_only: bool,
    term: u64,
    promised: Option<u64>,
    /// The problem of this replica's copy of its primary's rows.
    problem: Option<String>,
    log: LogFacts,
    engine: EngineStat,
    /// Trees of which a write or a sync failed, with the reason.
    failed: Vec<(u32, String)>,
    /// The state of writers that wait for flushes.
    stalls: StallStat,
    /// Files that were found rotten since the open.
    rot: Vec<Rot>,
    quorum: Option<QuorumRow>,
    slots: Vec<SlotRow>,
    following: Option<FollowingRow>,
    delay_max: Option<Duration>,
}

impl Database {
    /// Returns the troubles, failures first; a healthy database has none. Takes short locks, and may wait while a flush
    /// of the log builds its frame.
    pub fn health(&self) -> Vec<Trouble> {
        let (db, node) = (&self.db, self.node());
        let Stats { engine, levels, log, stalls, .. } = db.stats_now();
        let failed = levels.trees.into_iter().filter_map(|tree| Some((tree.state.id.get(), tree.failed?))).collect();
        let log = log.map_or_else(LogFacts::default, |log| LogFacts {
            poisoned: log.poisoned,
            full: log.full,
            alarm: log.alarm,
            oldest_flush: log.in_flight_age,
            bad_copies: log
                .copies
                .into_iter()
                .filter(|copy| !copy.why.is_empty())
                .map(|copy| (copy.dir.display().to_string(), copy.why))
                .collect(),
        });
        judge(&Facts {
            is_replica: node.is_replica,
            is_read_only: db.is_read_only(),
            term: node.term,
            promised: node.promised,
            problem: node.problem,
            log,
            engine,
            failed,
            stalls,
            rot: db.rot(),
            quorum: self.quorum(),
            slots: self.slots(),
            following: self.following(),
            delay_max: self.node_state.get().and_then(|state| state.delay_max()),
        })
    }
}

fn seconds(ms: u64) -> String {
    if ms < 10_000 { format!("{ms} ms") } else { format!("{} s", ms / 1000) }
}

fn judge(facts: &Facts) -> Vec<Trouble> {
    let mut found = Vec::new();
    let mut say = |severity, subject, reason: String| found.push(Trouble { severity, subject, reason });
    log_troubles(&facts.log, facts.is_replica, &mut say);
    if facts.is_read_only && !facts.is_replica {
        say(
            Severity::Warning,
            "mode",
            "it was opened read-only: every statement that would write is refused".to_owned(),
        );
    }
    if let Some(limit) = facts.engine.memory_limit_bytes.filter(|limit| facts.engine.memory_bytes >= *limit) {
        let used = facts.engine.memory_bytes;
        let text = format!(
            "rows take up {used} of {limit} bytes (store.memory_limit): what stores a value is refused with 53200"
        );
        say(Severity::Warning, "memory", text);
    }
    store_troubles(&facts.failed, &facts.stalls, &mut say);
    for rot in &facts.rot {
        say(Severity::Warning, "rot", rot_text(rot));
    }
    if let Some(promised) = facts.promised.filter(|promised| *promised > facts.term) {
        let text = format!(
            "term {promised} was promised, and this node is of term {}: another node leads in it, or a promotion was not won",
            facts.term
        );
        say(Severity::Warning, "term", text);
    }
    if let Some(problem) = &facts.problem {
        say(Severity::Warning, "replica", problem.clone());
    }
    if let Some(quorum) = &facts.quorum {
        quorum_troubles(quorum, &mut say);
    }
    for slot in &facts.slots {
        slot_troubles(slot, &mut say);
    }
    if let Some(following) = &facts.following {
        following_troubles(following, facts.delay_max, &mut say);
    }
    found.sort_by_key(|trouble| trouble.severity);
    found
}

fn store_troubles(failed: &[(u32, String)], stalls: &StallStat, say: &mut impl FnMut(Severity, &'static str, String)) {
    let waiting = stalls.waiting;
    match (&stalls.trouble, &stalls.cause) {
        // A failure even if no client waits now, since all have given up: the next one would wait.
        (Some(_), Some(cause)) if stalls.is_stopped => {
            say(Severity::Failure, "store", format!("writes wait, {waiting} of them now, since flushes fail: {cause}"));
        }
        (Some(trouble), _) => {
            let text = format!(
                "{trouble}: it is tried again; writes wait once the log has reached two limits (wal.max_total_wal_size)"
            );
            say(Severity::Warning, "store", text);
        }
        (None, Some(cause)) if stalls.is_stopped => {
            say(Severity::Warning, "store", format!("writes wait, {waiting} of them now: {cause}"));
        }
        (None, _) => {}
    }
    for (tree, why) in failed {
        let text = format!("tree {tree} of the levels failed; its next flush rewrites it from memory: {why}");
        say(Severity::Warning, "store", text);
    }
}

fn rot_text(Rot { path, what, is_mended, quarantined, .. }: &Rot) -> String {
    let kept =
        quarantined.as_ref().map_or_else(String::new, |kept| format!("; the file is kept as {}", kept.display()));
    match is_mended {
        true => format!("{what}: what it held was written again from memory{kept}; look at the disk"),
        false => format!(
            "{what}: it could not be written again, and its rows are in memory alone: do not stop the server until {} has been written",
            path.display()
        ),
    }
}

fn log_troubles(log: &LogFacts, is_replica: bool, say: &mut impl FnMut(Severity, &'static str, String)) {
    if log.poisoned {
        let text = "a write or sync of the log failed, and so did writing it elsewhere: nothing is acknowledged until the server is started again";
        say(Severity::Failure, "log", text.to_owned());
    }
    if let Some(why) = &log.full {
        if is_replica {
            say(Severity::Warning, "log", format!("there is no room for what the primary sends: {why}"));
        } else {
            say(Severity::Failure, "log", format!("writes are refused (53100): {why}"));
        }
    } else if let Some(alarm) = &log.alarm {
        say(Severity::Warning, "log", alarm.clone());
    }
    if let Some(age) = log.oldest_flush.filter(|age| *age >= FLUSH_MAX) {
        let text =
            format!("the device has not come back from a flush of the log for {} s: commits wait", age.as_secs());
        say(Severity::Failure, "log", text);
    }
    for (dir, why) in &log.bad_copies {
        say(Severity::Warning, "log", format!("the copy of the log in {dir} is left out or late: {why}"));
    }
}

fn quorum_troubles(quorum: &QuorumRow, say: &mut impl FnMut(Severity, &'static str, String)) {
    let QuorumRow { connected, missing, .. } = quorum;
    let (list, time, missing) = (quorum.asked(), seconds(quorum.state_ms), missing.join(", "));
    match quorum.state {
        QuorumState::Whole => {}
        QuorumState::Short => {
            let text = format!(
                "{connected} of {list} are connected, for {time} (missing: {missing}): commits that ask for replicas wait"
            );
            say(Severity::Failure, "quorum", text);
        }
        QuorumState::Degraded => {
            let missing = if missing.is_empty() { String::new() } else { format!(" (missing: {missing})") };
            let text = format!(
                "for {time} commits have been answered without {list}, each with a warning{missing}: one more failure loses them"
            );
            say(Severity::Warning, "quorum", text);
        }
    }
    if quorum.witness == Some(WitnessState::Unreachable) {
        let text = "the witness does not answer: if a node is lost now, commits wait, and no replica can be promoted";
        say(Severity::Warning, "witness", text.to_owned());
    }
}

fn slot_troubles(row: &SlotRow, say: &mut impl FnMut(Severity, &'static str, String)) {
    let name = &row.slot;
    if let Some(problem) = &row.problem {
        say(Severity::Warning, "slot", format!("the replica of {name} is {}: {problem}", row.state));
    }
    if let Some(by) = row.expired_by {
        let text = format!(
            "{name} is expired by its {by}: its replica has to be rebuilt, or the slot dropped (pg_drop_replication_slot)"
        );
        say(Severity::Warning, "slot", text);
    } else if !row.is_connected {
        let time = seconds(u64::try_from(row.unheard_ms).unwrap_or(0));
        let (kept, most) = (row.kept_bytes, row.bytes_max);
        let text = format!(
            "the replica of {name} was not heard of for {time}; {kept} of at most {most} bytes of log are kept for it"
        );
        say(Severity::Warning, "slot", text);
    }
}

fn following_troubles(
    following: &FollowingRow,
    delay_max: Option<Duration>,
    say: &mut impl FnMut(Severity, &'static str, String),
) {
    let why = following.error.as_ref().map_or_else(String::new, |error| format!(" ({error})"));
    match following.state {
        FollowingState::Stopped => {
            say(
                Severity::Failure,
                "replica",
                format!("it takes nothing more from its primary{why}: what it shows grows old"),
            );
        }
        FollowingState::Looking => {
            let heard = match (following.unheard_ms, following.lacked_bytes()) {
                (Some(ms), Some(0)) => {
                    format!("not heard of for {}; all that it had on disk then is here", seconds(ms))
                }
                (Some(ms), Some(lacked)) => {
                    format!("not heard of for {}; {lacked} bytes that it had on disk then are not here", seconds(ms))
                }
                _ => format!("not heard of since this server was started, {} ago", seconds(following.state_ms)),
            };
            let text = format!("the primary at {} was {heard}{why}", following.address);
            say(Severity::Warning, "primary", text);
        }
        FollowingState::Following => {
            // A commit that readers do not see yet may be older than the last one that they see.
            let delay = following.delay_us.max(following.oldest_us).map(Duration::from_micros);
            if let (Some(delay), Some(most)) = (delay, delay_max)
                && delay > most
            {
                let (ms, most) = (delay.as_millis(), most.as_millis());
                let text = format!("readers here are {ms} ms behind, and replication.ready_delay is {most} ms");
                say(Severity::Failure, "replica", text);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use collie_base::Lsn;

    use super::*;

    fn found(facts: &Facts) -> Vec<(Severity, &'static str)> {
        judge(facts).into_iter().map(|trouble| (trouble.severity, trouble.subject)).collect()
    }

    fn slot(is_connected: bool, expired_by: Option<&'static str>) -> SlotRow {
        SlotRow {
            slot: "north".to_owned(),
            node: Some(7),
            state: "away",
            is_connected,
            restart: None,
            durable: Lsn::ZERO,
            kept_bytes: 7,
            bytes_max: 9,
            unheard_ms: 12_345,
            age_max_ms: None,
            last_seen_us: None,
            expired_by,
            problem: None,
        }
    }

    fn rot(is_mended: bool) -> Rot {
        let (path, what) = ("/db/levels/a".into(), "/db/levels/a: is not as it was written".to_owned());
        Rot {
            path,
            families: Vec::new(),
            what,
            is_mended,
            quarantined: is_mended.then(|| "/db/levels/quarantine/a".into()),
        }
    }

    fn quorum(state: QuorumState) -> QuorumRow {
        let (list, missing) = ("ANY 1 (a)".to_owned(), vec!["a".to_owned()]);
        let (before, until, witness) = (None, None, None);
        QuorumRow { list, before, until, state, state_ms: 1500, needed: 1, connected: 0, missing, witness }
    }

    fn following(state: FollowingState, received: u64, delay_us: u64) -> FollowingRow {
        FollowingRow {
            address: "127.0.0.1:1".to_owned(),
            slot: "a".to_owned(),
            state,
            state_ms: 40_000,
            unheard_ms: Some(40_000),
            primary_durable: Some(Lsn::new(100)),
            received: Lsn::new(received),
            applied: Lsn::new(received),
            delay_us: Some(delay_us),
            oldest_us: None,
            error: Some("connection refused".to_owned()),
        }
    }

    /// Goal: a healthy database has no trouble, and each trouble has its severity: lost redundancy alone never takes a
    /// server out of service, and anything for which clients wait or fail does. Method: each fact alone.
    #[test]
    fn each_fact_has_its_severity() {
        let well = || Facts {
            term: 3,
            promised: Some(3),
            slots: vec![slot(true, None)],
            quorum: Some(quorum(QuorumState::Whole)),
            following: Some(following(FollowingState::Following, 100, 10)),
            delay_max: Some(Duration::from_millis(5)),
            ..Facts::default()
        };
        assert_eq!(judge(&well()), []);
        let log = |log: LogFacts| Facts { log, ..well() };
        let text = || Some("no room".to_owned());
        let stopped = |is_stopped: bool| StallStat {
            is_stopped,
            cause: is_stopped.then(|| "flushes are behind".to_owned()),
            ..StallStat::default()
        };
        let (failure, warning) = (Severity::Failure, Severity::Warning);
        let mut crowded = EngineStat::default();
        (crowded.memory_bytes, crowded.memory_limit_bytes) = (10, Some(10));
        let cases = [
            (log(LogFacts { poisoned: true, ..LogFacts::default() }), failure, "log"),
            (log(LogFacts { full: text(), ..LogFacts::default() }), failure, "log"),
            (log(LogFacts { alarm: text(), ..LogFacts::default() }), warning, "log"),
            (log(LogFacts { oldest_flush: Some(Duration::from_secs(11)), ..LogFacts::default() }), failure, "log"),
            (Facts { is_read_only: true, ..well() }, warning, "mode"),
            (Facts { engine: crowded, ..well() }, warning, "memory"),
            (Facts { failed: vec![(3, "it is damaged".to_owned())], ..well() }, warning, "store"),
            (Facts { stalls: StallStat { trouble: text(), ..stopped(false) }, ..well() }, warning, "store"),
            (Facts { stalls: stopped(true), ..well() }, warning, "store"),
            (Facts { stalls: StallStat { trouble: text(), ..stopped(true) }, ..well() }, failure, "store"),
            (Facts { rot: vec![rot(true)], ..well() }, warning, "rot"),
            (Facts { rot: vec![rot(false)], ..well() }, warning, "rot"),
            (Facts { promised: Some(4), ..well() }, warning, "term"),
            (Facts { quorum: Some(quorum(QuorumState::Short)), ..well() }, failure, "quorum"),
            (Facts { quorum: Some(quorum(QuorumState::Degraded)), ..well() }, warning, "quorum"),
            (Facts { slots: vec![slot(false, None)], ..well() }, warning, "slot"),
            (Facts { slots: vec![slot(false, Some("age"))], ..well() }, warning, "slot"),
            (Facts { following: Some(following(FollowingState::Looking, 100, 0)), ..well() }, warning, "primary"),
            (Facts { problem: text(), ..well() }, warning, "replica"),
            (Facts { slots: vec![SlotRow { problem: text(), ..slot(true, None) }], ..well() }, warning, "slot"),
            (Facts { following: Some(following(FollowingState::Stopped, 100, 0)), ..well() }, failure, "replica"),
            (Facts { following: Some(following(FollowingState::Following, 100, 5001)), ..well() }, failure, "replica"),
        ];
        for (facts, severity, subject) in cases {
            assert_eq!(found(&facts), [(severity, subject)], "{facts:?}");
        }
        let full = LogFacts { full: text(), ..LogFacts::default() };
        let replica = Facts { is_replica: true, is_read_only: true, ..log(full) };
        assert_eq!(found(&replica), [(warning, "log")], "a full replica goes on answering reads");
    }

    /// Goal: the lines give what is missing, for how long, and what the primary had; failures come first. Method: a
    /// server with all of it.
    #[test]
    fn lines_say_since_when_and_what_is_missing() {
        let all = judge(&Facts {
            slots: vec![slot(false, None), slot(false, Some("bytes"))],
            quorum: Some(quorum(QuorumState::Short)),
            following: Some(following(FollowingState::Looking, 40, 0)),
            ..Facts::default()
        });
        let lines: Vec<&str> = all.iter().map(|trouble| &*trouble.reason).collect();
        assert_eq!(all[0].severity, Severity::Failure);
        for (line, parts) in lines.iter().zip([
            &["0 of ANY 1 (a) are connected", "1500 ms", "missing: a", "wait"][..],
            &["north was not heard of for 12 s", "7 of at most 9 bytes"],
            &["expired by its bytes"],
            &["127.0.0.1:1", "40 s", "60 bytes", "connection refused"],
        ]) {
            parts.iter().for_each(|part| assert!(line.contains(part), "{line}: {part}"));
        }
        assert_eq!(lines.len(), 4);
        let before = Some("ANY 1 (b)".to_owned());
        let changing = QuorumRow { before, until: Some(Lsn::new(0x30)), ..quorum(QuorumState::Short) };
        let line = judge(&Facts { quorum: Some(changing), ..Facts::default() }).remove(0).reason;
        assert!(line.starts_with("0 of ANY 1 (a), and ANY 1 (b) until both have 0/30 are connected"), "{line}");
        let unheard = QuorumRow { witness: Some(WitnessState::Unreachable), ..quorum(QuorumState::Whole) };
        let troubles = judge(&Facts { quorum: Some(unheard), ..Facts::default() });
        assert_eq!(
            troubles.iter().map(|trouble| (trouble.severity, trouble.subject)).collect::<Vec<_>>(),
            [(Severity::Warning, "witness")]
        );
        let never = FollowingRow { unheard_ms: None, ..following(FollowingState::Looking, 100, 0) };
        let line = judge(&Facts { following: Some(never), ..Facts::default() }).remove(0).reason;
        assert!(line.contains("since this server was started, 40 s ago"), "{line}");
    }
}
