//! The tables of built-in facts: rows of `crates/sql/builtin/*.tsv`, parsed once, with indexes by OID and name. The
//! files `collie_*.tsv` describe Collie's own objects, the others PostgreSQL's. `implementation` has the
//! implementations.
//!
//! # Invariants
//! - B1. Rows with the same name are adjacent, so that a name leads to a slice.
//! - B2. No reference from one row to another (operator to function, cast to function) is dangling.
//!
//! Checked by `builtin_tests`.

use std::sync::LazyLock;

use collie_base::Map;

use super::implementation::{self, Accumulator, Implementation};

/// A type, as `pg_type` shows it.
#[derive(Clone, Debug)]
pub struct Type {
    /// Its OID.
    pub oid: u32,
    /// Its internal name, such as `int4`.
    pub name: &'static str,
    /// Bytes of a value; -1 if the length varies, -2 for a C string.
    pub len: i16,
    /// Whether PostgreSQL passes it by value.
    pub by_value: bool,
    /// Base, composite or pseudo type.
    pub kind: TypeKind,
    /// Category letter, which overload resolution compares.
    pub category: u8,
    /// Whether overload resolution prefers it within its category.
    pub preferred: bool,
    /// Type of its elements, or 0.
    pub element: u32,
    /// Type of arrays of it, or 0.
    pub array: u32,
    /// Name of its text input function.
    pub input: &'static str,
    /// Name of its text output function.
    pub output: &'static str,
    /// Name of its binary input function, or `-`.
    pub receive: &'static str,
    /// Name of its binary output function, or `-`.
    pub send: &'static str,
    /// Alignment letter: `c`, `s`, `i` or `d`.
    pub align: u8,
    /// Storage letter: `p`, `e`, `m` or `x`.
    pub storage: u8,
    /// OID of its collation, or 0 if it has none.
    pub collation: u32,
    /// Whether Collie can hold values of it. If not, only the name is known, and its use is 0A000.
    pub supported: bool,
}

/// The kind of a type (`pg_type.typtype`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TypeKind {
    /// A base type or array.
    Base,
    /// A pseudo type, which occurs only in signatures.
    Pseudo,
}

impl TypeKind {
    /// Returns the letter of `pg_type.typtype`.
    pub fn letter(self) -> u8 {
        match self {
            Self::Base => b'b',
            Self::Pseudo => b'p',
        }
    }
}

/// A function or aggregate, as `pg_proc` shows it.
#[derive(Clone, Debug)]
pub struct Proc {
    /// Its OID.
    pub oid: u32,
    /// Its name.
    pub name: &'static str,
    /// Function or aggregate.
    pub kind: ProcKind,
    /// Whether it returns many rows.
    pub returns_set: bool,
    /// The inputs that its result may depend on.
    pub volatility: Volatility,
    /// Whether a NULL argument makes the result NULL without a call.
    pub strict: bool,
    /// Type of its result.
    pub result: u32,
    /// Types of its arguments; if `variadic` is not 0, the last one is an array type.
    pub arguments: Box<[u32]>,
    /// Type of each element of the variadic argument, or 0; `"any"` means any number of any types.
    pub variadic: u32,
    /// Number of trailing arguments that may be left out; the implementation then does not get them.
    pub optional: usize,
    /// PostgreSQL's internal name of the implementation, or `name(type, ...)` where it has none.
    pub source: &'static str,
    /// The way it is computed.
    pub implementation: Implementation,
}

/// Function or aggregate (`pg_proc.prokind`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcKind {
    /// An ordinary function.
    Function,
    /// An aggregate.
    Aggregate,
}

/// The inputs that the result of a function may depend on (`pg_proc.provolatile`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Volatility {
    /// Its arguments only.
    Immutable,
    /// Its arguments, and state that does not change within a statement.
    Stable,
    /// Anything.
    Volatile,
}

