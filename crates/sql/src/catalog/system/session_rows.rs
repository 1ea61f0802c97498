//! Rows of the relations that describe the server and its sessions: the database, roles, settings, activity, prepared
//! statements.
//!
//! Checked by `system_tests`.

use std::net::SocketAddr;

use collie_base::Xid;
use collie_engine::{Awaited, LockTarget, LockWait};

use super::{
    SessionFacts, State, commits,
    functions::lsn,
    output::Output,
    redundancy,
    role::{self, OWNER},
};
use crate::{
    catalog::{relation::Oid, snapshot::PG_CATALOG},
    types::{Interval, Value, oid},
};

/// OID of the only database.
pub(super) const DATABASE: Oid = 5;
/// OID of the tablespace that holds everything.
const DEFAULT_TABLESPACE: Oid = 1663;
/// Number of the encoding UTF8.
pub(super) const UTF8: i32 = 6;

/// Adds the rows if the relation is one of these.
pub(super) fn fill(facts: &dyn SessionFacts, out: &mut Output<'_>) -> bool {
    if out.schema() != PG_CATALOG {
        return false;
    }
    match out.name() {
        "pg_database" => database(facts, out),
        "pg_tablespace" => {
            for (oid, name) in [(DEFAULT_TABLESPACE, "pg_default"), (1664, "pg_global")] {
                out.push([("oid", Value::Oid(oid)), ("spcname", Value::text(name)), ("spcowner", Value::Oid(OWNER))]);
            }
        }
        "pg_authid" | "pg_roles" => roles(facts, out),
        "pg_user" | "pg_shadow" => users(facts, out),
        "pg_settings" => settings(facts, out),
        "pg_stat_activity" => activity(facts, out),
        "pg_stat_replication" => replication(facts, out),
        "collie_replication" => own_replication(facts, out),
        "pg_replication_slots" => slots(facts, out),
        "collie_slots" => own_slots(facts, out),
        "collie_replication_delay" => delays(facts, out),
        "collie_node" => node(facts, out),
        "collie_commits" => commits::fill(facts, out),
        "collie_quorum" => redundancy::quorum(facts, out),
        "collie_following" => redundancy::following(facts, out),
        "collie_health" => redundancy::health(facts, out),
        "pg_prepared_statements" => {
            for row in facts.prepared_statements() {
                let types = row.parameters.iter().map(|ty| Value::Oid(*ty)).collect();
                out.push([
                    ("name", row.name.into()),
                    ("statement", Value::Text(row.text)),
                    ("prepare_time", Value::TimestampTz(row.since)),
                    ("parameter_types", Value::array(oid::REGTYPE, types)),
                    ("from_sql", Value::Bool(row.from_sql)),
                    ("generic_plans", Value::Int8(i64::try_from(row.runs).unwrap_or(i64::MAX))),
                    ("custom_plans", Value::Int8(0)),
                ]);
            }
        }
        _ => return false,
    }
    true
}

fn database(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    out.push([
        ("oid", Value::Oid(DATABASE)),
        ("datname", Value::text(facts.database())),
        ("datdba", Value::Oid(OWNER)),
        ("encoding", Value::Int4(UTF8)),
        ("datlocprovider", Value::Char(b'c')),
        ("datallowconn", Value::Bool(true)),
        ("datconnlimit", Value::Int4(-1)),
        ("dattablespace", Value::Oid(DEFAULT_TABLESPACE)),
        ("datcollate", Value::text("C")),
        ("datctype", Value::text("C")),
    ]);
}

fn roles(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let yes = || Value::Bool(true);
    let password = if out.name() == "pg_roles" { Value::text("********") } else { Value::Null };
    for (oid, name) in role::all(facts) {
        out.push([
            ("rolname", name.into()),
            ("rolsuper", yes()),
            ("rolinherit", yes()),
            ("rolcreaterole", yes()),
            ("rolcreatedb", yes()),
            ("rolcanlogin", yes()),
            ("rolreplication", yes()),
            ("rolconnlimit", Value::Int4(-1)),
            ("rolpassword", password.clone()),
            ("rolbypassrls", yes()),
            ("oid", Value::Oid(oid)),
        ]);
    }
}

