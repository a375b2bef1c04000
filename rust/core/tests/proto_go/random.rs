//! Objects filled at random, whole and with their fields in another order: Go's own decoder and encoder say what they are.
//!
//! `CTRLHOST_RANDOM_OBJECTS` sets how many of each kind there are; a thousand take some minutes.

use std::process::Command;

use ctrlhost_core::json::{self, path::Step};
use ctrlhost_core::proto::{Message, Table, header, lookup, strip_managed_fields, write_json};
use serde_json::Value;

use super::{decoded, difference, remove_claim_types, run};

/// A message, and what Go makes of it.
pub(super) struct Pair<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    pub(super) body: &'a [u8],
    /// Empty if Go refuses the message.
    pub(super) json: &'a [u8],
}

pub(super) fn output(command: &str, count: usize, seed: u64) -> Option<Vec<u8>> {
    let numbers = [count.to_string(), seed.to_string()];
    run(Command::new("bin/protobuf").arg(command).args(numbers))
}

fn next<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let (length, after) = rest.split_first_chunk::<4>().expect("a length");
    let (part, after) = after.split_at(u32::from_le_bytes(*length) as usize);
    *rest = after;
    part
}

/// Call `see` with each pair; return how many there are.
pub(super) fn pairs(mut rest: &[u8], mut see: impl FnMut(&Pair<'_>)) -> usize {
    let mut count = 0;
    while !rest.is_empty() {
        let mut text = || std::str::from_utf8(next(&mut rest)).expect("text");
        let (api_version, kind) = (text(), text());
        see(&Pair {
            api_version,
            kind,
            body: next(&mut rest),
            json: next(&mut rest),
        });
        count += 1;
    }
    count
}

// behaviour: scale/SC70
#[test]
#[ignore = "needs Go: make test-real runs it"]
fn random_objects_of_each_kind_are_what_go_makes_of_them() {
    const BATCH: usize = 5;
    let wanted = std::env::var("CTRLHOST_RANDOM_OBJECTS").ok();
    let wanted = wanted.and_then(|count| count.parse().ok()).unwrap_or(BATCH);
    for (seed, _) in (0_u64..).zip((0..wanted).step_by(BATCH)) {
        let Some(output) = output("random", BATCH, seed) else {
            return;
        };
        let count = pairs(&output, |pair| {
            let name = format!("{}/{}", pair.api_version, pair.kind);
            let message = Table::kind(pair.api_version, pair.kind).expect("the kind");
            let (mut found, unknown) = decoded(message, pair.body);
            assert_eq!(unknown, 0, "{name}");
            remove_claim_types(&mut found);
            let wanted: Value = serde_json::from_slice(pair.json).expect("JSON");
            let body = pair.body.escape_ascii();
            assert_eq!(difference("", &found, &wanted), None, "{name} {body}");
            readers_agree(message, pair.body);
        });
        assert_eq!(count, 2 * BATCH * Table::kinds().count());
    }
}

/// Each reader must find what the whole object has.
fn readers_agree(message: Message, body: &[u8]) {
    let mut out = Vec::new();
    write_json(message, body, &mut out, true).expect("a message");
    let whole: Value = serde_json::from_slice(&out).expect("JSON");
    let mut stripped = Vec::new();
    let is_object = strip_managed_fields(message, body, &mut stripped).is_ok();
    let body = if is_object { &stripped } else { body };
    let mut paths = Vec::new();
    collect(&whole, &mut Vec::new(), &mut paths);
    for (path, value) in paths.iter().step_by(1 + paths.len() / 50) {
        let mut actual = Vec::new();
        let mut visit = |value: json::read::Value<'_>| actual.push(value.json().to_owned());
        lookup(message, body, path, &mut visit).expect("a message");
        let actual: Vec<Value> = actual
            .iter()
            .map(|text| serde_json::from_str(text).expect("JSON"))
            .collect();
        assert_eq!(
            actual,
            [Value::clone(value)],
            "{path:?} of {}",
            message.name()
        );
    }
    if !is_object {
        // Lists and options.
        return;
    }
    let mut out = Vec::new();
    write_json(message, &stripped, &mut out, false).expect("a message");
    let object: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(difference("", &object, &whole), None);
    let header = header(message, &stripped).expect("a header");
    let metadata = &whole["metadata"];
    let text = |name: &str| metadata[name].as_str().unwrap_or_default();
    assert_eq!(header.name, text("name"));
    assert_eq!(header.namespace, text("namespace"));
    assert_eq!(header.uid, text("uid"));
    assert_eq!(header.resource_version, text("resourceVersion"));
    let generation = metadata["generation"].as_i64();
    assert_eq!(header.generation, generation.unwrap_or_default());
    let deleted = metadata["deletionTimestamp"].as_str();
    assert_eq!(header.deletion_timestamp.as_deref(), deleted);
    for (entries, name) in [
        (header.labels, "labels"),
        (header.annotations, "annotations"),
    ] {
        let actual = entries
            .pairs()
            .map(|(key, value)| (key.into(), value.into()));
        let actual: serde_json::Map<String, Value> = actual.collect();
        let wanted = metadata[name].as_object().cloned();
        assert_eq!(actual, wanted.unwrap_or_default());
    }
    let finalizers: Vec<_> = header.finalizers.texts().map(Value::from).collect();
    let wanted = metadata["finalizers"].as_array().cloned();
    assert_eq!(finalizers, wanted.unwrap_or_default());
}

/// Collect the paths to all values of an object, with the values.
pub(super) fn collect<'a>(
    value: &'a Value,
    path: &mut Vec<Step>,
    collected: &mut Vec<(Vec<Step>, &'a Value)>,
) {
    if !path.is_empty() {
        collected.push((path.clone(), value));
    }
    match value {
        Value::Object(members) => {
            for (key, inner) in members {
                path.push(Step::Key(key.as_str().into()));
                collect(inner, path, collected);
                path.pop();
            }
        }
        Value::Array(elements) => {
            for (index, inner) in elements.iter().enumerate() {
                path.push(Step::Index(index));
                collect(inner, path, collected);
                path.pop();
            }
        }
        _ => {}
    }
}

// behaviour: scale/SC72
#[test]
#[ignore = "needs Go: make test-real runs it"]
fn odd_quantities_are_what_go_makes_of_them() {
    let Some(output) = output("quantities", 20_000, 0) else {
        return;
    };
    let mut refused = 0;
    let count = pairs(&output, |pair| {
        let message = Table::kind(pair.api_version, pair.kind).expect("the kind");
        let mut out = Vec::new();
        let result = write_json(message, pair.body, &mut out, false);
        let body = pair.body.escape_ascii();
        assert_eq!(result.is_err(), pair.json.is_empty(), "{body}: {result:?}");
        if result.is_err() {
            refused += 1;
            return;
        }
        let actual: Value = serde_json::from_slice(&out).expect("JSON");
        let wanted: Value = serde_json::from_slice(pair.json).expect("JSON");
        assert_eq!(difference("", &actual, &wanted), None, "{body}");
    });
    assert!(refused * 2 < count, "{refused} of {count} refused");
}
