//! `collie status`: the identity and the role of a server, which node it follows and which nodes follow it, and what
//! needs attention. It queries over SQL, as any client could; what needs attention is the server's own judgement
//! (`collie_health`), on which `/readyz` is based too.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use collie::one_line;
use serde_json::{Map, Value, json};
use tokio_postgres::SimpleQueryMessage;

use crate::{
    render::Table,
    shell::{DEFAULT_URL, cause, connect},
};

/// The exit code for a server that answers and that needs attention.
const NEEDS_ATTENTION: u8 = 1;

/// The exit code for a server that does not answer.
const NO_ANSWER: u8 = 2;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A running server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Print an object instead: node, following, quorum, replicas, slots, problems; for a server that does not answer:
    /// error.
    #[arg(long)]
    json: bool,
}

/// A row, by the names of its columns.
type Row = BTreeMap<String, Option<String>>;

/// The answers of a server about itself.
#[derive(Debug, Default)]
struct Status {
    node: Row,
    /// Of a replica: its primary.
    following: Option<Row>,
    /// Of a primary whose commits wait for replicas: the state of the quorum.
    quorum: Option<Row>,
    replicas: Vec<Row>,
    slots: Vec<Row>,
    /// What needs attention: severity, subject, reason.
    problems: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let url = args.url.as_deref().unwrap_or(DEFAULT_URL);
    let status = match runtime.block_on(ask(url)) {
        Ok(status) => status,
        Err(error) => {
            if args.json {
                println!("{}", json!({ "error": one_line(&error) }));
            }
            eprintln!("error: {}", one_line(&error));
            return Ok(ExitCode::from(NO_ANSWER));
        }
    };
    if args.json {
        println!("{}", status.json());
    } else {
        status.print();
    }
    Ok(if status.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NEEDS_ATTENTION) })
}

async fn ask(url: &str) -> anyhow::Result<Status> {
    let client = connect(url).await?;
    let rows = async |sql: &str| {
        let messages = client.simple_query(sql).await;
        let messages = messages.map_err(|error| anyhow::anyhow!("{url} refuses {sql}: {}", cause(&error)))?;
        let row = |message: SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                let cell = |(at, column): (usize, &tokio_postgres::SimpleColumn)| {
                    (column.name().to_owned(), row.get(at).map(str::to_owned))
                };
                Some(row.columns().iter().enumerate().map(cell).collect::<Row>())
            }
            _ => None,
        };
        anyhow::Ok(messages.into_iter().filter_map(row).collect::<Vec<Row>>())
    };
    let one = async |sql: &str| anyhow::Ok(rows(sql).await?.into_iter().next());
    Ok(Status {
        node: one("SELECT * FROM collie_node").await?.unwrap_or_default(),
        following: one("SELECT * FROM collie_following").await?,
        quorum: one("SELECT * FROM collie_quorum").await?,
        replicas: rows("SELECT * FROM collie_replication ORDER BY slot").await?,
        slots: rows("SELECT * FROM collie_slots ORDER BY slot").await?,
        problems: rows("SELECT * FROM collie_health").await?,
    })
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Option::as_deref).unwrap_or("")
}

/// Returns the value of a cell: numbers and booleans typed, ids and positions as text.
fn value(column: &str, cell: Option<&str>) -> Value {
    match (column, cell) {
        (_, None) => Value::Null,
        ("active", Some(cell)) => Value::Bool(cell == "t"),
        ("cluster" | "node" | "history" | "slot", Some(cell)) => json!(cell),
        (_, Some(cell)) => cell.parse::<i64>().map_or_else(|_| json!(cell), |number| json!(number)),
    }
}

fn object(row: &Row) -> Value {
    let fields = row.iter().map(|(column, cell)| (column.clone(), value(column, cell.as_deref())));
    Value::Object(fields.collect::<Map<String, Value>>())
}

