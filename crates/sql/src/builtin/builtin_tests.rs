//! Tests of the built-in functions. `expected.tsv` holds calls and PostgreSQL 15's answers to them (see `expect.py`);
//! the tables are checked against the implementations and against themselves.

use collie_base::Set;

use super::implementation::registered;
use super::*;
use crate::error::{Result, SqlError};
use crate::types::datetime::Zone;
use crate::types::io::{TextContext, text_in, text_out};
use crate::types::{SqlType, Value, oid, typmod};

/// A session that knows no catalog.
struct NoSystem;

impl SystemFunctions for NoSystem {
    fn call(&self, source: &str, args: &[Value]) -> Result<Value> {
        match (source, args) {
            ("regclassout", [Value::Oid(o)]) => Ok(Value::text(&format!("class{o}"))),
            ("regclassin", [Value::Text(t)]) => Ok(Value::Oid(u32::try_from(t.len()).unwrap())),
            _ => Err(SqlError::unsupported(source)),
        }
    }

    fn call_set(&self, source: &str, _: &[Value]) -> Result<Rows> {
        Err(SqlError::unsupported(source))
    }
}

fn with_context<T>(timezone_offset: i32, run: impl FnOnce(&EvalContext<'_>) -> T) -> T {
    let text = TextContext { zone: Zone { east_s: timezone_offset, ..Zone::default() }, ..TextContext::default() };
    run(&EvalContext {
        text: &text,
        transaction_time: 1,
        statement_time: 2,
        clock_time: &|| 3,
        system: &NoSystem,
        value_bytes_max: usize::MAX,
    })
}

/// One line of `expected.tsv`, split.
struct Case {
    line: &'static str,
    call: &'static str,
    args: Vec<String>,
    expected: String,
}

/// Replaces `\u` and four hexadecimal digits by their character.
fn decoded(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let code = u32::from_str_radix(&part[..4], 16).unwrap();
        out.push(char::from_u32(code).unwrap());
        out.push_str(&part[4..]);
    }
    out
}

fn cases() -> Vec<Case> {
    let lines = include_str!("../../builtin/expected.tsv").lines().filter(|line| !line.starts_with('#'));
    let split = |line: &'static str| {
        let mut fields: Vec<&str> = line.split('\t').collect();
        let expected = decoded(fields.pop().unwrap());
        Case { line, call: fields[0], args: fields[1..].iter().map(|field| decoded(field)).collect(), expected }
    };
    lines.map(split).collect()
}

fn named_type(name: &str) -> SqlType {
    let (name, modifiers) = name.split_once('(').unwrap_or((name, ""));
    let oid = type_by_name(name).unwrap_or_else(|| panic!("type {name} is known")).oid;
    if modifiers.is_empty() {
        return SqlType::new(oid);
    }
    let modifiers: Vec<i64> = modifiers.trim_end_matches(')').split(',').map(|m| m.parse().unwrap()).collect();
    SqlType::with_typmod(oid, typmod::encode(oid, &modifiers).unwrap())
}

fn read(text: &str, sql_type: SqlType, context: &EvalContext<'_>) -> Result<Value> {
    if text == "\\N" { Ok(Value::Null) } else { text_in(sql_type.oid, sql_type.typmod, text, context.text) }
}

