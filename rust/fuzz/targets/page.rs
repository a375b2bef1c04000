//! A list page: however it is cut, the same items and the same metadata come out.
#![no_main]

use ctrlhost_core::decode::{ListMeta, PageDecoder};
use libfuzzer_sys::fuzz_target;

const CAP: usize = 4096;

fn decode(chunks: &[&[u8]]) -> (Vec<String>, Option<ListMeta>) {
    let (mut decoder, mut items) = (PageDecoder::new(CAP, None), Vec::new());
    for chunk in chunks {
        if decoder.feed(chunk, &mut |item| items.push(item.text.to_owned())).is_err() {
            return (items, None);
        }
    }
    let meta = decoder.finish().ok();
    (items, meta)
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, page) = input;
    let (first, second) = page.split_at(usize::from(cut) % (page.len() + 1));
    let (items, meta) = decode(&[page]);
    let (cut_items, cut_meta) = decode(&[first, second]);
    assert_eq!(items, cut_items);
    assert_eq!(meta.map(|one| format!("{one:?}")), cut_meta.map(|one| format!("{one:?}")));
});
