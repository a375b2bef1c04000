//! One protobuf message: nothing panics, all readers agree, and what is written is valid JSON.
//!
//! The first two bytes choose the kind.
#![no_main]

use ctrlhost_core::json::path::Step;
use ctrlhost_core::json::read::Value;
use ctrlhost_core::json::scan::whole;
use ctrlhost_core::proto::{Table, check, header, lookup, strip_managed_fields, write_json};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(([low, high], body)) = bytes.split_first_chunk() else {
        return;
    };
    let number = usize::from(u16::from_le_bytes([*low, *high]));
    let Some(message) = Table::kinds().nth(number % Table::kinds().count()) else {
        return;
    };
    let mut out = Vec::new();
    let written = write_json(message, body, &mut out, true);
    let _ = header(message, body);
    let mut stripped = Vec::new();
    let is_object = strip_managed_fields(message, body, &mut stripped).is_ok();
    if written.is_err() {
        assert!(check(message, body).is_err());
        return;
    }
    let text = whole(&out, 0).expect("valid JSON");
    if is_object {
        let mut again = Vec::new();
        assert!(check(message, &stripped).is_ok());
        write_json(message, &stripped, &mut again, false).expect("a message");
        assert_eq!(text.as_bytes(), again);
        assert!(header(message, &stripped).is_ok());
    }
    let body = if is_object { &stripped } else { body };
    for (key, value) in Value::of_json(text).members() {
        let name: Box<str> = key.as_str().expect("a key").into();
        let mut found = Vec::new();
        let mut visit = |value: Value<'_>| found.push(value.json().to_owned());
        lookup(message, body, &[Step::Key(name.clone())], &mut visit).expect("a message");
        assert_eq!(found, [value.json()], "{name}");
    }
});