/// An operator, as `pg_operator` shows it.
#[derive(Clone, Debug)]
pub struct Operator {
    /// Its OID.
    pub oid: u32,
    /// Its name, such as `+`.
    pub name: &'static str,
    /// Type of the left argument, or 0 for a prefix operator.
    pub left: u32,
    /// Type of the right argument.
    pub right: u32,
    /// Type of the result.
    pub result: u32,
    /// The function that computes it.
    pub code: u32,
    /// The operator with its arguments exchanged, or 0.
    pub commutator: u32,
    /// The operator that is true where this one is false, or 0.
    pub negator: u32,
}

/// A cast between two types, as `pg_cast` shows it.
#[derive(Clone, Debug)]
pub struct Cast {
    /// The source type.
    pub source: u32,
    /// The target type.
    pub target: u32,
    /// The function that does the conversion, or 0.
    pub function: u32,
    /// The contexts in which it is allowed.
    pub context: CastContext,
    /// The way it is done.
    pub method: CastMethod,
}

/// The contexts in which a cast is allowed. They are ordered: each one allows all casts that the ones before it allow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CastContext {
    /// Anywhere in an expression.
    Implicit,
    /// Also when a value is stored into a column.
    Assignment,
    /// Only when it is written explicitly.
    Explicit,
}

/// The way a cast is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CastMethod {
    /// By a function.
    Function,
    /// Not at all: the values are the same.
    Binary,
    /// Through the text form.
    InOut,
}

/// An aggregate, as `pg_aggregate` shows it.
#[derive(Clone, Debug)]
pub struct Aggregate {
    /// Its function row.
    pub proc: u32,
    /// `n` for an ordinary aggregate.
    pub kind: u8,
    /// The operator by which min and max can be read from an index, or 0.
    pub sort_operator: u32,
    /// Makes its state.
    pub implementation: implementation::AggregateFn,
}

/// An index operator class, as `pg_opclass` shows it.
#[derive(Clone, Debug)]
pub struct OpClass {
    /// Its OID.
    pub oid: u32,
    /// Its name, such as `int4_ops`.
    pub name: &'static str,
    /// Its family.
    pub family: u32,
    /// The type it indexes.
    pub input: u32,
    /// Whether it is used if no class is named.
    pub default: bool,
}

/// Position of an operator in a btree order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// `<`
    Less,
    /// `<=`
    LessEqual,
    /// `=`
    Equal,
    /// `>=`
    GreaterEqual,
    /// `>`
    Greater,
}

struct Tables {
    types: Vec<Type>,
    type_by_oid: Map<u32, u32>,
    type_by_name: Map<&'static str, u32>,
    procs: Vec<Proc>,
    proc_by_oid: Map<u32, u32>,
    procs_by_name: Map<&'static str, (u32, u32)>,
    operators: Vec<Operator>,
    operator_by_oid: Map<u32, u32>,
    operators_by_name: Map<&'static str, (u32, u32)>,
    casts: Vec<Cast>,
    cast_by_types: Map<(u32, u32), u32>,
    aggregates: Vec<Aggregate>,
    aggregate_by_proc: Map<u32, u32>,
    op_classes: Vec<OpClass>,
    strategy_by_operator: Map<u32, Strategy>,
    operator_by_strategy: Map<(u32, u32, u8), u32>,
}

static TABLES: LazyLock<Tables> = LazyLock::new(Tables::load);

/// The fields of one line of a TSV file. The files are compiled in, so a bad line is a bug of the build.
struct Fields(std::str::Split<'static, char>);

impl Fields {
    fn text(&mut self) -> &'static str {
        self.0.next().expect("a built-in table's line has all its fields")
    }

    fn number<T: std::str::FromStr>(&mut self) -> T {
        self.text().parse().ok().expect("a built-in table's number is one")
    }

    fn flag(&mut self) -> bool {
        self.text() == "t"
    }

    fn letter(&mut self) -> u8 {
        self.text().as_bytes().first().copied().expect("a built-in table's letter is not empty")
    }
}

