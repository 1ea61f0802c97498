//! `Follower`: a replica in either form, and [`Look`]: a repeated read of one number on it.

use anyhow::Context;
use collie_workload::line::{Cells as _, Line as _, Lines as _};
use postgres::{Client, Statement};

use super::live::LiveThesis;
use crate::servers::Server;
use crate::tpcc::{OwnLine, OwnStatement};

/// A replica that follows a primary.
pub(crate) enum Follower {
    /// A server, as users run it.
    Server(Server),
    /// A replayer in this process.
    Thesis(Box<LiveThesis>),
}

impl Follower {
    /// Returns the replica's server.
    ///
    /// # Errors
    /// It is no server.
    pub(crate) fn server(&self) -> anyhow::Result<&Server> {
        match self {
            Self::Server(server) => Ok(server),
            Self::Thesis(_) => anyhow::bail!("a replica in this process is no server"),
        }
    }

    /// Returns the replica's server and consumes this value.
    ///
    /// # Errors
    /// It is no server.
    pub(crate) fn into_server(self) -> anyhow::Result<Server> {
        match self {
            Self::Server(server) => Ok(server),
            Self::Thesis(_) => anyhow::bail!("a replica in this process is no server"),
        }
    }

    /// Opens a session that reads the number that `text` returns.
    ///
    /// # Errors
    /// Those of the driver; the replica has stopped.
    pub(crate) fn look(&self, text: &str) -> anyhow::Result<Look> {
        match self {
            Self::Server(server) => {
                let mut session = server.connect()?;
                let statement = session.prepare(text)?;
                Ok(Look::Server(Box::new(session), statement))
            }
            Self::Thesis(thesis) => {
                let mut session = Box::new(thesis.lines()?.open()?);
                let statement = session.prepare(text)?;
                Ok(Look::Own(session, statement))
            }
        }
    }

    /// Fails if the replica is known to have stopped; a server's sessions report that themselves.
    ///
    /// # Errors
    /// The reason why it has stopped.
    pub(crate) fn ensure_alive(&self) -> anyhow::Result<()> {
        match self {
            Self::Server(_) => Ok(()),
            Self::Thesis(thesis) => thesis.ensure_alive(),
        }
    }
}

/// A session with a prepared statement that returns one number.
pub(crate) enum Look {
    Server(Box<Client>, Statement),
    Own(Box<OwnLine>, OwnStatement),
}

impl Look {
    /// Reads the number.
    ///
    /// # Errors
    /// Those of the driver; the result is not one row.
    pub(crate) fn number(&mut self) -> anyhow::Result<i64> {
        match self {
            Self::Server(session, statement) => Ok(session.query_one(statement, &[])?.get(0)),
            Self::Own(session, statement) => {
                let mut rows = session.query(statement, &[])?;
                anyhow::ensure!(rows.len() == 1, "{} rows where there is one", rows.len());
                Ok(rows.pop().context("one row")?.get(0))
            }
        }
    }
}
