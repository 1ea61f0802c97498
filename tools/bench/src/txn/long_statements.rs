//! What do other sessions wait for while one session runs something long? Reports the slowest read by key, new
//! connection, cancel request and `/healthz` of all that were answered meanwhile. Compared with PostgreSQL, which has
//! a process for each session, and with an otherwise idle server.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use anyhow::Context;
use postgres::{Client, NoTls, error::SqlState};

use crate::{
    Plan, Section, http,
    measures::{median, micros},
    report::{Figure, Row},
    servers::{PEER, Server, Servers, free_port, in_turn},
};

/// Rows that the long statements scan.
const ROWS: u64 = 1_000_000;
/// Values of the long list.
const LISTED: u64 = 200_000;
/// The time for which requests are measured on an idle server.
const IDLE: Duration = Duration::from_secs(2);
/// The pause between two requests of one kind, so that ports do not run out. A delay is measured too short by up to
/// this much.
const PAUSE: Duration = Duration::from_millis(5);
/// The target for every request.
const LIMIT_US: f64 = 50_000.0;

/// A long operation of one session.
struct Work {
    name: &'static str,
    /// Not timed.
    before: &'static str,
    sql: String,
    /// Not timed.
    after: &'static str,
}

fn works(plan: &Plan) -> Vec<Work> {
    let work = |name, before, sql: &str, after| Work { name, before, sql: sql.to_owned(), after };
    let listed: Vec<String> = (0..plan.amount(LISTED)).map(|value| value.to_string()).collect();
    let in_list = format!("SELECT count(*) FROM few WHERE id IN ({})", listed.join(", "));
    let read_all = "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT sum(n) FROM many; UPDATE few SET n = n + 1 WHERE id = 1";
    vec![
        work("CREATE INDEX", "", "CREATE INDEX many_n ON many (n)", ""),
        work("DROP INDEX", "", "DROP INDEX many_n", ""),
        work(
            "ADD UNIQUE",
            "",
            "ALTER TABLE many ADD CONSTRAINT one UNIQUE (m)",
            "ALTER TABLE many DROP CONSTRAINT one",
        ),
        work("ROLLBACK of an update of all rows", "BEGIN; UPDATE many SET n = n + 1", "ROLLBACK", ""),
        work("a long IN list", "", &in_list, ""),
        work("SERIALIZABLE commit after a read of all rows", read_all, "COMMIT", ""),
        work("TRUNCATE", "", "TRUNCATE many", ""),
    ]
}

/// The answers to one kind of request.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    count: u64,
    slowest_ns: u64,
}

/// The answers to the other requests meanwhile.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    took_ns: u64,
    reads: Answers,
    connections: Answers,
    cancels: Answers,
    healths: Answers,
}

/// A server, and its address for `/healthz`.
struct Subject<'s> {
    server: &'s Server,
    http: Option<&'s str>,
}

/// Repeats requests until `over`; `once` returns the nanoseconds until its answer.
fn ask(over: &AtomicBool, mut once: impl FnMut() -> anyhow::Result<u64>) -> anyhow::Result<Answers> {
    let mut answers = Answers::default();
    while answers.count == 0 || !over.load(Ordering::SeqCst) {
        answers.slowest_ns = answers.slowest_ns.max(once()?);
        answers.count += 1;
        thread::sleep(PAUSE);
    }
    Ok(answers)
}

/// Returns the nanoseconds that `once` takes.
fn timed<T>(plan: &Plan, once: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<u64> {
    let begun = plan.now_ns();
    once()?;
    Ok(plan.now_ns() - begun)
}

/// Runs a statement until it is cancelled; returns the nanoseconds from the request to the statement's answer.
fn cancel(plan: &Plan, server: &Server, watcher: &mut Client) -> anyhow::Result<u64> {
    let mut client = server.connect()?;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[])?.get(0);
    let token = client.cancel_token();
    let running = thread::spawn(move || client.batch_execute("SELECT pg_sleep(60)"));
    let active = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active'";
    while watcher.query_one(active, &[&pid])?.get::<_, i64>(0) == 0 {
        anyhow::ensure!(!running.is_finished(), "a statement ended before it was cancelled");
    }
    let begun = plan.now_ns();
    token.cancel_query(NoTls)?;
    let Ok(answer) = running.join() else { anyhow::bail!("a client panicked") };
    let took = plan.now_ns() - begun;
    let code = answer.err().and_then(|error| error.code().cloned());
    anyhow::ensure!(code == Some(SqlState::QUERY_CANCELED), "a statement was not cancelled: {code:?}");
    Ok(took)
}

