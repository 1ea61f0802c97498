//! Referential integrity: the checks and actions of foreign keys, for the events that statements noted
//! (`exec::foreign`).
//!
//! Each check or action is its own statement, planned once and run by the executor like any other, so that it waits,
//! re-checks changed rows, and writes index entries as they do. Its own events for further foreign keys are noted in
//! turn.
//!
//! # Invariants
//! - I1. A referencing row holds the row that it refers to as FOR KEY SHARE does, from its check to the end of its
//!   transaction; a statement that removes that row, or changes its referenced key, holds it as FOR UPDATE does. So if
//!   two transactions meet, one waits for the other to end, and sees its changes: no row is left without its row,
//!   whichever commits first.
//! - I2. The check of a referencing row reads at the transaction's snapshot, and judges the newest version of each row
//!   that it finds. At REPEATABLE READ, a row that the snapshot shows but that is gone now is 40001.
//! - I3. A removal or change searches the newest state, at every level, including everything that was published before
//!   the search (`Sees::Newest`): the transaction that held the row before has committed its rows. Rows that the
//!   snapshot of REPEATABLE READ does not show refuse the removal; an action that would change one is 40001.
//! - I4. Events are answered in the order in which they happened; the events of an answer come after all earlier ones.
//! - I5. An event is judged by the state at the time of its answer. A row that refers to nothing is no violation if no
//!   row with its values exists any more, and a removal is none if a row with these values exists again (except for
//!   RESTRICT).
//! - I6. Definitions do not change meanwhile: a writer of a table holds a lock on it, and no session adds or drops a
//!   foreign key of a held table or to one.
//!
//! Checked by the client tests `foreign_keys`, against PostgreSQL and for rows without their row.

use std::{
    collections::VecDeque,
    fmt::{self, Write as _},
    sync::Arc,
};

use collie_base::Map;
use collie_engine::Sees;
use parking_lot::Mutex;

use crate::{
    catalog::{
        relation::{ConstraintTiming, ForeignKey, Oid, ReferentialAction, Relation},
        snapshot::Catalog,
    },
    error::{Result, SqlError, SqlState},
    exec::{
        RowSink, Step,
        foreign::{Event, Happened},
    },
    parse::ast,
    session::{Client, NoticeLevel, Session, prepared::Prepared, transaction::Block, turn::Turn},
    types::{Value, io, oid},
};

/// A statement that checks or enforces a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// Lock the row that these referencing values refer to.
    Hold,
    /// Find whether the snapshot shows the row that these referencing values refer to.
    Shown,
    /// Find whether there is a row with these referencing values.
    Referencing,
    /// Find whether there is a row with these referenced values.
    Referenced,
    /// Lock a row that refers to these referenced values.
    Dependent,
    /// Delete the rows that refer to these values.
    Delete,
    /// Set the referencing columns of rows that refer to the first values to the second ones.
    Follow,
    /// Set the columns of rows that refer to these values to NULL, or to their defaults.
    Set { default: bool, on_delete: bool },
}

/// The statements of foreign keys, by the key's OID: parsed once, and planned once for each catalog.
#[derive(Default)]
pub(super) struct Questions(Mutex<Map<(Oid, Question), Arc<Prepared>>>);

/// Limit of the kept statements. At the limit all are forgotten, since those of dropped keys are not removed otherwise.
const QUESTIONS_MAX: usize = 16 << 10;

/// The effect of SET CONSTRAINTS in this transaction: the last statement about a constraint counts.
#[derive(Clone, Default)]
pub(super) struct Timing {
    all: Option<bool>,
    one: Map<Oid, bool>,
}

impl Timing {
    fn is_deferred(&self, key: &ForeignKey) -> bool {
        if key.timing == ConstraintTiming::Immediate {
            return false;
        }
        let said = self.one.get(&key.oid).copied().or(self.all);
        said.unwrap_or(key.timing == ConstraintTiming::Deferred)
    }
}

/// A foreign key with its two tables.
struct Parties {
    child: Arc<Relation>,
    key: ForeignKey,
    parent: Arc<Relation>,
}

