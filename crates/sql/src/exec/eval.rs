//! Evaluation of compiled expressions over frames: three-valued logic, strictness, short circuit.
//!
//! It never waits. The error of a call has no position in the text: only analysis gives positions, as in PostgreSQL.

use std::sync::Arc;

use crate::{
    analyze::bound::RowComparison,
    builtin,
    error::{Result, SqlError, SqlState},
    exec::{
        context::{Env, Run},
        held::bytes_of,
        subquery,
    },
    plan::code::{Callee, Code, Function, Pair},
    types::{Array, Value},
};

/// Evaluates an expression.
pub(crate) fn eval(code: &Code, run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    match code {
        Code::Const(value) => Ok(value.clone()),
        Code::Param(index) => param(run, *index).cloned(),
        Code::Slot(slot) => Ok(env.frame[*slot].clone()),
        Code::Outer { up, slot } => env.outer_slot(*up, *slot).cloned().ok_or_else(no_outer),
        Code::Call(call) => eval_call(&call.callee, &call.args, run, env),
        Code::Cast(cast) => {
            let value = eval(&cast.arg, run, env)?;
            if value.is_null() {
                return Ok(Value::Null);
            }
            builtin::convert(&cast.how, value, cast.source, cast.to, cast.explicit, &run.eval)
        }
        Code::And(args) => eval_and(args, run, env),
        Code::Or(args) => eval_or(args, run, env),
        Code::Not(arg) => Ok(truth(eval_bool(arg, run, env)?.map(|value| !value))),
        Code::IsNull { arg, negated } => {
            let value = eval(arg, run, env)?;
            Ok(Value::Bool(match (&value, negated) {
                (Value::Record(fields), false) => fields.iter().all(Value::is_null),
                (Value::Record(fields), true) => !fields.iter().any(Value::is_null),
                (value, negated) => value.is_null() != *negated,
            }))
        }
        Code::BooleanTest { arg, value, negated } => Ok(Value::Bool((eval_bool(arg, run, env)? == *value) != *negated)),
        Code::Distinct(pair, negated) => {
            let args = [eval(&pair.left, run, env)?, eval(&pair.right, run, env)?];
            let distinct = match (args[0].is_null(), args[1].is_null()) {
                (true, true) => false,
                (false, false) => call(&pair.callee, &args, run)?.as_bool() != Some(true),
                _ => true,
            };
            Ok(Value::Bool(distinct != *negated))
        }
        Code::Case(case) => {
            let Some(operand) = &case.operand else { return eval_arms(&case.arms, &case.otherwise, run, env) };
            let operand = eval(operand, run, env)?;
            run.operands.push(operand);
            let result = eval_arms(&case.arms, &case.otherwise, run, env);
            run.operands.pop();
            result
        }
        Code::CaseOperand => Ok(run.operands.last().cloned().unwrap_or(Value::Null)),
        Code::Coalesce(args) => {
            for arg in args {
                let value = eval(arg, run, env)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Ok(Value::Null)
        }
        Code::NullIf(pair) => {
            let args = [eval(&pair.left, run, env)?, eval(&pair.right, run, env)?];
            let equal = call(&pair.callee, &args, run)?.as_bool() == Some(true);
            let [left, _] = args;
            Ok(if equal { Value::Null } else { left })
        }
        Code::Extreme { greatest, args, oid } => {
            let mut best = Value::Null;
            for arg in args {
                let value = eval(arg, run, env)?;
                if value.is_null() {
                    continue;
                }
                let better = best.is_null() || {
                    let order = value.compare(&best, *oid);
                    if *greatest { order.is_gt() } else { order.is_lt() }
                };
                if better {
                    best = value;
                }
            }
            Ok(best)
        }
        Code::InList(list) => {
            let value = eval(&list.arg, run, env)?;
            let mut unknown = false;
            run.compared(list.list.len())?;
            for item in &list.list {
                let item = eval(item, run, env)?;
                match call(&list.equal, &[value.clone(), item], run)?.as_bool() {
                    Some(true) => return Ok(Value::Bool(!list.negated)),
                    Some(false) => {}
                    None => unknown = true,
                }
            }
            Ok(if unknown { Value::Null } else { Value::Bool(list.negated) })
        }
        Code::ArrayCompare { pair, all } => eval_array_compare(pair, *all, run, env),
        Code::RowCompare(compare) => {
            let mut fields = Vec::with_capacity(compare.left.len());
            for (left, right) in compare.left.iter().zip(&compare.right) {
                fields.push([eval(left, run, env)?, eval(right, run, env)?]);
            }
            compare_rows(compare.kind, &fields, &compare.equal, &compare.less, run)
        }
        Code::Row(fields) => Ok(Value::Record(eval_parts(fields, run, env)?.into())),
        Code::Array(items, oid) => array_of(*oid, eval_parts(items, run, env)?),
        Code::Subscript(pair) => {
            let [array, index] = &**pair;
            let array = eval(array, run, env)?;
            let index = eval(index, run, env)?;
            Ok(match (array.as_array(), index.as_i32()) {
                (Some(array), Some(index)) => array.get(index).cloned().unwrap_or(Value::Null),
                _ => Value::Null,
            })
        }
        Code::Subquery(id) => subquery::eval(*id, run, env),
    }
}

/// Evaluates a condition; `None` means unknown.
pub(crate) fn eval_bool(code: &Code, run: &mut Run<'_>, env: &Env<'_>) -> Result<Option<bool>> {
    Ok(eval(code, run, env)?.as_bool())
}

/// Returns whether a condition, which may be absent, is true.
pub(crate) fn holds(code: Option<&Code>, run: &mut Run<'_>, env: &Env<'_>) -> Result<bool> {
    match code {
        None => Ok(true),
        Some(code) => Ok(eval_bool(code, run, env)? == Some(true)),
    }
}

/// Returns whether a CHECK condition is satisfied: only FALSE violates it.
pub(crate) fn not_false(code: &Code, run: &mut Run<'_>, env: &Env<'_>) -> Result<bool> {
    Ok(eval_bool(code, run, env)? != Some(false))
}

/// Returns a parameter's value.
pub(crate) fn param<'a>(run: &Run<'a>, index: usize) -> Result<&'a Value> {
    run.params.get(index).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no value for parameter ${}", index + 1))
    })
}

