//! `Client`: the random transactions on lists of one connection, and the answers that it got.
//!
//! A transaction appends to texts by UPDATE and by INSERT ... ON CONFLICT, and to rows by INSERT ... SELECT
//! max(position); it reads one list, two in one statement, or one for update. It is a single statement or a block,
//! read-only or not; it sometimes undoes an append by a savepoint, or rolls back. All statements are prepared, in the
//! extended protocol.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use collie_engine::Isolation;
use collie_env::Clock;
use parking_lot::Mutex;
use postgres::{Row, Statement, error::SqlState};

use super::history::{Element, List, Op, Transaction};
use crate::{journal::Outcome, random::Random};

/// The number of lists in use at one time, alternately texts and rows.
const LISTS: u32 = 12;
/// A third of the operations use these lists.
const HOT_LISTS: u64 = 2;
/// After this many appends a list is replaced by a new one, so that reads stay short.
const APPENDS_MAX: u32 = 40;
/// If a statement takes longer, the server has lost it.
const STATEMENT_TIMEOUT: &str = "SET statement_timeout = '300s'";

/// Creates the tables.
pub(crate) fn create(client: &mut postgres::Client) -> Result<(), postgres::Error> {
    client.batch_execute(
        "CREATE TABLE texts (list int PRIMARY KEY, elements text NOT NULL);
         CREATE TABLE elements (list int, position int, element int NOT NULL, PRIMARY KEY (list, position));
         CREATE UNIQUE INDEX ON elements (element);",
    )
}

/// The lists in use, and the last number of an element.
#[derive(Debug)]
struct Names {
    /// With the number of appends that were tried.
    lists: Vec<(List, u32)>,
    next_element: u32,
}

/// The state that all clients of a round share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    names: Arc<Mutex<Names>>,
    /// Transactions that ended.
    pub(crate) ended: Arc<AtomicU64>,
    /// Transactions that may still begin.
    pub(crate) left: Arc<AtomicU64>,
    clock: Arc<dyn Clock>,
}