impl Parties {
    /// Finds the key and its tables; `None` if the key does not exist any more.
    fn find(catalog: &Catalog, table: Oid, key: Oid) -> Result<Option<Self>> {
        let Some((child, key)) = catalog.foreign_key(table, key) else { return Ok(None) };
        let Some(parent) = catalog.relation(key.target) else {
            let text = format!("the table that foreign key \"{}\" refers to cannot be read", key.name);
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, text));
        };
        Ok(Some(Self { child: child.clone(), key: key.clone(), parent: parent.clone() }))
    }

    /// Returns the text of a statement, and the types of its parameters.
    fn statement(&self, catalog: &Catalog, question: Question) -> (String, Vec<u32>) {
        let Self { child, key, parent } = self;
        let (referencing, referenced) = (types(child, &key.columns), types(parent, &key.target_columns));
        let of_child = || condition(child, &key.columns);
        let of_parent = || condition(parent, &key.target_columns);
        let (child_name, parent_name) = (Qualified(catalog, child), Qualified(catalog, parent));
        match question {
            Question::Hold => {
                (format!("SELECT 1 FROM {parent_name} x WHERE {} FOR KEY SHARE OF x", of_parent()), referencing)
            }
            Question::Shown => (format!("SELECT 1 FROM {parent_name} x WHERE {} LIMIT 1", of_parent()), referencing),
            Question::Referencing => {
                (format!("SELECT 1 FROM {child_name} x WHERE {} LIMIT 1", same(child, &key.columns)), referencing)
            }
            Question::Referenced => {
                (format!("SELECT 1 FROM {parent_name} x WHERE {} LIMIT 1", of_parent()), referenced)
            }
            Question::Dependent => {
                (format!("SELECT 1 FROM {child_name} x WHERE {} LIMIT 1 FOR KEY SHARE OF x", of_child()), referenced)
            }
            Question::Delete => (format!("DELETE FROM {child_name} x WHERE {}", of_child()), referenced),
            Question::Follow => {
                let first = key.columns.len() + 1;
                let set = key.columns.iter().enumerate();
                let set = set.map(|(at, &place)| format!("{} = ${}", column(child, place), first + at));
                let text = format!("UPDATE {child_name} x SET {} WHERE {}", joined(set, ", "), of_child());
                (text, [referenced.clone(), referenced].concat())
            }
            Question::Set { default, on_delete } => {
                let some = on_delete && !key.on_delete_columns.is_empty();
                let places = if some { &key.on_delete_columns } else { &key.columns };
                let value = if default { "DEFAULT" } else { "NULL" };
                let set = places.iter().map(|&place| format!("{} = {value}", column(child, place)));
                (format!("UPDATE {child_name} x SET {} WHERE {}", joined(set, ", "), of_child()), referenced)
            }
        }
    }

    /// Returns the text of the query for a row that violates the key.
    fn violations(&self, catalog: &Catalog) -> String {
        let Self { child, key, parent } = self;
        let columns = key.columns.iter().map(|&place| format!("x.{}", column(child, place)));
        let pairs = key.columns.iter().zip(&key.target_columns);
        let pairs = pairs.map(|(&from, &to)| format!("y.{} = x.{}", column(parent, to), column(child, from)));
        let refers = key.columns.iter().map(|&place| format!("x.{} IS NOT NULL", column(child, place)));
        let missing = key.target_columns.first().map_or_else(String::new, |&place| column(parent, place));
        format!(
            "SELECT {} FROM {} x LEFT JOIN {} y ON {} WHERE y.{missing} IS NULL AND ({}) LIMIT 1",
            joined(columns, ", "),
            Qualified(catalog, child),
            Qualified(catalog, parent),
            joined(pairs, " AND "),
            joined(refers, if key.match_full { " OR " } else { " AND " }),
        )
    }
}

/// A table's name, written as `"schema"."table"`.
struct Qualified<'a>(&'a Catalog, &'a Relation);

impl fmt::Display for Qualified<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(schema) = self.0.schemas.get(&self.1.schema) {
            write!(f, "{}.", quoted(&schema.name))?;
        }
        f.write_str(&quoted(&self.1.name))
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn column(relation: &Relation, place: usize) -> String {
    quoted(&relation.columns[place].name)
}

fn types(relation: &Relation, places: &[usize]) -> Vec<u32> {
    places.iter().map(|&place| relation.columns[place].ty.oid).collect()
}

/// Returns `$1 = x.a AND $2 = x.b`.
fn condition(relation: &Relation, places: &[usize]) -> String {
    let terms = places.iter().enumerate();
    joined(terms.map(|(at, &place)| format!("${} = x.{}", at + 1, column(relation, place))), " AND ")
}

