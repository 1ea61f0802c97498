//! `OwnSql`: the SQL layer in this process, without server and protocol, to measure the cost of its statements alone.
//!
//! Values and rows are passed in the binary form of the wire, so the same types read them.

use std::future::Future;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;

use collie_engine::Options;
use collie_sql::analyze::bound::ResultColumn;
use collie_sql::error::{Report, Result as SqlResult, SqlError, SqlState};
use collie_sql::session::settings::Settings;
use collie_sql::session::{Client, CopyInput, Database, Formats, NoticeLevel, Session};
use collie_sql::types::Value;
use collie_sql::types::io::{TextContext, binary_out};
use collie_workload::{
    line::{Cells, Line, Lines, Pieces, Values},
    target::Failure,
};
use postgres::types::{FromSql, IsNull, Type, private::BytesMut};

use crate::{Plan, Scratch};

/// The name of the target in tables.
pub(super) const NAME: &str = "collie SQL, in process";

/// A database in this process.
pub(crate) struct OwnSql {
    database: Arc<Database>,
    /// Declared after the database, so that its files are deleted after it is closed.
    _scratch: Scratch,
}

impl OwnSql {
    /// Creates a database in its own directory inside the plan's directory.
    ///
    /// # Errors
    /// Those of the operating system and of the database.
    pub(crate) fn open(plan: &Plan, options: Options) -> anyhow::Result<Self> {
        let scratch = Scratch::new(&plan.env, &plan.dir)?;
        let path = scratch.path().join("db");
        let (database, _report) =
            Database::open(&path, options, plan.env.clone(), Settings::default(), &mut |_progress| ())?;
        Ok(Self { database, _scratch: scratch })
    }
}

impl Drop for OwnSql {
    fn drop(&mut self) {
        // The files are deleted next, so an error at closing does not matter.
        let _closed = self.database.close();
    }
}

impl Lines for OwnSql {
    type Line = OwnLine;

    fn open(&self) -> anyhow::Result<OwnLine> {
        Ok(OwnLine { session: self.database.connect("collie", "collie-bench", None)?, prepared: 0 })
    }
}

/// A session.
pub(crate) struct OwnLine {
    session: Session,
    /// The number of prepared statements; their names are numbers.
    prepared: u32,
}

pub(crate) struct OwnStatement {
    name: String,
    parameters: Vec<Type>,
    columns: Arc<[Type]>,
}

/// One row, in binary form.
pub(crate) struct OwnRow {
    columns: Arc<[Type]>,
    bytes: Vec<u8>,
    /// The range of each value; `None` for NULL.
    places: Vec<Option<Range<usize>>>,
}

impl Cells for OwnRow {
    fn get<'r, T: FromSql<'r>>(&'r self, column: usize) -> T {
        let (ty, place) = (&self.columns[column], self.places[column].clone());
        assert!(T::accepts(ty), "column {column} has type {ty}");
        T::from_sql_nullable(ty, place.map(|place| &self.bytes[place]))
            .unwrap_or_else(|error| panic!("column {column} of type {ty}: {error}"))
    }
}

/// Collects the answer to one statement.
#[derive(Default)]
struct Answer<'p> {
    columns: Arc<[Type]>,
    rows: Vec<OwnRow>,
    failed: Option<SqlError>,
    pieces: Option<Pieces<'p>>,
}

impl Client for Answer<'_> {
    fn columns(&mut self, _columns: &[ResultColumn], _formats: &Formats) {}

    fn row(&mut self, values: &[Value], columns: &[ResultColumn], _: &Formats, _: &TextContext) -> SqlResult<()> {
        let (mut bytes, mut places) = (Vec::new(), Vec::with_capacity(values.len()));
        for (value, column) in values.iter().zip(columns) {
            let from = bytes.len();
            binary_out(value, column.ty.oid, &mut bytes);
            places.push((!value.is_null()).then_some(from..bytes.len()));
        }
        self.rows.push(OwnRow { columns: Arc::clone(&self.columns), bytes, places });
        Ok(())
    }

    fn complete(&mut self, _tag: &str) {}

    fn empty(&mut self) {}

    fn suspended(&mut self) {}

    fn notice(&mut self, _level: NoticeLevel, _report: &Report) {}

    fn error(&mut self, error: &SqlError, _text: &str) {
        self.failed = Some(error.clone());
    }

    fn copy_in(&mut self, _columns: usize) {}

    fn copy_out(&mut self, _columns: usize) {}

    fn copy_data(&mut self, _data: &[u8]) {}

    fn copy_done(&mut self) {}

    fn is_full(&self) -> bool {
        false
    }

    async fn drain(&mut self) -> SqlResult<()> {
        Ok(())
    }

    async fn next_copy(&mut self) -> SqlResult<CopyInput> {
        let piece = self.pieces.as_mut().map(|pieces| pieces()).unwrap_or_default();
        Ok(if piece.is_empty() { CopyInput::Done } else { CopyInput::Data(piece.into_bytes()) })
    }
}