impl Subject<'_> {
    /// Lets one session do `work` while others send requests.
    fn look_beside(&self, plan: &Plan, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Seen> {
        let over = AtomicBool::new(false);
        let (mut reader, mut watcher) = (self.server.connect()?, self.server.connect()?);
        let by_key = reader.prepare("SELECT n FROM few WHERE id = 7")?;
        thread::scope(|scope| {
            let over = &over;
            let reads = scope.spawn(move || ask(over, || timed(plan, || Ok(reader.query_one(&by_key, &[])?))));
            let connections = scope.spawn(move || ask(over, || timed(plan, || Ok(self.server.connect()?))));
            let cancels = scope.spawn(move || ask(over, || cancel(plan, self.server, &mut watcher)));
            let health = |address| scope.spawn(move || ask(over, || timed(plan, || http::get(address, "/healthz"))));
            let healths = self.http.map(health);
            let begun = plan.now_ns();
            let worked = work();
            let took_ns = plan.now_ns() - begun;
            over.store(true, Ordering::SeqCst);
            let ended = |answers: thread::ScopedJoinHandle<'_, anyhow::Result<Answers>>| match answers.join() {
                Ok(answers) => answers,
                Err(_) => Err(anyhow::anyhow!("a client panicked")),
            };
            let (reads, connections, cancels) = (ended(reads)?, ended(connections)?, ended(cancels)?);
            let healths = healths.map_or(Ok(Answers::default()), ended)?;
            worked?;
            Ok(Seen { took_ns, reads, connections, cancels, healths })
        })
    }

    /// Makes the tables, and measures all works once, starting with an idle server.
    fn run(&self, plan: &Plan, works: &[Work]) -> anyhow::Result<Vec<Seen>> {
        let mut client = self.server.connect()?;
        client.batch_execute(
            "DROP TABLE IF EXISTS many, few; CREATE TABLE many (id int PRIMARY KEY, n int, m int); CREATE TABLE few (id int PRIMARY KEY, n int); \
             INSERT INTO few SELECT g, g FROM generate_series(1, 10) g",
        )?;
        let rows = plan.amount(ROWS);
        client.batch_execute(&format!("INSERT INTO many SELECT g, g % 100, g FROM generate_series(1, {rows}) g"))?;
        let mut seen = vec![self.look_beside(plan, || {
            thread::sleep(plan.time(IDLE));
            Ok(())
        })?];
        for work in works {
            plan.say(&format!("long-statements: {}, {}", self.server.name(), work.name));
            client.batch_execute(work.before)?;
            seen.push(self.look_beside(plan, || Ok(client.batch_execute(&work.sql)?)).context(work.name)?);
            client.batch_execute(work.after)?;
        }
        Ok(seen)
    }
}

/// Measures both servers in turn.
pub(crate) fn measure(plan: &Plan) -> anyhow::Result<Section> {
    let rows = plan.amount(ROWS);
    let mut section = Section::new(
        "long-statements",
        format!(
            "what do others wait for while one session does something long? (a table of {rows} rows; the slowest answer of each kind)"
        ),
    );
    let address = format!("127.0.0.1:{}", free_port()?);
    let servers = Servers::start_with(plan, &mut section, &["--http", &address])?;
    let works = works(plan);
    let all = in_turn(plan, &servers, 1, |server, _case| {
        let http = (!server.is_peer()).then_some(&*address);
        Subject { server, http }.run(plan, &works)
    })?;
    let cases = std::iter::once("nothing").chain(works.iter().map(|work| work.name));
    for (case, name) in cases.enumerate() {
        for (number, server) in servers.running.iter().enumerate() {
            let of = |figure: &dyn Fn(&Seen) -> f64, server: usize| -> Vec<f64> {
                all[server][0].iter().map(|run| figure(&run[case])).collect()
            };
            let slowest = |seen: &Seen| {
                let kinds = [seen.reads, seen.connections, seen.cancels, seen.healths];
                kinds.iter().map(|answers| answers.slowest_ns).max().unwrap_or(0)
            };
            let slowest_us: Vec<f64> = of(&|seen| micros(slowest(seen)), number);
            let answers: u64 = all[number][0].iter().map(|run| run[case].reads.count).sum();
            let row = Row::new(server.name(), name, "disk", server.ring())
                .runs("took_us", &of(&|seen| micros(seen.took_ns), number))
                .figure("reads", Figure::Count(answers))
                .runs("read_max_us", &of(&|seen| micros(seen.reads.slowest_ns), number))
                .runs("connect_max_us", &of(&|seen| micros(seen.connections.slowest_ns), number))
                .runs("cancel_max_us", &of(&|seen| micros(seen.cancels.slowest_ns), number));
            if server.is_peer() {
                section.rows.push(row.figure("healthz_max_us", Figure::Absent("has none")));
                continue;
            }
            let row = row.runs("healthz_max_us", &of(&|seen| micros(seen.healths.slowest_ns), number));
            let theirs = servers.peer().map(|peer| median(&of(&|seen| micros(slowest(seen)), peer)));
            let row = match server.by_peer(median(&slowest_us), theirs) {
                Some(ratio) => row.beside(PEER, ratio),
                None => row,
            };
            section.rows.push(row.target("< 50 ms", median(&slowest_us) < LIMIT_US));
        }
    }
    Ok(section)
}
