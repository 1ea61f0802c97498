//! Referential integrity: the checks and actions of foreign keys, for what statements noted (`exec::foreign`).
//!
//! Each is a statement of its own, planned once and run by the executor like any other, so that it waits, looks again at
//! changed rows, and writes index entries as they do. What its rows do to further foreign keys is noted in turn.
//!
//! # Invariants
//! - I1. A row that refers holds the row it refers to as FOR KEY SHARE does from its check to the end of its transaction,
//!   and whoever removes that row, or changes what is referred to, holds it as FOR UPDATE does. So one of two that meet
//!   waits for the other to end, and sees what it did: no row is left without its row, whoever commits first.
//! - I2. The check of a row that refers reads at the transaction's snapshot, and goes by the newest version of what it
//!   finds. At REPEATABLE READ a row that is there in the snapshot but not any more is 40001.
//! - I3. What a removal or change looks for is looked for in the newest state, at every level, with everything in it that
//!   was published before the look (`Sees::Newest`): who held the row before us has committed its rows. Rows that the
//!   snapshot of REPEATABLE READ does not show refuse the removal; an action that would change one is 40001.
//! - I4. Events are answered in the order in which they happened; those of an answer come after all before it.
//! - I5. An event is judged by the state at the time of its answer. A row that refers to nothing is no violation if no row
//!   with its values is there any more, and a removal none if a row with these values is there again (not for RESTRICT).
//! - I6. Definitions hold still: who writes a table holds it, and nobody adds or drops a foreign key of or to a held table.
//!
//! Checked by the client tests `foreign_keys`, against PostgreSQL and for rows left alone.

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

/// What can be asked for a foreign key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Question {
    /// Locks the row that these referencing values refer to.
    Hold,
    /// Whether the snapshot shows the row that these referencing values refer to.
    Shown,
    /// Whether there is a row with these referencing values.
    Referencing,
    /// Whether there is a row with these referenced values.
    Referenced,
    /// Locks a row that refers to these referenced values.
    Dependent,
    /// Removes the rows that refer to these values.
    Delete,
    /// Gives the rows that refer to the first values the second ones.
    Follow,
    /// Sets the columns of rows that refer to these values to NULL, or to their defaults.
    Set { default: bool, on_delete: bool },
}

/// The statements of foreign keys, by the key's OID: parsed once, planned once for each catalog.
#[derive(Default)]
pub(super) struct Questions(Mutex<Map<(Oid, Question), Arc<Prepared>>>);

/// Statements kept; beyond, those of dropped keys are in the way of others, and all are forgotten.
const QUESTIONS_MAX: usize = 16 << 10;

/// What SET CONSTRAINTS said in this transaction: the last word on a constraint counts.
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
    /// Finds them; `None` for a key that is not there any more.
    fn find(catalog: &Catalog, table: Oid, key: Oid) -> Result<Option<Self>> {
        let Some((child, key)) = catalog.foreign_key(table, key) else { return Ok(None) };
        let Some(parent) = catalog.relation(key.target) else {
            let text = format!("the table that foreign key \"{}\" refers to cannot be read", key.name);
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, text));
        };
        Ok(Some(Self { child: child.clone(), key: key.clone(), parent: parent.clone() }))
    }

    /// Writes a statement, and gives the types of its parameters.
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

    /// Writes the query for a row that violates the key.
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

/// `"schema"."table"`.
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

/// `$1 = x.a AND $2 = x.b`.
fn condition(relation: &Relation, places: &[usize]) -> String {
    let terms = places.iter().enumerate();
    joined(terms.map(|(at, &place)| format!("${} = x.{}", at + 1, column(relation, place))), " AND ")
}

/// As [`condition`], with NULL equal to NULL.
fn same(relation: &Relation, places: &[usize]) -> String {
    let terms = places.iter().enumerate();
    joined(terms.map(|(at, &place)| format!("x.{} IS NOT DISTINCT FROM ${}", column(relation, place), at + 1)), " AND ")
}

fn joined(parts: impl Iterator<Item = String>, between: &str) -> String {
    parts.collect::<Vec<_>>().join(between)
}

/// Keeps rows.
#[derive(Default)]
struct Kept(Vec<Vec<Value>>);

impl RowSink for Kept {
    fn row(&mut self, values: &[Value]) -> Result<()> {
        self.0.push(values.to_vec());
        Ok(())
    }
}

/// What a statement of a foreign key did.
struct Answer {
    rows: Vec<Vec<Value>>,
    events: Vec<Event>,
}

impl Session {
    /// Answers the events of a statement that is over, and those of the answers (I4).
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

    /// Answers what was deferred, before the commit.
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
            // The defaults may be the very values that are gone, which changes nothing that would be noted.
            self.check_unreferenced(&parties, &old, ReferentialAction::NoAction).await?;
        }
        Ok(answer.events)
    }

    /// Fails unless the row with these referencing values, if it is still there, has its row (I1, I2, I5).
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

    /// `Key (a, b)=(1, x)`.
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

    /// Runs a statement that judges constraints, or acts on them, to its end.
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

    /// Fails if a row that is there violates a foreign key of `table`.
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
            // Those that are still deferred go back into the list.
            let events = std::mem::take(&mut self.transaction.deferred);
            self.answer_all(events).await?;
        }
        Ok(())
    }

    /// Finds the deferrable constraints of a name in the first schema that has one.
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

    /// Returns whether something that was deferred asks about a foreign key for which `concerns` is true.
    pub(super) fn is_pending(&self, concerns: impl Fn(Oid) -> bool) -> bool {
        self.transaction.deferred.iter().any(|event| concerns(event.key))
    }
}

fn prepared(text: &str, declared: Vec<u32>) -> Result<Prepared> {
    let mut statements = crate::parse::statements(text)?;
    let stmt = statements.pop().map(|statement| Arc::new(statement.stmt));
    Ok(Prepared { text: text.into(), stmt, declared, planned: Mutex::new(None) })
}

/// Returns whether values of one type can refer to values of another: one operator tells them equal, by the order of the
/// referenced column's index.
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