fn users(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let yes = || Value::Bool(true);
    let password = if out.name() == "pg_user" { Value::text("********") } else { Value::Null };
    for (oid, name) in role::all(facts) {
        out.push([
            ("usename", name.into()),
            ("usesysid", Value::Oid(oid)),
            ("usecreatedb", yes()),
            ("usesuper", yes()),
            ("userepl", yes()),
            ("usebypassrls", yes()),
            ("passwd", password.clone()),
        ]);
    }
}

fn settings(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for setting in facts.settings() {
        if out.wanted_text("name").is_some_and(|name| name != setting.name) {
            continue;
        }
        let source = if setting.value == setting.default { "default" } else { "session" };
        out.push([
            ("name", Value::text(setting.name)),
            ("setting", setting.value.into()),
            ("category", Value::text(if setting.context == "internal" { "Preset Options" } else { "Client" })),
            ("short_desc", Value::text(setting.description)),
            ("context", Value::text(setting.context)),
            ("vartype", Value::text(setting.kind)),
            ("source", Value::text(source)),
            ("boot_val", Value::text(setting.default)),
            ("reset_val", Value::text(setting.default)),
            ("pending_restart", Value::Bool(false)),
        ]);
    }
}

fn activity(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let locks = facts.locks();
    let time = |time: Option<i64>| time.map_or(Value::Null, Value::TimestampTz);
    for session in facts.activity() {
        let wait = locks.waits.iter().find(|wait| wait.owner.slot == session.slot);
        let (wait_type, wait_event) = match (wait, session.doing.state) {
            (Some(wait), _) => (Value::text("Lock"), Value::text(wait_event(wait))),
            (None, State::Active) => (Value::Null, Value::Null),
            (None, _) => (Value::text("Client"), Value::text("ClientRead")),
        };
        let xid = locks.xids.iter().find(|(_, owner)| owner.slot == session.slot);
        let port = session.address.map_or(-1, |address| i32::from(address.port()));
        out.push([
            ("datid", Value::Oid(DATABASE)),
            ("datname", Value::text(facts.database())),
            ("pid", Value::Int4(session.pid.cast_signed())),
            ("usesysid", role::named(facts, &session.user).map_or(Value::Null, Value::Oid)),
            ("usename", Value::Text(session.user)),
            ("application_name", session.doing.application.into()),
            ("client_addr", session.address.map_or(Value::Null, |address| address.ip().to_string().into())),
            ("client_port", Value::Int4(port)),
            ("backend_start", Value::TimestampTz(session.since)),
            ("xact_start", time(session.doing.transaction_start)),
            ("query_start", time(session.doing.query_start)),
            ("state_change", time(session.doing.state_change)),
            ("wait_event_type", wait_type),
            ("wait_event", wait_event),
            ("state", Value::text(session.doing.state.words())),
            ("backend_xid", xid.map_or(Value::Null, |(xid, _)| short_xid(*xid))),
            ("query", session.doing.query.into()),
            ("backend_type", Value::text("client backend")),
        ]);
    }
}