/// Parses a TSV file, whose first line names the columns.
fn rows<T>(tsv: &'static str, parse: impl Fn(&mut Fields) -> T) -> Vec<T> {
    tsv.lines().skip(1).map(|line| parse(&mut Fields(line.split('\t')))).collect()
}

fn index<T, K: std::hash::Hash + Eq>(rows: &[T], key: impl Fn(&T) -> K) -> Map<K, u32> {
    (0u32..).zip(rows).map(|(i, row)| (key(row), i)).collect()
}

/// Finds the range of rows of each name. Needs B1.
fn ranges<T>(rows: &[T], name: impl Fn(&T) -> &'static str) -> Map<&'static str, (u32, u32)> {
    let mut ranges: Map<&'static str, (u32, u32)> = Map::default();
    for (i, row) in (0u32..).zip(rows) {
        let range = ranges.entry(name(row)).or_insert((i, i));
        assert_eq!(range.1, i, "rows of {} are not adjacent (B1)", name(row));
        range.1 = i + 1;
    }
    ranges
}

impl Tables {
    fn load() -> Self {
        let types = rows(include_str!("../../builtin/type.tsv"), |f| Type {
            oid: f.number(),
            name: f.text(),
            len: f.number(),
            by_value: f.flag(),
            kind: if f.letter() == b'p' { TypeKind::Pseudo } else { TypeKind::Base },
            category: f.letter(),
            preferred: f.flag(),
            element: f.number(),
            array: f.number(),
            input: f.text(),
            output: f.text(),
            receive: f.text(),
            send: f.text(),
            align: f.letter(),
            storage: f.letter(),
            collation: f.number(),
            supported: f.flag(),
        });
        let implementations = implementation::by_name();
        let optional: Map<u32, usize> =
            rows(include_str!("../../builtin/proc_optional.tsv"), |f| (f.number(), f.number())).into_iter().collect();
        let proc = |f: &mut Fields| {
            let mut proc = Proc {
                oid: f.number(),
                name: f.text(),
                kind: if f.letter() == b'a' { ProcKind::Aggregate } else { ProcKind::Function },
                returns_set: f.flag(),
                volatility: match f.letter() {
                    b'i' => Volatility::Immutable,
                    b's' => Volatility::Stable,
                    _ => Volatility::Volatile,
                },
                strict: f.flag(),
                result: f.number(),
                arguments: oids(f.text()),
                variadic: f.number(),
                optional: 0,
                source: f.text(),
                implementation: Implementation::System(""),
            };
            proc.optional = optional.get(&proc.oid).copied().unwrap_or(0);
            proc.implementation =
                *implementations.get(proc.source).expect("every row of proc.tsv has an implementation (I1)");
            proc
        };
        let mut procs = rows(include_str!("../../builtin/proc.tsv"), proc);
        procs.extend(rows(include_str!("../../builtin/collie_proc.tsv"), proc)); // names of our own: B1
        let operators = rows(include_str!("../../builtin/operator.tsv"), |f| Operator {
            oid: f.number(),
            name: f.text(),
            left: f.number(),
            right: f.number(),
            result: f.number(),
            code: f.number(),
            commutator: f.number(),
            negator: f.number(),
        });
        let casts = rows(include_str!("../../builtin/cast.tsv"), |f| Cast {
            source: f.number(),
            target: f.number(),
            function: f.number(),
            context: match f.letter() {
                b'i' => CastContext::Implicit,
                b'a' => CastContext::Assignment,
                _ => CastContext::Explicit,
            },
            method: match f.letter() {
                b'f' => CastMethod::Function,
                b'b' => CastMethod::Binary,
                _ => CastMethod::InOut,
            },
        });
        let proc_by_oid = index(&procs, |p: &Proc| p.oid);
        let aggregates = rows(include_str!("../../builtin/aggregate.tsv"), |f| {
            let proc: u32 = f.number();
            let position = *proc_by_oid.get(&proc).expect("an aggregate has its function row (B2)");
            let Implementation::Aggregate(implementation) = procs[position as usize].implementation else {
                panic!("function {proc} is listed as an aggregate and is none (B2)");
            };
            Aggregate { proc, kind: f.letter(), sort_operator: f.number(), implementation }
        });
        let op_classes = rows(include_str!("../../builtin/opclass.tsv"), |f| OpClass {
            oid: f.number(),
            name: f.text(),
            family: f.number(),
            input: f.number(),
            default: f.flag(),
        });
        let mut strategy_by_operator = Map::default();
        let mut operator_by_strategy = Map::default();
        for (left, right, number, operator) in rows(include_str!("../../builtin/amop.tsv"), |f| {
            (f.number::<u32>(), f.number::<u32>(), f.number::<u8>(), f.number::<u32>())
        }) {
            strategy_by_operator.insert(operator, Strategy::from_number(number));
            operator_by_strategy.insert((left, right, number), operator);
        }
        Self {
            type_by_oid: index(&types, |t: &Type| t.oid),
            type_by_name: index(&types, |t: &Type| t.name),
            types,
            proc_by_oid,
            procs_by_name: ranges(&procs, |p: &Proc| p.name),
            procs,
            operator_by_oid: index(&operators, |o: &Operator| o.oid),
            operators_by_name: ranges(&operators, |o: &Operator| o.name),
            operators,
            cast_by_types: index(&casts, |c: &Cast| (c.source, c.target)),
            casts,
            aggregate_by_proc: index(&aggregates, |a: &Aggregate| a.proc),
            aggregates,
            op_classes,
            strategy_by_operator,
            operator_by_strategy,
        }
    }
}

fn oids(text: &str) -> Box<[u32]> {
    text.split_ascii_whitespace().map(|oid| oid.parse().expect("a built-in table's OID is a number")).collect()
}

impl Strategy {
    /// Returns the strategy with this PostgreSQL number.
    fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Less,
            2 => Self::LessEqual,
            3 => Self::Equal,
            4 => Self::GreaterEqual,
            _ => Self::Greater,
        }
    }

    /// Returns PostgreSQL's number of the strategy (`pg_amop.amopstrategy`).
    pub fn number(self) -> u8 {
        match self {
            Self::Less => 1,
            Self::LessEqual => 2,
            Self::Equal => 3,
            Self::GreaterEqual => 4,
            Self::Greater => 5,
        }
    }

    /// Returns the strategy with left and right exchanged.
    #[must_use]
    pub fn commuted(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Equal => Self::Equal,
            Self::GreaterEqual => Self::LessEqual,
            Self::Greater => Self::Less,
        }
    }
}