fn printed(value: &Value, type_oid: u32, context: &EvalContext<'_>) -> String {
    if value.is_null() {
        return "\\N".to_owned();
    }
    let mut bytes = Vec::new();
    text_out(value, type_oid, context.text, &mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// Splits `name(type, type)`.
fn signature(call: &str) -> (&str, Vec<SqlType>) {
    let open = call[1..].find('(').unwrap() + 1;
    let types = call[open + 1..].trim_end_matches(')');
    (&call[..open], types.split(", ").filter(|t| !t.is_empty()).map(named_type).collect())
}

/// Decides overloads in a simple way: exact types first, then polymorphic ones.
fn accepts(declared: u32, given: u32) -> bool {
    let is_array = type_by_oid(given).unwrap().category == b'A';
    match declared {
        oid::ANY | oid::ANYELEMENT => true,
        oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => is_array,
        oid::ANYNONARRAY | oid::ANYCOMPATIBLE => !is_array,
        other => other == given,
    }
}

fn resolve(name: &str, types: &[SqlType]) -> &'static Proc {
    let overloads = procs_named(name);
    let given: Vec<u32> = types.iter().map(|t| t.oid).collect();
    let fits = |proc: &&Proc| {
        let fixed = proc.arguments.len() - usize::from(proc.variadic != 0);
        let counted = match proc.variadic {
            0 => (fixed - proc.optional..=fixed).contains(&given.len()),
            _ => given.len() > fixed,
        };
        counted && proc.arguments[..fixed].iter().zip(&given).all(|(&declared, &given)| accepts(declared, given))
    };
    overloads
        .iter()
        .find(|proc| *proc.arguments == *given)
        .or_else(|| overloads.iter().find(fits))
        .unwrap_or_else(|| panic!("no function {name} takes {given:?}"))
}

/// Returns the type of a result; the arguments decide polymorphic types.
fn result_type(declared: u32, types: &[SqlType]) -> u32 {
    let array = types.iter().map(|t| t.oid).find(|&t| type_by_oid(t).unwrap().category == b'A');
    match declared {
        oid::ANYELEMENT => array.map_or(types[0].oid, |a| oid::element_of(a).unwrap()),
        oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => array.unwrap_or_else(|| oid::array_of(types[0].oid).unwrap()),
        other => other,
    }
}

fn call_proc(proc: &Proc, args: &[Value], types: &[SqlType], context: &EvalContext<'_>) -> Result<String> {
    let result = result_type(proc.result, types);
    let oids: Vec<u32> = types.iter().map(|t| t.oid).collect();
    if proc.strict && args.iter().any(Value::is_null) {
        return Ok(if proc.returns_set { String::new() } else { "\\N".to_owned() });
    }
    let value = match proc.implementation {
        Implementation::Scalar(function) => function(args, context)?,
        Implementation::Typed(function) => function(args, &oids, context)?,
        Implementation::Set(function) => {
            let rows = function(args, context)?.map(|row| row.map(|row| printed(&row, result, context)));
            return rows.collect::<Result<Vec<String>>>().map(|rows| rows.join(","));
        }
        other => panic!("{} is {other:?}", proc.name),
    };
    Ok(printed(&value, result, context))
}

fn evaluate(case: &Case, context: &EvalContext<'_>) -> Result<String> {
    if let Some(types) = case.call.strip_prefix("cast ") {
        let (source, target) = types.split_once(' ').unwrap();
        let (source, target) = (named_type(source), named_type(target));
        let value = read(&case.args[0], source, context)?;
        return cast_value(value, source.oid, target, true, context).map(|v| printed(&v, target.oid, context));
    }
    if let Some(call) = case.call.strip_prefix("agg ") {
        let (name, types) = signature(call);
        let proc = resolve(name, &types);
        let oids: Vec<u32> = types.iter().map(|t| t.oid).collect();
        let mut state = accumulator(aggregate(proc.oid).unwrap(), &oids);
        for row in &case.args {
            let fields = row.split('|').zip(&types).map(|(field, t)| read(field, *t, context));
            state.add(&fields.collect::<Result<Vec<Value>>>()?)?;
        }
        return state.finish().map(|v| printed(&v, result_type(proc.result, &types), context));
    }
    let (name, types, proc) = match case.call.strip_prefix("op ") {
        None => {
            let (name, types) = signature(case.call);
            (name, types.clone(), resolve(name, &types))
        }
        Some(call) => {
            let (name, types) = signature(call);
            let given = |i: usize| types[i].oid;
            let (left, right) = if types.len() == 1 { (0, given(0)) } else { (given(0), given(1)) };
            let fits = |o: &&Operator| {
                (o.left == left || o.left != 0 && left != 0 && accepts(o.left, left)) && accepts(o.right, right)
            };
            let exact = operators_named(name).iter().find(|o| o.left == left && o.right == right);
            let operator = exact.or_else(|| operators_named(name).iter().find(fits));
            let operator = operator.unwrap_or_else(|| panic!("no operator {name} takes {types:?}"));
            (name, types.clone(), proc_by_oid(operator.code).unwrap())
        }
    };
    let _ = name;
    let args = case.args.iter().zip(&types).map(|(arg, t)| read(arg, *t, context)).collect::<Result<Vec<Value>>>()?;
    call_proc(proc, &args, &types, context)
}

/// Goal: built-in functions, operators, casts and aggregates give the same values and errors as PostgreSQL 15. Method:
/// every line of `expected.tsv`.
#[test]
fn every_call_answers_as_postgresql_does() {
    let mut wrong = Vec::new();
    with_context(0, |context| {
        for case in cases() {
            let answer = match evaluate(&case, context) {
                Ok(text) => format!("={text}"),
                Err(error) => format!("!{} {}", error.state().as_str(), error.report().message),
            };
            if answer != case.expected {
                wrong.push(format!("{}\n    here: {answer}", case.line));
            }
        }
    });
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Goal: I1. Method: both directions between `proc.tsv` and the registry.
#[test]
fn every_row_is_implemented_and_every_implementation_has_a_row() {
    let sources: Set<&str> = procs().iter().map(|proc| proc.source).collect();
    let mut seen = Set::default();
    for (name, _) in registered() {
        assert!(sources.contains(name), "{name} is implemented and no row of proc.tsv names it: run generate.py");
        assert!(seen.insert(name), "{name} is registered twice");
    }
    for proc in procs() {
        assert_eq!(
            proc.returns_set,
            matches!(proc.implementation, Implementation::Set(_) | Implementation::SystemSet(_))
        );
        let aggregate_row = matches!(proc.implementation, Implementation::Aggregate(_));
        assert_eq!(proc.kind == ProcKind::Aggregate, aggregate_row, "{}", proc.name);
        assert_eq!(aggregate(proc.oid).is_some(), aggregate_row, "{}", proc.name);
    }
}

/// Goal: B2. Method: follow every reference.
#[test]
fn no_row_refers_to_one_that_is_missing() {
    for operator in operators() {
        let code = proc_by_oid(operator.code).unwrap_or_else(|| panic!("{} has its function", operator.name));
        assert_eq!(code.result, operator.result, "{}", operator.name);
        assert_eq!(code.arguments.len(), if operator.left == 0 { 1 } else { 2 });
        for other in [operator.commutator, operator.negator] {
            assert!(other == 0 || operator_by_oid(other).is_some(), "{} refers to {other}", operator.name);
        }
    }
    for cast in casts() {
        assert_eq!(cast.method == CastMethod::Function, cast.function != 0);
        assert!(cast.function == 0 || proc_by_oid(cast.function).is_some());
        assert!(type_by_oid(cast.source).unwrap().supported && type_by_oid(cast.target).unwrap().supported);
    }
    for t in types() {
        assert!(t.array == 0 || type_by_oid(t.array).is_none_or(|array| array.element == t.oid), "{}", t.name);
    }
}

/// Goal: C1 and the order of types agree. Method: each default class has all five operators, which agree about values.
#[test]
fn every_default_operator_class_has_its_five_operators() {
    use Strategy::{Equal, Greater, GreaterEqual, Less, LessEqual};
    for class in op_classes().iter().filter(|class| class.default) {
        for strategy in [Less, LessEqual, Equal, GreaterEqual, Greater] {
            let operator = btree_operator(class.input, class.input, strategy)
                .unwrap_or_else(|| panic!("{} lacks {strategy:?}", class.name));
            assert_eq!(btree_strategy(operator.oid), Some(strategy));
        }
    }
    assert_eq!(op_class_for(oid::VARCHAR).unwrap().name, "text_ops");
    assert_eq!(op_class_for(oid::INT4_ARRAY).unwrap().name, "array_ops");
    assert_eq!(op_class_for(oid::REGCLASS).unwrap().name, "oid_ops");
    assert!(op_class_by_name("varchar_pattern_ops").next().is_some());
}

/// Goal: casts happen only where PostgreSQL allows them. Method: one pair per rule.
#[test]
fn conversions_apply_where_postgresql_allows_them() {
    use CastContext::{Assignment, Explicit, Implicit};
    let least = |source, target| {
        [Implicit, Assignment, Explicit].into_iter().find(|&place| conversion(source, target, place).is_some())
    };
    for (source, target, expected) in [
        (oid::INT4, oid::INT8, Some(Implicit)),
        (oid::INT8, oid::INT4, Some(Assignment)),
        (oid::INT4, oid::NUMERIC, Some(Implicit)),
        (oid::NUMERIC, oid::INT4, Some(Assignment)),
        (oid::INT4, oid::BOOL, Some(Explicit)),
        (oid::INT4, oid::TEXT, Some(Assignment)),
        (oid::TEXT, oid::INT4, Some(Explicit)),
        (oid::VARCHAR, oid::TEXT, Some(Implicit)),
        (oid::DATE, oid::TIMESTAMP, Some(Implicit)),
        (oid::TIMESTAMP, oid::DATE, Some(Assignment)),
        (oid::TEXT, oid::REGCLASS, Some(Implicit)),
        (oid::TEXT, oid::REGTYPE, Some(Explicit)),
        (oid::OID, oid::REGCLASS, Some(Implicit)),
        (oid::VARCHAR_ARRAY, oid::TEXT_ARRAY, Some(Implicit)),
        (oid::INT8_ARRAY, oid::INT4_ARRAY, Some(Assignment)),
        (oid::DATE, oid::INT4, None),
        (oid::BOOL, oid::INT8, None),
    ] {
        assert_eq!(least(source, target), expected, "{source} to {target}");
    }
}

/// Goal: K1, and types whose text needs the catalog go through the session. Method: casts around oid and regclass.
#[test]
fn oid_and_regclass_convert_through_the_session_and_change_variant() {
    with_context(0, |context| {
        let cast = |value, source, target| cast_value(value, source, SqlType::new(target), true, context).unwrap();
        assert_eq!(cast(Value::Int4(-1), oid::INT4, oid::OID), Value::Oid(u32::MAX));
        assert_eq!(cast(Value::Oid(u32::MAX), oid::OID, oid::INT4), Value::Int4(-1));
        assert_eq!(cast(Value::Int2(5), oid::INT2, oid::OID), Value::Oid(5));
        assert_eq!(cast(Value::Oid(7), oid::REGCLASS, oid::TEXT), Value::text("class7"));
        assert_eq!(cast(Value::text("abc"), oid::UNKNOWN, oid::REGCLASS), Value::Oid(3));
        assert_eq!(cast(Value::Int4(7), oid::INT4, oid::REGCLASS), Value::Oid(7));
    });
}

/// Goal: the session's zone shifts exactly what depends on it. Method: PostgreSQL's answers at UTC+2.
#[test]
fn the_time_zone_of_the_session_moves_timestamps_with_time_zone() {
    with_context(7200, |context| {
        let run = |name: &str, types: &[u32], texts: &[&str]| {
            let types: Vec<SqlType> = types.iter().map(|&oid| SqlType::new(oid)).collect();
            let args: Vec<Value> = types.iter().zip(texts).map(|(t, text)| read(text, *t, context).unwrap()).collect();
            call_proc(resolve(name, &types), &args, &types, context).unwrap()
        };
        let (text, tz, local, date) = (oid::TEXT, oid::TIMESTAMPTZ, oid::TIMESTAMP, oid::DATE);
        assert_eq!(run("date_trunc", &[text, tz], &["day", "2024-01-01 23:00+00"]), "2024-01-02 00:00:00+02");
        assert_eq!(run("date", &[tz], &["2024-01-01 23:00+00"]), "2024-01-02");
        assert_eq!(run("timestamptz", &[date], &["2024-01-02"]), "2024-01-02 00:00:00+02");
        assert_eq!(run("timestamptz", &[local], &["2024-01-02 01:00"]), "2024-01-02 01:00:00+02");
        assert_eq!(run("extract", &[text, tz], &["hour", "2024-01-01 23:00+00"]), "1");
        assert_eq!(run("extract", &[text, tz], &["timezone", "2024-01-01 23:00+00"]), "7200");
        assert_eq!(run("timestamp_lt_timestamptz", &[local, tz], &["2024-01-02 01:00", "2024-01-01 23:30+00"]), "t");
        assert_eq!(run("to_char", &[tz, text], &["2024-01-01 23:00+00", "HH24 OF"]), "01 +02");
    });
}

/// Goal: the time to read a number template grows with its length, not with its square (T289). Method: a template of
/// two million places, which took hours before.
#[test]
fn long_template_of_a_number_is_read_once() {
    with_context(0, |context| {
        let types = [oid::INT4, oid::TEXT].map(SqlType::new);
        let args = [Value::Int4(7), Value::text(&"9".repeat(2_000_000))];
        let shown = call_proc(resolve("to_char", &types), &args, &types, context).unwrap();
        assert_eq!(shown.len(), 2_000_001);
        assert_eq!(shown.trim_start(), "7");
    });
}

/// Goal: the three clocks are those of the context. Method: a context with three different times.
#[test]
fn now_is_the_start_of_the_transaction_and_the_clock_runs_on() {
    with_context(0, |context| {
        for (name, expected) in
            [("now", 1), ("transaction_timestamp", 1), ("statement_timestamp", 2), ("clock_timestamp", 3)]
        {
            let Implementation::Scalar(function) = resolve(name, &[]).implementation else {
                panic!("{name} is scalar")
            };
            assert_eq!(function(&[], context).unwrap(), Value::TimestampTz(expected));
        }
    });
}

/// Goal: a series of any length costs nothing until it is read. Method: the first rows of a series over all of int8.
#[test]
fn generate_series_makes_rows_as_they_are_asked_for() {
    with_context(0, |context| {
        let proc = resolve("generate_series", &[SqlType::INT8, SqlType::INT8]);
        let Implementation::Set(function) = proc.implementation else { panic!("a set") };
        let rows = function(&[Value::Int8(i64::MIN), Value::Int8(i64::MAX)], context).unwrap();
        let first: Vec<Value> = rows.take(2).collect::<Result<_>>().unwrap();
        assert_eq!(first, [Value::Int8(i64::MIN), Value::Int8(i64::MIN + 1)]);
    });
}
