//! Overload resolution by PostgreSQL's rules: the operator or function that a name means for given argument types.
//!
//! `builtin` lists the candidates. Nothing is converted before a candidate is chosen.
//!
//! # Invariants
//! - R1. An exact match wins. Otherwise the candidates to whose types the arguments can be converted are narrowed step
//!   by step until one is left.
//! - R2. The arguments of a chosen call get exactly the types that it takes (bound B1); real types replace polymorphic
//!   ones.

use super::{
    Analyzer, Typed,
    bound::Expr,
    coerce::{can_coerce, category, common_type, is_polymorphic},
    error,
};
use crate::{
    builtin::{self, CastContext, Operator, Proc},
    error::{Result, SqlError, SqlState},
    parse::ast::{ObjectName, Pos},
    types::{SqlType, Value, oid},
};

/// Outcome of a choice among candidates.
enum Choice<T> {
    One(T),
    Nothing,
    Many,
}

/// A function that a call may mean, with one type per given argument.
#[derive(Clone)]
struct Candidate {
    proc: &'static Proc,
    arguments: Vec<u32>,
    /// Number of arguments that the variadic parameter takes; 0 if the call passes it as declared.
    expanded: usize,
}

/// Narrows the candidates by PostgreSQL's steps (R1). `types` returns the argument types of a candidate.
fn select<T: Clone>(inputs: &[u32], mut candidates: Vec<T>, types: impl Fn(&T) -> &[u32]) -> Choice<T> {
    let matching = |candidates: &[T], score: &dyn Fn(usize, u32) -> bool| -> Vec<T> {
        let scores: Vec<usize> = candidates
            .iter()
            .map(|candidate| {
                let counted = types(candidate).iter().enumerate();
                counted.filter(|&(i, &ty)| inputs[i] != oid::UNKNOWN && score(i, ty)).count()
            })
            .collect();
        let best = scores.iter().copied().max().unwrap_or(0);
        candidates.iter().zip(scores).filter(|(_, score)| *score == best).map(|(c, _)| c.clone()).collect()
    };
    match candidates.len() {
        0 => return Choice::Nothing,
        1 => return candidates.pop().map_or(Choice::Nothing, Choice::One),
        _ => {}
    }
    candidates = matching(&candidates, &|i, ty| ty == inputs[i]);
    if candidates.len() > 1 {
        candidates = matching(&candidates, &|i, ty| {
            let (kind, preferred) = category(ty);
            ty == inputs[i] || (preferred && kind == category(inputs[i]).0)
        });
    }
    if candidates.len() > 1 && inputs.contains(&oid::UNKNOWN) {
        candidates = by_unknown_categories(inputs, candidates, &types);
    }
    if candidates.len() > 1 {
        // If all known arguments have one type, the unknown ones are assumed to have it too.
        let mut known = inputs.iter().copied().filter(|&ty| ty != oid::UNKNOWN);
        if let Some(first) = known.next()
            && inputs.contains(&oid::UNKNOWN)
            && known.all(|ty| ty == first)
        {
            let fits: Vec<T> = candidates
                .iter()
                .filter(|c| types(c).iter().all(|&ty| can_coerce(first, ty, CastContext::Implicit)))
                .cloned()
                .collect();
            if fits.len() == 1 {
                candidates = fits;
            }
        }
    }
    match candidates.len() {
        1 => candidates.pop().map_or(Choice::Nothing, Choice::One),
        _ => Choice::Many,
    }
}

/// Keeps the candidates whose types at the unknown arguments belong to the category chosen there, which is string if
/// any candidate takes one.
fn by_unknown_categories<T: Clone>(inputs: &[u32], candidates: Vec<T>, types: impl Fn(&T) -> &[u32]) -> Vec<T> {
    let mut slots = vec![(0_u8, false); inputs.len()];
    for (i, slot) in slots.iter_mut().enumerate().filter(|(i, _)| inputs[*i] == oid::UNKNOWN) {
        let mut conflict = false;
        for candidate in &candidates {
            let (kind, preferred) = category(types(candidate)[i]);
            if slot.0 == 0 {
                *slot = (kind, preferred);
            } else if kind == slot.0 {
                slot.1 |= preferred;
            } else if kind == b'S' {
                *slot = (kind, preferred);
            } else {
                conflict = true;
            }
        }
        if conflict && slot.0 != b'S' {
            return candidates;
        }
    }
    let kept: Vec<T> = candidates
        .iter()
        .filter(|candidate| {
            types(candidate).iter().enumerate().filter(|(i, _)| inputs[*i] == oid::UNKNOWN).all(|(i, &ty)| {
                let (kind, preferred) = category(ty);
                kind == slots[i].0 && (preferred || !slots[i].1)
            })
        })
        .cloned()
        .collect();
    if kept.is_empty() { candidates } else { kept }
}

