//! Binary operators.

use std::sync::Arc;

use crate::ast::Binary;
use crate::equality::{Budget, contains, equals, position, same_keys};
use crate::error::EvalError;
use crate::times;
use crate::value::{Evaluated, List, ListKind, Value};

pub(crate) fn overflow() -> EvalError {
    EvalError::because("integer overflow")
}

pub(crate) fn checked<T>(result: Option<T>, value: impl FnOnce(T) -> Value) -> Evaluated {
    result.map(value).ok_or_else(overflow)
}

/// Apply an operator.
pub(crate) fn apply(
    operator: Binary,
    left: &Value,
    right: &Value,
    budget: &mut Budget,
) -> Evaluated {
    match operator {
        Binary::Equal => equals(left, right, budget).map(Value::Bool),
        Binary::NotEqual => equals(left, right, budget).map(|same| Value::Bool(!same)),
        Binary::In => contains(right, left, budget).map(Value::Bool),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            budget.charge(left.weight().min(right.weight()))?;
            compare(operator, left, right)
        }
        Binary::Add => add(left, right, budget),
        Binary::Subtract => subtract(left, right),
        Binary::Multiply => match (left, right) {
            (Value::Int(a), Value::Int(b)) => checked(a.checked_mul(*b), Value::Int),
            (Value::Uint(a), Value::Uint(b)) => checked(a.checked_mul(*b), Value::Uint),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
            _ => Err(EvalError::no_overload()),
        },
        Binary::Divide => match (left, right) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
                Err(EvalError::because("division by zero"))
            }
            (Value::Int(a), Value::Int(b)) => checked(a.checked_div(*b), Value::Int),
            (Value::Uint(a), Value::Uint(b)) => checked(a.checked_div(*b), Value::Uint),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
            _ => Err(EvalError::no_overload()),
        },
        Binary::Modulo => match (left, right) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
                Err(EvalError::because("modulus by zero"))
            }
            (Value::Int(a), Value::Int(b)) => checked(a.checked_rem(*b), Value::Int),
            (Value::Uint(a), Value::Uint(b)) => checked(a.checked_rem(*b), Value::Uint),
            _ => Err(EvalError::no_overload()),
        },
    }
}

fn compare(operator: Binary, left: &Value, right: &Value) -> Evaluated {
    let unordered = |value: &Value| matches!(value, Value::Double(number) if number.is_nan());
    let Some(order) = left.order(right) else {
        if unordered(left) || unordered(right) {
            return Ok(Value::Bool(false));
        }
        return Err(EvalError::no_overload());
    };
    Ok(Value::Bool(match operator {
        Binary::Less => order.is_lt(),
        Binary::LessEqual => order.is_le(),
        Binary::Greater => order.is_gt(),
        _ => order.is_ge(),
    }))
}

pub(crate) fn add(left: &Value, right: &Value, budget: &mut Budget) -> Evaluated {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => checked(a.checked_add(*b), Value::Int),
        (Value::Uint(a), Value::Uint(b)) => checked(a.checked_add(*b), Value::Uint),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::String(a), Value::String(b)) => {
            budget.charge(left.weight() + right.weight())?;
            Ok(Value::text(format!("{a}{b}")))
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            budget.charge(left.weight() + right.weight())?;
            Ok(Value::Bytes([a.as_ref(), b.as_ref()].concat().into()))
        }
        (Value::List(a), Value::List(b)) => join(a, b, budget),
        (Value::Duration(a), Value::Duration(b)) => checked(a.checked_add(*b), Value::Duration),
        (Value::Timestamp(time), Value::Duration(span))
        | (Value::Duration(span), Value::Timestamp(time)) => {
            times::in_range(time + i128::from(*span)).ok_or_else(overflow)
        }
        _ => Err(EvalError::no_overload()),
    }
}

fn subtract(left: &Value, right: &Value) -> Evaluated {
    match (left, right) {
        (Value::Int(a), Value::Int(b)) => checked(a.checked_sub(*b), Value::Int),
        (Value::Uint(a), Value::Uint(b)) => checked(a.checked_sub(*b), Value::Uint),
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
        (Value::Duration(a), Value::Duration(b)) => checked(a.checked_sub(*b), Value::Duration),
        (Value::Timestamp(a), Value::Timestamp(b)) => {
            checked(i64::try_from(a - b).ok(), Value::Duration)
        }
        (Value::Timestamp(time), Value::Duration(span)) => {
            times::in_range(time - i128::from(*span)).ok_or_else(overflow)
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// Concatenate lists. Elements of the right list that repeat an element of a set are dropped; those that repeat the
/// keys of a list of type map replace the element.
fn join(left: &List, right: &List, budget: &mut Budget) -> Evaluated {
    budget.charge((left.items.len() + right.items.len()) as u64)?;
    let mut items = left.items.clone();
    for item in &right.items {
        let place = match &left.kind {
            ListKind::Atomic => None,
            ListKind::Set => position(&left.items, item, budget)?,
            ListKind::Map(keys) => {
                let mut place = None;
                for (index, before) in left.items.iter().enumerate() {
                    if same_keys(keys, before, item, budget)? {
                        place = Some(index);
                        break;
                    }
                }
                place
            }
        };
        match place.and_then(|place| items.get_mut(place)) {
            Some(before) => *before = item.clone(),
            None => items.push(item.clone()),
        }
    }
    Ok(Value::List(Arc::new(List {
        items,
        kind: left.kind.clone(),
    })))
}
