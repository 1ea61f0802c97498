//! Constant folding: calls of immutable functions over constants are computed once, at planning.
//!
//! A call that fails is left for run time, since its branch may never be reached. A function that depends on settings
//! (text
//! forms of dates) is not immutable and not folded.

use crate::{
    builtin::{Conversion, EvalContext, Rows, SystemFunctions},
    error::{Result, SqlError},
    plan::code::{CastCode, Code, Function},
    types::{TextContext, Value},
};

/// Maximal bytes of a value in a plan; a longer one is computed at run time, on its statement's account.
const VALUE_BYTES_MAX: usize = 64 << 10;

struct NoSystem;

impl SystemFunctions for NoSystem {
    fn call(&self, source: &str, _: &[Value]) -> Result<Value> {
        Err(SqlError::unsupported(format_args!("function {source} at planning")))
    }

    fn call_set(&self, source: &str, _: &[Value]) -> Result<Rows> {
        Err(SqlError::unsupported(format_args!("function {source} at planning")))
    }
}

/// Runs `compute` with a context that an immutable function does not use.
fn with_context<T>(compute: impl FnOnce(&EvalContext<'_>) -> T) -> T {
    let text = TextContext::default();
    compute(&EvalContext {
        text: &text,
        transaction_time: 0,
        statement_time: 0,
        clock_time: &|| 0,
        system: &NoSystem,
        value_bytes_max: VALUE_BYTES_MAX,
    })
}

/// Returns the value of a call of an immutable procedure, if all arguments are constants and it succeeds.
pub(crate) fn call(function: &Function, strict: bool, types: &[u32], args: &[Code]) -> Option<Value> {
    let mut values = Vec::with_capacity(args.len());
    for arg in args {
        let Code::Const(value) = arg else { return None };
        values.push(value.clone());
    }
    if strict && values.iter().any(Value::is_null) {
        return Some(Value::Null);
    }
    with_context(|context| match function {
        Function::Scalar(function) => function(&values, context).ok(),
        Function::Typed(function) => function(&values, types, context).ok(),
        Function::System(_) | Function::Misplaced(_) => None,
    })
}

/// Returns the value of a conversion of a constant, if it is immutable and succeeds.
pub(crate) fn cast(cast: &CastCode) -> Option<Value> {
    let Code::Const(value) = &cast.arg else { return None };
    if value.is_null() {
        return Some(Value::Null);
    }
    let immutable = match &cast.how {
        Conversion::Same | Conversion::Relabel => true,
        Conversion::Function(proc) => proc.volatility == crate::builtin::Volatility::Immutable,
        Conversion::ViaText | Conversion::Elements(..) => false,
    };
    if !immutable {
        return None;
    }
    with_context(|context| {
        crate::builtin::convert(&cast.how, value.clone(), cast.source, cast.to, cast.explicit, context).ok()
    })
}
