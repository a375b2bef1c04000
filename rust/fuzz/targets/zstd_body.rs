//! A compressed body: it gives back what went in, and with any bits flipped an error or the same.
//!
//! The first bytes choose the bits, the rest is a value in the object.
#![no_main]

use std::sync::{Arc, LazyLock};

use ctrlhost_core::compress::{Codec, Samples};
use ctrlhost_core::json::text::quote_into;
use ctrlhost_core::object::{Builder, Object};
use libfuzzer_sys::fuzz_target;

static CODEC: LazyLock<Arc<Codec>> = LazyLock::new(|| {
    let plain: Vec<_> = (0..300)
        .map(|number: u32| object(&number.to_string().repeat(20)))
        .collect();
    let texts: Vec<_> = plain
        .iter()
        .map(|object| object.json().expect("plain"))
        .collect();
    let bodies: Vec<_> = texts.iter().map(|text| text.as_bytes()).collect();
    let samples = Samples::draw(&bodies).expect("enough samples");
    Arc::new(Codec::learn(&samples).expect("compressing pays"))
});

fn object(value: &str) -> Object {
    let mut text = br#"{"metadata":{"name":"a","labels":{"app":"x"}},"data":{"settings":"enabled, as everywhere","value":"#.to_vec();
    quote_into(&mut text, value);
    text.extend_from_slice(br#"},"also":["the same","in all","of","them"]}"#);
    Builder::new("v1", "ConfigMap")
        .parse(&text)
        .expect("an object")
}

fuzz_target!(|bytes: &[u8]| {
    let Some((bits, value)) = bytes.split_first_chunk::<4>() else {
        return;
    };
    let plain = object(&String::from_utf8_lossy(value));
    let Some(packed) = plain.pack(&CODEC) else {
        return;
    };
    let whole = plain.json().expect("plain");
    assert_eq!(packed.json().expect("no damage"), whole);
    assert!(packed == plain);
    let mut falsified = packed;
    for bits in bits.chunks(2) {
        let bit = usize::from(bits[0]) << 8 | usize::from(bits[1]);
        falsified = falsified.falsified(bit).expect("a frame");
        if let Ok(text) = falsified.json() {
            assert_eq!(text, whole);
        }
    }
});
