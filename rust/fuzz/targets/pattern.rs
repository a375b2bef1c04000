//! A pattern of a schema and a text to match: neither causes a panic or takes long.
#![no_main]

use kube_cel::pattern::Pattern;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    let (pattern, text) = input
        .split_once('\n')
        .unwrap_or((input, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!"));
    if let Ok(pattern) = Pattern::new(pattern) {
        let _ = pattern.is_match(text.as_bytes());
    }
});
