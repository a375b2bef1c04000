//! Decoders under random cuts and random damage: the same objects come out however the bytes are cut, and nothing
//! panics.

use ctrlhost_core::decode::{FrameDecoder, FrameKind, PageDecoder};
use ctrlhost_core::json::scan::{Scan, Shape};
use ctrlhost_core::object::{Builder, ObjectError};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        // Serde does not read every double exactly, but these it does.
        any::<i32>().prop_map(|number| Value::from(f64::from(number) / 16.0)),
        "[ -~\u{e9}\u{2713}\u{1f600}\"\\\\\n\t\u{1}]{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec(
                ("metadata|managedFields|items|name|[a-z\"\\\\]{0,6}", inner),
                0..6
            )
            .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    let members = prop::collection::vec(("[a-zA-Z\"\\\\\u{e9}]{1,8}", value()), 0..4);
    (members, "[a-z]{1,8}", "[a-z]{0,4}", value(), value()).prop_map(|(members, name, namespace, managed, other)| {
        let mut whole: Map<String, Value> = members.into_iter().collect();
        let metadata = json!({"name": name, "namespace": namespace, "managedFields": managed, "other": other,
                              "resourceVersion": "7"});
        whole.insert("metadata".into(), metadata);
        whole.insert("kind".into(), "Thing".into());
        whole.insert("apiVersion".into(), "v1".into());
        Value::Object(whole)
    })
}

/// Return the object as it is cached: without managed fields.
fn kept(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("managedFields");
    }
    object
}

fn written(value: &Value, pretty: bool) -> Vec<u8> {
    let text = if pretty {
        serde_json::to_vec_pretty(value)
    } else {
        serde_json::to_vec(value)
    };
    text.expect("values can be written")
}

fn pieces<'a>(bytes: &'a [u8], cuts: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places
        .windows(2)
        .map(|pair| &bytes[pair[0]..pair[1]])
        .collect()
}

fn parsed(text: &str) -> Value {
    serde_json::from_str(text).expect("what is kept is valid JSON")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_page_gives_the_same_objects_however_it_is_cut(
        objects in prop::collection::vec(object(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
        pretty: bool,
    ) {
        let body = written(&json!({"kind": "ThingList", "items": objects, "metadata": {"resourceVersion": "9"}}), pretty);
        let mut decoder = PageDecoder::new(1 << 20, None);
        let mut builder = Builder::new("v1", "Thing");
        let mut decoded = Vec::new();
        for piece in pieces(&body, &cuts) {
            decoder.feed(piece, &mut |raw| {
                let text = raw.text.to_owned();
                decoded.push(builder.parse(text.as_bytes()).expect("an object"));
            }).expect("the page is good");
        }
        let meta = decoder.finish().expect("the page is complete");
        prop_assert_eq!(usize::try_from(meta.count), Ok(objects.len()));
        prop_assert_eq!(meta.resource_version, "9");
        let decoded: Vec<Value> = decoded.iter().map(|object| parsed(&object.json().expect("plain"))).collect();
        prop_assert_eq!(decoded, objects.iter().map(kept).collect::<Vec<_>>());
    }

    #[test]
    fn a_watch_gives_the_same_frames_however_it_is_cut(
        objects in prop::collection::vec(object(), 0..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..30),
    ) {
        let mut body = Vec::new();
        for object in &objects {
            body.extend(written(&json!({"type": "ADDED", "object": object}), false));
            body.push(b'\n');
        }
        let mut decoder = FrameDecoder::new(1 << 20);
        let mut frames = Vec::new();
        for piece in pieces(&body, &cuts) {
            decoder.feed(piece, &mut |frame| {
                assert_eq!(frame.kind, FrameKind::Added);
                frames.push(parsed(frame.value.json()));
                true
            }).expect("the frames are good");
        }
        decoder.finish(&mut |_| true).expect("nothing is left");
        prop_assert_eq!(frames, objects);
    }

    #[test]
    fn the_scan_accepts_exactly_what_a_json_parser_accepts(
        value in value(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![
            any::<u8>(), prop::sample::select(b"{}[]\",:\\ue0-1.tfn \n".to_vec())
        ]), 0..3),
    ) {
        let mut bytes = written(&json!({"metadata": {"name": "a"}, "value": value}), false);
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let expected = serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok() && std::str::from_utf8(&bytes).is_ok();
        // Serde refuses lone surrogates in some places only; the scan takes them, as Go and Python do.
        let surrogates = bytes.windows(3).any(|three| three[0] == b'\\' && three[1] == b'u' && matches!(three[2], b'd' | b'D'));
        let taken = match Builder::new("v1", "Thing").parse(&bytes) {
            Ok(_) | Err(ObjectError::NoName) => true,
            Err(ObjectError::NotAnObject) => is_json(&bytes),
            Err(_) => false,
        };
        if !surrogates {
            prop_assert_eq!(taken, expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_scan_cut_anywhere_ends_where_an_uncut_one_ends(value in value(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20)) {
        let bytes = written(&json!({"metadata": {"a": 1}, "value": value}), false);
        let mut whole = Scan::new(Shape::Object);
        prop_assert_eq!(whole.advance(&bytes).expect("it is JSON"), Some(bytes.len()));
        let mut scan = Scan::new(Shape::Object);
        let mut end = 0;
        let mut result = None;
        for piece in pieces(&bytes, &cuts) {
            end += piece.len();
            if result.is_none() {
                result = scan.advance(&bytes[..end]).expect("it is JSON");
            }
        }
        prop_assert_eq!(result, Some(bytes.len()));
        prop_assert_eq!(scan.members(0), whole.members(0));
        prop_assert_eq!(scan.members(1), whole.members(1));
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..5)) {
        let mut page = PageDecoder::new(100, None);
        let mut frames = FrameDecoder::new(100);
        for piece in pieces(&bytes, &cuts) {
            let _ = page.feed(piece, &mut |_| {});
            let _ = frames.feed(piece, &mut |_| true);
        }
        let _ = page.finish();
        let _ = frames.finish(&mut |_| true);
        let _ = Builder::new("v1", "Thing").parse(&bytes);
    }
}

/// Valid JSON that is not an object is still JSON.
fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok()
}
