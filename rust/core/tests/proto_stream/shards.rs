//! The filter of shards, whatever the encoding is.

use std::sync::Arc;

use ctrlhost_core::decode::ListMeta;
use ctrlhost_core::informer::{Config, SharedInformer};
use ctrlhost_core::shards::{By, Ranges, hash};
use ctrlhost_core::store::Store;

use super::rig::{MAX_OBJECT, page_in, watch_in};
use super::wire::{ENCODINGS, Encoding, Value, envelope, message};

/// An informer of pods that takes those with one of these texts.
fn holding(by: By, texts: &[&str]) -> SharedInformer {
    let config = Config {
        max_object_bytes: MAX_OBJECT,
        shard_by: Some(by),
        ..Config::new("pods", "v1", "Pod")
    };
    let informer = SharedInformer::new(config, Arc::new(Store::new()));
    informer.hold(ranges(texts));
    informer
}

fn ranges(texts: &[&str]) -> Ranges {
    texts.iter().map(|text| hash(text)..=hash(text)).collect()
}

/// Return a pod of a namespace that has an owner, which controls it if `controls`.
fn pod(encoding: Encoding, name: &str, version: u64, controls: bool, spec: &[u8]) -> Vec<u8> {
    let (namespace, uid, owner) = (
        format!("ns-{name}"),
        format!("uid-{name}"),
        format!("owner-{name}"),
    );
    if encoding == Encoding::Json {
        return format!(
            r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{version}","ownerReferences":[{{"apiVersion":"v1","kind":"Set","name":"s","uid":"{owner}","controller":{controls}}}]}}}}"#
        )
        .into_bytes();
    }
    let reference = message(&[
        (1, "Set".into()),
        (3, "s".into()),
        (4, (&owner).into()),
        (5, "v1".into()),
        (6, Value::Number(u64::from(controls))),
    ]);
    let metadata = message(&[
        (1, name.into()),
        (3, (&namespace).into()),
        (5, (&uid).into()),
        (6, (&version.to_string()).into()),
        (13, (&reference).into()),
    ]);
    message(&[(1, (&metadata).into()), (2, spec.into())])
}

/// Return a page that says by which selector it was chosen.
fn chosen(encoding: Encoding, selector: &str, items: &[Vec<u8>]) -> Vec<u8> {
    if encoding == Encoding::Json {
        let head = format!(
            r#"{{"kind":"PodList","metadata":{{"resourceVersion":"9","shardInfo":{{"selector":"{selector}"}}}},"items":["#
        );
        return [head.as_bytes(), &items.join(&b','), b"]}"].concat();
    }
    let info = message(&[(1, selector.into())]);
    let meta = message(&[(2, "9".into()), (5, (&info).into())]);
    let mut all = message(&[(1, (&meta).into())]);
    for item in items {
        all.extend(message(&[(2, item.into())]));
    }
    envelope("PodList", &all)
}

fn names(informer: &SharedInformer) -> Vec<String> {
    let objects = informer.store().list();
    let mut names: Vec<_> = objects.iter().map(|one| one.name().to_owned()).collect();
    names.sort();
    names
}

fn filtered(informer: &SharedInformer) -> u64 {
    let counts = informer.stats().counts;
    let count = counts.iter().find(|(name, _)| *name == "filtered");
    count.map(|(_, count)| *count).expect("a counter")
}

// behaviour: shards/SH06
// behaviour: shards/SH08
#[test]
fn only_what_is_held_is_taken() {
    for encoding in ENCODINGS {
        for (by, text) in [
            (By::Namespace, "ns-a"),
            (By::Name, "a"),
            (By::Uid, "uid-a"),
            (By::Owner, "owner-a"),
        ] {
            let informer = holding(by, &[text]);
            informer.begin_list();
            let items = ["a", "b", "c"].map(|name| pod(encoding, name, 1, true, b""));
            let page = chosen(encoding, "shardRange(x)", &items);
            let ListMeta {
                shard_selector,
                resource_version,
                ..
            } = page_in(encoding, &informer, &[&page]).expect("a page");
            assert_eq!(shard_selector, "shardRange(x)");
            informer.replace(&resource_version).expect("no budget");
            informer.process();
            assert_eq!(names(&informer), ["a"], "{by:?} {encoding:?}");
            let frames = [
                encoding.event("ADDED", &pod(encoding, "d", 10, true, b"")),
                encoding.event("MODIFIED", &pod(encoding, "a", 11, true, b"")),
                encoding.event("DELETED", &pod(encoding, "d", 12, true, b"")),
            ];
            let progress = watch_in(encoding, &informer, &[&frames.concat()]).expect("a stream");
            informer.process();
            assert_eq!((progress.events, &*progress.resource_version), (1, "12"));
            assert_eq!(informer.last_resource_version(), "12");
            assert_eq!(
                (names(&informer), filtered(&informer)),
                (vec!["a".to_owned()], 4)
            );
        }
    }
}

// behaviour: shards/SH08
#[test]
fn an_owner_that_does_not_control_is_none() {
    for encoding in ENCODINGS {
        let informer = holding(By::Owner, &["owner-a"]);
        informer.begin_list();
        let page = chosen(encoding, "", &[pod(encoding, "a", 1, false, b"")]);
        page_in(encoding, &informer, &[&page]).expect("a page");
        informer.replace("9").expect("no budget");
        informer.process();
        assert_eq!((names(&informer).len(), filtered(&informer)), (0, 1));
    }
}

// behaviour: shards/SH06
#[test]
fn the_body_of_what_others_hold_is_not_decoded() {
    let informer = holding(By::Uid, &["uid-a"]);
    informer.begin_list();
    // A field of the spec that ends beyond the message.
    let damaged = |name| pod(Encoding::Proto, name, 1, true, &[0x0a, 0x7f]);
    let page = |name| chosen(Encoding::Proto, "", &[damaged(name)]);
    page_in(Encoding::Proto, &informer, &[&page("b")]).expect("nobody looks at it");
    assert!(page_in(Encoding::Proto, &informer, &[&page("a")]).is_err());
}
