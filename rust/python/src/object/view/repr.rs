//! The `repr` of views: that of the dict or list, cut so that a large object does not fill a log.

use std::borrow::Cow;
use std::collections::HashMap;

use ctrlhost_core::json::read::{Kind, Value};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::json::scalar;

/// The longest `repr` of a view, in characters.
const LONGEST: usize = 200;

/// Return the `repr` of the plain copy, cut at 200 characters.
pub(super) fn repr(py: Python<'_>, value: Value<'_>) -> PyResult<String> {
    let mut out = String::new();
    let mut room = LONGEST + 1;
    write(py, &mut out, &mut room, value)?;
    Ok(cut(&out, LONGEST).into_owned())
}

/// Return `text` with at most `longest` characters; the last one is an ellipsis if others are missing.
pub(crate) fn cut(text: &str, longest: usize) -> Cow<'_, str> {
    match text.char_indices().nth(longest.saturating_sub(1)) {
        Some((end, last)) if end + last.len_utf8() < text.len() => {
            Cow::Owned(format!("{}…", &text[..end]))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Append text, and count its characters.
fn put(out: &mut String, room: &mut usize, text: &str) {
    out.push_str(text);
    *room = room.saturating_sub(text.chars().count());
}

/// Append the `repr` of a value while there is room. Each level takes a character, so that the room limits the depth.
fn write(py: Python<'_>, out: &mut String, room: &mut usize, value: Value<'_>) -> PyResult<()> {
    match value.kind() {
        Kind::Object => {
            put(out, room, "{");
            for (index, (key, inner)) in members(value, *room).into_iter().enumerate() {
                if *room == 0 {
                    return Ok(());
                }
                if index > 0 {
                    put(out, room, ", ");
                }
                text(py, out, room, &key)?;
                put(out, room, ": ");
                write(py, out, room, inner)?;
            }
            put(out, room, "}");
        }
        Kind::Array => {
            put(out, room, "[");
            for (index, inner) in value.elements().enumerate() {
                if *room == 0 {
                    return Ok(());
                }
                if index > 0 {
                    put(out, room, ", ");
                }
                write(py, out, room, inner)?;
            }
            put(out, room, "]");
        }
        Kind::String => text(py, out, room, &value.as_str().unwrap_or_default())?,
        // An integer may have more digits than Python converts to text.
        Kind::Number if value.json().len() > LONGEST => put(out, room, value.json()),
        Kind::Number | Kind::Bool | Kind::Null => {
            put(out, room, &scalar(py, value)?.repr()?.to_cow()?);
        }
    }
    Ok(())
}

/// Append the `repr` of a string, or of as much of it as there is room for.
fn text(py: Python<'_>, out: &mut String, room: &mut usize, text: &str) -> PyResult<()> {
    let end = text.char_indices().nth(*room);
    let part = end.map_or(text, |(end, _)| &text[..end]);
    put(out, room, &PyString::new(py, part).repr()?.to_cow()?);
    Ok(())
}

/// Return the first members, at most `most`, each with its last value, as in a dict.
fn members(value: Value<'_>, most: usize) -> Vec<(Cow<'_, str>, Value<'_>)> {
    let mut all: Vec<(Cow<'_, str>, Value<'_>)> = Vec::new();
    let mut places: HashMap<Cow<'_, str>, usize> = HashMap::new();
    for (key, inner) in value.members() {
        let key = key.as_str().unwrap_or_default();
        if let Some(place) = places.get(&key) {
            all[*place].1 = inner;
        } else if all.len() < most {
            places.insert(key.clone(), all.len());
            all.push((key, inner));
        }
    }
    all
}
