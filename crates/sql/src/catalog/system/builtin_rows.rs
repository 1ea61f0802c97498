//! Rows of the relations that describe built-in objects: types, functions, operators, casts, access methods.
//!
//! They show only what Collie has: a function that is not implemented has no row. The input and output functions of
//! types have rows only where SQL can call them, so such references may be 0.
//!
//! Checked by `system_tests`.

use super::{
    output::{Output, small, vector},
    relation_rows::{BTREE, DEFAULT_COLLATION, HEAP},
    role,
};
use crate::{
    builtin::{self, Aggregate, Cast, CastMethod, OpClass, Operator, Proc, ProcKind, Type, Volatility},
    catalog::{relation::Oid, snapshot::PG_CATALOG},
    types::{Value, oid},
};

/// OID of the language of built-in functions.
const INTERNAL: Oid = 12;
/// OID of the first cast; PostgreSQL renumbers casts in each release.
const FIRST_CAST: Oid = 10_000;

/// Adds the rows if the relation is one of these.
pub(super) fn fill(out: &mut Output<'_>) -> bool {
    if out.schema() != PG_CATALOG {
        return false;
    }
    match out.name() {
        "pg_type" => match (out.wanted_oid("oid"), out.wanted_text("typname")) {
            (Some(oid), _) => builtin::type_by_oid(oid).into_iter().for_each(|ty| type_row(out, ty)),
            (_, Some(name)) => builtin::type_by_name(name).into_iter().for_each(|ty| type_row(out, ty)),
            _ => builtin::types().iter().for_each(|ty| type_row(out, ty)),
        },
        "pg_proc" => match (out.wanted_oid("oid"), out.wanted_text("proname")) {
            (Some(oid), _) => builtin::proc_by_oid(oid).into_iter().for_each(|proc| proc_row(out, proc)),
            (_, Some(name)) => builtin::procs_named(name).iter().for_each(|proc| proc_row(out, proc)),
            _ => builtin::procs().iter().for_each(|proc| proc_row(out, proc)),
        },
        "pg_operator" => match (out.wanted_oid("oid"), out.wanted_text("oprname")) {
            (Some(oid), _) => {
                builtin::operator_by_oid(oid).into_iter().for_each(|operator| operator_row(out, operator))
            }
            (_, Some(name)) => builtin::operators_named(name).iter().for_each(|operator| operator_row(out, operator)),
            _ => builtin::operators().iter().for_each(|operator| operator_row(out, operator)),
        },
        "pg_aggregate" => {
            let known = builtin::procs().iter().filter_map(|proc| builtin::aggregate(proc.oid));
            known.for_each(|aggregate| aggregate_row(out, aggregate));
        }
        "pg_cast" => (FIRST_CAST..).zip(builtin::casts()).for_each(|(oid, cast)| cast_row(out, oid, cast)),
        "pg_opclass" => builtin::op_classes().iter().for_each(|class| op_class_row(out, class)),
        "pg_am" => {
            for (oid, name, kind) in [(HEAP, "heap", b't'), (BTREE, "btree", b'i')] {
                out.push([("oid", Value::Oid(oid)), ("amname", Value::text(name)), ("amtype", Value::Char(kind))]);
            }
        }
        "pg_collation" => collations(out),
        "pg_language" => {
            for (oid, name, trusted) in [(INTERNAL, "internal", false), (13, "c", false), (14, "sql", true)] {
                out.push([
                    ("oid", Value::Oid(oid)),
                    ("lanname", Value::text(name)),
                    ("lanowner", Value::Oid(role::OWNER)),
                    ("lanpltrusted", Value::Bool(trusted)),
                ]);
            }
        }
        _ => return false,
    }
    true
}

/// Returns the OID of the only function with this name, or 0.
fn function(name: &str) -> Value {
    Value::Oid(match builtin::procs_named(name) {
        [proc] => proc.oid,
        _ => 0,
    })
}

fn type_row(out: &mut Output<'_>, ty: &Type) {
    let array = ty.category == b'A';
    out.push([
        ("oid", Value::Oid(ty.oid)),
        ("typname", Value::text(ty.name)),
        ("typnamespace", Value::Oid(PG_CATALOG)),
        ("typowner", Value::Oid(role::OWNER)),
        ("typlen", Value::Int2(ty.len)),
        ("typbyval", Value::Bool(ty.by_value)),
        ("typtype", Value::Char(ty.kind.letter())),
        ("typcategory", Value::Char(ty.category)),
        ("typispreferred", Value::Bool(ty.preferred)),
        ("typisdefined", Value::Bool(true)),
        ("typdelim", Value::Char(b',')),
        ("typsubscript", if array { function("array_subscript_handler") } else { Value::Oid(0) }),
        ("typelem", Value::Oid(ty.element)),
        ("typarray", Value::Oid(ty.array)),
        ("typinput", function(ty.input)),
        ("typoutput", function(ty.output)),
        ("typreceive", function(ty.receive)),
        ("typsend", function(ty.send)),
        ("typalign", Value::Char(ty.align)),
        ("typstorage", Value::Char(ty.storage)),
        ("typtypmod", Value::Int4(-1)),
        ("typcollation", Value::Oid(ty.collation)),
    ]);
}