impl Volatility {
    /// Returns the letter of `pg_proc.provolatile`.
    pub fn letter(self) -> u8 {
        match self {
            Self::Immutable => b'i',
            Self::Stable => b's',
            Self::Volatile => b'v',
        }
    }
}

impl ProcKind {
    /// Returns the letter of `pg_proc.prokind`.
    pub fn letter(self) -> u8 {
        match self {
            Self::Function => b'f',
            Self::Aggregate => b'a',
        }
    }
}

impl CastContext {
    /// Returns the letter of `pg_cast.castcontext`.
    pub fn letter(self) -> u8 {
        match self {
            Self::Implicit => b'i',
            Self::Assignment => b'a',
            Self::Explicit => b'e',
        }
    }
}

fn slice<T>(rows: &'static [T], range: Option<&(u32, u32)>) -> &'static [T] {
    range.map_or(&[], |&(from, to)| &rows[from as usize..to as usize])
}

fn row<T>(rows: &'static [T], position: Option<&u32>) -> Option<&'static T> {
    position.map(|&i| &rows[i as usize])
}

/// Returns every known type, supported or not.
pub fn types() -> &'static [Type] {
    &TABLES.types
}

/// Returns the type with this OID.
pub fn type_by_oid(oid: u32) -> Option<&'static Type> {
    row(&TABLES.types, TABLES.type_by_oid.get(&oid))
}

