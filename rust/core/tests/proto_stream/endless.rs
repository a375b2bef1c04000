//! Bodies that do not end: each is given up at a bound, and nothing grows until then.

use super::rig::informer;
use super::wire::{Encoding, message, varint};

/// More than any bound of a decoder with small objects.
const MUCH: usize = 64 << 20;
const CHUNK: usize = 64 << 10;

/// Feed a start and then the piece again and again, until that is refused; return the error and the bytes fed.
fn fed(encoding: Encoding, streamed: bool, start: &[u8], piece: &[u8]) -> (String, usize) {
    let informer = informer();
    let chunk = piece.repeat(CHUNK / piece.len());
    if streamed {
        informer.begin_watch(Some(encoding.media()));
    } else {
        informer.begin_list();
        informer.begin_page(Some(encoding.media()));
    }
    let feed = |bytes: &[u8]| {
        if streamed {
            informer.feed_watch(bytes).map(|_| ())
        } else {
            informer.feed_list(bytes)
        }
    };
    let (mut total, mut error) = (0, feed(start).err());
    while error.is_none() && total < MUCH {
        error = feed(&chunk).err();
        total += chunk.len();
    }
    (error.expect("a bound").to_string(), total)
}

// behaviour: scale/SC139
#[test]
fn endless_parts_of_a_body_are_ended_by_a_bound_and_memory_stays_flat() {
    let types = message(&[(1, "v1".into()), (2, "PodList".into())]);
    let envelope = [b"k8s\0".to_vec(), message(&[(1, (&types).into())])].concat();
    let list = [&envelope[..], &[0x12], &varint(1 << 62)].concat();
    let item = |length| [&list[..], &[0x12], &varint(length)].concat();
    let frame = |length: u32| length.to_be_bytes().to_vec();
    let cases: [(Encoding, bool, Vec<u8>, &[u8]); 18] = [
        // An object, a string, a key, a number, white space in an object, other members of the list.
        (
            Encoding::Json,
            false,
            br#"{"items":[{"a":[0"#.to_vec(),
            b",1",
        ),
        (Encoding::Json, false, br#"{"items":[{"a":""#.to_vec(), b"x"),
        (Encoding::Json, false, br#"{"items":[{""#.to_vec(), b"x"),
        (Encoding::Json, false, br#"{"items":[{"a":1"#.to_vec(), b"1"),
        (Encoding::Json, false, br#"{"items":[{"a":"#.to_vec(), b" "),
        (Encoding::Json, false, br#"{"a":""#.to_vec(), b"x"),
        (Encoding::Json, false, br#"{""#.to_vec(), b"x"),
        (
            Encoding::Json,
            false,
            br#"{"a":1"#.to_vec(),
            br#","b":[1,{}]"#,
        ),
        (
            Encoding::Json,
            true,
            br#"{"type":"ADDED","object":{"a":[0"#.to_vec(),
            b",1",
        ),
        (
            Encoding::Json,
            true,
            br#"{"type":"ADDED","object":{"a":""#.to_vec(),
            b"x",
        ),
        (Encoding::Json, true, br#"{"type":""#.to_vec(), b"x"),
        // A number, an object or string of any length, fields that nobody knows.
        (Encoding::Proto, false, envelope.clone(), b"\x80"),
        (Encoding::Proto, false, list.clone(), b"\x80"),
        (Encoding::Proto, false, item(1 << 61), b"x"),
        (Encoding::Proto, false, list.clone(), b"\x18\x01"),
        (Encoding::Proto, false, envelope.clone(), b"\x2a\x03abc"),
        (Encoding::Proto, true, frame(u32::MAX), b"x"),
        (Encoding::Proto, true, frame(1 << 30), b"\x18\x01"),
    ];
    for (encoding, streamed, start, piece) in cases {
        let (mut error, mut total) = (String::new(), 0);
        let used = allocation_counter::measure(|| {
            (error, total) = fed(encoding, streamed, &start, piece);
        });
        let head = start.escape_ascii();
        assert!(total <= 1 << 20, "{total} bytes of {head}: {error}");
        assert!(
            used.bytes_max < 2 << 20,
            "{} bytes held of {head}",
            used.bytes_max
        );
    }
}