impl Shared {
    /// Lets clients begin `transactions` transactions; `clock` gives the times of the history.
    pub(crate) fn new(transactions: u64, clock: Arc<dyn Clock>) -> Self {
        let lists = (0..LISTS).map(|list| (List(list), 0)).collect();
        Self {
            names: Arc::new(Mutex::new(Names { lists, next_element: 1 })),
            ended: Arc::default(),
            left: Arc::new(AtomicU64::new(transactions)),
            clock,
        }
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Returns every list that was ever in use.
    pub(crate) fn lists(&self) -> impl Iterator<Item = List> {
        let names = self.names.lock();
        let high = names.lists.iter().map(|(list, _)| list.0).max().unwrap_or_default();
        (0..=high).map(List)
    }

    fn list(&self, at: usize) -> List {
        self.names.lock().lists[at].0
    }

    /// Returns the list in slot `at` to append to, replaced if it is full, and a new element.
    fn append_to(&self, at: usize) -> (List, Element) {
        let mut names = self.names.lock();
        let (list, appends) = &mut names.lists[at];
        if *appends == APPENDS_MAX {
            (list.0, *appends) = (list.0 + LISTS, 0);
        }
        *appends += 1;
        let list = *list;
        names.next_element += 1;
        (list, Element(names.next_element))
    }

    fn take_turn(&self) -> bool {
        self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

#[derive(Debug)]
struct Statements {
    insert_text: Statement,
    update_text: Statement,
    update_text_returning: Statement,
    insert_element: Statement,
    read_text: Statement,
    read_text_for_update: Statement,
    read_texts: Statement,
    read_elements: Statement,
    read_two_elements: Statement,
}

impl Statements {
    fn prepare(client: &mut postgres::Client) -> Result<Self, postgres::Error> {
        let mut prepare = |sql: &str| client.prepare(sql);
        Ok(Self {
            insert_text: prepare(
                "INSERT INTO texts VALUES ($1::int, $2::text)
                 ON CONFLICT (list) DO UPDATE SET elements = texts.elements || excluded.elements",
            )?,
            update_text: prepare("UPDATE texts SET elements = elements || $2::text WHERE list = $1::int")?,
            update_text_returning: prepare(
                "UPDATE texts SET elements = elements || $2::text WHERE list = $1::int RETURNING list, elements",
            )?,
            insert_element: prepare(
                "INSERT INTO elements
                 SELECT $1::int, coalesce(max(position), 0) + 1, $2::int FROM elements WHERE list = $1::int",
            )?,
            read_text: prepare("SELECT list, elements FROM texts WHERE list = $1::int")?,
            read_text_for_update: prepare("SELECT list, elements FROM texts WHERE list = $1::int FOR UPDATE")?,
            read_texts: prepare("SELECT list, elements FROM texts WHERE list IN ($1::int, $2::int)")?,
            read_elements: prepare(
                "SELECT list, position, element FROM elements WHERE list = $1::int ORDER BY position",
            )?,
            read_two_elements: prepare(
                "SELECT list, position, element FROM elements WHERE list IN ($1::int, $2::int) ORDER BY list, position",
            )?,
        })
    }
}

const NO_REASON: &str = "a transaction is refused for a reason that it cannot have";
/// The pause before a replica is tried again.
const LATER: Duration = Duration::from_millis(10);

/// The reason why a transaction ended early.
enum Stop {
    /// The server refused it with an error that can occur.
    Refused,
    /// A replica does not yet show the state that it was opened with (57P03); the client tries again.
    Later(postgres::Error),
    /// The connection is broken.
    Gone,
    /// The server refused it with an error that cannot occur on a node that works.
    Failed(postgres::Error),
    /// The server's answer is wrong.
    Wrong(anyhow::Error),
}

impl From<postgres::Error> for Stop {
    fn from(error: postgres::Error) -> Self {
        let Some(state) = error.code().cloned() else { return Self::Gone };
        let may_happen =
            [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::UNIQUE_VIOLATION];
        if may_happen.contains(&state) {
            Self::Refused
        } else if state == SqlState::CANNOT_CONNECT_NOW {
            Self::Later(error)
        } else {
            Self::Failed(error)
        }
    }
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Wrong(error)
    }
}

/// A connection with its random transactions.
pub(crate) struct Client {
    connection: postgres::Client,
    statements: Statements,
    session: u64,
    random: Random,
    levels: Vec<Isolation>,
    shared: Shared,
    /// On a replica: the number of its process, and a flag that ends the client.
    replica: Option<(u64, Arc<AtomicBool>)>,
    /// On a node that may fail in any way: whether the node has reported a commit that its quorum may not have.
    unconfirmed: Option<Arc<AtomicBool>>,
}

impl Client {
    /// Prepares a connection.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn new(
        mut connection: postgres::Client,
        session: u64,
        random: Random,
        levels: &[Isolation],
        shared: &Shared,
    ) -> Result<Self, postgres::Error> {
        connection.batch_execute(STATEMENT_TIMEOUT)?;
        let statements = Statements::prepare(&mut connection)?;
        let (levels, shared) = (levels.to_vec(), shared.clone());
        Ok(Self { connection, statements, session, random, levels, shared, replica: None, unconfirmed: None })
    }

    /// Prepares a connection to a replica's process with the number `life`, which only reads, until `stop`.
    ///
    /// # Errors
    /// Those of the connection.
    pub(crate) fn reading(
        connection: postgres::Client,
        session: u64,
        random: Random,
        shared: &Shared,
        life: u64,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, postgres::Error> {
        let client = Self::new(connection, session, random, &[Isolation::RepeatableRead], shared)?;
        Ok(Self { replica: Some((life, stop.clone())), ..client })
    }

    /// Makes a refusal end only the connection, and makes the outcome of a commit unknown if `unconfirmed` is set.
    pub(crate) fn on_failing_node(self, unconfirmed: Arc<AtomicBool>) -> Self {
        Self { unconfirmed: Some(unconfirmed), ..self }
    }

    /// Returns whether another transaction may begin.
    fn take_turn(&self) -> bool {
        match &self.replica {
            None => self.shared.take_turn(),
            Some((_, stop)) => !stop.load(Ordering::SeqCst),
        }
    }

    /// Plays transactions until none is left or the connection breaks.
    ///
    /// # Errors
    /// An answer that the server must never give.
    pub(crate) fn run(mut self) -> anyhow::Result<Vec<Transaction>> {
        let mut history = Vec::new();
        while self.take_turn() && self.step(&mut history)? {}
        Ok(history)
    }

    /// Plays one transaction; returns whether the connection can be used for another.
    ///
    /// # Errors
    /// An answer that the server must never give.
    pub(crate) fn step(&mut self, history: &mut Vec<Transaction>) -> anyhow::Result<bool> {
        let mut transaction = self.begin();
        let stopped = self.play(&mut transaction);
        transaction.ended_ns = self.shared.now_ns();
        history.push(transaction);
        let last = || history.last().map(ToString::to_string).unwrap_or_default();
        self.shared.ended.fetch_add(u64::from(self.replica.is_none()), Ordering::SeqCst);
        match stopped {
            Ok(()) => Ok(!self.is_unconfirmed()),
            Err(Stop::Refused) => self.roll_back(),
            Err(Stop::Gone) => Ok(false),
            // Only a replica may give this answer.
            Err(Stop::Later(_)) if self.replica.is_some() => {
                let goes_on = self.roll_back()?;
                thread::sleep(LATER);
                Ok(goes_on)
            }
            Err(Stop::Later(_) | Stop::Failed(_)) if self.unconfirmed.is_some() => Ok(false),
            Err(Stop::Later(error) | Stop::Failed(error)) => {
                Err(anyhow::Error::new(error).context(NO_REASON).context(last()))
            }
            Err(Stop::Wrong(error)) => Err(error.context(last())),
        }
    }

    /// Returns whether the node has reported a commit that may be lost with the node.
    fn is_unconfirmed(&self) -> bool {
        self.unconfirmed.as_ref().is_some_and(|unconfirmed| unconfirmed.load(Ordering::SeqCst))
    }

    /// Ends a transaction that was refused; returns whether the connection still works.
    fn roll_back(&mut self) -> anyhow::Result<bool> {
        match self.connection.batch_execute("ROLLBACK").map_err(Stop::from) {
            Ok(()) => Ok(true),
            Err(Stop::Failed(error)) if self.unconfirmed.is_none() => {
                Err(anyhow::Error::new(error).context("a transaction cannot be rolled back"))
            }
            Err(_) => Ok(false),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.random.below(bound as u64)).unwrap_or_default()
    }

    fn one_in(&mut self, odds: u64) -> bool {
        self.random.below(odds) == 0
    }

    fn begin(&mut self) -> Transaction {
        let level = self.below(self.levels.len());
        Transaction {
            session: self.session,
            replica: self.replica.as_ref().map(|(life, _)| *life),
            isolation: self.levels[level],
            began_ns: self.shared.now_ns(),
            ended_ns: u64::MAX,
            // None of it can be committed before COMMIT is sent.
            outcome: Outcome::Aborted,
            statements_ns: Vec::new(),
            ops: Vec::new(),
        }
    }

    fn play(&mut self, transaction: &mut Transaction) -> Result<(), Stop> {
        // A single statement runs at the session's level, READ COMMITTED.
        if transaction.isolation == Isolation::ReadCommitted && self.one_in(6) {
            return self.statement_by_itself(transaction);
        }
        let reads_only = self.one_in(8) || self.replica.is_some();
        let level = match transaction.isolation {
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        };
        let mode = match (reads_only, self.below(2)) {
            (false, _) => "",
            (true, 0) => " READ ONLY",
            (true, _) => " READ ONLY, DEFERRABLE",
        };
        self.connection.batch_execute(&format!("BEGIN ISOLATION LEVEL {level}{mode}"))?;
        for _ in 0..=self.below(5) {
            match self.below(10) {
                0..=3 => self.read_one(transaction, reads_only)?,
                4 | 5 => self.read_two(transaction)?,
                _ if reads_only => self.read_one(transaction, reads_only)?,
                6 => self.append_and_undo(transaction)?,
                _ => self.append(transaction)?,
            }
        }
        if self.one_in(16) {
            self.connection.batch_execute("ROLLBACK")?;
            return Ok(());
        }
        self.end(transaction, |client| client.connection.batch_execute("COMMIT"))
    }

    /// Runs `commit`, whose outcome is unknown until it is answered.
    fn end(
        &mut self,
        transaction: &mut Transaction,
        commit: impl FnOnce(&mut Self) -> Result<(), postgres::Error>,
    ) -> Result<(), Stop> {
        transaction.outcome = Outcome::Unknown;
        let ended = commit(self).map_err(Stop::from);
        transaction.outcome = match ended {
            Ok(()) if self.is_unconfirmed() => Outcome::Unknown,
            Ok(()) => Outcome::Acknowledged,
            Err(Stop::Gone | Stop::Failed(_)) => Outcome::Unknown,
            Err(Stop::Refused | Stop::Later(_) | Stop::Wrong(_)) => Outcome::Aborted,
        };
        ended
    }

    fn statement_by_itself(&mut self, transaction: &mut Transaction) -> Result<(), Stop> {
        if self.one_in(2) {
            self.read_two(transaction)?;
            transaction.outcome = Outcome::Acknowledged;
            return Ok(());
        }
        let at = self.slot();
        let (list, element) = self.shared.append_to(at);
        transaction.statements_ns.push(self.shared.now_ns());
        // Recorded before it is sent, since it may be there although no answer comes.
        transaction.ops.push(Op::Append { list, element });
        self.end(transaction, |client| client.send_append(list, element))
    }

    fn slot(&mut self) -> usize {
        let hot = self.one_in(3);
        usize::try_from(self.random.below(if hot { HOT_LISTS } else { LISTS.into() })).unwrap_or_default()
    }

    /// Appends an element, to a text that may not exist yet, or as a row.
    fn send_append(&mut self, list: List, element: Element) -> Result<(), postgres::Error> {
        let number = list.0.cast_signed();
        if !list.is_text() {
            let sent = self.connection.execute(&self.statements.insert_element, &[&number, &element.0.cast_signed()]);
            return sent.map(drop);
        }
        let text = format!(",{element}");
        self.connection.execute(&self.statements.insert_text, &[&number, &text]).map(drop)
    }

    fn append(&mut self, transaction: &mut Transaction) -> Result<(), Stop> {
        let at = self.slot();
        let (list, element) = self.shared.append_to(at);
        let (number, text) = (list.0.cast_signed(), format!(",{element}"));
        transaction.statements_ns.push(self.shared.now_ns());
        let how = self.below(4);
        if list.is_text() && how == 0 {
            let rows = self.connection.query(&self.statements.update_text_returning, &[&number, &text])?;
            if !rows.is_empty() {
                transaction.ops.push(Op::Append { list, element });
                note_texts(transaction, &[list], &rows)?;
                return Ok(());
            }
        }
        if list.is_text() && how == 1 && self.connection.execute(&self.statements.update_text, &[&number, &text])? == 1
        {
            transaction.ops.push(Op::Append { list, element });
            return Ok(());
        }
        self.send_append(list, element)?;
        transaction.ops.push(Op::Append { list, element });
        Ok(())
    }

    fn append_and_undo(&mut self, transaction: &mut Transaction) -> Result<(), Stop> {
        let at = self.slot();
        let (list, element) = self.shared.append_to(at);
        self.connection.batch_execute("SAVEPOINT before")?;
        transaction.ops.push(Op::Undone { list, element });
        transaction.statements_ns.push(self.shared.now_ns());
        self.send_append(list, element)?;
        self.connection.batch_execute("ROLLBACK TO SAVEPOINT before")?;
        Ok(())
    }

    fn read_one(&mut self, transaction: &mut Transaction, reads_only: bool) -> Result<(), Stop> {
        let at = self.slot();
        let list = self.shared.list(at);
        let number = list.0.cast_signed();
        transaction.statements_ns.push(self.shared.now_ns());
        if !list.is_text() {
            let rows = self.connection.query(&self.statements.read_elements, &[&number])?;
            note_rows(transaction, &[list], &rows)?;
            return Ok(());
        }
        let locks = !reads_only && self.one_in(4);
        let statement = if locks { &self.statements.read_text_for_update } else { &self.statements.read_text };
        let rows = self.connection.query(statement, &[&number])?;
        note_texts(transaction, &[list], &rows)?;
        Ok(())
    }

    fn read_two(&mut self, transaction: &mut Transaction) -> Result<(), Stop> {
        let first = self.slot();
        // The second list is a different one of the same kind.
        let others = usize::try_from(LISTS / 2 - 1).unwrap_or_default();
        let second = (first + 2 + 2 * self.below(others)) % usize::try_from(LISTS).unwrap_or(1);
        let lists = [self.shared.list(first), self.shared.list(second)];
        let numbers = lists.map(|list| list.0.cast_signed());
        transaction.statements_ns.push(self.shared.now_ns());
        if lists[0].is_text() {
            let rows = self.connection.query(&self.statements.read_texts, &[&numbers[0], &numbers[1]])?;
            note_texts(transaction, &lists, &rows)?;
        } else {
            let rows = self.connection.query(&self.statements.read_two_elements, &[&numbers[0], &numbers[1]])?;
            note_rows(transaction, &lists, &rows)?;
        }
        Ok(())
    }
}

/// Reads every list of `shared` in one transaction, and returns it for the history.
///
/// # Errors
/// Those of the connection; rows that make no sense.
pub(crate) fn read_all(
    connection: &mut postgres::Client,
    session: u64,
    shared: &Shared,
) -> anyhow::Result<Transaction> {
    let lists: Vec<List> = shared.lists().collect();
    let now = shared.now_ns();
    let mut transaction = Transaction {
        session,
        replica: None,
        isolation: Isolation::Serializable,
        began_ns: now,
        ended_ns: now,
        outcome: Outcome::Acknowledged,
        statements_ns: vec![now],
        ops: Vec::new(),
    };
    connection.batch_execute("BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY")?;
    let (texts, rows): (Vec<_>, Vec<_>) = lists.into_iter().partition(|list| list.is_text());
    let found = connection.query("SELECT list, elements FROM texts", &[])?;
    note_texts(&mut transaction, &texts, &found)?;
    let found = connection.query("SELECT list, position, element FROM elements ORDER BY list, position", &[])?;
    note_rows(&mut transaction, &rows, &found)?;
    connection.batch_execute("COMMIT")?;
    transaction.ended_ns = shared.now_ns();
    Ok(transaction)
}

/// Records a statement's answer about these texts, including those that do not exist.
fn note_texts(transaction: &mut Transaction, lists: &[List], rows: &[Row]) -> anyhow::Result<()> {
    let mut found: Vec<(List, Vec<Element>)> = Vec::new();
    for row in rows {
        let (list, text): (i32, &str) = (row.try_get(0)?, row.try_get(1)?);
        let numbers = text.split(',').skip(1).map(|number| number.parse().map(Element));
        let elements = numbers.collect::<Result<_, _>>().with_context(|| format!("text {list} is {text:?}"))?;
        found.push((List(list.cast_unsigned()), elements));
    }
    note(transaction, lists, found)
}

/// Records a statement's answer about these lists of rows, which are sorted.
fn note_rows(transaction: &mut Transaction, lists: &[List], rows: &[Row]) -> anyhow::Result<()> {
    let mut found: Vec<(List, Vec<Element>)> = Vec::new();
    for row in rows {
        let (list, position, element): (i32, i32, i32) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let list = List(list.cast_unsigned());
        if found.last().is_none_or(|(last, _)| *last != list) {
            found.push((list, Vec::new()));
        }
        let Some((_, elements)) = found.last_mut() else { bail!("a list was just put there") };
        elements.push(Element(element.cast_unsigned()));
        ensure!(
            i32::try_from(elements.len())? == position,
            "{list} has position {position} as number {}",
            elements.len()
        );
    }
    note(transaction, lists, found)
}

fn note(transaction: &mut Transaction, lists: &[List], mut found: Vec<(List, Vec<Element>)>) -> anyhow::Result<()> {
    found.sort_by_key(|(list, _)| *list);
    let statement = transaction.statements_ns.len() - 1;
    for list in lists {
        let at = found.binary_search_by_key(list, |(list, _)| *list);
        let elements = at.map(|at| std::mem::take(&mut found[at].1)).unwrap_or_default();
        transaction.ops.push(Op::Read { list: *list, elements, statement });
    }
    let unasked = found.iter().find(|(list, _)| !lists.contains(list));
    ensure!(unasked.is_none(), "{unasked:?} was answered to who asked for {lists:?}");
    Ok(())
}
