//! Messages from fields.

use ctrlhost_core::proto::{Message, ProtoError, Table, check, write_json};
use serde_json::Value;

/// Return a number as it is on the wire.
pub(crate) fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
    out
}

/// Return a field that holds a number.
pub(crate) fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value.cast_unsigned())].concat()
}

/// Return a field that holds bytes, a string or a message.
pub(crate) fn part(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [
        varint(field << 3 | 2),
        varint(content.len() as u64),
        content.to_vec(),
    ]
    .concat()
}

/// Return an entry of a map.
pub(crate) fn entry(field: u64, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Vec<u8> {
    part(field, [part(1, key), part(2, value)].concat())
}

/// Return the message of a kind.
pub(crate) fn message(api_version: &str, kind: &str) -> Message {
    Table::kind(api_version, kind).unwrap_or_else(|| panic!("{api_version}/{kind}"))
}

pub(crate) fn pod() -> Message {
    message("v1", "Pod")
}

/// Return a pod with this metadata.
pub(crate) fn with_metadata(metadata: &[Vec<u8>]) -> Vec<u8> {
    part(1, metadata.concat())
}

/// Return a message as JSON; what writes it and what checks it must be of one opinion.
pub(crate) fn json(message: Message, body: &[u8]) -> Result<Value, ProtoError> {
    let mut out = Vec::new();
    let written = write_json(message, body, &mut out, false);
    assert_eq!(check(message, body), written);
    written.map(|_| serde_json::from_slice(&out).expect("JSON"))
}

/// Return the value at a JSON pointer of a message.
pub(crate) fn at(message: Message, body: &[u8], pointer: &str) -> Value {
    let object = json(message, body).expect("a message");
    object.pointer(pointer).cloned().unwrap_or(Value::Null)
}

/// Return why a message is refused.
pub(crate) fn refusal(message: Message, body: &[u8]) -> String {
    match json(message, body) {
        Ok(object) => panic!("accepted: {object}"),
        Err(error) => error.to_string(),
    }
}
