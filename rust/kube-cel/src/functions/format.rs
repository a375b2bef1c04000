//! `'…%s…'.format([…])`

use crate::convert;
use crate::equality::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, Key, Value};

/// The maximum number of decimals.
const MAX_PRECISION: usize = 1_000;

pub(super) fn format(text: &str, args: &[Value], budget: &mut Budget) -> Evaluated {
    let mut out = String::new();
    let mut args = args.iter();
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let from = from.get(1..).unwrap_or_default();
        if let Some(after) = from.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let (precision, after) = precision(from)?;
        let mut characters = after.chars();
        let Some(clause) = characters.next() else {
            return Err(EvalError::because("unexpected end of string"));
        };
        rest = characters.as_str();
        let Some(arg) = args.next() else {
            return Err(EvalError::because("index 0 out of range"));
        };
        let formatted = clause_of(clause, precision, arg, budget)?;
        budget.charge((formatted.len() / 10) as u64 + 1)?;
        out.push_str(&formatted);
    }
    out.push_str(rest);
    Ok(Value::text(out))
}

fn precision(text: &str) -> Result<(Option<usize>, &str), EvalError> {
    let Some(digits) = text.strip_prefix('.') else {
        return Ok((None, text));
    };
    let end = digits
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(digits.len());
    let (number, after) = digits.split_at(end);
    match number.parse() {
        Ok(precision) if precision <= MAX_PRECISION => Ok((Some(precision), after)),
        _ => Err(EvalError::because("error while parsing precision")),
    }
}

fn clause_of(
    clause: char,
    precision: Option<usize>,
    value: &Value,
    budget: &mut Budget,
) -> Result<String, EvalError> {
    let wrong = || {
        EvalError::because(format!(
            "no formatting function for %{clause} of {}",
            value.type_name()
        ))
    };
    Ok(match (clause, value) {
        ('s', _) => shown(value, budget)?,
        ('d', Value::Int(_) | Value::Uint(_)) => plain(value)?,
        ('f' | 'e', Value::Double(_) | Value::Int(_) | Value::Uint(_)) => {
            let Value::Double(number) = convert::double(value)? else {
                return Err(wrong());
            };
            let precision = precision.unwrap_or(6);
            if clause == 'f' {
                return Ok(format!("{number:.precision$}"));
            }
            let text = format!("{number:.precision$e}");
            match text.split_once('e') {
                Some((digits, exponent)) => {
                    let exponent: i32 = exponent.parse().unwrap_or(0);
                    let sign = if exponent < 0 { '-' } else { '+' };
                    format!("{digits}e{sign}{:02}", exponent.abs())
                }
                None => text,
            }
        }
        ('b', Value::Bool(truth)) => u8::from(*truth).to_string(),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('x', Value::Uint(number)) => format!("{number:x}"),
        ('X', Value::Uint(number)) => format!("{number:X}"),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('b' | 'x' | 'X' | 'o', Value::Int(number)) => {
            let (sign, size) = (if *number < 0 { "-" } else { "" }, number.unsigned_abs());
            match clause {
                'b' => format!("{sign}{size:b}"),
                'x' => format!("{sign}{size:x}"),
                'X' => format!("{sign}{size:X}"),
                _ => format!("{sign}{size:o}"),
            }
        }
        ('x' | 'X', Value::String(_) | Value::Bytes(_)) => {
            let bytes: &[u8] = match value {
                Value::String(text) => text.as_bytes(),
                Value::Bytes(bytes) => bytes,
                _ => return Err(wrong()),
            };
            budget.charge(bytes.len() as u64 / 5)?;
            let digit = |byte: &u8| match clause {
                'x' => format!("{byte:02x}"),
                _ => format!("{byte:02X}"),
            };
            bytes.iter().map(digit).collect()
        }
        _ => return Err(wrong()),
    })
}

fn plain(value: &Value) -> Result<String, EvalError> {
    match convert::string(value)? {
        Value::String(text) => Ok(text.to_string()),
        _ => Err(EvalError::no_overload()),
    }
}

fn shown(value: &Value, budget: &mut Budget) -> Result<String, EvalError> {
    budget.charge(value.weight())?;
    Ok(match value {
        Value::Null => "null".to_owned(),
        Value::Type(name) => name.to_string(),
        Value::List(list) => {
            let mut parts = Vec::with_capacity(list.items.len());
            for item in &list.items {
                parts.push(shown(item, budget)?);
            }
            format!("[{}]", parts.join(", "))
        }
        Value::Map(map) => {
            let mut parts = Vec::with_capacity(map.len());
            for (key, item) in map.iter() {
                let key = match key {
                    Key::Bool(truth) => truth.to_string(),
                    Key::Int(number) => number.to_string(),
                    Key::String(text) => text.to_string(),
                };
                parts.push(format!("{key}: {}", shown(item, budget)?));
            }
            format!("{{{}}}", parts.join(", "))
        }
        _ => plain(value)?,
    })
}
