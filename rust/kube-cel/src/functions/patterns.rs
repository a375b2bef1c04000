//! Regular expressions in rules.

use crate::equality::Budget;
use crate::error::EvalError;
use crate::pattern::Pattern;
use crate::value::{Evaluated, Value};

/// The maximum size, in bytes, of a pattern compiled while a rule runs.
const MADE: usize = 64 << 10;
/// The cost of its compilation in steps.
const MAKING_STEPS: u64 = 1_000;
/// One step is so much of the product of a pattern's size and a string's length.
const WORK_OF_STEP: usize = 1 << 11;

pub(super) fn call(
    name: &str,
    text: &str,
    rest: &[Value],
    literal: Option<&Pattern>,
    budget: &mut Budget,
) -> Evaluated {
    let (Value::String(wanted), limit) = (match rest {
        [wanted] => (wanted, -1),
        [wanted, Value::Int(limit)] => (wanted, *limit),
        _ => return Err(EvalError::no_overload()),
    }) else {
        return Err(EvalError::no_overload());
    };
    let own;
    let pattern = if let Some(pattern) = literal {
        pattern
    } else {
        budget.charge(MAKING_STEPS)?;
        own = Pattern::within(wanted, MADE)
            .map_err(|bad| EvalError::because(format!("error parsing regexp: {bad}")))?;
        &own
    };
    let work = text.len().saturating_mul(pattern.size()) / WORK_OF_STEP;
    budget.charge(work as u64)?;
    let failed = |error: crate::pattern::TooLong| EvalError::because(error.to_string());
    match name {
        "matches" => pattern
            .is_match(text.as_bytes())
            .map(Value::Bool)
            .map_err(failed),
        "find" => {
            let matches = pattern.find_all(text, 1).map_err(failed)?;
            Ok(Value::text(matches.first().copied().unwrap_or_default()))
        }
        _ => {
            let most = usize::try_from(limit).unwrap_or(usize::MAX);
            // Each match begins a new search, which may go to the end of the string.
            budget.charge((work as u64).saturating_mul(1 + (text.len() as u64) / 1024))?;
            let matches = pattern.find_all(text, most).map_err(failed)?;
            budget.charge(matches.len() as u64)?;
            Ok(Value::list(matches.into_iter().map(Value::text).collect()))
        }
    }
}