/// Returns the failure of a transaction that `error` ended.
fn failure(error: SqlError) -> Failure {
    match error.state() {
        SqlState::SERIALIZATION_FAILURE => Failure::Conflict,
        SqlState::DEADLOCK_DETECTED => Failure::Deadlock,
        _ => Failure::Other(error.into()),
    }
}

impl OwnLine {
    fn simple(&mut self, text: &str, answer: &mut Answer<'_>) -> Result<(), Failure> {
        block_on(self.session.simple_query(text, answer));
        answer.failed.take().map_or(Ok(()), |error| Err(failure(error)))
    }

    /// Ends a message of several steps as the server does: notes a failure in the session, then syncs.
    fn sync<T>(&mut self, done: SqlResult<T>) -> Result<T, Failure> {
        if done.is_err() {
            block_on(self.session.failed());
        }
        let synced = block_on(self.session.sync(&mut Answer::default()));
        let value = done.map_err(failure)?;
        synced.map_err(failure)?;
        Ok(value)
    }

    fn types(oids: impl Iterator<Item = u32>) -> SqlResult<Vec<Type>> {
        oids.map(|oid| Type::from_oid(oid).ok_or_else(|| SqlError::unsupported(format!("type {oid}")))).collect()
    }
}

impl Line for OwnLine {
    type Statement = OwnStatement;
    type Row = OwnRow;

    fn batch(&mut self, text: &str) -> Result<(), Failure> {
        self.simple(text, &mut Answer::default())
    }

    fn prepare(&mut self, text: &str) -> Result<OwnStatement, Failure> {
        self.prepared += 1;
        let name = format!("s{}", self.prepared);
        let prepared = block_on(self.session.parse(&name, text, &[])).and_then(|()| {
            let described = self.session.describe_statement(&name)?;
            let parameters = Self::types(described.parameters.into_iter())?;
            let columns = Self::types(described.columns.iter().flatten().map(|column| column.ty.oid))?;
            Ok(OwnStatement { name: name.clone(), parameters, columns: columns.into() })
        });
        self.sync(prepared)
    }

    fn query(&mut self, statement: &OwnStatement, values: Values<'_>) -> Result<Vec<OwnRow>, Failure> {
        let (mut bytes, mut places) = (BytesMut::new(), Vec::with_capacity(values.len()));
        for (value, ty) in values.iter().zip(&statement.parameters) {
            let from = bytes.len();
            let null = value.to_sql_checked(ty, &mut bytes).map_err(|error| Failure::Other(anyhow::anyhow!(error)))?;
            places.push(matches!(null, IsNull::No).then_some(from..bytes.len()));
        }
        let mut answer = Answer { columns: Arc::clone(&statement.columns), ..Answer::default() };
        let given = places.into_iter().map(|place| place.map(|place| &bytes[place]));
        let done = match self.session.bind("", &statement.name, given, |_place| 1, vec![1]) {
            Ok(()) => block_on(self.session.execute("", 0, &mut answer)),
            refused => refused,
        };
        self.sync(done)?;
        Ok(answer.rows)
    }

    fn copy(&mut self, table: &str, pieces: Pieces<'_>) -> Result<(), Failure> {
        self.simple(&format!("COPY {table} FROM STDIN"), &mut Answer { pieces: Some(pieces), ..Answer::default() })
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` to completion on this thread, parking while it is pending.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut context, mut future) = (TaskContext::from_waker(&waker), pin!(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
