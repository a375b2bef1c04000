//! The `fieldPath` of a rule: a path to a field of the schema.

use serde_json::Value as Json;

/// Return the path as in causes; None if there is no such field, empty for an empty path.
pub(super) fn field_path(mut schema: &Json, path: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = path;
    while !rest.is_empty() {
        let name = if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            rest = after;
            name.to_owned()
        } else {
            let (name, after) = quoted(rest.strip_prefix("['")?)?;
            rest = after;
            name
        };
        if let Some(properties) = schema.get("properties").and_then(Json::as_object) {
            schema = properties.get(&name)?;
            if !out.is_empty() {
                out.push('.');
            }
            out.push_str(&name);
        } else {
            schema = schema
                .get("additionalProperties")
                .filter(|rest| rest.is_object())?;
            out.push('[');
            out.push_str(&name);
            out.push(']');
        }
    }
    Some(out)
}

/// Parse a name in quotes and brackets after its opening quote.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\'' => return Some((name, text.get(at + 1..)?.strip_prefix(']')?)),
            '\\' => name.push(match characters.next()?.1 {
                'a' => '\u{7}',
                'b' => '\u{8}',
                'f' => '\u{c}',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\u{b}',
                other @ ('\'' | '\\') => other,
                _ => return None,
            }),
            other => name.push(other),
        }
    }
    None
}
