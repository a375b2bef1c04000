//! The types and values of a structural schema in rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::primaries::is_reserved;
use super::times;
use super::types::{ObjectType, Type};
use super::value::{Key, List, ListKind, Value};
use ctrlhost_core::json::read;

/// Marks objects, not of CRDs, whose fields have the same names in rules.
pub(super) const PLAIN_NAMES: &str = "plainNames";

/// The form of a schema's values in rules.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) kind: ShapeKind,
    /// The type for the checker.
    pub(super) of: Type,
}

#[derive(Debug)]
pub(super) enum ShapeKind {
    /// A value without a schema.
    Any,
    /// Either an integer or a string.
    IntOrString,
    Bool,
    Int,
    Double,
    Text(Format),
    List(Arc<Shape>, ListKind),
    Map(Arc<Shape>),
    /// Fields by their names in JSON, with their names in rules.
    Object(BTreeMap<String, (Arc<str>, Arc<Shape>)>),
}

/// Formats of strings that are other types in rules.
#[derive(Clone, Copy, Debug)]
pub(super) enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

impl Shape {
    /// Return the shape of a schema; None if rules do not see its values. `root` is for objects that have metadata.
    pub(super) fn of(schema: &Json, root: bool) -> Option<Arc<Self>> {
        let text = |name| string(schema, name);
        if flag(schema, "x-kubernetes-int-or-string") {
            return Some(Self::new(ShapeKind::IntOrString, Type::Dyn));
        }
        let (kind, of) = match text("type") {
            "boolean" => (ShapeKind::Bool, Type::Bool),
            "integer" => (ShapeKind::Int, Type::Int),
            "number" => (ShapeKind::Double, Type::Double),
            "string" => {
                let (format, of) = match text("format") {
                    "byte" => (Format::Bytes, Type::Bytes),
                    "duration" => (Format::Duration, Type::Duration),
                    "date" => (Format::Date, Type::Timestamp),
                    "date-time" => (Format::DateTime, Type::Timestamp),
                    _ => (Format::Plain, Type::String),
                };
                (ShapeKind::Text(format), of)
            }
            "array" => {
                let items = below(schema, "items")?;
                let items = Self::of(items, flag(items, "x-kubernetes-embedded-resource"))?;
                let of = Type::list(items.of.clone());
                let kind = match text("x-kubernetes-list-type") {
                    "set" => ListKind::Set,
                    "map" => ListKind::Map(list_keys(schema).into()),
                    _ => ListKind::Atomic,
                };
                (ShapeKind::List(items, kind), of)
            }
            "object" => return Self::object(schema, root),
            // Not in CRDs: parts of an admission request.
            "any" => (ShapeKind::Any, Type::Dyn),
            _ => return None,
        };
        Some(Self::new(kind, of))
    }

    fn new(kind: ShapeKind, of: Type) -> Arc<Self> {
        Arc::new(Self { kind, of })
    }

    fn object(schema: &Json, root: bool) -> Option<Arc<Self>> {
        if !root && let Some(rest) = below(schema, "additionalProperties") {
            let rest = Self::of(rest, flag(rest, "x-kubernetes-embedded-resource"))?;
            let of = Type::map(Type::String, rest.of.clone());
            return Some(Self::new(ShapeKind::Map(rest), of));
        }
        let mut fields = BTreeMap::new();
        let plain = flag(schema, PLAIN_NAMES);
        for (name, property) in properties(schema) {
            let shape = Self::of(property, flag(property, "x-kubernetes-embedded-resource"));
            let named = if plain {
                Some(name.clone())
            } else {
                escape(name)
            };
            if let Some((escaped, shape)) = named.zip(shape) {
                fields.insert(name.clone(), (escaped.into(), shape));
            }
        }
        if root {
            let text = || Self::new(ShapeKind::Text(Format::Plain), Type::String);
            let mut metadata = BTreeMap::new();
            for name in ["name", "generateName"] {
                metadata.insert(name.to_owned(), (name.into(), text()));
            }
            for name in ["apiVersion", "kind"] {
                fields.insert(name.to_owned(), (name.into(), text()));
            }
            fields.insert(
                "metadata".to_owned(),
                ("metadata".into(), Self::of_fields(metadata)),
            );
        }
        Some(Self::of_fields(fields))
    }

    fn of_fields(fields: BTreeMap<String, (Arc<str>, Arc<Self>)>) -> Arc<Self> {
        let types = fields
            .values()
            .map(|(name, shape)| (name.to_string(), shape.of.clone()))
            .collect();
        let of = Type::Object(Arc::new(ObjectType { fields: types }));
        Self::new(ShapeKind::Object(fields), of)
    }

