//! One object: accepted input is valid JSON, and so is what is kept of it.
#![no_main]

use ctrlhost_core::object::Builder;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(object) = Builder::new("v1", "Pod").parse(bytes) {
        let text = &*object.json().expect("a plain body");
        let kept: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(text);
        assert!(kept.is_ok(), "kept invalid JSON: {text}");
        assert!(!object.name().is_empty());
        // Reading labels and owners must not panic, whatever their types are.
        let _ = format!("{object:?}");
    }
});