/// Returns whether every input can be implicitly converted to the candidate's type.
fn all_fit(inputs: &[u32], arguments: &[u32]) -> bool {
    inputs.len() == arguments.len()
        && inputs.iter().zip(arguments).all(|(&from, &to)| can_coerce(from, to, CastContext::Implicit))
        && consistent(inputs, arguments)
}

/// Returns whether the polymorphic arguments are consistent with each other.
fn consistent(inputs: &[u32], arguments: &[u32]) -> bool {
    let mut element = None;
    let mut array_free = false;
    for (&given, &declared) in inputs.iter().zip(arguments) {
        if given == oid::UNKNOWN {
            continue;
        }
        let this = match declared {
            oid::ANYELEMENT => given,
            oid::ANYNONARRAY => {
                array_free = true;
                given
            }
            oid::ANYARRAY => match oid::element_of(given) {
                Some(element) => element,
                None => return false,
            },
            _ => continue,
        };
        if *element.get_or_insert(this) != this {
            return false;
        }
    }
    if array_free && element.is_some_and(oid::is_array) {
        return false;
    }
    let family: Vec<Typed> = inputs
        .iter()
        .zip(arguments)
        .filter_map(|(&given, &declared)| match declared {
            oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLENONARRAY => Some(given),
            oid::ANYCOMPATIBLEARRAY => oid::element_of(given),
            _ => None,
        })
        .map(|ty| Typed::new(Expr::Const(Value::Null, SqlType::new(ty)), Pos::NONE))
        .collect();
    let family: Vec<&Typed> = family.iter().collect();
    matches!(common_type(&family, None), Ok(Some(_)))
}

/// Finds the binary operator `name` for operands of these types.
fn binary(name: &str, left: u32, right: u32) -> Choice<&'static Operator> {
    let all = builtin::operators_named(name);
    let (exact_left, exact_right) = match (left, right) {
        (oid::UNKNOWN, known) => (known, known),
        (known, oid::UNKNOWN) => (known, known),
        both => both,
    };
    if let Some(op) = all.iter().find(|op| op.left == exact_left && op.right == exact_right) {
        return Choice::One(op);
    }
    let inputs = [left, right];
    let fitting: Vec<(&'static Operator, [u32; 2])> = all
        .iter()
        .filter(|op| op.left != 0 && all_fit(&inputs, &[op.left, op.right]))
        .map(|op| (op, [op.left, op.right]))
        .collect();
    map(select(&inputs, fitting, |(_, types)| types), |(op, _)| op)
}

/// Finds the prefix operator `name` for an operand of this type.
fn prefix(name: &str, right: u32) -> Choice<&'static Operator> {
    let all = builtin::operators_named(name);
    if let Some(op) = all.iter().find(|op| op.left == 0 && op.right == right) {
        return Choice::One(op);
    }
    let fitting: Vec<(&'static Operator, [u32; 1])> =
        all.iter().filter(|op| op.left == 0 && all_fit(&[right], &[op.right])).map(|op| (op, [op.right])).collect();
    map(select(&[right], fitting, |(_, types)| types), |(op, _)| op)
}

fn map<T, U>(choice: Choice<T>, f: impl FnOnce(T) -> U) -> Choice<U> {
    match choice {
        Choice::One(one) => Choice::One(f(one)),
        Choice::Nothing => Choice::Nothing,
        Choice::Many => Choice::Many,
    }
}

/// Finds the operator that `name` means for operands of these types; a `left` of 0 asks for a prefix operator.
///
/// # Errors
/// 42883, 42725.
pub(super) fn operator(name: &ObjectName, left: u32, right: u32, pos: Pos) -> Result<&'static Operator> {
    let known_schema = name.schema().is_none_or(|schema| schema == "pg_catalog");
    let choice = match (known_schema, left) {
        (false, _) => Choice::Nothing,
        (true, 0) => prefix(name.last(), right),
        (true, _) => binary(name.last(), left, right),
    };
    let shown = || {
        let right = SqlType::new(right).name();
        if left == 0 { format!("{name} {right}") } else { format!("{} {name} {right}", SqlType::new(left).name()) }
    };
    match choice {
        Choice::One(op) => Ok(op),
        Choice::Many => Err(error(SqlState::AMBIGUOUS_FUNCTION, format!("operator is not unique: {}", shown()), pos)
            .hint("Could not choose a best candidate operator. You might need to add explicit type casts.")),
        Choice::Nothing => {
            Err(error(SqlState::UNDEFINED_FUNCTION, format!("operator does not exist: {}", shown()), pos).hint(
                if left == 0 {
                    "No operator matches the given name and argument type. You might need to add an explicit type cast."
                } else {
                    "No operator matches the given name and argument types. You might need to add explicit type casts."
                },
            ))
        }
    }
}