/// Returns what [`condition`] does, but with NULL equal to NULL.
fn same(relation: &Relation, places: &[usize]) -> String {
    let terms = places.iter().enumerate();
    joined(terms.map(|(at, &place)| format!("x.{} IS NOT DISTINCT FROM ${}", column(relation, place), at + 1)), " AND ")
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

/// A sink that keeps rows.
#[derive(Default)]
struct Kept(Vec<Vec<Value>>);

impl RowSink for Kept {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.0.push(values.to_vec());
        Ok(())
    }
}

/// The result of a foreign key's statement.
struct Answer {
    rows: Vec<Vec<Value>>,
    events: Vec<Event>,
}

impl Session {
    /// Answers the events of an ended statement, and the events of the answers (I4).
    pub(super) async fn answer_all(&mut self, events: Vec<Event>) -> Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let (mut queue, mut turn) = (VecDeque::from(events), Turn::begin(&self.database));
        while let Some(event) = queue.pop_front() {
            queue.extend(self.answer(event).await?);
            turn.pass_when_over(&self.database).await;
        }
        Ok(())
    }

    /// Answers the deferred events, before the commit.
    pub(super) async fn answer_deferred(&mut self) -> Result<()> {
        if self.transaction.deferred.is_empty() {
            return Ok(());
        }
        let timing = Timing { all: Some(false), one: Map::default() };
        self.transaction.timing = timing;
        let events = std::mem::take(&mut self.transaction.deferred);
        self.answer_all(events).await
    }

    async fn answer(&mut self, event: Event) -> Result<Vec<Event>> {
        let Some(parties) = Parties::find(&self.catalog(), event.table, event.key)? else { return Ok(Vec::new()) };
        let (action, on_delete) = match &event.what {
            Happened::Refers(_) => (ReferentialAction::NoAction, false),
            Happened::Gone(_) => (parties.key.on_delete, true),
            Happened::Changed(..) => (parties.key.on_update, false),
        };
        // Checks can be deferred; RESTRICT and the other actions cannot.
        if action == ReferentialAction::NoAction && self.transaction.timing.is_deferred(&parties.key) {
            self.transaction.deferred.push(event);
            return Ok(Vec::new());
        }
        let (old, new) = match event.what {
            Happened::Refers(values) => {
                self.check_refers(&parties, &values).await?;
                return Ok(Vec::new());
            }
            Happened::Gone(old) => (old, None),
            Happened::Changed(old, new) => (old, Some(new)),
        };
        let question = match action {
            ReferentialAction::NoAction | ReferentialAction::Restrict => {
                self.check_unreferenced(&parties, &old, action).await?;
                return Ok(Vec::new());
            }
            ReferentialAction::Cascade => match new {
                None => Question::Delete,
                Some(new) => {
                    let params = [old.to_vec(), new.to_vec()].concat();
                    return Ok(self.ask(&parties, Question::Follow, params, Sees::Newest).await?.events);
                }
            },
            ReferentialAction::SetNull => Question::Set { default: false, on_delete },
            ReferentialAction::SetDefault => Question::Set { default: true, on_delete },
        };
        let answer = self.ask(&parties, question, old.to_vec(), Sees::Newest).await?;
        if action == ReferentialAction::SetDefault {
            // The defaults may equal the removed values; then the row does not change, and no event is noted.
            self.check_unreferenced(&parties, &old, ReferentialAction::NoAction).await?;
        }
        Ok(answer.events)
    }

    /// Fails unless the row with these referencing values, if it still exists, has its row (I1, I2, I5).
    async fn check_refers(&mut self, parties: &Parties, values: &[Value]) -> Result<()> {
        let some_null = values.iter().any(Value::is_null);
        if !some_null && self.is_some(parties, Question::Hold, values, Sees::Snapshot).await? {
            return Ok(());
        }
        if !self.is_some(parties, Question::Referencing, values, Sees::Snapshot).await? {
            return Ok(());
        }
        if !some_null && self.is_repeatable() && self.is_some(parties, Question::Shown, values, Sees::Snapshot).await? {
            let text = "could not serialize access due to concurrent update";
            return Err(SqlError::new(SqlState::SERIALIZATION_FAILURE, text));
        }
        Err(self.refers_to_nothing(parties, values))
    }

    /// Fails if a row still refers to these values (I3, I5).
    async fn check_unreferenced(&mut self, parties: &Parties, old: &[Value], action: ReferentialAction) -> Result<()> {
        if action == ReferentialAction::NoAction
            && self.is_some(parties, Question::Referenced, old, Sees::Newest).await?
        {
            return Ok(());
        }
        if !self.is_some(parties, Question::Dependent, old, Sees::Newest).await? {
            return Ok(());
        }
        let Parties { child, key, parent } = parties;
        let text = format!(
            "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
            parent.name, key.name, child.name
        );
        let row = self.key_text(parent, &key.target_columns, old);
        let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, text)
            .detail(format!("{row} is still referenced from table \"{}\".", child.name))
            .constraint(&*key.name);
        Err(self.about(child, error))
    }

    fn refers_to_nothing(&self, parties: &Parties, values: &[Value]) -> SqlError {
        let Parties { child, key, parent } = parties;
        let text =
            format!("insert or update on table \"{}\" violates foreign key constraint \"{}\"", child.name, key.name);
        let detail = if values.iter().any(Value::is_null) {
            "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned()
        } else {
            let row = self.key_text(child, &key.columns, values);
            format!("{row} is not present in table \"{}\".", parent.name)
        };
        let error = SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, text).detail(detail).constraint(&*key.name);
        self.about(child, error)
    }

    /// Returns `Key (a, b)=(1, x)`.
    fn key_text(&self, relation: &Relation, places: &[usize], values: &[Value]) -> String {
        let context = self.text_context();
        let mut text = String::from("Key (");
        let names = places.iter().map(|&place| relation.columns[place].name.to_string());
        text.push_str(&joined(names, ", "));
        let shown = places.iter().zip(values).map(|(&place, value)| match value {
            Value::Null => "null".to_owned(),
            value => io::to_text(value, relation.columns[place].ty.oid, &context),
        });
        let _ = write!(text, ")=({})", joined(shown, ", "));
        text
    }

    async fn is_some(&mut self, parties: &Parties, question: Question, values: &[Value], sees: Sees) -> Result<bool> {
        Ok(!self.ask(parties, question, values.to_vec(), sees).await?.rows.is_empty())
    }

    async fn ask(&mut self, parties: &Parties, question: Question, params: Vec<Value>, sees: Sees) -> Result<Answer> {
        let place = (parties.key.oid, question);
        let found = self.database.questions.0.lock().get(&place).cloned();
        let prepared = match found {
            Some(found) => found,
            None => {
                let (text, declared) = parties.statement(&self.catalog(), question);
                let prepared = Arc::new(prepared(&text, declared)?);
                let mut questions = self.database.questions.0.lock();
                if questions.len() >= QUESTIONS_MAX {
                    questions.clear();
                }
                questions.insert(place, prepared.clone());
                prepared
            }
        };
        self.run_check(&prepared, params, sees).await
    }

    /// Runs a statement that checks constraints, or acts on them, to its end.
    async fn run_check(&mut self, prepared: &Prepared, params: Vec<Value>, sees: Sees) -> Result<Answer> {
        let internal =
            || SqlError::new(SqlState::INTERNAL_ERROR, "a foreign key's statement is not one that is planned");
        let stmt = prepared.stmt.clone().ok_or_else(internal)?;
        let planned = self.planned(prepared).map_err(SqlError::without_position)?.ok_or_else(internal)?;
        let planned = self.lock_planned(&stmt, &prepared.declared, planned).await?;
        let text = self.text_context();
        let mut execution = self.execution(planned.plan.clone(), params);
        let mut kept = Kept::default();
        let begun = self.engine.begin_check(sees);
        let result = match begun {
            Err(error) => Err(error.into()),
            Ok(()) => loop {
                match self.step(&mut execution, &text, &mut kept) {
                    Ok(Step::Done { .. }) => break Ok(()),
                    Ok(Step::Suspended) => {}
                    Ok(Step::Yield) => self.database.give_way().await,
                    Ok(Step::Wait(blocker)) => {
                        if let Err(error) = self.wait(blocker).await {
                            break Err(error);
                        }
                    }
                    Err(error) => break Err(error.without_position()),
                }
            },
        };
        self.engine.end_statement();
        result?;
        Ok(Answer { rows: kept.0, events: execution.take_events() })
    }

    /// Fails if an existing row violates a foreign key of `table`.
    pub(super) async fn verify_foreign_key(&mut self, table: Oid, key: Oid) -> Result<()> {
        let catalog = self.catalog();
        let Some(parties) = Parties::find(&catalog, table, key)? else { return Ok(()) };
        let prepared = prepared(&parties.violations(&catalog), Vec::new())?;
        match self.run_check(&prepared, Vec::new(), Sees::Newest).await?.rows.first() {
            None => Ok(()),
            Some(values) => Err(self.refers_to_nothing(&parties, values)),
        }
    }

    /// Runs SET CONSTRAINTS.
    pub(super) async fn set_constraints<C: Client>(&mut self, set: &ast::SetConstraints, client: &mut C) -> Result<()> {
        if self.transaction.block != Block::Explicit {
            let text = "SET CONSTRAINTS can only be used in transaction blocks";
            let warning = SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text);
            client.notice(NoticeLevel::Warning, warning.report());
            return Ok(());
        }
        let catalog = self.catalog();
        if set.names.is_empty() {
            self.transaction.timing = Timing { all: Some(set.deferred), one: Map::default() };
        }
        for name in &set.names {
            for key in self.constraints_named(name, &catalog)? {
                self.transaction.timing.one.insert(key, set.deferred);
            }
        }
        if !set.deferred {
            // Events that are still deferred go back into the list.
            let events = std::mem::take(&mut self.transaction.deferred);
            self.answer_all(events).await?;
        }
        Ok(())
    }

    /// Finds the deferrable constraints of a name, in the first schema that has one.
    fn constraints_named(&self, name: &ast::RelationName, catalog: &Catalog) -> Result<Vec<Oid>> {
        let path = match self.schema_of(name, catalog)? {
            Some(schema) => vec![schema],
            None => self.search_path(catalog),
        };
        for schema in path {
            let mut found = Vec::new();
            let mut fixed = false;
            for relation in catalog.relations.values().filter(|relation| relation.schema == schema) {
                for key in relation.foreign_keys.iter().filter(|key| *key.name == *name.name) {
                    fixed |= key.timing == ConstraintTiming::Immediate;
                    found.push(key.oid);
                }
                let index =
                    relation.indexes.iter().any(|index| index.constraint.is_some() && *index.name == *name.name);
                fixed |= index || relation.checks.iter().any(|check| *check.name == *name.name);
            }
            if fixed {
                let text = format!("constraint \"{}\" is not deferrable", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, text));
            }
            if !found.is_empty() {
                return Ok(found);
            }
        }
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, format!("constraint \"{name}\" does not exist")))
    }

    /// Returns whether a deferred event asks about a foreign key for which `concerns` is true.
    pub(super) fn is_pending(&self, concerns: impl Fn(Oid) -> bool) -> bool {
        self.transaction.deferred.iter().any(|event| concerns(event.key))
    }
}

