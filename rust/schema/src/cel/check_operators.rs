//! The types of operators and selections, and the checker's errors.

use super::CompileError;
use super::ast::Binary;
use super::types::Type;
use super::value::Value;

pub(super) type Found = Result<Type, CompileError>;

/// Return an error unless `fits`.
pub(super) fn require(
    fits: bool,
    at: usize,
    name: &str,
    given: &[Type],
) -> Result<(), CompileError> {
    if fits {
        Ok(())
    } else {
        Err(no_overload(at, name, given))
    }
}

/// Return the type of a field.
pub(super) fn field(operand: Type, name: &str, optional: bool, at: usize) -> Found {
    let found = match operand {
        Type::Optional(inner) => {
            return Ok(field((*inner).clone(), name, false, at)?.optional_if(true));
        }
        Type::Dyn => Type::Dyn,
        Type::Object(object) => match object.fields.get(name) {
            Some(found) => found.clone(),
            None => return Err(CompileError::at(at, format!("undefined field '{name}'"))),
        },
        Type::Map(key, value) if key.fits(&Type::String) => (*value).clone(),
        other => {
            let why = format!("type '{other}' does not support field selection");
            return Err(CompileError::at(at, why));
        }
    };
    Ok(if optional {
        Type::optional(found)
    } else {
        found
    })
}

pub(super) fn literal(value: &Value) -> Type {
    match value {
        Value::Null => Type::Null,
        Value::Bool(_) => Type::Bool,
        Value::Int(_) => Type::Int,
        Value::Uint(_) => Type::Uint,
        Value::Double(_) => Type::Double,
        Value::String(_) => Type::String,
        Value::Bytes(_) => Type::Bytes,
        _ => Type::Dyn,
    }
}

pub(super) fn undeclared(at: usize, name: &str) -> CompileError {
    CompileError::at(
        at,
        format!("undeclared reference to '{name}' (in container '')"),
    )
}

pub(super) fn no_overload(at: usize, name: &str, given: &[Type]) -> CompileError {
    let why = format!(
        "found no matching overload for '{name}' applied to '{}'",
        shown_call(false, given)
    );
    CompileError::at(at, why)
}

pub(super) fn shown_call(member: bool, given: &[Type]) -> String {
    let shown: Vec<String> = given.iter().map(ToString::to_string).collect();
    match shown.split_first() {
        Some((first, rest)) if member => format!("{first}.({})", rest.join(", ")),
        _ => format!("({})", shown.join(", ")),
    }
}

/// Return the result type of an operator; None if it does not accept these operands.
pub(super) fn binary(operator: Binary, left: &Type, right: &Type) -> Option<Type> {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Int, List, Map, String, Timestamp, Uint};
    let number = |of: &Type| matches!(of, Int | Uint | Double);
    match operator {
        Binary::Equal | Binary::NotEqual => left.fits(right).then_some(Bool),
        Binary::Less | Binary::LessEqual | Binary::Greater | Binary::GreaterEqual => {
            let ordered = |of: &Type| {
                number(of) || matches!(of, Bool | String | Bytes | Duration | Timestamp | Dyn)
            };
            let fits = ordered(left)
                && ordered(right)
                && (left.fits(right) || (number(left) && number(right)));
            fits.then_some(Bool)
        }
        Binary::In => match right {
            List(item) => left.fits(item).then_some(Bool),
            Map(key, _) => left.fits(key).then_some(Bool),
            Dyn => Some(Bool),
            _ => None,
        },
        _ => match (left, right) {
            (Dyn, Dyn) => Some(Dyn),
            (Timestamp, Timestamp) if operator == Binary::Subtract => Some(Duration),
            (Timestamp, Duration) if matches!(operator, Binary::Add | Binary::Subtract) => {
                Some(Timestamp)
            }
            (Duration, Timestamp) if operator == Binary::Add => Some(Timestamp),
            (Timestamp | Duration, Dyn) | (Dyn, Timestamp | Duration)
                if matches!(operator, Binary::Add | Binary::Subtract) =>
            {
                Some(Dyn)
            }
            (Dyn, known) | (known, Dyn) => binary(operator, known, known),
            (Duration, Duration) if matches!(operator, Binary::Add | Binary::Subtract) => {
                Some(Duration)
            }
            (Int, Int) | (Uint, Uint) => Some(left.clone()),
            (Double, Double) if operator != Binary::Modulo => Some(Double),
            (String, String) | (Bytes, Bytes) if operator == Binary::Add => Some(left.clone()),
            (List(_), List(_)) if operator == Binary::Add && left.fits(right) => {
                Some(left.clone().join(right))
            }
            _ => None,
        },
    }
}