/// Returns the function of an operator.
pub(super) fn operator_proc(op: &Operator) -> &'static Proc {
    builtin::proc_by_oid(op.code).expect("an operator's function is listed")
}

/// The meaning of a call by name.
pub(super) enum Called {
    /// A function or aggregate, with the types of its arguments and the number of those that the variadic parameter
    /// takes.
    Proc { proc: &'static Proc, arguments: Vec<u32>, expanded: usize },
    /// A cast written as a call, such as `text(x)`.
    Cast(SqlType),
}

/// Finds the function that `name` means for arguments of these types.
///
/// # Errors
/// 42883, 42725.
pub(super) fn function(name: &ObjectName, inputs: &[u32], variadic: bool, pos: Pos) -> Result<Called> {
    let known_schema = name.schema().is_none_or(|schema| schema == "pg_catalog");
    let all = if known_schema { builtin::procs_named(name.last()) } else { &[] };
    let candidates: Vec<Candidate> = all.iter().filter_map(|proc| candidate(proc, inputs.len(), variadic)).collect();
    let exact = candidates.iter().filter(|c| c.arguments == inputs).min_by_key(|c| c.expanded);
    if let Some(exact) = exact {
        return Ok(called(exact.clone()));
    }
    if let [input] = inputs
        && known_schema
        && !variadic
        && let Some(target) = cast_named(name.last(), *input)
    {
        return Ok(Called::Cast(target));
    }
    let fitting: Vec<Candidate> = candidates.into_iter().filter(|c| all_fit(inputs, &c.arguments)).collect();
    let shown = || {
        let types: Vec<String> = inputs.iter().map(|&ty| SqlType::new(ty).name()).collect();
        format!("function {name}({})", types.join(", "))
    };
    match select(inputs, fitting, |c| &c.arguments) {
        Choice::One(one) => Ok(called(one)),
        Choice::Nothing => Err(error(SqlState::UNDEFINED_FUNCTION, format!("{} does not exist", shown()), pos)
            .hint("No function matches the given name and argument types. You might need to add explicit type casts.")),
        Choice::Many => Err(error(SqlState::AMBIGUOUS_FUNCTION, format!("{} is not unique", shown()), pos)
            .hint("Could not choose a best candidate function. You might need to add explicit type casts.")),
    }
}

fn called(candidate: Candidate) -> Called {
    Called::Proc { proc: candidate.proc, arguments: candidate.arguments, expanded: candidate.expanded }
}

/// Returns the function as a candidate for this number of arguments, if it can take so many.
fn candidate(proc: &'static Proc, given: usize, variadic: bool) -> Option<Candidate> {
    let declared = proc.arguments.len();
    if variadic || proc.variadic == 0 {
        let takes = (declared - proc.optional..=declared).contains(&given) && (!variadic || proc.variadic != 0);
        return takes.then(|| Candidate { proc, arguments: proc.arguments[..given].to_vec(), expanded: 0 });
    }
    if given < declared {
        return None;
    }
    let fixed = declared - 1;
    let mut arguments = proc.arguments[..fixed].to_vec();
    arguments.resize(given, proc.variadic);
    Some(Candidate { proc, arguments, expanded: given - fixed })
}

/// Returns the target type of a one-argument call that is a cast: its name is a type's, and no function is needed for
/// it.
fn cast_named(name: &str, input: u32) -> Option<SqlType> {
    let target = builtin::type_by_name(name).filter(|ty| ty.supported)?;
    let direct = input == oid::UNKNOWN
        || input == target.oid
        || builtin::cast(input, target.oid).is_some_and(|cast| cast.method != builtin::CastMethod::Function);
    let text = category(target.oid).0 == b'S' && builtin::cast(input, target.oid).is_none() && input != oid::RECORD;
    (direct || text).then(|| SqlType::new(target.oid))
}

impl Analyzer<'_> {
    /// Refuses a name in a schema that does not exist.
    pub(super) fn schema_exists(&self, name: &ObjectName, pos: Pos) -> Result<()> {
        match name.schema() {
            Some(schema) if schema != "pg_catalog" && self.cx.catalog.schema_named(schema).is_none() => {
                Err(error(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist"), pos))
            }
            _ => Ok(()),
        }
    }

    /// Converts arguments to the types of the chosen signature; returns them with the real result type (R2).
    pub(super) fn fit_arguments(
        &mut self,
        arguments: &[u32],
        result: u32,
        nodes: Vec<Typed>,
    ) -> Result<(Vec<Typed>, u32)> {
        let (real, result) = if arguments.iter().any(|&ty| is_polymorphic(ty)) || is_polymorphic(result) {
            self.real_types(arguments, result, &nodes)?
        } else {
            (arguments.to_vec(), result)
        };
        let nodes = nodes.into_iter().zip(real).map(|(node, ty)| self.coerce(node, ty)).collect::<Result<_>>()?;
        Ok((nodes, result))
    }

    /// Replaces polymorphic types by the types that the arguments determine.
    fn real_types(&self, arguments: &[u32], result: u32, nodes: &[Typed]) -> Result<(Vec<u32>, u32)> {
        let undetermined = || {
            SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                "could not determine polymorphic type because input has type unknown",
            )
        };
        let mut element = None;
        let mut array = None;
        let mut family = Vec::new();
        for (node, &declared) in nodes.iter().zip(arguments) {
            let given = node.ty().oid;
            match declared {
                oid::ANYELEMENT | oid::ANYNONARRAY if given != oid::UNKNOWN => element = Some(given),
                oid::ANYARRAY if given != oid::UNKNOWN => {
                    array = Some(given);
                    element = element.or(oid::element_of(given));
                }
                oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLENONARRAY => family.push(node.clone()),
                oid::ANYCOMPATIBLEARRAY => {
                    let element = oid::element_of(given).unwrap_or(oid::UNKNOWN);
                    family.push(Typed::new(Expr::Const(Value::Null, SqlType::new(element)), node.pos));
                }
                _ => {}
            }
        }
        let family: Vec<&Typed> = family.iter().collect();
        let compatible = common_type(&family, Some("arguments"))?.unwrap_or(oid::TEXT);
        let array_of = |element: Option<u32>| element.and_then(oid::array_of).ok_or_else(undetermined);
        let is_param = |node: &Typed| matches!(node.expr, Expr::Param(..));
        let real = |declared: u32, given: u32, param: bool| -> Result<u32> {
            Ok(match declared {
                oid::ANYELEMENT | oid::ANYNONARRAY => element.ok_or_else(undetermined)?,
                oid::ANYARRAY => match array {
                    Some(array) => array,
                    None => array_of(element)?,
                },
                oid::ANYCOMPATIBLE | oid::ANYCOMPATIBLENONARRAY => compatible,
                oid::ANYCOMPATIBLEARRAY => array_of(Some(compatible))?,
                oid::ANY if given == oid::UNKNOWN && !param => oid::TEXT,
                oid::ANY => given,
                other => other,
            })
        };
        let mut types = Vec::with_capacity(arguments.len());
        for (node, &declared) in nodes.iter().zip(arguments) {
            types.push(real(declared, node.ty().oid, is_param(node))?);
        }
        Ok((types, real(result, oid::TEXT, false)?))
    }

    /// Makes the call of an operator. `pos` is the operator's position; `left` is absent for a prefix operator.
    pub(super) fn operate(&mut self, name: &ObjectName, left: Option<Typed>, right: Typed, pos: Pos) -> Result<Typed> {
        let start = left.as_ref().map_or(pos, |left| left.pos.leftmost(pos));
        self.schema_exists(name, pos)?;
        let op = operator(name, left.as_ref().map_or(0, |left| left.ty().oid), right.ty().oid, pos)?;
        let mut arguments = Vec::with_capacity(2);
        let mut nodes = Vec::with_capacity(2);
        if let Some(left) = left {
            arguments.push(op.left);
            nodes.push(left);
        }
        arguments.push(op.right);
        nodes.push(right);
        let (nodes, result) = self.fit_arguments(&arguments, op.result, nodes)?;
        let call = Expr::Call {
            proc: operator_proc(op),
            args: nodes.into_iter().map(|node| node.expr).collect(),
            ty: SqlType::new(result),
            pos,
            operator: Some(op.name.into()),
        };
        Ok(Typed::new(call, start))
    }

    /// Resolves a comparison of two values, which must return a boolean, like [`Analyzer::operate`]; returns the
    /// procedure and both operands with the types that it takes.
    pub(super) fn comparison(
        &mut self,
        name: &ObjectName,
        left: Typed,
        right: Typed,
        pos: Pos,
    ) -> Result<(&'static Proc, Typed, Typed)> {
        let op = operator(name, left.ty().oid, right.ty().oid, pos)?;
        let (mut nodes, result) = self.fit_arguments(&[op.left, op.right], op.result, vec![left, right])?;
        if result != oid::BOOL {
            return Err(error(
                SqlState::DATATYPE_MISMATCH,
                format!("row comparison operator must yield type boolean, not type {}", SqlType::new(result).name()),
                pos,
            ));
        }
        let (Some(right), Some(left)) = (nodes.pop(), nodes.pop()) else {
            unreachable!("two arguments went in, so two came out")
        };
        Ok((operator_proc(op), left, right))
    }
}

/// Makes the name of an operator that the text does not spell.
pub(super) fn named(name: &str, pos: Pos) -> ObjectName {
    ObjectName { parts: vec![name.to_owned()], pos }
}
