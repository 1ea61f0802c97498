//! The console page, its figures compared with those of the views, and `collie demo`, which serves the page: in a real
//! browser and by SQL.

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    thread,
    time::Duration,
};

use collie_clients_tests::{
    Browser, Demo, Place, Server, Stopwatch,
    demo::{Places, runs},
    http,
    nodes::PATIENCE,
    not_run,
    session::{run, value},
};
use postgres::{Client, SimpleQueryMessage};
use rustix::process::Signal;
use serde_json::Value;

const HTTP: [&str; 2] = ["--http", "127.0.0.1:0"];

fn until(what: &str, mut done: impl FnMut() -> bool) {
    let start = Stopwatch::start();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

fn figures(address: SocketAddr) -> Value {
    let answer = http::get(address, "/console.json");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json; charset=utf-8")));
    serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{error}: {}", answer.body))
}

/// Normalizes a cell, so that both notations of a number give the same text.
fn normal(text: &str) -> String {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.map_or_else(|| text.to_owned(), |number| number.to_string())
}

/// Returns the `columns` of a view from the JSON answer, row by row; all of them in their order if `columns` is `*`.
fn by_json(figures: &Value, view: &str, columns: &str) -> Vec<Vec<String>> {
    let view = &figures["views"][view];
    let all = view["columns"].as_array().unwrap_or_else(|| panic!("no columns: {view}"));
    let columns: Vec<&str> = match columns {
        "*" => all.iter().filter_map(Value::as_str).collect(),
        some => some.split(", ").collect(),
    };
    let cell = |row: &Value, column: &str| match &row[column] {
        Value::Null => "NULL".to_owned(),
        Value::Bool(is) => if *is { "t" } else { "f" }.to_owned(),
        Value::String(text) => normal(text),
        number => normal(&number.to_string()),
    };
    let rows = view["rows"].as_array().into_iter().flatten();
    rows.map(|row| columns.iter().map(|column| cell(row, column)).collect()).collect()
}

/// Returns the same cells from SQL.
fn by_sql(client: &mut Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    rows.map(|row| (0..row.len()).map(|at| row.get(at).map_or_else(|| "NULL".to_owned(), normal)).collect()).collect()
}

/// Goal: every figure equals that of the view of its name, with the columns in the same order, on a primary and on a
/// replica. Method: read both and repeat until they agree, since some figures change over time.
#[test]
fn figures_are_those_of_the_views() {
    let (here, there) = (Place::new(), Place::new());
    let primary = Server::start_with(&here, &[&HTTP[..], &["--replica-listen", "127.0.0.1:0"]].concat());
    let address = Server::replica_address(&here);
    let replica = Server::start_with(&there, &[&HTTP[..], &["--replica-of", &address]].concat());
    run(&mut primary.connect(), "CREATE TABLE t (n int PRIMARY KEY); INSERT INTO t VALUES (1)");
    for (server, place) in [(&primary, &here), (&replica, &there)] {
        let (mut client, http) = (server.connect(), Server::http_address(place));
        for (view, columns, rest) in [
            ("node", "*", "collie_node"),
            ("health", "*", "collie_health"),
            ("commits", "*", "collie_commits"),
            ("following", "primary_address, slot, state", "collie_following"),
            ("replication", "slot, node, state, applied_lsn", "collie_replication ORDER BY slot"),
            ("policy", "policy, bound_us, delay_without_us, unknown_windows", "collie_training.policy"),
            ("policy_log", "*", "collie_training.policy_log ORDER BY at DESC LIMIT 50"),
            ("models", "*", "collie_training.models ORDER BY file"),
            ("decisions", "*", "collie_training.decisions ORDER BY at DESC LIMIT 50"),
            ("candidates", "*", "collie_training.candidates ORDER BY setting, new_value LIMIT 50"),
            ("reads", "*", "collie_training.reads ORDER BY side"),
        ] {
            let start = Stopwatch::start();
            loop {
                let shown = by_json(&figures(http), view, columns);
                let wanted = by_sql(&mut client, &format!("SELECT {columns} FROM {rest}"));
                if shown == wanted {
                    break;
                }
                assert!(start.elapsed() < PATIENCE, "{view}: {shown:?}, and in SQL {wanted:?}");
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Goal: browsers of this machine get pages and figures under its own names, and so do pages of this machine across
/// origins; no others do. Method: requests under each kind of name and from each kind of origin; the page's header
/// limits what the page may do.
#[test]
fn only_this_machine_reads_the_console() {
    let place = Place::new();
    let _server = Server::start_with(&place, &HTTP);
    let address = Server::http_address(&place);
    let asked = |path: &str, more: &str| {
        http::Answer::read(&http::send(address, format!("GET {path} HTTP/1.1\r\n{more}\r\n\r\n").as_bytes()))
    };
    let page = asked("/", "Host: 127.0.0.1");
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let policy = page.header("content-security-policy").unwrap_or_default();
    assert!(policy.starts_with("default-src 'none'; script-src 'self'") && !policy.contains("unsafe"), "{policy}");
    for path in ["/console/main.js", "/console/style.css", "/console/icon.svg"] {
        let file = asked(path, "Host: localhost:80");
        assert_eq!((file.status, file.header("x-content-type-options")), (200, Some("nosniff")), "{path}");
    }
    for path in ["/", "/console/main.js", "/console.json"] {
        assert_eq!(asked(path, "Host: example.org").status, 421, "{path}");
    }
    assert_eq!(asked("/console/../console.json", "Host: localhost").status, 404);
    let allowed = |origin: &str| {
        let answer = asked("/console.json", &format!("Host: localhost\r\nOrigin: {origin}"));
        assert_eq!((answer.status, answer.header("vary")), (200, Some("Origin")));
        answer.header("access-control-allow-origin").map(str::to_owned)
    };
    assert_eq!(allowed("http://127.0.0.1:8434").as_deref(), Some("http://127.0.0.1:8434"));
    assert_eq!(allowed("http://example.org"), None);
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(asked(path, "Host: example.org").status, 421, "{path}");
    }
}

/// Waits until the servers of a demo have ended.
fn until_gone(servers: &[(u32, String)]) {
    assert_eq!(servers.len(), 2, "a primary and a replica: {servers:?}");
    until(&format!("these to be gone: {servers:?}"), || !servers.iter().any(|(pid, words)| runs(*pid, words)));
}

/// Returns the number of reads that the replica ran again, from the page's table `reads`.
fn reads_run(browser: &mut Browser) -> Option<i64> {
    let rows = browser.table("reads");
    let run = rows.iter().find(|row| row[0] == "replica")?.get(3)?.replace(',', "");
    run.parse().ok()
}

/// Waits until `shown` on the page lies between two SQL reads of the same figure, which changes over time.
fn until_between(
    browser: &mut Browser,
    client: &mut Client,
    sql: &str,
    what: &str,
    mut shown: impl FnMut(&mut Browser) -> Option<f64>,
) {
    let mut look = || value::<Option<f64>>(client, sql);
    browser.until(what, |browser| {
        let before = look();
        let shown = shown(browser);
        let after = look();
        let (Some(before), Some(shown), Some(after)) = (before, shown, after) else { return false };
        // The page's value is up to a second older than the values that it is compared with.
        let room = 0.05 * before.max(after);
        shown >= before.min(after) - room && shown <= before.max(after) + room
    });
}

/// Waits until the page shows all candidate changes of both servers, each with its reason, and for one change an
/// estimate of its effect by models, or that it lies beyond what its model has seen.
fn until_weighed(browser: &mut Browser, primary: &mut Client, replica: &mut Client) {
    const ROWS: &str = "SELECT setting, role, reason FROM collie_training.candidates, collie_node";
    browser.until("changes that were weighed, one of them by models", |browser| {
        let (on_primary, on_replica) = (by_sql(primary, ROWS), by_sql(replica, ROWS));
        let shown = browser.table("candidates");
        let mut reasons: Vec<_> = shown.iter().map(|row| [0, 1, 4].map(|at| row[at].clone()).to_vec()).collect();
        let mut wanted = [&on_primary[..], &on_replica[..]].concat();
        reasons.sort();
        wanted.sort();
        // The change with the largest predicted effect comes first.
        let is_foretold = shown.first().is_some_and(|row| row[3].contains(" % (") && row[3].contains(" to "));
        let is_asked = is_foretold || shown.iter().any(|row| row[4].contains("beyond what its model has seen"));
        !on_primary.is_empty() && !on_replica.is_empty() && reasons == wanted && is_asked
    });
}

/// Compares the figures of the page with the views.
fn compare(browser: &mut Browser, places: &Places) {
    let (mut primary, mut replica) = (places.connect(places.primary), places.connect(places.replica));
    browser.until("throughput", |browser| browser.figure("throughput").is_some_and(|rate| rate > 0.0));
    let (mut last, mut clock) = (value::<i64>(&mut primary, "SELECT commits FROM collie_commits"), Stopwatch::start());
    browser.until("the throughput of the views", |browser| {
        if clock.elapsed() < Duration::from_secs(5) {
            return false;
        }
        let now = value::<i64>(&mut primary, "SELECT commits FROM collie_commits");
        let rate = f64::from(i32::try_from(now - last).unwrap_or(0)) / clock.elapsed().as_secs_f64();
        (last, clock) = (now, Stopwatch::start());
        browser.figure("throughput").is_some_and(|shown| rate > 0.0 && (shown - rate).abs() <= rate / 2.0)
    });
    let p50 = "SELECT p50_us::float8 FROM collie_commits";
    until_between(browser, &mut primary, p50, "p50", |browser| browser.figure("latency-p50"));
    let bound = "SELECT bound_us FROM collie_training.policy";
    until_between(browser, &mut replica, bound, "bound", |browser| browser.figure("bound"));
    browser.until("delay", |browser| browser.figure("delay").is_some_and(|delay| delay >= 0.0));
    browser.until("grant", |browser| browser.figure("grant").is_some_and(|grant| grant > 0.0));
    assert!(browser.words("delay-note").contains("seconds out of bound"), "{}", browser.words("delay-note"));

    // This figure only grows.
    let run = "SELECT coalesce(sum(run), 0)::int8 FROM collie_training.reads";
    let before = value::<i64>(&mut replica, run);
    browser.until("reads that were run again", |browser| reads_run(browser).is_some_and(|run| run >= before.max(1)));
    let shown = reads_run(browser).unwrap_or_default();
    assert!(shown <= value::<i64>(&mut replica, run), "{shown} are shown");

    browser.until("the policy log", |browser| !browser.table("policy-log").is_empty());
    let change = browser.table("policy-log").swap_remove(0).swap_remove(2);
    let logged = "SELECT count(*) FROM collie_training.policy_log WHERE change = $1";
    assert!(
        replica.query_one(logged, &[&change]).expect("it answers").get::<_, i64>(0) > 0,
        "{change:?} is not in the log"
    );

    let collects = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
                    WHERE n.nspname = 'collie_training' AND relname = 'units'";
    if value::<i64>(&mut replica, collects) > 0 {
        browser.until("samples of some units", |browser| {
            let rows = browser.table("units");
            rows.iter()
                .filter(|row| row.iter().any(|cell| cell.replace(',', "").parse::<u64>().is_ok_and(|n| n > 0)))
                .count()
                >= 3
        });
    } else {
        assert!(browser.words("units").starts_with("Not shown: "), "{}", browser.words("units"));
    }
    browser.until("models, each with the name of what it predicts", |browser| {
        let models = browser.table("models");
        models.iter().any(|row| row[1] == "elapsed_ns") && models.iter().all(|row| row[1].parse::<u64>().is_err())
    });
    until_weighed(browser, &mut primary, &mut replica);
    let decided = browser.table("decisions").len();
    assert!(
        decided > 0 || browser.words("decisions").starts_with("No decisions yet"),
        "{}",
        browser.words("decisions")
    );
    assert_eq!((browser.words("role"), browser.words("primary-role")), ("replica".to_owned(), "primary".to_owned()));
}

/// Goal: `collie demo` runs a primary, a replica and a load, and serves a page whose figures are those of the views.
/// The page fits narrow and wide windows, in light and dark, breaks none of its own rules, and says when its server has
/// gone; afterwards nothing is left. Method: a real browser and SQL; Ctrl-C.
#[test]
fn the_demo_shows_on_its_page_what_the_views_say() {
    let Some(mut browser) = Browser::start() else {
        return not_run("chromium is not installed: apt-get install chromium");
    };
    let mut demo = Demo::start(&["--rate", "20", "--clients", "2", "--warehouses", "1"]);
    let places = demo.places();
    let (servers, dir) = (
        demo.servers(),
        demo.said.iter().find_map(|line| line.split_once("both databases are in ")).map(|(_, dir)| dir.to_owned()),
    );
    let dir = dir.expect("it says where they are");
    assert!(Path::new(&dir).join("primary").is_dir(), "{dir}");
    browser.open(&places.page);
    compare(&mut browser, &places);
    for (width, scheme) in [(360, "light"), (1600, "dark")] {
        browser.resize(width, 900);
        browser.prefer(scheme);
        let looks = |browser: &mut Browser| {
            browser.evaluate("Number(document.body.dataset.looks)").as_f64().unwrap_or_default()
        };
        let before = looks(&mut browser);
        browser.until("another look", |browser| looks(browser) > before);
        let wide = browser.evaluate("document.documentElement.scrollWidth");
        assert!(wide.as_u64().is_some_and(|wide| wide <= u64::from(width)), "{wide} pixels in a window of {width}");
        let ground = browser.evaluate("getComputedStyle(document.body).backgroundColor");
        let expected = if scheme == "light" { "rgb(246, 247, 249)" } else { "rgb(18, 21, 26)" };
        assert_eq!(ground.as_str(), Some(expected), "{scheme}");
    }
    assert!(browser.words("timeline-words").contains("commits/s"), "{}", browser.words("timeline-words"));
    assert_eq!(browser.faults(), [""; 0]);
    let paused = "document.getElementById('pause').click(), document.getElementById('pause').ariaPressed";
    assert_eq!(browser.evaluate(paused).as_str(), Some("true"));
    browser.evaluate("document.getElementById('pause').click()");

    demo.signal(Signal::INT);
    let ended = demo.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    assert!(ended.said.iter().any(|line| line.contains(" transactions in ")), "{ended:#?}");
    assert_eq!(ended.said.last().map(String::as_str), Some("stopped; nothing is left"));
    assert!(!Path::new(&dir).exists(), "{dir} is left");
    until_gone(&servers);
    browser.until("the page to say that its servers are gone", |browser| {
        browser.words("notices").matches("has not answered since").count() == 2
    });
    // A last look may have found a node that was stopping, with fewer figures than before.
    let figures = ["bound", "throughput", "latency-p50"].map(|id| browser.figure(id));
    assert!(figures.iter().any(Option::is_some), "its last figures are shown");
}

/// Goal: a demo with a time limit prints its results, line by line if there is no terminal, and leaves what is to be
/// kept. Method: some seconds in a named directory; then the shell on what is left.
#[test]
fn a_demo_with_a_time_ends_and_leaves_what_is_to_be_kept() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let name = dir.path().join("kept");
    let name = name.to_str().expect("a name that is text");
    let demo = Demo::start(&["--time", "12", "--rate", "20", "--warehouses", "1", "--keep", "--dir", name]);
    let ended = demo.wait();
    assert_eq!(ended.status.code(), Some(0), "{ended:#?}");
    let has = |part: &str| ended.said.iter().any(|line| line.contains(part));
    for part in
        ["loading warehouse 1 of 1", "stops after 12 s", "commits/s, p50 ", " attempts were refused", "samples "]
    {
        assert!(has(part), "{part}: {ended:#?}");
    }
    assert_eq!(
        ended.said.last(),
        Some(&format!("stopped; both databases and the logs of their servers are in {name}"))
    );
    let primary = format!("{name}/primary");
    let count =
        collie_clients_tests::program::collie(&["sql", "--data", &primary, "-c", "SELECT count(*) FROM warehouse"], "")
            .ok();
    assert!(count.contains("\n     1\n"), "{count}");
    let again = Demo::start(&["--dir", name]).wait();
    assert_eq!(again.status.code(), Some(1), "{again:#?}");
    assert!(again.said[0].starts_with("error: ") && again.said[0].contains("is not empty"), "{again:#?}");
}

/// Goal: a demo that cannot run says why in one line and leaves nothing: a port is taken, or a server ends; the servers
/// of a killed demo end too. Method: each case.
#[test]
fn a_demo_that_fails_says_why_and_leaves_nothing() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it has an address").to_string();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let name = dir.path().to_str().expect("a name that is text");
    let is_empty = || std::fs::read_dir(dir.path()).is_ok_and(|mut entries| entries.next().is_none());
    let ended = Demo::start(&["--http", &address, "--dir", name]).wait();
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    let says = |line: &String| line.starts_with("error: the replica has ended") && line.contains(&address);
    assert!(ended.said.iter().any(says), "{ended:#?}");
    assert!(is_empty(), "a replica that could not listen");

    let mut demo = Demo::start(&["--rate", "5", "--warehouses", "1", "--dir", name]);
    demo.places();
    let servers = demo.servers();
    let replica = servers.iter().find(|(_, words)| words.contains("--replica-of")).expect("a replica runs");
    let kill = |pid: u32| {
        std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).status().expect("there is kill")
    };
    assert!(kill(replica.0).success());
    let ended = demo.wait();
    assert_eq!(ended.status.code(), Some(1), "{ended:#?}");
    assert!(ended.said.iter().any(|line| line.starts_with("error: the replica has ended (signal: 9")), "{ended:#?}");
    until_gone(&servers);
    assert!(is_empty(), "a replica that was killed");

    let mut demo = Demo::start(&["--rate", "5", "--warehouses", "1", "--dir", name]);
    demo.places();
    let servers = demo.servers();
    demo.signal(Signal::KILL);
    until_gone(&servers);
    assert!(Path::new(name).join("primary").is_dir(), "nobody was left to remove it");
}
