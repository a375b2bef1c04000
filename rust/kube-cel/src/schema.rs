//! The types and values of a structural schema in rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use crate::base64;
use crate::parser::is_reserved;
use crate::times;
use crate::types::{ObjectType, Type};
use crate::value::{Key, List, ListKind, Value};

/// Marks objects, not of CRDs, whose fields have the same names in rules.
pub(crate) const PLAIN_NAMES: &str = "plainNames";

/// The form of a schema's values in rules.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) kind: ShapeKind,
    /// The type for the checker.
    pub(crate) of: Type,
}

#[derive(Debug)]
pub(crate) enum ShapeKind {
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
pub(crate) enum Format {
    Plain,
    Bytes,
    Duration,
    Date,
    DateTime,
}

impl Shape {
    /// Return the shape of a schema; None if rules do not see its values. `root` is for objects that have metadata.
    pub(crate) fn of(schema: &Json, root: bool) -> Option<Arc<Self>> {
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
            .iter()
            .flat_map(|(name, (escaped, shape))| {
                let names = names(name, escaped).map(|name| name.to_string());
                names.map(|name| (name, shape.of.clone()))
            })
            .collect();
        let of = Type::Object(Arc::new(ObjectType { fields: types }));
        Self::new(ShapeKind::Object(fields), of)
    }

    /// Convert a value for rules. A value that does not fit the schema, which was checked before, is null.
    pub(crate) fn value(&self, json: &Json) -> Value {
        if json.is_null() {
            return Value::Null;
        }
        match &self.kind {
            ShapeKind::Any => any(json),
            ShapeKind::IntOrString if json.is_string() => text(json, Format::Plain),
            ShapeKind::Bool => Value::Bool(json == &Json::Bool(true)),
            ShapeKind::IntOrString | ShapeKind::Int => int(json),
            ShapeKind::Double => json.as_f64().map_or(Value::Null, Value::Double),
            ShapeKind::Text(format) => text(json, *format),
            ShapeKind::List(items, kind) => Value::List(Arc::new(List {
                items: elements(json).map(|item| items.value(item)).collect(),
                kind: kind.clone(),
            })),
            ShapeKind::Map(rest) => {
                let entries = members(json)
                    .map(|(name, value)| (Key::String(name.as_str().into()), rest.value(value)));
                Value::Map(Arc::new(entries.collect()))
            }
            ShapeKind::Object(fields) => {
                // A null field counts as missing.
                let entries = members(json)
                    .filter(|(_, value)| !value.is_null())
                    .filter_map(|(name, value)| {
                        let (escaped, shape) = fields.get(name)?;
                        let value = shape.value(value);
                        Some(
                            names(name, escaped)
                                .map(move |name| (Key::String(name), value.clone())),
                        )
                    })
                    .flatten();
                Value::Map(Arc::new(entries.collect()))
            }
        }
    }
}

/// Convert a value without a schema.
pub(crate) fn any(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::String(text) => Value::text(text.as_str()),
        Json::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None => number.as_f64().map_or(Value::Null, Value::Double),
        },
        Json::Array(items) => Value::list(items.iter().map(any).collect()),
        Json::Object(members) => {
            let entries = members.iter();
            let entries =
                entries.map(|(name, value)| (Key::String(name.as_str().into()), any(value)));
            Value::Map(Arc::new(entries.collect()))
        }
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the range is checked")]
fn int(json: &Json) -> Value {
    if let Some(number) = json.as_i64() {
        return Value::Int(number);
    }
    match json.as_f64() {
        Some(number) if number.fract() == 0.0 && number.abs() < 9.2e18 => Value::Int(number as i64),
        _ => Value::Null,
    }
}

fn text(json: &Json, format: Format) -> Value {
    let Some(text) = json.as_str() else {
        return Value::Null;
    };
    let value = match format {
        Format::Plain => None,
        Format::Bytes => base64::decode(text).map(|bytes| Value::Bytes(bytes.into())),
        Format::Duration => times::duration(text, true).map(Value::Duration),
        Format::Date => times::parse_date(text).and_then(times::in_range),
        Format::DateTime => times::parse(text).and_then(times::in_range),
    };
    value.unwrap_or_else(|| Value::text(text))
}

/// Iterate over the members of an object; nothing for other kinds.
pub(crate) fn members(json: &Json) -> impl Iterator<Item = (&String, &Json)> {
    json.as_object().into_iter().flatten()
}

/// Iterate over the elements of an array; nothing for other kinds.
pub(crate) fn elements(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

/// Return the string of a member; empty if it is missing.
pub(crate) fn string<'a>(schema: &'a Json, name: &str) -> &'a str {
    schema.get(name).and_then(Json::as_str).unwrap_or_default()
}

/// Return a member that is a schema itself.
pub(crate) fn below<'a>(schema: &'a Json, name: &str) -> Option<&'a Json> {
    schema.get(name).filter(|below| below.is_object())
}

pub(crate) fn properties(schema: &Json) -> impl Iterator<Item = (&String, &Json)> {
    let properties = schema.get("properties").and_then(Json::as_object);
    properties.into_iter().flatten()
}

pub(crate) fn flag(schema: &Json, name: &str) -> bool {
    schema.get(name).and_then(Json::as_bool).unwrap_or(false)
}

/// Return the keys of a list of type map.
pub(crate) fn list_keys(schema: &Json) -> Vec<String> {
    let keys = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Json::as_array);
    let texts = keys.into_iter().flatten().filter_map(Json::as_str);
    texts.map(str::to_owned).collect()
}

/// Return the names of a field in rules: a reserved word is also one as it is, behind a dot.
fn names(name: &str, escaped: &Arc<str>) -> impl Iterator<Item = Arc<str>> + use<> {
    let plain = (is_reserved(name) && escaped.as_ref() != name).then(|| name.into());
    [Arc::clone(escaped)].into_iter().chain(plain)
}

/// Return the name of a field in rules; None if it cannot be named.
pub(crate) fn escape(name: &str) -> Option<String> {
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
