//! Results of expressions as JSON.

use serde_json::{Map, Number, Value as Json};

use crate::convert;
use crate::value::{Key, Message, Value};

/// Return a result as JSON; the error says why there is none.
pub(crate) fn of(value: &Value) -> Result<Json, String> {
    Ok(match value {
        Value::Null | Value::Optional(None) => Json::Null,
        Value::Bool(truth) => Json::Bool(*truth),
        Value::Int(number) => (*number).into(),
        Value::Uint(number) => (*number).into(),
        Value::Double(number) => Number::from_f64(*number)
            .map(Json::Number)
            .ok_or_else(|| format!("{number} is not a number of JSON"))?,
        Value::String(text) => text.as_ref().into(),
        Value::List(list) => Json::Array(list.items.iter().map(of).collect::<Result<_, _>>()?),
        Value::Map(map) => {
            let mut members = Map::new();
            for (key, value) in map.iter() {
                let Key::String(name) = key else {
                    return Err(format!("map key {key:?} is not a string"));
                };
                members.insert(name.to_string(), of(value)?);
            }
            Json::Object(members)
        }
        Value::Message(message) => {
            let entries = message.fields.iter();
            let entries = entries.map(|(name, value)| Ok((name.clone(), of(value)?)));
            Json::Object(entries.collect::<Result<_, String>>()?)
        }
        Value::Optional(Some(inner)) => of(inner)?,
        other => match convert::string(other) {
            Ok(Value::String(text)) => text.as_ref().into(),
            _ => return Err(format!("{} has no form in JSON", other.type_name())),
        },
    })
}

/// Return an error unless the names of messages spell the paths at which they stand.
pub(crate) fn check_names(value: &Value, path: &str) -> Result<(), String> {
    let mut wrong = Vec::new();
    collect(value, path, &mut wrong);
    if wrong.is_empty() {
        return Ok(());
    }
    Err(format!("type mismatch: {}", wrong.join("\n")))
}

fn collect(value: &Value, path: &str, wrong: &mut Vec<String>) {
    match value {
        Value::Message(message) => {
            let Message { name, fields } = message.as_ref();
            if name.as_ref() != path {
                wrong.push(format!(
                    "unexpected type name {name:?}, expected {path:?}, which matches field name path from root Object type"
                ));
            }
            for (field, value) in fields {
                collect(value, &format!("{path}.{field}"), wrong);
            }
        }
        Value::List(list) => {
            for item in &list.items {
                collect(item, path, wrong);
            }
        }
        Value::Map(map) => {
            for value in map.values() {
                collect(value, path, wrong);
            }
        }
        _ => {}
    }
}