/// Calls a procedure; a strict one is not called with a NULL argument.
pub(crate) fn call(callee: &Callee, args: &[Value], run: &mut Run<'_>) -> Result<Value> {
    if callee.strict && args.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    match callee.function {
        Function::Scalar(function) => function(args, &run.eval),
        Function::Typed(function) => function(args, &callee.types, &run.eval),
        Function::System(source) => run.eval.system.call(source, args),
        Function::Misplaced(name) => Err(SqlError::unsupported(format_args!("function {name} in this place"))),
    }
}

fn eval_call(callee: &Callee, args: &[Code], run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    match args {
        [] => call(callee, &[], run),
        [a] => {
            let args = [eval(a, run, env)?];
            call(callee, &args, run)
        }
        [a, b] => {
            let args = [eval(a, run, env)?, eval(b, run, env)?];
            call(callee, &args, run)
        }
        [a, b, c] => {
            let args = [eval(a, run, env)?, eval(b, run, env)?, eval(c, run, env)?];
            call(callee, &args, run)
        }
        many => {
            let mut args = Vec::with_capacity(many.len());
            for arg in many {
                args.push(eval(arg, run, env)?);
            }
            call(callee, &args, run)
        }
    }
}

fn eval_and(args: &[Code], run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    let mut unknown = false;
    for arg in args {
        match eval_bool(arg, run, env)? {
            Some(false) => return Ok(Value::Bool(false)),
            Some(true) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(true) })
}

fn eval_or(args: &[Code], run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    let mut unknown = false;
    for arg in args {
        match eval_bool(arg, run, env)? {
            Some(true) => return Ok(Value::Bool(true)),
            Some(false) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(false) })
}

