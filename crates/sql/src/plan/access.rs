//! Access paths: the ways to read the rows of one table that satisfy some conjuncts.
//!
//! Costs are in row visits. A table is assumed to have at least 1,000 rows, so that plans made while a table is empty
//! stay
//! good when it is filled.

use std::sync::Arc;

use crate::{
    analyze::{
        self,
        bound::{Expr, Query},
    },
    catalog::relation::{Index, Relation},
    error::Result,
    plan::{
        compile::Planner,
        conjunct::{Condition, Conjunct, condition, row_list},
        indexed::KeyPlaces,
        node::{Access, IndexAccess, Limiter, Prefix, Term},
        walk::{Ranges, ranges_of},
    },
};

/// The least number of rows that a table is assumed to have.
const FEWEST_ROWS: f64 = 1000.0;
/// The share of rows left by one more equality.
const EQUAL_SHARE: f64 = 0.05;
/// The share of rows left by a bound on one side.
const HALF_RANGE_SHARE: f64 = 0.3;
/// The share of rows left by bounds on both sides.
const RANGE_SHARE: f64 = 0.05;
/// The assumed number of elements of an array parameter.
const ARRAY_ELEMENTS: f64 = 10.0;
/// The assumed share of a table's rows in a partial index.
const PARTIAL_SHARE: f64 = 0.1;
/// The assumed number of rows of a subquery under IN.
const SUBQUERY_ROWS: f64 = 100.0;

/// An order that is wanted of one range: place (as [`KeyPlaces`] numbers them), descending, nulls first.
pub(crate) struct Wanted<'a> {
    pub(crate) range: usize,
    pub(crate) keys: &'a [(usize, bool, bool)],
    /// Whether only the first rows are wanted.
    pub(crate) limited: bool,
}

/// A way to read a table.
pub(crate) struct Path<'e> {
    pub(crate) kind: PathKind<'e>,
    /// The conjuncts that it answers exactly, by place.
    pub(crate) used: Vec<usize>,
    /// The expected number of its rows, before filters.
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    /// The ranges that its keys read.
    pub(crate) reads: Ranges,
    /// Whether its rows are in the wanted order.
    pub(crate) ordered: bool,
}

pub(crate) enum PathKind<'e> {
    Full { reverse: bool },
    Index(IndexPath<'e>),
}

