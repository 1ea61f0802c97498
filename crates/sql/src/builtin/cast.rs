//! Conversions between types: choosing the one for a context, and applying it. The functions that do the work are
//! ordinary built-in functions; `types::io` reads and writes text.
//!
//! # Invariants
//! - K1. After a conversion the value has the variant of the target type. A conversion from `int4` to `oid`, which is
//!   binary-coercible in PostgreSQL, changes the variant here.
//!
//! Checked by `builtin_tests` against PostgreSQL's answers.

use std::borrow::Cow;

use super::context::EvalContext;
use super::implementation::Implementation;
use super::tables::{self, CastContext, CastMethod, Proc, Volatility};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Array, SqlType, Value, io, oid, typmod};

/// The way a value of one type becomes one of another. The target's modifier is applied afterwards.
#[derive(Clone, Debug)]
pub enum Conversion {
    /// The value stays the same: the conversion can be dropped, unless the target has a modifier.
    Same,
    /// The bits stay the same but the variant changes (`int4` and `oid`).
    Relabel,
    /// By this function of one argument; [`convert`] also relabels its result if necessary.
    Function(&'static Proc),
    /// Through the text form.
    ViaText,
    /// Each element of an array on its own.
    Elements(Box<Conversion>, u32, u32),
}

impl Conversion {
    /// Returns whether the result for a value of `source` is always the same, independent of settings and definitions.
    pub fn is_immutable(&self, source: u32, target: u32) -> bool {
        match self {
            Self::Same | Self::Relabel => true,
            Self::Function(proc) => proc.volatility == Volatility::Immutable,
            Self::ViaText => is_printed_alike(source) && is_read_alike(target),
            Self::Elements(element, source, target) => element.is_immutable(*source, *target),
        }
    }
}

/// Returns whether the text form of a type depends only on the value: not on DateStyle, IntervalStyle, TimeZone or the
/// catalog.
fn is_printed_alike(type_oid: u32) -> bool {
    is_plain(type_oid) && !matches!(type_oid, oid::DATE | oid::TIMESTAMP | oid::TIMESTAMPTZ | oid::INTERVAL)
}

/// Returns whether a text is always read as the same value of a type: the text names no moment like `now` and no
/// catalog object.
fn is_read_alike(type_oid: u32) -> bool {
    let moments = [oid::DATE, oid::TIME, oid::TIMETZ, oid::TIMESTAMP, oid::TIMESTAMPTZ, oid::INTERVAL];
    is_plain(type_oid) && !moments.contains(&type_oid)
}

fn is_plain(type_oid: u32) -> bool {
    let is_array = tables::type_by_oid(type_oid).is_some_and(|ty| ty.category == b'A');
    !is_array && !is_pseudo(type_oid) && catalog_forms(type_oid).is_none()
}

/// Finds the conversion from `source` to `target` that `context` allows; `None` if there is none.
///
/// Follows PostgreSQL: a listed cast if its context fits; otherwise arrays by their elements; otherwise, for an
/// assignment, any type to a string type through text; otherwise, for an explicit cast, a string type to any type
/// through text.
pub fn conversion(source: u32, target: u32, context: CastContext) -> Option<Conversion> {
    if source == target {
        return Some(Conversion::Same);
    }
    if source == oid::UNKNOWN {
        return Some(Conversion::ViaText);
    }
    if let Some(cast) = tables::cast(source, target) {
        if cast.context > context {
            return None;
        }
        return Some(match cast.method {
            CastMethod::Function => {
                Conversion::Function(tables::proc_by_oid(cast.function).expect("a cast's function has a row (B2)"))
            }
            CastMethod::Binary if is_int4_like(source) != is_int4_like(target) => Conversion::Relabel,
            CastMethod::Binary => Conversion::Same,
            CastMethod::InOut => Conversion::ViaText,
        });
    }
    let (from, to) = (tables::type_by_oid(source)?, tables::type_by_oid(target)?);
    // A type that only system functions return can become text, but no other type can become it.
    let shown = from.supported || matches!(source, oid::XID8 | oid::PG_SNAPSHOT | oid::TXID_SNAPSHOT);
    if !shown || !to.supported || is_pseudo(source) || is_pseudo(target) {
        return None;
    }
    let both_arrays = from.category == b'A' && to.category == b'A' && from.element != 0 && to.element != 0;
    if both_arrays
        && !is_vector(target)
        && let Some(element) = conversion(from.element, to.element, context)
    {
        return Some(match element {
            Conversion::Same if !is_vector(source) => Conversion::Same,
            element => Conversion::Elements(Box::new(element), from.element, to.element),
        });
    }
    let through_text = (context >= CastContext::Assignment && to.category == b'S')
        || (context >= CastContext::Explicit && from.category == b'S');
    through_text.then_some(Conversion::ViaText)
}

/// Returns whether a value of `source` can be used where `target` is declared without a conversion, which overload
/// resolution calls binary-coercible. A polymorphic target accepts the types that it stands for.
pub fn binary_coercible(source: u32, target: u32) -> bool {
    let is_array = || tables::type_by_oid(source).is_some_and(|t| t.category == b'A' && t.element != 0);
    match target {
        _ if source == target => true,
        oid::ANY | oid::ANYELEMENT | oid::ANYCOMPATIBLE => true,
        oid::ANYARRAY | oid::ANYCOMPATIBLEARRAY => is_array(),
        oid::ANYNONARRAY | oid::ANYCOMPATIBLENONARRAY => !is_array(),
        _ => tables::cast(source, target)
            .is_some_and(|cast| cast.method == CastMethod::Binary && cast.context == CastContext::Implicit),
    }
}

fn is_int4_like(type_oid: u32) -> bool {
    type_oid == oid::INT4
}

fn is_pseudo(type_oid: u32) -> bool {
    tables::type_by_oid(type_oid).is_none_or(|t| t.kind == tables::TypeKind::Pseudo)
}

fn is_vector(type_oid: u32) -> bool {
    type_oid == oid::INT2VECTOR || type_oid == oid::OIDVECTOR
}

/// Converts `value` by `how` and applies the target's modifier. NULL stays NULL.
///
/// # Errors
/// Those of the function or of the text input; 22001 and 22003 from the modifier. An `explicit` cast of text cuts
/// instead of failing with 22001.
pub fn convert(
    how: &Conversion,
    value: Value,
    source: u32,
    target: SqlType,
    explicit: bool,
    context: &EvalContext<'_>,
) -> Result<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    let converted = match how {
        Conversion::Same => value,
        Conversion::Relabel => relabelled(value, target.oid),
        Conversion::Function(proc) => {
            let args = [value];
            let result = match proc.implementation {
                Implementation::Scalar(function) => function(&args, context),
                Implementation::Typed(function) => function(&args, &[source], context),
                Implementation::System(name) => context.system.call(name, &args),
                other => panic!("a cast's function is {other:?}, not an ordinary one (B2)"),
            };
            relabelled(result?, target.oid)
        }
        Conversion::ViaText => value_of(&text_of(&value, source, context)?, target.oid, context)?,
        Conversion::Elements(element, from, to) => {
            let Value::Array(array) = &value else { panic!("an array is converted and the value is {value:?} (I3)") };
            let to = SqlType::with_typmod(*to, target.typmod);
            let elements = array.values.iter().map(|v| convert(element, v.clone(), *from, to, explicit, context));
            let values = elements.collect::<Result<Vec<Value>>>()?;
            return Ok(Value::Array(Array { element_oid: to.oid, dims: array.dims.clone(), values }.into()));
        }
    };
    if target.typmod < 0 { Ok(converted) } else { typmod::apply(converted, target, explicit) }
}

