//! A list page in protobuf: however it is cut, the same items and metadata or an error come out, and each item that an
//! informer keeps, whole or in part, is valid JSON under its own key.
#![no_main]

use std::sync::Arc;

use ctrlhost_core::decode::{DecodeError, ListMeta, ProtoPageDecoder};
use ctrlhost_core::informer::{Config, SharedInformer};
use ctrlhost_core::projection::Projection;
use ctrlhost_core::store::Store;
use libfuzzer_sys::fuzz_target;

const CAP: usize = 4096;

fn decode(chunks: &[&[u8]]) -> (Vec<(u64, Vec<u8>)>, Result<ListMeta, DecodeError>) {
    let (mut decoder, mut items) = (ProtoPageDecoder::new(CAP, None), Vec::new());
    for chunk in chunks {
        let fed = decoder.feed(chunk, &mut |item| {
            items.push((item.offset, item.bytes.to_vec()));
            true
        });
        if let Err(error) = fed {
            return (items, Err(error));
        }
    }
    let meta = decoder.finish();
    (items, meta)
}

fuzz_target!(|input: (u16, &[u8])| {
    let (cut, page) = input;
    let (first, second) = page.split_at(usize::from(cut) % (page.len() + 1));
    let (items, meta) = decode(&[page]);
    let (cut_items, cut_meta) = decode(&[first, second]);
    assert_eq!(items, cut_items);
    match (meta, cut_meta) {
        (Ok(one), Ok(other)) => assert_eq!(one, other),
        // What is wrong first depends on how much is there.
        (Err(_), Err(_)) => {}
        (one, other) => panic!("{one:?} in one piece, {other:?} in two"),
    }

    let paths = ["spec.containers[*].image", "spec.volumes[*].configMap.name", "status"];
    let part = Projection::paths(paths).expect("paths");
    for projection in [None, Some(Projection::metadata()), Some(part)] {
        let config = Config {
            projection,
            ..Config::new("pods", "v1", "Pod")
        };
        let informer = SharedInformer::new(config, Arc::new(Store::new()));
        informer.begin_list();
        informer.begin_page(Some("application/vnd.kubernetes.protobuf"));
        let _ = informer.feed_list(page);
        informer.replace("1").expect("there is no budget");
        informer.process();
        for (key, object) in informer.store().entries() {
            assert_eq!(key, *object.key());
            let json = object.json().expect("a plain body");
            let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
            assert_eq!(json["metadata"]["name"].as_str(), Some(object.name()));
        }
    }
});