pub(crate) struct IndexPath<'e> {
    index: usize,
    prefix: PrefixPath<'e>,
    fixed: usize,
    lower: Option<(&'e Expr, bool)>,
    upper: Option<(&'e Expr, bool)>,
    reverse: bool,
    point: bool,
}

enum PrefixPath<'e> {
    Product(Vec<TermPath<'e>>),
    Rows(Vec<Vec<&'e Expr>>),
}

enum TermPath<'e> {
    One(&'e Expr),
    List(&'e [Expr]),
    Elements(&'e Expr),
    Query(&'e Query),
}

impl Planner<'_> {
    /// Returns the number of rows that a table is assumed to have.
    pub(crate) fn table_rows(&self, relation: &Relation) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let rows = (self.cx.row_estimate)(relation.family()) as f64;
        rows.max(FEWEST_ROWS)
    }

    /// Finds the cheapest way to read a table of the level.
    pub(crate) fn best_path<'e>(
        &self,
        relation: &Relation,
        range: usize,
        conjuncts: &[Conjunct<'e>],
        bound: Ranges,
        wanted: Option<&Wanted<'_>>,
    ) -> Path<'e> {
        let total = self.table_rows(relation);
        let wanted = wanted.filter(|wanted| wanted.range == range);
        let mut best = Path {
            kind: PathKind::Full { reverse: false },
            used: Vec::new(),
            rows: total,
            cost: total,
            reads: 0,
            ordered: false,
        };
        finish_cost(&mut best, wanted);
        let places = KeyPlaces::new(relation, range);
        let place_of = |expr: &Expr| places.place_of(expr);
        let mut facts = Vec::new();
        if relation.indexes.iter().any(|index| !index.predicate.is_empty()) {
            conjuncts.iter().for_each(|conjunct| analyze::facts(conjunct.expr, relation, range, &mut facts));
        }
        let conditions: Vec<(usize, usize, Condition<'e>)> = conjuncts
            .iter()
            .enumerate()
            .filter(|(_, conjunct)| !conjunct.volatile)
            .filter_map(|(place, conjunct)| {
                condition(conjunct, &place_of, bound).map(|(column, condition)| (place, column, condition))
            })
            .collect();
        let readable = |(_, index): &(usize, &Arc<Index>)| !self.cx.unreadable.contains(&index.cf);
        for (place, index) in relation.indexes.iter().enumerate().filter(readable) {
            // A partial index can be used only if its predicate holds for every row that is wanted.
            if !index.predicate.iter().all(|term| facts.iter().any(|fact| **fact == **term)) {
                continue;
            }
            let partial = !index.predicate.is_empty();
            let rows = if partial { total * PARTIAL_SHARE } else { total };
            let columns = places.of(index);
            let read = Read { place, index, columns: &columns, rows };
            let mut candidates = vec![equality_path(&read, &conditions)];
            for (at, conjunct) in conjuncts.iter().enumerate().filter(|(_, conjunct)| !conjunct.volatile) {
                candidates.extend(rows_path(&read, at, conjunct, &place_of, bound));
            }
            for mut path in candidates {
                order(&mut path, &read, wanted);
                let PathKind::Index(by) = &path.kind else { continue };
                let unbounded = by.fixed == 0 && by.lower.is_none() && by.upper.is_none();
                if unbounded && !path.ordered && !partial {
                    continue;
                }
                if unbounded && index.primary {
                    path.kind = PathKind::Full { reverse: by.reverse };
                }
                path.cost = if index.primary { path.rows } else { path.rows * 2.0 } + 1.0;
                finish_cost(&mut path, wanted);
                if path.cost < best.cost {
                    best = path;
                }
            }
        }
        best
    }

    /// Compiles a path.
    pub(crate) fn access(&mut self, relation: &Relation, path: &PathKind<'_>) -> Result<Access> {
        let by = match path {
            PathKind::Full { reverse } => return Ok(Access::Full { reverse: *reverse }),
            PathKind::Index(by) => by,
        };
        let prefix = match &by.prefix {
            PrefixPath::Product(terms) => {
                let mut compiled = Vec::with_capacity(terms.len());
                for term in terms {
                    compiled.push(match term {
                        TermPath::One(expr) => Term::One(self.compile(expr)?),
                        TermPath::List(list) => Term::List(self.compile_all(*list)?),
                        TermPath::Elements(expr) => Term::Elements(self.compile(expr)?),
                        TermPath::Query(query) => Term::Elements(self.compile_rows(query)?),
                    });
                }
                Prefix::Product(compiled.into())
            }
            PrefixPath::Rows(rows) => {
                Prefix::Rows(rows.iter().map(|row| self.compile_all(row.iter().copied())).collect::<Result<_>>()?)
            }
        };
        let mut limiter = |bound: Option<(&Expr, bool)>| -> Result<Option<Limiter>> {
            bound.map(|(expr, inclusive)| Ok(Limiter { value: self.compile(expr)?, inclusive })).transpose()
        };
        Ok(Access::Index(Box::new(IndexAccess {
            index: by.index,
            keys: relation.indexes[by.index].columns.iter().map(|column| column.key).collect(),
            prefix,
            fixed: by.fixed,
            lower: limiter(by.lower)?,
            upper: limiter(by.upper)?,
            reverse: by.reverse,
            point: by.point,
        })))
    }
}

fn finish_cost(path: &mut Path<'_>, wanted: Option<&Wanted<'_>>) {
    let Some(wanted) = wanted else { return };
    if !path.ordered {
        path.cost += path.rows * 0.5;
    } else if wanted.limited {
        // Reading stops early; how early is unknown at planning.
        path.cost = path.cost * 0.1 + 1.0;
    }
}

/// An index that may be read.
struct Read<'r> {
    /// Its place in `Relation::indexes`.
    place: usize,
    index: &'r Index,
    /// The content of its columns, as [`KeyPlaces`] numbers it.
    columns: &'r [usize],
    /// The assumed number of its rows.
    rows: f64,
}

/// Builds the path of an index from separate conditions on its first columns.
fn equality_path<'e>(read: &Read<'_>, conditions: &[(usize, usize, Condition<'e>)]) -> Path<'e> {
    let &Read { place, index, columns, rows: total } = read;
    let mut terms = Vec::new();
    let mut used = Vec::new();
    let mut reads = 0;
    let mut share = 1.0;
    let mut combinations = 1.0;
    let mut lower = None;
    let mut upper = None;
    for column in columns {
        let mine = || conditions.iter().filter(|(_, at, _)| at == column);
        let equal = mine().find(|(_, _, condition)| matches!(condition, Condition::Equal(_)));
        let many = mine()
            .find(|(_, _, condition)| matches!(condition, Condition::In(_) | Condition::Any(_) | Condition::Query(_)));
        match equal.or(many) {
            Some((conjunct, _, condition)) => {
                let (term, values) = match *condition {
                    Condition::In(list) => {
                        reads |= list.iter().map(ranges_of).fold(0, |all, one| all | one);
                        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
                        let values = list.len() as f64;
                        (TermPath::List(list), values)
                    }
                    Condition::Any(array) => {
                        reads |= ranges_of(array);
                        (TermPath::Elements(array), ARRAY_ELEMENTS)
                    }
                    Condition::Query(query) => (TermPath::Query(query), SUBQUERY_ROWS),
                    Condition::Equal(value) | Condition::Lower(value, _) | Condition::Upper(value, _) => {
                        reads |= ranges_of(value);
                        (TermPath::One(value), 1.0)
                    }
                };
                terms.push(term);
                used.push(*conjunct);
                share *= EQUAL_SHARE;
                combinations *= values;
            }
            None => {
                for (_, _, condition) in mine() {
                    match *condition {
                        Condition::Lower(value, inclusive) if lower.is_none() => {
                            reads |= ranges_of(value);
                            lower = Some((value, inclusive));
                        }
                        Condition::Upper(value, inclusive) if upper.is_none() => {
                            reads |= ranges_of(value);
                            upper = Some((value, inclusive));
                        }
                        _ => {}
                    }
                }
                break;
            }
        }
    }
    share *= match (lower.is_some(), upper.is_some()) {
        (true, true) => RANGE_SHARE,
        (false, false) => 1.0,
        _ => HALF_RANGE_SHARE,
    };
    let fixed = terms.len();
    let point = index.unique && fixed == index.columns.len();
    let rows = if point { combinations } else { (total * share * combinations).clamp(1.0, total) };
    let by = IndexPath { index: place, prefix: PrefixPath::Product(terms), fixed, lower, upper, reverse: false, point };
    Path { kind: PathKind::Index(by), used, rows, cost: rows, reads, ordered: false }
}

/// Builds the path of an index from a list of row values for its first columns.
fn rows_path<'e>(
    read: &Read<'_>,
    at: usize,
    conjunct: &Conjunct<'e>,
    place_of: &dyn Fn(&Expr) -> Option<usize>,
    bound: Ranges,
) -> Option<Path<'e>> {
    let &Read { place, index, rows: total, .. } = read;
    let (columns, rows) = row_list(conjunct, place_of, bound)?;
    let fixed = columns.len();
    let mut order = Vec::with_capacity(fixed);
    for column in read.columns.get(..fixed)? {
        order.push(columns.iter().position(|other| other == column)?);
    }
    let rows: Vec<Vec<&Expr>> = rows.iter().map(|row| order.iter().map(|&at| row[at]).collect()).collect();
    let reads = rows.iter().flatten().map(|expr| ranges_of(expr)).fold(0, |all, one| all | one);
    let point = index.unique && fixed == index.columns.len();
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let count = rows.len() as f64;
    let share = EQUAL_SHARE.powi(i32::try_from(fixed).unwrap_or(i32::MAX));
    let expected = if point { count } else { (total * share * count).clamp(1.0, total) };
    let by = IndexPath {
        index: place,
        prefix: PrefixPath::Rows(rows),
        fixed,
        lower: None,
        upper: None,
        reverse: false,
        point,
    };
    Some(Path { kind: PathKind::Index(by), used: vec![at], rows: expected, cost: expected, reads, ordered: false })
}

/// Determines whether a path gives the wanted order, and its direction.
fn order(path: &mut Path<'_>, read: &Read<'_>, wanted: Option<&Wanted<'_>>) {
    let index = read.index;
    let (Some(wanted), PathKind::Index(by)) = (wanted, &mut path.kind) else { return };
    let PrefixPath::Product(terms) = &by.prefix else { return };
    if !terms.iter().all(|term| matches!(term, TermPath::One(_))) {
        return;
    }
    let (fixed, places) = read.columns.split_at(by.fixed);
    // A column with a single value does not affect the order.
    let keys: Vec<_> = wanted.keys.iter().filter(|(column, _, _)| !fixed.contains(column)).collect();
    let rest = &index.columns[by.fixed..];
    let unique_end = index.unique && rest.iter().all(|column| !column.key.nullable);
    if keys.len() > rest.len() && !unique_end {
        return;
    }
    let matches = |reverse: bool| {
        keys.iter().zip(rest).zip(places).all(|(((column, descending, nulls_first), have), place)| {
            place == column
                && (have.key.desc != reverse) == *descending
                && (!have.key.nullable || (have.key.nulls_first != reverse) == *nulls_first)
        })
    };
    for reverse in [false, true] {
        if matches(reverse) {
            by.reverse = reverse;
            path.ordered = true;
            return;
        }
    }
}
