//! Envelopes.

use ctrlhost_core::proto::envelope;

use crate::build::{number, part};

fn enveloped(fields: &[Vec<u8>]) -> Vec<u8> {
    [b"k8s\0".to_vec(), fields.concat()].concat()
}

fn types() -> Vec<u8> {
    part(1, [part(1, "v1"), part(2, "Pod")].concat())
}

// behaviour: scale/SC143
#[test]
fn an_envelope_tells_the_type_of_its_message() {
    let body = enveloped(&[types(), part(2, "raw"), part(3, ""), part(4, "")]);
    let read = envelope(&body).expect("an envelope");
    assert_eq!((&*read.api_version, &*read.kind), ("v1", "Pod"));
    assert_eq!(read.raw.bytes(), b"raw");
    assert_eq!(&body[read.raw.start()..read.raw.end()], b"raw");
    let named = enveloped(&[part(2, ""), part(4, "application/vnd.kubernetes.protobuf")]);
    let read = envelope(&named).expect("an envelope");
    assert_eq!((&*read.api_version, &*read.kind), ("", ""));
}

// behaviour: scale/SC143
#[test]
fn what_is_no_envelope_of_a_message_is_refused_by_name() {
    let why = |body: &[u8]| envelope(body).expect_err("refused").to_string();
    for wrong in [
        &b""[..],
        b"k8s",
        b"k8s\x01abcd",
        b"{\"kind\": \"Pod\"}",
        b"<html>",
    ] {
        assert!(why(wrong).contains("no `k8s\\0` at the start"));
    }
    let encoded = enveloped(&[types(), part(2, "x"), part(3, "gzip")]);
    assert!(why(&encoded).contains("the content encoding is `gzip`"));
    let json = enveloped(&[types(), part(2, "{}")]);
    assert!(why(&json).contains("the content is JSON"));
    let json = enveloped(&[types(), part(2, "x"), part(4, "application/json")]);
    assert!(why(&json).contains("the content is `application/json`"));
    let long = enveloped(&[part(3, "x".repeat(100_000))]);
    assert!(why(&long).len() < 200);
    assert!(why(&enveloped(&[number(2, 1)])).contains("a wrong wire type"));
    assert!(why(&enveloped(&[part(1, number(1, 1))])).contains("a wrong wire type"));
    let cut = enveloped(&[types(), part(2, "raw")]);
    assert!(why(&cut[..cut.len() - 1]).contains("goes beyond the end"));
}
