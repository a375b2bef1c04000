//! Strings: what is escaped, and what is no UTF-8.

use serde_json::json;

use crate::build::{at, entry, message, part, pod, with_metadata};

// behaviour: scale/SC74
#[test]
fn every_character_comes_through() {
    let text = "quote\" back\\slash \u{8}\u{c}\n\r\t\0\u{1f}\u{7f} \u{2028}\u{2029} <>& 😀 e\u{301} \u{ffff}";
    let pod = pod();
    let body = with_metadata(&[part(1, text), entry(12, text, text)]);
    assert_eq!(at(pod, &body, "/metadata/name"), text);
    assert_eq!(at(pod, &body, "/metadata/annotations"), json!({text: text}));
}

// behaviour: scale/SC74
#[test]
fn each_byte_that_is_not_utf8_becomes_a_replacement_character() {
    for (bytes, text) in [
        (&b"a\xffb"[..], "a\u{fffd}b"),
        (b"\xe2\x82", "\u{fffd}\u{fffd}"),
        (b"\xed\xa0\x80x", "\u{fffd}\u{fffd}\u{fffd}x"),
        (b"\xf0\x9f\x98", "\u{fffd}\u{fffd}\u{fffd}"),
        (b"\xc0\xaf", "\u{fffd}\u{fffd}"),
    ] {
        let body = with_metadata(&[part(1, bytes), entry(11, bytes, bytes)]);
        assert_eq!(at(pod(), &body, "/metadata/name"), text);
        assert_eq!(at(pod(), &body, "/metadata/labels"), json!({text: text}));
    }
}

#[test]
fn bytes_are_base64() {
    let secret = message("v1", "Secret");
    for (bytes, text) in [
        (&b""[..], ""),
        (b"f", "Zg=="),
        (b"fo", "Zm8="),
        (b"foo", "Zm9v"),
        (b"\xfb\xff\xfe?", "+//+Pw=="),
    ] {
        assert_eq!(at(secret, &entry(2, "key", bytes), "/data/key"), text);
    }
}
