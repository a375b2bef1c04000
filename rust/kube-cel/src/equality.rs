//! Equality of values, counted in steps.

use crate::error::EvalError;
use crate::value::{Key, ListKind, Value};

/// The steps left for an evaluation.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(crate) left: u64,
}

impl Budget {
    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), EvalError> {
        if let Some(left) = self.left.checked_sub(steps) {
            self.left = left;
            return Ok(());
        }
        self.left = 0;
        Err(EvalError::TooCostly)
    }
}

/// Return whether both are equal; values of different types are not, except numbers.
pub(crate) fn equals(a: &Value, b: &Value, budget: &mut Budget) -> Result<bool, EvalError> {
    budget.charge(a.weight().min(b.weight()))?;
    Ok(match (a, b) {
        (Value::Null, Value::Null) | (Value::Optional(None), Value::Optional(None)) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
            Value::Int(_) | Value::Uint(_) | Value::Double(_),
        ) => a.order(b).is_some_and(std::cmp::Ordering::is_eq),
        (Value::String(a), Value::String(b)) | (Value::Type(a), Value::Type(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            if a.items.len() != b.items.len() {
                return Ok(false);
            }
            return match &a.kind {
                ListKind::Atomic => all(a.items.iter().zip(&b.items), budget),
                ListKind::Set | ListKind::Map(_) => covers(&b.items, &a.items, budget),
            };
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in a.iter() {
                match b.get(key) {
                    Some(other) if equals(value, other, budget)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Value::Optional(Some(a)), Value::Optional(Some(b))) => return equals(a, b, budget),
        (Value::Quantity(a), Value::Quantity(b)) => a.compare(b).is_eq(),
        (Value::Url(a), Value::Url(b)) => a == b,
        (Value::Ip(a), Value::Ip(b)) => a == b,
        (Value::Cidr(a, n), Value::Cidr(b, m)) => a == b && n == m,
        (Value::Semver(a), Value::Semver(b)) => a.compare(b).is_eq(),
        (Value::Format(a), Value::Format(b)) => a == b,
        (Value::Message(a), Value::Message(b)) => {
            if a.name != b.name || a.fields.len() != b.fields.len() {
                return Ok(false);
            }
            for (name, value) in &a.fields {
                match b.fields.get(name) {
                    Some(other) if equals(value, other, budget)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        _ => false,
    })
}

fn all<'a>(
    mut pairs: impl Iterator<Item = (&'a Value, &'a Value)>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    pairs.try_fold(true, |same, (a, b)| Ok(same && equals(a, b, budget)?))
}

/// Return whether all of `wanted` are among `items`.
pub(crate) fn covers(
    items: &[Value],
    wanted: &[Value],
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    for item in wanted {
        if position(items, item, budget)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Return the index of a value in a list.
pub(crate) fn position(
    items: &[Value],
    wanted: &Value,
    budget: &mut Budget,
) -> Result<Option<usize>, EvalError> {
    for (index, item) in items.iter().enumerate() {
        if equals(item, wanted, budget)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

/// Return whether two elements of a list of type map have the same keys.
pub(crate) fn same_keys(
    keys: &[String],
    a: &Value,
    b: &Value,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    let (Value::Map(a), Value::Map(b)) = (a, b) else {
        return Ok(false);
    };
    for key in keys {
        let key = Key::String(key.as_str().into());
        let same = match (a.get(&key), b.get(&key)) {
            (Some(a), Some(b)) => equals(a, b, budget)?,
            (None, None) => true,
            _ => false,
        };
        if !same {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Evaluate `value in container`.
pub(crate) fn contains(
    container: &Value,
    value: &Value,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    match container {
        Value::List(list) => Ok(position(&list.items, value, budget)?.is_some()),
        Value::Map(map) => Ok(Key::of(value).is_some_and(|key| map.contains_key(&key))),
        _ => Err(EvalError::no_overload()),
    }
}
