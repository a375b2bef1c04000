//! Functions of strings. Positions in a string are counted in characters.

use std::sync::Arc;

use crate::equality::Budget;
use crate::error::EvalError;
use crate::value::{Evaluated, Value};

pub(super) fn call(name: &str, text: &Arc<str>, rest: &[Value], budget: &mut Budget) -> Evaluated {
    match (name, rest) {
        ("startsWith", [Value::String(other)]) => Ok(Value::Bool(text.starts_with(other.as_ref()))),
        ("endsWith", [Value::String(other)]) => Ok(Value::Bool(text.ends_with(other.as_ref()))),
        ("contains", [Value::String(other)]) => {
            budget.charge((text.len() / 10) as u64)?;
            Ok(Value::Bool(text.contains(other.as_ref())))
        }
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("strings.quote", []) => Ok(Value::text(quoted(text))),
        ("charAt", [Value::Int(place)]) => match byte_at(text, *place) {
            Some(at) => Ok(Value::text(
                text.get(at..)
                    .unwrap_or_default()
                    .chars()
                    .take(1)
                    .collect::<String>(),
            )),
            None => Err(out_of_range(*place)),
        },
        ("substring", [Value::Int(from)]) => substring(text, *from, None),
        ("substring", [Value::Int(from), Value::Int(to)]) => substring(text, *from, Some(*to)),
        ("indexOf", [Value::String(other), from @ ..]) => {
            index_of(text, other, integer(from).unwrap_or(0))
        }
        ("lastIndexOf", [Value::String(other), to @ ..]) => last_index_of(text, other, integer(to)),
        ("replace", [Value::String(old), Value::String(new), limit @ ..]) => {
            replace(text, old, new, integer(limit).unwrap_or(-1), budget)
        }
        ("split", [Value::String(separator), limit @ ..]) => {
            split(text, separator, integer(limit).unwrap_or(-1), budget)
        }
        _ => Err(EvalError::no_overload()),
    }
}

/// Return the optional last argument.
fn integer(rest: &[Value]) -> Option<i64> {
    match rest {
        [Value::Int(number)] => Some(*number),
        _ => None,
    }
}

fn out_of_range(place: i64) -> EvalError {
    EvalError::because(format!("index out of range: {place}"))
}

/// Return the byte offset of a character; the end counts as a character.
fn byte_at(text: &str, place: i64) -> Option<usize> {
    let place = usize::try_from(place).ok()?;
    text.char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .nth(place)
}

fn count(text: &str) -> i64 {
    i64::try_from(text.chars().count()).unwrap_or(i64::MAX)
}

fn substring(text: &str, from: i64, to: Option<i64>) -> Evaluated {
    let length = count(text);
    let to = to.unwrap_or(length);
    if from > to {
        let why = format!("invalid substring range. start: {from}, end: {to}");
        return Err(if from > length {
            out_of_range(from)
        } else {
            EvalError::because(why)
        });
    }
    for place in [from, to] {
        if !(0..=length).contains(&place) {
            return Err(out_of_range(place));
        }
    }
    let part = byte_at(text, from)
        .zip(byte_at(text, to))
        .and_then(|(from, to)| text.get(from..to));
    Ok(Value::text(part.unwrap_or_default()))
}

fn index_of(text: &str, other: &str, from: i64) -> Evaluated {
    let Some(start) = byte_at(text, from) else {
        return match from {
            ..0 => Err(out_of_range(from)),
            _ if other.is_empty() => Ok(Value::Int(from)),
            _ => Ok(Value::Int(-1)),
        };
    };
    let rest = text.get(start..).unwrap_or_default();
    let place = rest
        .find(other)
        .map(|at| from + count(rest.get(..at).unwrap_or_default()));
    Ok(Value::Int(place.unwrap_or(-1)))
}

/// Return the last match that begins at `to` or before.
fn last_index_of(text: &str, other: &str, to: Option<i64>) -> Evaluated {
    let length = count(text);
    let to = to.unwrap_or(length);
    if !(0..=length).contains(&to) {
        return Err(out_of_range(to));
    }
    let limit = byte_at(text, to).unwrap_or(text.len());
    let end = (limit + other.len()).min(text.len());
    let end = (end..=text.len())
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(text.len());
    let place = text
        .get(..end)
        .and_then(|before| before.rfind(other))
        .filter(|at| *at <= limit);
    Ok(Value::Int(place.map_or(-1, |at| {
        count(text.get(..at).unwrap_or_default())
    })))
}

fn replace(text: &str, old: &str, new: &str, limit: i64, budget: &mut Budget) -> Evaluated {
    let most = usize::try_from(limit).unwrap_or(usize::MAX);
    let times = text.matches(old).take(most).count();
    budget.charge(((text.len() + times.saturating_mul(new.len())) / 10) as u64)?;
    Ok(Value::text(text.replacen(old, new, times)))
}

fn split(text: &str, separator: &str, limit: i64, budget: &mut Budget) -> Evaluated {
    let parts: Vec<Value> = match limit {
        0 => Vec::new(),
        1 => vec![Value::text(text)],
        _ => {
            let most = usize::try_from(limit).unwrap_or(usize::MAX);
            // An empty separator splits between all characters.
            let pieces = if separator.is_empty() {
                text.chars().count()
            } else {
                text.matches(separator).count() + 1
            };
            budget.charge(pieces.min(most) as u64)?;
            if separator.is_empty() {
                characters(text, most)
            } else {
                text.splitn(most, separator).map(Value::text).collect()
            }
        }
    };
    Ok(Value::list(parts))
}

fn characters(text: &str, most: usize) -> Vec<Value> {
    let mut texts = Vec::new();
    let mut rest = text.char_indices().peekable();
    while let Some((at, character)) = rest.next() {
        if texts.len() + 1 == most && rest.peek().is_some() {
            texts.push(Value::text(text.get(at..).unwrap_or_default()));
            break;
        }
        texts.push(Value::text(character.to_string()));
    }
    texts
}

/// Return the string as a literal.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{b}' => out.push_str("\\v"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