    /// Convert a value for rules. A value that does not fit the schema, which was checked before, is null.
    pub(super) fn value(&self, json: read::Value<'_>) -> Value {
        if json.kind() == read::Kind::Null {
            return Value::Null;
        }
        match &self.kind {
            ShapeKind::Any => any(json),
            ShapeKind::IntOrString => match json.kind() {
                read::Kind::String => text(json, Format::Plain),
                _ => int(json),
            },
            ShapeKind::Bool => Value::Bool(json.is_true()),
            ShapeKind::Int => int(json),
            ShapeKind::Double => json.json().parse().map_or(Value::Null, Value::Double),
            ShapeKind::Text(format) => text(json, *format),
            ShapeKind::List(items, kind) => Value::List(Arc::new(List {
                items: json.elements().map(|item| items.value(item)).collect(),
                kind: kind.clone(),
            })),
            ShapeKind::Map(rest) => {
                let entries = json.members().map(|(name, value)| {
                    let name = name.as_str().unwrap_or_default();
                    (Key::String(name.as_ref().into()), rest.value(value))
                });
                Value::Map(Arc::new(entries.collect()))
            }
            ShapeKind::Object(fields) => {
                // A null field counts as missing.
                let there = |value: &read::Value<'_>| value.kind() != read::Kind::Null;
                let entries =
                    json.members()
                        .filter(|(_, value)| there(value))
                        .filter_map(|(name, value)| {
                            let (escaped, shape) = fields.get(name.as_str()?.as_ref())?;
                            Some((Key::String(Arc::clone(escaped)), shape.value(value)))
                        });
                Value::Map(Arc::new(entries.collect()))
            }
        }
    }
}

/// Convert a value without a schema.
pub(super) fn any(json: read::Value<'_>) -> Value {
    match json.kind() {
        read::Kind::Null => Value::Null,
        read::Kind::Bool => Value::Bool(json.is_true()),
        read::Kind::String => text(json, Format::Plain),
        read::Kind::Number => json.json().parse().map_or_else(
            |_| json.json().parse().map_or(Value::Null, Value::Double),
            Value::Int,
        ),
        read::Kind::Array => Value::list(json.elements().map(any).collect()),
        read::Kind::Object => {
            let entries = json.members().map(|(name, value)| {
                let name = name.as_str().unwrap_or_default();
                (Key::String(name.as_ref().into()), any(value))
            });
            Value::Map(Arc::new(entries.collect()))
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
fn int(json: read::Value<'_>) -> Value {
    if let Ok(number) = json.json().parse() {
        return Value::Int(number);
    }
    match json.json().parse::<f64>() {
        Ok(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => Value::Int(number as i64),
        _ => Value::Null,
    }
}

fn text(json: read::Value<'_>, format: Format) -> Value {
    let Some(text) = json.as_str() else {
        return Value::Null;
    };
    let found = match format {
        Format::Plain => None,
        Format::Bytes => base64(&text).map(|bytes| Value::Bytes(bytes.into())),
        Format::Duration => times::duration(&text, true).map(Value::Duration),
        Format::Date => times::parse_date(&text).and_then(times::in_range),
        Format::DateTime => times::parse(&text).and_then(times::in_range),
    };
    found.unwrap_or_else(|| Value::text(text.as_ref()))
}

/// Return the string of a member; empty if it is missing.
pub(super) fn string<'a>(schema: &'a Json, name: &str) -> &'a str {
    schema.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// Return a member that is a schema itself.
pub(super) fn below<'a>(schema: &'a Json, name: &str) -> Option<&'a Json> {
    schema.get(name).filter(|below| below.is_object())
}

pub(super) fn properties(schema: &Json) -> impl Iterator<Item = (&String, &Json)> {
    let found = schema.get("properties").and_then(Json::as_object);
    found.into_iter().flatten()
}

pub(super) fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool).unwrap_or(false)
}

/// Return the keys of a list of type map.
pub(super) fn list_keys(schema: &Json) -> Vec<String> {
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Json::as_array);
    let texts = keys.into_iter().flatten().filter_map(Json::as_str);
    texts.map(str::to_owned).collect()
}

/// Return the name of a field in rules; None if it cannot be named.
pub(super) fn escape(name: &str) -> Option<String> {
    if name.is_empty() || name.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    // Words that cannot be fields as they are.
    if matches!(name, "true" | "false" | "null" | "in") || is_reserved(name) {
        return Some(format!("__{name}__"));
    }
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-' | b'/');
    if !name.bytes().all(plain) {
        return None;
    }
    Some(
        name.replace("__", "__underscores__")
            .replace('.', "__dot__")
            .replace('-', "__dash__")
            .replace('/', "__slash__"),
    )
}

/// Decode base 64.
pub(super) fn base64(text: &str) -> Option<Vec<u8>> {
    let body = text.trim_end_matches('=');
    if !text.len().is_multiple_of(4) || text.len() - body.len() > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(body.len() * 3 / 4);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in body.bytes() {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = (bits << 6) | u32::from(digit);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push(u8::try_from((bits >> count) & 0xff).ok()?);
        }
    }
    Some(out)
}
