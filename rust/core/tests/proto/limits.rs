//! Bounds: of lengths, of depth, of stack.

use ctrlhost_core::json::path::Path;
use ctrlhost_core::proto::{Message, check, lookup, strip_managed_fields, write_json};

use crate::build::{entry, json, message, part, pod, refusal, varint, with_metadata};

// behaviour: scale/SC138
#[test]
fn a_length_beyond_the_end_is_refused_before_anything_is_allocated() {
    for length in [1 << 31, (1 << 32) - 1, 1 << 63, u64::MAX] {
        let long = |field: u64| [varint(field << 3 | 2), varint(length), b"abc".to_vec()].concat();
        for body in [long(1), part(1, long(1)), part(1, long(11)), long(999)] {
            let mut refused = 0;
            let used = allocation_counter::measure(|| {
                let mut out = Vec::new();
                refused += usize::from(write_json(pod(), &body, &mut out, true).is_err());
                refused += usize::from(check(pod(), &body).is_err());
            });
            assert_eq!(refused, 2);
            assert!(used.bytes_max < 1 << 20, "{} bytes", used.bytes_max);
            let why = refusal(pod(), &body);
            assert!(
                why.contains(&format!("a length of {length} goes beyond")),
                "{why}"
            );
        }
        assert!(strip_managed_fields(pod(), &part(1, long(1)), &mut Vec::new()).is_err());
    }
}

fn crd() -> Message {
    message("apiextensions.k8s.io/v1", "CustomResourceDefinition")
}

/// Return a definition whose schema has so many schemas in each other, through `not`.
fn nested(schemas: usize) -> Vec<u8> {
    let schema = (1..schemas).fold(Vec::new(), |inner, _| part(28, inner));
    part(2, part(7, part(4, part(1, schema))))
}

/// Return one whose schemas are in each other by turns through a property, `items` and `additionalProperties`.
fn mixed(schemas: usize) -> Vec<u8> {
    let wrap = |inner: Vec<u8>, turn: usize| match turn % 3 {
        0 => entry(29, "p", inner),
        1 => part(24, part(2, inner)),
        _ => part(30, part(2, inner)),
    };
    let schema = (1..schemas).fold(Vec::new(), wrap);
    part(2, part(7, part(4, part(1, schema))))
}

/// Run on a thread with 256 KiB of stack.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new()
        .stack_size(256 << 10)
        .spawn(work);
    thread.expect("a thread").join().expect("no overflow");
}

// behaviour: scale/SC142
#[test]
fn more_than_100_messages_in_each_other_are_refused_on_a_small_stack() {
    on_a_small_stack(|| {
        // Object, spec, version and validation are the first four.
        let mut out = Vec::new();
        assert!(write_json(crd(), &nested(96), &mut out, false).is_ok());
        assert!(check(crd(), &nested(96)).is_ok());
        let error = check(crd(), &nested(97)).expect_err("too deep");
        assert!(error.to_string().contains("deeper than 100"), "{error}");
        assert!(write_json(crd(), &nested(97), &mut out, false).is_err());
        assert!(check(crd(), &nested(10_000)).is_err());
        assert!(check(crd(), &mixed(50)).is_ok());
        assert!(write_json(crd(), &mixed(50), &mut out, false).is_ok());
        assert!(check(crd(), &mixed(97)).is_err());
        let path = format!(
            "spec.versions[0].schema.openAPIV3Schema{}",
            ".not".repeat(200)
        );
        let path = Path::parse(&path).expect("a path");
        assert!(lookup(crd(), &nested(10_000), &path.0, &mut |_| {}).is_err());
    });
}

/// Return an object with JSON of that depth in it; the object is one more level.
fn with_json(depth: usize) -> Vec<u8> {
    let text = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    part(2, part(1, text))
}

// behaviour: scale/SC142
#[test]
fn more_than_1000_levels_of_json_are_refused_on_a_small_stack() {
    on_a_small_stack(|| {
        let revision = message("apps/v1", "ControllerRevision");
        assert!(check(revision, &with_json(999)).is_ok());
        for depth in [1_000, 1_001, 100_000] {
            let error = check(revision, &with_json(depth)).expect_err("too deep");
            assert!(error.to_string().contains("nested too deep"), "{error}");
        }
        // Envelopes in envelopes are messages in each other.
        let mut body = with_metadata(&[part(1, "inner")]);
        for _ in 0..120 {
            let types = [part(1, "apps/v1"), part(2, "ControllerRevision")].concat();
            let envelope = [b"k8s\0".to_vec(), part(1, types), part(2, &body)].concat();
            body = part(2, part(1, envelope));
        }
        let error = check(revision, &body).expect_err("too deep");
        assert!(error.to_string().contains("deeper than 100"), "{error}");
    });
}

#[test]
fn infinite_numbers_have_no_json() {
    let schema = |value: f64| {
        let number = [varint(9 << 3 | 1), value.to_le_bytes().to_vec()].concat();
        part(2, part(7, part(4, part(1, number))))
    };
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(refusal(crd(), &schema(value)).contains("no infinite numbers"));
    }
    for value in [0.5, -1e-9, 1e21, 5e-324, f64::MAX, 3.0] {
        let written = json(crd(), &schema(value)).expect("a definition");
        let pointer = "/spec/versions/0/schema/openAPIV3Schema/maximum";
        assert_eq!(
            written.pointer(pointer).and_then(serde_json::Value::as_f64),
            Some(value)
        );
    }
}
