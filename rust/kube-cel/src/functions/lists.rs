//! Functions of lists.

use std::cmp::Ordering;

use crate::equality::{Budget, covers, equals, position};
use crate::error::EvalError;
use crate::operators;
use crate::value::{Evaluated, List, Value};

/// The maximum length of the result of `lists.range`.
const MAX_RANGE: i64 = 100_000;

pub(super) fn call(name: &str, list: &List, rest: &[Value], budget: &mut Budget) -> Evaluated {
    let items = &list.items;
    budget.charge(items.len() as u64)?;
    match (name, rest) {
        ("isSorted", []) => {
            for pair in items.windows(2) {
                if order(pair)?.is_gt() {
                    return Ok(Value::Bool(false));
                }
            }
            Ok(Value::Bool(true))
        }
        ("sum", []) => {
            let mut total: Option<Value> = None;
            for item in items {
                total = Some(match total {
                    None => item.clone(),
                    Some(before) => operators::add(&before, item, budget)?,
                });
            }
            Ok(total.unwrap_or(Value::Int(0)))
        }
        ("min", []) => extreme(items, Ordering::Less, "min"),
        ("max", []) => extreme(items, Ordering::Greater, "max"),
        ("indexOf", [wanted]) => Ok(place(position(items, wanted, budget)?)),
        ("lastIndexOf", [wanted]) => {
            for (index, item) in items.iter().enumerate().rev() {
                if equals(item, wanted, budget)? {
                    return Ok(place(Some(index)));
                }
            }
            Ok(place(None))
        }
        ("join", rest) => join(items, rest, budget),
        ("slice", [Value::Int(from), Value::Int(to)]) => slice(items, *from, *to),
        ("reverse", []) => Ok(Value::list(items.iter().rev().cloned().collect())),
        ("first", []) => Ok(Value::Optional(items.first().cloned().map(Into::into))),
        ("last", []) => Ok(Value::Optional(items.last().cloned().map(Into::into))),
        ("distinct", []) => {
            let mut distinct: Vec<Value> = Vec::new();
            for item in items {
                if position(&distinct, item, budget)?.is_none() {
                    distinct.push(item.clone());
                }
            }
            Ok(Value::list(distinct))
        }
        ("sort", []) => {
            for pair in items.windows(2) {
                order(pair)?;
            }
            budget.charge(items.len() as u64 * 4)?;
            let mut sorted = items.clone();
            sorted.sort_by(|a, b| a.order(b).unwrap_or(Ordering::Equal));
            Ok(Value::list(sorted))
        }
        ("flatten", []) => flatten(items, 1, budget),
        ("flatten", [Value::Int(depth)]) if *depth >= 0 => flatten(items, *depth, budget),
        ("flatten", [Value::Int(_)]) => Err(EvalError::because("level must be non-negative")),
        ("unwrap" | "unwrapOpt", []) => {
            let mut flat = Vec::new();
            for item in items {
                match item {
                    Value::Optional(inner) => {
                        flat.extend(inner.iter().map(|inner| (**inner).clone()));
                    }
                    _ => return Err(EvalError::no_overload()),
                }
            }
            Ok(Value::list(flat))
        }
        ("sets.contains", [Value::List(other)]) => {
            covers(items, &other.items, budget).map(Value::Bool)
        }
        ("sets.equivalent", [Value::List(other)]) => {
            let same = covers(items, &other.items, budget)? && covers(&other.items, items, budget)?;
            Ok(Value::Bool(same))
        }
        ("sets.intersects", [Value::List(other)]) => {
            for item in items {
                if position(&other.items, item, budget)?.is_some() {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// Evaluate `lists.range(n)`.
pub(super) fn range(count: i64, budget: &mut Budget) -> Evaluated {
    if count > MAX_RANGE {
        return Err(EvalError::TooCostly);
    }
    budget.charge(u64::try_from(count).unwrap_or(0))?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

fn place(position: Option<usize>) -> Value {
    Value::Int(
        position
            .and_then(|place| i64::try_from(place).ok())
            .unwrap_or(-1),
    )
}

fn order(pair: &[Value]) -> Result<Ordering, EvalError> {
    match pair {
        [a, b] => a.order(b).ok_or_else(EvalError::no_overload),
        _ => Ok(Ordering::Equal),
    }
}

fn extreme(items: &[Value], wanted: Ordering, name: &str) -> Evaluated {
    let Some((first, rest)) = items.split_first() else {
        return Err(EvalError::because(format!("{name} called on empty list")));
    };
    let mut best = first;
    for item in rest {
        if item.order(best).ok_or_else(EvalError::no_overload)? == wanted {
            best = item;
        }
    }
    Ok(best.clone())
}

fn join(items: &[Value], rest: &[Value], budget: &mut Budget) -> Evaluated {
    let separator = match rest {
        [] => "",
        [Value::String(separator)] => separator.as_ref(),
        _ => return Err(EvalError::no_overload()),
    };
    let mut out = String::new();
    for (index, item) in items.iter().enumerate() {
        let Value::String(text) = item else {
            return Err(EvalError::because("join: invalid input"));
        };
        budget.charge(((text.len() + separator.len()) / 10) as u64)?;
        if index > 0 {
            out.push_str(separator);
        }
        out.push_str(text);
    }
    Ok(Value::text(out))
}

fn slice(items: &[Value], from: i64, to: i64) -> Evaluated {
    let call = format!("cannot slice({from}, {to})");
    let (Ok(start), Ok(end)) = (usize::try_from(from), usize::try_from(to)) else {
        let why = format!("{call}, negative indexes not supported");
        return Err(EvalError::because(why));
    };
    if start > end {
        let why = format!("{call}, start index must be less than or equal to end index");
        return Err(EvalError::because(why));
    }
    let part = items
        .get(start..end)
        .ok_or_else(|| EvalError::because(format!("{call}, list is length {}", items.len())))?;
    Ok(Value::list(part.to_vec()))
}

/// Replace lists by their elements, level by level.
fn flatten(items: &[Value], depth: i64, budget: &mut Budget) -> Evaluated {
    let mut flat = items.to_vec();
    for _ in 0..depth {
        if !flat.iter().any(|item| matches!(item, Value::List(_))) {
            break;
        }
        let mut next = Vec::new();
        for item in flat {
            match item {
                Value::List(inner) => {
                    budget.charge(inner.items.len() as u64 + 1)?;
                    next.extend(inner.items.iter().cloned());
                }
                other => next.push(other),
            }
        }
        flat = next;
    }
    Ok(Value::list(flat))
}