/// Converts `value` from one type to another and applies the target's modifier. It looks the conversion up at each
/// call; a plan keeps the [`Conversion`] instead.
///
/// # Errors
/// 42846 if there is no such conversion; otherwise as for [`convert`].
pub fn cast_value(
    value: Value,
    source: u32,
    target: SqlType,
    explicit: bool,
    context: &EvalContext<'_>,
) -> Result<Value> {
    let place = if explicit { CastContext::Explicit } else { CastContext::Assignment };
    let how = conversion(source, target.oid, place).ok_or_else(|| {
        let names = (SqlType::new(source).name(), SqlType::new(target.oid).name());
        SqlError::new(SqlState::CANNOT_COERCE, format!("cannot cast type {} to {}", names.0, names.1))
    })?;
    convert(&how, value, source, target, explicit, context)
}

/// Gives a value the variant of a binary-compatible type (K1).
fn relabelled(value: Value, target: u32) -> Value {
    match value {
        Value::Int4(i) if oid::is_oid_like(target) => Value::Oid(i.cast_unsigned()),
        Value::Oid(o) if target == oid::INT4 => Value::Int4(o.cast_signed()),
        other => other,
    }
}

/// Returns the source name of the output function of a type whose text form needs the catalog.
pub fn catalog_output(type_oid: u32) -> Option<&'static str> {
    catalog_forms(type_oid).map(|(_, output)| output)
}