/// Returns the type with this internal name (`int4`, not `integer`).
pub fn type_by_name(name: &str) -> Option<&'static Type> {
    row(&TABLES.types, TABLES.type_by_name.get(name))
}

/// Returns every function and aggregate.
pub fn procs() -> &'static [Proc] {
    &TABLES.procs
}

/// Returns the overloads of a function or aggregate name; none if there is no such name.
pub fn procs_named(name: &str) -> &'static [Proc] {
    slice(&TABLES.procs, TABLES.procs_by_name.get(name))
}

/// Returns the function or aggregate with this OID.
pub fn proc_by_oid(oid: u32) -> Option<&'static Proc> {
    row(&TABLES.procs, TABLES.proc_by_oid.get(&oid))
}

/// Returns every operator.
pub fn operators() -> &'static [Operator] {
    &TABLES.operators
}

/// Returns the overloads of an operator name; none if there is no such name.
pub fn operators_named(name: &str) -> &'static [Operator] {
    slice(&TABLES.operators, TABLES.operators_by_name.get(name))
}

/// Returns the operator with this OID.
pub fn operator_by_oid(oid: u32) -> Option<&'static Operator> {
    row(&TABLES.operators, TABLES.operator_by_oid.get(&oid))
}

/// Returns every cast.
pub fn casts() -> &'static [Cast] {
    &TABLES.casts
}

/// Returns the cast between two types, if PostgreSQL lists one. See [`conversion`](super::conversion) for the
/// conversions that PostgreSQL does not list: through text, of arrays, and of a type to itself.
pub fn cast(source: u32, target: u32) -> Option<&'static Cast> {
    row(&TABLES.casts, TABLES.cast_by_types.get(&(source, target)))
}

/// Returns the aggregate whose function row has this OID.
pub fn aggregate(proc_oid: u32) -> Option<&'static Aggregate> {
    row(&TABLES.aggregates, TABLES.aggregate_by_proc.get(&proc_oid))
}

/// Makes the state of `aggregate` for one group of rows. `arguments` are the types of its arguments.
pub fn accumulator(aggregate: &Aggregate, arguments: &[u32]) -> Box<dyn Accumulator + Send> {
    (aggregate.implementation)(arguments)
}

/// Returns every btree operator class.
pub fn op_classes() -> &'static [OpClass] {
    &TABLES.op_classes
}

/// Returns the default btree operator class of a type: its own, or that of the type to which it is binary-coercible
/// (`varchar` has that of `text`, arrays have that of `anyarray`).
pub fn op_class_for(type_oid: u32) -> Option<&'static OpClass> {
    use crate::types::oid;
    let of = |input: u32| TABLES.op_classes.iter().find(|class| class.default && class.input == input);
    of(type_oid).or_else(|| match type_oid {
        oid::VARCHAR => of(oid::TEXT),
        oid::REGCLASS | oid::REGTYPE | oid::REGPROC | oid::REGNAMESPACE | oid::REGROLE => of(oid::OID),
        other => type_by_oid(other).filter(|t| t.category == b'A' && t.element != 0).and_then(|_| of(oid::ANYARRAY)),
    })
}

/// Returns the btree operator classes with this name, such as `varchar_pattern_ops`.
pub fn op_class_by_name(name: &str) -> impl Iterator<Item = &'static OpClass> {
    TABLES.op_classes.iter().filter(move |class| class.name == name)
}

/// Returns the position of an operator in its type's default btree order, or `None` if it has none.
pub fn btree_strategy(operator_oid: u32) -> Option<Strategy> {
    TABLES.strategy_by_operator.get(&operator_oid).copied()
}

/// Returns the operator at this position in the default btree order of the two types.
pub fn btree_operator(left: u32, right: u32, strategy: Strategy) -> Option<&'static Operator> {
    operator_by_oid(*TABLES.operator_by_strategy.get(&(left, right, strategy.number()))?)
}
