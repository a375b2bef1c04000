//! A path of an index: no text causes a panic, neither parsed nor applied.
#![no_main]

use ctrlhost_core::json::{path::Path, read::Value};
use libfuzzer_sys::fuzz_target;

const DOCUMENT: &str = r#"{"spec":{"rules":[{"host":"a"},{"host":null},7,{"host":["b"]}],"a.b":{"":1}},"e":{}}"#;

fuzz_target!(|text: &str| {
    if let Ok(path) = Path::parse(text) {
        let _ = path.texts(Value::of_json(DOCUMENT));
    }
});