/// Adds the connected replicas. The lags of an idle replica are NULL, as in PostgreSQL.
fn replication(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for standby in facts.standbys().into_iter().filter(|standby| standby.is_connected) {
        let address: Option<SocketAddr> = standby.address.parse().ok();
        let lag = |us: Option<i64>| us.map_or(Value::Null, |us| Value::Interval(Interval::of_micros(us)));
        out.push([
            ("usesysid", Value::Oid(OWNER)),
            ("usename", Value::text("collie")),
            ("application_name", standby.slot.into()),
            ("client_addr", address.map_or(Value::Null, |address| address.ip().to_string().into())),
            ("client_port", address.map_or(Value::Null, |address| Value::Int4(i32::from(address.port())))),
            ("state", Value::text(standby.state)),
            ("sent_lsn", lsn(standby.sent)),
            ("write_lsn", lsn(standby.received)),
            ("flush_lsn", lsn(standby.durable)),
            ("replay_lsn", lsn(standby.applied)),
            ("write_lag", lag(standby.write_lag_us)),
            ("flush_lag", lag(standby.flush_lag_us)),
            ("replay_lag", lag(standby.replay_lag_us)),
            ("sync_priority", Value::Int4(i32::from(standby.sync_state != "async"))),
            // PostgreSQL does not have the word "degraded"; no commit waits for such a replica now.
            ("sync_state", Value::text(if standby.sync_state == "quorum" { "quorum" } else { "async" })),
        ]);
    }
}

/// Adds every slot, with the lag of its replica.
fn own_replication(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for standby in facts.standbys() {
        let us = |figure: Option<i64>| figure.map_or(Value::Null, Value::Int8);
        let recent = standby.delay_recent;
        out.push([
            ("slot", standby.slot.into()),
            ("node", format!("{:016x}", standby.node).into()),
            ("address", standby.address.into()),
            ("state", Value::text(standby.state)),
            ("sent_lsn", lsn(standby.sent)),
            ("received_lsn", lsn(standby.received)),
            ("durable_lsn", lsn(standby.durable)),
            ("applied_lsn", lsn(standby.applied)),
            ("behind_bytes", Value::Int8(facts.positions().1.bytes_since(standby.applied).cast_signed())),
            ("delay_us", us(standby.delay.map(|delay| delay.mean_us))),
            ("delay_p50_us", us(recent.map(|delay| delay.p50_us))),
            ("delay_p99_us", us(recent.map(|delay| delay.p99_us))),
            ("delay_max_us", us(recent.map(|delay| delay.max_us))),
            ("delay_commits", us(recent.map(|delay| delay.commits))),
            ("measured_commits", Value::Int8(standby.measured_commits)),
            ("measured_us", Value::Int8(standby.measured_us)),
            ("oldest_us", Value::Int8(standby.oldest_us)),
            ("drain_us", us(standby.drain_us)),
            ("round_trip_us", us(standby.rtt_us)),
            ("queue_bytes", Value::Int8(standby.queue_bytes)),
            ("sync_state", Value::text(standby.sync_state)),
            ("verified_lsn", standby.verified.map_or(Value::Null, lsn)),
            ("log_verified_lsn", standby.log_verified.map_or(Value::Null, lsn)),
        ]);
    }
}

/// Adds the slots, as PostgreSQL shows physical ones: `wal_status` is `reserved` while the log is kept and `lost`
/// afterwards.
fn slots(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for slot in facts.slots() {
        let is_lost = slot.expired_by.is_some();
        let safe = if is_lost { Value::Null } else { Value::Int8(slot.bytes_max.saturating_sub(slot.kept_bytes)) };
        out.push([
            ("slot_name", slot.slot.into()),
            ("slot_type", Value::text("physical")),
            ("temporary", Value::Bool(false)),
            ("active", Value::Bool(slot.is_connected)),
            ("restart_lsn", slot.restart.map_or(Value::Null, lsn)),
            ("wal_status", Value::text(if is_lost { "lost" } else { "reserved" })),
            ("safe_wal_size", safe),
            ("two_phase", Value::Bool(false)),
        ]);
    }
}

