//! `Line`: a session that runs statements, on a server or on the SQL layer in this process; the statements are the same
//! for both.

use anyhow::Context;
use postgres::types::{FromSql, ToSql};
use postgres::{Client, Config, NoTls, error::SqlState};

use crate::target::Failure;

/// Values of a statement, in the order of its parameters.
pub type Values<'v> = &'v [&'v (dyn ToSql + Sync)];

/// The source of rows to be loaded: text in COPY's format, in pieces; empty at the end.
pub type Pieces<'p> = &'p mut (dyn FnMut() -> String + Send);

/// A factory of lines.
pub trait Lines: Sync {
    /// Its sessions.
    type Line: Line + 'static;

    /// Opens a line.
    ///
    /// # Errors
    /// The database cannot be reached.
    fn open(&self) -> anyhow::Result<Self::Line>;
}

/// One row of an answer.
pub trait Cells {
    /// Returns the value in a column. A type that does not fit is a bug of this program.
    fn get<'r, T: FromSql<'r>>(&'r self, column: usize) -> T;
}

/// One session.
pub trait Line: Send {
    /// A prepared statement.
    type Statement: Send;
    /// A row of an answer.
    type Row: Cells;

    /// Runs statements without values, and ignores their rows.
    ///
    /// # Errors
    /// Those of the database.
    fn batch(&mut self, text: &str) -> Result<(), Failure>;

    /// Prepares a statement.
    ///
    /// # Errors
    /// Those of the database.
    fn prepare(&mut self, text: &str) -> Result<Self::Statement, Failure>;

    /// Runs a prepared statement and returns its rows.
    ///
    /// # Errors
    /// Those of the database.
    fn query(&mut self, statement: &Self::Statement, values: Values<'_>) -> Result<Vec<Self::Row>, Failure>;

    /// Loads rows into a table.
    ///
    /// # Errors
    /// Those of the database.
    fn copy(&mut self, table: &str, pieces: Pieces<'_>) -> Result<(), Failure>;

    /// Runs a statement that is not needed again.
    ///
    /// # Errors
    /// Those of the database.
    fn ask(&mut self, text: &str, values: Values<'_>) -> Result<Vec<Self::Row>, Failure> {
        let statement = self.prepare(text)?;
        self.query(&statement, values)
    }

    /// Runs a statement that returns one row or none.
    ///
    /// # Errors
    /// Those of the database; another number of rows.
    fn opt(&mut self, statement: &Self::Statement, values: Values<'_>) -> Result<Option<Self::Row>, Failure> {
        let mut rows = self.query(statement, values)?;
        match rows.len() {
            0 | 1 => Ok(rows.pop()),
            count => Err(Failure::Other(anyhow::anyhow!("{count} rows where there is one"))),
        }
    }

    /// Runs a statement that returns one row.
    ///
    /// # Errors
    /// Those of the database; another number of rows.
    fn one(&mut self, statement: &Self::Statement, values: Values<'_>) -> Result<Self::Row, Failure> {
        self.opt(statement, values)?.context("no row where there is one").map_err(Failure::Other)
    }
}

/// A server.
#[derive(Clone, Debug)]
pub struct Server(pub(crate) Config);

impl Lines for Server {
    type Line = Client;

    fn open(&self) -> anyhow::Result<Client> {
        Ok(self.0.connect(NoTls)?)
    }
}

impl Cells for postgres::Row {
    fn get<'r, T: FromSql<'r>>(&'r self, column: usize) -> T {
        Self::get(self, column)
    }
}

impl From<postgres::Error> for Failure {
    fn from(error: postgres::Error) -> Self {
        match error.code() {
            Some(&SqlState::T_R_SERIALIZATION_FAILURE) => Self::Conflict,
            Some(&SqlState::T_R_DEADLOCK_DETECTED) => Self::Deadlock,
            _ => Self::Other(error.into()),
        }
    }
}

impl Line for Client {
    type Statement = postgres::Statement;
    type Row = postgres::Row;

    fn batch(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.batch_execute(text)?)
    }

    fn prepare(&mut self, text: &str) -> Result<Self::Statement, Failure> {
        Ok(Self::prepare(self, text)?)
    }

    fn query(&mut self, statement: &Self::Statement, values: Values<'_>) -> Result<Vec<Self::Row>, Failure> {
        Ok(Self::query(self, statement, values)?)
    }

    fn copy(&mut self, table: &str, pieces: Pieces<'_>) -> Result<(), Failure> {
        use std::io::Write as _;
        let mut writer = self.copy_in(&format!("COPY {table} FROM STDIN"))?;
        loop {
            let piece = pieces();
            if piece.is_empty() {
                break;
            }
            writer.write_all(piece.as_bytes()).map_err(|error| Failure::Other(error.into()))?;
        }
        writer.finish()?;
        Ok(())
    }
}