/// Returns the input and output functions of a type whose text form needs the catalog.
fn catalog_forms(type_oid: u32) -> Option<(&'static str, &'static str)> {
    Some(match type_oid {
        oid::REGCLASS => ("regclassin", "regclassout"),
        oid::REGTYPE => ("regtypein", "regtypeout"),
        oid::REGPROC => ("regprocin", "regprocout"),
        oid::REGNAMESPACE => ("regnamespacein", "regnamespaceout"),
        oid::REGROLE => ("regrolein", "regroleout"),
        2202 => ("regprocedurein", "regprocedureout"),
        2203 => ("regoperin", "regoperout"),
        2204 => ("regoperatorin", "regoperatorout"),
        _ => return None,
    })
}

/// Returns the text form of a value that is not NULL; it may be of a type whose text form needs the catalog.
pub(crate) fn text_of<'v>(value: &'v Value, type_oid: u32, context: &EvalContext<'_>) -> Result<Cow<'v, str>> {
    if let Value::Text(text) = value {
        return Ok(Cow::Borrowed(text));
    }
    if let (Value::Oid(_), Some((_, output))) = (value, catalog_forms(type_oid)) {
        return match context.system.call(output, std::slice::from_ref(value))? {
            Value::Text(text) => Ok(Cow::Owned(text.to_string())),
            other => panic!("{output} gave {other:?}, which is no text (I3)"),
        };
    }
    let mut bytes = Vec::new();
    io::text_out(value, type_oid, context.text, &mut bytes);
    Ok(Cow::Owned(String::from_utf8(bytes).expect("a text form is UTF-8")))
}

/// Returns the value cast to text, which for a few types differs from its text form (`true` instead of `t`).
pub(crate) fn cast_to_text<'v>(value: &'v Value, type_oid: u32, context: &EvalContext<'_>) -> Result<Cow<'v, str>> {
    match tables::cast(type_oid, oid::TEXT).map(|cast| cast.method) {
        Some(CastMethod::Function) => match cast_value(value.clone(), type_oid, SqlType::TEXT, true, context)? {
            Value::Text(text) => Ok(Cow::Owned(text.to_string())),
            other => panic!("a cast to text gave {other:?} (I3)"),
        },
        _ => text_of(value, type_oid, context),
    }
}

/// Reads a text form; the type may be one whose text form needs the catalog. No modifier is applied.
pub(crate) fn value_of(text: &str, type_oid: u32, context: &EvalContext<'_>) -> Result<Value> {
    match catalog_forms(type_oid) {
        Some((input, _)) => context.system.call(input, &[Value::text(text)]),
        None => io::text_in(type_oid, -1, text, context.text),
    }
}
