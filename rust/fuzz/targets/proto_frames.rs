//! A watch stream in protobuf: however it is cut, the same frames and the same error come out.
#![no_main]

use ctrlhost_core::decode::{DecodeError, Encoding, WatchDecoder};
use libfuzzer_sys::fuzz_target;

const CAP: usize = 4096;

fn decode(chunks: &[&[u8]]) -> (Vec<String>, Option<DecodeError>) {
    let (mut decoder, mut seen) = (WatchDecoder::new(CAP), Vec::new());
    decoder.restart(Encoding::Proto);
    for chunk in chunks {
        let fed = decoder.feed(chunk, &mut |event| {
            let status: serde_json::Value = serde_json::from_str(&event.status()).expect("JSON");
            seen.push(format!("{:?} {:?} {:?} {status}", event.kind, event.object, event.bookmark()));
            true
        });
        if let Err(error) = fed {
            return (seen, Some(error));
        }
    }
    let end = decoder.finish(&mut |_| true);
    (seen, end.err())
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, stream) = input;
    let (first, second) = stream.split_at(usize::from(cut) % (stream.len() + 1));
    let (whole, error) = decode(&[stream]);
    let (cut, cut_error) = decode(&[first, second]);
    assert_eq!(whole, cut);
    // Whether it looks like HTML depends on how much of it has come.
    let html = "HTML, as of a proxy or a login page: ";
    let place = |error: DecodeError| (error.offset, error.what.replace(html, ""));
    assert_eq!(error.map(place), cut_error.map(place));
});