/// Returns the quorum configuration in words: both lists while one replaces the other.
fn asked(quorum: &Row) -> String {
    fn name(list: &str) -> &str {
        if list.is_empty() { "nobody" } else { list }
    }
    let list = name(text(quorum, "quorum"));
    match (quorum.get("list_before").and_then(Option::as_deref), text(quorum, "until_lsn")) {
        (None, _) => list.to_owned(),
        (Some(before), "") => format!("{list}, and {},", name(before)),
        (Some(before), until) => format!("{list}, and {} until both have {until},", name(before)),
    }
}

/// Returns a time in microseconds in readable form.
pub(crate) fn time(us: &str) -> String {
    match us.parse::<u64>() {
        Err(_) => "-".to_owned(),
        Ok(us) if us < 10_000 => format!("{us} us"),
        Ok(us) if us < 10_000_000 => format!("{} ms", us / 1000),
        Ok(us) => format!("{} s", us / 1_000_000),
    }
}

impl Status {
    fn json(&self) -> Value {
        let all = |rows: &[Row]| rows.iter().map(object).collect::<Vec<Value>>();
        let one = |row: &Option<Row>| row.as_ref().map_or(Value::Null, object);
        json!({
            "node": object(&self.node), "following": one(&self.following), "quorum": one(&self.quorum),
            "replicas": all(&self.replicas), "slots": all(&self.slots), "problems": all(&self.problems),
        })
    }

    fn print(&self) {
        self.lines().iter().for_each(|line| println!("{line}"));
        if !self.replicas.is_empty() {
            println!();
            self.table().print();
        }
        for problem in &self.problems {
            println!("{}: {}: {}", text(problem, "severity"), text(problem, "subject"), text(problem, "reason"));
        }
    }

    /// Returns lines about the node, and about the primary or the quorum.
    fn lines(&self) -> Vec<String> {
        let node = |column| text(&self.node, column);
        let since = match node("term_start") {
            "" => String::new(),
            start => format!(" since {start}"),
        };
        let mut lines = vec![
            format!("{} {} of {}, term {}{since}", node("role"), node("node"), node("cluster"), node("term")),
            format!("history {} since {}", node("history"), node("history_start")),
            format!(
                "visible {}, durable {}, {} commits, {} rolled back",
                node("visible_lsn"),
                node("durable_lsn"),
                node("commits"),
                node("aborts")
            ),
        ];
        if let Some(row) = &self.following {
            let heard = match text(row, "unheard_ms") {
                "" => "not heard yet".to_owned(),
                ms => format!("heard {ms} ms ago"),
            };
            lines.push(format!(
                "{} {} as {}, {heard}, {} bytes behind what it had then, delay {}",
                text(row, "state"),
                text(row, "primary_address"),
                text(row, "slot"),
                match text(row, "behind_bytes") {
                    "" => "-",
                    bytes => bytes,
                },
                time(text(row, "delay_us")),
            ));
        }
        if let Some(row) = &self.quorum {
            let quorum = |column| text(row, column);
            let (state, ms) = (quorum("state"), quorum("state_ms"));
            let mut line = format!("quorum {} {state} for {ms} ms: commits {}", asked(row), quorum("commits"));
            if !quorum("missing").is_empty() {
                line += &format!(", missing {}", quorum("missing"));
            }
            if !quorum("witness").is_empty() {
                line += &format!("; witness {}", quorum("witness"));
            }
            lines.push(line);
        }
        lines
    }

    /// Returns a table with a row for each replica, with the log that its slot keeps.
    fn table(&self) -> Table {
        let names =
            ["slot", "state", "applied", "bytes behind", "delay", "p50", "p99", "max", "made up in", "log kept"];
        let row = |replica: &Row| {
            let slot = self.slots.iter().find(|slot| text(slot, "slot") == text(replica, "slot"));
            let mut cells: Vec<String> =
                ["slot", "state", "applied_lsn", "behind_bytes"].map(|column| text(replica, column).to_owned()).into();
            let times = ["delay_us", "delay_p50_us", "delay_p99_us", "delay_max_us", "drain_us"];
            cells.extend(times.map(|column| time(text(replica, column))));
            cells.push(slot.map_or("", |slot| text(slot, "kept_bytes")).to_owned());
            cells.into_iter().map(Some).collect()
        };
        Table {
            names: names.map(str::to_owned).into(),
            right: (0..names.len()).map(|column| column > 2).collect(),
            rows: self.replicas.iter().map(row).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(&str, &str)]) -> Row {
        cells.iter().map(|(column, cell)| ((*column).to_owned(), Some((*cell).to_owned()))).collect()
    }

