//! However the bytes are cut, the same objects come out.

use ctrlhost_core::decode::ProtoPageDecoder;
use ctrlhost_core::informer::SharedInformer;

use ctrlhost_core::object::Form;

use super::rig::{MAX_OBJECT, PROTO, content, count, informer, page, watch};
use super::wire::{envelope, event, frame, list, message, pod};

fn pods() -> Vec<u8> {
    list("PodList", 9, &[pod("a", 1), pod("b", 2), pod("c", 3)])
}

fn events() -> Vec<u8> {
    let bookmark = message(&[(6, "12".into())]);
    let bookmark = message(&[(1, (&bookmark).into())]);
    [
        event("ADDED", &pod("d", 10)),
        event("MODIFIED", &pod("a", 11)),
        frame("BOOKMARK", &envelope("Pod", &bookmark)),
        event("DELETED", &pod("b", 13)),
    ]
    .concat()
}

fn listed(pieces: &[&[u8]]) -> (SharedInformer, String) {
    let informer = informer();
    informer.begin_list();
    let meta = page(&informer, pieces).expect("a page");
    informer
        .replace(&meta.resource_version)
        .expect("there is no budget");
    let meta = format!("{meta:?}");
    (informer, meta)
}

// behaviour: scale/SC60
#[test]
fn a_status_in_place_of_a_list_may_be_cut_anywhere() {
    let status = message(&[(2, "Failure".into()), (3, "gone".into())]);
    let bytes = envelope("Status", &status);
    let (informer, whole) = (
        informer(),
        page(&informer(), &[&bytes]).expect_err("a status"),
    );
    assert!(
        whole
            .status
            .as_ref()
            .is_some_and(|status| status.contains("gone"))
    );
    for cut in 1..bytes.len() {
        informer.begin_list();
        let (first, second) = bytes.split_at(cut);
        let error = page(&informer, &[first, second]).expect_err("a status");
        assert_eq!(
            (&error.status, &error.what),
            (&whole.status, &whole.what),
            "{cut}"
        );
    }
}

#[test]
fn a_page_that_is_no_protobuf_is_named_so_however_it_is_cut() {
    let error = page(&informer(), &[b"k8", b"z"]).expect_err("no protobuf");
    assert!(error.what.starts_with("no protobuf"), "{}", error.what);
    let error = page(&informer(), &[b" ", b"\n<html>"]).expect_err("HTML");
    assert!(error.what.starts_with("HTML"), "{}", error.what);
}

// behaviour: scale/SC62
#[test]
fn a_list_and_a_stream_may_be_cut_anywhere() {
    let (bytes, stream) = (pods(), events());
    let (whole, meta) = listed(&[&bytes]);
    assert!(meta.contains(r#"resource_version: "9", continue_token: "next", remaining_item_count: Some(7), count: 3"#), "{meta}");
    assert_eq!(content(&whole).len(), 3);
    assert!(
        content(&whole)[0].starts_with(r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a""#)
    );
    let progress = watch(&whole, &[&stream]).expect("a stream");
    assert_eq!(
        (
            progress.events,
            progress.bookmarks,
            &*progress.resource_version
        ),
        (3, 1, "13")
    );
    let expected = content(&whole);
    assert_eq!(expected.len(), 3);

    let check = |list_pieces: &[&[u8]], stream_pieces: &[&[u8]]| {
        let (cut, cut_meta) = listed(list_pieces);
        assert_eq!(cut_meta, meta);
        assert_eq!(watch(&cut, stream_pieces).expect("a stream"), progress);
        assert_eq!(content(&cut), expected);
    };
    for at in 0..=bytes.len().max(stream.len()) {
        let (first, second) = bytes.split_at(at.min(bytes.len()));
        let (third, fourth) = stream.split_at(at.min(stream.len()));
        check(&[first, second], &[third, fourth]);
    }
    for size in 1..=9 {
        let cut: Vec<&[u8]> = bytes.chunks(size).collect();
        let cut_stream: Vec<&[u8]> = stream.chunks(size).collect();
        check(&cut, &cut_stream);
    }
}

// behaviour: scale/SC62
#[test]
fn an_error_has_the_same_offset_however_the_bytes_are_cut() {
    let mut bytes = pods();
    let at = bytes
        .windows(4)
        .rposition(|part| part == b"node")
        .expect("a spec")
        - 2;
    bytes[at] = 0x07;
    let error = |pieces: &[&[u8]]| {
        let informer = informer();
        informer.begin_list();
        page(&informer, pieces).expect_err("a malformed item")
    };
    let whole = error(&[&bytes]);
    assert_eq!(whole.offset, at as u64, "{whole}");
    for cut in 0..=bytes.len() {
        let (first, second) = bytes.split_at(cut);
        assert_eq!(error(&[first, second]), whole);
    }
}

// behaviour: scale/SC63
#[test]
fn the_items_of_a_list_are_staged_while_it_comes() {
    const COUNT: usize = 100_000;
    let items: Vec<_> = (0..COUNT)
        .map(|number| pod(&format!("pod-{number}"), 1))
        .collect();
    let bytes = list("PodList", 9, &items);
    let informer = informer();
    informer.begin_list();
    informer.begin_page(PROTO);
    let mut before = 0;
    let used = allocation_counter::measure(|| {
        for (index, piece) in bytes.chunks(64 << 10).enumerate() {
            informer.feed_list(piece).expect("a piece");
            let staged = count(&informer, "staged");
            // Not more than one item of what has come is held back.
            let came = (index as u64 + 1) * (64 << 10);
            let share = came.min(bytes.len() as u64) * COUNT as u64 / bytes.len() as u64;
            assert!(
                staged > before && staged + 500 > share,
                "{staged} of {share}"
            );
            before = staged;
        }
    });
    // What is held besides the objects.
    let held = used
        .bytes_max
        .saturating_sub(used.bytes_current.unsigned_abs());
    assert!(held < 1 << 20, "{held} bytes held of {used:?}");
    assert_eq!(informer.end_page().expect("a page").count, COUNT as u64);

    let (mut decoder, mut passed) = (ProtoPageDecoder::new(MAX_OBJECT, None), 0);
    let used = allocation_counter::measure(|| {
        for piece in bytes.chunks(64 << 10) {
            let fed = decoder.feed(piece, &mut |_| {
                passed += 1;
                true
            });
            fed.expect("a piece");
        }
    });
    assert_eq!(passed, COUNT);
    assert!(used.bytes_max < 1 << 20, "{} bytes held", used.bytes_max);
}

// behaviour: supervision/FD10
#[test]
fn an_object_is_written_for_other_processes_whole_or_as_metadata() {
    let (informer, _) = listed(&[&list("PodList", 9, &[pod("a", 1)])]);
    informer.process();
    let object = informer.store().get("default/a").expect("a pod");
    let written = |form, version| {
        let mut out = Vec::new();
        let written = object.write(form, version, &mut out);
        written.expect("a plain body");
        String::from_utf8(out).expect("UTF-8")
    };
    let json = object.json().expect("a plain body");
    assert_eq!(written(Form::Whole, None), json);
    let newer = json.replace(r#""resourceVersion":"1""#, r#""resourceVersion":"12""#);
    assert_eq!(written(Form::Whole, Some("12")), newer);
    let metadata = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a","namespace":"default","uid":"u","resourceVersion":"12","generation":3,"labels":{"app":"a"}}}"#;
    assert_eq!(written(Form::Metadata, Some("12")), metadata);
}
