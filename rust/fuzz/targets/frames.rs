//! A watch stream: however it is cut, the same frames come out, and each contains valid JSON.
#![no_main]

use ctrlhost_core::decode::{Frame, FrameDecoder};
use libfuzzer_sys::fuzz_target;

const CAP: usize = 4096;

fn decode(chunks: &[&[u8]]) -> (Vec<String>, bool) {
    let (mut decoder, mut seen) = (FrameDecoder::new(CAP), Vec::new());
    let mut see = |frame: Frame<'_>| {
        seen.push(format!("{:?} {}", frame.kind, frame.value.json()));
        true
    };
    let fed = chunks.iter().all(|chunk| decoder.feed(chunk, &mut see).is_ok());
    let whole = fed && decoder.finish(&mut see).is_ok();
    (seen, whole)
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, stream) = input;
    let (first, second) = stream.split_at(usize::from(cut) % (stream.len() + 1));
    let (whole, whole_ended) = decode(&[stream]);
    let (cut, cut_ended) = decode(&[first, second]);
    assert_eq!(whole_ended, cut_ended);
    assert_eq!(whole, cut);
    for frame in whole {
        let (_, text) = frame.split_once(' ').expect("the kind precedes the text");
        let parsed: Result<Box<serde_json::value::RawValue>, _> = serde_json::from_str(text);
        assert!(parsed.is_ok(), "not JSON: {text}");
    }
});