/// Adds the slots with their limits and their present use.
fn own_slots(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for slot in facts.slots() {
        out.push([
            ("slot", slot.slot.into()),
            ("node", slot.node.map_or(Value::Null, |node| format!("{node:016x}").into())),
            ("state", Value::text(slot.state)),
            ("active", Value::Bool(slot.is_connected)),
            ("restart_lsn", slot.restart.map_or(Value::Null, lsn)),
            ("durable_lsn", lsn(slot.durable)),
            ("kept_bytes", Value::Int8(slot.kept_bytes)),
            ("bytes_max", Value::Int8(slot.bytes_max)),
            ("unheard_ms", Value::Int8(slot.unheard_ms)),
            ("age_max_ms", slot.age_max_ms.map_or(Value::Null, Value::Int8)),
            ("last_seen", slot.last_seen_us.map_or(Value::Null, Value::TimestampTz)),
            ("expired_by", slot.expired_by.map_or(Value::Null, Value::text)),
            ("problem", slot.problem.map_or(Value::Null, Into::into)),
        ]);
    }
}

/// Adds the delay of each replica in each of the last seconds, oldest first. Figures are NULL if no commit was
/// measured.
fn delays(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    for row in facts.delays() {
        let us = |figure: Option<i64>| figure.map_or(Value::Null, Value::Int8);
        out.push([
            ("slot", row.slot.into()),
            ("at", Value::TimestampTz(row.at_us)),
            ("state", Value::text(row.state)),
            ("commits", Value::Int8(row.delay.map_or(0, |delay| delay.commits))),
            ("mean_us", us(row.delay.map(|delay| delay.mean_us))),
            ("p50_us", us(row.delay.map(|delay| delay.p50_us))),
            ("p99_us", us(row.delay.map(|delay| delay.p99_us))),
            ("max_us", us(row.delay.map(|delay| delay.max_us))),
            ("oldest_us", Value::Int8(row.oldest_us)),
            ("behind_bytes", Value::Int8(row.durable.bytes_since(row.applied).cast_signed())),
            ("durable_lsn", lsn(row.durable)),
            ("applied_lsn", lsn(row.applied)),
        ]);
    }
}

/// Adds one row with the identity and the progress of this node.
fn node(facts: &dyn SessionFacts, out: &mut Output<'_>) {
    let (node, (visible, durable)) = (facts.node(), facts.positions());
    out.push([
        ("role", Value::text(if node.is_replica { "replica" } else { "primary" })),
        ("cluster", format!("{:032x}", node.cluster).into()),
        ("node", format!("{:016x}", node.node).into()),
        ("term", Value::Int8(i64::try_from(node.term).unwrap_or(i64::MAX))),
        ("history", node.history.map_or(Value::Null, |(history, _)| format!("{history:016x}").into())),
        ("history_start", node.history.map_or(Value::Null, |(_, start)| lsn(start))),
        ("visible_lsn", lsn(visible)),
        ("durable_lsn", lsn(durable)),
        ("commits", Value::Int8(i64::try_from(node.commits).unwrap_or(i64::MAX))),
        ("problem", node.problem.map_or(Value::Null, Into::into)),
        ("aborts", Value::Int8(i64::try_from(node.aborts).unwrap_or(i64::MAX))),
        (
            "promised_term",
            node.promised.map_or(Value::Null, |term| Value::Int8(i64::try_from(term).unwrap_or(i64::MAX))),
        ),
        ("term_start", node.term_start.map_or(Value::Null, lsn)),
    ]);
}

/// Returns the event that a session waits for, in the words of `wait_event` for locks.
fn wait_event(wait: &LockWait) -> &'static str {
    match wait.awaited {
        Awaited::Table(LockTarget::Table(_), _) => "relation",
        Awaited::Table(LockTarget::Advisory(_) | LockTarget::AdvisoryPair(..), _) => "advisory",
        // As in `pg_locks`: the first waiter waits for the holder, the others for the first.
        Awaited::Row(_) if wait.in_the_way.iter().any(|one| one.queued) => "tuple",
        Awaited::Row(_) => "transactionid",
    }
}

/// Builds a value of PostgreSQL's type `xid`, which has the low 32 bits only.
pub(super) fn short_xid(xid: Xid) -> Value {
    Value::Oid(u32::try_from(xid.get() & u64::from(u32::MAX)).expect("32 bits"))
}