fn proc_row(out: &mut Output<'_>, proc: &Proc) {
    let volatility = match proc.volatility {
        Volatility::Immutable => b'i',
        Volatility::Stable => b's',
        Volatility::Volatile => b'v',
    };
    let source = if proc.kind == ProcKind::Aggregate { "aggregate_dummy" } else { proc.source };
    out.push([
        ("oid", Value::Oid(proc.oid)),
        ("proname", Value::text(proc.name)),
        ("pronamespace", Value::Oid(PG_CATALOG)),
        ("proowner", Value::Oid(role::OWNER)),
        ("prolang", Value::Oid(INTERNAL)),
        ("procost", Value::Float4(1.0)),
        ("prorows", Value::Float4(if proc.returns_set { 1000.0 } else { 0.0 })),
        ("provariadic", Value::Oid(proc.variadic)),
        ("prokind", Value::Char(proc.kind.letter())),
        ("proisstrict", Value::Bool(proc.strict)),
        ("proretset", Value::Bool(proc.returns_set)),
        ("provolatile", Value::Char(volatility)),
        ("proparallel", Value::Char(b's')),
        ("pronargs", small(proc.arguments.len())),
        ("prorettype", Value::Oid(proc.result)),
        ("proargtypes", vector(oid::OID, proc.arguments.iter().map(|&ty| Value::Oid(ty)).collect())),
        ("prosrc", Value::text(source)),
    ]);
}

fn operator_row(out: &mut Output<'_>, operator: &Operator) {
    out.push([
        ("oid", Value::Oid(operator.oid)),
        ("oprname", Value::text(operator.name)),
        ("oprnamespace", Value::Oid(PG_CATALOG)),
        ("oprowner", Value::Oid(role::OWNER)),
        ("oprkind", Value::Char(if operator.left == 0 { b'l' } else { b'b' })),
        ("oprleft", Value::Oid(operator.left)),
        ("oprright", Value::Oid(operator.right)),
        ("oprresult", Value::Oid(operator.result)),
        ("oprcom", Value::Oid(operator.commutator)),
        ("oprnegate", Value::Oid(operator.negator)),
        ("oprcode", Value::Oid(operator.code)),
    ]);
}

fn aggregate_row(out: &mut Output<'_>, aggregate: &Aggregate) {
    out.push([
        ("aggfnoid", Value::Oid(aggregate.proc)),
        ("aggkind", Value::Char(aggregate.kind)),
        ("aggfinalmodify", Value::Char(b'r')),
        ("aggmfinalmodify", Value::Char(b'r')),
        ("aggsortop", Value::Oid(aggregate.sort_operator)),
    ]);
}

fn cast_row(out: &mut Output<'_>, oid: Oid, cast: &Cast) {
    let method = match cast.method {
        CastMethod::Function => b'f',
        CastMethod::Binary => b'b',
        CastMethod::InOut => b'i',
    };
    out.push([
        ("oid", Value::Oid(oid)),
        ("castsource", Value::Oid(cast.source)),
        ("casttarget", Value::Oid(cast.target)),
        ("castfunc", Value::Oid(cast.function)),
        ("castcontext", Value::Char(cast.context.letter())),
        ("castmethod", Value::Char(method)),
    ]);
}

fn op_class_row(out: &mut Output<'_>, class: &OpClass) {
    out.push([
        ("oid", Value::Oid(class.oid)),
        ("opcmethod", Value::Oid(BTREE)),
        ("opcname", Value::text(class.name)),
        ("opcnamespace", Value::Oid(PG_CATALOG)),
        ("opcowner", Value::Oid(role::OWNER)),
        ("opcfamily", Value::Oid(class.family)),
        ("opcintype", Value::Oid(class.input)),
        ("opcdefault", Value::Bool(class.default)),
    ]);
}

fn collations(out: &mut Output<'_>) {
    for (oid, name, provider) in [(DEFAULT_COLLATION, "default", b'd'), (950, "C", b'c'), (951, "POSIX", b'c')] {
        let locale = if provider == b'd' { Value::Null } else { Value::text(name) };
        out.push([
            ("oid", Value::Oid(oid)),
            ("collname", Value::text(name)),
            ("collnamespace", Value::Oid(PG_CATALOG)),
            ("collowner", Value::Oid(role::OWNER)),
            ("collprovider", Value::Char(provider)),
            ("collisdeterministic", Value::Bool(true)),
            ("collencoding", Value::Int4(-1)),
            ("collcollate", locale.clone()),
            ("collctype", locale),
        ]);
    }
}