fn prepared(text: &str, declared: Vec<u32>) -> Result<Prepared> {
    let mut statements = crate::parse::statements(text)?;
    let stmt = statements.pop().map(|statement| Arc::new(statement.stmt));
    Ok(Prepared { text: text.into(), stmt, declared, planned: Mutex::new(None) })
}

/// Returns whether values of one type can refer to values of another: one operator compares them for equality,
/// consistently with the order of the referenced column's index.
pub(super) fn can_refer(from: u32, to: u32) -> bool {
    const INTEGERS: [u32; 3] = [oid::INT2, oid::INT4, oid::INT8];
    const TEXTS: [u32; 2] = [oid::TEXT, oid::VARCHAR];
    const FLOATS: [u32; 2] = [oid::FLOAT4, oid::FLOAT8];
    const DATES: [u32; 3] = [oid::DATE, oid::TIMESTAMP, oid::TIMESTAMPTZ];
    let both = |family: &[u32]| family.contains(&from) && family.contains(&to);
    from == to
        || both(&INTEGERS)
        || both(&TEXTS)
        || both(&FLOATS)
        || both(&DATES)
        || INTEGERS.contains(&from) && (to == oid::NUMERIC || FLOATS.contains(&to))
        || from == oid::NUMERIC && FLOATS.contains(&to)
        || from == oid::BPCHAR && TEXTS.contains(&to)
}
