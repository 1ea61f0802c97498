//! `collie status`: who a server is, who follows it, and what needs somebody's attention. Asks over SQL, as any client could.

use std::{collections::BTreeMap, process::ExitCode};

use anyhow::Context;
use serde_json::{Map, Value, json};
use tokio_postgres::SimpleQueryMessage;

use crate::{
    render::Table,
    shell::{DEFAULT_URL, cause, connect},
};

/// The exit code of a server that answers, and of which something needs attention.
const NEEDS_ATTENTION: u8 = 3;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A running server [default: postgresql://collie@127.0.0.1:5433/collie].
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Print an object instead: node, replicas, slots, problems.
    #[arg(long)]
    json: bool,
}

/// A row, by the names of its columns.
type Row = BTreeMap<String, Option<String>>;

/// What a server says of itself.
#[derive(Debug, Default)]
struct Status {
    node: Row,
    replicas: Vec<Row>,
    slots: Vec<Row>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start a thread")?;
    let url = args.url.as_deref().unwrap_or(DEFAULT_URL);
    let status = runtime.block_on(ask(url))?;
    let problems = status.problems();
    if args.json {
        println!("{}", status.json(&problems));
    } else {
        status.print(&problems);
    }
    Ok(if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(NEEDS_ATTENTION) })
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
    let node = rows("SELECT * FROM collie_node").await?;
    Ok(Status {
        node: node.into_iter().next().unwrap_or_default(),
        replicas: rows("SELECT * FROM collie_replication ORDER BY slot").await?,
        slots: rows("SELECT * FROM collie_slots ORDER BY slot").await?,
    })
}

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Option::as_deref).unwrap_or("")
}

/// Returns the value of a cell: numbers and truth as such, ids and positions as text.
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

/// Returns a time in microseconds for people.
fn time(us: &str) -> String {
    match us.parse::<u64>() {
        Err(_) => "-".to_owned(),
        Ok(us) if us < 10_000 => format!("{us} us"),
        Ok(us) if us < 10_000_000 => format!("{} ms", us / 1000),
        Ok(us) => format!("{} s", us / 1_000_000),
    }
}

impl Status {
    /// Returns what needs somebody's attention, a line each.
    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for slot in &self.slots {
            let name = text(slot, "slot");
            match (text(slot, "state"), text(slot, "expired_by")) {
                ("expired", by) => problems.push(format!(
                    "slot {name} is expired by its {by}: its replica has to be filled anew, or the slot dropped"
                )),
                ("away", _) => {
                    let seconds = text(slot, "unheard_ms").parse::<u64>().unwrap_or(0) / 1000;
                    let (kept, most) = (text(slot, "kept_bytes"), text(slot, "bytes_max"));
                    problems.push(format!(
                        "the replica of slot {name} was not heard of for {seconds} s; {kept} of at most {most} bytes of log are kept for it"
                    ));
                }
                _ => {}
            }
        }
        problems
    }

    fn json(&self, problems: &[String]) -> Value {
        let all = |rows: &[Row]| rows.iter().map(object).collect::<Vec<Value>>();
        json!({
            "node": object(&self.node), "replicas": all(&self.replicas), "slots": all(&self.slots), "problems": problems,
        })
    }

    fn print(&self, problems: &[String]) {
        let node = |column| text(&self.node, column);
        println!("{} {} of {}, term {}", node("role"), node("node"), node("cluster"), node("term"));
        println!("history {} since {}", node("history"), node("history_start"));
        println!("visible {}, durable {}, {} commits", node("visible_lsn"), node("durable_lsn"), node("commits"));
        if !self.replicas.is_empty() {
            println!();
            self.table().print();
        }
        for problem in problems {
            println!("attention: {problem}");
        }
    }

    /// A line for each replica, with what its slot keeps.
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

    /// Goal: what needs attention is named, and nothing else. Method: a primary and a replica that are well, then each trouble.
    #[test]
    fn troubles_are_named() {
        let streaming = row(&[("slot", "north"), ("state", "streaming"), ("active", "t")]);
        let well = Status { node: row(&[("role", "primary")]), slots: vec![streaming.clone()], ..Status::default() };
        assert_eq!(well.problems(), [""; 0]);
        let expired = row(&[("slot", "south"), ("state", "expired"), ("expired_by", "age")]);
        let away = row(&[
            ("slot", "west"),
            ("state", "away"),
            ("unheard_ms", "5000"),
            ("kept_bytes", "7"),
            ("bytes_max", "9"),
        ]);
        let ill = Status { slots: vec![streaming, expired, away], ..Status::default() };
        let problems = ill.problems();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(
            problems[0].contains("south is expired by its age")
                && problems[1].contains("west was not heard of for 5 s")
        );
    }

    /// Goal: scripts get numbers, truth and nothing as such, and ids as they are. Method: a row of each.
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
