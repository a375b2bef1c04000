//! Damaged bytes: an error with its place, nothing beyond it, and never a panic.

use ctrlhost_core::informer::FeedError;
use proptest::prelude::*;

use super::rig::{PROTO, content, count, informer, page, watch};
use super::wire::{envelope, event, frame, list, message, pod, varint};

fn pods() -> Vec<u8> {
    list("PodList", 9, &[pod("a", 1), pod("b", 2), pod("c", 3)])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    // behaviour: scale/SC137
    #[test]
    fn flipped_bits_never_panic_and_never_store_half_an_object(
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0..8_u32), 1..6),
        streamed in any::<bool>(),
    ) {
        let mut bytes = if streamed {
            [event("ADDED", &pod("a", 1)), event("ADDED", &pod("b", 2))].concat()
        } else {
            pods()
        };
        for (at, bit) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        let informer = informer();
        if streamed {
            let _ = watch(&informer, &[&bytes]);
        } else {
            informer.begin_list();
            let _ = page(&informer, &[&bytes]);
            informer.replace("9").expect("there is no budget");
        }
        informer.process();
        for (key, object) in informer.store().entries() {
            prop_assert_eq!(&key, object.key());
            let json: serde_json::Value = serde_json::from_str(&object.json().expect("plain")).expect("JSON");
            prop_assert_eq!(json["metadata"]["name"].as_str(), Some(object.name()));
            prop_assert_eq!(json["metadata"]["resourceVersion"].as_str().unwrap_or(""), &*object.resource_version());
            prop_assert!(json["metadata"].get("managedFields").is_none());
        }
    }
}

// behaviour: scale/SC138
#[test]
fn a_declared_length_beyond_the_limit_is_refused_before_anything_is_held() {
    for length in [1_u64 << 31, (1 << 32) - 1, 1 << 63] {
        let mut item = b"k8s\0".to_vec();
        item.extend(message(&[(
            1,
            (&message(&[(1, "v1".into()), (2, "PodList".into())])).into(),
        )]));
        item.push(0x12);
        item.extend(varint(u64::MAX >> 1));
        item.push(0x12);
        item.extend(varint(length));
        let informer = informer();
        informer.begin_list();
        let mut refused = None;
        let info = allocation_counter::measure(|| refused = page(&informer, &[&item]).err());
        let refused = refused.expect("too large");
        assert!(
            refused.what.contains("larger than 4096 bytes")
                || refused.what.contains("beyond the end"),
            "{refused}"
        );
        assert!(info.bytes_total < 1 << 20, "{}", info.bytes_total);
    }
    // A frame, the object in it, and its envelope.
    let inside = |number: u8, length: u64| {
        let field = [vec![number << 3 | 2], varint(length), b"abc".to_vec()].concat();
        let size = u32::try_from(field.len()).expect("a small frame");
        [size.to_be_bytes().to_vec(), field].concat()
    };
    for length in [1_u32 << 31, u32::MAX] {
        for stream in [
            length.to_be_bytes().to_vec(),
            inside(2, length.into()),
            inside(2, 1 << 63),
        ] {
            let (informer, mut refused) = (informer(), None);
            let info = allocation_counter::measure(|| refused = watch(&informer, &[&stream]).err());
            let refused = refused.expect("too large");
            assert!(
                refused.what.contains("larger than 4096 bytes")
                    || refused.what.contains("beyond the end"),
                "{refused}"
            );
            assert!(info.bytes_total < 1 << 20, "{}", info.bytes_total);
        }
    }
}

// behaviour: scale/SC143
#[test]
fn an_envelope_that_is_none_or_of_something_else_is_named() {
    let types = |kind: &str| message(&[(1, "v1".into()), (2, kind.into())]);
    let of = |fields: Vec<u8>| [b"k8s\0".to_vec(), fields].concat();
    let cases: [(Vec<u8>, &str); 7] = [
        (b"k8t\0".to_vec(), "expected `k8s\\0`"),
        (
            b"  <html><body>log in</body>".to_vec(),
            "HTML, as of a proxy or a login page: no protobuf of Kubernetes: expected `k8s\\0`",
        ),
        (b"{\"kind\":\"PodList\"}".to_vec(), "expected `k8s\\0`"),
        (
            of(message(&[
                (1, (&types("PodList")).into()),
                (2, "".into()),
                (3, "gzip".into()),
            ])),
            "encoded as `gzip`",
        ),
        (
            of(message(&[
                (1, (&types("PodList")).into()),
                (2, "".into()),
                (4, "application/json".into()),
            ])),
            "of the type `application/json`",
        ),
        (envelope("PodList", b"{\"items\":[]}"), "the list is JSON"),
        (list("NodeList", 1, &[]), "expected a list, got a NodeList"),
    ];
    for (bytes, what) in cases {
        let informer = informer();
        informer.begin_list();
        let error = page(&informer, &[&bytes]).expect_err(what);
        assert!(error.what.contains(what), "{error}");
        assert!(
            error
                .to_string()
                .contains(&bytes[..4].escape_ascii().to_string()),
            "{error}"
        );
        assert_eq!(count(&informer, "decode_errors"), 1);
    }
    for (object, what) in [
        (of(vec![])[..3].to_vec(), "no `k8s\\0` at the start"),
        (b"k8t\0".to_vec(), "no `k8s\\0` at the start"),
        (
            of(message(&[(2, "".into()), (3, "gzip".into())])),
            "the content encoding is `gzip`",
        ),
        (envelope("Pod", b"{\"metadata\":{}}"), "the content is JSON"),
    ] {
        let error = watch(&informer(), &[&frame("ADDED", &object)]).expect_err(what);
        assert!(error.what.contains(what), "{error}");
    }
    let other = frame("ADDED", &envelope("Node", &pod("a", 1)));
    let informer = informer();
    let progress = watch(&informer, &[&other]).expect("skipped");
    assert_eq!((progress.skipped, progress.events), (1, 0));
    assert!(informer.stats().last_skip.contains("Node of v1"));
}

// behaviour: scale/SC144
#[test]
fn a_stream_that_turns_to_the_other_encoding_is_an_error_at_that_frame() {
    let json = b"{\"type\":\"ADDED\",\"object\":{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"j\"}}}\n";
    let proto = event("ADDED", &pod("p", 1));
    let informer = informer();
    let error = watch(&informer, &[&proto, json]).expect_err("JSON");
    assert_eq!(
        (error.offset, &*error.what),
        (proto.len() as u64, "JSON in a stream of protobuf")
    );
    assert_eq!(content(&informer).len(), 1);

    informer.begin_watch(Some("application/json"));
    informer.feed_watch(json).expect("JSON");
    let error = informer.feed_watch(&[&*proto, b"\n"].concat());
    let Err(FeedError::Decode(error)) = error else {
        panic!("{error:?}");
    };
    assert_eq!(error.offset, json.len() as u64);
    assert_eq!(content(&informer).len(), 2);
    informer.end_watch().ok();
    informer.begin_watch(PROTO);
    let progress = informer
        .feed_watch(&event("ADDED", &pod("q", 2)))
        .expect("the next stream");
    assert_eq!(progress.events, 1);
    assert_eq!(content(&informer).len(), 3);
}
