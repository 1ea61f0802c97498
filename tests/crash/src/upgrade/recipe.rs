//! `Recipe`: how a data directory is made, and what is queried and written once a later program has opened it.
//!
//! It is a file of SQL with one statement per line. Lines that begin with `--!` determine the use of the statements
//! after them:
//!
//! | line | |
//! |---|---|
//! | `--! set NAME=VALUE` | a setting of every server |
//! | `--! life stop`, `--! life kill` | a server that executes them, and is then stopped in order, or killed |
//! | `--! control 1` | at the end `control` is written in version 1, in place of a program that did |
//! | `--! replica` | at the end of that server, a replica is filled and removed |
//! | `--! ask` | queries, whose answers are stored |
//! | `--! write` | statements that the later program executes |
//! | `--! refuse STATE` | statements that it must refuse with this SQLSTATE |

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, bail, ensure};
use collie_netlab::Port;
use postgres::{Client, SimpleQueryMessage};

use super::versions;
use crate::{server::Server, visitor::visit};

/// One server run.
#[derive(Default)]
struct Life {
    statements: Vec<String>,
    is_killed: bool,
    has_replica: bool,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Recipe {
    pub(super) settings: Vec<String>,
    lives: Vec<Life>,
    /// Whether `control` is written in version 1.
    has_control_1: bool,
    queries: Vec<String>,
    writes: Vec<String>,
    /// With the SQLSTATE of the error.
    refused: Vec<(String, String)>,
}

impl Recipe {
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let mut recipe = Self::default();
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(word) = line.strip_prefix("--! ") {
                match word.split_once(' ') {
                    Some(("set", pair)) => recipe.settings.push(pair.to_owned()),
                    Some(("life", end)) => {
                        recipe.lives.push(Life { is_killed: end == "kill", ..Life::default() });
                        section = word.to_owned();
                    }
                    Some(("control", "1")) => recipe.has_control_1 = true,
                    None if word == "replica" => {
                        recipe.lives.last_mut().context("a replica of no life")?.has_replica = true
                    }
                    _ => section = word.to_owned(),
                }
            } else if !line.is_empty() && !line.starts_with("--") {
                let statement = line.to_owned();
                match section.split_once(' ').unwrap_or((&section, "")) {
                    ("life", _) => recipe.lives.last_mut().context("no life")?.statements.push(statement),
                    ("ask", _) => recipe.queries.push(statement),
                    ("write", _) => recipe.writes.push(statement),
                    ("refuse", state) => recipe.refused.push((state.to_owned(), statement)),
                    _ => bail!("{}: {line} belongs to nothing", path.display()),
                }
            }
        }
        Ok(recipe)
    }

    /// Makes a data directory with a server; returns the answers.
    pub(super) fn run(&self, server: &Path, data: &Path) -> anyhow::Result<String> {
        let mut dump = String::new();
        for (at, life) in self.lives.iter().enumerate() {
            let port = Port::keep()?;
            let serve = format!("server.replica_listen={}", port.address());
            let mut settings = self.settings.clone();
            settings.extend(life.has_replica.then_some(serve));
            let running = Server::start_logged(server, &[], data, &settings, &data.with_extension("said"))?;
            let mut client = running.connect()?;
            for statement in &life.statements {
                client.batch_execute(statement).with_context(|| statement.clone())?;
            }
            if life.has_replica {
                visit(server, data, &self.settings, &port, &mut client)?;
            }
            if at + 1 == self.lives.len() {
                dump = self.dump(&mut client)?;
            }
            drop(client);
            if life.is_killed { running.kill()? } else { running.stop()? }
        }
        if self.has_control_1 {
            versions::write_control_1(data)?;
        }
        Ok(dump)
    }

    /// Runs its queries; returns them and their answers, line by line.
    pub(super) fn dump(&self, client: &mut Client) -> anyhow::Result<String> {
        let mut dump = String::new();
        for query in &self.queries {
            writeln!(dump, "> {query}")?;
            for message in client.simple_query(query).with_context(|| query.clone())? {
                if let SimpleQueryMessage::Row(row) = message {
                    let columns: Vec<&str> = (0..row.len()).map(|at| row.get(at).unwrap_or("NULL")).collect();
                    writeln!(dump, "{}", columns.join("|"))?;
                }
            }
        }
        Ok(dump)
    }

    /// Executes the statements for a later program, and those that it must refuse.
    pub(super) fn write(&self, client: &mut Client) -> anyhow::Result<()> {
        for statement in &self.writes {
            client.batch_execute(statement).with_context(|| statement.clone())?;
        }
        for (state, statement) in &self.refused {
            let Err(error) = client.batch_execute(statement) else { bail!("{statement} is not refused") };
            let code = error.code().map_or("none", |code| code.code());
            ensure!(code == state, "{statement} is refused with {code}, not {state}: {error}");
        }
        Ok(())
    }
}