    /// Goal: the lines show the role, the term, the lost primary and its last position, and the missing members of a
    /// quorum. Method: a replica that looks for its primary, and a primary that has lost a member.
    #[test]
    fn lines_say_who_it_is_and_whom_it_lacks() {
        let node = row(&[("role", "replica"), ("node", "ab"), ("cluster", "c"), ("term", "3"), ("term_start", "0/20")]);
        let following = row(&[
            ("state", "looking"),
            ("primary_address", "127.0.0.1:5434"),
            ("slot", "north"),
            ("unheard_ms", "7000"),
            ("behind_bytes", "12"),
            ("delay_us", "11000"),
        ]);
        let replica = Status { node, following: Some(following), ..Status::default() };
        let lines = replica.lines();
        assert_eq!(lines[0], "replica ab of c, term 3 since 0/20");
        assert_eq!(
            lines[3],
            "looking 127.0.0.1:5434 as north, heard 7000 ms ago, 12 bytes behind what it had then, delay 11 ms"
        );
        let quorum = row(&[
            ("quorum", "ANY 1 (a, b)"),
            ("state", "short"),
            ("state_ms", "20"),
            ("commits", "waiting"),
            ("missing", "a, b"),
        ]);
        let witnessed = Row::from_iter(quorum.clone().into_iter().chain(row(&[("witness", "unreachable")])));
        let primary = Status { quorum: Some(quorum), ..Status::default() };
        assert_eq!(primary.lines()[3], "quorum ANY 1 (a, b) short for 20 ms: commits waiting, missing a, b");
        let primary = Status { quorum: Some(witnessed), ..Status::default() };
        assert!(primary.lines()[3].ends_with("missing a, b; witness unreachable"), "{}", primary.lines()[3]);
    }

    /// Goal: both lists are named while one replaces the other, even if one is empty. Method: both kinds of a change.
    #[test]
    fn lists_of_a_change_are_named() {
        let line = |list, before| {
            let quorum = [("quorum", list), ("list_before", before), ("until_lsn", "0/30")];
            let more = [("state", "whole"), ("state_ms", "20"), ("commits", "confirmed")];
            let quorum = Some(row(&[&quorum[..], &more[..]].concat()));
            Status { quorum, ..Status::default() }.lines().remove(3)
        };
        let both = "quorum ANY 1 (b), and ANY 1 (a) until both have 0/30, whole for 20 ms: commits confirmed";
        assert_eq!(line("ANY 1 (b)", "ANY 1 (a)"), both);
        let off = "quorum nobody, and ANY 1 (a) until both have 0/30, whole for 20 ms: commits confirmed";
        assert_eq!(line("", "ANY 1 (a)"), off);
    }

    /// Goal: scripts get numbers, booleans and nulls as such, and ids as text. Method: a row with each.
    #[test]
    fn objects_have_typed_values() {
        let mut cells = row(&[("node", "0000000000000012"), ("term", "3"), ("active", "f"), ("durable_lsn", "0/20")]);
        cells.insert("why".to_owned(), None);
        let expected =
            json!({"node": "0000000000000012", "term": 3, "active": false, "durable_lsn": "0/20", "why": null});
        assert_eq!(object(&cells), expected);
        assert_eq!([time(""), time("9999"), time("10000"), time("10000000")], ["-", "9999 us", "10 ms", "10 s"]);
    }
}