fn eval_arms(arms: &[(Code, Code)], otherwise: &Code, run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    for (condition, result) in arms {
        if eval_bool(condition, run, env)? == Some(true) {
            return eval(result, run, env);
        }
    }
    eval(otherwise, run, env)
}

fn eval_array_compare(pair: &Pair, all: bool, run: &mut Run<'_>, env: &Env<'_>) -> Result<Value> {
    let value = eval(&pair.left, run, env)?;
    let array = eval(&pair.right, run, env)?;
    let Value::Array(array) = array else { return Ok(Value::Null) };
    run.compared(array.values.len())?;
    let mut unknown = false;
    for item in &array.values {
        match call(&pair.callee, &[value.clone(), item.clone()], run)?.as_bool() {
            Some(result) if result != all => return Ok(Value::Bool(result)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { Value::Null } else { Value::Bool(all) })
}

/// Compares rows field by field.
fn compare_rows(
    kind: RowComparison,
    fields: &[[Value; 2]],
    equal: &[Callee],
    less: &[Callee],
    run: &mut Run<'_>,
) -> Result<Value> {
    if matches!(kind, RowComparison::Equal | RowComparison::NotEqual) {
        let mut unknown = false;
        for (pair, equal) in fields.iter().zip(equal) {
            match call(equal, pair, run)?.as_bool() {
                Some(false) => return Ok(Value::Bool(kind == RowComparison::NotEqual)),
                Some(true) => {}
                None => unknown = true,
            }
        }
        return Ok(if unknown { Value::Null } else { Value::Bool(kind == RowComparison::Equal) });
    }
    let wants_less = matches!(kind, RowComparison::Less | RowComparison::LessOrEqual);
    for ((pair, equal), less) in fields.iter().zip(equal).zip(less) {
        match call(equal, pair, run)?.as_bool() {
            Some(true) => {}
            None => return Ok(Value::Null),
            Some(false) => {
                return Ok(truth(call(less, pair, run)?.as_bool().map(|is_less| is_less == wants_less)));
            }
        }
    }
    Ok(Value::Bool(matches!(kind, RowComparison::LessOrEqual | RowComparison::GreaterOrEqual)))
}

/// Evaluates the parts of a value; fails as soon as the whole exceeds the maximal length of a value.
fn eval_parts(parts: &[Code], run: &mut Run<'_>, env: &Env<'_>) -> Result<Vec<Value>> {
    let (mut values, mut bytes) = (Vec::with_capacity(parts.len()), 0_usize);
    for part in parts {
        let value = eval(part, run, env)?;
        bytes = bytes.saturating_add(bytes_of(&value));
        run.eval.check_length(bytes)?;
        values.push(value);
    }
    Ok(values)
}

/// Builds an array of one dimension, or of one more dimension than its elements have.
pub(crate) fn array_of(oid: u32, values: Vec<Value>) -> Result<Value> {
    let Some(Value::Array(first)) = values.iter().find(|value| matches!(value, Value::Array(_))) else {
        return Ok(Value::array(oid, values));
    };
    let mut dims = vec![crate::types::ArrayDim { len: u32::try_from(values.len()).unwrap_or(u32::MAX), lower: 1 }];
    dims.extend(first.dims.iter().copied());
    let element_oid = first.element_oid;
    let inner = first.dims.clone();
    let mut all = Vec::new();
    for value in &values {
        match value {
            Value::Array(array) if array.dims == inner => all.extend(array.values.iter().cloned()),
            _ => {
                return Err(SqlError::new(
                    SqlState::ARRAY_SUBSCRIPT_ERROR,
                    "multidimensional arrays must have array expressions with matching dimensions",
                ));
            }
        }
    }
    if all.is_empty() {
        return Ok(Value::array(element_oid, Vec::new()));
    }
    Ok(Value::Array(Arc::new(Array { element_oid, dims, values: all })))
}

fn truth(value: Option<bool>) -> Value {
    value.map_or(Value::Null, Value::Bool)
}

fn no_outer() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "an expression names a level that is not around it")
}
